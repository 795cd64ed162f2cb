// SPDX-License-Identifier: Apache-2.0
// What kills the mutants of the MPI backend: every process is a rank, and looks at values only.
#include <doctest/doctest.h>

#include <mpi.h>

#include <cstddef>
#include <cstdlib>
#include <vector>

#include <hvdlite/collective/allreduce.hpp>
#include <hvdlite/collective/broadcast.hpp>
#include <hvdlite/collective/environment.hpp>

/// MPI may see requests complete in any order: without this it rarely does here.
extern "C" int MPI_Testall(int count, MPI_Request* requests, int* all, MPI_Status* statuses) {
  static unsigned random = 1;
  random = random * 1664525 + 1013904223;
  if (count > 0 && (random >> 30) == 0) {
    *all = 0;
    return MPI_SUCCESS;
  }
  return PMPI_Testall(count, requests, all, statuses);
}

namespace {

using floats = std::vector<float>;

floats numbered(int rank, std::size_t count) {
  floats x(count);
  for (std::size_t i = 0; i < count; ++i)
    x[i] = static_cast<float>(i % 1000) + 1000 * static_cast<float>(rank + 1);
  return x;
}

}  // namespace

TEST_CASE("values over MPI") {
  for (const char* chunk : {"64", "4096", "262144"}) {
    setenv("HVDLITE_CHUNK_BYTES", chunk, 1);
    const hvdlite::Environment environment;
    const auto world = environment.world();
    REQUIRE(world.size() > 1);
    REQUIRE(world.backend_name() == "mpi");
    const int n = world.size();
    const auto first = hvdlite::user_op{"first", [](auto a, auto) { return a; }, 0};
    for (const std::size_t count : {1u, 9u, 131u, 1031u, 4099u, 20011u}) {
      floats x = numbered(world.rank(), count), expected(count);
      for (int r = 0; r < n; ++r) {
        const floats theirs = numbered(r, count);
        for (std::size_t i = 0; i < count; ++i) expected[i] += theirs[i];
      }
      hvdlite::allreduce(world, x, hvdlite::sum{});
      CHECK(x == expected);
      x = numbered(world.rank(), count);
      hvdlite::allreduce(world, x, first);
      CHECK(x == numbered(0, count));
      for (int root = 0; root < n; ++root) {
        x = numbered(world.rank(), count);
        hvdlite::broadcast(world, x, root);
        CHECK(x == numbered(root, count));
      }
      x.assign(count, static_cast<float>(world.rank()));
      hvdlite::allreduce(world, x, {.samples = world.rank()});
      float mean = 0, total = 0;
      for (int r = 0; r < n; ++r) {
        mean += static_cast<float>(r * r);
        total += static_cast<float>(r);
      }
      CHECK(x == floats(count, mean / total));
    }
  }
}

TEST_CASE("the order of a sum over MPI, without checks, too") {
  for (const char* checks : {"on", "off"}) {
    setenv("HVDLITE_CHECKS", checks, 1);
    const hvdlite::Environment environment;
    const auto world = environment.world();
    if (world.size() != 3) continue;
    // (1e8 + 1) - 1e8 is not what 1 + (1e8 - 1e8) is.
    const float mine[] = {1e8f, 1.0f, -1e8f};
    for (const std::size_t count : {1u, 2000u, 20011u}) {
      floats x(count, mine[world.rank()]);
      hvdlite::allreduce(world, x, hvdlite::sum{});
      CHECK(x == floats(count, (1e8f + 1.0f) - 1e8f));
    }
  }
  unsetenv("HVDLITE_CHECKS");
}
