// SPDX-License-Identifier: Apache-2.0
// The backend for ranks of one node, over a segment; today the ranks are threads of one process.
// Data goes in chunks through the segment: every rank fills its slot, each owner reduces its slice
// of the chunk in the tree's order, everybody takes the result. All steps are non-blocking.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <hvdlite/comm/backend.hpp>
#include <hvdlite/comm/segment.hpp>
#include <hvdlite/core/call_lock.hpp>
#include <hvdlite/core/clock.hpp>

namespace hvdlite {

namespace detail {

/// What the threads of one communicator share.
struct thread_hub {
  thread_hub(list<int> node_of_rank, std::size_t chunk_bytes)
      : nodes{std::move(node_of_rank)}, shared{static_cast<int>(nodes.size()), chunk_bytes} {}

  list<int> nodes;
  segment shared;

  // The start-up exchange: rare, so a lock and a look now and then serve. A rank that is late to
  // take one round's bytes finds them while others give those of the next: rounds take turns.
  call_lock lock;
  list<std::byte> contributions[2];
  std::size_t arrived = 0;
  std::uint64_t round = 0;
  std::string lost;  ///< why no exchange can complete any more
};

}  // namespace detail

/// The start-up channel between threads of one process.
class thread_channel : public channel {
 public:
  thread_channel(std::shared_ptr<detail::thread_hub> hub, int rank)
      : hub_{std::move(hub)}, rank_{rank} {}

  HVDLITE_COLD void exchange(const void* mine, std::size_t bytes, void* all) override {
    const std::size_t n = hub_->nodes.size();
    std::uint64_t round;
    {
      const detail::call_lock::guard lock{hub_->lock};
      expect_all();
      round = hub_->round;
      auto& given = hub_->contributions[round % 2];
      given.resize_for_overwrite(n * bytes);
      if (bytes != 0)
        std::memcpy(given.data() + static_cast<std::size_t>(rank_) * bytes, mine, bytes);
      if (++hub_->arrived == n) {
        hub_->arrived = 0;
        ++hub_->round;
      }
    }
    for (backoff wait{0};; wait.pause()) {
      const detail::call_lock::guard lock{hub_->lock};
      if (hub_->round != round) break;
      expect_all();
    }
    // Used again in the round after the next, which this rank has to join before.
    if (bytes != 0) std::memcpy(all, hub_->contributions[round % 2].data(), n * bytes);
  }

  HVDLITE_COLD std::unique_ptr<channel> split(int color, int key) override {
    struct entry {
      int color, key, rank;
      std::shared_ptr<detail::thread_hub>* made;  // by the first member, read by the others
    };
    const auto n = hub_->nodes.size();
    detail::list<entry> all{n};
    entry mine{color, key, rank_, nullptr};
    exchange(&mine, sizeof mine, all.data());
    // A member's new rank is the number of members before it in the order of (key, old rank).
    detail::list<int> members{n};  // old ranks by new ones
    int my_rank = 0;
    std::size_t count = 0;
    for (const entry& e : all) {
      if (e.color != color) continue;
      std::size_t before = 0;
      for (const entry& o : all)
        if (o.color == color && (o.key < e.key || (o.key == e.key && o.rank < e.rank))) ++before;
      members[before] = e.rank;
      if (e.rank == rank_) my_rank = static_cast<int>(before);
      ++count;
    }

    std::shared_ptr<detail::thread_hub> made;
    if (color >= 0 && my_rank == 0) {
      detail::list<int> nodes{count};
      for (std::size_t i = 0; i < count; ++i)
        nodes[i] = hub_->nodes[static_cast<std::size_t>(members[i])];
      made.reset(new detail::thread_hub{std::move(nodes), hub_->shared.chunk_bytes()});
    }
    mine.made = &made;
    exchange(&mine, sizeof mine, all.data());
    std::unique_ptr<channel> result;
    if (color >= 0) {
      if (!made) made = *all[static_cast<std::size_t>(members[0])].made;
      result.reset(new thread_channel{made, my_rank});
    }
    exchange(nullptr, 0, nullptr);  // nobody's `made` goes before all have read it
    return result;
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(hub_->nodes.size()); }
  int node_of(int rank) const override { return hub_->nodes[static_cast<std::size_t>(rank)]; }

  void leave(std::string_view why) noexcept override {
    const detail::call_lock::guard lock{hub_->lock};
    if (hub_->lost.empty()) hub_->lost = why;
  }

  const std::shared_ptr<detail::thread_hub>& hub() const { return hub_; }

 private:
  /// A rank that left, or threw here, counts in no round any more: a round ends for all or none.
  void expect_all() const {
    if (!hub_->lost.empty()) throw peer_lost_error{hub_->lost};
  }

  std::shared_ptr<detail::thread_hub> hub_;
  int rank_;
};

/// Ranks of one node over a segment. Serves every element and op in host memory.
class local {
 public:
  static constexpr std::string_view name = "local";
  template <class T, class Space>
  static constexpr bool moves = std::same_as<Space, host_space>;
  template <class T, class Space, class Op>
  static constexpr bool reduces = std::same_as<Space, host_space>;

  template <class H>
  static constexpr bool accepts = false;  // no native handle to make a Communicator from

  static bool usable(const placement& where) {
    return dynamic_cast<const thread_channel*>(&where.start_up()) != nullptr;
  }

  HVDLITE_COLD local(const placement& where, const settings&)
      : hub_{dynamic_cast<const thread_channel&>(where.start_up()).hub()},
        rank_{where.rank()},
        size_{where.size()},
        evaluate_{reduction_tree{where.nodes().data(), size_}},
        leaves_{static_cast<std::size_t>(size_)},
        told_{static_cast<std::size_t>(size_)} {}

  bool post(int to, const message& m) { return hub_->shared.post(rank_, to, m); }

  HVDLITE_LEAN bool poll(int& from, message& m) {
    for (int turn = 0; turn < size_; ++turn) {
      next_ = next_ + 1 == size_ ? 0 : next_ + 1;
      if (next_ == rank_) continue;
      from = next_;
      // The flag first: what a rank has posted before it left must not be overtaken by it.
      const std::uint64_t departed =
          hub_->shared.flags(from).departed.load(std::memory_order_acquire);
      if (hub_->shared.poll(from, rank_, m)) return true;
      if (departed != 0 && reason_of(from, departed - 1, m)) return true;
    }
    return false;
  }

  HVDLITE_LEAN request start(const operation& op, const reduction_terms& terms) {
    op_ = &op;
    terms_ = &terms;
    first_ = next_chunk_;
    const std::size_t element = op.element_bytes == 0 ? 1 : op.element_bytes;
    per_chunk_ = (std::max)(std::size_t{1}, hub_->shared.chunk_bytes() / element);
    chunks_ = (op.count + per_chunk_ - 1) / per_chunk_;
    if (chunks_ == 0) chunks_ = 1;  // a barrier, or nothing: still a meeting
    filled_ = reduced_ = drained_ = 0;
    next_chunk_ += chunks_;
    // All ranks evaluate all of a message that fits into a few cache lines: one step less.
    everyone_ = op.bytes() <= 4096;
    return request{0};
  }

  HVDLITE_LEAN state progress(request& in_flight) {
    bool moved = true;
    while (moved && drained_ < chunks_) {
      moved = fill();
      moved = reduce() || moved;
      moved = drain() || moved;
    }
    if (drained_ == chunks_) return state::done;
    in_flight.steps = filled_ + reduced_ + drained_;
    return somebody_left() ? state::lost : state::moving;
  }

  void withdraw(request&) noexcept {}  // others read the segment only, never user memory
  void enter() {}

  HVDLITE_COLD void abort(std::uint64_t sequence, std::string_view why) noexcept {
    hub_->shared.depart(rank_, sequence, why);
  }
  void drop(std::uint64_t sequence, std::string_view why) noexcept { abort(sequence, why); }

 private:
  using counter = std::atomic<std::uint64_t> segment::control::*;

  std::size_t elements_of(std::uint64_t chunk) const {
    return (std::min)(per_chunk_, op_->count - (std::min)(op_->count, chunk * per_chunk_));
  }
  std::size_t offset_of(std::uint64_t chunk) const {
    return static_cast<std::size_t>(chunk) * per_chunk_ * op_->element_bytes;
  }

  bool all_reached(counter which, std::uint64_t value) const {
    for (int r = 0; r < size_; ++r)
      if ((hub_->shared.flags(r).*which).load(std::memory_order_acquire) < value) return false;
    return true;
  }
  void publish(counter which, std::uint64_t value) const {
    (hub_->shared.flags(rank_).*which).store(value, std::memory_order_release);
  }

  /// Own elements into the slot, once everybody has finished with what the slot held.
  HVDLITE_LEAN bool fill() {
    if (filled_ == chunks_) return false;
    const std::uint64_t chunk = first_ + filled_;
    if (chunk >= segment::buffers &&
        !all_reached(&segment::control::reduced, chunk - segment::buffers + 1))
      return false;
    const bool sends =
        op_->verb == verb::broadcast
            ? rank_ == op_->root
            : op_->reduces() && terms_->ranks[static_cast<std::size_t>(rank_)].present;
    const std::size_t bytes = elements_of(filled_) * op_->element_bytes;
    if (sends && bytes != 0)
      std::memcpy(hub_->shared.slot(rank_, chunk), op_->in + offset_of(filled_), bytes);
    publish(&segment::control::filled, chunk + 1);
    ++filled_;
    return true;
  }

  /// The tree over all slots, for the own slice, into the result area (or, small, to the caller).
  HVDLITE_LEAN bool reduce() {
    if (reduced_ == filled_) return false;
    const std::uint64_t chunk = first_ + reduced_;
    if (op_->verb == verb::broadcast) return take_broadcast(chunk);
    if (!all_reached(&segment::control::filled, chunk + 1)) return false;
    if (!everyone_ && chunk >= segment::buffers &&
        !all_reached(&segment::control::drained, chunk - segment::buffers + 1))
      return false;
    if (op_->reduces()) {
      const std::size_t count = elements_of(reduced_);
      const auto n = static_cast<std::size_t>(size_);
      const auto r = static_cast<std::size_t>(rank_);
      const std::size_t begin = everyone_ ? 0 : count * r / n;
      const std::size_t end = everyone_ ? count : count * (r + 1) / n;
      for (int other = 0; other < size_; ++other) {
        const auto& term = terms_->ranks[static_cast<std::size_t>(other)];
        leaves_[static_cast<std::size_t>(other)] = {
            term.present ? hub_->shared.slot(other, chunk) + begin * op_->element_bytes : nullptr,
            term.factor};
      }
      std::byte* const to = everyone_ ? op_->out + offset_of(reduced_) : hub_->shared.result(chunk);
      evaluate_(*op_->kernels, op_->op_context, leaves_.data(), to + begin * op_->element_bytes,
                end - begin, terms_->root);
    }
    publish(&segment::control::reduced, chunk + 1);
    ++reduced_;
    return true;
  }

  HVDLITE_LEAN bool take_broadcast(std::uint64_t chunk) {
    const auto& root = hub_->shared.flags(op_->root);
    if (root.filled.load(std::memory_order_acquire) < chunk + 1) return false;
    const std::size_t bytes = elements_of(reduced_) * op_->element_bytes;
    if (rank_ != op_->root && bytes != 0)
      std::memcpy(op_->out + offset_of(reduced_), hub_->shared.slot(op_->root, chunk), bytes);
    publish(&segment::control::reduced, chunk + 1);
    ++reduced_;
    return true;
  }

  /// The result to the caller.
  HVDLITE_LEAN bool drain() {
    if (drained_ == reduced_) return false;
    const std::uint64_t chunk = first_ + drained_;
    if (!everyone_ && op_->reduces()) {
      if (!all_reached(&segment::control::reduced, chunk + 1)) return false;
      const std::size_t bytes = elements_of(drained_) * op_->element_bytes;
      if (bytes != 0)
        std::memcpy(op_->out + offset_of(drained_), hub_->shared.result(chunk), bytes);
    }
    publish(&segment::control::drained, chunk + 1);
    ++drained_;
    return true;
  }

  /// A rank that left before it did its part of this operation will never do it.
  HVDLITE_LEAN bool somebody_left() const {
    for (int r = 0; r < size_; ++r) {
      const auto& other = hub_->shared.flags(r);
      if (other.departed.load(std::memory_order_acquire) != 0 &&
          other.drained.load(std::memory_order_acquire) < first_ + chunks_)
        return true;
    }
    return false;
  }

  /// The next piece of why `from` left, as a message; false once all has been told.
  HVDLITE_COLD bool reason_of(int from, std::uint64_t sequence, message& m) {
    const auto& other = hub_->shared.flags(from);
    std::uint16_t& part = told_[static_cast<std::size_t>(from)];
    const std::size_t length = other.reason_length;
    const auto parts = static_cast<std::uint16_t>(
        (std::max)(std::size_t{1}, (length + message::payload_bytes - 1) / message::payload_bytes));
    if (part == parts) return false;
    m = {};
    m.kind = message_kind::departed;
    m.sequence = sequence;
    m.part = part;
    m.parts = parts;
    const std::size_t offset = part * message::payload_bytes;
    m.length = static_cast<std::uint16_t>((std::min)(message::payload_bytes, length - offset));
    std::memcpy(m.payload.data(), other.reason.data() + offset, m.length);
    ++part;
    return true;
  }

  std::shared_ptr<detail::thread_hub> hub_;
  int rank_;
  int size_;
  int next_ = 0;  // whose mailbox was looked at last
  tree_evaluator evaluate_;
  detail::list<leaf> leaves_;
  detail::list<std::uint16_t> told_;  // pieces of each rank's reason that poll has handed out

  // The operation in progress.
  const operation* op_ = nullptr;
  const reduction_terms* terms_ = nullptr;
  std::uint64_t next_chunk_ = 0;  // of the segment: equal on all ranks between operations
  std::uint64_t first_ = 0;
  std::size_t per_chunk_ = 1;
  std::uint64_t chunks_ = 0;
  std::uint64_t filled_ = 0, reduced_ = 0, drained_ = 0;
  bool everyone_ = false;
};

}  // namespace hvdlite
