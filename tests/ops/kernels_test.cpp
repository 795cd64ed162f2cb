// SPDX-License-Identifier: Apache-2.0
// Every (element, op) against naive arithmetic: each length up to past two full blocks, unaligned
// memory, factors and divisors, wrapping, truncation, NaN, and factors that no sane caller gives.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <hvdlite/ops/kernels.hpp>

namespace {

using hvdlite::bfloat16;
using hvdlite::float16;
using hvdlite::kernel_table;
using hvdlite::kernels_of;
using hvdlite::root_scale;
using c64 = std::complex<float>;
using c128 = std::complex<double>;
using int128 = hvdlite::detail::int128;

constexpr std::size_t longest = 130;
constexpr int leaves = 3;

// --- Naive arithmetic: three elements, scales, one result --------------------------------------

template <class T>
constexpr bool halved = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;
template <class T>
using wide = std::conditional_t<halved<T>, float, T>;  // what reals are computed in

// The value modulo 2^bits, as a T.
template <class T>
T wrapped(int128 value) {
  return static_cast<T>(static_cast<std::uint64_t>(value));
}

// A double toward zero into the range of T.
template <class T>
T into(double value) {
  if (std::isnan(value)) return 0;
  value = std::trunc(value);
  if (value <= static_cast<double>(std::numeric_limits<T>::lowest()))
    return std::numeric_limits<T>::lowest();
  if (value >= static_cast<double>((std::numeric_limits<T>::max)()))
    return (std::numeric_limits<T>::max)();
  return static_cast<T>(value);
}

template <class Op, class T>
T expected_integer(const std::array<T, leaves>& x, double factor, root_scale root) {
  std::array<T, leaves> in = x;
  if constexpr (std::is_same_v<Op, hvdlite::average>) {
    int128 total = 0;
    for (const T each : in)
      total += factor == 1 ? int128{each} : int128{into<std::int64_t>(double(each) * factor)};
    const int128 quotient = total / static_cast<std::int64_t>(root.divisor);
    // A factor may take it beyond the type: to its ends.
    return static_cast<T>(std::clamp(quotient, int128{std::numeric_limits<T>::lowest()},
                                     int128{std::numeric_limits<T>::max()}));
  } else {
    for (T& each : in)
      if (factor != 1) each = into<T>(static_cast<double>(each) * factor);
    T result = in[0];
    for (int i = 1; i < leaves; ++i) {
      const T b = in[static_cast<std::size_t>(i)];
      if constexpr (std::is_same_v<Op, hvdlite::sum>) result = wrapped<T>(int128{result} + b);
      if constexpr (std::is_same_v<Op, hvdlite::product>)
        result = static_cast<T>(static_cast<std::uint64_t>(result) * static_cast<std::uint64_t>(b));
      if constexpr (std::is_same_v<Op, hvdlite::min>) result = b < result ? b : result;
      if constexpr (std::is_same_v<Op, hvdlite::max>) result = b > result ? b : result;
    }
    if (root.factor != 1) result = into<T>(static_cast<double>(result) * root.factor);
    return result;
  }
}

template <class Op, class A>
A together(A a, A b) {
  volatile A result{};  // nothing to fuse with
  if constexpr (std::is_same_v<Op, hvdlite::sum> || std::is_same_v<Op, hvdlite::average>)
    result = a + b;
  else if constexpr (std::is_same_v<Op, hvdlite::product>)
    result = a * b;
  else if (std::isnan(a) || std::isnan(b))
    result = std::numeric_limits<A>::quiet_NaN();
  else if constexpr (std::is_same_v<Op, hvdlite::min>)
    result = b < a ? b : a;
  else
    result = a < b ? b : a;
  return result;
}

template <class Op, class T>
T expected_real(const std::array<T, leaves>& x, double factor, root_scale root) {
  using A = wide<T>;
  std::array<A, leaves> in{};
  for (std::size_t i = 0; i < leaves; ++i) {
    volatile A scaled = static_cast<A>(x[i]) * static_cast<A>(factor);
    in[i] = scaled;
  }
  volatile A result = together<Op, A>(together<Op, A>(in[0], in[1]), in[2]);
  result = result / static_cast<A>(root.divisor);
  result = result * static_cast<A>(root.factor);
  return static_cast<T>(static_cast<A>(result));
}

template <class Op, class T>
T expected_complex(const std::array<T, leaves>& x, double factor, root_scale root) {
  using R = typename T::value_type;
  const auto f = static_cast<R>(factor), d = static_cast<R>(root.divisor),
             g = static_cast<R>(root.factor);
  T result{x[0].real() * f, x[0].imag() * f};
  for (std::size_t i = 1; i < leaves; ++i) {
    const T b{x[i].real() * f, x[i].imag() * f};
    if constexpr (std::is_same_v<Op, hvdlite::product>) {
      volatile R rr = result.real() * b.real(), ii = result.imag() * b.imag();
      volatile R ri = result.real() * b.imag(), ir = result.imag() * b.real();
      result = {rr - ii, ri + ir};
    } else {
      result = {result.real() + b.real(), result.imag() + b.imag()};
    }
  }
  return {result.real() / d * g, result.imag() / d * g};
}

template <class Op, class T>
T expected_logical(const std::array<T, leaves>& x) {
  bool all = true, any = false;
  for (const T each : x) {
    all = all && each != T{0};
    any = any || each != T{0};
  }
  return static_cast<T>(std::is_same_v<Op, hvdlite::logical_and> ? all : any);
}

template <class Op, class T>
T expected(const std::array<T, leaves>& x, double factor, root_scale root) {
  if constexpr (std::is_same_v<Op, hvdlite::logical_and> || std::is_same_v<Op, hvdlite::logical_or>)
    return expected_logical<Op, T>(x);
  else if constexpr (std::is_integral_v<T>)
    return expected_integer<Op, T>(x, factor, root);
  else if constexpr (hvdlite::is_complex_v<T>)
    return expected_complex<Op, T>(x, factor, root);
  else
    return expected_real<Op, T>(x, factor, root);
}

// The same bits; one NaN is as good as another.
template <class T>
bool same(const T& a, const T& b) {
  if constexpr (hvdlite::is_floating_v<T>)
    if (std::isnan(static_cast<wide<T>>(a)) && std::isnan(static_cast<wide<T>>(b))) return true;
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

// --- Elements ----------------------------------------------------------------------------------

template <class T>
T random_element(std::mt19937_64& random) {
  const std::uint64_t bits = random();
  if constexpr (std::is_same_v<T, bool>) {
    return (bits & 1) != 0;
  } else if constexpr (std::is_integral_v<T>) {
    constexpr std::array<T, 5> landmarks{T(0), T(1), T(-1), std::numeric_limits<T>::lowest(),
                                         (std::numeric_limits<T>::max)()};
    if (bits % 4 == 0) return landmarks[(bits >> 8) % landmarks.size()];
    return static_cast<T>(bits >> 16);
  } else if constexpr (hvdlite::is_complex_v<T>) {
    using R = typename T::value_type;
    return {static_cast<R>(std::uniform_real_distribution<double>{-9, 9}(random)),
            static_cast<R>(std::uniform_real_distribution<double>{-9, 9}(random))};
  } else if constexpr (halved<T>) {
    return T::from_bits(static_cast<std::uint16_t>(bits));  // everything that there is
  } else {
    if (bits % 8 == 0) {
      using L = std::numeric_limits<T>;
      const std::array<T, 8> landmarks{T(0),           -T(0),          L::infinity(),
                                       -L::infinity(), L::quiet_NaN(), L::denorm_min(),
                                       (L::max)(),     (L::min)()};
      return landmarks[(bits >> 8) % landmarks.size()];
    }
    return static_cast<T>(std::uniform_real_distribution<double>{-100, 100}(random));
  }
}

template <class T>
T element_at(const std::vector<std::byte>& bytes, std::size_t offset, std::size_t i) {
  T result;
  std::memcpy(&result, bytes.data() + offset + i * sizeof(T), sizeof(T));
  return result;
}

// Accumulators as the library has them: aligned, with a margin to see overruns by.
class accumulators {
 public:
  explicit accumulators(std::size_t bytes) : bytes_{bytes}, memory_(bytes + 128, fill) {}
  std::byte* data() {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    return memory_.data() + (64 - address % 64) % 64;
  }
  bool overrun() { return data()[bytes_] != fill; }

 private:
  static constexpr std::byte fill{0xa5};
  std::size_t bytes_;
  std::vector<std::byte> memory_;
};

// load a, accumulate b, combine with loaded c, store: all lengths, all misalignments that matter.
template <class T, class Op>
void check_kernels(const void* context, double factor, root_scale root, auto&& reference) {
  const kernel_table& table = kernels_of<T, Op>;
  REQUIRE(table.element_bytes == sizeof(T));
  REQUIRE(table.accumulator_bytes == sizeof(typename Op::template accumulator<T>));
  std::mt19937_64 random{sizeof(T) * 131 + static_cast<std::uint64_t>(factor * 16)};
  constexpr std::byte guard{0x5a};
  int wrong = 0, overruns = 0;
  for (std::size_t n = 0; n <= longest; ++n)
    for (const std::size_t shift : {std::size_t{0}, std::size_t{1}, n % 13}) {
      std::array<std::vector<std::byte>, leaves> in;
      for (auto& bytes : in) {
        bytes.assign(n * sizeof(T) + 16, guard);
        for (std::size_t i = 0; i < n; ++i) {
          const T x = random_element<T>(random);
          std::memcpy(bytes.data() + shift + i * sizeof(T), &x, sizeof(T));
        }
      }
      const auto before = in;
      accumulators acc{n * table.accumulator_bytes}, other{n * table.accumulator_bytes};
      table.load(acc.data(), in[0].data() + shift, n, factor);
      table.accumulate(acc.data(), in[1].data() + shift, n, factor, context);
      table.load(other.data(), in[2].data() + shift, n, factor);
      table.combine(acc.data(), acc.data(), other.data(), n, context);
      std::vector<std::byte> out(n * sizeof(T) + 16, guard);
      table.store(out.data() + shift, acc.data(), n, root);

      if (acc.overrun() || other.overrun() || in != before) ++overruns;
      for (std::size_t i = 0; i < out.size(); ++i)
        if ((i < shift || i >= shift + n * sizeof(T)) && out[i] != guard) ++overruns;
      for (std::size_t i = 0; i < n; ++i) {
        std::array<T, leaves> x{};
        for (std::size_t l = 0; l < leaves; ++l) x[l] = element_at<T>(in[l], shift, i);
        if (!same(element_at<T>(out, shift, i), reference(x, factor, root))) ++wrong;
      }
    }
  CAPTURE(hvdlite::dtype_name(hvdlite::dtype_of<T>()));
  CAPTURE(factor);
  CAPTURE(root.divisor);
  CAPTURE(root.factor);
  CHECK(wrong == 0);
  CHECK(overruns == 0);
}

template <class T, class Op>
void check_op(std::initializer_list<double> factors, std::initializer_list<root_scale> roots) {
  CAPTURE(Op::name);
  for (const double factor : factors)
    for (const root_scale& root : roots)
      check_kernels<T, Op>(nullptr, factor, root, [](const auto& x, double f, root_scale r) {
        return expected<Op, T>(x, f, r);
      });
}

template <class T>
void check_integer() {
  const std::initializer_list<double> factors{1, 0.5, -3, 1000.25};
  const std::initializer_list<root_scale> roots{{1, 1}, {1, 0.75}, {1, -2}};
  check_op<T, hvdlite::sum>(factors, roots);
  check_op<T, hvdlite::product>(factors, roots);
  check_op<T, hvdlite::min>(factors, roots);
  check_op<T, hvdlite::max>(factors, roots);
  check_op<T, hvdlite::average>({1}, {{1, 1}, {2, 1}, {3, 1}, {7, 1}});
  check_op<T, hvdlite::logical_and>({1}, {{1, 1}});
  check_op<T, hvdlite::logical_or>({1}, {{1, 1}});
}

template <class T>
void check_real() {
  const std::initializer_list<double> factors{1, 0.5, -3, 1.0 / 3, 1e10};
  const std::initializer_list<root_scale> roots{{1, 1}, {3, 1}, {1, 0.3}, {7, -0.7}};
  check_op<T, hvdlite::sum>(factors, roots);
  check_op<T, hvdlite::average>(factors, roots);
  if constexpr (hvdlite::is_floating_v<T>) {
    check_op<T, hvdlite::min>(factors, roots);
    check_op<T, hvdlite::max>(factors, roots);
  }
  check_op<T, hvdlite::product>(factors, roots);
}

// Loads one element and stores it.
template <class T, class Op>
T through(T x, double factor, root_scale root = {}) {
  alignas(64) std::array<std::byte, 64> acc{};
  T result;
  kernels_of<T, Op>.load(acc.data(), reinterpret_cast<const std::byte*>(&x), 1, factor);
  kernels_of<T, Op>.store(reinterpret_cast<std::byte*>(&result), acc.data(), 1, root);
  return result;
}

template <class T, class Op>
T reduced(const std::vector<T>& x, root_scale root = {}) {
  alignas(64) std::array<std::byte, 64> acc{};
  T result;
  const auto& table = kernels_of<T, Op>;
  table.fill_identity(acc.data(), 1, nullptr);
  for (const T& each : x)
    table.accumulate(acc.data(), reinterpret_cast<const std::byte*>(&each), 1, 1, nullptr);
  table.store(reinterpret_cast<std::byte*>(&result), acc.data(), 1, root);
  return result;
}

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinite = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE_TEMPLATE("integers: all ops, lengths, alignments, scales", T, std::int8_t, std::int16_t,
                   std::int32_t, std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t,
                   std::uint64_t) {
  check_integer<T>();
}

TEST_CASE_TEMPLATE("reals: all ops, lengths, alignments, scales", T, float, double, float16,
                   bfloat16) {
  check_real<T>();
}

TEST_CASE_TEMPLATE("complex: all ops, lengths, alignments, scales", T, c64, c128) {
  check_real<T>();
}

TEST_CASE("bool: logical ops") {
  check_op<bool, hvdlite::logical_and>({1}, {{1, 1}});
  check_op<bool, hvdlite::logical_or>({1}, {{1, 1}});
  // Any byte but 0 is true, and what is written is 0 or 1.
  for (const unsigned byte : {0u, 1u, 2u, 0x80u, 0xffu}) {
    const auto in = static_cast<std::byte>(byte);
    alignas(64) std::array<std::byte, 64> acc{};
    std::byte out{0x77};
    const auto& table = kernels_of<bool, hvdlite::logical_and>;
    table.fill_identity(acc.data(), 1, nullptr);
    table.accumulate(acc.data(), &in, 1, 1, nullptr);
    table.store(&out, acc.data(), 1, {});
    CHECK(out == std::byte{byte != 0});
  }
}

TEST_CASE_TEMPLATE("user_op: the context is the op, the order is kept", T, std::int16_t, float,
                   float16) {
  using A = wide<T>;
  // Not commutative: shows which side is which.
  const auto function = [weight = A(2)](A a, A b) { return static_cast<A>(a + weight * b); };
  const hvdlite::user_op op{"weigh", function, T(5)};
  using op_t = std::remove_const_t<decltype(op)>;
  std::vector<T> x;
  for (int i = 1; i <= 3; ++i) x.push_back(static_cast<T>(static_cast<float>(i)));
  alignas(64) std::array<std::byte, 64> acc{}, other{};
  const auto& table = kernels_of<T, op_t>;
  const auto* bytes = reinterpret_cast<const std::byte*>(x.data());
  table.load(acc.data(), bytes, 1, 1);
  table.accumulate(acc.data(), bytes + sizeof(T), 1, 1, &op);
  table.load(other.data(), bytes + 2 * sizeof(T), 1, 1);
  table.combine(acc.data(), acc.data(), other.data(), 1, &op);
  T result;
  table.store(reinterpret_cast<std::byte*>(&result), acc.data(), 1, {});
  CHECK(static_cast<float>(result) == 1 + 2 * 2 + 2 * 3);
  table.fill_identity(acc.data(), 3, &op);
  std::array<T, 3> neutral;
  table.store(reinterpret_cast<std::byte*>(neutral.data()), acc.data(), 3, {});
  for (const T each : neutral) CHECK(static_cast<float>(each) == 5);
}

TEST_CASE_TEMPLATE("nothing but identities gives the identity", T, std::int32_t, float, double) {
  using L = std::numeric_limits<T>;
  CHECK(reduced<T, hvdlite::sum>({}) == T(0));
  CHECK(reduced<T, hvdlite::product>({}) == T(1));
  CHECK(reduced<T, hvdlite::min>({}) == (L::has_infinity ? L::infinity() : (L::max)()));
  CHECK(reduced<T, hvdlite::max>({}) == (L::has_infinity ? -L::infinity() : L::lowest()));
  for (const std::size_t n : {1u, 16u, 33u}) {  // all of them
    std::vector<T> out(n, T(9));
    accumulators acc{n * sizeof(T)};
    const auto& table = kernels_of<T, hvdlite::max>;
    table.fill_identity(acc.data(), n, nullptr);
    CHECK_FALSE(acc.overrun());
    table.store(reinterpret_cast<std::byte*>(out.data()), acc.data(), n, {});
    for (const T each : out) CHECK(each == reduced<T, hvdlite::max>({}));
  }
}

TEST_CASE("sums and products of integers wrap") {
  CHECK(reduced<std::int8_t, hvdlite::sum>({127, 1}) == -128);
  CHECK(reduced<std::int8_t, hvdlite::product>({100, 100}) == 16);
  CHECK(reduced<std::uint8_t, hvdlite::sum>({255, 2}) == 1);
  CHECK(reduced<std::uint16_t, hvdlite::product>({65535, 65535}) == 1);
  CHECK(reduced<std::int32_t, hvdlite::sum>({INT32_MAX, 1}) == INT32_MIN);
  CHECK(reduced<std::int32_t, hvdlite::product>({65536, 65536}) == 0);
  CHECK(reduced<std::int64_t, hvdlite::sum>({INT64_MAX, INT64_MAX}) == -2);
  CHECK(reduced<std::uint64_t, hvdlite::product>({UINT64_MAX, UINT64_MAX}) == 1);
}

TEST_CASE("averages of integers that scales take beyond the type end at its ends, like sums") {
  const std::int8_t x = 100;
  alignas(64) std::byte acc[64];
  std::int8_t result = 0;
  const auto run = [&](const hvdlite::kernel_table& kernels, double prescale, root_scale root) {
    kernels.load(acc, reinterpret_cast<const std::byte*>(&x), 1, prescale);
    kernels.store(reinterpret_cast<std::byte*>(&result), acc, 1, root);
    return result;
  };
  CHECK(run(hvdlite::kernels_of<std::int8_t, hvdlite::average>, 1, {1, 2}) == 127);
  CHECK(run(hvdlite::kernels_of<std::int8_t, hvdlite::average>, 1, {1, -2}) == -128);
  CHECK(run(hvdlite::kernels_of<std::int8_t, hvdlite::average>, 3, {1, 1}) == 127);
  CHECK(run(hvdlite::kernels_of<std::int8_t, hvdlite::sum>, 1, {1, 2}) == 127);
}

TEST_CASE("averages of integers: no overflow on the way, truncated toward zero") {
  CHECK(reduced<std::int8_t, hvdlite::average>({127, 127, 127}, {3, 1}) == 127);
  CHECK(reduced<std::int8_t, hvdlite::average>({-128, -128}, {2, 1}) == -128);
  CHECK(reduced<std::int32_t, hvdlite::average>({INT32_MAX, INT32_MAX}, {2, 1}) == INT32_MAX);
  CHECK(reduced<std::int64_t, hvdlite::average>({INT64_MAX, INT64_MAX}, {2, 1}) == INT64_MAX);
  CHECK(reduced<std::int64_t, hvdlite::average>({INT64_MIN, INT64_MIN}, {2, 1}) == INT64_MIN);
  CHECK(reduced<std::uint64_t, hvdlite::average>({UINT64_MAX, UINT64_MAX}, {2, 1}) == UINT64_MAX);
  // Beyond 2^53, where a double would round.
  CHECK(reduced<std::int64_t, hvdlite::average>(
            {(std::int64_t{1} << 60) + 1, (std::int64_t{1} << 60) + 1}, {2, 1}) ==
        (std::int64_t{1} << 60) + 1);
  CHECK(reduced<std::int32_t, hvdlite::average>({1, 2}, {2, 1}) == 1);
  CHECK(reduced<std::int32_t, hvdlite::average>({-1, -2}, {2, 1}) == -1);
  CHECK(reduced<std::int32_t, hvdlite::average>({-1, 0, 0}, {3, 1}) == 0);
  CHECK(reduced<std::int32_t, hvdlite::average>({2, 2, 3}, {3, 1}) == 2);
  CHECK(reduced<std::int32_t, hvdlite::average>({7, 7}, {2.5, 1}) == 5);  // 5.6: no whole divisor
}

TEST_CASE("halves: large ones do not overflow on the way, small ones do not vanish") {
  const auto average = [](std::vector<float> x) {
    std::vector<float16> in;
    for (const float each : x) in.push_back(float16{each});
    return static_cast<float>(
        reduced<float16, hvdlite::average>(in, {static_cast<double>(x.size()), 1}));
  };
  CHECK(average({60000, 60000, 60000, 60000}) == float16{60000.0f});
  // 1024 + 8 x 0.5: in half precision each 0.5 would be lost at a tie.
  std::vector<float16> in{float16{2048.0f}};
  for (int i = 0; i < 8; ++i) in.push_back(float16{0.5f});
  CHECK(static_cast<float>(reduced<float16, hvdlite::sum>(in)) == 2052);
  std::vector<bfloat16> brain{bfloat16{256.0f}};
  for (int i = 0; i < 8; ++i) brain.push_back(bfloat16{0.5f});
  CHECK(static_cast<float>(reduced<bfloat16, hvdlite::sum>(brain)) == 260);
  // One rounding at the end: 1 + 2^-11 is a tie, and goes up with what comes after.
  CHECK(static_cast<float>(reduced<float16, hvdlite::sum>(
            {float16{1.0f}, float16{0x1p-11f}, float16{0x1p-20f}})) == 1 + 0x1p-10f);
}

TEST_CASE("NaN reaches the result of every op on reals") {
  const float x = std::numeric_limits<float>::quiet_NaN();
  for (const auto& in : {std::vector<float>{x, 1, 2}, {1, x, 2}, {1, 2, x}}) {
    CHECK(std::isnan(reduced<float, hvdlite::sum>(in)));
    CHECK(std::isnan(reduced<float, hvdlite::average>(in)));
    CHECK(std::isnan(reduced<float, hvdlite::product>(in)));
    CHECK(std::isnan(reduced<float, hvdlite::min>(in)));
    CHECK(std::isnan(reduced<float, hvdlite::max>(in)));
  }
}

TEST_CASE("the sign of zero is kept") {
  CHECK(std::signbit(through<float, hvdlite::sum>(-0.0f, 1)));
  CHECK(std::signbit(through<float, hvdlite::sum>(0.0f, -1)));
  CHECK(std::signbit(static_cast<float>(through<float16, hvdlite::sum>(float16{-0.0f}, 1))));
}

TEST_CASE("hostile factors on reals: infinity and NaN as arithmetic has them") {
  CHECK(std::isnan(through<float, hvdlite::sum>(1, not_a_number)));
  CHECK(std::isnan(through<float, hvdlite::sum>(0, infinite)));
  CHECK(through<float, hvdlite::sum>(1, infinite) == std::numeric_limits<float>::infinity());
  CHECK(through<double, hvdlite::sum>(1, 1e300) == 1e300);
  CHECK(through<double, hvdlite::sum>(1e10, 1e300) == infinite);
  const float16 one{1.0f};
  CHECK(std::isnan(static_cast<float>(through<float16, hvdlite::sum>(one, not_a_number))));
  CHECK(through<float16, hvdlite::sum>(one, 1e9).bits() == 0x7c00);
  CHECK(std::isnan(through<double, hvdlite::sum>(1, 1, {not_a_number, 1})));
  CHECK(through<double, hvdlite::sum>(1, 1, {infinite, 1}) == 0);
  CHECK(through<double, hvdlite::sum>(1, 1, {0, 1}) == infinite);
}

TEST_CASE_TEMPLATE("hostile factors on integers: the ends of the range, NaN becomes 0", T,
                   std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t,
                   std::uint16_t, std::uint32_t, std::uint64_t) {
  constexpr T low = std::numeric_limits<T>::lowest(), high = (std::numeric_limits<T>::max)();
  for (const double huge : {1e300, infinite, 1e20}) {
    CHECK(through<T, hvdlite::sum>(1, huge) == high);
    CHECK(through<T, hvdlite::max>(1, -huge) == low);
    CHECK(through<T, hvdlite::product>(1, 1, {1, huge}) == high);
    CHECK(through<T, hvdlite::min>(1, 1, {1, -huge}) == low);
  }
  CHECK(through<T, hvdlite::sum>(1, not_a_number) == 0);
  CHECK(through<T, hvdlite::sum>(1, 1, {1, not_a_number}) == 0);
  CHECK(through<T, hvdlite::sum>(0, infinite) == 0);
  CHECK(through<T, hvdlite::sum>(high, 0) == 0);
  CHECK(through<T, hvdlite::sum>(3, 0.5) == 1);  // toward zero
  CHECK(through<T, hvdlite::sum>(3, -0.25) == 0);
  if constexpr (std::is_signed_v<T>) {
    CHECK(through<T, hvdlite::sum>(-3, 0.5) == -1);
    CHECK(through<T, hvdlite::sum>(low, -1) == high);  // one more than there is
  } else {
    CHECK(through<T, hvdlite::sum>(3, -1) == 0);
  }
  if constexpr (sizeof(T) < 8) {
    CHECK(through<T, hvdlite::average>(1, not_a_number) == 0);
    CHECK(through<T, hvdlite::average>(high, 1e-300) == 0);
  }
}
