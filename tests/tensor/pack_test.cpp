// SPDX-License-Identifier: Apache-2.0
// Round trips against a naive loop over indices, with up to four dimensions, gaps, permuted and
// negative strides; what lies between the elements of a view is not touched.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include <hvdlite/tensor/pack.hpp>

namespace {

using hvdlite::strided_buffer;
using offsets = std::vector<std::ptrdiff_t>;

// Where the elements lie, relative to view.data, in memory order: the naive way.
template <class T>
offsets naive_offsets(const strided_buffer<T>& view) {
  const auto shape = view.shape();
  offsets result;
  const std::size_t count = shape.count();
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t rest = i;
    std::ptrdiff_t offset = 0;
    for (std::size_t k = shape.ordered; k-- > 0;) {  // the last one turns fastest
      const std::size_t d = shape.outermost_first[k];
      offset += static_cast<std::ptrdiff_t>(rest % view.extents[d]) * view.strides[d];
      rest /= view.extents[d];
    }
    result.push_back(offset);
  }
  return result;
}

template <class T>
T numbered(std::size_t i) {
  return static_cast<T>(static_cast<float>(i % 120));
}

template <class T>
bool same(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

// A view of these extents and strides into memory with a margin on both sides.
template <class T>
void check_round_trip(const std::vector<std::size_t>& extents, const offsets& strides) {
  std::ptrdiff_t lowest = 0, highest = 0;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const auto reach = (static_cast<std::ptrdiff_t>(extents[d]) - 1) * strides[d];
    (reach < 0 ? lowest : highest) += reach;
  }
  constexpr std::ptrdiff_t margin = 5;
  std::vector<T> memory(static_cast<std::size_t>((std::max)(highest, std::ptrdiff_t{0}) -
                                                 (std::min)(lowest, std::ptrdiff_t{0}) + 1 +
                                                 2 * margin));
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = numbered<T>(i);
  const std::vector<T> before = memory;

  strided_buffer<T> view;
  view.data = memory.data() + margin - (std::min)(lowest, std::ptrdiff_t{0});
  view.rank = extents.size();
  std::copy(extents.begin(), extents.end(), view.extents.begin());
  std::copy(strides.begin(), strides.end(), view.strides.begin());
  const offsets at = naive_offsets(view);

  std::vector<T> packed(at.size() + 2, numbered<T>(77));
  hvdlite::pack(view, packed.data() + 1);
  bool right = same(packed.front(), numbered<T>(77)) && same(packed.back(), numbered<T>(77));
  for (std::size_t i = 0; i < at.size(); ++i)
    right = right && same(packed[i + 1], view.data[at[i]]);
  CHECK(right);

  // A const view packs alike.
  strided_buffer<const T> constant;
  constant.data = view.data;
  constant.rank = view.rank;
  constant.extents = view.extents;
  constant.strides = view.strides;
  std::vector<T> again(at.size());
  hvdlite::pack(constant, again.data());
  for (std::size_t i = 0; i < at.size(); ++i) right = right && same(again[i], packed[i + 1]);
  CHECK(right);

  // Other values back: they arrive, and nothing else changes.
  std::vector<T> expected = before;
  for (std::size_t i = 0; i < at.size(); ++i) {
    again[i] = numbered<T>(2 * i + 1);
    expected[static_cast<std::size_t>(view.data - memory.data() + at[i])] = again[i];
  }
  hvdlite::unpack(static_cast<const T*>(again.data()), view);
  for (std::size_t i = 0; i < memory.size(); ++i) right = right && same(memory[i], expected[i]);
  CHECK(right);
}

}  // namespace

TEST_CASE_TEMPLATE("round trips of plain layouts", T, std::int8_t, float, std::complex<double>,
                   hvdlite::float16) {
  check_round_trip<T>({}, {});
  check_round_trip<T>({1}, {1});
  check_round_trip<T>({7}, {1});
  check_round_trip<T>({7}, {3});
  check_round_trip<T>({7}, {-1});
  check_round_trip<T>({7}, {-2});
  check_round_trip<T>({3, 4}, {4, 1});
  check_round_trip<T>({3, 4}, {1, 3});
  check_round_trip<T>({3, 4}, {6, 1});  // a block of a row-major matrix
  check_round_trip<T>({3, 4}, {1, 9});  // a block of a column-major one
  check_round_trip<T>({3, 4}, {20, 2});
  check_round_trip<T>({3, 4}, {-4, 1});
  check_round_trip<T>({3, 4}, {4, -1});
  check_round_trip<T>({3, 4}, {-1, -3});
  check_round_trip<T>({1, 4}, {100, 2});
  check_round_trip<T>({4, 1}, {2, -100});
  check_round_trip<T>({2, 3, 4}, {12, 4, 1});
  check_round_trip<T>({2, 3, 4}, {4, 8, 1});
  check_round_trip<T>({2, 3, 4, 5}, {60, 20, 5, 1});
  check_round_trip<T>({2, 3, 4, 5}, {1, 2, 6, 24});
  check_round_trip<T>({2, 1, 4, 1}, {9, 3, 2, 7});
}

TEST_CASE("round trips of thousands of layouts: permuted, with gaps, reversed") {
  std::mt19937 random{7};
  const auto upto = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  for (int round = 0; round < 3000; ++round) {
    const std::size_t rank = 1 + upto(4);
    std::vector<std::size_t> extents(rank);
    for (auto& extent : extents) extent = 1 + upto(5);
    std::vector<std::size_t> order(rank);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    offsets strides(rank);
    std::ptrdiff_t step = 1 + static_cast<std::ptrdiff_t>(upto(3));
    for (const std::size_t d : order) {
      strides[d] = upto(3) == 0 ? -step : step;
      step = step * static_cast<std::ptrdiff_t>(extents[d]) + static_cast<std::ptrdiff_t>(upto(3));
    }
    CAPTURE(round);
    check_round_trip<std::int16_t>(extents, strides);
  }
}

TEST_CASE("nothing to copy: no pointer is looked at") {
  const strided_buffer<float> empty{nullptr, {0}, {1}};
  hvdlite::pack(empty, static_cast<float*>(nullptr));
  hvdlite::unpack(static_cast<const float*>(nullptr), empty);
  const strided_buffer<float> rows{nullptr, {3, 0, 2}, {0, 2, 1}};
  hvdlite::pack(rows, static_cast<float*>(nullptr));
  hvdlite::unpack(static_cast<const float*>(nullptr), rows);
  CHECK(rows.shape().count() == 0);
}
