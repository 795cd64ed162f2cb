// SPDX-License-Identifier: Apache-2.0
#include "one_world.hpp"

#include <hvdlite/horovod.hpp>
#include <hvdlite/hvdlite.hpp>

int plugin_rank() { return hvdlite::horovod::rank(); }

int plugin_sum(int value) {
  hvdlite::horovod::allreduce(value, hvdlite::sum{});
  return value;
}

void plugin_throw() { throw hvdlite::usage_error("thrown in the library"); }
