// SPDX-License-Identifier: Apache-2.0
// The backend over MPI: data point to point, so that every step can be polled, given a deadline and
// told about the loss of a peer. Reductions go by slice owner: each piece travels raw to the rank
// that evaluates the tree for it, and when all are evaluated, the results travel back.
#pragma once

#include <hvdlite/comm/mpi_channel.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include <hvdlite/comm/backend.hpp>
#include <hvdlite/core/text.hpp>

namespace hvdlite {

/// Ranks that are MPI processes. Serves every element and op in host memory.
class mpi {
 public:
  static constexpr std::string_view name = "mpi";
  template <class T, class Space>
  static constexpr bool moves = std::same_as<Space, host_space>;
  template <class T, class Space, class Op>
  static constexpr bool reduces = std::same_as<Space, host_space>;

  /// What a Communicator can be made from, besides a placement.
  template <class H>
  static constexpr bool accepts =
      std::same_as<H, MPI_Comm> || std::same_as<H, boost::mpi::communicator>;
  static std::unique_ptr<channel> channel_of(const auto& handle) {
    return std::unique_ptr<channel>{new mpi_channel{MPI_Comm(handle)}};
  }

  static bool usable(const placement& where) {
    return dynamic_cast<const mpi_channel*>(&where.start_up()) != nullptr;
  }

  HVDLITE_COLD mpi(const placement& where, const settings& set)
      : comm_{dynamic_cast<const mpi_channel&>(where.start_up()).handle()},
        rank_{where.rank()},
        size_{where.size()},
        chunk_bytes_{set.chunk_bytes},
        may_block_{set.checks == check_level::off},
        evaluate_{reduction_tree{where.nodes().data(), size_}},
        leaves_{static_cast<std::size_t>(size_)} {
    // The more pieces on their way, the less a rank waits for another; but all are staged.
    constexpr std::size_t staging_bytes = std::size_t{16} << 20;
    in_flight_ =
        std::clamp(staging_bytes / (ranks() * chunk_bytes_), std::size_t{2}, std::size(windows_));
    outbox_.resize_for_overwrite(ranks() * 8);
    outbox_.clear();
    detail::check_mpi(MPI_Query_thread(&thread_level_), "MPI_Query_thread");
    detail::check_mpi(MPI_Recv_init(&inbox_, sizeof inbox_, MPI_BYTE, MPI_ANY_SOURCE, control_tag,
                                    comm_, &inbox_request_),
                      "MPI_Recv_init");
    listen();
  }

  mpi(const mpi&) = delete;
  mpi& operator=(const mpi&) = delete;

  HVDLITE_COLD ~mpi() {
    if (home_.left() || detail::mpi_finalized()) return;
    // Errors have nobody to be told to here.
    if (listening_) {
      MPI_Cancel(&inbox_request_);
      MPI_Wait(&inbox_request_, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&inbox_request_);
    for (outgoing* slot : outbox_) {
      int sent = 1;
      if (slot->request != MPI_REQUEST_NULL) MPI_Test(&slot->request, &sent, MPI_STATUS_IGNORE);
      // Not yet taken by a peer that may never come: the memory must outlive the request.
      if (sent == 0)
        MPI_Request_free(&slot->request);
      else
        delete slot;
    }
  }

  HVDLITE_LEAN bool post(int to, const message& m) {
    outgoing* slot = free_slot();
    if (slot == nullptr) return false;
    slot->text = m;
    detail::check_mpi(
        MPI_Isend(&slot->text, sizeof m, MPI_BYTE, to, control_tag, comm_, &slot->request),
        "MPI_Isend");
    return true;
  }

  HVDLITE_LEAN bool poll(int& from, message& m) {
    if (!listening_) listen();  // MPI_Test takes an inactive request for a message that has come
    int came = 0;
    MPI_Status status;
    detail::check_mpi(MPI_Test(&inbox_request_, &came, &status), "MPI_Test");
    if (came == 0) return false;
    from = status.MPI_SOURCE;
    m = inbox_;
    listening_ = false;
    listen();
    return true;
  }

  HVDLITE_LEAN request start(const operation& op, const reduction_terms& terms) {
    op_ = &op;
    terms_ = &terms;
    started_ = finished_ = pieces_ = 0;
    to_share_ = false;
    if (const MPI_Datatype type = summed_by_mpi(); type != MPI_DATATYPE_NULL) {
      sum_by_mpi(type);
      return request{0};
    }
    const std::size_t element = op.element_bytes == 0 ? 1 : op.element_bytes;
    everyone_ = op.reduces() && op.bytes() <= (std::min)(everyone_bytes, chunk_bytes_);
    const std::size_t slice =
        !op.reduces() || everyone_ ? op.count : (op.count + ranks() - 1) / ranks();
    // What takes many pieces flows better in smaller ones: all in flight stay in the cache.
    const bool many = slice * element > 8 * chunk_bytes_;
    per_piece_ = (std::max)(std::size_t{1}, chunk_bytes_ / (many ? 4 : 1) / element);
    pieces_ = (slice + per_piece_ - 1) / per_piece_;
    for (window& w : windows_) w.stage = 0;
    to_share_ = op.reduces() && !everyone_;
    if (op.reduces()) {
      const std::size_t bytes =
          ranks() * (std::min)(per_piece_, (std::max)(slice, std::size_t{1})) * element;
      for (std::size_t i = 0; i < in_flight_ && i < pieces_; ++i)
        if (windows_[i].staging.size() < bytes) windows_[i].staging.resize_for_overwrite(bytes);
    }
    return request{0};
  }

  /// Pieces are in flight side by side, but enter each of their stages in order: messages between
  /// two ranks with one tag then match in that order.
  HVDLITE_LEAN state progress(request& r) {
    while (started_ < pieces_ && started_ - finished_ < in_flight_) {
      window& w = window_of(started_);
      w.stage = 1;
      op_->reduces() ? send_leaves(started_, w) : receive_from_parent(started_, w);
      ++started_;
      ++r.steps;
    }
    bool all_before_evaluated = true;
    for (std::size_t piece = finished_; piece < started_; ++piece) {
      window& w = window_of(piece);
      if (w.stage == 1 && all_before_evaluated && complete(w.requests)) {
        w.stage = 2;
        ++r.steps;
        op_->reduces() ? evaluate(piece, w) : send_to_children(piece, w);
      }
      all_before_evaluated = all_before_evaluated && w.stage == 2;
      if (w.stage == 2 && piece == finished_ && complete(w.requests)) ++finished_, ++r.steps;
    }
    if (finished_ != pieces_) return state::moving;
    if (std::exchange(to_share_, false)) {
      share();
      ++r.steps;
    }
    return results_.empty() || complete(results_) ? state::done : state::moving;
  }

  HVDLITE_COLD void withdraw(request&) noexcept {
    bool in_flight = cancel(results_);
    for (window& w : windows_)
      if (cancel(w.requests)) {
        in_flight = true;
        w.staging.leak();  // MPI may still write to it
      }
    // And to the user's memory, or read it.
    if (in_flight) detail::mpi_session::instance().leaves_data();
  }

  HVDLITE_LEAN void enter() {
    if (!may_block_ && detail::mpi_finalized()) detail::fail_finalized();
    if (thread_level_ >= MPI_THREAD_SERIALIZED || std::this_thread::get_id() == main_thread_)
      return;
    int is_main = 0;
    detail::check_mpi(MPI_Is_thread_main(&is_main), "MPI_Is_thread_main");
    if (is_main == 0)
      detail::fail<usage_error>(
          {"called from a thread that did not initialise MPI, and MPI was initialised "
           "for one thread only; call from that thread, or initialise MPI with "
           "MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE"});
    main_thread_ = std::this_thread::get_id();
  }

  HVDLITE_COLD void abort(std::uint64_t sequence, std::string_view why) noexcept try {
    if (home_.left() || detail::mpi_finalized()) return;
    constexpr std::size_t piece = message::payload_bytes;
    why = why.substr(0, 16 * piece);
    const std::size_t parts = (std::max)(std::size_t{1}, (why.size() + piece - 1) / piece);
    for (std::size_t part = 0; part < parts; ++part) {
      message m;
      m.kind = message_kind::departed;
      m.sequence = sequence;
      m.part = static_cast<std::uint16_t>(part);
      m.parts = static_cast<std::uint16_t>(parts);
      const auto text = why.substr(part * piece, piece);
      m.length = static_cast<std::uint16_t>(text.size());
      std::memcpy(m.payload.data(), text.data(), text.size());
      for (int to = 0; to < size_; ++to)
        if (to != rank_)
          for (int attempt = 0; attempt < 1000 && !post(to, m); ++attempt) {
          }
    }
  } catch (...) {
    // The peers keep their deadline.
  }

 private:
  static constexpr int control_tag = 1, leaf_tag = 2, result_tag = 3, broadcast_tag = 4;
  /// Up to here all ranks get all leaves: one exchange instead of two.
  static constexpr std::size_t everyone_bytes = 4096 - 128;

  /// MPI's type, if its own reduction serves: where nobody looks after ranks that do not come (it
  /// blocks), and a sum has one order. It has the bits of the tree then. The same answer on all
  /// ranks.
  HVDLITE_LEAN MPI_Datatype summed_by_mpi() const {
    if (!may_block_ || !op_->adds || !op_->kernels->plain || size_ != 2) return MPI_DATATYPE_NULL;
    for (int r = 0; r < size_; ++r)
      if (!present(r) || terms_->ranks[r].factor != 1) return MPI_DATATYPE_NULL;
    switch (op_->type) {
      case dtype::f32:
        return MPI_FLOAT;
      case dtype::f64:
        return MPI_DOUBLE;
      case dtype::i32:
        return MPI_INT32_T;
      case dtype::i64:
        return MPI_INT64_T;
      default:
        return MPI_DATATYPE_NULL;
    }
  }

  HVDLITE_LEAN void sum_by_mpi(MPI_Datatype type) {
    const bool in_place = op_->in == op_->out;
    const std::size_t most = most_bytes(), bytes = op_->bytes();
    for (std::size_t first = 0; first < bytes; first += most) {
      const std::size_t n = (std::min)(most, bytes - first) / op_->element_bytes;
      detail::check_mpi(MPI_Allreduce(in_place ? MPI_IN_PLACE : op_->in + first, op_->out + first,
                                      static_cast<int>(n), type, MPI_SUM, comm_),
                        "MPI_Allreduce");
    }
    if (terms_->root.divisor != 1 || terms_->root.factor != 1)
      evaluate_.finish(*op_->kernels, op_->out, op_->count, terms_->root);
  }

  /// A message on its way: at an address of its own, which MPI may read for longer than this lives.
  struct outgoing {
    message text;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  using request_list = detail::list<MPI_Request>;

  /// A piece in flight.
  struct window {
    int stage = 0;  // 1: on its way to this rank, 2: evaluated, or on its way to others
    request_list requests;
    detail::list<std::byte> staging;  // the leaves of the other ranks
  };

  struct range {
    std::size_t begin, end;  // elements
    std::size_t size() const { return end - begin; }
    bool empty() const { return begin == end; }
  };

  std::size_t ranks() const { return static_cast<std::size_t>(size_); }

  void listen() {
    detail::check_mpi(MPI_Start(&inbox_request_), "MPI_Start");
    listening_ = true;
  }

  /// Null if too many messages are on their way.
  HVDLITE_LEAN outgoing* free_slot() {
    for (std::size_t turn = 0; turn < outbox_.size(); ++turn) {
      outgoing* slot = outbox_[next_out_];
      next_out_ = next_out_ + 1 == outbox_.size() ? 0 : next_out_ + 1;
      int sent = 1;
      if (slot->request != MPI_REQUEST_NULL)
        detail::check_mpi(MPI_Test(&slot->request, &sent, MPI_STATUS_IGNORE), "MPI_Test");
      if (sent != 0) return slot;
    }
    if (outbox_.size() == ranks() * 8) return nullptr;
    outbox_.push_back(new outgoing);  // the list has the room
    return outbox_.back();
  }

  window& window_of(std::size_t piece) { return windows_[piece % in_flight_]; }

  /// The elements of `piece` within the slice of `owner`; all slices have the same owner if all
  /// ranks evaluate everything.
  range piece_of(std::size_t piece, int owner) const {
    const range slice = op_->reduces() && !everyone_ ? slice_of(owner) : range{0, op_->count};
    return part_of(slice, piece, per_piece_);
  }
  range slice_of(int owner) const {
    const auto o = static_cast<std::size_t>(owner);
    return {op_->count * o / ranks(), op_->count * (o + 1) / ranks()};
  }
  static range part_of(range whole, std::size_t part, std::size_t size) {
    const std::size_t begin = (std::min)(whole.begin + part * size, whole.end);
    return {begin, (std::min)(begin + size, whole.end)};
  }

  static MPI_Request* new_in(request_list& requests) {
    requests.push_back(MPI_REQUEST_NULL);
    return &requests.back();
  }

  HVDLITE_OUT_OF_LINE void send(const std::byte* base, range r, int to, int tag,
                                request_list& requests) {
    if (r.empty()) return;
    detail::check_mpi(MPI_Isend(base + r.begin * op_->element_bytes,
                                static_cast<int>((r.end - r.begin) * op_->element_bytes), MPI_BYTE,
                                to, tag, comm_, new_in(requests)),
                      "MPI_Isend");
  }

  HVDLITE_OUT_OF_LINE void receive(std::byte* to, range r, int from, int tag,
                                   request_list& requests) {
    if (r.empty()) return;
    detail::check_mpi(MPI_Irecv(to, static_cast<int>((r.end - r.begin) * op_->element_bytes),
                                MPI_BYTE, from, tag, comm_, new_in(requests)),
                      "MPI_Irecv");
  }

  HVDLITE_LEAN bool complete(request_list& requests) {
    int all = 0;
    detail::check_mpi(
        MPI_Testall(static_cast<int>(requests.size()), requests.data(), &all, MPI_STATUSES_IGNORE),
        "MPI_Testall");
    if (all != 0) requests.clear();
    return all != 0;
  }

  /// Whether any of them could not be taken back. Errors have nobody to be told to: that there is
  /// one is why we are here.
  static bool cancel(request_list& requests) noexcept {
    bool in_flight = false;
    for (MPI_Request& r : requests) {
      if (r == MPI_REQUEST_NULL) continue;
      int ended = 0;
      MPI_Cancel(&r);  // a receive that nobody has begun to serve is withdrawn for good
      if (MPI_Test(&r, &ended, MPI_STATUS_IGNORE) == MPI_SUCCESS && ended != 0) continue;
      if (r != MPI_REQUEST_NULL) MPI_Request_free(&r);
      in_flight = true;
    }
    requests.clear();
    return in_flight;
  }

  bool present(int rank) const { return terms_->ranks[static_cast<std::size_t>(rank)].present; }
  std::byte* staging_of(window& w, int rank) const {
    return w.staging.data() + static_cast<std::size_t>(rank) * (w.staging.size() / ranks());
  }

  HVDLITE_LEAN void send_leaves(std::size_t piece, window& w) {
    for (int step = 1; step < size_; ++step) {  // everybody starts with another one
      const int from = (rank_ + size_ - step) % size_;
      if (present(from))
        receive(staging_of(w, from), piece_of(piece, rank_), from, leaf_tag, w.requests);
    }
    for (int step = 1; step < size_; ++step) {
      const int to = (rank_ + step) % size_;
      if (present(rank_)) send(op_->in, piece_of(piece, to), to, leaf_tag, w.requests);
    }
  }

  HVDLITE_LEAN void evaluate(std::size_t piece, window& w) {
    const range mine = piece_of(piece, rank_);
    const std::size_t offset = mine.begin * op_->element_bytes;
    for (int r = 0; r < size_; ++r)
      leaves_[static_cast<std::size_t>(r)] = {!present(r)  ? nullptr
                                              : r == rank_ ? op_->in + offset
                                                           : staging_of(w, r),
                                              terms_->ranks[static_cast<std::size_t>(r)].factor};
    if (!mine.empty())
      evaluate_(*op_->kernels, op_->op_context, leaves_.data(), op_->out + offset,
                mine.end - mine.begin, terms_->root);
  }

  /// Whole slices, which are all evaluated: a result that its reader fetches as soon as it is
  /// written comes out of this core's cache, which takes longer than memory does.
  HVDLITE_LEAN void share() {
    const std::size_t most = most_bytes() / op_->element_bytes;
    const std::size_t parts = (slice_of(size_ - 1).size() + most - 1) / most;  // the largest slice
    for (std::size_t part = 0; part < parts; ++part)
      for (int step = 1; step < size_; ++step) {
        const int from = (rank_ + size_ - step) % size_;
        const range theirs = part_of(slice_of(from), part, most);
        receive(op_->out + theirs.begin * op_->element_bytes, theirs, from, result_tag, results_);
      }
    for (std::size_t part = 0; part < parts; ++part)
      for (int step = 1; step < size_; ++step)
        send(op_->out, part_of(slice_of(rank_), part, most), (rank_ + step) % size_, result_tag,
             results_);
  }

  /// Of a message whose memory needs no staging: counts are ints. Tests lower the limit.
  std::size_t most_bytes() const { return (std::min)(std::size_t{1} << 30, chunk_bytes_ * 64); }

  // Broadcast: a binomial tree over ranks counted from the root.
  void receive_from_parent(std::size_t piece, window& w) {
    const int relative = (rank_ - op_->root + size_) % size_;
    if (relative == 0) return;
    const int parent = (relative & (relative - 1)) + op_->root;  // without the lowest bit
    const range r = piece_of(piece, 0);
    receive(op_->out + r.begin * op_->element_bytes, r, parent % size_, broadcast_tag, w.requests);
  }

  void send_to_children(std::size_t piece, window& w) {
    const int relative = (rank_ - op_->root + size_) % size_;
    int bit = 1;
    while (bit < size_ && (relative & bit) == 0) bit <<= 1;
    for (bit >>= 1; bit > 0; bit >>= 1)
      if (relative + bit < size_)
        send(op_->out, piece_of(piece, 0), (relative + bit + op_->root) % size_, broadcast_tag,
             w.requests);
  }

  MPI_Comm comm_;  // the channel's, which outlives this
  int rank_;
  int size_;
  std::size_t chunk_bytes_;
  bool may_block_;
  int thread_level_ = MPI_THREAD_SINGLE;
  std::thread::id main_thread_;  // once it has called
  tree_evaluator evaluate_;
  detail::list<leaf> leaves_;

  message inbox_;
  MPI_Request inbox_request_ = MPI_REQUEST_NULL;
  bool listening_ = false;  // not after an error of MPI_Start
  detail::home_process home_;
  detail::list<outgoing*> outbox_;  // some are free
  std::size_t next_out_ = 0;        // the one to look at first

  // The operation in progress.
  const operation* op_ = nullptr;
  const reduction_terms* terms_ = nullptr;
  window windows_[8];
  std::size_t in_flight_;  // how many of them are used
  std::size_t per_piece_ = 1;
  std::size_t pieces_ = 0, started_ = 0, finished_ = 0;
  bool everyone_ = false;
  bool to_share_ = false;  // the results of this rank's slice, once all are there
  request_list results_;
};

}  // namespace hvdlite
