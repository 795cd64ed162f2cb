// SPDX-License-Identifier: Apache-2.0
// A verb takes one tensor.
// expect: hvdlite: these are several tensors
#include <hvdlite/hvdlite.hpp>

#include <vector>

void mistake(hvdlite::Environment& env, std::vector<std::vector<float>>& layers) {
#ifdef CONTROL
  for (auto& each : layers) hvdlite::allreduce(env.world(), each);
#else
  hvdlite::allreduce(env.world(), layers);
#endif
}
