// SPDX-License-Identifier: Apache-2.0
// Strided memory to contiguous memory and back, in the tensor's memory order, so that contiguous
// pieces stay contiguous copies. Neighbours of the view are not touched.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include <hvdlite/tensor/buffer.hpp>

namespace hvdlite {

namespace detail {

/// Calls f(pointer, stride, count) for each innermost run of `view`, in the order of `shape`, which
/// has the view's extents.
template <class T, class Space, class F>
void for_each_run(const strided_buffer<T, Space>& view, const tensor_shape& shape, F&& f) {
  if (shape.count() == 0) return;
  if (shape.ordered == 0) return f(view.data, std::ptrdiff_t{1}, std::size_t{1});

  const std::size_t inner = shape.outermost_first[shape.ordered - 1];
  const std::size_t outer = shape.ordered - 1;  // an odometer over the dimensions around `inner`
  std::array<std::size_t, max_tensor_rank> index{};
  T* run = view.data;
  while (true) {
    f(run, view.strides[inner], view.extents[inner]);
    std::size_t i = outer;
    for (; i-- > 0;) {
      const std::size_t d = shape.outermost_first[i];
      run += view.strides[d];
      if (++index[i] < view.extents[d]) break;
      run -= view.strides[d] * static_cast<std::ptrdiff_t>(view.extents[d]);
      index[i] = 0;
    }
    if (i == static_cast<std::size_t>(-1)) return;
  }
}

}  // namespace detail

/// Copies the elements of `from` to `to`, which has room for all of them, in the memory order of
/// `order`, whose extents are those of `from`.
template <class T, class Space>
void pack(const strided_buffer<T, Space>& from, std::remove_const_t<T>* to,
          const tensor_shape& order) {
  detail::for_each_run(from, order, [&](const T* run, std::ptrdiff_t stride, std::size_t count) {
    if (stride == 1) {
      std::memcpy(static_cast<void*>(to), run, count * sizeof(T));
      to += count;
    } else {
      // As bytes: what an output holds before may be no value of its type (bool has but two).
      for (std::size_t i = 0; i < count; ++i)
        std::memcpy(static_cast<void*>(to++), run + static_cast<std::ptrdiff_t>(i) * stride,
                    sizeof(T));
    }
  });
}

/// The same in the memory order of `from` itself.
template <class T, class Space>
void pack(const strided_buffer<T, Space>& from, std::remove_const_t<T>* to) {
  hvdlite::pack(from, to, from.shape());
}

/// The inverse of pack in the memory order of `to`.
template <class T, class Space>
void unpack(const T* from, const strided_buffer<T, Space>& to) {
  detail::for_each_run(to, to.shape(), [&](T* run, std::ptrdiff_t stride, std::size_t count) {
    if (stride == 1) {
      std::memcpy(static_cast<void*>(run), from, count * sizeof(T));
      from += count;
    } else {
      for (std::size_t i = 0; i < count; ++i)
        std::memcpy(static_cast<void*>(run + static_cast<std::ptrdiff_t>(i) * stride), from++,
                    sizeof(T));
    }
  });
}

}  // namespace hvdlite
