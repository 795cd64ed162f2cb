// SPDX-License-Identifier: Apache-2.0
// What the verbs do with their arguments before they are bytes: sentences for the compiler where an
// argument cannot serve, contiguous memory for what is strided, the option structs.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <hvdlite/collective/communicator.hpp>
#include <hvdlite/comm/operation.hpp>
#include <hvdlite/ops/kernels.hpp>
#include <hvdlite/ops/reduce_op.hpp>
#include <hvdlite/tensor/pack.hpp>
#include <hvdlite/tensor/std.hpp>
#include <hvdlite/tensor/tensor_set.hpp>
#include <hvdlite/tensor/traits.hpp>

namespace hvdlite {

/// A number of samples, from any arithmetic type: `{.samples = batch.size()}`. Not given unless
/// set.
class sample_count {
 public:
  sample_count() = default;
  template <class N>
    requires std::is_arithmetic_v<N>
  sample_count(N samples) : value_{static_cast<double>(samples)}, given_{true} {}

  bool given() const { return given_; }
  double value() const { return value_; }

 private:
  double value_ = 1;
  bool given_ = false;
};

namespace detail {

template <class X>
inline constexpr bool is_vector_bool_v = false;
template <class A>
inline constexpr bool is_vector_bool_v<std::vector<bool, A>> = true;

/// What a verb says whose first argument is no communicator.
template <class X>
constexpr void expect_communicator() {
  static_assert(communicator<X>,
                "hvdlite: the first argument is no communicator: pass env.world(), or one that was "
                "split from it, and then the tensor");
}

/// True if X is a tensor; otherwise the compiler prints one of the sentences, and nothing else.
template <class X>
constexpr bool expect_tensor() {
  using Bare = std::remove_cvref_t<X>;
  constexpr bool ok = tensor<X>;
  if constexpr (!ok) {
    static_assert(!is_vector_bool_v<Bare>,
                  "hvdlite: std::vector<bool> has no elements in memory: use std::vector<char>, or "
                  "std::array<bool, N>");
    static_assert(!std::is_pointer_v<Bare>,
                  "hvdlite: a pointer does not say how many elements it points to: pass "
                  "hvdlite::buffer{pointer, count} or a std::span");
    static_assert(!tensor_expression<X>,
                  "hvdlite: an expression has no memory of its own: evaluate it into a variable");
    static_assert(!is_collection<X>(),
                  "hvdlite: these are several tensors, and here goes one: call this for each of "
                  "them (broadcast_parameters and DistributedOptimizer take them together)");
    static_assert(ok || is_vector_bool_v<Bare> || std::is_pointer_v<Bare> || tensor_expression<X> ||
                      is_collection<X>(),
                  "hvdlite: this type is not a tensor: specialise hvdlite::tensor_traits for it, "
                  "with a view() that returns hvdlite::buffer{pointer, count} of numbers");
  }
  return ok;
}

/// True unless Out, where an op or an output may stand, is neither.
template <class Out>
constexpr bool expect_op_or_output() {
  using Bare = std::remove_cvref_t<Out>;
  constexpr bool other =
      std::is_class_v<Bare> && !tensor<Out> && !tensor_expression<Out> && !is_vector_bool_v<Bare>;
  static_assert(
      !other,
      "hvdlite: the third argument is neither an op (hvdlite::sum{}, ..., or a function as "
      "hvdlite::user_op{name, f, identity}) nor a tensor to write to");
  return !other;
}

/// True if the verb may write to an argument of type X (an lvalue reference if it is an lvalue).
template <class X>
constexpr bool expect_writable() {
  if constexpr (!expect_tensor<X>()) {
    return false;
  } else {
    constexpr bool kept = std::is_lvalue_reference_v<X> || borrowed_tensor<X>;
    static_assert(kept, "hvdlite: the result would be lost with this temporary: pass a variable");
    if constexpr (kept)
      static_assert(writable_tensor<X>,
                    "hvdlite: the result would be written to const elements: pass a writable "
                    "tensor, or use the form with an input and an output");
    return kept && writable_tensor<X>;
  }
}

/// True if Op can reduce elements of X on some backend of Comm.
template <class Comm, class X, class Op>
constexpr bool expect_reducible() {
  constexpr bool defined = Op::template supports<element_of<X>>;
  constexpr auto can = Comm::template reducing<element_of<X>, space_of<X>, Op>;
  constexpr bool served = std::find(can.begin(), can.end(), true) != can.end();
  if constexpr (std::same_as<element_of<X>, bool>)
    static_assert(defined,
                  "hvdlite: this op is not defined for bool: use logical_and or logical_or");
  else if constexpr (is_complex_v<element_of<X>>)
    static_assert(defined,
                  "hvdlite: this op is not defined for complex elements: use sum, average or "
                  "product");
  else
    static_assert(defined, "hvdlite: this op is not defined for this element type");
  if constexpr (std::same_as<space_of<X>, cuda_space>)
    static_assert(served,
                  "hvdlite: no backend of this communicator serves device memory: link "
                  "hvdlite::nccl");
  else
    static_assert(served, "hvdlite: no backend of this communicator serves this tensor");
  return defined && served;
}

/// The memory of a tensor as contiguous elements: its own if it is contiguous, else a copy in
/// memory order that goes back with `write_back`.
template <class V>
class contiguous {
 public:
  using T = std::remove_const_t<typename V::element_type>;

  template <class X>
  contiguous(const V& view, X& x) : view_{view}, shape_{hvdlite::shape(x)} {
    if constexpr (is_strided_buffer_v<V>) {
      if (!view.contiguous()) {
        copy_.resize_for_overwrite(shape_.count() * sizeof(T));
        pack(view_, packed());
      }
    }
  }

  std::size_t count() const {
    if constexpr (is_strided_buffer_v<V>)
      return shape_.count();
    else
      return view_.size;
  }
  const tensor_shape& shape() const { return shape_; }
  const std::byte* read() const {
    return copy_.empty() ? reinterpret_cast<const std::byte*>(view_.data) : copy_.data();
  }
  std::byte* write() const { return const_cast<std::byte*>(read()); }
  void write_back() const {
    if constexpr (is_strided_buffer_v<V> && !std::is_const_v<typename V::element_type>)
      if (!copy_.empty()) unpack(reinterpret_cast<const T*>(copy_.data()), view_);
  }

 private:
  T* packed() { return reinterpret_cast<T*>(copy_.data()); }

  V view_;
  tensor_shape shape_;
  list<std::byte> copy_;  // empty if there is no need for one
};

template <class X>
auto contiguous_of(X&& x) {
  auto v = hvdlite::view(x);
  return contiguous<decltype(v)>{v, x};
}

/// The fields of an operation that come from a tensor.
template <class X>
void describe(operation& op, const auto& memory) {
  op.count = memory.count();
  op.element_bytes = sizeof(element_of<X>);
  op.type = dtype_of<element_of<X>>();
  op.shape = memory.shape();
  op.space = space_of<X>::name;
}

}  // namespace detail

}  // namespace hvdlite
