// SPDX-License-Identifier: Apache-2.0
// Factors and divisor of a reduction, from the ranks' weights.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include <hvdlite/engine/weights.hpp>

#include "support/ranks.hpp"

namespace {

using hvdlite::dtype;

struct weighed {
  bool any;
  hvdlite::root_scale root;
  std::vector<double> factors;
  std::vector<bool> present;
};

/// `weights`: one per rank.
weighed weigh(const hvdlite::operation& op, const std::vector<double>& weights) {
  hvdlite::detail::list<hvdlite::reduction_terms::term> terms{weights.size()};
  for (std::size_t r = 0; r < weights.size(); ++r)
    terms[r] = {op.weighted ? weights[r] : 4711, false};  // what an earlier call has left there
  weighed result{};
  result.any = hvdlite::weigh(op, 0, terms, result.root);
  for (const auto& term : terms) {
    result.factors.push_back(term.factor);
    result.present.push_back(term.present);
  }
  return result;
}

hvdlite::operation reduction(bool weighted, bool averages, dtype type = dtype::f32) {
  hvdlite::operation op;
  op.verb = hvdlite::verb::allreduce;
  op.weighted = weighted;
  op.averages = averages;
  op.type = type;
  op.count = 3;
  op.name = "w";
  return op;
}

}  // namespace

TEST_CASE("weigh: without weights everybody counts the same") {
  auto op = reduction(false, true);
  op.prescale = 0.5;
  op.postscale = 3;
  const auto average = weigh(op, {1, 1, 1});
  CHECK(average.any);
  CHECK(average.factors == std::vector<double>{0.5, 0.5, 0.5});
  CHECK(average.present == std::vector<bool>{true, true, true});
  CHECK(average.root.divisor == 3);
  CHECK(average.root.factor == 3);
  op.averages = false;
  CHECK(weigh(op, {1, 1, 1}).root.divisor == 1);
}

TEST_CASE("weigh: each by its own, and a rank with 0 is absent") {
  auto op = reduction(true, true);
  op.prescale = 2;
  const auto three = weigh(op, {2, 0, 6});
  CHECK(three.any);
  CHECK(three.present == std::vector<bool>{true, false, true});
  // Brought below 2 by a power of two: only ratios count.
  CHECK(three.factors[0] / three.root.divisor == doctest::Approx(2 * 2 / 8.0));
  CHECK(three.factors[2] / three.root.divisor == doctest::Approx(2 * 6 / 8.0));
  CHECK(three.factors[2] / op.prescale < 2);
  CHECK(three.factors[2] / op.prescale >= 1);
  const auto same = weigh(op, {3, 0, 3});  // a plain average of those present
  CHECK(same.factors[0] == 2);
  CHECK(same.factors[2] == 2);
  CHECK(same.root.divisor == 2);
  CHECK_FALSE(weigh(op, {0, 0, 0}).any);
}

TEST_CASE("weigh: a power of two in all weights leaves the result's bits alone") {
  const auto op = reduction(true, true);
  for (const double factor : {0x1p-1000, 0x1p-3, 0x1p900}) {
    CAPTURE(factor);
    const auto plain = weigh(op, {1, 3, 7}), scaled = weigh(op, {factor, 3 * factor, 7 * factor});
    CHECK(plain.factors == scaled.factors);
    CHECK(plain.root.divisor == scaled.root.divisor);
  }
  const double most = (std::numeric_limits<double>::max)();
  CHECK(std::isfinite(weigh(op, {most, most / 2, most}).root.divisor));
}

TEST_CASE("weigh: where nothing is averaged weights only say who takes part") {
  const auto sum = weigh(reduction(true, false), {5, 0, 5});
  CHECK(sum.present == std::vector<bool>{true, false, true});
  CHECK(sum.factors[0] == 1);
  CHECK(sum.root.divisor == 1);
}

TEST_CASE("weigh: integers by the numbers themselves, as far as 64 bits reach") {
  for (const dtype type : {dtype::i8, dtype::i64, dtype::u64}) {
    const auto op = reduction(true, true, type);
    const auto two = weigh(op, {3, 5});
    CHECK(two.factors == std::vector<double>{3, 5});
    CHECK(two.root.divisor == 8);
    CHECK(weigh(op, {0x1p31 - 5, 5}).root.divisor == 0x1p31);
    CHECK(weigh(op, {0x1p40, 0x1p40}).root.divisor == 2);  // equal: no product
    CHECK(hvdtest::lacking(
              hvdtest::message_of<hvdlite::usage_error>([&] { weigh(op, {0x1p31, 5}); }),
              {"allreduce 'w'", "rank 0 of 2", "the sum of all samples is 2147483653", "double"}) ==
          "");
  }
  CHECK(weigh(reduction(true, true, dtype::f16), {0x1p31, 5}).any);
}
