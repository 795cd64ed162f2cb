// SPDX-License-Identifier: Apache-2.0
// The feature macros have a value whatever the compiler found, and strict functions give the bits
// of separate products and sums.
#include <doctest/doctest.h>

#include <hvdlite/core/config.hpp>

#if !defined(HVDLITE_WITH_MPI) || !defined(HVDLITE_WITH_EIGEN)
#error "a feature macro has no value"
#endif
static_assert(HVDLITE_WITH_MPI == 0 || HVDLITE_WITH_MPI == 1);
static_assert(HVDLITE_WITH_EIGEN == 0 || HVDLITE_WITH_EIGEN == 1);

namespace {

HVDLITE_STRICT_FP float product_plus(float a, float b, float c) {
  HVDLITE_STRICT_FP_BODY
  return a * b + c;
}

}  // namespace

TEST_CASE("a strict function rounds the product before it adds") {
  // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: the last term is a tie, and goes away with the rounding.
  const float x = 1 + 0x1p-12f;
  const float expected = 0;
  const float fused = 0x1p-24f;
  const float strict = product_plus(x, x, -(1 + 0x1p-11f));
  CHECK(strict == expected);
  CHECK(strict != fused);
}
