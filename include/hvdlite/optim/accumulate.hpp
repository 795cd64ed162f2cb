// SPDX-License-Identifier: Apache-2.0
// Gradient accumulation: the sum of several passes of one rank, what becomes of it, and the guard
// inside which steps only accumulate.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include <hvdlite/core/list.hpp>
#include <hvdlite/ops/reduce_op.hpp>

namespace hvdlite {

/// What several passes amount to.
enum class accumulate {
  mean,  ///< sum(w g) / sum(w) over passes and ranks; w: a pass's samples, 1 if not given
  sum,   ///< that mean times the number of passes: sum(w g) / sum over ranks of their mean w
};

/// While it lives, steps of the optimizer that gave it only accumulate. It moves; the optimizer may
/// end before it.
class [[nodiscard]] no_sync_guard {
 public:
  /// Used by DistributedOptimizer::no_sync.
  explicit no_sync_guard(std::shared_ptr<int> depth) : depth_{std::move(depth)} { ++*depth_; }
  no_sync_guard(no_sync_guard&& other) noexcept = default;
  no_sync_guard& operator=(no_sync_guard&& other) noexcept {
    no_sync_guard{std::move(other)}.depth_.swap(depth_);
    return *this;
  }
  ~no_sync_guard() {
    if (depth_) --*depth_;
  }

 private:
  std::shared_ptr<int> depth_;
};

namespace detail {

/// sum += weight * g
template <class T>
void add_pass(compute_t<T>* sum, const T* g, std::size_t n, double weight) {
  using C = compute_t<T>;
  const C w = static_cast<C>(weight);
  if (weight == 1)
    for (std::size_t i = 0; i < n; ++i) sum[i] += static_cast<C>(g[i]);
  else
    for (std::size_t i = 0; i < n; ++i) sum[i] += w * static_cast<C>(g[i]);
}

/// g = (sum + weight * g) / divisor
template <class T>
void finish_passes(const compute_t<T>* sum, T* g, std::size_t n, double weight, double divisor) {
  using C = compute_t<T>;
  const C w = static_cast<C>(weight), d = static_cast<C>(divisor);
  for (std::size_t i = 0; i < n; ++i)
    g[i] = static_cast<T>((sum[i] + w * static_cast<C>(g[i])) / d);
}

/// The passes of this rank that wait for their update: their sums in compute_t, with weights whose
/// common power of two is left out (plain passes of 32 samples add up like those of 1).
class pass_sum {
 public:
  bool empty() const { return count_ == 0; }
  /// All of them, and those with samples.
  std::size_t count() const { return count_; }
  std::size_t weighty() const { return weighty_; }
  /// The sum of their weights.
  double weight() const { return weight_; }
  bool samples_given() const { return samples_given_; }
  bool has(std::size_t parameter) const { return !empty() && present_[parameter] != 0; }
  std::byte* at(std::size_t byte) { return sums_.data() + byte; }
  void mark(std::size_t parameter) { present_[parameter] = 1; }

  /// The weight with which a pass of `weight` enters the sums.
  double scaled(double weight) const { return std::ldexp(weight, shift_); }

  /// Before a pass is added: makes room for `parameters` of `bytes` in all, zeros at first.
  void begin_pass(std::size_t parameters, std::size_t bytes, double weight) {
    if (empty()) {
      sums_.resize_for_overwrite(bytes);
      if (bytes != 0) std::memset(static_cast<void*>(sums_.data()), 0, bytes);
      present_.clear();
      present_.resize(parameters);
    }
    choose_shift(weight);
  }
  void end_pass(double weight, bool samples_given) {
    ++count_;
    if (weight != 0) ++weighty_;
    weight_ += weight;
    samples_given_ = samples_given;
  }
  /// The first weight that is not 0 decides.
  void choose_shift(double weight) {
    if (weighty_ == 0 && weight != 0) shift_ = -std::ilogb(weight);
  }

  void clear() {
    count_ = weighty_ = 0;
    weight_ = 0;
    shift_ = 0;
  }

 private:
  list<std::byte> sums_;
  list<unsigned char> present_;  // whether any pass had a gradient of a parameter
  std::size_t count_ = 0, weighty_ = 0;
  double weight_ = 0;
  int shift_ = 0;
  bool samples_given_ = false;
};

}  // namespace detail

}  // namespace hvdlite
