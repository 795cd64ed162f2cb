// SPDX-License-Identifier: Apache-2.0
// An optimizer that is wrapped once more.
// expect: hvdlite: this optimizer is a DistributedOptimizer already: use it as it is
#include <hvdlite/hvdlite.hpp>

#include <utility>
#include <vector>

void mistake(hvdlite::Environment& env, std::vector<float>& w, std::vector<float>& dw) {
  auto world = env.world();
  hvdlite::DistributedOptimizer<hvdlite::Sgd, float> once{world, {.learning_rate = 0.1}};
#ifdef CONTROL
  once.step(w, dw);
#else
  hvdlite::DistributedOptimizer<decltype(once), float> twice{world, std::move(once)};
  twice.step(w, dw);
#endif
}
