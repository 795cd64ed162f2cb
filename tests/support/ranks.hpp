// SPDX-License-Identifier: Apache-2.0
// How a collective test is written once and run by every kind of rank: on_every_world calls its
// body on each rank of worlds of 1 to 5 threads, or on this process as one rank under mpirun.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdlib>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <typeinfo>
#include <utility>
#include <vector>

#include <hvdlite/collective/environment.hpp>
#include <hvdlite/collective/launch.hpp>
#include <hvdlite/trace/log.hpp>

namespace hvdtest {

using world_type = hvdlite::default_communicator;
using body_type = std::function<void(const world_type&)>;

/// The node of each rank, for a thread_hub.
inline hvdlite::detail::list<int> on_nodes(std::initializer_list<int> nodes) {
  hvdlite::detail::list<int> result;
  for (const int node : nodes) result.push_back(node);
  return result;
}

/// Sets an environment variable until destroyed. Only where no other thread of the process runs.
class environment_variable {
 public:
  environment_variable(std::string name, const std::string& value) : name_{std::move(name)} {
    if (const char* previous = std::getenv(name_.c_str())) {
      had_one_ = true;
      previous_ = previous;
    }
    ::setenv(name_.c_str(), value.c_str(), 1);
  }
  environment_variable(const environment_variable&) = delete;
  environment_variable& operator=(const environment_variable&) = delete;
  ~environment_variable() {
    if (had_one_)
      ::setenv(name_.c_str(), previous_.c_str(), 1);
    else
      ::unsetenv(name_.c_str());
  }

 private:
  std::string name_;
  std::string previous_;
  bool had_one_ = false;
};

struct world_options {
  int least = 1;  ///< worlds with fewer or more ranks are left out
  int most = 5;
  int ranks_per_node = 0;  ///< of threads; under MPI the ranks are where they are
  std::vector<std::pair<std::string, std::string>> environment = {};  ///< for the world's making
};

/// Whether this process is a rank of an MPI job (collective_tests --mpi).
bool under_mpi();

/// The sizes of the worlds that on_every_world makes.
std::vector<int> world_sizes();

/// Runs `body(world)` on every rank of every world there is: threads, 1 to 5, or the processes of
/// the MPI job. Each call makes new worlds, so that a test may break its own. An exception that
/// leaves `body` fails the test. The deadline (HVDTEST_DEADLINE seconds) is for each world.
void on_every_world(const body_type& body, const world_options& options = {});

/// The same with `n` threads only, whatever the program was started as.
void on_threads(int n, const body_type& body, const world_options& options = {});

/// Runs `body(comm)` on `n` threads that are the ranks of a Comm: of other backends than the
/// default ones, or over a channel of the test's.
template <class Comm, class Channel = hvdlite::thread_channel, class Body>
void on_threads_of(int n, const Body& body, const hvdlite::settings& set = {}) {
  hvdlite::detail::list<int> nodes{static_cast<std::size_t>(n)};  // all on node 0
  const auto hub =
      std::make_shared<hvdlite::detail::thread_hub>(std::move(nodes), std::size_t{1024});
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      const Comm comm{std::make_unique<Channel>(hub, r), set,
                      std::make_shared<hvdlite::lifetime>()};
      body(comm);
    });
  for (auto& t : threads) t.join();
}

/// The deadline starts anew: for tests that are long because they are many.
void restart_deadline();

/// A factor for deadlines and delays: sanitizers make everything slower.
double slowness();

/// Calls `f`, which must throw exactly E, and returns what E says.
template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    CHECK_MESSAGE(typeid(e) == typeid(E),
                  "thrown was a " << typeid(e).name() << ": " << std::string{e.what()});
    return e.what();
  } catch (const std::exception& e) {
    FAIL_CHECK("expected " << typeid(E).name() << ", thrown was a " << typeid(e).name() << ": "
                           << std::string{e.what()});
    return {};
  }
  FAIL_CHECK("expected " << typeid(E).name() << ", nothing was thrown");
  return {};
}

/// Keeps what the library logs, instead of printing it, until destroyed.
class log_recorder {
 public:
  log_recorder()
      : previous_{hvdlite::set_log_sink([this](hvdlite::log_level, std::string_view line) {
          const std::lock_guard lock{mutex_};
          lines_.emplace_back(line);
        })} {}
  log_recorder(const log_recorder&) = delete;
  log_recorder& operator=(const log_recorder&) = delete;
  ~log_recorder() { hvdlite::set_log_sink(previous_); }

  /// The lines that contain all `words`.
  std::vector<std::string> with(std::initializer_list<std::string_view> words) const {
    const std::lock_guard lock{mutex_};
    std::vector<std::string> result;
    for (const std::string& line : lines_) {
      bool all = true;
      for (const auto word : words) all = all && line.find(word) != std::string::npos;
      if (all) result.push_back(line);
    }
    return result;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
  hvdlite::log_sink previous_;
};

/// "rank 0", "ranks 0 and 1", "ranks 0, 1 and 2", "ranks 0 to 3": ranks `first` to `last` as
/// messages name them.
inline std::string ranks_in_words(int first, int last) {
  if (first == last) return "rank " + std::to_string(first);
  if (last - first >= 3) return "ranks " + std::to_string(first) + " to " + std::to_string(last);
  std::string text = "ranks " + std::to_string(first);
  for (int r = first + 1; r <= last; ++r) text += (r == last ? " and " : ", ") + std::to_string(r);
  return text;
}

/// Empty if `text` contains all `words`; else those that it lacks, and the text: for
/// CHECK(lacking(text, {"rank 1", "f32"}) == "").
inline std::string lacking(std::string_view text, std::initializer_list<std::string_view> words) {
  std::string missing;
  for (const auto word : words)
    if (text.find(word) == std::string_view::npos) missing += "'" + std::string{word} + "', ";
  return missing.empty() ? missing : missing + "in: " + std::string{text};
}

}  // namespace hvdtest
