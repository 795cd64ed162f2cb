// SPDX-License-Identifier: Apache-2.0
// What the verbs make of their arguments before they are bytes.
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <hvdlite/collective/arguments.hpp>

namespace {

TEST_CASE("sample_count: from any arithmetic type, and not given unless set") {
  CHECK_FALSE(hvdlite::sample_count{}.given());
  CHECK(hvdlite::sample_count{}.value() == 1);
  CHECK(hvdlite::sample_count{std::size_t{5}}.value() == 5);
  CHECK(hvdlite::sample_count{-2}.value() == -2);
  CHECK(hvdlite::sample_count{2.5f}.value() == 2.5);
  CHECK(hvdlite::sample_count{0}.given());
  static_assert(!std::is_convertible_v<const char*, hvdlite::sample_count>);
}

TEST_CASE("contiguous: memory that is contiguous is used as it is") {
  std::vector<int> x{1, 2, 3};
  const auto memory = hvdlite::detail::contiguous_of(x);
  CHECK(memory.read() == reinterpret_cast<const std::byte*>(x.data()));
  CHECK(memory.write() == reinterpret_cast<std::byte*>(x.data()));
  CHECK(memory.count() == 3);
  // Strides that amount to contiguous memory, too, whatever their order.
  const hvdlite::strided_buffer<int> column{x.data(), {3, 1}, {1, 99}};
  CHECK(hvdlite::detail::contiguous_of(column).write() == memory.write());
}

TEST_CASE("contiguous: strided memory is copied, and goes back only when asked") {
  std::vector<int> x{0, 1, 2, 3, 4, 5, 6, 7};
  const hvdlite::strided_buffer<int> even{x.data(), {4}, {2}};
  const auto memory = hvdlite::detail::contiguous_of(even);
  CHECK(memory.count() == 4);
  auto* copy = reinterpret_cast<int*>(memory.write());
  CHECK(std::vector<int>(copy, copy + 4) == std::vector<int>{0, 2, 4, 6});
  for (int i = 0; i < 4; ++i) copy[i] = -copy[i] - 1;
  CHECK(x == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  memory.write_back();
  CHECK(x == std::vector<int>{-1, 1, -3, 3, -5, 5, -7, 7});
}

TEST_CASE("describe: count, element, type, shape and space of a tensor") {
  double x[2][3] = {};
  hvdlite::operation op;
  hvdlite::detail::describe<double (&)[2][3]>(op, hvdlite::detail::contiguous_of(x));
  CHECK(op.count == 6);
  CHECK(op.element_bytes == 8);
  CHECK(op.bytes() == 48);
  CHECK(op.type == hvdlite::dtype::f64);
  CHECK(op.shape == hvdlite::tensor_shape::row_major({2, 3}));
  CHECK(op.space == "host");
  long y = 0;
  hvdlite::detail::describe<long&>(op, hvdlite::detail::contiguous_of(y));
  CHECK(op.type == hvdlite::dtype::i64);
  CHECK(op.shape == hvdlite::tensor_shape::scalar());
  CHECK(op.count == 1);
}

}  // namespace
