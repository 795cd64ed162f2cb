// SPDX-License-Identifier: Apache-2.0
// The order of a sum. Per element the result is one fixed expression, a function of where the
// ranks are and of nothing else: a balanced binary tree over the ranks of each node in rank order
// (n leaves split at the largest power of two below n), then the same over the nodes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <hvdlite/ops/kernels.hpp>

namespace hvdlite {

/// What one rank brings to a reduction.
struct leaf {
  const std::byte* data = nullptr;  ///< null: absent, contributes the op's identity
  double factor = 1;                ///< prescale times weight
};

/// The expression, as a program for a stack of accumulators.
class reduction_tree {
 public:
  /// `nodes[r]`: the node of rank r; any numbering, equal for ranks of the same node.
  explicit reduction_tree(std::span<const int> nodes) {
    std::vector<std::vector<int>> groups;  // nodes by their lowest rank
    std::vector<int> seen;
    for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
      const auto at = std::find(seen.begin(), seen.end(), nodes[rank]);
      const auto group = static_cast<std::size_t>(at - seen.begin());
      if (at == seen.end()) {
        seen.push_back(nodes[rank]);
        groups.emplace_back();
      }
      groups[group].push_back(static_cast<int>(rank));
    }
    build(groups.size(), 0, [&](std::size_t g, std::size_t depth) {
      build(groups[g].size(), depth,
            [&](std::size_t i, std::size_t d) { push(groups[g][i], d); });
    });
    // A combine whose right side is a single leaf takes it without a stack entry of its own.
    std::vector<step> fused;
    for (const step& s : program_) {
      if (s.kind == step_kind::combine && fused.back().kind == step_kind::load)
        fused.back().kind = step_kind::accumulate;
      else
        fused.push_back(s);
    }
    program_ = std::move(fused);
  }

  enum class step_kind { load, accumulate, combine };
  struct step {
    step_kind kind;
    int rank;  ///< of the leaf, for load and accumulate
  };

  std::span<const step> program() const { return program_; }
  /// How many accumulators the program needs at once.
  std::size_t depth() const { return depth_; }

 private:
  template <class F>
  void build(std::size_t n, std::size_t depth, F&& visit, std::size_t first = 0) {
    if (n == 1) return visit(first, depth);
    const std::size_t left = std::bit_floor(n - 1);
    build(left, depth, visit, first);
    build(n - left, depth + 1, visit, first + left);
    program_.push_back({step_kind::combine, -1});
  }

  void push(int rank, std::size_t depth) {
    program_.push_back({step_kind::load, rank});
    depth_ = (std::max)(depth_, depth + 1);
  }

  std::vector<step> program_;
  std::size_t depth_ = 0;
};

/// Evaluates a reduction_tree. Owns the accumulators, so that a call allocates nothing.
class tree_evaluator {
 public:
  explicit tree_evaluator(reduction_tree tree)
      : tree_{std::move(tree)}, stack_(tree_.depth() * stride + 64) {}

  const reduction_tree& tree() const { return tree_; }

  /// Writes the reduction of `count` elements to `to`, which may be one of the leaves' memory.
  void operator()(const kernel_table& kernels, const void* context, std::span<const leaf> leaves,
                  std::byte* to, std::size_t count, root_scale root) {
    const std::size_t block = stride / kernels.accumulator_bytes;
    auto* const base = reinterpret_cast<std::byte*>(
        (reinterpret_cast<std::uintptr_t>(stack_.data()) + 63) & ~std::uintptr_t{63});
    for (std::size_t first = 0; first < count; first += block) {
      const std::size_t n = (std::min)(block, count - first);
      const std::size_t offset = first * kernels.element_bytes;
      std::byte* top = base - stride;  // moves up with the first load
      for (const auto& step : tree_.program()) {
        if (step.kind == reduction_tree::step_kind::combine) {
          top -= stride;
          kernels.combine(top, top + stride, n, context);
          continue;
        }
        const leaf& source = leaves[static_cast<std::size_t>(step.rank)];
        if (step.kind == reduction_tree::step_kind::load) {
          top += stride;
          if (source.data == nullptr)
            kernels.fill_identity(top, n, context);
          else
            kernels.load(top, source.data + offset, n, source.factor);
        } else if (source.data != nullptr) {
          kernels.accumulate(top, source.data + offset, n, source.factor, context);
        }  // else: x (op) identity is x
      }
      kernels.store(to + offset, top, n, root);
    }
  }

 private:
  static constexpr std::size_t stride = 2048;  // bytes per accumulator block: all stay in L1

  reduction_tree tree_;
  std::vector<std::byte> stack_;
};

}  // namespace hvdlite
