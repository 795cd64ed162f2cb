// SPDX-License-Identifier: Apache-2.0
// Tests of engine/plan.hpp: what travels together.
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <numeric>
#include <vector>

#include <hvdlite/engine/plan.hpp>

namespace {

using hvdlite::bucket_plan;

std::vector<std::size_t> sizes(const bucket_plan& plan) {
  std::vector<std::size_t> result;
  for (const auto& b : plan.buckets) result.push_back(b.count);
  return result;
}

}  // namespace

TEST_CASE("plan: backwards, the first bucket small, a parameter is never cut") {
  const std::array<std::size_t, 6> counts{100, 5, 3, 4, 2, 1};
  // 4-byte elements: first bucket up to 12 bytes, others up to 32.
  const bucket_plan plan{counts, 4, {.first = 12, .others = 32}};
  CHECK(sizes(plan) == std::vector<std::size_t>{3, 7, 5, 100});
  CHECK(plan.buckets[0].first_parameter == 4);
  CHECK(plan.buckets[0].last_parameter == 5);
  CHECK(plan.buckets[3].first_parameter == 0);
  CHECK(plan.total == 115);
}

TEST_CASE("plan: a limit of 0 gives every parameter its own bucket") {
  const std::array<std::size_t, 3> counts{1, 0, 2};
  const bucket_plan plan{counts, 4, {.first = 0, .others = 0}};
  CHECK(sizes(plan) == std::vector<std::size_t>{2, 0, 1});
}

TEST_CASE("plan: no parameters, no buckets") {
  const bucket_plan plan{{}, 4, {}};
  CHECK(plan.buckets.empty());
  CHECK(plan.total == 0);
}

TEST_CASE("plan: every element has one place, whatever the limits") {
  const std::vector<std::size_t> counts{7, 1, 0, 300, 12, 12, 5};
  for (const std::size_t limit :
       {std::size_t{0}, std::size_t{4}, std::size_t{20}, std::size_t{1000}, std::size_t{1} << 20}) {
    const bucket_plan plan{counts, 4, {.first = limit, .others = limit}};
    std::vector<int> used(plan.total);
    for (std::size_t i = 0; i < counts.size(); ++i)
      for (std::size_t j = 0; j < counts[i]; ++j) ++used[plan.offsets[i] + j];
    CHECK(used == std::vector<int>(plan.total, 1));
    CHECK(plan.total == std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
    std::size_t end = 0;
    for (const auto& b : plan.buckets) {
      CHECK(b.begin == end);
      end += b.count;
      // The members of a bucket lie within it.
      for (std::size_t i = b.first_parameter; i <= b.last_parameter; ++i) {
        CHECK(plan.offsets[i] >= b.begin);
        CHECK(plan.offsets[i] + counts[i] <= b.begin + b.count);
      }
    }
    CHECK(end == plan.total);
  }
}
