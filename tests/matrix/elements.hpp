// SPDX-License-Identifier: Apache-2.0
// The declared lists of the matrix, elements and ops, and the table of what the library can be
// called with for each pair: one instantiation a pair, everything else is decided at run time.
#pragma once

#include <algorithm>
#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <hvdlite/collective/allreduce.hpp>
#include <hvdlite/collective/broadcast.hpp>

#include "matrix/cells.hpp"
#include "matrix/reference.hpp"
#include "support/ranks.hpp"

namespace hvdtest {

/// The elements, one of each dtype.
using element_list =
    std::tuple<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,
               std::uint32_t, std::uint64_t, bool, hvdlite::float16, hvdlite::bfloat16, float,
               double, std::complex<float>, std::complex<double>>;

// The ops: how the library calls it, and what the reference calls it.
template <class Op, reduction Kind>
struct plain_op {
  static constexpr reduction kind = Kind;
  static Op make() { return {}; }
};
struct first_nonzero_op {  // not commutative: the ranks' order shows
  static constexpr reduction kind = reduction::first_nonzero;
  static auto make() {
    return hvdlite::user_op{"first_nonzero",
                            [](auto a, auto b) { return a != decltype(a)(0) ? a : b; }, 0};
  }
};
using op_list =
    std::tuple<plain_op<hvdlite::sum, reduction::sum>,
               plain_op<hvdlite::average, reduction::average>,
               plain_op<hvdlite::min, reduction::min>, plain_op<hvdlite::max, reduction::max>,
               plain_op<hvdlite::product, reduction::product>,
               plain_op<hvdlite::logical_and, reduction::logical_and>,
               plain_op<hvdlite::logical_or, reduction::logical_or>, first_nonzero_op>;
inline constexpr std::size_t op_count = std::tuple_size_v<op_list>;
inline constexpr std::string_view op_names[op_count] = {
    "sum", "average", "min", "max", "product", "logical_and", "logical_or", "first_nonzero"};

/// One (element, op): null functions if the library does not take the pair.
struct op_row {
  reduction kind = reduction::sum;
  std::string_view unsupported;  ///< the library's sentence
  void (*call)(const world_type&, std::byte* in, std::byte* out, const layout&,
               const hvdlite::allreduce_options&) = nullptr;
};

/// One element type.
struct element_row {
  std::string_view name;
  std::size_t bytes = 0;
  bool integer = false, floating = false, complex = false, boolean = false;
  std::array<op_row, op_count> ops;

  /// `count` elements of `rank`, fit for `kind` and scales up to 1.7.
  std::vector<std::byte> (*random)(std::uint64_t seed, std::size_t count, reduction kind,
                                   bool scaled);
  std::vector<std::byte> (*not_a_number)(std::size_t count);  ///< what must not be read
  std::vector<std::byte> (*reference)(const std::vector<std::vector<std::byte>>& of_rank,
                                      reduction kind, const scaling&);
  bool (*same)(const std::byte* a, const std::byte* b);
  void (*broadcast)(const world_type&, std::byte* data, const layout&, int root);
};

/// A stream of 64-bit numbers (splitmix64).
class random_bits {
 public:
  explicit random_bits(std::uint64_t seed) : state_{seed} {}
  std::uint64_t operator()() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t n) { return (*this)() % n; }

 private:
  std::uint64_t state_;
};

template <class T>
T random_element(random_bits& bits, reduction kind, bool scaled) {
  const bool zero = (kind == reduction::logical_and && bits.below(8) == 0) ||
                    (kind == reduction::logical_or && bits.below(8) != 0) ||
                    (kind == reduction::first_nonzero && bits.below(2) == 0);
  if constexpr (std::is_same_v<T, bool>) {
    return kind == reduction::first_nonzero ? bits.below(3) == 0 : !zero;
  } else if constexpr (hvdlite::is_complex_v<T>) {
    using F = typename T::value_type;
    if (zero) return T(0);
    const auto real = random_element<F>(bits, reduction::sum, scaled);
    return T{real, random_element<F>(bits, reduction::sum, scaled)};
  } else if constexpr (hvdlite::is_integer_v<T>) {
    if (zero) return T{0};
    const T full = static_cast<T>(bits());
    if (kind == reduction::product && bits.below(4) != 0) return static_cast<T>(1 + bits.below(3));
    return scaled ? static_cast<T>(full / 2 - full / 16) : full;  // x 1.7 still fits
  } else {
    if (zero) return T(0.0f);
    if ((kind == reduction::min || kind == reduction::max) && bits.below(32) == 0)
      return static_cast<T>(std::numeric_limits<float>::quiet_NaN());
    // Magnitudes so far apart that the order of a sum shows.
    const double mantissa = 1 + static_cast<double>(bits.below(1u << 20)) * 0x1p-20;
    const double magnitude = std::ldexp(mantissa, static_cast<int>(bits.below(10)) - 5);
    const double value = bits.below(2) == 0 ? magnitude : -magnitude;
    if constexpr (std::is_same_v<T, double>)
      return value * (1 + static_cast<double>(bits.below(1u << 20)) * 0x1p-45);
    else if constexpr (std::is_same_v<T, float>)
      return static_cast<float>(value);
    else
      return computing<T>::out(static_cast<float>(value));
  }
}

template <class T>
void put(std::vector<std::byte>& to, std::size_t i, const T& x) {
  std::memcpy(to.data() + i * sizeof(T), &x, sizeof(T));
}
template <class T>
T get(const std::vector<std::byte>& from, std::size_t i) {
  T x;
  std::memcpy(&x, from.data() + i * sizeof(T), sizeof(T));
  return x;
}

template <class T>
std::vector<std::byte> random_elements(std::uint64_t seed, std::size_t count, reduction kind,
                                       bool scaled) {
  random_bits bits{seed};
  std::vector<std::byte> result(count * sizeof(T));
  for (std::size_t i = 0; i < count; ++i) put(result, i, random_element<T>(bits, kind, scaled));
  return result;
}

template <class T>
std::vector<std::byte> unreadable_elements(std::size_t count) {
  std::vector<std::byte> result(count * sizeof(T));
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (hvdlite::is_floating_v<T> || hvdlite::is_complex_v<T>)
      put(result, i, static_cast<T>(std::numeric_limits<float>::quiet_NaN()));
    else
      put(result, i, static_cast<T>(77));
  }
  return result;
}

template <class T>
std::vector<std::byte> reference(const std::vector<std::vector<std::byte>>& of_rank, reduction kind,
                                 const scaling& s) {
  const std::size_t count = of_rank[0].size() / sizeof(T);
  const shares share{s, of_rank.size(), kind == reduction::average};
  using read_type = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
  std::vector<read_type> column(of_rank.size());
  std::vector<std::byte> result(count * sizeof(T));
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t r = 0; r < of_rank.size(); ++r) column[r] = get<read_type>(of_rank[r], i);
    if constexpr (std::is_same_v<T, bool>) {
      bool first = false;  // of truth values, the first that is not zero is true if any is
      first = reduce_bools(kind, column);
      put(result, i, first);
    } else if constexpr (hvdlite::is_integer_v<T>) {
      put(result, i, reduce_integers<T>(kind, column, s, share));
    } else {
      put(result, i, reduce_floats<T>(kind, column, s, share));
    }
  }
  return result;
}

template <class T>
hvdlite::strided_buffer<T> strided(std::byte* data, const layout& where) {
  return {reinterpret_cast<T*>(data),
          {where.rows, where.columns},
          {where.row_stride, where.column_stride}};
}

template <class T, class OpCase>
void call_allreduce(const world_type& world, std::byte* in, std::byte* out, const layout& where,
                    const hvdlite::allreduce_options& options) {
  const auto op = OpCase::make();
  if (where.kind == layout_kind::dense) {
    const hvdlite::buffer<T> to{reinterpret_cast<T*>(out), where.count};
    if (in == out)
      hvdlite::allreduce(world, to, op, options);
    else
      hvdlite::allreduce(world, hvdlite::buffer<const T>{reinterpret_cast<T*>(in), where.count}, to,
                         op, options);
  } else {
    if (in == out)
      hvdlite::allreduce(world, strided<T>(out, where), op, options);
    else
      hvdlite::allreduce(world, strided<const T>(in, where), strided<T>(out, where), op, options);
  }
}

template <class T>
void call_broadcast(const world_type& world, std::byte* data, const layout& where, int root) {
  if (where.kind == layout_kind::dense)
    hvdlite::broadcast(world, hvdlite::buffer<T>{reinterpret_cast<T*>(data), where.count}, root);
  else
    hvdlite::broadcast(world, strided<T>(data, where), root);
}

template <class T, class OpCase>
op_row make_op_row() {
  using Op = decltype(OpCase::make());
  op_row row;
  row.kind = OpCase::kind;
  if constexpr (Op::template supports<T>)
    row.call = &call_allreduce<T, OpCase>;
  else
    row.unsupported = Op::unsupported;
  return row;
}

template <class T>
element_row make_element_row() {
  element_row row;
  row.name = hvdlite::dtype_name(hvdlite::dtype_of<T>());
  row.bytes = sizeof(T);
  row.integer = hvdlite::is_integer_v<T>;
  row.floating = hvdlite::is_floating_v<T>;
  row.complex = hvdlite::is_complex_v<T>;
  row.boolean = std::is_same_v<T, bool>;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    row.ops = {make_op_row<T, std::tuple_element_t<I, op_list>>()...};
  }(std::make_index_sequence<op_count>{});
  row.random = &random_elements<T>;
  row.not_a_number = &unreadable_elements<T>;
  row.reference = &reference<T>;
  row.same = [](const std::byte* a, const std::byte* b) {
    T x, y;
    std::memcpy(&x, a, sizeof x);
    std::memcpy(&y, b, sizeof y);
    return same_element(x, y);
  };
  row.broadcast = &call_broadcast<T>;
  return row;
}

/// All rows, in the order of element_list.
const std::vector<element_row>& element_rows();

}  // namespace hvdtest
