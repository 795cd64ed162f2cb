// SPDX-License-Identifier: Apache-2.0
// Where the library says what is not an error: one line to stderr, or to a sink of the host
// program's. HVDLITE_LOG_LEVEL=error|warning|info decides what is said; warning if not set.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <utility>

#include <hvdlite/core/call_lock.hpp>
#include <hvdlite/core/config.hpp>
#include <hvdlite/core/text.hpp>

namespace hvdlite {

enum class log_level { error, warning, info };

/// Receives what passes the level; may be called from any thread, one call at a time.
using log_sink = std::function<void(log_level, std::string_view line)>;

namespace detail {

struct log_state {
  call_lock lock;
  log_sink sink;
  log_level level = log_level::warning;

  log_state() {
    const char* wanted = std::getenv("HVDLITE_LOG_LEVEL");
    if (wanted == nullptr) return;
    if (std::string_view{wanted} == "error") level = log_level::error;
    if (std::string_view{wanted} == "info") level = log_level::info;
  }
};

/// Never destroyed: static objects log when they go.
HVDLITE_EXPORT inline log_state& the_log() {
  static log_state& state = *new log_state;
  return state;
}

}  // namespace detail

/// Sends log lines to `sink` instead of stderr; an empty sink means stderr again. Returns the
/// previous sink.
inline log_sink set_log_sink(log_sink sink) {
  auto& state = detail::the_log();
  const detail::call_lock::guard lock{state.lock};
  return std::exchange(state.sink, std::move(sink));
}

/// Writes one line, e.g. `[hvdlite warning, rank 2] ...`; a negative rank is left out.
HVDLITE_COLD inline void log(log_level level, int rank, std::string_view words) {
  auto& state = detail::the_log();
  if (level > state.level) return;
  const char* kind = level == log_level::error     ? "error"
                     : level == log_level::warning ? "warning"
                                                   : "info";
  detail::text line({"[hvdlite ", kind});
  if (rank >= 0) {
    line += ", rank ";
    line += rank;
  }
  line += "] ";
  line += words;
  const detail::call_lock::guard lock{state.lock};
  if (state.sink) {
    state.sink(level, line);
  } else {
    line += "\n";
    std::fputs(line.c_str(), stderr);  // in one piece: other ranks write to the same terminal
  }
}

}  // namespace hvdlite
