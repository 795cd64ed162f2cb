// SPDX-License-Identifier: Apache-2.0
// A verb takes one tensor.
// expect: hvdlite: these are several tensors
#include <hvdlite/hvdlite.hpp>

#include <vector>

void mistake(hvdlite::Environment& env) {
  auto world = env.world();
#ifdef CONTROL
  std::vector<std::vector<float>> layers(2);
  for (auto& each : layers) hvdlite::allreduce(world, each);
#else
  std::vector<std::vector<float>> layers(2);
  hvdlite::allreduce(world, layers);
#endif
}
