// SPDX-License-Identifier: Apache-2.0
// A further test of optim/distributed_optimizer.hpp: everything that it can do, in random order.
#include "support/ranks.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hvdlite/optim/distributed_optimizer.hpp>
#include <hvdlite/optim/sgd.hpp>

using doubles = std::vector<double>;
using hvdlite::DistributedOptimizer;
using hvdlite::Sgd;

namespace {

/// What rank `rank` does in pass `pass` of update `update`: a number that looks random.
unsigned dice(unsigned a, unsigned b, unsigned c, unsigned sides) {
  std::uint64_t x =
      (a * 0x9e3779b97f4a7c15u) ^ (b * 0xbf58476d1ce4e5b9u) ^ (c * 0x94d049bb133111ebu);
  x ^= x >> 31;
  x *= 0xd6e8feb86659fd93u;
  x ^= x >> 32;
  return static_cast<unsigned>(x % sides);
}

}  // namespace

TEST_CASE("DistributedOptimizer: random sequences of everything, against plain sums") {
  constexpr std::size_t n = 4;  // parameters
  constexpr double rate = 0.25, momentum = 0.5, decay = 0.125;
  const auto value = [](unsigned r, unsigned at, std::size_t i) {
    return static_cast<double>(dice(r, at, 100 + static_cast<unsigned>(i), 64)) / 8 - 4;
  };
  const auto present = [](unsigned r, unsigned at, std::size_t i) {
    return dice(r, at, 200 + static_cast<unsigned>(i), 3) != 0;
  };
  const auto samples = [](unsigned r, unsigned at) { return dice(r, at, 1, 4); };  // 0 to 3
  const auto body = [&](const auto& world) {
    const auto size = static_cast<unsigned>(world.size());
    const auto me = static_cast<unsigned>(world.rank());
    std::vector<doubles> params(n, doubles(3, 1)), grads(n);
    doubles expected(n, 1), velocity(n, 0);
    DistributedOptimizer<Sgd, double> opt{
        world,
        {.learning_rate = rate, .momentum = momentum, .weight_decay = decay},
        {.bucket_bytes = 50}};
    for (unsigned update = 0; update < 60; ++update) {
      const unsigned kind = dice(update, 2, 3, 4);  // of all ranks: flush, clip or plain steps
      const bool weighted = dice(update, 4, 5, 2) == 0;
      const auto passes = [&](unsigned r) { return (kind == 0 ? 0u : 1u) + dice(r, update, 6, 3); };
      const auto backward = [&](unsigned at) {
        for (std::size_t i = 0; i < n; ++i)
          grads[i].assign(present(me, at, i) ? 3 : 0, value(me, at, i));
      };
      hvdlite::step_options options;
      const auto pass = [&](unsigned k) {
        const unsigned at = update * 8 + k;
        backward(at);
        options =
            weighted ? hvdlite::step_options{.samples = samples(me, at)} : hvdlite::step_options{};
      };
      bool updated = false;
      {
        const auto guard = opt.no_sync();
        for (unsigned k = 0; k + (kind == 0 ? 0 : 1) < passes(me); ++k) {
          pass(k);
          CHECK(!opt.step(params, grads, options));
        }
      }
      if (kind == 0) {
        updated = opt.flush(params);
      } else {
        pass(passes(me) - 1);
        const bool synchronizes = kind == 1 || dice(me, update, 7, 2) == 0;
        if (synchronizes) opt.synchronize(params, grads, options);
        if (kind == 1) opt.clip(grads, hvdlite::by_value{1});
        updated = opt.step(params, grads, options);
      }
      double weights = 0;
      doubles sums(n, 0);
      std::vector<bool> any(n, false);
      for (unsigned r = 0; r < size; ++r)
        for (unsigned k = 0; k < passes(r); ++k) {
          const unsigned at = update * 8 + k;
          const double w = weighted ? samples(r, at) : 1;
          weights += w;
          for (std::size_t i = 0; w != 0 && i < n; ++i)
            if (present(r, at, i)) {
              sums[i] += w * value(r, at, i);
              any[i] = true;
            }
        }
      CHECK(updated == (weights != 0));
      for (std::size_t i = 0; i < n; ++i) {
        if (!any[i]) continue;
        double g = sums[i] / weights;
        if (kind == 1) g = (std::min)((std::max)(g, -1.0), 1.0);
        velocity[i] = momentum * velocity[i] + g + decay * expected[i];
        expected[i] -= rate * velocity[i];
      }
      for (std::size_t i = 0; i < n; ++i)
        for (const double x : params[i]) CHECK(std::abs(x - expected[i]) < 1e-11);
    }
  };
  hvdtest::on_every_world(body);
  hvdtest::on_every_world(body, {.environment = {{"HVDLITE_CHECKS", "off"}}});
}
