// SPDX-License-Identifier: Apache-2.0
// A pointer does not say how many elements it points to.
// expect: hvdlite: a pointer does not say how many elements it points to
#include <hvdlite/hvdlite.hpp>

void mistake(hvdlite::Environment& env) {
  auto world = env.world();
#ifdef CONTROL
  hvdlite::DistributedOptimizer<hvdlite::Sgd, hvdlite::buffer<float>> opt{world, {}};
#else
  hvdlite::DistributedOptimizer<hvdlite::Sgd, float*> opt{world, {}};
#endif
}
