// SPDX-License-Identifier: Apache-2.0
// MPI as a guest or a host in the process: its start and its end (through Boost.MPI), and the
// channel over which ranks meet at start-up. The data path is in comm/mpi.
#pragma once

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1  // the C++ bindings, removed from MPI in 2012, must not be linked
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/mpi/environment.hpp>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include <hvdlite/comm/backend.hpp>
#include <hvdlite/core/clock.hpp>
#include <hvdlite/core/fork.hpp>
#include <hvdlite/core/process.hpp>
#include <hvdlite/core/text.hpp>

namespace boost::mpi {
class communicator;  // whoever hands one over has included its header, the costliest of all
}

namespace hvdlite {

namespace detail {

[[noreturn]] HVDLITE_COLD inline void throw_mpi_error(int code, const char* function) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  detail::fail<transport_error>({function, ": ", text});
}

/// Turns an MPI error code into an exception with MPI's own text.
inline void check_mpi(int code, const char* function) {
  if (code != MPI_SUCCESS) throw_mpi_error(code, function);
}

inline bool mpi_finalized() {
  int flag = 0;
  MPI_Finalized(&flag);
  return flag != 0;
}

/// For what the program may do after its own MPI_Finalize.
HVDLITE_COLD inline void fail_finalized() {
  detail::fail<usage_error>(
      {"MPI has been finalized while this communicator was in use; end the Environment, and make "
       "the last call, before MPI_Finalize"});
}

/// MPI as far as this library started it. It is finalized when the process ends in order, not when
/// an Environment does, since MPI cannot be started twice and an Environment can; but with the
/// thread that started it, if that is not main's: MPI wants both on one thread. A process that ends
/// while an Environment is alive, or after one was unwound, does not finalize: the launcher then
/// ends the job instead of waiting. Nor does the child of a fork.
class mpi_session {
 public:
  HVDLITE_EXPORT static mpi_session& instance() {
    static mpi_session& session = *new mpi_session;  // an Environment may be gone later than this
    static const process_end end;
    return session;
  }

  static bool running() { return boost::mpi::environment::initialized() && !mpi_finalized(); }

  HVDLITE_COLD void start() {
    if (mpi_finalized())
      detail::fail<usage_error>(
          {"MPI has been finalized already, and cannot be started again in a process; "
           "end the Environment before MPI_Finalize, or let hvdlite start MPI, in main or in a "
           "thread that stays"});
    if (boost::mpi::environment::initialized()) return;
    environment_ = new boost::mpi::environment{boost::mpi::threading::funneled,
                                               /*abort_on_exception=*/false};
    // Boost makes errors on the world return; that is the user's communicator, ours have their own.
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    if (gettid() != getpid()) {
      static thread_local thread_end end;
      end.session = this;
    }
  }

  /// Data that can be neither withdrawn nor finished is in flight. MPI would move it at the end,
  /// out of and into memory that has been freed long since: the process ends without it.
  void leaves_data() { leaves_data_.store(true, std::memory_order_relaxed); }

  /// Whether MPI runs in the parent of this process, from which it was forked.
  bool inherited() const { return home_.left(); }

  void keep_alive() { ++alive_; }
  void ended_in_order() {
    if (--alive_ == 0 && exiting_) finish();
  }
  /// See channel: a rank that is missed may not come to the barrier at the end either.
  void rank_missed() { ++missed_; }
  void all_met_again() { --missed_; }
  /// Processes whose death makes that barrier futile. Those of the world, which stay the same: the
  /// first call counts.
  bool watches() const { return !watched_.empty(); }
  void watch(const process_identity& process) { watched_.push_back({process}); }

  mpi_session(const mpi_session&) = delete;
  mpi_session& operator=(const mpi_session&) = delete;

 private:
  struct watched {
    process_identity process;
    bool seen_ended = false;
  };

  struct thread_end {
    mpi_session* session = nullptr;
    ~thread_end() {
      if (session != nullptr) session->finish();
    }
  };

  struct process_end {
    process_end() = default;
    process_end(const process_end&) = delete;
    process_end& operator=(const process_end&) = delete;
    ~process_end() {
      instance().exiting_ = true;
      instance().finish();
    }
  };

  mpi_session() = default;

  HVDLITE_COLD void finish() {
    if (environment_ == nullptr || alive_ != 0 || inherited()) return;
    if (mpi_finalized() || (!leaves_data_.load(std::memory_order_relaxed) && meet())) {
      delete std::exchange(environment_, nullptr);
    } else {
      // The launcher ends the job once it sees this process go: others have something to say, too.
      clock::sleep_for(200'000'000);
    }
  }

  /// Wait here for ranks that still work and may fail: Open MPI's mpirun can crash or hang when one
  /// rank dies while another is inside MPI_Finalize. False if a rank will not come; the process
  /// then ends without MPI_Finalize, which ends the job.
  HVDLITE_COLD bool meet() {
    MPI_Request barrier = MPI_REQUEST_NULL;
    if (MPI_Ibarrier(MPI_COMM_WORLD, &barrier) != MPI_SUCCESS) return false;
    constexpr double patience = 5;  // seconds, with ranks that were missed before
    const stopwatch watch;
    for (int round = 1;; ++round) {
      int met = 0;
      if (MPI_Test(&barrier, &met, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
      if (met != 0) return true;
      if (missed_ > 0 && to_seconds(watch.elapsed()) > patience) return false;
      clock::sleep_for(500'000);
      if (round % 64 != 0) continue;
      const process_identity self = this_process();
      for (watched& other : watched_)
        if (state_of(other.process, self) == process_state::ended &&
            std::exchange(other.seen_ended, true))
          return false;  // seen twice: the barrier has had the time to notice
    }
  }

  boost::mpi::environment* environment_ = nullptr;
  int alive_ = 0;
  std::atomic<int> missed_{0};
  list<watched> watched_;
  std::atomic<bool> leaves_data_{false};
  bool exiting_ = false;  // static objects are being destroyed
  home_process home_;
};

}  // namespace detail

/// The start-up channel over a duplicate of an MPI communicator.
class mpi_channel final : public channel {
 public:
  /// Collective over `comm`, which stays the caller's.
  HVDLITE_COLD explicit mpi_channel(MPI_Comm comm) : comm_{duplicate(comm)} { find_nodes(); }

  ~mpi_channel() override {
    // MPI uses the number of a freed communicator again, and would take messages that nobody has
    // received for the new one's; so it is kept then. After MPI_Finalize it is gone anyway.
    if (!has_messages_ && !home_.left() && !detail::mpi_finalized()) MPI_Comm_free(&comm_);
  }

  HVDLITE_COLD void exchange(const void* mine, std::size_t bytes, void* all) override {
    const int count = static_cast<int>(bytes);
    detail::check_mpi(MPI_Allgather(mine, count, MPI_BYTE, all, count, MPI_BYTE, comm_),
                      "MPI_Allgather");
  }

  HVDLITE_COLD std::unique_ptr<channel> split(int color, int key) override {
    if (detail::mpi_finalized()) detail::fail_finalized();
    MPI_Comm part = MPI_COMM_NULL;
    detail::check_mpi(MPI_Comm_split(comm_, color < 0 ? MPI_UNDEFINED : color, key, &part),
                      "MPI_Comm_split");
    if (part == MPI_COMM_NULL) return nullptr;
    std::unique_ptr<channel> result{new mpi_channel{part}};
    detail::check_mpi(MPI_Comm_free(&part), "MPI_Comm_free");
    return result;
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int node_of(int rank) const override { return nodes_[static_cast<std::size_t>(rank)]; }

  void leave(std::string_view) noexcept override { has_messages_ = true; }
  void leaves_messages() noexcept override { has_messages_ = true; }
  void rank_missed() noexcept override { detail::mpi_session::instance().rank_missed(); }
  void all_met_again() noexcept override { detail::mpi_session::instance().all_met_again(); }

  HVDLITE_COLD process_report look_at(int rank) noexcept override {
    if (node_of(rank) != node_of(rank_)) return {};
    const auto& process = processes_[static_cast<std::size_t>(rank)];
    return {detail::state_of(process, processes_[static_cast<std::size_t>(rank_)]), process.number};
  }
  /// For the world: the end of the process waits for the others of this node while they live.
  HVDLITE_COLD void watch_all() const {
    auto& session = detail::mpi_session::instance();
    if (session.watches()) return;
    for (int r = 0; r < size_; ++r)
      if (r != rank_ && node_of(r) == node_of(rank_))
        session.watch(processes_[static_cast<std::size_t>(r)]);
  }

  MPI_Comm handle() const { return comm_; }

 private:
  HVDLITE_COLD static MPI_Comm duplicate(MPI_Comm comm) {
    if (!detail::mpi_session::running())
      detail::fail<usage_error>(
          {"an MPI communicator was given, but MPI is not running: call MPI_Init, or "
           "make an Environment, before"});
    if (detail::mpi_session::instance().inherited())
      detail::fail<usage_error>(
          {"MPI was started before this process was forked from its parent, and serves the parent "
           "only; make no Environment or Communicator in the child, or fork before MPI starts"});
    if (comm == MPI_COMM_NULL)
      detail::fail<usage_error>(
          {"MPI_COMM_NULL was given: this process is not a member of the communicator"});
    int two_groups = 0;
    detail::check_mpi(MPI_Comm_test_inter(comm, &two_groups), "MPI_Comm_test_inter");
    if (two_groups != 0)
      detail::fail<usage_error>(
          {"an intercommunicator was given; merge its groups by MPI_Intercomm_merge"});
    MPI_Comm copy = MPI_COMM_NULL;
    detail::check_mpi(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
    return copy;
  }

  HVDLITE_COLD void find_nodes() {
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    MPI_Comm node = MPI_COMM_NULL;
    detail::check_mpi(MPI_Comm_split_type(handle(), MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node),
                      "MPI_Comm_split_type");
    int lowest = rank();  // the lowest rank of a node is its number
    detail::check_mpi(MPI_Bcast(&lowest, 1, MPI_INT, 0, node), "MPI_Bcast");
    nodes_.resize(static_cast<std::size_t>(size()));
    detail::check_mpi(MPI_Allgather(&lowest, 1, MPI_INT, nodes_.data(), 1, MPI_INT, handle()),
                      "MPI_Allgather");
    detail::check_mpi(MPI_Comm_free(&node), "MPI_Comm_free");
    const detail::process_identity self = detail::this_process();
    processes_.resize(nodes_.size());
    exchange(&self, sizeof self, processes_.data());
  }

  MPI_Comm comm_;
  detail::home_process home_;
  bool has_messages_ = false;
  int rank_ = 0;
  int size_ = 1;
  detail::list<int> nodes_;
  detail::list<detail::process_identity> processes_;
};

}  // namespace hvdlite
