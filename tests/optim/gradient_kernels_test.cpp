// SPDX-License-Identifier: Apache-2.0
// Tests of optim/gradient_kernels.hpp: the table has every loop for real numbers, and none for
// others.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include <hvdlite/core/element.hpp>
#include <hvdlite/optim/gradient_kernels.hpp>

TEST_CASE_TEMPLATE("gradient_kernels: every loop", T, float, double, hvdlite::float16,
                   hvdlite::bfloat16) {
  using C = hvdlite::detail::compute_t<T>;
  constexpr auto k = hvdlite::detail::kernels_for_gradients<T>();
  CHECK(k.element_bytes == sizeof(T));
  CHECK(k.sum_bytes == sizeof(C));
  std::vector<T> g(9, static_cast<T>(2.0f));
  std::vector<C> sum(9, C(1));
  CHECK(k.finite(g.data(), 9));
  k.add(sum.data(), g.data(), 9, 3);
  CHECK(sum[8] == 7);
  k.finish(sum.data(), g.data(), 9, 0.5, 4);
  CHECK(static_cast<C>(g[8]) == 2);
  CHECK(k.squares(g.data(), 9, 0.5) == 9);
  CHECK(k.largest(g.data(), 9) == 2);
  k.scale(g.data(), 9, 4);
  k.clamp(g.data(), 9, 5);
  CHECK(static_cast<C>(g[8]) == 5);
  for (const std::size_t at : {0u, 4u, 8u})
    for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      std::vector<T> x(9, static_cast<T>(1.0f));
      x[at] = static_cast<T>(bad);
      CHECK(!k.finite(x.data(), 9));
      CHECK(k.finite(x.data(), at));
    }
}

TEST_CASE("gradient_kernels: none for integers") {
  constexpr auto k = hvdlite::detail::kernels_for_gradients<int>();
  CHECK(k.element_bytes == sizeof(int));
  CHECK((k.add == nullptr && k.finite == nullptr));
}
