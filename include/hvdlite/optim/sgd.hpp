// SPDX-License-Identifier: Apache-2.0
// Stochastic gradient descent with momentum, Nesterov momentum and weight decay, in the form and
// order of operations of PyTorch's torch.optim.SGD.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

#include <hvdlite/core/element.hpp>
#include <hvdlite/core/error.hpp>
#include <hvdlite/core/text.hpp>
#include <hvdlite/ops/reduce_op.hpp>

namespace hvdlite {

/// Hyper-parameters of Sgd; may be changed between steps.
struct sgd_options {
  double learning_rate = 0.01;
  double momentum = 0;      ///< 0: none, and no memory for it
  double weight_decay = 0;  ///< L2: added to the gradient as weight_decay * parameter
  bool nesterov = false;    ///< needs momentum
};

/// g += weight_decay * p;  v = momentum * v + g;  p -= learning_rate * (nesterov ? g + momentum * v
/// : v). Halves are computed with in float. The velocity v of each parameter starts at zero and has
/// the parameter's precision, float for halves.
class Sgd {
 public:
  using options_type = sgd_options;

  /// Throws usage_error for options without sense.
  explicit Sgd(const sgd_options& options = {}) : options_{options} {
    const auto valid = [](double x) { return detail::is_finite(x) && x >= 0; };
    if (!valid(options.learning_rate) || !valid(options.momentum) || !valid(options.weight_decay))
      detail::fail<usage_error>(
          {"Sgd: learning_rate, momentum and weight_decay must be finite and not "
           "negative"});
    if (options.nesterov && options.momentum == 0)
      detail::fail<usage_error>({"Sgd: nesterov needs a momentum"});
  }

  sgd_options& options() { return options_; }
  const sgd_options& options() const { return options_; }

  /// Updates parameter number `index`. Local, not collective.
  template <class T>
    requires is_floating_v<T>
  void update(std::size_t index, std::span<T> parameter, std::span<const T> gradient) {
    using C = detail::compute_t<T>;
    const C rate = static_cast<C>(options_.learning_rate);
    const C momentum = static_cast<C>(options_.momentum);
    const C decay = static_cast<C>(options_.weight_decay);
    C* velocity = momentum != C(0) ? velocity_of<C>(index, parameter.size()) : nullptr;
    for (std::size_t i = 0; i < parameter.size(); ++i) {
      const C p = static_cast<C>(parameter[i]);
      C g = static_cast<C>(gradient[i]);
      if (decay != C(0)) g += decay * p;
      if (velocity != nullptr) {
        velocity[i] = momentum * velocity[i] + g;
        g = options_.nesterov ? g + momentum * velocity[i] : velocity[i];
      }
      parameter[i] = static_cast<T>(p - rate * g);
    }
  }

 private:
  /// Of one parameter, in its precision; the other one is empty.
  struct velocities {
    std::vector<float> single;
    std::vector<double> twofold;
  };

  template <class C>
  C* velocity_of(std::size_t index, std::size_t count) {
    if (index >= velocities_.size()) velocities_.resize(index + 1);
    std::vector<C>* mine;
    if constexpr (std::same_as<C, float>)
      mine = &velocities_[index].single;
    else
      mine = &velocities_[index].twofold;
    if (mine->empty()) mine->resize(count);
    if (mine->size() != count)
      detail::fail<usage_error>({"Sgd: parameter ", index, " has ", count, " elements and had ",
                                 mine->size(), " before; make a new optimizer for it"});
    return mine->data();
  }

  sgd_options options_;
  std::vector<velocities> velocities_;
};

}  // namespace hvdlite
