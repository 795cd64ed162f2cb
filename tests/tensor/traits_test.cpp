// SPDX-License-Identifier: Apache-2.0
// A tensor type of the user's own takes one function; everything else is deduced from what it
// returns. What has no traits, or foreign elements, is no tensor.
#include <doctest/doctest.h>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <hvdlite/tensor/std.hpp>
#include <hvdlite/tensor/traits.hpp>

using hvdlite::buffer;
using hvdlite::strided_buffer;
using hvdlite::tensor_shape;

namespace {

// Three lines of traits, as in the README.
struct plain_array {
  float* ptr;
  int count;
};
// A view with strides and nothing else.
struct column {
  long* first;
  std::size_t rows;
  std::ptrdiff_t stride;
};
// A shape of its own.
struct grid {
  std::vector<double> cells;
  std::size_t width;
};
// A view class: a const one still writes.
struct window {
  int* ptr;
  std::size_t count;
};
// Elements in device memory.
struct on_device {
  float* ptr;
  std::size_t count;
};
// Traits that return what no tensor is.
struct of_strings {
  std::string* ptr;
};
struct bare_pointer {
  float* ptr;
};
// An expression: its value is a tensor.
struct doubled {
  const std::vector<float>* source;
};
struct unknown {};

}  // namespace

template <>
struct hvdlite::tensor_traits<plain_array> {
  static auto view(auto& a) { return hvdlite::buffer{a.ptr, a.count}; }
};
template <>
struct hvdlite::tensor_traits<column> {
  static auto view(auto& c) { return hvdlite::strided_buffer<long>{c.first, {c.rows}, {c.stride}}; }
};
template <>
struct hvdlite::tensor_traits<grid> {
  static auto view(auto& g) { return hvdlite::buffer{g.cells.data(), g.cells.size()}; }
  static hvdlite::tensor_shape shape(const grid& g) {
    return hvdlite::tensor_shape::row_major({g.cells.size() / g.width, g.width});
  }
};
template <>
struct hvdlite::tensor_traits<window> {
  static constexpr bool borrows = true;
  static auto view(auto& w) { return hvdlite::buffer{w.ptr, w.count}; }
};
template <>
struct hvdlite::tensor_traits<on_device> {
  static auto view(auto& a) { return hvdlite::buffer{a.ptr, a.count, hvdlite::cuda_space{}}; }
};
template <>
struct hvdlite::tensor_traits<of_strings> {
  static auto view(auto& a) { return hvdlite::buffer{a.ptr, 1}; }
};
template <>
struct hvdlite::tensor_traits<bare_pointer> {
  static auto view(auto& a) { return a.ptr; }
};
template <>
struct hvdlite::tensor_traits<doubled> {
  static auto evaluate(const doubled& d) {
    std::vector<float> value;
    for (const float x : *d.source) value.push_back(2 * x);
    return value;
  }
};

namespace {

template <class X>
constexpr bool writable = hvdlite::tensor<X> && hvdlite::writable_tensor<X>;
template <class X>
constexpr bool readable_only = hvdlite::tensor<X> && !hvdlite::writable_tensor<X>;

static_assert(writable<plain_array> && writable<plain_array&> && writable<plain_array&&>);
static_assert(std::is_same_v<hvdlite::view_t<plain_array>, buffer<float>>);
static_assert(std::is_same_v<hvdlite::element_of<plain_array>, float>);
static_assert(std::is_same_v<hvdlite::space_of<plain_array>, hvdlite::host_space>);
// The traits return float* for a const object too; the constness is added.
static_assert(readable_only<const plain_array> && readable_only<const plain_array&>);
static_assert(std::is_same_v<hvdlite::view_t<const plain_array>, buffer<const float>>);
static_assert(!hvdlite::borrowed_tensor<plain_array>);

static_assert(std::is_same_v<hvdlite::view_t<column>, strided_buffer<long>>);
static_assert(std::is_same_v<hvdlite::view_t<const column&>, strided_buffer<const long>>);
static_assert(std::is_same_v<hvdlite::element_of<column>, std::int64_t>);

static_assert(hvdlite::borrowed_tensor<window> && hvdlite::borrowed_tensor<const window&>);
static_assert(writable<const window> && writable<window>);
static_assert(std::is_same_v<hvdlite::view_t<const window>, buffer<int>>);

static_assert(std::is_same_v<hvdlite::space_of<on_device>, hvdlite::cuda_space>);
static_assert(
    std::is_same_v<hvdlite::view_t<const on_device>, buffer<const float, hvdlite::cuda_space>>);

template <class X>
constexpr bool stranger =
    !hvdlite::tensor<X> && !hvdlite::tensor<X&> && !hvdlite::tensor<const X&> &&
    !hvdlite::writable_tensor<X> && !hvdlite::borrowed_tensor<X>;
static_assert(stranger<unknown> && stranger<of_strings> && stranger<bare_pointer>);
static_assert(stranger<std::string> && stranger<std::list<float>>);
static_assert(stranger<std::optional<float>>);
static_assert(stranger<std::map<int, float>> && stranger<std::pair<float, float>>);
static_assert(stranger<float*> && stranger<const double*> && stranger<std::nullptr_t>);
static_assert(stranger<long double> && stranger<std::byte>);
static_assert(!hvdlite::tensor<void>);

static_assert(hvdlite::tensor_expression<doubled> && hvdlite::tensor_expression<const doubled&>);
static_assert(!hvdlite::tensor<doubled>);
static_assert(!hvdlite::tensor_expression<plain_array> && !hvdlite::tensor_expression<unknown>);

}  // namespace

TEST_CASE("a view points to the object's own elements") {
  float x[3] = {1, 2, 3};
  plain_array a{x, 3};
  const plain_array b{x, 2};
  CHECK(hvdlite::view(a).data == x);
  CHECK(hvdlite::view(a).size == 3);
  CHECK(hvdlite::view(b).data == x);
  CHECK(hvdlite::view(b).size == 2);
  CHECK(hvdlite::view(plain_array{x, 1}).size == 1);

  long y[6] = {};
  const column c{y + 1, 3, 2};
  const auto v = hvdlite::view(c);
  CHECK(v.data == y + 1);
  CHECK(v.rank == 1);
  CHECK(v.extents[0] == 3);
  CHECK(v.strides[0] == 2);
}

TEST_CASE("a shape is the traits', or the strides', or a vector's") {
  float x[3] = {};
  CHECK(hvdlite::shape(plain_array{x, 3}) == tensor_shape::vector(3));
  CHECK(hvdlite::shape(grid{std::vector<double>(6), 2}) == tensor_shape::row_major({3, 2}));
  long y[6] = {};
  CHECK(hvdlite::shape(column{y, 3, 2}) == tensor_shape::vector(3));
  int z[2] = {};
  CHECK(hvdlite::shape(window{z, 2}) == tensor_shape::vector(2));
  const strided_buffer<float> row{x, {1, 3}, {3, 1}};
  CHECK(hvdlite::shape(row) == tensor_shape::row_major({1, 3}));
}
