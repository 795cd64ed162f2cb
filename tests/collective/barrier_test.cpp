// SPDX-License-Identifier: Apache-2.0
// barrier: nobody leaves before all have come, again and again.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include <hvdlite/collective/allreduce.hpp>
#include <hvdlite/collective/barrier.hpp>

#include "support/ranks.hpp"

namespace {

using hvdtest::on_every_world;
using hvdtest::world_type;

TEST_CASE("barrier: nobody leaves before all have come") {
  if (hvdtest::under_mpi()) return;  // processes share no counter; the matrix asks the clock
  for (int n = 1; n <= 5; ++n) {
    std::atomic<int> came{0};
    hvdtest::on_threads(n, [&](const world_type& world) {
      int early = 0;
      for (int round = 1; round <= 300; ++round) {
        if ((round + world.rank()) % 50 == 0)
          std::this_thread::sleep_for(std::chrono::microseconds{300});
        ++came;
        hvdlite::barrier(world);
        if (came < round * n) ++early;
        hvdlite::barrier(world);
      }
      CHECK(early == 0);
    });
  }
}

TEST_CASE("barrier: a rank that comes late holds up all others") {
  on_every_world([](const world_type& world) {
    const auto now = [] {
      return static_cast<double>(std::chrono::steady_clock::now().time_since_epoch().count());
    };
    for (int late = 0; late < world.size(); ++late) {
      if (world.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds{20});
      double came = now();
      hvdlite::barrier(world, {.name = "epoch"});
      double left = now();
      hvdlite::allreduce(world, came, hvdlite::max{});
      hvdlite::allreduce(world, left, hvdlite::min{});
      CHECK(left >= came);
    }
  });
}

}  // namespace
