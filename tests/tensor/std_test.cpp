// SPDX-License-Identifier: Apache-2.0
// The tensors of the standard library: element, constness, pointer, count and shape of each kind.
#include <doctest/doctest.h>

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory_resource>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <valarray>
#include <vector>

#include <hvdlite/tensor/std.hpp>

using hvdlite::buffer;
using hvdlite::strided_buffer;
using hvdlite::tensor_shape;

namespace {

// X& is seen as buffer<T>, const X& as buffer<ConstT>.
template <class X, class T, class ConstT = const T>
constexpr bool seen_as = hvdlite::tensor<X> && hvdlite::tensor<X&> && hvdlite::tensor<const X&> &&
                         std::is_same_v<hvdlite::view_t<X&>, buffer<T>> &&
                         std::is_same_v<hvdlite::view_t<const X&>, buffer<ConstT>> &&
                         std::is_same_v<hvdlite::space_of<X>, hvdlite::host_space>;
template <class X>
constexpr bool owner = !hvdlite::borrowed_tensor<X> && !hvdlite::borrowed_tensor<const X&>;
template <class X>
constexpr bool borrower = hvdlite::borrowed_tensor<X> && hvdlite::borrowed_tensor<const X&>;

static_assert(seen_as<float, float> && owner<float>);
static_assert(seen_as<bool, bool> && owner<bool>);
static_assert(seen_as<char, char> &&
              std::is_same_v<hvdlite::element_of<char>, hvdlite::canonical_t<char>>);
static_assert(seen_as<hvdlite::float16, hvdlite::float16>);
static_assert(seen_as<std::complex<double>, std::complex<double>>);
static_assert(std::is_same_v<hvdlite::element_of<long long>, std::int64_t>);
static_assert(!hvdlite::writable_tensor<const float&> && hvdlite::writable_tensor<float&>);

static_assert(seen_as<int[3], int> && owner<int[3]>);
static_assert(seen_as<int[3][2], int> && seen_as<bool[2], bool>);
static_assert(std::is_same_v<hvdlite::view_t<const int[3]>, buffer<const int>>);

static_assert(seen_as<std::vector<float>, float> && owner<std::vector<float>>);
static_assert(seen_as<std::pmr::vector<double>, double>);
static_assert(std::is_same_v<hvdlite::element_of<std::vector<long>>, hvdlite::canonical_t<long>>);
static_assert(!hvdlite::tensor<std::vector<bool>> && !hvdlite::tensor<std::vector<std::string>>);
static_assert(!hvdlite::tensor<std::vector<std::vector<float>>>);
static_assert(!hvdlite::tensor<std::vector<long double>>);

static_assert(seen_as<std::array<float, 3>, float> && owner<std::array<float, 3>>);
static_assert(seen_as<std::array<bool, 3>, bool> && seen_as<std::array<float, 0>, float>);
static_assert(seen_as<std::array<const float, 3>, const float>);
static_assert(!hvdlite::writable_tensor<std::array<const float, 3>>);

// A span is a pointer: const or not, it writes to what it points to.
static_assert(seen_as<std::span<float>, float, float> && borrower<std::span<float>>);
static_assert(seen_as<std::span<float, 4>, float, float>);
static_assert(seen_as<std::span<const float>, const float> && borrower<std::span<const float>>);
static_assert(hvdlite::writable_tensor<const std::span<float>>);
static_assert(!hvdlite::writable_tensor<std::span<const float>>);
static_assert(!hvdlite::tensor<std::span<std::string>> && !hvdlite::tensor<std::span<std::byte>>);

static_assert(seen_as<buffer<float>, float, float> && borrower<buffer<float>>);
static_assert(seen_as<buffer<const float>, const float>);
static_assert(!hvdlite::tensor<buffer<std::string>>);
static_assert(
    std::is_same_v<hvdlite::space_of<buffer<float, hvdlite::cuda_space>>, hvdlite::cuda_space>);
static_assert(std::is_same_v<hvdlite::view_t<const strided_buffer<float>&>, strided_buffer<float>>);
static_assert(borrower<strided_buffer<float>>);

// No guesses about what merely looks like a range of numbers.
static_assert(!hvdlite::tensor<std::deque<float>> && !hvdlite::tensor<std::valarray<float>>);
static_assert(!hvdlite::tensor<std::set<int>> && !hvdlite::tensor<std::string>);
static_assert(!hvdlite::tensor<std::string_view> && !hvdlite::tensor<std::initializer_list<float>>);
static_assert(!hvdlite::tensor<std::array<std::string, 2>> && !hvdlite::tensor<std::string[2]>);

template <class X>
void check_view(X& x, const void* data, std::size_t size, const tensor_shape& shape) {
  CHECK(static_cast<const void*>(hvdlite::view(x).data) == data);
  CHECK(hvdlite::view(x).size == size);
  CHECK(hvdlite::view(std::as_const(x)).size == size);
  CHECK(static_cast<const void*>(hvdlite::view(std::as_const(x)).data) == data);
  CHECK(hvdlite::shape(x) == shape);
  CHECK(hvdlite::shape(x).count() == size);
}

}  // namespace

TEST_CASE("a scalar is one element of rank 0") {
  double x = 1;
  check_view(x, &x, 1, tensor_shape::scalar());
  std::complex<float> z;
  check_view(z, &z, 1, tensor_shape::scalar());
  bool b = true;
  check_view(b, &b, 1, tensor_shape::scalar());
}

TEST_CASE("C arrays keep their dimensions") {
  int a[5] = {};
  check_view(a, a, 5, tensor_shape::vector(5));
  float b[2][3] = {};
  check_view(b, &b[0][0], 6, tensor_shape::row_major({2, 3}));
  const std::uint8_t c[2][3][4] = {};
  CHECK(hvdlite::view(c).data == &c[0][0][0]);
  CHECK(hvdlite::view(c).size == 24);
  CHECK(hvdlite::shape(c) == tensor_shape::row_major({2, 3, 4}));
  double d[1][1] = {};
  check_view(d, d, 1, tensor_shape::row_major({1, 1}));
}

TEST_CASE("vectors, arrays and spans are one dimension") {
  std::vector<float> v(4);
  check_view(v, v.data(), 4, tensor_shape::vector(4));
  std::vector<float> empty;
  check_view(empty, empty.data(), 0, tensor_shape::vector(0));
  std::array<double, 3> a{};
  check_view(a, a.data(), 3, tensor_shape::vector(3));
  std::array<double, 0> none{};
  CHECK(hvdlite::view(none).size == 0);
  std::span<float> s{v.data() + 1, 2};
  check_view(s, v.data() + 1, 2, tensor_shape::vector(2));
  std::span<const float, 4> fixed{v};
  check_view(fixed, v.data(), 4, tensor_shape::vector(4));
  std::pmr::vector<std::int16_t> p(2);
  check_view(p, p.data(), 2, tensor_shape::vector(2));
}

TEST_CASE("what is equal in memory has equal shapes, whatever its type") {
  const std::vector<float> v(3);
  const float c[3] = {};
  CHECK(hvdlite::shape(v) == hvdlite::shape(c));
  CHECK(hvdlite::shape(v) == hvdlite::shape(std::array<float, 3>{}));
  CHECK(hvdlite::shape(v) == hvdlite::shape(std::span{v}));
  CHECK(hvdlite::shape(v) == hvdlite::shape(buffer{v.data(), 3}));
  CHECK(hvdlite::shape(v) != hvdlite::shape(1.0f));
}

TEST_CASE("writes through a view arrive, also through a const span") {
  std::vector<int> v{1, 2, 3};
  hvdlite::view(v).data[1] = 7;
  const std::span<int> s{v};
  hvdlite::view(s).data[2] = 8;
  CHECK(v == std::vector<int>{1, 7, 8});
}
