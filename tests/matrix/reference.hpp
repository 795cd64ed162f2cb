// SPDX-License-Identifier: Apache-2.0
// What a reduction must give, in plain arithmetic that shares nothing with the library's kernels:
// integers exactly in 128 bits, floats by the tree of the contract, halves decoded and rounded
// here.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include <hvdlite/core/element.hpp>

namespace hvdtest {

enum class reduction { sum, average, min, max, product, logical_and, logical_or, first_nonzero };

/// How one allreduce is scaled and weighted; equal on all ranks but for the weights.
struct scaling {
  double prescale = 1;
  double postscale = 1;
  std::vector<double> weights = {};  ///< one per rank, or none
};

__extension__ using wide = __int128;

/// A value that no optimiser may keep in a register to fuse it with the next operation.
template <class F>
F rounded(F x) {
  volatile F stored = x;
  return stored;
}

/// The tree of the contract: n leaves split at the largest power of two below n.
template <class A, class F>
A tree(const std::vector<A>& leaves, const F& combine, std::size_t first, std::size_t n) {
  if (n == 1) return leaves[first];
  std::size_t left = 1;
  while (left * 2 < n) left *= 2;
  return combine(tree(leaves, combine, first, left), tree(leaves, combine, first + left, n - left));
}
template <class A, class F>
A tree(const std::vector<A>& leaves, const F& combine) {
  return tree(leaves, combine, 0, leaves.size());
}

/// IEEE 754 in few bits: `mantissa` stored bits, smallest normal exponent `least`, largest value
/// below 2^(limit).
struct half_format {
  int mantissa, least, limit;
};
inline constexpr half_format f16_format{10, -14, 16};
inline constexpr half_format bf16_format{7, -126, 128};

inline double decode(std::uint16_t bits, half_format f) {
  const int exponent = (bits & 0x7fff) >> f.mantissa;
  const int stored = bits & ((1 << f.mantissa) - 1);
  const int all_ones = (1 << (15 - f.mantissa)) - 1;
  double value = 0;
  if (exponent == all_ones)
    value = stored != 0 ? std::numeric_limits<double>::quiet_NaN()
                        : std::numeric_limits<double>::infinity();
  else if (exponent == 0)
    value = std::ldexp(stored, f.least - f.mantissa);
  else
    value = std::ldexp(stored + (1 << f.mantissa), exponent - 1 + f.least - f.mantissa);
  return (bits & 0x8000) != 0 ? -value : value;
}

/// To the nearest, ties to even.
inline std::uint16_t encode(float x, half_format f) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(x) ? 0x8000 : 0);
  const auto infinity = static_cast<std::uint16_t>(0x7fff & ~((1 << f.mantissa) - 1));
  if (std::isnan(x)) return static_cast<std::uint16_t>(sign | infinity | 1);
  const double magnitude = std::abs(static_cast<double>(x));
  if (magnitude == 0) return sign;
  if (std::isinf(x)) return static_cast<std::uint16_t>(sign | infinity);
  const int exponent = (std::max)(std::ilogb(magnitude), f.least);
  const double quantum = std::ldexp(1.0, exponent - f.mantissa);
  const double units = std::nearbyint(magnitude / quantum);
  if (units * quantum >= std::ldexp(1.0, f.limit))
    return static_cast<std::uint16_t>(sign | infinity);
  // A carry out of the mantissa moves into the exponent by itself.
  const int biased = exponent - f.least;
  return static_cast<std::uint16_t>(sign + (biased << f.mantissa) + static_cast<int>(units));
}

/// The type that a reduction of T computes in, with conversions both ways.
template <class T>
struct computing {
  using type = T;
  static T in(T x) { return x; }
  static T out(T x) { return x; }
};
template <>
struct computing<hvdlite::float16> {
  using type = float;
  static float in(hvdlite::float16 x) { return static_cast<float>(decode(x.bits(), f16_format)); }
  static hvdlite::float16 out(float x) {
    return hvdlite::float16::from_bits(encode(x, f16_format));
  }
};
template <>
struct computing<hvdlite::bfloat16> {
  using type = float;
  static float in(hvdlite::bfloat16 x) { return static_cast<float>(decode(x.bits(), bf16_format)); }
  static hvdlite::bfloat16 out(float x) {
    return hvdlite::bfloat16::from_bits(encode(x, bf16_format));
  }
};

template <class F>
F plus(F a, F b) {
  return rounded(a + b);
}
template <class F>
std::complex<F> plus(std::complex<F> a, std::complex<F> b) {
  return {rounded(a.real() + b.real()), rounded(a.imag() + b.imag())};
}
template <class F>
F times(F a, F b) {
  return rounded(a * b);
}
template <class F>
std::complex<F> times(std::complex<F> a, std::complex<F> b) {
  return {rounded(rounded(a.real() * b.real()) - rounded(a.imag() * b.imag())),
          rounded(rounded(a.real() * b.imag()) + rounded(a.imag() * b.real()))};
}
template <class F>
F times_real(F a, double factor) {
  return rounded(a * static_cast<F>(factor));
}
template <class F>
std::complex<F> times_real(std::complex<F> a, double factor) {
  return {times_real(a.real(), factor), times_real(a.imag(), factor)};
}
template <class F>
F over_real(F a, double divisor) {
  return rounded(a / static_cast<F>(divisor));
}
template <class F>
std::complex<F> over_real(std::complex<F> a, double divisor) {
  return {over_real(a.real(), divisor), over_real(a.imag(), divisor)};
}

/// Weights as the contract sees them: each rank's share, and what the sum is divided by. Equal
/// weights are no weights among those that have one.
struct shares {
  std::vector<double> factor;
  std::vector<bool> present;
  double divisor = 1;
  bool nothing = false;  ///< all weights are zero: the tensors stay

  shares(const scaling& s, std::size_t ranks, bool averages)
      : factor(ranks, s.prescale), present(ranks, true) {
    if (averages) divisor = static_cast<double>(ranks);
    if (s.weights.empty()) return;
    std::vector<double> given;
    for (std::size_t r = 0; r < ranks; ++r) {
      present[r] = s.weights[r] != 0;
      if (present[r]) given.push_back(s.weights[r]);
    }
    nothing = given.empty();
    const bool equal = std::count(given.begin(), given.end(), nothing ? 0 : given[0]) ==
                       static_cast<std::ptrdiff_t>(given.size());
    divisor = 0;
    for (const double w : given) divisor += equal ? 1 : w;
    for (std::size_t r = 0; r < ranks && !equal; ++r) factor[r] = s.prescale * s.weights[r];
  }
};

/// One element of the result from that element of every rank.
template <class T>
T reduce_integers(reduction kind, const std::vector<T>& of_rank, const scaling& s,
                  const shares& share) {
  // Modulo 2^bits; `wide` holds five 64-bit values.
  const auto wrap = [](wide x) { return static_cast<T>(static_cast<std::uint64_t>(x)); };
  const auto scaled = [](T x, double factor) {
    return factor == 1 ? static_cast<wide>(x)
                       : static_cast<wide>(std::trunc(static_cast<double>(x) * factor));
  };
  std::vector<wide> leaves;
  for (std::size_t r = 0; r < of_rank.size(); ++r)
    if (share.present[r]) leaves.push_back(scaled(of_rank[r], share.factor[r]));
  wide result = leaves[0];
  for (std::size_t i = 1; i < leaves.size(); ++i) {
    const wide x = leaves[i];
    switch (kind) {
      case reduction::sum:
      case reduction::average:
        result += x;
        break;
      case reduction::min:
        result = x < result ? x : result;
        break;
      case reduction::max:
        result = x > result ? x : result;
        break;
      case reduction::product:
        result = wrap(
            static_cast<wide>(static_cast<std::uint64_t>(result) * static_cast<std::uint64_t>(x)));
        break;
      case reduction::logical_and:
        result = result != 0 && x != 0;
        break;
      case reduction::logical_or:
        result = result != 0 || x != 0;
        break;
      case reduction::first_nonzero:
        result = result != 0 ? result : x;
        break;
    }
  }
  if (kind == reduction::logical_and || kind == reduction::logical_or) result = result != 0;
  if (kind == reduction::average) {
    if (share.divisor == std::floor(share.divisor))
      result /= static_cast<wide>(share.divisor);
    else
      result = static_cast<wide>(std::trunc(static_cast<double>(result) / share.divisor));
  }
  return wrap(scaled(wrap(result), s.postscale));
}

template <class T>
T reduce_floats(reduction kind, const std::vector<T>& of_rank, const scaling& s,
                const shares& share) {
  using computes = computing<T>;
  using A = typename computes::type;
  std::vector<A> leaves(of_rank.size());
  for (std::size_t r = 0; r < of_rank.size(); ++r)
    leaves[r] = !share.present[r]      ? A(0)
                : share.factor[r] == 1 ? computes::in(of_rank[r])
                                       : times_real(computes::in(of_rank[r]), share.factor[r]);
  A result = tree(leaves, [kind](A a, A b) -> A {
    switch (kind) {
      case reduction::product:
        return times(a, b);
      case reduction::first_nonzero:
        return a != A(0) ? a : b;
      default:
        break;
    }
    if constexpr (!hvdlite::is_complex_v<T>) {
      if (kind == reduction::min || kind == reduction::max) {
        if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<A>::quiet_NaN();
        return kind == reduction::min ? (std::min)(a, b) : (std::max)(a, b);
      }
    }
    return plus(a, b);
  });
  if (share.divisor != 1) result = over_real(result, share.divisor);
  if (s.postscale != 1) result = times_real(result, s.postscale);
  return computes::out(result);
}

inline bool reduce_bools(reduction kind, const std::vector<std::uint8_t>& of_rank) {
  const auto truths = std::count_if(of_rank.begin(), of_rank.end(), [](auto b) { return b != 0; });
  return kind == reduction::logical_and ? truths == static_cast<std::ptrdiff_t>(of_rank.size())
                                        : truths != 0;
}

/// Whether two results count as the same: equal bits, or both NaN.
template <class T>
bool same_element(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, hvdlite::float16> || std::is_same_v<T, hvdlite::bfloat16>) {
    using computes = computing<T>;
    return a.bits() == b.bits() || (std::isnan(computes::in(a)) && std::isnan(computes::in(b)));
  } else if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
           (std::isnan(a) && std::isnan(b));
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
           (std::isnan(a) && std::isnan(b));
  } else if constexpr (hvdlite::is_complex_v<T>) {
    return same_element(a.real(), b.real()) && same_element(a.imag(), b.imag());
  } else {
    return a == b;
  }
}

}  // namespace hvdtest
