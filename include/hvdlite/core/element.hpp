// SPDX-License-Identifier: Apache-2.0
// Elements of tensors: the two 16-bit floats that C++20 lacks, and dtype, the run-time name of an
// element type. Kernels and messages know dtypes only; `canonical_t` maps what users write (long,
// char, Eigen::half) onto one type per dtype.
#pragma once

#include <bit>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

#include <hvdlite/core/config.hpp>

namespace hvdlite {

namespace detail {

/// Rounds to the nearest half, ties to even; overflow becomes infinity, a NaN stays a quiet NaN.
constexpr std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)  // the top payload bits survive, the quiet bit keeps it a NaN
    return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {  // a subnormal half: add 0.5, whose last bit is 2^-24, and let
    // the adder round
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

constexpr float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu;
  const std::uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: the mantissa counts units of 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide = exponent == 31 ? 0x7f800000u : (exponent + 112) << 23;
  return std::bit_cast<float>(sign | wide | (mantissa << 13));
}

/// Rounds to the nearest bfloat16, ties to even; a NaN stays a quiet NaN.
constexpr std::uint16_t float_to_bfloat(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x0040u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace detail

/// IEEE 754 binary16. Storage only: arithmetic happens in float. Conversion from float rounds to
/// nearest, ties to even; NaN stays NaN and infinity infinity.
class float16 {
 public:
  float16() = default;
  explicit constexpr float16(float value) : bits_{detail::float_to_half(value)} {}
  constexpr operator float() const { return detail::half_to_float(bits_); }
  static constexpr float16 from_bits(std::uint16_t bits) {
    float16 result{0.0f};
    result.bits_ = bits;
    return result;
  }
  constexpr std::uint16_t bits() const { return bits_; }

 private:
  std::uint16_t bits_;
};

/// The upper half of an IEEE 754 binary32. Storage only: arithmetic happens in float.
class bfloat16 {
 public:
  bfloat16() = default;
  explicit constexpr bfloat16(float value) : bits_{detail::float_to_bfloat(value)} {}
  constexpr operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits_) << 16);
  }
  static constexpr bfloat16 from_bits(std::uint16_t bits) {
    bfloat16 result{0.0f};
    result.bits_ = bits;
    return result;
  }
  constexpr std::uint16_t bits() const { return bits_; }

 private:
  std::uint16_t bits_;
};

/// The run-time name of an element type.
enum class dtype : std::uint8_t {
  none,  ///< no element: barrier
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  boolean,
  f16,
  bf16,
  f32,
  f64,
  c64,   ///< std::complex<float>
  c128,  ///< std::complex<double>
};

/// "f32", as it appears in error messages.
constexpr std::string_view dtype_name(dtype type) {
  constexpr std::string_view names[] = {"none", "i8",   "i16", "i32",  "i64", "u8",  "u16", "u32",
                                        "u64",  "bool", "f16", "bf16", "f32", "f64", "c64", "c128"};
  return names[static_cast<std::size_t>(type)];
}

/// Specialise to make a foreign element type one of ours: `using canonical = float16;`. The two
/// must have the same size and bits, as Eigen::half and float16 have.
template <class T>
struct element_traits {};

namespace detail {

template <std::size_t Size, bool Signed>
struct integer_of_size;
template <>
struct integer_of_size<1, true> {
  using type = std::int8_t;
};
template <>
struct integer_of_size<2, true> {
  using type = std::int16_t;
};
template <>
struct integer_of_size<4, true> {
  using type = std::int32_t;
};
template <>
struct integer_of_size<8, true> {
  using type = std::int64_t;
};
template <>
struct integer_of_size<1, false> {
  using type = std::uint8_t;
};
template <>
struct integer_of_size<2, false> {
  using type = std::uint16_t;
};
template <>
struct integer_of_size<4, false> {
  using type = std::uint32_t;
};
template <>
struct integer_of_size<8, false> {
  using type = std::uint64_t;
};

template <class T>
struct canonical {};
template <class T>
  requires(std::integral<T> && !std::same_as<T, bool> && sizeof(T) <= 8)
struct canonical<T> : integer_of_size<sizeof(T), std::is_signed_v<T>> {};
template <class T>
  requires requires { typename element_traits<T>::canonical; }
struct canonical<T> {
  using type = typename element_traits<T>::canonical;
};
template <>
struct canonical<bool> {
  using type = bool;
};
template <>
struct canonical<float16> {
  using type = float16;
};
template <>
struct canonical<bfloat16> {
  using type = bfloat16;
};
template <>
struct canonical<float> {
  using type = float;
};
template <>
struct canonical<double> {
  using type = double;
};
template <>
struct canonical<std::complex<float>> {
  using type = std::complex<float>;
};
template <>
struct canonical<std::complex<double>> {
  using type = std::complex<double>;
};

/// The bits of a float or double but for its sign. Infinity's are greater than those of all finite
/// numbers, a NaN's greater than infinity's. (-ffast-math lets the compiler take for granted that
/// there is neither, and leave out what asks for them in other ways.)
template <class F>
constexpr auto magnitude_bits(F value) {
  if constexpr (sizeof(F) == 4)
    return std::bit_cast<std::uint32_t>(value) & 0x7fffffffu;
  else
    return std::bit_cast<std::uint64_t>(value) & 0x7fffffffffffffffu;
}
template <class F>
inline constexpr auto infinity_bits = magnitude_bits(std::numeric_limits<F>::infinity());

/// std::isfinite and std::isnan, whatever the compiler's flags.
template <class F>
constexpr bool is_finite(F value) {
  return magnitude_bits(value) < infinity_bits<F>;
}
template <class F>
constexpr bool is_nan(F value) {
  return magnitude_bits(value) > infinity_bits<F>;
}

}  // namespace detail

/// The one type per dtype that kernels are instantiated for: `long` becomes std::int64_t.
template <class T>
using canonical_t = typename detail::canonical<std::remove_cv_t<T>>::type;

/// A type that can be an element of a tensor.
template <class T>
concept element = requires { typename canonical_t<T>; } && sizeof(canonical_t<T>) == sizeof(T);

template <class T>
inline constexpr bool is_integer_v = std::integral<T> && !std::same_as<T, bool>;
template <class T>
inline constexpr bool is_complex_v =
    std::same_as<T, std::complex<float>> || std::same_as<T, std::complex<double>>;
template <class T>
inline constexpr bool is_floating_v =
    std::floating_point<T> || std::same_as<T, float16> || std::same_as<T, bfloat16>;

/// The dtype of an element type.
template <element T>
constexpr dtype dtype_of() {
  using C = canonical_t<T>;
  if constexpr (std::same_as<C, std::int8_t>)
    return dtype::i8;
  else if constexpr (std::same_as<C, std::int16_t>)
    return dtype::i16;
  else if constexpr (std::same_as<C, std::int32_t>)
    return dtype::i32;
  else if constexpr (std::same_as<C, std::int64_t>)
    return dtype::i64;
  else if constexpr (std::same_as<C, std::uint8_t>)
    return dtype::u8;
  else if constexpr (std::same_as<C, std::uint16_t>)
    return dtype::u16;
  else if constexpr (std::same_as<C, std::uint32_t>)
    return dtype::u32;
  else if constexpr (std::same_as<C, std::uint64_t>)
    return dtype::u64;
  else if constexpr (std::same_as<C, bool>)
    return dtype::boolean;
  else if constexpr (std::same_as<C, float16>)
    return dtype::f16;
  else if constexpr (std::same_as<C, bfloat16>)
    return dtype::bf16;
  else if constexpr (std::same_as<C, float>)
    return dtype::f32;
  else if constexpr (std::same_as<C, double>)
    return dtype::f64;
  else if constexpr (std::same_as<C, std::complex<float>>)
    return dtype::c64;
  else
    return dtype::c128;
}

}  // namespace hvdlite
