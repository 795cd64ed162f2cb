// SPDX-License-Identifier: Apache-2.0
// What an optimizer is to the library. Two styles: one that is handed parameter and gradient for
// each update (ours, and most hand-written ones), and one that holds its parameters and gradients
// and only has a step (as those of frameworks).
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>

#include <hvdlite/tensor/traits.hpp>

namespace hvdlite {

/// Specialise for an optimizer whose members have other names. Either
///
///     static void update(Opt&, std::size_t index, P& parameter, const G& gradient);
///
/// (`index` counts the parameters, for state such as momentum), or both of
///
///     static auto gradients(Opt&);   // a set of writable tensors: std::tie, a range, ...
///     static void step(Opt&);
///
/// The general template finds members `update(index, parameter, gradient)`, where parameter and
/// gradient are std::span<T> and std::span<const T>, or else the tensors themselves; a member
/// `step(parameter, gradient)`, which gets the tensors, so that it can know a parameter by its
/// address; or members `gradients()` and `step()`.
template <class Opt>
struct optimizer_traits {
  template <class P, class G>
    requires requires(Opt& o, std::size_t i, P& p, const G& g) { o.update(i, p, g); }
  static void update(Opt& optimizer, std::size_t index, P& parameter, const G& gradient) {
    optimizer.update(index, parameter, gradient);
  }

  template <class P, class G>
    requires(
        !requires(Opt& o, std::size_t i, P& p, const G& g) { o.update(i, p, g); } &&
        requires(Opt& o, P& p, const G& g) { o.step(p, g); })
  static void update(Opt& optimizer, std::size_t, P& parameter, const G& gradient) {
    optimizer.step(parameter, gradient);
  }

  static decltype(auto) gradients(Opt& optimizer)
    requires requires { optimizer.gradients(); }
  {
    return optimizer.gradients();
  }

  static void step(Opt& optimizer)
    requires requires {
      optimizer.gradients();
      optimizer.step();
    }
  {
    optimizer.step();
  }
};

/// Holds its parameters: `step()` reads the gradients that `gradients()` names.
template <class Opt>
concept holding_optimizer = requires(Opt& optimizer) {
  optimizer_traits<Opt>::gradients(optimizer);
  optimizer_traits<Opt>::step(optimizer);
};

/// Takes contiguous elements of type T, whatever the tensors' classes.
template <class Opt, class T>
concept span_optimizer =
    requires(Opt& optimizer, std::size_t index, std::span<T> p, std::span<const T> g) {
      optimizer_traits<Opt>::update(optimizer, index, p, g);
    };

/// Takes parameter P and gradient G themselves.
template <class Opt, class P, class G>
concept tensor_optimizer = requires(Opt& optimizer, std::size_t index, P& p, const G& g) {
  optimizer_traits<Opt>::update(optimizer, index, p, g);
};

}  // namespace hvdlite
