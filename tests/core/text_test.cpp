// SPDX-License-Identifier: Apache-2.0
// Tests of core/text.hpp: pieces of all kinds in one sentence.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <hvdlite/core/text.hpp>

using hvdlite::detail::text;

TEST_CASE("text: words and numbers in the order given") {
  const std::string name = "fc1";
  CHECK(text({}) == "");
  CHECK(text({"rank ", 3, " of ", std::string_view{"four"}, ", ", name}) == "rank 3 of four, fc1");
}

TEST_CASE("text: the ends of the number types") {
  CHECK(text({std::numeric_limits<std::int64_t>::min()}) == "-9223372036854775808");
  CHECK(text({std::numeric_limits<std::uint64_t>::max()}) == "18446744073709551615");
  CHECK(text({std::uint8_t{7}}) == "7");
  CHECK(text({0.5, " ", -1e300, " ", 3.0}) == "0.5 -1e+300 3");
}
