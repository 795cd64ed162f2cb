// SPDX-License-Identifier: Apache-2.0
// One parameter and its gradient, whatever their classes: what a step does with them, behind one
// interface, so that the step itself is compiled once.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>

#include <hvdlite/collective/arguments.hpp>
#include <hvdlite/core/error.hpp>
#include <hvdlite/optim/clip.hpp>
#include <hvdlite/optim/optimizer.hpp>
#include <hvdlite/optim/parameter_list.hpp>
#include <hvdlite/tensor/pack.hpp>
#include <hvdlite/tensor/tensor_set.hpp>

namespace hvdlite::detail {

/// A function that somebody else keeps.
template <class Argument>
class function_ref {
 public:
  template <class F>
    requires(!std::same_as<std::remove_const_t<F>, function_ref>)
  function_ref(F& f)
      : object_{const_cast<void*>(static_cast<const void*>(&f))},
        call_{[](void* object, Argument x) { (*static_cast<F*>(object))(x); }} {}
  void operator()(Argument x) const { call_(object_, x); }

 private:
  void* object_;
  void (*call_)(void*, Argument);
};

/// A gradient at a glance.
struct gradient_look {
  bool present = false;
  /// Of its elements; null if it is an expression, and has none yet.
  const void* address = nullptr;
};

enum class gradient_change { scale, clamp, zero };

/// See the file's head. `order`: the parameter's shape, in whose memory order packed elements are.
class parameter {
 public:
  parameter() = default;
  parameter(const parameter&) = delete;
  parameter& operator=(const parameter&) = delete;
  virtual ~parameter() = default;

  /// Of the parameter.
  virtual memory_layout layout() const = 0;
  /// Throws usage_error if the gradient does not fit. (An expression shows it when it is
  /// evaluated.)
  virtual gradient_look look(const tensor_shape& order) const = 0;
  virtual bool gradient_writable() const = 0;
  /// The gradient's elements: its own if they lie in that order, else copied to `scratch`; null if
  /// it is absent.
  virtual const void* gradient(void* scratch, const tensor_shape& order) const = 0;
  /// Overwrites the gradient, if it is there.
  virtual void unpack(const void* from, const tensor_shape& order) const = 0;
  virtual void change(gradient_change how, double by) const = 0;
  /// Updates the parameter by the gradient as it is; false if it is absent. Or by a packed one.
  virtual bool update_alone(void* optimizer, std::size_t index) const = 0;
  virtual void update(void* optimizer, std::size_t index, const void* packed) const = 0;
};

using parameter_visitor = function_ref<const parameter&>;
/// Calls a function for each parameter, in order.
using parameter_source = function_ref<parameter_visitor>;

/// What a call of the user's is about.
struct step_target {
  parameter_source each;
  const name_list& names;
  void* optimizer = nullptr;
  /// Of an optimizer that holds its parameters; null for others.
  void (*step_whole)(void* optimizer) = nullptr;
};

HVDLITE_COLD inline void expect_fit(const tensor_shape& gradient, const tensor_shape& parameter) {
  if (!gradient.fits(parameter))
    fail<usage_error>({"the gradient is ", gradient.extents_text(), ", the parameter ",
                       parameter.extents_text()});
}

template <class T>
constexpr void expect_element_of(const auto& x) {
  static_assert(std::same_as<element_of<decltype(x)>, T>,
                "hvdlite: a parameter or gradient has another element type than the Tensor of this "
                "DistributedOptimizer");
}

/// Whether the i-th elements in memory stand for the same, given that the two fit.
inline bool same_order(const tensor_shape& a, const tensor_shape& b) {
  return a.ordered < 2 || (a.rank == b.rank && a.outermost_first == b.outermost_first);
}

/// Elements in the order of `mine` to the order of `wanted`, which fits.
template <class T>
void reorder(const void* from, const tensor_shape& mine, void* to, const tensor_shape& wanted) {
  if (same_order(mine, wanted)) {
    std::memcpy(to, from, mine.count() * sizeof(T));
    return;
  }
  if (mine.rank != wanted.rank)
    fail<usage_error>(
        {"the gradient has another number of dimensions than the parameter, and "
         "another memory order; store both alike"});
  hvdlite::pack(strided_buffer<const T>{static_cast<const T*>(from), mine}, static_cast<T*>(to),
                wanted);
}

/// Of a parameter whose gradient plays no part.
struct no_gradient {};

/// Whether using a gradient of type G evaluates it.
template <class G>
constexpr bool is_evaluated() {
  if constexpr (nullable_tensor<G>)
    return is_evaluated<decltype(*std::declval<G&>())>();
  else
    return tensor_expression<G>;
}

/// The gradient's side.
template <class T, class G>
class gradient_access : public parameter {
 public:
  explicit gradient_access(G& gradient) : gradient_{gradient} {}

  gradient_look look([[maybe_unused]] const tensor_shape& order) const override {
    gradient_look result;
    if constexpr (is_evaluated<G>()) {
      if constexpr (nullable_tensor<G>)
        result.present = static_cast<bool>(gradient_);
      else
        result.present = true;
    } else {
      with_gradient([&](auto& g) {
        const auto v = hvdlite::view(g);
        const tensor_shape is = hvdlite::shape(g);
        if (is_absent(is, order)) return;
        expect_fit(is, order);
        result = {true, v.data};
      });
    }
    return result;
  }

  bool gradient_writable() const override {
    bool result = true;
    if constexpr (is_evaluated<G>())
      result = false;
    else
      with_gradient([&](auto& g) { result = writable_tensor<decltype(g)>; });
    return result;
  }

  const void* gradient(void* scratch, const tensor_shape& order) const override {
    const void* result = nullptr;
    with_gradient([&](auto& g) {
      expect_element_of<T>(g);
      const auto memory = contiguous_of(g);
      const tensor_shape& is = memory.shape();
      if (is_absent(is, order)) return;
      expect_fit(is, order);
      if (!is_evaluated<G>() && same_order(is, order) &&
          memory.read() == reinterpret_cast<const std::byte*>(hvdlite::view(g).data)) {
        result = memory.read();
      } else {
        result = scratch;
        if (memory.count() != 0) reorder<T>(memory.read(), is, scratch, order);
      }
    });
    return result;
  }

  void unpack(const void* from, const tensor_shape& order) const override {
    on_writable([&](auto& g) {
      const auto memory = contiguous_of(g);
      if (memory.count() != 0) reorder<T>(from, order, memory.write(), memory.shape());
      memory.write_back();
    });
  }

  void change(gradient_change how, double by) const override {
    on_writable([&](auto& g) {
      const auto memory = contiguous_of(g);
      auto* const x = reinterpret_cast<T*>(memory.write());
      if (how == gradient_change::zero) {
        for (std::size_t i = 0; i < memory.count(); ++i) x[i] = T{};
      } else if constexpr (is_floating_v<T>) {
        if (how == gradient_change::scale)
          scale_elements(x, memory.count(), by);
        else
          clamp_elements(x, memory.count(), by);
      }
      memory.write_back();
    });
  }

 protected:
  template <class F>
  bool with_gradient(F&& f) const {
    if constexpr (std::same_as<G, no_gradient>)
      return false;
    else
      return hvdlite::with_value(gradient_, f);
  }

  /// Empty, where the parameter is not.
  static bool is_absent(const tensor_shape& is, const tensor_shape& wanted) {
    return is.count() == 0 && wanted.count() != 0;
  }

 private:
  template <class F>
  void on_writable(F&& f) const {
    with_gradient([&](auto& g) {
      expect_element_of<T>(g);
      if constexpr (writable_tensor<decltype(g)>)
        f(g);
      else
        fail<usage_error>({"the gradient is const, and was to be written"});
    });
  }

  G& gradient_;
};

/// A gradient alone: of an optimizer that holds its parameters, or to be clipped.
template <class T, class G>
class gradient_only final : public gradient_access<T, G> {
 public:
  explicit gradient_only(G& gradient) : gradient_access<T, G>{gradient} {}

  memory_layout layout() const override {
    memory_layout result;
    if constexpr (!is_evaluated<G>()) this->with_gradient([&](auto& g) { result = layout_of(g); });
    return result;
  }
  bool update_alone(void*, std::size_t) const override { return true; }
  void update(void*, std::size_t, const void*) const override {}
};

/// A parameter P for optimizer Opt, with its gradient G.
template <class Opt, class T, class P, class G>
class typed_parameter final : public gradient_access<T, G> {
 public:
  typed_parameter(P& p, G& g) : gradient_access<T, G>{g}, parameter_{p} {}

  memory_layout layout() const override { return layout_of(parameter_); }

  bool update_alone(void* optimizer, std::size_t index) const override {
    bool present = false;
    this->with_gradient([&](const auto& g) {
      expect_element_of<T>(g);
      const tensor_shape wanted = hvdlite::shape(parameter_);
      if (this->is_absent(hvdlite::shape(g), wanted)) return;
      expect_fit(hvdlite::shape(g), wanted);
      present = true;
      if constexpr (by_span<decltype(g)>) {
        const auto memory = contiguous_of(g);
        if (same_order(memory.shape(), wanted))
          return update_span(optimizer, index, reinterpret_cast<const T*>(memory.read()));
        const auto turned = std::make_unique_for_overwrite<T[]>(wanted.count());
        reorder<T>(memory.read(), memory.shape(), turned.get(), wanted);
        update_span(optimizer, index, turned.get());
      } else {
        update_tensor(optimizer, index, g);
      }
    });
    return present;
  }

  void update(void* optimizer, std::size_t index, const void* packed) const override {
    if constexpr (by_span<P>) {
      update_span(optimizer, index, static_cast<const T*>(packed));
    } else {  // this optimizer wants a tensor of its own kind: one like the parameter
      auto g = owning_copy(parameter_);
      const auto memory = contiguous_of(g);
      if (memory.count() != 0) {
        if (memory.read() == contiguous_of(parameter_).read())
          fail<usage_error>(
              {"the optimizer takes tensors, and a copy of a parameter shares its "
               "memory: add an evaluate() that copies to its hvdlite::tensor_traits, "
               "or let the optimizer take std::span"});
        std::memcpy(memory.write(), packed, memory.count() * sizeof(T));
      }
      update_tensor(optimizer, index, g);
    }
  }

 private:
  static constexpr bool by_address =
      requires(Opt& o, std::span<T> p, std::span<const T> g) { o.step(p, g); } &&
      !requires(Opt& o, std::size_t i, std::span<T> p, std::span<const T> g) { o.update(i, p, g); };

  /// Spans go to an optimizer that takes nothing else, and where the parameter is as good as one:
  /// but not without an index, since such an optimizer knows a parameter by its address.
  template <class Gradient>
  static constexpr bool by_span =
      span_optimizer<Opt, T> &&
      (!tensor_optimizer<Opt, P, std::remove_cvref_t<Gradient>> || std::is_array_v<P> ||
       (std::convertible_to<P&, std::span<T>> && (borrowed_tensor<P> || !by_address)));

  void update_span(void* optimizer, std::size_t index, const T* g) const {
    expect_element_of<T>(parameter_);
    const auto memory = contiguous_of(parameter_);
    std::span<T> p{reinterpret_cast<T*>(memory.write()), memory.count()};
    optimizer_traits<Opt>::update(*static_cast<Opt*>(optimizer), index, p,
                                  std::span<const T>{g, memory.count()});
    memory.write_back();
  }

  void update_tensor(void* optimizer, std::size_t index, const auto& g) const {
    using Gradient = std::remove_cvref_t<decltype(g)>;
    static_assert(tensor_optimizer<Opt, P, Gradient>,
                  "hvdlite: the wrapped optimizer has no update(index, parameter, gradient) or "
                  "step(parameter, gradient) for these types; see hvdlite::optimizer_traits");
    optimizer_traits<Opt>::update(*static_cast<Opt*>(optimizer), index, parameter_, g);
  }

  static auto owning_copy(const auto& p) {
    using Bare = std::remove_cvref_t<decltype(p)>;
    if constexpr (requires { traits_of<Bare>::evaluate(p); }) {
      return traits_of<Bare>::evaluate(p);
    } else {
      static_assert(!borrowed_tensor<Bare>,
                    "hvdlite: the wrapped optimizer takes tensors, and this parameter is a view "
                    "without a tensor_traits::evaluate that copies it");
      return Bare{p};
    }
  }

  P& parameter_;
};

}  // namespace hvdlite::detail
