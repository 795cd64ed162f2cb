// SPDX-License-Identifier: Apache-2.0
// Which gradients travel together: a static plan, a function of the parameters' sizes and the
// limits only, hence the same on every rank and in every step. The bits of a result do not depend
// on it.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace hvdlite {

/// Limits of a bucket, in bytes. The gradients of the last layers are ready first, so that the plan
/// runs backwards through the parameters, and its first bucket is small to start early.
struct bucket_limits {
  std::size_t first = std::size_t{1} << 20;
  std::size_t others = std::size_t{25} << 20;
};

/// A contiguous piece of the packed gradients.
struct bucket {
  std::size_t begin = 0;  ///< in elements of the packed memory
  std::size_t count = 0;
  std::size_t first_parameter = 0;  ///< its lowest and highest parameter
  std::size_t last_parameter = 0;
};

/// The plan for parameters of one element type: where each is packed, and what is reduced together.
struct bucket_plan {
  std::vector<std::size_t> offsets;  ///< of each parameter, in elements of the packed memory
  std::vector<bucket> buckets;       ///< in the order in which they are reduced
  std::size_t total = 0;             ///< elements

  /// `counts`: elements of each parameter. A limit of 0 means one bucket per parameter; a parameter
  /// larger than the limit has a bucket of its own.
  bucket_plan(std::span<const std::size_t> counts, std::size_t element_bytes, bucket_limits limits)
      : offsets(counts.size()) {
    for (std::size_t i = counts.size(); i-- > 0;) {
      const std::size_t limit = buckets.size() <= 1 ? limits.first : limits.others;
      const bool fits = !buckets.empty() && limit != 0 &&
                        (buckets.back().count + counts[i]) * element_bytes <= limit;
      if (!fits) buckets.push_back({total, 0, i, i});
      buckets.back().count += counts[i];
      buckets.back().first_parameter = i;
      offsets[i] = total;
      total += counts[i];
    }
  }
};

}  // namespace hvdlite
