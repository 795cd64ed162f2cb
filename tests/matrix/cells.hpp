// SPDX-License-Identifier: Apache-2.0
// The bookkeeping of the matrix: which cells are planned, which ran, which the library refused and
// in what words; and the memory layouts of a cell's tensors, with guards around every element.
#pragma once

#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hvdlite/tensor/buffer.hpp>

namespace hvdtest {

/// One dimension of the matrix: its name and how many values it has.
struct axis {
  std::string_view name;
  std::size_t size;
};

/// The cells of one verb in one world. A cell is named by its index along each axis.
class book {
 public:
  book(std::string verb, std::vector<axis> axes) : verb_{std::move(verb)}, axes_{std::move(axes)} {
    std::size_t cells = 1;
    for (const axis& a : axes_) cells *= a.size;
    marks_.assign(cells, mark::missing);
  }

  void ran(const std::vector<std::size_t>& cell) { marks_[index(cell)] = mark::ran; }
  void refused(const std::vector<std::size_t>& cell, std::string_view sentence) {
    marks_[index(cell)] = mark::refused;
    ++sentences_[std::string{sentence}];
  }

  std::size_t count_ran() const { return count(mark::ran); }
  std::size_t count_refused() const { return count(mark::refused); }
  std::size_t count_missing() const { return count(mark::missing); }
  const std::map<std::string, std::size_t>& sentences() const { return sentences_; }

  /// "allreduce dtype 3, op 1, ..." of the first missing cell.
  std::string first_missing() const {
    for (std::size_t i = 0; i < marks_.size(); ++i)
      if (marks_[i] == mark::missing) return name(i);
    return {};
  }

 private:
  enum class mark : unsigned char { missing, ran, refused };

  std::size_t index(const std::vector<std::size_t>& cell) const {
    std::size_t i = 0;
    for (std::size_t d = 0; d < axes_.size(); ++d) i = i * axes_[d].size + cell[d];
    return i;
  }
  std::string name(std::size_t i) const {
    std::string text;
    for (std::size_t d = axes_.size(); d-- > 0; i /= axes_[d].size)
      text = ", " + std::string{axes_[d].name} + " " + std::to_string(i % axes_[d].size) + text;
    return verb_ + text;
  }
  std::size_t count(mark wanted) const {
    std::size_t n = 0;
    for (const mark m : marks_) n += m == wanted ? 1 : 0;
    return n;
  }

  std::string verb_;
  std::vector<axis> axes_;
  std::vector<mark> marks_;
  std::map<std::string, std::size_t> sentences_;
};

/// How the elements of a tensor lie in memory.
enum class layout_kind { dense, strided, transposed };
inline constexpr layout_kind layouts[] = {layout_kind::dense, layout_kind::strided,
                                          layout_kind::transposed};
inline constexpr std::string_view layout_names[] = {"dense", "strided", "transposed"};

/// A layout of `count` elements, as near to a square as they allow, with gaps unless dense.
struct layout {
  layout_kind kind;
  std::size_t count;
  std::size_t rows = 1, columns = 0;
  std::ptrdiff_t row_stride = 0, column_stride = 1;

  layout(layout_kind wanted, std::size_t elements) : kind{wanted}, count{elements} {
    for (std::size_t r = 1; r * r <= count; ++r)
      if (count % r == 0) rows = r;
    columns = count / rows;
    const auto r = static_cast<std::ptrdiff_t>(rows);
    const auto c = static_cast<std::ptrdiff_t>(columns);
    switch (kind) {
      case layout_kind::dense:
        row_stride = c;
        break;
      case layout_kind::strided:
        column_stride = 2, row_stride = 2 * c + 3;
        break;
      case layout_kind::transposed:
        row_stride = 1, column_stride = r + 2;
        break;
    }
  }

  /// Where the i-th element of the memory order lies.
  std::size_t position(std::size_t i) const {
    std::size_t row = i / columns, column = i % columns;
    if (kind == layout_kind::transposed) row = i % rows, column = i / rows;
    return row * static_cast<std::size_t>(row_stride) +
           column * static_cast<std::size_t>(column_stride);
  }
  /// Elements from the first to the last, gaps included.
  std::size_t span() const { return count == 0 ? 0 : position(count - 1) + 1; }
};

/// Memory for a layout, every byte that is no element being a sentinel.
class canvas {
 public:
  canvas(const layout& where, std::size_t element_bytes)
      : layout_{where},
        element_bytes_{element_bytes},
        memory_((where.span() + 2 * guard) * element_bytes, sentinel) {}

  /// The first element.
  std::byte* data() { return memory_.data() + guard * element_bytes_; }
  std::byte* element(std::size_t i) { return data() + layout_.position(i) * element_bytes_; }

  void fill(const std::vector<std::byte>& elements) {
    if (layout_.kind == layout_kind::dense) {
      if (!elements.empty()) std::memcpy(data(), elements.data(), elements.size());
      return;
    }
    for (std::size_t i = 0; i < layout_.count; ++i)
      std::memcpy(element(i), elements.data() + i * element_bytes_, element_bytes_);
  }

  friend bool operator==(const canvas& a, const canvas& b) { return a.memory_ == b.memory_; }

  /// Whether all but the elements is as it was.
  bool neighbours_untouched() const {
    canvas clean = *this;
    const canvas fresh{layout_, element_bytes_};
    for (std::size_t i = 0; i < layout_.count; ++i)
      std::memset(clean.element(i), static_cast<int>(sentinel), element_bytes_);
    return clean == fresh;
  }

 private:
  static constexpr std::size_t guard = 4;
  static constexpr std::byte sentinel{0xa5};

  layout layout_;
  std::size_t element_bytes_;
  std::vector<std::byte> memory_;
};

}  // namespace hvdtest
