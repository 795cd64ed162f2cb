// SPDX-License-Identifier: Apache-2.0
// Tests of optim/parameter.hpp: what a step sees of a parameter and its gradient.
#include <doctest/doctest.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <hvdlite/core/error.hpp>
#include <hvdlite/optim/parameter.hpp>
#include <hvdlite/optim/sgd.hpp>
#include <hvdlite/tensor/std.hpp>

using namespace hvdlite::detail;
using floats = std::vector<float>;
template <class P, class G>
using pair = typed_parameter<hvdlite::Sgd, float, P, G>;

TEST_CASE("parameter: a gradient that lies right is used where it is") {
  floats p{1, 2, 3}, g{4, 5, 6}, scratch(3);
  const pair<floats, floats> one{p, g};
  const auto order = one.layout().shape;
  CHECK(one.gradient(scratch.data(), order) == g.data());
  CHECK(one.look(order).present);
  CHECK(one.look(order).address == g.data());
  CHECK(one.gradient_writable());
  const floats reduced{7, 8, 9};
  one.unpack(reduced.data(), order);
  CHECK(g == reduced);
  one.change(gradient_change::scale, 2);
  CHECK(g == floats{14, 16, 18});
  one.change(gradient_change::clamp, 15);
  CHECK(g == floats{14, 15, 15});
  one.change(gradient_change::zero, 0);
  CHECK(g == floats{0, 0, 0});
  hvdlite::Sgd sgd{{.learning_rate = 1}};
  one.update(&sgd, 0, reduced.data());
  CHECK(p == floats{-6, -6, -6});
  g = {1, 1, 1};
  one.update_alone(&sgd, 0);
  CHECK(p == floats{-7, -7, -7});
}

TEST_CASE("parameter: another memory order, there and back") {
  float p[2][3] = {};
  floats memory{1, 4, 2, 5, 3, 6}, scratch(6);  // column by column
  hvdlite::strided_buffer<float> g{memory.data(), {2, 3}, {1, 2}};
  const pair<float[2][3], hvdlite::strided_buffer<float>> one{p, g};
  const auto order = one.layout().shape;
  CHECK(one.gradient(scratch.data(), order) == scratch.data());
  CHECK(scratch == floats{1, 2, 3, 4, 5, 6});
  one.unpack(floats{10, 20, 30, 40, 50, 60}.data(), order);
  CHECK(memory == floats{10, 40, 20, 50, 30, 60});
}

TEST_CASE("parameter: absent is null, nullopt and empty; what does not fit is an error") {
  floats p(3), empty, wrong(2), scratch(3);
  floats* none = nullptr;
  std::optional<floats> nothing;
  const auto absent = [&](const parameter& one) {
    const auto order = one.layout().shape;
    return !one.look(order).present && one.gradient(scratch.data(), order) == nullptr;
  };
  CHECK(absent(pair<floats, floats>{p, empty}));
  CHECK(absent(pair<floats, floats*>{p, none}));
  CHECK(absent(pair<floats, std::optional<floats>>{p, nothing}));
  no_gradient no;
  CHECK(absent(pair<floats, no_gradient>{p, no}));
  floats q;
  CHECK(pair<floats, floats>{q, empty}.look({}).present == false);
  CHECK(pair<floats, floats>{q, empty}.look(hvdlite::shape(q)).present);  // it lacks nothing
  const pair<floats, floats> unfit{p, wrong};
  CHECK_THROWS_WITH_AS(unfit.look(hvdlite::shape(p)), "the gradient is [2], the parameter [3]",
                       hvdlite::usage_error);
  CHECK_THROWS_AS(unfit.gradient(scratch.data(), hvdlite::shape(p)), hvdlite::usage_error);
}

TEST_CASE("parameter: const gradients are read, not written") {
  floats p(1);
  const floats g{3};
  const pair<floats, const floats> one{p, g};
  float scratch = 0;
  CHECK(!one.gradient_writable());
  CHECK(one.gradient(&scratch, one.layout().shape) == g.data());
  CHECK_THROWS_AS(one.change(gradient_change::zero, 0), hvdlite::usage_error);
  CHECK_THROWS_AS(one.unpack(&scratch, one.layout().shape), hvdlite::usage_error);
}

TEST_CASE("function_ref: calls what it refers to") {
  int sum = 0;
  const auto add = [&](int x) { sum += x; };
  const function_ref<int> f{add};
  f(2);
  const function_ref<int> copy = f;
  copy(3);
  CHECK(sum == 5);
}
