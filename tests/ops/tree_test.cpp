// SPDX-License-Identifier: Apache-2.0
// The order of a sum as text, for every number of ranks and many placements on nodes; its
// evaluation, bit for bit, against a recursion that follows the definition; and that neither
// lengths nor slices have a part in it.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <hvdlite/ops/tree.hpp>

namespace {

using hvdlite::float16;
using hvdlite::kernels_of;
using hvdlite::leaf;
using hvdlite::reduction_tree;
using hvdlite::root_scale;
using hvdlite::tree_evaluator;

// What a rank is called in an expression: one character each.
std::string rank_text(std::size_t rank) {
  return std::string(1, "0123456789abcdefghijklmnopqrstuvwxyz"[rank]);
}

// The expression that a program computes; without the parentheses around all of it.
std::string expression(const reduction_tree& tree) {
  std::vector<std::string> stack;
  std::size_t deepest = 0;
  for (const auto& step : tree.program()) {
    if (step.kind == reduction_tree::step_kind::load) {
      stack.push_back(rank_text(static_cast<std::size_t>(step.rank)));
    } else if (step.kind == reduction_tree::step_kind::accumulate) {
      REQUIRE(!stack.empty());
      stack.back() = "(" + stack.back() + rank_text(static_cast<std::size_t>(step.rank)) + ")";
    } else {
      REQUIRE(stack.size() >= 2);
      const std::string right = stack.back();
      stack.pop_back();
      stack.back() = "(" + stack.back() + right + ")";
    }
    deepest = (std::max)(deepest, stack.size());
  }
  REQUIRE(stack.size() == 1);
  CHECK(deepest <= tree.depth());
  const std::string& all = stack[0];
  return all.size() > 1 ? all.substr(1, all.size() - 2) : all;
}

reduction_tree tree_of(const std::vector<int>& nodes) {
  return {nodes.data(), static_cast<int>(nodes.size())};
}

std::string expression(const std::vector<int>& nodes) { return expression(tree_of(nodes)); }

std::vector<int> one_node(std::size_t ranks) { return std::vector<int>(ranks, 0); }

// The definition: n leaves, split at the largest power of two below n.
template <class Leaf, class Join>
auto by_definition(std::size_t first, std::size_t n, const Leaf& at, const Join& join)
    -> decltype(at(first)) {
  if (n == 1) return at(first);
  std::size_t left = 1;
  while (left * 2 < n) left *= 2;
  return join(by_definition(first, left, at, join),
              by_definition(first + left, n - left, at, join));
}

// The nodes in the order of their lowest ranks, each with its ranks in order.
std::vector<std::vector<std::size_t>> grouped(const std::vector<int>& nodes) {
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    std::size_t first = 0;
    while (nodes[first] != nodes[rank]) ++first;
    if (first == rank) {
      groups.push_back({rank});
    } else {
      for (auto& group : groups)
        if (group[0] == first) group.push_back(rank);
    }
  }
  return groups;
}

template <class Leaf, class Join>
auto over_nodes(const std::vector<int>& nodes, const Leaf& at, const Join& join) {
  const auto groups = grouped(nodes);
  return by_definition(
      0, groups.size(),
      [&](std::size_t g) {
        return by_definition(
            0, groups[g].size(), [&](std::size_t i) { return at(groups[g][i]); }, join);
      },
      join);
}

std::string expected_expression(const std::vector<int>& nodes) {
  const std::string all =
      over_nodes(nodes, rank_text,
                 [](const std::string& a, const std::string& b) { return "(" + a + b + ")"; });
  return all.size() > 1 ? all.substr(1, all.size() - 2) : all;
}

std::vector<std::vector<int>> placements() {
  std::vector<std::vector<int>> result{
      {0, 0, 1, 1},
      {1, 1, 0, 0},
      {0, 1, 0, 1},
      {5, 5, 5, -7},
      {0, 1, 1, 1, 1},
      {0, 0, 0, 1, 1},
      {0, 1, 2, 3, 4, 5},
      {2, 1, 0},
      {0, 0, 0, 1, 1, 2},
      {0, 1, 2, 0, 1, 2, 0},
      {3, 3, 3, 3, 3, 0, 3, 1},
  };
  for (std::size_t n = 1; n <= 33; ++n) result.push_back(one_node(n));
  std::mt19937 random{3};
  for (int i = 0; i < 100; ++i) {
    std::vector<int> nodes(1 + random() % 33);
    const unsigned most = 1 + static_cast<unsigned>(random()) % 6;
    for (int& node : nodes) node = static_cast<int>(random() % most);
    result.push_back(nodes);
  }
  return result;
}

// --- Evaluation --------------------------------------------------------------------------------

template <class T>
T element(std::mt19937& random) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(random() % 8 == 0 ? 0 : random());
  else
    return static_cast<T>(std::ldexp(std::uniform_real_distribution<float>{-1, 1}(random),
                                     static_cast<int>(random() % 12)));
}

template <class T>
using table_of = std::vector<std::vector<T>>;  // [rank][element]

template <class T>
table_of<T> random_table(std::size_t ranks, std::size_t count, unsigned seed) {
  std::mt19937 random{seed};
  table_of<T> result(ranks);
  for (auto& row : result)
    for (std::size_t i = 0; i < count; ++i) row.push_back(element<T>(random));
  return result;
}

template <class T>
std::vector<leaf> leaves_of(const table_of<T>& rows, const std::vector<bool>& absent = {}) {
  std::vector<leaf> result;
  for (std::size_t r = 0; r < rows.size(); ++r)
    result.push_back({r < absent.size() && absent[r]
                          ? nullptr
                          : reinterpret_cast<const std::byte*>(rows[r].data())});
  return result;
}

template <class T, class Op>
std::vector<T> evaluated(const std::vector<int>& nodes, const std::vector<leaf>& leaves,
                         std::size_t count, root_scale root = {}) {
  std::vector<T> result(count + 1, T(33));
  tree_evaluator evaluate{tree_of(nodes)};
  evaluate(kernels_of<T, Op>, nullptr, leaves.data(), reinterpret_cast<std::byte*>(result.data()),
           count, root);
  CHECK(std::memcmp(&result[count], std::array{T(33)}.data(), sizeof(T)) == 0);
  result.pop_back();
  return result;
}

template <class T>
bool equal_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class Op>
constexpr bool logical =
    std::is_same_v<Op, hvdlite::logical_and> || std::is_same_v<Op, hvdlite::logical_or>;

// The recursion in the accumulator type; absent leaves leave the other side as it is.
template <class T, class Op>
std::vector<T> expected_values(const std::vector<int>& nodes, const table_of<T>& rows,
                               const std::vector<bool>& absent, double factor, root_scale root) {
  using A = typename Op::template accumulator<T>;
  std::vector<T> result;
  for (std::size_t i = 0; i < rows[0].size(); ++i) {
    const auto total = over_nodes(
        nodes,
        [&](std::size_t r) -> std::optional<A> {
          if (r < absent.size() && absent[r]) return std::nullopt;
          if constexpr (logical<Op>) return static_cast<A>(rows[r][i] != 0);
          volatile A scaled = static_cast<A>(rows[r][i]);
          if (factor != 1) scaled = static_cast<A>(scaled * static_cast<A>(factor));
          return scaled;
        },
        [](std::optional<A> a, std::optional<A> b) -> std::optional<A> {
          if (!a) return b;
          if (!b) return a;
          volatile A both = Op::template combine<T>(*a, *b);
          return both;
        });
    volatile A value = total.value_or(Op::template identity<T>());
    if (root.divisor != 1) value = static_cast<A>(value / static_cast<A>(root.divisor));
    if (root.factor != 1) value = static_cast<A>(value * static_cast<A>(root.factor));
    // An average that is beyond its type (here: not divided) ends at the type's ends.
    if constexpr (std::is_integral_v<T> && std::is_same_v<Op, hvdlite::average>) {
      if (value > A{std::numeric_limits<T>::max()}) value = std::numeric_limits<T>::max();
      if (value < A{std::numeric_limits<T>::lowest()}) value = std::numeric_limits<T>::lowest();
    }
    result.push_back(static_cast<T>(static_cast<A>(value)));
  }
  return result;
}

template <class T, class Op>
void check_evaluation(double factor, root_scale root) {
  unsigned seed = 1;
  int wrong = 0;
  for (const auto& nodes : placements()) {
    const auto rows = random_table<T>(nodes.size(), 37, ++seed);
    std::vector<bool> absent(nodes.size());
    for (const bool with_absent : {false, true}) {
      if (with_absent)
        for (std::size_t r = 0; r < absent.size(); ++r) absent[r] = (seed + r * r) % 3 == 0;
      auto leaves = leaves_of(rows, absent);
      for (leaf& each : leaves) each.factor = factor;
      const auto got = evaluated<T, Op>(nodes, leaves, 37, root);
      if (!equal_bits(got, expected_values<T, Op>(nodes, rows, absent, factor, root))) ++wrong;
    }
  }
  CAPTURE(Op::name);
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("the tree of one node, as the documentation writes it") {
  CHECK(expression(one_node(1)) == "0");
  CHECK(expression(one_node(2)) == "01");
  CHECK(expression(one_node(3)) == "(01)2");
  CHECK(expression(one_node(4)) == "(01)(23)");
  CHECK(expression(one_node(5)) == "((01)(23))4");
  CHECK(expression(one_node(6)) == "((01)(23))(45)");
  CHECK(expression(one_node(7)) == "((01)(23))((45)6)");
  CHECK(expression(one_node(8)) == "((01)(23))((45)(67))");
  CHECK(expression(one_node(9)) == "(((01)(23))((45)(67)))8");
}

TEST_CASE("several nodes: within each, then over the nodes by their lowest rank") {
  CHECK(expression({0, 0, 1, 1}) == "(01)(23)");
  CHECK(expression({9, 9, -4, -4}) == "(01)(23)");  // the numbers mean nothing
  CHECK(expression({0, 1, 0, 1}) == "(02)(13)");
  CHECK(expression({1, 0, 0, 1}) == "(03)(12)");
  CHECK(expression({0, 1, 1, 1}) == "0((12)3)");
  CHECK(expression({0, 0, 0, 1}) == "((01)2)3");
  CHECK(expression({0, 0, 0, 1, 1}) == "((01)2)(34)");
  CHECK(expression({0, 1, 2}) == "(01)2");
  CHECK(expression({0, 0, 1, 1, 2, 2}) == "((01)(23))(45)");
  CHECK(expression({0, 1, 2, 0, 1, 2}) == "((03)(14))(25)");
  CHECK(expression({0, 1, 1, 2}) == "(0(12))3");
}

TEST_CASE("every placement: the definition's expression") {
  for (const auto& nodes : placements()) CHECK(expression(nodes) == expected_expression(nodes));
}

TEST_CASE("equal powers of two per node, in blocks: the tree of a single node") {
  for (const std::size_t per_node : {1u, 2u, 4u, 8u})
    for (std::size_t hosts = 1; hosts * per_node <= 32; ++hosts) {
      std::vector<int> nodes;
      for (std::size_t r = 0; r < hosts * per_node; ++r)
        nodes.push_back(static_cast<int>(r / per_node));
      CHECK(expression(nodes) == expression(one_node(nodes.size())));
    }
}

TEST_CASE("the stack stays as low as the tree is") {
  for (std::size_t n = 1; n <= 33; ++n) {
    const reduction_tree tree = tree_of(one_node(n));
    const auto levels = static_cast<std::size_t>(std::ceil(std::log2(static_cast<double>(n))));
    CHECK(tree.depth() <= levels + 1);
    CHECK(static_cast<std::size_t>(
              std::count_if(tree.program().begin(), tree.program().end(), [](const auto& step) {
                return step.kind != reduction_tree::step_kind::combine;
              })) == n);
  }
}

TEST_CASE_TEMPLATE("evaluation of reals: the bits of the recursion", T, float, double, float16) {
  check_evaluation<T, hvdlite::sum>(1, {});
  check_evaluation<T, hvdlite::sum>(0.3, {1, 1.7});
  check_evaluation<T, hvdlite::average>(1, {33, 1});
  check_evaluation<T, hvdlite::average>(0.1, {7, 0.9});
  check_evaluation<T, hvdlite::product>(1, {});
  check_evaluation<T, hvdlite::min>(1, {});
  check_evaluation<T, hvdlite::max>(-2, {1, 3});
}

TEST_CASE_TEMPLATE("evaluation of integers: the bits of the recursion", T, std::int8_t,
                   std::uint16_t, std::int32_t, std::uint64_t) {
  check_evaluation<T, hvdlite::sum>(1, {});
  check_evaluation<T, hvdlite::average>(1, {7, 1});
  check_evaluation<T, hvdlite::product>(1, {});
  check_evaluation<T, hvdlite::min>(1, {});
  check_evaluation<T, hvdlite::max>(1, {});
  check_evaluation<T, hvdlite::logical_and>(1, {});
  check_evaluation<T, hvdlite::logical_or>(1, {});
}

TEST_CASE("the order matters: these sums would differ in another one") {
  // Left to right the small ones vanish one by one; in pairs they don't.
  const table_of<float> rows{{1.0f}, {0x1p-24f}, {0x1p-24f}, {0x1p-24f}};
  CHECK(evaluated<float, hvdlite::sum>(one_node(4), leaves_of(rows), 1)[0] == 1 + 0x1p-23f);
  CHECK(evaluated<float, hvdlite::sum>({0, 1, 1, 1}, leaves_of(rows), 1)[0] == 1 + 0x1p-22f);
}

TEST_CASE_TEMPLATE("long, short, sliced: an element's value is its own affair", T, std::int8_t,
                   float16, float, double, std::int64_t) {
  // 2048 bytes per accumulator block: 256 doubles, 512 floats, 128 sums of 16 bytes.
  const std::vector<int> nodes{0, 0, 1, 0, 1, 1, 1};
  constexpr std::size_t most = 1100;
  const auto rows = random_table<T>(nodes.size(), most, 5);
  const auto whole = evaluated<T, hvdlite::average>(nodes, leaves_of(rows), most, {7, 1});
  CHECK(equal_bits(whole, expected_values<T, hvdlite::average>(nodes, rows, {}, 1, {7, 1})));

  for (const std::size_t count : {0u, 1u, 127u, 128u, 129u, 255u, 256u, 257u, 511u, 512u, 513u}) {
    const auto part = evaluated<T, hvdlite::average>(nodes, leaves_of(rows), count, {7, 1});
    CHECK(equal_bits(part, {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(count)}));
  }
  tree_evaluator evaluate{tree_of(nodes)};
  for (const std::size_t slice : {1u, 3u, 64u, 100u, 700u}) {
    std::vector<T> result(most);
    for (std::size_t begin = 0; begin < most; begin += slice) {
      auto leaves = leaves_of(rows);
      for (leaf& each : leaves) each.data += begin * sizeof(T);
      evaluate(kernels_of<T, hvdlite::average>, nullptr, leaves.data(),
               reinterpret_cast<std::byte*>(result.data() + begin), (std::min)(slice, most - begin),
               {7, 1});
    }
    CAPTURE(slice);
    CHECK(equal_bits(result, whole));
  }
}

TEST_CASE("the result may go where a leaf is, whichever it is") {
  constexpr std::size_t count = 1500;
  const auto rows = random_table<float>(6, count, 9);
  const auto apart = evaluated<float, hvdlite::sum>(one_node(6), leaves_of(rows), count);
  for (std::size_t target = 0; target < 6; ++target) {
    auto in_place = rows;
    tree_evaluator evaluate{tree_of(one_node(6))};
    evaluate(kernels_of<float, hvdlite::sum>, nullptr, leaves_of(in_place).data(),
             reinterpret_cast<std::byte*>(in_place[target].data()), count, {});
    CHECK(equal_bits(in_place[target], apart));
    for (std::size_t r = 0; r < 6; ++r)
      if (r != target) CHECK(in_place[r] == rows[r]);
  }
}

TEST_CASE("all leaves absent: the identity; an absent leaf is not the value 0") {
  const std::vector<leaf> none(5);
  for (const float x : evaluated<float, hvdlite::sum>(one_node(5), none, 3)) CHECK(x == 0);
  for (const float x : evaluated<float, hvdlite::product>(one_node(5), none, 3)) CHECK(x == 1);
  for (const float x : evaluated<float, hvdlite::max>(one_node(5), none, 3))
    CHECK(x == -std::numeric_limits<float>::infinity());
  const table_of<float> rows{{-3}, {-5}, {-4}};
  for (std::size_t gone = 0; gone < 3; ++gone) {
    std::vector<bool> absent(3);
    absent[gone] = true;
    CHECK(evaluated<float, hvdlite::max>(one_node(3), leaves_of(rows, absent), 1)[0] < 0);
    CHECK(evaluated<float, hvdlite::product>(one_node(3), leaves_of(rows, absent), 1)[0] ==
          -60 / rows[gone][0]);
  }
}

TEST_CASE("each leaf has a factor of its own, applied before anything is added") {
  const table_of<float> rows{{1}, {10}, {100}, {1000}, {10000}};
  auto leaves = leaves_of(rows);
  for (std::size_t r = 0; r < leaves.size(); ++r) leaves[r].factor = static_cast<double>(r);
  CHECK(evaluated<float, hvdlite::sum>(one_node(5), leaves, 1)[0] == 43210);
  CHECK(evaluated<float, hvdlite::average>(one_node(5), leaves, 1, {10, 2})[0] == 8642);
}
