// SPDX-License-Identifier: Apache-2.0
// A verb takes one tensor.
// expect: hvdlite: these are several tensors
#include <hvdlite/hvdlite.hpp>

#include <tuple>
#include <vector>

void mistake(hvdlite::Environment& env, std::vector<float>& w, std::vector<float>& b) {
#ifdef CONTROL
  hvdlite::allreduce(env.world(), w);
  hvdlite::allreduce(env.world(), b);
#else
  hvdlite::allreduce(env.world(), std::tie(w, b));
#endif
}
