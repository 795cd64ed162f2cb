// SPDX-License-Identifier: Apache-2.0
// Eigen's dense types: element, constness, shape, memory order and strides of each kind, and its
// halves, which are ours bit for bit.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <hvdlite/tensor/eigen.hpp>
#include <hvdlite/tensor/pack.hpp>
#include <hvdlite/tensor/std.hpp>

using Eigen::Dynamic;
using hvdlite::buffer;
using hvdlite::strided_buffer;
using hvdlite::tensor_shape;

namespace {

using RowMatrix = Eigen::Matrix<float, Dynamic, Dynamic, Eigen::RowMajor>;
using Matrix = Eigen::MatrixXf;

// X& is seen as V, const X& as ConstV.
template <class X, class V, class ConstV>
constexpr bool seen_as =
    hvdlite::tensor<X> && hvdlite::tensor<X&> && hvdlite::tensor<const X&> &&
    std::is_same_v<hvdlite::view_t<X&>, V> && std::is_same_v<hvdlite::view_t<const X&>, ConstV> &&
    std::is_same_v<hvdlite::space_of<X>, hvdlite::host_space>;

template <class X, class T>
constexpr bool owner = seen_as<X, buffer<T>, buffer<const T>> && !hvdlite::borrowed_tensor<X> &&
                       hvdlite::writable_tensor<X&> && !hvdlite::writable_tensor<const X&>;
// A view of somebody else's memory: a const one still writes ...
template <class X, class T>
constexpr bool borrower = seen_as<X, strided_buffer<T>, strided_buffer<T>> &&
                          hvdlite::borrowed_tensor<X> && hvdlite::writable_tensor<const X&>;
// ... unless that memory is const.
template <class X, class T>
constexpr bool const_borrower = seen_as<X, strided_buffer<const T>, strided_buffer<const T>> &&
                                hvdlite::borrowed_tensor<X> && !hvdlite::writable_tensor<X&>;

static_assert(owner<Eigen::MatrixXf, float> && owner<RowMatrix, float>);
static_assert(owner<Eigen::VectorXd, double> && owner<Eigen::RowVectorXi, int>);
static_assert(owner<Eigen::ArrayXXf, float> && owner<Eigen::ArrayXcd, std::complex<double>>);
static_assert(owner<Eigen::Matrix3f, float> && owner<Eigen::Vector4d, double>);
static_assert(owner<Eigen::Matrix<double, 1, 1>, double>);
static_assert(owner<Eigen::Matrix<bool, Dynamic, 1>, bool>);
static_assert(owner<Eigen::Matrix<long, Dynamic, 3>, long>);

static_assert(borrower<Eigen::Map<Eigen::MatrixXf>, float>);
static_assert(borrower<Eigen::Map<Eigen::VectorXf>, float>);
static_assert(borrower<Eigen::Map<Eigen::ArrayXd, 0, Eigen::InnerStride<2>>, double>);
static_assert(borrower<Eigen::Ref<Eigen::MatrixXf>, float>);
static_assert(borrower<Eigen::Ref<Eigen::VectorXf>, float>);
static_assert(borrower<Eigen::Ref<Eigen::MatrixXf, 0, Eigen::Stride<Dynamic, Dynamic>>, float>);
static_assert(borrower<Eigen::Block<Eigen::MatrixXf>, float>);
static_assert(borrower<Eigen::Block<RowMatrix>, float>);
static_assert(borrower<decltype(std::declval<Matrix&>().row(0)), float>);
static_assert(borrower<decltype(std::declval<Matrix&>().col(0)), float>);
static_assert(borrower<decltype(std::declval<Matrix&>().transpose()), float>);
static_assert(borrower<decltype(std::declval<Matrix&>().diagonal()), float>);
static_assert(borrower<decltype(std::declval<Eigen::VectorXf&>().head(2)), float>);
static_assert(borrower<decltype(std::declval<Matrix&>().block(0, 0, 1, 1).transpose()), float>);
static_assert(borrower<decltype(std::declval<Matrix&>().array()), float>);
static_assert(borrower<decltype(std::declval<Eigen::ArrayXXf&>().matrix()), float>);

static_assert(const_borrower<Eigen::Map<const Eigen::MatrixXf>, float>);
static_assert(const_borrower<Eigen::Ref<const Eigen::VectorXf>, float>);
static_assert(const_borrower<decltype(std::declval<const Matrix&>().row(0)), float>);
static_assert(const_borrower<decltype(std::declval<const Matrix&>().block(0, 0, 1, 1)), float>);
static_assert(const_borrower<decltype(std::declval<const Matrix&>().transpose()), float>);
static_assert(const_borrower<decltype(std::declval<const Eigen::VectorXf&>().head(2)), float>);

// What has no memory of its own is an expression, and no tensor.
template <class X>
constexpr bool expression = hvdlite::tensor_expression<X> && !hvdlite::tensor<X>;
static_assert(expression<decltype(std::declval<Matrix&>() + std::declval<Matrix&>())>);
static_assert(expression<decltype(std::declval<Matrix&>() * std::declval<Matrix&>())>);
static_assert(expression<decltype(2.0f * std::declval<Matrix&>())>);
static_assert(expression<decltype(Matrix::Zero(2, 2))>);
static_assert(expression<decltype(Matrix::Random(2, 2))>);
static_assert(expression<decltype(std::declval<Eigen::VectorXf&>().reverse())>);
static_assert(!hvdlite::tensor_expression<Matrix> && !hvdlite::tensor_expression<float>);
static_assert(!hvdlite::tensor<Eigen::Matrix<long double, 2, 2>>);

static_assert(std::is_same_v<hvdlite::element_of<Eigen::Matrix<long, Dynamic, 1>>,
                             hvdlite::canonical_t<long>>);
static_assert(
    std::is_same_v<hvdlite::element_of<Eigen::Matrix<Eigen::half, 2, 2>>, hvdlite::float16>);
static_assert(std::is_same_v<hvdlite::element_of<Eigen::bfloat16>, hvdlite::bfloat16>);
static_assert(hvdlite::dtype_of<Eigen::half>() == hvdlite::dtype::f16);
static_assert(hvdlite::dtype_of<Eigen::bfloat16>() == hvdlite::dtype::bf16);

Matrix numbered(Eigen::Index rows, Eigen::Index cols) {
  Matrix m(rows, cols);
  for (Eigen::Index i = 0; i < rows; ++i)
    for (Eigen::Index j = 0; j < cols; ++j) m(i, j) = static_cast<float>(10 * i + j);
  return m;
}

// Element (i, j) of `x` is where the view's strides say, or the buffer's shape; and writes arrive.
template <class X>
void check_elements(X&& x) {
  const auto v = hvdlite::view(x);
  const auto shape = hvdlite::shape(x);
  CHECK(shape.count() == static_cast<std::size_t>(x.size()));
  std::vector<std::remove_const_t<std::remove_reference_t<decltype(*v.data)>>> packed(
      shape.count());
  if constexpr (hvdlite::detail::is_strided_buffer_v<std::remove_const_t<decltype(v)>>) {
    CHECK(v.shape() == shape);
    hvdlite::pack(v, packed.data());
  } else {
    REQUIRE(v.size == shape.count());
    packed.assign(v.data, v.data + v.size);
  }
  // The packed elements are in memory order: outermost dimension first.
  std::size_t at = 0;
  bool right = true;
  const bool by_rows = shape.ordered < 2 || shape.outermost_first[0] == 0;
  const auto outer = by_rows ? x.rows() : x.cols();
  const auto inner = by_rows ? x.cols() : x.rows();
  for (Eigen::Index o = 0; o < outer; ++o)
    for (Eigen::Index i = 0; i < inner; ++i)
      right = right && packed[at++] == (by_rows ? x(o, i) : x(i, o));
  CHECK(right);
}

const auto by_row = [](std::size_t r, std::size_t c) { return tensor_shape::row_major({r, c}); };
const auto by_column = [](std::size_t r, std::size_t c) {
  return tensor_shape::column_major({r, c});
};

}  // namespace

TEST_CASE("matrices: shape, memory order, and their own memory") {
  Matrix m = numbered(3, 4);
  CHECK(hvdlite::view(m).data == m.data());
  CHECK(hvdlite::view(m).size == 12);
  CHECK(hvdlite::shape(m) == by_column(3, 4));
  check_elements(m);

  RowMatrix r = numbered(3, 4);
  CHECK(hvdlite::shape(r) == by_row(3, 4));
  CHECK(hvdlite::shape(r) != hvdlite::shape(m));
  check_elements(r);

  const Eigen::Matrix<double, 2, 3, Eigen::RowMajor> fixed =
      Eigen::Matrix<double, 2, 3, Eigen::RowMajor>::Random();
  CHECK(hvdlite::shape(fixed) == by_row(2, 3));
  check_elements(fixed);
  Eigen::ArrayXXf a = numbered(2, 5);
  CHECK(hvdlite::shape(a) == by_column(2, 5));
  check_elements(a);
}

TEST_CASE("vectors of compile time have rank 1, of run time rank 2") {
  const Eigen::VectorXf v = Eigen::VectorXf::Random(5);
  CHECK(hvdlite::shape(v) == tensor_shape::vector(5));
  CHECK(hvdlite::shape(v) == hvdlite::shape(std::vector<float>(5)));
  CHECK(hvdlite::shape(Eigen::RowVectorXd{7}) == tensor_shape::vector(7));
  CHECK(hvdlite::shape(Eigen::Matrix<float, 1, 1>{}) == tensor_shape::vector(1));
  CHECK(hvdlite::shape(Eigen::ArrayXf{0}) == tensor_shape::vector(0));
  CHECK(hvdlite::shape(Matrix{1, 7}) == by_row(1, 7));
  CHECK(hvdlite::shape(Matrix{7, 1}) == by_row(7, 1));
  CHECK(hvdlite::shape(Matrix{1, 7}) != hvdlite::shape(Matrix{7, 1}));
  // 1 x N lies in memory alike in both orders.
  CHECK(hvdlite::shape(Matrix{1, 7}) == hvdlite::shape(RowMatrix{1, 7}));
}

TEST_CASE("empty matrices") {
  Matrix none;
  CHECK(hvdlite::view(none).size == 0);
  CHECK(hvdlite::shape(none).count() == 0);
  Matrix rows{3, 0};
  CHECK(hvdlite::view(rows).size == 0);
  CHECK(hvdlite::shape(rows) == by_column(3, 0));
  Matrix m = numbered(3, 4);
  const auto block = m.block(1, 1, 0, 2);
  CHECK(hvdlite::view(block).shape().count() == 0);
  hvdlite::pack(hvdlite::view(block), static_cast<float*>(nullptr));
  CHECK(hvdlite::shape(m.col(0).head(0)) == tensor_shape::vector(0));
}

TEST_CASE("rows, columns, segments and diagonals: rank 1 and the right stride") {
  Matrix m = numbered(3, 4);
  const auto row = hvdlite::view(m.row(1));
  CHECK(row.data == &m(1, 0));
  CHECK(row.rank == 1);
  CHECK(row.extents[0] == 4);
  CHECK(row.strides[0] == 3);
  CHECK_FALSE(row.contiguous());
  check_elements(m.row(1));

  const auto column = hvdlite::view(m.col(2));
  CHECK(column.data == &m(0, 2));
  CHECK(column.extents[0] == 3);
  CHECK(column.strides[0] == 1);
  CHECK(column.contiguous());
  check_elements(m.col(2));

  const auto diagonal = hvdlite::view(m.diagonal());
  CHECK(diagonal.data == &m(0, 0));
  CHECK(diagonal.extents[0] == 3);
  CHECK(diagonal.strides[0] == 4);
  const auto upper = hvdlite::view(m.diagonal(1));
  CHECK(upper.data == &m(0, 1));
  CHECK(upper.extents[0] == 3);

  RowMatrix r = numbered(3, 4);
  CHECK(hvdlite::view(r.row(1)).contiguous());
  CHECK(hvdlite::view(r.col(1)).strides[0] == 4);
  check_elements(r.col(1));
  check_elements(m.row(2).tail(2));
  check_elements(m.row(2).transpose());
  CHECK(hvdlite::shape(m.row(2).transpose()) == tensor_shape::vector(4));
}

TEST_CASE("blocks and transposes: the order that their strides have") {
  Matrix m = numbered(5, 6);
  const auto block = hvdlite::view(m.block(1, 2, 3, 2));
  CHECK(block.data == &m(1, 2));
  CHECK(block.shape() == by_column(3, 2));
  CHECK(block.strides[0] == 1);
  CHECK(block.strides[1] == 5);
  CHECK_FALSE(block.contiguous());
  check_elements(m.block(1, 2, 3, 2));
  CHECK(hvdlite::view(m.middleCols(1, 2)).contiguous());

  const auto transposed = hvdlite::view(m.transpose());
  CHECK(transposed.data == m.data());
  CHECK(transposed.shape() == by_row(6, 5));
  CHECK(transposed.contiguous());
  check_elements(m.transpose());
  check_elements(m.block(1, 2, 3, 2).transpose());
  CHECK(hvdlite::shape(m.block(1, 2, 3, 2).transpose()) == by_row(2, 3));
  // The transpose of one order is the other order.
  RowMatrix r = numbered(6, 5);
  CHECK(hvdlite::shape(r) == hvdlite::shape(m.transpose()));
  CHECK(hvdlite::shape(r.transpose()) == hvdlite::shape(m));
  // A block of one row or column, of run-time size.
  CHECK(hvdlite::shape(m.block(1, 2, 1, 3)) == by_row(1, 3));
  CHECK(hvdlite::shape(m.block(1, 2, 3, 1)) == by_row(3, 1));
  check_elements(m.block(1, 2, 1, 3));
  CHECK(hvdlite::view(m.block(1, 2, 1, 1)).contiguous());
}

TEST_CASE("maps and references: the caller's memory, with any stride") {
  std::vector<float> memory(40);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
  const Eigen::Map<Matrix> plain{memory.data(), 4, 5};
  CHECK(hvdlite::view(plain).data == memory.data());
  CHECK(hvdlite::view(plain).contiguous());
  CHECK(hvdlite::shape(plain) == by_column(4, 5));
  check_elements(plain);

  using Strides = Eigen::Stride<Dynamic, Dynamic>;
  const Eigen::Map<Matrix, 0, Strides> strided{memory.data() + 1, 3, 4, Strides{9, 2}};
  const auto v = hvdlite::view(strided);
  CHECK(v.strides[0] == 2);
  CHECK(v.strides[1] == 9);
  CHECK_FALSE(v.contiguous());
  check_elements(strided);
  // A column-major type whose strides are those of rows.
  const Eigen::Map<Matrix, 0, Strides> by_rows{memory.data(), 3, 4, Strides{1, 4}};
  CHECK(hvdlite::shape(by_rows) == by_row(3, 4));
  CHECK(hvdlite::view(by_rows).contiguous());
  check_elements(by_rows);

  const Eigen::Map<Eigen::VectorXf, 0, Eigen::InnerStride<3>> every_third{memory.data(), 5};
  CHECK(hvdlite::view(every_third).strides[0] == 3);
  CHECK(hvdlite::shape(every_third) == tensor_shape::vector(5));
  check_elements(every_third);

  Matrix m = numbered(4, 4);
  const Eigen::Ref<Matrix> reference{m.topLeftCorner(2, 3)};
  CHECK(hvdlite::view(reference).data == m.data());
  CHECK(hvdlite::view(reference).strides[1] == 4);
  check_elements(reference);
  const Eigen::Ref<const Matrix> read_only{m};
  CHECK(hvdlite::view(read_only).data == m.data());
  CHECK(hvdlite::view(read_only).contiguous());
}

TEST_CASE("parts of complex matrices are views with gaps") {
  Eigen::MatrixXcf z(2, 3);
  for (Eigen::Index i = 0; i < z.size(); ++i)
    z.data()[i] = {static_cast<float>(i), static_cast<float>(-i)};
  auto imaginary = z.imag();
  const auto v = hvdlite::view(imaginary);
  CHECK(v.strides[0] == 2);
  CHECK(v.strides[1] == 4);
  check_elements(imaginary);
  CHECK(hvdlite::view(z).size == 6);
  CHECK(hvdlite::dtype_of<hvdlite::element_of<Eigen::MatrixXcf>>() == hvdlite::dtype::c64);
}

TEST_CASE("writes through the view of a const block arrive, and nowhere else") {
  Matrix m = Matrix::Zero(4, 5);
  const auto block = m.block(1, 1, 2, 3);
  const auto v = hvdlite::view(block);
  const std::vector<float> ones(6, 1.0f);
  hvdlite::unpack(ones.data(), v);
  CHECK(m.sum() == 6);
  CHECK(block.sum() == 6);
}

TEST_CASE("an expression is evaluated into a tensor") {
  const Matrix m = numbered(3, 4);
  const auto expression = m + m;
  const auto value =
      hvdlite::tensor_traits<std::remove_cv_t<decltype(expression)>>::evaluate(expression);
  static_assert(hvdlite::tensor<decltype(value)>);
  CHECK(value == 2.0f * m);
  const Matrix product =
      hvdlite::tensor_traits<decltype(m * m.transpose())>::evaluate(m * m.transpose());
  CHECK(product == m * m.transpose());
}

TEST_CASE("Eigen's halves and ours: the same bits, the same values, the same rounding") {
  static_assert(sizeof(Eigen::half) == sizeof(hvdlite::float16));
  int wrong = 0;
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const auto ours = hvdlite::float16::from_bits(bits);
    const auto theirs = std::bit_cast<Eigen::half>(bits);
    const float a = ours, b = static_cast<float>(theirs);
    if (std::isnan(a) != std::isnan(b) || (!std::isnan(a) && a != b) ||
        std::signbit(a) != std::signbit(b))
      ++wrong;
    const auto our_brain = hvdlite::bfloat16::from_bits(bits);
    const float c = our_brain, d = static_cast<float>(std::bit_cast<Eigen::bfloat16>(bits));
    if (std::bit_cast<std::uint32_t>(c) != std::bit_cast<std::uint32_t>(d)) ++wrong;
    // Rounding: floats all over, of which these are the upper halves.
    for (const std::uint32_t low : {0u, 1u, 0x1000u, 0x7fffu, 0x8000u, 0x8001u, 0xf000u, 0xffffu}) {
      const float x = std::bit_cast<float>(i << 16 | low);
      if (std::isnan(x)) continue;
      if (hvdlite::float16{x}.bits() != std::bit_cast<std::uint16_t>(Eigen::half{x})) ++wrong;
      if (hvdlite::bfloat16{x}.bits() != std::bit_cast<std::uint16_t>(Eigen::bfloat16{x})) ++wrong;
    }
  }
  CHECK(wrong == 0);
}
