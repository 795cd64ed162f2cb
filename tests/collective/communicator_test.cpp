// SPDX-License-Identifier: Apache-2.0
// Communicators: parts of a world, handles that are empty, native handles, and which backend
// serves.
#include <doctest/doctest.h>

#include <concepts>
#include <string>
#include <thread>
#include <vector>

#include <hvdlite/collective/allreduce.hpp>
#include <hvdlite/collective/barrier.hpp>
#include <hvdlite/collective/broadcast.hpp>
#if HVDLITE_WITH_MPI
#include <boost/mpi/communicator.hpp>
#endif

#include "support/ranks.hpp"

namespace {

using hvdtest::lacking;
using hvdtest::message_of;
using hvdtest::on_every_world;
using hvdtest::world_type;

int sum_over(const world_type& world, int x) {
  hvdlite::allreduce(world, x, hvdlite::sum{});
  return x;
}

static_assert(std::same_as<hvdlite::backend_of<world_type, std::vector<float>>, hvdlite::local>);
#if HVDLITE_WITH_MPI
static_assert(
    std::same_as<hvdlite::backend_of<hvdlite::Communicator<hvdlite::mpi>, float>, hvdlite::mpi>);
#endif

TEST_CASE("communicator: copies are the same one") {
  on_every_world([](const world_type& world) {
    const world_type copy = world;
    CHECK(copy == world);
    CHECK(copy.rank() == world.rank());
    CHECK(sum_over(copy, 1) == world.size());
    CHECK(world.recent_events().size() == 1);
    CHECK(static_cast<bool>(world));
  });
}

TEST_CASE("communicator: the backend that serves") {
  on_every_world([](const world_type& world) {
    const std::string_view many = hvdtest::under_mpi() ? "mpi" : "local";
    CHECK(world.backend_name() == (world.size() == 1 ? "none" : many));
  });
}

TEST_CASE("split: one part per color, in the order of key and rank; parts act apart") {
  on_every_world([](const world_type& world) {
    const int n = world.size();
    const int r = world.rank();
    const world_type part = world.split(r % 2, -r);  // backwards
    const int members = r % 2 == 0 ? (n + 1) / 2 : n / 2;
    CHECK(part.size() == members);
    CHECK(part.rank() == members - 1 - r / 2);
    CHECK(!(part == world));
    int lowest = r;
    hvdlite::broadcast(part, lowest, members - 1);
    CHECK(lowest == r % 2);
    // Different calls in the parts at the same time.
    for (int round = 0; round < 20; ++round) {
      if (r % 2 == 0) {
        std::vector<double> x(static_cast<std::size_t>(100 * round + 1), 1.0);
        hvdlite::allreduce(part, x, hvdlite::sum{});
        CHECK(x.back() == members);
      } else {
        int root = r;
        hvdlite::broadcast(part, root, 0);
        hvdlite::barrier(part);
        CHECK(root == (n % 2 == 0 ? n - 1 : n - 2));
      }
    }
    CHECK(sum_over(world, 1) == n);  // and the whole is as it was
  });
}

TEST_CASE("split: equal keys keep the order of ranks") {
  on_every_world([](const world_type& world) {
    const world_type same = world.split(3);
    CHECK(same.rank() == world.rank());
    CHECK(same.size() == world.size());
    const world_type again = same.split(world.rank() == 0 ? 0 : 1).split(0);
    CHECK(again.size() == (world.rank() == 0 ? 1 : world.size() - 1));
    CHECK(sum_over(again, 1) == again.size());
  });
}

TEST_CASE("split: a negative color gives an empty handle") {
  on_every_world([](const world_type& world) {
    const world_type part = world.split(world.rank() == 0 ? -1 : 0);
    CHECK(static_cast<bool>(part) == (world.rank() != 0));
    if (part)
      CHECK(part.size() == world.size() - 1);
    else
      CHECK(lacking(message_of<hvdlite::usage_error>([&] { hvdlite::barrier(part); }),
                    {"empty", "not a member"}) == "");
    CHECK(sum_over(world, 1) == world.size());
  });
}

TEST_CASE("subset: members follow the order of their ranks, others get an empty handle") {
  on_every_world(
      [](const world_type& world) {
        const int last = world.size() - 1;
        const world_type ends = world.subset({last, 0});
        const bool member = world.rank() == 0 || world.rank() == last;
        CHECK(static_cast<bool>(ends) == member);
        if (member) {
          CHECK(ends.size() == 2);
          CHECK(ends.rank() == (world.rank() == 0 ? 0 : 1));
          CHECK(sum_over(ends, world.rank()) == last);
          int x = world.rank();
          hvdlite::broadcast(ends, x, 1);  // roots are ranks of the subset
          CHECK(x == last);
        } else {
          int x = 7;
          message_of<hvdlite::usage_error>([&] { hvdlite::allreduce(ends, x); });
          message_of<hvdlite::usage_error>([&] { static_cast<void>(ends.rank()); });
          message_of<hvdlite::usage_error>([&] { ends.split(0); });
          CHECK(x == 7);
        }
        const world_type overlapping = world.subset({0, 1});
        CHECK(static_cast<bool>(overlapping) == (world.rank() < 2));
        if (overlapping) CHECK(sum_over(overlapping, 1) == 2);
      },
      {.least = 2});
}

TEST_CASE("subset: lists that cannot be are refused on every rank, and the next call works") {
  on_every_world([](const world_type& world) {
    const std::string n = std::to_string(world.size());
    CHECK(lacking(message_of<hvdlite::usage_error>([&] { world.subset({}); }), {"empty"}) == "");
    CHECK(lacking(message_of<hvdlite::usage_error>([&] { world.subset({0, 0}); }), {"twice"}) ==
          "");
    CHECK(lacking(message_of<hvdlite::usage_error>([&] { world.subset({0, world.size()}); }),
                  {"rank " + n, "out of range"}) == "");
    CHECK(lacking(message_of<hvdlite::usage_error>([&] { world.subset({-1}); }),
                  {"rank -1", "out of range"}) == "");
    CHECK(sum_over(world, 1) == world.size());
    CHECK(world.subset({0}).operator bool() == (world.rank() == 0));
  });
}

TEST_CASE("subset: different lists are a mismatch that names both") {
  on_every_world(
      [](const world_type& world) {
        const std::string text = message_of<hvdlite::mismatch_error>(
            [&] { world.rank() == 0 ? world.subset({0}) : world.subset({0, 1}); });
        CHECK(lacking(text, {"subset of ranks 0'", "subset of ranks 0 and 1'"}) == "");
        CHECK(sum_over(world, 1) == world.size());
      },
      {.least = 2});
}

TEST_CASE("split and another call at the same place are a mismatch, not a hang") {
  on_every_world(
      [](const world_type& world) {
        const std::string text = message_of<hvdlite::mismatch_error>([&] {
          world.rank() == 0 ? static_cast<void>(world.split(0)) : hvdlite::barrier(world);
        });
        CHECK(lacking(text, {"split", "barrier"}) == "");
        CHECK(sum_over(world, 1) == world.size());
      },
      {.least = 2});
}

TEST_CASE("local and cross: parts of a node and across nodes, also of unequal ones") {
  on_every_world(
      [](const world_type& world) {
        const world_type node = world.local();
        CHECK(node.size() == world.local_size());
        CHECK(node.rank() == world.local_rank());
        CHECK(node.cross_size() == 1);
        const world_type column = world.cross();
        CHECK(column.size() == world.cross_size());
        CHECK(column.rank() == world.cross_rank());
        CHECK(column.local_size() == 1);
        CHECK(sum_over(column, sum_over(node, 1)) >= world.size() / 2);
        if (world.is_homogeneous()) CHECK(sum_over(column, sum_over(node, 1)) == world.size());
      },
      {.ranks_per_node = 2});
}

TEST_CASE("communicators come and go") {
  on_every_world([](const world_type& world) {
    for (int round = 0; round < 60; ++round) {
      const world_type part = world.split(world.rank() % 2);
      CHECK(sum_over(part, 1) == part.size());
    }
  });
}

TEST_CASE("an empty handle: every use is a usage_error that says why") {
  const world_type empty;
  CHECK(!empty);
  CHECK(empty == world_type{});
  float x = 0;
  for (const auto& text :
       {message_of<hvdlite::usage_error>([&] { hvdlite::allreduce(empty, x); }),
        message_of<hvdlite::usage_error>([&] { hvdlite::broadcast(empty, x); }),
        message_of<hvdlite::usage_error>([&] { hvdlite::barrier(empty); }),
        message_of<hvdlite::usage_error>([&] { static_cast<void>(empty.size()); }),
        message_of<hvdlite::usage_error>([&] { static_cast<void>(empty.recent_events()); })})
    CHECK(lacking(text, {"empty"}) == "");
}

TEST_CASE("a world may be used by several threads of its rank, one call after the other") {
  on_every_world([](const world_type& world) {
    if (hvdtest::under_mpi()) return;  // MPI is initialised for one thread
    int sum = 0;
    std::thread helper{[&] { sum = sum_over(world, 2); }};
    helper.join();
    CHECK(sum == 2 * world.size());
    CHECK(sum_over(world, 1) == world.size());
  });
}

#if HVDLITE_WITH_MPI

TEST_CASE("a thread that MPI was not initialised for is told so") {
  if (!hvdtest::under_mpi()) return;
  on_every_world(
      [](const world_type& world) {
        int level = 0;
        MPI_Query_thread(&level);
        if (level >= MPI_THREAD_SERIALIZED) return;
        std::string text;
        std::thread other{[&] {
          try {
            hvdlite::barrier(world);
          } catch (const hvdlite::usage_error& e) {
            text = e.what();
          }
        }};
        other.join();
        CHECK(lacking(text, {"barrier", "thread", "MPI_THREAD_SERIALIZED"}) == "");
        CHECK(sum_over(world, 1) == world.size());  // no call was consumed
      },
      {.least = 2});
}

TEST_CASE("Communicator from an MPI_Comm and from Boost's: a duplicate, the user's stays") {
  if (!hvdtest::under_mpi()) return;
  on_every_world([](const world_type& world) {
    hvdlite::Communicator from_mpi{MPI_COMM_WORLD};
    static_assert(std::same_as<decltype(from_mpi), world_type>);
    CHECK(from_mpi.rank() == world.rank());
    CHECK(from_mpi.size() == world.size());
    CHECK(sum_over(from_mpi, 1) == world.size());

    const boost::mpi::communicator boosted;
    const hvdlite::Communicator from_boost{boosted};
    static_assert(std::same_as<decltype(from_boost), const world_type>);
    CHECK(sum_over(from_boost, 1) == world.size());

    // A user's own communicator: half of the ranks, backwards.
    MPI_Comm half = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, world.rank() % 2, -world.rank(), &half);
    MPI_Errhandler before = MPI_ERRHANDLER_NULL, after = MPI_ERRHANDLER_NULL;
    MPI_Comm_get_errhandler(half, &before);
    {
      const world_type comm{half};
      int rank = -1;
      MPI_Comm_rank(half, &rank);
      CHECK(comm.rank() == rank);
      // The user's messages and the library's do not meet.
      int token = 100 + world.rank(), received = -1, size = 0;
      MPI_Comm_size(half, &size);
      MPI_Request request;
      MPI_Irecv(&received, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, half, &request);
      std::vector<float> x(5000, 1.0f);
      hvdlite::allreduce(comm, x, hvdlite::sum{});
      CHECK(x[4999] == float(size));
      MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 1, half);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      CHECK(received >= 100);
    }
    MPI_Comm_get_errhandler(half, &after);
    CHECK(before == after);
    MPI_Barrier(half);  // still there
    MPI_Errhandler_free(&before);
    MPI_Errhandler_free(&after);
    MPI_Comm_free(&half);
  });
}

TEST_CASE("Communicator from MPI_COMM_NULL, or without MPI") {
  const std::string text = message_of<hvdlite::usage_error>([] { world_type comm{MPI_COMM_NULL}; });
  if (hvdtest::under_mpi())
    CHECK(lacking(text, {"MPI_COMM_NULL"}) == "");
  else
    CHECK(lacking(text, {"MPI is not running"}) == "");
}

TEST_CASE("settings that shape the protocol must agree") {
  if (!hvdtest::under_mpi()) return;
  on_every_world(
      [](const world_type& world) {
        {
          const hvdtest::environment_variable chunk{"HVDLITE_CHUNK_BYTES",
                                                    world.rank() == 0 ? "1000" : "2000"};
          CHECK(lacking(message_of<hvdlite::mismatch_error>([] { world_type c{MPI_COMM_WORLD}; }),
                        {"HVDLITE_CHUNK_BYTES"}) == "");
        }
        {
          const hvdtest::environment_variable checks{"HVDLITE_CHECKS",
                                                     world.rank() == 0 ? "off" : "on"};
          CHECK(lacking(message_of<hvdlite::mismatch_error>([] { world_type c{MPI_COMM_WORLD}; }),
                        {"HVDLITE_CHECKS"}) == "");
        }
        CHECK(sum_over(world_type{MPI_COMM_WORLD}, 1) == world.size());
      },
      {.least = 2});
}

TEST_CASE("MPI communicators: those that are done with are freed, by the hundred") {
  if (!hvdtest::under_mpi()) return;
  on_every_world([](const world_type& world) {
    for (int round = 0; round < 300; ++round) {
      const world_type comm{MPI_COMM_WORLD};
      if (round % 10 == 0) CHECK(sum_over(comm, 1) == world.size());
    }
    CHECK(sum_over(world, 1) == world.size());
  });
}

#endif  // HVDLITE_WITH_MPI

}  // namespace
