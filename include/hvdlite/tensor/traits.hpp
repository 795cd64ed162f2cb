// SPDX-License-Identifier: Apache-2.0
// The one customisation point for tensors. Everything about a tensor type (element, space,
// constness, strides) is deduced from what tensor_traits<X>::view returns.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

#include <hvdlite/core/element.hpp>
#include <hvdlite/tensor/buffer.hpp>

namespace hvdlite {

/// Specialise for a tensor type of your own:
///
///     template <> struct hvdlite::tensor_traits<MyArray> {
///       static auto view(auto& a) { return hvdlite::buffer{a.ptr, a.count}; }
///     };
///
/// `view(x)` returns a buffer or strided_buffer of `x`, without copying. Optional members:
/// - `static constexpr bool borrows = true`: the type is itself a view (like std::span), so that a
///   const object still gives writable elements and a temporary may be passed;
/// - `static tensor_shape shape(const X&)`: extents and memory order; [count] if absent;
/// - `static auto evaluate(const X&)`: a copy that owns its elements, for views; and instead of
///   `view` for expressions, which have no elements before they are evaluated.
template <class X>
struct tensor_traits;

namespace detail {

template <class V>
inline constexpr bool is_buffer_v = false;
template <class T, class S>
inline constexpr bool is_buffer_v<buffer<T, S>> = true;
template <class V>
inline constexpr bool is_strided_buffer_v = false;
template <class T, class S>
inline constexpr bool is_strided_buffer_v<strided_buffer<T, S>> = true;

template <class X>
using traits_of = tensor_traits<std::remove_cvref_t<X>>;

template <class X>
using raw_view_t = decltype(traits_of<X>::view(std::declval<std::remove_reference_t<X>&>()));

template <class V>
struct const_view;
template <class T, class S>
struct const_view<buffer<T, S>> {
  using type = buffer<const T, S>;
};
template <class T, class S>
struct const_view<strided_buffer<T, S>> {
  using type = strided_buffer<const T, S>;
};

}  // namespace detail

/// A type that collectives accept: tensor_traits knows it, and its elements are of a dtype.
template <class X>
concept tensor = requires { typename detail::raw_view_t<X>; } &&
                 (detail::is_buffer_v<detail::raw_view_t<X>> ||
                  detail::is_strided_buffer_v<detail::raw_view_t<X>>) &&
                 element<typename detail::raw_view_t<X>::element_type>;

/// A tensor type that is itself a view of memory that somebody else owns.
template <class X>
concept borrowed_tensor = tensor<X> && requires { requires detail::traits_of<X>::borrows; };

/// An expression: no memory of its own yet, evaluated by the library before it is used.
template <class X>
concept tensor_expression = !tensor<X> && requires(const std::remove_reference_t<X>& x) {
  detail::traits_of<X>::evaluate(x);
};

/// The view of `x`: buffer<T, Space> or strided_buffer<T, Space>. A const object that owns its
/// elements gives a view of const elements, whatever its traits say.
template <tensor X>
auto view(X&& x) {
  auto raw = detail::traits_of<X>::view(x);
  using V = decltype(raw);
  using T = typename V::element_type;
  if constexpr (std::is_const_v<std::remove_reference_t<X>> && !borrowed_tensor<X> &&
                !std::is_const_v<T>) {
    typename detail::const_view<V>::type result;
    result.data = raw.data;
    if constexpr (detail::is_buffer_v<V>) {
      result.size = raw.size;
    } else {
      result.rank = raw.rank;
      result.extents = raw.extents;
      result.strides = raw.strides;
    }
    return result;
  } else {
    return raw;
  }
}

template <tensor X>
using view_t = decltype(hvdlite::view(std::declval<std::remove_reference_t<X>&>()));

/// The dtype's canonical element type: std::int64_t for a vector<long>.
template <tensor X>
using element_of = canonical_t<typename view_t<X>::element_type>;

template <tensor X>
using space_of = typename view_t<X>::space;

/// A tensor whose elements may be written.
template <class X>
concept writable_tensor = tensor<X> && !std::is_const_v<typename view_t<X>::element_type>;

/// Extents and memory order of `x`.
template <tensor X>
tensor_shape shape(const X& x) {
  if constexpr (requires { detail::traits_of<X>::shape(x); }) {
    return detail::traits_of<X>::shape(x);
  } else if constexpr (detail::is_strided_buffer_v<view_t<const X>>) {
    return hvdlite::view(x).shape();
  } else {
    return tensor_shape::vector(hvdlite::view(x).size);
  }
}

}  // namespace hvdlite
