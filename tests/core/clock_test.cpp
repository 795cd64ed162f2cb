// SPDX-License-Identifier: Apache-2.0
// Seconds and ticks, and a wait that first spins and in the end sleeps.
#include <doctest/doctest.h>

#include <time.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <thread>

#include <hvdlite/core/clock.hpp>

using hvdlite::backoff;

namespace {

// How many pauses pass before every one of them is a moment to look at the clock.
int spins_of(int ranks_here) {
  backoff wait{backoff::spins_for(ranks_here)};
  int pauses = 0, looks_in_a_row = 0;
  while (looks_in_a_row < 2 && pauses < 1'000'000) {
    wait.pause();
    ++pauses;
    looks_in_a_row = wait.time_to_look() ? looks_in_a_row + 1 : 0;
  }
  return pauses - 1;
}

double processor_seconds() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

}  // namespace

TEST_CASE("seconds: as the clock counts, up to a century, and back") {
  using hvdlite::from_seconds, hvdlite::to_seconds;
  constexpr std::int64_t second = 1'000'000'000;
  CHECK(from_seconds(0) == 0);
  CHECK(from_seconds(1e-30) > 0);
  CHECK(from_seconds(90) == 90 * second);
  CHECK(from_seconds(0.25) == second / 4);
  CHECK(from_seconds(1e300) == from_seconds(3.15e9));
  CHECK(from_seconds(1e300) > std::int64_t{99} * 365 * 24 * (3600 * second));
  CHECK(to_seconds(from_seconds(1.5)) == doctest::Approx(1.5));
}

TEST_CASE("clock: that of the standard library, and a sleep takes its time") {
  const auto theirs = [] {
    return std::chrono::nanoseconds{std::chrono::steady_clock::now().time_since_epoch()}.count();
  };
  const auto before = theirs();
  const auto now = hvdlite::clock::now();
  CHECK(before <= now);
  CHECK(now <= theirs());
  hvdlite::clock::sleep_for(1'005'000'000);
  CHECK(hvdlite::clock::now() - now >= 1'005'000'000);
}

TEST_CASE("stopwatch: what has passed since it was made") {
  const auto before = hvdlite::clock::now();
  const hvdlite::stopwatch watch;
  hvdlite::clock::sleep_for(3'000'000);
  const auto passed = watch.elapsed();
  CHECK(passed >= 3'000'000);
  CHECK(passed <= hvdlite::clock::now() - before);
}

TEST_CASE("backoff: looks at the clock now and then while it spins, then after every pause") {
  const int spins = spins_of(1);
  CHECK(spins > 256);  // else the next lines say nothing
  backoff wait{backoff::spins_for(1)};
  int looks = 0;
  for (int i = 1; i < spins; ++i) {
    wait.pause();
    if (wait.time_to_look()) ++looks;
  }
  CHECK(looks == (spins - 1) / 256);
  for (int i = 0; i < 10; ++i) {
    wait.pause();
    CHECK(wait.time_to_look());
  }
}

TEST_CASE("backoff: a short spin where ranks outnumber cores") {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  REQUIRE(cores > 0);
  CHECK(spins_of(cores) == spins_of(1));
  CHECK(spins_of(cores + 1) < spins_of(cores) / 10);
  CHECK(spins_of((std::numeric_limits<int>::max)()) == spins_of(cores + 1));
}

TEST_CASE("backoff: a long wait uses no processor to speak of") {
  backoff wait{backoff::spins_for(1'000'000)};
  for (int i = 0; i < 5000; ++i) wait.pause();  // through spinning and yielding
  const auto start = hvdlite::clock::now();
  const double used = processor_seconds();
  for (int i = 0; i < 500; ++i) wait.pause();
  const double passed = hvdlite::to_seconds(hvdlite::clock::now() - start);
  CHECK(passed >= 0.05);  // 500 sleeps of at least 100 us
  CHECK(processor_seconds() - used < 0.5 * passed);
}
