// SPDX-License-Identifier: Apache-2.0
// Tests of optim/sgd.hpp against the formula in double, and its state per parameter.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include <hvdlite/core/element.hpp>
#include <hvdlite/optim/sgd.hpp>

namespace {

/// The update rule of torch.optim.SGD (dampening 0), written down once more.
struct reference {
  double rate, momentum, decay;
  bool nesterov;
  std::vector<double> velocity;
  bool started = false;

  void update(std::vector<double>& p, const std::vector<double>& g) {
    if (velocity.empty()) velocity.resize(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      double d = g[i] + decay * p[i];
      if (momentum != 0) {
        velocity[i] = started ? momentum * velocity[i] + d : d;
        d = nesterov ? d + momentum * velocity[i] : velocity[i];
      }
      p[i] -= rate * d;
    }
    started = true;
  }
};

template <class T>
void compare(const hvdlite::sgd_options& options, double tolerance) {
  constexpr std::size_t n = 5;
  hvdlite::Sgd sgd{options};
  reference plain{
      options.learning_rate, options.momentum, options.weight_decay, options.nesterov, {}};
  std::vector<T> p(n);
  std::vector<double> q(n);
  for (std::size_t i = 0; i < n; ++i) {
    q[i] = 0.25 * static_cast<double>(i) - 0.5;
    p[i] = static_cast<T>(static_cast<float>(q[i]));
  }
  for (int step = 0; step < 4; ++step) {
    std::vector<T> g(n);
    std::vector<double> h(n);
    for (std::size_t i = 0; i < n; ++i) {
      h[i] = 0.5 - 0.125 * static_cast<double>(i) * (step + 1);
      g[i] = static_cast<T>(static_cast<float>(h[i]));
    }
    sgd.update(0, std::span{p}, std::span<const T>{g});
    plain.update(q, h);
    for (std::size_t i = 0; i < n; ++i)
      CHECK(std::abs(static_cast<double>(p[i]) - q[i]) <= tolerance);
  }
}

}  // namespace

TEST_CASE("Sgd: plain, momentum, Nesterov, weight decay and all of them") {
  const hvdlite::sgd_options all[] = {
      {.learning_rate = 0.5},
      {.learning_rate = 0.1, .momentum = 0.9},
      {.learning_rate = 0.1, .momentum = 0.9, .nesterov = true},
      {.learning_rate = 0.1, .weight_decay = 0.25},
      {.learning_rate = 0.1, .momentum = 0.5, .weight_decay = 0.25, .nesterov = true}};
  for (const auto& options : all) {
    compare<double>(options, 1e-14);
    compare<float>(options, 1e-6);
    compare<hvdlite::float16>(options, 5e-3);
    compare<hvdlite::bfloat16>(options, 5e-2);
  }
}

TEST_CASE("Sgd: each parameter has its own velocity, and options may change between steps") {
  hvdlite::Sgd sgd{{.learning_rate = 1, .momentum = 1}};
  std::vector<float> a{0}, b{0};
  const std::vector<float> one{1};
  sgd.update(3, std::span{a}, std::span<const float>{one});
  sgd.update(3, std::span{a}, std::span<const float>{one});
  sgd.update(0, std::span{b}, std::span<const float>{one});
  CHECK(a[0] == -3);  // 1, then 1 + 1
  CHECK(b[0] == -1);
  sgd.options().learning_rate = 0.5;
  sgd.update(0, std::span{b}, std::span<const float>{one});
  CHECK(b[0] == -2);
}

TEST_CASE("Sgd: options without sense and changed sizes are refused") {
  CHECK_THROWS_AS(hvdlite::Sgd({.learning_rate = -1}), hvdlite::usage_error);
  CHECK_THROWS_AS(hvdlite::Sgd({.momentum = std::nan("")}), hvdlite::usage_error);
  CHECK_THROWS_AS(hvdlite::Sgd({.weight_decay = std::numeric_limits<double>::infinity()}),
                  hvdlite::usage_error);
  CHECK_THROWS_AS(hvdlite::Sgd({.nesterov = true}), hvdlite::usage_error);

  hvdlite::Sgd sgd{{.momentum = 0.9}};
  std::vector<float> p(2), q(3);
  sgd.update(0, std::span{p}, std::span<const float>{p});
  CHECK_THROWS_WITH_AS(
      sgd.update(0, std::span{q}, std::span<const float>{q}),
      "Sgd: parameter 0 has 3 elements and had 2 before; make a new optimizer for it",
      hvdlite::usage_error);
}
