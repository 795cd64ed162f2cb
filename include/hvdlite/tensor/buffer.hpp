// SPDX-License-Identifier: Apache-2.0
// What a tensor is to the library: pointer and count (buffer), or pointer, extents and strides
// (strided_buffer), plus the shape that ranks compare. Both are views: they own nothing, and are
// tensors themselves.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include <hvdlite/core/element.hpp>
#include <hvdlite/core/error.hpp>
#include <hvdlite/core/text.hpp>
#include <hvdlite/tensor/memory_space.hpp>

namespace hvdlite {

inline constexpr std::size_t max_tensor_rank = 8;

/// Extents, and which dimension is outermost in memory. Scalars have rank 0, vectors rank 1.
/// Elementwise collectives combine the i-th element in memory of all ranks, so that two tensors
/// only fit if both agree.
struct tensor_shape {
  std::size_t rank = 0;
  std::array<std::size_t, max_tensor_rank> extents{};
  std::array<std::uint8_t, max_tensor_rank> outermost_first{};  ///< dimensions of extent > 1 only
  std::size_t ordered = 0;                                      ///< how many of those there are

  std::size_t count() const {
    std::size_t product = 1;
    for (std::size_t d = 0; d < rank; ++d) product *= extents[d];
    return product;
  }

  friend bool operator==(const tensor_shape&, const tensor_shape&) = default;

  static tensor_shape scalar() { return {}; }
  static tensor_shape vector(std::size_t count) { return row_major({count}); }

  static tensor_shape row_major(std::initializer_list<std::size_t> extents) {
    tensor_shape shape;
    for (const std::size_t extent : extents) shape.extents[shape.rank++] = extent;
    for (std::size_t d = 0; d < shape.rank; ++d) shape.append(d);
    return shape;
  }

  static tensor_shape column_major(std::initializer_list<std::size_t> extents) {
    tensor_shape shape;
    for (const std::size_t extent : extents) shape.extents[shape.rank++] = extent;
    for (std::size_t d = shape.rank; d-- > 0;) shape.append(d);
    return shape;
  }

  /// Whether the elements stand for the same things: equal extents, but for those of 1.
  bool fits(const tensor_shape& other) const {
    std::size_t mine = 0, theirs = 0;
    while (true) {
      while (mine < rank && extents[mine] == 1) ++mine;
      while (theirs < other.rank && other.extents[theirs] == 1) ++theirs;
      if (mine == rank || theirs == other.rank) return mine == rank && theirs == other.rank;
      if (extents[mine++] != other.extents[theirs++]) return false;
    }
  }

  /// Adds dimension `d` as the next inner one of the memory order; extents of 1 have no place in
  /// it.
  void append(std::size_t d) {
    if (extents[d] > 1) outermost_first[ordered++] = static_cast<std::uint8_t>(d);
  }

  /// "[3, 4]"; "[]" for a scalar.
  HVDLITE_COLD detail::text extents_text() const {
    detail::text words({"["});
    for (std::size_t d = 0; d < rank; ++d) {
      if (d != 0) words += ", ";
      words += extents[d];
    }
    words += "]";
    return words;
  }

  /// "row-major", "column-major", or the dimensions from the outermost inwards.
  HVDLITE_COLD detail::text order_text() const {
    bool rising = true, falling = true;
    for (std::size_t i = 1; i < ordered; ++i) {
      rising = rising && outermost_first[i - 1] < outermost_first[i];
      falling = falling && outermost_first[i - 1] > outermost_first[i];
    }
    if (rising) return {"row-major"};
    if (falling) return {"column-major"};
    detail::text words({"dimensions"});
    for (std::size_t i = 0; i < ordered; ++i) {
      words += " ";
      words += outermost_first[i];
    }
    words += " from the outermost inwards";
    return words;
  }
};

/// `count` elements at `data`, contiguous. A tensor by itself, for C loops.
template <class T, memory_space Space = host_space>
struct buffer {
  using element_type = T;
  using space = Space;

  T* data = nullptr;
  std::size_t size = 0;

  buffer() = default;
  /// `count`: in elements; any integer type, since shapes are `int` in C and Eigen.
  buffer(T* pointer, std::integral auto count, Space = {})
      : data{pointer}, size{static_cast<std::size_t>(count)} {
    if constexpr (std::signed_integral<decltype(count)>)
      if (count < 0)
        detail::fail<usage_error>(
            {"buffer: the count is ", count, "; expected the number of elements"});
  }
};

template <class T, class N>
buffer(T*, N) -> buffer<T, host_space>;
template <class T, class N, memory_space Space>
buffer(T*, N, Space) -> buffer<T, Space>;

/// `extents` elements at `data`, neighbours along dimension d being `strides[d]` elements apart.
template <class T, memory_space Space = host_space>
struct strided_buffer {
  using element_type = T;
  using space = Space;

  T* data = nullptr;
  std::size_t rank = 0;
  std::array<std::size_t, max_tensor_rank> extents{};
  std::array<std::ptrdiff_t, max_tensor_rank> strides{};

  strided_buffer() = default;
  strided_buffer(T* pointer, std::initializer_list<std::size_t> extent_list,
                 std::initializer_list<std::ptrdiff_t> stride_list, Space = {})
      : data{pointer}, rank{extent_list.size()} {
    if (rank > max_tensor_rank || stride_list.size() != rank)
      detail::fail<usage_error>(
          {"strided_buffer: expected as many strides as extents, and at most ", max_tensor_rank});
    for (std::size_t d = 0; d < rank; ++d) {
      extents[d] = extent_list.begin()[d];
      strides[d] = stride_list.begin()[d];
    }
  }

  /// The view of contiguous elements of that shape.
  strided_buffer(T* pointer, const tensor_shape& contiguous)
      : data{pointer}, rank{contiguous.rank}, extents{contiguous.extents} {
    std::ptrdiff_t stride = 1;
    for (std::size_t i = contiguous.ordered; i-- > 0;) {
      strides[contiguous.outermost_first[i]] = stride;
      stride *= static_cast<std::ptrdiff_t>(extents[contiguous.outermost_first[i]]);
    }
  }

  /// Extents, and the memory order that the strides imply.
  tensor_shape shape() const {
    tensor_shape result;
    result.rank = rank;
    result.extents = extents;
    // Insertion keeps dimensions of equal strides in their order.
    std::size_t dimensions[max_tensor_rank];
    for (std::size_t d = 0; d < rank; ++d) {
      std::size_t at = d;
      for (; at > 0 && magnitude(strides[dimensions[at - 1]]) < magnitude(strides[d]); --at)
        dimensions[at] = dimensions[at - 1];
      dimensions[at] = d;
    }
    for (std::size_t i = 0; i < rank; ++i) result.append(dimensions[i]);
    return result;
  }

  /// Whether the elements lie one after the other, so that this is a buffer{data, count}.
  bool contiguous() const {
    const tensor_shape order = shape();
    if (order.count() == 0) return true;
    std::ptrdiff_t expected = 1;
    for (std::size_t i = order.ordered; i-- > 0;) {
      const std::size_t d = order.outermost_first[i];
      if (strides[d] != expected) return false;
      expected *= static_cast<std::ptrdiff_t>(extents[d]);
    }
    return true;
  }

 private:
  static std::ptrdiff_t magnitude(std::ptrdiff_t stride) { return stride < 0 ? -stride : stride; }
};

}  // namespace hvdlite
