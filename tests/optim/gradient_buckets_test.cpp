// SPDX-License-Identifier: Apache-2.0
// Tests of optim/gradient_buckets.hpp: what ranks tell each other about parameters, gradients that
// are not there, and which optimizer it is, and how many calls that takes.
#include "support/ranks.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <hvdlite/core/config.hpp>
#include <hvdlite/optim/distributed_optimizer.hpp>
#include <hvdlite/optim/gradient_buckets.hpp>
#include <hvdlite/optim/sgd.hpp>
#if HVDLITE_WITH_EIGEN
#include <hvdlite/tensor/eigen.hpp>
#endif

namespace {

using doubles = std::vector<double>;
using hvdlite::DistributedOptimizer;
using hvdlite::Sgd;

std::size_t calls(const auto& world) {
  const auto events = world.recent_events();
  return events.empty() ? 0 : static_cast<std::size_t>(events.back().sequence);
}

/// Whether rank r has a gradient of parameter i in a step: a different pattern in each.
bool has(int step, int r, std::size_t i) {
  if (step % 4 == 3) return true;  // all have all
  return (static_cast<std::size_t>(r) * 7 + i * 5 + static_cast<std::size_t>(step) * 3) % 4 == 0;
}

/// Steps with momentum and weight decay, so that an update by zero is not nothing; against the same
/// on one rank. Some ranks have no samples in some steps.
void absence(const auto& world, std::size_t parameters, bool announced) {
  constexpr double decay = 0.25, momentum = 0.5;
  const auto samples = [&](int step, int r) { return step == 2 && r == 0 ? 0 : 1 + r % 2; };
  const auto value = [](int step, int r, std::size_t i) {
    return static_cast<double>((r + 1) * (step + 1)) + static_cast<double>(i % 8) / 8;
  };
  std::vector<doubles> params(parameters, doubles(3, 1));
  doubles expected(parameters, 1), velocity(parameters, 0);
  DistributedOptimizer<Sgd, double> opt{
      world,
      {.learning_rate = 0.125, .momentum = momentum, .weight_decay = decay},
      {.bucket_bytes = parameters * 12}};
  std::size_t one_step = 0;  // calls
  for (int step = 0; step < 8; ++step) {
    std::vector<doubles> grads(parameters);
    bool lacks = false;
    for (std::size_t i = 0; i < parameters; ++i)
      if (has(step, world.rank(), i)) grads[i].assign(3, value(step, world.rank(), i));
    for (int r = 0; r < world.size(); ++r)
      for (std::size_t i = 0; i < parameters; ++i)
        lacks = lacks || (!has(step, r, i) && samples(step, r) != 0);
    const std::size_t before = calls(world);
    opt.step(params, grads, {.samples = samples(step, world.rank())});
    if (world.size() > 1 && announced && step > 0) {
      one_step = opt.buckets().size();
      CHECK(calls(world) == before + one_step + (lacks ? 1 : 0));
    }
    double total = 0;
    for (int r = 0; r < world.size(); ++r) total += samples(step, r);
    if (total == 0) continue;
    for (std::size_t i = 0; i < parameters; ++i) {
      double sum = 0;
      bool any = false;
      for (int r = 0; r < world.size(); ++r) {
        if (!has(step, r, i) || samples(step, r) == 0) continue;
        sum += samples(step, r) * value(step, r, i);
        any = true;
      }
      if (!any) continue;
      velocity[i] = momentum * velocity[i] + sum / total + decay * expected[i];
      expected[i] -= 0.125 * velocity[i];
    }
    for (std::size_t i = 0; i < parameters; ++i)
      for (const double x : params[i]) CHECK(std::abs(x - expected[i]) < 1e-12);
  }
}

}  // namespace

TEST_CASE("DistributedOptimizer: gradients that come and go, as empty tensors, on any rank") {
  hvdtest::on_every_world([](const auto& world) {
    absence(world, 5, true);
    absence(world, 300, true);  // more than bits that ride along
  });
  hvdtest::on_every_world([](const auto& world) { absence(world, 70, true); },
                          {.environment = {{"HVDLITE_CHECKS", "off"}}});
}

TEST_CASE("DistributedOptimizer: absent is null, nullopt or empty, and costs nothing otherwise") {
  hvdtest::on_every_world([](const auto& world) {
    doubles a(2, 0), b(2, 0), c(2, 0), d;
    const double n = world.size();
    const bool first = world.rank() == 0;
    doubles value(2, n);
    for (const bool there : {false, true, false}) {
      a = b = c = doubles(2, 0);
      const bool mine = first || there;
      value.assign(2, there ? 1 : n);
      doubles* da = mine ? &value : nullptr;
      std::optional<doubles> db;
      if (mine) db = value;
      doubles dc = mine ? value : doubles{};
      doubles* const dd = nullptr;  // of a parameter without elements: there is nothing to lack
      DistributedOptimizer<Sgd, double> opt{world, {.learning_rate = 1}};
      const auto step = [&] { opt.step(std::tie(a, b, c, d), std::tie(da, db, dc, dd)); };
      step();
      const std::size_t before = calls(world);
      step();
      const std::size_t extra = world.size() > 1 && !there ? 1 : 0;
      CHECK(calls(world) == before + opt.buckets().size() + extra);
      CHECK(a == doubles(2, -2));
      CHECK(b == doubles(2, -2));
      CHECK(c == doubles(2, -2));
    }
  });
}

#if HVDLITE_WITH_EIGEN
TEST_CASE("DistributedOptimizer: empty matrices are absent gradients, other sizes are not") {
  hvdtest::on_every_world([](const auto& world) {
    Eigen::MatrixXd w = Eigen::MatrixXd::Zero(2, 3), dw, none;
    Eigen::VectorXd v = Eigen::VectorXd::Zero(2), dv;
    if (world.rank() == world.size() - 1) dw = Eigen::MatrixXd::Constant(2, 3, world.size());
    DistributedOptimizer<Sgd, double> opt{world, {.learning_rate = 1}};
    opt.step(std::tie(w, v), std::tie(dw, dv));
    CHECK(w == Eigen::MatrixXd::Constant(2, 3, -1));
    CHECK(v == Eigen::VectorXd::Zero(2));
    opt.step(std::tie(w, v), std::tuple{dw * 2.0, dv * 2.0});  // expressions of them
    CHECK(w == Eigen::MatrixXd::Constant(2, 3, -3));
    // Reduced, then handed in as an expression.
    opt.synchronize(std::tie(w, v), std::tie(dw, dv));
    opt.step(std::tie(w, v), std::tuple{dw * 1.0, dv * 1.0});
    CHECK(w == Eigen::MatrixXd::Constant(2, 3, -4));
    CHECK(v == Eigen::VectorXd::Zero(2));
    if (world.rank() == world.size() - 1) dw = Eigen::MatrixXd::Constant(2, 3, world.size());
    dw = Eigen::MatrixXd::Zero(3, 2);
    CHECK_THROWS_AS(opt.step(std::tie(w, v), std::tie(dw, dv)), hvdlite::usage_error);
  });
}
#endif

TEST_CASE("DistributedOptimizer: optimizers with equal parameters are told apart") {
  hvdtest::on_every_world(
      [](const auto& world) {
        const bool odd = world.rank() == 1;
        for (const bool later : {false, true}) {
          doubles p(4, 0), q(4, 0);
          const doubles g(4, 1);
          DistributedOptimizer<Sgd, double> a{world, {.learning_rate = 1}, {.name = "generator"}};
          DistributedOptimizer<Sgd, double> b{world, {.learning_rate = 1}, {.name = "critic"}};
          if (later) {
            a.step(p, g);
            b.step(q, g);
          }
          const doubles before = p;
          const std::string first = later ? "3" : "1", second = later ? "4" : "2";
          for (int i = 0; i < 2; ++i) {
            const auto text = hvdtest::message_of<hvdlite::mismatch_error>([&] {
              if (odd == (i == 0))
                b.step(q, g);
              else
                a.step(p, g);
            });
            CHECK(hvdtest::lacking(text, {"optimizer " + first + " ('generator')",
                                          "optimizer " + second + " ('critic')", "rank 1"}) == "");
          }
          CHECK(p == before);
          CHECK(q == before);
          a.step(p, g);
          b.step(q, g);
          CHECK(p[0] == before[0] - 1);
        }
      },
      {.least = 2});
}

TEST_CASE("DistributedOptimizer: the first parameter that differs is named, with both values") {
  hvdtest::on_every_world(
      [](const auto& world) {
        const bool odd = world.rank() == 1;
        using hvdlite::strided_buffer;
        doubles memory(100, 0);
        const auto fails = [&](auto step, std::initializer_list<std::string_view> words) {
          const auto text = hvdtest::message_of<hvdlite::mismatch_error>(step);
          CHECK(hvdtest::lacking(text, words) == "");
          CHECK(memory == doubles(100, 0));
        };
        using named = std::vector<std::pair<std::string, doubles>>;
        const auto names = [&](const char* one, const char* other, std::size_t size) {
          named params;
          for (int i = 0; i < 50; ++i)
            params.emplace_back("layer" + std::to_string(i), doubles(3, 0));
          params.emplace_back(one, doubles(size, 0));
          params.emplace_back(other, doubles(3, 0));
          return params;
        };
        DistributedOptimizer<Sgd, double> opt{world, {.learning_rate = 1}};
        const auto step = [&](named params) {
          return [&opt, params]() mutable { opt.step(params, params); };
        };
        fails(step(odd ? names("x", "y", 3) : names("y", "x", 3)),  // order
              {"parameter 50 ('x')", "parameter 50 ('y')", "rank 1"});
        fails(step(odd ? names("x", "y", 3) : names("x", "y", 4)),  // shape
              {"parameter 50 ('x'): [3]' on rank 1", "parameter 50 ('x'): [4]"});
        named more = names("x", "y", 3);
        more.resize(odd ? 51 : 52);
        fails(step(more), {"parameter 51: none, there are 51' on rank 1", "parameter 51 ('y')"});

        const auto views = [&](auto f) {
          return [&, f] {
            DistributedOptimizer<Sgd, double> fresh{world, {.learning_rate = 1}};
            f(fresh);
          };
        };
        fails(views([&](auto& fresh) {  // memory order
                const strided_buffer<double> w{memory.data(), {3, 4}, {odd ? 1 : 4, odd ? 3 : 1}};
                fresh.step(w, w);
              }),
              {"parameter 0: [3, 4], column-major' on rank 1", "row-major"});
        fails(views([&](auto& fresh) {  // aliasing
                doubles a(3, 0), b(3, 0);
                std::vector<hvdlite::buffer<double>> both{{a.data(), 3},
                                                          {odd ? a.data() : b.data(), 3}};
                fresh.step(both, both);
              }),
              {"parameter 1: [3], the memory of parameter 0' on rank 1", "parameter 1: [3]' on"});
        fails(
            [&] {
              doubles p(3, 0);
              DistributedOptimizer<Sgd, double> fresh{
                  world, {}, {.bucket_bytes = odd ? 100u : 200u, .name = "mine"}};
              fresh.step(p, p);
            },
            {"('mine'), buckets of 100 and 100 bytes", "200 and 200 bytes", "rank 1"});
        named good = names("x", "y", 3);
        opt.step(good, names("x", "y", 3));  // the next correct step works
      },
      {.least = 2});
}

TEST_CASE("DistributedOptimizer: a flush on one rank, a step on another") {
  hvdtest::on_every_world(
      [](const auto& world) {
        doubles p(2, 0);
        DistributedOptimizer<Sgd, double> opt{world, {.learning_rate = 1}};
        opt.step(p, doubles(2, 1));
        const auto text = hvdtest::message_of<hvdlite::mismatch_error>([&] {
          if (world.rank() == 1)
            opt.flush(p);
          else
            opt.step(p, doubles(2, 1));
        });
        CHECK(hvdtest::lacking(text, {"'flush of optimizer 1' on rank 1",
                                      "'gradients 0 to 0 of optimizer 1'"}) == "");
        CHECK(p == doubles(2, -1));
        opt.step(p, doubles(2, 1));
        CHECK(p == doubles(2, -2));
      },
      {.least = 2});
}
