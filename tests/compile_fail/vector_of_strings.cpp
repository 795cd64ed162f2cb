// SPDX-License-Identifier: Apache-2.0
// Strings are no numbers.
// expect: hvdlite: this type is not a tensor
#include <hvdlite/hvdlite.hpp>

#include <string>
#include <vector>

void mistake(hvdlite::Environment& env) {
  auto world = env.world();
#ifdef CONTROL
  std::vector<double> x(4);
  hvdlite::allreduce(world, x, hvdlite::sum{});
#else
  std::vector<std::string> x(4);
  hvdlite::allreduce(world, x, hvdlite::sum{});
#endif
}
