// SPDX-License-Identifier: Apache-2.0
// The main function of collective_tests: `--threads` makes worlds of threads, `--mpi` takes this
// process as one rank of an MPI job. Watches the deadline of each test.
#define DOCTEST_CONFIG_IMPLEMENT
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS  // the sanitizers' and MPI's reports say more
#include "support/ranks.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <streambuf>
#include <string_view>
#include <thread>

namespace hvdtest {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr double slow_factor = 3;
#elif defined(__SANITIZE_ADDRESS__)
constexpr double slow_factor = 2;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr double slow_factor = 3;
#elif __has_feature(address_sanitizer)
constexpr double slow_factor = 2;
#else
constexpr double slow_factor = 1;
#endif
#else
constexpr double slow_factor = 1;
#endif

/// What kind of ranks the tests run on. A further kind is a further line in `kinds`.
struct rank_kind {
  std::string_view option;
  std::string_view name;
  void (*run)(const body_type&, const world_options&);
};

/// Ends the process when a test takes too long, and says which test and which ranks.
class watchdog {
 public:
  static watchdog& instance() {
    static watchdog dog;
    return dog;
  }

  void start(std::string test) {
    const std::lock_guard lock{mutex_};
    test_ = std::move(test);
    where_.clear();
    end_ = next_end();
    if (!thread_.joinable()) thread_ = std::thread{[this] { watch(); }};
    changed_.notify_all();
  }
  void in_world(std::string where) {
    const std::lock_guard lock{mutex_};
    where_ = std::move(where);
    if (end_) end_ = next_end();
    changed_.notify_all();
  }
  void stop() {
    const std::lock_guard lock{mutex_};
    end_.reset();
    changed_.notify_all();
  }
  void quit() {
    {
      const std::lock_guard lock{mutex_};
      quit_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

  std::atomic<unsigned> inside{0};  ///< one bit per rank of this process that is in the test

 private:
  using clock = std::chrono::system_clock;  // whose timed waits TSan knows

  static std::chrono::duration<double> limit() {
    const char* text = std::getenv("HVDTEST_DEADLINE");
    return std::chrono::duration<double>{text != nullptr ? std::atof(text)
                                                         : 60 * slow_factor * slow_factor};
  }
  static clock::time_point next_end() {
    return clock::now() + std::chrono::duration_cast<clock::duration>(limit());
  }

  void watch() {
    std::unique_lock lock{mutex_};
    while (!quit_) {
      if (!end_) {
        changed_.wait(lock);
      } else if (clock::now() < *end_) {
        changed_.wait_until(lock, *end_);
      } else {
        std::string ranks;
        const unsigned bits = inside.load();
        for (int r = 0; r < 32; ++r)
          if ((bits >> r & 1u) != 0) ranks += " " + std::to_string(r);
        std::fprintf(stderr,
                     "collective_tests: the deadline of %g s has passed in the test '%s'%s%s; "
                     "ranks of this process that are still in it:%s\n",
                     limit().count(), test_.c_str(), where_.empty() ? "" : ", ", where_.c_str(),
                     ranks.empty() ? " none" : ranks.c_str());
        std::fflush(stderr);
        std::abort();
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
  std::string test_, where_;
  std::optional<clock::time_point> end_;
  bool quit_ = false;
};

/// Tells the watchdog where doctest is.
struct test_listener : doctest::IReporter {
  explicit test_listener(const doctest::ContextOptions&) {}
  void test_case_start(const doctest::TestCaseData& test) override {
    watchdog::instance().start(test.m_name);
  }
  void test_case_end(const doctest::CurrentTestCaseStats&) override { watchdog::instance().stop(); }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData& test) override {
    watchdog::instance().start(test.m_name);
  }
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
DOCTEST_REGISTER_LISTENER("deadline", 1, test_listener);

std::atomic<bool> reported{false};  // an exception that left a body

/// The body on one rank, with the rank in every failure's context.
void run_rank(const world_type& world, std::string_view kind, const body_type& body) {
  const int rank = world.rank();
  std::exception_ptr failure;
  {
    INFO("rank ", rank, " of ", world.size(), " (", std::string{kind}, ")");
    watchdog::instance().inside |= 1u << rank;
    try {
      body(world);
    } catch (const doctest::detail::TestFailureException&) {
      failure = std::current_exception();  // doctest has reported it
    } catch (const std::exception& e) {
      FAIL_CHECK("an exception left the test: " << std::string{e.what()});
      failure = std::current_exception();
    }
    watchdog::instance().inside &= ~(1u << rank);
  }
  if (!failure) return;
  reported = true;
  std::rethrow_exception(failure);  // the peers learn that this rank is gone
}

struct environment_scope {
  explicit environment_scope(const world_options& options) {
    for (const auto& [name, value] : options.environment)
      variables.push_back(std::make_unique<environment_variable>(name, value));
  }
  std::vector<std::unique_ptr<environment_variable>> variables;
};

/// HVDTEST_RANKS=N: worlds of N threads only, where all sizes would take too long (sanitizers).
int only_size() {
  const char* text = std::getenv("HVDTEST_RANKS");
  return text != nullptr ? std::atoi(text) : 0;
}

void threads_worlds(const body_type& body, const world_options& options) {
  for (int n = options.least; n <= options.most; ++n)
    if (only_size() == 0 || n == only_size()) on_threads(n, body, options);
}

int mpi_ranks = 0;  // of the job; 0: not started with --mpi

void mpi_world(const body_type& body, const world_options& options) {
  if (mpi_ranks < options.least || mpi_ranks > options.most) return;
  const environment_scope variables{options};
  watchdog::instance().in_world("mpi, " + std::to_string(mpi_ranks) + " ranks");
  try {
    const hvdlite::Environment environment;
    const world_type world = environment.world();
    run_rank(world, "mpi", body);
  } catch (const std::exception& e) {
    CHECK_MESSAGE(reported.exchange(false),
                  "the world could not be made: " << std::string{e.what()});
  } catch (...) {
    CHECK_MESSAGE(reported.exchange(false), "the world could not be made");
  }
}

constexpr rank_kind kinds[] = {
    {"--threads", "threads", &threads_worlds},
    {"--mpi", "mpi", &mpi_world},
};
const rank_kind* chosen = nullptr;

/// Puts the rank in front of each line.
class labelled_lines : public std::streambuf {
 public:
  explicit labelled_lines(std::string label) : label_{std::move(label)} {}

 protected:
  int_type overflow(int_type c) override {
    line_ += static_cast<char>(c);
    if (c == '\n') {
      std::fputs((label_ + line_).c_str(), stdout);
      std::fflush(stdout);
      line_.clear();
    }
    return c;
  }

 private:
  std::string label_, line_;
};

}  // namespace

bool under_mpi() { return mpi_ranks != 0; }

std::vector<int> world_sizes() {
  if (under_mpi()) return {mpi_ranks};
  if (only_size() != 0) return {only_size()};
  return {1, 2, 3, 4, 5};
}

double slowness() { return slow_factor; }

void restart_deadline() { watchdog::instance().in_world("in the middle of it"); }

void on_threads(int n, const body_type& body, const world_options& options) {
  const environment_scope variables{options};
  watchdog::instance().in_world(std::to_string(n) + " threads");
  try {
    hvdlite::launch(n, [&](const world_type& world) { run_rank(world, "threads", body); },
                    {.ranks_per_node = options.ranks_per_node});
  } catch (const std::exception& e) {
    CHECK_MESSAGE(reported.exchange(false),
                  "the world could not be made: " << std::string{e.what()});
  } catch (...) {
    CHECK_MESSAGE(reported.exchange(false), "the world could not be made");
  }
}

void on_every_world(const body_type& body, const world_options& options) {
  chosen->run(body, options);
}

namespace {

/// Whether a test has failed on any rank. With MPI itself, which is not what is tested.
bool failed_anywhere(bool here) {
#if HVDLITE_WITH_MPI
  if (mpi_ranks > 1) {
    int mine = here ? 1 : 0;
    int any = mine;
    MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return any != 0;
  }
#endif
  return here;
}

/// What fails on purpose leaves thousands of traces.
void log_without_traces(hvdlite::log_level, std::string_view line) {
  if (line.find("] trace: ") == line.npos)
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}

int run(int argc, char** argv) {
  hvdlite::set_log_sink(log_without_traces);
  for (int i = 1; i < argc; ++i)
    for (const rank_kind& kind : kinds)
      if (argv[i] == kind.option) chosen = &kind;
  if (chosen == nullptr) {
    std::fprintf(stderr, "usage: %s --threads | --mpi [doctest's options]\n", argv[0]);
    return 2;
  }
  doctest::Context context{argc, argv};
  int rank = 0;
  if (chosen->option == "--mpi") {
    if (!HVDLITE_WITH_MPI) {
      std::fprintf(stderr, "%s: built without MPI\n", argv[0]);
      return 2;
    }
    const hvdlite::Environment environment;
    rank = environment.world().rank();
    mpi_ranks = environment.world().size();
  }
  if (under_mpi()) context.setOption("no-colors", true);  // a launcher may pass for a terminal
  labelled_lines labelled{"[rank " + std::to_string(rank) + "] "};
  std::ostream labelled_out{&labelled};
  if (rank != 0) {
    context.setOption("minimal", true);  // only failures
    context.setCout(&labelled_out);
  }

  const bool failed = context.run() != 0;
  watchdog::instance().start("the end, where all ranks say whether they have failed");
  const bool any = failed_anywhere(failed);
  watchdog::instance().quit();
  if (any && rank == 0 && !failed)
    std::puts("collective_tests: a test has failed on another rank, see above");
  return any ? 1 : 0;
}

}  // namespace
}  // namespace hvdtest

int main(int argc, char** argv) {
  try {
    return hvdtest::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "collective_tests: %s\n", e.what());
    return 3;
  }
}
