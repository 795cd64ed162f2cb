// SPDX-License-Identifier: Apache-2.0
// Whose ranks?
// expect: hvdlite: the first argument is no communicator
#include <hvdlite/hvdlite.hpp>

#include <vector>

void mistake(hvdlite::Environment& env) {
  auto world = env.world();
#ifdef CONTROL
  std::vector<float> x(4);
  hvdlite::broadcast(world, x);
#else
  std::vector<float> x(4);
  (void)world;
  hvdlite::broadcast(x);
#endif
}
