// SPDX-License-Identifier: Apache-2.0
// The 16-bit floats, exhaustively and against rounding by the book, and the names of element types.
#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>

#include <hvdlite/core/element.hpp>

using hvdlite::bfloat16;
using hvdlite::dtype;
using hvdlite::dtype_of;
using hvdlite::float16;

namespace {

constexpr std::uint32_t all_bits = 1u << 16;

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

// A 16-bit format by the book: sign, `exponent` bits, `mantissa` bits.
struct format {
  int exponent, mantissa;
  int bias() const { return (1 << (exponent - 1)) - 1; }

  long double value(std::uint16_t bits) const {  // of what is finite
    const int e = (bits >> mantissa) & ((1 << exponent) - 1);
    const int m = bits & ((1 << mantissa) - 1);
    const long double magnitude =
        e == 0 ? std::ldexp(static_cast<long double>(m), 1 - bias() - mantissa)
               : std::ldexp(static_cast<long double>(m + (1 << mantissa)), e - bias() - mantissa);
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
  }
  std::uint16_t infinity() const {
    return static_cast<std::uint16_t>(((1 << exponent) - 1) << mantissa);
  }
  bool is_nan(std::uint16_t bits) const { return (bits & 0x7fff) > infinity(); }

  // The nearest number of the format to a float that is no NaN, ties to even.
  std::uint16_t nearest(float x) const {
    const auto sign = static_cast<std::uint16_t>(std::signbit(x) ? 0x8000 : 0);
    const long double magnitude = std::fabs(static_cast<long double>(x));
    if (magnitude == 0) return sign;
    if (std::isinf(x)) return static_cast<std::uint16_t>(sign | infinity());
    const int lowest = 1 - bias();
    const int e = (std::max)(std::ilogb(magnitude), lowest);
    // In units of the last place; the default rounding mode is to nearest, ties to even.
    const auto units = static_cast<long>(std::nearbyint(std::ldexp(magnitude, mantissa - e)));
    // A carry out of the mantissa goes into the exponent by itself, up to infinity.
    const long bits = ((e - lowest) * (1l << mantissa)) + units;
    return static_cast<std::uint16_t>(sign | (std::min)(bits, static_cast<long>(infinity())));
  }
};

constexpr format half{5, 10};
constexpr format bfloat{8, 7};

template <class F>
constexpr const format& format_of = std::is_same_v<F, float16> ? half : bfloat;

}  // namespace

TEST_CASE_TEMPLATE("all 65536 patterns to float", F, float16, bfloat16) {
  const format& book = format_of<F>;
  int wrong = 0, nans = 0;
  for (std::uint32_t i = 0; i < all_bits; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const F x = F::from_bits(bits);
    if (x.bits() != bits) ++wrong;
    const float wide = x;
    if (std::signbit(wide) != ((bits & 0x8000) != 0)) ++wrong;
    if (book.is_nan(bits)) {
      ++nans;
      if (!std::isnan(wide)) ++wrong;
    } else if ((bits & 0x7fff) == book.infinity()) {
      if (!std::isinf(wide)) ++wrong;
    } else if (static_cast<long double>(wide) != book.value(bits)) {
      ++wrong;
    }
  }
  CHECK(wrong == 0);
  CHECK(nans == 2 * ((1 << book.mantissa) - 1));
}

TEST_CASE_TEMPLATE("to float and back: the same bits, a NaN quiet with its payload", F, float16,
                   bfloat16) {
  const format& book = format_of<F>;
  const auto quiet = static_cast<std::uint16_t>(1 << (book.mantissa - 1));
  int wrong = 0;
  for (std::uint32_t i = 0; i < all_bits; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const F back{static_cast<float>(F::from_bits(bits))};
    const auto expected = static_cast<std::uint16_t>(book.is_nan(bits) ? bits | quiet : bits);
    if (back.bits() != expected) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("rounding: every number, every tie, and the floats next to each", F, float16,
                   bfloat16) {
  const format& book = format_of<F>;
  int wrong = 0, ties = 0;
  std::uint32_t example = 0;
  const auto check = [&](float x) {
    for (const float signed_x : {x, -x})
      if (F{signed_x}.bits() != book.nearest(signed_x)) {
        ++wrong;
        example = bits_of(signed_x);
      }
  };
  for (std::uint16_t bits = 0; bits < book.infinity(); ++bits) {
    const long double here = book.value(bits);
    // One above the largest number is what its successor would be, were it not infinity.
    const long double next = bits + 1 < book.infinity()
                                 ? book.value(static_cast<std::uint16_t>(bits + 1))
                                 : std::ldexp(1.0L, book.bias() + 1);
    const auto tie = static_cast<float>((here + next) / 2);
    for (const float x : {static_cast<float>(here), tie}) {
      check(x);
      check(std::nextafter(x, 0.0f));
      check(std::nextafter(x, std::numeric_limits<float>::infinity()));
    }
    if (static_cast<long double>(tie) == (here + next) / 2 && !std::isinf(tie)) {
      ++ties;
      // The even neighbour, which the pattern's last bit tells.
      const std::uint16_t even = static_cast<std::uint16_t>((bits & 1) == 0 ? bits : bits + 1);
      if (F{tie}.bits() != even) ++wrong;
    }
  }
  CAPTURE(example);
  CHECK(wrong == 0);
  CHECK(ties > 30'000);  // the smallest ties of bfloat16 lie between two floats
}

TEST_CASE_TEMPLATE("rounding: floats from everywhere", F, float16, bfloat16) {
  const format& book = format_of<F>;
  std::mt19937 random{1};
  int wrong = 0, nans = 0;
  std::uint32_t example = 0;
  for (int i = 0; i < 300'000; ++i) {
    std::uint32_t bits = static_cast<std::uint32_t>(random());
    // Half of them in the range of binary16, where most rounding happens.
    if (i % 2 == 0) bits = (bits & 0x80ffffffu) | ((0x32u + (bits >> 24 & 0x1f) % 0x16u) << 24);
    const float x = from_bits(bits);
    const F rounded{x};
    if (std::isnan(x)) {
      ++nans;
      if (!std::isnan(static_cast<float>(rounded)) ||
          std::signbit(x) != ((rounded.bits() & 0x8000) != 0))
        ++wrong;
    } else if (rounded.bits() != book.nearest(x)) {
      ++wrong;
      example = bits;
    }
  }
  CAPTURE(example);
  CHECK(wrong == 0);
  CHECK(nans > 100);
}

TEST_CASE_TEMPLATE("a NaN stays a quiet NaN whatever its payload, with its sign", F, float16,
                   bfloat16) {
  const format& book = format_of<F>;
  const auto quiet = static_cast<std::uint16_t>(1 << (book.mantissa - 1));
  int wrong = 0;
  const auto check = [&](std::uint32_t payload) {
    for (const std::uint32_t sign : {0u, 0x80000000u}) {
      const std::uint16_t bits = F{from_bits(sign | 0x7f800000u | payload)}.bits();
      if (!book.is_nan(bits) || (bits & quiet) == 0 || (bits >> 15) != (sign >> 31)) ++wrong;
    }
  };
  for (std::uint32_t payload = 1; payload < (1u << 23); payload += 61) check(payload);
  for (int bit = 0; bit < 23; ++bit) check(1u << bit);  // the low ones are cut off
  check((1u << 23) - 1);
  CHECK(wrong == 0);
}

TEST_CASE("landmarks of float16") {
  CHECK(float16{0.0f}.bits() == 0x0000);
  CHECK(float16{-0.0f}.bits() == 0x8000);
  CHECK(float16{1.0f}.bits() == 0x3c00);
  CHECK(float16{-2.0f}.bits() == 0xc000);
  CHECK(float16{65504.0f}.bits() == 0x7bff);    // the largest
  CHECK(float16{65519.996f}.bits() == 0x7bff);  // rounds down to it
  CHECK(float16{65520.0f}.bits() == 0x7c00);    // a tie with infinity, which is even
  CHECK(float16{-65520.0f}.bits() == 0xfc00);
  CHECK(float16{1e30f}.bits() == 0x7c00);
  CHECK(float16{0x1p-14f}.bits() == 0x0400);  // the smallest normal
  CHECK(float16{0x1p-24f}.bits() == 0x0001);  // the smallest of all
  CHECK(float16{0x1p-25f}.bits() == 0x0000);  // a tie with zero, which is even
  CHECK(float16{-0x1p-25f}.bits() == 0x8000);
  CHECK(float16{0x1.000002p-25f}.bits() == 0x0001);
  CHECK(float16{0x1.8p-24f}.bits() == 0x0002);    // 1.5 units: to even
  CHECK(float16{0x1p-149f}.bits() == 0x0000);     // the smallest float
  CHECK(float16{1 + 0x1p-11f}.bits() == 0x3c00);  // ties go to even, down ...
  CHECK(float16{1 + 0x3p-11f}.bits() == 0x3c02);  // ... and up
  CHECK(float16{std::numeric_limits<float>::infinity()}.bits() == 0x7c00);
  CHECK(float16{-std::numeric_limits<float>::infinity()}.bits() == 0xfc00);
}

TEST_CASE("landmarks of bfloat16") {
  CHECK(bfloat16{0.0f}.bits() == 0x0000);
  CHECK(bfloat16{-0.0f}.bits() == 0x8000);
  CHECK(bfloat16{1.0f}.bits() == 0x3f80);
  CHECK(bfloat16{-2.0f}.bits() == 0xc000);
  CHECK(bfloat16{1 + 0x1p-8f}.bits() == 0x3f80);  // ties go to even, down ...
  CHECK(bfloat16{1 + 0x3p-8f}.bits() == 0x3f82);  // ... and up
  CHECK(bfloat16{(std::numeric_limits<float>::max)()}.bits() == 0x7f80);  // rounds to infinity
  CHECK(bfloat16{from_bits(0x7f7f7fffu)}.bits() == 0x7f7f);
  CHECK(bfloat16{from_bits(0x7f7f8000u)}.bits() == 0x7f80);
  CHECK(bfloat16{from_bits(0x00000001u)}.bits() == 0x0000);
  CHECK(bfloat16{from_bits(0x00008001u)}.bits() == 0x0001);
  CHECK(bfloat16{from_bits(0x7f800001u)}.bits() == 0x7fc0);  // a NaN, not infinity
  CHECK(bfloat16{from_bits(0xffffffffu)}.bits() == 0xffff);
}

TEST_CASE("conversions are constant expressions, and none is implicit that loses bits") {
  static_assert(float16{1.5f}.bits() == 0x3e00);
  static_assert(static_cast<float>(float16::from_bits(0x0001)) == 0x1p-24f);
  static_assert(bfloat16{1.5f}.bits() == 0x3fc0);
  static_assert(static_cast<float>(bfloat16::from_bits(0x3fc0)) == 1.5f);
  static_assert(!std::is_convertible_v<float, float16> && !std::is_convertible_v<float, bfloat16>);
  static_assert(std::is_convertible_v<float16, float> && std::is_convertible_v<bfloat16, float>);
  static_assert(std::is_trivially_copyable_v<float16> && sizeof(float16) == 2);
  static_assert(std::is_trivially_copyable_v<bfloat16> && sizeof(bfloat16) == 2);
  static_assert(std::is_trivially_default_constructible_v<float16>);  // arrays cost nothing
}

namespace {

template <class T, class Canonical, dtype Name>
constexpr bool is_element =
    hvdlite::element<T> && hvdlite::element<const T> &&
    std::is_same_v<hvdlite::canonical_t<T>, Canonical> &&
    std::is_same_v<hvdlite::canonical_t<const T>, Canonical> && dtype_of<T>() == Name;

static_assert(is_element<std::int8_t, std::int8_t, dtype::i8>);
static_assert(is_element<std::int16_t, std::int16_t, dtype::i16>);
static_assert(is_element<std::int32_t, std::int32_t, dtype::i32>);
static_assert(is_element<std::int64_t, std::int64_t, dtype::i64>);
static_assert(is_element<std::uint8_t, std::uint8_t, dtype::u8>);
static_assert(is_element<std::uint16_t, std::uint16_t, dtype::u16>);
static_assert(is_element<std::uint32_t, std::uint32_t, dtype::u32>);
static_assert(is_element<std::uint64_t, std::uint64_t, dtype::u64>);
// The standard's own names, whichever of them the fixed-width ones are not.
static_assert(is_element<int, std::int32_t, dtype::i32>);
static_assert(is_element<long long, std::int64_t, dtype::i64>);
static_assert(is_element<unsigned long long, std::uint64_t, dtype::u64>);
static_assert(sizeof(long) != 8 || is_element<long, std::int64_t, dtype::i64>);
static_assert(is_element<signed char, std::int8_t, dtype::i8>);
static_assert(is_element<unsigned char, std::uint8_t, dtype::u8>);
static_assert(!std::is_signed_v<char> || is_element<char, std::int8_t, dtype::i8>);
static_assert(is_element<bool, bool, dtype::boolean>);
static_assert(is_element<float16, float16, dtype::f16>);
static_assert(is_element<bfloat16, bfloat16, dtype::bf16>);
static_assert(is_element<float, float, dtype::f32>);
static_assert(is_element<double, double, dtype::f64>);
static_assert(is_element<std::complex<float>, std::complex<float>, dtype::c64>);
static_assert(is_element<std::complex<double>, std::complex<double>, dtype::c128>);

enum class scoped : int {};
struct structure {
  float x;
};
static_assert(!hvdlite::element<long double> && !hvdlite::element<std::complex<long double>>);
static_assert(!hvdlite::element<std::byte> && !hvdlite::element<scoped>);
static_assert(!hvdlite::element<structure> && !hvdlite::element<std::string>);
static_assert(!hvdlite::element<float*> && !hvdlite::element<float&> && !hvdlite::element<void>);
static_assert(!hvdlite::element<float[2]>);

static_assert(hvdlite::is_integer_v<int> && !hvdlite::is_integer_v<bool>);
static_assert(hvdlite::is_floating_v<float16> && hvdlite::is_floating_v<double>);
static_assert(!hvdlite::is_floating_v<int> && !hvdlite::is_floating_v<std::complex<float>>);
static_assert(hvdlite::is_complex_v<std::complex<double>> && !hvdlite::is_complex_v<double>);

// A foreign type that says it is one of ours, and one that says so and has another size.
struct foreign_half {
  std::uint16_t bits;
};
struct foreign_wide {
  std::uint32_t bits;
};

}  // namespace

template <>
struct hvdlite::element_traits<foreign_half> {
  using canonical = hvdlite::float16;
};
template <>
struct hvdlite::element_traits<foreign_wide> {
  using canonical = hvdlite::float16;
};

static_assert(is_element<foreign_half, float16, dtype::f16>);
static_assert(!hvdlite::element<foreign_wide>);

TEST_CASE("every dtype has a name of its own") {
  constexpr std::array types{dtype::none, dtype::i8,      dtype::i16, dtype::i32,
                             dtype::i64,  dtype::u8,      dtype::u16, dtype::u32,
                             dtype::u64,  dtype::boolean, dtype::f16, dtype::bf16,
                             dtype::f32,  dtype::f64,     dtype::c64, dtype::c128};
  constexpr std::array<std::string_view, types.size()> names{
      "none", "i8",   "i16", "i32",  "i64", "u8",  "u16", "u32",
      "u64",  "bool", "f16", "bf16", "f32", "f64", "c64", "c128"};
  std::set<std::string_view> seen;
  for (std::size_t i = 0; i < types.size(); ++i) {
    CHECK(hvdlite::dtype_name(types[i]) == names[i]);
    seen.insert(hvdlite::dtype_name(types[i]));
  }
  CHECK(seen.size() == types.size());
}

TEST_CASE_TEMPLATE("finite, infinite and NaN by the bits", F, float, double) {
  using L = std::numeric_limits<F>;
  for (const F sign : {F{1}, F{-1}}) {
    for (const F x : {F{0}, L::denorm_min(), L::min(), F{1}, L::max()}) {
      CHECK(hvdlite::detail::is_finite(sign * x));
      CHECK(!hvdlite::detail::is_nan(sign * x));
    }
    CHECK(!hvdlite::detail::is_finite(sign * L::infinity()));
    CHECK(!hvdlite::detail::is_nan(sign * L::infinity()));
    for (const F x : {L::quiet_NaN(), L::signaling_NaN()}) {
      CHECK(!hvdlite::detail::is_finite(std::copysign(x, sign)));
      CHECK(hvdlite::detail::is_nan(std::copysign(x, sign)));
    }
  }
}
