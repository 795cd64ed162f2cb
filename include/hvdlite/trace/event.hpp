// SPDX-License-Identifier: Apache-2.0
// A record of what a rank did last: one event per collective in a ring of fixed size. It costs two
// clock reads a call, and is what a failure report and a timeline are written from.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include <hvdlite/core/clock.hpp>
#include <hvdlite/core/element.hpp>
#include <hvdlite/core/text.hpp>

namespace hvdlite {

/// How far a collective got.
enum class event_state : std::uint8_t { running, done, failed };

/// One collective of one rank. Names longer than the record are cut.
struct event {
  std::uint64_t sequence = 0;
  const char* verb = "";
  char name[40] = {};
  dtype type = dtype::none;
  std::uint64_t count = 0;
  /// With checks off times are not taken: they would cost more than all else.
  clock::nanoseconds begin = 0, end = 0;
  event_state state = event_state::running;
};

/// The last `capacity` events, oldest first. Written by the rank that owns it.
class event_ring {
 public:
  static constexpr std::size_t capacity = 64;

  event& begin(const char* verb, std::string_view name, dtype type, std::uint64_t count,
               std::uint64_t sequence, clock::nanoseconds when = clock::now()) {
    event& slot = events_[written_++ % capacity];
    slot.sequence = sequence;
    slot.verb = verb;
    const std::size_t length = name.size() < sizeof slot.name ? name.size() : sizeof slot.name - 1;
    std::memset(slot.name, 0, sizeof slot.name);
    if (length != 0) std::memcpy(slot.name, name.data(), length);
    slot.type = type;
    slot.count = count;
    slot.begin = when;
    slot.end = 0;
    slot.state = event_state::running;
    return slot;
  }

  static void end(event& slot, event_state state, clock::nanoseconds when = clock::now()) {
    slot.end = when;
    slot.state = state;
  }

  /// The next of those that were not taken before, null after the last; those that are more than
  /// `most` back are left out.
  const event* take_next(std::size_t most) {
    if (taken_ + most < written_) taken_ = written_ - most;
    return taken_ < written_ ? &events_[taken_++ % capacity] : nullptr;
  }

  /// A template, so that only those who call it compile std::vector<event>.
  template <class Events = std::vector<event>>
  Events recent() const {
    Events result;
    const std::size_t first = written_ < capacity ? 0 : written_ - capacity;
    for (std::size_t i = first; i < written_; ++i) result.push_back(events_[i % capacity]);
    return result;
  }

 private:
  event events_[capacity];
  std::size_t written_ = 0;
  std::size_t taken_ = 0;
};

namespace detail {

/// "allreduce 'fc1.weight' (f32 x 4096, rank 2 of 8): "
HVDLITE_COLD inline text call_text(const char* verb, std::string_view name, dtype type,
                                   std::uint64_t count, int rank, int size) {
  text words({verb});
  if (!name.empty()) words.add({" '", shown(name), "'"});
  words += " (";
  if (type != dtype::none) words.add({dtype_name(type), " x ", count, ", "});
  words.add({"rank ", rank, " of ", size, "): "});
  return words;
}

/// "trace: call 41, allreduce ...: failed after 12.5 ms, 0.1 ms ago"
HVDLITE_COLD inline text event_text(const event& e, int rank, int size, clock::nanoseconds now) {
  const auto milliseconds = [](clock::nanoseconds time) {
    return std::round(to_seconds(time) * 1e4) / 10;
  };
  return text({"trace: call ", e.sequence, ", ",
               call_text(e.verb, e.name, e.type, e.count, rank, size),
               e.state == event_state::done ? "done in " : "failed after ",
               milliseconds(e.end - e.begin), " ms, ", milliseconds(now - e.end), " ms ago"});
}

}  // namespace detail

}  // namespace hvdlite
