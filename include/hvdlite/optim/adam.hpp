// SPDX-License-Identifier: Apache-2.0
// Adam (Kingma and Ba, 2015) and AdamW (Loshchilov and Hutter, 2019), in the form and order of
// operations of PyTorch's torch.optim.Adam and AdamW.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include <hvdlite/core/element.hpp>
#include <hvdlite/core/error.hpp>
#include <hvdlite/core/list.hpp>
#include <hvdlite/core/text.hpp>
#include <hvdlite/ops/reduce_op.hpp>

namespace hvdlite {

/// Hyper-parameters of Adam; may be changed between steps.
struct adam_options {
  double learning_rate = 1e-3;
  double beta1 = 0.9;       ///< of the mean of gradients
  double beta2 = 0.999;     ///< of the mean of their squares
  double epsilon = 1e-8;    ///< added to the root of that
  double weight_decay = 0;  ///< L2: added to the gradient as weight_decay * parameter
  bool amsgrad = false;     ///< divide by the largest mean of squares so far
};

/// Hyper-parameters of AdamW; may be changed between steps.
struct adamw_options {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 1e-2;  ///< decoupled: parameter -= learning_rate * weight_decay * parameter
  bool amsgrad = false;
};

namespace detail {

template <class Options>
HVDLITE_COLD void expect_adam_options(const char* name, const Options& o) {
  const auto valid = [](double x) { return is_finite(x) && x >= 0; };
  if (!valid(o.learning_rate) || !valid(o.epsilon) || !valid(o.weight_decay))
    fail<usage_error>(
        {name, ": learning_rate, epsilon and weight_decay must be finite and not negative"});
  const auto decays = [&](double x) { return valid(x) && x < 1; };
  if (!decays(o.beta1) || !decays(o.beta2))
    fail<usage_error>({name, ": beta1 and beta2 must be at least 0 and below 1"});
}

/// What both remember of their parameters: how many steps each has made, and its moments.
class adam_state {
 public:
  /// A step of parameter `index` in elements T; C: what is computed with. `Options::weight_decay`
  /// is decoupled or not.
  template <bool Decoupled, class T, class Options>
  void update(const char* name, const Options& o, std::size_t index, std::span<T> parameter,
              std::span<const T> gradient) {
    using C = compute_t<T>;
    moments& state = of(name, index, parameter.size(), sizeof(C), o.amsgrad);
    const auto step = static_cast<double>(++state.steps);
    C* const mean = reinterpret_cast<C*>(state.mean.data());
    C* const square = reinterpret_cast<C*>(state.square.data());
    C* const most = o.amsgrad ? reinterpret_cast<C*>(state.most.data()) : nullptr;
    // PyTorch has its scalars in double and rounds them where they meet an element.
    const C keep1 = static_cast<C>(o.beta1), add1 = static_cast<C>(1 - o.beta1);
    const C keep2 = static_cast<C>(o.beta2), add2 = static_cast<C>(1 - o.beta2);
    const C decay = static_cast<C>(o.weight_decay);
    const C shrink = static_cast<C>(1 - o.learning_rate * o.weight_decay);
    const C rate = static_cast<C>(o.learning_rate / (1 - std::pow(o.beta1, step)));
    const C root = static_cast<C>(std::sqrt(1 - std::pow(o.beta2, step)));
    const C epsilon = static_cast<C>(o.epsilon);
    for (std::size_t i = 0; i < parameter.size(); ++i) {
      C p = static_cast<C>(parameter[i]);
      C g = static_cast<C>(gradient[i]);
      if constexpr (Decoupled)
        p *= shrink;
      else if (decay != C(0))
        g += decay * p;
      mean[i] = add1 < C(0.5) ? mean[i] + add1 * (g - mean[i]) : g - (g - mean[i]) * keep1;
      square[i] = keep2 * square[i] + add2 * g * g;
      C divisor = square[i];
      if (most != nullptr) {
        if (most[i] < divisor || is_nan(divisor)) most[i] = divisor;
        divisor = most[i];
      }
      parameter[i] = static_cast<T>(p - rate * mean[i] / (std::sqrt(divisor) / root + epsilon));
    }
  }

  std::uint64_t steps(std::size_t index) const {
    return index < all_.size() ? all_[index].steps : 0;
  }

 private:
  /// Bytes: of float or double, as the parameter's elements ask.
  struct moments {
    std::uint64_t steps = 0;
    std::size_t count = 0, element_bytes = 0;
    list<std::byte> mean, square, most;
  };

  HVDLITE_OUT_OF_LINE moments& of(const char* name, std::size_t index, std::size_t count,
                                  std::size_t element_bytes, bool amsgrad) {
    if (index >= all_.size()) all_.resize(index + 1);
    moments& state = all_[index];
    if (state.steps == 0) {
      state.count = count;
      state.element_bytes = element_bytes;
      zeros(state.mean, count * element_bytes);
      zeros(state.square, count * element_bytes);
    }
    if (state.count != count || state.element_bytes != element_bytes)
      fail<usage_error>({name, ": parameter ", index, " has ", count, " elements and had ",
                         state.count, " before; make a new optimizer for it"});
    if (amsgrad && state.most.size() != state.mean.size()) zeros(state.most, state.mean.size());
    return state;
  }

  static void zeros(list<std::byte>& memory, std::size_t bytes) {
    memory.resize_for_overwrite(bytes);
    if (bytes != 0) std::memset(static_cast<void*>(memory.data()), 0, bytes);
  }

  std::vector<moments> all_;
};

}  // namespace detail

/// What Adam and AdamW have in common.
template <class Options>
class basic_adam {
  static constexpr bool decoupled = std::same_as<Options, adamw_options>;
  static constexpr const char* name = decoupled ? "AdamW" : "Adam";

 public:
  using options_type = Options;

  /// Throws usage_error for options without sense.
  explicit basic_adam(const Options& options = {}) : options_{options} {
    detail::expect_adam_options(name, options);
  }

  Options& options() { return options_; }
  const Options& options() const { return options_; }
  /// How often parameter number `index` was updated.
  std::uint64_t steps(std::size_t index) const { return state_.steps(index); }

  /// Updates parameter number `index`. Local, not collective. Throws usage_error if its size has
  /// changed.
  template <class T>
    requires is_floating_v<T>
  void update(std::size_t index, std::span<T> parameter, std::span<const T> gradient) {
    state_.template update<decoupled>(name, options_, index, parameter, gradient);
  }

 private:
  Options options_;
  detail::adam_state state_;
};

/// g += weight_decay * p;  m += (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g^2;
/// p -= learning_rate / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon), where t counts
/// the steps of the parameter, and with amsgrad the largest v so far takes v's place. Halves are
/// computed with in float. m and v start at zero and have the parameter's precision, float for
/// halves.
using Adam = basic_adam<adam_options>;

/// Adam whose weight decay is decoupled from the gradient: p *= 1 - learning_rate * weight_decay
/// before the step, instead of g += weight_decay * p.
using AdamW = basic_adam<adamw_options>;

}  // namespace hvdlite
