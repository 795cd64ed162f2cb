// SPDX-License-Identifier: Apache-2.0
// allreduce beyond the matrix: the tensor types that users have, the policies by numbers that can
// be read, memory that overlaps, and the order of a sum over nodes.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <hvdlite/collective/allreduce.hpp>
#include <hvdlite/collective/broadcast.hpp>
#if HVDLITE_WITH_EIGEN
#include <Eigen/Core>

#include <hvdlite/tensor/eigen.hpp>
#endif

#include "matrix/reference.hpp"
#include "support/ranks.hpp"

/// A tensor type that the library has never heard of, and its one function.
struct my_array {
  float* pointer;
  int count;
};
template <>
struct hvdlite::tensor_traits<my_array> {
  static auto view(auto& a) { return hvdlite::buffer{a.pointer, a.count}; }
};

namespace {

using hvdtest::lacking;
using hvdtest::message_of;
using hvdtest::on_every_world;
using hvdtest::world_type;

/// 0 + 1 + ... + (n - 1)
int triangle(const world_type& world) { return world.size() * (world.size() - 1) / 2; }

TEST_CASE("allreduce: every tensor of the standard library, and of somebody else") {
  on_every_world([](const world_type& world) {
    const int n = world.size();
    const int r = world.rank();
    const float sum = static_cast<float>(triangle(world));
    const float mine = static_cast<float>(r);
    const hvdlite::sum op;

    float scalar = mine;
    hvdlite::allreduce(world, scalar, op);
    CHECK(scalar == sum);
    std::vector<float> v{mine, mine + 1, mine + 2};
    hvdlite::allreduce(world, v, op);
    CHECK(v == std::vector<float>{sum, sum + float(n), sum + float(2 * n)});
    std::array<long, 2> a{r, -r};
    hvdlite::allreduce(world, a, op);
    CHECK(a == std::array<long, 2>{triangle(world), -triangle(world)});
    std::array<bool, 3> flags{true, r == 0, false};
    hvdlite::allreduce(world, flags, hvdlite::logical_and{});
    CHECK(flags == std::array<bool, 3>{true, n == 1, false});
    int c[2][3] = {{r, 1, 2}, {3, 4, r}};
    hvdlite::allreduce(world, c, op);
    CHECK(c[0][0] == triangle(world));
    CHECK(c[1][1] == 4 * n);
    CHECK(c[1][2] == triangle(world));
    std::vector<double> all(5, r);
    hvdlite::allreduce(world, std::span{all}.subspan(1, 3), op);
    CHECK(all == std::vector<double>{double(r), double(triangle(world)), double(triangle(world)),
                                     double(triangle(world)), double(r)});
    float raw[4] = {mine, mine, mine, mine};
    hvdlite::allreduce(world, hvdlite::buffer{raw + 1, 2}, op);
    CHECK(raw[0] == mine);
    CHECK(raw[1] == sum);
    CHECK(raw[2] == sum);
    CHECK(raw[3] == mine);
    float own[3] = {mine, mine, mine};
    my_array foreign{own, 3};
    hvdlite::allreduce(world, foreign, op);
    CHECK(own[2] == sum);
    char letter = static_cast<char>(r);
    hvdlite::allreduce(world, letter, hvdlite::max{});
    CHECK(letter == n - 1);
  });
}

struct maximum_policy {
  using op = hvdlite::max;
};

TEST_CASE("allreduce: forms of the call") {
  on_every_world([](const world_type& world) {
    const int n = world.size();
    std::vector<double> x{double(world.rank())};
    hvdlite::allreduce(world, x);  // the average
    CHECK(x[0] == double(triangle(world)) / n);
    x[0] = world.rank();
    hvdlite::allreduce(world, x, {.postscale = 10});
    CHECK(x[0] == doctest::Approx(10.0 * triangle(world) / n));
    x[0] = world.rank();
    hvdlite::allreduce<maximum_policy>(world, x);
    CHECK(x[0] == n - 1);
    const std::vector<double> in{double(world.rank())};
    std::vector<double> out{-1};
    hvdlite::allreduce(world, in, out);
    CHECK(out[0] == double(triangle(world)) / n);
    CHECK(in[0] == world.rank());
    hvdlite::allreduce(world, in, out, hvdlite::sum{}, {.name = "w", .prescale = 2});
    CHECK(out[0] == 2 * triangle(world));
    // Input and output of different types and layouts, stored alike.
    std::vector<double> wide{-1, -2, -3};
    hvdlite::allreduce(world, std::array<double, 2>{1, 2},
                       hvdlite::strided_buffer<double>{wide.data(), {2}, {2}}, hvdlite::sum{});
    CHECK(wide == std::vector<double>{1.0 * n, -2, 2.0 * n});
    std::vector<float> nothing;
    hvdlite::allreduce(world, nothing);
    hvdlite::allreduce(world, hvdlite::buffer<float>{});
  });
}

TEST_CASE("allreduce: memory order of input and output must agree") {
  on_every_world([](const world_type& world) {
    std::vector<float> in(6, 1.0f), out(6, 0.0f);
    const std::string text = message_of<hvdlite::usage_error>([&] {
      hvdlite::allreduce(world, hvdlite::strided_buffer<float>{in.data(), {2, 3}, {3, 1}},
                         hvdlite::strided_buffer<float>{out.data(), {2, 3}, {1, 2}});
    });
    CHECK(lacking(text, {"row-major", "column-major"}) == "");
    CHECK(out == std::vector<float>(6, 0.0f));
  });
}

TEST_CASE("allreduce: output that overlaps its input in any way") {
  for (const int length : {6, 5000})
    on_every_world([&](const world_type& world) {
      const auto count = static_cast<std::size_t>(length);
      for (const std::ptrdiff_t shift : {-3, -1, 0, 1, 3}) {
        std::vector<int> memory(count + 8);
        for (std::size_t i = 0; i < memory.size(); ++i)
          memory[i] = static_cast<int>(i) * (world.rank() + 1);
        int* const in = memory.data() + 4;
        int* const out = in + shift;
        const std::vector<int> before = memory;
        hvdlite::allreduce(world, hvdlite::buffer<const int>{in, length},
                           hvdlite::buffer{out, length}, hvdlite::sum{});
        std::vector<int> wanted = before;
        const int factor = world.size() * (world.size() + 1) / 2;
        for (std::size_t i = 0; i < count; ++i)
          wanted[static_cast<std::size_t>(4 + shift) + i] = static_cast<int>(i + 4) * factor;
        CHECK(memory == wanted);
      }
    });
}

TEST_CASE("allreduce: NaN on one rank is NaN everywhere, in min and max too") {
  on_every_world([](const world_type& world) {
    for (int bad = 0; bad < world.size(); ++bad) {
      const auto check = [&]<class T>(T) {
        const T nan = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
        const T value = static_cast<T>(static_cast<float>(world.rank()));
        for (const int count : {1, 3000}) {
          std::vector<T> lo(static_cast<std::size_t>(count), world.rank() == bad ? nan : value);
          auto hi = lo, mean = lo;
          hvdlite::allreduce(world, lo, hvdlite::min{});
          hvdlite::allreduce(world, hi, hvdlite::max{});
          hvdlite::allreduce(world, mean);
          const auto all_nan = [](const auto& v) {
            return std::all_of(v.begin(), v.end(), [](T x) { return std::isnan(float(x)); });
          };
          CHECK(all_nan(lo));
          CHECK(all_nan(hi));
          CHECK(all_nan(mean));
        }
      };
      check(float{});
      check(double{});
      check(hvdlite::float16{0.0f});
      check(hvdlite::bfloat16{0.0f});
    }
  });
}

TEST_CASE("allreduce: infinities, and the sign of what is smallest") {
  on_every_world([](const world_type& world) {
    const float infinity = std::numeric_limits<float>::infinity();
    std::vector<float> x{world.rank() == 0 ? infinity : 1.0f, -infinity, float(-world.rank())};
    auto lo = x, hi = x;
    hvdlite::allreduce(world, lo, hvdlite::min{});
    hvdlite::allreduce(world, hi, hvdlite::max{});
    CHECK(lo == std::vector<float>{world.size() == 1 ? infinity : 1.0f, -infinity,
                                   float(1 - world.size())});
    CHECK(hi[0] == infinity);
    CHECK(hi[1] == -infinity);
  });
}

TEST_CASE("average of integers: truncated toward zero, also where the sum does not fit") {
  on_every_world([](const world_type& world) {
    const int n = world.size();
    const auto check = [&]<class T>(T) {
      using L = std::numeric_limits<T>;
      std::vector<T> x{(L::max)(), L::lowest(), T(world.rank() == 0 ? 1 : 0),
                       T(world.rank() == 0 ? T(0) - T(1) : 0)};
      hvdlite::allreduce(world, x);
      CHECK(x[0] == (L::max)());
      CHECK(x[1] == L::lowest());
      CHECK(x[2] == T(n == 1 ? 1 : 0));                                      // 1 / n
      if constexpr (std::is_signed_v<T>) CHECK(x[3] == T(n == 1 ? -1 : 0));  // not rounded down
    };
    check(std::int8_t{});
    check(std::int16_t{});
    check(std::int32_t{});
    check(std::int64_t{});
    check(std::uint8_t{});
    check(std::uint16_t{});
    check(std::uint32_t{});
    check(std::uint64_t{});
    if (n == 2) {
      std::array<int, 2> x{world.rank() == 0 ? -3 : 0, world.rank() == 0 ? 3 : 0};
      hvdlite::allreduce(world, x);
      CHECK(x == std::array<int, 2>{-1, 1});
    }
  });
}

TEST_CASE("sum of integers wraps") {
  on_every_world([](const world_type& world) {
    std::array<std::int8_t, 1> narrow{100};
    hvdlite::allreduce(world, narrow, hvdlite::sum{});
    CHECK(narrow[0] == static_cast<std::int8_t>(100 * world.size()));
    std::array<std::uint64_t, 1> wide{std::uint64_t{1} << 63};
    hvdlite::allreduce(world, wide, hvdlite::sum{});
    CHECK(wide[0] == (world.size() % 2 == 0 ? 0 : std::uint64_t{1} << 63));
    std::array<std::int64_t, 1> product{world.rank() == 0 ? std::int64_t{1} << 62 : 4};
    hvdlite::allreduce(world, product, hvdlite::product{});
    CHECK(product[0] == (world.size() == 1 ? std::int64_t{1} << 62 : 0));
  });
}

TEST_CASE("halves: large ones have a mean, small ones do not vanish, one rounding") {
  on_every_world([](const world_type& world) {
    for (const std::size_t count : {std::size_t{4}, std::size_t{4000}}) {
      const int n = world.size();
      std::vector<hvdlite::float16> large(count, hvdlite::float16{60000.0f});
      hvdlite::allreduce(world, large);
      CHECK(float(large[count - 1]) == float(hvdlite::float16{60000.0f}));
      // 2048 + 1 + 1 + 1 is 2048 if each step is rounded to a half.
      std::vector<hvdlite::float16> ones(count,
                                         hvdlite::float16{world.rank() == 0 ? 2048.0f : 1.0f});
      hvdlite::allreduce(world, ones, hvdlite::sum{});
      CHECK(float(ones[count - 1]) == float(hvdlite::float16{2048.0f + float(n - 1)}));
      std::vector<hvdlite::bfloat16> brain(count,
                                           hvdlite::bfloat16{world.rank() == 0 ? 256.0f : 1.0f});
      hvdlite::allreduce(world, brain, hvdlite::sum{});
      CHECK(float(brain[count - 1]) == float(hvdlite::bfloat16{256.0f + float(n - 1)}));
      std::vector<hvdlite::float16> tiny(count, hvdlite::float16::from_bits(1));
      hvdlite::allreduce(world, tiny);
      CHECK(tiny[count - 1].bits() == 1);
    }
  });
}

TEST_CASE("samples: a weighted average, and a rank without samples is not read") {
  on_every_world([](const world_type& world) {
    const int n = world.size();
    for (const std::size_t count : {std::size_t{2}, std::size_t{3000}}) {
      std::vector<double> x(count, world.rank() + 1.0);
      hvdlite::allreduce(world, x, {.samples = static_cast<std::size_t>(world.rank() + 1)});
      double values = 0, weights = 0;
      for (int r = 1; r <= n; ++r) values += double(r) * r, weights += r;
      CHECK(x[count - 1] == doctest::Approx(values / weights));

      // Rank 0 has an empty batch, whose mean is NaN.
      std::vector<float> y(count, world.rank() == 0 ? std::nanf("") : 2.0f);
      hvdlite::allreduce(world, y, {.samples = world.rank() == 0 ? 0 : 5});
      if (n > 1) CHECK(y == std::vector<float>(count, 2.0f));
      if (n == 1) CHECK(std::isnan(y[0]));  // nobody has any: nothing changes
    }
  });
}

TEST_CASE("samples: equal ones give the bits of the plain average") {
  on_every_world([](const world_type& world) {
    for (const std::size_t count : {std::size_t{5}, std::size_t{2001}}) {
      std::vector<float> plain(count);
      for (std::size_t i = 0; i < count; ++i)
        plain[i] = 1.0f / static_cast<float>(i + 3 + 7 * static_cast<std::size_t>(world.rank()));
      auto weighted = plain;
      hvdlite::allreduce(world, plain);
      hvdlite::allreduce(world, weighted, {.samples = 0.3});
      CHECK(std::memcmp(plain.data(), weighted.data(), count * sizeof(float)) == 0);
    }
  });
}

/// 2 x 2 matrices modulo 97, four bits of a byte each would do: an element is a function x -> a x +
/// b modulo 11, packed as 16 a + b. Composition is associative and not commutative.
int compose(int f, int g) {
  const int a = f / 16 * (g / 16) % 11;
  const int b = (f / 16 * (g % 16) + f % 16) % 11;
  return 16 * a + b;
}

TEST_CASE("user_op: lower ranks come first") {
  on_every_world([](const world_type& world) {
    const auto function_of = [](int rank, std::size_t i) {
      return 16 * (2 + (rank + static_cast<int>(i)) % 5) + (3 * rank + static_cast<int>(i)) % 11;
    };
    for (const std::size_t count : {std::size_t{3}, std::size_t{2000}}) {
      std::vector<int> x(count), wanted(count, 16);
      for (std::size_t i = 0; i < count; ++i) {
        x[i] = function_of(world.rank(), i);
        for (int r = 0; r < world.size(); ++r) wanted[i] = compose(wanted[i], function_of(r, i));
      }
      hvdlite::allreduce(world, x, hvdlite::user_op{"compose", compose, 16});
      CHECK(x == wanted);
    }
  });
}

TEST_CASE("user_op: state in the function, halves computed with in float") {
  on_every_world([](const world_type& world) {
    const float limit = 2.5f;
    const auto clipped = [&limit](float a, float b) { return (std::min)(a + b, limit); };
    std::vector<hvdlite::bfloat16> x(100, hvdlite::bfloat16{1.0f});
    hvdlite::allreduce(world, x, hvdlite::user_op{"clipped", clipped, 0.0f});
    CHECK(float(x[99]) == (std::min)(float(world.size()), limit));
  });
}

TEST_CASE("the order of a sum: the same bits on all ranks, at all sizes, and by the tree") {
  // 1e8 + 1 - 1e8 and its like: another order, another sum.
  const auto value = [](int rank, std::size_t i) {
    constexpr float values[] = {1e8f, 1.0f, -1e8f, 3.0f, 0.7f};
    return values[(static_cast<std::size_t>(rank) + i) % 5] * (1.0f + 0.1f * float(i % 7));
  };
  for (const std::size_t count : {std::size_t{8}, std::size_t{1000}, std::size_t{200000}})
    on_every_world([&](const world_type& world) {
      std::vector<float> x(count);
      for (std::size_t i = 0; i < count; ++i) x[i] = value(world.rank(), i);
      hvdlite::allreduce(world, x, hvdlite::sum{});
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < count; ++i) {
        std::vector<float> leaves;
        for (int r = 0; r < world.size(); ++r) leaves.push_back(value(r, i));
        const float sum =
            hvdtest::tree(leaves, [](float a, float b) { return hvdtest::plus(a, b); });
        if (!hvdtest::same_element(x[i], sum)) ++wrong;
      }
      CHECK(wrong == 0);
      std::vector<float> root = x;
      hvdlite::broadcast(world, root, world.size() - 1);
      CHECK(std::memcmp(root.data(), x.data(), count * sizeof(float)) == 0);
    });
}

/// The sum of all ranks' values as 4 or 5 threads on nodes of `per_node` get it.
std::vector<float> sum_on_nodes(int ranks, int per_node, std::size_t count) {
  std::vector<float> result;
  std::mutex mutex;
  hvdtest::on_threads(
      ranks,
      [&](const world_type& world) {
        std::vector<float> x(count);
        for (std::size_t i = 0; i < count; ++i)
          x[i] = std::sin(static_cast<float>(i * 5 + static_cast<std::size_t>(world.rank()))) *
                 (world.rank() % 2 == 0 ? 1e4f : 1.0f);
        hvdlite::allreduce(world, x, hvdlite::sum{});
        const std::lock_guard lock{mutex};
        if (result.empty()) result = x;
        CHECK(std::memcmp(result.data(), x.data(), count * sizeof(float)) == 0);
      },
      {.ranks_per_node = per_node});
  return result;
}

TEST_CASE("the order of a sum: two nodes of two ranks give the bits of one node of four") {
  if (hvdtest::under_mpi()) return;
  for (const std::size_t count : {std::size_t{8}, std::size_t{500}, std::size_t{100000}}) {
    const auto one_node = sum_on_nodes(4, 0, count);
    CHECK(one_node == sum_on_nodes(4, 2, count));
    CHECK(one_node == sum_on_nodes(4, 1, count));          // four nodes
    const auto three_and_two = sum_on_nodes(5, 3, count);  // ((0 1) 2) (3 4)
    std::size_t wrong = 0;
    const auto leaf = [](std::size_t i, std::size_t rank) {
      return std::sin(static_cast<float>(i * 5 + rank)) * (rank % 2 == 0 ? 1e4f : 1.0f);
    };
    using hvdtest::plus;
    for (std::size_t i = 0; i < count; ++i) {
      const float sum =
          plus(plus(plus(leaf(i, 0), leaf(i, 1)), leaf(i, 2)), plus(leaf(i, 3), leaf(i, 4)));
      if (!hvdtest::same_element(three_and_two[i], sum)) ++wrong;
    }
    CHECK(wrong == 0);
    CHECK(three_and_two != sum_on_nodes(5, 0, count));  // (((0 1)(2 3)) 4): these data show it
  }
}

TEST_CASE("integers: a sum of weights that would overflow is refused on all ranks, not wrapped") {
  hvdtest::on_every_world(
      [](const hvdtest::world_type& world) {
        std::vector<std::uint32_t> x(20, 4294967295u);
        const double mine = world.rank() == 0 ? 0x1p31 : 0x1p31 - 1;
        CHECK(hvdtest::lacking(hvdtest::message_of<hvdlite::usage_error>(
                                   [&] { hvdlite::allreduce(world, x, {.samples = mine}); }),
                               {"sum of all samples", "2147483648"}) == "");
        CHECK(x == std::vector<std::uint32_t>(20, 4294967295u));
        hvdlite::allreduce(world, x, {.samples = world.rank() + 1000});
        CHECK(x == std::vector<std::uint32_t>(20, 4294967295u));
      },
      {.least = 2});
}

TEST_CASE("large tensors, with chunks as they are outside of tests") {
  on_every_world([](const world_type& world) {
    const int n = world.size();
    std::vector<float> x(1200007);
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>(i % 1021) + static_cast<float>(world.rank());
    hvdlite::allreduce(world, x, hvdlite::sum{});
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (x[i] != static_cast<float>(static_cast<int>(i % 1021) * n + triangle(world))) ++wrong;
    CHECK(wrong == 0);
    std::vector<std::int8_t> bytes(3000017);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::int8_t>((i + 31 * static_cast<std::size_t>(world.rank())) % 113);
    const auto mine = bytes;
    hvdlite::allreduce(world, bytes, hvdlite::max{});
    wrong = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      int largest = 0;
      for (std::size_t r = 0; r < static_cast<std::size_t>(n); ++r)
        largest = (std::max)(largest, static_cast<int>((i + 31 * r) % 113));
      if (bytes[i] != largest) ++wrong;
    }
    CHECK(wrong == 0);
    auto copy = mine;
    hvdlite::broadcast(world, copy, n - 1);
    wrong = 0;
    for (std::size_t i = 0; i < copy.size(); ++i)
      if (static_cast<std::size_t>(copy[i]) != (i + 31 * static_cast<std::size_t>(n - 1)) % 113)
        ++wrong;
    CHECK(wrong == 0);
  });
}

TEST_CASE("a world of one: scales apply, everything else is the identity") {
  hvdtest::on_threads(1, [](const world_type& world) {
    CHECK(world.backend_name() == "none");
    std::vector<float> x{1.5f, std::nanf(""), -0.0f};
    const auto before = x;
    hvdlite::allreduce(world, x);
    hvdlite::allreduce(world, x, hvdlite::sum{});
    hvdlite::allreduce(world, x, hvdlite::max{});
    hvdlite::allreduce(world, x, {.samples = 17});
    CHECK(std::memcmp(x.data(), before.data(), sizeof(float) * 3) == 0);
    hvdlite::allreduce(world, x, {.prescale = 3, .postscale = 0.5});
    CHECK(x[0] == 2.25f);
    std::vector<float> out(3);
    hvdlite::allreduce(world, before, out);
    CHECK(std::memcmp(out.data(), before.data(), sizeof(float) * 3) == 0);
  });
}

#if HVDLITE_WITH_EIGEN

TEST_CASE("allreduce: Eigen's matrices, arrays and views of them") {
  on_every_world([](const world_type& world) {
    const float n = static_cast<float>(world.size());
    const float mine = static_cast<float>(world.rank() + 1);
    const float sum = n * (n + 1) / 2;
    const hvdlite::sum op;

    Eigen::MatrixXf base(5, 7);
    for (Eigen::Index i = 0; i < base.size(); ++i) base.data()[i] = static_cast<float>(i + 1);
    const Eigen::MatrixXf total = base * sum;
    using row_major = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

    Eigen::MatrixXf m = base * mine;
    hvdlite::allreduce(world, m, op);
    CHECK(m == total);
    row_major r = base * mine;
    hvdlite::allreduce(world, r, op);
    CHECK(r == row_major{total});
    Eigen::ArrayXXf a = base.array() * mine;
    hvdlite::allreduce(world, a, op);
    CHECK((a == total.array()).all());
    Eigen::Matrix3d fixed = Eigen::Matrix3d::Identity() * double(mine);
    hvdlite::allreduce(world, fixed, op);
    CHECK(fixed == Eigen::Matrix3d::Identity() * double(sum));

    m = base * mine;
    Eigen::MatrixXf wanted = m;
    wanted.block(1, 2, 3, 4) = total.block(1, 2, 3, 4);
    hvdlite::allreduce(world, m.block(1, 2, 3, 4), op);
    CHECK(m == wanted);
    m = base * mine;
    wanted = m;
    wanted.row(3) = total.row(3);
    hvdlite::allreduce(world, m.row(3), op);
    CHECK(m == wanted);
    m = base * mine;
    wanted = m;
    wanted.col(6) = total.col(6);
    hvdlite::allreduce(world, m.col(6), op);
    CHECK(m == wanted);
    m = base * mine;
    hvdlite::allreduce(world, m.transpose(), op);
    CHECK(m == total);
    m = base * mine;
    Eigen::Ref<Eigen::MatrixXf> ref = m.leftCols(2);
    wanted = m;
    wanted.leftCols(2) = total.leftCols(2);
    hvdlite::allreduce(world, ref, op);
    CHECK(m == wanted);
    m = base * mine;
    wanted = m;
    wanted(0, 0) = total(0, 0), wanted(2, 0) = total(2, 0), wanted(4, 0) = total(4, 0);
    Eigen::Map<Eigen::VectorXf, 0, Eigen::InnerStride<2>> every_other{m.data(), 3};
    hvdlite::allreduce(world, every_other, op);
    CHECK(m == wanted);
    Eigen::Map<row_major, 0, Eigen::OuterStride<>> strided{m.data(), 3, 4,
                                                           Eigen::OuterStride<>{10}};
    m = base * mine;
    wanted = m;
    for (Eigen::Index i = 0; i < 3; ++i)
      for (Eigen::Index j = 0; j < 4; ++j) wanted.data()[10 * i + j] = total.data()[10 * i + j];
    hvdlite::allreduce(world, strided, op);
    CHECK(m == wanted);
    // Out of place, into a block of another matrix.
    const Eigen::MatrixXf in = base.topRows(2) * mine;
    m.setConstant(-1);
    wanted = m;
    wanted.topRows(2) = total.topRows(2);
    hvdlite::allreduce(world, in, m.topRows(2), op);
    CHECK(m == wanted);
    // A vector of Eigen's and one of the standard library's are the same to the other ranks.
    if (world.rank() == 0) {
      Eigen::VectorXf v = Eigen::VectorXf::Constant(4, mine);
      hvdlite::allreduce(world, v, op);
      CHECK(v == Eigen::VectorXf::Constant(4, sum));
    } else {
      std::vector<float> v(4, mine);
      hvdlite::allreduce(world, v, op);
      CHECK(v == std::vector<float>(4, sum));
    }
  });
}

TEST_CASE("allreduce: Eigen's halves and complex matrices") {
  on_every_world([](const world_type& world) {
    const float sum = static_cast<float>(triangle(world));
    Eigen::Matrix<Eigen::half, 3, 1> h;
    h.setConstant(static_cast<Eigen::half>(float(world.rank())));
    hvdlite::allreduce(world, h, hvdlite::sum{});
    CHECK(float(h(2)) == sum);
    Eigen::Matrix<Eigen::bfloat16, 2, 2> b;
    b.setConstant(static_cast<Eigen::bfloat16>(float(world.rank())));
    hvdlite::allreduce(world, b, hvdlite::max{});
    CHECK(float(b(1, 1)) == float(world.size() - 1));
    Eigen::MatrixXcd c(2, 3);
    c.setConstant({1.0, double(world.rank())});
    hvdlite::allreduce(world, c, hvdlite::sum{});
    CHECK(c(1, 2) == std::complex<double>{double(world.size()), double(sum)});
    // The same element to the library, so that the ranks may differ in it.
    if (world.rank() == 0) {
      hvdlite::allreduce(world, h);
    } else {
      std::array<hvdlite::float16, 3> other{};
      hvdlite::allreduce(world, other);
    }
  });
}

TEST_CASE("mismatch: matrices of another order or shape") {
  on_every_world(
      [](const world_type& world) {
        using row_major = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
        Eigen::MatrixXf column = Eigen::MatrixXf::Ones(3, 4);
        row_major row = Eigen::MatrixXf::Ones(3, 4);
        Eigen::MatrixXf tall = Eigen::MatrixXf::Ones(4, 3);
        std::string text = message_of<hvdlite::mismatch_error>([&] {
          world.rank() == 0 ? hvdlite::allreduce(world, column) : hvdlite::allreduce(world, row);
        });
        CHECK(lacking(text, {"memory order", "row-major", "column-major on rank 0"}) == "");
        text = message_of<hvdlite::mismatch_error>([&] {
          world.rank() == 0 ? hvdlite::allreduce(world, column) : hvdlite::allreduce(world, tall);
        });
        CHECK(lacking(text, {"shape", "[3, 4] on rank 0", "[4, 3]"}) == "");
        CHECK(column == Eigen::MatrixXf::Ones(3, 4));
      },
      {.least = 2});
}

#endif  // HVDLITE_WITH_EIGEN

}  // namespace
