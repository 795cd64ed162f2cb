// SPDX-License-Identifier: Apache-2.0
// Trains a small perceptron on handwritten digits, on one process. main.cpp is the same program on
// any number of them; `diff single_process.cpp main.cpp` shows what that takes.
#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "data.hpp"
#include "mlp.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "sgd.hpp"

int train(int argc, char** argv) {
  const int rank = 0;
  const digits::Options options{argc, argv, rank};
  if (options.exit_code) return *options.exit_code;

  const auto [train, test] = digits::load(options.data);
  const auto train_rows = train.images.rows(), test_rows = test.images.rows();

  digits::Mlp model{train.images.cols(), options.hidden};
  digits::Mlp gradients = model;
  model.initialise(options.seed);
  digits::Sgd optimizer{options.learning_rate, options.momentum};

  std::vector<Eigen::Index> order(static_cast<std::size_t>(train_rows));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random{options.seed};
  digits::Progress progress{options, std::size_t(train_rows), rank};
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    double loss = 0;
    std::int64_t correct = 0;
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t first = 0; first < order.size(); first += options.batch) {
      const std::span batch{&order[first], std::min(options.batch, order.size() - first)};
      loss += model.backward(train.images(batch, Eigen::all), train.labels(batch), gradients);
      optimizer.step(model.parameters(), gradients.parameters());
      progress.step_done();
    }
    correct += model.count_correct(test.images, test.labels);
    progress.epoch_done(loss / double(train_rows), double(correct) / double(test_rows));
  }

  std::printf("parameters 0x%016" PRIx64 "\n", model.hash());
  return 0;
}

int main(int argc, char** argv) {
  try {
    return train(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
