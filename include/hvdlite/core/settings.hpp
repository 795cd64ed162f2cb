// SPDX-License-Identifier: Apache-2.0
// What a user sets from outside: the HVDLITE_* environment variables, read once per communicator
// tree. A variable that is unknown or cannot be read is an error, since a misspelt deadline that is
// silently ignored is found when the job hangs.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>

#include <hvdlite/core/clock.hpp>
#include <hvdlite/core/error.hpp>
#include <hvdlite/core/text.hpp>

namespace hvdlite {

/// Whether the ranks compare what they call before data moves. With `off` a wrong program hangs or
/// mixes tensors up, and no deadline is kept.
enum class check_level { on, off };

/// Settings of a communicator; those of its parent unless said otherwise.
struct settings {
  check_level checks = check_level::on;                      ///< HVDLITE_CHECKS=on|off
  clock::duration stall_warning = std::chrono::seconds{60};  ///< HVDLITE_STALL_WARNING, seconds
  clock::duration timeout = std::chrono::minutes{30};   ///< HVDLITE_TIMEOUT, seconds; 0: none
  /// HVDLITE_CHUNK_BYTES: no message or staging chunk is larger. 256 KiB is where MPI's pipelines
  /// and the second-level caches are happy; tests lower it to a few bytes.
  std::size_t chunk_bytes = std::size_t{256} << 10;

  /// Reads every HVDLITE_* variable. Throws usage_error naming one that is unknown or malformed.
  static settings from_environment();
};

namespace detail {

HVDLITE_COLD inline double parse_number(std::string_view variable, std::string_view value_text) {
  double value = 0;
  const auto [end, failure] = std::from_chars(value_text.data(), value_text.data() + value_text.size(), value);
  if (failure != std::errc{} || end != value_text.data() + value_text.size() || !std::isfinite(value) ||
      value < 0)
    throw usage_error{detail::text({"environment variable ", variable, "='", value_text,
                                    "': expected a number that is not negative"})};
  return value;
}

HVDLITE_COLD inline clock::duration parse_seconds(std::string_view variable, std::string_view text) {
  // A century is for ever here, and fits into the clock's nanoseconds.
  const double seconds = (std::min)(parse_number(variable, text), 3.15e9);
  return std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>{seconds});
}

}  // namespace detail

HVDLITE_COLD inline settings settings::from_environment() {
  settings result;
  constexpr std::string_view prefix = "HVDLITE_";
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view line = *entry;
    if (!line.starts_with(prefix)) continue;
    const auto equals = line.find('=');
    const std::string_view name = line.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view{} : line.substr(equals + 1);
    if (name == "HVDLITE_STALL_WARNING") {
      result.stall_warning = detail::parse_seconds(name, value);
    } else if (name == "HVDLITE_TIMEOUT") {
      result.timeout = detail::parse_seconds(name, value);
    } else if (name == "HVDLITE_CHUNK_BYTES") {
      const double bytes = detail::parse_number(name, value);
      if (bytes < 1 || bytes > (1 << 30) || bytes != std::floor(bytes))
        throw usage_error{detail::text({"environment variable ", line,
                                        ": expected 1 to 1073741824 bytes"})};
      result.chunk_bytes = static_cast<std::size_t>(bytes);
    } else if (name == "HVDLITE_CHECKS") {
      if (value != "on" && value != "off")
        throw usage_error{detail::text({"environment variable ", line, ": expected on or off"})};
      result.checks = value == "on" ? check_level::on : check_level::off;
    } else if (name == "HVDLITE_LOG_LEVEL") {
      if (value != "error" && value != "warning" && value != "info")
        throw usage_error{detail::text({"environment variable ", line,
                                        ": expected error, warning or info"})};
    } else {
      throw usage_error{
          detail::text({"environment variable ", name,
                        " is not one that hvdlite knows: HVDLITE_CHECKS, HVDLITE_CHUNK_BYTES, "
                        "HVDLITE_LOG_LEVEL, HVDLITE_STALL_WARNING, HVDLITE_TIMEOUT"})};
    }
  }
  return result;
}

}  // namespace hvdlite
