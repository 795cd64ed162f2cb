// SPDX-License-Identifier: Apache-2.0
// program SCENARIO [VARIANT]: hvdlite as a guest in a process that has a life of its own: its own
// MPI, its own handlers, threads and children. Prints what is wrong, and returns 1 then; guest.sh
// judges that, the end of the job, and that there is one.
#include <mpi.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/mpi/communicator.hpp>
#include <boost/mpi/environment.hpp>
#include <cfenv>
#include <climits>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <hvdlite/collective/allreduce.hpp>
#include <hvdlite/collective/barrier.hpp>
#include <hvdlite/collective/launch.hpp>
#include <hvdlite/horovod.hpp>
#include <hvdlite/optim/distributed_optimizer.hpp>
#include <hvdlite/optim/sgd.hpp>
#include <hvdlite/tensor/std.hpp>

#include "guest/plugin.hpp"
#include "support/pmpi/pmpi.hpp"

namespace {

namespace hvd = hvdlite::horovod;
using hvdlite::Environment;
using world_type = hvdlite::default_communicator;

int failures = 0;

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  ++failures;
}

/// Calls `f`, which must throw an E that says `words`.
template <class E, class F>
void refused(F&& f, std::string_view words, const char* what) {
  try {
    f();
    expect(false, what);
  } catch (const E& e) {
    if (std::string_view{e.what()}.find(words) != std::string_view::npos) return;
    std::fprintf(stderr, "'%s' lacks '%s'\n", e.what(), std::string{words}.c_str());
    expect(false, what);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "another error: '%s'\n", e.what());
    expect(false, what);
  }
}

void adds_up(const world_type& world) {
  float x = static_cast<float>(world.rank() + 1);
  hvdlite::allreduce(world, x, hvdlite::sum{});
  expect(x == static_cast<float>(world.size() * (world.size() + 1) / 2), "a sum of hvdlite's");
}

/// MPI works for its owner.
void mpi_adds_up(MPI_Comm comm = MPI_COMM_WORLD) {
  int size = 0, one = 1, sum = 0;
  MPI_Comm_size(comm, &size);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
  expect(sum == size, "a sum of MPI's");
}

// --- What a guest leaves as it found it ----------------------------------------------------------

MPI_Errhandler handler_of(MPI_Comm comm) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_get_errhandler(comm, &handler);
  MPI_Errhandler same = handler;
  MPI_Errhandler_free(&same);  // the reference that asking has made
  return handler;
}

constexpr std::array signals{SIGINT,  SIGTERM, SIGSEGV, SIGCHLD, SIGPIPE,
                             SIGABRT, SIGHUP,  SIGUSR1, SIGFPE};

/// The state of the process that others rely on.
struct surroundings {
  MPI_Errhandler world = handler_of(MPI_COMM_WORLD), self = handler_of(MPI_COMM_SELF);
  std::array<void (*)(int), signals.size()> actions{};
  std::terminate_handler terminate = std::get_terminate();
  std::string locale = std::setlocale(LC_ALL, nullptr);
  std::string directory;
  int rounding = std::fegetround();
  sigset_t blocked{};

  surroundings() {
    for (std::size_t i = 0; i < signals.size(); ++i) {
      struct sigaction action{};
      sigaction(signals[i], nullptr, &action);
      actions[i] = action.sa_handler;
    }
    std::array<char, PATH_MAX> path{};
    directory = getcwd(path.data(), path.size());
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  }

  void expect_unchanged(bool but_terminate = false) const {
    const surroundings after;
    expect(after.world == world, "the error handler of MPI_COMM_WORLD has changed");
    expect(after.self == self, "the error handler of MPI_COMM_SELF has changed");
    expect(after.actions == actions, "a signal's handler has changed");
    expect(but_terminate != (after.terminate == terminate), "the terminate handler has changed");
    expect(after.locale == locale, "the locale has changed");
    expect(after.directory == directory, "the current directory has changed");
    expect(after.rounding == rounding, "the rounding mode has changed");
    for (const int s : signals)
      expect(sigismember(&after.blocked, s) == sigismember(&blocked, s),
             "the signal mask has changed");
  }
};

int handler_calls = 0;
void count_errors(MPI_Comm*, int*, ...) { ++handler_calls; }

/// Uses hvdlite in every way, within MPI that runs already. MPI that an Environment started is
/// ours: then uncaught exceptions are, too, while one is alive.
void visit(bool ours = false) {
  MPI_Errhandler counting = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(count_errors, &counting);
  MPI_Comm users = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &users);
  MPI_Comm_set_errhandler(users, counting);
  const long handlers_set = pmpi::now().handlers_set;
  const int handled = handler_calls;
  const surroundings before;
  {
    const Environment environment;
    before.expect_unchanged(ours);
    const world_type world = environment.world();
    adds_up(world);
    const world_type mine{users};
    expect(handler_of(users) == counting, "the error handler of the user's communicator (during)");
    adds_up(mine);
    adds_up(mine.split(0));
    const world_type boosts{boost::mpi::communicator{users, boost::mpi::comm_attach}};
    adds_up(boosts);
    hvd::init();
    hvd::barrier();
    hvd::shutdown();
    try {
      hvdlite::broadcast(world, failures, world.size());
    } catch (const hvdlite::usage_error&) {
    }
    before.expect_unchanged(ours);
    mpi_adds_up(users);
  }
  before.expect_unchanged();
  expect(pmpi::now().handlers_set > handlers_set, "ours are on our own communicators");
  expect(handler_of(users) == counting, "the error handler of the user's communicator (after)");
  char nothing = 0;  // a rank that is not there: the handler is called, by MPI as before
  MPI_Send(&nothing, 1, MPI_CHAR, 1000, 0, users);
  expect(handler_calls == handled + 1, "the user's handler is not called any more");
  mpi_adds_up(users);
  MPI_Errhandler_free(&counting);
  MPI_Comm_free(&users);
  mpi_adds_up();
}

void own_terminate() { std::_Exit(5); }

void host(int argc, char** argv, std::string_view level) {
  constexpr std::array<std::pair<std::string_view, int>, 4> levels{
      {{"single", MPI_THREAD_SINGLE},
       {"funneled", MPI_THREAD_FUNNELED},
       {"serialized", MPI_THREAD_SERIALIZED},
       {"multiple", MPI_THREAD_MULTIPLE}}};
  int provided = 0;
  for (const auto& [name, wanted] : levels)
    if (name == level) MPI_Init_thread(&argc, &argv, wanted, &provided);
  if (level == "init") {
    MPI_Init(&argc, &argv);
    MPI_Query_thread(&provided);
  }
  std::set_terminate(own_terminate);
  std::setlocale(LC_ALL, "C.UTF-8");
  std::fesetround(FE_UPWARD);
  signal(SIGCHLD, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  visit();
  visit();
  {  // another thread, per level
    const Environment environment;
    const world_type world = environment.world();
    std::thread other{[&] {
      if (provided >= MPI_THREAD_SERIALIZED || world.size() == 1)
        adds_up(world);
      else
        refused<hvdlite::usage_error>([&] { adds_up(world); }, "MPI_THREAD_SERIALIZED",
                                      "a call on a thread that MPI does not allow");
    }};
    other.join();
    adds_up(world);
  }
  mpi_adds_up();
  MPI_Finalize();
  refused<hvdlite::usage_error>([] { Environment late; }, "finalized", "init after MPI_Finalize");
}

// --- Other owners of MPI -------------------------------------------------------------------------

/// A library that initialises MPI only if nobody else has.
struct polite {
  bool mine = false;
  polite() {
    int running = 0;
    MPI_Initialized(&running);
    if (running == 0) {
      MPI_Init(nullptr, nullptr);
      mine = true;
    }
    mpi_adds_up();
  }
  ~polite() {
    mpi_adds_up();
    if (mine) MPI_Finalize();
  }
};

void boosts(std::string_view when) {
  if (when == "before") {
    const boost::mpi::environment owner{boost::mpi::threading::funneled};
    visit();
    mpi_adds_up();
  } else if (when == "after") {
    {
      const Environment environment;
      adds_up(environment.world());
    }
    const boost::mpi::environment guest;
    mpi_adds_up();
    visit(true);
  } else if (when == "inside") {
    const Environment environment;
    {
      const boost::mpi::environment guest;
      adds_up(environment.world());
      mpi_adds_up();
    }
    adds_up(environment.world());
  } else {  // it starts and ends MPI around the beginning of ours
    std::optional<boost::mpi::environment> owner{std::in_place};
    const Environment environment;
    adds_up(environment.world());
    owner.reset();
    if (environment.world().size() > 1)
      refused<hvdlite::usage_error>([&] { adds_up(environment.world()); }, "finalized",
                                    "a call after Boost's environment has ended");
  }
}

void polites(std::string_view when) {
  if (when == "before") {
    const polite other;
    visit();
  } else if (when == "after") {
    {
      const Environment environment;
      adds_up(environment.world());
    }
    const polite other;
    expect(!other.mine || std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr, "MPI runs");
    visit(!other.mine);
  } else {
    const Environment environment;
    const polite other;
    adds_up(environment.world());
  }
}

void finalized(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  static world_type kept;  // destroyed after main
  {
    const Environment environment;
    const world_type world = environment.world();
    const world_type part = world.split(0);
    kept = world_type{MPI_COMM_WORLD};
    hvdlite::DistributedOptimizer<hvdlite::Sgd, std::vector<float>> optimizer{
        world, {.learning_rate = 0.1f}};
    adds_up(world);
    MPI_Finalize();
    for (const world_type& c : {world, part, kept}) {
      if (c.size() > 1)
        refused<hvdlite::usage_error>([&] { adds_up(c); }, "finalized", "a call");
      else
        adds_up(c);  // needs no MPI
      refused<hvdlite::usage_error>([&] { c.split(0); }, "finalized", "a split");
    }
    refused<hvdlite::usage_error>([] { world_type{MPI_COMM_WORLD}; }, "not running", "a new one");
  }
}

// --- Again and again -----------------------------------------------------------------------------

void again() {
  constexpr auto none = "Environment in main";
  float x = 1;
  const auto unusable = [&] {
    expect(!hvd::is_initialized(), "not initialised");
    refused<hvdlite::usage_error>([] { hvd::rank(); }, none, "rank");
    refused<hvdlite::usage_error>([] { hvd::local_size(); }, none, "local_size");
    refused<hvdlite::usage_error>([&] { hvd::allreduce(x); }, none, "allreduce");
    refused<hvdlite::usage_error>([&] { hvd::broadcast(x, 0); }, none, "broadcast");
    refused<hvdlite::usage_error>([] { hvd::barrier(); }, none, "barrier");
  };
  unusable();
  hvd::shutdown();
  world_type first;
  for (int round = 0; round < 50; ++round) {
    hvd::init();
    hvd::init();
    adds_up(hvdlite::current_world());
    if (round == 0) first = hvdlite::current_world();
    if (round % 10 == 0) {
      const Environment inner;
      expect(inner.world() == hvdlite::current_world(), "one world");
    }
    adds_up(hvdlite::current_world());
    hvd::shutdown();
    hvd::shutdown();
    unusable();
    refused<hvdlite::usage_error>([&] { adds_up(first); }, "has ended", "an old handle");
    refused<hvdlite::usage_error>([&] { first.split(0); }, "has ended", "an old handle's split");
  }
  const Environment outer;
  hvd::init();
  {
    const Environment inner;
    adds_up(inner.world());
  }
  hvd::shutdown();
  adds_up(outer.world());
}

// --- Children ------------------------------------------------------------------------------------

/// Runs `f` in a forked child and returns its exit status; -1 if it ends in another way or not at
/// all.
template <class F>
int in_child(F&& f) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(5);
    f();
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// A child that leaves main's scopes by an exception, caught in main.
struct leave_by_exception {};

void forks(bool horovod) {
  std::optional<Environment> environment;
  if (horovod)
    hvd::init();
  else
    environment.emplace();
  static world_type kept;
  const world_type world = hvdlite::current_world();
  kept = world_type{world.split(0)};
  int running = 0;
  MPI_Initialized(&running);
  const auto goes_on = [&] {
    adds_up(world);
    adds_up(kept);
  };
  goes_on();
  for (int round = 0; round < 2; ++round) {
    expect(in_child([] { std::exit(0); }) == 0, "a child that calls exit(0)");
    goes_on();
    expect(in_child([] { _exit(3); }) == 3, "a child that calls _exit(3)");
    goes_on();
    expect(in_child([&] {
             kept = {};
             hvd::shutdown();
             environment.reset();
             std::exit(4);
           }) == 4,
           "a child that ends what its parent made");
    goes_on();
    expect(in_child([&] {
             if (world.size() > 1) {
               refused<hvdlite::usage_error>([&] { adds_up(world); }, "forked", "a child's call");
               refused<hvdlite::usage_error>([&] { world.split(0); }, "forked", "a child's split");
             }
             refused<hvdlite::usage_error>([] { world_type{MPI_COMM_WORLD}; },
                                           running != 0 ? "forked" : "not running",
                                           "a child's communicator");
             hvdlite::launch(2, [](const world_type& threads) { adds_up(threads); });
             std::exit(failures);
           }) == 0,
           "a child that makes calls");
    goes_on();
    expect(std::system("exit 6") >> 8 == 6, "system()");
    std::FILE* const pipe = popen("echo hello", "r");
    std::array<char, 16> line{};
    expect(pipe != nullptr && std::fgets(line.data(), line.size(), pipe) != nullptr &&
               std::string_view{line.data()} == "hello\n" && pclose(pipe) == 0,
           "popen()");
    goes_on();
  }
  std::thread other{[] { expect(in_child([] { std::exit(0); }) == 0, "a child of a thread"); }};
  other.join();
  goes_on();
  // The end is in order before one more child, which inherits MPI that still runs.
  kept = {};
  environment.reset();
  hvd::shutdown();
  if (running == 0) return;
  expect(in_child([] {
           refused<hvdlite::usage_error>([] { Environment e; }, "forked", "a child's Environment");
           std::exit(failures);
         }) == 0,
         "a child of a process whose Environment has ended");
  mpi_adds_up();
}

/// The child's exception leaves `guarded`, which must not end the parent's job.
int guarded_fork(int argc, char** argv) {
  const pid_t parent = getpid();
  const int status = hvdlite::guarded(argc, argv, [](Environment& environment) {
    const world_type world = environment.world();
    adds_up(world);
    const pid_t child = fork();
    if (child == 0) throw leave_by_exception{};
    int ended = 0;
    waitpid(child, &ended, 0);
    expect(WIFEXITED(ended) && WEXITSTATUS(ended) == 9, "a child that throws");
    adds_up(world);
  });
  if (getpid() != parent) std::exit(status == 1 ? 9 : 8);
  return status;
}

// --- Threads, many communicators, the end --------------------------------------------------------

void other_thread() {
  std::thread other{[] {
    const Environment environment;
    const world_type world = environment.world();
    adds_up(world);
    hvd::init();
    expect(hvd::rank() == world.rank(), "rank");
    hvd::shutdown();
    bool refused_here = false;
    std::thread third{[&] {
      try {
        adds_up(world);
      } catch (const hvdlite::usage_error&) {
        refused_here = true;
      }
    }};
    third.join();
    expect(refused_here == (world.size() > 1), "a call on a third thread");
    adds_up(world);
  }};
  other.join();
}

long resident_kilobytes() {
  std::FILE* const file = std::fopen("/proc/self/status", "r");
  std::array<char, 256> line{};
  long result = 0;
  while (file != nullptr && std::fgets(line.data(), line.size(), file) != nullptr)
    if (std::sscanf(line.data(), "VmRSS: %ld", &result) == 1) break;
  if (file != nullptr) std::fclose(file);
  return result;
}

void many(int count) {
  const Environment environment;
  const world_type world = environment.world();
  const auto turn = [&](int i) {
    world_type part = i % 2 == 0 ? world.split(i % 3 == 0 ? world.rank() : 0, -world.rank())
                                 : world_type{MPI_COMM_WORLD};
    if (i % 16 == 0) adds_up(part);
  };
  for (int i = 0; i < 600; ++i) turn(i);  // MPI's own tables grow up to a size
  adds_up(world);
  const auto before = pmpi::now();
  const long memory = resident_kilobytes();
  for (int i = 0; i < count; ++i) turn(i);
  adds_up(world);
  const auto after = pmpi::now();
  const long grown = resident_kilobytes() - memory;
  if (world.rank() == 0)
    std::printf("%d communicators: %+ld communicators, %+ld requests, %+ld groups, %+ld kB\n",
                count, after.communicators - before.communicators, after.requests - before.requests,
                after.groups - before.groups, grown);
  expect(after.communicators == before.communicators, "communicators are left");
  expect(after.groups == before.groups, "groups are left");
  // A message to a rank that has not looked yet: those of the last calls on the world.
  expect(after.requests - before.requests <= 8 * world.size(), "requests are left");
  expect(grown < 2000, "memory has grown");
  if (world.size() == 1) return;
  // After a failed call the communicator is kept, since MPI would use its number again.
  const long kept = pmpi::now().communicators;
  for (int i = 0; i < 20; ++i) {
    const world_type part = world.split(0);
    float x = 1;
    refused<hvdlite::mismatch_error>(
        [&] {
          if (part.rank() == 0)
            hvdlite::allreduce(part, x, hvdlite::sum{});
          else
            hvdlite::barrier(part);
        },
        "same call", "a mismatch");
    adds_up(part);
  }
  expect(pmpi::now().communicators == kept + 20, "one is kept for each failed call, and no more");
}

void many_on_threads(int count) {
  long memory = 0;
  hvdlite::launch(2, [&](const world_type& world) {
    for (int i = 0; i < count + 200; ++i) {
      const world_type part = world.split(i % 3 == 0 ? world.rank() : 0);
      if (i % 16 == 0) adds_up(part);
      if (i == 200 && world.rank() == 0) memory = resident_kilobytes();
    }
  });
  const long grown = resident_kilobytes() - memory;
  std::printf("%d communicators on threads: %+ld kB\n", count, grown);
  expect(grown < 4000, "memory has grown");
}

using guest_plugin::late;
late at_namespace_scope;
thread_local late in_a_thread;

void fill(late& l) {
  l.world = hvdlite::current_world();
  l.users = world_type{MPI_COMM_WORLD};
  l.optimizer = std::make_unique<guest_plugin::optimizer_type>(
      l.world, hvdlite::Sgd{{.learning_rate = 0.1f}});
  adds_up(guest_plugin::world_of_the_library());
  std::vector<float> w(100, 1.0f);
  const std::vector<float> g(100, 1.0f);
  l.optimizer->step(w, g);
}

void late_end(std::string_view where) {
  std::unique_ptr<Environment> environment = std::make_unique<Environment>();
  static late in_a_function;
  late& l = where == "namespace"  ? at_namespace_scope
            : where == "thread"   ? in_a_thread
            : where == "function" ? in_a_function
            : where == "library"  ? guest_plugin::kept()
                                  : at_namespace_scope;
  fill(l);
  if (where == "environment" || where == "library" || where == "thread")
    l.environment = std::move(environment);
  if (where == "horovod") {
    hvd::init();
    environment.reset();
  }
}

// --- MPI's calls, counted and failing ------------------------------------------------------------

void calls(std::string_view checks) {
  const Environment environment;
  const world_type world = environment.world();
  const long peers = world.size() - 1;
  for (const std::size_t bytes : {std::size_t{4}, std::size_t{1024}}) {
    std::vector<float> x(bytes / sizeof(float), 1.0f);
    for (int i = 0; i < 5; ++i) hvdlite::allreduce(world, x, hvdlite::sum{});
    constexpr long rounds = 100;
    const auto before = pmpi::now();
    for (long i = 0; i < rounds; ++i) hvdlite::allreduce(world, x, hvdlite::average{});
    const auto after = pmpi::now();
    const long sends = after.sends - before.sends, receives = after.receives - before.receives;
    if (world.rank() == 0)
      std::printf("checks %s, %zu bytes, %d ranks: %.2f sends, %.2f receives a call\n",
                  std::string{checks}.c_str(), bytes, world.size(),
                  static_cast<double>(sends) / rounds, static_cast<double>(receives) / rounds);
    // Without checks, what has to move: all leaves to all. With them one message more per peer. The
    // receive of a fast peer's next announcement may fall before or after the count.
    const long most = (checks == "on" ? 2 : 1) * peers * rounds;
    expect(sends <= most, "more sends than one exchange above those without checks");
    expect(receives <= most + 2 * peers, "more receives than that");
  }
}

/// The `nth` call of FUNCTION on rank 1 fails, within an allreduce of so many floats.
int inject(const std::string& function, long nth, std::size_t count) {
  const Environment environment;
  const world_type world = environment.world();
  std::vector<float> x(count, 1.0f);
  hvdlite::allreduce(world, x);
  if (world.rank() == 1) pmpi::fail(function.c_str(), nth);
  bool failed = false;
  for (int round = 0; round < 4 && !failed; ++round) {
    try {
      hvdlite::allreduce(world, x, {.name = "w"});
    } catch (const hvdlite::error& e) {
      failed = true;
      const std::string_view text = e.what();
      const auto says = [&](std::string_view words) {
        return text.find(words) != std::string_view::npos;
      };
      std::fprintf(stderr, "rank %d: %s\n", world.rank(), e.what());
      if (world.rank() == 1) {
        expect(dynamic_cast<const hvdlite::transport_error*>(&e) != nullptr, "a transport_error");
        expect(says(function + ": ") && says("MPI_ERR_OTHER"), "MPI's function and text");
        expect(says("allreduce 'w'"), "the operation's name");
      } else {
        expect(dynamic_cast<const hvdlite::peer_lost_error*>(&e) != nullptr, "a peer_lost_error");
        expect(says("rank 1") && says(function), "the rank and MPI's function");
      }
    }
  }
  if (world.rank() == 1) {
    expect(pmpi::has_failed() && failed, "the error was noticed");
    pmpi::fail("", 0);
  }
  // What comes later may fail, but must neither crash nor hang.
  for (int round = 0; round < 2; ++round) {
    try {
      hvdlite::allreduce(world, x);
    } catch (const hvdlite::error&) {
    }
  }
  // A rank that ends without MPI_Finalize takes the others with it.
  if (world.rank() != 1) usleep(500'000);
  std::fprintf(stderr, "rank %d has come to the end\n", world.rank());
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv, argv + argc);
  const std::string scenario = arguments.at(1), variant = argc > 2 ? arguments[2] : "";
  if (scenario == "host") host(argc, argv, variant);
  if (scenario == "boost") boosts(variant);
  if (scenario == "polite") polites(variant);
  if (scenario == "finalized") finalized(argc, argv);
  if (scenario == "again") again();
  if (scenario == "fork") forks(variant == "horovod");
  if (scenario == "guarded_fork" && guarded_fork(argc, argv) != 0) return 1;
  if (scenario == "thread") other_thread();
  if (scenario == "many") many(std::stoi(variant));
  if (scenario == "many_on_threads") many_on_threads(std::stoi(variant));
  if (scenario == "late") {
    late_end(variant);
    return failures != 0 ? 1 : variant == "library" ? 42 : 0;
  }
  if (scenario == "calls") calls(variant);
  if (scenario == "alone") {
    refused<hvdlite::usage_error>([] { Environment e; }, "the launcher started 4 processes",
                                  "a launcher that says 4");
  }
  if (scenario == "inject")
    return inject(variant, std::stol(arguments.at(3)),
                  static_cast<std::size_t>(std::stol(arguments.at(4))));
  std::puts("ended");
  return failures == 0 ? 0 : 1;
}
