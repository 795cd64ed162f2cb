// SPDX-License-Identifier: Apache-2.0
// DistributedOptimizer: an optimizer whose steps use the gradients of all ranks. Gradients are
// packed into buckets by a static plan and averaged; then every rank makes the same update.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <hvdlite/collective/allreduce.hpp>
#include <hvdlite/engine/plan.hpp>
#include <hvdlite/optim/optimizer.hpp>
#include <hvdlite/tensor/tensor_set.hpp>

namespace hvdlite {

/// How a DistributedOptimizer communicates; must agree on all ranks.
struct distributed_options {
  /// Gradients travel in buckets of up to so many bytes; 0: each alone.
  std::size_t bucket_bytes = std::size_t{25} << 20;
  /// The first bucket, which holds the last parameters; at most bucket_bytes.
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
};

/// Options of one step.
struct step_options {
  /// How many samples this rank's gradients are the mean of: its weight in the average. Ranks with
  /// 0 samples contribute nothing and are not read; if all have 0, nothing changes. If not given on
  /// any rank, all ranks weigh the same.
  sample_count samples = {};
};

namespace detail {

template <class Opt>
inline constexpr bool has_options_v = requires { typename Opt::options_type; };

/// Whether every tensor of a set may be written, as a type.
template <class Set>
constexpr auto all_writable(Set& set) {
  if constexpr (leaf_tensor<Set&>)
    return std::bool_constant<writable_tensor<Set&>>{};
  else if constexpr (named_tensor<Set>)
    return decltype(all_writable(set.second)){};
  else if constexpr (tuple_like<Set&>)
    return decltype(std::apply(
        [](auto&... each) {
          return std::bool_constant<(decltype(all_writable(each))::value && ...)>{};
        },
        set)){};
  else if constexpr (iterable<Set>) {
    using Each = std::remove_reference_t<decltype(*iteration::first_of(set))>;
    return decltype(all_writable(std::declval<Each&>())){};
  } else {
    return std::true_type{};  // for_each_tensor says what is wrong with it
  }
}

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
template <class Opt, class Tensor, class Policy = default_policy<Tensor>>
class DistributedOptimizer {
 public:
  using element_type = element_of<Tensor>;
  static_assert(std::same_as<space_of<Tensor>, host_space>,
                "hvdlite: DistributedOptimizer serves tensors in host memory");

  /// `optimizer`: the wrapped one, moved in. Not collective. (Its type is deduced so that braces
  /// mean the options below.)
  template <communicator Comm, std::same_as<Opt> O>
  DistributedOptimizer(const Comm& comm, O optimizer, const distributed_options& options = {})
      : optimizer_{std::move(optimizer)},
        limits_{(std::min)(options.first_bucket_bytes, options.bucket_bytes), options.bucket_bytes},
        size_{comm.size()} {
    static_assert(detail::expect_reducible<Comm, Tensor, op>());
    run_ = [comm](const operation& call) {
      return comm.run(call, Comm::template reducing<element_type, space_of<Tensor>, op>);
    };
  }

  /// The same with the wrapped optimizer's options: `opt{world, {.learning_rate = 0.1}}`.
  template <communicator Comm>
    requires detail::has_options_v<Opt>
  DistributedOptimizer(const Comm& comm, const typename detail::options_of<Opt>::type& options,
                       const distributed_options& distributed = {})
      : DistributedOptimizer{comm, Opt{options}, distributed} {}

  DistributedOptimizer(DistributedOptimizer&&) = default;
  DistributedOptimizer& operator=(DistributedOptimizer&&) = default;

  /// The wrapped optimizer, to read or change its hyper-parameters. A change must be made alike on
  /// all ranks.
  Opt& optimizer() { return optimizer_; }
  const Opt& optimizer() const { return optimizer_; }

  /// Remembers a parameter and its gradient for `step()`; both stay the caller's, must outlive this
  /// object, and are read anew at each step. `gradient`: a tensor like the parameter, or an
  /// optional or pointer of one. Not collective; the order of additions must be the same on all
  /// ranks.
  template <class P, class G>
  void add(std::string name, P& parameter, G& gradient)
    requires(!holding_optimizer<Opt>)
  {
    static_assert(writable_tensor<P&>, "hvdlite: a parameter must be a writable tensor");
    if (plan_)
      detail::fail<usage_error>({"DistributedOptimizer: '", name,
                                 "' was added after the first step; add all parameters before"});
    for (const auto& e : entries_)
      if (e->name == name)
        detail::fail<usage_error>({"DistributedOptimizer: there are two parameters named '", name,
                                   "'; give each its own name"});
    entries_.push_back(std::make_unique<typed_entry<P, G>>(std::move(name), parameter, gradient));
  }

  /// Averages the gradients over all ranks and updates all parameters: those that were added, or
  /// those that the wrapped optimizer holds (whose gradients are then the averaged ones; otherwise
  /// the caller's gradients stay as they are).
  ///
  /// Collective, blocking. A gradient that is absent (null, nullopt) counts as zero on this rank; a
  /// parameter that no rank has a gradient for stays as it is. Throws what allreduce throws, and
  /// usage_error for parameters that changed their size; no parameter has changed then.
  void step(const step_options& options = {}) {
    if constexpr (holding_optimizer<Opt>) {
      step_holding(options);
    } else {
      step_pairs(
          [&](auto&& visit) {
            for (const auto& e : entries_) visit(*e);
          },
          options);
    }
  }

  /// The same for parameters that are handed in: `params` and `grads` are two sets of the same
  /// structure (a tensor, a std::tie of tensors of different types, a range). Gradients may be
  /// const, temporaries, or expressions, which are evaluated.
  template <class Params, class Grads>
  void step(Params&& params, Grads&& grads, const step_options& options = {}) {
    static_assert(!holding_optimizer<Opt>,
                  "hvdlite: this optimizer holds its parameters: call step() without any");
    constexpr bool writable = decltype(detail::all_writable(params))::value;
    static_assert(writable, "hvdlite: a parameter must be a writable tensor");
    if constexpr (!holding_optimizer<Opt> && writable && detail::expect_kept<Params&&>()) {
      const std::size_t have = hvdlite::tensor_count(params);
      const std::size_t given = hvdlite::tensor_count(grads);
      if (have != given)
        refuse(detail::text({"there are ", have, " parameters and ", given, " gradients"}));
      expect_names(params, grads);
      step_pairs(
          [&](auto&& visit) {
            hvdlite::for_each_pair(params, grads, [&](auto& p, auto& g) {
              visit(
                  pair<std::remove_reference_t<decltype(p)>, std::remove_reference_t<decltype(g)>>{
                      p, g});
            });
          },
          options);
    }
  }

  /// What travels together, once the first step has made the plan.
  std::span<const bucket> buckets() const {
    return plan_ ? std::span<const bucket>{plan_->buckets} : std::span<const bucket>{};
  }

 private:
  using T = element_type;
  using op = typename Policy::op;
  static_assert(reduce_op<op>);

  /// A parameter with its gradient, in whatever classes they come.
  template <class P, class G>
  struct pair {
    P& parameter;
    G& gradient;

    static constexpr bool nullable() { return detail::nullable_tensor<G>; }
    tensor_shape shape() const { return hvdlite::shape(parameter); }
    bool pack(T* to, const tensor_shape& expected) const {
      return pack_gradient(gradient, to, expected);
    }

    /// Throws usage_error if the gradient cannot be this parameter's. One that is an expression has
    /// no shape before it is evaluated.
    void check() const {
      if constexpr (!tensor_expression<G>)
        hvdlite::with_value(gradient, [&](const auto& g) {
          if constexpr (!tensor_expression<decltype(g)>) expect_fit(hvdlite::shape(g), shape());
        });
    }

    /// With the gradient as it is.
    void update_alone(Opt& optimizer, std::size_t index) const {
      hvdlite::with_value(gradient, [&](const auto& g) {
        expect_element(g);
        const tensor_shape wanted = shape();
        expect_fit(hvdlite::shape(g), wanted);
        if constexpr (by_span<decltype(g)>) {
          const auto memory = detail::contiguous_of(g);
          if (same_order(memory.shape(), wanted))
            return update_span(optimizer, index, reinterpret_cast<const T*>(memory.read()));
          const auto turned = std::make_unique_for_overwrite<T[]>(wanted.count());
          pack_gradient(g, turned.get(), wanted);
          update_span(optimizer, index, turned.get());
        } else {
          update_tensor(optimizer, index, g);
        }
      });
    }

    /// With the reduced gradient, in the parameter's memory order.
    void update(Opt& optimizer, std::size_t index, const T* reduced) const {
      if constexpr (by_span<P>) {
        update_span(optimizer, index, reduced);
      } else {  // this optimizer wants a tensor of its own kind: one like the parameter
        auto g = owning_copy(parameter);
        const auto memory = detail::contiguous_of(g);
        if (memory.count() != 0) {
          if (memory.read() == detail::contiguous_of(parameter).read())
            detail::fail<usage_error>(
                {"the optimizer takes tensors, and a copy of a parameter shares its "
                 "memory: add an evaluate() that copies to its hvdlite::tensor_traits, "
                 "or let the optimizer take std::span"});
          std::memcpy(memory.write(), reduced, memory.count() * sizeof(T));
        }
        update_tensor(optimizer, index, g);
      }
    }

   private:
    static constexpr bool by_address = requires(Opt& o, std::span<T> p, std::span<const T> g) {
      o.step(p, g);
    } && !requires(Opt& o, std::size_t i, std::span<T> p, std::span<const T> g) {
      o.update(i, p, g);
    };

    /// Spans go to an optimizer that takes nothing else, and where the parameter is as good as one:
    /// but not without an index, since such an optimizer knows a parameter by its address.
    template <class Gradient>
    static constexpr bool by_span =
        span_optimizer<Opt, T> &&
        (!tensor_optimizer<Opt, P, std::remove_cvref_t<Gradient>> || std::is_array_v<P> ||
         (std::convertible_to<P&, std::span<T>> && (borrowed_tensor<P> || !by_address)));

    void update_span(Opt& optimizer, std::size_t index, const T* g) const {
      expect_element(parameter);
      const auto memory = detail::contiguous_of(parameter);
      std::span<T> p{reinterpret_cast<T*>(memory.write()), memory.count()};
      optimizer_traits<Opt>::update(optimizer, index, p, std::span<const T>{g, memory.count()});
      memory.write_back();
    }

    void update_tensor(Opt& optimizer, std::size_t index, const auto& g) const {
      using Gradient = std::remove_cvref_t<decltype(g)>;
      static_assert(tensor_optimizer<Opt, P, Gradient>,
                    "hvdlite: the wrapped optimizer has no update(index, parameter, gradient) or "
                    "step(parameter, gradient) for these types; see hvdlite::optimizer_traits");
      optimizer_traits<Opt>::update(optimizer, index, parameter, g);
    }

    static auto owning_copy(const auto& p) {
      using Bare = std::remove_cvref_t<decltype(p)>;
      if constexpr (requires { detail::traits_of<Bare>::evaluate(p); }) {
        return detail::traits_of<Bare>::evaluate(p);
      } else {
        static_assert(!borrowed_tensor<Bare>,
                      "hvdlite: the wrapped optimizer takes tensors, and this parameter is a view "
                      "without a tensor_traits::evaluate that copies it");
        return Bare{p};
      }
    }
  };

  /// A pair that is remembered.
  struct entry {
    explicit entry(std::string n) : name{std::move(n)} {}
    virtual ~entry() = default;
    virtual bool nullable() const = 0;
    virtual tensor_shape shape() const = 0;
    virtual bool pack(T* to, const tensor_shape& expected) const = 0;
    virtual void check() const = 0;
    virtual void update_alone(Opt& optimizer, std::size_t index) const = 0;
    virtual void update(Opt& optimizer, std::size_t index, const T* reduced) const = 0;
    std::string name;
  };
  template <class P, class G>
  struct typed_entry final : entry {
    typed_entry(std::string n, P& p, G& g) : entry{std::move(n)}, both{p, g} {}
    bool nullable() const override { return both.nullable(); }
    tensor_shape shape() const override { return both.shape(); }
    bool pack(T* to, const tensor_shape& expected) const override {
      return both.pack(to, expected);
    }
    void check() const override { both.check(); }
    void update_alone(Opt& o, std::size_t i) const override { both.update_alone(o, i); }
    void update(Opt& o, std::size_t i, const T* reduced) const override {
      both.update(o, i, reduced);
    }
    pair<P, G> both;
  };

  static void expect_element(const auto& x) {
    static_assert(
        std::same_as<element_of<decltype(x)>, T>,
        "hvdlite: a parameter or gradient has another element type than the Tensor of this "
        "DistributedOptimizer");
  }

  /// Names, as the items of maps have them, stay as in the first step; pairs go by position, so
  /// that a gradient's must be its parameter's.
  void expect_names(auto& params, auto& grads) {
    if (names_.empty())
      hvdlite::for_each_tensor(params,
                               [&](std::string_view name, auto&&) { names_.emplace_back(name); });
    std::size_t index = 0;
    hvdlite::for_each_tensor(params, [&](std::string_view name, auto&&) {
      if (index < names_.size() && name != names_[index])
        refuse(detail::text({"parameter ", index, " is '", name, "', and was '", names_[index],
                             "' in the first step; make a new optimizer for it"}));
      ++index;
    });
    index = 0;
    hvdlite::for_each_tensor(grads, [&](std::string_view name, auto&&) {
      if (index < names_.size() && !name.empty() && !names_[index].empty() && name != names_[index])
        refuse(detail::text({"gradient ", index, " is '", name, "', its parameter '", names_[index],
                             "'; hand both over in one order"}));
      ++index;
    });
  }

  static void expect_fit(const tensor_shape& gradient, const tensor_shape& parameter) {
    if (!gradient.fits(parameter))
      detail::fail<usage_error>({"the gradient is ", gradient.extents_text(), ", the parameter ",
                                 parameter.extents_text()});
  }

  /// Whether the i-th elements in memory stand for the same, given that the two fit.
  static bool same_order(const tensor_shape& a, const tensor_shape& b) {
    return a.ordered < 2 || (a.rank == b.rank && a.outermost_first == b.outermost_first);
  }

  /// The elements of `gradient` to `to`, in the memory order of the parameter, which is `expected`;
  /// false if it is absent.
  static bool pack_gradient(auto& gradient, T* to, const tensor_shape& expected) {
    return hvdlite::with_value(gradient, [&](const auto& g) {
      expect_element(g);
      const auto memory = detail::contiguous_of(g);
      expect_fit(memory.shape(), expected);
      if (memory.count() == 0) return;
      if (same_order(memory.shape(), expected)) {
        std::memcpy(static_cast<void*>(to), memory.read(), memory.count() * sizeof(T));
      } else {
        if (memory.shape().rank != expected.rank)
          detail::fail<usage_error>(
              {"the gradient has another number of dimensions than the parameter, and "
               "another memory order; store both alike"});
        hvdlite::pack(
            strided_buffer<const T>{reinterpret_cast<const T*>(memory.read()), memory.shape()}, to,
            expected);
      }
    });
  }

  /// `for_each(visit)` calls visit(pair or entry) for each parameter, in order.
  template <class ForEach>
  void step_pairs(ForEach&& for_each, const step_options& options) {
    if (size_ == 1) {
      if (!takes_part(options)) return;
      std::size_t index = 0;
      try {
        for_each([&](const auto& p) { p.check(), ++index; });  // all, before any changes
      } catch (const usage_error& e) {
        refuse(detail::text({parameter_text(index), ": ", e.what()}));
      }
      index = 0;
      for_each([&](const auto& p) { p.update_alone(optimizer_, index++); });
      return;
    }
    gather_shapes([&](auto&& add) { for_each([&](const auto& p) { add(p.shape()); }); });
    bool nullable = false;
    fill(options, [&](auto&& next) {
      for_each([&](const auto& p) {
        nullable = nullable || p.nullable();
        next([&](T* to, const tensor_shape& expected) { return p.pack(to, expected); });
      });
    });
    if (nullable) share_presence();
    if (!reduce_buckets(options)) return;
    std::size_t index = 0;
    for_each([&](const auto& p) {
      if (!nullable || present_[index] != 0)
        p.update(optimizer_, index, packed_.get() + plan_->offsets[index]);
      ++index;
    });
  }

  void step_holding(const step_options& options) {
    if (size_ == 1) {
      if (takes_part(options)) optimizer_traits<Opt>::step(optimizer_);
      return;
    }
    decltype(auto) gradients = optimizer_traits<Opt>::gradients(optimizer_);
    gather_shapes([&](auto&& add) {
      hvdlite::for_each_tensor(gradients, [&](std::string_view, auto& g) {
        static_assert(writable_tensor<decltype(g)>,
                      "hvdlite: the gradients of an optimizer that holds its parameters must be "
                      "writable tensors");
        add(hvdlite::shape(g));
      });
    });
    fill(options, [&](auto&& next) {
      hvdlite::for_each_tensor(gradients, [&](std::string_view, auto& g) {
        next([&](T* to, const tensor_shape& expected) { return pack_gradient(g, to, expected); });
      });
    });
    if (!reduce_buckets(options)) return;
    std::size_t index = 0;
    hvdlite::for_each_tensor(gradients, [&](std::string_view, auto& g) {
      const auto memory = detail::contiguous_of(g);
      if (memory.count() != 0)
        std::memcpy(memory.write(), packed_.get() + plan_->offsets[index],
                    memory.count() * sizeof(T));
      memory.write_back();
      ++index;
    });
    optimizer_traits<Opt>::step(optimizer_);
  }

  /// In a world of one: whether to update at all.
  bool takes_part(const step_options& options) const {
    const detail::text wrong = detail::refusal<T, op>({.samples = options.samples});
    if (!wrong.empty()) refuse(wrong);
    return options.samples.value() != 0;
  }

  /// The parameters' shapes: at the first step they make the plan, on which all ranks agree; later
  /// they must be the same.
  template <class Visit>
  void gather_shapes(Visit&& visit) {
    std::vector<tensor_shape> shapes;
    shapes.swap(shapes_scratch_);  // keeps its memory from step to step
    shapes.clear();
    visit([&](const tensor_shape& s) { shapes.push_back(s); });
    shapes_scratch_.swap(shapes);
    if (!plan_) return make_plan();
    if (shapes_scratch_.size() != shapes_.size())
      refuse(detail::text({"there are ", shapes_scratch_.size(), " parameters, and were ",
                           shapes_.size(), " in the first step; make a new optimizer for them"}));
    for (std::size_t i = 0; i < shapes_.size(); ++i)
      if (shapes_scratch_[i] != shapes_[i])
        refuse(detail::text({parameter_text(i), " is ", shapes_scratch_[i].extents_text(),
                             ", and was ", shapes_[i].extents_text(),
                             " in the first step; make a new optimizer for it"}));
  }

  HVDLITE_COLD void make_plan() {
    detail::text words({shapes_scratch_.size(), " parameters in buckets of ", limits_.first,
                        " and ", limits_.others, " bytes:"});
    detail::fingerprint_hash all;
    std::vector<std::size_t> counts;
    for (std::size_t i = 0; i < shapes_scratch_.size(); ++i) {
      const tensor_shape& s = shapes_scratch_[i];
      const std::string_view name = name_of(i);
      const detail::text one({" ", name, name.empty() ? "" : " ", s.extents_text()});
      all.add(one);
      all.add(s.order_text());
      if (words.size() < 400) words += one;
      counts.push_back(s.count());
    }
    words.add({", fingerprint ", all.value()});
    operation call;  // all ranks meet, with the plan as the name that they compare
    call.verb = verb::optimizer_step;
    call.name = words;
    run_(call);
    plan_.emplace(counts, sizeof(T), limits_);
    shapes_ = shapes_scratch_;
    packed_ = std::make_unique_for_overwrite<T[]>(plan_->total);
    present_.resize(counts.size());
    for (const bucket& b : plan_->buckets)
      bucket_names_.emplace_back(
          detail::text({"gradients of parameters ", b.first_parameter, " to ", b.last_parameter}));
  }

  /// Empty if it has none.
  std::string_view name_of(std::size_t index) const {
    if (index < entries_.size()) return entries_[index]->name;
    return index < names_.size() ? std::string_view{names_[index]} : std::string_view{};
  }

  /// "parameter 3", and its name if it has one.
  detail::text parameter_text(std::size_t index) const {
    detail::text words({"parameter ", index});
    if (!name_of(index).empty()) words.add({" ('", name_of(index), "')"});
    return words;
  }

  /// Packs all gradients. `visit(next)` calls next(pack) for each, pack(to, shape) tells whether it
  /// was there. Absent ones are zeros; with 0 samples none is read.
  template <class Visit>
  void fill(const step_options& options, Visit&& visit) {
    const bool reads = options.samples.value() != 0;
    std::size_t index = 0;
    try {
      visit([&](auto&& pack) {
        T* const to = packed_.get() + plan_->offsets[index];
        const bool present = reads && pack(to, shapes_[index]);
        if (reads && !present) std::fill_n(to, shapes_[index].count(), T{});
        present_[index++] = present ? 1 : 0;
      });
    } catch (const usage_error& e) {
      refuse(detail::text({parameter_text(index), ": ", e.what()}));
    }
  }

  /// Which parameters have a gradient on any rank.
  void share_presence() {
    const logical_or either;
    operation call =
        detail::reduction_call<std::uint8_t>(either, {.name = "gradients that are present"}, {});
    describe(call, present_.data(), present_.size());
    run_(call);
  }

  /// False if no rank had any samples: the gradients are not to be used.
  bool reduce_buckets(const step_options& options) {
    const detail::text wrong = detail::refusal<T, op>({.samples = options.samples});
    bool reduced = true;
    for (std::size_t b = 0; b < plan_->buckets.size(); ++b) {
      const allreduce_options with{.name = bucket_names_[b], .samples = options.samples};
      operation call = detail::reduction_call<T>(op_, with, wrong);
      describe(call, packed_.get() + plan_->buckets[b].begin, plan_->buckets[b].count);
      reduced = run_(call).written && reduced;
    }
    return reduced;
  }

  template <class E>
  static void describe(operation& call, E* memory, std::size_t count) {
    call.count = count;
    call.element_bytes = sizeof(E);
    call.type = dtype_of<E>();
    call.shape = tensor_shape::vector(count);
    call.out = reinterpret_cast<std::byte*>(memory);
    call.in = call.out;
  }

  /// Throws a usage_error, and tells the other ranks, which are in the same step.
  [[noreturn]] HVDLITE_COLD void refuse(std::string_view why) const {
    operation call;
    call.verb = verb::optimizer_step;
    call.refused = why;
    run_(call);
    detail::fail<usage_error>({why});  // not reached: a refused call throws
  }

  Opt optimizer_;
  [[no_unique_address]] op op_{};
  bucket_limits limits_;
  int size_;
  std::function<outcome(const operation&)> run_;  // on the communicator, whatever its backends
  std::vector<std::unique_ptr<entry>> entries_;
  std::vector<std::string> names_;  // of parameters that are handed in

  std::optional<bucket_plan> plan_;
  std::vector<tensor_shape> shapes_, shapes_scratch_;
  std::vector<std::string> bucket_names_;
  std::unique_ptr<T[]> packed_;        // all gradients, in the plan's order
  std::vector<std::uint8_t> present_;  // which of them are there
};

}  // namespace hvdlite
