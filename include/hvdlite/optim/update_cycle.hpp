// SPDX-License-Identifier: Apache-2.0
// From gradients to an update: passes add up, ranks reduce, what was reduced may be looked at and
// clipped, then it is applied. The states of a DistributedOptimizer, without its types.
#pragma once

#include <cstddef>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <memory>
#include <string_view>

#include <hvdlite/collective/arguments.hpp>
#include <hvdlite/optim/accumulate.hpp>
#include <hvdlite/optim/clip.hpp>
#include <hvdlite/optim/gradient_buckets.hpp>
#include <hvdlite/optim/gradient_kernels.hpp>
#include <hvdlite/optim/parameter.hpp>
#include <hvdlite/optim/parameter_list.hpp>
#include <hvdlite/trace/log.hpp>

namespace hvdlite::detail {

struct cycle_options {
  int passes = 1;
  accumulate what = accumulate::mean;
  bool skip_nonfinite = false;
  bool averages = true;
  int rank = 0, size = 1;
  gradient_kernels kernels = {};
  /// What is wrong with a number of samples, in words.
  text (*refusal)(const sample_count&) = nullptr;
};

/// The options, if they make sense; else throws usage_error.
HVDLITE_COLD inline cycle_options checked(const cycle_options& options) {
  if (options.passes < 1)
    fail<usage_error>({"DistributedOptimizer: backward_passes_per_step is ", options.passes,
                       "; expected 1 or more"});
  if (options.kernels.add == nullptr && (options.passes > 1 || options.skip_nonfinite))
    fail<usage_error>(
        {"DistributedOptimizer: backward_passes_per_step and skip_nonfinite need floating-point "
         "gradients"});
  return options;
}

/// See the file's head. A template, so that only programs with an optimizer compile it.
template <class Tag>
class basic_update_cycle {
 public:
  basic_update_cycle(basic_gradient_buckets<Tag> buckets, const cycle_options& options)
      : buckets_{std::move(buckets)}, options_{options} {}
  basic_update_cycle(const basic_update_cycle&) = delete;
  basic_update_cycle& operator=(const basic_update_cycle&) = delete;

  ~basic_update_cycle() {
    if (passes_.empty() || std::uncaught_exceptions() > unwinding_) return;
    try {
      log(log_level::warning, options_.rank,
          text({"DistributedOptimizer: ", buckets_.who(), " ends with ", passes_.count(),
                " accumulated pass", passes_.count() == 1 ? "" : "es",
                " that were never applied; call flush() before"}));
    } catch (...) {  // of a sink: nobody is there to hear of it
    }
  }

  const basic_gradient_buckets<Tag>& buckets() const { return buckets_; }
  std::size_t skipped() const { return skipped_; }
  /// Whether the parameters are settled: there was a step.
  bool started() const { return fixed_ && (alone() || buckets_.agreed() || !passes_.empty()); }
  no_sync_guard pause() {
    if (options_.kernels.add == nullptr)
      fail<usage_error>({"DistributedOptimizer: no_sync needs floating-point gradients"});
    return no_sync_guard{paused_};
  }

  [[noreturn]] HVDLITE_COLD void refuse(std::initializer_list<piece> why) const {
    buckets_.refuse(text(why));
  }

  bool step(const step_target& target, const sample_count& samples) {
    if (synchronized_) return step_synchronized(target, samples);
    expect_samples(samples);
    if (!reduces_now()) {
      add_pass(target, samples);
      return false;
    }
    // Gradients that are held are written, even where they are not read.
    inspect(target, samples.value() != 0 || target.step_whole != nullptr);
    if (takes_as_they_are(target, samples))
      return apply(target, [&](const parameter& p, std::size_t i, std::size_t first) {
        if (reader_[first] == i) p.update_alone(target.optimizer, first);
      });
    reduce(target, samples.value(), &samples);
    return apply_packed(target);
  }

  bool synchronize(const step_target& target, const sample_count& samples) {
    if (synchronized_) return true;
    expect_samples(samples);
    if (!reduces_now()) return false;
    inspect(target, true);
    expect_writable(target);
    if (!takes_as_they_are(target, samples)) {
      reduce(target, samples.value(), &samples);
      if (updates_) write_back(target);
    }
    synchronized_ = true;
    samples_given_ = samples.given();
    written_.clear();
    for (const std::size_t i : reader_) written_.push_back(i != none);
    return true;
  }

  bool flush(const step_target& target) {
    if (synchronized_)
      refuse({"flush was called between synchronize and step; step, nothing is left over then"});
    if (alone() ? passes_.empty()
                : !buckets_.meet(text({"flush of ", buckets_.who()}), !passes_.empty()))
      return false;
    inspect(target, target.step_whole != nullptr);
    reduce(target, 0, nullptr);
    return apply_packed(target);
  }

  /// `gradients`: visits them in the order of the parameters. Local.
  double clip(const parameter_source& gradients, gradient_change how, double limit) {
    const text wrong =
        clip_refusal(how == gradient_change::scale ? "global_norm" : "by_value", limit);
    if (!wrong.empty()) refuse({wrong});
    if (!synchronized_)
      refuse(
          {"clip was called before the gradients were reduced; call synchronize first, and if "
           "several passes make a step, clip only where it returns true"});
    find_reduced(gradients);
    const gradient_kernels& k = options_.kernels;
    const auto largest = [&] {
      return fold_reduced(
          gradients, [&](const void* g, std::size_t n) { return k.largest(g, n); }, larger);
    };
    if (how == gradient_change::clamp) {
      const double most = largest();
      change_reduced(gradients, how, limit, k.clamp);
      return most;
    }
    const auto squares = [&](double scale) {
      return fold_reduced(
          gradients, [&](const void* g, std::size_t n) { return k.squares(g, n, scale); },
          [](double a, double b) { return a + b; });
    };
    const double norm = norm_from(squares, largest);
    const double factor = clip_factor(norm, limit);
    if (factor != 1) change_reduced(gradients, how, factor, k.scale);
    return norm;
  }

  void zero_gradients(const step_target& target) {
    if (synchronized_)
      refuse(
          {"zero_grad was called between synchronize and step; the reduced gradients would be "
           "lost, step first"});
    const auto zero = [](const parameter& p, std::size_t) { p.change(gradient_change::zero, 0); };
    guard_each(target.each, zero, &target.names);
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  bool alone() const { return options_.size == 1; }
  bool reduces_now() const {
    return *paused_ == 0 &&
           (due_ || passes_.count() + 1 >= static_cast<std::size_t>(options_.passes));
  }

  void expect_samples(const sample_count& samples) const {
    const text wrong = options_.refusal(samples);
    if (!wrong.empty()) refuse({wrong});
    if (!passes_.empty() && samples.given() != passes_.samples_given())
      refuse({samples.given() ? "this pass gives .samples, and earlier ones did not"
                              : "this pass gives no .samples, and earlier ones did",
              "; give them in each pass or in none"});
  }

  /// Calls f(parameter, index) for each; a usage_error gets the parameter's name, and is told to
  /// all ranks.
  template <class F>
  void guard_each(const parameter_source& each, F&& f, const name_list* names = nullptr) {
    std::size_t index = 0;
    const auto visit = [&](const parameter& p) {
      f(p, index);
      ++index;
    };
    try {
      each(visit);
    } catch (const usage_error& e) {
      refuse({names != nullptr ? parameter_list::label(*names, index) : parameters_.label(index),
              ": ", e.what()});
    }
  }

  /// Notes which parameters there are, which must be those of earlier steps, and with `looks` which
  /// gradients: of parameters that are one memory, one is read.
  void inspect(const step_target& target, bool looks) {
    layouts_.clear();
    looks_.clear();
    text wrong;
    const auto visit = [&](const parameter& p) {
      layouts_.resize_for_overwrite(layouts_.size() + 1);
      layouts_.back() = p.layout();
      looks_.push_back({});
      if (!looks) return;
      try {
        looks_.back() = p.look(layouts_.back().shape);
      } catch (const usage_error& e) {
        if (wrong.empty())
          wrong = text({parameter_list::label(target.names, layouts_.size() - 1), ": ", e.what()});
      }
    };
    target.each(visit);
    const bool keep = started();
    const text changed = parameters_.take(layouts_, target.names, keep);
    if (!changed.empty()) refuse({changed});
    if (!wrong.empty()) refuse({wrong});
    if (!keep) buckets_.make_plan(parameters_);
    fixed_ = true;
    choose_readers();
  }

  void choose_readers() {
    reader_.clear();
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      reader_.push_back(none);
      if (!looks_[i].present) continue;
      std::size_t& reader = reader_[parameters_.first_of(i)];
      if (reader == none)
        reader = i;
      else if (looks_[i].address == nullptr || looks_[i].address != looks_[reader].address)
        refuse({parameters_.label(reader), " and ", parameters_.label(i),
                " are the same memory, and have different gradients; add the gradients up and hand "
                "over their sum once, or for both"});
    }
  }

  /// In a world of one, a pass that makes a step by itself has the reduced gradients already: the
  /// user's. Whether this is one.
  bool takes_as_they_are(const step_target& target, const sample_count& samples) {
    if (!alone() || !passes_.empty()) return false;
    updates_ = samples.value() != 0;
    present_.clear();
    for (const std::size_t reader : reader_) present_.push_back(reader != none);
    if (updates_) look_for_nonfinite(&target);
    return true;
  }

  bool is_first(std::size_t i) const { return parameters_.first_of(i) == i; }
  std::size_t count(std::size_t i) const { return parameters_.shape(i).count(); }

  /// Packs all gradients; absent ones are zeros, and with `reads` false none is read.
  void pack(const step_target& target, bool reads) {
    present_.clear();
    present_.resize(parameters_.size());
    guard_each(target.each, [&](const parameter& p, std::size_t i) {
      const std::size_t first = parameters_.first_of(i);
      if (!reads || reader_[first] != i) return;
      std::byte* const to = buckets_.at(first);
      const void* const from = p.gradient(to, parameters_.shape(i));
      if (from == nullptr && count(i) != 0) return;
      if (from != to && count(i) != 0)
        std::memcpy(to, from, count(i) * options_.kernels.element_bytes);
      present_[first] = 1;
    });
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (count(i) == 0)
        present_[i] = 1;  // there is nothing to lack
      else if (is_first(i) && present_[i] == 0)
        std::memset(buckets_.at(i), 0, count(i) * options_.kernels.element_bytes);
    }
  }

  std::byte* sum_of(std::size_t i) {
    return passes_.at(buckets_.offset(i) * options_.kernels.sum_bytes);
  }

  void add_pass(const step_target& target, const sample_count& samples) {
    inspect(target, samples.value() != 0);
    pack(target, samples.value() != 0);  // before anything is added: it may throw
    passes_.begin_pass(parameters_.size(), buckets_.total() * options_.kernels.sum_bytes,
                       samples.value());
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (present_[i] == 0) continue;
      options_.kernels.add(sum_of(i), buckets_.at(i), count(i), passes_.scaled(samples.value()));
      passes_.mark(i);
    }
    passes_.end_pass(samples.value(), samples.given());
    due_ = due_ || *paused_ != 0;
  }

  /// Adds the earlier passes to the one that is packed, and divides. The sums stay as they are.
  void merge(contribution& mine, double weight) {
    if (weight != 0) passes_.choose_shift(weight);
    const double total = passes_.weight() + weight;
    const double passes = static_cast<double>(passes_.weighty() + (weight != 0 ? 1 : 0));
    mine.weight = options_.what == accumulate::sum && total != 0 ? total / passes : total;
    if (total == 0) return;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!is_first(i) || (present_[i] == 0 && !passes_.has(i))) continue;
      options_.kernels.finish(sum_of(i), buckets_.at(i), count(i), passes_.scaled(weight),
                              passes_.scaled(mine.weight));
      present_[i] = 1;
    }
  }

  /// Reduces this pass and those before it. `samples`: of this pass; null if there is none.
  void reduce(const step_target& target, double weight, const sample_count* samples) {
    if (!alone() && !buckets_.agreed())
      buckets_.agree(parameters_,
                     text({", ", options_.passes, options_.passes == 1 ? " pass" : " passes",
                           " a step", options_.what == accumulate::sum ? " that add up" : "",
                           options_.skip_nonfinite ? ", skip_nonfinite" : ""}));
    pack(target, weight != 0);
    contribution mine{weight, false, false, false};
    if (!passes_.empty()) merge(mine, weight);
    mine.weighs = !passes_.empty() || samples == nullptr || samples->given();
    const bool given = samples != nullptr ? samples->given() : passes_.samples_given();
    mine.gives_samples = (samples != nullptr || !passes_.empty()) && given;
    mine.lacks_samples = (samples != nullptr || !passes_.empty()) && !given;
    if (!options_.averages && mine.weight != 0) mine.weight = 1;
    updates_ = alone() ? mine.weight != 0 : buckets_.reduce(parameters_, mine, present_);
    passes_.clear();
    due_ = false;
    if (updates_) look_for_nonfinite(nullptr);
  }

  /// Decides whether the step is skipped; all ranks see the same bits. `target`: whose gradients
  /// are not packed.
  void look_for_nonfinite(const step_target* target) {
    nonfinite_ = none;
    if (!options_.skip_nonfinite) return;
    const auto look = [&](std::size_t i, const void* g) {
      if (nonfinite_ == none && g != nullptr && !options_.kernels.finite(g, count(i)))
        nonfinite_ = i;
    };
    if (target == nullptr) {
      for (std::size_t i = 0; i < parameters_.size(); ++i)
        if (is_first(i) && present_[i] != 0) look(i, buckets_.at(i));
      return;
    }
    guard_each(target->each, [&](const parameter& p, std::size_t i) {
      const std::size_t first = parameters_.first_of(i);
      if (reader_[first] == i) look(i, p.gradient(buckets_.at(first), parameters_.shape(i)));
    });
  }

  /// Whether there is something to apply; counts the steps that are skipped.
  bool may_update() {
    if (!updates_ || nonfinite_ == none) return updates_;
    if (skipped_++ == 0 && options_.rank == 0)
      log(log_level::warning, 0,
          text({"DistributedOptimizer: ", buckets_.who(), " skips a step: the gradient of ",
                parameters_.label(nonfinite_), " is not finite"}));
    return false;
  }

  /// Reduced gradients to where the user's are.
  void write_back(const step_target& target) {
    guard_each(target.each, [&](const parameter& p, std::size_t i) {
      const std::size_t first = parameters_.first_of(i);
      if (reader_[first] == i && present_[first] != 0)
        p.unpack(buckets_.at(first), parameters_.shape(i));
    });
  }

  /// update(parameter, index, the first with its memory) for each, or the step of an optimizer that
  /// holds its parameters.
  template <class F>
  bool apply(const step_target& target, F&& update) {
    if (!may_update()) return false;
    if (target.step_whole != nullptr) {
      target.step_whole(target.optimizer);
      return true;
    }
    std::size_t i = 0;
    const auto visit = [&](const parameter& p) {
      update(p, i, parameters_.first_of(i));
      ++i;
    };
    target.each(visit);
    return true;
  }

  bool apply_packed(const step_target& target) {
    if (target.step_whole != nullptr && updates_) write_back(target);
    return apply(target, [&](const parameter& p, std::size_t i, std::size_t first) {
      if (first == i && present_[i] != 0) p.update(target.optimizer, i, buckets_.at(i));
    });
  }

  bool step_synchronized(const step_target& target, const sample_count& samples) {
    if (samples.given() && !samples_given_)
      refuse(
          {".samples were given to step and not to synchronize, which has reduced the "
           "gradients already; give them to synchronize"});
    inspect(target, true);
    synchronized_ = false;
    return apply(target, [&](const parameter& p, std::size_t i, std::size_t first) {
      if (present_[first] == 0) return;
      if (reader_[first] == i && p.update_alone(target.optimizer, first)) return;
      const bool last_chance = reader_[first] == none ? first == i : reader_[first] == i;
      if (last_chance && written_[first] == 0)
        p.update(target.optimizer, first, buckets_.at(first));  // other ranks have it
    });
  }

  void expect_writable(const step_target& target) {
    guard_each(target.each, [](const parameter& p, std::size_t) {
      if (!p.gradient_writable())
        fail<usage_error>(
            {"its gradient is const or an expression; synchronize writes the reduced "
             "gradient to it"});
    });
  }

  // --- Reduced gradients, between synchronize and step ---

  /// Sets reader_: who of the parameters has each reduced gradient; none: it is packed here.
  void find_reduced(const parameter_source& gradients) {
    std::size_t given = 0;
    reader_.clear();
    for (std::size_t i = 0; i < parameters_.size(); ++i) reader_.push_back(none);
    guard_each(gradients, [&](const parameter& p, std::size_t i) {
      given = i + 1;
      if (i >= parameters_.size()) return;
      const std::size_t first = parameters_.first_of(i);
      if (!p.gradient_writable())
        fail<usage_error>({"its gradient is const or an expression, and is to be clipped"});
      if (reader_[first] == none && p.look(parameters_.shape(i)).present) reader_[first] = i;
    });
    if (given != parameters_.size())
      refuse({"there are ", parameters_.size(), " parameters and ", given, " gradients"});
  }

  bool is_packed(std::size_t i) const {
    return is_first(i) && present_[i] != 0 && reader_[i] == none && written_[i] == 0;
  }

  /// combine over f(elements, count) of all reduced gradients, in the order of the parameters.
  template <class F, class Combine>
  double fold_reduced(const parameter_source& gradients, F&& f, Combine&& combine) {
    values_.clear();
    values_.resize(parameters_.size());
    guard_each(gradients, [&](const parameter& p, std::size_t i) {
      const std::size_t first = parameters_.first_of(i);
      if (reader_[first] != i || present_[first] == 0 || count(i) == 0) return;
      const void* const g = p.gradient(buckets_.at(first), parameters_.shape(i));
      if (g != nullptr) values_[first] = f(g, count(i));
    });
    double result = 0;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (is_packed(i)) values_[i] = f(buckets_.at(i), count(i));
      result = combine(result, values_[i]);
    }
    return result;
  }

  void change_reduced(const parameter_source& gradients, gradient_change how, double by,
                      void (*packed)(void*, std::size_t, double)) {
    guard_each(gradients, [&](const parameter& p, std::size_t i) {
      const std::size_t first = parameters_.first_of(i);
      if (reader_[first] == i && present_[first] != 0) p.change(how, by);
    });
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      if (is_packed(i)) packed(buckets_.at(i), count(i), by);
  }

  basic_gradient_buckets<Tag> buckets_;
  cycle_options options_;
  parameter_list parameters_;
  bool fixed_ = false;  // parameters_ are those of an earlier step, which may have failed

  pass_sum passes_;
  bool due_ = false;  // a pass was paused: the next one that isn't reduces
  std::shared_ptr<int> paused_ = std::make_shared<int>(0);

  // Of the step at hand, by parameter.
  list<memory_layout> layouts_;
  list<gradient_look> looks_;
  list<std::size_t> reader_;     // whose gradient is used for it, or none
  list<unsigned char> present_;  // whether there is a gradient on any rank
  list<unsigned char> written_;  // whether synchronize wrote it to a gradient of this rank
  list<double> values_;

  bool synchronized_ = false;
  bool samples_given_ = false;  // to synchronize
  bool updates_ = false;        // the reduced gradients are to be used
  std::size_t nonfinite_ = none, skipped_ = 0;
  int unwinding_ = std::uncaught_exceptions();
};
using update_cycle = basic_update_cycle<void>;

}  // namespace hvdlite::detail
