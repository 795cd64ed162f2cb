// SPDX-License-Identifier: Apache-2.0
// The result would be lost with the temporary.
// expect: hvdlite: the result would be lost with this temporary
#include <hvdlite/hvdlite.hpp>

#include <vector>

void mistake(hvdlite::Environment& env) {
  auto world = env.world();
#ifdef CONTROL
  std::vector<float> x(4);
  hvdlite::allreduce(world, x, hvdlite::sum{});
#else
  hvdlite::allreduce(world, std::vector<float>(4), hvdlite::sum{});
#endif
}
