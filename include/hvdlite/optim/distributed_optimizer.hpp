// SPDX-License-Identifier: Apache-2.0
// DistributedOptimizer: an optimizer whose steps use the gradients of all ranks. Gradients are
// packed into buckets by a static plan and averaged; then every rank makes the same update.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <hvdlite/collective/allreduce.hpp>
#include <hvdlite/engine/plan.hpp>
#include <hvdlite/optim/accumulate.hpp>
#include <hvdlite/optim/clip.hpp>
#include <hvdlite/optim/optimizer.hpp>
#include <hvdlite/optim/parameter.hpp>
#include <hvdlite/optim/update_cycle.hpp>
#include <hvdlite/tensor/tensor_set.hpp>

namespace hvdlite {

/// How a DistributedOptimizer communicates; must agree on all ranks.
struct distributed_options {
  /// Gradients travel in buckets of up to so many bytes; 0: each alone.
  std::size_t bucket_bytes = std::size_t{25} << 20;
  /// The first bucket, which holds the last parameters; at most bucket_bytes.
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
  /// So many calls of `step` make one update: all but the last only accumulate.
  int backward_passes_per_step = 1;
  /// What those passes amount to.
  hvdlite::accumulate accumulate = hvdlite::accumulate::mean;
  /// A step whose reduced gradients are not all finite is skipped, on all ranks.
  bool skip_nonfinite = false;
  /// Appears in errors and traces beside the optimizer's number; ranks compare both.
  std::string_view name = {};
};

/// Options of one step.
struct step_options {
  /// How many samples this rank's gradients are the mean of: its weight in the average. Ranks with
  /// 0 samples contribute nothing and are not read; if all have 0, nothing changes. If not given on
  /// any rank, all ranks weigh the same.
  sample_count samples = {};
};

template <class Opt, class Tensor, class Policy>
class DistributedOptimizer;

namespace detail {

template <class Opt>
inline constexpr bool is_distributed_v = false;
template <class Opt, class Tensor, class Policy>
inline constexpr bool is_distributed_v<DistributedOptimizer<Opt, Tensor, Policy>> = true;

template <class Opt>
inline constexpr bool has_options_v = requires { typename Opt::options_type; };

struct no_options {};
template <class Opt>
struct options_of {
  using type = no_options;
};
template <class Opt>
  requires has_options_v<Opt>
struct options_of<Opt> {
  using type = typename Opt::options_type;
};

}  // namespace detail

/// Wraps `Opt` so that its updates use the gradients of all ranks of a communicator.
///
///     DistributedOptimizer<Sgd, Eigen::MatrixXf> opt{world, {.learning_rate = 0.1}};
///     opt.step(std::tie(w, b), std::tie(dw, db), {.samples = batch.size()});
///
/// or, with parameters that it remembers: `opt.add("fc.weight", w, dw); ... opt.step();`
///
/// `Opt`: see optimizer_traits. `Tensor` fixes element type and memory space, not the class: a
/// model of matrices and vectors is one set. `Policy` gives the op (default_policy: average). Every
/// rank must hold the same parameters, in the same order, before the first step
/// (broadcast_parameters), and then holds the same after each. In a world of one the wrapped
/// optimizer gets the gradients as they are: nothing is copied, and the bits are its own.
///
/// Optimizers are numbered in the order in which they are made on a communicator, which must be the
/// same on all ranks: their calls do not mix.
///
/// A gradient may be absent: null, nullopt, or empty where its parameter is not. It counts as zero
/// on this rank; a parameter that no rank has a gradient for stays as it is, with its state in the
/// optimizer. (But not in an optimizer that holds its parameters: all its gradients must be there.)
/// A parameter that appears twice, as tied weights do, is reduced and updated once; its gradient
/// must be one tensor, too.
///
/// What this rank gets wrong is a usage_error here, and a mismatch_error on the others at their
/// next call. No parameter has changed then.
template <class Opt, class Tensor, class Policy = default_policy<Tensor>>
class DistributedOptimizer {
 public:
  static_assert(!detail::is_distributed_v<Opt>,
                "hvdlite: this optimizer is a DistributedOptimizer already: use it as it is");
  static_assert(detail::expect_tensor<Tensor>());
  /// Tensor, or after an error of the compiler something that gives no further ones.
  using tensor_type = std::conditional_t<tensor<Tensor>, Tensor, hvdlite::buffer<float>>;
  using element_type = element_of<tensor_type>;
  static_assert(std::same_as<space_of<tensor_type>, host_space>,
                "hvdlite: DistributedOptimizer serves tensors in host memory");

  /// `optimizer`: the wrapped one, moved in. Not collective. (Its type is deduced so that braces
  /// mean the options below.) Throws usage_error for options without sense.
  template <communicator Comm, std::same_as<Opt> O>
  DistributedOptimizer(const Comm& comm, O optimizer, const distributed_options& options = {}) {
    static_assert(detail::expect_reducible<Comm, tensor_type, op>());
    all_ = std::make_unique<everything>(
        std::move(optimizer), options,
        [comm](const operation& call) {
          return comm.run(call, Comm::template reducing<element_type, space_of<tensor_type>, op>);
        },
        comm.next_ordinal(), comm.rank(), comm.size());
  }

  /// The same with the wrapped optimizer's options: `opt{world, {.learning_rate = 0.1}}`.
  template <communicator Comm>
    requires detail::has_options_v<Opt>
  DistributedOptimizer(const Comm& comm, const typename detail::options_of<Opt>::type& options,
                       const distributed_options& distributed = {})
      : DistributedOptimizer{comm, Opt{options}, distributed} {}

  /// A moved-from optimizer can only be assigned to or destroyed. One that is destroyed with
  /// accumulated passes that were never applied logs a warning, unless it unwinds.
  DistributedOptimizer(DistributedOptimizer&&) noexcept = default;
  DistributedOptimizer& operator=(DistributedOptimizer&&) noexcept = default;

  /// The wrapped optimizer, to read or change its hyper-parameters. A change must be made alike on
  /// all ranks.
  Opt& optimizer() { return all_->optimizer; }
  const Opt& optimizer() const { return all_->optimizer; }

  /// Remembers a parameter and its gradient for `step()`; both stay the caller's, must outlive this
  /// object, and are read anew at each step. `gradient`: a tensor like the parameter, or an
  /// optional or pointer of one. Not collective; the order of additions must be the same on all
  /// ranks. Throws usage_error after the first step, and for a name that is taken.
  template <class P, class G>
  void add(std::string name, P& parameter, G& gradient)
    requires(!holding_optimizer<Opt>)
  {
    static_assert(writable_tensor<P&>, "hvdlite: a parameter must be a writable tensor");
    everything& all = *all_;
    if (all.cycle.started())
      detail::fail<usage_error>({"DistributedOptimizer: '", name,
                                 "' was added after the first step; add all parameters before"});
    for (std::size_t i = 0; i < all.names.size(); ++i)
      if (all.names[i] == name)
        detail::fail<usage_error>({"DistributedOptimizer: there are two parameters named '", name,
                                   "'; give each its own name"});
    all.entries.push_back(std::make_unique<pair<P, G>>(parameter, gradient));
    all.names.add(name);
  }

  /// Averages the gradients over all ranks, unless `synchronize` has done so, and updates all
  /// parameters: those that were added, or those that the wrapped optimizer holds (whose gradients
  /// are then the averaged ones; otherwise the caller's gradients stay as they are). Returns
  /// whether parameters were updated: not if no rank had any samples, if the step was skipped
  /// (skip_nonfinite), or if it only accumulates (no_sync, backward_passes_per_step).
  ///
  /// Collective, blocking; a step that only accumulates, or follows `synchronize`, is local. Throws
  /// what allreduce throws, and usage_error for parameters that changed their size; no parameter
  /// has changed then.
  bool step(const step_options& options = {}) {
    return on_own([&](const target& t) { return all_->cycle.step(t, options.samples); });
  }

  /// The same for parameters that are handed in: `params` and `grads` are two sets of the same
  /// structure (a tensor, a std::tie of tensors of different types, a range). Gradients may be
  /// const, temporaries, or expressions, which are evaluated.
  template <class Params, class Grads>
  bool step(Params&& params, Grads&& grads, const step_options& options = {}) {
    if constexpr (expect_parameters<Params&&>())
      return on_pairs(params, grads,
                      [&](const target& t) { return all_->cycle.step(t, options.samples); });
    return false;
  }

  /// Averages the gradients over all ranks now, and writes the averages to them, for a look or a
  /// clip before `step`, which then reduces nothing and uses the gradients as they are. Returns
  /// whether it did: not in a pass that only accumulates, where `step` follows alone:
  ///
  ///     if (opt.synchronize()) opt.clip(hvdlite::global_norm{1});
  ///     opt.step();
  ///
  /// What is done to the gradients in between must be done alike on all ranks. A gradient that is
  /// absent on this rank alone stays absent; `step` and `clip` use the average that other ranks
  /// have (clipping by hand would miss it). A second call before `step` does nothing. Samples are
  /// given here, not to `step`. Collective, blocking: it makes the calls that
  /// `step` would make, so that one rank may synchronize and step where another only steps. Throws
  /// what `step` throws, and usage_error if a gradient is const.
  bool synchronize(const step_options& options = {}) {
    return on_own([&](const target& t) { return all_->cycle.synchronize(t, options.samples); });
  }

  /// The same for parameters that are handed in; `grads` must be writable.
  template <class Params, class Grads>
  bool synchronize(Params&& params, Grads&& grads, const step_options& options = {}) {
    if constexpr (expect_parameters<Params&&>() && expect_gradients<Grads&&>())
      return on_pairs(params, grads,
                      [&](const target& t) { return all_->cycle.synchronize(t, options.samples); });
    return false;
  }

  /// Clips the reduced gradients between `synchronize` and `step`: `global_norm` returns their norm
  /// before, `by_value` the largest magnitude before. Local; the same bits on all ranks. NaN and
  /// infinities are returned and stay as they are. Throws usage_error if nothing is synchronized.
  double clip(const global_norm& policy) {
    return clip_own(detail::gradient_change::scale, policy.max);
  }
  double clip(const by_value& policy) {
    return clip_own(detail::gradient_change::clamp, policy.limit);
  }

  /// The same for gradients that were handed in.
  template <class Grads>
  double clip(Grads&& grads, const global_norm& policy) {
    return clip_set<Grads&&>(grads, detail::gradient_change::scale, policy.max);
  }
  template <class Grads>
  double clip(Grads&& grads, const by_value& policy) {
    return clip_set<Grads&&>(grads, detail::gradient_change::clamp, policy.limit);
  }

  /// Applies passes that are accumulated and wait for more, at the end of an epoch, say: their mean
  /// is over those that there are. Ranks may have different numbers of them, also none. Returns
  /// whether parameters were updated. Collective, blocking; throws what `step` throws.
  bool flush() {
    return on_own([&](const target& t) { return all_->cycle.flush(t); });
  }

  /// The same for parameters that are handed in.
  template <class Params>
  bool flush(Params&& params) {
    if constexpr (expect_parameters<Params&&>()) {
      collect_names(params, all_->names_given);
      const auto each = [&](detail::parameter_visitor visit) {
        hvdlite::for_each_tensor(params, [&](std::string_view, auto& p) {
          detail::no_gradient g;
          visit(pair<std::remove_reference_t<decltype(p)>, detail::no_gradient>{p, g});
        });
      };
      return all_->cycle.flush({each, all_->names_given, &all_->optimizer});
    }
    return false;
  }

  /// While the returned guard lives, steps only accumulate; the next one after it reduces all, of
  /// however many passes. Local; ranks may differ in the number of passes. Throws usage_error for
  /// gradients that are no real numbers.
  no_sync_guard no_sync() { return all_->cycle.pause(); }

  /// Sets the gradients that were added or are held to zero; absent ones stay so. Local. Throws
  /// usage_error between `synchronize` and `step`, and for a const gradient.
  void zero_grad() {
    on_own([&](const target& t) { all_->cycle.zero_gradients(t); });
  }

  /// How many steps were skipped for gradients that were not finite.
  std::size_t skipped_steps() const { return all_->cycle.skipped(); }

  /// What travels together, once the first step has made the plan.
  std::span<const bucket> buckets() const {
    const bucket_plan* const plan = all_->cycle.buckets().plan();
    return plan != nullptr ? std::span<const bucket>{plan->buckets} : std::span<const bucket>{};
  }

 private:
  using T = element_type;
  using op = typename Policy::op;
  static_assert(reduce_op<op>);
  using target = detail::step_target;
  template <class P, class G>
  using pair = detail::typed_parameter<Opt, T, P, G>;

  /// In one place, so that the wrapped optimizer, the op and the guards stay where they are.
  struct everything {
    Opt optimizer;
    [[no_unique_address]] op reduction{};
    detail::update_cycle cycle;
    std::vector<std::unique_ptr<detail::parameter>> entries;
    detail::name_list names;                            // of entries
    detail::name_list names_given, names_of_gradients;  // of what is handed in

    everything(Opt&& wrapped, const distributed_options& options,
               detail::gradient_buckets::runner run, std::size_t ordinal, int rank, int size)
        : optimizer{std::move(wrapped)},
          cycle{
              {std::move(run),
               prototype(),
               {(std::min)(options.first_bucket_bytes, options.bucket_bytes), options.bucket_bytes},
               detail::optimizer_text(ordinal, options.name)},
              detail::checked({.passes = options.backward_passes_per_step,
                               .what = options.accumulate,
                               .skip_nonfinite = options.skip_nonfinite,
                               .averages = std::same_as<op, average>,
                               .rank = rank,
                               .size = size,
                               .kernels = detail::kernels_for_gradients<T>(),
                               .refusal = [](const sample_count& samples) {
                                 return detail::refusal<T, op>({.samples = samples});
                               }})} {}

    operation prototype() const {
      operation call = detail::reduction_call<T>(reduction, {}, {});
      call.element_bytes = sizeof(T);
      call.type = dtype_of<T>();
      return call;
    }
  };

  template <class Params>
  static constexpr bool expect_parameters() {
    static_assert(!holding_optimizer<Opt>,
                  "hvdlite: this optimizer holds its parameters: call this without any");
    constexpr bool writable = detail::all_writable<std::remove_reference_t<Params>>();
    static_assert(writable, "hvdlite: a parameter must be a writable tensor");
    return !holding_optimizer<Opt> && writable && detail::expect_kept<Params>();
  }

  template <class Grads>
  static constexpr bool expect_gradients() {
    constexpr bool writable = detail::all_writable<std::remove_reference_t<Grads>, true>();
    static_assert(writable,
                  "hvdlite: the reduced gradients are written to the gradients: pass writable "
                  "tensors, no const ones or expressions");
    return writable && detail::expect_kept<Grads>();
  }

  static void collect_names(auto& set, detail::name_list& names) {
    names.clear();
    hvdlite::for_each_tensor(set, [&](std::string_view name, auto&&) { names.add(name); });
  }

  /// f(target) for what was added, or is held; returns what it returns.
  template <class F>
  auto on_own(F&& f) {
    everything& all = *all_;
    if constexpr (holding_optimizer<Opt>) {
      decltype(auto) gradients = optimizer_traits<Opt>::gradients(all.optimizer);
      collect_names(gradients, all.names_given);
      const auto each = [&](detail::parameter_visitor visit) {
        hvdlite::for_each_tensor(gradients, [&](std::string_view, auto& g) {
          static_assert(writable_tensor<decltype(g)>,
                        "hvdlite: the gradients of an optimizer that holds its parameters must be "
                        "writable tensors");
          visit(detail::gradient_only<T, std::remove_reference_t<decltype(g)>>{g});
        });
      };
      return f({each, all.names_given, &all.optimizer, [](void* optimizer) {
                  optimizer_traits<Opt>::step(*static_cast<Opt*>(optimizer));
                }});
    } else {
      const auto each = [&](detail::parameter_visitor visit) {
        for (const auto& e : all.entries) visit(*e);
      };
      return f({each, all.names, &all.optimizer});
    }
  }

  /// f(target) for what is handed in. Pairs go by position, so that the name of a gradient that
  /// has one must be its parameter's.
  template <class F>
  auto on_pairs(auto& params, auto& grads, F&& f) {
    everything& all = *all_;
    collect_names(params, all.names_given);
    collect_names(grads, all.names_of_gradients);
    const detail::text wrong = detail::pairing_text(all.names_given, all.names_of_gradients);
    if (!wrong.empty()) all.cycle.refuse({wrong});
    const auto each = [&](detail::parameter_visitor visit) {
      hvdlite::for_each_pair(params, grads, [&](auto& p, auto& g) {
        visit(
            pair<std::remove_reference_t<decltype(p)>, std::remove_reference_t<decltype(g)>>{p, g});
      });
    };
    return f({each, all.names_given, &all.optimizer});
  }

  double clip_own(detail::gradient_change how, double limit) {
    return on_own([&](const target& t) { return clip_each(t.each, how, limit); });
  }

  template <class Grads>
  double clip_set(auto& grads, detail::gradient_change how, double limit) {
    constexpr bool writable = detail::all_writable<std::remove_reference_t<Grads>, true>();
    static_assert(writable, "hvdlite: clip writes to the gradients: pass writable tensors");
    if constexpr (writable && detail::expect_kept<Grads>()) {
      const auto each = [&](detail::parameter_visitor visit) {
        hvdlite::for_each_tensor(grads, [&](std::string_view, auto& g) {
          visit(detail::gradient_only<T, std::remove_reference_t<decltype(g)>>{g});
        });
      };
      return clip_each(each, how, limit);
    }
    return 0;
  }

  double clip_each(const detail::parameter_source& each, detail::gradient_change how,
                   double limit) {
    static_assert(is_floating_v<T>, "hvdlite: clip needs floating-point elements");
    return all_->cycle.clip(each, how, limit);
  }

  std::unique_ptr<everything> all_;
};

}  // namespace hvdlite
