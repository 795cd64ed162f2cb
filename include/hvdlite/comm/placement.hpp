// SPDX-License-Identifier: Apache-2.0
// Who the ranks of a communicator are and where they run, and the one channel over which they can
// talk before any backend exists. Backends are chosen and built from a placement.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include <hvdlite/core/error.hpp>
#include <hvdlite/core/list.hpp>
#include <hvdlite/core/process.hpp>

namespace hvdlite {

/// How ranks reach each other at start-up. One object per rank and communicator; implemented for
/// threads (comm/local), MPI (comm/mpi), and a single process (below).
class channel {
 public:
  channel() = default;
  channel(const channel&) = delete;
  channel& operator=(const channel&) = delete;
  virtual ~channel() = default;

  /// Collective, blocking: every rank hands `bytes` bytes, as many as the others, to everybody;
  /// `all` has room for those of all ranks, in rank order. Throws peer_lost_error if a rank is
  /// gone.
  virtual void exchange(const void* mine, std::size_t bytes, void* all) = 0;
  /// Collective, blocking: a channel for the ranks with the same `color`, in the order of their
  /// ranks here among themselves after sorting by `key`; null for a negative color.
  virtual std::unique_ptr<channel> split(int color, int key) = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// A number that is the same for, and only for, ranks of this channel on one node.
  virtual int node_of(int rank) const = 0;
  /// This rank takes no part any more, although others may wait for it; those that wait in
  /// `exchange` are told. Never blocks.
  virtual void leave(std::string_view /*why*/) noexcept {}
  /// A call has failed: messages about it may never be received.
  virtual void leaves_messages() noexcept {}
  /// A rank did not come to a call, or has left: it may never come to the end of the job either;
  /// and, once for each such moment, that all have come to a later call after all.
  virtual void rank_missed() noexcept {}
  virtual void all_met_again() noexcept {}

  struct process_report {
    detail::process_state state = detail::process_state::unknown;
    std::int64_t number = 0;
  };
  /// The process of another rank, as far as this machine can tell. A few system calls.
  virtual process_report look_at(int /*rank*/) noexcept { return {}; }
};

/// The channel of a world of one.
class lone_channel final : public channel {
 public:
  void exchange(const void* mine, std::size_t bytes, void* all) override {
    if (bytes != 0) std::memcpy(all, mine, bytes);
  }
  std::unique_ptr<channel> split(int color, int) override {
    return std::unique_ptr<channel>{color < 0 ? nullptr : new lone_channel};
  }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int node_of(int) const override { return 0; }
};

/// Ranks, nodes, and the channel. Local ranks are those on the same node, cross ranks those with
/// the same local rank on all nodes, as Horovod has them.
class placement {
 public:
  explicit placement(std::unique_ptr<channel> start_up)
      : channel_{std::move(start_up)},
        rank_{channel_->rank()},
        nodes_{static_cast<std::size_t>(channel_->size())} {
    for (int r = 0; r < size(); ++r) nodes_[static_cast<std::size_t>(r)] = channel_->node_of(r);
  }

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(nodes_.size()); }
  /// The node of each rank, in numbers without meaning but equality.
  const detail::list<int>& nodes() const { return nodes_; }
  int node() const { return node_of(rank_); }
  int node_of(int rank) const { return nodes_[static_cast<std::size_t>(rank)]; }

  int local_rank() const { return local_rank_of(rank_); }
  int local_size() const { return ranks_on(node(), size()); }
  int local_rank_of(int rank) const { return ranks_on(node_of(rank), rank); }
  int cross_rank() const { return local_peers(rank_); }
  int cross_size() const { return local_peers(size()); }
  /// Whether all nodes have equally many ranks.
  bool homogeneous() const {
    for (const int other : nodes_)
      if (ranks_on(other, size()) != local_size()) return false;
    return true;
  }

  channel& start_up() const { return *channel_; }

 private:
  /// How many of the first `count` ranks are on `node`.
  int ranks_on(int node, int count) const {
    int result = 0;
    for (int r = 0; r < count; ++r) result += node_of(r) == node ? 1 : 0;
    return result;
  }
  /// How many of the first `count` ranks have this rank's local rank, one per node that has so
  /// many.
  int local_peers(int count) const {
    int result = 0;
    for (int r = 0; r < count; ++r) result += local_rank_of(r) == local_rank() ? 1 : 0;
    return result;
  }

  std::unique_ptr<channel> channel_;
  int rank_;
  detail::list<int> nodes_;
};

}  // namespace hvdlite
