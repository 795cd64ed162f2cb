// SPDX-License-Identifier: Apache-2.0
// A shared library with hidden visibility that uses hvdlite beside the program that does: one world
// for both, and objects of the library that are gone after main.
#pragma once

#include <memory>
#include <vector>

#include <hvdlite/collective/environment.hpp>
#include <hvdlite/optim/distributed_optimizer.hpp>
#include <hvdlite/optim/sgd.hpp>
#include <hvdlite/tensor/std.hpp>

namespace guest_plugin {

using optimizer_type = hvdlite::DistributedOptimizer<hvdlite::Sgd, std::vector<float>>;

/// What somebody keeps beyond the end of main.
struct late {
  hvdlite::default_communicator world, users;
  std::unique_ptr<optimizer_type> optimizer;
  std::unique_ptr<hvdlite::Environment> environment;
};

/// Static in the library.
__attribute__((visibility("default"))) late& kept();

/// The current world as the library sees it.
__attribute__((visibility("default"))) hvdlite::default_communicator world_of_the_library();

}  // namespace guest_plugin
