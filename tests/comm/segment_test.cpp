// SPDX-License-Identifier: Apache-2.0
// The memory that ranks of a node share: a layout without overlaps, mailboxes that keep order, and
// the mark of a rank that has left.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <hvdlite/comm/segment.hpp>

namespace {

using hvdlite::message;
using hvdlite::segment;

TEST_CASE("segment: every flag, mailbox, slot and result has memory of its own, on lines") {
  for (const int ranks : {1, 2, 3, 5})
    for (const std::size_t chunk :
         {std::size_t{1}, std::size_t{40}, std::size_t{64}, std::size_t{1000}}) {
      const segment s{ranks, chunk};
      CHECK(s.ranks() == ranks);
      CHECK(s.chunk_bytes() >= chunk);
      std::vector<std::pair<std::uintptr_t, std::size_t>> parts;
      const auto add = [&](const void* p, std::size_t bytes) {
        parts.emplace_back(reinterpret_cast<std::uintptr_t>(p), bytes);
      };
      for (int r = 0; r < ranks; ++r) {
        add(&s.flags(r), sizeof(segment::control));
        for (int to = 0; to < ranks; ++to) add(&s.box(r, to), sizeof(segment::mailbox));
        for (std::uint64_t c = 0; c < segment::buffers; ++c) add(s.slot(r, c), s.chunk_bytes());
        CHECK(s.slot(r, 0) == s.slot(r, segment::buffers));
      }
      for (std::uint64_t c = 0; c < segment::buffers; ++c) add(s.result(c), s.chunk_bytes());
      std::sort(parts.begin(), parts.end());
      for (std::size_t i = 0; i < parts.size(); ++i) {
        CHECK(parts[i].first % segment::line == 0);
        if (i + 1 < parts.size()) CHECK(parts[i].first + parts[i].second <= parts[i + 1].first);
      }
      // All of it is there: the sanitizers look at this.
      for (int r = 0; r < ranks; ++r) std::memset(s.slot(r, 1), 1, s.chunk_bytes());
      std::memset(s.result(1), 1, s.chunk_bytes());
    }
}

TEST_CASE("segment: a mailbox keeps order, and says when it is full") {
  const segment s{3, 64};
  message m;
  CHECK_FALSE(s.poll(0, 2, m));
  for (std::uint64_t i = 0; i < segment::mailbox_slots; ++i) {
    m.sequence = i;
    CHECK(s.post(0, 2, m));
  }
  CHECK_FALSE(s.post(0, 2, m));
  CHECK(s.post(2, 0, m));  // another box
  CHECK_FALSE(s.poll(1, 2, m));
  for (std::uint64_t i = 0; i < segment::mailbox_slots; ++i) {
    CHECK(s.poll(0, 2, m));
    CHECK(m.sequence == i);
  }
  CHECK_FALSE(s.poll(0, 2, m));
  CHECK(s.post(0, 2, m));  // room again
}

TEST_CASE("segment: messages arrive whole while another thread writes them") {
  const segment s{2, 64};
  constexpr std::uint64_t total = 20000;
  std::thread writer{[&] {
    message m;
    for (std::uint64_t i = 0; i < total;) {
      m.sequence = i;
      m.fingerprint = ~i;
      m.payload.fill(static_cast<std::byte>(i));
      if (s.post(0, 1, m))
        ++i;
      else
        std::this_thread::yield();
    }
  }};
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < total;) {
    message m;
    if (!s.poll(0, 1, m)) {
      std::this_thread::yield();
      continue;
    }
    if (m.sequence != i || m.fingerprint != ~i || m.payload[31] != static_cast<std::byte>(i))
      ++wrong;
    ++i;
  }
  writer.join();
  CHECK(wrong == 0);
}

TEST_CASE("segment: the first reason for leaving stays, and is cut to its room") {
  const segment s{2, 64};
  CHECK(s.flags(1).departed == 0);
  s.depart(1, 41, "tired");
  s.depart(1, 99, "later");
  CHECK(s.flags(1).departed == 42);
  CHECK(std::string(s.flags(1).reason.data(), s.flags(1).reason_length) == "tired");
  s.depart(0, 0, std::string(5000, 'x'));
  CHECK(s.flags(0).reason_length == s.flags(0).reason.size());
}

}  // namespace
