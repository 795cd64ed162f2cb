// SPDX-License-Identifier: Apache-2.0
// What ends together: each member once, and none that has taken itself out.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <hvdlite/engine/lifetime.hpp>

namespace {

/// Writes down what it is told.
class listener final : public hvdlite::lifetime::member {
 public:
  std::vector<std::string> heard;
  void close(std::string_view why, std::string_view later) noexcept override {
    heard.push_back("close: " + std::string{why} + "; " + std::string{later});
  }
  void tell_the_end(std::string_view why) noexcept override {
    heard.push_back("the end: " + std::string{why});
  }
};

/// Its close takes until it is let go.
class slow final : public hvdlite::lifetime::member {
 public:
  std::atomic<bool> entered = false, released = false, closed = false;
  void close(std::string_view, std::string_view) noexcept override {
    entered = true;
    while (!released) std::this_thread::yield();
    closed = true;
  }
  void tell_the_end(std::string_view) noexcept override {}
};

using heard = std::vector<std::string>;

}  // namespace

TEST_CASE("lifetime: end closes each member once, in the order in which they came") {
  hvdlite::lifetime life;
  listener first, second;
  life.add(&first);
  life.add(&second);
  life.end("why", "later");
  life.end("again", "later");
  CHECK(first.heard == heard{"close: why; later"});
  CHECK(second.heard == heard{"close: why; later"});
}

TEST_CASE("lifetime: who has taken itself out hears nothing, the others do") {
  hvdlite::lifetime life;
  listener first, second, third;
  for (listener* const one : {&first, &second, &third}) life.add(one);
  life.remove(&second);
  life.remove(&second);  // is no member any more
  life.end("why", "later");
  CHECK(first.heard.size() == 1);
  CHECK(second.heard.empty());
  CHECK(third.heard.size() == 1);
}

TEST_CASE("lifetime: a member that comes after the end is of the next one") {
  hvdlite::lifetime life;
  listener early, late;
  life.add(&early);
  life.end("first", "later");
  life.add(&late);
  life.end("second", "later");
  CHECK(early.heard == heard{"close: first; later"});
  CHECK(late.heard == heard{"close: second; later"});
}

TEST_CASE("lifetime: a member is not removed while it is being closed") {
  hvdlite::lifetime life;
  slow member;
  life.add(&member);
  std::thread ending{[&] { life.end("why", "later"); }};
  while (!member.entered) std::this_thread::yield();
  std::atomic<bool> closed_first = false;
  std::thread removing{[&] {
    life.remove(&member);  // and what was removed may be destroyed
    closed_first = member.closed.load();
  }};
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  member.released = true;
  ending.join();
  removing.join();
  CHECK(closed_first);
}

TEST_CASE(
    "lifetime: after tell_the_end this thread may end and destroy, and nothing else happens") {
  hvdlite::lifetime life;
  listener member;
  life.add(&member);
  life.tell_the_end("exit");
  life.end("too late", "later");
  life.remove(&member);
  CHECK(member.heard == heard{"the end: exit"});
}
