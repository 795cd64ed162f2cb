// SPDX-License-Identifier: Apache-2.0
// A type that no tensor_traits knows.
// expect: hvdlite: this type is not a tensor: specialise hvdlite::tensor_traits for it
#include <hvdlite/hvdlite.hpp>

struct Weights {
  float values[4];
};
#ifdef CONTROL
template <>
struct hvdlite::tensor_traits<Weights> {
  static auto view(auto& w) { return hvdlite::buffer{w.values, 4}; }
};
#endif

void mistake(hvdlite::Environment& env) {
  auto world = env.world();
#ifdef CONTROL
  Weights weights{};
  hvdlite::allreduce(world, weights, hvdlite::sum{});
#else
  Weights weights{};
  hvdlite::allreduce(world, weights, hvdlite::sum{});
#endif
}
