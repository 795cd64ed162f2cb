// SPDX-License-Identifier: Apache-2.0
// Clipping: of all gradients by their common norm, or of each element. Free functions for any
// tensors, and the loops that DistributedOptimizer::clip runs on reduced gradients.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>
#include <string_view>
#include <type_traits>

#include <hvdlite/collective/arguments.hpp>
#include <hvdlite/core/element.hpp>
#include <hvdlite/core/error.hpp>
#include <hvdlite/ops/reduce_op.hpp>
#include <hvdlite/tensor/tensor_set.hpp>

namespace hvdlite {

/// Clip policy: all gradients are multiplied by one factor, so that their common Euclidean norm is
/// at most `max`. Infinity only measures.
struct global_norm {
  double max;
};

/// Clip policy: each element is brought into [-limit, limit].
struct by_value {
  double limit;
};

namespace detail {

HVDLITE_COLD inline text clip_refusal(const char* policy, double limit) {
  if (!is_nan(limit) && limit >= 0) return {};
  return text({policy, ": ", limit, " is no limit; expected a number that is not negative"});
}

/// The greater of the two; NaN if there is one.
inline double larger(double a, double b) { return is_nan(a) || (!is_nan(b) && a >= b) ? a : b; }

/// The sum of (scale * x)^2 in double. Eight partial sums and their tree are part of the contract:
/// equal elements have equal bits on every rank, whatever the compiler's flags.
template <class T>
HVDLITE_STRICT_FP double sum_of_squares(const T* x, std::size_t n, double scale) {
  HVDLITE_STRICT_FP_BODY
  constexpr std::size_t lanes = 8;
  double sum[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (std::size_t j = 0; j < lanes; ++j) {
      const double value = scale * static_cast<double>(static_cast<compute_t<T>>(x[i + j]));
      sum[j] += value * value;
    }
  for (std::size_t j = 0; i < n; ++i, ++j) {
    const double value = scale * static_cast<double>(static_cast<compute_t<T>>(x[i]));
    sum[j] += value * value;
  }
  return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

/// The largest magnitude; NaN if there is one.
template <class T>
double largest_magnitude(const T* x, std::size_t n) {
  using C = compute_t<T>;
  C most = 0;
  bool nan = false;
  for (std::size_t i = 0; i < n; ++i) {
    const C magnitude = std::abs(static_cast<C>(x[i]));
    if (most < magnitude) most = magnitude;
    nan = nan || is_nan(magnitude);
  }
  return nan ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(most);
}

template <class T>
void scale_elements(T* x, std::size_t n, double factor) {
  using C = compute_t<T>;
  const C by = static_cast<C>(factor);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<T>(static_cast<C>(x[i]) * by);
}

/// NaN and infinities stay: what went wrong is not to look like a large gradient.
template <class T>
void clamp_elements(T* x, std::size_t n, double limit) {
  using C = compute_t<T>;
  const C most = static_cast<C>(limit);
  for (std::size_t i = 0; i < n; ++i) {
    const C value = static_cast<C>(x[i]);
    if (!is_finite(value)) continue;
    if (value > most) x[i] = static_cast<T>(most);
    if (value < -most) x[i] = static_cast<T>(-most);
  }
}

/// The norm of a vector, given `squares(scale)`, the sum of its scaled squares, and `largest()`,
/// for where squares leave the range of double.
template <class Squares, class Largest>
double norm_from(Squares&& squares, Largest&& largest) {
  const double sum = squares(1.0);
  if (is_finite(sum) && sum > 1e-280) return std::sqrt(sum);
  const double most = largest();
  if (!is_finite(most) || most == 0) return most;
  const int exponent = std::ilogb(most);
  // In two steps: the inverse of a subnormal is beyond the range.
  return std::ldexp(std::sqrt(squares(std::ldexp(1.0, exponent > -1000 ? -exponent : 1000))),
                    exponent > -1000 ? exponent : -1000);
}

/// What global_norm multiplies by; 1 if nothing is to be done. A norm that is no number is not
/// hidden by factors of 0 or NaN.
inline double clip_factor(double norm, double max) {
  return is_finite(norm) && norm > max ? max / norm : 1;
}

/// Calls f(contiguous memory as elements, count) for each tensor that is there, and writes back.
template <class Set, class F>
void for_each_memory(Set& set, F&& f) {
  hvdlite::for_each_tensor(set, [&](std::string_view, auto& tensor) {
    hvdlite::with_value(tensor, [&](auto& each) {
      const auto memory = contiguous_of(each);
      f(reinterpret_cast<element_of<decltype(each)>*>(memory.write()), memory.count());
      memory.write_back();
    });
  });
}

struct has_floating_elements {
  template <class X>
  static constexpr bool holds = is_floating_v<element_of<X>>;
};

template <class Set>
constexpr bool expect_clippable() {
  using Bare = std::remove_reference_t<Set>;
  constexpr bool writable = all_writable<Bare, true>();
  static_assert(writable, "hvdlite: clip writes to its tensors: pass writable ones");
  if constexpr (writable) {
    constexpr bool floating = all_tensors<has_floating_elements, Bare, true>();
    static_assert(floating, "hvdlite: clip needs floating-point elements");
    return floating && expect_kept<Set>();
  }
  return false;
}

}  // namespace detail

/// Multiplies all tensors of `set` by one factor, so that their common norm is at most
/// `policy.max`; returns the norm before. `set`: writable tensors of floating-point numbers, each
/// once; absent and empty ones are left out.
///
/// Local, not collective: equal tensors in equal memory order give equal bits on all ranks, since
/// the norm is summed in double in the order of the set. A norm that is NaN or infinite is returned
/// as it is and changes nothing. Throws usage_error for a limit that is negative or NaN.
template <class Set>
double clip(Set&& set, const global_norm& policy) {
  if constexpr (detail::expect_clippable<Set&&>()) {
    const detail::text wrong = detail::clip_refusal("global_norm", policy.max);
    if (!wrong.empty()) detail::fail<usage_error>({wrong});
    const double norm = detail::norm_from(
        [&](double scale) {
          double sum = 0;
          detail::for_each_memory(
              set, [&](auto* x, std::size_t n) { sum += detail::sum_of_squares(x, n, scale); });
          return sum;
        },
        [&] {
          double most = 0;
          detail::for_each_memory(set, [&](auto* x, std::size_t n) {
            most = detail::larger(most, detail::largest_magnitude(x, n));
          });
          return most;
        });
    const double factor = detail::clip_factor(norm, policy.max);
    if (factor != 1)
      detail::for_each_memory(
          set, [&](auto* x, std::size_t n) { detail::scale_elements(x, n, factor); });
    return norm;
  }
  return 0;
}

/// Brings each element into [-policy.limit, policy.limit], but for NaN and infinities, which stay;
/// returns the largest magnitude before, NaN if there was one. Else as above.
template <class Set>
double clip(Set&& set, const by_value& policy) {
  double most = 0;
  if constexpr (detail::expect_clippable<Set&&>()) {
    const detail::text wrong = detail::clip_refusal("by_value", policy.limit);
    if (!wrong.empty()) detail::fail<usage_error>({wrong});
    detail::for_each_memory(set, [&](auto* x, std::size_t n) {
      most = detail::larger(most, detail::largest_magnitude(x, n));
      detail::clamp_elements(x, n, policy.limit);
    });
  }
  return most;
}

}  // namespace hvdlite
