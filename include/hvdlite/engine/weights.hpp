// SPDX-License-Identifier: Apache-2.0
// What the ranks' weights amount to in a reduction: each rank's factor, and the divisor.
#pragma once

#include <cmath>
#include <cstddef>

#include <hvdlite/comm/operation.hpp>
#include <hvdlite/core/error.hpp>
#include <hvdlite/core/list.hpp>
#include <hvdlite/trace/event.hpp>

namespace hvdlite {

/// `terms`: one per rank; of a weighted operation each factor is the rank's weight at first, and
/// what the rank's elements are multiplied with in the end. False if all weights are zero. The same
/// on all ranks; usage_error, on all ranks, for integers with weights that are too large.
HVDLITE_LEAN inline bool weigh(const operation& op, int rank,
                               detail::list<reduction_terms::term>& terms, root_scale& root) {
  root = {1, op.postscale};
  if (!op.weighted) {
    for (auto& term : terms) term = {op.prescale, true};
    if (op.averages) root.divisor = static_cast<double>(terms.size());
    return true;
  }
  // Products and sums with large weights would leave the range of float; a power of two brings all
  // weights below 2, and leaves the result's bits alone.
  double most = 0;
  for (const auto& term : terms)
    if (most < term.factor) most = term.factor;
  const bool whole = op.type <= dtype::u64;  // integers are weighted by the numbers themselves
  const int shift = whole || most == 0 ? 0 : -std::ilogb(most);
  double total = 0, first = 0;
  int present = 0;
  bool equal = true;
  for (auto& term : terms) {
    const double weight = std::ldexp(term.factor, shift);
    term = {op.prescale * weight, weight != 0};
    if (weight == 0) continue;
    if (present++ == 0) first = weight;
    equal = equal && weight == first;
    total += weight;
  }
  if (present == 0) return false;
  // As much as an accumulator of 64 bits holds, whatever the elements.
  if (whole && !equal && total > 0x1p31)
    detail::fail<usage_error>(
        {detail::call_text(verb_name(op.verb), op.name, op.type, op.count, rank,
                           static_cast<int>(terms.size())),
         "the sum of all samples is ", total,
         "; integers are averaged with at most 2147483648 in all: convert them to double before"});
  root.divisor = total;
  if (equal) {  // a plain average of those present: the same bits as without weights
    for (auto& term : terms) term.factor = op.prescale;
    root.divisor = present;
  }
  if (!op.averages) root.divisor = 1;  // its weights only say who takes part
  return true;
}

}  // namespace hvdlite
