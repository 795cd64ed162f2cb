// SPDX-License-Identifier: Apache-2.0
// broadcast beyond the matrix: forms of the call, tensor types, and that bits are bits.
#include <doctest/doctest.h>

#include <array>
#include <complex>
#include <cstdint>
#include <string>
#include <vector>

#include <hvdlite/collective/broadcast.hpp>
#if HVDLITE_WITH_EIGEN
#include <Eigen/Core>

#include <hvdlite/tensor/eigen.hpp>
#endif

#include "support/ranks.hpp"

namespace {

using hvdtest::on_every_world;
using hvdtest::world_type;

TEST_CASE("broadcast: the root is 0, or given as any integer, or as an option") {
  on_every_world([](const world_type& world) {
    const int last = world.size() - 1;
    int x = world.rank() + 10;
    hvdlite::broadcast(world, x);
    CHECK(x == 10);
    x = world.rank() + 10;
    hvdlite::broadcast(world, x, last);
    CHECK(x == 10 + last);
    x = world.rank() + 10;
    hvdlite::broadcast(world, x, static_cast<std::size_t>(last));
    CHECK(x == 10 + last);
    x = world.rank() + 10;
    hvdlite::broadcast(world, x, {.root = last, .name = "step"});
    CHECK(x == 10 + last);
  });
}

TEST_CASE("broadcast: every root, sizes around those at which the way of the data changes") {
  on_every_world([](const world_type& world) {
    for (int root = 0; root < world.size(); ++root)
      for (const std::size_t count : {0u, 1u, 31u, 32u, 33u, 4096u, 4097u, 262144u, 262145u}) {
        std::vector<std::uint8_t> x(count);
        for (std::size_t i = 0; i < count; ++i)
          x[i] = static_cast<std::uint8_t>(i * 7 + static_cast<std::size_t>(world.rank()));
        hvdlite::broadcast(world, x, root);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < count; ++i)
          if (x[i] != static_cast<std::uint8_t>(i * 7 + static_cast<std::size_t>(root))) ++wrong;
        CHECK(wrong == 0);
      }
  });
}

TEST_CASE("broadcast: one after the other from different roots does not mix them up") {
  on_every_world([](const world_type& world) {
    for (int round = 0; round < 200; ++round) {
      const int root = round * 3 % world.size();
      std::array<int, 20> x{};
      x.fill(world.rank() * 1000 + round);
      hvdlite::broadcast(world, x, root);
      CHECK(x[0] == root * 1000 + round);
      CHECK(x[19] == x[0]);
    }
  });
}

TEST_CASE("broadcast: strided memory keeps its neighbours") {
  on_every_world([](const world_type& world) {
    std::vector<float> memory(20, float(-1 - world.rank()));
    const hvdlite::strided_buffer<float> part{memory.data() + 1, {3, 2}, {6, 2}};
    for (const std::size_t i : {1u, 3u, 7u, 9u, 13u, 15u})
      memory[i] = static_cast<float>(i) + 100 * static_cast<float>(world.rank());
    const auto before = memory;
    hvdlite::broadcast(world, part, world.size() - 1);
    auto wanted = before;
    for (const std::size_t i : {1u, 3u, 7u, 9u, 13u, 15u})
      wanted[i] = static_cast<float>(i) + 100 * static_cast<float>(world.size() - 1);
    CHECK(memory == wanted);
  });
}

#if HVDLITE_WITH_EIGEN
TEST_CASE("broadcast: Eigen's matrices, blocks and transposes") {
  on_every_world([](const world_type& world) {
    const auto of = [](int rank) -> Eigen::MatrixXd {
      Eigen::MatrixXd m(4, 6);
      for (Eigen::Index i = 0; i < m.size(); ++i) m.data()[i] = double(i) + 100 * rank;
      return m;
    };
    const int root = world.size() / 2;
    Eigen::MatrixXd m = of(world.rank());
    hvdlite::broadcast(world, m, root);
    CHECK(m == of(root));
    m = of(world.rank());
    Eigen::MatrixXd wanted = m;
    wanted.block(1, 1, 2, 3) = of(root).block(1, 1, 2, 3);
    hvdlite::broadcast(world, m.block(1, 1, 2, 3), root);
    CHECK(m == wanted);
    m = of(world.rank());
    hvdlite::broadcast(world, m.transpose(), root);
    CHECK(m == of(root));
    Eigen::RowVectorXcf v = Eigen::RowVectorXcf::Constant(5, {1.0f, float(world.rank())});
    hvdlite::broadcast(world, v, root);
    CHECK(v == Eigen::RowVectorXcf::Constant(5, {1.0f, float(root)}));
  });
}
#endif

}  // namespace
