// SPDX-License-Identifier: Apache-2.0
// What a backend runs on bytes: for one element type and one op, the loops that bring elements
// into an accumulator, combine accumulators, and write elements back. Instantiated once per
// (element, op), whatever the tensor types; backends see only the table of pointers.
#pragma once

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include <hvdlite/core/element.hpp>
#include <hvdlite/ops/reduce_op.hpp>

namespace hvdlite {

/// How the root of the tree finishes: accumulator / divisor * factor, rounded once.
struct root_scale {
  double divisor = 1;
  double factor = 1;
};

/// The loops. `acc` is aligned to 64 bytes and library memory; elements may be unaligned. `context`
/// is the op object of a user_op, else unused. `factor` multiplies at the leaf.
struct kernel_table {
  std::size_t element_bytes;
  std::size_t accumulator_bytes;
  bool plain;  ///< an accumulator has the bytes of the element that it is loaded from or stored to
  void (*load)(std::byte* acc, const std::byte* from, std::size_t n, double factor);
  void (*fill_identity)(std::byte* acc, std::size_t n, const void* context);
  /// to = a (op) b, all accumulators; `to` may be one of the two. None need be aligned.
  void (*combine)(std::byte* to, const std::byte* a, const std::byte* b, std::size_t n,
                  const void* context);
  /// acc = acc (op) load(from): combine with a leaf, in one pass
  void (*accumulate)(std::byte* acc, const std::byte* from, std::size_t n, double factor,
                     const void* context);
  /// Scales in place, then rounds each to an element. `to` may be `acc` if the table is plain.
  void (*store)(std::byte* to, std::byte* acc, std::size_t n, root_scale scale);
};

namespace detail {

/// Doubles beyond the range of an integer type become its ends (a plain cast would be undefined).
template <class T>
T truncate_to(double value) {
  if constexpr (is_integer_v<T>) {
    using L = std::numeric_limits<T>;
    if (is_nan(value)) return T{0};
    if (value >= static_cast<double>((L::max)())) return (L::max)();
    if (value <= static_cast<double>(L::lowest())) return L::lowest();
  }
  return static_cast<T>(value);
}

template <class T, class Op>
struct kernels {
  using acc_t = typename Op::template accumulator<T>;
  static constexpr bool scalable = is_number_v<T>;
  // Bytes of a bool other than 0 and 1 would be undefined to read as bool.
  using stored_t = std::conditional_t<std::same_as<T, bool>, std::uint8_t, T>;
  static_assert(sizeof(stored_t) == sizeof(T));

  /// Loops run over blocks of a fixed length: compilers vectorise those at -O2, too. Elements go
  /// through memcpy one by one, since they may be unaligned or of another type with the same bits.
  static constexpr std::size_t block = 256 / sizeof(T) == 0 ? 1 : 256 / sizeof(T);

  template <class E>
  static E get(const std::byte* from, std::size_t i) {
    E x;
    std::memcpy(static_cast<void*>(&x), from + i * sizeof(E), sizeof(E));
    return x;
  }
  template <class E>
  static void put(std::byte* to, std::size_t i, E x) {
    std::memcpy(to + i * sizeof(E), static_cast<const void*>(&x), sizeof(E));
  }

  static acc_t to_acc(stored_t x) {
    if constexpr (std::same_as<Op, logical_and> || std::same_as<Op, logical_or>)
      return x != stored_t{0};
    else
      return static_cast<acc_t>(x);
  }

  /// The factor in the type it multiplies in: double for integers, else that of the accumulator.
  static auto factor_of(double factor) {
    if constexpr (std::same_as<acc_t, float> || std::same_as<acc_t, std::complex<float>>)
      return static_cast<float>(factor);
    else
      return factor;
  }

  static acc_t scaled(acc_t x, auto factor) {
    if constexpr (is_integer_v<T>) {
      // Back through the signed type: the accumulator of a wrapping sum is unsigned.
      if constexpr (sizeof(acc_t) > sizeof(std::uint64_t))
        return static_cast<acc_t>(static_cast<double>(x) * factor);  // average only: never beyond
      else if constexpr (std::same_as<Op, average>)
        return truncate_to<acc_t>(static_cast<double>(x) * factor);
      else
        return static_cast<acc_t>(truncate_to<T>(static_cast<double>(static_cast<T>(x)) * factor));
    } else {
      return x * factor;
    }
  }

  static acc_t divided(acc_t x, double divisor) {
    if constexpr (is_integer_v<T>) {
      // A count of ranks or of samples divides exactly; other weights in double.
      if (divisor == std::floor(divisor) && std::abs(divisor) < 0x1p53)
        return static_cast<acc_t>(x / static_cast<acc_t>(divisor));
      return static_cast<acc_t>(static_cast<double>(x) / divisor);
    } else {
      return x / factor_of(divisor);
    }
  }

  /// Back to an element. Scales may take an average of integers beyond its type: to the ends, as
  /// they take a sum. (What a sum does by itself wraps.)
  static stored_t stored(acc_t x) {
    if constexpr (is_integer_v<T> && std::same_as<Op, average>) {
      using L = std::numeric_limits<T>;
      if (x > static_cast<acc_t>((L::max)())) return (L::max)();
      if (x < static_cast<acc_t>(L::lowest())) return L::lowest();
    }
    return static_cast<stored_t>(x);
  }

  static acc_t combined(const void* context, acc_t a, acc_t b) {
    if constexpr (is_user_op_v<Op>)
      return static_cast<acc_t>(static_cast<const Op*>(context)->function(a, b));
    else
      return Op::template combine<T>(a, b);
  }

  /// Calls f(i) for all elements, in blocks as long as there are full ones.
  template <class F>
  static void for_elements(std::size_t n, F&& f) {
    std::size_t i = 0;
    if constexpr (!is_user_op_v<Op>)  // whose function may remember what it has seen
      for (; i + block <= n; i += block) {
        HVDLITE_INDEPENDENT
        for (std::size_t j = 0; j < block; ++j) f(i + j);
      }
    for (; i < n; ++i) f(i);
  }

  HVDLITE_STRICT_FP static void load(std::byte* acc_bytes, const std::byte* from, std::size_t n,
                                     double factor) {
    HVDLITE_STRICT_FP_BODY
    auto* acc = reinterpret_cast<acc_t*>(acc_bytes);
    for_elements(n, [&](std::size_t i) { acc[i] = to_acc(get<stored_t>(from, i)); });
    if constexpr (scalable)
      if (factor != 1) scale(acc, n, factor);
  }

  HVDLITE_STRICT_FP static void scale(acc_t* acc, std::size_t n, double factor) {
    HVDLITE_STRICT_FP_BODY
    const auto typed = factor_of(factor);
    for_elements(n, [&](std::size_t i) { acc[i] = scaled(acc[i], typed); });
  }

  static void fill_identity(std::byte* acc_bytes, std::size_t n, const void* context) {
    auto* acc = reinterpret_cast<acc_t*>(acc_bytes);
    acc_t neutral{};
    if constexpr (is_user_op_v<Op>) {
      const auto& given = static_cast<const Op*>(context)->neutral;
      if constexpr (is_complex_v<acc_t> &&
                    std::is_arithmetic_v<std::remove_cvref_t<decltype(given)>>)
        neutral = acc_t{static_cast<typename acc_t::value_type>(given)};  // an int's 0, too
      else
        neutral = static_cast<acc_t>(given);
    } else {
      neutral = Op::template identity<T>();
    }
    for (std::size_t i = 0; i < n; ++i) acc[i] = neutral;
  }

  HVDLITE_STRICT_FP static void combine(std::byte* to, const std::byte* a, const std::byte* b,
                                        std::size_t n, const void* context) {
    HVDLITE_STRICT_FP_BODY
    for_elements(n, [&](std::size_t i) {
      put(to, i, combined(context, get<acc_t>(a, i), get<acc_t>(b, i)));
    });
  }

  HVDLITE_STRICT_FP static void accumulate(std::byte* acc_bytes, const std::byte* from,
                                           std::size_t n, double factor, const void* context) {
    HVDLITE_STRICT_FP_BODY
    auto* __restrict acc = reinterpret_cast<acc_t*>(acc_bytes);
    if constexpr (scalable)
      if (factor != 1) {
        // Element by element through a block of memory: a product that stays in a register could
        // be fused with the sum.
        alignas(64) acc_t scratch[block];
        for (std::size_t i = 0; i < n; i += block) {
          const std::size_t size = n - i < block ? n - i : block;
          load(reinterpret_cast<std::byte*>(scratch), from + i * sizeof(T), size, factor);
          auto* const sum = reinterpret_cast<std::byte*>(acc + i);
          combine(sum, sum, reinterpret_cast<std::byte*>(scratch), size, context);
        }
        return;
      }
    for_elements(n, [&](std::size_t i) {
      acc[i] = combined(context, acc[i], to_acc(get<stored_t>(from, i)));
    });
  }

  HVDLITE_STRICT_FP static void store(std::byte* to, std::byte* acc_bytes, std::size_t n,
                                      root_scale root) {
    HVDLITE_STRICT_FP_BODY
    auto* acc = reinterpret_cast<acc_t*>(acc_bytes);
    if constexpr (scalable) {  // passes over what is in the first-level cache
      if (root.divisor != 1) divide(acc, n, root.divisor);
      if (root.factor != 1) scale(acc, n, root.factor);
    }
    for_elements(n, [&](std::size_t i) { put(to, i, stored(acc[i])); });
  }

  HVDLITE_STRICT_FP static void divide(acc_t* acc, std::size_t n, double divisor) {
    HVDLITE_STRICT_FP_BODY
    for_elements(n, [&](std::size_t i) { acc[i] = divided(acc[i], divisor); });
  }

  static constexpr bool plain =
      !std::same_as<Op, logical_and> && !std::same_as<Op, logical_or> &&
      (std::same_as<acc_t, T> || (is_integer_v<T> && is_integer_v<acc_t> &&
                                  sizeof(T) == sizeof(acc_t) && !std::same_as<Op, average>));
  static constexpr kernel_table table{sizeof(T),      sizeof(acc_t), plain,       &load,
                                      &fill_identity, &combine,      &accumulate, &store};
};

}  // namespace detail

/// The kernels of an element type and an op.
template <class T, class Op>
inline constexpr const kernel_table& kernels_of = detail::kernels<T, Op>::table;

}  // namespace hvdlite
