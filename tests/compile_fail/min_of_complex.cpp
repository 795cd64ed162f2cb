// SPDX-License-Identifier: Apache-2.0
// Complex numbers have no order.
// expect: hvdlite: this op is not defined for complex elements
#include <hvdlite/hvdlite.hpp>

#include <complex>

void mistake(hvdlite::Environment& env) {
  auto world = env.world();
#ifdef CONTROL
  std::complex<float> x{1, 2};
  hvdlite::allreduce(world, x, hvdlite::sum{});
#else
  std::complex<float> x{1, 2};
  hvdlite::allreduce(world, x, hvdlite::min{});
#endif
}
