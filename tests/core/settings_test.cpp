// SPDX-License-Identifier: Apache-2.0
// Every HVDLITE_* variable: its default, its values, and the refusal of what is malformed or
// unknown, by name.
#include <doctest/doctest.h>

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hvdlite/core/settings.hpp>

using hvdlite::check_level;
using hvdlite::settings;

namespace {

// The process's environment with these HVDLITE_ variables and no others, until the end of scope.
class only {
 public:
  explicit only(std::vector<std::pair<std::string, std::string>> variables) {
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string line = *entry;
      if (line.starts_with("HVDLITE_"))
        before_.emplace_back(line.substr(0, line.find('=')), line.substr(line.find('=') + 1));
    }
    for (const auto& [name, value] : before_) unsetenv(name.c_str());
    for (const auto& [name, value] : variables) {
      setenv(name.c_str(), value.c_str(), 1);
      set_.push_back(name);
    }
  }
  only(const only&) = delete;
  only& operator=(const only&) = delete;
  ~only() {
    for (const auto& name : set_) unsetenv(name.c_str());
    for (const auto& [name, value] : before_) setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  std::vector<std::pair<std::string, std::string>> before_;
  std::vector<std::string> set_;
};

settings with(const std::string& name, const std::string& value) {
  const only environment{{{name, value}}};
  return settings::from_environment();
}

std::string refusal_of(const std::string& name, const std::string& value) {
  try {
    with(name, value);
  } catch (const hvdlite::usage_error& e) {
    return e.what();
  }
  return "accepted";
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

TEST_CASE("defaults: checks on, warning after a minute, error after half an hour") {
  const only nothing{{}};
  for (const settings& s : {settings{}, settings::from_environment()}) {
    CHECK(s.checks == check_level::on);
    CHECK(s.stall_warning == 60);
    CHECK(s.timeout == 1800);
    CHECK(s.chunk_bytes == 512 * 1024);
  }
}

TEST_CASE("each variable sets its own value and no other") {
  CHECK(with("HVDLITE_CHECKS", "off").checks == check_level::off);
  CHECK(with("HVDLITE_CHECKS", "on").checks == check_level::on);
  CHECK(with("HVDLITE_STALL_WARNING", "5").stall_warning == 5);
  CHECK(with("HVDLITE_STALL_WARNING", "5").timeout == 1800);
  CHECK(with("HVDLITE_TIMEOUT", "7").timeout == 7);
  CHECK(with("HVDLITE_TIMEOUT", "7").stall_warning == 60);
  CHECK(with("HVDLITE_CHUNK_BYTES", "4096").chunk_bytes == 4096);
  CHECK(with("HVDLITE_CHUNK_BYTES", "1").chunk_bytes == 1);
  CHECK(with("HVDLITE_CHUNK_BYTES", "1073741824").chunk_bytes == std::size_t{1} << 30);
  for (const char* level : {"error", "warning", "info"})
    CHECK(with("HVDLITE_LOG_LEVEL", level).timeout == 1800);

  const only all{{{"HVDLITE_CHECKS", "off"},
                  {"HVDLITE_STALL_WARNING", "1"},
                  {"HVDLITE_TIMEOUT", "2"},
                  {"HVDLITE_CHUNK_BYTES", "3"},
                  {"HVDLITE_LOG_LEVEL", "info"}}};
  const settings s = settings::from_environment();
  CHECK(s.checks == check_level::off);
  CHECK(s.stall_warning == 1);
  CHECK(s.timeout == 2);
  CHECK(s.chunk_bytes == 3);
}

TEST_CASE("seconds may be fractions, zero, and longer than anybody waits") {
  CHECK(with("HVDLITE_TIMEOUT", "0").timeout == 0);
  CHECK(with("HVDLITE_TIMEOUT", "0.25").timeout == 0.25);
  CHECK(with("HVDLITE_TIMEOUT", ".5").timeout == 0.5);
  CHECK(with("HVDLITE_TIMEOUT", "1e2").timeout == 100);
  CHECK(with("HVDLITE_TIMEOUT", "1e-9").timeout == 1e-9);
  CHECK(with("HVDLITE_STALL_WARNING", "1e300").stall_warning == 1e300);
}

TEST_CASE("what cannot be read is refused with variable and value") {
  const std::vector<std::string> no_numbers{"",    " ",     "x",   "1x",   "1 ",    " 1",   "+1",
                                            "-1",  "-1e-9", "nan", "-nan", "inf",   "-inf", "1e999",
                                            "1,5", "0x10",  "1e",  "--1",  "1.2.3", "1s",   "\n1"};
  for (const char* name : {"HVDLITE_STALL_WARNING", "HVDLITE_TIMEOUT", "HVDLITE_CHUNK_BYTES"})
    for (const std::string& value : no_numbers) {
      CAPTURE(name);
      CAPTURE(value);
      const std::string text = refusal_of(name, value);
      CHECK(contains(text, std::string{name} + "="));
      CHECK(contains(text, value));
      CHECK(contains(text, "expected"));
    }
  for (const char* value : {"", "On", "ON", "1", "true", "off ", "warn"}) {
    CAPTURE(value);
    CHECK(contains(refusal_of("HVDLITE_CHECKS", value), std::string{"HVDLITE_CHECKS="} + value));
    CHECK(contains(refusal_of("HVDLITE_CHECKS", value), "on or off"));
    CHECK(contains(refusal_of("HVDLITE_LOG_LEVEL", value),
                   std::string{"HVDLITE_LOG_LEVEL="} + value));
    CHECK(contains(refusal_of("HVDLITE_LOG_LEVEL", value), "error, warning or info"));
  }
  for (const char* value : {"0", "0.5", "1073741825", "1e18"}) {
    CAPTURE(value);
    CHECK(contains(refusal_of("HVDLITE_CHUNK_BYTES", value), "1 to 1073741824"));
  }
}

TEST_CASE("an unknown variable is refused by name, with those that there are") {
  for (const char* name : {"HVDLITE_TIMEOUTS", "HVDLITE_TIME_OUT", "HVDLITE_", "HVDLITE_timeout",
                           "HVDLITE_TIMEOUT_"}) {
    CAPTURE(name);
    const std::string text = refusal_of(name, "5");
    CHECK(contains(text, std::string{name} + " is not one"));
    for (const char* known : {"HVDLITE_CHECKS", "HVDLITE_CHUNK_BYTES", "HVDLITE_LOG_LEVEL",
                              "HVDLITE_STALL_WARNING", "HVDLITE_TIMEOUT"})
      CHECK(contains(text, known));
  }
  // Not ours: somebody else's, or one that only looks alike.
  CHECK(with("XHVDLITE_TIMEOUT", "nonsense").timeout == 1800);
  CHECK(with("HVDLITE", "nonsense").timeout == 1800);
  CHECK(with("HVDLITEX", "nonsense").timeout == 1800);
}
