// SPDX-License-Identifier: Apache-2.0
// A list has no contiguous memory.
// expect: hvdlite: this type is not a tensor
#include <hvdlite/hvdlite.hpp>

#include <list>
#include <vector>

void mistake(hvdlite::Environment& env) {
  auto world = env.world();
#ifdef CONTROL
  std::vector<float> x(4);
  hvdlite::allreduce(world, x, hvdlite::sum{});
#else
  std::list<float> x(4);
  hvdlite::allreduce(world, x, hvdlite::sum{});
#endif
}
