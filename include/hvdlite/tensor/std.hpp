// SPDX-License-Identifier: Apache-2.0
// The tensors that need no adapter: scalars, C arrays, std::vector, std::array, std::span, and
// buffers themselves. Traits are given type by type, never for "all contiguous ranges": matrix
// libraries mark their vectors contiguous, too.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <hvdlite/tensor/traits.hpp>

namespace hvdlite {

template <element T>
struct tensor_traits<T> {
  static auto view(auto& x) { return buffer{&x, 1}; }
  static tensor_shape shape(const T&) { return tensor_shape::scalar(); }
};

template <class T, std::size_t N>
  requires element<std::remove_all_extents_t<T>>
struct tensor_traits<T[N]> {
  static auto view(auto& x) { return buffer{first(x), sizeof(x) / sizeof(*first(x))}; }

  static tensor_shape shape(const T (&)[N]) {
    static_assert(std::rank_v<T[N]> <= max_tensor_rank, "hvdlite: too many array dimensions");
    return [&]<std::size_t... D>(std::index_sequence<D...>) {
      return tensor_shape::row_major({std::extent_v<T[N], D>...});
    }(std::make_index_sequence<std::rank_v<T[N]>>{});
  }

 private:
  static auto* first(auto& x) {
    if constexpr (std::is_array_v<std::remove_reference_t<decltype(x[0])>>)
      return first(x[0]);
    else
      return &x[0];
  }
};

// vector<bool> has no elements in memory: it stays a non-tensor, and the verbs say why.
template <element T, class Allocator>
  requires(!std::same_as<T, bool>)
struct tensor_traits<std::vector<T, Allocator>> {
  static auto view(auto& x) { return buffer{x.data(), x.size()}; }
};

template <element T, std::size_t N>
struct tensor_traits<std::array<T, N>> {
  static auto view(auto& x) { return buffer{x.data(), N}; }
};

template <class T, std::size_t N>
  requires element<std::remove_cv_t<T>>
struct tensor_traits<std::span<T, N>> {
  static constexpr bool borrows = true;
  static auto view(auto& x) { return buffer{x.data(), x.size()}; }
};

template <class T, class Space>
  requires element<std::remove_cv_t<T>>
struct tensor_traits<buffer<T, Space>> {
  static constexpr bool borrows = true;
  static auto view(auto& x) { return x; }
};

template <class T, class Space>
  requires element<std::remove_cv_t<T>>
struct tensor_traits<strided_buffer<T, Space>> {
  static constexpr bool borrows = true;
  static auto view(auto& x) { return x; }
};

}  // namespace hvdlite
