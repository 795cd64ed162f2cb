// SPDX-License-Identifier: Apache-2.0
// A norm has no meaning for what is counted.
// expect: hvdlite: clip needs floating-point elements
#include <hvdlite/hvdlite.hpp>

#include <vector>

void mistake() {
#ifdef CONTROL
  std::vector<float> gradient(3);
#else
  std::vector<int> gradient(3);
#endif
  hvdlite::clip(gradient, hvdlite::global_norm{1});
}
