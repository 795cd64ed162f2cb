// SPDX-License-Identifier: Apache-2.0
// Whose ranks?
// expect: hvdlite: the first argument is no communicator
#include <hvdlite/hvdlite.hpp>

#include <vector>

void mistake([[maybe_unused]] hvdlite::Environment& env, std::vector<float>& x) {
#ifdef CONTROL
  hvdlite::allreduce(env.world(), x, hvdlite::sum{});
#else
  hvdlite::allreduce(x, hvdlite::sum{});
#endif
}
