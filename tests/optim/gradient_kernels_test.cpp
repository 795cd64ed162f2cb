// SPDX-License-Identifier: Apache-2.0
// Tests of optim/gradient_kernels.hpp: the table has every loop for real numbers, and none for
// others.
#include "support/ranks.hpp"

#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include <hvdlite/core/element.hpp>
#include <hvdlite/optim/distributed_optimizer.hpp>
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

namespace {
struct plain {
  template <class T>
  void update(std::size_t, std::span<T> p, std::span<const T> g) {
    for (std::size_t i = 0; i < p.size(); ++i) p[i] -= g[i];
  }
};
}  // namespace

TEST_CASE_TEMPLATE("gradient_kernels: other elements step and synchronize, and refuse the rest", T,
                   int, long, std::complex<float>) {
  hvdtest::on_every_world([](const auto& world) {
    using hvdlite::DistributedOptimizer;
    const int n = world.size();
    std::vector<T> p(3, T(10)), g(3, T(static_cast<float>(2 * world.rank())));
    DistributedOptimizer<plain, T> opt{world, plain{}};
    opt.step(p, g);
    CHECK(p == std::vector<T>(3, T(static_cast<float>(10 - (n - 1)))));
    opt.synchronize(p, g);
    CHECK(g == std::vector<T>(3, T(static_cast<float>(n - 1))));
    opt.step(p, g);
    CHECK(p == std::vector<T>(3, T(static_cast<float>(10 - 2 * (n - 1)))));
    CHECK_THROWS_AS(static_cast<void>(opt.no_sync()), hvdlite::usage_error);
    using refused = DistributedOptimizer<plain, T>;
    CHECK_THROWS_AS((refused{world, plain{}, {.backward_passes_per_step = 2}}),
                    hvdlite::usage_error);
    CHECK_THROWS_AS((refused{world, plain{}, {.skip_nonfinite = true}}), hvdlite::usage_error);
  });
}
