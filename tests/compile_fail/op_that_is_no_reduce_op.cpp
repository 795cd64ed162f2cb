// SPDX-License-Identifier: Apache-2.0
// std::plus has no identity and no name that ranks could compare.
// expect: hvdlite: the third argument is neither an op
#include <hvdlite/hvdlite.hpp>

#include <functional>

void mistake(hvdlite::Environment& env) {
  auto world = env.world();
#ifdef CONTROL
  float x = 1;
  hvdlite::allreduce(world, x, hvdlite::user_op{"plus", std::plus<float>{}, 0.0f});
#else
  float x = 1;
  hvdlite::allreduce(world, x, std::plus<float>{});
#endif
}
