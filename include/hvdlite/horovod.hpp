// SPDX-License-Identifier: Apache-2.0
// Horovod's vocabulary on the current world, for code that has no communicator at hand:
// `namespace hvd = hvdlite::horovod;`. Semantics are those of the functions with a communicator.
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

#include <hvdlite/collective/allreduce.hpp>
#include <hvdlite/collective/barrier.hpp>
#include <hvdlite/collective/broadcast.hpp>
#include <hvdlite/collective/environment.hpp>
#include <hvdlite/optim/broadcast_state.hpp>

namespace hvdlite::horovod {

namespace detail {

HVDLITE_EXPORT inline std::unique_ptr<Environment>& the_environment() {
  // What an Environment uses must outlive it also at exit, hence must be there before.
  hvdlite::detail::prepare_process();
  static std::unique_ptr<Environment> environment;
  return environment;
}

}  // namespace detail

/// Joins the job; a second call does nothing. See Environment.
inline void init() {
  auto& environment = detail::the_environment();
  if (!environment) environment = std::make_unique<Environment>();
}

/// Leaves the job; without init it does nothing. `init` may be called again.
inline void shutdown() { detail::the_environment().reset(); }

inline bool is_initialized() { return has_current_world(); }

inline int rank() { return current_world().rank(); }
inline int size() { return current_world().size(); }
inline int local_rank() { return current_world().local_rank(); }
inline int local_size() { return current_world().local_size(); }
inline int cross_rank() { return current_world().cross_rank(); }
inline int cross_size() { return current_world().cross_size(); }
inline bool is_homogeneous() { return current_world().is_homogeneous(); }

/// Whether this build has MPI.
constexpr bool mpi_built() { return HVDLITE_WITH_MPI != 0; }

/// The ops under Horovod's names.
inline constexpr average Average{};
inline constexpr sum Sum{};
inline constexpr min Min{};
inline constexpr max Max{};
inline constexpr product Product{};

/// As hvdlite::allreduce, on the current world: in place, or out of place, the average if no op is
/// given. (Horovod's own `allreduce` returns a copy, its `allreduce_` works in place.)
template <class X>
void allreduce(X&& x, const allreduce_options& options = {}) {
  hvdlite::allreduce(current_world(), std::forward<X>(x), options);
}
template <class X, reduce_op Op>
void allreduce(X&& x, const Op& op, const allreduce_options& options = {}) {
  hvdlite::allreduce(current_world(), std::forward<X>(x), op, options);
}
template <class In, class Out>
  requires(!reduce_op<Out> && !std::same_as<std::remove_cvref_t<Out>, allreduce_options>)
void allreduce(const In& in, Out&& out, const allreduce_options& options = {}) {
  hvdlite::allreduce(current_world(), in, std::forward<Out>(out), options);
}
template <class In, class Out, reduce_op Op>
  requires(!reduce_op<Out> && !std::same_as<std::remove_cvref_t<Out>, allreduce_options>)
void allreduce(const In& in, Out&& out, const Op& op, const allreduce_options& options = {}) {
  hvdlite::allreduce(current_world(), in, std::forward<Out>(out), op, options);
}

/// As hvdlite::broadcast, on the current world.
template <class X>
void broadcast(X&& x, int root_rank) {
  hvdlite::broadcast(current_world(), std::forward<X>(x), root_rank);
}

/// As hvdlite::broadcast_parameters, on the current world.
template <class Params>
void broadcast_parameters(Params&& params, int root_rank) {
  hvdlite::broadcast_parameters(current_world(), params, root_rank);
}

/// As hvdlite::barrier, on the current world.
inline void barrier() { hvdlite::barrier(current_world()); }

}  // namespace hvdlite::horovod
