// SPDX-License-Identifier: Apache-2.0
// Which rows of a data set are this rank's: ShardedSampler deals each global batch out to the
// ranks, rank_seed gives each rank a seed of its own. Nothing is sent: all ranks compute the same
// permutation, which therefore must not depend on compiler, library or platform.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <hvdlite/core/error.hpp>

namespace hvdlite {

/// What the sampler asks of a communicator: it knows its rank and how many there are.
template <class World>
concept ranked = requires(const World& world) {
  { world.rank() } -> std::convertible_to<int>;
  { world.size() } -> std::convertible_to<int>;
};

/// The order in which an epoch visits the rows.
enum class row_order {
  shuffled,  ///< a permutation of its own each epoch, the same on all ranks
  in_order,  ///< 0, 1, 2 ... each epoch: for validation
};

namespace detail {
template <class N>
concept countable = std::integral<N> && !std::same_as<N, bool>;
}

/// A number of rows, from any integer type, so that `{.batch = n}` narrows from none. Throws
/// usage_error if it is negative or beyond std::ptrdiff_t.
struct row_count {
  std::ptrdiff_t value = 0;

  constexpr row_count() = default;
  template <detail::countable N>
  constexpr row_count(N n) : value{static_cast<std::ptrdiff_t>(n)} {
    if (value < 0 || static_cast<N>(value) != n)  // std::in_range would refuse char
      detail::fail<usage_error>({"a number of rows is ", n, ": expected 0 to ",
                                 (std::numeric_limits<std::ptrdiff_t>::max)()});
  }
};

/// Options of a ShardedSampler; must be the same on all ranks.
struct sampler_options {
  row_count batch{};       ///< rows of a global batch, all ranks together; at least 1, no default
  std::uint64_t seed = 0;  ///< of the permutations; another seed, other permutations
  row_order order = row_order::shuffled;
};

/// Deals n rows out to the ranks of a communicator, one global batch after the other.
///
/// ```
/// hvdlite::ShardedSampler rows{x.rows(), world, {.batch = 64}};
/// for (int epoch = 0; epoch < 20; ++epoch)
///   for (const auto& batch : rows.epoch(epoch)) {
///     const Eigen::MatrixXf xb = x(batch, Eigen::all);  // batch.size() rows, this rank's share
///     ...
/// ```
///
/// Each epoch visits every row exactly once, on one rank; nothing is padded or dropped. The last
/// batch of an epoch is shorter if it must be, and the shares of a batch differ by at most one row,
/// the lower ranks having the longer ones: average with weights, `{.samples = batch.size()}`. All
/// ranks take the same number of steps; with fewer rows in a batch than ranks some shares are
/// empty. A batch has the same rows for every number of ranks, so 1 rank and 4 see the same data in
/// the same steps.
///
/// Not collective, nothing blocks. An epoch takes time and, while it is being made, memory for one
/// index per row of the whole data set; it keeps those of this rank.
class ShardedSampler {
 public:
  /// This rank's share of a global batch: row numbers, to be used as an index (`x(batch, all)`) or
  /// read as a range. Points into its epoch.
  using batch = std::span<const std::ptrdiff_t>;

  /// The batches of one epoch, a range in the order of the steps. Movable; its batches stay valid
  /// as long as it lives, which in a range-for is the whole loop.
  class epoch_range {
   public:
    epoch_range(epoch_range&&) = default;
    epoch_range& operator=(epoch_range&&) = default;
    epoch_range(const epoch_range&) = delete;  // the copy's batches would point into the original
    epoch_range& operator=(const epoch_range&) = delete;
    ~epoch_range() = default;

    auto begin() const { return batches_.begin(); }
    auto end() const { return batches_.end(); }
    std::size_t size() const { return batches_.size(); }
    const batch& operator[](std::size_t step) const { return batches_[step]; }

   private:
    friend ShardedSampler;
    explicit epoch_range(const ShardedSampler& sampler, std::uint64_t epoch);

    std::vector<std::ptrdiff_t> rows_;
    std::vector<batch> batches_;
  };

  /// `rows`: how many there are in all, any integer type; the same on all ranks, as are the
  /// options. Throws usage_error for a negative number and for a batch of 0.
  template <ranked World>
  ShardedSampler(row_count rows, const World& world, const sampler_options& options)
      : rows_{rows.value},
        rank_{world.rank()},
        size_{world.size()},
        batch_{options.batch.value},
        seed_{options.seed},
        order_{options.order} {
    if (batch_ == 0)
      detail::fail<usage_error>(
          {"ShardedSampler: batch is 0 or not given; expected the rows of one global batch, those "
           "of all ranks together"});
  }

  /// This rank's batches of epoch number `epoch`, the same whenever it is asked for: a job that
  /// resumes in epoch 7 asks for epoch 7.
  template <std::integral Epoch>
  epoch_range epoch(Epoch epoch) const {
    return epoch_range{*this, static_cast<std::uint64_t>(epoch)};
  }

  /// Batches in an epoch, the same on all ranks.
  std::ptrdiff_t steps() const { return rows_ / batch_ + (rows_ % batch_ != 0); }
  /// Rows of the global batch of a step, 0 <= step < steps(), those of all ranks together.
  std::ptrdiff_t batch_size(std::ptrdiff_t step) const {
    return (std::min)(batch_, rows_ - step * batch_);
  }
  /// Rows of the whole data set.
  std::ptrdiff_t size() const { return rows_; }

 private:
  std::ptrdiff_t rows_;
  int rank_, size_;
  std::ptrdiff_t batch_;
  std::uint64_t seed_;
  row_order order_;
};

namespace detail {

/// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): a bijection of 64-bit numbers in
/// which every bit of the input flips half of those of the output.
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// The same for 32 bits: the finaliser of MurmurHash3 (Appleby, 2011).
constexpr std::uint32_t mix(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}

/// SplitMix64. Here because the standard's distributions and std::shuffle may give other numbers
/// with every library.
class splitmix64 {
 public:
  explicit constexpr splitmix64(std::uint64_t seed) : state_{seed} {}

  constexpr std::uint64_t operator()() { return mix(state_ += 0x9e3779b97f4a7c15u); }

  /// Uniform over 0 ... bound - 1. The lowest 2^64 mod bound numbers are drawn again, so that the
  /// rest is a multiple of bound and no remainder is favoured.
  constexpr std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t refused = (0 - bound) % bound;
    std::uint64_t drawn = (*this)();
    while (drawn < refused) drawn = (*this)();
    return drawn % bound;
  }

 private:
  std::uint64_t state_;
};

// One seed serves for permutations, noise and weights, so each use is told apart by a constant.
inline constexpr std::uint64_t permutation_stream = 0x7065726d75746174u;
inline constexpr std::uint64_t rank_stream = 0x72616e6b73656564u;

}  // namespace detail

inline ShardedSampler::epoch_range::epoch_range(const ShardedSampler& sampler,
                                                std::uint64_t epoch) {
  std::vector<std::ptrdiff_t> all(static_cast<std::size_t>(sampler.rows_));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::ptrdiff_t>(i);
  if (sampler.order_ == row_order::shuffled) {  // Fisher and Yates, as Durstenfeld has it (1964)
    detail::splitmix64 random{
        detail::mix(detail::mix(sampler.seed_ ^ detail::permutation_stream) + epoch)};
    for (std::size_t i = all.size(); i > 1; --i)
      std::swap(all[i - 1], all[static_cast<std::size_t>(random.below(i))]);
  }

  const auto steps = sampler.steps();
  const auto share = [&](std::ptrdiff_t step) {  // of this rank: first row in `all`, number
    const std::ptrdiff_t rows = sampler.batch_size(step);
    const std::ptrdiff_t least = rows / sampler.size_, longer = rows % sampler.size_;
    const std::ptrdiff_t rank = sampler.rank_;
    const std::ptrdiff_t before = rank * least + (std::min)(rank, longer);
    return std::pair{step * sampler.batch_ + before, least + (rank < longer)};
  };
  std::size_t mine = 0;
  for (std::ptrdiff_t step = 0; step < steps; ++step)
    mine += static_cast<std::size_t>(share(step).second);
  rows_.reserve(mine);  // batches_ points into it: it must not move
  batches_.reserve(static_cast<std::size_t>(steps));
  for (std::ptrdiff_t step = 0; step < steps; ++step) {
    const auto [first, count] = share(step);
    const auto begin = rows_.size();
    rows_.insert(rows_.end(), all.begin() + first, all.begin() + first + count);
    batches_.emplace_back(rows_.data() + begin, static_cast<std::size_t>(count));
  }
}

/// A seed of this rank's own, for noise, dropout or initial values that should differ. For one
/// `seed` the ranks' results all differ, even if cut to 32 bits for std::mt19937 or std::srand, and
/// rank r's does not depend on how many ranks there are. Not collective.
template <ranked World, std::integral Seed>
std::uint64_t rank_seed(const World& world, Seed seed) {
  const auto rank = static_cast<std::uint32_t>(world.rank());
  const std::uint64_t key = detail::mix(static_cast<std::uint64_t>(seed) ^ detail::rank_stream);
  // Each half is a bijection of the rank once the seed is fixed, and so is the whole.
  const std::uint32_t low = detail::mix(static_cast<std::uint32_t>(key) ^ rank);
  const std::uint32_t high = detail::mix(static_cast<std::uint32_t>(key >> 32) + rank);
  return std::uint64_t{high} << 32 | low;
}

}  // namespace hvdlite
