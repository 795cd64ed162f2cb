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
  void (*load)(std::byte* acc, const std::byte* from, std::size_t n, double factor);
  void (*fill_identity)(std::byte* acc, std::size_t n, const void* context);
  /// acc = acc (op) other
  void (*combine)(std::byte* acc, const std::byte* other, std::size_t n, const void* context);
  /// acc = acc (op) load(from): combine with a leaf, in one pass
  void (*accumulate)(std::byte* acc, const std::byte* from, std::size_t n, double factor,
                     const void* context);
  /// Scales in place, then rounds each to an element.
  void (*store)(std::byte* to, std::byte* acc, std::size_t n, root_scale scale);
};

namespace detail {

/// Doubles beyond the range of an integer type become its ends (a plain cast would be undefined).
template <class T>
T truncate_to(double value) {
  if constexpr (is_integer_v<T>) {
    using L = std::numeric_limits<T>;
    if (value != value) return T{0};
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
  /// through memcpy, since they may be unaligned or of another type with the same bits.
  static constexpr std::size_t block = 64 / sizeof(T) == 0 ? 1 : 64 / sizeof(T);

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

  /// Calls f(i, n) with a constant n for all full blocks, then element by element.
  template <class F>
  static void in_blocks(std::size_t n, F&& f) {
    std::size_t i = 0;
    for (; i + block <= n; i += block) f(i, std::integral_constant<std::size_t, block>{});
    for (; i < n; ++i) f(i, std::integral_constant<std::size_t, 1>{});
  }

  HVDLITE_STRICT_FP static void load(std::byte* acc_bytes, const std::byte* from, std::size_t n,
                                     double factor) {
    HVDLITE_STRICT_FP_BODY
    auto* acc = reinterpret_cast<acc_t*>(acc_bytes);
    in_blocks(n, [&](std::size_t i, auto size) {
      stored_t x[size];
      std::memcpy(x, from + i * sizeof(T), sizeof x);
      for (std::size_t j = 0; j < size; ++j) acc[i + j] = to_acc(x[j]);
    });
    if constexpr (scalable)
      if (factor != 1) scale(acc, n, factor);
  }

  HVDLITE_STRICT_FP static void scale(acc_t* acc, std::size_t n, double factor) {
    HVDLITE_STRICT_FP_BODY
    const auto typed = factor_of(factor);
    in_blocks(n, [&](std::size_t i, auto size) {
      for (std::size_t j = 0; j < size; ++j) acc[i + j] = scaled(acc[i + j], typed);
    });
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

  HVDLITE_STRICT_FP static void combine(std::byte* acc_bytes, const std::byte* other_bytes,
                                        std::size_t n, const void* context) {
    HVDLITE_STRICT_FP_BODY
    auto* __restrict acc = reinterpret_cast<acc_t*>(acc_bytes);
    const auto* __restrict other = reinterpret_cast<const acc_t*>(other_bytes);
    in_blocks(n, [&](std::size_t i, auto size) {
      for (std::size_t j = 0; j < size; ++j)
        acc[i + j] = combined(context, acc[i + j], other[i + j]);
    });
  }

  HVDLITE_STRICT_FP static void accumulate(std::byte* acc_bytes, const std::byte* from,
                                           std::size_t n, double factor, const void* context) {
    HVDLITE_STRICT_FP_BODY
    auto* __restrict acc = reinterpret_cast<acc_t*>(acc_bytes);
    const auto pass = [&](auto prepare) {
      in_blocks(n, [&](std::size_t i, auto size) {
        stored_t x[size];
        std::memcpy(x, from + i * sizeof(T), sizeof x);
        for (std::size_t j = 0; j < size; ++j)
          acc[i + j] = combined(context, acc[i + j], prepare(to_acc(x[j])));
      });
    };
    if constexpr (scalable)
      if (factor != 1) {
        // Element by element through a block of memory: a product that stays in a register could
        // be fused with the sum.
        alignas(64) acc_t scratch[block];
        for (std::size_t i = 0; i < n; i += block) {
          const std::size_t size = n - i < block ? n - i : block;
          load(reinterpret_cast<std::byte*>(scratch), from + i * sizeof(T), size, factor);
          combine(reinterpret_cast<std::byte*>(acc + i), reinterpret_cast<std::byte*>(scratch),
                  size, context);
        }
        return;
      }
    pass([](acc_t x) { return x; });
  }

  HVDLITE_STRICT_FP static void store(std::byte* to, std::byte* acc_bytes, std::size_t n,
                                      root_scale root) {
    HVDLITE_STRICT_FP_BODY
    auto* acc = reinterpret_cast<acc_t*>(acc_bytes);
    if constexpr (scalable) {  // passes over what is in the first-level cache
      if (root.divisor != 1) divide(acc, n, root.divisor);
      if (root.factor != 1) scale(acc, n, root.factor);
    }
    in_blocks(n, [&](std::size_t i, auto size) {
      stored_t x[size];
      for (std::size_t j = 0; j < size; ++j) x[j] = stored(acc[i + j]);
      std::memcpy(to + i * sizeof(T), x, sizeof x);
    });
  }

  HVDLITE_STRICT_FP static void divide(acc_t* acc, std::size_t n, double divisor) {
    HVDLITE_STRICT_FP_BODY
    in_blocks(n, [&](std::size_t i, auto size) {
      for (std::size_t j = 0; j < size; ++j) acc[i + j] = divided(acc[i + j], divisor);
    });
  }

  static constexpr kernel_table table{sizeof(T), sizeof(acc_t), &load, &fill_identity,
                                      &combine,  &accumulate,   &store};
};

}  // namespace detail

/// The kernels of an element type and an op.
template <class T, class Op>
inline constexpr const kernel_table& kernels_of = detail::kernels<T, Op>::table;

}  // namespace hvdlite
