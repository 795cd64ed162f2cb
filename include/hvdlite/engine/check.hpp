// SPDX-License-Identifier: Apache-2.0
// The first phase of a collective: every rank tells every other what it is about to do, and data
// moves only when all have come and agree. Written once, on a backend's post and poll. What ranks
// learn here of each other besides agreement: weights, tiny payloads, and who has left.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include <hvdlite/comm/backend.hpp>
#include <hvdlite/core/clock.hpp>
#include <hvdlite/core/list.hpp>
#include <hvdlite/core/text.hpp>

namespace hvdlite {

namespace detail {

/// 64 bits of everything that must agree; FNV-1a over words, finished by a mixer.
class fingerprint_hash {
 public:
  void add(std::uint64_t word) {
    hash_ = (hash_ ^ word) * 0x9e3779b97f4a7c15u;
    hash_ ^= hash_ >> 29;
  }
  void add(std::string_view words) {
    add(words.size());
    for (std::size_t at = 0; at < words.size(); at += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      const std::size_t rest = words.size() - at;
      std::memcpy(&word, words.data() + at, rest < sizeof word ? rest : sizeof word);
      add(word);
    }
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

HVDLITE_LEAN inline std::uint64_t fingerprint_of(const operation& op) {
  fingerprint_hash hash;
  hash.add(static_cast<std::uint64_t>(op.verb) | static_cast<std::uint64_t>(op.type) << 8 |
           std::uint64_t{op.reduces()} << 16 | std::uint64_t{op.averages} << 17 |
           std::uint64_t{op.weighted} << 18 | static_cast<std::uint64_t>(op.shape.rank) << 24 |
           static_cast<std::uint64_t>(op.shape.ordered) << 32);
  hash.add(static_cast<std::uint64_t>(op.root));
  for (const std::string_view words : {op.name, op.op_name, op.refused, op.space}) hash.add(words);
  hash.add(std::bit_cast<std::uint64_t>(op.prescale));
  hash.add(std::bit_cast<std::uint64_t>(op.postscale));
  for (std::size_t d = 0; d < op.shape.rank; ++d) hash.add(op.shape.extents[d]);
  for (std::size_t d = 0; d < op.shape.ordered; ++d) hash.add(op.shape.outermost_first[d]);
  return hash.value();
}

/// The same in words, as "field\x1fvalue\x1e" pairs, for the case that fingerprints differ.
HVDLITE_COLD inline text description_of(const operation& op) {
  text result;
  const auto add = [&](const char* field, const piece& value) {
    for (const char* part : {field, "\x1f"}) result += part;
    result += value;
    result += "\x1e";
  };
  if (!op.refused.empty()) add("refused", shown(op.refused));
  add("verb", verb_name(op.verb));
  if (!op.name.empty()) add("name", text({"'", shown(op.name), "'"}));
  if (op.type != dtype::none) {
    add("dtype", dtype_name(op.type));
    add("shape", op.shape.extents_text());
    add("memory order", op.shape.order_text());
    add("memory space", op.space);
  }
  if (op.verb == verb::broadcast) add("root", op.root);
  if (op.reduces()) {
    add("op", shown(op.op_name));
    add("prescale", op.prescale);
    add("postscale", op.postscale);
    add("weight", op.weighted ? "given by .samples" : "none");
  }
  return result;
}

/// The value of a field of a description.
HVDLITE_COLD inline std::string_view field_of(std::string_view description,
                                              std::string_view field) {
  for (std::size_t at = 0; at < description.size();) {
    std::size_t end = description.find('\x1e', at);
    if (end == description.npos) end = description.size();
    const std::string_view pair = description.substr(at, end - at);
    if (pair.size() > field.size() && pair[field.size()] == '\x1f' &&
        pair.substr(0, field.size()) == field)
      return pair.substr(field.size() + 1);
    at = end + 1;
  }
  return "(none)";
}

/// "0, 2 and 5 to 9": `ranks` ascending.
HVDLITE_COLD inline text ranks_text(const int* ranks, std::size_t count) {
  text result;
  for (std::size_t i = 0; i < count;) {
    std::size_t next = i + 1;
    while (next < count && ranks[next] == ranks[next - 1] + 1) ++next;
    if (next - i < 4) next = i + 1;  // short rows in full
    if (i != 0) result += next == count ? " and " : ", ";
    result += ranks[i];
    if (next != i + 1) result.add({" to ", ranks[next - 1]});
    i = next;
  }
  return result;
}

/// "rank 3", "ranks 0 and 2"
HVDLITE_COLD inline text named_ranks(const list<int>& ranks) {
  return text({ranks.size() == 1 ? "rank " : "ranks ", ranks_text(ranks.data(), ranks.size())});
}

}  // namespace detail

/// The checks of one rank on one communicator. All functions return at once.
class checker {
 public:
  /// Of a call number; above them are those of the epoch. Enough for a call a microsecond, for
  /// days.
  static constexpr int sequence_bits = 40;

  /// `backend`: carries the messages; null for a world of one, which has nothing to check.
  checker(any_backend* backend, int rank, int size, std::uint32_t epoch)
      : backend_{backend}, rank_{rank}, epoch_{epoch}, peers_{static_cast<std::size_t>(size)} {}

  /// Announces call `sequence` to every other rank.
  HVDLITE_LEAN void begin(const operation& op, std::uint64_t sequence) {
    op_ = &op;
    mine_ = {};
    mine_.sequence = sequence;
    mine_.fingerprint = detail::fingerprint_of(op);
    mine_.weight = op.weight;
    mine_.notes = op.notes;
    const bool has_payload = rides_along(op) && (op.reduces() || rank_ == op.root);
    if (has_payload && op.bytes() != 0 && !(op.reduces() && op.weight == 0)) {
      mine_.length = static_cast<std::uint16_t>(op.bytes());
      std::memcpy(mine_.payload.data(), op.in, op.bytes());
    }
    texts_out_.clear();
    for (peer& p : peers_) p.sent = 0;
    me().current = mine_;
    me().has_current = true;
  }

  /// Whether a call is so small that its data travels in the announcement.
  static bool rides_along(const operation& op) {
    return op.bytes() <= message::payload_bytes &&
           (op.verb == verb::allreduce || op.verb == verb::broadcast);
  }

  /// Sends what is unsent, takes what came. `checking` until all are here, then `moving`;
  /// `disagree` as soon as two ranks differ and the texts of all that came are here; `lost` if a
  /// rank has given up on the call, or has not come and never will.
  HVDLITE_LEAN state poll() {
    flush();
    drain();
    bool all = true;
    bool differ = false;
    for (peer& p : peers_) {
      if (!p.has_current) p.has_current = take(p, mine_.sequence);
      all = all && p.has_current;
      differ = differ || (p.has_current && p.current.fingerprint != mine_.fingerprint);
    }
    if (differ) return poll_texts();
    if (abandoned_by() >= 0) return state::lost;
    if (all && flushed()) return state::moving;
    return lost_rank() >= 0 ? state::lost : state::checking;
  }

  /// Announces the call as one that this rank refuses, with the reason in its description, so that
  /// no other rank waits for it: call until true. (A rank that is far behind has a full mailbox.)
  HVDLITE_COLD bool refuse() {
    if (texts_out_.empty()) write_text();
    flush();
    drain();
    return posted_everything();
  }

  /// While data moves: takes messages; `lost` if a rank gave up or left before this call was done.
  HVDLITE_LEAN state watch() {
    drain();
    return abandoned_by() >= 0 || lost_rank() >= 0 ? state::lost : state::moving;
  }

  /// Gives up: ranks that are in the call, or come later, are told.
  HVDLITE_COLD void abandon() {
    message m;
    m.kind = message_kind::abandoned;
    m.sequence = mine_.sequence;
    for (int to = 0; to < static_cast<int>(peers_.size()); ++to)
      for (int attempt = 0; to != rank_ && attempt < 1000 && !backend_->post(to, m); ++attempt) {
      }
  }

  /// The call is over; what came for later ones stays.
  HVDLITE_LEAN void end() {
    for (peer& p : peers_) {
      p.has_current = false;
      for (std::size_t i = p.texts.size(); i-- > 0;)
        if (p.texts[i].sequence <= mine_.sequence) p.texts.erase(i);
    }
  }

  double weight_of(int rank) const { return at(rank).current.weight; }
  /// Of all ranks that have announced this call.
  std::uint8_t notes() const {
    unsigned all = 0;
    for (const peer& p : peers_)
      if (p.has_current) all |= p.current.notes;
    return static_cast<std::uint8_t>(all);
  }
  const message& announcement_of(int rank) const { return at(rank).current; }

  /// Ranks that have, or have not, announced this call.
  enum class presence { here, missing };
  HVDLITE_COLD detail::list<int> ranks_that_are(presence wanted) const {
    detail::list<int> result;
    for (std::size_t r = 0; r < peers_.size(); ++r)
      if (peers_[r].has_current == (wanted == presence::here))
        result.push_back(static_cast<int>(r));
    return result;
  }

  /// The last call that a rank has announced; 0 if none.
  std::uint64_t last_heard_of(int rank) const {
    const std::uint64_t last = at(rank).last_heard;
    return last == 0 ? 0 : last % (std::uint64_t{1} << sequence_bits);
  }

  /// The process of a rank has ended. What it had sent is taken first: only what is told twice,
  /// with polls between, makes it lost.
  HVDLITE_COLD void has_ended(int rank, std::int64_t process) {
    peer& p = peers_[static_cast<std::size_t>(rank)];
    if (p.reason_complete || !std::exchange(p.seen_ended, true)) return;
    p.departed = p.reason_complete = true;
    p.last_sequence = 0;
    p.reason = detail::text({"its process (", process, ") has ended without a word"});
  }
  bool has_departed(int rank) const { return at(rank).reason_complete; }

  /// The rank that will never do this call, or -1; and why.
  int lost_rank() const {
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      if (has_left(peers_[r])) return static_cast<int>(r);
    }
    return -1;
  }
  const detail::text& reason_of(int rank) const { return at(rank).reason; }

  /// The rank that gave up on this call, or -1. One that has given up on a later call has given up
  /// on this one as well: it could not have completed it alone.
  int abandoned_by() const {
    for (std::size_t r = 0; r < peers_.size(); ++r)
      if (peers_[r].abandoned >= mine_.sequence) return static_cast<int>(r);
    return -1;
  }

  /// After `disagree`: every field in which the ranks differ, with its values and their ranks.
  HVDLITE_COLD detail::text disagreement() const {
    detail::fixed_array<detail::text> words{peers_.size()};
    detail::list<int> ranks;  // those that said what they do
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      words[r] = words_of(peers_[r]);
      if (!words[r].empty()) ranks.push_back(static_cast<int>(r));
    }
    detail::list<std::string_view> values;
    values.resize(ranks.size());
    detail::text result;
    bool other_verbs = false;
    for (const char* field : {"refused", "verb", "name", "dtype", "shape", "memory order",
                              "memory space", "root", "op", "prescale", "postscale", "weight"}) {
      bool differ = false;
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        values[i] = detail::field_of(words[static_cast<std::size_t>(ranks[i])], field);
        differ = differ || values[i] != values[0];
      }
      const bool refused = std::string_view{field} == "refused";
      if (!differ && !(refused && values[0] != "(none)")) continue;
      if (other_verbs && std::string_view{field} == "dtype") break;  // each has its own fields
      other_verbs = other_verbs || std::string_view{field} == "verb";
      if (!refused) result.add({result.empty() ? "" : "; ", field, ": "});
      bool first_group = true;
      for (std::size_t i = 0; i < values.size(); ++i) {
        std::size_t first = 0;
        while (values[first] != values[i]) ++first;
        if (first != i || (refused && values[i] == "(none)")) continue;
        detail::list<int> alike;
        for (std::size_t j = i; j < values.size(); ++j)
          if (values[j] == values[i]) alike.push_back(ranks[j]);
        const detail::text who = detail::named_ranks(alike);
        if (refused)
          result.add({first_group ? "" : "; ", who,
                      alike.size() == 1 ? " refuses it: " : " refuse it: ", values[i]});
        else
          result.add({first_group ? "" : ", ", values[i], " on ", who});
        first_group = false;
      }
      if (refused) return result;  // the other fields only show what is wrong with that call
    }
    if (result.empty()) result += "the calls differ";
    return result;
  }

 private:
  struct peer {
    bool has_current = false;
    message current;
    detail::list<message> later;   // announcements of calls that this rank has not made yet
    detail::list<message> texts;   // descriptions of its calls, in pieces, after disagreements
    std::size_t sent = 0;          // to it: the announcement, then texts_out_
    std::uint64_t abandoned = 0;   // the last call that it gave up on
    std::uint64_t last_heard = 0;  // the last call that it announced

    bool departed = false, reason_complete = false, seen_ended = false;
    std::uint64_t last_sequence = 0;  // the first call that it does not take part in
    detail::text reason;
  };

  peer& me() { return peers_[static_cast<std::size_t>(rank_)]; }
  const peer& me() const { return at(rank_); }
  const peer& at(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }

  bool has_left(const peer& p) const {
    return p.departed && p.reason_complete && p.last_sequence <= mine_.sequence;
  }

  /// Own messages, in order: the announcement, then after a disagreement the pieces of the text.
  HVDLITE_LEAN void flush() {
    for (int to = 0; to < static_cast<int>(peers_.size()); ++to) {
      peer& p = peers_[static_cast<std::size_t>(to)];
      // Nobody is there to read it, whatever calls it still took part in.
      if (p.reason_complete) p.sent = 1 + texts_out_.size();
      while (to != rank_ && p.sent < 1 + texts_out_.size()) {
        if (!backend_->post(to, p.sent == 0 ? mine_ : texts_out_[p.sent - 1])) break;
        ++p.sent;
      }
    }
  }
  /// Whether everybody has the announcement, and those that came have the text, if there is one.
  bool flushed() const {
    for (const peer& p : peers_)
      if (&p != &me() && p.sent < 1 + (p.has_current ? texts_out_.size() : 0)) return false;
    return true;
  }
  bool posted_everything() const {
    for (const peer& p : peers_)
      if (&p != &me() && p.sent < 1 + texts_out_.size()) return false;
    return true;
  }

  HVDLITE_LEAN void drain() {
    int from = 0;
    message m;
    while (backend_->poll(from, m)) {
      if (m.sequence >> sequence_bits != epoch_) continue;  // of a communicator that is gone
      peer& p = peers_[static_cast<std::size_t>(from)];
      switch (m.kind) {
        case message_kind::check:
          p.last_heard = m.sequence;
          if (m.sequence == mine_.sequence && !p.has_current) {
            p.current = m;
            p.has_current = true;
          } else if (m.sequence > mine_.sequence) {
            p.later.push_back(m);
          }
          break;
        case message_kind::text:
          if (m.sequence >= mine_.sequence) p.texts.push_back(m);
          break;
        case message_kind::abandoned:
          p.abandoned = m.sequence;
          break;
        case message_kind::departed:
          if (p.reason_complete) break;  // it has left already: the first reason stays
          p.departed = true;
          p.last_sequence = m.sequence;
          p.reason += text_of(m);
          p.reason_complete = m.part + 1 == m.parts;
          break;
      }
    }
  }

  static std::string_view text_of(const message& m) {
    return {reinterpret_cast<const char*>(m.payload.data()), m.length};
  }

  static bool take(peer& p, std::uint64_t sequence) {
    for (std::size_t i = 0; i < p.later.size(); ++i) {
      if (p.later[i].sequence != sequence) continue;
      p.current = p.later[i];
      p.later.erase(i);
      return true;
    }
    return false;
  }

  /// What a rank said about this call, as far as it has arrived.
  HVDLITE_COLD detail::text words_of(const peer& p) const {
    detail::text words;
    for (const message& m : p.texts)
      if (m.sequence == mine_.sequence) words += text_of(m);
    return words;
  }
  bool has_said_all(const peer& p) const {
    for (const message& m : p.texts)
      if (m.sequence == mine_.sequence && m.part + 1 == m.parts) return true;
    return false;
  }

  HVDLITE_COLD void write_text() {
    const detail::text description = detail::description_of(*op_);
    const std::string_view words = description;
    constexpr std::size_t piece = message::payload_bytes;
    const std::size_t parts = (words.size() + piece - 1) / piece;
    for (std::size_t part = 0; part < parts; ++part) {
      message m;
      m.kind = message_kind::text;
      m.sequence = mine_.sequence;
      m.part = static_cast<std::uint16_t>(part);
      m.parts = static_cast<std::uint16_t>(parts);
      const std::string_view bytes = words.substr(part * piece, piece);
      m.length = static_cast<std::uint16_t>(bytes.size());
      std::memcpy(m.payload.data(), bytes.data(), bytes.size());
      texts_out_.push_back(m);
      me().texts.push_back(m);
    }
    texts_since_ = {};
  }

  /// Own text out, the others' in. A rank that has not come yet will find everything in its inbox;
  /// one that stops now costs its part of the message, not the error.
  HVDLITE_COLD state poll_texts() {
    if (texts_out_.empty()) write_text();
    flush();
    drain();
    bool all = flushed();
    for (const peer& p : peers_) {
      if (!p.has_current || p.departed) continue;
      if (!p.later.empty()) continue;  // it has gone on, and what it said before has arrived
      all = all && has_said_all(p);
    }
    return all || to_seconds(texts_since_.elapsed()) > 2 ? state::disagree : state::checking;
  }

  any_backend* backend_;
  int rank_;
  std::uint32_t epoch_;
  detail::fixed_array<peer> peers_;
  const operation* op_ = nullptr;
  message mine_;
  detail::list<message> texts_out_;
  stopwatch texts_since_;
};

}  // namespace hvdlite
