// SPDX-License-Identifier: Apache-2.0
// One rank's end of a communicator: takes an operation through its check phase and its data phase,
// keeps the deadlines, turns what goes wrong into exceptions, and records what was done.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include <hvdlite/comm/backend.hpp>
#include <hvdlite/core/call_lock.hpp>
#include <hvdlite/core/clock.hpp>
#include <hvdlite/core/error.hpp>
#include <hvdlite/core/fork.hpp>
#include <hvdlite/core/list.hpp>
#include <hvdlite/core/settings.hpp>
#include <hvdlite/core/text.hpp>
#include <hvdlite/engine/check.hpp>
#include <hvdlite/engine/lifetime.hpp>
#include <hvdlite/engine/watchdog.hpp>
#include <hvdlite/engine/weights.hpp>
#include <hvdlite/trace/event.hpp>
#include <hvdlite/trace/log.hpp>

namespace hvdlite {

/// See the file's head. Calls of several threads are taken one after the other.
class endpoint final : public lifetime::member {
 public:
  /// `backends`: in order of preference, one at least is usable unless the world is of one.
  /// `epoch`: a number that all ranks share and other communicators hardly have; it keeps messages
  /// apart that MPI might mix up when it uses a communicator's number again.
  HVDLITE_COLD endpoint(placement where, settings set, backend_list backends, std::uint32_t epoch,
                        std::shared_ptr<lifetime> life)
      : where_{std::move(where)},
        settings_{set},
        backends_{std::move(backends)},
        control_{backends_.first()},
        check_{control_, where_.rank(), where_.size(), epoch},
        evaluate_{reduction_tree{where_.nodes().data(), where_.size()}},
        terms_{static_cast<std::size_t>(where_.size())},
        leaves_{static_cast<std::size_t>(where_.size())},
        sequence_{std::uint64_t{epoch} << checker::sequence_bits},
        life_{std::move(life)} {
    if (control_ == nullptr && where_.size() > 1)
      detail::fail<usage_error>(
          {"no backend of this communicator can reach its ", where_.size(), " ranks"});
    life_->add(this);
  }

  endpoint(const endpoint&) = delete;
  endpoint& operator=(const endpoint&) = delete;

  /// Peers that wait for this rank on this communicator are told, where that is possible.
  HVDLITE_COLD ~endpoint() {
    if (home_.left()) return;  // and another thread of the parent's may hold the lock
    life_->remove(this);
    if (std::uncaught_exceptions() > 0)
      close("it is unwinding from an exception", {});
    else if (control_ != nullptr)
      control_->drop(sequence_ + 1, "it has given up its handle of this communicator");
  }

  const placement& where() const { return where_; }
  const settings& configuration() const { return settings_; }
  /// The name of the backend, also when the communicator has ended; empty if it is not usable here.
  std::string_view backend_name(std::size_t which) const { return backends_[which].name; }
  const event_ring& events() const { return events_; }
  const std::shared_ptr<lifetime>& life() const { return life_; }
  /// 1, 2, ...: numbers what lives on the communicator, alike on ranks that make it in one order.
  std::size_t next_ordinal() { return next_ordinal_.fetch_add(1, std::memory_order_relaxed) + 1; }

  /// Runs `op` on backend `which` and returns when this rank's part is done. Collective, blocking.
  /// Throws mismatch_error, timeout_error, peer_lost_error; usage_error if the communicator has
  /// ended or the thread may not use it.
  HVDLITE_LEAN outcome run(const operation& op, std::size_t which) {
    if (home_.left() && where_.size() > 1) fail_forked(op);
    if (lock_.held_by_this_thread()) fail_reentrant(op);
    const detail::call_lock::guard lock{lock_};
    if (!closed_.empty() || !broken_.empty()) fail_unusable(op);
    if (control_ != nullptr) enter(op);
    ++sequence_;
    event& record = events_.begin(verb_name(op.verb), op.name, op.type, op.count,
                                  sequence_ % (std::uint64_t{1} << checker::sequence_bits), now());
    outcome result;
    try {
      if (!op.refused.empty()) refuse(op);
      result = where_.size() == 1 ? run_alone(op) : run_together(op, backends_[which].backend);
    } catch (...) {
      fail_call(op, record);
    }
    event_ring::end(record, event_state::done, now());
    if (missed_) meet_again();
    return result;
  }

  /// This rank takes part in nothing any more; its peers are told `why`, later calls here throw a
  /// usage_error saying `later`, and so does one in which another thread waits. Does not block for
  /// longer than such a call needs to notice.
  HVDLITE_COLD void close(std::string_view why, std::string_view later) noexcept override {
    // Held by this thread: it has told the end, and the process exits.
    if (home_.left() || lock_.held_by_this_thread()) return;
    closing_.store(true, std::memory_order_relaxed);
    const detail::call_lock::guard lock{lock_};
    if (!closed_.empty()) return;
    closed_ = detail::text({later});
    if (control_ != nullptr) {
      control_->abort(cut_short_ ? sequence_ : sequence_ + 1, why);
      where_.start_up().leave(detail::text({prefix({}), why}));
    }
    control_ = nullptr;
    backends_.clear();
  }

  /// Tells the peers `why`, from within a call or from outside: for a process that is about to end,
  /// since no other thread gets into a call afterwards.
  HVDLITE_COLD void tell_the_end(std::string_view why) noexcept override {
    if (home_.left()) return;
    const bool inside = lock_.held_by_this_thread();
    if (!inside && !lock_.lock_soon()) return;
    if (control_ == nullptr) return;
    control_->abort(inside ? sequence_ : sequence_ + 1, why);
  }

  /// What sentences about a call begin with.
  HVDLITE_COLD detail::text prefix(const operation& op) const {
    return detail::call_text(verb_name(op.verb), op.name, op.type, op.count, where_.rank(),
                             where_.size());
  }

 private:
  HVDLITE_COLD detail::text sentence(const operation& op,
                                     std::initializer_list<detail::piece> pieces) const {
    detail::text words = prefix(op);
    words.add(pieces);
    return words;
  }

  clock::nanoseconds now() const { return settings_.checks == check_level::on ? clock::now() : 0; }

  /// Ends a call with the exception that is being handled, or one that says more.
  [[noreturn]] HVDLITE_COLD void fail_call(const operation& op, event& record) {
    event_ring::end(record, event_state::failed, now());
    check_.end();
    where_.start_up().leaves_messages();
    try {
      throw;
    } catch (const usage_error&) {  // of this rank's making: it knows where
      throw;
    } catch (const transport_error& e) {
      leave_call(e.what());
      write_events();
      fail<transport_error>(op, {e.what(), "; the communicator is of no further use"});
    } catch (const std::bad_alloc&) {
      leave_call("it ran out of memory");
      throw;
    } catch (const error&) {
      write_events();
      throw;
    }  // else: of a function of the user's
  }

  /// Into the log: what this rank did last here, as far as it has not been written yet, and how far
  /// it knows the others to have come. Each rank that fails writes its own; together they show
  /// where the ranks parted.
  HVDLITE_COLD void write_events() {
    const clock::nanoseconds written = now();
    while (const event* const e = events_.take_next(8))
      log(log_level::warning, where_.rank(),
          detail::event_text(*e, where_.rank(), where_.size(), written));
    detail::text heard;
    for (int r = 0; r < where_.size() && r < 64; ++r)
      if (r != where_.rank())
        heard.add({heard.empty() ? "trace: last heard of " : ", ", "rank ", r, " in call ",
                   check_.last_heard_of(r)});
    log(log_level::warning, where_.rank(), heard);
  }

  template <class Error>
  [[noreturn]] HVDLITE_COLD void fail(const operation& op,
                                      std::initializer_list<detail::piece> why) const {
    throw Error{sentence(op, why)};
  }

  HVDLITE_COLD void log_warning(const operation& op,
                                std::initializer_list<detail::piece> what) const {
    log(log_level::warning, where_.rank(), sentence(op, what));
  }

  /// Scales apply, everything else is the identity.
  outcome run_alone(const operation& op) {
    if (!op.reduces()) return {true, op.notes};
    if (op.weighted && op.weight == 0) return {false, op.notes};
    if (op.prescale == 1 && op.postscale == 1) {
      if (op.in != op.out && op.count != 0) std::memmove(op.out, op.in, op.bytes());
    } else {
      leaves_[0] = {op.in, op.prescale};
      evaluate_(*op.kernels, op.op_context, leaves_.data(), op.out, op.count, {1, op.postscale});
    }
    return {true, op.notes};
  }

  /// The call is wrong on this rank alone, or on all: it is consumed, and nobody waits for it.
  [[noreturn]] HVDLITE_COLD void refuse(const operation& op) {
    if (control_ != nullptr && settings_.checks == check_level::on) {
      check_.begin(op, sequence_);
      backoff wait{spins_};
      watchdog dog{settings_, where_, check_};
      while (!check_.refuse() && dog.look() != watchdog::expired) {
        expect_open(op);
        wait.pause();
      }
    }
    fail<usage_error>(op, {op.refused});
  }

  [[noreturn]] HVDLITE_COLD void fail_reentrant(const operation& op) const {
    fail<usage_error>(op,
                      {"called from within another call on this communicator, by the function of a "
                       "user_op; a collective cannot be part of one"});
  }

  [[noreturn]] HVDLITE_COLD void fail_forked(const operation& op) const {
    fail<usage_error>(op, {"called in a process that was forked from the one that made this "
                           "communicator; only the parent is a rank of it"});
  }

  [[noreturn]] HVDLITE_COLD void fail_unusable(const operation& op) const {
    if (!closed_.empty()) fail<usage_error>(op, {closed_});
    fail<peer_lost_error>(op, {broken_});
  }

  /// For the loops of a call: another thread waits in `close`.
  void expect_open(const operation& op) {
    if (closing_.load(std::memory_order_relaxed)) fail_cut_short(op);
  }

  [[noreturn]] HVDLITE_COLD void fail_cut_short(const operation& op) {
    cut_short_ = true;
    fail<usage_error>(op, {"the communicator was ended by another thread during the call; end it "
                           "when all calls have returned"});
  }

  void enter(const operation& op) const try { control_->enter(); } catch (const usage_error& e) {
    fail<usage_error>(op, {e.what()});
  }

  HVDLITE_LEAN outcome run_together(const operation& op, any_backend* data) {
    const bool checks = settings_.checks == check_level::on;
    // Without checks, announcements still carry what only they can: weights, and a meeting.
    const bool announces = checks || op.weighted || !(op.reduces() || op.verb == verb::broadcast);
    if (announces) agree(op);
    outcome result{true, announces ? check_.notes() : op.notes};
    if (op.reduces() || op.verb == verb::broadcast) {
      reduction_terms terms{terms_.data(), {}};
      if (op.reduces()) {
        for (int r = 0; op.weighted && r < where_.size(); ++r)
          terms_[static_cast<std::size_t>(r)].factor = check_.weight_of(r);
        result.written = weigh(op, where_.rank(), terms_, terms.root);
        if (!result.written) tell_all_zero(op);
      }
      if (result.written && announces && checker::rides_along(op))
        take_payloads(op, terms);
      else if (result.written)
        move(op, terms, *data, checks);
    }
    check_.end();
    return result;
  }

  HVDLITE_LEAN void agree(const operation& op) {
    check_.begin(op, sequence_);
    backoff wait{spins_};
    watchdog dog{settings_, where_, check_};
    while (true) {
      switch (check_.poll()) {
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
      expect_open(op);
      const auto verdict = dog.look();
      if (verdict != watchdog::quiet) tell_waiting(op, verdict, dog);
    }
  }

  [[noreturn]] HVDLITE_COLD void fail_disagree(const operation& op) {
    fail<mismatch_error>(op, {"the ranks do not make the same call: ", check_.disagreement(),
                              "; make the call the same on every rank"});
  }

  HVDLITE_COLD void tell_all_zero(const operation& op) {
    if (!std::exchange(told_all_zero_, true) && where_.rank() == 0)
      log_warning(op, {"every rank gave 0 samples; the tensors stay as they are"});
  }

  HVDLITE_LEAN void take_payloads(const operation& op, const reduction_terms& terms) {
    if (op.verb == verb::broadcast) {
      if (where_.rank() != op.root && op.count != 0)
        std::memcpy(op.out, check_.announcement_of(op.root).payload.data(), op.bytes());
      return;
    }
    for (int r = 0; r < where_.size(); ++r) {
      const auto& term = terms.ranks[static_cast<std::size_t>(r)];
      leaves_[static_cast<std::size_t>(r)] = {
          term.present ? check_.announcement_of(r).payload.data() : nullptr, term.factor};
    }
    evaluate_(*op.kernels, op.op_context, leaves_.data(), op.out, op.count, terms.root);
  }

  HVDLITE_LEAN void move(const operation& op, const reduction_terms& terms, any_backend& data,
                         bool checks) {
    request in_flight;
    try {
      in_flight = data.start(op, terms);
      if (data.progress(in_flight) == state::done) return;
      backoff wait{spins_};
      watchdog dog{settings_, where_, check_};
      for (std::size_t steps = 0;;) {
        const state now = data.progress(in_flight);
        if (now == state::done) return;
        if (std::exchange(steps, in_flight.steps) != in_flight.steps) wait.restart();
        if (now == state::lost) {
          if (checks) check_.watch();
          fail_lost(op, "while data was moving");
        }
        wait.pause();
        if (!wait.time_to_look()) continue;
        expect_open(op);
        if (!checks) continue;
        if (check_.watch() == state::lost) fail_lost(op, "while data was moving");
        const auto verdict = dog.look();
        if (verdict != watchdog::quiet) tell_moving(op, verdict, dog);
      }
    } catch (const std::exception& e) {
      give_up(data, in_flight, e.what());
      throw;
    } catch (...) {  // of a user_op's function
      give_up(data, in_flight, "an exception that is no std::exception");
      throw;
    }
  }

  /// Data may have moved on some ranks and not on others: there is no way back for the
  /// communicator.
  HVDLITE_COLD void give_up(any_backend& data, request& in_flight, std::string_view why) {
    data.withdraw(in_flight);
    leave_call(why);
  }

  /// This rank cannot go on with the call, and the others are told.
  HVDLITE_COLD void leave_call(std::string_view why) {
    if (!broken_.empty()) return;
    lose(why);
    if (control_ != nullptr) control_->abort(sequence_, why);
  }

  /// For the end of the job, which waits for nobody who was missed.
  HVDLITE_COLD void miss() {
    if (!std::exchange(missed_, true)) where_.start_up().rank_missed();
  }
  HVDLITE_COLD void meet_again() {
    missed_ = false;
    where_.start_up().all_met_again();
  }

  HVDLITE_COLD void lose(std::string_view how) {
    miss();
    if (broken_.empty())
      broken_ = detail::text({"the communicator was lost in an earlier call: ", how});
  }

  [[noreturn]] HVDLITE_COLD void fail_lost(const operation& op, const char* when) {
    const int quitter = check_.abandoned_by();
    const int gone = check_.lost_rank();
    if (quitter >= 0)
      fail<timeout_error>(
          op, {"rank ", quitter,
               " gave up on this call after its deadline; see that every rank makes it in time, or "
               "raise HVDLITE_TIMEOUT"});
    detail::text words = prefix(op);
    if (gone < 0) {
      words.add({"a rank left (", when, ")"});
    } else {
      // One that left since it had lost another is not the cause: the last in its sentence is.
      const std::string_view reason = check_.reason_of(gone);
      const std::size_t verb = reason.rfind(" is lost: ");
      const std::size_t cause = verb == reason.npos ? verb : reason.rfind("rank ", verb);
      if (cause == reason.npos)
        words.add({"rank ", gone, " is lost: ", reason, " (", when, ")"});
      else
        words.add({reason.substr(cause), "; rank ", gone, " left for that (", when, ")"});
    }
    lose(words);
    throw peer_lost_error{words};
  }

  /// Logs a warning, or throws once the deadline is over.
  HVDLITE_COLD void tell_waiting(const operation& op, watchdog::verdict verdict,
                                 const watchdog& dog) {
    const auto missing = check_.ranks_that_are(checker::presence::missing);
    const auto here = check_.ranks_that_are(checker::presence::here);
    detail::text words({"waited ", dog.elapsed(), " s for "});
    if (missing.empty())
      words += "an answer of the ranks that are in the call";
    else
      words.add({detail::named_ranks(missing), " to enter the call; ", detail::named_ranks(here),
                 here.size() == 1 ? " waits in it" : " wait in it"});
    words += dog.stopped();
    if (verdict == watchdog::warn) return log_warning(op, {words});
    check_.abandon();
    miss();
    fail<timeout_error>(op,
                        {words, "; see that every rank makes this call, or raise HVDLITE_TIMEOUT"});
  }

  HVDLITE_COLD void tell_moving(const operation& op, watchdog::verdict verdict,
                                const watchdog& dog) {
    detail::text words({"data has been moving for ", dog.elapsed(),
                        " s, and a rank has stopped to take part in it"});
    words += dog.stopped();
    if (verdict == watchdog::warn) return log_warning(op, {words});
    check_.abandon();
    miss();
    fail<timeout_error>(op, {words, "; the tensor's contents are undefined"});
  }

  placement where_;
  settings settings_;
  backend_list backends_;  // cleared once closed
  any_backend* control_;   // carries the checks: the first usable backend; null in a world of one
  checker check_;
  tree_evaluator evaluate_;
  detail::list<reduction_terms::term> terms_;
  detail::list<leaf> leaves_;
  int spins_ = backoff::spins_for(where_.local_size());
  event_ring events_;
  detail::call_lock lock_;
  std::uint64_t sequence_;  // of the last call; the epoch is in its upper half
  detail::text closed_;     // why no call is possible: the Environment has ended
  detail::text broken_;     // why no call is possible: a rank is lost
  bool told_all_zero_ = false;
  bool missed_ = false;  // a rank, and there was no call of all since
  std::atomic<std::size_t> next_ordinal_{0};
  std::atomic<bool> closing_{false};
  bool cut_short_ = false;  // the last call: this rank has not done its part
  std::shared_ptr<lifetime> life_;
  detail::home_process home_;
};

}  // namespace hvdlite
