// SPDX-License-Identifier: Apache-2.0
// Who catches decides by type: every error is an hvdlite::error, none is a special case of another
// kind, and the text arrives as it was given.
#include <doctest/doctest.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <hvdlite/core/error.hpp>

namespace {

template <class E>
void check_kind(const char* own_name) {
  CAPTURE(own_name);
  static_assert(std::is_base_of_v<hvdlite::error, E>);
  static_assert(std::is_base_of_v<std::runtime_error, E>);
  static_assert(std::is_nothrow_copy_constructible_v<E>);
  std::string caught;
  try {
    throw E{std::string{"what "} + own_name};
  } catch (const hvdlite::error& e) {
    caught = e.what();
  }
  CHECK(caught == std::string{"what "} + own_name);
}

template <class A, class B>
constexpr bool unrelated = !std::is_base_of_v<A, B> && !std::is_base_of_v<B, A>;

}  // namespace

using namespace hvdlite;

TEST_CASE_TEMPLATE("an error is caught as hvdlite::error with its text", E, usage_error,
                   mismatch_error, timeout_error, peer_lost_error, transport_error) {
  check_kind<E>("text");
}

// What is worth a retry must not be caught with what is not.
static_assert(unrelated<usage_error, mismatch_error> && unrelated<usage_error, timeout_error> &&
              unrelated<usage_error, peer_lost_error> && unrelated<usage_error, transport_error>);
static_assert(unrelated<mismatch_error, timeout_error> &&
              unrelated<mismatch_error, peer_lost_error> &&
              unrelated<mismatch_error, transport_error>);
static_assert(unrelated<timeout_error, peer_lost_error> &&
              unrelated<timeout_error, transport_error> &&
              unrelated<peer_lost_error, transport_error>);
