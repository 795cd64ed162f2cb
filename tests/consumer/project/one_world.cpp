// SPDX-License-Identifier: Apache-2.0
// Two translation units and a library with hidden symbols agree about the current world and about
// what is thrown.
#include "one_world.hpp"

#include <hvdlite/horovod.hpp>
#include <hvdlite/hvdlite.hpp>

#include <cstdio>
#include <cstdlib>

void expect(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "one_world: %s\n", what);
  std::exit(1);
}

int main() {
  hvdlite::launch(3, [](auto& world) {
    expect(hvdlite::horovod::rank() == world.rank(), "rank here");
    expect(second_rank() == world.rank(), "rank in the second translation unit");
    expect(plugin_rank() == world.rank(), "rank in the library");

    // The verbs of all three pair with one another.
    int sum = world.rank();
    if (world.rank() == 0) {
      hvdlite::allreduce(world, sum, hvdlite::sum{});
    } else {
      sum = world.rank() == 1 ? second_sum(sum) : plugin_sum(sum);
    }
    expect(sum == 3, "a sum over the three");

    try {
      plugin_throw();
    } catch (const hvdlite::usage_error&) {
      return;
    }
    expect(false, "an error of the library is caught by its class");
  });
}
