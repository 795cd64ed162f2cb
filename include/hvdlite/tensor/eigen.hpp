// SPDX-License-Identifier: Apache-2.0
// Eigen's dense types as tensors: Matrix, Array, Map, Ref, Block, Transpose and whatever else has
// memory of its own; other expressions are evaluated. The only file that includes Eigen.
#pragma once

#include <Eigen/Core>
#include <concepts>
#include <cstddef>
#include <type_traits>

#include <hvdlite/tensor/traits.hpp>

namespace hvdlite {

template <>
struct element_traits<Eigen::half> {
  using canonical = float16;
};
template <>
struct element_traits<Eigen::bfloat16> {
  using canonical = bfloat16;
};

namespace detail {

template <class D>
void accept_dense(const Eigen::DenseBase<D>&);
template <class X>
concept eigen_dense = requires(const X& x) { detail::accept_dense(x); };

template <class X>
concept eigen_with_memory =
    eigen_dense<X> && (static_cast<int>(X::Flags) & static_cast<int>(Eigen::DirectAccessBit)) != 0;

template <class X>
inline constexpr bool eigen_owns = std::derived_from<X, Eigen::PlainObjectBase<X>>;

template <class X>
inline constexpr bool eigen_row_major =
    (static_cast<int>(X::Flags) & static_cast<int>(Eigen::RowMajorBit)) != 0;

}  // namespace detail

template <detail::eigen_with_memory X>
struct tensor_traits<X> {
  // A Map, Ref, Block or Transpose refers to memory of somebody else's: a const one still writes,
  // unless what it refers to is const, which Eigen marks by the absent LvalueBit.
  static constexpr bool borrows = !detail::eigen_owns<X>;
  static constexpr bool writable =
      (static_cast<int>(X::Flags) & static_cast<int>(Eigen::LvalueBit)) != 0;
  using Scalar = typename X::Scalar;
  using T = std::conditional_t<writable, Scalar, const Scalar>;

  static auto view(auto& x) {
    if constexpr (detail::eigen_owns<X>) {
      return buffer{x.data(), x.size()};
    } else {
      T* data = const_cast<T*>(x.data());
      const auto extent = [](Eigen::Index n) { return static_cast<std::size_t>(n); };
      if constexpr (X::IsVectorAtCompileTime)
        return strided_buffer<T>{data, {extent(x.size())}, {x.innerStride()}};
      else if constexpr (detail::eigen_row_major<X>)
        return strided_buffer<T>{
            data, {extent(x.rows()), extent(x.cols())}, {x.outerStride(), x.innerStride()}};
      else
        return strided_buffer<T>{
            data, {extent(x.rows()), extent(x.cols())}, {x.innerStride(), x.outerStride()}};
    }
  }

  /// Vectors of compile time have rank 1, so that a VectorXf fits a std::vector<float>.
  static tensor_shape shape(const X& x) {
    const auto rows = static_cast<std::size_t>(x.rows());
    const auto cols = static_cast<std::size_t>(x.cols());
    if constexpr (X::IsVectorAtCompileTime)
      return tensor_shape::vector(rows * cols);
    else if constexpr (!detail::eigen_owns<X>)
      return view(x).shape();  // its strides say more than its type: both may be of extent 1
    else if constexpr (detail::eigen_row_major<X>)
      return tensor_shape::row_major({rows, cols});
    else
      return tensor_shape::column_major({rows, cols});
  }

  /// A copy that owns its elements, also of a view.
  static auto evaluate(const X& x) { return typename X::PlainObject{x}; }
};

template <detail::eigen_dense X>
  requires(!detail::eigen_with_memory<X>)
struct tensor_traits<X> {
  static auto evaluate(const X& x) { return x.eval(); }
};

}  // namespace hvdlite
