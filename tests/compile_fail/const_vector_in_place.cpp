// SPDX-License-Identifier: Apache-2.0
// A const vector cannot be reduced in place; out of place it can be read.
// expect: hvdlite: the result would be written to const elements
#include <hvdlite/hvdlite.hpp>

#include <vector>

void mistake(hvdlite::Environment& env) {
  auto world = env.world();
#ifdef CONTROL
  const std::vector<float> x(4);
  std::vector<float> y(4);
  hvdlite::allreduce(world, x, y, hvdlite::sum{});
#else
  const std::vector<float> x(4);
  hvdlite::allreduce(world, x, hvdlite::sum{});
#endif
}
