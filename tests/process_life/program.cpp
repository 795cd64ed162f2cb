// SPDX-License-Identifier: Apache-2.0
// program SCOPE DEED: rank 1 misbehaves between two collectives or within one, in each scope that a
// program may have around it. process_life.sh judges the end of the job.
//   guarded, caught, bare  what a program has around its work
//   report                 every rank says what it got, how long after the deed, and that later
//                          calls fail at once; then it ends as if nothing had happened
//   threads                the same with threads as ranks
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include <hvdlite/collective/allreduce.hpp>
#include <hvdlite/collective/barrier.hpp>
#include <hvdlite/collective/broadcast.hpp>
#include <hvdlite/collective/environment.hpp>
#include <hvdlite/collective/launch.hpp>
#include <hvdlite/ops/reduce_op.hpp>
#include <hvdlite/tensor/std.hpp>

namespace {

/// The same clock in all processes of the machine.
double now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// What rank 1 does, at once or from within a function of the user's.
void misbehave(std::string_view deed) {
  if (deed == "terminate") std::terminate();
  if (deed == "throw" || deed == "handler") throw std::runtime_error{"no more memory for flowers"};
  if (deed == "exit") std::exit(3);
  if (deed == "quick_exit") std::quick_exit(3);
  if (deed == "_exit") _exit(3);
  if (deed == "abort") std::abort();
  if (deed == "kill") raise(SIGKILL);
  if (deed == "stop") raise(SIGSTOP);
  if (deed == "late") usleep(300'000);
}

float added(float a, float b, bool throws) {
  if (throws) throw std::runtime_error{"in a function of the user's"};
  return a + b;
}

void work(const hvdlite::default_communicator& world, std::string_view deed, double& when) {
  std::vector<float> x(1000, static_cast<float>(world.rank()));
  hvdlite::allreduce(world, x, {.name = "first"});
  when = now() + 0.1;
  hvdlite::broadcast(world, when);
  if (world.rank() == 1) {
    while (now() < when) usleep(1000);
    if (deed == "return") return;
    // Without a collective that the others make, for longer than their deadline.
    if (deed == "skip") return sleep(4), void();
    misbehave(deed);
  }
  // "inside-kill" and its like: within the evaluation of a reduction, while data moves.
  if (deed.starts_with("inside-")) {
    std::vector<float> many(500'000);
    const int rank = world.rank();
    const auto function = [=](float a, float b) {
      if (rank == 1) misbehave(deed.substr(7));
      return a + b;
    };
    hvdlite::allreduce(world, many, hvdlite::user_op{"added", function, 0.0f}, {.name = "second"});
  }
  if (deed == "noexcept") {
    const int rank = world.rank();
    const auto function = [=](float a, float b) noexcept { return added(a, b, rank == 1); };
    hvdlite::allreduce(world, x, hvdlite::user_op{"added", function, 0.0f});
  }
  hvdlite::allreduce(world, x, {.name = "second"});
  if (deed == "alone" && world.rank() == 1) hvdlite::allreduce(world, x, {.name = "third"});
  if (world.rank() == 0) std::puts("complete");
}

/// In one piece, since others write to the same terminal.
void say(int rank, const std::string& words) {
  const std::string line = "rank " + std::to_string(rank) + ": " + words + "\n";
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

std::string kind_of(const std::exception& e) {
  if (dynamic_cast<const hvdlite::peer_lost_error*>(&e) != nullptr) return "peer_lost_error";
  if (dynamic_cast<const hvdlite::timeout_error*>(&e) != nullptr) return "timeout_error";
  if (dynamic_cast<const hvdlite::mismatch_error*>(&e) != nullptr) return "mismatch_error";
  return "another exception";
}

void report(const hvdlite::default_communicator& world, std::string_view deed) {
  double when = 0;
  try {
    work(world, deed, when);
  } catch (const std::exception& e) {
    const double after = now() - when;
    say(world.rank(), std::string{after < 0.4 ? "within" : "not within"} + " 0.4 s (" +
                          std::to_string(after) + "), " + kind_of(e) + ": " + e.what());
    const double before = now();
    try {
      hvdlite::barrier(world);
      say(world.rank(), "later calls work");
    } catch (const std::exception& later) {
      say(world.rank(), std::string{now() - before < 0.4 ? "at once" : "not at once"} + ", " +
                            kind_of(later) + " in later calls");
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view scope = argv[1], deed = argv[2];
  double when = 0;
  if (scope == "guarded")
    return hvdlite::guarded(argc, argv,
                            [&](hvdlite::Environment& e) { work(e.world(), deed, when); });
  if (scope == "threads") {
    hvdlite::launch(3, [&](const auto& world) { report(world, deed); });
    return 0;
  }
  if (scope == "report") {
    hvdlite::Environment environment{argc, argv};
    report(environment.world(), deed);
    return 0;
  }
  if (scope == "static") {
    static hvdlite::Environment environment{argc, argv};
    report(environment.world(), deed);
    return 0;
  }
  if (scope == "bare") {
    if (deed == "handler")
      std::set_terminate([] {
        std::fputs("a handler of the program's\n", stderr);
        std::abort();
      });
    hvdlite::Environment environment{argc, argv};
    work(environment.world(), deed, when);
    return 0;
  }
  const auto before = std::get_terminate();
  try {
    {
      hvdlite::Environment environment{argc, argv};
      work(environment.world(), deed, when);
    }
    return std::get_terminate() == before ? 0 : 9;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "caught: %s\n", e.what());
    return 1;
  }
}
