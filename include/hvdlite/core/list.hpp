// SPDX-License-Identifier: Apache-2.0
// The containers of the library's own state. Every program that includes hvdlite compiles what is
// behind them, and a std::vector of yet another type costs five times as much compile time as a
// list, a std::span of it twice as much; so there are these, with few and small functions.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include <hvdlite/core/config.hpp>

namespace hvdlite::detail {

/// The memory of a list, whatever its elements.
class list_memory {
 public:
  list_memory(const list_memory&) = delete;
  list_memory& operator=(const list_memory&) = delete;

 protected:
  list_memory() = default;
  list_memory(list_memory&& other) noexcept
      : memory_{std::exchange(other.memory_, nullptr)},
        size_{std::exchange(other.size_, 0)},
        capacity_{std::exchange(other.capacity_, 0)} {}
  list_memory& operator=(list_memory&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~list_memory() { std::free(memory_); }

  /// Makes room for `count` elements; growing one by one costs constant time each, most often none.
  HVDLITE_COLD void grow(std::size_t count, std::size_t element_bytes) {
    const std::size_t wanted = count > 2 * capacity_ ? count : 2 * capacity_;
    if (wanted > static_cast<std::size_t>(-1) / element_bytes) throw std::bad_alloc{};
    void* const larger = std::realloc(memory_, wanted * element_bytes);
    if (larger == nullptr) throw std::bad_alloc{};
    memory_ = larger;
    capacity_ = wanted;
  }

  void* memory_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

/// A vector of elements that can be copied as bytes. It moves, but does not copy.
template <class T>
class list : public list_memory {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignof(std::max_align_t));

 public:
  list() = default;
  /// `count` elements that are T{}.
  explicit list(std::size_t count) { resize(count); }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return static_cast<T*>(memory_); }
  const T* data() const { return static_cast<const T*>(memory_); }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& back() { return data()[size_ - 1]; }

  void push_back(const T& value) {
    const T copy = value;  // which may be an element
    if (size_ == capacity_) grow(size_ + 1, sizeof(T));
    data()[size_++] = copy;
  }
  /// New elements are T{}.
  void resize(std::size_t count) {
    const std::size_t before = size_;
    resize_for_overwrite(count);
    for (std::size_t i = before; i < count; ++i) data()[i] = T{};
  }
  /// New elements have no value yet.
  void resize_for_overwrite(std::size_t count) {
    if (count > capacity_) grow(count, sizeof(T));
    size_ = count;
  }
  void clear() { size_ = 0; }
  /// Empties it without giving the memory back: somebody still uses it.
  void leak() {
    memory_ = nullptr;
    size_ = capacity_ = 0;
  }
  void erase(std::size_t i) {
    --size_;
    std::memmove(static_cast<void*>(data() + i), data() + i + 1, (size_ - i) * sizeof(T));
  }
};

/// A fixed number of elements of any type.
template <class T>
class fixed_array {
 public:
  explicit fixed_array(std::size_t count) : elements_{new T[count]}, size_{count} {}
  fixed_array(const fixed_array&) = delete;
  fixed_array& operator=(const fixed_array&) = delete;
  ~fixed_array() { delete[] elements_; }

  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return elements_[i]; }
  const T& operator[](std::size_t i) const { return elements_[i]; }
  T* begin() { return elements_; }
  T* end() { return elements_ + size_; }
  const T* begin() const { return elements_; }
  const T* end() const { return elements_ + size_; }

 private:
  T* elements_;
  std::size_t size_;
};

}  // namespace hvdlite::detail
