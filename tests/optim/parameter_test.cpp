// SPDX-License-Identifier: Apache-2.0
// Tests of optim/parameter.hpp: what a step sees of a parameter and its gradient, in whatever
// classes and memory orders they come.
#include "support/ranks.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <hvdlite/core/config.hpp>
#include <hvdlite/core/error.hpp>
#include <hvdlite/optim/distributed_optimizer.hpp>
#include <hvdlite/optim/parameter.hpp>
#include <hvdlite/optim/sgd.hpp>
#include <hvdlite/tensor/std.hpp>
#if HVDLITE_WITH_EIGEN
#include <hvdlite/tensor/eigen.hpp>
#endif

using namespace hvdlite::detail;
using floats = std::vector<float>;
using hvdlite::DistributedOptimizer;
using hvdlite::Sgd;
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

namespace {

struct shallow {
  float* data;
  int count;
};
struct generic {
  template <class P, class G>
  void step(P& p, const G& g) {
    p.noalias() -= g;
  }
};
struct by_shallow {
  void step(shallow& p, const shallow& g) { p.data[0] -= g.data[0]; }
};

}  // namespace

template <>
struct hvdlite::tensor_traits<shallow> {
  static auto view(auto& x) { return hvdlite::buffer{x.data, x.count}; }
};

TEST_CASE(
    "DistributedOptimizer: a tensor whose copy shares its memory is not taken for a gradient") {
  hvdtest::on_every_world(
      [](const auto& world) {
        float values[]{1, 2}, slopes[]{3, 4};
        shallow p{values, 2}, g{slopes, 2};
        DistributedOptimizer<by_shallow, float> opt{world, by_shallow{}};
        const auto text = hvdtest::message_of<hvdlite::usage_error>([&] { opt.step(p, g); });
        CHECK(hvdtest::lacking(text, {"evaluate()", "std::span"}) == "");
        CHECK(values[0] == 1);
        CHECK(values[1] == 2);
        // Sgd takes spans, so that there is no copy.
        DistributedOptimizer<Sgd, float> fine{world, {.learning_rate = 1}};
        fine.step(p, g);
        CHECK(values[0] == -2);
        CHECK(values[1] == -2);
      },
      {.least = 2});
}

TEST_CASE("DistributedOptimizer: views in another memory order go to their own places") {
  hvdtest::on_every_world([](const auto& world) {
    const float mean = static_cast<float>(world.size() + 1) / 2;
    floats columns(6);  // 1 2 3 / 4 5 6, column by column
    for (int r = 0; r < 2; ++r)
      for (int c = 0; c < 3; ++c)
        columns[static_cast<std::size_t>(2 * c + r)] =
            static_cast<float>((3 * r + c + 1) * (world.rank() + 1));
    const hvdlite::strided_buffer<float> gradient{columns.data(), {2, 3}, {1, 2}};
    float w[2][3] = {};
    DistributedOptimizer<Sgd, float> opt{world, {.learning_rate = 1}};
    opt.step(w, gradient);
    for (int r = 0; r < 2; ++r)
      for (int c = 0; c < 3; ++c) CHECK(w[r][c] == -mean * static_cast<float>(3 * r + c + 1));
    // As many elements are not enough.
    const hvdlite::strided_buffer<float> turned{columns.data(), {3, 2}, {1, 3}};
    DistributedOptimizer<Sgd, float> other{world, {}};
    CHECK_THROWS_AS(other.step(w, turned), hvdlite::usage_error);
    CHECK_THROWS_AS(other.step(w, columns), hvdlite::usage_error);
  });
}

#if HVDLITE_WITH_EIGEN
TEST_CASE("DistributedOptimizer: gradients in another memory order go to their own places") {
  hvdtest::on_every_world([](const auto& world) {
    using row_major = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const float factor = static_cast<float>(world.rank() + 1);
    const float mean = static_cast<float>(world.size() + 1) / 2;
    Eigen::MatrixXf g(2, 3);
    g << 1, 2, 3, 4, 5, 6;
    const Eigen::MatrixXf mine = g * factor, turned = mine.transpose();
    const row_major rows = mine;
    const Eigen::MatrixXf expected = -mean * g;
    const auto step = [&](auto&& gradient) {
      Eigen::MatrixXf w = Eigen::MatrixXf::Zero(2, 3);
      DistributedOptimizer<Sgd, float> opt{world, {.learning_rate = 1}};
      opt.step(w, gradient);
      return w;
    };
    CHECK(step(mine) == expected);
    CHECK(step(rows) == expected);
    CHECK(step(turned.transpose()) == expected);
    const Eigen::MatrixXf one = Eigen::MatrixXf::Identity(3, 3);
    CHECK(step((one * turned).transpose()) == expected);
    // And parameters in another one.
    Eigen::MatrixXf host = Eigen::MatrixXf::Zero(3, 2);
    auto view = host.transpose();
    DistributedOptimizer<Sgd, float> opt{world, {.learning_rate = 1}};
    opt.step(view, mine);
    CHECK(host.transpose() == expected);
    // As many elements are not enough.
    Eigen::MatrixXf w = Eigen::MatrixXf::Zero(2, 3);
    DistributedOptimizer<Sgd, float> other{world, {}};
    CHECK_THROWS_AS(other.step(w, turned), hvdlite::usage_error);
    CHECK_THROWS_AS(other.step(w, Eigen::VectorXf(6)), hvdlite::usage_error);
    CHECK(w == Eigen::MatrixXf::Zero(2, 3));

    DistributedOptimizer<generic, float> any{world, generic{}};
    any.step(w, mine);
    CHECK(w == expected);
  });
}

TEST_CASE("DistributedOptimizer: Eigen matrices, views and expressions are one set") {
  hvdtest::on_every_world([](const auto& world) {
    const float mean = static_cast<float>(world.size() - 1) / 2;
    const float r = static_cast<float>(world.rank());
    Eigen::MatrixXf w = Eigen::MatrixXf::Ones(3, 4), host = Eigen::MatrixXf::Ones(6, 6);
    Eigen::VectorXf b = Eigen::VectorXf::Ones(5);
    auto block = host.block(1, 2, 2, 3);
    const Eigen::MatrixXf dblock = Eigen::MatrixXf::Constant(2, 3, r);
    DistributedOptimizer<Sgd, Eigen::MatrixXf> opt{world, {.learning_rate = 1}};
    const auto expression = Eigen::VectorXf::Constant(5, r) * 2;
    const Eigen::MatrixXf dw = Eigen::MatrixXf::Constant(3, 4, r);
    opt.step(std::tie(w, b, block), std::tuple{dw, expression.eval(), dblock});
    CHECK(w == Eigen::MatrixXf::Constant(3, 4, 1 - mean));
    CHECK(b == Eigen::VectorXf::Constant(5, 1 - 2 * mean));
    CHECK(block == Eigen::MatrixXf::Constant(2, 3, 1 - mean));
    CHECK(host(0, 0) == 1);
    CHECK(host(3, 2) == 1);

    DistributedOptimizer<Sgd, Eigen::VectorXf> single{world, {.learning_rate = 1}};
    single.step(b, 3 * Eigen::VectorXf::Constant(5, r), {.samples = 2});
    CHECK(b == Eigen::VectorXf::Constant(5, 1 - 5 * mean));

    struct by_matrix {
      void step(Eigen::MatrixXf& p, const Eigen::MatrixXf& g) { p -= g; }
    };
    DistributedOptimizer<by_matrix, float> mine{world, by_matrix{}};
    Eigen::MatrixXf m = Eigen::MatrixXf::Zero(2, 2);
    mine.step(m, Eigen::MatrixXf::Constant(2, 2, r) * 4);
    CHECK(m == Eigen::MatrixXf::Constant(2, 2, -4 * mean));
  });
}
#endif
