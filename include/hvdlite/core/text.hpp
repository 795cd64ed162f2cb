// SPDX-License-Identifier: Apache-2.0
// Sentences for people, put together from text and numbers. All of it is out of line and no
// std::string is involved, so that the many error messages cost the user's compiler little.
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>

#include <hvdlite/core/config.hpp>
#include <hvdlite/core/list.hpp>

namespace hvdlite::detail {

class text;

/// A part of a sentence: text, or a number that becomes text.
class piece {
 public:
  piece(const char* words) : words_{words}, length_{std::strlen(words)} {}
  piece(std::string_view words) : words_{words.data()}, length_{words.size()} {}
  piece(const std::string& words) : words_{words.data()}, length_{words.size()} {}
  piece(const text& words);
  piece(double number) { put(number); }
  piece(std::signed_integral auto number) { put(static_cast<long long>(number)); }
  piece(std::unsigned_integral auto number) { put(static_cast<unsigned long long>(number), ""); }
  piece(const piece&) = delete;  // it may point into itself
  piece& operator=(const piece&) = delete;

  std::string_view words() const { return {words_, length_}; }

 private:
  HVDLITE_COLD void put(double number) {
    words_ = digits_;
    length_ = static_cast<std::size_t>(
        std::to_chars(digits_, digits_ + sizeof digits_, number).ptr - digits_);
  }
  HVDLITE_COLD void put(long long number) {
    const auto magnitude = static_cast<unsigned long long>(number);
    number < 0 ? put(0 - magnitude, "-") : put(magnitude, "");
  }
  HVDLITE_COLD void put(unsigned long long magnitude, const char* sign) {
    char* first = digits_ + sizeof digits_;
    do *--first = static_cast<char>('0' + magnitude % 10);
    while ((magnitude /= 10) != 0);
    if (*sign != '\0') *--first = *sign;
    words_ = first;
    length_ = static_cast<std::size_t>(digits_ + sizeof digits_ - first);
  }

  const char* words_;
  std::size_t length_;
  char digits_[32];
};

/// A sentence: text({"rank ", 3, " of ", 4}).
class text {
 public:
  text() = default;
  text(std::initializer_list<piece> pieces) { add(pieces); }

  HVDLITE_COLD void add(std::initializer_list<piece> pieces) {
    for (const piece& p : pieces) *this += p;
  }

  HVDLITE_COLD text& operator+=(const piece& p) {
    const std::string_view words = p.words();
    const std::size_t before = characters_.size();
    characters_.resize_for_overwrite(before + words.size() + 1);
    if (!words.empty()) std::memcpy(characters_.data() + before, words.data(), words.size());
    characters_.back() = '\0';
    characters_.resize_for_overwrite(before + words.size());  // the next piece overwrites the end
    return *this;
  }

  bool empty() const { return characters_.empty(); }
  std::size_t size() const { return characters_.size(); }
  const char* c_str() const { return empty() ? "" : characters_.data(); }
  operator std::string_view() const { return {c_str(), size()}; }
  explicit operator std::string() const { return std::string{std::string_view{*this}}; }
  friend bool operator==(const text& a, const text& b) {
    return std::string_view{a} == std::string_view{b};
  }
  friend bool operator==(const text& a, std::string_view b) { return std::string_view{a} == b; }

 private:
  list<char> characters_;
};

/// A name of the user's, to be shown: control characters as '?', and the middle of a long one left
/// out, so that a description of a call is always short.
HVDLITE_COLD inline text shown(std::string_view name) {
  constexpr std::size_t end = 240;  // of each side
  text result;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (i == end && name.size() > 2 * end) {
      result += " ... ";
      i = name.size() - end;
    }
    const auto c = static_cast<unsigned char>(name[i]);
    result += c < 0x20 || c == 0x7f ? std::string_view{"?"} : name.substr(i, 1);
  }
  return result;
}

inline piece::piece(const text& words) : words_{words.c_str()}, length_{words.size()} {}

}  // namespace hvdlite::detail
