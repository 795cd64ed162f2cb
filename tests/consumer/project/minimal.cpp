// SPDX-License-Identifier: Apache-2.0
// The least that a program can do with hvdlite.
#include <hvdlite/hvdlite.hpp>

#include <vector>

int main(int argc, char** argv) {
  hvdlite::Environment env{argc, argv};
  auto world = env.world();
  std::vector<float> x{1, 2, 3};
  hvdlite::allreduce(world, x, hvdlite::sum{});
  return x[2] == 3.0f * static_cast<float>(world.size()) ? 0 : 1;
}
