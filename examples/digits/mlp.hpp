// SPDX-License-Identifier: Apache-2.0
// A multilayer perceptron with one hidden layer, tanh and softmax cross-entropy, written with
// Eigen. It knows nothing of processes: weights are matrices, biases vectors, gradients means over
// the rows that were passed in.
#pragma once

#include <Eigen/Dense>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <tuple>

namespace digits {

/// A sample is a row; row-major, so that picking the rows of a batch copies whole rows.
using Images = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Labels = Eigen::VectorXi;

constexpr Eigen::Index classes = 10;

/// The parameters, and by the same type their gradients.
struct Mlp {
  Eigen::MatrixXf w1, w2;  // pixels x hidden, hidden x classes
  Eigen::VectorXf b1, b2;

  Mlp(Eigen::Index pixels, Eigen::Index hidden)
      : w1{Eigen::MatrixXf::Zero(pixels, hidden)},
        w2{Eigen::MatrixXf::Zero(hidden, classes)},
        b1{Eigen::VectorXf::Zero(hidden)},
        b2{Eigen::VectorXf::Zero(classes)} {}

  auto parameters() { return std::tie(w1, b1, w2, b2); }

  /// Random weights (Glorot and Bengio, 2010), zero biases.
  void initialise(std::uint64_t seed) {
    std::mt19937_64 random{seed};
    for (Eigen::MatrixXf* w : {&w1, &w2}) {
      const float limit = std::sqrt(6.0f / float(w->rows() + w->cols()));
      std::uniform_real_distribution<float> uniform{-limit, limit};
      *w = Eigen::MatrixXf::NullaryExpr(w->rows(), w->cols(), [&] { return uniform(random); });
    }
  }

  /// Equal for equal bits (FNV-1a, over 32-bit words).
  std::uint64_t hash() const {
    std::uint64_t hash = 0xcbf29ce484222325u;
    const auto add = [&](const auto& tensor) {
      for (const float value : tensor.reshaped())
        hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001b3u;
    };
    add(w1), add(b1), add(w2), add(b2);
    return hash;
  }

  /// How many of the images get their own label.
  Eigen::Index count_correct(const Images& images, const Labels& labels) const {
    const Eigen::MatrixXf scores = output(hidden(images));
    Eigen::Index correct = 0;
    for (Eigen::Index row = 0; row < scores.rows(); ++row) {
      Eigen::Index best = 0;
      scores.row(row).maxCoeff(&best);
      correct += best == labels(row);
    }
    return correct;
  }

  /// Writes the gradients of the mean loss of these images; returns the loss summed over them.
  double backward(const Images& images, const Labels& labels, Mlp& gradients) const {
    const Eigen::MatrixXf h = hidden(images);
    Eigen::MatrixXf delta = output(h);  // becomes d loss / d scores
    double loss = 0;                    // in double: 1,437 or 60,000 terms are added up
    for (Eigen::Index row = 0; row < delta.rows(); ++row) {
      auto scores = delta.row(row);
      scores.array() -= scores.maxCoeff();  // exp must not overflow
      const float own_score = scores(labels(row));
      scores = scores.array().exp().eval();
      const float sum = scores.sum();
      loss += std::log(double(sum)) - double(own_score);
      scores /= sum;
      scores(labels(row)) -= 1;
    }
    delta /= float(delta.rows());

    const Eigen::MatrixXf delta_h = (delta * w2.transpose()).array() * (1 - h.array().square());
    gradients.w2.noalias() = h.transpose() * delta;
    gradients.b2 = delta.colwise().sum();
    gradients.w1.noalias() = images.transpose() * delta_h;
    gradients.b1 = delta_h.colwise().sum();
    return loss;
  }

 private:
  Eigen::MatrixXf hidden(const Images& images) const {
    return ((images * w1).rowwise() + b1.transpose()).array().tanh();
  }
  Eigen::MatrixXf output(const Eigen::MatrixXf& h) const {
    return (h * w2).rowwise() + b2.transpose();
  }
};

}  // namespace digits
