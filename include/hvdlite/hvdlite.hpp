// SPDX-License-Identifier: Apache-2.0
// The door: everything that a training loop needs, in the order of the layers.
#pragma once

#include <hvdlite/core/config.hpp>    // gives: the checks of the language, HVDLITE_WITH_MPI, _EIGEN
#ifdef HVDLITE_EXPORT                 // else the one line of a check says enough
#include <hvdlite/core/element.hpp>   // gives: float16, bfloat16, dtype
#include <hvdlite/core/error.hpp>     // gives: error and its kinds
#include <hvdlite/core/settings.hpp>  // gives: the HVDLITE_* environment variables
#include <hvdlite/tensor/std.hpp>     // gives: scalars, arrays, vector, span, buffer
#include <hvdlite/trace/log.hpp>      // gives: log, set_log_sink
#include <hvdlite/version.hpp>        // gives: HVDLITE_VERSION_MAJOR, _MINOR, _PATCH
#if HVDLITE_WITH_EIGEN
#include <hvdlite/tensor/eigen.hpp>  // gives: Eigen's dense types as tensors
#endif
#include <hvdlite/collective/allreduce.hpp>     // gives: allreduce
#include <hvdlite/collective/barrier.hpp>       // gives: barrier
#include <hvdlite/collective/broadcast.hpp>     // gives: broadcast
#include <hvdlite/collective/communicator.hpp>  // gives: Communicator, backend_of
#include <hvdlite/collective/environment.hpp>   // gives: Environment, guarded, current_world
#include <hvdlite/collective/launch.hpp>        // gives: launch
#include <hvdlite/data/sampler.hpp>             // gives: ShardedSampler, rank_seed
#include <hvdlite/horovod.hpp>                // gives: hvdlite::horovod::init, rank, allreduce ...
#include <hvdlite/ops/reduce_op.hpp>          // gives: sum, average, min, max, ..., user_op
#include <hvdlite/optim/accumulate.hpp>       // gives: accumulate, no_sync_guard
#include <hvdlite/optim/adam.hpp>             // gives: Adam, AdamW
#include <hvdlite/optim/broadcast_state.hpp>  // gives: broadcast_parameters
#include <hvdlite/optim/clip.hpp>             // gives: clip, global_norm, by_value
#include <hvdlite/optim/distributed_optimizer.hpp>  // gives: DistributedOptimizer
#include <hvdlite/optim/gradient_buckets.hpp>       // gives: what its ranks exchange
#include <hvdlite/optim/gradient_kernels.hpp>       // gives: its loops over gradients
#include <hvdlite/optim/optimizer.hpp>              // gives: optimizer_traits
#include <hvdlite/optim/parameter.hpp>              // gives: its view of a parameter
#include <hvdlite/optim/parameter_list.hpp>         // gives: what its ranks compare
#include <hvdlite/optim/sgd.hpp>                    // gives: Sgd
#include <hvdlite/optim/update_cycle.hpp>           // gives: its states
#endif
