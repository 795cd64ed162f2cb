// SPDX-License-Identifier: Apache-2.0
// The loops over gradients of one element type, as a table of functions: what works on packed
// gradients is compiled once, not per type.
#pragma once

#include <cmath>
#include <cstddef>

#include <hvdlite/core/element.hpp>
#include <hvdlite/ops/reduce_op.hpp>
#include <hvdlite/optim/accumulate.hpp>
#include <hvdlite/optim/clip.hpp>

namespace hvdlite::detail {

/// The loops over elements of one type. Null where they are not defined for it.
struct gradient_kernels {
  std::size_t element_bytes = 0;
  std::size_t sum_bytes = 0;  ///< of an element of a sum of passes
  void (*add)(void* sum, const void* g, std::size_t n, double weight) = nullptr;
  void (*finish)(const void* sum, void* g, std::size_t n, double weight, double divisor) = nullptr;
  bool (*finite)(const void* g, std::size_t n) = nullptr;
  double (*squares)(const void* g, std::size_t n, double scale) = nullptr;
  double (*largest)(const void* g, std::size_t n) = nullptr;
  void (*scale)(void* g, std::size_t n, double factor) = nullptr;
  void (*clamp)(void* g, std::size_t n, double limit) = nullptr;
};

template <class T>
struct kernels_of_gradient {
  using C = compute_t<T>;
  static void add(void* sum, const void* g, std::size_t n, double weight) {
    add_pass<T>(static_cast<C*>(sum), static_cast<const T*>(g), n, weight);
  }
  static void finish(const void* sum, void* g, std::size_t n, double weight, double divisor) {
    finish_passes<T>(static_cast<const C*>(sum), static_cast<T*>(g), n, weight, divisor);
  }
  static bool finite(const void* g, std::size_t n) {
    bool all = true;
    for (std::size_t i = 0; i < n; ++i)
      all = is_finite(static_cast<C>(static_cast<const T*>(g)[i])) && all;
    return all;
  }
  static double squares(const void* g, std::size_t n, double scale) {
    return sum_of_squares(static_cast<const T*>(g), n, scale);
  }
  static double largest(const void* g, std::size_t n) {
    return largest_magnitude(static_cast<const T*>(g), n);
  }
  static void scale(void* g, std::size_t n, double factor) {
    scale_elements(static_cast<T*>(g), n, factor);
  }
  static void clamp(void* g, std::size_t n, double limit) {
    clamp_elements(static_cast<T*>(g), n, limit);
  }
};

template <class T>
constexpr gradient_kernels kernels_for_gradients() {
  if constexpr (is_floating_v<T>) {
    using K = kernels_of_gradient<T>;
    return {sizeof(T),   sizeof(compute_t<T>), &K::add,   &K::finish, &K::finite,
            &K::squares, &K::largest,          &K::scale, &K::clamp};
  } else {
    return {.element_bytes = sizeof(T)};
  }
}

}  // namespace hvdlite::detail
