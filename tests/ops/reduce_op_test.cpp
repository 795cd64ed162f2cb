// SPDX-License-Identifier: Apache-2.0
// Which pairs of op and element there are, what they accumulate in, the identities, and how two
// accumulators become one.
#include <doctest/doctest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>

#include <hvdlite/ops/reduce_op.hpp>

namespace ops = hvdlite;
using hvdlite::bfloat16;
using hvdlite::float16;
using c64 = std::complex<float>;
using c128 = std::complex<double>;

namespace {

enum class kind { boolean, integer, real, complex };

// Op supports exactly the elements of these kinds.
template <class Op>
constexpr bool supports_exactly(std::initializer_list<kind> kinds) {
  const auto has = [&](kind k) {
    for (const kind each : kinds)
      if (each == k) return true;
    return false;
  };
  const auto all = [&]<class... T>(kind k, std::type_identity<T>...) {
    return ((Op::template supports<T> == has(k)) && ...);
  };
  using std::type_identity;
  return all(kind::boolean, type_identity<bool>{}) &&
         all(kind::integer, type_identity<std::int8_t>{}, type_identity<std::int16_t>{},
             type_identity<std::int32_t>{}, type_identity<std::int64_t>{},
             type_identity<std::uint8_t>{}, type_identity<std::uint16_t>{},
             type_identity<std::uint32_t>{}, type_identity<std::uint64_t>{}) &&
         all(kind::real, type_identity<float16>{}, type_identity<bfloat16>{},
             type_identity<float>{}, type_identity<double>{}) &&
         all(kind::complex, type_identity<c64>{}, type_identity<c128>{});
}

static_assert(supports_exactly<ops::sum>({kind::integer, kind::real, kind::complex}));
static_assert(supports_exactly<ops::average>({kind::integer, kind::real, kind::complex}));
static_assert(supports_exactly<ops::product>({kind::integer, kind::real, kind::complex}));
static_assert(supports_exactly<ops::min>({kind::integer, kind::real}));
static_assert(supports_exactly<ops::max>({kind::integer, kind::real}));
static_assert(supports_exactly<ops::logical_and>({kind::boolean, kind::integer}));
static_assert(supports_exactly<ops::logical_or>({kind::boolean, kind::integer}));

template <class Op, class T, class A>
constexpr bool accumulates_in = std::is_same_v<typename Op::template accumulator<T>, A>;
static_assert(accumulates_in<ops::sum, float16, float>);
static_assert(accumulates_in<ops::sum, bfloat16, float>);
static_assert(accumulates_in<ops::average, float16, float>);
static_assert(accumulates_in<ops::max, float16, float>);
static_assert(accumulates_in<ops::sum, float, float> && accumulates_in<ops::sum, double, double>);
static_assert(accumulates_in<ops::sum, c64, c64> && accumulates_in<ops::average, c128, c128>);
// Wrapping sums and products must not overflow a signed type, nor one that promotes to it.
template <class T>
constexpr bool wraps = std::is_unsigned_v<typename ops::sum::accumulator<T>> &&
                       std::is_unsigned_v<typename ops::product::accumulator<T>> &&
                       sizeof(typename ops::sum::accumulator<T>) >= sizeof(T) &&
                       sizeof(typename ops::product::accumulator<T>) >= sizeof(int);
static_assert(wraps<std::int8_t> && wraps<std::int16_t> && wraps<std::int32_t> &&
              wraps<std::int64_t> && wraps<std::uint16_t> && wraps<std::uint64_t>);
static_assert(accumulates_in<ops::average, std::int8_t, std::int64_t>);
static_assert(accumulates_in<ops::average, std::uint32_t, std::int64_t>);
static_assert(sizeof(ops::average::accumulator<std::int64_t>) == 16);
static_assert(sizeof(ops::average::accumulator<std::uint64_t>) == 16);
static_assert(ops::average::accumulator<std::int64_t>(-1) < 0);
static_assert(ops::average::accumulator<std::uint64_t>(-1) > 0);

// An op is what says so; being callable is not enough.
struct callable {
  float operator()(float a, float b) const { return a + b; }
};
struct mine : ops::sum {};
static_assert(ops::reduce_op<ops::sum> && ops::reduce_op<const ops::max&> && ops::reduce_op<mine>);
static_assert(!ops::reduce_op<callable> && !ops::reduce_op<std::plus<>> && !ops::reduce_op<int>);
static_assert(!ops::reduce_op<float(float, float)>);

template <class Op, class T>
typename Op::template accumulator<T> combine(typename Op::template accumulator<T> a,
                                             typename Op::template accumulator<T> b) {
  return Op::template combine<T>(a, b);
}

template <class Op, class T>
void check_identity(std::initializer_list<T> values) {
  using A = typename Op::template accumulator<T>;
  for (const T value : values) {
    const auto a = static_cast<A>(value);
    CHECK(combine<Op, T>(a, Op::template identity<T>()) == a);
    CHECK(combine<Op, T>(Op::template identity<T>(), a) == a);
  }
}

template <class T>
void check_identities() {
  using L = std::numeric_limits<T>;
  check_identity<ops::sum, T>({T(0), T(3), L::lowest(), (L::max)()});
  check_identity<ops::average, T>({T(0), T(3), L::lowest(), (L::max)()});
  check_identity<ops::product, T>({T(0), T(3), L::lowest(), (L::max)()});
  check_identity<ops::min, T>({T(0), T(3), L::lowest(), (L::max)()});
  check_identity<ops::max, T>({T(0), T(3), L::lowest(), (L::max)()});
}

}  // namespace

TEST_CASE_TEMPLATE("identities change nothing", T, std::int8_t, std::int16_t, std::int32_t,
                   std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, float,
                   double) {
  check_identities<T>();
}

TEST_CASE("identities of infinities, complex numbers and truth values") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  check_identity<ops::sum, float>({inf, -inf});
  check_identity<ops::min, float>({inf, -inf});
  check_identity<ops::max, float>({inf, -inf});
  CHECK(ops::max::identity<float16>() == -inf);
  CHECK(ops::min::identity<float16>() == inf);
  check_identity<ops::sum, c64>({{1, 2}, {0, -3}});
  check_identity<ops::product, c128>({{1, 2}, {0, -3}});
  for (const std::uint8_t x : {std::uint8_t{0}, std::uint8_t{1}}) {
    CHECK(combine<ops::logical_and, bool>(x, ops::logical_and::identity<bool>()) == x);
    CHECK(combine<ops::logical_or, bool>(x, ops::logical_or::identity<bool>()) == x);
  }
}

TEST_CASE("min and max: NaN wins from either side, also against infinity") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float x : {0.0f, 1.0f, -1.0f, std::numeric_limits<float>::infinity(),
                        -std::numeric_limits<float>::infinity(), nan}) {
    CHECK(std::isnan(combine<ops::min, float>(x, nan)));
    CHECK(std::isnan(combine<ops::min, float>(nan, x)));
    CHECK(std::isnan(combine<ops::max, float>(x, nan)));
    CHECK(std::isnan(combine<ops::max, float>(nan, x)));
  }
  CHECK(combine<ops::min, float>(1, 2) == 1);
  CHECK(combine<ops::min, float>(2, 1) == 1);
  CHECK(combine<ops::max, float>(1, 2) == 2);
  CHECK(combine<ops::max, float>(2, 1) == 2);
  CHECK(combine<ops::min, std::int8_t>(-1, 1) == -1);
  CHECK(combine<ops::max, std::uint8_t>(255, 1) == 255);
}

TEST_CASE("names are what messages call the ops, and differ") {
  const std::set<std::string_view> names{
      ops::sum::name,     ops::average::name,     ops::min::name,       ops::max::name,
      ops::product::name, ops::logical_and::name, ops::logical_or::name};
  CHECK(names == std::set<std::string_view>{"sum", "average", "min", "max", "product",
                                            "logical_and", "logical_or"});
}

TEST_CASE("user_op: name, function and identity; defined where the function is") {
  const auto absmax = [](auto a, auto b) { return std::abs(a) < std::abs(b) ? b : a; };
  const ops::user_op op{"absmax", absmax, 0};
  using op_t = std::remove_const_t<decltype(op)>;
  static_assert(ops::reduce_op<op_t> && ops::detail::is_user_op_v<op_t>);
  static_assert(!ops::detail::is_user_op_v<ops::sum>);
  static_assert(op_t::supports<float> && op_t::supports<int> && op_t::supports<float16>);
  static_assert(accumulates_in<op_t, float16, float> && accumulates_in<op_t, int, int>);
  CHECK(op.name == "absmax");
  CHECK(op.function(-3.0f, 2.0f) == -3.0f);
  CHECK(op.neutral == 0);
  // The name may be made at run time.
  const ops::user_op named{std::string{"abs"} + "max", absmax, 0.0};
  CHECK(named.name == "absmax");

  const auto only_strings = [](const std::string& a, const std::string&) { return a; };
  static_assert(!ops::user_op<decltype(only_strings), int>::supports<float>);
  const auto only_ints = [](int a, int b) { return a ^ b; };
  static_assert(ops::user_op<decltype(only_ints), int>::supports<int>);
  static_assert(!ops::user_op<decltype(absmax), std::string>::supports<float>);
  static_assert(ops::user_op<decltype(absmax), float>::supports<float>);
}
