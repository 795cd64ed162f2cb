// SPDX-License-Identifier: Apache-2.0
// Who the ranks of a communicator are and where they run, and the one channel over which they can
// talk before any backend exists. Backends are chosen and built from a placement.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <hvdlite/core/error.hpp>

namespace hvdlite {

/// The bytes of every rank, in rank order.
using exchanged = std::vector<std::vector<std::byte>>;

/// How ranks reach each other at start-up. One object per rank and communicator; implemented for
/// threads (comm/local), MPI (comm/mpi), and a single process (below).
class channel {
 public:
  channel() = default;
  channel(const channel&) = delete;
  channel& operator=(const channel&) = delete;
  virtual ~channel() = default;

  /// Collective, blocking: hands `mine` to everybody. Throws peer_lost_error if a rank is gone.
  virtual exchanged exchange(std::span<const std::byte> mine) = 0;
  /// Collective, blocking: a channel for the ranks with the same `color`, in the order of their
  /// ranks here among themselves after sorting by `key`; null for a negative color.
  virtual std::shared_ptr<channel> split(int color, int key) = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// A number that is the same for, and only for, ranks of this channel on one node.
  virtual std::vector<int> nodes() const = 0;
  /// This rank takes no part any more, although others may wait for it; those that wait in
  /// `exchange` are told. Never blocks.
  virtual void leave(std::string_view /*why*/) noexcept {}
  /// A call has failed: messages about it may never be received.
  virtual void leaves_messages() noexcept {}
};

/// The channel of a world of one.
class lone_channel final : public channel {
 public:
  exchanged exchange(std::span<const std::byte> mine) override {
    return {{mine.begin(), mine.end()}};
  }
  std::shared_ptr<channel> split(int color, int) override {
    return color < 0 ? nullptr : std::make_shared<lone_channel>();
  }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::vector<int> nodes() const override { return {0}; }
};

/// Ranks, nodes, and the channel. Local ranks are those on the same node, cross ranks those with
/// the same local rank on all nodes, as Horovod has them.
class placement {
 public:
  explicit placement(std::shared_ptr<channel> start_up)
      : channel_{std::move(start_up)},
        rank_{channel_->rank()},
        nodes_{channel_->nodes()} {}

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(nodes_.size()); }
  /// The node of each rank, in numbers without meaning but equality.
  std::span<const int> nodes() const { return nodes_; }
  int node() const { return nodes_[static_cast<std::size_t>(rank_)]; }
  int node_of(int rank) const { return nodes_[static_cast<std::size_t>(rank)]; }

  int local_rank() const { return local_rank_of(rank_); }
  int local_size() const {
    return static_cast<int>(std::count(nodes_.begin(), nodes_.end(), node()));
  }
  int local_rank_of(int rank) const {
    return static_cast<int>(std::count(nodes_.begin(), nodes_.begin() + rank, node_of(rank)));
  }
  /// The ranks with this rank's local rank, one per node that has so many.
  std::vector<int> cross_ranks() const {
    std::vector<int> result;
    for (int other = 0; other < size(); ++other)
      if (local_rank_of(other) == local_rank()) result.push_back(other);
    return result;
  }
  /// Whether all nodes have equally many ranks.
  bool homogeneous() const {
    return std::all_of(nodes_.begin(), nodes_.end(), [&](int other) {
      return std::count(nodes_.begin(), nodes_.end(), other) == local_size();
    });
  }

  channel& start_up() const { return *channel_; }

 private:
  std::shared_ptr<channel> channel_;
  int rank_;
  std::vector<int> nodes_;
};

}  // namespace hvdlite
