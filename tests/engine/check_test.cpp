// SPDX-License-Identifier: Apache-2.0
// What happens when ranks do not make the same call: the checker on a transport of the test's own,
// step by step, and every kind of disagreement in whole worlds.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <hvdlite/collective/allreduce.hpp>
#include <hvdlite/collective/barrier.hpp>
#include <hvdlite/collective/broadcast.hpp>
#include <hvdlite/engine/check.hpp>

#include "support/ranks.hpp"

namespace {

using hvdtest::lacking;
using hvdtest::message_of;
using hvdtest::on_every_world;
using hvdtest::world_type;

// ---------------------------------------------------------------- one checker at a time

using hvdlite::message;
using hvdlite::state;

/// Messages of two ranks in memory; `room` is how many fit that have not been polled.
struct wire {
  std::array<std::deque<message>, 2> to;
  std::size_t room = 100;
};

class wired_backend final : public hvdlite::any_backend {
 public:
  wired_backend(wire& shared, int rank) : wire_{&shared}, rank_{rank} {}
  bool post(int to, const message& m) override {
    auto& queue = wire_->to[static_cast<std::size_t>(to)];
    if (queue.size() >= wire_->room) return false;
    queue.push_back(m);
    return true;
  }
  bool poll(int& from, message& m) override {
    auto& queue = wire_->to[static_cast<std::size_t>(rank_)];
    if (queue.empty()) return false;
    from = 1 - rank_;
    m = queue.front();
    queue.pop_front();
    return true;
  }
  hvdlite::request start(const hvdlite::operation&, const hvdlite::reduction_terms&) override {
    return {};
  }
  state progress(hvdlite::request&) override { return state::done; }
  void withdraw(hvdlite::request&) noexcept override {}
  void enter() override {}
  void abort(std::uint64_t, std::string_view) noexcept override {}
  void drop(std::uint64_t, std::string_view) noexcept override {}

 private:
  wire* wire_;
  int rank_;
};

/// Two ranks that the test moves by hand.
struct pair_of_checkers {
  static constexpr std::uint32_t epoch = 7;
  static std::uint64_t call(std::uint64_t number) {
    return (std::uint64_t{epoch} << hvdlite::checker::sequence_bits) + number;
  }

  wire shared;
  wired_backend transport0{shared, 0}, transport1{shared, 1};
  hvdlite::checker zero{&transport0, 0, 2, epoch}, one{&transport1, 1, 2, epoch};
};

hvdlite::operation barrier_named(std::string_view name) {
  hvdlite::operation op;
  op.verb = hvdlite::verb::barrier;
  op.name = name;
  return op;
}

TEST_CASE("checker: agrees when all have come, and not before") {
  pair_of_checkers p;
  const auto op = barrier_named("a");
  p.zero.begin(op, p.call(1));
  CHECK(p.zero.poll() == state::checking);
  using presence = hvdlite::checker::presence;
  const auto missing = p.zero.ranks_that_are(presence::missing);
  REQUIRE(missing.size() == 1);
  CHECK(missing[0] == 1);
  p.one.begin(op, p.call(1));
  CHECK(p.one.poll() == state::moving);
  CHECK(p.one.ranks_that_are(presence::missing).empty());
  CHECK(p.one.ranks_that_are(presence::here).size() == 2);
  CHECK(p.one.last_heard_of(0) == 1);
  CHECK(p.zero.last_heard_of(1) == 0);
  CHECK(p.zero.poll() == state::moving);
}

TEST_CASE("checker: an announcement of a later call waits for that call") {
  pair_of_checkers p;
  const auto op = barrier_named("a");
  p.zero.begin(op, p.call(1));
  p.zero.poll();
  p.one.begin(op, p.call(1));
  CHECK(p.one.poll() == state::moving);
  p.one.end();
  p.one.begin(op, p.call(2));
  CHECK(p.one.poll() == state::checking);  // rank 0 is in call 1
  CHECK(p.zero.poll() == state::moving);   // and finds both announcements
  p.zero.end();
  p.zero.begin(op, p.call(2));
  CHECK(p.zero.poll() == state::moving);
}

TEST_CASE("checker: messages of another communicator are no part of this one") {
  pair_of_checkers p;
  hvdlite::checker stranger{&p.transport1, 1, 2, pair_of_checkers::epoch + 1};
  const auto op = barrier_named("a");
  stranger.begin(
      op, (std::uint64_t{pair_of_checkers::epoch + 1} << hvdlite::checker::sequence_bits) + 1);
  stranger.poll();
  p.zero.begin(op, p.call(1));
  CHECK(p.zero.poll() == state::checking);
}

TEST_CASE("checker: no room in the mailbox is no loss") {
  pair_of_checkers p;
  p.shared.room = 1;
  const auto zero_op = barrier_named("a name that is longer than one message has room for it");
  const auto one_op = barrier_named("b");
  p.zero.begin(zero_op, p.call(1));
  p.one.begin(one_op, p.call(1));
  state zero = state::checking, one = state::checking;
  for (int turn = 0; turn < 100; ++turn) {
    if (zero == state::checking) zero = p.zero.poll();
    if (one == state::checking) one = p.one.poll();
  }
  CHECK(zero == state::disagree);
  CHECK(one == state::disagree);
  CHECK(p.zero.disagreement() == p.one.disagreement());
  CHECK(lacking(p.one.disagreement(), {"longer than one message", "'b'", "rank 0", "rank 1"}) ==
        "");
}

TEST_CASE("checker: one that gives up is noticed by the other, at once and afterwards") {
  pair_of_checkers p;
  const auto op = barrier_named("a");
  p.zero.begin(op, p.call(1));
  p.zero.poll();
  p.zero.abandon();
  p.zero.end();
  p.one.begin(op, p.call(1));
  CHECK(p.one.poll() == state::lost);
  CHECK(p.one.abandoned_by() == 0);
  p.one.end();
  p.zero.begin(op, p.call(2));
  p.zero.poll();
  p.one.begin(op, p.call(2));  // the next call is not touched by it
  CHECK(p.one.poll() == state::moving);
}

TEST_CASE("checker: one that has left is lost from its first missing call on") {
  pair_of_checkers p;
  const auto op = barrier_named("a");
  p.one.begin(op, p.call(1));
  p.one.poll();
  message m;
  m.kind = hvdlite::message_kind::departed;
  m.sequence = p.call(2);
  m.parts = 1;
  m.length = 4;
  for (std::size_t i = 0; i < 4; ++i) m.payload[i] = static_cast<std::byte>("gone"[i]);
  CHECK(p.transport1.post(0, m));
  p.zero.begin(op, p.call(1));
  CHECK(p.zero.poll() == state::moving);  // call 1 was made
  p.zero.end();
  p.zero.begin(op, p.call(2));
  CHECK(p.zero.poll() == state::lost);
  CHECK(p.zero.lost_rank() == 1);
  CHECK(p.zero.reason_of(1) == "gone");
  m.sequence = p.call(3);  // that it leaves once more, later, changes nothing
  CHECK(p.transport1.post(0, m));
  CHECK(p.zero.poll() == state::lost);
  CHECK(p.zero.reason_of(1) == "gone");
}

TEST_CASE("checker: a process that has ended is lost once that is seen twice, and says why") {
  pair_of_checkers p;
  const auto op = barrier_named("a");
  p.one.begin(op, p.call(1));  // it died after that
  CHECK(p.one.poll() == state::checking);
  p.zero.begin(op, p.call(1));
  p.zero.has_ended(1, 4711);
  CHECK_FALSE(p.zero.has_departed(1));
  CHECK(p.zero.poll() == state::moving);  // what it had sent counts
  p.zero.has_ended(1, 4711);
  CHECK(p.zero.has_departed(1));
  CHECK(p.zero.watch() == state::lost);
  CHECK(p.zero.lost_rank() == 1);
  CHECK(p.zero.reason_of(1) == "its process (4711) has ended without a word");
  p.zero.end();
  p.zero.begin(op, p.call(2));
  CHECK(p.zero.poll() == state::lost);
}

TEST_CASE("checker: a process that ended after it has left keeps its reason") {
  pair_of_checkers p;
  message m;
  m.kind = hvdlite::message_kind::departed;
  m.sequence = p.call(1);
  m.parts = 1;
  m.length = 4;
  for (std::size_t i = 0; i < 4; ++i) m.payload[i] = static_cast<std::byte>("gone"[i]);
  CHECK(p.transport1.post(0, m));
  const auto op = barrier_named("a");
  p.zero.begin(op, p.call(1));
  CHECK(p.zero.poll() == state::lost);
  p.zero.has_ended(1, 4711);
  p.zero.has_ended(1, 4711);
  CHECK(p.zero.reason_of(1) == "gone");
}

TEST_CASE("checker: notes of all ranks, or-ed") {
  pair_of_checkers p;
  auto op = barrier_named("a");
  op.notes = 1;
  p.zero.begin(op, p.call(1));
  CHECK(p.zero.poll() == state::checking);
  CHECK(p.zero.notes() == 1);
  op.notes = 4;
  p.one.begin(op, p.call(1));
  CHECK(p.one.poll() == state::moving);
  CHECK(p.zero.poll() == state::moving);
  CHECK(p.zero.notes() == 5);
  CHECK(p.one.notes() == 5);
}

TEST_CASE("ranks in words: all of a few, rows of many") {
  const auto words = [](std::initializer_list<int> ranks) {
    hvdlite::detail::list<int> list;
    for (const int r : ranks) list.push_back(r);
    return std::string{hvdlite::detail::named_ranks(list)};
  };
  CHECK(words({3}) == "rank 3");
  CHECK(words({0, 1}) == "ranks 0 and 1");
  CHECK(words({0, 1, 2}) == "ranks 0, 1 and 2");
  CHECK(words({0, 1, 2, 3}) == "ranks 0 to 3");
  CHECK(words({0, 2, 3, 4, 5, 7}) == "ranks 0, 2 to 5 and 7");
  CHECK(words({1, 2, 4, 6, 7, 8, 9}) == "ranks 1, 2, 4 and 6 to 9");
}

TEST_CASE("checker: weights and tiny payloads travel with the announcement") {
  pair_of_checkers p;
  const std::array<std::int32_t, 8> data{1, 2, 3, 4, 5, 6, 7, 8};
  hvdlite::operation op;
  op.verb = hvdlite::verb::allreduce;
  op.in = reinterpret_cast<const std::byte*>(data.data());
  op.count = data.size();
  op.element_bytes = 4;
  op.type = hvdlite::dtype::i32;
  op.kernels = &hvdlite::kernels_of<std::int32_t, hvdlite::sum>;
  op.weighted = true;
  op.weight = 2.5;
  CHECK(hvdlite::checker::rides_along(op));
  auto other = op;
  other.weight = 4;
  p.zero.begin(op, p.call(1));
  p.one.begin(other, p.call(1));
  p.zero.poll();
  CHECK(p.one.poll() == state::moving);
  CHECK(p.one.weight_of(0) == 2.5);
  CHECK(p.one.weight_of(1) == 4);
  CHECK(p.one.announcement_of(0).length == 32);
  CHECK(std::memcmp(p.one.announcement_of(0).payload.data(), data.data(), 32) == 0);
  op.count = 9;
  CHECK_FALSE(hvdlite::checker::rides_along(op));
}

TEST_CASE("fingerprint: every field that must agree is in it, and no other") {
  hvdlite::operation op;
  op.verb = hvdlite::verb::allreduce;
  op.count = 12;
  op.element_bytes = 4;
  op.type = hvdlite::dtype::f32;
  op.shape = hvdlite::tensor_shape::row_major({3, 4});
  op.kernels = &hvdlite::kernels_of<float, hvdlite::sum>;
  op.op_name = "sum";
  const auto base = hvdlite::detail::fingerprint_of(op);
  using change = std::function<void(hvdlite::operation&)>;
  const std::vector<std::pair<std::string, change>> changes{
      {"verb", [](auto& o) { o.verb = hvdlite::verb::broadcast; }},
      {"name", [](auto& o) { o.name = "w"; }},
      {"dtype", [](auto& o) { o.type = hvdlite::dtype::i32; }},
      {"shape", [](auto& o) { o.shape = hvdlite::tensor_shape::row_major({4, 3}); }},
      {"rank", [](auto& o) { o.shape = hvdlite::tensor_shape::vector(12); }},
      {"order", [](auto& o) { o.shape = hvdlite::tensor_shape::column_major({3, 4}); }},
      {"space", [](auto& o) { o.space = "cuda"; }},
      {"root", [](auto& o) { o.root = 1; }},
      {"op", [](auto& o) { o.op_name = "max"; }},
      {"prescale", [](auto& o) { o.prescale = 2; }},
      {"postscale", [](auto& o) { o.postscale = 2; }},
      {"average", [](auto& o) { o.averages = true; }},
      {"weighted", [](auto& o) { o.weighted = true; }},
      {"refused", [](auto& o) { o.refused = "no"; }},
  };
  std::vector<std::uint64_t> seen{base};
  for (const auto& entry : changes) {
    INFO(entry.first);
    auto changed = op;
    entry.second(changed);
    const auto print = hvdlite::detail::fingerprint_of(changed);
    CHECK(std::count(seen.begin(), seen.end(), print) == 0);
    seen.push_back(print);
  }
  auto same = op;
  same.weight = 3;  // each rank's own
  int other_memory = 0;
  same.out = reinterpret_cast<std::byte*>(&other_memory);
  CHECK(hvdlite::detail::fingerprint_of(same) == base);
}

// ---------------------------------------------------------------- whole worlds

/// The call of most ranks, that of one, and how the message names the two.
struct disagreement {
  std::string_view what;
  std::function<void(const world_type&, bool odd, std::size_t count)> call;
  std::vector<std::string_view> words;
};

template <class T>
void sum_of(const world_type& world, std::size_t count, const hvdlite::allreduce_options& o = {}) {
  std::vector<T> x(count, T{1});
  try {
    hvdlite::allreduce(world, x, hvdlite::sum{}, o);
  } catch (...) {
    CHECK(x == std::vector<T>(count, T{1}));  // untouched
    throw;
  }
}

const auto absmax = [](auto a, auto b) { return a < b ? b : a; };

const std::vector<disagreement>& disagreements() {
  static const std::vector<disagreement> all{
      {"count",
       [](const auto& w, bool odd, std::size_t n) { sum_of<float>(w, odd ? n + 1 : n); },
       {"shape: "}},
      {"dtype of the same size",
       [](const auto& w, bool odd, std::size_t n) {
         odd ? sum_of<std::int32_t>(w, n) : sum_of<float>(w, n);
       },
       {"dtype: ", "f32", "i32"}},
      {"shape of the same count",
       [](const auto& w, bool odd, std::size_t n) {
         std::vector<float> x(4 * n);
         const auto c = static_cast<std::ptrdiff_t>(n);
         if (odd)
           hvdlite::allreduce(w, hvdlite::strided_buffer<float>{x.data(), {4, n}, {c, 1}});
         else
           hvdlite::allreduce(w, hvdlite::strided_buffer<float>{x.data(), {2, 2 * n}, {2 * c, 1}});
       },
       {"shape: ", "[4, ", "[2, "}},
      {"a scalar and a vector of one",
       [](const auto& w, bool odd, std::size_t) {
         float x = 1;
         odd ? hvdlite::allreduce(w, x) : hvdlite::allreduce(w, hvdlite::buffer{&x, 1});
       },
       {"shape: ", "[1]", "[]"}},
      {"memory order",
       [](const auto& w, bool odd, std::size_t n) {
         std::vector<float> x(3 * (n + 1));
         const auto c = static_cast<std::ptrdiff_t>(n + 1);
         if (odd)
           hvdlite::allreduce(w, hvdlite::strided_buffer<float>{x.data(), {3, n + 1}, {1, 3}});
         else
           hvdlite::allreduce(w, hvdlite::strided_buffer<float>{x.data(), {3, n + 1}, {c, 1}});
       },
       {"memory order: ", "row-major", "column-major"}},
      {"op",
       [](const auto& w, bool odd, std::size_t n) {
         std::vector<float> x(n);
         odd ? hvdlite::allreduce(w, x, hvdlite::max{}) : hvdlite::allreduce(w, x, hvdlite::min{});
       },
       {"op: ", "min", "max"}},
      {"sum and average",
       [](const auto& w, bool odd, std::size_t n) {
         std::vector<float> x(n);
         odd ? hvdlite::allreduce(w, x, hvdlite::sum{}) : hvdlite::allreduce(w, x);
       },
       {"op: ", "sum", "average"}},
      {"name of the user's op",
       [](const auto& w, bool odd, std::size_t n) {
         std::vector<float> x(n);
         hvdlite::allreduce(w, x, hvdlite::user_op{odd ? "largest" : "absmax", absmax, 0.0f});
       },
       {"op: ", "absmax", "largest"}},
      {"root",
       [](const auto& w, bool odd, std::size_t n) {
         std::vector<float> x(n);
         hvdlite::broadcast(w, x, odd ? 1 : 0);
       },
       {"root: ", "0 on ", "1 on "}},
      {"prescale",
       [](const auto& w, bool odd, std::size_t n) {
         sum_of<float>(w, n, {.prescale = odd ? 0.5 : 0.25});
       },
       {"prescale: ", "0.5", "0.25"}},
      {"postscale",
       [](const auto& w, bool odd, std::size_t n) {
         sum_of<float>(w, n, {.postscale = odd ? 2.0 : 1.0});
       },
       {"postscale: ", "2 on", "1 on"}},
      {"samples given and not",
       [](const auto& w, bool odd, std::size_t n) {
         std::vector<float> x(n);
         odd ? hvdlite::allreduce(w, x, {.samples = 3}) : hvdlite::allreduce(w, x);
       },
       {"weight: ", "given by .samples", "none"}},
      {"verb",
       [](const auto& w, bool odd, std::size_t n) {
         std::vector<float> x(n);
         odd ? hvdlite::broadcast(w, x) : hvdlite::allreduce(w, x);
       },
       {"verb: ", "allreduce", "broadcast"}},
      {"a barrier",
       [](const auto& w, bool odd, std::size_t n) {
         std::vector<float> x(n);
         odd ? hvdlite::barrier(w) : hvdlite::allreduce(w, x);
       },
       {"verb: ", "allreduce", "barrier"}},
      {"name",
       [](const auto& w, bool odd, std::size_t n) {
         sum_of<float>(w, n, {.name = odd ? "fc2.weight" : "fc1.weight"});
       },
       {"name: ", "'fc1.weight'", "'fc2.weight'"}},
      {"named and unnamed",
       [](const auto& w, bool odd, std::size_t n) {
         sum_of<float>(w, n, {.name = odd ? "" : "fc1"});
       },
       {"name: ", "'fc1'", "(none)"}},
      {"name of a broadcast",
       [](const auto& w, bool odd, std::size_t n) {
         std::vector<float> x(n);
         hvdlite::broadcast(w, x, {.root = 0, .name = odd ? "b" : "a"});
       },
       {"name: ", "'a'", "'b'"}},
      {"name of a barrier",
       [](const auto& w, bool odd, std::size_t) { hvdlite::barrier(w, {.name = odd ? "b" : "a"}); },
       {"name: ", "'a'", "'b'"}},
  };
  return all;
}

/// The next correct call, of numbers that show an old message taken for a new one.
void check_next_call(const world_type& world, int round) {
  std::vector<int> x{world.rank() + round};
  hvdlite::allreduce(world, x, hvdlite::sum{});
  const int n = world.size();
  CHECK(x[0] == n * (n - 1) / 2 + n * round);
}

TEST_CASE("mismatch: every rank gets an error with both values and their ranks, and goes on") {
  for (const std::size_t count : {std::size_t{1}, std::size_t{7}, std::size_t{3001}}) {
    on_every_world(
        [&](const world_type& world) {
          int round = 0;
          for (const auto& d : disagreements())
            for (const int odd : {0, world.size() - 1}) {
              INFO(std::string{d.what}, ", count ", count, ", rank ", odd, " is the odd one");
              const std::string text = message_of<hvdlite::mismatch_error>(
                  [&] { d.call(world, world.rank() == odd, count); });
              for (const auto word : d.words) CHECK(lacking(text, {word}) == "");
              const std::string alone = "on " + hvdtest::ranks_in_words(odd, odd);
              CHECK(lacking(text, {alone}) == "");  // the others as far as they had come
              if (world.size() == 2)
                CHECK(lacking(text, {"on rank " + std::to_string(1 - odd)}) == "");
              CHECK(lacking(text, {"rank " + std::to_string(world.rank()) + " of " +
                                   std::to_string(world.size())}) == "");
              check_next_call(world, ++round);
            }
        },
        {.least = 2});
  }
}

TEST_CASE("mismatch: three different calls") {
  on_every_world(
      [](const world_type& world) {
        const std::string text = message_of<hvdlite::mismatch_error>(
            [&] { sum_of<float>(world, 100 + static_cast<std::size_t>(world.rank() % 3)); });
        // Those that had come; the own call is always among them.
        const int own = 100 + world.rank() % 3;
        CHECK(lacking(text, {"shape: ", "[" + std::to_string(own) + "] on rank"}) == "");
        int named = 0;
        for (const auto* value : {"[100] on", "[101] on", "[102] on"})
          named += text.find(value) != std::string::npos ? 1 : 0;
        CHECK(named >= 2);
        check_next_call(world, 1);
      },
      {.least = 3});
}

TEST_CASE("mismatch: it does not wait for a rank that comes late, which gets the error, too") {
  on_every_world(
      [](const world_type& world) {
        const auto now = [] { return std::chrono::steady_clock::now().time_since_epoch().count(); };
        const int late = world.size() - 1;
        hvdlite::barrier(world);
        if (world.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds{400});
        std::int64_t before = now();
        const std::string text = message_of<hvdlite::mismatch_error>(
            [&] { sum_of<float>(world, world.rank() == 0 ? 10 : 11); });
        CHECK(lacking(text, {"[10] on rank 0", "[11] on rank"}) == "");
        std::int64_t told = world.rank() == late ? 0 : now();
        if (world.rank() != late) before = 0;
        hvdlite::allreduce(world, told, hvdlite::max{});
        hvdlite::allreduce(world, before, hvdlite::max{});
        CHECK(told < before);
      },
      {.least = 3});
}

TEST_CASE("refused: a root out of range on one rank is that rank's usage_error, others are told") {
  on_every_world(
      [](const world_type& world) {
        int round = 0;
        for (const int wrong : {-1, world.size(), 1000}) {
          std::vector<float> x(3, float(world.rank()));
          const int odd = world.size() - 1;
          const auto call = [&] { hvdlite::broadcast(world, x, world.rank() == odd ? wrong : 0); };
          const std::string reason = "root " + std::to_string(wrong) + " is out of range";
          if (world.rank() == odd) {
            CHECK(lacking(message_of<hvdlite::usage_error>(call), {reason}) == "");
          } else {
            const std::string text = message_of<hvdlite::mismatch_error>(call);
            CHECK(lacking(text, {"rank " + std::to_string(odd) + " refuses it: " + reason}) == "");
          }
          CHECK(x == std::vector<float>(3, float(world.rank())));
          check_next_call(world, ++round);
        }
      },
      {.least = 2});
}

TEST_CASE("refused: what all ranks do wrong is a usage_error everywhere, and costs one call") {
  on_every_world([](const world_type& world) {
    int round = 0;
    const auto refused = [&](auto&& call, std::initializer_list<std::string_view> words) {
      CHECK(lacking(message_of<hvdlite::usage_error>(call), words) == "");
      check_next_call(world, ++round);
    };
    std::vector<float> x(3, 1.0f);
    std::vector<std::int64_t> big(3, 1);
    std::array<bool, 3> truth{};
    std::vector<float> two(2);
    refused([&] { hvdlite::broadcast(world, x, world.size()); }, {"root", "out of range"});
    refused([&] { hvdlite::allreduce(world, x, {.samples = -1}); }, {"samples is -1"});
    refused([&] { hvdlite::allreduce(world, x, {.samples = std::nan("")}); }, {"samples is nan"});
    refused([&] { hvdlite::allreduce(world, x, {.samples = HUGE_VAL}); }, {"samples is inf"});
    refused([&] { hvdlite::allreduce(world, x, hvdlite::sum{}, {.samples = 2}); },
            {"samples", "average"});
    refused([&] { hvdlite::allreduce(world, big, hvdlite::sum{}, {.prescale = 0.5}); },
            {"64-bit", "prescale"});
    refused([&] { hvdlite::allreduce(world, big, hvdlite::sum{}, {.postscale = 0.5}); },
            {"64-bit", "postscale"});
    refused([&] { hvdlite::allreduce(world, big, {.samples = 2}); }, {"64-bit"});
    refused([&] { hvdlite::allreduce(world, truth, hvdlite::logical_or{}, {.prescale = 2}); },
            {"logical"});
    refused([&] { hvdlite::allreduce(world, x, two); }, {"2 elements", "3"});
    CHECK(x == std::vector<float>(3, 1.0f));
    CHECK(two == std::vector<float>(2));
    CHECK(big == std::vector<std::int64_t>(3, 1));
  });
}

TEST_CASE("refused: negative samples on one rank only") {
  on_every_world(
      [](const world_type& world) {
        std::vector<float> x(2000, 1.0f);
        const auto call = [&] {
          hvdlite::allreduce(world, x, {.samples = world.rank() == 1 ? -4 : 4});
        };
        if (world.rank() == 1) {
          message_of<hvdlite::usage_error>(call);
        } else {
          CHECK(lacking(message_of<hvdlite::mismatch_error>(call),
                        {"rank 1 refuses it: samples is -4"}) == "");
        }
        CHECK(x == std::vector<float>(2000, 1.0f));
        check_next_call(world, 1);
      },
      {.least = 2});
}

}  // namespace
