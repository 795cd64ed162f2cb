// SPDX-License-Identifier: Apache-2.0
// Buffers from any pointer and count, shapes and their memory order in words, and which strided
// views are contiguous.
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <hvdlite/tensor/buffer.hpp>

using hvdlite::buffer;
using hvdlite::cuda_space;
using hvdlite::host_space;
using hvdlite::strided_buffer;
using hvdlite::tensor_shape;

namespace {

std::vector<int> order_of(const tensor_shape& shape) {
  std::vector<int> result;
  for (std::size_t i = 0; i < shape.ordered; ++i) result.push_back(shape.outermost_first[i]);
  return result;
}
using order = std::vector<int>;

}  // namespace

TEST_CASE("buffer: any integer counts, the space is in the type") {
  float x[3] = {};
  const double* const y = nullptr;
  buffer a{x, 3};
  static_assert(std::is_same_v<decltype(a), buffer<float, host_space>>);
  CHECK(a.data == x);
  CHECK(a.size == 3);
  CHECK(buffer{x, std::int8_t{2}}.size == 2);
  CHECK(buffer{x, std::uint64_t{2}}.size == 2);
  CHECK(buffer{x, std::ptrdiff_t{0}}.size == 0);
  buffer b{y, 0};
  static_assert(std::is_same_v<decltype(b), buffer<const double, host_space>>);
  buffer c{x, 3, cuda_space{}};
  static_assert(std::is_same_v<decltype(c), buffer<float, cuda_space>>);
  static_assert(!std::is_constructible_v<buffer<float>, float*, double>);
  static_assert(!std::is_constructible_v<buffer<float>, const float*, int>);
  static_assert(std::is_trivially_copyable_v<buffer<float>>);
  const buffer<float> none;
  CHECK(none.data == nullptr);
  CHECK(none.size == 0);
}

TEST_CASE("buffer: a negative count is a usage_error that shows it") {
  float x[1] = {};
  for (const long long count : {-1ll, -5ll, (std::numeric_limits<long long>::min)()}) {
    std::string text = "accepted";
    try {
      buffer{x, count};
    } catch (const hvdlite::usage_error& e) {
      text = e.what();
    }
    CHECK(text.find(std::to_string(count)) != std::string::npos);
  }
}

TEST_CASE("shapes: rank, count, and the order of what has more than one element") {
  CHECK(tensor_shape::scalar().rank == 0);
  CHECK(tensor_shape::scalar().count() == 1);
  CHECK(tensor_shape::vector(7).rank == 1);
  CHECK(tensor_shape::vector(7).count() == 7);
  CHECK(tensor_shape::vector(0).count() == 0);
  CHECK(tensor_shape::row_major({3, 4, 5}).count() == 60);
  CHECK(tensor_shape::row_major({3, 0, 5}).count() == 0);
  CHECK(order_of(tensor_shape::row_major({3, 4, 5})) == order{0, 1, 2});
  CHECK(order_of(tensor_shape::column_major({3, 4, 5})) == order{2, 1, 0});
  CHECK(order_of(tensor_shape::row_major({3, 1, 5})) == order{0, 2});
  CHECK(order_of(tensor_shape::column_major({1, 4, 1})) == order{1});
  CHECK(order_of(tensor_shape::row_major({1, 1})) == order{});
  CHECK(tensor_shape::row_major({2, 2, 2, 2, 2, 2, 2, 2}).count() == 256);
}

TEST_CASE("shapes are equal if extents, rank and order are") {
  CHECK(tensor_shape::row_major({3, 4}) == tensor_shape::row_major({3, 4}));
  CHECK(tensor_shape::row_major({3, 4}) != tensor_shape::row_major({4, 3}));
  CHECK(tensor_shape::row_major({3, 4}) != tensor_shape::column_major({3, 4}));
  CHECK(tensor_shape::row_major({12}) != tensor_shape::row_major({3, 4}));
  CHECK(tensor_shape::row_major({12}) != tensor_shape::row_major({12, 1}));
  CHECK(tensor_shape::scalar() != tensor_shape::vector(1));
  // One row or one column lies in memory alike, whatever its type calls it.
  CHECK(tensor_shape::row_major({1, 4}) == tensor_shape::column_major({1, 4}));
  CHECK(tensor_shape::row_major({4, 1}) == tensor_shape::column_major({4, 1}));
}

TEST_CASE("shapes in words") {
  CHECK(tensor_shape::scalar().extents_text() == "[]");
  CHECK(tensor_shape::vector(0).extents_text() == "[0]");
  CHECK(tensor_shape::row_major({3, 4}).extents_text() == "[3, 4]");
  CHECK(tensor_shape::row_major({3, 4}).order_text() == "row-major");
  CHECK(tensor_shape::column_major({3, 4, 5}).order_text() == "column-major");
  const strided_buffer<float> mixed{nullptr, {2, 3, 4}, {4, 24, 1}};
  CHECK(mixed.shape().order_text() == "dimensions 1 0 2 from the outermost inwards");
}

TEST_CASE("strided_buffer: as many strides as extents, at most eight") {
  float x[1] = {};
  CHECK_THROWS_AS((strided_buffer<float>{x, {1, 2}, {1}}), hvdlite::usage_error);
  CHECK_THROWS_AS((strided_buffer<float>{x, {}, {1}}), hvdlite::usage_error);
  CHECK_THROWS_AS(
      (strided_buffer<float>{x, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1}}),
      hvdlite::usage_error);
  const strided_buffer<float> eight{x, {1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1}};
  CHECK(eight.shape().count() == 1);
  CHECK(strided_buffer<float>{}.shape() == tensor_shape::scalar());
}

TEST_CASE("strides imply the memory order") {
  using view = strided_buffer<float>;
  CHECK(view{nullptr, {3, 4}, {4, 1}}.shape() == tensor_shape::row_major({3, 4}));
  CHECK(view{nullptr, {3, 4}, {1, 3}}.shape() == tensor_shape::column_major({3, 4}));
  CHECK(view{nullptr, {3, 4}, {10, 2}}.shape() == tensor_shape::row_major({3, 4}));
  CHECK(view{nullptr, {3, 4}, {-4, 1}}.shape() == tensor_shape::row_major({3, 4}));
  CHECK(view{nullptr, {3, 4}, {1, -3}}.shape() == tensor_shape::column_major({3, 4}));
  // The stride of a dimension with one element is no matter.
  CHECK(view{nullptr, {1, 4}, {1, 1}}.shape() == tensor_shape::row_major({1, 4}));
  CHECK(view{nullptr, {3, 1, 4}, {4, 1000, 1}}.shape() == tensor_shape::row_major({3, 1, 4}));
  CHECK(order_of(view{nullptr, {2, 3, 4}, {4, 24, 1}}.shape()) == order{1, 0, 2});
  CHECK(view{nullptr, {5}, {3}}.shape() == tensor_shape::vector(5));
}

TEST_CASE("contiguous: the elements lie one after the other, in any order of dimensions") {
  using view = strided_buffer<float>;
  CHECK(view{nullptr, {3, 4}, {4, 1}}.contiguous());
  CHECK(view{nullptr, {3, 4}, {1, 3}}.contiguous());
  CHECK(view{nullptr, {2, 3, 4}, {4, 8, 1}}.contiguous());
  CHECK(view{nullptr, {3, 1, 4}, {4, 77, 1}}.contiguous());
  CHECK(view{nullptr, {1}, {5}}.contiguous());
  CHECK(view{nullptr, {}, {}}.contiguous());
  CHECK(view{nullptr, {0}, {1}}.contiguous());
  CHECK_FALSE(view{nullptr, {3, 4}, {5, 1}}.contiguous());  // a gap after each row
  CHECK_FALSE(view{nullptr, {3, 4}, {1, 4}}.contiguous());
  CHECK_FALSE(view{nullptr, {3, 4}, {8, 2}}.contiguous());
  CHECK_FALSE(view{nullptr, {5}, {2}}.contiguous());
  CHECK_FALSE(view{nullptr, {5}, {-1}}.contiguous());  // data points to the last one
  CHECK_FALSE(view{nullptr, {3, 4}, {-4, 1}}.contiguous());
  CHECK_FALSE(view{nullptr, {5}, {0}}.contiguous());  // one element, five times
}
