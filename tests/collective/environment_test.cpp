// SPDX-License-Identifier: Apache-2.0
// Environment: the beginning and the end of a program's membership, and the current world.
#include <doctest/doctest.h>

#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include <hvdlite/collective/allreduce.hpp>
#include <hvdlite/collective/barrier.hpp>
#include <hvdlite/collective/environment.hpp>

#include "support/ranks.hpp"

namespace {

using hvdlite::Environment;
using hvdtest::environment_variable;
using hvdtest::lacking;
using hvdtest::message_of;
using hvdtest::world_type;

int sum_over(const world_type& world, int x) {
  hvdlite::allreduce(world, x, hvdlite::sum{});
  return x;
}

TEST_CASE("Environment: a world, gone with the last one, and made anew") {
  for (int round = 0; round < 3; ++round) {
    world_type kept;
    {
      const Environment first;
      CHECK(first.world().size() == (hvdtest::under_mpi() ? hvdtest::world_sizes()[0] : 1));
      {
        const Environment second;
        CHECK(second.world() == first.world());
      }
      kept = first.world();
      CHECK(sum_over(kept, 1) == kept.size());  // the second one has ended nothing
    }
    int x = 3;
    for (int attempt = 0; attempt < 2; ++attempt)
      CHECK(lacking(message_of<hvdlite::usage_error>([&] { hvdlite::allreduce(kept, x); }),
                    {"allreduce", "Environment has ended"}) == "");
    CHECK(x == 3);
  }
}

TEST_CASE("Environment: communicators made from its world end with it") {
  world_type part;
  {
    const Environment environment;
    part = environment.world().split(0);
    CHECK(sum_over(part, 1) == part.size());
  }
  CHECK(lacking(message_of<hvdlite::usage_error>([&] { hvdlite::barrier(part); }),
                {"Environment has ended"}) == "");
}

TEST_CASE("Environment: main's arguments are left alone") {
  std::string program = "program", flag = "--flag";
  std::array<char*, 3> argv{program.data(), flag.data(), nullptr};
  const Environment environment{2, argv.data()};
  CHECK(std::string{argv[0]} == "program");
  CHECK(std::string{argv[1]} == "--flag");
  CHECK(argv[2] == nullptr);
}

TEST_CASE("Environment: a variable that is unknown or malformed is named") {
  {
    const environment_variable misspelt{"HVDLITE_STALL_WARNINGS", "3"};
    CHECK(lacking(message_of<hvdlite::usage_error>([] { Environment e; }),
                  {"HVDLITE_STALL_WARNINGS", "HVDLITE_STALL_WARNING,"}) == "");
  }
  {
    const environment_variable malformed{"HVDLITE_TIMEOUT", "soon"};
    CHECK(lacking(message_of<hvdlite::usage_error>([] { Environment e; }),
                  {"HVDLITE_TIMEOUT", "soon"}) == "");
  }
  const Environment environment;  // and no harm is done
  CHECK(sum_over(environment.world(), 1) == environment.world().size());
}

TEST_CASE("current world: none without an Environment, and none in other threads") {
  CHECK_FALSE(hvdlite::has_current_world());
  CHECK(lacking(message_of<hvdlite::usage_error>([] { hvdlite::current_world(); }),
                {"no current world", "Environment"}) == "");
  const Environment environment;
  CHECK(hvdlite::has_current_world());
  CHECK(hvdlite::current_world() == environment.world());
  std::string text;
  bool had_one = true;
  std::thread other{[&] {
    had_one = hvdlite::has_current_world();
    try {
      hvdlite::current_world();
    } catch (const hvdlite::usage_error& e) {
      text = e.what();
    }
  }};
  other.join();
  CHECK_FALSE(had_one);
  CHECK(lacking(text, {"this thread", "make_current"}) == "");
}

TEST_CASE("current world: make_current, in other threads and nested") {
  const Environment environment;
  const world_type world = environment.world();
  const world_type part = world.split(0);
  {
    const auto outer = part.make_current();
    CHECK(hvdlite::current_world() == part);
    {
      const auto inner = world.make_current();
      CHECK(hvdlite::current_world() == world);
    }
    CHECK(hvdlite::current_world() == part);
    bool right = false;
    std::thread other{[&] {
      const auto here = world.make_current();
      right = hvdlite::current_world() == world;
    }};
    other.join();
    CHECK(right);
  }
  CHECK(hvdlite::current_world() == world);
}

TEST_CASE("Environment: peers that wait for one that has ended are told at once") {
  if (!hvdtest::under_mpi()) return;
  hvdtest::on_every_world(
      [](const world_type& world) {
        // Rank 0 goes on without; the world it leaves is not used again.
        if (world.rank() == 0) return;
        const std::string text =
            message_of<hvdlite::peer_lost_error>([&] { hvdlite::barrier(world); });
        CHECK(lacking(text, {"is lost"}) == "");
      },
      {.least = 2});
}

TEST_CASE("guarded: returns what the function does, and turns exceptions into words and a 1") {
  if (hvdtest::under_mpi()) return;  // it would end the job
  hvdtest::log_recorder log;
  CHECK(hvdlite::guarded(0, nullptr, [](Environment& e) { CHECK(e.world().size() == 1); }) == 0);
  CHECK(hvdlite::guarded(0, nullptr, [](Environment&) { return 7; }) == 7);
  const auto fails = [](Environment&) { throw std::runtime_error{"no such file"}; };
  CHECK(hvdlite::guarded(0, nullptr, fails) == 1);
  CHECK(log.with({"[hvdlite error, rank 0] no such file"}).size() == 1);
  CHECK(hvdlite::guarded(0, nullptr, [](Environment&) { throw 3; }) == 1);
  CHECK(log.with({"no std::exception"}).size() == 1);
  const environment_variable unknown{"HVDLITE_X", "1"};
  CHECK(hvdlite::guarded(0, nullptr, [](Environment&) { FAIL_CHECK("must not run"); }) == 1);
  CHECK(log.with({"[hvdlite error] ", "HVDLITE_X"}).size() == 1);
}

#if HVDLITE_WITH_MPI
TEST_CASE("a launcher that says 2 and an MPI that says 1 are refused") {
  if (hvdtest::under_mpi()) return;
  // A process of its own: it would start MPI. PMI_SIZE is another MPI's launcher.
  std::array<char, 4096> self{};
  REQUIRE(::readlink("/proc/self/exe", self.data(), self.size() - 1) > 0);
  const std::string command =
      "PMI_SIZE=2 '" + std::string{self.data()} + "' --mpi --test-case=none 2>&1 </dev/null";
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> child{::popen(command.c_str(), "r"), &::pclose};
  REQUIRE(child != nullptr);
  std::string text;
  std::array<char, 256> line{};
  while (std::fgets(line.data(), line.size(), child.get()) != nullptr) text += line.data();
  CHECK(lacking(text, {"the launcher started 2 processes"}) == "");
}
#endif

}  // namespace
