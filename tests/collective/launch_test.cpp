// SPDX-License-Identifier: Apache-2.0
// launch: ranks as threads, what they see, and how their exceptions come back.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <hvdlite/collective/allreduce.hpp>
#include <hvdlite/collective/barrier.hpp>

#include "support/ranks.hpp"

namespace {

using hvdtest::environment_variable;
using hvdtest::lacking;
using hvdtest::message_of;
using hvdtest::world_type;

static_assert(std::same_as<world_type, decltype(std::declval<hvdlite::Environment&>().world())>);

TEST_CASE("launch: n threads, ranks 0 to n - 1, also under mpirun") {
  for (int n = 1; n <= 5; ++n) {
    std::mutex mutex;
    std::set<int> ranks;
    std::set<std::thread::id> threads;
    hvdlite::launch(n, [&](const world_type& world) {
      CHECK(world.size() == n);
      CHECK(world.local_size() == n);
      CHECK(world.local_rank() == world.rank());
      CHECK(world.cross_size() == 1);
      CHECK(world.cross_rank() == 0);
      CHECK(world.is_homogeneous());
      CHECK(world.backend_name() == (n == 1 ? "none" : "local"));
      int sum = 1;
      hvdlite::allreduce(world, sum, hvdlite::sum{});
      CHECK(sum == n);
      const std::lock_guard lock{mutex};
      ranks.insert(world.rank());
      threads.insert(std::this_thread::get_id());
    });
    CHECK(ranks.size() == static_cast<std::size_t>(n));
    CHECK(*ranks.begin() == 0);
    CHECK(*ranks.rbegin() == n - 1);
    CHECK(threads.size() == static_cast<std::size_t>(n));
  }
}

TEST_CASE("launch: a function without arguments finds its world") {
  std::atomic<int> sum{0};
  hvdlite::launch(3, [&] { sum += hvdlite::current_world().rank() + 1; });
  CHECK(sum == 6);
}

TEST_CASE("launch: no ranks is a usage_error") {
  for (const int n : {0, -3})
    CHECK(lacking(message_of<hvdlite::usage_error>([&] { hvdlite::launch(n, [] {}); }),
                  {"launch", std::to_string(n) + " ranks"}) == "");
}

TEST_CASE("launch: worlds within a world") {
  std::atomic<int> sum{0};
  hvdlite::launch(2, [&](const world_type& outer) {
    hvdlite::launch(3, [&](const world_type& inner) {
      int x = 1;
      hvdlite::allreduce(inner, x, hvdlite::sum{});
      sum += x;
    });
    CHECK(hvdlite::current_world() == outer);
    int y = 1;
    hvdlite::allreduce(outer, y, hvdlite::sum{});
    CHECK(y == 2);
  });
  CHECK(sum == 18);
}

TEST_CASE("launch: the lowest rank that failed of its own decides what is rethrown") {
  const auto run = [] {
    hvdlite::launch(4, [](const world_type& world) {
      if (world.rank() == 1) throw std::out_of_range{"one"};
      if (world.rank() == 3) throw std::invalid_argument{"three"};
      hvdlite::barrier(world);  // ranks 0 and 2 merely lose their peers
    });
  };
  CHECK(message_of<std::out_of_range>(run) == "one");
}

TEST_CASE("launch: something that is no std::exception") {
  bool caught = false;
  std::atomic<int> told{0};
  try {
    hvdlite::launch(3, [&](const world_type& world) {
      if (world.rank() == 0) throw 42;
      try {
        hvdlite::barrier(world);
      } catch (const hvdlite::peer_lost_error& e) {
        if (lacking(e.what(), {"rank 0", "no std::exception"}).empty()) ++told;
        throw;
      }
    });
  } catch (const int value) {
    caught = value == 42;
  }
  CHECK(caught);
  CHECK(told == 2);
}

TEST_CASE("launch: a rank that returns early while others call is lost to them") {
  std::atomic<int> told{0};
  const auto run = [&] {
    hvdlite::launch(3, [&](const world_type& world) {
      if (world.rank() == 2) return;
      try {
        std::vector<float> x(10000);
        hvdlite::allreduce(world, x);
      } catch (const hvdlite::peer_lost_error& e) {
        if (lacking(e.what(), {"rank 2", "has returned"}).empty()) ++told;
        throw;
      }
    });
  };
  CHECK(lacking(message_of<hvdlite::peer_lost_error>(run), {"rank 2", "rank 0 of 3"}) == "");
  CHECK(told == 2);
}

TEST_CASE("launch: ranks that have all they need may end before the others") {
  for (int round = 0; round < 50; ++round)
    hvdlite::launch(4, [&](const world_type& world) {
      std::vector<int> x(round % 2 == 0 ? 1 : 3000, 1);
      hvdlite::allreduce(world, x, hvdlite::sum{});
      CHECK(x.back() == 4);
    });
}

TEST_CASE("launch: a world is of no use after its launch has ended") {
  world_type kept;
  hvdlite::launch(2, [&](const world_type& world) {
    if (world.rank() == 0) kept = world;
  });
  CHECK(kept.size() == 2);  // what it was can still be asked
  CHECK(kept.backend_name() == "local");
  int x = 0;
  CHECK(lacking(message_of<hvdlite::usage_error>([&] { hvdlite::allreduce(kept, x); }),
                {"launch", "has ended"}) == "");
}

TEST_CASE("launch: a rank that ends while another of its threads waits in a call ends that call") {
  const auto reduce = [](const world_type& world) {
    std::vector<float> x(1000);
    hvdlite::allreduce(world, x);
  };
  std::string waiting, told;
  std::thread other;
  hvdlite::launch(2, [&](const world_type& world) {
    if (world.rank() == 0) {
      std::atomic<bool> started{false};
      other = std::thread{[&waiting, &started, reduce, world] {
        started = true;
        waiting = message_of<hvdlite::usage_error>([&] { reduce(world); });
      }};
      while (!started) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds{100});
      told = message_of<hvdlite::peer_lost_error>([&] { reduce(world); });
    }
  });
  other.join();
  CHECK(lacking(waiting, {"allreduce", "ended by another thread"}) == "");
  CHECK(lacking(told, {"rank 0", "has returned"}) == "");
}

TEST_CASE("launch: settings that cannot be read are an error before any thread starts") {
  const auto run = [] { hvdlite::launch(2, [] { FAIL_CHECK("must not run"); }); };
  {
    const environment_variable unknown{"HVDLITE_TIMEOUTS", "3"};
    CHECK(lacking(message_of<hvdlite::usage_error>(run), {"HVDLITE_TIMEOUTS"}) == "");
  }
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"HVDLITE_TIMEOUT", "soon"},
                                                        {"HVDLITE_TIMEOUT", "-1"},
                                                        {"HVDLITE_STALL_WARNING", "1 s"},
                                                        {"HVDLITE_STALL_WARNING", ""},
                                                        {"HVDLITE_CHUNK_BYTES", "0"},
                                                        {"HVDLITE_CHUNK_BYTES", "many"},
                                                        {"HVDLITE_CHECKS", "yes"},
                                                        {"HVDLITE_LOG_LEVEL", "loud"}}) {
    const environment_variable malformed{name, value};
    CHECK(lacking(message_of<hvdlite::usage_error>(run), {name + "=", value}) == "");
  }
}

TEST_CASE("launch: settings reach the communicator") {
  const environment_variable timeout{"HVDLITE_TIMEOUT", "12.5"};
  const environment_variable warning{"HVDLITE_STALL_WARNING", "2"};
  const environment_variable chunk{"HVDLITE_CHUNK_BYTES", "128"};
  hvdlite::launch(2, [](const world_type& world) {
    CHECK(world.configuration().timeout == 12.5);
    CHECK(world.configuration().stall_warning == 2);
    CHECK(world.configuration().chunk_bytes == 128);
    CHECK(world.split(0).configuration().chunk_bytes == 128);
  });
}

TEST_CASE("launch: ranks on pretended nodes, equal and unequal") {
  hvdlite::launch(4,
                  [](const world_type& world) {
                    CHECK(world.local_size() == 2);
                    CHECK(world.local_rank() == world.rank() % 2);
                    CHECK(world.cross_size() == 2);
                    CHECK(world.cross_rank() == world.rank() / 2);
                    CHECK(world.is_homogeneous());
                  },
                  {.ranks_per_node = 2});
  hvdlite::launch(5,
                  [](const world_type& world) {  // 0 1 2 | 3 4
                    CHECK(world.local_size() == (world.rank() < 3 ? 3 : 2));
                    CHECK(world.local_rank() == world.rank() % 3);
                    CHECK(world.cross_size() == (world.local_rank() == 2 ? 1 : 2));
                    CHECK(world.cross_rank() == world.rank() / 3);
                    CHECK_FALSE(world.is_homogeneous());
                  },
                  {.ranks_per_node = 3});
}

}  // namespace
