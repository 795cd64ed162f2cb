// SPDX-License-Identifier: Apache-2.0
// Tests of optim/distributed_optimizer.hpp: averages against plain sums, bits that depend on
// nothing but the number of ranks, every style of optimizer and set of parameters, absent
// gradients, weights, and errors that reach all ranks.
#include "support/ranks.hpp"

#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <hvdlite/collective/allreduce.hpp>
#include <hvdlite/optim/distributed_optimizer.hpp>
#include <hvdlite/optim/sgd.hpp>

namespace {

using floats = std::vector<float>;
using hvdlite::DistributedOptimizer;
using hvdlite::Sgd;

/// Numbers that look random, the same on every machine.
class numbers {
 public:
  explicit numbers(std::uint64_t seed) : state_{seed * 0x9e3779b97f4a7c15u + 1} {}
  float next() {  // in [-1, 1)
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<float>(static_cast<std::int64_t>(state_ >> 40) - (1 << 23)) / (1 << 23);
  }
  floats vector(std::size_t n) {
    floats result(n);
    for (float& x : result) x = next();
    return result;
  }
  unsigned below(unsigned n) {
    next();
    return static_cast<unsigned>(state_ >> 33) % n;
  }

 private:
  std::uint64_t state_;
};

std::uint64_t hash_of(const std::vector<floats>& params) {
  std::uint64_t hash = 1469598103934665603u;
  for (const floats& p : params)
    for (const float x : p) {
      std::uint32_t bits;
      std::memcpy(&bits, &x, sizeof bits);
      hash = (hash ^ bits) * 1099511628211u;
    }
  return hash;
}

/// The same hash on all ranks?
bool agreed(const auto& world, std::uint64_t hash) {
  std::uint64_t least = hash, most = hash;
  hvdlite::allreduce(world, least, hvdlite::min{});
  hvdlite::allreduce(world, most, hvdlite::max{});
  return least == most;
}

const std::vector<std::size_t> layer_sizes{300, 7, 64, 1, 5, 0, 129};

/// Five steps with rank-dependent gradients and a random delay; the parameters' hash.
std::uint64_t train(const auto& world, std::size_t bucket_bytes, std::size_t first_bytes) {
  numbers same{1};
  numbers mine{100 + static_cast<std::uint64_t>(world.rank())};
  numbers delays{
      static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count())};
  std::vector<floats> params, grads(layer_sizes.size());
  for (const std::size_t n : layer_sizes) params.push_back(same.vector(n));
  DistributedOptimizer<Sgd, float> opt{
      world,
      {.learning_rate = 0.1, .momentum = 0.9},
      {.bucket_bytes = bucket_bytes, .first_bucket_bytes = first_bytes}};
  for (int step = 0; step < 5; ++step) {
    for (std::size_t i = 0; i < grads.size(); ++i) grads[i] = mine.vector(layer_sizes[i]);
    std::this_thread::sleep_for(std::chrono::microseconds{delays.below(2000)});
    opt.step(params, grads, {.samples = 3 + world.rank() % 2});
  }
  return hash_of(params);
}

}  // namespace

TEST_CASE("DistributedOptimizer: one set of bits, whatever the buckets and the timing") {
  hvdtest::on_every_world([](const auto& world) {
    const std::uint64_t first = train(world, 25u << 20, 1u << 20);
    CHECK(agreed(world, first));
    for (const std::size_t bytes : {0u, 20u, 1u << 20, 25u << 20})
      CHECK(train(world, bytes, bytes) == first);
    CHECK(train(world, 400, 20) == first);
  });
}

TEST_CASE("DistributedOptimizer: the weighted mean of all ranks' gradients, computed plainly") {
  hvdtest::on_every_world([](const auto& world) {
    const auto gradient = [](int rank, std::size_t i) {
      return static_cast<double>(rank + 1) * (static_cast<double>(i) - 3);
    };
    const auto samples = [](int rank) { return 1 + 2 * rank; };
    for (const bool weighted : {false, true}) {
      std::vector<double> p(10, 1.0), g(10);
      for (std::size_t i = 0; i < g.size(); ++i) g[i] = gradient(world.rank(), i);
      const std::vector<double> untouched = g;
      DistributedOptimizer<Sgd, double> opt{world, {.learning_rate = 0.5}};
      if (weighted)
        opt.step(p, g, {.samples = samples(world.rank())});
      else
        opt.step(p, g);
      for (std::size_t i = 0; i < p.size(); ++i) {
        double total = 0, mean = 0;
        for (int r = 0; r < world.size(); ++r) {
          const double weight = weighted ? samples(r) : 1;
          mean += weight * gradient(r, i);
          total += weight;
        }
        CHECK(std::abs(p[i] - (1 - 0.5 * mean / total)) < 1e-12);
      }
      CHECK(g == untouched);
    }
  });
}

TEST_CASE("DistributedOptimizer: alone, the wrapped optimizer's bits and no communication") {
  hvdtest::on_threads(1, [](const auto& world) {
    numbers seed{5};
    floats p = seed.vector(33), q = p;
    const floats g = seed.vector(33);
    Sgd plain{{.learning_rate = 0.3, .momentum = 0.9, .weight_decay = 0.01}};
    DistributedOptimizer<Sgd, float> opt{
        world, {.learning_rate = 0.3, .momentum = 0.9, .weight_decay = 0.01}};
    for (int i = 0; i < 3; ++i) {
      plain.update(0, std::span{q}, std::span<const float>{g});
      opt.step(p, g, {.samples = 7});
    }
    CHECK(std::memcmp(p.data(), q.data(), p.size() * sizeof(float)) == 0);
    CHECK(world.recent_events().empty());
    opt.step(p, g, {.samples = 0});  // no samples: no step
    CHECK(p == q);
  });
}

TEST_CASE("DistributedOptimizer: remembered parameters, read anew at each step") {
  hvdtest::on_every_world([](const auto& world) {
    const float mean = static_cast<float>(world.size() - 1) / 2;
    floats w(3, 1), dw(3, static_cast<float>(world.rank()));
    double unrelated = 0;
    static_cast<void>(unrelated);
    float b = 2, db = static_cast<float>(world.rank());
    DistributedOptimizer<Sgd, float> opt{world, {.learning_rate = 1}};
    opt.add("w", w, dw);
    opt.add("b", b, db);
    CHECK_THROWS_AS(opt.add("b", b, db), hvdlite::usage_error);
    opt.step();
    CHECK(w == floats(3, 1 - mean));
    CHECK(b == 2 - mean);
    // Other memory, same size: the current data is used.
    dw = floats(3, static_cast<float>(2 * world.rank()));
    floats elsewhere(w);
    w.swap(elsewhere);
    opt.step({.samples = 1});
    CHECK(w == floats(3, 1 - 3 * mean));
    if (world.size() > 1) CHECK_THROWS_AS(opt.add("late", b, db), hvdlite::usage_error);
  });
}

namespace {

struct by_tensor {
  float rate;
  void step(floats& p, const floats& g) {
    for (std::size_t i = 0; i < p.size(); ++i) p[i] -= rate * g[i];
  }
};

struct holds_its_own {
  floats w, dw;
  float b = 0, db = 0;
  auto gradients() { return std::tie(dw, db); }
  void step() {
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= dw[i];
    b -= db;
  }
};

}  // namespace

TEST_CASE("DistributedOptimizer: an optimizer that is handed tensors") {
  hvdtest::on_every_world([](const auto& world) {
    const float mean = static_cast<float>(world.size() - 1) / 2;
    DistributedOptimizer<by_tensor, floats> opt{world, by_tensor{0.5f}};
    floats a(4, 1), b(1, 2);
    const floats da(4, static_cast<float>(world.rank())), db(1, static_cast<float>(-world.rank()));
    opt.step(std::tie(a, b), std::tie(da, db));
    CHECK(a == floats(4, 1 - 0.5f * mean));
    CHECK(b == floats(1, 2 + 0.5f * mean));
  });
}

TEST_CASE("DistributedOptimizer: an optimizer that holds its parameters gets averaged gradients") {
  hvdtest::on_every_world([](const auto& world) {
    const float mean = static_cast<float>(world.size() - 1) / 2;
    DistributedOptimizer<holds_its_own, float> opt{world, holds_its_own{}};
    auto& own = opt.optimizer();
    own.w = floats(5, 1);
    own.dw = floats(5, static_cast<float>(world.rank()));
    own.b = 1;
    own.db = static_cast<float>(2 * world.rank());
    opt.step();
    CHECK(own.w == floats(5, 1 - mean));
    CHECK(own.dw == floats(5, mean));
    CHECK(own.b == 1 - 2 * mean);
    own.dw.assign(5, std::numeric_limits<float>::quiet_NaN());
    opt.step({.samples = 0});
    CHECK(own.w == floats(5, 1 - mean));
  });
}

TEST_CASE("DistributedOptimizer: absent gradients are zeros; absent everywhere, nothing moves") {
  hvdtest::on_every_world([](const auto& world) {
    floats p(2, 1), q(2, 1), r(2, 1);
    const bool first = world.rank() == 0;
    std::optional<floats> dp, dq, dr;
    if (first) dp = floats(2, static_cast<float>(world.size()));
    dr = floats(2, 1);
    DistributedOptimizer<Sgd, float> opt{world, {.learning_rate = 1, .weight_decay = 0.5}};
    opt.step(std::tie(p, q, r), std::tie(dp, dq, dr));
    CHECK(p == floats(2, 1 - 1.5f));
    CHECK(q == floats(2, 1));  // not even weight decay
    CHECK(r == floats(2, 1 - 1.5f));
    // And by pointers.
    floats* none = nullptr;
    floats value(2, static_cast<float>(world.size()));
    floats* some = first ? &value : nullptr;
    DistributedOptimizer<Sgd, float> other{world, {.learning_rate = 1}};
    other.add("q", q, none);
    other.add("p", p, some);
    other.step();
    CHECK(q == floats(2, 1));
    CHECK(p == floats(2, -0.5f - 1));
  });
}

TEST_CASE(
    "DistributedOptimizer: a rank without samples is not read, all without: nothing changes") {
  hvdtest::on_every_world([](const auto& world) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const bool empty = world.rank() == world.size() - 1;
    floats p(9, 1);
    DistributedOptimizer<Sgd, float> opt{world, {.learning_rate = 1, .momentum = 0.5}};
    opt.step(p, floats(9, empty ? nan : 2.0f), {.samples = empty ? 0 : 4});
    CHECK(p == floats(9, world.size() == 1 ? 1.0f : -1.0f));
    const floats before = p;
    opt.step(p, floats(9, nan), {.samples = 0});
    CHECK(p == before);
  });
}

TEST_CASE("DistributedOptimizer: ranges, maps and halves") {
  hvdtest::on_every_world([](const auto& world) {
    const float mean = static_cast<float>(world.size() - 1) / 2;
    const float r = static_cast<float>(world.rank());
    std::map<std::string, floats> params{{"a", floats(2, 1)}, {"b", floats(3, 1)}};
    const std::map<std::string, floats> grads{{"a", floats(2, r)}, {"b", floats(3, -r)}};
    DistributedOptimizer<Sgd, float> opt{world, {.learning_rate = 1}};
    opt.step(params, grads);
    CHECK(params["a"] == floats(2, 1 - mean));
    CHECK(params["b"] == floats(3, 1 + mean));

    using half = hvdlite::float16;
    std::vector<half> p(3, half{1.0f});
    // The sum of these halves is no half, their mean is.
    const std::vector<half> g(3, half{60000.0f});
    DistributedOptimizer<Sgd, half> halves{world, {.learning_rate = 1.0 / 60000}};
    halves.step(p, g);
    for (const half x : p) CHECK(std::abs(float{x}) < 1e-3f);
  });
}

/// Knows its parameters by their addresses, and takes tensors of any kind.
struct by_address {
  std::map<const void*, float> velocity;
  template <class P, class G>
  void step(P& parameter, const G& gradient) {
    float& v = velocity[&parameter];
    v = 0.5f * v + gradient[0];
    for (std::size_t i = 0; i < static_cast<std::size_t>(parameter.size()); ++i) parameter[i] -= v;
  }
};

TEST_CASE(
    "DistributedOptimizer: step(parameter, gradient) gets the parameters, not views of them") {
  hvdtest::on_every_world([](const auto& world) {
    floats a(3, 0), b(3, 0);
    DistributedOptimizer<by_address, float> opt{world, by_address{}};
    for (int i = 0; i < 2; ++i) opt.step(std::tie(a, b), std::tuple{floats(3, 2), floats(3, 20)});
    CHECK(opt.optimizer().velocity.size() == 2);
    CHECK(a == floats(3, -5));
    CHECK(b == floats(3, -50));
  });
}

static_assert(hvdlite::detail::owns_tensors<std::vector<floats>>());
static_assert(hvdlite::detail::owns_tensors<std::tuple<floats&, floats>>());
static_assert(hvdlite::detail::owns_tensors<std::map<std::string, floats>>());
static_assert(!hvdlite::detail::owns_tensors<std::vector<floats>&>());
static_assert(!hvdlite::detail::owns_tensors<std::tuple<floats&, floats&>>());
static_assert(!hvdlite::detail::owns_tensors<std::vector<std::span<float>>>());
static_assert(!hvdlite::detail::owns_tensors<std::vector<floats*>>());
static_assert(!hvdlite::detail::owns_tensors<std::span<floats>>());

TEST_CASE(
    "DistributedOptimizer: names of handed parameters are compared, with gradients and ranks") {
  using named = std::map<std::string, floats>;
  hvdtest::on_every_world([](const auto& world) {
    named params{{"a", floats(2, 1)}, {"b", floats(2, 1)}};
    const named before = params;
    DistributedOptimizer<Sgd, float> opt{world, {.learning_rate = 1}};
    const named others{{"a", floats(2)}, {"c", floats(2)}};
    CHECK(hvdtest::lacking(
              hvdtest::message_of<hvdlite::usage_error>([&] { opt.step(params, others); }),
              {"gradient 1", "'c'", "'b'"}) == "");
    opt.step(params, named{{"a", floats(2)}, {"b", floats(2)}});
    named renamed{{"a", floats(2)}, {"d", floats(2)}};
    CHECK(hvdtest::lacking(
              hvdtest::message_of<hvdlite::usage_error>([&] { opt.step(renamed, renamed); }),
              {"parameter 1", "'d'", "'b'", "first step"}) == "");
    CHECK(params == before);
    opt.step(params, std::array{floats(2, 1), floats(2, 2)});  // names on one side only
    CHECK(params["b"] == floats(2, -1));
  });
  hvdtest::on_every_world(
      [](const auto& world) {  // the last rank has another one, of the same shape
        const bool odd = world.rank() == world.size() - 1;
        named params{{"a", floats(2, 1)}, {odd ? "c" : "b", floats(2, 1)}};
        DistributedOptimizer<Sgd, float> opt{world, {.learning_rate = 1}};
        CHECK(hvdtest::lacking(
                  hvdtest::message_of<hvdlite::mismatch_error>([&] { opt.step(params, params); }),
                  {"parameter 1 ('b'): [2]", "parameter 1 ('c'): [2]", "on rank"}) == "");
        CHECK(params["a"] == floats(2, 1));
      },
      {.least = 2});
}

TEST_CASE("DistributedOptimizer: the plan runs backwards and starts small") {
  hvdtest::on_threads(2, [](const auto& world) {
    std::vector<floats> params{floats(100), floats(5), floats(3), floats(4), floats(2), floats(1)};
    DistributedOptimizer<Sgd, float> opt{world, {}, {.bucket_bytes = 32, .first_bucket_bytes = 12}};
    CHECK(opt.buckets().empty());
    opt.step(params, params);
    REQUIRE(opt.buckets().size() == 4);
    CHECK(opt.buckets()[0].count == 3);
    CHECK(opt.buckets()[1].count == 7);
    CHECK(opt.buckets()[3].count == 100);
    // One allreduce per bucket, and one meeting for the plan.
    int reductions = 0;
    for (const auto& e : world.recent_events()) reductions += e.type == hvdlite::dtype::f32;
    CHECK(reductions == 4);
  });
}

TEST_CASE("DistributedOptimizer: what one rank gets wrong, all learn; the next step works") {
  hvdtest::on_every_world(
      [](const auto& world) {
        floats p(4, 1);
        DistributedOptimizer<Sgd, float> opt{world, {.learning_rate = 1}};
        const auto good_step = [&] {
          const floats before = p;
          opt.step(p, floats(4, static_cast<float>(world.rank())));
          CHECK(p[0] == before[0] - static_cast<float>(world.size() - 1) / 2);
        };
        good_step();

        const floats before = p;
        const bool wrong = world.rank() == 1;
        const auto expect = [&](auto&& f, std::initializer_list<std::string_view> words) {
          const std::string text = wrong ? hvdtest::message_of<hvdlite::usage_error>(f)
                                         : hvdtest::message_of<hvdlite::mismatch_error>(f);
          CHECK(hvdtest::lacking(text, words) == "");
          CHECK(p == before);
        };
        expect([&] { opt.step(p, floats(wrong ? 3 : 4)); },
               {"the gradient is [3]", "the parameter [4]"});
        good_step();
        p = before;
        expect([&] { opt.step(p, floats(4), {.samples = wrong ? -1 : 1}); }, {"-1"});
        good_step();
        p = before;
        std::vector<floats> two(wrong ? 2 : 1, floats(4)), one(1, floats(4));
        expect([&] { opt.step(two, one); }, {"2 parameters", "1 gradients"});
        good_step();
        p = before;
        if (wrong) p.resize(5);
        const std::string text =
            wrong ? hvdtest::message_of<hvdlite::usage_error>([&] { opt.step(p, floats(5)); })
                  : hvdtest::message_of<hvdlite::mismatch_error>([&] { opt.step(p, floats(4)); });
        CHECK(hvdtest::lacking(text, {"parameter 0 is [5], and was [4]"}) == "");
      },
      {.least = 2});
}

TEST_CASE("DistributedOptimizer: ranks with other parameters learn it at the first step") {
  hvdtest::on_every_world(
      [](const auto& world) {
        std::vector<floats> params{floats(4), floats(2)};
        if (world.rank() == 1) params.emplace_back(3);
        DistributedOptimizer<Sgd, float> opt{world, {}};
        const auto text =
            hvdtest::message_of<hvdlite::mismatch_error>([&] { opt.step(params, params); });
        CHECK(hvdtest::lacking(
                  text, {"parameter 2: none, there are 2", "parameter 2: [3]", "rank 1"}) == "");
        // Other limits would pair other buckets.
        floats p(4);
        DistributedOptimizer<Sgd, float> limits{
            world, {}, {.bucket_bytes = world.rank() == 0 ? 100u : 200u}};
        hvdtest::message_of<hvdlite::mismatch_error>([&] { limits.step(p, p); });
      },
      {.least = 2});
}

TEST_CASE("DistributedOptimizer: a policy's op") {
  struct summing : hvdlite::default_policy<float> {
    using op = hvdlite::sum;
  };
  hvdtest::on_every_world([](const auto& world) {
    floats p(2, 0);
    DistributedOptimizer<Sgd, float, summing> opt{world, {.learning_rate = 1}};
    opt.step(p, floats(2, 1));
    CHECK(p == floats(2, -static_cast<float>(world.size())));
    // Weights belong to averages.
    CHECK_THROWS_AS(opt.step(p, floats(2, 1), {.samples = 2}), hvdlite::usage_error);
  });
}

TEST_CASE("DistributedOptimizer: alone, too, no parameter changes if one gradient does not fit") {
  hvdtest::on_threads(1, [](const auto& world) {
    floats a{1}, b{1, 1};
    DistributedOptimizer<Sgd, float> opt{world, {.learning_rate = 1}};
    const auto text = hvdtest::message_of<hvdlite::usage_error>(
        [&] { opt.step(std::tie(a, b), std::tuple{floats{1}, floats{1}}); });
    CHECK(hvdtest::lacking(text, {"parameter 1", "[1]", "[2]"}) == "");
    CHECK(a == floats{1});
  });
}
