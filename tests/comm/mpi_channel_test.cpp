// SPDX-License-Identifier: Apache-2.0
// How ranks that are MPI processes meet at start-up, and what they leave of the program's MPI. Runs
// under mpirun only.
#include <doctest/doctest.h>

#include <mpi.h>

#include <cstddef>
#include <string>

#include <hvdlite/collective/barrier.hpp>
#include <hvdlite/comm/mpi_channel.hpp>

#include "support/ranks.hpp"

namespace {

using hvdtest::world_type;

TEST_CASE("mpi_channel: exchange, nodes, split") {
  if (!hvdtest::under_mpi()) return;
  hvdtest::on_every_world([](const world_type& world) {
    hvdlite::mpi_channel channel{MPI_COMM_WORLD};
    CHECK(channel.rank() == world.rank());
    for (int r = 0; r < world.size(); ++r) CHECK(channel.node_of(r) == 0);
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{3000}}) {
      const std::string mine(bytes, static_cast<char>('a' + channel.rank()));
      std::string all(static_cast<std::size_t>(world.size()) * bytes + 1, '?'), expected;
      channel.exchange(mine.data(), bytes, all.data());
      for (int r = 0; r < world.size(); ++r) expected.append(bytes, static_cast<char>('a' + r));
      CHECK(all == expected + '?');
    }
    const auto part = channel.split(world.rank() == 0 ? -1 : 2, -world.rank());
    CHECK((part == nullptr) == (world.rank() == 0));
    if (part) CHECK(part->rank() == world.size() - 1 - world.rank());
  });
}

TEST_CASE("mpi_channel: a communicator of two groups is refused") {
  if (!hvdtest::under_mpi()) return;
  hvdtest::on_every_world(
      [](const world_type& world) {
        const int side = world.rank() == 0 ? 0 : 1;
        MPI_Comm mine = MPI_COMM_NULL, between = MPI_COMM_NULL;
        MPI_Comm_split(MPI_COMM_WORLD, side, 0, &mine);
        MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, 1 - side, 7, &between);
        const std::string text =
            hvdtest::message_of<hvdlite::usage_error>([&] { world_type comm{between}; });
        CHECK(hvdtest::lacking(text, {"intercommunicator", "MPI_Intercomm_merge"}) == "");
        MPI_Comm_free(&between);
        MPI_Comm_free(&mine);
      },
      {.least = 2});
}

TEST_CASE("mpi_channel: an MPI error is an exception with MPI's words and the function's name") {
  if (!hvdtest::under_mpi()) return;
  const std::string text = hvdtest::message_of<hvdlite::transport_error>(
      [] { hvdlite::detail::check_mpi(MPI_ERR_TRUNCATE, "MPI_Test"); });
  CHECK(hvdtest::lacking(text, {"MPI_Test: ", "truncated"}) == "");
  hvdlite::detail::check_mpi(MPI_SUCCESS, "MPI_Test");
}

TEST_CASE("mpi_channel: the error handler of the world stays the user's") {
  if (!hvdtest::under_mpi()) return;
  hvdtest::on_every_world([](const world_type&) {
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
    CHECK(handler == MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
  });
}

}  // namespace
