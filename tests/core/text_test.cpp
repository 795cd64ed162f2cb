// SPDX-License-Identifier: Apache-2.0
// Sentences put together from words and numbers of every type, read back as a person would.
#include <doctest/doctest.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <hvdlite/core/text.hpp>

using hvdlite::detail::text;

TEST_CASE("text: words, strings, views and numbers in their order") {
  const std::string name = "fc1";
  const std::string_view view{"weights", 6};
  CHECK(text({"rank ", 3, " of ", 4u, ": ", name, ".", view}) == "rank 3 of 4: fc1.weight");
  CHECK(text({}) == "");
  CHECK(text({"", std::string{}, std::string_view{}}) == "");
  CHECK(text({"a", "", "b"}) == "ab");
  const std::string long_words(1000, 'x');
  CHECK(text({long_words, 1, long_words}) == long_words + "1" + long_words);
}

TEST_CASE("text: integers of every size, to their ends") {
  CHECK(text({0}) == "0");
  CHECK(text({-1}) == "-1");
  CHECK(text({std::int8_t{-128}, " ", std::uint8_t{255}}) == "-128 255");
  CHECK(text({(std::numeric_limits<std::int64_t>::min)()}) == "-9223372036854775808");
  CHECK(text({(std::numeric_limits<std::uint64_t>::max)()}) == "18446744073709551615");
  CHECK(text({std::size_t{1} << 40}) == "1099511627776");
}

TEST_CASE("text: doubles are as short as they can be, and read back") {
  CHECK(text({0.5}) == "0.5");
  CHECK(text({1.0}) == "1");
  CHECK(text({-0.0}) == "-0");
  CHECK(text({1e300}) == "1e+300");
  CHECK(text({std::numeric_limits<double>::infinity()}) == "inf");
  CHECK(text({std::numeric_limits<double>::quiet_NaN()}) == "nan");
  for (const double x : {0.1, 1.0 / 3, -2.0 / 3 * 1e-300, (std::numeric_limits<double>::max)(),
                         std::numeric_limits<double>::denorm_min()}) {
    const std::string digits{text({x})};
    double back = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), back);
    CHECK(back == x);
  }
}

TEST_CASE("shown: names that hide nothing and are never long") {
  using hvdlite::detail::shown;
  CHECK(shown("fc1.weight") == "fc1.weight");
  CHECK(shown("") == "");
  CHECK(shown("gew\u00fcrz") == "gew\u00fcrz");
  CHECK(shown(std::string_view{"a\0b\x1e\x1f\n", 6}) == "a?b???");
  CHECK(shown(std::string(480, 'x')) == std::string(480, 'x'));
  CHECK(shown(std::string(240, 'x') + "yy" + std::string(240, 'z')) ==
        std::string(240, 'x') + " ... " + std::string(240, 'z'));
  CHECK(shown(std::string(10'000, 'x') + "end").size() == 485);
}
