// SPDX-License-Identifier: Apache-2.0
// Tests of optim/accumulate.hpp: sums of passes, and steps that consist of several, with weights
// and ranks that make different numbers of them, against plain sums.
#include "support/ranks.hpp"

#include <cmath>
#include <cstddef>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <hvdlite/core/element.hpp>
#include <hvdlite/optim/accumulate.hpp>
#include <hvdlite/optim/distributed_optimizer.hpp>
#include <hvdlite/optim/sgd.hpp>

namespace {

using doubles = std::vector<double>;
using hvdlite::DistributedOptimizer;
using hvdlite::Sgd;

std::size_t calls(const auto& world) {
  const auto events = world.recent_events();
  return events.empty() ? 0 : static_cast<std::size_t>(events.back().sequence);
}

double gradient(int rank, int pass) { return (rank + 1) * (pass + 2) - 0.25 * rank * rank; }
int samples(int rank, int pass) { return 1 + (rank + 2 * pass) % 4; }

/// sum(w g) / sum(w) over passes [from, to(rank)) of all ranks.
template <class To>
double weighted_mean(const auto& world, int from, To&& to, bool weighted = true) {
  double sum = 0, weights = 0;
  for (int r = 0; r < world.size(); ++r)
    for (int k = from; k < to(r); ++k) {
      const double w = weighted ? samples(r, k) : 1;
      sum += w * gradient(r, k);
      weights += w;
    }
  return sum / weights;
}

bool close(double a, double b) { return std::abs(a - b) <= 1e-12 * (std::abs(b) + 1); }

static_assert(!std::is_copy_constructible_v<hvdlite::no_sync_guard>);
static_assert(std::is_nothrow_move_constructible_v<hvdlite::no_sync_guard>);

}  // namespace

TEST_CASE("pass_sum: weights that are all alike add up like ones") {
  hvdlite::detail::pass_sum sum;
  sum.begin_pass(1, sizeof(float), 32);
  CHECK(sum.scaled(32) == 1);
  const float g = 0.1f;
  hvdlite::detail::add_pass(reinterpret_cast<float*>(sum.at(0)), &g, 1, sum.scaled(32));
  sum.mark(0);
  sum.end_pass(32, true);
  CHECK(sum.has(0));
  CHECK(sum.weight() == 32);
  CHECK(sum.count() == 1);
  float last = 0.1f;
  hvdlite::detail::finish_passes(reinterpret_cast<const float*>(sum.at(0)), &last, 1, 1, 2);
  CHECK(last == 0.1f);
  sum.clear();
  CHECK(sum.empty());
  CHECK(!sum.has(0));
}

TEST_CASE("DistributedOptimizer: several passes make a step, their mean over passes and ranks") {
  hvdtest::on_every_world([](const auto& world) {
    for (const bool weighted : {false, true})
      for (const int n : {1, 2, 3}) {
        doubles p(3, 0);
        double b = 0, expected = 0;
        DistributedOptimizer<Sgd, double> opt{
            world, {.learning_rate = 1}, {.backward_passes_per_step = n}};
        for (int pass = 0; pass < 3 * n; ++pass) {
          const std::size_t before = calls(world);
          const doubles g(3, gradient(world.rank(), pass));
          const double db = -gradient(world.rank(), pass);
          const bool updated = weighted ? opt.step(std::tie(p, b), std::tie(g, db),
                                                   {.samples = samples(world.rank(), pass)})
                                        : opt.step(std::tie(p, b), std::tie(g, db));
          const bool last = pass % n == n - 1;
          CHECK(updated == last);
          if (!last || world.size() == 1) CHECK(calls(world) == before);
          if (last)
            expected -= weighted_mean(world, pass + 1 - n, [&](int) { return pass + 1; }, weighted);
          CHECK(close(p[2], expected));
          CHECK(close(b, -expected));
        }
      }
  });
}

TEST_CASE("DistributedOptimizer: flush divides by what there is, whoever has it") {
  hvdtest::on_every_world([](const auto& world) {
    const auto own = [](int r) { return r % 3; };  // 0, 1 or 2 passes are left over
    for (const bool weighted : {false, true}) {
      doubles p(4, 0);
      DistributedOptimizer<Sgd, double> opt{
          world, {.learning_rate = 1}, {.backward_passes_per_step = 4}};
      CHECK(!opt.flush(p));  // nothing anywhere, before the first step
      for (int round = 0; round < 2; ++round) {
        p.assign(4, 0);
        for (int pass = 0; pass < own(world.rank()); ++pass) {
          const doubles g(4, gradient(world.rank(), pass));
          if (weighted)
            CHECK(!opt.step(p, g, {.samples = samples(world.rank(), pass)}));
          else
            CHECK(!opt.step(p, g));
        }
        const bool any = world.size() > 1;
        CHECK(opt.flush(p) == any);
        if (any) CHECK(close(p[3], -weighted_mean(world, 0, own, weighted)));
        CHECK(!opt.flush(p));
      }
      if (world.size() == 1) CHECK(world.recent_events().empty());
    }
  });
}

TEST_CASE("DistributedOptimizer: accumulate::sum adds passes up and averages ranks") {
  hvdtest::on_every_world([](const auto& world) {
    doubles p(2, 0), q(2, 0);
    DistributedOptimizer<Sgd, double> opt{
        world,
        {.learning_rate = 1},
        {.backward_passes_per_step = 3, .accumulate = hvdlite::accumulate::sum}};
    double plain = 0;
    for (int pass = 0; pass < 3; ++pass) {
      opt.step(p, doubles(2, gradient(world.rank(), pass)));
      for (int r = 0; r < world.size(); ++r) plain += gradient(r, pass) / world.size();
    }
    CHECK(close(p[0], -plain));
    DistributedOptimizer<Sgd, double> weighted{
        world,
        {.learning_rate = 1},
        {.backward_passes_per_step = 3, .accumulate = hvdlite::accumulate::sum}};
    for (int pass = 0; pass < 3; ++pass)
      weighted.step(q, doubles(2, gradient(world.rank(), pass)),
                    {.samples = samples(world.rank(), pass)});
    CHECK(close(q[1], -3 * weighted_mean(world, 0, [](int) { return 3; })));
  });
}

TEST_CASE("DistributedOptimizer: no_sync only accumulates, the next step reduces all") {
  hvdtest::on_every_world([](const auto& world) {
    doubles w(2, 0), dw(2);
    DistributedOptimizer<Sgd, double> opt{world, {.learning_rate = 1}};
    opt.add("w", w, dw);
    const auto own = [](int r) { return 1 + r % 3; };  // passes; some ranks have but the last
    for (int round = 1; round <= 3; ++round) {
      w.assign(2, 0);
      {
        auto guard = opt.no_sync();
        auto moved = std::move(guard);
        for (int pass = 0; pass + 1 < own(world.rank()); ++pass) {
          const std::size_t before = calls(world);
          dw.assign(2, gradient(world.rank(), pass));
          CHECK(!opt.synchronize());
          CHECK(!opt.step());
          opt.zero_grad();
          CHECK(calls(world) == before);
        }
      }
      dw.assign(2, gradient(world.rank(), own(world.rank()) - 1));
      CHECK(opt.step());
      CHECK(close(w[0], -weighted_mean(world, 0, own, false)));
    }
  });
}

namespace {
struct holds_its_own {
  doubles w{0, 0}, dw{0, 0};
  auto gradients() { return std::tie(dw); }
  void step() {
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= dw[i];
  }
};
}  // namespace

TEST_CASE("DistributedOptimizer: passes of an optimizer that holds its parameters, and clipping") {
  hvdtest::on_every_world([](const auto& world) {
    DistributedOptimizer<holds_its_own, double> opt{
        world, holds_its_own{}, {.backward_passes_per_step = 2}};
    auto& own = opt.optimizer();
    for (int pass = 0; pass < 2; ++pass) {
      own.dw.assign(2, gradient(world.rank(), pass));
      const bool reduced = opt.synchronize({.samples = samples(world.rank(), pass)});
      CHECK(reduced == (pass == 1));
      if (reduced) {
        const double m = weighted_mean(world, 0, [](int) { return 2; });
        CHECK(close(own.dw[0], m));
        CHECK(close(opt.clip(hvdlite::global_norm{1}), m * std::sqrt(2.0)));
        CHECK(opt.step());
      } else {
        CHECK(!opt.step({.samples = samples(world.rank(), pass)}));
      }
    }
    CHECK(close(own.w[0], -std::sqrt(0.5)));
    own.w = {0, 0};
    own.dw.assign(2, gradient(world.rank(), 0));
    CHECK(!opt.step());
    CHECK(opt.flush());
    CHECK(close(own.w[1], -weighted_mean(world, 0, [](int) { return 1; }, false)));
  });
}

TEST_CASE("DistributedOptimizer: absent gradients and empty batches, pass by pass") {
  hvdtest::on_every_world([](const auto& world) {
    doubles a(2, 0), b(2, 0), c(2, 0);
    DistributedOptimizer<Sgd, double> opt{
        world, {.learning_rate = 1, .weight_decay = 1}, {.backward_passes_per_step = 2}};
    const int n = world.size();
    for (int step = 0; step < 2; ++step) {
      a = b = c = doubles(2, 1);
      for (int pass = 0; pass < 2; ++pass) {
        // a: in the first pass, on the last rank; b: always; c: never.
        std::optional<doubles> da, dc;
        if (pass == 0 && world.rank() == n - 1) da = doubles(2, 4.0 * n);
        CHECK(opt.step(std::tie(a, b, c), std::tuple{da, doubles(2, 2), dc}, {.samples = 3}) ==
              (pass == 1));
      }
      CHECK(close(a[0], 1 - (2 + 1)));
      CHECK(close(b[0], 1 - (2 + 1)));
      CHECK(c == doubles(2, 1));
    }
    // An empty batch is no pass of anybody's mean, but one of two.
    b.assign(2, 0);
    const double nan = std::nan("");
    const bool empty = world.rank() == 0;
    CHECK(!opt.step(std::tie(a, b, c), std::tuple{doubles(2, nan), doubles(2, nan), doubles()},
                    {.samples = 0}));
    opt.step(std::tie(a, b, c), std::tuple{doubles(), doubles(2, empty ? nan : 5.0), doubles()},
             {.samples = empty ? 0 : 2});
    CHECK(b == doubles(2, n == 1 ? 0 : -5));
    CHECK(c == doubles(2, 1));
  });
}

TEST_CASE("DistributedOptimizer: halves add up in float") {
  hvdtest::on_every_world([](const auto& world) {
    using half = hvdlite::float16;
    std::vector<half> p(1, half{0.0f});
    DistributedOptimizer<Sgd, half> opt{
        world, {.learning_rate = 1}, {.backward_passes_per_step = 5}};
    // Each of the four is half a unit in the last place of 2048: alone it would be lost.
    opt.step(p, std::vector<half>(1, half{2048.0f}));
    for (int i = 0; i < 4; ++i) opt.step(p, std::vector<half>(1, half{1.0f}));
    CHECK(std::abs(float{p[0]} + 2052.0f / 5) < 0.26f);
    CHECK(float{p[0]} == float{half{-2052.0f / 5}});
    // And large ones do not overflow.
    p[0] = half{0.0f};
    for (int i = 0; i < 5; ++i) opt.step(p, std::vector<half>(1, half{60000.0f}));
    CHECK(float{p[0]} == float{half{-60000.0f}});
  });
}

TEST_CASE("DistributedOptimizer: a pass that fails leaves the earlier ones") {
  hvdtest::on_every_world([](const auto& world) {
    doubles p(2, 0);
    DistributedOptimizer<Sgd, double> opt{
        world, {.learning_rate = 1}, {.backward_passes_per_step = 2}};
    opt.step(p, doubles(2, 2));
    CHECK_THROWS_AS(opt.step(p, doubles(3, 4)), hvdlite::usage_error);
    CHECK_THROWS_AS(opt.step(p, doubles(2, 4), {.samples = 3}), hvdlite::usage_error);
    CHECK(opt.step(p, doubles(2, 4)));
    CHECK(p == doubles(2, -3));
  });
}

TEST_CASE("DistributedOptimizer: numbers of passes are checked and compared") {
  hvdtest::on_every_world([](const auto& world) {
    for (const int n : {0, -3})
      CHECK(hvdtest::lacking(hvdtest::message_of<hvdlite::usage_error>([&] {
                               DistributedOptimizer<Sgd, double>{
                                   world, {}, {.backward_passes_per_step = n}};
                             }),
                             {"backward_passes_per_step", std::to_string(n)}) == "");
  });
  const hvdtest::log_recorder quiet;  // passes are lost
  hvdtest::on_every_world(
      [](const auto& world) {
        const int n = world.rank() == 1 ? 2 : 3;
        doubles p(2, 0);
        DistributedOptimizer<Sgd, double> opt{world, {}, {.backward_passes_per_step = n}};
        for (int pass = 1; pass < n; ++pass) CHECK(!opt.step(p, doubles(2, 1)));
        const auto text =
            hvdtest::message_of<hvdlite::mismatch_error>([&] { opt.step(p, doubles(2, 1)); });
        CHECK(hvdtest::lacking(text, {"2 passes a step' on rank 1", "3 passes a step"}) == "");
      },
      {.least = 2});
}

TEST_CASE("DistributedOptimizer: passes that are never applied are mentioned once") {
  hvdtest::log_recorder log;
  hvdtest::on_every_world([&](const auto& world) {
    const std::string name = "lost " + std::to_string(world.size());
    const std::string by = "rank " + std::to_string(world.rank()) + "]";
    const auto lines = [&] { return log.with({by, "'" + name + "'", "flush()"}).size(); };
    const auto make = [&] {
      return DistributedOptimizer<Sgd, double>{
          world, {.learning_rate = 1}, {.backward_passes_per_step = 3, .name = name}};
    };
    doubles p(2, 0);
    {
      auto opt = make();
      opt.step(p, doubles(2, 1));
      opt.step(p, doubles(2, 1));
      auto other = std::move(opt);
      CHECK(lines() == 0);
    }
    CHECK(lines() == 1);
    CHECK(log.with({by, "'" + name + "'", "2 accumulated passes"}).size() == 1);
    {
      auto opt = make();
      opt.step(p, doubles(2, 1));
      CHECK(opt.flush(p));
    }
    CHECK(lines() == 1);
    try {
      auto opt = make();
      opt.step(p, doubles(2, 1));
      throw std::runtime_error{"unwinding"};
    } catch (const std::runtime_error&) {
    }
    CHECK(lines() == 1);
    auto guarded = make();
    auto guard = guarded.no_sync();
    guarded = make();  // the guard outlives its optimizer
    CHECK(!guarded.step(p, doubles(2, 1)));
    guarded.flush(p);
  });
}

TEST_CASE("DistributedOptimizer: no_sync within several passes, and a pass that is due") {
  hvdtest::on_every_world([](const auto& world) {
    doubles p(2, 0);
    DistributedOptimizer<Sgd, double> opt{
        world, {.learning_rate = 1}, {.backward_passes_per_step = 4}};
    for (int round = 1; round <= 2; ++round) {
      {
        const auto guard = opt.no_sync();
        for (int pass = 0; pass < 5; ++pass) CHECK(!opt.step(p, doubles(2, 1)));
      }
      CHECK(opt.step(p, doubles(2, 7)));
      CHECK(p == doubles(2, -2 * round));
    }
    {
      const auto guard = opt.no_sync();
      CHECK(!opt.step(p, doubles(2, 1)));
    }
    CHECK(opt.step(p, doubles(2, 3)));  // two passes of four: the paused one made it due
    CHECK(p == doubles(2, -6));
    CHECK(!opt.step(p, doubles(2, 1)));
    CHECK(opt.flush(p));
  });
}

TEST_CASE("DistributedOptimizer: passes with another op, of ranks that have any") {
  struct summing : hvdlite::default_policy<double> {
    using op = hvdlite::sum;
  };
  struct greatest : hvdlite::default_policy<double> {
    using op = hvdlite::max;
  };
  hvdtest::on_every_world([](const auto& world) {
    const int n = world.size();
    doubles p(8, 0), q(8, 0);
    DistributedOptimizer<Sgd, double, summing> total{
        world, {.learning_rate = 1}, {.backward_passes_per_step = 2}};
    DistributedOptimizer<Sgd, double, greatest> most{
        world, {.learning_rate = 1}, {.backward_passes_per_step = 2}};
    for (const double g : {1.0, 3.0}) {
      total.step(p, doubles(8, g * (world.rank() + 1)));
      most.step(q, doubles(8, -g * (world.rank() + 1)));
    }
    CHECK(p == doubles(8, -n * (n + 1)));  // 2 (rank + 1) of each
    CHECK(q == doubles(8, 2));
    p.assign(8, 0);
    q.assign(8, 0);
    if (world.rank() % 2 == 0) {
      total.step(p, doubles(8, 5));
      most.step(q, doubles(8, -5));
    }
    CHECK(total.flush(p));
    CHECK(most.flush(q));
    CHECK(p == doubles(8, -5 * ((n + 1) / 2)));
    CHECK(q == doubles(8, 5));
  });
}
