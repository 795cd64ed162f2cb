// SPDX-License-Identifier: Apache-2.0
// bool has logical_and and logical_or only.
// expect: hvdlite: this op is not defined for bool: use logical_and or logical_or
#include <hvdlite/hvdlite.hpp>

void mistake(hvdlite::Environment& env) {
  auto world = env.world();
#ifdef CONTROL
  bool x = true;
  hvdlite::allreduce(world, x, hvdlite::logical_or{});
#else
  bool x = true;
  hvdlite::allreduce(world, x, hvdlite::sum{});
#endif
}
