// SPDX-License-Identifier: Apache-2.0
// The handle that every verb takes first: ranks that act together, and the list of backends that
// may serve them, as types. Which backend a tensor gets is decided by the compiler as far as types
// decide it, and by what is usable here for the rest.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <hvdlite/comm/local.hpp>
#include <hvdlite/core/config.hpp>
#include <hvdlite/engine/progress.hpp>
#include <hvdlite/tensor/traits.hpp>
#if HVDLITE_WITH_MPI
#include <hvdlite/comm/mpi.hpp>
#endif

namespace hvdlite {

template <backend... Backends>
class Communicator;

/// The communicator that Environment and launch give out: all backends that this build has, the
/// fastest first.
#if HVDLITE_WITH_MPI
using default_communicator = Communicator<local, mpi>;
#else
using default_communicator = Communicator<local>;
#endif

namespace detail {

/// Different for each communicator that this process makes, and random between processes.
HVDLITE_COLD inline std::uint32_t new_epoch() {
  // The clock and an address that the system randomises: enough to keep processes apart.
  static std::atomic<std::uint32_t> next{[] {
    fingerprint_hash hash;
    hash.add(static_cast<std::uint64_t>(clock::now()));
    hash.add(static_cast<std::uint64_t>(getpid()));
    return static_cast<std::uint32_t>(hash.value());
  }()};
  return next.fetch_add(1, std::memory_order_relaxed) & 0xffffffu;  // what fits above a call number
}

/// Sets the calling thread's current world until destroyed.
template <class Comm>
class current_guard;

/// The world of the calling thread, if it was given one.
HVDLITE_EXPORT inline const default_communicator*& thread_world() {
  static thread_local const default_communicator* world = nullptr;
  return world;
}

}  // namespace detail

/// Ranks that act together. A cheap handle: copies refer to the same communicator. A
/// default-constructed one, or the one that a non-member gets from `subset`, is empty: it has no
/// ranks and every collective on it is a usage_error.
///
/// Collective calls must be made by all ranks in the same order. A rank that ends its Environment,
/// or unwinds, tells those that wait for it; one that merely drops its last handle does so on
/// threads only, under MPI the others wait until their deadline. At a deadline, a call that the
/// late rank enters in that moment may still succeed on some ranks.
template <backend... Backends>
class Communicator {
 public:
  Communicator() = default;

  /// Collective over `handle` (an MPI_Comm or a boost::mpi::communicator), blocking: a communicator
  /// of the same ranks. It works on a duplicate; `handle` stays the caller's. MPI must be running,
  /// and stay so until the last copy of this handle has gone or is not used any more.
  template <class H>
    requires(Backends::template accepts<H> || ...)
  explicit Communicator(const H& handle)
      : Communicator{channel_from<H, Backends...>(handle), settings::from_environment(),
                     std::shared_ptr<lifetime>{new lifetime}} {}

  /// Used by Environment and launch; collective over the channel's ranks, blocking.
  HVDLITE_COLD Communicator(std::unique_ptr<channel> start_up, settings set,
                            std::shared_ptr<lifetime> life) {
    placement where{std::move(start_up)};
    // All ranks agree about what is usable before anybody builds it, and about settings that shape
    // the protocol.
    struct offer {
      bool usable[sizeof...(Backends)];
      check_level checks;
      std::size_t chunk_bytes;
      std::uint32_t epoch;
    };
    offer mine{{(where.size() > 1 && Backends::usable(where))...},
               set.checks,
               set.chunk_bytes,
               detail::new_epoch()};
    detail::list<offer> all{static_cast<std::size_t>(where.size())};
    where.start_up().exchange(&mine, sizeof mine, all.data());
    mine.epoch = all[0].epoch;
    for (std::size_t r = 0; r < all.size(); ++r) {
      const offer& theirs = all[r];
      if (theirs.checks != mine.checks)
        fail_settings(where, r, "HVDLITE_CHECKS", mine.checks == check_level::on ? "on" : "off",
                      theirs.checks == check_level::on ? "on" : "off");
      if (theirs.chunk_bytes != mine.chunk_bytes)
        fail_settings(where, r, "HVDLITE_CHUNK_BYTES", mine.chunk_bytes, theirs.chunk_bytes);
      for (std::size_t b = 0; b < sizeof...(Backends); ++b)
        mine.usable[b] = mine.usable[b] && theirs.usable[b];
    }
    backend_list made;
    std::size_t index = 0;
    (made.add<Backends>(mine.usable[index++], where, set), ...);
    end_.reset(new endpoint{std::move(where), set, std::move(made), mine.epoch, std::move(life)});
  }

  /// Whether this process is a member; false for an empty handle.
  explicit operator bool() const { return end_ != nullptr; }

  /// This process's number, 0 to size() - 1.
  int rank() const { return where().rank(); }
  int size() const { return where().size(); }
  /// The number among the ranks of this node, and their count.
  int local_rank() const { return where().local_rank(); }
  int local_size() const { return where().local_size(); }
  /// The number among the ranks with the same local rank on all nodes, and their count.
  int cross_rank() const { return where().cross_rank(); }
  int cross_size() const { return where().cross_size(); }
  /// Whether all nodes have equally many ranks.
  bool is_homogeneous() const { return where().homogeneous(); }

  /// Collective, blocking: one communicator per `color`, its ranks ordered by `key`, then by rank
  /// here. A negative color gives an empty handle.
  Communicator split(int color, int key = 0) const {
    announce("split", {});
    return part(color, key);
  }

  /// Collective over all ranks of this communicator, blocking: a communicator of `ranks`, which
  /// all pass alike, in any order; the new ranks follow the order of the old ones. Non-members get
  /// an empty handle. Throws usage_error on every rank for an empty list, a duplicate, or a rank
  /// out of range.
  Communicator subset(std::vector<int> ranks) const {
    std::sort(ranks.begin(), ranks.end());
    const detail::text listed = detail::ranks_text(ranks.data(), ranks.size());
    detail::text refused;
    if (ranks.empty()) refused = detail::text({"the list of ranks is empty; name at least one"});
    if (std::adjacent_find(ranks.begin(), ranks.end()) != ranks.end())
      refused = detail::text({"a rank appears twice in the list ", listed});
    for (const int r : ranks)
      if (r < 0 || r >= size())
        refused = detail::text({"rank ", r, " is out of range; there are ranks 0 to ", size() - 1});
    announce(detail::text({"subset of ranks ", listed}), refused);
    return part(std::binary_search(ranks.begin(), ranks.end(), rank()) ? 0 : -1, 0);
  }

  /// Collective, blocking: the ranks of this node.
  Communicator local() const { return split(node_color()); }
  /// Collective, blocking: the ranks with this rank's local rank, one per node.
  Communicator cross() const { return split(local_rank()); }

  /// Makes this the current world of the calling thread, which `current_world` and the functions of
  /// hvdlite::horovod use, until the returned guard goes.
  [[nodiscard]] auto make_current() const
    requires std::same_as<Communicator, default_communicator>
  {
    return detail::current_guard<Communicator>{*this};
  }

  /// The name of the backend that serves host tensors here: "local", "mpi", or "none" in a world of
  /// one.
  std::string_view backend_name() const {
    for (std::size_t b = 0; b < sizeof...(Backends); ++b)
      if (size() > 1 && !end().backend_name(b).empty()) return end().backend_name(b);
    return "none";
  }

  /// What this rank did last, oldest first. For the thread that makes the calls.
  std::vector<event> recent_events() const { return end().events().recent(); }

  const settings& configuration() const { return end().configuration(); }

  /// Used by the verbs: runs `op` on the first backend that `allowed` says can serve its types. See
  /// endpoint::run.
  outcome run(const operation& op, const std::array<bool, sizeof...(Backends)>& allowed) const {
    endpoint& e = end();
    if (e.where().size() == 1) return e.run(op, 0);
    for (std::size_t b = 0; b < allowed.size(); ++b)
      if (allowed[b] && !e.backend_name(b).empty()) return e.run(op, b);
    detail::fail<usage_error>(
        {e.prefix(op), "no backend that is usable here serves tensors in ", op.space, " memory"});
  }

  /// Used by what lives on a communicator; see endpoint::next_ordinal.
  std::size_t next_ordinal() const { return end().next_ordinal(); }

  /// Used by the verbs: the backends that can move, or reduce, such elements.
  template <class T, class Space>
  static constexpr std::array<bool, sizeof...(Backends)> moving{
      Backends::template moves<T, Space>...};
  template <class T, class Space, class Op>
  static constexpr std::array<bool, sizeof...(Backends)> reducing{
      Backends::template reduces<T, Space, Op>...};

  friend bool operator==(const Communicator&, const Communicator&) = default;

 private:
  template <class H, class First, class... Rest>
  static std::unique_ptr<channel> channel_from(const H& handle) {
    if constexpr (First::template accepts<H>)
      return First::channel_of(handle);
    else
      return channel_from<H, Rest...>(handle);
  }

  [[noreturn]] HVDLITE_COLD static void fail_settings(const placement& where, std::size_t other,
                                                      const char* name, const detail::piece& mine,
                                                      const detail::piece& theirs) {
    detail::fail<mismatch_error>({"communicator (rank ", where.rank(), " of ", where.size(), "): ",
                                  name, " is ", mine.words(), " on this rank, and ", theirs.words(),
                                  " on rank ", other, "; set it alike on every rank"});
  }

  endpoint& end() const {
    if (!end_) fail_empty();
    return *end_;
  }
  [[noreturn]] HVDLITE_COLD static void fail_empty() {
    detail::fail<usage_error>(
        {"this communicator is empty: this process is not a member of it, or it was "
         "default-constructed"});
  }
  const placement& where() const { return end().where(); }

  /// The lowest rank of the node: a color that is not negative, whatever the node's number.
  int node_color() const {
    int lowest = 0;
    while (where().node_of(lowest) != where().node()) ++lowest;
    return lowest;
  }

  void announce(std::string_view what, std::string_view refused) const {
    operation op;
    op.verb = verb::split;
    op.name = what;
    op.refused = refused;
    end().run(op, 0);
  }

  Communicator part(int color, int key) const {
    auto start_up = where().start_up().split(color, key);
    if (!start_up) return {};
    return Communicator{std::move(start_up), configuration(), end().life()};
  }

  std::shared_ptr<endpoint> end_;
};

namespace detail {

template <class Comm>
class current_guard {
 public:
  explicit current_guard(Comm comm)
      : comm_{std::move(comm)}, previous_{std::exchange(thread_world(), &comm_)} {}
  current_guard(const current_guard&) = delete;
  current_guard& operator=(const current_guard&) = delete;
  ~current_guard() { thread_world() = previous_; }

 private:
  Comm comm_;
  const Comm* previous_;
};

template <class C>
inline constexpr bool is_communicator_v = false;
template <class... B>
inline constexpr bool is_communicator_v<Communicator<B...>> = true;

template <class Comm, class X>
struct backend_selector;
template <class... B, class X>
struct backend_selector<Communicator<B...>, X> {
  static constexpr auto can = Communicator<B...>::template moving<element_of<X>, space_of<X>>;
  static constexpr std::size_t first =
      static_cast<std::size_t>(std::find(can.begin(), can.end(), true) - can.begin());
  static_assert(first < sizeof...(B),
                "hvdlite: no backend of this communicator serves the memory space of this tensor");
  using type = std::tuple_element_t<first, std::tuple<B...>>;
};

}  // namespace detail

/// A communicator from a native handle has the default backends.
template <class H>
  requires(!detail::is_communicator_v<H>)
Communicator(const H&) -> Communicator<local
#if HVDLITE_WITH_MPI
                                       ,
                                       mpi
#endif
                                       >;

/// What the verbs accept as their first argument.
template <class C>
concept communicator = detail::is_communicator_v<std::remove_cvref_t<C>>;

/// The backend that the types choose for a tensor: the first of the communicator's list that moves
/// its elements in its memory space. At run time the first of those that is usable serves.
template <communicator Comm, tensor X>
using backend_of = typename detail::backend_selector<Comm, X>::type;

}  // namespace hvdlite
