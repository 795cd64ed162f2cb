// SPDX-License-Identifier: Apache-2.0
// Gradients that the averages could not be written to.
// expect: hvdlite: the reduced gradients are written to the gradients: pass writable
#include <hvdlite/hvdlite.hpp>

#include <tuple>
#include <vector>

void mistake(hvdlite::Environment& env, std::vector<float>& w, float& b) {
  auto world = env.world();
  hvdlite::DistributedOptimizer<hvdlite::Sgd, float> opt{world, {.learning_rate = 0.1}};
#ifdef CONTROL
  std::vector<float> dw(w.size());
#else
  const std::vector<float> dw(w.size());
#endif
  float db = 0;
  opt.synchronize(std::tie(w, b), std::tie(dw, db));
}
