// SPDX-License-Identifier: Apache-2.0
// How contestants are compared: in short blocks, one after the other, again and again, so that all
// meet the same moods of the machine (the host may move the cores' caches apart about once a
// second). A contestant's time in a round is that of the slowest rank; its figure is the median
// over the rounds, and so is the ratio to the first contestant, taken round by round.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace hvdbench {

struct contestant {
  std::string name;
  std::function<void()> run;  ///< collective over MPI_COMM_WORLD
};

struct figure {
  double seconds = 0;       ///< of one run
  double ratio = 1;         ///< to the first contestant: median of the rounds'
  double more_seconds = 0;  ///< than the first contestant: median of the rounds'
};

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

inline double seconds_of(const std::function<void()>& run, int times) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) run();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  double slowest = taken.count();
  MPI_Allreduce(MPI_IN_PLACE, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest / times;
}

/// Collective. For about `seconds` in all, at least 15 rounds. Each rank gets the figures.
inline std::vector<figure> contest(const std::vector<contestant>& contestants, double seconds) {
  // A block lasts some 3 ms, so that its start and the clock do not count.
  double once = 0;
  for (const contestant& c : contestants) {
    seconds_of(c.run, 3);
    once = std::max(once, seconds_of(c.run, 3));
  }
  const int times = std::max(1, static_cast<int>(3e-3 / once));
  const auto rounds = static_cast<std::size_t>(
      std::clamp(seconds / (once * times * static_cast<double>(contestants.size())), 15.0, 2000.0));

  std::vector<std::vector<double>> taken(contestants.size());
  for (std::size_t round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < contestants.size(); ++i) {
      const std::size_t who = (i + round) % contestants.size();  // nobody is always first
      taken[who].push_back(seconds_of(contestants[who].run, times));
    }

  std::vector<figure> figures;
  for (const auto& mine : taken) {
    std::vector<double> ratios, differences;
    for (std::size_t round = 0; round < rounds; ++round) {
      ratios.push_back(mine[round] / taken[0][round]);
      differences.push_back(mine[round] - taken[0][round]);
    }
    figures.push_back({median(mine), median(ratios), median(differences)});
  }
  return figures;
}

}  // namespace hvdbench
