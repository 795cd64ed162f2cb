// SPDX-License-Identifier: Apache-2.0
// What a user sets from outside: the HVDLITE_* environment variables, read once per communicator
// tree. A variable that is unknown or cannot be read is an error, since a misspelt deadline that is
// silently ignored is found when the job hangs.
#pragma once

#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <system_error>

#include <hvdlite/core/clock.hpp>
#include <hvdlite/core/element.hpp>
#include <hvdlite/core/error.hpp>
#include <hvdlite/core/text.hpp>

namespace hvdlite {

/// Whether the ranks compare what they call before data moves. With `off` a wrong program hangs or
/// mixes tensors up, and no deadline is kept.
enum class check_level { on, off };

/// Settings of a communicator; those of its parent unless said otherwise.
struct settings {
  check_level checks = check_level::on;  ///< HVDLITE_CHECKS=on|off
  double stall_warning = 60;             ///< HVDLITE_STALL_WARNING, seconds; 0: none
  double timeout = 1800;                 ///< HVDLITE_TIMEOUT, seconds; 0: none
  /// HVDLITE_CHUNK_BYTES: no message or staging chunk is larger. At 512 KiB what a message costs
  /// hardly counts, and two chunks stay in a second-level cache; tests lower it to a few bytes.
  std::size_t chunk_bytes = std::size_t{512} << 10;

  /// Reads every HVDLITE_* variable. Throws usage_error naming one that is unknown or malformed.
  static settings from_environment();
};

namespace detail {

/// What is wrong with a variable's value, in words; null if nothing is, and `result` has it.
HVDLITE_COLD inline const char* parse_setting(std::string_view name, std::string_view value,
                                              settings& result) {
  if (name == "HVDLITE_CHECKS") {
    result.checks = value == "on" ? check_level::on : check_level::off;
    return value == "on" || value == "off" ? nullptr : ": expected on or off";
  }
  if (name == "HVDLITE_LOG_LEVEL")  // read by trace/log
    return value == "error" || value == "warning" || value == "info"
               ? nullptr
               : ": expected error, warning or info";
  double number = 0;
  const char* const end = value.data() + value.size();
  const auto parsed = std::from_chars(value.data(), end, number);
  const bool valid =
      parsed.ec == std::errc{} && parsed.ptr == end && number >= 0 && is_finite(number);
  if (name == "HVDLITE_CHUNK_BYTES") {
    if (!valid || number < 1 || number > (1 << 30) || number != std::floor(number))
      return ": expected 1 to 1073741824 bytes";
    result.chunk_bytes = static_cast<std::size_t>(number);
    return nullptr;
  }
  if (name != "HVDLITE_STALL_WARNING" && name != "HVDLITE_TIMEOUT")
    return " is not one that hvdlite knows: HVDLITE_CHECKS, HVDLITE_CHUNK_BYTES, "
           "HVDLITE_LOG_LEVEL, HVDLITE_STALL_WARNING, HVDLITE_TIMEOUT";
  if (!valid) return ": expected a number of seconds that is not negative";
  (name == "HVDLITE_TIMEOUT" ? result.timeout : result.stall_warning) = number;
  return nullptr;
}

}  // namespace detail

HVDLITE_COLD inline settings settings::from_environment() {
  settings result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const char* const line = *entry;
    if (std::strncmp(line, "HVDLITE_", 8) != 0) continue;
    const char* const equals = std::strchr(line, '=');
    if (equals == nullptr) continue;
    const std::string_view name{line, static_cast<std::size_t>(equals - line)};
    if (const char* const wrong = detail::parse_setting(name, equals + 1, result))
      detail::fail<usage_error>(
          {"environment variable ", *wrong == ':' ? std::string_view{line} : name, wrong});
  }
  return result;
}

}  // namespace hvdlite
