// SPDX-License-Identifier: Apache-2.0
// A record of what a rank did last: one event per collective in a ring of fixed size. It costs two
// clock reads a call, and is what a failure report and a timeline are written from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include <hvdlite/core/clock.hpp>
#include <hvdlite/core/element.hpp>

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
  clock::time_point
      begin;  ///< with checks off times are not taken: they would cost more than all else
  clock::time_point end;
  event_state state = event_state::running;
};

/// The last `capacity` events, oldest first. Written by the rank that owns it.
class event_ring {
 public:
  static constexpr std::size_t capacity = 64;

  event& begin(const char* verb, std::string_view name, dtype type, std::uint64_t count,
               std::uint64_t sequence, clock::time_point when = clock::now()) {
    event& slot = events_[written_++ % capacity];
    slot.sequence = sequence;
    slot.verb = verb;
    const std::size_t length = name.size() < sizeof slot.name ? name.size() : sizeof slot.name - 1;
    std::memset(slot.name, 0, sizeof slot.name);
    if (length != 0) std::memcpy(slot.name, name.data(), length);
    slot.type = type;
    slot.count = count;
    slot.begin = when;
    slot.end = {};
    slot.state = event_state::running;
    return slot;
  }

  static void end(event& slot, event_state state, clock::time_point when = clock::now()) {
    slot.end = when;
    slot.state = state;
  }

  /// Calls f(event) for those that have not been taken before: the last `most` of them at most.
  void take_new(std::size_t most, auto&& f) {
    std::size_t first = written_ < most ? 0 : written_ - most;
    if (first < taken_) first = taken_;
    for (; first < written_; ++first) f(events_[first % capacity]);
    taken_ = written_;
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

}  // namespace hvdlite
