// SPDX-License-Identifier: Apache-2.0
// Clipping writes.
// expect: hvdlite: clip writes to its tensors: pass writable ones
#include <hvdlite/hvdlite.hpp>

#include <vector>

#ifdef CONTROL
void mistake(std::vector<float>& gradient) { hvdlite::clip(gradient, hvdlite::global_norm{1}); }
#else
void mistake(const std::vector<float>& gradient) {
  hvdlite::clip(gradient, hvdlite::global_norm{1});
}
#endif
