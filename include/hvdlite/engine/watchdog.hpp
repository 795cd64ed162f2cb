// SPDX-License-Identifier: Apache-2.0
// What a rank that waits in a call looks at besides its messages: the clock, for the warning and
// the deadline, and the processes of the other ranks, since no message tells that one has died.
#pragma once

#include <cmath>

#include <hvdlite/comm/placement.hpp>
#include <hvdlite/core/clock.hpp>
#include <hvdlite/core/settings.hpp>
#include <hvdlite/core/text.hpp>
#include <hvdlite/engine/check.hpp>

namespace hvdlite {

/// Of one wait in one call. Costs nothing before the first look, from which it counts.
class watchdog {
 public:
  enum verdict { quiet, warn, expired };

  watchdog(const settings& set, const placement& where, checker& check)
      : settings_{set}, where_{where}, check_{check} {}

  /// To be called now and then: warnings at ever longer intervals, then the end. In between it
  /// tells the checker of processes that have ended.
  verdict look() {
    if (!started_) {
      start();
      return quiet;
    }
    const clock::nanoseconds waited = watch_.elapsed();
    if (limit_ != 0 && waited >= limit_) return expired;
    if (warning_ != 0 && waited >= warning_) {
      warning_ *= 4;
      return warn;
    }
    if (waited >= next_look_) {
      next_look_ = waited + between_looks;
      look_for_the_dead();
    }
    return quiet;
  }

  /// In seconds, to a tenth.
  HVDLITE_COLD double elapsed() const { return std::floor(to_seconds(watch_.elapsed()) * 10) / 10; }

  /// "; the process of rank 1 (4711) is stopped", or nothing.
  HVDLITE_COLD detail::text stopped() const {
    detail::text words;
    for (int r = 0; r < where_.size(); ++r) {
      if (r == where_.rank()) continue;
      const auto process = where_.start_up().look_at(r);
      if (process.state == detail::process_state::stopped)
        words.add({"; the process of rank ", r, " (", process.number, ") is stopped"});
    }
    return words;
  }

 private:
  HVDLITE_COLD void start() {
    started_ = true;
    warning_ = from_seconds(settings_.stall_warning);
    limit_ = from_seconds(settings_.timeout);
    watch_ = {};
  }

  HVDLITE_COLD void look_for_the_dead() {
    for (int r = 0; r < where_.size(); ++r) {
      if (r == where_.rank() || check_.has_departed(r)) continue;
      const auto process = where_.start_up().look_at(r);
      if (process.state == detail::process_state::ended) check_.has_ended(r, process.number);
    }
  }

  static constexpr clock::nanoseconds between_looks = 15'000'000;

  const settings& settings_;
  const placement& where_;
  checker& check_;
  clock::nanoseconds warning_ = 0;
  clock::nanoseconds limit_ = 0;
  clock::nanoseconds next_look_ = between_looks;
  bool started_ = false;
  stopwatch watch_{stopwatch::later};
};

}  // namespace hvdlite
