// SPDX-License-Identifier: Apache-2.0
// A verb takes one tensor.
// expect: hvdlite: these are several tensors
#include <hvdlite/hvdlite.hpp>

#include <tuple>
#include <vector>

void mistake(hvdlite::Environment& env) {
  auto world = env.world();
#ifdef CONTROL
  std::vector<float> w(4), b(2);
  hvdlite::allreduce(world, w);
  hvdlite::allreduce(world, b);
#else
  std::vector<float> w(4), b(2);
  hvdlite::allreduce(world, std::tie(w, b));
#endif
}
