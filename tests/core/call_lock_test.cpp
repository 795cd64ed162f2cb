// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include <hvdlite/core/call_lock.hpp>

using hvdlite::detail::call_lock;

TEST_CASE("call_lock: knows its owner, and others cannot have it") {
  call_lock lock;
  CHECK_FALSE(lock.held_by_this_thread());
  lock.lock();
  CHECK(lock.held_by_this_thread());
  CHECK_FALSE(lock.try_lock());  // also not twice by its owner
  bool taken = true, soon = true, theirs = true;
  std::thread{[&] {
    theirs = lock.held_by_this_thread();
    taken = lock.try_lock();
    soon = lock.lock_soon();
  }}.join();
  CHECK_FALSE(theirs);
  CHECK_FALSE(taken);
  CHECK_FALSE(soon);
  lock.unlock();
  CHECK_FALSE(lock.held_by_this_thread());
  CHECK(lock.lock_soon());
  lock.unlock();
}

TEST_CASE("call_lock: one at a time") {
  call_lock lock;
  long count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) {
        const call_lock::guard guard{lock};
        ++count;
      }
    });
  for (auto& t : threads) t.join();
  CHECK(count == 20'000);
}

TEST_CASE("call_lock: a guard holds it while it lives, also when it ends by an exception") {
  call_lock lock;
  {
    const call_lock::guard guard{lock};
    CHECK(lock.held_by_this_thread());
  }
  CHECK_FALSE(lock.held_by_this_thread());
  try {
    const call_lock::guard guard{lock};
    throw 1;
  } catch (int) {
  }
  CHECK(lock.try_lock());
  lock.unlock();
}
