// SPDX-License-Identifier: Apache-2.0
// What looks for NaN and infinity finds them in a program that is compiled with -ffast-math, too.
#include <doctest/doctest.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include <hvdlite/hvdlite.hpp>

namespace {

// Numbers that the compiler cannot look through, and what they are by their bits.
float from_bits(std::uint32_t bits) {
  volatile std::uint32_t hidden = bits;
  const std::uint32_t seen = hidden;
  return std::bit_cast<float>(seen);
}
double from_bits(std::uint64_t bits) {
  volatile std::uint64_t hidden = bits;
  const std::uint64_t seen = hidden;
  return std::bit_cast<double>(seen);
}
std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
bool nan_by_bits(float value) { return (bits_of(value) & 0x7fffffffu) > 0x7f800000u; }
bool nan_by_bits(double value) {
  return (std::bit_cast<std::uint64_t>(value) << 1) > (std::uint64_t{0x7ff} << 53);
}
bool infinite_by_bits(double value) {
  return (std::bit_cast<std::uint64_t>(value) << 1) == (std::uint64_t{0x7ff} << 53);
}

const float nan_f = from_bits(0x7fc00000u), infinity_f = from_bits(0x7f800000u);
const double nan_d = from_bits(std::uint64_t{0x7ff8} << 48),
             infinity_d = from_bits(std::uint64_t{0x7ff0} << 48);

// Steps of two ranks, one of which has `bad` in its gradient.
int skipped_steps(float bad) {
  std::atomic<int> skipped = 0;
  hvdlite::launch(2, [&](auto& world) {
    hvdlite::DistributedOptimizer<hvdlite::Sgd, std::vector<float>> opt{
        world, {.learning_rate = 1}, {.skip_nonfinite = true}};
    std::vector<float> w{1, 2, 3}, g{1, 1, 1};
    if (!opt.step(w, g)) std::abort();
    if (w != std::vector<float>{0, 1, 2}) std::abort();
    if (world.rank() == 1) g[2] = bad;
    if (!opt.step(w, g) && w == std::vector<float>{0, 1, 2}) ++skipped;
  });
  return skipped;
}

}  // namespace

TEST_CASE("fast math: numbers are told apart by their bits") {
  CHECK(hvdlite::detail::is_finite(from_bits(0x7f7fffffu)));
  CHECK(!hvdlite::detail::is_finite(infinity_f));
  CHECK(!hvdlite::detail::is_finite(from_bits(0xff800000u)));
  CHECK(!hvdlite::detail::is_finite(nan_f));
  CHECK(hvdlite::detail::is_nan(nan_f));
  CHECK(hvdlite::detail::is_nan(from_bits(0xff800001u)));
  CHECK(!hvdlite::detail::is_nan(infinity_f));
  CHECK(!hvdlite::detail::is_finite(infinity_d));
  CHECK(!hvdlite::detail::is_finite(nan_d));
  CHECK(hvdlite::detail::is_nan(nan_d));
  CHECK(!hvdlite::detail::is_nan(infinity_d));
}

TEST_CASE("fast math: a step with a gradient that is no number is skipped on all ranks") {
  CHECK(skipped_steps(infinity_f) == 2);
  CHECK(skipped_steps(nan_f) == 2);
}

TEST_CASE("fast math: options that are no numbers are refused") {
  CHECK_THROWS_AS((hvdlite::Sgd{{.learning_rate = nan_d}}), hvdlite::usage_error);
  CHECK_THROWS_AS((hvdlite::Sgd{{.momentum = infinity_d}}), hvdlite::usage_error);
  CHECK_THROWS_AS((hvdlite::Adam{{.learning_rate = infinity_d}}), hvdlite::usage_error);
  CHECK_THROWS_AS((hvdlite::Adam{{.beta1 = nan_d}}), hvdlite::usage_error);
  CHECK_THROWS_AS((hvdlite::AdamW{{.beta2 = nan_d}}), hvdlite::usage_error);
  std::vector<float> g{1};
  CHECK_THROWS_AS(hvdlite::clip(g, hvdlite::global_norm{nan_d}), hvdlite::usage_error);
  CHECK_THROWS_AS(hvdlite::clip(g, hvdlite::by_value{nan_d}), hvdlite::usage_error);
  hvdlite::settings set;
  CHECK(hvdlite::detail::parse_setting("HVDLITE_TIMEOUT", "nan", set) != nullptr);
  CHECK(hvdlite::detail::parse_setting("HVDLITE_TIMEOUT", "inf", set) != nullptr);
  std::atomic<int> refused = 0;
  hvdlite::launch(2, [&](auto& world) {
    std::vector<float> x{1};
    try {
      hvdlite::allreduce(world, x, {.samples = world.rank() == 1 ? nan_d : 1.0});
    } catch (const hvdlite::error&) {
      ++refused;
    }
  });
  CHECK(refused == 2);
}

TEST_CASE("fast math: clip hides nothing") {
  std::vector<float> g{3, infinity_f, nan_f, -3};
  CHECK(nan_by_bits(hvdlite::clip(g, hvdlite::by_value{2})));
  CHECK(bits_of(g[0]) == bits_of(2));
  CHECK(bits_of(g[1]) == bits_of(infinity_f));
  CHECK(nan_by_bits(g[2]));
  CHECK(bits_of(g[3]) == bits_of(-2));

  std::vector<float> large{3, infinity_f};
  CHECK(infinite_by_bits(hvdlite::clip(large, hvdlite::global_norm{1})));
  CHECK(bits_of(large[0]) == bits_of(3));
  std::vector<float> broken{3, nan_f};
  CHECK(nan_by_bits(hvdlite::clip(broken, hvdlite::global_norm{1})));
  CHECK(bits_of(broken[0]) == bits_of(3));
}

TEST_CASE("fast math: amsgrad keeps a NaN") {
  hvdlite::Adam adam{{.amsgrad = true}};
  std::vector<float> w{1}, g{nan_f};
  adam.update(0, std::span<float>{w}, std::span<const float>{g});
  CHECK(nan_by_bits(w[0]));
}

TEST_CASE("fast math: halves keep NaN and infinity, integers get neither") {
  CHECK(nan_by_bits(static_cast<float>(hvdlite::float16{nan_f})));
  CHECK(nan_by_bits(static_cast<float>(hvdlite::bfloat16{nan_f})));
  CHECK(hvdlite::float16{infinity_f}.bits() == 0x7c00);
  CHECK(hvdlite::bfloat16{infinity_f}.bits() == 0x7f80);
  CHECK(hvdlite::detail::truncate_to<std::int32_t>(nan_d) == 0);
}
