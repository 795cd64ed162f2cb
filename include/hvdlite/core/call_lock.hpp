// SPDX-License-Identifier: Apache-2.0
// A lock for what is almost always free, such as a call on a communicator: cheaper then than a
// std::mutex (one atomic exchange instead of two), in compile time too; it knows its owner, so that
// a call from within a call is told from one of another thread.
#pragma once

#include <atomic>
#include <thread>

#include <hvdlite/core/clock.hpp>
#include <hvdlite/core/config.hpp>

namespace hvdlite::detail {

class call_lock {
 public:
  bool held_by_this_thread() const {
    return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

  bool try_lock() {
    std::thread::id nobody;
    return owner_.compare_exchange_strong(nobody, std::this_thread::get_id(),
                                          std::memory_order_acquire, std::memory_order_relaxed);
  }
  void lock() {
    if (!try_lock()) wait();
  }
  void unlock() { owner_.store(std::thread::id{}, std::memory_order_release); }

  /// Holds the lock while it lives.
  class [[nodiscard]] guard {
   public:
    explicit guard(call_lock& lock) : lock_{lock} { lock_.lock(); }
    guard(const guard&) = delete;
    guard& operator=(const guard&) = delete;
    ~guard() { lock_.unlock(); }

   private:
    call_lock& lock_;
  };

  /// Locks, unless somebody holds it for longer than a moment.
  HVDLITE_COLD bool lock_soon() {
    for (const stopwatch watch; to_seconds(watch.elapsed()) < 0.1; sched_yield())
      if (try_lock()) return true;
    return false;
  }

 private:
  HVDLITE_COLD void wait() {
    for (backoff pause{0}; !try_lock();) pause.pause();
  }

  std::atomic<std::thread::id> owner_{};
};

}  // namespace hvdlite::detail
