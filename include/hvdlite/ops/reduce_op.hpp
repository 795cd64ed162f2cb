// SPDX-License-Identifier: Apache-2.0
// The reduction operations as small values: which elements they take, in which type they
// accumulate, how two accumulators become one. What a pair (op, element) cannot do does not
// compile, with a sentence.
#pragma once

#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <hvdlite/core/config.hpp>
#include <hvdlite/core/element.hpp>

namespace hvdlite {

namespace detail {

struct reduce_op_tag {};

__extension__ using int128 = __int128;
__extension__ using uint128 = unsigned __int128;

/// Halves are computed with in float, everything else in itself.
template <class T>
using compute_t =
    std::conditional_t<std::same_as<T, float16> || std::same_as<T, bfloat16>, float, T>;

/// Unsigned, so that overflow wraps, and at least 32 bits, since narrower types promote to int.
template <class T>
using wrapping_t = std::conditional_t<sizeof(T) <= 4, std::uint32_t, std::uint64_t>;

template <class T>
struct wrapping_or_compute {
  using type = compute_t<T>;
};
template <class T>
  requires is_integer_v<T>
struct wrapping_or_compute<T> {
  using type = wrapping_t<T>;
};

template <class T>
struct average_accumulator {
  using type = compute_t<T>;
};
template <class T>
  requires is_integer_v<T>
struct average_accumulator<T> {
  using type = std::conditional_t<sizeof(T) < 8, std::int64_t,
                                  std::conditional_t<std::is_signed_v<T>, int128, uint128>>;
};

/// a + b, wrapping also for signed integers, whose overflow would be undefined.
template <class A>
A add(A a, A b) {
  if constexpr (std::same_as<A, std::int64_t>)
    return static_cast<A>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  else if constexpr (std::same_as<A, int128>)
    return static_cast<A>(static_cast<uint128>(a) + static_cast<uint128>(b));
  else
    return a + b;
}

template <class T>
inline constexpr bool is_number_v = is_integer_v<T> || is_floating_v<T> || is_complex_v<T>;

/// a * b + c * d, each of the three rounded.
template <class R>
HVDLITE_STRICT_FP R sum_of_products(R a, R b, R c, R d) {
  HVDLITE_STRICT_FP_BODY
  return a * b + c * d;
}

/// a * b with the same bits whatever -march says: the operator of std::complex is compiled with the
/// user's flags, and may fuse. Part by part, since g++ 12.2 makes one fused instruction of both
/// parts even when told not to (GCC bug 107647).
template <class C>
C complex_product(C a, C b) {
  const C result{sum_of_products(a.real(), b.real(), -a.imag(), b.imag()),
                 sum_of_products(a.real(), b.imag(), a.imag(), b.real())};
  // What the operator makes of infinities has nothing to round.
  return result.real() != result.real() && result.imag() != result.imag() ? a * b : result;
}

}  // namespace detail

/// A type is a reduction by derivation from a tag, never by being callable: matrices of some
/// libraries are callable with two elements, too.
template <class Op>
concept reduce_op = std::derived_from<std::remove_cvref_t<Op>, detail::reduce_op_tag>;

/// The sum over ranks. Integers wrap; halves are summed in float and rounded once.
struct sum : detail::reduce_op_tag {
  static constexpr std::string_view name = "sum";
  template <class T>
  static constexpr bool supports = detail::is_number_v<T>;
  static constexpr std::string_view unsupported =
      "a sum needs numbers; for bool use logical_and or logical_or";
  template <class T>
  using accumulator = typename detail::wrapping_or_compute<T>::type;
  template <class T>
  static accumulator<T> identity() {
    return accumulator<T>(0);
  }
  template <class T, class A>
  static A combine(A a, A b) {
    return a + b;
  }
};

/// The sum over ranks, divided by the number of ranks, or by the sum of weights where the call
/// gives `.samples`. Integers are summed in 64 bits (64-bit ones in 128) and the quotient is
/// truncated toward zero.
struct average : detail::reduce_op_tag {
  static constexpr std::string_view name = "average";
  template <class T>
  static constexpr bool supports = detail::is_number_v<T>;
  static constexpr std::string_view unsupported =
      "an average needs numbers; for bool use logical_and or logical_or";
  template <class T>
  using accumulator = typename detail::average_accumulator<T>::type;
  template <class T>
  static accumulator<T> identity() {
    return accumulator<T>(0);
  }
  template <class T, class A>
  static A combine(A a, A b) {
    return detail::add(a, b);
  }
};

/// The smallest element; NaN if any rank has NaN (not in code compiled with -ffast-math).
struct min : detail::reduce_op_tag {
  static constexpr std::string_view name = "min";
  template <class T>
  static constexpr bool supports = is_integer_v<T> || is_floating_v<T>;
  static constexpr std::string_view unsupported = "min needs ordered numbers";
  template <class T>
  using accumulator = detail::compute_t<T>;
  template <class T>
  static accumulator<T> identity() {
    using L = std::numeric_limits<accumulator<T>>;
    return L::has_infinity ? L::infinity() : (L::max)();
  }
  template <class T, class A>
  static A combine(A a, A b) {
    return a != a ? a : b != b ? b : b < a ? b : a;
  }
};

/// The largest element; NaN if any rank has NaN (not in code compiled with -ffast-math).
struct max : detail::reduce_op_tag {
  static constexpr std::string_view name = "max";
  template <class T>
  static constexpr bool supports = is_integer_v<T> || is_floating_v<T>;
  static constexpr std::string_view unsupported = "max needs ordered numbers";
  template <class T>
  using accumulator = detail::compute_t<T>;
  template <class T>
  static accumulator<T> identity() {
    using L = std::numeric_limits<accumulator<T>>;
    return L::has_infinity ? static_cast<accumulator<T>>(-L::infinity()) : L::lowest();
  }
  template <class T, class A>
  static A combine(A a, A b) {
    return a != a ? a : b != b ? b : a < b ? b : a;
  }
};

/// The product over ranks. Integers wrap.
struct product : detail::reduce_op_tag {
  static constexpr std::string_view name = "product";
  template <class T>
  static constexpr bool supports = detail::is_number_v<T>;
  static constexpr std::string_view unsupported =
      "a product needs numbers; for bool use logical_and";
  template <class T>
  using accumulator = typename detail::wrapping_or_compute<T>::type;
  template <class T>
  static accumulator<T> identity() {
    return accumulator<T>(1);
  }
  template <class T, class A>
  static A combine(A a, A b) {
    if constexpr (is_complex_v<A>)
      return detail::complex_product(a, b);
    else
      return a * b;
  }
};

/// Whether the element is true (not zero) on every rank; integers become 0 or 1, but in a world of
/// one, which changes nothing.
struct logical_and : detail::reduce_op_tag {
  static constexpr std::string_view name = "logical_and";
  template <class T>
  static constexpr bool supports = std::same_as<T, bool> || is_integer_v<T>;
  static constexpr std::string_view unsupported = "logical_and needs bool or integers";
  template <class T>
  using accumulator = std::uint8_t;
  template <class T>
  static accumulator<T> identity() {
    return 1;
  }
  template <class T, class A>
  static A combine(A a, A b) {
    return a & b;
  }
};

/// Whether the element is true (not zero) on any rank; integers become 0 or 1, but in a world of
/// one, which changes nothing.
struct logical_or : detail::reduce_op_tag {
  static constexpr std::string_view name = "logical_or";
  template <class T>
  static constexpr bool supports = std::same_as<T, bool> || is_integer_v<T>;
  static constexpr std::string_view unsupported = "logical_or needs bool or integers";
  template <class T>
  using accumulator = std::uint8_t;
  template <class T>
  static accumulator<T> identity() {
    return 0;
  }
  template <class T, class A>
  static A combine(A a, A b) {
    return a | b;
  }
};

/// A function of the user's: `user_op{"absmax", [](auto a, auto b) { ... }, 0}`. `f(a, b)` gets two
/// partial results, lower ranks first, in the element type (float for halves), and must be
/// associative; `identity` is what a rank without data contributes. The name is the op's identity:
/// ranks whose names differ get a mismatch_error.
template <class F, class Identity>
struct user_op : detail::reduce_op_tag {
  std::string name;
  F function;
  Identity neutral;

  user_op(std::string op_name, F f, Identity identity)
      : name{std::move(op_name)}, function{std::move(f)}, neutral{std::move(identity)} {}

  template <class T>
  using accumulator = detail::compute_t<T>;
  template <class T>
  static constexpr bool supports =
      std::is_invocable_r_v<accumulator<T>, const F&, accumulator<T>, accumulator<T>> &&
      std::convertible_to<const Identity&, accumulator<T>>;
  static constexpr std::string_view unsupported =
      "the function cannot be called with two elements, or the identity is not one";
};
template <class F, class Identity>
user_op(const char*, F, Identity) -> user_op<F, Identity>;

namespace detail {

template <class Op>
inline constexpr bool is_user_op_v = false;
template <class F, class Identity>
inline constexpr bool is_user_op_v<user_op<F, Identity>> = true;

}  // namespace detail

}  // namespace hvdlite
