// SPDX-License-Identifier: Apache-2.0
// A rank's end of a communicator in worlds where something goes wrong: deadlines, ranks that are
// lost, functions of the user's that throw; and its record of what was done.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <hvdlite/collective/allreduce.hpp>
#include <hvdlite/collective/barrier.hpp>
#include <hvdlite/collective/broadcast.hpp>

#include "support/ranks.hpp"

namespace {

using hvdtest::lacking;
using hvdtest::message_of;
using hvdtest::on_every_world;
using hvdtest::world_type;

std::chrono::duration<double> seconds(double s) {
  return std::chrono::duration<double>{s * hvdtest::slowness()};
}
std::string setting(double s) { return std::to_string(s * hvdtest::slowness()); }

void check_next_call(const world_type& world, int round) {
  std::vector<int> x{world.rank() + round};
  hvdlite::allreduce(world, x, hvdlite::sum{});
  const int n = world.size();
  CHECK(x[0] == n * (n - 1) / 2 + n * round);
}

TEST_CASE("deadline: names who is missing, and the late-comer gets the error, too") {
  for (const std::size_t count : {std::size_t{3}, std::size_t{5000}})
    on_every_world(
        [&](const world_type& world) {
          // The last one is late, of five ranks the last two.
          const int first_late = world.size() == 5 ? 3 : world.size() - 1;
          const bool late = world.rank() >= first_late;
          std::vector<float> x(count, 1.0f);
          hvdlite::barrier(world);
          const auto start = std::chrono::steady_clock::now();
          const auto everybody_again = start + seconds(2);
          if (late) std::this_thread::sleep_until(everybody_again);
          const std::string text = message_of<hvdlite::timeout_error>(
              [&] { hvdlite::allreduce(world, x, hvdlite::sum{}, {.name = "late"}); });
          CHECK(x == std::vector<float>(count, 1.0f));
          CHECK(lacking(text, {"allreduce 'late'", "HVDLITE_TIMEOUT"}) == "");
          if (late) {
            CHECK(lacking(text, {"gave up"}) == "");
          } else {
            const auto waited = std::chrono::steady_clock::now() - start;
            CHECK(waited >= seconds(0.4));
            CHECK(waited < seconds(2));
            // One that comes to its deadline first tells the others.
            const bool told = text.find("gave up") != std::string::npos;
            const std::string missing =
                "for " + hvdtest::ranks_in_words(first_late, world.size() - 1);
            CHECK((told || lacking(text, {missing}).empty()));
          }
          std::this_thread::sleep_until(everybody_again);
          check_next_call(world, 1);
        },
        {.least = 2, .environment = {{"HVDLITE_TIMEOUT", setting(0.5)}}});
}

TEST_CASE("deadline: with two ranks the one that waits names the one that does not come") {
  hvdtest::on_threads(
      2,
      [](const world_type& world) {
        hvdlite::barrier(world);
        if (world.rank() == 1) return std::this_thread::sleep_for(seconds(0.6));
        const std::string text =
            message_of<hvdlite::timeout_error>([&] { hvdlite::barrier(world); });
        CHECK(lacking(text, {"barrier", "waited", "for rank 1", "rank 0 of 2"}) == "");
      },
      {.environment = {{"HVDLITE_TIMEOUT", setting(0.2)}}});
}

TEST_CASE("stall warning: said once by each rank that waits, with who is missing") {
  hvdtest::log_recorder log;
  std::atomic<int> ranks{0}, me{0};
  on_every_world(
      [&](const world_type& world) {
        hvdlite::barrier(world);
        const int late = world.size() - 1;
        if (world.rank() == late) std::this_thread::sleep_for(seconds(0.7));
        check_next_call(world, 1);
        ranks = world.size();
        me = world.rank();
        if (hvdtest::under_mpi() || world.rank() != late) return;
      },
      {.least = 3, .most = 3, .environment = {{"HVDLITE_STALL_WARNING", setting(0.3)}}});
  if (ranks == 0) return;  // an MPI world of another size
  for (int r = 0; r < 3; ++r) {
    INFO("rank ", r);
    if (hvdtest::under_mpi() && r != me) continue;
    const auto mine = log.with({"[hvdlite warning, rank " + std::to_string(r) + "]"});
    if (r == 2) {
      CHECK(mine.empty());
    } else {
      REQUIRE(mine.size() == 1);
      CHECK(lacking(mine[0], {"allreduce", "waited", "for rank 2"}) == "");
    }
  }
}

TEST_CASE("lost: a rank that throws is named with its reason, and launch rethrows what it threw") {
  for (const std::size_t count : {std::size_t{1}, std::size_t{100000}}) {
    std::atomic<int> told{0};
    const auto run = [&] {
      hvdlite::launch(4, [&](const world_type& world) {
        std::vector<float> x(count, 1.0f);
        hvdlite::allreduce(world, x);
        if (world.rank() == 2) throw std::domain_error{"the data set is empty"};
        try {
          hvdlite::allreduce(world, x);
        } catch (const hvdlite::peer_lost_error& e) {
          if (lacking(e.what(), {"rank 2", "the data set is empty"}).empty()) ++told;
          throw;
        }
      });
    };
    CHECK(message_of<std::domain_error>(run) == "the data set is empty");
    CHECK(told == 3);
  }
}

TEST_CASE("lost: the first of a chain is named, not who left because of it") {
  std::string text;
  std::vector<world_type> parts(3);  // that outlive the exceptions
  const auto run = [&] {
    hvdlite::launch(3, [&](const world_type& world) {
      parts[static_cast<std::size_t>(world.rank())] = world.split(0);
      if (world.rank() == 2) throw std::domain_error{"the data set is empty"};
      if (world.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds{300});
      float x = 1;
      try {
        hvdlite::allreduce(world.rank() == 0 ? parts[0] : world, x);
      } catch (const hvdlite::peer_lost_error& e) {
        if (world.rank() == 0) text = e.what();
        throw;
      }
    });
  };
  CHECK(message_of<std::domain_error>(run) == "the data set is empty");
  CHECK(lacking(text, {"rank 0 of 3): rank 2 is lost: it threw: the data set is empty",
                       "rank 1 left for that"}) == "");
  CHECK(text.find("rank 1 is lost") == std::string::npos);
}

TEST_CASE("lost: a rank that returns early is named, and later calls fail at once") {
  on_every_world(
      [](const world_type& world) {
        hvdlite::barrier(world);
        if (!hvdtest::under_mpi() && world.rank() == 1) return;
        if (hvdtest::under_mpi()) return;  // a process that ends is another test's
        for (int attempt = 0; attempt < 2; ++attempt) {
          const std::string text =
              message_of<hvdlite::peer_lost_error>([&] { hvdlite::barrier(world); });
          CHECK(lacking(text, {"rank 1", "has returned from the function given to launch"}) == "");
        }
      },
      {.least = 2, .most = 2});
}

TEST_CASE("lost: a rank that ended its Environment is named with that reason") {
#if HVDLITE_WITH_MPI
  if (!hvdtest::under_mpi()) return;
  on_every_world(
      [](const world_type& world) {
        // A communicator of the test's own, that rank 0 leaves by an exception.
        hvdlite::Communicator comm{MPI_COMM_WORLD};
        hvdlite::barrier(comm);
        if (world.rank() == 0) {
          try {
            const auto gone = std::exchange(comm, {});
            throw std::runtime_error{"unwinds"};
          } catch (const std::runtime_error&) {
          }
        } else {
          std::vector<float> x(2000);
          const std::string text =
              message_of<hvdlite::peer_lost_error>([&] { hvdlite::allreduce(comm, x); });
          CHECK(lacking(text, {"rank 0", "unwinding"}) == "");
        }
        check_next_call(world, 1);  // another communicator is not touched
      },
      {.least = 2});
#endif
}

/// Throws on one rank; associative where it does not.
struct brittle_sum {
  bool throws;
  template <class T>
  T operator()(T a, T b) const {
    if (throws) throw std::runtime_error{"the user's function failed"};
    return a + b;
  }
};

TEST_CASE("an op that throws on one rank: that rank sees it, the next call is not confused by it") {
  // Tiny: every rank evaluates for itself, so that the others have their result.
  on_every_world(
      [](const world_type& world) {
        for (int round = 1; round < 4; ++round) {
          std::vector<int> x{world.rank() + 10 * round};
          const auto op = [&](bool throws) {
            return hvdlite::user_op{"brittle", brittle_sum{throws}, 0};
          };
          const int n = world.size();
          const int right = n * (n - 1) / 2 + 10 * n * round;
          if (world.rank() == 0)
            CHECK(message_of<std::runtime_error>([&] { hvdlite::allreduce(world, x, op(true)); }) ==
                  "the user's function failed");
          else {
            hvdlite::allreduce(world, x, op(false));
            CHECK(x[0] == right);
          }
          x[0] = world.rank() + 20 * round;
          hvdlite::allreduce(world, x, op(false));
          CHECK(x[0] == n * (n - 1) / 2 + 20 * n * round);
        }
      },
      {.least = 2});
}

TEST_CASE("an op that throws while data moves: the others lose a peer, with its words") {
  // Over MPI the process ends without MPI_Finalize after that: see process_life.sh, inside-throw.
  for (const int n : {2, 3, 5})
    hvdtest::on_threads(n, [](const world_type& world) {
      std::vector<int> x(50000, 1);
      const auto call = [&] {
        hvdlite::allreduce(world, x,
                           hvdlite::user_op{"brittle", brittle_sum{world.rank() == 0}, 0});
      };
      if (world.rank() == 0) {
        message_of<std::runtime_error>(call);
        message_of<hvdlite::peer_lost_error>(call);  // the communicator is of no further use
      } else {
        CHECK(lacking(message_of<hvdlite::peer_lost_error>(call),
                      {"rank 0", "the user's function failed"}) == "");
      }
    });
}

TEST_CASE("checks off: the results are the same") {
  on_every_world(
      [](const world_type& world) {
        const int n = world.size();
        check_next_call(world, 5);
        std::vector<double> x(9000, world.rank() + 1.0);
        hvdlite::allreduce(world, x, {.samples = world.rank() + 1});
        double total = 0, weights = 0;
        for (int r = 1; r <= n; ++r) total += double(r) * r, weights += r;
        CHECK(x[0] == doctest::Approx(total / weights));
        CHECK(x[8999] == x[0]);
        std::vector<float> y(3, float(world.rank()));
        hvdlite::broadcast(world, y, n - 1);
        CHECK(y == std::vector<float>(3, float(n - 1)));
        hvdlite::barrier(world);
      },
      {.environment = {{"HVDLITE_CHECKS", "off"}}});
}

/// Sums whose bits depend on their order: the tree's, from outside.
template <class T>
T in_tree_order(const std::vector<T>& leaves, std::size_t first, std::size_t n) {
  if (n == 1) return leaves[first];
  std::size_t left = 1;
  while (2 * left < n) left *= 2;
  const T a = in_tree_order(leaves, first, left);
  const T b = in_tree_order(leaves, first + left, n - left);
  return static_cast<T>(a + b);
}

template <class T>
T value_of(int rank, std::size_t i) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<T>(i) * 77 + static_cast<T>(rank));
  else
    return static_cast<T>(1) / static_cast<T>(3 + i % 101 + 7 * static_cast<std::size_t>(rank)) *
           static_cast<T>(rank % 2 == 0 ? 1e6 : 1);
}

template <class T>
void check_bits(const world_type& world, std::size_t count) {
  const auto n = static_cast<std::size_t>(world.size());
  std::vector<T> mine(count), sums(count), means(count), scaled(count);
  for (std::size_t i = 0; i < count; ++i) {
    mine[i] = value_of<T>(world.rank(), i);
    std::vector<T> leaves;
    for (int r = 0; r < world.size(); ++r) leaves.push_back(value_of<T>(r, i));
    sums[i] = in_tree_order(leaves, 0, n);
    means[i] = static_cast<T>(sums[i] / static_cast<T>(n));
    scaled[i] = static_cast<T>(sums[i] * static_cast<T>(2));
  }
  std::vector<T> x = mine, y(count);
  hvdlite::allreduce(world, x, hvdlite::sum{});
  CHECK(x == sums);
  hvdlite::allreduce(world, mine, y, hvdlite::sum{});  // out of place
  CHECK(y == sums);
  if constexpr (!std::is_integral_v<T>) {
    x = mine;
    hvdlite::allreduce(world, x);
    CHECK(x == means);
    x = mine;
    hvdlite::allreduce(world, x, hvdlite::sum{}, {.postscale = 2});
    CHECK(x == scaled);
    x = mine;
    hvdlite::allreduce(world, x, {.samples = 3});
    CHECK(x == means);
  }
  // Memory of no alignment.
  std::vector<std::byte> bytes(count * sizeof(T) + 1);
  std::memcpy(bytes.data() + 1, mine.data(), count * sizeof(T));
  hvdlite::operation call;
  call.verb = hvdlite::verb::allreduce;
  const hvdlite::sum op;
  call.kernels = &hvdlite::kernels_of<T, hvdlite::sum>;
  call.adds = true;
  call.op_name = op.name;
  call.count = count;
  call.element_bytes = sizeof(T);
  call.type = hvdlite::dtype_of<T>();
  call.in = call.out = bytes.data() + 1;
  call.shape = hvdlite::tensor_shape::vector(count);
  world.run(call, world_type::reducing<T, hvdlite::host_space, hvdlite::sum>);
  std::memcpy(x.data(), bytes.data() + 1, count * sizeof(T));
  CHECK(x == sums);
}

TEST_CASE("checks on and off: the bits are the tree's, in place or not, aligned or not") {
  for (const char* checks : {"on", "off"})
    for (const char* chunk : {"64", "524288"})
      on_every_world(
          [&](const world_type& world) {
            INFO("checks ", checks, ", chunks of ", chunk);
            for (const std::size_t count : {1u, 5u, 300u, 1025u, 40'000u}) {
              if (count * 8 > 8192 && chunk[0] == '6') continue;
              check_bits<float>(world, count);
              check_bits<double>(world, count);
              check_bits<std::int32_t>(world, count);
              check_bits<std::int64_t>(world, count);
              check_bits<std::uint16_t>(world, count);
            }
          },
          {.environment = {{"HVDLITE_CHECKS", checks}, {"HVDLITE_CHUNK_BYTES", chunk}}});
  // More than one call of MPI's: at most 1024 times so many elements each.
  on_every_world(
      [](const world_type& world) { check_bits<float>(world, 9000); },
      {.most = 3, .environment = {{"HVDLITE_CHECKS", "off"}, {"HVDLITE_CHUNK_BYTES", "4"}}});
}

TEST_CASE("events: the last calls, with name, element, count, order and outcome") {
  on_every_world([](const world_type& world) {
    std::vector<float> x(12);
    hvdlite::allreduce(world, x, {.name = "fc1.weight"});
    const std::string longest(60, 'n');
    hvdlite::broadcast(world, x, {.root = 0, .name = longest});
    hvdlite::barrier(world);
    message_of<hvdlite::usage_error>([&] { hvdlite::broadcast(world, x, -1); });
    const auto events = world.recent_events();
    REQUIRE(events.size() == 4);
    CHECK(std::string{events[0].verb} == "allreduce");
    CHECK(std::string{events[0].name} == "fc1.weight");
    CHECK(events[0].type == hvdlite::dtype::f32);
    CHECK(events[0].count == 12);
    CHECK(events[0].state == hvdlite::event_state::done);
    CHECK(std::string{events[1].verb} == "broadcast");
    CHECK(std::string{events[1].name} == std::string(39, 'n'));
    CHECK(std::string{events[2].verb} == "barrier");
    CHECK(events[2].type == hvdlite::dtype::none);
    CHECK(events[3].state == hvdlite::event_state::failed);
    for (std::size_t i = 0; i < events.size(); ++i) {
      CHECK(events[i].sequence == i + 1);
      CHECK(events[i].end >= events[i].begin);
    }
    for (std::size_t i = 0; i < 100; ++i) hvdlite::barrier(world);
    const auto later = world.recent_events();
    CHECK(later.size() == hvdlite::event_ring::capacity);
    CHECK(later.back().sequence == 104);
    CHECK(later.front().sequence == 104 - hvdlite::event_ring::capacity + 1);
  });
}

TEST_CASE("weights: all zero changes nothing, and is said once in the life of a communicator") {
  hvdtest::log_recorder log;
  int worlds = 0;
  on_every_world([&](const world_type& world) {
    for (int round = 0; round < 3; ++round) {
      std::vector<float> x(4, float(world.rank()));
      hvdlite::allreduce(world, x, {.name = "metric", .samples = 0});
      CHECK(x == std::vector<float>(4, float(world.rank())));
    }
    hvdlite::barrier(world);
    if (world.size() > 1) {  // rank 0 says it for all
      const auto said = log.with({" of " + std::to_string(world.size()) + ")", "0 samples"});
      if (world.rank() == 0 || !hvdtest::under_mpi()) {
        REQUIRE(said.size() == 1);
        CHECK(lacking(said[0], {"allreduce 'metric'", "[hvdlite warning, rank 0]"}) == "");
      } else {
        CHECK(said.empty());
      }
    }
    if (world.rank() == 0) ++worlds;
  });
  CHECK((hvdtest::under_mpi() || worlds == 5));
}

}  // namespace

// ---------------------------------------------------------------- what is written on failure

TEST_CASE("trace: who fails writes its last calls, each once, and how far the others have come") {
  hvdtest::log_recorder log;
  std::atomic<int> ranks{0}, me{0};
  on_every_world(
      [&](const world_type& world) {
        ranks = world.size();
        me = world.rank();
        std::vector<float> x(3);
        for (int i = 0; i < 20; ++i) hvdlite::allreduce(world, x, {.name = std::to_string(i)});
        const std::string mine = world.rank() == 0 ? "the odd one" : "another";
        CHECK_THROWS_AS(hvdlite::broadcast(world, x, {.name = mine}), hvdlite::mismatch_error);
        check_next_call(world, 1);
        CHECK_THROWS_AS(hvdlite::barrier(world, {.name = mine}), hvdlite::mismatch_error);
        check_next_call(world, 1);
      },
      {.least = 3, .most = 3});
  if (ranks == 0) return;
  for (int r = 0; r < 3; ++r) {
    INFO("rank ", r);
    if (hvdtest::under_mpi() && r != me) continue;
    const std::string rank = "rank " + std::to_string(r);
    const auto lines = [&](std::string_view words) {
      return log.with({"[hvdlite warning, " + rank + "] trace: ", words});
    };
    const std::string which = r == 0 ? "'the odd one'" : "'another'";
    const std::string of = rank + " of 3): ";
    CHECK(lines("call 13, ").empty());
    CHECK(lines("call 14, allreduce '13' (f32 x 3, " + of + "done in ").size() == 1);
    CHECK(lines("call 20, allreduce '19' (f32 x 3, " + of + "done in ").size() == 1);
    CHECK(lines("call 21, broadcast " + which + " (f32 x 3, " + of + "failed after ").size() == 1);
    CHECK(lines("call 22, allreduce (i32 x 1, " + of + "done in ").size() == 1);
    CHECK(lines("call 23, barrier " + which + " (" + of + "failed after ").size() == 1);
    CHECK(lines("trace: call ").size() == 10);
    CHECK(lines("last heard of rank ").size() == 2);
    const std::string other = "rank " + std::to_string((r + 1) % 3) + " in call 2";
    CHECK(log.with({"last heard of ", other}).size() >= 1);
  }
}

// ---------------------------------------------------------------- errors of the transport

/// The local backend with a fault on rank 1, at the given use of one of its functions.
struct faulty : hvdlite::local {
  static constexpr std::string_view name = "faulty";
  static inline std::atomic<int> posts_left{-1}, starts_left{-1}, steps_left{-1};

  faulty(const hvdlite::placement& where, const hvdlite::settings& set)
      : local{where, set}, rank_{where.rank()} {}
  bool post(int to, const hvdlite::message& m) {
    count_down(posts_left);
    return local::post(to, m);
  }
  hvdlite::request start(const hvdlite::operation& op, const hvdlite::reduction_terms& terms) {
    count_down(starts_left);
    return local::start(op, terms);
  }
  hvdlite::state progress(hvdlite::request& r) {
    count_down(steps_left);
    return local::progress(r);
  }

 private:
  void count_down(std::atomic<int>& left) const {
    if (rank_ == 1 && left >= 0 && left-- == 0)
      throw hvdlite::transport_error{"the_transport: the cable is cut"};
  }
  int rank_;
};

TEST_CASE(
    "transport: an error on one rank is thrown there with the call, and named on the others") {
  using comm_type = hvdlite::Communicator<faulty>;
  hvdtest::log_recorder log;
  for (auto* const counter : {&faulty::posts_left, &faulty::starts_left, &faulty::steps_left})
    for (const int after : {0, 1}) {
      INFO("fault ", after, " of ",
           counter == &faulty::posts_left    ? "post"
           : counter == &faulty::starts_left ? "start"
                                             : "progress");
      *counter = counter == &faulty::starts_left ? 0 : after;
      hvdlite::settings set;
      set.timeout = 30;
      const auto body = [&](const comm_type& comm) {
        std::vector<float> x(100'000, 1.0f);
        const auto call = [&] { hvdlite::allreduce(comm, x, {.name = "w"}); };
        if (comm.rank() == 1) {
          CHECK(lacking(message_of<hvdlite::transport_error>(call),
                        {"allreduce 'w' (f32 x 100000, rank 1 of 3): the_transport: the cable"}) ==
                "");
        } else {
          CHECK(lacking(message_of<hvdlite::peer_lost_error>(call),
                        {"allreduce 'w'", "rank 1 is lost: the_transport: the cable is cut"}) ==
                "");
        }
        CHECK(lacking(message_of<hvdlite::peer_lost_error>([&] { hvdlite::barrier(comm); }),
                      {"lost in an earlier call", "the_transport"}) == "");
      };
      hvdtest::on_threads_of<comm_type>(3, body, set);
      *counter = -1;
    }
}

// ---------------------------------------------------------------- processes that die or stop

/// Threads whose rank 1 passes for a process in a given state.
struct observed_channel : hvdlite::thread_channel {
  using thread_channel::thread_channel;
  static inline std::atomic<hvdlite::detail::process_state> rank_1{};
  process_report look_at(int rank) noexcept override {
    if (rank == 1) return {rank_1.load(), 4711};
    return {hvdlite::detail::process_state::running, 1};
  }
};

/// Three threads; `body(rank, communicator)`.
template <class Body>
void on_observed_ranks(double timeout, const Body& body) {
  hvdlite::settings set;
  set.timeout = timeout;
  hvdtest::on_threads_of<hvdlite::Communicator<hvdlite::local>, observed_channel>(
      3, [&](const auto& comm) { body(comm.rank(), comm); }, set);
}

TEST_CASE("dead: a process that ends before the call is found, and named as such") {
  hvdtest::log_recorder log;
  observed_channel::rank_1 = hvdlite::detail::process_state::ended;
  std::atomic<int> told{0};
  on_observed_ranks(60, [&](int rank, const auto& comm) {
    if (rank == 1) {
      while (told != 2) std::this_thread::yield();
      return;
    }
    std::vector<float> x(1000, 1.0f);
    const auto begin = std::chrono::steady_clock::now();
    const std::string text =
        message_of<hvdlite::peer_lost_error>([&] { hvdlite::allreduce(comm, x, {.name = "w"}); });
    CHECK(std::chrono::steady_clock::now() - begin < seconds(2));
    CHECK(lacking(text, {"allreduce 'w'", "rank 1 is lost: its process (4711) has ended",
                         "before all ranks had entered the call"}) == "");
    CHECK(x == std::vector<float>(1000, 1.0f));
    ++told;
  });
}

TEST_CASE("dead: a process that ends while data moves is found, and named as such") {
  hvdtest::log_recorder log;
  observed_channel::rank_1 = hvdlite::detail::process_state::running;
  std::atomic<int> told{0};
  on_observed_ranks(60, [&](int rank, const auto& comm) {
    const hvdlite::user_op op{"sum that takes long",
                              [&](float a, float b) {
                                if (rank == 1) {
                                  observed_channel::rank_1 = hvdlite::detail::process_state::ended;
                                  while (told != 2) std::this_thread::yield();
                                }
                                return a + b;
                              },
                              0.0f};
    std::vector<float> x(100'000, 1.0f);
    const auto call = [&] { hvdlite::allreduce(comm, x, op); };
    if (rank == 1) {
      CHECK_THROWS_AS(call(), hvdlite::peer_lost_error);  // the others have given up
      return;
    }
    CHECK(lacking(message_of<hvdlite::peer_lost_error>(call),
                  {"rank 1 is lost: its process (4711) has ended", "while data was moving"}) == "");
    ++told;
    while (told != 2) std::this_thread::yield();
  });
}

TEST_CASE("dead: a refused call does not wait for a process that has ended") {
  hvdtest::log_recorder log;
  observed_channel::rank_1 = hvdlite::detail::process_state::ended;
  std::atomic<int> done{0};
  on_observed_ranks(60, [&](int rank, const auto& comm) {
    if (rank == 1) {
      while (done != 2) std::this_thread::yield();
      return;
    }
    float x = 1;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 200; ++i) CHECK_THROWS_AS(hvdlite::broadcast(comm, x, -1), hvdlite::error);
    CHECK(std::chrono::steady_clock::now() - begin < seconds(5));
    ++done;
  });
}

TEST_CASE("deadline: a process that is stopped is named as such, with those that wait") {
  hvdtest::log_recorder log;
  observed_channel::rank_1 = hvdlite::detail::process_state::stopped;
  std::atomic<int> told{0};
  on_observed_ranks(0.3 * hvdtest::slowness(), [&](int rank, const auto& comm) {
    if (rank == 1) {
      while (told != 2) std::this_thread::yield();
      return;
    }
    const std::string text = message_of<hvdlite::timeout_error>([&] { hvdlite::barrier(comm); });
    if (text.find("gave up") == std::string::npos)
      CHECK(lacking(text, {"for rank 1 to enter the call; ranks 0 and 2 wait in it; the process of "
                           "rank 1 (4711) is stopped"}) == "");
    ++told;
  });
}
