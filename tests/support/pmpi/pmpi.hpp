// SPDX-License-Identifier: Apache-2.0
// What a test can learn about the MPI calls of its process, and how it makes one of them fail. Link
// pmpi.cpp into the program: it stands between the program and MPI through MPI's PMPI names.
#pragma once

namespace pmpi {

/// Since the program started. `sends` and `receives` count what moves a message: MPI_Send and
/// MPI_Isend; MPI_Recv, MPI_Irecv and the MPI_Start of a persistent receive.
struct counts {
  long sends, receives;
  long communicators, requests, groups;  ///< alive, as far as the program made them
  long handlers_set;                     ///< MPI_Comm_set_errhandler
};
counts now();

/// From here on the `nth` call (1 is the next) of `function` ("MPI_Isend") returns MPI_ERR_OTHER
/// and does nothing. At most one at a time; nth 0 takes it back.
void fail(const char* function, long nth);
/// Whether the call that was to fail has been made.
bool has_failed();

/// Whether MPI was initialised, and finalized, by the calling program's code on one thread.
bool ended_on_its_thread();

}  // namespace pmpi
