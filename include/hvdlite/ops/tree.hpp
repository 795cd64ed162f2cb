// SPDX-License-Identifier: Apache-2.0
// The order of a sum. Per element the result is one fixed expression, a function of where the
// ranks are and of nothing else: a balanced binary tree over the ranks of each node in rank order
// (n leaves split at the largest power of two below n), then the same over the nodes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <hvdlite/core/list.hpp>
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
  /// `nodes[r]`: the node of rank r of `count`; any numbering, equal for ranks of the same node.
  HVDLITE_COLD reduction_tree(const int* nodes, int count) {
    // Ranks node by node, the nodes in the order of their lowest ranks.
    detail::list<int> ranks, starts;  // of each node in `ranks`
    for (int rank = 0; rank < count; ++rank) {
      int lowest = 0;
      while (nodes[lowest] != nodes[rank]) ++lowest;
      if (lowest != rank) continue;
      starts.push_back(static_cast<int>(ranks.size()));
      for (int other = rank; other < count; ++other)
        if (nodes[other] == nodes[rank]) ranks.push_back(other);
    }
    starts.push_back(count);
    build_nodes(ranks.data(), starts.data(), starts.size() - 1, 0);
  }

  enum class step_kind { load, accumulate, combine };
  struct step {
    step_kind kind;
    int rank;  ///< of the leaf, for load and accumulate
  };

  const detail::list<step>& program() const { return program_; }
  /// How many accumulators the program needs at once.
  std::size_t depth() const { return depth_; }

 private:
  /// `starts`: where each of `n` neighbouring nodes starts in `ranks`, and where the last ends.
  HVDLITE_COLD void build_nodes(const int* ranks, const int* starts, std::size_t n,
                                std::size_t depth) {
    if (n == 1)
      return build_ranks(ranks + starts[0], static_cast<std::size_t>(starts[1] - starts[0]), depth);
    const std::size_t left = std::bit_floor(n - 1);
    build_nodes(ranks, starts, left, depth);
    build_nodes(ranks, starts + left, n - left, depth + 1);
    combine();
  }

  HVDLITE_COLD void build_ranks(const int* ranks, std::size_t n, std::size_t depth) {
    if (n == 1) {
      program_.push_back({step_kind::load, ranks[0]});
      if (depth_ < depth + 1) depth_ = depth + 1;
      return;
    }
    const std::size_t left = std::bit_floor(n - 1);
    build_ranks(ranks, left, depth);
    build_ranks(ranks + left, n - left, depth + 1);
    combine();
  }

  /// A combine whose right side is a single leaf takes it without a stack entry of its own.
  HVDLITE_COLD void combine() {
    if (program_.back().kind == step_kind::load)
      program_.back().kind = step_kind::accumulate;
    else
      program_.push_back({step_kind::combine, -1});
  }

  detail::list<step> program_;
  std::size_t depth_ = 0;
};

/// Evaluates a reduction_tree. Owns the accumulators, so that a call allocates nothing.
class tree_evaluator {
 public:
  HVDLITE_COLD explicit tree_evaluator(reduction_tree tree)
      : tree_{std::move(tree)}, stack_{tree_.depth() * stride + 64}, operands_{tree_.depth() + 1} {}

  const reduction_tree& tree() const { return tree_; }

  /// Writes the reduction of `count` elements to `to`, which may be one of the leaves' memory.
  /// `leaves`: one per rank.
  HVDLITE_LEAN HVDLITE_OUT_OF_LINE void operator()(const kernel_table& kernels, const void* context,
                                                   const leaf* leaves, std::byte* to,
                                                   std::size_t count, root_scale root) {
    if (kernels.plain && leaves_are_accumulators(leaves, kernels.element_bytes, to))
      return evaluate_leaves(kernels, context, leaves, to, count, root);
    const std::size_t block = stride / kernels.accumulator_bytes;
    std::byte* const base = aligned_stack();
    for (std::size_t first = 0; first < count; first += block) {
      const std::size_t n = count - first < block ? count - first : block;
      const std::size_t offset = first * kernels.element_bytes;
      std::byte* top = base - stride;  // moves up with the first load
      for (const auto& step : tree_.program()) {
        if (step.kind == reduction_tree::step_kind::combine) {
          top -= stride;
          kernels.combine(top, top, top + stride, n, context);
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

  /// What the root does, on elements that are reduced but for that.
  HVDLITE_LEAN HVDLITE_OUT_OF_LINE void finish(const kernel_table& kernels, std::byte* to,
                                               std::size_t count, root_scale root) {
    const std::size_t block = stride / kernels.accumulator_bytes;
    for (std::size_t first = 0; first < count; first += block) {
      const std::size_t n = count - first < block ? count - first : block;
      std::byte* const at = to + first * kernels.element_bytes;
      kernels.load(aligned_stack(), at, n, 1);
      kernels.store(at, aligned_stack(), n, root);
    }
  }

 private:
  static constexpr std::size_t stride = 2048;  // bytes per accumulator block: all stay in L1

  std::byte* aligned_stack() {
    return reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(stack_.data()) + 63) &
                                        ~std::uintptr_t{63});
  }

  /// All are there, unscaled, and of two at least; a store that works in place needs `to` aligned.
  bool leaves_are_accumulators(const leaf* leaves, std::size_t alignment,
                               const std::byte* to) const {
    for (const auto& step : tree_.program())
      if (step.kind != reduction_tree::step_kind::combine) {
        const leaf& source = leaves[static_cast<std::size_t>(step.rank)];
        if (source.data == nullptr || source.factor != 1) return false;
      }
    return tree_.program().size() > 1 && reinterpret_cast<std::uintptr_t>(to) % alignment == 0;
  }

  /// The same without a copy of the leaves: each step reads its operands where they are, and the
  /// last one writes to `to`. For two leaves that is one pass in lockstep, as memory likes it best.
  HVDLITE_LEAN void evaluate_leaves(const kernel_table& kernels, const void* context,
                                    const leaf* leaves, std::byte* to, std::size_t count,
                                    root_scale root) {
    const auto& program = tree_.program();
    const bool finished = root.divisor == 1 && root.factor == 1;
    const std::size_t block =
        program.size() == 2 && finished ? count : stride / kernels.element_bytes;
    std::byte* const base = aligned_stack();
    for (std::size_t first = 0; first < count; first += block) {
      const std::size_t n = count - first < block ? count - first : block;
      const std::size_t offset = first * kernels.element_bytes;
      std::size_t depth = 0;
      for (std::size_t at = 0; at < program.size(); ++at) {
        const auto& step = program[at];
        if (step.kind == reduction_tree::step_kind::combine) {
          --depth;
        } else {
          operands_[depth] = leaves[static_cast<std::size_t>(step.rank)].data + offset;
          if (step.kind == reduction_tree::step_kind::load) {
            ++depth;
            continue;
          }
        }
        const bool last = at + 1 == program.size();
        std::byte* const result = last ? to + offset : base + (depth - 1) * stride;
        kernels.combine(result, operands_[depth - 1], operands_[depth], n, context);
        operands_[depth - 1] = result;
      }
      if (!finished) kernels.store(to + offset, to + offset, n, root);
    }
  }

  reduction_tree tree_;
  detail::list<std::byte> stack_;
  detail::list<const std::byte*> operands_;
};

}  // namespace hvdlite
