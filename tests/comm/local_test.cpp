// SPDX-License-Identifier: Apache-2.0
// The backend of one node, its ranks moved by hand: every order in which ranks may take their steps
// gives the same result, and nothing waits.
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <hvdlite/comm/local.hpp>

#include "support/ranks.hpp"

namespace {

using hvdlite::message;
using hvdlite::operation;
using hvdlite::reduction_terms;
using hvdlite::state;

struct three_ranks {
  static constexpr int n = 3;
  std::shared_ptr<hvdlite::detail::thread_hub> hub;
  std::vector<std::unique_ptr<hvdlite::local>> rank;

  explicit three_ranks(std::size_t chunk_bytes) {
    hub = std::make_shared<hvdlite::detail::thread_hub>(hvdtest::on_nodes({0, 0, 0}), chunk_bytes);
    for (int r = 0; r < n; ++r) {
      const hvdlite::placement where{std::make_unique<hvdlite::thread_channel>(hub, r)};
      CHECK(hvdlite::local::usable(where));
      rank.push_back(std::make_unique<hvdlite::local>(where, hvdlite::settings{}));
    }
  }
};

static_assert(hvdlite::backend<hvdlite::local>);
static_assert(hvdlite::local::moves<float, hvdlite::host_space>);
static_assert(!hvdlite::local::moves<float, hvdlite::cuda_space>);
static_assert(!hvdlite::local::reduces<float, hvdlite::cuda_space, hvdlite::sum>);

operation sum_operation(std::vector<int>& x) {
  operation op;
  op.verb = hvdlite::verb::allreduce;
  op.in = reinterpret_cast<const std::byte*>(x.data());
  op.out = reinterpret_cast<std::byte*>(x.data());
  op.count = x.size();
  op.element_bytes = sizeof(int);
  op.kernels = &hvdlite::kernels_of<int, hvdlite::sum>;
  return op;
}

TEST_CASE("local: not for channels of other kinds") {
  CHECK_FALSE(
      hvdlite::local::usable(hvdlite::placement{std::make_unique<hvdlite::lone_channel>()}));
}

TEST_CASE("local: ranks that take their steps in any order reduce the same") {
  // Orders in which the ranks move: in turn, backwards, one far ahead of the others.
  const std::vector<std::vector<int>> orders{
      {0, 1, 2}, {2, 1, 0}, {0, 0, 0, 0, 1, 1, 1, 2}, {2, 2, 0, 1, 1, 1, 1}};
  for (const auto& order : orders)
    for (const std::size_t count : {std::size_t{0}, std::size_t{5}, std::size_t{1500}}) {
      three_ranks world{256};
      for (int round = 0; round < 3; ++round) {
        std::array<std::vector<int>, 3> x;
        std::array<operation, 3> op;
        const std::array<reduction_terms::term, 3> terms{};
        const reduction_terms all{terms.data(), {}};
        std::array<hvdlite::request, 3> request;
        std::array<state, 3> now{state::moving, state::moving, state::moving};
        for (std::size_t r = 0; r < 3; ++r) {
          for (std::size_t i = 0; i < count; ++i)
            x[r].push_back(static_cast<int>(i) + 1000 * static_cast<int>(r) + round);
          op[r] = sum_operation(x[r]);
          request[r] = world.rank[r]->start(op[r], all);
        }
        for (int step = 0;
             step < 10000 && now != std::array<state, 3>{state::done, state::done, state::done};
             ++step) {
          const auto r =
              static_cast<std::size_t>(order[static_cast<std::size_t>(step) % order.size()]);
          if (now[r] != state::done) now[r] = world.rank[r]->progress(request[r]);
        }
        std::size_t wrong = 0;
        for (std::size_t r = 0; r < 3; ++r) {
          CHECK(now[r] == state::done);
          for (std::size_t i = 0; i < count; ++i)
            if (x[r][i] != 3 * static_cast<int>(i) + 3000 + 3 * round) ++wrong;
        }
        CHECK(wrong == 0);
      }
    }
}

TEST_CASE("local: nothing is done before all have started") {
  three_ranks world{256};
  std::vector<int> x(10, 1);
  const operation op = sum_operation(x);
  const std::array<reduction_terms::term, 3> terms{};
  const reduction_terms all{terms.data(), {}};
  auto request = world.rank[0]->start(op, all);
  for (int i = 0; i < 100; ++i) CHECK(world.rank[0]->progress(request) == state::moving);
  CHECK(x == std::vector<int>(10, 1));
}

TEST_CASE("local: a rank that leaves is seen by those that need it, with all its reason") {
  three_ranks world{256};
  std::vector<int> x(10, 1);
  const operation op = sum_operation(x);
  const std::array<reduction_terms::term, 3> terms{};
  const reduction_terms all{terms.data(), {}};
  auto request = world.rank[0]->start(op, all);
  CHECK(world.rank[0]->progress(request) == state::moving);
  message posted;
  posted.sequence = 4;
  CHECK(world.rank[2]->post(0, posted));
  const std::string why(100, 'w');
  world.rank[2]->abort(5, why);
  CHECK(world.rank[0]->progress(request) == state::lost);
  // What it has said before it left comes first.
  int from = -1;
  message m;
  CHECK(world.rank[0]->poll(from, m));
  CHECK(from == 2);
  CHECK(m.kind == hvdlite::message_kind::check);
  CHECK(m.sequence == 4);
  std::string text;
  while (world.rank[0]->poll(from, m)) {
    CHECK(from == 2);
    CHECK(m.kind == hvdlite::message_kind::departed);
    CHECK(m.sequence == 5);
    text.append(reinterpret_cast<const char*>(m.payload.data()), m.length);
  }
  CHECK(text == why);
}

TEST_CASE("local: absent leaves are not read and count as the identity") {
  three_ranks world{256};
  std::array<std::vector<int>, 3> x{std::vector<int>(2000, 5), std::vector<int>(2000, 70),
                                    std::vector<int>(2000, 9)};
  std::array<operation, 3> op;
  const std::array<reduction_terms::term, 3> terms{reduction_terms::term{1, true},
                                                   reduction_terms::term{1, false},
                                                   reduction_terms::term{1, true}};
  const reduction_terms all{terms.data(), {}};
  std::array<hvdlite::request, 3> request;
  for (std::size_t r = 0; r < 3; ++r) {
    op[r] = sum_operation(x[r]);
    if (r == 1) op[r].in = nullptr;
    request[r] = world.rank[r]->start(op[r], all);
  }
  std::array<state, 3> now{};
  for (int step = 0; step < 1000; ++step)
    for (std::size_t r = 0; r < 3; ++r)
      if (now[r] != state::done) now[r] = world.rank[r]->progress(request[r]);
  for (std::size_t r = 0; r < 3; ++r) CHECK(x[r] == std::vector<int>(2000, 14));
}

TEST_CASE("thread_channel: exchange and split") {
  constexpr int n = 4;
  const auto hub =
      std::make_shared<hvdlite::detail::thread_hub>(hvdtest::on_nodes({0, 0, 1, 1}), 64);
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      hvdlite::thread_channel channel{hub, r};
      for (int round = 0; round < 50; ++round) {
        // Of another length each time, none at times.
        const auto bytes = static_cast<std::size_t>(round % 5);
        const std::string mine(bytes, static_cast<char>('a' + r));
        std::string all(n * bytes + 1, '?'), expected;
        channel.exchange(mine.data(), bytes, all.data());
        for (int other = 0; other < n; ++other)
          expected.append(bytes, static_cast<char>('a' + other));
        CHECK(all == expected + '?');
      }
      const auto part = channel.split(r == 3 ? -1 : 7, -r);
      CHECK((part == nullptr) == (r == 3));
      if (part) {
        CHECK(part->rank() == 2 - r);
        CHECK(part->size() == 3);
        CHECK(part->node_of(0) == 1);
        CHECK(part->node_of(1) == 0);
        CHECK(part->node_of(2) == 0);
      }
    });
  for (auto& t : threads) t.join();
}

TEST_CASE("thread_channel: an exchange that cannot complete is an error, not a wait") {
  const auto hub = std::make_shared<hvdlite::detail::thread_hub>(hvdtest::on_nodes({0, 0}), 64);
  std::string text;
  std::thread waits{[&] {
    try {
      hvdlite::thread_channel{hub, 0}.exchange(nullptr, 0, nullptr);
    } catch (const hvdlite::peer_lost_error& e) {
      text = e.what();
    }
  }};
  hvdlite::thread_channel{hub, 1}.leave("rank 1 went home");
  waits.join();
  CHECK(text == "rank 1 went home");
}

TEST_CASE("thread_channel: where one has left, no later exchange completes") {
  const auto hub = std::make_shared<hvdlite::detail::thread_hub>(hvdtest::on_nodes({0, 0}), 64);
  hvdlite::thread_channel zero{hub, 0}, one{hub, 1};
  zero.leave("rank 0 went home");
  for (hvdlite::thread_channel* channel : {&one, &zero, &one})
    CHECK(hvdtest::message_of<hvdlite::peer_lost_error>(
              [&] { channel->exchange(nullptr, 0, nullptr); }) == "rank 0 went home");
}

}  // namespace
