// SPDX-License-Identifier: Apache-2.0
// Prints the bits of the results of all kernels on reals. Compiled with and without fused
// multiply-add it must print the same. Prints also what a plain a*b+c gives, to show that the
// fusing compiler does fuse.
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iomanip>
#include <iostream>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include <hvdlite/ops/tree.hpp>

namespace {

// A generator of our own: the standard's distributions might be fused, too.
class generator {
 public:
  std::uint32_t next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(state_ >> 33);
  }
  // k / 2^22, -256 to 256: exact, and products need rounding.
  double number() { return (static_cast<double>(next()) - 0x1p30) * 0x1p-22; }

 private:
  std::uint64_t state_ = 1;
};

template <class T>
T element(generator& random) {
  const auto real = static_cast<float>(random.number());
  if constexpr (hvdlite::is_complex_v<T>)
    return {static_cast<typename T::value_type>(real),
            static_cast<typename T::value_type>(random.number())};
  else
    return static_cast<T>(real);
}

template <class T>
void print(std::string_view what, std::span<const T> values) {
  std::vector<unsigned char> bytes(values.size_bytes());
  std::memcpy(bytes.data(), values.data(), bytes.size());
  std::uint64_t hash = 14695981039346656037u;
  for (const unsigned char byte : bytes) hash = (hash ^ byte) * 1099511628211u;
  std::cout << what << ' ' << hvdlite::dtype_name(hvdlite::dtype_of<T>()) << ' ' << std::hex << hash
            << std::dec << '\n';
}

template <class T, class Op>
void probe(double factor, hvdlite::root_scale root) {
  constexpr std::size_t count = 700, ranks = 7;
  generator random;
  std::vector<std::vector<T>> rows(ranks);
  std::vector<hvdlite::leaf> leaves;
  for (auto& row : rows) {
    for (std::size_t i = 0; i < count; ++i) row.push_back(element<T>(random));
    leaves.push_back({reinterpret_cast<const std::byte*>(row.data()), factor});
  }
  const std::vector<int> nodes(ranks, 0);
  hvdlite::tree_evaluator evaluate{
      hvdlite::reduction_tree{nodes.data(), static_cast<int>(nodes.size())}};
  std::vector<T> result(count);
  evaluate(hvdlite::kernels_of<T, Op>, nullptr, leaves.data(),
           reinterpret_cast<std::byte*>(result.data()), count, root);
  print<T>(Op::name, result);
}

template <class T>
void probe_all() {
  probe<T, hvdlite::sum>(1, {});
  probe<T, hvdlite::sum>(0.3, {1, 0.7});
  probe<T, hvdlite::average>(1.1, {2.5, 1});
  probe<T, hvdlite::average>(0.3, {7, 0.7});
  probe<T, hvdlite::product>(0.01, {});
}

}  // namespace

int main(int argc, char**) {
  if (argc > 1) {  // what the compiler does without our care
    generator random;
    std::vector<float> a(700), b(700), c(700);
    for (auto* each : {&a, &b, &c})
      for (float& x : *each) x = element<float>(random);
    for (std::size_t i = 0; i < a.size(); ++i) c[i] = a[i] * b[i] + c[i];
    print<float>("careless", c);
    return 0;
  }
  probe_all<float>();
  probe_all<double>();
  probe_all<hvdlite::float16>();
  probe_all<hvdlite::bfloat16>();
  probe_all<std::complex<float>>();
  probe_all<std::complex<double>>();
}
