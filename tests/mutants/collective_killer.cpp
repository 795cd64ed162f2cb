// SPDX-License-Identifier: Apache-2.0
// What kills the mutants of the collective layers: short tests on threads, each of which looks at
// one property from outside. The suites proper test more; these compile fast and end soon.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <hvdlite/collective/allreduce.hpp>
#include <hvdlite/collective/barrier.hpp>
#include <hvdlite/collective/broadcast.hpp>
#include <hvdlite/collective/launch.hpp>

namespace {

using hvdlite::allreduce_options;
using world_type = hvdlite::default_communicator;
using floats = std::vector<float>;

// A variable for all ranks, while no other thread runs.
class variable {
 public:
  variable(const char* name, const char* value) : name_{name} { setenv(name, value, 1); }
  variable(const variable&) = delete;
  variable& operator=(const variable&) = delete;
  ~variable() { unsetenv(name_); }

 private:
  const char* name_;
};

// The type of error that f throws: "mismatch", "timeout", "lost", "usage", "none"; and its text.
template <class F>
std::pair<std::string, std::string> outcome(F&& f) {
  try {
    f();
  } catch (const hvdlite::mismatch_error& e) {
    return {"mismatch", e.what()};
  } catch (const hvdlite::timeout_error& e) {
    return {"timeout", e.what()};
  } catch (const hvdlite::peer_lost_error& e) {
    return {"lost", e.what()};
  } catch (const hvdlite::usage_error& e) {
    return {"usage", e.what()};
  }
  return {"none", ""};
}

// A call that all ranks make alike, with a result that shows it.
void correct_call(const world_type& world) {
  floats x(3, static_cast<float>(world.rank()));
  hvdlite::allreduce(world, x, hvdlite::sum{});
  CHECK(x == floats(3, static_cast<float>(world.size() * (world.size() - 1) / 2)));
}

// Rank 1 makes another call than rank 0: a mismatch on both, that names `words`; then all is well.
template <class F>
void check_mismatch(F&& call, std::string_view words) {
  const variable limit{"HVDLITE_TIMEOUT", "5"};
  hvdlite::launch(2, [&](const world_type& world) {
    const auto [kind, text] = outcome([&] { call(world, world.rank() == 1); });
    CHECK(kind == "mismatch");
    CHECK(text.find(words) != std::string::npos);
    correct_call(world);
  });
}

floats numbered(int rank, std::size_t count) {
  floats x(count);
  for (std::size_t i = 0; i < count; ++i)
    x[i] = static_cast<float>(i % 1000) + 1000 * static_cast<float>(rank + 1);
  return x;
}

}  // namespace

// --- Values ------------------------------------------------------------------------------------

TEST_CASE("sum") {
  for (const char* chunk : {"64", "4096", "262144"}) {
    const variable chunks{"HVDLITE_CHUNK_BYTES", chunk};
    for (const int n : {2, 3, 4})
      hvdlite::launch(n, [&](const world_type& world) {
        for (const std::size_t count : {1u, 7u, 8u, 9u, 131u, 1031u, 4099u}) {
          floats x = numbered(world.rank(), count), expected(count);
          for (int r = 0; r < n; ++r)
            for (std::size_t i = 0; i < count; ++i) expected[i] += numbered(r, count)[i];
          hvdlite::allreduce(world, x, hvdlite::sum{});
          CHECK(x == expected);
        }
      });
  }
}

TEST_CASE("order") {  // a op that shows which rank is left of which
  const auto first = hvdlite::user_op{"first", [](auto a, auto) { return a; }, 0};
  hvdlite::launch(3, [&](const world_type& world) {
    for (const std::size_t count : {3u, 2000u}) {
      floats x(count, static_cast<float>(world.rank() + 5));
      hvdlite::allreduce(world, x, first);
      CHECK(x == floats(count, 5));
    }
  });
}

TEST_CASE("average") {
  hvdlite::launch(4, [](const world_type& world) {
    for (const std::size_t count : {3u, 2000u}) {
      floats x(count, static_cast<float>(world.rank()));
      hvdlite::allreduce(world, x);
      CHECK(x == floats(count, 1.5f));
    }
  });
}

TEST_CASE("scales") {
  hvdlite::launch(2, [](const world_type& world) {
    for (const std::size_t count : {3u, 2000u}) {
      floats x(count, static_cast<float>(world.rank() + 1));
      hvdlite::allreduce(world, x, hvdlite::sum{}, {.prescale = 2});
      CHECK(x == floats(count, 6));
      hvdlite::allreduce(world, x, hvdlite::sum{}, {.postscale = 0.25});
      CHECK(x == floats(count, 3));
    }
  });
}

TEST_CASE("weights") {
  hvdlite::launch(3, [](const world_type& world) {
    for (const std::size_t count : {3u, 2000u}) {
      floats x(count, static_cast<float>(world.rank()));
      hvdlite::allreduce(world, x, {.samples = 1 + world.rank()});
      CHECK(x == floats(count, (0 * 1 + 1 * 2 + 2 * 3) / 6.0f));
    }
  });
}

TEST_CASE("no samples") {  // what weighs nothing is not looked at
  hvdlite::launch(3, [](const world_type& world) {
    const bool empty = world.rank() == 1;
    for (const std::size_t count : {3u, 2000u}) {
      floats x(count, empty ? std::numeric_limits<float>::quiet_NaN() : 4.0f);
      hvdlite::allreduce(world, x, {.samples = empty ? 0 : 2 + world.rank()});
      CHECK(x == floats(count, 4));
    }
  });
}

TEST_CASE("broadcast") {
  const variable chunks{"HVDLITE_CHUNK_BYTES", "64"};
  hvdlite::launch(3, [](const world_type& world) {
    for (int root = 0; root < 3; ++root)
      for (const std::size_t count : {3u, 2000u}) {
        floats x = numbered(world.rank(), count);
        hvdlite::broadcast(world, x, root);
        CHECK(x == numbered(root, count));
      }
  });
}

TEST_CASE("strided") {
  hvdlite::launch(2, [](const world_type& world) {
    for (const std::size_t count : {3u, 2000u}) {
      floats memory(3 * count, -1);
      for (std::size_t i = 0; i < count; ++i)
        memory[3 * i] = static_cast<float>(world.rank()) + static_cast<float>(i);
      hvdlite::allreduce(world, hvdlite::strided_buffer<float>{memory.data(), {count}, {3}},
                         hvdlite::sum{});
      bool right = true;
      for (std::size_t i = 0; i < memory.size(); ++i)
        right = right && memory[i] == (i % 3 == 0 ? 1 + 2 * static_cast<float>(i / 3) : -1.0f);
      CHECK(right);
    }
  });
}

TEST_CASE("overlapping") {
  const variable chunks{"HVDLITE_CHUNK_BYTES", "64"};
  hvdlite::launch(2, [](const world_type& world) {
    for (const int shift : {1, 5, 200}) {
      constexpr std::size_t count = 1000;
      floats memory = numbered(0, count + 200);
      const floats before = memory;
      hvdlite::allreduce(world, hvdlite::buffer{memory.data(), count},
                         hvdlite::buffer{memory.data() + shift, count}, hvdlite::sum{});
      bool right = true;
      for (std::size_t i = 0; i < count; ++i)
        right = right && memory[i + static_cast<std::size_t>(shift)] == 2 * before[i];
      CHECK(right);
    }
  });
}

TEST_CASE("split") {
  hvdlite::launch(4, [](const world_type& world) {
    const auto part = world.split(world.rank() % 2, -world.rank());
    CHECK(part.size() == 2);
    CHECK(part.rank() == (world.rank() < 2 ? 1 : 0));  // the higher rank has the lower key
    float x = static_cast<float>(world.rank());
    hvdlite::allreduce(part, x, hvdlite::sum{});
    CHECK(x == (world.rank() % 2 == 0 ? 2.0f : 4.0f));
    const auto some = world.subset({3, 1});
    CHECK(static_cast<bool>(some) == (world.rank() % 2 == 1));
    if (some) CHECK(some.rank() == world.rank() / 2);
  });
}

// Many messages through few slots: what a missing order of memory accesses shows in, for TSan.
TEST_CASE("traffic") {
  const variable chunks{"HVDLITE_CHUNK_BYTES", "64"};
  hvdlite::launch(3, [](const world_type& world) {
    for (int round = 0; round < 20; ++round) {
      floats x = numbered(world.rank(), 1100 + static_cast<std::size_t>(round));
      const floats own = x;
      hvdlite::allreduce(world, x, hvdlite::sum{});
      bool right = true;
      for (std::size_t i = 0; i < x.size(); ++i)
        right = right && x[i] == 6000 + 3 * static_cast<float>(i % 1000);
      CHECK(right);
      correct_call(world);
      x = own;
      hvdlite::broadcast(world, x, round % 3);
      CHECK(x == numbered(round % 3, x.size()));
    }
  });
}

// --- Agreement ---------------------------------------------------------------------------------

TEST_CASE("mismatch: dtype") {
  check_mismatch(
      [](const world_type& world, bool other) {
        int i[4] = {};
        float f[4] = {};
        other ? hvdlite::allreduce(world, i, hvdlite::sum{})
              : hvdlite::allreduce(world, f, hvdlite::sum{});
      },
      "dtype: f32 on rank 0, i32 on rank 1");
}

TEST_CASE("mismatch: shape") {
  check_mismatch(
      [](const world_type& world, bool other) {
        float a[3][2] = {}, b[2][3] = {};
        other ? hvdlite::allreduce(world, a) : hvdlite::allreduce(world, b);
      },
      "shape: [2, 3] on rank 0, [3, 2] on rank 1");
}

TEST_CASE("mismatch: memory order") {
  check_mismatch(
      [](const world_type& world, bool other) {
        float a[6] = {};
        const hvdlite::strided_buffer<float> rows{a, {2, 3}, {3, 1}}, columns{a, {2, 3}, {1, 2}};
        hvdlite::allreduce(world, other ? columns : rows);
      },
      "memory order: row-major on rank 0, column-major on rank 1");
}

TEST_CASE("mismatch: root") {
  check_mismatch(
      [](const world_type& world, bool other) {
        float a[6] = {};
        hvdlite::broadcast(world, a, other ? 1 : 0);
      },
      "root: 0 on rank 0, 1 on rank 1");
}

TEST_CASE("mismatch: op") {
  check_mismatch(
      [](const world_type& world, bool other) {
        float a[6] = {};
        other ? hvdlite::allreduce(world, a, hvdlite::max{})
              : hvdlite::allreduce(world, a, hvdlite::min{});
      },
      "op: min on rank 0, max on rank 1");
}

TEST_CASE("mismatch: scale") {
  check_mismatch(
      [](const world_type& world, bool other) {
        float a[6] = {};
        hvdlite::allreduce(world, a, {.prescale = other ? 2.0 : 1.0});
      },
      "prescale: 1 on rank 0, 2 on rank 1");
  check_mismatch(
      [](const world_type& world, bool other) {
        float a[6] = {};
        hvdlite::allreduce(world, a, {.postscale = other ? 2.0 : 1.0});
      },
      "postscale: 1 on rank 0, 2 on rank 1");
}

TEST_CASE("mismatch: name") {
  check_mismatch(
      [](const world_type& world, bool other) {
        float a[6] = {};
        hvdlite::allreduce(world, a, {.name = other ? "weight" : "bias"});
      },
      "name: 'bias' on rank 0, 'weight' on rank 1");
}

TEST_CASE("mismatch: weight") {
  check_mismatch(
      [](const world_type& world, bool other) {
        float a[6] = {};
        hvdlite::allreduce(world, a, other ? allreduce_options{.samples = 3} : allreduce_options{});
      },
      "weight: none on rank 0, given by .samples on rank 1");
}

TEST_CASE("refused on one rank") {  // told to the other, and consumed by both
  const variable limit{"HVDLITE_TIMEOUT", "3"};
  hvdlite::launch(2, [](const world_type& world) {
    const bool wrong = world.rank() == 1;
    for (int i = 0; i < 3; ++i) {
      float x = 0;
      const auto [kind, text] =
          outcome([&] { hvdlite::allreduce(world, x, {.samples = wrong ? -1 : 1}); });
      CHECK(kind == (wrong ? "usage" : "mismatch"));
      CHECK(text.find("-1") != std::string::npos);
      correct_call(world);
    }
  });
}

// --- Time and loss -----------------------------------------------------------------------------

TEST_CASE("late") {  // the one that gave up answers the one that comes afterwards
  const variable limit{"HVDLITE_TIMEOUT", "0.3"};
  hvdlite::launch(2, [](const world_type& world) {
    float x = 1;
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds{900});
    const auto [kind, text] = outcome([&] { hvdlite::allreduce(world, x); });
    CHECK(kind == "timeout");
    CHECK(text.find(world.rank() == 0 ? "for rank 1" : "rank 0 gave up") != std::string::npos);
    CHECK(x == 1);
    std::this_thread::sleep_for(std::chrono::milliseconds{world.rank() == 0 ? 700 : 100});
    correct_call(world);
  });
}

TEST_CASE("timeout") {
  const variable limit{"HVDLITE_TIMEOUT", "0.3"};
  hvdlite::launch(2, [](const world_type& world) {
    const auto start = std::chrono::steady_clock::now();
    if (world.rank() == 0) {
      CHECK(outcome([&] { hvdlite::barrier(world); }).first == "timeout");
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
      CHECK(waited.count() > 0.29);
      CHECK(waited.count() < 3);
    } else {
      std::this_thread::sleep_for(std::chrono::seconds{4});
    }
  });
}

TEST_CASE("departed") {
  const variable limit{"HVDLITE_TIMEOUT", "10"};
  hvdlite::launch(3, [](const world_type& world) {
    correct_call(world);
    if (world.rank() == 1) return;
    const auto start = std::chrono::steady_clock::now();
    const auto [kind, text] = outcome([&] { hvdlite::barrier(world); });
    CHECK(kind == "lost");
    CHECK(text.find("rank 1 is lost") != std::string::npos);
    CHECK(outcome([&] { hvdlite::barrier(world); }).first == "lost");
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds{5});
  });
}

namespace {

// A transport by hand: what the checker sends is dropped, what it gets is given here.
struct by_hand {
  static inline std::vector<hvdlite::message> inbox;

  static constexpr std::string_view name = "by hand";
  template <class T, class Space>
  static constexpr bool moves = true;
  template <class T, class Space, class Op>
  static constexpr bool reduces = true;
  static bool usable(const hvdlite::placement&) { return true; }
  by_hand(const hvdlite::placement&, const hvdlite::settings&) {}

  bool post(int, const hvdlite::message&) { return true; }
  bool poll(int& from, hvdlite::message& m) {
    if (inbox.empty()) return false;
    from = 1;
    m = inbox.front();
    inbox.erase(inbox.begin());
    return true;
  }
  hvdlite::request start(const hvdlite::operation&, const hvdlite::reduction_terms&) { return {}; }
  hvdlite::state progress(hvdlite::request&) { return hvdlite::state::done; }
  void withdraw(hvdlite::request&) noexcept {}
  void enter() {}
  void abort(std::uint64_t, std::string_view) noexcept {}
};

}  // namespace

TEST_CASE("epoch") {  // messages of another communicator that had the same number
  constexpr std::uint32_t epoch = 7;
  constexpr std::uint64_t call = (std::uint64_t{epoch} << hvdlite::checker::sequence_bits) + 1;
  const hvdlite::placement where{std::make_unique<hvdlite::lone_channel>()};
  hvdlite::backend_model<by_hand> transport{where, {}};
  hvdlite::checker check{&transport, 0, 2, epoch};
  const hvdlite::operation barrier;
  check.begin(barrier, call);
  hvdlite::message stale;
  stale.kind = hvdlite::message_kind::abandoned;
  stale.sequence = (std::uint64_t{epoch + 1} << hvdlite::checker::sequence_bits) + 1;
  by_hand::inbox.push_back(stale);
  CHECK(check.poll() == hvdlite::state::checking);
  hvdlite::message due;
  due.sequence = call;
  due.fingerprint = hvdlite::detail::fingerprint_of(barrier);
  by_hand::inbox.push_back(due);
  CHECK(check.poll() == hvdlite::state::moving);
}
