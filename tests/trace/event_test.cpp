// SPDX-License-Identifier: Apache-2.0
// The ring keeps the last events in order, cuts long names and overwrites the oldest.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <hvdlite/trace/event.hpp>

using hvdlite::dtype;
using hvdlite::event_ring;
using hvdlite::event_state;

TEST_CASE("an event holds what it was given, from begin to end") {
  event_ring ring;
  CHECK(ring.recent().empty());
  const auto before = hvdlite::clock::now();
  auto& open = ring.begin("allreduce", "fc1.weight", dtype::f32, 4096, 7);
  auto all = ring.recent();
  REQUIRE(all.size() == 1);
  CHECK(all[0].state == event_state::running);
  CHECK(std::string{all[0].verb} == "allreduce");
  CHECK(std::string{all[0].name} == "fc1.weight");
  CHECK(all[0].type == dtype::f32);
  CHECK(all[0].count == 4096);
  CHECK(all[0].sequence == 7);
  CHECK(all[0].begin >= before);

  event_ring::end(open, event_state::done);
  all = ring.recent();
  CHECK(all[0].state == event_state::done);
  CHECK(all[0].end >= all[0].begin);
  CHECK(all[0].end <= hvdlite::clock::now());

  event_ring::end(ring.begin("barrier", "", dtype::none, 0, 8), event_state::failed);
  all = ring.recent();
  REQUIRE(all.size() == 2);
  CHECK(all[1].state == event_state::failed);
  CHECK(all[1].name[0] == '\0');
  CHECK(all[0].state == event_state::done);
}

TEST_CASE("only the last events stay, oldest first") {
  event_ring ring;
  constexpr std::uint64_t many = 3 * event_ring::capacity + 5;
  for (std::uint64_t i = 1; i <= many; ++i) {
    event_ring::end(ring.begin("broadcast", std::to_string(i), dtype::i8, i, i), event_state::done);
    const auto all = ring.recent();
    const std::uint64_t expected = i < event_ring::capacity ? i : event_ring::capacity;
    REQUIRE(all.size() == expected);
    REQUIRE(all.front().sequence == i - expected + 1);
    REQUIRE(all.back().sequence == i);
    for (std::size_t k = 0; k < all.size(); ++k) {
      const std::uint64_t sequence = i - expected + 1 + k;
      if (all[k].sequence != sequence || all[k].name != std::to_string(sequence))
        FAIL("event ", k, " of ", all.size(), " is ", all[k].name);
    }
  }
}

TEST_CASE("a long name is cut and stays a C string; a short one leaves nothing of a long one") {
  event_ring ring;
  for (const std::size_t length : {0u, 1u, 38u, 39u, 40u, 41u, 1000u}) {
    CAPTURE(length);
    const std::string name(length, 'x');
    const auto& slot = ring.begin("allreduce", name, dtype::f64, 1, length);
    CHECK(slot.name[sizeof slot.name - 1] == '\0');
    CHECK(slot.name == name.substr(0, sizeof slot.name - 1));
  }
  for (std::size_t i = 0; i < event_ring::capacity; ++i)
    ring.begin("allreduce", std::string(100, 'y'), dtype::f64, 1, i);
  const auto& slot = ring.begin("allreduce", "z", dtype::f64, 1, 0);
  CHECK(std::string{slot.name} == "z");
  for (std::size_t i = 1; i < sizeof slot.name; ++i) CHECK(slot.name[i] == '\0');
}

TEST_CASE("each event is taken once, and the last ones only") {
  event_ring ring;
  std::uint64_t next = 1;
  const auto add = [&](int n) {
    for (int i = 0; i < n; ++i, ++next) ring.begin("barrier", "", dtype::none, 0, next);
  };
  const auto taken = [&](std::size_t most) {
    std::vector<std::uint64_t> all;
    while (const hvdlite::event* const e = ring.take_next(most)) all.push_back(e->sequence);
    return all;
  };
  CHECK(taken(8).empty());
  add(3);
  CHECK(taken(8) == std::vector<std::uint64_t>{1, 2, 3});
  CHECK(taken(8).empty());
  add(2);
  CHECK(taken(8) == std::vector<std::uint64_t>{4, 5});
  add(100);
  CHECK(taken(2) == std::vector<std::uint64_t>{104, 105});
  CHECK(taken(8).empty());
}

TEST_CASE("an event in words: the call, how it went, and how long ago") {
  event_ring ring;
  auto& done = ring.begin("allreduce", "fc1.weight", dtype::f32, 4096, 41, 1'000'000);
  event_ring::end(done, event_state::done, 13'500'000);
  CHECK(std::string{hvdlite::detail::event_text(done, 2, 8, 13'640'000)} ==
        "trace: call 41, allreduce 'fc1.weight' (f32 x 4096, rank 2 of 8): done in 12.5 ms, 0.1 ms "
        "ago");
  auto& failed = ring.begin("barrier", "", dtype::none, 0, 42, 0);
  event_ring::end(failed, event_state::failed, 0);
  CHECK(std::string{hvdlite::detail::event_text(failed, 0, 1, 0)} ==
        "trace: call 42, barrier (rank 0 of 1): failed after 0 ms, 0 ms ago");
}
