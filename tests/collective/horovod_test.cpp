// SPDX-License-Identifier: Apache-2.0
// Horovod's vocabulary on the current world.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <hvdlite/horovod.hpp>

#include "support/ranks.hpp"

namespace {

namespace hvd = hvdlite::horovod;
using hvdtest::lacking;
using hvdtest::message_of;
using hvdtest::world_type;

TEST_CASE("horovod: every query before init says what to do") {
  CHECK_FALSE(hvd::is_initialized());
  for (const auto& text : {message_of<hvdlite::usage_error>([] { hvd::rank(); }),
                           message_of<hvdlite::usage_error>([] { hvd::size(); }),
                           message_of<hvdlite::usage_error>([] { hvd::local_rank(); }),
                           message_of<hvdlite::usage_error>([] { hvd::barrier(); })})
    CHECK(lacking(text, {"init"}) == "");
  hvd::shutdown();  // nothing to do
}

TEST_CASE("horovod: init, use, shutdown, and again") {
  for (int round = 0; round < 2; ++round) {
    hvd::init();
    hvd::init();  // does nothing
    CHECK(hvd::is_initialized());
    CHECK(hvd::size() == (hvdtest::under_mpi() ? hvdtest::world_sizes()[0] : 1));
    float x = static_cast<float>(hvd::rank());
    hvd::allreduce(x, hvd::Sum);
    CHECK(x == static_cast<float>(hvd::size() * (hvd::size() - 1) / 2));
    hvd::barrier();
    hvd::shutdown();
    CHECK_FALSE(hvd::is_initialized());
    message_of<hvdlite::usage_error>([] { hvd::rank(); });
  }
}

TEST_CASE("horovod: the world of the innermost launch or make_current") {
  hvdtest::on_every_world(
      [](const world_type& world) {
        const auto current = world.make_current();
        const int n = world.size();
        CHECK(hvd::is_initialized());
        CHECK(hvd::rank() == world.rank());
        CHECK(hvd::size() == n);
        CHECK(hvd::local_rank() == world.local_rank());
        CHECK(hvd::local_size() == world.local_size());
        CHECK(hvd::cross_rank() == world.cross_rank());
        CHECK(hvd::cross_size() == world.cross_size());
        CHECK(hvd::is_homogeneous() == world.is_homogeneous());
        std::vector<double> x{double(hvd::rank())};
        hvd::allreduce(x);  // the average
        CHECK(x[0] == double(n - 1) / 2);
        const std::vector<double> in{double(hvd::rank() + 1)};
        hvd::allreduce(in, x, hvd::Max);
        CHECK(x[0] == n);
        hvd::allreduce(in, x, hvd::Min, {.name = "x"});
        CHECK(x[0] == 1);
        x = in;
        hvd::allreduce(x, hvd::Average);
        CHECK(x[0] == double(n + 1) / 2);
        x = {2};
        hvd::allreduce(x, hvd::Product);
        CHECK(x[0] == double(1 << n));
        int root = hvd::rank();
        hvd::broadcast(root, n - 1);
        CHECK(root == n - 1);
        CHECK(hvd::mpi_built() == (HVDLITE_WITH_MPI != 0));
      },
      {.ranks_per_node = 2});
}

}  // namespace
