// SPDX-License-Identifier: Apache-2.0
// The library's own containers, against std::vector.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <hvdlite/core/list.hpp>

using hvdlite::detail::fixed_array;
using hvdlite::detail::list;

namespace {

template <class T>
std::vector<T> copy_of(const list<T>& elements) {
  return {elements.begin(), elements.end()};
}

struct odd {  // of no power of two
  std::uint16_t a = 7;
  std::uint8_t b[5] = {1, 2, 3, 4, 5};
};

}  // namespace

TEST_CASE("a list made with a count, and resized, holds T{}") {
  CHECK(list<int>{}.empty());
  CHECK(list<int>{0}.empty());
  CHECK(copy_of(list<int>{3}) == std::vector<int>{0, 0, 0});
  list<odd> odds{100};
  odds.resize(300);
  for (const odd& o : odds) CHECK((o.a == 7 && o.b[4] == 5));
  odds[2].a = 9;
  odds.resize(3);
  odds.resize(5);
  CHECK(odds[2].a == 9);
  CHECK(odds[3].a == 7);
}

TEST_CASE("push_back: as a vector, of its own elements too") {
  list<std::uint64_t> mine;
  std::vector<std::uint64_t> reference;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    mine.push_back(i * i);
    reference.push_back(i * i);
    mine.push_back(mine[i / 2]);  // the memory it lies in may move
    reference.push_back(std::uint64_t{reference[i / 2]});
  }
  CHECK(copy_of(mine) == reference);
  CHECK(mine.back() == reference.back());
}

TEST_CASE("erase: the others keep their order") {
  std::mt19937 random{5};
  list<int> mine{64};
  std::iota(mine.begin(), mine.end(), 0);
  std::vector<int> reference = copy_of(mine);
  while (!reference.empty()) {
    const std::size_t i = random() % reference.size();
    mine.erase(i);
    reference.erase(reference.begin() + static_cast<std::ptrdiff_t>(i));
    CHECK(copy_of(mine) == reference);
  }
  mine.push_back(3);
  CHECK(copy_of(mine) == std::vector<int>{3});
}

TEST_CASE("a list moves, and what is left is empty or the other's") {
  list<int> from{2};
  from[1] = 5;
  list<int> to{std::move(from)};
  CHECK(copy_of(to) == std::vector<int>{0, 5});
  list<int> third{4};
  third = std::move(to);
  CHECK(copy_of(third) == std::vector<int>{0, 5});
  third.clear();
  CHECK(third.empty());
}

TEST_CASE("a fixed array constructs its elements, and destroys them") {
  static int alive = 0;
  struct counted {
    counted() { ++alive; }
    ~counted() { --alive; }
    std::string words = "none";
  };
  {
    fixed_array<counted> array{5};
    CHECK(alive == 5);
    CHECK(array.size() == 5);
    array[4].words = std::string(100, 'x');
    std::size_t letters = 0;
    for (const counted& c : std::as_const(array)) letters += c.words.size();
    CHECK(letters == 4 * 4 + 100);
  }
  CHECK(alive == 0);
}
