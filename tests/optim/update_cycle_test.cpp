// SPDX-License-Identifier: Apache-2.0
// Tests of optim/update_cycle.hpp: what happens between gradients and update. One reduction per
// bucket and step in every sequence, clipping of what was reduced, skipped steps, tied weights.
#include "support/ranks.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <hvdlite/collective/allreduce.hpp>
#include <hvdlite/optim/adam.hpp>
#include <hvdlite/optim/distributed_optimizer.hpp>
#include <hvdlite/optim/sgd.hpp>

namespace {

using doubles = std::vector<double>;
using hvdlite::Adam;
using hvdlite::DistributedOptimizer;
using hvdlite::Sgd;
constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// How many calls this rank has made on its communicator.
std::size_t calls(const auto& world) {
  const auto events = world.recent_events();
  return events.empty() ? 0 : static_cast<std::size_t>(events.back().sequence);
}

/// The mean over ranks of f(rank).
template <class F>
double mean(const auto& world, F&& f) {
  double total = 0;
  for (int r = 0; r < world.size(); ++r) total += f(r);
  return total / world.size();
}

struct holds_its_own {
  doubles w{1, 1}, dw{0, 0};
  double b = 1, db = 0;
  int steps = 0;
  auto gradients() { return std::tie(dw, db); }
  void step() {
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= dw[i];
    b -= db;
    ++steps;
  }
};

}  // namespace

TEST_CASE("DistributedOptimizer: synchronize reduces, and step no more") {
  hvdtest::on_every_world([](const auto& world) {
    const double m = mean(world, [](int r) { return r + 1.0; });
    std::vector<doubles> params{doubles(3, 0), doubles(2, 0), doubles(5, 0)};
    std::vector<doubles> grads;
    const auto backward = [&] {
      grads.clear();
      for (const doubles& p : params) grads.emplace_back(p.size(), world.rank() + 1.0);
    };
    DistributedOptimizer<Sgd, double> opt{world, {.learning_rate = 1}, {.bucket_bytes = 0}};
    backward();
    CHECK(opt.step(params, grads));
    CHECK(params[2] == doubles(5, -m));
    const std::size_t per_step = world.size() == 1 ? 0 : 3;
    for (int i = 0; i < 3; ++i) {
      backward();
      const std::size_t before = calls(world);
      CHECK(opt.synchronize(params, grads));
      CHECK(calls(world) == before + per_step);
      CHECK(grads[0] == doubles(3, m));
      CHECK(grads[2] == doubles(5, m));
      CHECK(opt.synchronize(params, grads));  // a second one does nothing
      CHECK(grads[2] == doubles(5, m));
      for (doubles& g : grads)
        for (double& x : g) x = 10;  // the gradients as they are now
      CHECK(opt.step(params, grads));
      CHECK(calls(world) == before + per_step);
      CHECK(params[0] == doubles(3, -m - 10 * (i + 1)));
    }
    backward();
    const std::size_t before = calls(world);
    opt.step(params, grads);
    CHECK(calls(world) == before + per_step);
    CHECK(params[1] == doubles(2, -2 * m - 30));
  });
}

TEST_CASE("DistributedOptimizer: some ranks synchronize and step, others only step") {
  hvdtest::on_every_world([](const auto& world) {
    const double m = mean(world, [](int r) { return 2.0 * r; });
    doubles w(4, 0), dw(4);
    double b = 0, db = 0;
    DistributedOptimizer<Sgd, double> opt{world, {.learning_rate = 1}};
    opt.add("w", w, dw);
    opt.add("b", b, db);
    for (int step = 1; step <= 4; ++step) {
      dw.assign(4, 2.0 * world.rank());
      db = -2.0 * world.rank();
      const bool twice = (world.rank() + step) % 2 == 0;
      if (twice) opt.synchronize({.samples = 5});
      CHECK(opt.step({.samples = 5}));
      CHECK(w == doubles(4, -m * step));
      CHECK(b == m * step);
    }
  });
}

TEST_CASE("DistributedOptimizer: alone, synchronize and clip copy nothing and call nothing") {
  struct recorder {
    const double* seen = nullptr;
    void update(std::size_t, std::span<double> p, std::span<const double> g) {
      seen = g.data();
      for (std::size_t i = 0; i < p.size(); ++i) p[i] -= g[i];
    }
  };
  hvdtest::on_threads(1, [](const auto& world) {
    doubles w(2, 0), dw{3, 4};
    DistributedOptimizer<recorder, double> opt{world, recorder{}};
    CHECK(opt.synchronize(w, dw));
    CHECK(dw == doubles{3, 4});
    CHECK(opt.clip(dw, hvdlite::global_norm{2.5}) == 5);
    CHECK(opt.step(w, dw));
    CHECK(opt.optimizer().seen == dw.data());
    CHECK(w == doubles{-1.5, -2});
    CHECK(opt.buckets().empty());
    CHECK(world.recent_events().empty());
  });
}

TEST_CASE("DistributedOptimizer: clip acts on reduced gradients, with equal bits everywhere") {
  hvdtest::on_every_world([](const auto& world) {
    const auto g = [](int r, std::size_t i) {
      return std::sin(static_cast<double>(i) * 0.7 + r) * 3;
    };
    doubles w(101, 0), dw(101), reduced(101);
    double square = 0;
    for (std::size_t i = 0; i < dw.size(); ++i) {
      dw[i] = g(world.rank(), i);
      reduced[i] = mean(world, [&](int r) { return g(r, i); });
      square += reduced[i] * reduced[i];
    }
    DistributedOptimizer<Sgd, double> opt{world, {.learning_rate = 1}};
    opt.add("w", w, dw);
    const auto unready =
        hvdtest::message_of<hvdlite::usage_error>([&] { opt.clip(hvdlite::global_norm{1}); });
    CHECK(hvdtest::lacking(unready, {"synchronize"}) == "");
    opt.synchronize();
    const double norm = opt.clip(hvdlite::global_norm{1});
    CHECK(std::abs(norm - std::sqrt(square)) < 1e-12 * norm);
    double least = norm, most = norm;
    hvdlite::allreduce(world, least, hvdlite::min{});
    hvdlite::allreduce(world, most, hvdlite::max{});
    CHECK(least == most);
    opt.step();
    for (std::size_t i = 0; i < w.size(); ++i)
      CHECK(std::abs(w[i] + reduced[i] / std::sqrt(square)) < 1e-12);

    for (std::size_t i = 0; i < dw.size(); ++i) dw[i] = g(world.rank(), i);
    w.assign(101, 0);
    opt.synchronize();
    CHECK(opt.clip(hvdlite::by_value{0.5}) <= 3);
    opt.step();
    for (std::size_t i = 0; i < w.size(); ++i)
      CHECK(std::abs(w[i] + (std::min)((std::max)(reduced[i], -0.5), 0.5)) < 1e-12);
    CHECK_THROWS_AS(opt.clip(hvdlite::global_norm{1}), hvdlite::usage_error);
  });
}

TEST_CASE("DistributedOptimizer: clip of handed-in sets, with a gradient that only others have") {
  hvdtest::on_every_world([](const auto& world) {
    const bool first = world.rank() == 0;
    doubles a(2, 0), b(1, 0), c(1, 0);
    std::optional<doubles> da, db, dc;
    if (first) da = doubles(2, 3.0 * world.size());
    if (!first || world.size() == 1)
      db = doubles(1, 4.0 * world.size() / (std::max)(world.size() - 1, 1));
    DistributedOptimizer<Sgd, double> opt{world, {.learning_rate = 1}};
    // c, of which there is no gradient anywhere, plays no part.
    const auto params = std::tie(a, b, c);
    opt.synchronize(params, std::tie(da, db, dc));
    const double norm = opt.clip(std::tie(da, db, dc), hvdlite::global_norm{1});
    CHECK(std::abs(norm - std::sqrt(9 + 9 + 16.0)) < 1e-12);
    if (!first) CHECK(!da);
    opt.step(params, std::tie(da, db, dc));
    CHECK(std::abs(a[0] + 3 / norm) < 1e-12);
    CHECK(std::abs(b[0] + 4 / norm) < 1e-12);
    CHECK(c[0] == 0);

    if (first) da = doubles(2, 3.0 * world.size());
    if (db) db = doubles(1, 4.0 * world.size() / (std::max)(world.size() - 1, 1));
    a = {0, 0};
    b = {0};
    opt.synchronize(params, std::tie(da, db, dc));
    const auto grads = std::tie(da, db, dc);
    CHECK(std::abs(opt.clip(grads, hvdlite::by_value{0.5}) - 4) < 1e-12);
    CHECK_THROWS_AS(opt.clip(da, hvdlite::by_value{1}), hvdlite::usage_error);
    CHECK_THROWS_AS(opt.clip(grads, hvdlite::by_value{-1}), hvdlite::usage_error);
    opt.step(params, std::tie(da, db, dc));
    CHECK(a == doubles{-0.5, -0.5});
    CHECK(b == doubles{-0.5});
  });
}

TEST_CASE("DistributedOptimizer: clip shows NaN and infinity, and leaves them") {
  hvdtest::on_every_world([](const auto& world) {
    doubles w(3, 1), dw{1, 2, world.rank() == 0 ? inf : 3};
    DistributedOptimizer<Sgd, double> opt{world, {.learning_rate = 0}};
    opt.synchronize(w, dw);
    CHECK(opt.clip(dw, hvdlite::global_norm{1}) == inf);
    CHECK(dw == doubles{1, 2, inf});
    CHECK(opt.clip(dw, hvdlite::by_value{1}) == inf);
    CHECK(dw == doubles{1, 1, inf});
    opt.step(w, dw);
    dw = {1, 2, world.rank() == 0 ? not_a_number : 3};
    opt.synchronize(w, dw);
    CHECK(std::isnan(opt.clip(dw, hvdlite::global_norm{1})));
    CHECK(dw[0] == 1);
    CHECK(std::isnan(dw[2]));
    opt.step(w, dw);
  });
}

TEST_CASE("DistributedOptimizer: an optimizer that holds its parameters synchronizes and clips") {
  hvdtest::on_every_world([](const auto& world) {
    const double m = mean(world, [](int r) { return r + 1.0; });
    DistributedOptimizer<holds_its_own, double> opt{world, holds_its_own{}};
    auto& own = opt.optimizer();
    own.dw = {3.0 * (world.rank() + 1), 0};
    own.db = 4.0 * (world.rank() + 1);
    opt.synchronize();
    CHECK(own.dw == doubles{3 * m, 0});
    CHECK(std::abs(opt.clip(hvdlite::global_norm{1}) - 5 * m) < 1e-12);
    CHECK_THROWS_AS(opt.zero_grad(), hvdlite::usage_error);
    const std::size_t before = calls(world);
    CHECK(opt.step());
    CHECK(calls(world) == before);
    CHECK(std::abs(own.w[0] - 0.4) < 1e-12);
    CHECK(std::abs(own.b - 0.2) < 1e-12);
    opt.zero_grad();
    CHECK(own.dw == doubles{0, 0});
    CHECK(own.db == 0);
  });
}

TEST_CASE("DistributedOptimizer: held gradients of a rank without samples get the others' mean") {
  hvdtest::on_every_world([](const auto& world) {
    const bool empty = world.size() > 1 && world.rank() == 0;
    for (const bool synchronizes : {false, true}) {
      DistributedOptimizer<holds_its_own, double> opt{world, holds_its_own{}};
      auto& own = opt.optimizer();
      own.dw.assign(2, empty ? not_a_number : 3);
      own.db = empty ? inf : 5;
      if (synchronizes) opt.synchronize({.samples = empty ? 0 : 4});
      CHECK(opt.step({.samples = empty ? 0 : 4}));
      CHECK(own.w == doubles{-2, -2});
      CHECK(own.b == -4);
      CHECK(own.dw == doubles{3, 3});
    }
  });
}

TEST_CASE("DistributedOptimizer: zero_grad, and what stands in its way") {
  hvdtest::on_every_world([](const auto& world) {
    doubles w(2, 1), v(2, 1), dw(2, 5);
    const doubles dv(2, 5);
    doubles* none = nullptr;
    DistributedOptimizer<Sgd, double> opt{world, {.learning_rate = 1}};
    opt.add("w", w, dw);
    opt.add("v", v, none);
    opt.zero_grad();
    CHECK(dw == doubles{0, 0});
    dw = {1, 1};
    opt.synchronize();
    const auto text = hvdtest::message_of<hvdlite::usage_error>([&] { opt.zero_grad(); });
    CHECK(hvdtest::lacking(text, {"between synchronize and step"}) == "");
    CHECK(dw == doubles{1, 1});
    opt.step();
    opt.zero_grad();
    CHECK(dw == doubles{0, 0});
    CHECK(w == doubles{0, 0});

    DistributedOptimizer<Sgd, double> fixed{world, {.learning_rate = 1}};
    fixed.add("v", v, dv);
    for (const auto& text_of :
         {hvdtest::message_of<hvdlite::usage_error>([&] { fixed.zero_grad(); }),
          hvdtest::message_of<hvdlite::usage_error>([&] { fixed.synchronize(); })})
      CHECK(hvdtest::lacking(text_of, {"parameter 0 ('v')", "const"}) == "");
    fixed.step();  // which only reads
    CHECK(v == doubles{-4, -4});
  });
}

TEST_CASE("DistributedOptimizer: samples belong to synchronize, and to all ranks or none") {
  hvdtest::on_every_world([](const auto& world) {
    doubles w(2, 0), dw(2, 1);
    DistributedOptimizer<Sgd, double> opt{world, {.learning_rate = 1}};
    opt.add("w", w, dw);
    opt.synchronize();
    const auto text = hvdtest::message_of<hvdlite::usage_error>([&] { opt.step({.samples = 3}); });
    CHECK(hvdtest::lacking(text, {"synchronize"}) == "");
    CHECK(w == doubles{0, 0});
    CHECK(opt.step());
    CHECK(w == doubles{-1, -1});
    // Nobody has samples: nothing changes, neither now nor then.
    dw = {not_a_number, not_a_number};
    CHECK(opt.synchronize({.samples = 0}));
    CHECK(!opt.step());
    CHECK(w == doubles{-1, -1});
    // One rank has none, and gets the others' mean.
    const bool empty = world.size() > 1 && world.rank() == 0;
    dw.assign(2, empty ? not_a_number : 4);
    opt.synchronize({.samples = empty ? 0 : 7});
    CHECK(dw == doubles{4, 4});
    CHECK(opt.step());
    CHECK(w == doubles{-5, -5});
  });
  hvdtest::on_every_world(
      [](const auto& world) {
        doubles w(2, 0);
        DistributedOptimizer<Sgd, double> opt{world, {.learning_rate = 1}};
        const auto text = hvdtest::message_of<hvdlite::mismatch_error>([&] {
          if (world.rank() == 1)
            opt.step(w, doubles{1, 1}, {.samples = 1});
          else
            opt.step(w, doubles{1, 1});
        });
        CHECK(hvdtest::lacking(text, {".samples are given' on rank 1", "not given"}) == "");
        CHECK(w == doubles{0, 0});
        opt.step(w, doubles{1, 1});
        CHECK(w == doubles{-1, -1});
      },
      {.least = 2});
}

TEST_CASE("DistributedOptimizer: skip_nonfinite skips on all ranks, and leaves all state") {
  hvdtest::log_recorder log;
  hvdtest::on_every_world([&](const auto& world) {
    doubles w(3, 1), v(2, 1), dw(3, 1), dv(2, 1);
    DistributedOptimizer<Adam, double> opt{
        world, {}, {.skip_nonfinite = true, .name = "skipper " + std::to_string(world.size())}};
    opt.add("w", w, dw);
    opt.add("v", v, dv);
    CHECK(opt.step());
    const doubles before = w;
    const int last = world.size() - 1;
    for (const double bad : {inf, not_a_number, -inf}) {
      dv = {1, world.rank() == last ? bad : 1};
      CHECK(!opt.step());
    }
    CHECK(opt.skipped_steps() == 3);
    dv = {1, world.rank() == 0 ? not_a_number : 1};
    CHECK(opt.synchronize());
    CHECK(!opt.step());
    CHECK(opt.skipped_steps() == 4);
    CHECK(w == before);
    CHECK(v[0] == before[0]);
    CHECK(opt.optimizer().steps(0) == 1);
    CHECK(opt.optimizer().steps(1) == 1);
    dv = {1, 1};
    CHECK(opt.step());
    CHECK(opt.optimizer().steps(1) == 2);
    CHECK(w != before);
    CHECK(opt.skipped_steps() == 4);
    const std::string name = "skipper " + std::to_string(world.size()) + "'";
    if (world.rank() == 0) CHECK(log.with({name, "parameter 1 ('v')", "not finite"}).size() == 1);

    // Handed in, as an expression of the library's, several passes, and held.
    doubles p(2, 1);
    DistributedOptimizer<Sgd, double> passes{
        world, {.learning_rate = 1}, {.backward_passes_per_step = 2, .skip_nonfinite = true}};
    CHECK(!passes.step(p, doubles{1, world.rank() == 0 ? not_a_number : 0}));
    CHECK(!passes.step(p, doubles{1, 1}));
    CHECK(passes.skipped_steps() == 1);
    CHECK(!passes.step(p, doubles{1, 1}));
    CHECK(passes.step(p, doubles{1, 1}));
    CHECK(p == doubles{0, 0});
    DistributedOptimizer<holds_its_own, double> held{
        world, holds_its_own{}, {.skip_nonfinite = true}};
    held.optimizer().db = world.rank() == last ? inf : 0;
    CHECK(!held.step());
    CHECK(held.optimizer().steps == 0);
    held.optimizer().db = 1;
    CHECK(held.step());
    CHECK(held.optimizer().b == 0);
  });
}

TEST_CASE("DistributedOptimizer: tied weights are reduced and updated once") {
  hvdtest::on_every_world([](const auto& world) {
    const double m = mean(world, [](int r) { return r + 1.0; });
    doubles w(4, 0), v(2, 0), dw(4, world.rank() + 1.0), dv(2, world.rank() + 1.0);
    doubles other(4, 1);
    DistributedOptimizer<Sgd, double> opt{world, {.learning_rate = 1}};
    opt.step(std::tie(w, v, w), std::tie(dw, dv, dw));
    CHECK(w == doubles(4, -m));
    CHECK(v == doubles(2, -m));
    if (world.size() > 1) {
      std::size_t elements = 0;
      for (const auto& b : opt.buckets()) elements += b.count;
      CHECK(elements == 6);
    }
    opt.synchronize(std::tie(w, v, w), std::tie(dw, dv, dw));
    CHECK(dw == doubles(4, m));
    CHECK(std::abs(opt.clip(std::tie(dw, dv, dw), hvdlite::global_norm{inf}) - m * std::sqrt(6.0)) <
          1e-12);
    opt.step(std::tie(w, v, w), std::tie(dw, dv, dw));
    CHECK(w == doubles(4, -2 * m));
    const auto text = hvdtest::message_of<hvdlite::usage_error>(
        [&] { opt.step(std::tie(w, v, w), std::tie(dw, dv, other)); });
    CHECK(hvdtest::lacking(text, {"parameter 0", "parameter 2", "add the gradients up"}) == "");
    CHECK(w == doubles(4, -2 * m));
    CHECK(hvdtest::lacking(hvdtest::message_of<hvdlite::usage_error>(
                               [&] { opt.step(std::tie(w, v, other), std::tie(dw, dv, other)); }),
                           {"parameter 2", "memory"}) == "");

    // Added under two names; one of the gradients may be absent.
    doubles* none = nullptr;
    doubles a(3, 0), da(3, world.rank() + 1.0);
    DistributedOptimizer<Sgd, double> tied{world, {.learning_rate = 1, .momentum = 0.5}};
    tied.add("embedding", a, none);
    tied.add("head", a, da);
    tied.step();
    CHECK(a == doubles(3, -m));
    none = &da;
    da.assign(3, world.rank() + 1.0);
    tied.step();
    CHECK(a == doubles(3, -2.5 * m));
  });
}

TEST_CASE("DistributedOptimizer: parameters that overlap in part are refused") {
  hvdtest::on_every_world([](const auto& world) {
    doubles all(10, 0), g(6, 1);
    const std::span<double> front{all.data(), 6}, back{all.data() + 4, 6}, rest{all.data() + 6, 4};
    DistributedOptimizer<Sgd, double> opt{world, {.learning_rate = 1}};
    const auto text = hvdtest::message_of<hvdlite::usage_error>(
        [&] { opt.step(std::tie(front, back), std::tie(g, g)); });
    CHECK(hvdtest::lacking(text, {"parameter 0", "parameter 1", "overlap"}) == "");
    CHECK(all == doubles(10, 0));
    const doubles h(4, 1);
    opt.step(std::tie(front, rest), std::tie(g, h));  // neighbours
    CHECK(all == doubles(10, -1));
  });
}

TEST_CASE(
    "DistributedOptimizer: what one rank gets wrong between calls, others learn at the next") {
  hvdtest::on_every_world(
      [](const auto& world) {
        const bool wrong = world.rank() == 1;
        doubles p(4, 0);
        const auto fails = [](const auto& call, std::initializer_list<std::string_view> words,
                              bool mine) {
          const auto text = mine ? hvdtest::message_of<hvdlite::usage_error>(call)
                                 : hvdtest::message_of<hvdlite::mismatch_error>(call);
          CHECK(hvdtest::lacking(text, words) == "");
        };
        // In a pass that only accumulates.
        DistributedOptimizer<Sgd, double> opt{
            world, {.learning_rate = 1}, {.backward_passes_per_step = 2}};
        const auto pass = [&](double g) { return opt.step(p, doubles(4, g)); };
        if (wrong)
          fails([&] { opt.step(p, doubles(3, 1)); }, {"the gradient is [3]"}, true);
        else
          CHECK(!pass(1));
        if (!wrong) fails([&] { pass(3); }, {"rank 1", "the gradient is [3]"}, false);
        if (wrong) CHECK(!pass(1));  // once more, and right
        CHECK(pass(3));
        CHECK(p == doubles(4, -2));

        // A clip too early.
        DistributedOptimizer<Sgd, double> clipped{world, {.learning_rate = 1}};
        doubles g(4, 2);
        if (wrong)
          fails([&] { clipped.clip(g, hvdlite::global_norm{1}); }, {"synchronize"}, true);
        else
          fails([&] { clipped.synchronize(p, g); }, {"rank 1", "clip was called before"}, false);
        clipped.synchronize(p, g);
        // Other gradients after synchronize than before it: that rank may still put it right.
        if (wrong) fails([&] { clipped.step(p, doubles(3, 2)); }, {"the gradient is [3]"}, true);
        CHECK(clipped.step(p, g));
        CHECK(p == doubles(4, -4));
        if (!wrong) fails([&] { clipped.synchronize(p, g); }, {"rank 1", "[3]"}, false);
        CHECK(clipped.step(p, g));
        CHECK(p == doubles(4, -6));
      },
      {.least = 2});
}
