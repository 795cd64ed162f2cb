// SPDX-License-Identifier: Apache-2.0
// A span of const elements cannot be reduced in place.
// expect: hvdlite: the result would be written to const elements
#include <hvdlite/hvdlite.hpp>

#include <span>
#include <vector>

void mistake(hvdlite::Environment& env) {
  auto world = env.world();
#ifdef CONTROL
  std::vector<float> values(4);
  hvdlite::allreduce(world, std::span<float>(values), hvdlite::sum{});
#else
  std::vector<float> values(4);
  hvdlite::allreduce(world, std::span<const float>(values), hvdlite::sum{});
#endif
}
