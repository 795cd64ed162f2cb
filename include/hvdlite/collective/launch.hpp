// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process: for machines without MPI, for tests, and for debuggers.
#pragma once

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <hvdlite/collective/communicator.hpp>

namespace hvdlite {

struct launch_options {
  /// Pretends that so many ranks share a node each; 0: all are on one.
  int ranks_per_node = 0;
};

/// Runs `f(world)`, or `f()` with the world as the current one, on `n` threads that are the ranks
/// of a world, and returns when all have ended. The world consists of this process's threads also
/// under mpirun. Each thread calls the same object `f`.
///
/// If a rank throws, its peers' calls that wait for it throw peer_lost_error, and launch rethrows
/// the exception of the lowest rank that did not merely lose a peer.
template <class F>
void launch(int n, F&& f, const launch_options& options = {}) {
  if (n < 1) detail::fail<usage_error>({"launch: ", n, " ranks; expected at least 1"});
  const settings set = settings::from_environment();
  detail::list<int> nodes{static_cast<std::size_t>(n)};
  for (int r = 0; r < n; ++r)
    nodes[static_cast<std::size_t>(r)] =
        options.ranks_per_node > 0 ? r / options.ranks_per_node : 0;
  const auto hub = std::make_shared<detail::thread_hub>(
      std::move(nodes), (std::min)(set.chunk_bytes, segment::best_chunk_bytes));

  struct ending {
    std::exception_ptr error;
    bool only_lost_a_peer = false;
  };
  std::vector<ending> endings(static_cast<std::size_t>(n));
  const auto run_rank = [&](int rank) noexcept {
    ending& mine = endings[static_cast<std::size_t>(rank)];
    const auto life = std::make_shared<lifetime>();
    std::string why = "it has returned from the function given to launch";
    default_communicator world;  // outlives the exception, so that peers are told what it says
    try {
      world = default_communicator{n == 1 ? std::unique_ptr<channel>{new lone_channel}
                                          : std::unique_ptr<channel>{new thread_channel{hub, rank}},
                                   set, life};
      const auto current = world.make_current();
      if constexpr (std::is_invocable_v<F&, const default_communicator&>)
        f(std::as_const(world));
      else
        f();
    } catch (const peer_lost_error& e) {
      mine = {std::current_exception(), true};
      why = e.what();
    } catch (const std::exception& e) {
      mine = {std::current_exception(), false};
      why = detail::text({"it threw: ", e.what()});
    } catch (...) {
      mine = {std::current_exception(), false};
      why = "it threw something that is no std::exception";
    }
    life->end(why, "the launch that this communicator belongs to has ended");
  };

  std::vector<std::thread> threads;
  try {
    for (int rank = 0; rank < n; ++rank) threads.emplace_back(run_rank, rank);
  } catch (...) {  // no more threads to be had: those that run would wait for the others
    for (int rank = static_cast<int>(threads.size()); rank < n; ++rank) {
      hub->shared.depart(rank, 0, "it could not be started");
      thread_channel{hub, rank}.leave(detail::text({"rank ", rank, " could not be started"}));
    }
    for (auto& thread : threads) thread.join();
    throw;
  }
  for (auto& thread : threads) thread.join();

  for (const bool consequence : {false, true})
    for (const ending& e : endings)
      if (e.error && e.only_lost_a_peer == consequence) std::rethrow_exception(e.error);
}

}  // namespace hvdlite
