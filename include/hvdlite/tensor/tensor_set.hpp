// SPDX-License-Identifier: Apache-2.0
// Several tensors as one argument: a tensor, a tuple (std::tie) of tensors of different types, a
// range of tensors, names with tensors, or any of these nested. Gradients may also be absent
// (pointers and optionals) or expressions.
#pragma once

#include <concepts>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <hvdlite/tensor/traits.hpp>

namespace hvdlite {

namespace detail {

template <class X>
inline constexpr bool is_optional_v = false;
template <class X>
inline constexpr bool is_optional_v<std::optional<X>> = true;

/// Something that holds a tensor or nothing: std::optional, or a pointer to a tensor that is no
/// bare element (a float* says too little).
template <class X>
concept nullable_tensor =
    is_optional_v<std::remove_cvref_t<X>> ||
    (std::is_pointer_v<std::remove_cvref_t<X>> &&
     !element<std::remove_cv_t<std::remove_pointer_t<std::remove_cvref_t<X>>>>);

/// A name and a tensor, as the items of a std::map or pairs in a vector have it.
template <class X>
concept named_tensor = requires(X& x) {
  { x.first } -> std::convertible_to<std::string_view>;
  x.second;
};

/// What a range-based for takes. (The header <ranges> costs more than all of tensor/.)
namespace iteration {
using std::begin, std::end;
template <class X>
concept iterable = requires(X& x) {
  begin(x);
  end(x);
};
template <iterable X>
auto first_of(X& x) {
  return begin(x);
}
template <iterable X>
auto end_of(X& x) {
  return end(x);
}
}  // namespace iteration
using iteration::iterable;

template <class X>
concept tuple_like = requires { std::tuple_size<std::remove_cvref_t<X>>::value; } &&
                     !iterable<std::remove_cvref_t<X>>;

template <class X>
concept leaf_tensor = tensor<X> || tensor_expression<X> || nullable_tensor<X>;

template <class X>
constexpr bool expect_set() {
  constexpr bool ok = leaf_tensor<X> || named_tensor<std::remove_reference_t<X>> || tuple_like<X> ||
                      iterable<std::remove_reference_t<X>>;
  static_assert(
      ok,
      "hvdlite: not a set of tensors: pass a tensor, a range of tensors, or a std::tie of "
      "tensors; a type of your own becomes a tensor by hvdlite::tensor_traits");
  return ok;
}

/// Whether X is no tensor, but holds some: a std::tie of them, a range of matrices.
template <class X>
constexpr bool is_collection() {
  using Bare = std::remove_cvref_t<X>;
  if constexpr (leaf_tensor<Bare&>) {
    return false;
  } else if constexpr (tuple_like<Bare>) {
    return []<std::size_t... At>(std::index_sequence<At...>) {
      return (leaf_tensor<std::tuple_element_t<At, Bare>&> && ...);
    }(std::make_index_sequence<std::tuple_size_v<Bare>>{});
  } else if constexpr (iterable<Bare>) {
    using Item = std::remove_cvref_t<decltype(*iteration::first_of(std::declval<Bare&>()))>;
    return !element<Item> && (leaf_tensor<Item&> || named_tensor<Item>);
  } else {
    return false;
  }
}

/// Whether what is written to a set of type X (an lvalue reference if it is an lvalue) would be
/// lost with it: a temporary that owns a tensor.
template <class X>
constexpr bool owns_tensors() {
  if constexpr (std::is_lvalue_reference_v<X>) {
    return false;
  } else if constexpr (tensor<X>) {
    return !borrowed_tensor<X>;
  } else if constexpr (tensor_expression<X> || nullable_tensor<X>) {
    return false;
  } else if constexpr (named_tensor<std::remove_reference_t<X>>) {
    return owns_tensors<decltype(std::remove_reference_t<X>::second)>();
  } else if constexpr (tuple_like<X>) {
    return []<std::size_t... At>(std::index_sequence<At...>) {
      return (owns_tensors<std::tuple_element_t<At, std::remove_cvref_t<X>>>() || ...);
    }(std::make_index_sequence<std::tuple_size_v<std::remove_cvref_t<X>>>{});
  } else if constexpr (requires { typename std::remove_cvref_t<X>::allocator_type; }) {
    return owns_tensors<typename std::remove_cvref_t<X>::value_type>();  // a container
  } else {
    return false;
  }
}

template <class X>
constexpr bool expect_kept() {
  constexpr bool lost = owns_tensors<X>();
  static_assert(!lost,
                "hvdlite: the result would be lost with this temporary: pass variables, or a "
                "std::tie of them (a function that returns parameters has to return references)");
  return !lost;
}

/// Whether Check::holds<tensor&> for every tensor of a set. With `absent`, tensors may be absent,
/// and what they would be counts.
template <class Check, class X, bool absent>
constexpr bool all_tensors() {
  if constexpr (absent && nullable_tensor<X>) {
    return all_tensors<Check, std::remove_reference_t<decltype(*std::declval<X&>())>, absent>();
  } else if constexpr (leaf_tensor<X&>) {
    return Check::template holds<X&>;
  } else if constexpr (named_tensor<X>) {
    return all_tensors<Check, std::remove_reference_t<decltype((std::declval<X&>().second))>,
                       absent>();
  } else if constexpr (tuple_like<X&>) {
    return []<std::size_t... At>(std::index_sequence<At...>) {
      return (
          all_tensors<Check, std::remove_reference_t<decltype(std::get<At>(std::declval<X&>()))>,
                      absent>() &&
          ...);
    }(std::make_index_sequence<std::tuple_size_v<std::remove_cvref_t<X>>>{});
  } else if constexpr (iterable<X>) {
    return all_tensors<Check,
                       std::remove_reference_t<decltype(*iteration::first_of(std::declval<X&>()))>,
                       absent>();
  } else {
    return true;  // for_each_tensor says what is wrong with it
  }
}

struct is_writable {
  template <class X>
  static constexpr bool holds = writable_tensor<X>;
};
template <class X, bool absent = false>
constexpr bool all_writable() {
  return all_tensors<is_writable, X, absent>();
}

}  // namespace detail

/// Calls f(name, tensor) for each tensor of `set`, in order. The name is empty where none is given.
template <class Set, class F>
void for_each_tensor(Set&& set, F&& f, std::string_view name = {}) {
  if constexpr (detail::expect_set<Set>()) {
    if constexpr (detail::leaf_tensor<Set>) {
      f(name, set);
    } else if constexpr (detail::named_tensor<std::remove_reference_t<Set>>) {
      hvdlite::for_each_tensor(set.second, f, set.first);
    } else if constexpr (detail::tuple_like<Set>) {
      std::apply([&](auto&... each) { (hvdlite::for_each_tensor(each, f), ...); }, set);
    } else {
      for (auto&& each : set) hvdlite::for_each_tensor(each, f);
    }
  }
}

/// How many tensors `set` holds.
template <class Set>
std::size_t tensor_count(Set&& set) {
  std::size_t count = 0;
  hvdlite::for_each_tensor(set, [&](std::string_view, auto&&) { ++count; });
  return count;
}

/// Calls f(tensor of a, tensor of b) for each pair of tensors at the same place. Tuples of
/// different lengths do not compile; ranges must have equal lengths (compare tensor_count before).
template <class A, class B, class F>
void for_each_pair(A&& a, B&& b, F&& f) {
  if constexpr (detail::expect_set<A>() && detail::expect_set<B>()) {
    if constexpr (detail::named_tensor<std::remove_reference_t<A>>) {
      hvdlite::for_each_pair(a.second, b, f);
    } else if constexpr (detail::named_tensor<std::remove_reference_t<B>>) {
      hvdlite::for_each_pair(a, b.second, f);
    } else if constexpr (detail::leaf_tensor<A> || detail::leaf_tensor<B>) {
      static_assert(
          detail::leaf_tensor<A> && detail::leaf_tensor<B>,
          "hvdlite: parameters and gradients differ in structure: a tensor on one side, a "
          "set of tensors on the other");
      f(a, b);
    } else if constexpr (detail::tuple_like<A> && detail::tuple_like<B>) {
      constexpr std::size_t n = std::tuple_size_v<std::remove_cvref_t<A>>;
      constexpr bool same = n == std::tuple_size_v<std::remove_cvref_t<B>>;
      static_assert(same, "hvdlite: there are not as many gradients as parameters");
      if constexpr (same)
        [&]<std::size_t... At>(std::index_sequence<At...>) {
          (hvdlite::for_each_pair(std::get<At>(a), std::get<At>(b), f), ...);
        }(std::make_index_sequence<n>{});
    } else {
      static_assert(!detail::tuple_like<A> && !detail::tuple_like<B>,
                    "hvdlite: parameters and gradients differ in structure: a tuple on one side, a "
                    "range on the other");
      auto at = detail::iteration::first_of(b);
      const auto end = detail::iteration::end_of(b);
      for (auto&& each : a) {
        if (at == end) return;
        hvdlite::for_each_pair(each, *at, f);
        ++at;
      }
    }
  }
}

/// Calls f(tensor) with the value of `x`: itself, what it points to, or what the expression
/// evaluates to; false, and no call, if it is absent or empty.
template <class X, class F>
bool with_value(X&& x, F&& f) {
  if constexpr (detail::nullable_tensor<X>) {
    return x && hvdlite::with_value(*x, f);
  } else if constexpr (tensor_expression<X>) {
    const auto value = detail::traits_of<X>::evaluate(x);
    return hvdlite::with_value(value, f);
  } else {
    f(x);
    return true;
  }
}

}  // namespace hvdlite
