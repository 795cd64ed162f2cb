// SPDX-License-Identifier: Apache-2.0
// The seam for backends: one that is written here takes its place in a communicator's list, by its
// type and by what it says of itself, and no caller changes.
#include <doctest/doctest.h>

#include <atomic>
#include <concepts>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include <hvdlite/collective/allreduce.hpp>
#include <hvdlite/collective/barrier.hpp>
#include <hvdlite/collective/broadcast.hpp>

#include "support/ranks.hpp"

namespace {

std::atomic<int> starts{0};

/// Another backend, counted.
template <class Base>
class counting : public Base {
 public:
  static constexpr std::string_view name = "counting";
  using Base::Base;
  hvdlite::request start(const hvdlite::operation& op, const hvdlite::reduction_terms& terms) {
    ++starts;
    return Base::start(op, terms);
  }
};

/// Moves no floats, and reduces by sums only.
class particular : public counting<hvdlite::local> {
 public:
  static constexpr std::string_view name = "particular";
  using counting::counting;
  template <class T, class Space>
  static constexpr bool moves = std::same_as<Space, hvdlite::host_space> && !std::same_as<T, float>;
  template <class T, class Space, class Op>
  static constexpr bool reduces = moves<T, Space> && std::same_as<Op, hvdlite::sum>;
};

/// Is usable on rank 0 only, so on none.
class lopsided : public counting<hvdlite::local> {
 public:
  static constexpr std::string_view name = "lopsided";
  using counting::counting;
  static bool usable(const hvdlite::placement& where) { return where.rank() == 0; }
};

static_assert(hvdlite::backend<counting<hvdlite::local>>);
static_assert(hvdlite::backend<particular>);

TEST_CASE("a third backend serves where it is first in the list") {
  using comm_type = hvdlite::Communicator<counting<hvdlite::local>, hvdlite::local>;
  static_assert(
      std::same_as<hvdlite::backend_of<comm_type, std::vector<float>>, counting<hvdlite::local>>);
  starts = 0;
  hvdtest::on_threads_of<comm_type>(3, [](const comm_type& comm) {
    CHECK(comm.backend_name() == "counting");
    std::vector<float> x(5000, 1.0f);
    hvdlite::allreduce(comm, x, hvdlite::sum{});
    CHECK(x[4999] == 3.0f);
    hvdlite::broadcast(comm, x, 2);
    hvdlite::barrier(comm);
    const comm_type part = comm.split(0);
    hvdlite::allreduce(part, x, hvdlite::sum{});
    CHECK(x[0] == 9.0f);
  });
  CHECK(starts == 9);  // two reductions and a broadcast on three ranks
}

TEST_CASE("the types decide call by call which backend serves") {
  using comm_type = hvdlite::Communicator<particular, hvdlite::local>;
  static_assert(std::same_as<hvdlite::backend_of<comm_type, float>, hvdlite::local>);
  static_assert(std::same_as<hvdlite::backend_of<comm_type, double>, particular>);
  starts = 0;
  hvdtest::on_threads_of<comm_type>(3, [](const comm_type& comm) {
    std::vector<float> x(5000, 1.0f);
    hvdlite::allreduce(comm, x, hvdlite::sum{});
    std::vector<int> y(5000, 1);
    hvdlite::allreduce(comm, y, hvdlite::max{});
    CHECK(x[9] == 3.0f);
    CHECK(y[9] == 1);
  });
  CHECK(starts == 0);
  hvdtest::on_threads_of<comm_type>(3, [](const comm_type& comm) {
    std::vector<int> y(5000, 1);
    hvdlite::allreduce(comm, y, hvdlite::sum{});
    CHECK(y[4999] == 3);
    std::vector<double> z(5000, comm.rank());
    hvdlite::broadcast(comm, z, 1);
    CHECK(z[4999] == 1);
  });
  CHECK(starts == 6);
}

TEST_CASE("a backend that is not usable on every rank is used on none") {
  using comm_type = hvdlite::Communicator<lopsided, hvdlite::local>;
  starts = 0;
  hvdtest::on_threads_of<comm_type>(3, [](const comm_type& comm) {
    CHECK(comm.backend_name() == "local");
    std::vector<float> x(5000, 1.0f);
    hvdlite::allreduce(comm, x, hvdlite::sum{});
    CHECK(x[1] == 3.0f);
  });
  CHECK(starts == 0);
}

TEST_CASE("no backend that is usable is an error on every rank") {
  std::atomic<int> told{0};
  using comm_type = hvdlite::Communicator<lopsided>;
  const auto hub =
      std::make_shared<hvdlite::detail::thread_hub>(hvdtest::on_nodes({0, 0}), std::size_t{64});
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      try {
        const comm_type comm{std::make_unique<hvdlite::thread_channel>(hub, r), hvdlite::settings{},
                             std::make_shared<hvdlite::lifetime>()};
      } catch (const hvdlite::usage_error& e) {
        if (hvdtest::lacking(e.what(), {"no backend", "2 ranks"}).empty()) ++told;
      }
    });
  for (auto& t : threads) t.join();
  CHECK(told == 2);
}

#if HVDLITE_WITH_MPI
TEST_CASE("a third backend over MPI") {
  if (!hvdtest::under_mpi()) return;
  hvdtest::on_every_world(
      [](const hvdtest::world_type& world) {
        starts = 0;
        const hvdlite::Communicator<counting<hvdlite::mpi>> comm{MPI_COMM_WORLD};
        CHECK(comm.backend_name() == "counting");
        std::vector<float> x(5000, 1.0f);
        hvdlite::allreduce(comm, x, hvdlite::sum{});
        CHECK(x[4999] == static_cast<float>(world.size()));
        CHECK(starts == 1);
        hvdlite::barrier(comm);
      },
      {.least = 2});
}
#endif

}  // namespace
