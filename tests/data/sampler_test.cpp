// SPDX-License-Identifier: Apache-2.0
// The sampler needs no communicator, only a rank and a size: every rank of every world is asked in
// turn here, and the parts must make up the whole.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include <hvdlite/data/sampler.hpp>

namespace {

struct fake_world {
  int r, n;
  int rank() const { return r; }
  int size() const { return n; }
};

using rows = std::vector<std::ptrdiff_t>;

// The rows of one epoch as all ranks together see them, batch by batch in rank order.
std::vector<rows> whole_epoch(std::ptrdiff_t n, int ranks, const hvdlite::sampler_options& options,
                              int epoch) {
  std::vector<rows> batches;
  for (int rank = 0; rank < ranks; ++rank) {
    const hvdlite::ShardedSampler sampler{n, fake_world{rank, ranks}, options};
    const auto mine = sampler.epoch(epoch);
    batches.resize(mine.size());
    for (std::size_t step = 0; step < mine.size(); ++step)
      batches[step].insert(batches[step].end(), mine[step].begin(), mine[step].end());
  }
  return batches;
}

rows joined(const std::vector<rows>& batches) {
  rows all;
  for (const auto& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

rows counted(std::ptrdiff_t n) {
  rows all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), std::ptrdiff_t{0});
  return all;
}

}  // namespace

TEST_CASE("every row once per epoch, shares differ by at most one, same steps on all ranks") {
  for (const std::ptrdiff_t n : {0, 1, 2, 3, 7, 63, 64, 65, 1437})
    for (const std::ptrdiff_t batch : {1, 2, 3, 5, 64, 100, 5000})
      for (const int ranks : {1, 2, 3, 4, 5, 7}) {
        CAPTURE(n);
        CAPTURE(batch);
        CAPTURE(ranks);
        const auto expected_steps = static_cast<std::size_t>((n + batch - 1) / batch);
        std::vector<std::vector<std::size_t>> shares(expected_steps);
        rows all;
        for (int rank = 0; rank < ranks; ++rank) {
          const hvdlite::ShardedSampler sampler{n, fake_world{rank, ranks}, {.batch = batch}};
          REQUIRE(sampler.steps() == std::ptrdiff_t(expected_steps));
          std::size_t step = 0;
          for (const auto& mine : sampler.epoch(3)) {
            REQUIRE(step < expected_steps);
            shares[step++].push_back(mine.size());
            all.insert(all.end(), mine.begin(), mine.end());
          }
          REQUIRE(step == expected_steps);
        }
        std::sort(all.begin(), all.end());
        CHECK(all == counted(n));
        const hvdlite::ShardedSampler any{n, fake_world{0, ranks}, {.batch = batch}};
        for (std::size_t step = 0; step < expected_steps; ++step) {
          const auto& share = shares[step];
          const auto [least, most] = std::minmax_element(share.begin(), share.end());
          CHECK(*most - *least <= 1);
          const auto sum = std::accumulate(share.begin(), share.end(), std::size_t{0});
          CHECK(std::ptrdiff_t(sum) == any.batch_size(std::ptrdiff_t(step)));
          CHECK(std::ptrdiff_t(sum) == std::min(batch, n - std::ptrdiff_t(step) * batch));
        }
      }
}

TEST_CASE("a global batch has the same rows in the same order for every number of ranks") {
  const hvdlite::sampler_options options{.batch = 64, .seed = 5};
  const auto alone = whole_epoch(1437, 1, options, 2);
  for (const int ranks : {2, 3, 4, 5, 100}) CHECK(whole_epoch(1437, ranks, options, 2) == alone);
}

TEST_CASE("fewer rows than ranks: some shares are empty, nobody misses a step") {
  const auto options = hvdlite::sampler_options{.batch = 2};
  for (int rank = 0; rank < 4; ++rank) {
    const hvdlite::ShardedSampler sampler{5, fake_world{rank, 4}, options};
    std::vector<std::size_t> sizes;
    for (const auto& batch : sampler.epoch(0)) sizes.push_back(batch.size());
    const std::vector<std::size_t> expected{rank < 2 ? 1u : 0u, rank < 2 ? 1u : 0u,
                                            rank < 1 ? 1u : 0u};
    CHECK(sizes == expected);
  }
}

TEST_CASE("epochs and seeds give different permutations, the same pair the same one") {
  std::set<rows> seen;
  for (const std::uint64_t seed : {0u, 1u, 2u})
    for (int epoch = 0; epoch < 20; ++epoch) {
      const auto order = joined(whole_epoch(100, 1, {.batch = 7, .seed = seed}, epoch));
      CHECK(order == joined(whole_epoch(100, 1, {.batch = 9, .seed = seed}, epoch)));
      seen.insert(order);
    }
  CHECK(seen.size() == 60);
  CHECK(seen.count(counted(100)) == 0);
}

TEST_CASE("the permutation is part of the contract: the same on every platform") {
  const hvdlite::sampler_options options{.batch = 12, .seed = 1};
  CHECK(joined(whole_epoch(12, 1, options, 0)) == rows{2, 1, 4, 9, 0, 8, 10, 3, 11, 5, 7, 6});
  CHECK(joined(whole_epoch(12, 1, options, 1)) == rows{5, 9, 1, 8, 11, 2, 7, 3, 6, 4, 0, 10});
  // Published first outputs of SplitMix64 for the seed 1234567.
  hvdlite::detail::splitmix64 random{1234567};
  for (const std::uint64_t expected :
       {6457827717110365317u, 3203168211198807973u, 9817491932198370423u, 4593380528125082431u,
        16408922859458223821u})
    CHECK(random() == expected);
}

TEST_CASE("every permutation is equally likely") {
  std::array<int, 24> times{};
  constexpr int epochs = 24'000;
  const hvdlite::ShardedSampler sampler{4, fake_world{0, 1}, {.batch = 4}};
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const auto range = sampler.epoch(epoch);
    const auto order = range[0];
    std::size_t number = 0;  // Lehmer code
    for (std::size_t i = 0; i < 4; ++i) {
      const auto smaller = std::count_if(order.begin() + std::ptrdiff_t(i), order.end(),
                                         [&](auto row) { return row < order[i]; });
      number = number * (4 - i) + std::size_t(smaller);
    }
    ++times[number];
  }
  double chi_squared = 0;
  for (const int t : times) chi_squared += (t - 1000.0) * (t - 1000.0) / 1000.0;
  CHECK(chi_squared < 60);  // 23 degrees of freedom: above by chance once in 30,000 generators
}

TEST_CASE("in_order is the order of the data, each epoch") {
  const hvdlite::sampler_options options{.batch = 10, .order = hvdlite::row_order::in_order};
  CHECK(joined(whole_epoch(25, 3, options, 0)) == counted(25));
  CHECK(joined(whole_epoch(25, 3, options, 1)) == counted(25));
}

TEST_CASE("any integer type, and what is none is refused") {
  const fake_world world{0, 1};
  CHECK(hvdlite::ShardedSampler{std::int8_t{5}, world, {.batch = std::size_t{2}}}.steps() == 3);
  CHECK(hvdlite::ShardedSampler{std::uint64_t{5}, world, {.batch = std::int16_t{2}}}.steps() == 3);
  const int n = 5;
  const long long batch = 2;
  CHECK(hvdlite::ShardedSampler{n, world, {.batch = batch}}.steps() == 3);
  static_assert(!std::is_constructible_v<hvdlite::row_count, double>);
  static_assert(!std::is_constructible_v<hvdlite::row_count, bool>);
}

TEST_CASE("an epoch may be moved, not copied; its batches stay") {
  const hvdlite::ShardedSampler sampler{10, fake_world{0, 2}, {.batch = 4}};
  auto range = sampler.epoch(0);
  const rows before{range[1].begin(), range[1].end()};
  const auto moved = std::move(range);
  CHECK(rows{moved[1].begin(), moved[1].end()} == before);
  static_assert(!std::is_copy_constructible_v<hvdlite::ShardedSampler::epoch_range>);
}

TEST_CASE("wrong numbers are a usage_error that says what was expected") {
  const auto message = [](hvdlite::sampler_options options, auto n) -> std::string {
    try {
      hvdlite::ShardedSampler{n, fake_world{0, 1}, options};
    } catch (const hvdlite::usage_error& error) {
      return error.what();
    }
    return "no error";
  };
  CHECK(message({.batch = 0}, 10).find("batch is 0") != std::string::npos);
  CHECK(message({}, 10).find("not given") != std::string::npos);
  CHECK(message({.batch = 4}, -1).find("a number of rows is -1") != std::string::npos);
  CHECK(message({.batch = 4}, 10) == "no error");
  CHECK_THROWS_AS(static_cast<void>(hvdlite::row_count{-4}), hvdlite::usage_error);
  const auto huge = (std::numeric_limits<std::uint64_t>::max)();
  CHECK(message({.batch = 4}, huge).find(std::to_string(huge)) != std::string::npos);
}

TEST_CASE("rank_seed: no two ranks alike, cut to 32 bits neither, and not a matter of the size") {
  constexpr int ranks = 100'000;
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
    std::vector<std::uint64_t> whole;
    std::vector<std::uint32_t> cut;
    for (int rank = 0; rank < ranks; ++rank) {
      whole.push_back(hvdlite::rank_seed(fake_world{rank, ranks}, seed));
      cut.push_back(static_cast<std::uint32_t>(whole.back()));
    }
    std::sort(whole.begin(), whole.end());
    std::sort(cut.begin(), cut.end());
    CHECK(std::adjacent_find(whole.begin(), whole.end()) == whole.end());
    CHECK(std::adjacent_find(cut.begin(), cut.end()) == cut.end());
  }
  CHECK(hvdlite::rank_seed(fake_world{0, 1}, 7) == hvdlite::rank_seed(fake_world{0, 4}, 7));
  CHECK(hvdlite::rank_seed(fake_world{0, 1}, 7) != hvdlite::rank_seed(fake_world{0, 1}, 8));
  CHECK(hvdlite::rank_seed(fake_world{0, 1}, 1) == 0x1b6821afd10eb328u);
}
