// SPDX-License-Identifier: Apache-2.0
// The packed gradients of an optimizer, and the calls that ranks make for them: one meeting that
// compares the parameters, and in each step one reduction per bucket.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hvdlite/collective/allreduce.hpp>
#include <hvdlite/engine/plan.hpp>
#include <hvdlite/optim/parameter_list.hpp>

namespace hvdlite::detail {

/// Bits of all ranks, or-ed: what lists and sets of flags are compared and united with.
struct bitwise_or : reduce_op_tag {
  static constexpr std::string_view name = "bitwise_or";
  template <class T>
  static constexpr bool supports = std::same_as<T, std::uint64_t>;
  static constexpr std::string_view unsupported = "bitwise_or is for 64-bit words";
  template <class T>
  using accumulator = std::uint64_t;
  template <class T>
  static std::uint64_t identity() {
    return 0;
  }
  template <class T>
  static std::uint64_t combine(std::uint64_t a, std::uint64_t b) {
    return a | b;
  }
};

/// "optimizer 2", and its name if it has one.
HVDLITE_COLD inline text optimizer_text(std::size_t ordinal, std::string_view name) {
  text words({"optimizer ", ordinal});
  if (!name.empty()) words.add({" ('", shown(name), "')"});
  return words;
}

/// What a rank brings to the reductions of one step.
struct contribution {
  double weight = 1;           ///< in an average; 0: what is packed is not read
  bool weighs = false;         ///< the weight is not simply 1
  bool gives_samples = false;  ///< the user said them, ...
  bool lacks_samples = false;  ///< ... or said none
};

/// See the file's head. All calls but `plan` and `at` are collective. A template, so that only
/// programs with an optimizer compile it.
template <class Tag>
class basic_gradient_buckets {
 public:
  using runner = std::function<outcome(const operation&)>;

  /// `prototype`: a reduction of the elements, without memory. `who`: the optimizer's number and
  /// name.
  basic_gradient_buckets(runner run, const operation& prototype, bucket_limits limits,
                         std::string_view who)
      : run_{std::move(run)}, prototype_{prototype}, limits_{limits} {
    who_ += who;
  }

  const text& who() const { return who_; }
  const bucket_plan* plan() const { return agreed_ ? &*plan_ : nullptr; }
  /// Elements in all, and where those of a parameter begin.
  std::size_t total() const { return plan_->total; }
  std::size_t offset(std::size_t i) const { return plan_->offsets[i]; }

  /// The packed gradient of a parameter.
  std::byte* at(std::size_t i) {
    packed_.resize_for_overwrite(total() * prototype_.element_bytes);
    return packed_.data() + offset(i) * prototype_.element_bytes;
  }

  /// Where each gradient is packed. Local.
  HVDLITE_OUT_OF_LINE void make_plan(const parameter_list& parameters) {
    std::vector<std::size_t> counts;
    for (std::size_t i = 0; i < parameters.size(); ++i)  // the same memory is packed once
      counts.push_back(parameters.first_of(i) == i ? parameters.shape(i).count() : 0);
    plan_.emplace(counts, prototype_.element_bytes, limits_);
    names_.clear();
    for (const bucket& b : plan_->buckets)
      names_.add(text({"gradients ", b.first_parameter, " to ", b.last_parameter, " of ", who_}));
  }

  /// All ranks have the same parameters and `settings`, or all throw a mismatch_error that names
  /// the first difference.
  HVDLITE_COLD void agree(const parameter_list& parameters, std::string_view settings) {
    meet(text({who_, ", buckets of ", limits_.first, " and ", limits_.others, " bytes", settings}));
    // Equal on all ranks, if no bit is set in one and not set in another.
    const std::uint64_t hash = parameters.fingerprint();
    std::uint64_t both[]{hash, ~hash};
    unite(both, 2, text({"fingerprint of ", who_}));
    if ((both[0] & both[1]) != 0)
      for (std::size_t i = 0;; ++i)  // until it throws, on all ranks
        meet(text({who_, ", ", parameters.description(i)}));
    agreed_ = true;
  }
  bool agreed() const { return agreed_; }

  /// Reduces all that is packed. `present`: which parameters this rank has gradients of; then,
  /// which any rank has. False if no rank had any samples: nothing was written.
  bool reduce(const parameter_list& parameters, const contribution& mine,
              list<unsigned char>& present) {
    bool lacks = false;
    if (mine.weight != 0)
      for (std::size_t i = 0; i < present.size(); ++i)
        lacks = lacks || (present[i] == 0 && parameters.first_of(i) == i);
    const std::uint8_t notes = notes_of(mine, lacks);
    unsigned all = 0;
    for (std::size_t b = 0; b < plan_->buckets.size(); ++b) {
      const bucket& piece = plan_->buckets[b];
      operation call = prototype_;
      call.name = names_[b];
      describe(call, packed_.data() + piece.begin * call.element_bytes, piece.count);
      // The first call tells all ranks what the others need: with a weight it is announced even if
      // calls are not compared.
      call.weighted = b == 0 || (all & weighs) != 0;
      call.weight = mine.weight;
      call.notes = notes;
      const outcome result = run_(call);
      if (b != 0) continue;
      all = result.notes;
      if ((all & gives_samples) != 0 && (all & lacks_samples) != 0)
        meet(text({who_, mine.gives_samples   ? ": .samples are given"
                         : mine.lacks_samples ? ": .samples are not given"
                                              : ": without a pass"}));
      if (!result.written) return false;
    }
    if ((all & lacks_gradients) != 0)
      share(present, mine.weight != 0);
    else  // who has samples has all gradients
      for (unsigned char& each : present) each = 1;
    return true;
  }

  /// A call in which nothing moves: ranks compare `name`, and share one bit.
  bool meet(std::string_view name, bool bit = false) {
    operation call;
    call.verb = verb::optimizer_step;
    call.name = name;
    call.notes = bit ? 1 : 0;
    return run_(call).notes != 0;
  }

  /// Throws a usage_error, and tells the other ranks at their next call.
  [[noreturn]] HVDLITE_COLD void refuse(std::string_view why) const {
    operation call;
    call.verb = verb::optimizer_step;
    call.name = who_;
    call.refused = why;
    run_(call);
    fail<usage_error>({why});  // not reached: a refused call throws
  }

 private:
  static constexpr unsigned lacks_gradients = 1, weighs = 2, gives_samples = 4, lacks_samples = 8;

  static std::uint8_t notes_of(const contribution& mine, bool lacks) {
    unsigned notes = lacks ? lacks_gradients : 0;
    if (mine.weighs) notes |= weighs;
    if (mine.gives_samples) notes |= gives_samples;
    if (mine.lacks_samples) notes |= lacks_samples;
    return static_cast<std::uint8_t>(notes);
  }

  void describe(operation& call, std::byte* memory, std::size_t count) const {
    call.count = count;
    call.shape = tensor_shape::vector(count);
    call.out = memory;
    call.in = memory;
  }

  void unite(std::uint64_t* words, std::size_t count, std::string_view name) {
    static constexpr bitwise_or op{};
    operation call = reduction_call<std::uint64_t>(op, {.name = name}, {});
    call.element_bytes = sizeof *words;
    call.type = dtype::u64;
    describe(call, reinterpret_cast<std::byte*>(words), count);
    run_(call);
  }

  HVDLITE_COLD void share(list<unsigned char>& present, bool counts) {
    list<std::uint64_t> words{(present.size() + 63) / 64};
    for (std::size_t i = 0; i < present.size(); ++i)
      if (counts && present[i] != 0) words[i / 64] |= std::uint64_t{1} << i % 64;
    unite(words.data(), words.size(), text({"gradients there are, of ", who_}));
    for (std::size_t i = 0; i < present.size(); ++i)
      present[i] = (words[i / 64] >> i % 64 & 1) != 0;
  }

  runner run_;
  operation prototype_;
  bucket_limits limits_;
  text who_;
  std::optional<bucket_plan> plan_;
  bool agreed_ = false;
  name_list names_;         // of the buckets
  list<std::byte> packed_;  // all gradients, in the plan's order
};
using gradient_buckets = basic_gradient_buckets<void>;

}  // namespace hvdlite::detail
