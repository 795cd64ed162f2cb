// SPDX-License-Identifier: Apache-2.0
// Tests of optim/adam.hpp against the published formulas in long double, and by hand.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <hvdlite/core/element.hpp>
#include <hvdlite/optim/adam.hpp>

namespace {

using real = long double;

/// Algorithm 2 of Loshchilov and Hutter (2019) with both kinds of decay, and AMSGrad (Reddi et al.,
/// 2018) as PyTorch has it: moments first, corrections as whole vectors.
struct reference {
  bool decoupled = false;
  real rate = 1e-3L, beta1 = 0.9L, beta2 = 0.999L, epsilon = 1e-8L, decay = 0;
  bool amsgrad = false;
  std::vector<real> m, v, most;
  int t = 0;

  void update(std::vector<real>& theta, const std::vector<real>& slope) {
    m.resize(theta.size());
    v.resize(theta.size());
    most.resize(theta.size());
    ++t;
    for (std::size_t i = 0; i < theta.size(); ++i) {
      const real g = slope[i] + (decoupled ? 0 : decay * theta[i]);
      m[i] = beta1 * m[i] + (1 - beta1) * g;
      v[i] = beta2 * v[i] + (1 - beta2) * g * g;
      most[i] = std::max(most[i], v[i]);
      const real mean = m[i] / (1 - std::pow(beta1, real(t)));
      const real square = (amsgrad ? most[i] : v[i]) / (1 - std::pow(beta2, real(t)));
      const real shrunk = decoupled ? theta[i] - rate * decay * theta[i] : theta[i];
      theta[i] = shrunk - rate * mean / (std::sqrt(square) + epsilon);
    }
  }
};

template <class Optimizer, class Options>
reference reference_for(const Options& o) {
  reference r;
  r.decoupled = std::is_same_v<Optimizer, hvdlite::AdamW>;
  r.rate = real(o.learning_rate);
  r.beta1 = real(o.beta1);
  r.beta2 = real(o.beta2);
  r.epsilon = real(o.epsilon);
  r.decay = real(o.weight_decay);
  r.amsgrad = o.amsgrad;
  return r;
}

/// Ten steps; the options change after the sixth.
template <class Optimizer, class T, class Options>
void compare(const Options& options, double tolerance) {
  constexpr std::size_t n = 7;
  Optimizer adam{options};
  reference plain = reference_for<Optimizer>(options);
  std::vector<T> p(n);
  std::vector<real> q(n);
  for (std::size_t i = 0; i < n; ++i) {
    p[i] = static_cast<T>(0.25f * static_cast<float>(i) - 0.5f);
    q[i] = static_cast<real>(static_cast<double>(p[i]));
  }
  for (int step = 1; step <= 10; ++step) {
    std::vector<T> g(n);
    std::vector<real> h(n);
    for (std::size_t i = 0; i < n; ++i) {
      const double slope = (step < 4 ? 1 : 0.25) * std::cos(static_cast<double>(i) + step);
      g[i] = static_cast<T>(static_cast<float>(slope));
      h[i] = static_cast<real>(static_cast<double>(g[i]));
    }
    if (step == 7) {
      adam.options().learning_rate *= 0.5;
      plain.rate *= 0.5L;
      adam.options().weight_decay = 0.125;
      plain.decay = 0.125L;
    }
    adam.update(3, std::span{p}, std::span<const T>{g});
    plain.update(q, h);
    CHECK(adam.steps(3) == static_cast<std::uint64_t>(step));
    for (std::size_t i = 0; i < n; ++i)
      CHECK_MESSAGE(std::abs(static_cast<double>(p[i]) - static_cast<double>(q[i])) <= tolerance,
                    "step " << step << ", element " << i);
  }
  CHECK(adam.steps(0) == 0);
}

}  // namespace

TEST_CASE_TEMPLATE("Adam and AdamW: the formulas", Optimizer, hvdlite::Adam, hvdlite::AdamW) {
  using options = typename Optimizer::options_type;
  const options all[] = {{},
                         {.learning_rate = 0.1},
                         {.learning_rate = 0.1, .weight_decay = 0.25},
                         {.learning_rate = 0.05, .beta1 = 0.5, .beta2 = 0.75},
                         {.learning_rate = 0.05, .beta1 = 0.3, .beta2 = 0.9, .epsilon = 1e-3},
                         {.learning_rate = 0.1, .beta2 = 0.5, .amsgrad = true},
                         {.learning_rate = 0.1, .beta1 = 0, .beta2 = 0}};
  for (const options& o : all) {
    compare<Optimizer, double>(o, 1e-14);
    compare<Optimizer, float>(o, 3e-6);
    compare<Optimizer, hvdlite::float16>(o, 1e-2);
    compare<Optimizer, hvdlite::bfloat16>(o, 5e-2);
  }
}

namespace {

/// Of libtorch 1.13.1, torch::optim::Adam and AdamW with learning rate 0.1, betas (0.9, 0.5) and
/// weight decay 0.25, after 1, 2 and 10 steps from p[i] = i / 2 - 0.75 with gradients
/// ((step * (i + 2)) % 5 - 2) / 4.
template <class Optimizer>
void compare_with_libtorch(bool amsgrad, const double (&expected)[3][4]) {
  Optimizer adam{{.learning_rate = 0.1, .beta2 = 0.5, .weight_decay = 0.25, .amsgrad = amsgrad}};
  std::vector<double> p{-0.75, -0.25, 0.25, 0.75}, g(4);
  for (int step = 1; step <= 10; ++step) {
    for (int i = 0; i < 4; ++i) g[static_cast<std::size_t>(i)] = ((step * (i + 2)) % 5 - 2) * 0.25;
    adam.update(0, std::span{p}, std::span<const double>{g});
    if (step > 2 && step < 10) continue;
    for (std::size_t i = 0; i < 4; ++i)
      CHECK(std::abs(p[i] - expected[step == 10 ? 2 : step - 1][i]) < 1e-14);
  }
}

}  // namespace

TEST_CASE("Adam and AdamW: the values of libtorch") {
  compare_with_libtorch<hvdlite::Adam>(
      false, {{-0.650000005333333, -0.349999994666667, 0.1500000017777778, 0.8499999968},
              {-0.6799984487511702, -0.3200015512488298, 0.0457457013244061, 0.9511058620708955},
              {-0.4223786699087747, -0.2592756560781435, -0.1512992330244033, 1.9567422250635}});
  compare_with_libtorch<hvdlite::Adam>(
      true, {{-0.650000005333333, -0.349999994666667, 0.1500000017777778, 0.8499999968},
             {-0.6799984487511702, -0.3200015512488298, 0.05903941969172032, 0.9511058620708955},
             {-0.4687336692959655, -0.2701799693166899, -0.07869424615229713, 1.660289737084734}});
  compare_with_libtorch<hvdlite::AdamW>(
      false, {{-0.73125, -0.3437499960000002, 0.143750002, 0.831249998},
              {-0.7774290048100836, -0.3298930884157896, 0.0359510450382981, 0.9104687460500001},
              {-0.7141465860934828, -0.3676295499614379, -0.1431874560189029, 1.476928714322946}});
  compare_with_libtorch<hvdlite::AdamW>(
      true, {{-0.73125, -0.3437499960000002, 0.143750002, 0.831249998},
             {-0.7774290048100836, -0.3298930884157896, 0.04991189521588281, 0.9104687460500001},
             {-0.6996797735499173, -0.351223642449458, -0.06678538559264237, 1.476928714322946}});
}

TEST_CASE("Adam: the first step is of the learning rate's size, by hand") {
  // t = 1: m / (1 - beta1) = g, v / (1 - beta2) = g^2, so p - rate * g / (|g| + epsilon).
  std::vector<double> p{1, 1}, g{0.5, -4};
  hvdlite::Adam adam{{.learning_rate = 0.25, .epsilon = 0.5}};
  adam.update(0, std::span{p}, std::span<const double>{g});
  CHECK(std::abs(p[0] - (1 - 0.25 * 0.5 / 1.0)) < 1e-15);
  CHECK(std::abs(p[1] - (1 + 0.25 * 4 / 4.5)) < 1e-15);
  // Decay that is decoupled does not go through the moments.
  std::vector<double> q{1}, zero{0};
  hvdlite::AdamW decoupled{{.learning_rate = 0.25, .weight_decay = 0.5}};
  decoupled.update(0, std::span{q}, std::span<const double>{zero});
  CHECK(q[0] == 1 - 0.125);
  hvdlite::Adam coupled{{.learning_rate = 0.25, .epsilon = 0, .weight_decay = 0.5}};
  q = {1};
  coupled.update(0, std::span{q}, std::span<const double>{zero});
  CHECK(std::abs(q[0] - 0.75) < 1e-15);
  CHECK(hvdlite::adam_options{}.weight_decay == 0);
  CHECK(hvdlite::adamw_options{}.weight_decay == 1e-2);
}

TEST_CASE("Adam: halves have moments in float, and each parameter counts its own steps") {
  using half = hvdlite::float16;
  hvdlite::Adam adam{{.learning_rate = 1}};
  std::vector<half> p{half{0.0f}}, g{half{1e-4f}};  // its square is no half
  adam.update(0, std::span{p}, std::span<const half>{g});
  CHECK(std::abs(float{p[0]} + 1) < 1e-3f);
  std::vector<float> q{0}, h{1};
  for (int i = 0; i < 3; ++i) adam.update(2, std::span{q}, std::span<const float>{h});
  CHECK(adam.steps(0) == 1);
  CHECK(adam.steps(1) == 0);
  CHECK(adam.steps(2) == 3);
}

TEST_CASE("Adam: options without sense and changed sizes are refused") {
  using hvdlite::usage_error;
  CHECK_THROWS_AS(hvdlite::Adam({.learning_rate = -1}), usage_error);
  CHECK_THROWS_AS(hvdlite::Adam({.beta1 = 1}), usage_error);
  CHECK_THROWS_AS(hvdlite::Adam({.beta2 = -0.1}), usage_error);
  CHECK_THROWS_AS(hvdlite::Adam({.epsilon = std::nan("")}), usage_error);
  CHECK_THROWS_AS(hvdlite::AdamW({.weight_decay = std::numeric_limits<double>::infinity()}),
                  usage_error);
  CHECK_THROWS_AS(hvdlite::AdamW({.beta1 = std::nan("")}), usage_error);

  hvdlite::AdamW adam;
  std::vector<float> p(2), q(3);
  adam.update(0, std::span{p}, std::span<const float>{p});
  CHECK_THROWS_WITH_AS(
      adam.update(0, std::span{q}, std::span<const float>{q}),
      "AdamW: parameter 0 has 3 elements and had 2 before; make a new optimizer for it",
      usage_error);
  // amsgrad may be switched on later.
  adam.options().amsgrad = true;
  adam.update(0, std::span{p}, std::span<const float>{p});
}
