// SPDX-License-Identifier: Apache-2.0
// The same start for all ranks: a model's parameters (and buffers) from one rank to all.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

#include <hvdlite/collective/broadcast.hpp>
#include <hvdlite/tensor/tensor_set.hpp>

namespace hvdlite {

/// Overwrites each tensor of `params` with rank `root`'s. `params`: a tensor, a std::tie of
/// tensors, a range of tensors or of (name, tensor) pairs such as a std::map (an unordered map may
/// have another order on each rank: that is a mismatch_error, if names or shapes show it).
///
/// Collective, blocking. Throws as broadcast does, naming the tensor; those before it have been
/// broadcast then.
template <communicator Comm, class Params>
void broadcast_parameters(const Comm& comm, Params&& params, int root = 0) {
  if constexpr (!detail::expect_kept<Params&&>()) return;
  const std::size_t total = hvdlite::tensor_count(params);
  std::size_t index = 0;
  hvdlite::for_each_tensor(params, [&](std::string_view given, auto& tensor) {
    const detail::text name(
        {"parameter ", index++, " of ", total, given.empty() ? "" : ", ", given});
    hvdlite::broadcast(comm, tensor, broadcast_options{.root = root, .name = name});
  });
}

}  // namespace hvdlite
