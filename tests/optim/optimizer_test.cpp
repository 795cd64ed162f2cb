// SPDX-License-Identifier: Apache-2.0
// Tests of optim/optimizer.hpp: the spellings that optimizer_traits finds, and a specialisation.
#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <tuple>
#include <vector>

#include <hvdlite/optim/optimizer.hpp>
#include <hvdlite/optim/sgd.hpp>
#include <hvdlite/tensor/std.hpp>

namespace {

using floats = std::vector<float>;

struct by_tensor {
  void step(floats& p, const floats& g) { p[0] -= g[0]; }
};
struct by_index_and_tensor {
  std::size_t seen = 0;
  void update(std::size_t index, floats& p, const floats& g) {
    seen += index;
    p[0] -= g[0];
  }
};
struct holding {
  floats p{1}, g{1};
  auto gradients() { return std::tie(g); }
  void step() { p[0] -= g[0]; }
};
struct other_names {
  floats weights{1}, slopes{1};
  void descend() { weights[0] -= slopes[0]; }
};
struct nothing {};

}  // namespace

template <>
struct hvdlite::optimizer_traits<other_names> {
  static auto gradients(other_names& o) { return std::tie(o.slopes); }
  static void step(other_names& o) { o.descend(); }
};

static_assert(hvdlite::span_optimizer<hvdlite::Sgd, float>);
static_assert(!hvdlite::holding_optimizer<hvdlite::Sgd>);
static_assert(hvdlite::tensor_optimizer<by_tensor, floats, floats>);
static_assert(!hvdlite::span_optimizer<by_tensor, float>);
static_assert(hvdlite::tensor_optimizer<by_index_and_tensor, floats, floats>);
static_assert(hvdlite::holding_optimizer<holding>);
static_assert(hvdlite::holding_optimizer<other_names>);
static_assert(!hvdlite::holding_optimizer<nothing> && !hvdlite::span_optimizer<nothing, float> &&
              !hvdlite::tensor_optimizer<nothing, floats, floats>);

TEST_CASE("optimizer_traits: each spelling reaches the member it names") {
  floats p{3};
  const floats g{1};
  by_tensor a;
  hvdlite::optimizer_traits<by_tensor>::update(a, 0, p, g);
  by_index_and_tensor b;
  hvdlite::optimizer_traits<by_index_and_tensor>::update(b, 5, p, g);
  CHECK(p[0] == 1);
  CHECK(b.seen == 5);
  holding h;
  hvdlite::optimizer_traits<holding>::step(h);
  CHECK(h.p[0] == 0);
  other_names o;
  hvdlite::optimizer_traits<other_names>::step(o);
  CHECK(o.weights[0] == 0);
}
