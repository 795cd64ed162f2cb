// SPDX-License-Identifier: Apache-2.0
// A pointer does not say how many elements it points to.
// expect: hvdlite: a pointer does not say how many elements it points to
#include <hvdlite/hvdlite.hpp>

void mistake(hvdlite::Environment& env) {
  auto world = env.world();
#ifdef CONTROL
  float values[4] = {};
  float* p = values;
  hvdlite::allreduce(world, hvdlite::buffer{p, 4}, hvdlite::sum{});
#else
  float values[4] = {};
  float* p = values;
  hvdlite::allreduce(world, p, hvdlite::sum{});
#endif
}
