// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <thread>

#include <hvdlite/engine/watchdog.hpp>

namespace {

using hvdlite::watchdog;

struct alone {
  hvdlite::placement where{std::unique_ptr<hvdlite::channel>{new hvdlite::lone_channel}};
  hvdlite::checker check{nullptr, 0, 1, 1};
};

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>{seconds});
}

}  // namespace

TEST_CASE("watchdog: counts from its first look; a warning, then the end") {
  alone a;
  hvdlite::settings set;
  set.stall_warning = 0.05;
  set.timeout = 0.12;
  watchdog dog{set, a.where, a.check};
  sleep_for(0.2);
  CHECK(dog.look() == watchdog::quiet);
  CHECK(dog.look() == watchdog::quiet);
  sleep_for(0.06);
  CHECK(dog.look() == watchdog::warn);
  CHECK(dog.look() == watchdog::quiet);  // the next one at 0.2
  sleep_for(0.07);
  CHECK(dog.look() == watchdog::expired);
  CHECK(dog.elapsed() >= 0.1);
  CHECK(dog.stopped().empty());
}

TEST_CASE("watchdog: limits of 0 are none") {
  alone a;
  hvdlite::settings set;
  set.stall_warning = 0;
  set.timeout = 0;
  watchdog dog{set, a.where, a.check};
  CHECK(dog.look() == watchdog::quiet);
  sleep_for(0.05);
  CHECK(dog.look() == watchdog::quiet);
}
