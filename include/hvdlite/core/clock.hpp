// SPDX-License-Identifier: Apache-2.0
// Time: the clock of deadlines, and how a rank waits for another one without a system call while
// the wait is short and without burning a core while it is long.
#pragma once

#include <time.h>

#include <chrono>
#include <thread>

#include <hvdlite/core/config.hpp>

namespace hvdlite {

using clock = std::chrono::steady_clock;

/// Seconds as the clock counts, and back; a century is for ever here and fits into nanoseconds.
/// Only 0 is 0.
inline clock::duration from_seconds(double seconds) {
  constexpr double per_second = static_cast<double>(clock::period::den) / clock::period::num;
  const auto ticks = static_cast<clock::rep>((seconds < 3.15e9 ? seconds : 3.15e9) * per_second);
  return clock::duration{ticks == 0 && seconds > 0 ? 1 : ticks};
}
inline double to_seconds(clock::rep ticks) {
  return static_cast<double>(ticks) * clock::period::num / clock::period::den;
}

/// What has passed since it was made, in the clock's ticks.
class stopwatch {
 public:
  stopwatch() : start_{now()} {}
  /// To be started by assignment of a new one; costs no look at the clock.
  enum later_t { later };
  explicit stopwatch(later_t) {}

  clock::rep elapsed() const { return now() - start_; }

 private:
  static clock::rep now() { return clock::now().time_since_epoch().count(); }
  clock::rep start_ = 0;
};

/// One wait: call pause() between polls. First it spins (a flag from another core takes 55 to 220
/// ns), then it yields, then it sleeps. A blocking wake-up costs 40 us and ranks may outnumber
/// cores, hence the order and the short spin in that case.
class backoff {
 public:
  explicit backoff(int spins) : spins_{spins} {}

  /// How often to spin when `ranks_here` share this machine's cores.
  HVDLITE_COLD static int spins_for(int ranks_here) {
    const unsigned cores = std::thread::hardware_concurrency();
    return cores != 0 && static_cast<unsigned>(ranks_here) > cores ? 50 : 4000;
  }

  void pause() {
    if (rounds_ < spins_ + yields) ++rounds_;  // and no further: a wait may last for days
    if (rounds_ < spins_) {
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#endif
    } else if (rounds_ < spins_ + yields) {
      std::this_thread::yield();
    } else {
      const timespec moment{0, 100'000};
      nanosleep(&moment, nullptr);  // cut short by a signal: then it is polled a little early
    }
  }

  /// What is waited for gets on: spin again.
  void restart() { rounds_ = 0; }

  /// True now and then: the moment to look at the clock, which costs more than a poll.
  bool time_to_look() const { return rounds_ >= spins_ || rounds_ % 256 == 0; }

 private:
  static constexpr int yields = 2000;
  int spins_;
  int rounds_ = 0;
};

}  // namespace hvdlite
