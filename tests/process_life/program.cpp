// SPDX-License-Identifier: Apache-2.0
// program SCOPE DEED: a rank that misbehaves between two collectives, in each scope that a program
// may have around it. process_life.sh judges the end of the job.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <hvdlite/collective/allreduce.hpp>
#include <hvdlite/collective/environment.hpp>
#include <hvdlite/ops/reduce_op.hpp>
#include <hvdlite/tensor/std.hpp>

namespace {

float added(float a, float b, int rank) {
  if (rank == 1) throw std::runtime_error{"in a function of the user's"};
  return a + b;
}

int work(hvdlite::Environment& environment, std::string_view deed) {
  const auto world = environment.world();
  std::vector<float> x(1000, static_cast<float>(world.rank()));
  hvdlite::allreduce(world, x, {.name = "first"});
  if (deed == "inside") {
    const auto function = [&](float a, float b) noexcept { return added(a, b, world.rank()); };
    hvdlite::allreduce(world, x, hvdlite::user_op{"added", function, 0.0f});
  }
  if (world.rank() == 1) {
    if (deed == "terminate") std::terminate();
    if (deed == "throw" || deed == "handler")
      throw std::runtime_error{"no more memory for flowers"};
    if (deed == "return") return 0;
    if (deed == "exit") std::exit(3);
    if (deed == "late") usleep(300'000);
  }
  hvdlite::allreduce(world, x, {.name = "second"});
  if (world.rank() == 0) std::puts("complete");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view scope = argv[1], deed = argv[2];
  if (scope == "guarded")
    return hvdlite::guarded(argc, argv, [&](hvdlite::Environment& e) { return work(e, deed); });
  if (scope == "bare") {
    if (deed == "handler")
      std::set_terminate([] {
        std::fputs("a handler of the program's\n", stderr);
        std::abort();
      });
    hvdlite::Environment environment{argc, argv};
    return work(environment, deed);
  }
  const auto before = std::get_terminate();
  try {
    int status = 0;
    {
      hvdlite::Environment environment{argc, argv};
      status = work(environment, deed);
    }
    return std::get_terminate() == before ? status : 9;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "caught: %s\n", e.what());
    return 1;
  }
}
