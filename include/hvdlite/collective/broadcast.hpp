// SPDX-License-Identifier: Apache-2.0
// broadcast: every rank gets the root's tensor.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <utility>

#include <hvdlite/collective/arguments.hpp>

namespace hvdlite {

/// Options of broadcast; all must agree on all ranks.
struct broadcast_options {
  int root = 0;                ///< the rank in `comm` whose elements everybody gets
  std::string_view name = {};  ///< appears in errors and traces; ranks compare it
};

/// Overwrites `x` on every rank with rank `root`'s, bit for bit.
///
/// Collective, blocking. `x`: any tensor, of the same shape, element type and memory order on all
/// ranks. Throws mismatch_error (on all ranks, `x` untouched), timeout_error, peer_lost_error, and
/// usage_error for a root out of range.
template <communicator Comm, class X>
HVDLITE_OUT_OF_LINE void broadcast(const Comm& comm, X&& x, const broadcast_options& options = {}) {
  if constexpr (detail::expect_writable<X&&>()) {
    using T = element_of<X>;
    constexpr auto can = Comm::template moving<T, space_of<X>>;
    constexpr bool served = std::find(can.begin(), can.end(), true) != can.end();
    static_assert(served, "hvdlite: no backend of this communicator serves this memory space");
    if constexpr (served) {
      const auto memory = detail::contiguous_of(x);
      detail::text refused;
      if (options.root < 0 || options.root >= comm.size())
        refused = detail::text(
            {"root ", options.root, " is out of range; there are ranks 0 to ", comm.size() - 1});
      operation call;
      call.verb = verb::broadcast;
      call.name = options.name;
      call.refused = refused;
      detail::describe<X>(call, memory);
      call.root = options.root;
      call.out = memory.write();
      call.in = call.out;
      comm.run(call, can);
      memory.write_back();
    }
  }
}

/// The same with the root alone.
template <communicator Comm, class X, std::integral Root>
void broadcast(const Comm& comm, X&& x, Root root) {
  hvdlite::broadcast(
      comm, std::forward<X>(x),
      broadcast_options{.root = std::in_range<int>(root) ? static_cast<int>(root) : -1});
}

/// Says that the communicator is missing.
template <class X, class... Rest>
  requires(!communicator<X>)
void broadcast(const X&, const Rest&...) {
  detail::expect_communicator<X>();
}

}  // namespace hvdlite
