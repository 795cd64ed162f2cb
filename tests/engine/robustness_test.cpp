// SPDX-License-Identifier: Apache-2.0
// What a rank may do to the others that they must survive: floods of wrong calls with a late rank,
// functions that throw anything or call back, weights of any size.
#include "support/ranks.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <hvdlite/collective/allreduce.hpp>
#include <hvdlite/collective/barrier.hpp>
#include <hvdlite/collective/broadcast.hpp>

namespace {

using floats = std::vector<float>;

void sleep_a_moment() { std::this_thread::sleep_for(std::chrono::milliseconds{300}); }

/// The calls after a flood must work, and soon.
void expect_all_well(const auto& world) {
  float x = 1;
  hvdlite::allreduce(world, x, hvdlite::sum{});
  CHECK(x == static_cast<float>(world.size()));
}

}  // namespace

TEST_CASE("robust: thirty refused calls of one rank, thirty mismatches of those that come late") {
  hvdtest::on_every_world(
      [](const auto& world) {
        floats x(3);
        if (world.rank() != 0) sleep_a_moment();
        for (int i = 0; i < 30; ++i) {
          if (world.rank() == 0)
            CHECK_THROWS_AS(hvdlite::broadcast(world, x, 9), hvdlite::usage_error);
          else
            CHECK_THROWS_AS(hvdlite::broadcast(world, x, 0), hvdlite::mismatch_error);
        }
        expect_all_well(world);
      },
      {.least = 2});
}

TEST_CASE("robust: refused calls do not wait for a rank that has made them all, and left") {
  hvdtest::on_every_world(
      [](const auto& world) {
        if (world.rank() != 0) sleep_a_moment();
        floats x(3);
        for (int i = 0; i < 200; ++i)
          CHECK_THROWS_AS(hvdlite::broadcast(world, x, 9), hvdlite::error);
      },
      {.least = 2});
}

TEST_CASE("robust: a rank that is late to a hundred mismatches catches up at once") {
  hvdtest::on_every_world(
      [](const auto& world) {
        const int last = world.size() - 1;
        if (world.rank() == last) sleep_a_moment();
        std::chrono::duration<double> longest{0};
        for (int i = 0; i < 100; ++i) {
          const auto begin = std::chrono::steady_clock::now();
          floats x(world.rank() == 0 ? 3 : 4);
          CHECK_THROWS_AS(hvdlite::allreduce(world, x), hvdlite::mismatch_error);
          longest =
              (std::max)(longest,
                         std::chrono::duration<double>{std::chrono::steady_clock::now() - begin});
        }
        if (world.rank() == last) CHECK(longest.count() < 1.5 * hvdtest::slowness());
        expect_all_well(world);
      },
      {.least = 3});
}

TEST_CASE("robust: a function that throws something that is no std::exception") {
  // Over MPI the process ends without MPI_Finalize after that: see process_life.sh, inside-throw.
  for (const int n : {2, 3, 5})
    hvdtest::on_threads(n, [](const auto& world) {
      const bool throws = world.rank() == 0;
      const hvdlite::user_op op{"sometimes",
                                [=](float a, float b) -> float {
                                  if (throws) throw 42;
                                  return a + b;
                                },
                                0.0f};
      floats x(100'000, 1);
      if (throws)
        CHECK_THROWS_AS(hvdlite::allreduce(world, x, op), int);
      else
        CHECK_THROWS_AS(hvdlite::allreduce(world, x, op), hvdlite::peer_lost_error);
      CHECK_THROWS_AS(hvdlite::barrier(world), hvdlite::peer_lost_error);
    });
}

TEST_CASE("robust: a collective within the function of an op is refused, not waited for") {
  hvdtest::on_every_world(
      [](const auto& world) {
        const hvdlite::user_op op{"nested",
                                  [&](float a, float b) {
                                    hvdlite::barrier(world);
                                    return a + b;
                                  },
                                  0.0f};
        float x = 1;  // travels with the announcement: all ranks fail alike, the world goes on
        const auto text =
            hvdtest::message_of<hvdlite::usage_error>([&] { hvdlite::allreduce(world, x, op); });
        CHECK(hvdtest::lacking(text, {"within another call"}) == "");
        expect_all_well(world);
      },
      {.least = 2});
}

TEST_CASE("robust: weights of any size average equal elements to themselves") {
  hvdtest::on_every_world([](const auto& world) {
    const double odd = world.rank() % 2 == 0 ? 1 : 1.5;
    for (const double scale : {1e-300, 1e-50, 1.0, 60000.0, 1e39, 1e300}) {
      double d = 0.75;
      float f = 1e35f;
      hvdlite::allreduce(world, d, {.samples = odd * scale});
      hvdlite::allreduce(world, f, {.samples = odd * scale});
      CHECK(std::abs(d - 0.75) < 1e-15);
      CHECK(std::abs(f / 1e35f - 1) < 1e-6f);
    }
    std::int32_t i = 2'000'000'000;
    hvdlite::allreduce(world, i, {.samples = 1'000'000 + world.rank()});
    CHECK(i == 2'000'000'000);
    CHECK_THROWS_AS(hvdlite::allreduce(world, i, {.samples = 0.5}), hvdlite::usage_error);
    CHECK_THROWS_AS(hvdlite::allreduce(world, i, {.samples = 1e15}), hvdlite::usage_error);
    expect_all_well(world);
  });
}

TEST_CASE("robust: scales that take integers beyond all bounds end at the bounds") {
  hvdtest::on_every_world([](const auto& world) {
    std::int32_t x = 2'000'000'000;
    hvdlite::allreduce(world, x, hvdlite::average{}, {.prescale = 1e6});
    CHECK(x == std::numeric_limits<std::int32_t>::max());
    std::int8_t y = 100;
    hvdlite::allreduce(world, y, hvdlite::average{}, {.postscale = -2});
    CHECK(y == -128);
  });
}

TEST_CASE("robust: a root that no int can hold is out of range") {
  hvdtest::on_every_world([](const auto& world) {
    float x = 0;
    CHECK_THROWS_AS(hvdlite::broadcast(world, x, std::int64_t{1} << 32), hvdlite::usage_error);
    expect_all_well(world);
  });
}
