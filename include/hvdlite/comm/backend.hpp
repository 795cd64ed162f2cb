// SPDX-License-Identifier: Apache-2.0
// The seam between the engine and whatever moves bytes. A backend is a plain class, one object per
// rank and communicator; `any_backend` erases its type, so that everything above is compiled once.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include <hvdlite/comm/operation.hpp>
#include <hvdlite/comm/placement.hpp>
#include <hvdlite/core/settings.hpp>

namespace hvdlite {

/// How far a request is: the check rides on the data path of some backends, hence its states here.
enum class state { checking, moving, done, disagree, lost };

enum class message_kind : std::uint8_t {
  check,      ///< "I am in call `sequence`": fingerprint, weight, and a payload if it is tiny
  text,       ///< a piece of a description, sent after a disagreement
  abandoned,  ///< "I gave up on call `sequence`"
  departed,   ///< "I take part in nothing from call `sequence` on": a piece of the reason
};

/// What ranks tell each other besides data: 64 bytes, sent eagerly by every transport.
struct message {
  static constexpr std::size_t payload_bytes = 32;

  std::uint64_t sequence = 0;
  std::uint64_t fingerprint = 0;
  double weight = 1;
  message_kind kind = message_kind::check;
  std::uint8_t notes = 0;    ///< see operation::notes
  std::uint16_t length = 0;  ///< of the payload
  std::uint16_t part = 0;    ///< of a text
  std::uint16_t parts = 0;   ///< that make up the text
  std::array<std::byte, payload_bytes> payload{};
};
static_assert(sizeof(message) == 64 && std::is_trivially_copyable_v<message>);

/// Names an operation in progress; meaningful to the backend that gave it out.
struct request {
  std::size_t id = static_cast<std::size_t>(-1);
  std::size_t steps = 0;  ///< grows when `progress` gets further: whoever waits then looks sooner
};

/// What a backend must offer. `reduces` and `moves` are answers at compile time; `usable` is a
/// local answer at run time, over which all ranks agree through placement.start_up().
///
/// - `post` and `poll` never block; messages of one sender arrive in order. `post` may answer false
///   (no room right now), then it is called again later.
/// - `start` and `progress` never block either. Data may move from the first call of `start` on.
/// - `withdraw` gives a request up; legal at any time, and afterwards the backend serves only
/// abort.
/// - `enter` throws usage_error if the calling thread may not use the backend.
/// - `abort` tells the other ranks that this one takes part in nothing from call `sequence` on.
/// - `drop`, if there is one, does so when the last handle of the communicator has gone in an
/// orderly
///   way: only for backends that can tell without messages, since nobody may be left to take them.
template <class B>
concept backend = std::constructible_from<B, const placement&, const settings&> &&
                  requires(B b, const placement& where, const operation& op, message& m, int& rank,
                           const reduction_terms& terms, request& r) {
                    { B::name } -> std::convertible_to<std::string_view>;
                    { B::template moves<float, host_space> } -> std::convertible_to<bool>;
                    { B::template reduces<float, host_space, sum> } -> std::convertible_to<bool>;
                    { B::usable(where) } -> std::same_as<bool>;
                    { b.post(0, std::as_const(m)) } -> std::same_as<bool>;
                    { b.poll(rank, m) } -> std::same_as<bool>;
                    { b.start(op, terms) } -> std::same_as<request>;
                    { b.progress(r) } -> std::same_as<state>;
                    { b.withdraw(r) } noexcept;
                    { b.enter() };
                    { b.abort(std::uint64_t{}, std::string_view{}) } noexcept;
                  };

/// A backend without its type.
class any_backend {
 public:
  any_backend() = default;
  any_backend(const any_backend&) = delete;
  any_backend& operator=(const any_backend&) = delete;
  virtual ~any_backend() = default;

  virtual bool post(int to, const message& m) = 0;
  virtual bool poll(int& from, message& m) = 0;
  virtual request start(const operation& op, const reduction_terms& terms) = 0;
  virtual state progress(request& r) = 0;
  virtual void withdraw(request& r) noexcept = 0;
  virtual void enter() = 0;
  virtual void abort(std::uint64_t sequence, std::string_view why) noexcept = 0;
  virtual void drop(std::uint64_t sequence, std::string_view why) noexcept = 0;
};

template <backend B>
class backend_model final : public any_backend {
 public:
  backend_model(const placement& where, const settings& set) : backend_{where, set} {}

  bool post(int to, const message& m) override { return backend_.post(to, m); }
  bool poll(int& from, message& m) override { return backend_.poll(from, m); }
  request start(const operation& op, const reduction_terms& terms) override {
    return backend_.start(op, terms);
  }
  state progress(request& r) override { return backend_.progress(r); }
  void withdraw(request& r) noexcept override { backend_.withdraw(r); }
  void enter() override { backend_.enter(); }
  void abort(std::uint64_t sequence, std::string_view why) noexcept override {
    backend_.abort(sequence, why);
  }
  void drop(std::uint64_t sequence, std::string_view why) noexcept override {
    if constexpr (requires { backend_.drop(sequence, why); }) backend_.drop(sequence, why);
  }

 private:
  B backend_;
};

/// The backends of a communicator, in the order of preference. Owns them.
class backend_list {
 public:
  struct entry {
    any_backend* backend;   ///< null if it is not usable, or once cleared
    std::string_view name;  ///< empty if it was not usable
  };

  backend_list() = default;
  backend_list(backend_list&&) = default;
  ~backend_list() { clear(); }

  /// Makes the next one, if all ranks can use it.
  template <backend B>
  void add(bool usable, const placement& where, const settings& set) {
    entries_.push_back({nullptr, {}});
    if (usable) entries_.back() = {new backend_model<B>{where, set}, B::name};
  }
  const entry& operator[](std::size_t i) const { return entries_[i]; }
  /// The first that is usable, or null.
  any_backend* first() const {
    for (const entry& e : entries_)
      if (e.backend != nullptr) return e.backend;
    return nullptr;
  }
  void clear() {
    for (entry& e : entries_) delete std::exchange(e.backend, nullptr);
  }

 private:
  detail::list<entry> entries_;
};

}  // namespace hvdlite
