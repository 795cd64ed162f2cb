// SPDX-License-Identifier: Apache-2.0
// Tests of optim/clip.hpp: norms against plain sums, what is not finite, sets of every structure.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <hvdlite/core/element.hpp>
#include <hvdlite/core/error.hpp>
#include <hvdlite/optim/clip.hpp>
#include <hvdlite/tensor/std.hpp>

namespace {
using hvdlite::by_value;
using hvdlite::global_norm;
using doubles = std::vector<double>;
using floats = std::vector<float>;
constexpr double inf = std::numeric_limits<double>::infinity();
}  // namespace

TEST_CASE("clip: one factor for the whole set, in place, whatever its structure") {
  floats a{3, 0};
  double b = 4;
  floats* none = nullptr;
  std::optional<floats> some = floats{12};
  floats empty;
  CHECK(hvdlite::clip(std::tie(a, b, none, some, empty), global_norm{6.5}) == 13);
  CHECK(a == floats{1.5f, 0});
  CHECK(b == 2);
  CHECK(*some == floats{6});
  CHECK(hvdlite::clip(std::tie(a, b, some), global_norm{6.5}) == 6.5);  // as it is
  CHECK(b == 2);
  CHECK(hvdlite::clip(std::tie(a, b, some), global_norm{inf}) == 6.5);
  CHECK(hvdlite::clip(a, global_norm{0}) == 1.5);
  CHECK(a == floats{0, 0});

  std::map<std::string, doubles> named{{"x", {1, -3}}, {"y", {0.5}}};
  CHECK(hvdlite::clip(named, by_value{2}) == 3);
  CHECK(named == std::map<std::string, doubles>{{"x", {1, -2}}, {"y", {0.5}}});
  // A view: its neighbours stay.
  doubles memory{1, 100, 2, 100, 2};
  CHECK(hvdlite::clip(hvdlite::strided_buffer<double>{memory.data(), {3}, {2}}, global_norm{1}) ==
        3);
  CHECK(memory == doubles{1 * (1.0 / 3), 100, 2 * (1.0 / 3), 100, 2 * (1.0 / 3)});
}

TEST_CASE("clip: the norm is summed in double, in one order, at every length") {
  for (const std::size_t n : {0u, 1u, 7u, 8u, 9u, 1000u}) {
    doubles x(n);
    long double sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = std::sin(static_cast<double>(i));
      sum += static_cast<long double>(x[i]) * x[i];
    }
    const double norm = hvdlite::clip(x, global_norm{inf});
    CHECK(std::abs(norm - static_cast<double>(std::sqrt(sum))) <= 1e-14 * norm);
  }
  floats many(1 << 20, 1e-4f);  // in float the sum would stop growing
  many[0] = 100;
  const double norm = hvdlite::clip(many, global_norm{inf});
  CHECK(std::abs(norm - std::sqrt(1e4 + 1048575 * 1e-8)) < 1e-7);
  std::vector<hvdlite::float16> halves(4, hvdlite::float16{30000.0f});
  CHECK(hvdlite::clip(halves, global_norm{30000}) == 60000);
  CHECK(float{halves[3]} == 15000);
}

TEST_CASE("clip: squares may leave the range of double, the norm does not") {
  doubles huge{3e200, 4e200};
  CHECK(std::abs(hvdlite::clip(huge, global_norm{1}) / 5e200 - 1) < 1e-15);
  CHECK(std::abs(huge[0] - 0.6) < 1e-15);
  doubles tiny{3e-200, 4e-200};
  CHECK(std::abs(hvdlite::clip(tiny, global_norm{1e-200}) / 5e-200 - 1) < 1e-15);
  CHECK(std::abs(tiny[1] / 0.8e-200 - 1) < 1e-15);
  const double least = std::numeric_limits<double>::denorm_min();
  doubles denormal{3 * least, 4 * least};
  CHECK(hvdlite::clip(denormal, global_norm{1}) == 5 * least);
  doubles zeros(5);
  CHECK(hvdlite::clip(zeros, global_norm{1}) == 0);
}

TEST_CASE("clip: NaN and infinity are returned, and stay") {
  const double nan = std::nan("");
  doubles x{1, inf, 2};
  CHECK(hvdlite::clip(x, global_norm{1}) == inf);
  CHECK(x == doubles{1, inf, 2});
  CHECK(hvdlite::clip(x, by_value{1}) == inf);
  CHECK(x == doubles{1, inf, 1});
  doubles y{inf, nan, 5}, z{1};
  CHECK(std::isnan(hvdlite::clip(std::tie(y, z), global_norm{1})));
  CHECK(y[2] == 5);
  CHECK(std::isnan(hvdlite::clip(std::tie(y, z), by_value{1})));
  CHECK(y[0] == inf);
  CHECK(std::isnan(y[1]));
  CHECK(y[2] == 1);
}

TEST_CASE("clip: limits without sense are refused") {
  doubles x{1};
  CHECK_THROWS_AS(hvdlite::clip(x, global_norm{-1}), hvdlite::usage_error);
  CHECK_THROWS_AS(hvdlite::clip(x, by_value{std::nan("")}), hvdlite::usage_error);
  CHECK(x == doubles{1});
}
