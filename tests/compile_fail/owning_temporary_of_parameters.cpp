// SPDX-License-Identifier: Apache-2.0
// A function that returns a copy of the parameters, where references were meant.
// expect: hvdlite: the result would be lost with this temporary
#include <hvdlite/hvdlite.hpp>

#include <vector>

struct model {
  std::vector<std::vector<float>> tensors;
#ifdef CONTROL
  std::vector<std::vector<float>>& parameters() { return tensors; }
#else
  std::vector<std::vector<float>> parameters() { return tensors; }
#endif
};

void mistake(hvdlite::Environment& env, model& m) {
  auto world = env.world();
  hvdlite::broadcast_parameters(world, m.parameters());
}
