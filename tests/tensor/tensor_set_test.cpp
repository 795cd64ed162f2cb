// SPDX-License-Identifier: Apache-2.0
// Tests of tensor/tensor_set.hpp: every structure of several tensors, visited in order and in
// pairs.
#include <doctest/doctest.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <hvdlite/tensor/std.hpp>
#include <hvdlite/tensor/tensor_set.hpp>

namespace {

using floats = std::vector<float>;

std::string visited(auto&& set) {
  std::string result;
  hvdlite::for_each_tensor(set, [&](std::string_view name, auto& x) {
    result += std::string{name} + ":";
    if (!hvdlite::with_value(x, [&](const auto& value) {
          result += std::to_string(static_cast<int>(*hvdlite::view(value).data));
        }))
      result += "absent";
    result += " ";
  });
  return result;
}

}  // namespace

TEST_CASE("tensor_set: one tensor, tuples of different types, ranges, names, nested") {
  floats a{1};
  double b = 2;
  std::array<int, 2> c{3, 4};
  CHECK(visited(a) == ":1 ");
  CHECK(visited(std::tie(a, b, c)) == ":1 :2 :3 ");
  std::vector<floats> range{{5}, {6}};
  CHECK(visited(range) == ":5 :6 ");
  std::map<std::string, floats> named{{"w", {7}}, {"b", {8}}};
  CHECK(visited(named) == "b:8 w:7 ");
  std::vector<std::pair<std::string, floats*>> pointers{{"p", &a}, {"q", nullptr}};
  CHECK(visited(pointers) == "p:1 q:absent ");
  CHECK(visited(std::tie(range, b)) == ":5 :6 :2 ");
  std::array<floats, 2> array{floats{9}, floats{10}};
  CHECK(visited(array) == ":9 :10 ");
  CHECK(hvdlite::tensor_count(std::tie(range, named, b)) == 5);
}

TEST_CASE("tensor_set: pairs pair what stands at the same place") {
  floats p{1}, q{2};
  std::optional<floats> gp{floats{10}}, gq;
  std::string seen;
  const auto note = [&](auto& x, auto& g) {
    seen += std::to_string(static_cast<int>(x[0])) + "-";
    if (!hvdlite::with_value(
            g, [&](const auto& value) { seen += std::to_string(static_cast<int>(value[0])); }))
      seen += "absent";
    seen += " ";
  };
  hvdlite::for_each_pair(std::tie(p, q), std::tie(gp, gq), note);
  CHECK(seen == "1-10 2-absent ");

  seen.clear();
  std::map<std::string, floats> params{{"a", {3}}, {"b", {4}}};
  std::vector<floats> grads{{30}, {40}};
  hvdlite::for_each_pair(params, grads, note);
  CHECK(seen == "3-30 4-40 ");
}

TEST_CASE("tensor_set: with_value follows pointers and optionals to the end") {
  floats value{1, 2};
  std::unique_ptr<floats> none;
  std::optional<floats*> inner{&value};
  int calls = 0;
  CHECK(hvdlite::with_value(inner, [&](const auto& x) { calls += static_cast<int>(x.size()); }));
  CHECK(calls == 2);
  floats* null = nullptr;
  CHECK_FALSE(hvdlite::with_value(null, [&](const auto&) { ++calls; }));
  inner = nullptr;
  CHECK_FALSE(hvdlite::with_value(inner, [&](const auto&) { ++calls; }));
  CHECK(calls == 2);
}

namespace {
using hvdlite::detail::all_writable;
static_assert(all_writable<floats>() && !all_writable<const floats>());
static_assert(all_writable<std::tuple<floats&, float&>>());
static_assert(!all_writable<std::tuple<floats&, const float&>>());
static_assert(all_writable<std::map<std::string, floats>>());
static_assert(!all_writable<const std::map<std::string, floats>>());
static_assert(all_writable<std::vector<hvdlite::buffer<float>>>());
static_assert(!all_writable<std::vector<hvdlite::buffer<const float>>>());
// What may be absent is no parameter, but a gradient.
static_assert(!all_writable<std::optional<floats>>());
static_assert(all_writable<std::optional<floats>, true>());
static_assert(all_writable<std::vector<floats*>, true>());
static_assert(!all_writable<std::vector<const floats*>, true>());
static_assert(!all_writable<const std::optional<floats>, true>());
}  // namespace
