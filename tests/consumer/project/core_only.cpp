// SPDX-License-Identifier: Apache-2.0
// Linked with hvdlite::core alone: no third party, whatever the compiler could find; threads work.
#include <hvdlite/hvdlite.hpp>

static_assert(HVDLITE_WITH_MPI == 0 && HVDLITE_WITH_EIGEN == 0);

int main() {
  hvdlite::launch(3, [](auto& world) {
    int sum = world.rank();
    hvdlite::allreduce(world, sum, hvdlite::sum{});
    if (sum != 3) throw hvdlite::usage_error("0 + 1 + 2 is 3");
  });
}
