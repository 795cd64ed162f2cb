// SPDX-License-Identifier: Apache-2.0
// The backend over MPI by itself: messages, and pieces of every size. Runs under mpirun only.
#include <doctest/doctest.h>

#include <mpi.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <hvdlite/collective/barrier.hpp>
#include <hvdlite/comm/mpi.hpp>

#include "support/ranks.hpp"

namespace {

using hvdlite::message;
using hvdlite::operation;
using hvdlite::reduction_terms;
using hvdlite::state;
using hvdtest::world_type;

static_assert(hvdlite::backend<hvdlite::mpi>);
static_assert(hvdlite::mpi::accepts<MPI_Comm>);
static_assert(!hvdlite::mpi::accepts<std::string>);
static_assert(!hvdlite::mpi::moves<float, hvdlite::cuda_space>);

TEST_CASE("mpi: without MPI a channel is refused, and the backend is not usable") {
  CHECK_FALSE(hvdlite::mpi::usable(hvdlite::placement{std::make_unique<hvdlite::lone_channel>()}));
}

TEST_CASE("mpi: messages of one sender arrive in order, more than there is room for at once") {
  if (!hvdtest::under_mpi()) return;
  hvdtest::on_every_world(
      [](const world_type& world) {
        const hvdlite::placement where{std::make_unique<hvdlite::mpi_channel>(MPI_COMM_WORLD)};
        hvdlite::mpi backend{where, hvdlite::settings{}};
        const int n = world.size(), me = world.rank();
        constexpr std::uint64_t each = 300;
        std::vector<std::uint64_t> sent(static_cast<std::size_t>(n)),
            seen(static_cast<std::size_t>(n));
        std::size_t wrong = 0, open = static_cast<std::size_t>(n - 1) * 2;
        while (open != 0) {
          for (int to = 0; to < n; ++to) {
            auto& count = sent[static_cast<std::size_t>(to)];
            if (to == me || count == each) continue;
            message m;
            m.sequence = count;
            m.fingerprint = static_cast<std::uint64_t>(me);
            m.payload.fill(static_cast<std::byte>(count));
            if (backend.post(to, m) && ++count == each) --open;
          }
          int from = -1;
          message m;
          while (backend.poll(from, m)) {
            auto& count = seen[static_cast<std::size_t>(from)];
            if (m.sequence != count || m.fingerprint != static_cast<std::uint64_t>(from) ||
                m.payload[31] != static_cast<std::byte>(count))
              ++wrong;
            if (++count == each) --open;
          }
        }
        CHECK(wrong == 0);
        hvdlite::barrier(world);  // nobody frees what another still sends to
      },
      {.least = 2});
}

TEST_CASE("mpi: reductions in pieces of any size, without the engine") {
  if (!hvdtest::under_mpi()) return;
  hvdtest::on_every_world(
      [](const world_type& world) {
        const hvdlite::placement where{std::make_unique<hvdlite::mpi_channel>(MPI_COMM_WORLD)};
        const int n = world.size();
        for (const std::size_t chunk :
             {std::size_t{1}, std::size_t{8}, std::size_t{100}, std::size_t{100000}}) {
          hvdlite::settings settings;
          settings.chunk_bytes = chunk;
          hvdlite::mpi backend{where, settings};
          hvdlite::barrier(world);
          for (const std::size_t count :
               {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{203}}) {
            std::vector<double> x(count);
            for (std::size_t i = 0; i < count; ++i) x[i] = double(i) + world.rank();
            operation op;
            op.verb = hvdlite::verb::allreduce;
            op.in = reinterpret_cast<const std::byte*>(x.data());
            op.out = reinterpret_cast<std::byte*>(x.data());
            op.count = count;
            op.element_bytes = sizeof(double);
            op.kernels = &hvdlite::kernels_of<double, hvdlite::sum>;
            const std::vector<reduction_terms::term> terms(static_cast<std::size_t>(n));
            const reduction_terms all{terms.data(), {}};
            auto request = backend.start(op, all);
            while (backend.progress(request) != state::done) {
            }
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < count; ++i)
              if (x[i] != double(i) * n + n * (n - 1) / 2) ++wrong;
            CHECK(wrong == 0);
          }
          hvdlite::barrier(world);
        }
      },
      {.least = 2});
}

}  // namespace
