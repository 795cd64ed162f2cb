// SPDX-License-Identifier: Apache-2.0
// std::vector<bool> packs bits: it has no bool elements to point to.
// expect: hvdlite: std::vector<bool> has no elements in memory
#include <hvdlite/hvdlite.hpp>

#include <array>
#include <vector>

void mistake(hvdlite::Environment& env) {
  auto world = env.world();
#ifdef CONTROL
  std::array<bool, 4> x{};
  hvdlite::allreduce(world, x, hvdlite::logical_or{});
#else
  std::vector<bool> x(4);
  hvdlite::allreduce(world, x, hvdlite::logical_or{});
#endif
}
