// SPDX-License-Identifier: Apache-2.0
// allreduce: every rank gets the reduction of all ranks' tensors, with the same bits everywhere.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <hvdlite/collective/arguments.hpp>

namespace hvdlite {

/// Options of allreduce. All but `samples` must agree on all ranks.
struct allreduce_options {
  std::string_view name = {};  ///< appears in errors and traces; ranks compare it
  double prescale = 1;         ///< multiplies every rank's elements before the reduction
  double postscale = 1;        ///< multiplies the result
  sample_count samples = {};   ///< this rank's weight in an average: how many samples it stands for

  /// Neither scales nor weights.
  bool plain() const { return prescale == 1 && postscale == 1 && !samples.given(); }
};

/// The policy that is used where none is given; inherit from it to change a part.
template <class Tensor>
struct default_policy {
  using op = average;
};

/// What allreduce<Policy> takes from its template argument: `using op = ...;`.
template <class P>
concept reduction_policy = requires { typename P::op; } && reduce_op<typename P::op>;

namespace detail {

/// What is wrong with the options, in words; empty if nothing is.
template <class T, class Op>
HVDLITE_COLD text refusal(const allreduce_options& o) {
  const bool scales = o.prescale != 1 || o.postscale != 1;
  if constexpr (std::same_as<Op, logical_and> || std::same_as<Op, logical_or>) {
    if (scales) return {"prescale and postscale are not defined for logical_and and logical_or"};
  } else if constexpr (std::same_as<T, bool>) {
    if (scales) return {"prescale and postscale are not defined for bool"};
  } else if constexpr (is_integer_v<T> && sizeof(T) == 8) {
    if (scales)
      return {
          "prescale and postscale would lose bits of 64-bit integers; convert to double before"};
  }
  if (o.samples.given()) {
    if (!std::same_as<Op, average>)
      return {"samples are weights of an average, and the op is another one; leave .samples out"};
    if (!is_finite(o.samples.value()) || o.samples.value() < 0)
      return text(
          {"samples is ", o.samples.value(), "; expected a finite number that is not negative"});
    if (is_integer_v<T> && sizeof(T) == 8)
      return {"weights would lose bits of 64-bit integers; convert to double before"};
    if (is_integer_v<T> &&
        (o.samples.value() != std::floor(o.samples.value()) || o.samples.value() > 0x1p31))
      return text({"samples is ", o.samples.value(),
                   "; integers are weighted by whole numbers up to 2147483648; convert to double "
                   "before"});
  }
  return {};
}

/// An allreduce of elements T but for its memory. Refers to `op`, `options` and `refused`.
template <class T, class Op>
operation reduction_call(const Op& op, const allreduce_options& options, std::string_view refused) {
  operation call;
  call.verb = verb::allreduce;
  call.name = options.name;
  call.refused = refused;
  call.kernels = &kernels_of<T, Op>;
  call.op_context = std::addressof(op);
  call.op_name = op.name;
  call.prescale = options.prescale;
  call.postscale = options.postscale;
  call.adds = std::same_as<Op, sum> || std::same_as<Op, average>;
  call.averages = std::same_as<Op, average>;
  call.weighted = options.samples.given();
  call.weight = options.samples.value();
  return call;
}

/// Both forms: `in` and `out` are contiguous<...>, perhaps of the same memory.
template <class X, class Comm, class Op>
void allreduce_bytes(const Comm& comm, const auto& in, const auto& out, const Op& op,
                     const allreduce_options& options, text refused = {}) {
  using T = element_of<X>;
  if (refused.empty() && !options.plain()) refused = refusal<T, Op>(options);
  operation call = reduction_call<T>(op, options, refused);
  describe<X>(call, in);
  call.in = in.read();
  call.out = out.write();

  // A half-overlapping output would be written while it is still to be read.
  list<std::byte> apart;
  const std::less<const std::byte*> before;
  if (call.in != call.out && before(call.in, call.out + call.bytes()) &&
      before(call.out, call.in + call.bytes())) {
    apart.resize_for_overwrite(call.bytes());
    std::memcpy(apart.data(), call.in, call.bytes());
    call.in = apart.data();
  }
  comm.run(call, Comm::template reducing<T, space_of<X>, Op>);
  out.write_back();
}

}  // namespace detail

/// Reduces `x` over all ranks of `comm`, in place.
///
/// Collective, blocking. `x`: any tensor, of the same shape, element type and memory order on all
/// ranks. Per element the result is one fixed expression of the ranks' elements (a balanced binary
/// tree over ranks, see ops/tree.hpp): the same bits on every rank and in every run. Halves are
/// reduced in float and rounded once; integer averages are truncated toward zero; NaN wins min and
/// max. With `.samples` an average is weighted by them, and a rank with 0 samples is not read; if
/// all ranks have 0, nothing changes.
///
/// Throws mismatch_error (on all ranks, `x` untouched), timeout_error, peer_lost_error,
/// usage_error.
template <communicator Comm, class X, reduce_op Op>
HVDLITE_OUT_OF_LINE void allreduce(const Comm& comm, X&& x, const Op& op,
                                   const allreduce_options& options = {}) {
  if constexpr (detail::expect_writable<X&&>())
    if constexpr (detail::expect_reducible<Comm, X, Op>()) {
      const auto memory = detail::contiguous_of(x);
      detail::allreduce_bytes<X>(comm, memory, memory, op, options);
    }
}

/// The average over all ranks, in place; see above.
template <communicator Comm, class X>
void allreduce(const Comm& comm, X&& x, const allreduce_options& options = {}) {
  hvdlite::allreduce(comm, std::forward<X>(x), average{}, options);
}

/// Out of place: `in` is left as it is, the result goes to `out`, a tensor with as many elements of
/// the same type in the same memory order. The two may overlap in any way.
template <communicator Comm, class In, class Out, reduce_op Op>
  requires(!reduce_op<Out> && !std::same_as<std::remove_cvref_t<Out>, allreduce_options>)
HVDLITE_OUT_OF_LINE void allreduce(const Comm& comm, const In& in, Out&& out, const Op& op,
                                   const allreduce_options& options = {}) {
  if constexpr (detail::expect_op_or_output<Out>() && detail::expect_tensor<const In&>() &&
                detail::expect_writable<Out&&>()) {
    constexpr bool same = std::same_as<element_of<const In&>, element_of<Out>> &&
                          std::same_as<space_of<const In&>, space_of<Out>>;
    static_assert(same, "hvdlite: input and output have different element types or memory spaces");
    if constexpr (same && detail::expect_reducible<Comm, Out, Op>()) {
      const auto from = detail::contiguous_of(in);
      const auto to = detail::contiguous_of(out);
      detail::text refused;
      if (from.count() != to.count())
        refused =
            detail::text({"the output has ", to.count(), " elements, the input ", from.count()});
      else if (from.shape().ordered > 1 && to.shape().ordered > 1 &&
               from.shape().order_text() != to.shape().order_text())
        refused = detail::text({"the input is ", from.shape().order_text(), ", the output ",
                                to.shape().order_text(), "; store both alike"});
      detail::allreduce_bytes<Out>(comm, from, to, op, options, std::move(refused));
    }
  }
}

/// Out of place, averaging; see above.
template <communicator Comm, class In, class Out>
  requires(!reduce_op<Out> && !std::same_as<std::remove_cvref_t<Out>, allreduce_options>)
void allreduce(const Comm& comm, const In& in, Out&& out, const allreduce_options& options = {}) {
  hvdlite::allreduce(comm, in, std::forward<Out>(out), average{}, options);
}

/// Says that the communicator is missing.
template <class X, class... Rest>
  requires(!communicator<X>)
void allreduce(const X&, const Rest&...) {
  detail::expect_communicator<X>();
}

/// In place, with the op of a policy type: `allreduce<my_policy>(comm, x)`.
template <reduction_policy Policy, communicator Comm, class X>
void allreduce(const Comm& comm, X&& x, const allreduce_options& options = {}) {
  hvdlite::allreduce(comm, std::forward<X>(x), typename Policy::op{}, options);
}

}  // namespace hvdlite
