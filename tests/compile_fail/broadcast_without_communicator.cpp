// SPDX-License-Identifier: Apache-2.0
// Whose ranks?
// expect: hvdlite: the first argument is no communicator
#include <hvdlite/hvdlite.hpp>

#include <vector>

void mistake([[maybe_unused]] hvdlite::Environment& env, std::vector<float>& x) {
#ifdef CONTROL
  hvdlite::broadcast(env.world(), x);
#else
  hvdlite::broadcast(x);
#endif
}
