// SPDX-License-Identifier: Apache-2.0
// MPI's functions with a counter in front, see pmpi.hpp. A request counts from the call that makes
// it to the one after which its handle is MPI_REQUEST_NULL.
#include "pmpi.hpp"

#include <mpi.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

std::atomic<long> sends, receives, communicators, requests, groups, handlers;
std::atomic<const char*> chosen{nullptr};
std::atomic<long> left{0};
std::atomic<bool> made{false};
std::thread::id initialised_by;

bool fails(const char* function) {
  const char* const name = chosen.load();
  if (name == nullptr || std::strcmp(name, function) != 0 || left.fetch_sub(1) != 1) return false;
  made = true;
  chosen = nullptr;
  return true;
}

int count_communicator(int code, const MPI_Comm* made_one) {
  if (code == MPI_SUCCESS && *made_one != MPI_COMM_NULL) ++communicators;
  return code;
}

int count_request(int code) {
  if (code == MPI_SUCCESS) ++requests;
  return code;
}

int count_group(int code) {
  if (code == MPI_SUCCESS) ++groups;
  return code;
}

}  // namespace

namespace pmpi {

counts now() { return {sends, receives, communicators, requests, groups, handlers}; }

void fail(const char* function, long nth) {
  made = false;
  left = nth;
  chosen = nth == 0 ? nullptr : function;
}

bool has_failed() { return made; }

bool ended_on_its_thread() { return initialised_by == std::this_thread::get_id(); }

}  // namespace pmpi

extern "C" {

int MPI_Init(int* argc, char*** argv) {
  initialised_by = std::this_thread::get_id();
  return PMPI_Init(argc, argv);
}

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  initialised_by = std::this_thread::get_id();
  return PMPI_Init_thread(argc, argv, required, provided);
}

int MPI_Finalize() {
  if (!pmpi::ended_on_its_thread()) {
    std::fputs("pmpi: MPI_Finalize on another thread than MPI_Init\n", stderr);
    std::_Exit(7);
  }
  if (std::getenv("PMPI_SAYS") != nullptr) std::fputs("pmpi: MPI_Finalize\n", stderr);
  return PMPI_Finalize();
}

int MPI_Send(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  if (fails("MPI_Send")) return MPI_ERR_OTHER;
  ++sends;
  return PMPI_Send(data, count, type, to, tag, comm);
}

int MPI_Recv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
             MPI_Status* status) {
  if (fails("MPI_Recv")) return MPI_ERR_OTHER;
  ++receives;
  return PMPI_Recv(data, count, type, from, tag, comm, status);
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  if (fails("MPI_Isend")) return MPI_ERR_OTHER;
  ++sends;
  return count_request(PMPI_Isend(data, count, type, to, tag, comm, request));
}

int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request* request) {
  if (fails("MPI_Irecv")) return MPI_ERR_OTHER;
  ++receives;
  return count_request(PMPI_Irecv(data, count, type, from, tag, comm, request));
}

int MPI_Recv_init(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                  MPI_Request* request) {
  if (fails("MPI_Recv_init")) return MPI_ERR_OTHER;
  return count_request(PMPI_Recv_init(data, count, type, from, tag, comm, request));
}

int MPI_Start(MPI_Request* request) {
  if (fails("MPI_Start")) return MPI_ERR_OTHER;
  ++receives;
  return PMPI_Start(request);
}

int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  if (fails("MPI_Test")) return MPI_ERR_OTHER;
  const bool was = *request != MPI_REQUEST_NULL;
  const int code = PMPI_Test(request, done, status);
  if (was && *request == MPI_REQUEST_NULL) --requests;
  return code;
}

int MPI_Testall(int count, MPI_Request* all, int* done, MPI_Status* statuses) {
  if (fails("MPI_Testall")) return MPI_ERR_OTHER;
  long before = 0, after = 0;
  for (int i = 0; i < count; ++i) before += all[i] != MPI_REQUEST_NULL ? 1 : 0;
  const int code = PMPI_Testall(count, all, done, statuses);
  for (int i = 0; i < count; ++i) after += all[i] != MPI_REQUEST_NULL ? 1 : 0;
  requests -= before - after;
  return code;
}

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  if (fails("MPI_Wait")) return MPI_ERR_OTHER;
  const bool was = *request != MPI_REQUEST_NULL;
  const int code = PMPI_Wait(request, status);
  if (was && *request == MPI_REQUEST_NULL) --requests;
  return code;
}

int MPI_Request_free(MPI_Request* request) {
  --requests;
  return PMPI_Request_free(request);
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* copy) {
  if (fails("MPI_Comm_dup")) return MPI_ERR_OTHER;
  return count_communicator(PMPI_Comm_dup(comm, copy), copy);
}

int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm* part) {
  if (fails("MPI_Comm_create")) return MPI_ERR_OTHER;
  return count_communicator(PMPI_Comm_create(comm, group, part), part);
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* part) {
  if (fails("MPI_Comm_split")) return MPI_ERR_OTHER;
  return count_communicator(PMPI_Comm_split(comm, color, key, part), part);
}

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* part) {
  if (fails("MPI_Comm_split_type")) return MPI_ERR_OTHER;
  return count_communicator(PMPI_Comm_split_type(comm, type, key, info, part), part);
}

int MPI_Comm_free(MPI_Comm* comm) {
  --communicators;
  return PMPI_Comm_free(comm);
}

int MPI_Comm_group(MPI_Comm comm, MPI_Group* group) {
  return count_group(PMPI_Comm_group(comm, group));
}

int MPI_Group_incl(MPI_Group from, int count, const int ranks[], MPI_Group* group) {
  return count_group(PMPI_Group_incl(from, count, ranks, group));
}

int MPI_Group_free(MPI_Group* group) {
  --groups;
  return PMPI_Group_free(group);
}

int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler) {
  ++handlers;
  return PMPI_Comm_set_errhandler(comm, handler);
}

}  // extern "C"
