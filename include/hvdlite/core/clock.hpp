// SPDX-License-Identifier: Apache-2.0
// Time: the clock of deadlines, and how a rank waits for another one without a system call while
// the wait is short and without burning a core while it is long.
#pragma once

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

#include <hvdlite/core/config.hpp>

namespace hvdlite {

/// The system's monotonic clock, that of std::chrono::steady_clock, without what <chrono> costs the
/// user's compiler.
struct clock {
  using nanoseconds = std::int64_t;
  static nanoseconds now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return nanoseconds{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  }
  /// A signal cuts it short.
  static void sleep_for(nanoseconds time) {
    const timespec span{time / 1'000'000'000, time % 1'000'000'000};
    nanosleep(&span, nullptr);
  }
};

/// Seconds as the clock counts, and back; a century is for ever here and fits into nanoseconds.
/// Only 0 is 0.
inline clock::nanoseconds from_seconds(double seconds) {
  const auto result = static_cast<clock::nanoseconds>((seconds < 3.15e9 ? seconds : 3.15e9) * 1e9);
  return result == 0 && seconds > 0 ? 1 : result;
}
inline double to_seconds(clock::nanoseconds time) { return static_cast<double>(time) * 1e-9; }

/// What has passed since it was made.
class stopwatch {
 public:
  stopwatch() : start_{clock::now()} {}
  /// To be started by assignment of a new one; costs no look at the clock.
  enum later_t { later };
  explicit stopwatch(later_t) {}

  clock::nanoseconds elapsed() const { return clock::now() - start_; }

 private:
  clock::nanoseconds start_ = 0;
};

/// One wait: call pause() between polls. First it spins (a flag from another core takes 55 to 220
/// ns), then it yields, then it sleeps. A blocking wake-up costs 40 us and ranks may outnumber
/// cores, hence the order and the short spin in that case.
class backoff {
 public:
  explicit backoff(int spins) : spins_{spins} {}

  /// How often to spin when `ranks_here` share this machine's cores.
  HVDLITE_COLD static int spins_for(int ranks_here) {
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);  // -1 if nobody knows
    return cores > 0 && ranks_here > cores ? 50 : 4000;
  }

  void pause() {
    if (rounds_ < spins_ + yields) ++rounds_;  // and no further: a wait may last for days
    if (rounds_ < spins_) {
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#endif
    } else if (rounds_ < spins_ + yields) {
      sched_yield();
    } else {
      clock::sleep_for(100'000);
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
