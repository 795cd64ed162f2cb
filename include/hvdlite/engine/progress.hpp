// SPDX-License-Identifier: Apache-2.0
// One rank's end of a communicator: takes an operation through its check phase and its data phase,
// keeps the deadlines, turns what goes wrong into exceptions, and records what was done.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <hvdlite/comm/backend.hpp>
#include <hvdlite/core/clock.hpp>
#include <hvdlite/core/error.hpp>
#include <hvdlite/core/settings.hpp>
#include <hvdlite/core/text.hpp>
#include <hvdlite/engine/check.hpp>
#include <hvdlite/trace/event.hpp>
#include <hvdlite/trace/log.hpp>

namespace hvdlite {

/// See the file's head. Calls of several threads are taken one after the other.
class endpoint {
 public:
  /// `backends`: in order of preference, null where not usable; at least one is there unless the
  /// world is of one. `epoch`: a number that all ranks share and other communicators hardly have; it
  /// keeps messages apart that MPI might mix up when it uses a communicator's number again.
  HVDLITE_COLD endpoint(placement where, settings set, std::vector<std::unique_ptr<any_backend>> backends,
                        std::uint32_t epoch)
      : where_{std::move(where)},
        settings_{set},
        backends_{std::move(backends)},
        evaluate_{reduction_tree{where_.nodes()}},
        sequence_{std::uint64_t{epoch} << checker::sequence_bits} {
    for (const auto& b : backends_) names_.push_back(b ? b->name() : std::string_view{});
    if (where_.size() > 1) {
      for (const auto& b : backends_)
        if (b && control_ == nullptr) control_ = b.get();
      if (control_ == nullptr)
        throw usage_error{detail::text(
            {"no backend of this communicator can reach its ", where_.size(), " ranks"})};
      check_.emplace(*control_, where_.rank(), where_.size(), epoch);
    }
    terms_.resize(static_cast<std::size_t>(where_.size()));
    leaves_.resize(terms_.size());
  }

  endpoint(const endpoint&) = delete;
  endpoint& operator=(const endpoint&) = delete;

  /// Peers that wait for this rank on this communicator are told, where that is possible.
  ~endpoint() {
    if (std::uncaught_exceptions() > 0)
      close("it is unwinding from an exception", {});
    else if (control_ != nullptr)
      control_->drop(sequence_ + 1, "it has given up its handle of this communicator");
  }

  const placement& where() const { return where_; }
  const settings& configuration() const { return settings_; }
  /// The name of the backend, also when the communicator has ended; empty if it is not usable here.
  std::string_view backend_name(std::size_t which) const { return names_[which]; }
  std::vector<event> recent() const { return events_.recent(); }

  /// Runs `op` on backend `which` and returns when this rank's part is done: true, or false if all
  /// ranks gave weight 0, and nothing was written. Collective, blocking.
  /// Throws mismatch_error, timeout_error, peer_lost_error; usage_error if the communicator has
  /// ended or the thread may not use it.
  bool run(const operation& op, std::size_t which) {
    if (caller_.load(std::memory_order_relaxed) == std::this_thread::get_id()) fail_reentrant(op);
    const std::lock_guard lock{mutex_};
    const caller_mark mark{caller_};
    if (!closed_.empty() || !broken_.empty()) fail_unusable(op);
    if (control_ != nullptr) enter(op);
    ++sequence_;
    event& record = events_.begin(verb_name(op.verb), op.name, op.type, op.count, sequence_ % (std::uint64_t{1} << checker::sequence_bits));
    bool written = false;
    try {
      if (!op.refused.empty()) refuse(op);
      written = where_.size() == 1 ? run_alone(op) : run_together(op, backends_[which].get());
    } catch (...) {
      event_ring::end(record, event_state::failed);
      if (check_) check_->end();  // also when a function of the user's threw
      where_.start_up().leaves_messages();
      throw;
    }
    event_ring::end(record, event_state::done);
    return written;
  }

  /// This rank takes part in nothing any more; its peers are told `why`, later calls here throw a
  /// usage_error saying `later`. Does not block.
  HVDLITE_COLD void close(std::string_view why, std::string_view later) noexcept {
    const std::lock_guard lock{mutex_};
    if (!closed_.empty()) return;
    closed_ = later;
    if (control_ != nullptr) {
      control_->abort(sequence_ + 1, why);
      where_.start_up().leave(detail::text({prefix({}), why}));
    }
    check_.reset();
    control_ = nullptr;
    backends_.clear();
  }

  /// "allreduce 'fc1.weight' (f32 x 4096, rank 2 of 8): "
  HVDLITE_COLD std::string prefix(const operation& op) const {
    const std::string name = op.name.empty() ? "" : detail::text({" '", op.name, "'"});
    const std::string elements =
        op.type == dtype::none ? "" : detail::text({dtype_name(op.type), " x ", op.count, ", "});
    return detail::text({verb_name(op.verb), name, " (", elements, "rank ", where_.rank(), " of ",
                         where_.size(), "): "});
  }

 private:
  /// Scales apply, everything else is the identity.
  bool run_alone(const operation& op) {
    if (!op.reduces()) return true;
    if (op.weighted && op.weight == 0) return false;
    if (op.prescale == 1 && op.postscale == 1) {
      if (op.in != op.out && op.count != 0) std::memmove(op.out, op.in, op.bytes());
      return true;
    }
    leaves_[0] = {op.in, op.prescale};
    evaluate_(*op.kernels, op.op_context, leaves_, op.out, op.count, {1, op.postscale});
    return true;
  }

  /// The call is wrong on this rank alone, or on all: it is consumed, and nobody waits for it.
  [[noreturn]] HVDLITE_COLD void refuse(const operation& op) {
    if (check_ && settings_.checks == check_level::on) {
      check_->begin(op, sequence_);
      backoff wait{where_.local_size()};
      alarm limits{settings_, clock::now()};
      while (!check_->refuse() && limits.look() != alarm::expired) wait.pause();
    }
    throw usage_error{detail::text({prefix(op), op.refused})};
  }

  /// The thread that is in a call, to tell a call from within it (by the function of a user_op).
  struct caller_mark {
    explicit caller_mark(std::atomic<std::thread::id>& caller) : caller_{caller} {
      caller_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    }
    caller_mark(const caller_mark&) = delete;
    caller_mark& operator=(const caller_mark&) = delete;
    ~caller_mark() { caller_.store({}, std::memory_order_relaxed); }
    std::atomic<std::thread::id>& caller_;
  };

  [[noreturn]] HVDLITE_COLD void fail_reentrant(const operation& op) const {
    throw usage_error{detail::text(
        {prefix(op), "called from within another call on this communicator, by the function of a "
                     "user_op; a collective cannot be part of one"})};
  }

  [[noreturn]] HVDLITE_COLD void fail_unusable(const operation& op) const {
    if (!closed_.empty()) throw usage_error{detail::text({prefix(op), closed_})};
    throw peer_lost_error{detail::text({prefix(op), broken_})};
  }

  void enter(const operation& op) const try {
    control_->enter();
  } catch (const usage_error& e) {
    throw usage_error{detail::text({prefix(op), e.what()})};
  }

  bool run_together(const operation& op, any_backend* data) {
    const bool checks = settings_.checks == check_level::on;
    // Without checks, announcements still carry what only they can: weights, and a meeting.
    const bool announces =
        checks || op.weighted || !(op.reduces() || op.verb == verb::broadcast);
    if (announces) agree(op);
    bool written = true;
    if (op.reduces() || op.verb == verb::broadcast) {
      reduction_terms terms{terms_, {}};
      if (op.reduces()) written = weigh(op, terms.root);
      if (written && announces && checker::rides_along(op))
        take_payloads(op, terms);
      else if (written)
        move(op, terms, *data, checks);
    }
    check_->end();
    return written;
  }

  void agree(const operation& op) {
    check_->begin(op, sequence_);
    backoff wait{where_.local_size()};
    alarm limits{settings_, clock::now()};
    while (true) {
      switch (check_->poll()) {
        case state::moving:
          return;
        case state::disagree:
          fail_disagree(op);
        case state::lost:
          fail_lost(op, "before all ranks had entered the call");
        default:
          break;
      }
      wait.pause();
      if (!wait.time_to_look()) continue;
      const auto verdict = limits.look();
      if (verdict == alarm::quiet) continue;
      tell_waiting(op, verdict, limits);
    }
  }

  [[noreturn]] HVDLITE_COLD void fail_disagree(const operation& op) {
    throw mismatch_error{detail::text({prefix(op), "the ranks do not make the same call: ",
                                       check_->disagreement(),
                                       "; make the call the same on every rank"})};
  }

  /// Every rank's factor and the divisor, from the announcements. False if all weights are zero.
  bool weigh(const operation& op, root_scale& root) {
    root = {1, op.postscale};
    if (!op.weighted) {
      std::fill(terms_.begin(), terms_.end(), reduction_terms::term{op.prescale, true});
      if (op.averages) root.divisor = where_.size();
      return true;
    }
    // Products and sums with large weights would leave the range of float; a power of two brings all
    // weights below 2, and leaves the result's bits alone.
    double most = 0;
    for (int r = 0; r < where_.size(); ++r) most = (std::max)(most, check_->weight_of(r));
    const bool whole = op.type <= dtype::u64;  // integers are weighted by the numbers themselves
    const int shift = whole || most == 0 ? 0 : -std::ilogb(most);
    double total = 0, first = 0;
    int present = 0;
    bool equal = true;
    for (int r = 0; r < where_.size(); ++r) {
      const double weight = std::ldexp(check_->weight_of(r), shift);
      terms_[static_cast<std::size_t>(r)] = {op.prescale * weight, weight != 0};
      if (weight == 0) continue;
      if (present++ == 0) first = weight;
      equal = equal && weight == first;
      total += weight;
    }
    if (present == 0) {
      tell_all_zero(op);
      return false;
    }
    root.divisor = total;
    if (equal) {  // a plain average of those present: the same bits as without weights
      for (auto& term : terms_) term.factor = op.prescale;
      root.divisor = present;
    }
    return true;
  }

  HVDLITE_COLD void tell_all_zero(const operation& op) {
    if (!std::exchange(told_all_zero_, true) && where_.rank() == 0)
      log(log_level::warning, where_.rank(),
          detail::text({prefix(op), "every rank gave 0 samples; the tensors stay as they are"}));
  }

  void take_payloads(const operation& op, const reduction_terms& terms) {
    if (op.verb == verb::broadcast) {
      if (where_.rank() != op.root && op.count != 0)
        std::memcpy(op.out, check_->announcement_of(op.root).payload.data(), op.bytes());
      return;
    }
    for (int r = 0; r < where_.size(); ++r) {
      const auto& term = terms.ranks[static_cast<std::size_t>(r)];
      leaves_[static_cast<std::size_t>(r)] = {
          term.present ? check_->announcement_of(r).payload.data() : nullptr, term.factor};
    }
    evaluate_(*op.kernels, op.op_context, leaves_, op.out, op.count, terms.root);
  }

  void move(const operation& op, const reduction_terms& terms, any_backend& data, bool checks) {
    request in_flight;
    try {
      in_flight = data.start(op, terms);
      backoff wait{where_.local_size()};
      alarm limits{settings_, clock::now()};
      while (true) {
        const state now = data.progress(in_flight);
        if (now == state::done) return;
        if (now == state::lost) {
          if (checks) check_->watch();
          fail_lost(op, "while data was moving");
        }
        wait.pause();
        if (!checks || !wait.time_to_look()) continue;
        if (check_->watch() == state::lost) fail_lost(op, "while data was moving");
        const auto verdict = limits.look();
        if (verdict == alarm::quiet) continue;
        tell_moving(op, verdict, limits);
      }
    } catch (const std::exception& e) {
      give_up(data, in_flight, e.what());
      throw;
    } catch (...) {  // of a user_op's function
      give_up(data, in_flight, "an exception that is no std::exception");
      throw;
    }
  }

  /// Data may have moved on some ranks and not on others: there is no way back for the communicator.
  HVDLITE_COLD void give_up(any_backend& data, request& in_flight, std::string_view why) {
    data.withdraw(in_flight);
    lose(why);
    control_->abort(sequence_, broken_);
  }

  HVDLITE_COLD void lose(std::string_view how) {
    if (broken_.empty())
      broken_ = detail::text({"the communicator was lost in an earlier call: ", how});
  }

  [[noreturn]] HVDLITE_COLD void fail_lost(const operation& op, const char* when) {
    const int quitter = check_->abandoned_by();
    const int gone = check_->lost_rank();
    if (quitter >= 0)
      throw timeout_error{detail::text(
          {prefix(op), "rank ", quitter,
           " gave up on this call after its deadline; see that every rank makes it in time, or "
           "raise HVDLITE_TIMEOUT"})};
    const std::string words =
        gone >= 0 ? detail::text({prefix(op), "rank ", gone, " is lost: ", check_->reason_of(gone),
                                  " (", when, ")"})
                  : detail::text({prefix(op), "a rank left (", when, ")"});
    lose(words);
    throw peer_lost_error{words};
  }

  /// The two deadlines of a call: warnings at ever longer intervals, then the end.
  class alarm {
   public:
    enum verdict { quiet, warn, expired };
    alarm(const settings& set, clock::time_point start)
        : start_{start},
          interval_{set.stall_warning},
          end_{set.timeout == clock::duration::zero() ? (clock::time_point::max)()
                                                      : deadline_after(start, set.timeout)} {}

    verdict look() {
      const auto now = clock::now();
      if (now >= end_) return expired;
      if (interval_ == clock::duration::zero() || now < deadline_after(start_, interval_))
        return quiet;
      interval_ *= 4;
      return warn;
    }

    /// In seconds, to a tenth.
    double elapsed() const {
      const auto tenths = (clock::now() - start_) / std::chrono::milliseconds{100};
      return static_cast<double>(tenths) / 10;
    }

   private:
    clock::time_point start_;
    clock::duration interval_;
    clock::time_point end_;
  };

  /// Logs a warning, or throws once the deadline is over.
  HVDLITE_COLD void tell_waiting(const operation& op, alarm::verdict verdict,
                                 const alarm& limits) {
    const auto missing = check_->missing();
    const std::string words = detail::text(
        {prefix(op), "waited ", limits.elapsed(), " s for ",
         missing.empty()       ? "an answer of the ranks that are in the call"
         : missing.size() == 1 ? "rank "
                               : "ranks ",
         detail::ranks_text(missing)});
    if (verdict == alarm::warn)
      return log(log_level::warning, where_.rank(), detail::text({words, " to enter the call"}));
    check_->abandon();
    throw timeout_error{detail::text(
        {words, "; see that every rank makes this call, or raise HVDLITE_TIMEOUT"})};
  }

  HVDLITE_COLD void tell_moving(const operation& op, alarm::verdict verdict, const alarm& limits) {
    const std::string words =
        detail::text({prefix(op), "data has been moving for ", limits.elapsed(),
                      " s, and a rank has stopped to take part in it"});
    if (verdict == alarm::warn) return log(log_level::warning, where_.rank(), words);
    check_->abandon();
    throw timeout_error{detail::text({words, "; the tensor's contents are undefined"})};
  }

  placement where_;
  settings settings_;
  std::vector<std::unique_ptr<any_backend>> backends_;  // none once closed
  std::vector<std::string_view> names_;                 // of those that were usable
  any_backend* control_ = nullptr;  // carries the checks: the first usable backend
  std::optional<checker> check_;
  tree_evaluator evaluate_;
  std::vector<reduction_terms::term> terms_;
  std::vector<leaf> leaves_;
  event_ring events_;
  std::mutex mutex_;
  std::atomic<std::thread::id> caller_{};
  std::uint64_t sequence_;  // of the last call; the epoch is in its upper half
  std::string closed_;  // why no call is possible: the Environment has ended
  std::string broken_;  // why no call is possible: a rank is lost
  bool told_all_zero_ = false;
};

}  // namespace hvdlite
