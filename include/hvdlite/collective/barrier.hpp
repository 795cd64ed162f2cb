// SPDX-License-Identifier: Apache-2.0
// barrier: nobody goes on before everybody has come.
#pragma once

#include <string_view>

#include <hvdlite/collective/communicator.hpp>

namespace hvdlite {

struct barrier_options {
  std::string_view name = {};  ///< appears in errors and traces; ranks compare it
};

/// Returns when all ranks of `comm` have called it. Collective, blocking. Throws mismatch_error,
/// timeout_error, peer_lost_error.
template <communicator Comm>
void barrier(const Comm& comm, const barrier_options& options = {}) {
  operation call;
  call.verb = verb::barrier;
  call.name = options.name;
  comm.run(call, Comm::template moving<float, host_space>);
}

}  // namespace hvdlite
