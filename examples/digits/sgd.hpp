// SPDX-License-Identifier: Apache-2.0
// Stochastic gradient descent with momentum, for the program on one process. main.cpp does without.
#pragma once

#include <Eigen/Dense>

#include <cstddef>
#include <tuple>
#include <utility>
#include <vector>

namespace digits {

class Sgd {
 public:
  Sgd(float learning_rate, float momentum) : learning_rate_{learning_rate}, momentum_{momentum} {}

  /// Two tuples of matrices and vectors, one after the other of the same shape.
  template <class... P, class... G>
  void step(const std::tuple<P&...>& parameters, const std::tuple<G&...>& gradients) {
    velocity_.resize(sizeof...(P));
    const auto update_all = [&]<std::size_t... I>(std::index_sequence<I...>) {
      (update(std::get<I>(parameters), std::get<I>(gradients), velocity_[I]), ...);
    };
    update_all(std::index_sequence_for<P...>{});
  }

 private:
  template <class P, class G>
  void update(P& parameter, const G& gradient, Eigen::MatrixXf& velocity) const {
    if (velocity.size() == 0) velocity.setZero(gradient.rows(), gradient.cols());
    velocity = momentum_ * velocity + gradient;
    parameter -= learning_rate_ * velocity;
  }

  float learning_rate_, momentum_;
  std::vector<Eigen::MatrixXf> velocity_;
};

}  // namespace digits
