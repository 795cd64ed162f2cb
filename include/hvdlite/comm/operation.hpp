// SPDX-License-Identifier: Apache-2.0
// One collective as bytes: what the typed verbs reduce a call to, what the ranks compare, and all
// that a backend gets to see.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <hvdlite/core/element.hpp>
#include <hvdlite/ops/kernels.hpp>
#include <hvdlite/ops/tree.hpp>
#include <hvdlite/tensor/buffer.hpp>

namespace hvdlite {

enum class verb : std::uint8_t { barrier, allreduce, broadcast, split, optimizer_step };

constexpr const char* verb_name(verb v) {
  constexpr const char* names[] = {"barrier", "allreduce", "broadcast", "split",
                                   "DistributedOptimizer::step"};
  return names[static_cast<std::size_t>(v)];
}

/// Pointers are the caller's and valid until the call returns.
struct operation {
  enum verb verb = verb::barrier;
  std::string_view name;     ///< the user's; empty if unnamed
  std::string_view refused;  ///< why this rank cannot make the call; it is told to the others

  // Both ends hold `count` elements, contiguous. For allreduce `in` may equal `out`, and overlap
  // it in no other way; for broadcast they are equal.
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::size_t count = 0;
  std::size_t element_bytes = 0;
  dtype type = dtype::none;
  tensor_shape shape;
  std::string_view space = "host";

  int root = 0;

  // Of reductions.
  const kernel_table* kernels = nullptr;
  const void* op_context = nullptr;
  std::string_view op_name;
  double prescale = 1;
  double postscale = 1;
  bool adds = false;      ///< the op is +, before scales and divisors
  bool averages = false;  ///< divide by the number of ranks, or by the weights' sum
  bool weighted = false;  ///< this call gives a weight
  double weight = 1;      ///< of this rank; 0: `in` is not read

  /// Bits that travel with the announcement, free of cost and not compared; see outcome.
  std::uint8_t notes = 0;

  std::size_t bytes() const { return count * element_bytes; }
  bool reduces() const { return kernels != nullptr; }
};

/// How a call ended that ended well.
struct outcome {
  bool written = true;  ///< false: all ranks gave weight 0, and the output is as it was
  /// Those of all ranks, or-ed; without checks this rank's alone, unless the call gives a weight or
  /// is one in which nothing moves.
  std::uint8_t notes = 0;
};

/// What the check phase adds to a reduction: every rank's factor and how to finish.
/// `leaves[r].data` is for the backend to set, except that of a rank with weight 0, whose `present`
/// is false.
struct reduction_terms {
  struct term {
    double factor = 1;
    bool present = true;
  };
  const term* ranks;  ///< one per rank
  root_scale root;
};

}  // namespace hvdlite
