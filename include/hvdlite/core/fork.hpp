// SPDX-License-Identifier: Apache-2.0
// What the child of a fork() inherits without a right to it: communicators and connections stay the
// parent's, and a child that ends must not tell, wait for or finalize anything in its name.
#pragma once

#include <pthread.h>

#include <atomic>

#include <hvdlite/core/config.hpp>

namespace hvdlite::detail {

/// How many forks led from the first process to this one, since somebody asked.
HVDLITE_EXPORT inline std::atomic<unsigned>& fork_count() {
  static std::atomic<unsigned> count{0};
  return count;
}

/// A member of what belongs to the process that made it. Costs a load to ask, no system call.
class home_process {
 public:
  HVDLITE_COLD home_process() {
    static const int registered = pthread_atfork(
        nullptr, nullptr, [] { fork_count().fetch_add(1, std::memory_order_relaxed); });
    static_cast<void>(registered);  // out of memory: as if nobody ever forked
    made_in_ = fork_count().load(std::memory_order_relaxed);
  }
  /// Whether this is the child of a fork that came later.
  bool left() const { return made_in_ != fork_count().load(std::memory_order_relaxed); }

 private:
  unsigned made_in_ = 0;
};

}  // namespace hvdlite::detail
