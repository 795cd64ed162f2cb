// SPDX-License-Identifier: Apache-2.0
// One line per message, in one piece, to stderr or the program's own sink, and only what the level
// lets through.
#include <doctest/doctest.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <hvdlite/trace/log.hpp>

using hvdlite::log_level;

namespace {

using lines = std::vector<std::pair<log_level, std::string>>;

// Level and sink as this scope wants them; as they were after it.
class logging {
 public:
  explicit logging(log_level level)
      : level_{std::exchange(hvdlite::detail::the_log().level, level)},
        sink_{hvdlite::set_log_sink(
            [this](log_level l, std::string_view line) { got.emplace_back(l, line); })} {}
  logging(const logging&) = delete;
  logging& operator=(const logging&) = delete;
  ~logging() {
    hvdlite::detail::the_log().level = level_;
    hvdlite::set_log_sink(sink_);
  }
  lines got;

 private:
  log_level level_;
  hvdlite::log_sink sink_;
};

// What `f` makes the process write to file descriptor 2.
std::string written_to_stderr(void (*f)()) {
  std::FILE* const file = std::tmpfile();
  REQUIRE(file != nullptr);
  std::fflush(stderr);
  const int before = dup(STDERR_FILENO);
  dup2(fileno(file), STDERR_FILENO);
  f();
  std::fflush(stderr);
  dup2(before, STDERR_FILENO);
  close(before);
  std::string result;
  std::rewind(file);
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) result += static_cast<char>(c);
  std::fclose(file);
  return result;
}

log_level level_for(const char* variable) {
  const char* const was = std::getenv("HVDLITE_LOG_LEVEL");
  const std::optional<std::string> before = was ? std::optional<std::string>{was} : std::nullopt;
  if (variable == nullptr)
    unsetenv("HVDLITE_LOG_LEVEL");
  else
    setenv("HVDLITE_LOG_LEVEL", variable, 1);
  const hvdlite::detail::log_state state;
  if (before)
    setenv("HVDLITE_LOG_LEVEL", before->c_str(), 1);
  else
    unsetenv("HVDLITE_LOG_LEVEL");
  return state.level;
}

}  // namespace

TEST_CASE("HVDLITE_LOG_LEVEL decides; warning if it is not set") {
  CHECK(level_for(nullptr) == log_level::warning);
  CHECK(level_for("error") == log_level::error);
  CHECK(level_for("warning") == log_level::warning);
  CHECK(level_for("info") == log_level::info);
  CHECK(level_for("nonsense") == log_level::warning);  // settings refuse it
}

TEST_CASE("a sink gets the line with level and rank, without a newline") {
  logging here{log_level::info};
  hvdlite::log(log_level::error, 3, "broken");
  hvdlite::log(log_level::warning, 0, "odd");
  hvdlite::log(log_level::info, -1, "");
  const lines expected{{log_level::error, "[hvdlite error, rank 3] broken"},
                       {log_level::warning, "[hvdlite warning, rank 0] odd"},
                       {log_level::info, "[hvdlite info] "}};
  CHECK(here.got == expected);
}

TEST_CASE("what is below the level is not said") {
  const std::pair<log_level, std::size_t> levels[] = {
      {log_level::error, 1}, {log_level::warning, 2}, {log_level::info, 3}};
  for (const auto& [level, passing] : levels) {
    logging here{level};
    hvdlite::log(log_level::error, 0, "1");
    hvdlite::log(log_level::warning, 0, "2");
    hvdlite::log(log_level::info, 0, "3");
    CHECK(here.got.size() == passing);
  }
}

TEST_CASE("set_log_sink returns the previous sink; an empty one means stderr") {
  logging here{log_level::warning};
  auto mine = hvdlite::set_log_sink({});
  REQUIRE(mine);

  const std::string written = written_to_stderr([] {
    hvdlite::log(log_level::warning, 2, "to the terminal");
    hvdlite::log(log_level::info, 2, "unsaid");
  });
  CHECK(written == "[hvdlite warning, rank 2] to the terminal\n");
  CHECK(here.got.empty());

  CHECK(!hvdlite::set_log_sink(mine));
  hvdlite::log(log_level::warning, 2, "to the sink");
  CHECK(here.got.size() == 1);
}

TEST_CASE("threads log one at a time") {
  logging here{log_level::warning};  // the sink's vector is guarded by nothing else
  constexpr int threads = 4, each = 500;
  std::vector<std::thread> writers;
  for (int t = 0; t < threads; ++t)
    writers.emplace_back([t] {
      for (int i = 0; i < each; ++i) hvdlite::log(log_level::warning, t, std::to_string(i));
    });
  for (auto& writer : writers) writer.join();
  CHECK(here.got.size() == threads * each);
  std::vector<int> next(threads, 0);
  for (const auto& [level, line] : here.got) {
    const char digit = line.at(std::string_view{"[hvdlite warning, rank "}.size());
    const auto rank = static_cast<std::size_t>(digit - '0');
    REQUIRE(rank < next.size());
    CHECK(line ==
          "[hvdlite warning, rank " + std::to_string(rank) + "] " + std::to_string(next[rank]++));
  }
}
