// SPDX-License-Identifier: Apache-2.0
// A rank's end of a communicator in worlds where something goes wrong: deadlines, ranks that are
// lost, functions of the user's that throw; and its record of what was done.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <hvdlite/collective/allreduce.hpp>
#include <hvdlite/collective/barrier.hpp>
#include <hvdlite/collective/broadcast.hpp>

#include "support/ranks.hpp"

namespace {

using hvdtest::lacking;
using hvdtest::message_of;
using hvdtest::on_every_world;
using hvdtest::world_type;

std::chrono::duration<double> seconds(double s) {
  return std::chrono::duration<double>{s * hvdtest::slowness()};
}
std::string setting(double s) { return std::to_string(s * hvdtest::slowness()); }

void check_next_call(const world_type& world, int round) {
  std::vector<int> x{world.rank() + round};
  hvdlite::allreduce(world, x, hvdlite::sum{});
  const int n = world.size();
  CHECK(x[0] == n * (n - 1) / 2 + n * round);
}

TEST_CASE("deadline: names who is missing, and the late-comer gets the error, too") {
  for (const std::size_t count : {std::size_t{3}, std::size_t{5000}})
    on_every_world(
        [&](const world_type& world) {
          // The last one is late, of five ranks the last two.
          const int first_late = world.size() == 5 ? 3 : world.size() - 1;
          const bool late = world.rank() >= first_late;
          std::vector<float> x(count, 1.0f);
          hvdlite::barrier(world);
          const auto start = std::chrono::steady_clock::now();
          const auto everybody_again = start + seconds(2);
          if (late) std::this_thread::sleep_until(everybody_again);
          const std::string text = message_of<hvdlite::timeout_error>(
              [&] { hvdlite::allreduce(world, x, hvdlite::sum{}, {.name = "late"}); });
          CHECK(x == std::vector<float>(count, 1.0f));
          CHECK(lacking(text, {"allreduce 'late'", "HVDLITE_TIMEOUT"}) == "");
          if (late) {
            CHECK(lacking(text, {"gave up"}) == "");
          } else {
            const auto waited = std::chrono::steady_clock::now() - start;
            CHECK(waited >= seconds(0.4));
            CHECK(waited < seconds(2));
            // One that comes to its deadline first tells the others.
            const bool told = text.find("gave up") != std::string::npos;
            const std::string missing =
                "for " + hvdtest::ranks_in_words(first_late, world.size() - 1);
            CHECK((told || lacking(text, {missing}).empty()));
          }
          std::this_thread::sleep_until(everybody_again);
          check_next_call(world, 1);
        },
        {.least = 2, .environment = {{"HVDLITE_TIMEOUT", setting(0.5)}}});
}

TEST_CASE("deadline: with two ranks the one that waits names the one that does not come") {
  hvdtest::on_threads(
      2,
      [](const world_type& world) {
        hvdlite::barrier(world);
        if (world.rank() == 1) return std::this_thread::sleep_for(seconds(0.6));
        const std::string text =
            message_of<hvdlite::timeout_error>([&] { hvdlite::barrier(world); });
        CHECK(lacking(text, {"barrier", "waited", "for rank 1", "rank 0 of 2"}) == "");
      },
      {.environment = {{"HVDLITE_TIMEOUT", setting(0.2)}}});
}

TEST_CASE("stall warning: said once by each rank that waits, with who is missing") {
  hvdtest::log_recorder log;
  std::atomic<int> ranks{0}, me{0};
  on_every_world(
      [&](const world_type& world) {
        hvdlite::barrier(world);
        const int late = world.size() - 1;
        if (world.rank() == late) std::this_thread::sleep_for(seconds(0.7));
        check_next_call(world, 1);
        ranks = world.size();
        me = world.rank();
        if (hvdtest::under_mpi() || world.rank() != late) return;
      },
      {.least = 3, .most = 3, .environment = {{"HVDLITE_STALL_WARNING", setting(0.3)}}});
  if (ranks == 0) return;  // an MPI world of another size
  for (int r = 0; r < 3; ++r) {
    INFO("rank ", r);
    if (hvdtest::under_mpi() && r != me) continue;
    const auto mine = log.with({"[hvdlite warning, rank " + std::to_string(r) + "]"});
    if (r == 2) {
      CHECK(mine.empty());
    } else {
      REQUIRE(mine.size() == 1);
      CHECK(lacking(mine[0], {"allreduce", "waited", "for rank 2"}) == "");
    }
  }
}

TEST_CASE("lost: a rank that throws is named with its reason, and launch rethrows what it threw") {
  for (const std::size_t count : {std::size_t{1}, std::size_t{100000}}) {
    std::atomic<int> told{0};
    const auto run = [&] {
      hvdlite::launch(4, [&](const world_type& world) {
        std::vector<float> x(count, 1.0f);
        hvdlite::allreduce(world, x);
        if (world.rank() == 2) throw std::domain_error{"the data set is empty"};
        try {
          hvdlite::allreduce(world, x);
        } catch (const hvdlite::peer_lost_error& e) {
          if (lacking(e.what(), {"rank 2", "the data set is empty"}).empty()) ++told;
          throw;
        }
      });
    };
    CHECK(message_of<std::domain_error>(run) == "the data set is empty");
    CHECK(told == 3);
  }
}

TEST_CASE("lost: a rank that returns early is named, and later calls fail at once") {
  on_every_world(
      [](const world_type& world) {
        hvdlite::barrier(world);
        if (!hvdtest::under_mpi() && world.rank() == 1) return;
        if (hvdtest::under_mpi()) return;  // a process that ends is another test's
        for (int attempt = 0; attempt < 2; ++attempt) {
          const std::string text =
              message_of<hvdlite::peer_lost_error>([&] { hvdlite::barrier(world); });
          CHECK(lacking(text, {"rank 1", "has returned from the function given to launch"}) == "");
        }
      },
      {.least = 2, .most = 2});
}

TEST_CASE("lost: a rank that ended its Environment is named with that reason") {
#if HVDLITE_WITH_MPI
  if (!hvdtest::under_mpi()) return;
  on_every_world(
      [](const world_type& world) {
        // A communicator of the test's own, that rank 0 leaves by an exception.
        hvdlite::Communicator comm{MPI_COMM_WORLD};
        hvdlite::barrier(comm);
        if (world.rank() == 0) {
          try {
            const auto gone = std::exchange(comm, {});
            throw std::runtime_error{"unwinds"};
          } catch (const std::runtime_error&) {
          }
        } else {
          std::vector<float> x(2000);
          const std::string text =
              message_of<hvdlite::peer_lost_error>([&] { hvdlite::allreduce(comm, x); });
          CHECK(lacking(text, {"rank 0", "unwinding"}) == "");
        }
        check_next_call(world, 1);  // another communicator is not touched
      },
      {.least = 2});
#endif
}

/// Throws on one rank; associative where it does not.
struct brittle_sum {
  bool throws;
  template <class T>
  T operator()(T a, T b) const {
    if (throws) throw std::runtime_error{"the user's function failed"};
    return a + b;
  }
};

TEST_CASE("an op that throws on one rank: that rank sees it, the next call is not confused by it") {
  // Tiny: every rank evaluates for itself, so that the others have their result.
  on_every_world(
      [](const world_type& world) {
        for (int round = 1; round < 4; ++round) {
          std::vector<int> x{world.rank() + 10 * round};
          const auto op = [&](bool throws) {
            return hvdlite::user_op{"brittle", brittle_sum{throws}, 0};
          };
          const int n = world.size();
          const int right = n * (n - 1) / 2 + 10 * n * round;
          if (world.rank() == 0)
            CHECK(message_of<std::runtime_error>([&] { hvdlite::allreduce(world, x, op(true)); }) ==
                  "the user's function failed");
          else {
            hvdlite::allreduce(world, x, op(false));
            CHECK(x[0] == right);
          }
          x[0] = world.rank() + 20 * round;
          hvdlite::allreduce(world, x, op(false));
          CHECK(x[0] == n * (n - 1) / 2 + 20 * n * round);
        }
      },
      {.least = 2});
}

TEST_CASE("an op that throws while data moves: the others lose a peer, with its words") {
  on_every_world(
      [](const world_type& world) {
        std::vector<int> x(50000, 1);
        const auto call = [&] {
          hvdlite::allreduce(world, x,
                             hvdlite::user_op{"brittle", brittle_sum{world.rank() == 0}, 0});
        };
        if (world.rank() == 0) {
          message_of<std::runtime_error>(call);
          message_of<hvdlite::peer_lost_error>(call);  // the communicator is of no further use
        } else {
          CHECK(lacking(message_of<hvdlite::peer_lost_error>(call),
                        {"rank 0", "the user's function failed"}) == "");
        }
      },
      {.least = 2});
}

TEST_CASE("checks off: the results are the same") {
  on_every_world(
      [](const world_type& world) {
        const int n = world.size();
        check_next_call(world, 5);
        std::vector<double> x(9000, world.rank() + 1.0);
        hvdlite::allreduce(world, x, {.samples = world.rank() + 1});
        double total = 0, weights = 0;
        for (int r = 1; r <= n; ++r) total += double(r) * r, weights += r;
        CHECK(x[0] == doctest::Approx(total / weights));
        CHECK(x[8999] == x[0]);
        std::vector<float> y(3, float(world.rank()));
        hvdlite::broadcast(world, y, n - 1);
        CHECK(y == std::vector<float>(3, float(n - 1)));
        hvdlite::barrier(world);
      },
      {.environment = {{"HVDLITE_CHECKS", "off"}}});
}

TEST_CASE("events: the last calls, with name, element, count, order and outcome") {
  on_every_world([](const world_type& world) {
    std::vector<float> x(12);
    hvdlite::allreduce(world, x, {.name = "fc1.weight"});
    const std::string longest(60, 'n');
    hvdlite::broadcast(world, x, {.root = 0, .name = longest});
    hvdlite::barrier(world);
    message_of<hvdlite::usage_error>([&] { hvdlite::broadcast(world, x, -1); });
    const auto events = world.recent_events();
    REQUIRE(events.size() == 4);
    CHECK(std::string{events[0].verb} == "allreduce");
    CHECK(std::string{events[0].name} == "fc1.weight");
    CHECK(events[0].type == hvdlite::dtype::f32);
    CHECK(events[0].count == 12);
    CHECK(events[0].state == hvdlite::event_state::done);
    CHECK(std::string{events[1].verb} == "broadcast");
    CHECK(std::string{events[1].name} == std::string(39, 'n'));
    CHECK(std::string{events[2].verb} == "barrier");
    CHECK(events[2].type == hvdlite::dtype::none);
    CHECK(events[3].state == hvdlite::event_state::failed);
    for (std::size_t i = 0; i < events.size(); ++i) {
      CHECK(events[i].sequence == i + 1);
      CHECK(events[i].end >= events[i].begin);
    }
    for (std::size_t i = 0; i < 100; ++i) hvdlite::barrier(world);
    const auto later = world.recent_events();
    CHECK(later.size() == hvdlite::event_ring::capacity);
    CHECK(later.back().sequence == 104);
    CHECK(later.front().sequence == 104 - hvdlite::event_ring::capacity + 1);
  });
}

TEST_CASE("weights: all zero changes nothing, and is said once in the life of a communicator") {
  hvdtest::log_recorder log;
  int worlds = 0;
  on_every_world([&](const world_type& world) {
    for (int round = 0; round < 3; ++round) {
      std::vector<float> x(4, float(world.rank()));
      hvdlite::allreduce(world, x, {.name = "metric", .samples = 0});
      CHECK(x == std::vector<float>(4, float(world.rank())));
    }
    hvdlite::barrier(world);
    if (world.size() > 1) {  // rank 0 says it for all
      const auto said = log.with({" of " + std::to_string(world.size()) + ")", "0 samples"});
      if (world.rank() == 0 || !hvdtest::under_mpi()) {
        REQUIRE(said.size() == 1);
        CHECK(lacking(said[0], {"allreduce 'metric'", "[hvdlite warning, rank 0]"}) == "");
      } else {
        CHECK(said.empty());
      }
    }
    if (world.rank() == 0) ++worlds;
  });
  CHECK((hvdtest::under_mpi() || worlds == 5));
}

}  // namespace
