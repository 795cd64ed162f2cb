// SPDX-License-Identifier: Apache-2.0
// Where a program begins and ends to be one of many: Environment finds out who started it, and the
// current world serves code that has no communicator at hand.
#pragma once

#include <atomic>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>

#include <hvdlite/collective/communicator.hpp>
#include <hvdlite/core/fork.hpp>

namespace hvdlite {

namespace detail {

/// How many processes the launcher says there are; 0 if it does not say, -1 if there is none.
HVDLITE_COLD inline int launcher_size() {
  // Open MPI, MPICH and Intel MPI (Hydra), MVAPICH; srun sets one of these through its PMI plugins.
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    const char* text = std::getenv(variable);
    if (text == nullptr) continue;
    char* end = nullptr;
    const long size = std::strtol(text, &end, 10);
    if (end != text && *end == '\0' && size > 0 && size < (1L << 30)) return static_cast<int>(size);
  }
  // PMIx alone (srun --mpi=pmix) says that there is a launcher, not how many it started.
  return std::getenv("PMIX_RANK") != nullptr ? 0 : -1;
}

/// The world of the process, shared by all Environments alive in it.
struct process_world {
  int environments = 0;
  std::shared_ptr<lifetime> life;
  default_communicator world;
  std::thread::id thread;
  home_process home;  // of the first Environment
  bool started_mpi = false;
  std::terminate_handler before = nullptr;  // what ours goes on to
};

/// Never destroyed: who calls exit() within a call is still in it then.
HVDLITE_EXPORT inline process_world& the_process() {
  static process_world& process = *new process_world;
  return process;
}

/// Tells the peers when the program exits while an Environment is alive, whose destructor does not
/// run then, or later than this.
struct exit_notice {
  exit_notice() = default;
  exit_notice(const exit_notice&) = delete;
  exit_notice& operator=(const exit_notice&) = delete;
  HVDLITE_COLD ~exit_notice() {
    const auto& process = the_process();
    if (process.environments == 0 || process.home.left()) return;
    process.life->tell_the_end("it exits while its Environment is alive");
  }
};

/// Makes the process-wide objects, so that they outlive static objects that are made later.
HVDLITE_COLD inline void prepare_process() {
  the_process();
  the_log();
  static exit_notice notice;
#if HVDLITE_WITH_MPI
  mpi_session::instance();
#endif
}

HVDLITE_COLD inline std::unique_ptr<channel> find_channel([[maybe_unused]] process_world& process) {
  const int launched = launcher_size();
#if HVDLITE_WITH_MPI
  if (launched >= 0 || mpi_session::running()) {
    if (!mpi_session::running()) {
      mpi_session::instance().start();
      process.started_mpi = true;
    }
    std::unique_ptr<mpi_channel> start_up{new mpi_channel{MPI_COMM_WORLD}};
    if (process.started_mpi) start_up->watch_all();
    if (launched > 1 && start_up->size() == 1)
      detail::fail<usage_error>(
          {"the launcher started ", launched,
           " processes, but MPI says that this one is alone: the program was built with another "
           "MPI than the mpirun that started it; use one MPI for both"});
    return start_up;
  }
#else
  if (launched > 1)
    detail::fail<usage_error>(
        {"the launcher started ", launched,
         " processes, but this program was built without MPI: each would train "
         "alone; build with MPI and Boost.MPI, or start it once"});
#endif
  return std::unique_ptr<channel>{new lone_channel};
}

/// What is being thrown, in words that stay.
HVDLITE_COLD inline text current_words() noexcept try {
  if (!std::current_exception()) return {"it called std::terminate"};
  throw;
} catch (const std::exception& e) {
  return {"it threw, and nobody caught: ", e.what()};
} catch (...) {
  return {"it threw, and nobody caught: an exception that is no std::exception"};
}

/// The terminate handler while an Environment of an MPI that we started is alive: says which rank
/// it is, tells the peers while there is time, and goes on to the handler before, which ends the
/// process and so the job.
HVDLITE_EXPORT HVDLITE_COLD inline void on_terminate() {
  static std::atomic_flag entered;
  if (!entered.test_and_set()) {
    const text words = current_words();
    log(log_level::error, the_process().world.rank(), words);
    the_process().life->tell_the_end(words);
    clock::sleep_for(200'000'000);
  }
  if (the_process().before != nullptr) the_process().before();
  std::abort();
}

/// What a rank that failed does in the end.
HVDLITE_COLD inline int end_job(int rank, const char* what, bool forked) {
  log(log_level::error, rank, what);
  if (forked) return 1;  // the job is the parent's to end
  the_process().life->end(text({"it threw: ", what}), "this rank has failed");
#if HVDLITE_WITH_MPI
  if (mpi_session::running()) {
    clock::sleep_for(200'000'000);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
#endif
  return 1;
}

}  // namespace detail

/// A program's membership in the job that its launcher started. Make one in main, before any
/// collective, on the thread that will make them. Under mpirun (or where MPI runs already) the
/// world is MPI's; else it is this process alone, and MPI is not even initialised. MPI that runs
/// already is left running, and left as it is. Several Environments share one world; a new one may
/// be made after the last has gone.
///
/// MPI that an Environment started is finalized when the process ends, or with the thread that
/// started it if that is not main's.
///
/// The destructor ends the world and tells the other ranks: their calls that wait for this rank
/// throw peer_lost_error at once. It does not wait for them. An exception that nobody catches is
/// said with the rank, and to the other ranks, before it ends the process (if MPI is ours; the
/// terminate handler of before is called after that, and put back in the end).
class Environment {
 public:
  /// Collective over the job, blocking. The arguments of main are for launchers that need them, and
  /// are not changed. Throws usage_error for settings (HVDLITE_* variables) that cannot be read, a
  /// launcher that disagrees with MPI, or an MPI that was finalized.
  Environment(int /*argc*/, char** /*argv*/) : Environment{} {}

  HVDLITE_COLD Environment() : exceptions_{std::uncaught_exceptions()} {
    detail::prepare_process();
    auto& process = detail::the_process();
    if (process.environments == 0) {
      const settings set = settings::from_environment();
      std::shared_ptr<lifetime> life{new lifetime};
      process.world = default_communicator{detail::find_channel(process), set, life};
      process.life = std::move(life);
      process.thread = std::this_thread::get_id();
      process.home = detail::home_process{};
      const auto& world = process.world;
      if (world.rank() == 0)
        log(log_level::info, 0,
            detail::text({"a world of ", world.size(), ", ", world.local_size(),
                          " on this node; backend ", world.backend_name()}));
#if HVDLITE_WITH_MPI
      if (process.started_mpi) {
        detail::mpi_session::instance().keep_alive();
        process.before = std::set_terminate(detail::on_terminate);
      }
#endif
    }
    ++process.environments;
  }

  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  HVDLITE_COLD ~Environment() {
    if (home_.left()) return;  // what it would end is the parent's
    auto& process = detail::the_process();
    if (--process.environments != 0) return;
    if (std::get_terminate() == detail::on_terminate) std::set_terminate(process.before);
    const bool unwinding = std::uncaught_exceptions() > exceptions_;
    process.life->end(
        unwinding ? "it is unwinding from an exception" : "it has ended its Environment",
        "the Environment has ended; make the calls while it lives");
    process.world = {};
    process.life.reset();
#if HVDLITE_WITH_MPI
    // A rank that failed must not wait in MPI_Finalize for ranks that wait for it: without that
    // call the launcher ends the job.
    if (process.started_mpi && !unwinding) detail::mpi_session::instance().ended_in_order();
#endif
  }

  /// All processes of the job.
  default_communicator world() const { return detail::the_process().world; }

  /// Whether this is a child that was forked from the process that made the Environment. It is no
  /// rank: its calls are usage_errors, and the job goes on when it ends, in whatever way.
  bool in_forked_child() const { return home_.left(); }

 private:
  int exceptions_;
  detail::home_process home_;
};

/// The communicator that code without one at hand means: the innermost `make_current` or `launch`
/// of this thread, else the Environment's world on the thread that made it. Throws usage_error
/// where there is none.
HVDLITE_COLD inline default_communicator current_world() {
  if (const auto* world = detail::thread_world()) return *world;
  const auto& process = detail::the_process();
  if (process.environments == 0)
    detail::fail<usage_error>(
        {"there is no current world: make an hvdlite::Environment in main (or call "
         "hvdlite::horovod::init) before, and keep it; in a thread of your own take one "
         "with `auto guard = communicator.make_current();`"});
  if (process.thread != std::this_thread::get_id())
    detail::fail<usage_error>(
        {"there is no current world in this thread; take one with "
         "`auto guard = communicator.make_current();`"});
  return process.world;
}

/// Whether current_world() would succeed.
inline bool has_current_world() {
  const auto& process = detail::the_process();
  return detail::thread_world() != nullptr ||
         (process.environments != 0 && process.thread == std::this_thread::get_id());
}

/// Runs `f(environment)` with an Environment and returns its result (0 if it returns nothing) as
/// main's. An exception is printed with the rank, the other ranks are told why, and the whole job
/// is ended with status 1 (a moment later, so that they can say so).
template <class F>
int guarded(int argc, char** argv, F&& f) {
  try {
    Environment environment{argc, argv};
    try {
      if constexpr (std::is_void_v<std::invoke_result_t<F&, Environment&>>) {
        f(environment);
        return 0;
      } else {
        return f(environment);
      }
    } catch (const std::exception& e) {
      return detail::end_job(environment.world().rank(), e.what(), environment.in_forked_child());
    } catch (...) {
      return detail::end_job(environment.world().rank(), "an exception that is no std::exception",
                             environment.in_forked_child());
    }
  } catch (const std::exception& e) {  // there is no world
    log(log_level::error, -1, e.what());
    return 1;
  }
}

}  // namespace hvdlite
