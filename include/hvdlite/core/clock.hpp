// SPDX-License-Identifier: Apache-2.0
// Time: the clock of deadlines, and how a rank waits for another one without a system call while
// the wait is short and without burning a core while it is long.
#pragma once

#include <chrono>
#include <thread>

#include <hvdlite/core/config.hpp>

namespace hvdlite {

using clock = std::chrono::steady_clock;

/// "now + limit" that does not overflow for a limit of centuries.
inline clock::time_point deadline_after(clock::time_point start, clock::duration limit) {
  const auto room = (clock::time_point::max)() - start;
  return limit < room ? start + limit : (clock::time_point::max)();
}

/// One wait: call pause() between polls. First it spins (a flag from another core takes 55 to 220
/// ns), then it yields, then it sleeps. A blocking wake-up costs 40 us and ranks may outnumber
/// cores, hence the order and the short spin in that case.
class backoff {
 public:
  /// `ranks_here`: how many ranks share this machine's cores.
  explicit backoff(int ranks_here) {
    static const unsigned cores = std::thread::hardware_concurrency();
    spins_ = cores != 0 && static_cast<unsigned>(ranks_here) > cores ? 50 : 4000;
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
      std::this_thread::sleep_for(std::chrono::microseconds{100});
    }
  }

  /// True now and then: the moment to look at the clock, which costs more than a poll.
  bool time_to_look() const { return rounds_ >= spins_ || rounds_ % 256 == 0; }

 private:
  static constexpr int yields = 2000;
  int spins_;
  int rounds_ = 0;
};

}  // namespace hvdlite
