// SPDX-License-Identifier: Apache-2.0
// Memory that all ranks of a node see, and the flags and mailboxes in it. No pointers inside, only
// offsets and ordered atomics: the same layout serves threads (heap memory, here) and processes.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>

#include <hvdlite/comm/backend.hpp>

namespace hvdlite {

/// Layout, for n ranks: n control blocks, n x n mailboxes, 2 slots per rank, 2 result areas. All
/// counters only grow; each is written by one rank and read by all.
class segment {
 public:
  static constexpr std::size_t line = 64;
  static constexpr std::size_t mailbox_slots =
      64;  ///< a call and its description after a mismatch fit
  /// Larger chunks fall out of the second-level caches between their passes.
  static constexpr std::size_t best_chunk_bytes = std::size_t{256} << 10;
  static constexpr std::size_t buffers =
      2;  ///< of each slot and of the result: fill one, drain one

  /// The flags of one rank. Counters count chunks since the segment was made.
  struct control {
    alignas(line) std::atomic<std::uint64_t> filled{0};    ///< chunks that are in its slot
    alignas(line) std::atomic<std::uint64_t> reduced{0};   ///< chunks it has finished to read
    alignas(line) std::atomic<std::uint64_t> drained{0};   ///< chunks whose result it has taken
    alignas(line) std::atomic<std::uint64_t> departed{0};  ///< 1 + first call it takes no part in
    std::uint32_t reason_length = 0;                       ///< valid once departed is set
    std::array<char, 1020> reason{};
  };

  /// Messages from one rank to another.
  struct mailbox {
    alignas(line) std::atomic<std::uint64_t> written{0};
    alignas(line) std::atomic<std::uint64_t> read{0};
    alignas(line) std::array<message, mailbox_slots> slots{};
  };

  HVDLITE_COLD segment(int ranks, std::size_t chunk_bytes)
      : ranks_{static_cast<std::size_t>(ranks)},
        chunk_{(chunk_bytes + line - 1) / line * line},
        memory_{static_cast<std::byte*>(::operator new(total(), std::align_val_t{line}))} {
    for (std::size_t r = 0; r < ranks_; ++r) new (memory_.get() + r * sizeof(control)) control;
    for (std::size_t i = 0; i < ranks_ * ranks_; ++i)
      new (memory_.get() + mailboxes_at() + i * sizeof(mailbox)) mailbox;
  }

  int ranks() const { return static_cast<int>(ranks_); }
  /// The largest piece that fits into a slot, in bytes.
  std::size_t chunk_bytes() const { return chunk_; }

  control& flags(int rank) const {
    return *std::launder(reinterpret_cast<control*>(memory_.get() + static_cast<std::size_t>(rank) *
                                                                        sizeof(control)));
  }
  mailbox& box(int from, int to) const {
    const std::size_t i = static_cast<std::size_t>(from) * ranks_ + static_cast<std::size_t>(to);
    return *std::launder(
        reinterpret_cast<mailbox*>(memory_.get() + mailboxes_at() + i * sizeof(mailbox)));
  }
  std::byte* slot(int rank, std::uint64_t chunk) const {
    return memory_.get() + data_at() +
           (static_cast<std::size_t>(rank) * buffers + chunk % buffers) * chunk_;
  }
  std::byte* result(std::uint64_t chunk) const {
    return memory_.get() + data_at() + (ranks_ * buffers + chunk % buffers) * chunk_;
  }

  bool post(int from, int to, const message& m) const {
    mailbox& b = box(from, to);
    const std::uint64_t at = b.written.load(std::memory_order_relaxed);
    if (at - b.read.load(std::memory_order_acquire) == mailbox_slots) return false;
    b.slots[at % mailbox_slots] = m;
    b.written.store(at + 1, std::memory_order_release);
    return true;
  }

  bool poll(int from, int to, message& m) const {
    mailbox& b = box(from, to);
    const std::uint64_t at = b.read.load(std::memory_order_relaxed);
    if (b.written.load(std::memory_order_acquire) == at) return false;
    m = b.slots[at % mailbox_slots];
    b.read.store(at + 1, std::memory_order_release);
    return true;
  }

  /// Marks `rank` as taking part in nothing from call `sequence` on; the first reason stays.
  HVDLITE_COLD void depart(int rank, std::uint64_t sequence, std::string_view why) const noexcept {
    control& mine = flags(rank);
    if (mine.departed.load(std::memory_order_relaxed) != 0) return;
    mine.reason_length = static_cast<std::uint32_t>((std::min)(why.size(), mine.reason.size()));
    std::memcpy(mine.reason.data(), why.data(), mine.reason_length);
    mine.departed.store(sequence + 1, std::memory_order_release);
  }

 private:
  struct release {
    void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t{line}); }
  };

  std::size_t mailboxes_at() const { return ranks_ * sizeof(control); }
  std::size_t data_at() const { return mailboxes_at() + ranks_ * ranks_ * sizeof(mailbox); }
  std::size_t total() const { return data_at() + (ranks_ + 1) * buffers * chunk_; }

  std::size_t ranks_;
  std::size_t chunk_;
  std::unique_ptr<std::byte, release> memory_;
};

}  // namespace hvdlite
