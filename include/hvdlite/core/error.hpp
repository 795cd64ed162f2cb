// SPDX-License-Identifier: Apache-2.0
// The exceptions of hvdlite. Who catches decides by type what may be retried: usage_error and
// mismatch_error never, timeout_error and peer_lost_error after the lost ranks are replaced.
#pragma once

#include <initializer_list>
#include <stdexcept>

#include <hvdlite/core/config.hpp>
#include <hvdlite/core/text.hpp>

namespace hvdlite {

/// The root of everything that hvdlite throws.
class HVDLITE_EXPORT error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  explicit error(const detail::text& what) : runtime_error{what.c_str()} {}
};

/// The call itself is wrong, whatever the other ranks do: a root out of range, a setting that
/// cannot be read, a communicator used after its Environment. Nothing was sent.
class HVDLITE_EXPORT usage_error : public error {
 public:
  using error::error;
};

/// The ranks of a communicator made different calls where one and the same was due. Thrown on
/// every rank that is in the call or enters it later; no tensor was touched, the call is consumed
/// on every rank, and the next correct call works.
class HVDLITE_EXPORT mismatch_error : public error {
 public:
  using error::error;
};

/// A rank did not come before the deadline. Tensors are untouched if it never came, undefined if
/// it stopped while data was moving.
class HVDLITE_EXPORT timeout_error : public error {
 public:
  using error::error;
};

/// A rank has left, failed or died and cannot take part any more. The communicator is of no
/// further use; the process is.
class HVDLITE_EXPORT peer_lost_error : public error {
 public:
  using error::error;
};

/// The library underneath (MPI) reported an error; the text is its own.
class HVDLITE_EXPORT transport_error : public error {
 public:
  using error::error;
};

namespace detail {

/// Throws an Error that says `words`: out of line, for the sake of the many places that may fail.
template <class Error>
[[noreturn]] HVDLITE_COLD void fail(std::initializer_list<piece> words) {
  throw Error{text(words)};
}

}  // namespace detail

}  // namespace hvdlite
