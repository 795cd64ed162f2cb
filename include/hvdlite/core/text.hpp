// SPDX-License-Identifier: Apache-2.0
// Sentences for people: pieces of text and numbers put together out of line, so that the many error
// messages cost the user's compiler next to nothing.
#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

#include <hvdlite/core/config.hpp>

namespace hvdlite::detail {

/// A part of a sentence: text, or a number that becomes text.
class piece {
 public:
  piece(const char* words) : words_{words} {}
  piece(std::string_view words) : words_{words} {}
  piece(const std::string& words) : words_{words} {}
  piece(double number) { put(number); }
  piece(std::integral auto number) {
    if constexpr (std::signed_integral<decltype(number)>)
      put(static_cast<long long>(number));
    else
      put(static_cast<unsigned long long>(number));
  }

  std::string_view words() const {
    return length_ == 0 ? words_ : std::string_view{digits_.data(), length_};
  }

 private:
  HVDLITE_COLD void put(auto number) {
    const auto end = std::to_chars(digits_.data(), digits_.data() + digits_.size(), number).ptr;
    length_ = static_cast<std::size_t>(end - digits_.data());
  }

  std::string_view words_;
  std::array<char, 32> digits_;
  std::size_t length_ = 0;
};

/// text({"rank ", 3, " of ", 4})
HVDLITE_COLD inline std::string text(std::initializer_list<piece> pieces) {
  std::string result;
  for (const piece& p : pieces) result.append(p.words());
  return result;
}

}  // namespace hvdlite::detail
