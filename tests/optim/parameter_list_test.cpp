// SPDX-License-Identifier: Apache-2.0
// Tests of optim/parameter_list.hpp: names, memory that is shared or overlaps, and what makes two
// lists differ.
#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <hvdlite/optim/parameter_list.hpp>
#include <hvdlite/tensor/std.hpp>

using hvdlite::buffer;
using hvdlite::strided_buffer;
using namespace hvdlite::detail;

namespace {

list<memory_layout> layouts(const auto&... tensors) {
  list<memory_layout> result;
  (result.push_back(layout_of(tensors)), ...);
  return result;
}
name_list names(std::initializer_list<std::string_view> all) {
  name_list result;
  for (const auto name : all) result.add(name);
  return result;
}
std::vector<std::size_t> firsts(const memory_overlaps& o) {
  return {o.first_of.begin(), o.first_of.end()};
}
using indices = std::vector<std::size_t>;

}  // namespace

TEST_CASE("name_list: names by index, empty ones and none") {
  name_list all = names({"a", "", "bcd"});
  CHECK(all.size() == 3);
  CHECK(all[0] == "a");
  CHECK(all[1] == "");
  CHECK(all[2] == "bcd");
  CHECK(all[3] == "");
  all.clear();
  CHECK(all.size() == 0);
}

TEST_CASE("pairing_text: counts and names") {
  CHECK(pairing_text(names({"a", ""}), names({"", "b"})) == "");
  CHECK(std::string{pairing_text(names({"a"}), names({}))}.find("1 parameters and 0 gradients") !=
        std::string::npos);
  CHECK(std::string{pairing_text(names({"a"}), names({"b"}))}.find("gradient 0 is 'b'") !=
        std::string::npos);
}

TEST_CASE("memory_overlaps: the same memory, neighbours, and overlaps in part") {
  std::vector<float> x(20), y(20);
  memory_overlaps found;
  found.find(layouts(x, y, x, x));
  CHECK(firsts(found) == indices{0, 1, 0, 0});
  CHECK(found.one == found.other);
  found.find(layouts(buffer{x.data(), 10}, buffer{x.data() + 10, 10}, y));
  CHECK(firsts(found) == indices{0, 1, 2});
  CHECK(found.one == found.other);
  found.find(layouts(y, buffer{x.data(), 11}, buffer{x.data() + 10, 10}));
  CHECK(found.one == 1);
  CHECK(found.other == 2);
  found.find(layouts(x, buffer{x.data() + 5, 2}));  // within
  CHECK(found.other == 1);
  found.find(layouts(buffer{x.data() + 5, 2}, y, x));
  CHECK(found.other == 2);
  const std::vector<float> none;
  found.find(layouts(none, none, buffer{x.data(), 0}, x));
  CHECK(firsts(found) == indices{0, 1, 2, 3});
  CHECK(found.one == found.other);
}

TEST_CASE("memory_overlaps: views of one matrix that interleave are apart") {
  std::vector<double> m(24);  // 4 x 6, row by row
  const auto block = [&](std::size_t row, std::size_t column, std::size_t rows,
                         std::size_t columns) {
    return strided_buffer<double>{m.data() + row * 6 + column, {rows, columns}, {6, 1}};
  };
  memory_overlaps found;
  found.find(layouts(block(0, 0, 4, 3), block(0, 3, 4, 3)));
  CHECK(found.one == found.other);
  CHECK(firsts(found) == indices{0, 1});
  found.find(layouts(block(0, 0, 4, 3), block(0, 2, 4, 3)));
  CHECK(found.other == 1);
  // Transposed, or the same once more.
  const strided_buffer<double> turned{m.data(), {3, 4}, {1, 6}};
  found.find(layouts(block(0, 0, 4, 3), block(0, 3, 4, 3), turned, block(0, 3, 4, 3)));
  CHECK(firsts(found) == indices{0, 1, 0, 1});
  CHECK(found.one == found.other);
  // Every other element, and backwards.
  const strided_buffer<double> even{m.data(), {12}, {2}}, odd{m.data() + 1, {12}, {2}},
      back{m.data() + 22, {12}, {-2}};
  found.find(layouts(even, odd));
  CHECK(found.one == found.other);
  found.find(layouts(odd, back));
  CHECK(found.one == found.other);
  found.find(layouts(even, odd, block(1, 1, 1, 1)));
  CHECK(found.other == 2);
}

TEST_CASE("parameter_list: what makes lists differ") {
  std::vector<float> x(6), y(6);
  const auto fingerprint = [&](const list<memory_layout>& l, const name_list& n) {
    parameter_list all;
    CHECK(all.take(l, n, false) == "");
    return all.fingerprint();
  };
  const strided_buffer<float> rows{x.data(), {2, 3}, {3, 1}}, columns{x.data(), {2, 3}, {1, 2}},
      other{x.data(), {3, 2}, {2, 1}};
  const std::uint64_t plain = fingerprint(layouts(rows, y), names({"a", "b"}));
  CHECK(fingerprint(layouts(rows, y), names({"a", "b"})) == plain);
  CHECK(fingerprint(layouts(rows, y), names({"b", "a"})) != plain);
  CHECK(fingerprint(layouts(rows, y), names({"a", ""})) != plain);
  CHECK(fingerprint(layouts(columns, y), names({"a", "b"})) != plain);
  CHECK(fingerprint(layouts(other, y), names({"a", "b"})) != plain);
  CHECK(fingerprint(layouts(rows), names({"a", "b"})) != plain);
  CHECK(fingerprint(layouts(rows, x), names({"a", "b"})) != plain);
  // Names do not run into each other.
  CHECK(fingerprint(layouts(rows, y), names({"ab", ""})) !=
        fingerprint(layouts(rows, y), names({"a", "b"})));
}

TEST_CASE("parameter_list: later steps must bring the same, in other memory if they like") {
  std::vector<float> x(6), y(6), z(6), longer(7);
  parameter_list all;
  CHECK(all.take(layouts(x, y, x), names({"a", "b", "c"}), false) == "");
  CHECK(std::string{all.description(0)} == "parameter 0 ('a'): [6]");
  CHECK(std::string{all.description(2)} ==
        "parameter 2 ('c'): [6], the memory of parameter 0 ('a')");
  CHECK(std::string{all.description(3)} == "parameter 3: none, there are 3");
  CHECK(all.first_of(2) == 0);
  const auto later = [&](const list<memory_layout>& l, const name_list& n) {
    return std::string{all.take(l, n, true)};
  };
  CHECK(later(layouts(z, y, z), names({"a", "b", "c"})) == "");
  CHECK(later(layouts(x, y, z), names({"a", "b", "c"})).find("memory of its own") !=
        std::string::npos);
  CHECK(later(layouts(x, x, x), names({"a", "b", "c"})).find("parameter 1 ('b') has the memory") !=
        std::string::npos);
  CHECK(later(layouts(x, longer, x), names({"a", "b", "c"})).find("is [7], and was [6]") !=
        std::string::npos);
  CHECK(later(layouts(x, y, x), names({"a", "b", "d"})).find("is 'd', and was 'c'") !=
        std::string::npos);
  CHECK(later(layouts(x, y), names({"a", "b"})).find("there are 2 parameters, and were 3") !=
        std::string::npos);
  CHECK(later(layouts(x, buffer{x.data() + 1, 6}, x), names({"a", "b", "c"})).find("overlap") !=
        std::string::npos);
  CHECK(later(layouts(x, y, x), names({"a", "b", "c"})) == "");
}
