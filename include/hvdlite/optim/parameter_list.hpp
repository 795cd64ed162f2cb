// SPDX-License-Identifier: Apache-2.0
// The parameters of an optimizer as the ranks compare them: names, shapes, memory order, and which
// of them are one and the same memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>

#include <hvdlite/core/list.hpp>
#include <hvdlite/core/text.hpp>
#include <hvdlite/engine/check.hpp>
#include <hvdlite/tensor/buffer.hpp>
#include <hvdlite/tensor/pack.hpp>
#include <hvdlite/tensor/traits.hpp>

namespace hvdlite::detail {

/// Names by index, in one piece of memory.
class name_list {
 public:
  void clear() {
    characters_.clear();
    ends_.clear();
  }
  std::size_t size() const { return ends_.size(); }
  void add(std::string_view name) {
    const std::size_t before = characters_.size();
    characters_.resize_for_overwrite(before + name.size());
    if (!name.empty()) std::memcpy(characters_.data() + before, name.data(), name.size());
    ends_.push_back(characters_.size());
  }
  friend bool operator==(const name_list& a, const name_list& b) {
    return same_bytes(a.ends_, b.ends_) && same_bytes(a.characters_, b.characters_);
  }
  /// Empty if it has none.
  std::string_view operator[](std::size_t i) const {
    if (i >= ends_.size()) return {};
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return {characters_.data() + begin, ends_[i] - begin};
  }

 private:
  template <class T>
  static bool same_bytes(const list<T>& a, const list<T>& b) {
    return a.size() == b.size() &&
           (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
  }

  list<char> characters_;
  list<std::size_t> ends_;
};

/// What is wrong with parameters and gradients that come in pairs, in words; empty if nothing is.
inline text pairing_text(const name_list& parameters, const name_list& gradients) {
  if (parameters.size() != gradients.size())
    return text(
        {"there are ", parameters.size(), " parameters and ", gradients.size(), " gradients"});
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (!gradients[i].empty() && !parameters[i].empty() && gradients[i] != parameters[i])
      return text({"gradient ", i, " is '", shown(gradients[i]), "', its parameter '",
                   shown(parameters[i]), "'; hand both over in one order"});
  return {};
}

/// Where the elements of a tensor lie; strides in bytes.
struct memory_layout {
  strided_buffer<const std::byte> memory;
  std::size_t element_bytes = 0;
  bool contiguous = true;
  tensor_shape shape;
};

template <class X>
memory_layout layout_of(const X& x) {
  const auto v = hvdlite::view(x);
  memory_layout result;
  result.shape = hvdlite::shape(x);
  result.element_bytes = sizeof(*v.data);
  const auto* data = reinterpret_cast<const std::byte*>(v.data);
  if constexpr (is_strided_buffer_v<std::remove_const_t<decltype(v)>>) {
    result.contiguous = v.contiguous();
    result.memory.data = data;
    result.memory.rank = v.rank;
    result.memory.extents = v.extents;
    result.memory.strides = v.strides;
  } else {
    result.memory = {data, result.shape};
  }
  for (std::size_t d = 0; d < result.memory.rank; ++d)
    result.memory.strides[d] *= static_cast<std::ptrdiff_t>(result.element_bytes);
  return result;
}

/// Finds parameters that are one and the same memory, and those that only overlap.
class memory_overlaps {
 public:
  /// Of each parameter the first with the same memory, most often itself.
  list<std::size_t> first_of;
  /// Two parameters that overlap in part; equal if there are none.
  std::size_t one = 0, other = 0;

  HVDLITE_OUT_OF_LINE void find(const list<memory_layout>& all) {
    one = other = 0;
    first_of.clear();
    spans_.clear();
    for (std::size_t i = 0; i < all.size(); ++i) {
      first_of.push_back(i);
      if (all[i].shape.count() != 0) spans_.push_back(hull(all[i], i));
    }
    sort(spans_);
    for (std::size_t begin = 0, end; begin < spans_.size(); begin = end) {
      const std::byte* last = spans_[begin].end;
      for (end = begin + 1; end < spans_.size() && before(spans_[end].begin, last); ++end)
        if (before(last, spans_[end].end)) last = spans_[end].end;
      if (end - begin > 1) compare(all, begin, end);
    }
  }

 private:
  struct span {
    const std::byte* begin;
    const std::byte* end;
    std::size_t index;
  };

  static bool before(const std::byte* a, const std::byte* b) {
    return std::less<const std::byte*>{}(a, b);
  }

  static span hull(const memory_layout& x, std::size_t index) {
    span result{x.memory.data, x.memory.data + x.element_bytes, index};
    for (std::size_t d = 0; d < x.memory.rank; ++d) {
      const std::ptrdiff_t reach =
          x.memory.strides[d] * static_cast<std::ptrdiff_t>(x.memory.extents[d] - 1);
      (reach < 0 ? result.begin : result.end) += reach;
    }
    return result;
  }

  static int order(const void* a, const void* b) {
    const auto& x = *static_cast<const span*>(a);
    const auto& y = *static_cast<const span*>(b);
    if (x.begin != y.begin) return before(x.begin, y.begin) ? -1 : 1;
    if (x.end != y.end) return before(x.end, y.end) ? -1 : 1;
    return x.index < y.index ? -1 : x.index > y.index ? 1 : 0;
  }
  static void sort(list<span>& spans) {
    if (!spans.empty()) std::qsort(spans.data(), spans.size(), sizeof(span), &order);
  }

  /// Given that they begin and end at the same places.
  static bool same(const memory_layout& a, const memory_layout& b) {
    if (a.contiguous && b.contiguous) return true;
    const tensor_shape x = a.memory.shape(), y = b.memory.shape();
    bool equal = x.ordered == y.ordered;
    for (std::size_t i = 0; equal && i < x.ordered; ++i) {
      const std::size_t d = x.outermost_first[i], e = y.outermost_first[i];
      equal =
          a.memory.extents[d] == b.memory.extents[e] && a.memory.strides[d] == b.memory.strides[e];
    }
    return equal;
  }

  /// Parameters whose hulls overlap: views of one matrix may still be apart.
  void compare(const list<memory_layout>& all, std::size_t begin, std::size_t end) {
    pieces_.clear();
    for (std::size_t at = begin; at < end; ++at) {
      const std::size_t i = spans_[at].index;
      for (std::size_t k = at;
           k-- > begin && spans_[k].begin == spans_[at].begin && spans_[k].end == spans_[at].end;)
        if (same(all[spans_[k].index], all[i])) first_of[i] = first_of[spans_[k].index];
      if (first_of[i] == i) add_pieces(all[i], i);
    }
    sort(pieces_);
    for (std::size_t at = 1; at < pieces_.size(); ++at) {
      span& earlier = pieces_[at - 1];
      span& piece = pieces_[at];
      if (before(piece.begin, earlier.end) && piece.index != earlier.index && one == other) {
        one = earlier.index < piece.index ? earlier.index : piece.index;
        other = earlier.index < piece.index ? piece.index : earlier.index;
      }
      // What reaches furthest is what the next may overlap.
      if (before(piece.end, earlier.end)) piece = {piece.begin, earlier.end, earlier.index};
    }
  }

  void add_pieces(const memory_layout& x, std::size_t index) {
    const auto bytes = static_cast<std::ptrdiff_t>(x.element_bytes);
    for_each_run(x.memory, x.memory.shape(),
                 [&](const std::byte* run, std::ptrdiff_t stride, std::size_t count) {
                   if (stride == bytes || count == 1)
                     return pieces_.push_back(
                         {run, run + bytes * static_cast<std::ptrdiff_t>(count), index});
                   for (std::size_t i = 0; i < count; ++i, run += stride)
                     pieces_.push_back({run, run + bytes, index});
                 });
  }

  list<span> spans_, pieces_;
};

/// What the first step found, and later ones must find again.
class parameter_list {
 public:
  std::size_t size() const { return shapes_.size(); }
  const tensor_shape& shape(std::size_t i) const { return shapes_[i]; }
  /// The first parameter with the same memory, most often `i` itself.
  std::size_t first_of(std::size_t i) const { return first_of_[i]; }
  std::string_view name(std::size_t i) const { return names_[i]; }

  /// "parameter 3", and its name if it has one.
  HVDLITE_COLD text label(std::size_t i) const { return label(names_, i); }
  HVDLITE_COLD static text label(const name_list& names, std::size_t i) {
    text words({"parameter ", i});
    if (!names[i].empty()) words.add({" ('", shown(names[i]), "')"});
    return words;
  }

  /// The parameters of a step: with `keep`, compared with what they were, else remembered. Returns
  /// what is wrong, in words; empty if nothing is.
  text take(const list<memory_layout>& now, const name_list& names, bool keep) {
    if (!unchanged(now)) {
      overlaps_.find(now);
      seen_.clear();
      for (const memory_layout& x : now) seen_.push_back(x);
      settled_ = false;
    }
    if (overlaps_.one != overlaps_.other)
      return text({label(names, overlaps_.one), " and ", label(names, overlaps_.other),
                   " overlap in memory; give each its own, or all of it to both"});
    if (keep) {
      if (settled_ && names == names_) return {};  // as in the step before
      text changed = difference(now, names);
      settled_ = changed.empty();
      return changed;
    }
    settled_ = false;
    shapes_.clear();
    names_.clear();
    first_of_.clear();
    for (std::size_t i = 0; i < now.size(); ++i) {
      shapes_.push_back(now[i].shape);
      names_.add(names[i]);
      first_of_.push_back(overlaps_.first_of[i]);
    }
    return {};
  }

  /// Equal on ranks whose lists are equal.
  HVDLITE_COLD std::uint64_t fingerprint() const {
    fingerprint_hash hash;
    hash.add(size());
    for (std::size_t i = 0; i < size(); ++i) {
      hash.add(name(i));
      hash.add(first_of_[i]);
      hash.add(shapes_[i].rank);
      for (std::size_t d = 0; d < shapes_[i].rank; ++d) hash.add(shapes_[i].extents[d]);
      for (std::size_t d = 0; d < shapes_[i].ordered; ++d) hash.add(shapes_[i].outermost_first[d]);
    }
    return hash.value();
  }

  /// The same of one parameter in words; also of one that is not there.
  HVDLITE_COLD text description(std::size_t i) const {
    if (i >= size()) return text({"parameter ", i, ": none, there are ", size()});
    text words({label(i), ": ", shapes_[i].extents_text()});
    if (shapes_[i].ordered > 1) words.add({", ", shapes_[i].order_text()});
    if (first_of_[i] != i) words.add({", the memory of ", label(first_of_[i])});
    return words;
  }

 private:
  /// Whether all lie where they lay in the last step.
  bool unchanged(const list<memory_layout>& now) const {
    if (now.size() != seen_.size()) return false;
    for (std::size_t i = 0; i < now.size(); ++i) {
      const memory_layout &a = now[i], &b = seen_[i];
      if (a.memory.data != b.memory.data || a.memory.rank != b.memory.rank ||
          a.shape.rank != b.shape.rank || a.shape.ordered != b.shape.ordered)
        return false;
      for (std::size_t d = 0; d < a.memory.rank; ++d)
        if (a.memory.extents[d] != b.memory.extents[d] ||
            a.memory.strides[d] != b.memory.strides[d])
          return false;
      for (std::size_t d = 0; d < a.shape.rank; ++d)
        if (a.shape.extents[d] != b.shape.extents[d] ||
            a.shape.outermost_first[d] != b.shape.outermost_first[d])
          return false;
    }
    return true;
  }

  text difference(const list<memory_layout>& now, const name_list& names) const {
    if (now.size() != size())
      return text({"there are ", now.size(), " parameters, and were ", size(),
                   " in the first step; make a new optimizer for them"});
    for (std::size_t i = 0; i < size(); ++i) {
      if (names[i] != name(i))
        return text({"parameter ", i, " is '", shown(names[i]), "', and was '", shown(name(i)),
                     "' in the first step; make a new optimizer for it"});
      const tensor_shape &is = now[i].shape, &was = shapes_[i];
      const std::size_t first = overlaps_.first_of[i];
      if (is != was) {
        const bool order = is.rank == was.rank && is.extents == was.extents;
        return text({label(i), " is ", order ? is.order_text() : is.extents_text(), ", and was ",
                     order ? was.order_text() : was.extents_text(),
                     " in the first step; make a new optimizer for it"});
      }
      if (first != first_of_[i])
        return text(
            {label(i),
             first == i ? " has memory of its own, and had that of " : " has the memory of ",
             label(first == i ? first_of_[i] : first), first == i ? "" : ", and had not",
             " in the first step; make a new optimizer for it"});
    }
    return {};
  }

  list<tensor_shape> shapes_;
  name_list names_;
  list<std::size_t> first_of_;
  list<memory_layout> seen_;
  memory_overlaps overlaps_;  // of seen_
  bool settled_ = false;      // what was seen are the parameters of the first step
};

}  // namespace hvdlite::detail
