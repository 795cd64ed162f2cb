// SPDX-License-Identifier: Apache-2.0
// The matrix: every verb, in every mode, with every element, op, scale, size, layout and number of
// ranks that are declared here and in elements.hpp, against the plain reference.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <hvdlite/collective/barrier.hpp>
#include <hvdlite/trace/log.hpp>

#include "matrix/elements.hpp"

namespace hvdtest {

const std::vector<element_row>& element_rows() {
  static const std::vector<element_row> rows = []<std::size_t... I>(std::index_sequence<I...>) {
    return std::vector<element_row>{make_element_row<std::tuple_element_t<I, element_list>>()...};
  }(std::make_index_sequence<std::tuple_size_v<element_list>>{});
  return rows;
}

namespace {

constexpr std::string_view mode_names[] = {"in place", "out of place"};

struct scale_case {
  double pre, post;
};
const std::vector<scale_case>& scales() {
  static const std::vector<scale_case> thorough{{1, 1}, {1.7, 1}, {1, 0.3}, {1.7, 0.3}};
  static const std::vector<scale_case> slow{{1, 1}, {1.7, 0.3}};  // with a sanitizer
  return slowness() > 1 ? slow : thorough;
}

/// Who brings how many samples; {} is no weights.
struct weight_case {
  std::string_view name;
  std::vector<double> of_rank;
};
const weight_case unweighted{"no weights", {}};
const weight_case unequal{"unequal weights", {3, 1, 2, 5, 4}};
const weight_case average_weights[] = {
    unequal,
    {"fractional weights", {0.5, 1.25, 2.5, 0.75, 3.5}},
    {"equal weights", {7, 7, 7, 7, 7}},
    {"some weights 0", {0, 2, 0, 3, 1}},
    {"all weights 0", {0, 0, 0, 0, 0}},
};

/// An op and weights: the average with all of them, the other ops (which refuse them) with one.
struct op_variant {
  std::size_t op;
  const weight_case* weights;
};
const std::vector<op_variant>& op_variants() {
  static const std::vector<op_variant> all = [] {
    std::vector<op_variant> result;
    for (std::size_t op = 0; op < op_count; ++op) {
      result.push_back({op, &unweighted});
      if (op_names[op] != "average") {
        result.push_back({op, &unequal});
        continue;
      }
      for (const weight_case& weights : average_weights) result.push_back({op, &weights});
    }
    return result;
  }();
  return all;
}

/// One way in which data is cut into pieces, and sizes that make sense with it: nothing, one
/// element, within and beyond what rides on the check (32 bytes) and what all ranks evaluate
/// (4096).
struct pass {
  std::string chunk_bytes;  ///< empty: the default
  std::vector<std::size_t> sizes;
};
const std::vector<pass>& passes() {
  static const std::vector<pass> thorough{
      {"", {0, 1, 7, 15, 1023, 4199}},
      {"40", {0, 1, 7, 67}},
      {"1024", {1155}},
  };
  // With a sanitizer, for which the other tests have large tensors.
  static const std::vector<pass> slow{
      {"", {0, 7}},
      {"40", {67}},
      {"1024", {600}},
  };
  return slowness() > 1 ? slow : thorough;
}

std::vector<axis> allreduce_axes(const pass& p, int) {
  return {{"element", element_rows().size()}, {"op and weights", op_variants().size()},
          {"scale", scales().size()},         {"size", p.sizes.size()},
          {"mode", std::size(mode_names)},    {"layout", std::size(layouts)}};
}
std::vector<axis> broadcast_axes(const pass& p, int ranks) {
  return {{"element", element_rows().size()},
          {"root", static_cast<std::size_t>(ranks)},
          {"size", p.sizes.size()},
          {"layout", std::size(layouts)}};
}
std::vector<axis> barrier_axes(const pass&, int ranks) {
  return {{"last to come", static_cast<std::size_t>(ranks)}};
}

/// A message "verb 'name' (f32 x 3, rank 1 of 2): sentence" without what is before the sentence.
std::string sentence_of(std::string_view message) {
  const auto end = message.find("): ");
  return std::string{end == std::string_view::npos ? message : message.substr(end + 3)};
}

/// What the policies say about a cell, apart from what the library says of itself.
bool defined_by_policy(const element_row& element, reduction kind) {
  switch (kind) {
    case reduction::sum:
    case reduction::average:
    case reduction::product:
      return !element.boolean;
    case reduction::min:
    case reduction::max:
      return element.integer || element.floating;
    case reduction::logical_and:
    case reduction::logical_or:
      return element.integer || element.boolean;
    case reduction::first_nonzero:
      return true;
  }
  return false;
}
bool refused_by_policy(const element_row& element, reduction kind, const scale_case& scale,
                       const weight_case& weights) {
  const bool scaled = scale.pre != 1 || scale.post != 1;
  const bool weighted = !weights.of_rank.empty();
  if (weighted && kind != reduction::average) return true;
  if (scaled && (kind == reduction::logical_and || kind == reduction::logical_or)) return true;
  const bool fractional = weighted && std::floor(weights.of_rank[0]) != weights.of_rank[0];
  if (fractional && element.integer) return true;
  return (scaled || weighted) && (element.boolean || (element.integer && element.bytes == 8));
}

/// Counts a rank's failed cells and prints the first ones.
class failures {
 public:
  void add(const std::string& cell, std::string_view what) {
    if (++count_ <= 10) FAIL_CHECK(cell << ": " << what);
  }
  int count() const { return count_; }

 private:
  int count_ = 0;
};

/// One allreduce: what goes in, what must come out.
struct allreduce_cell {
  std::vector<std::size_t> index;
  std::string_view op, weights;
  scale_case scale;
  layout where;
  bool in_place;
  bool refusal;  ///< expected
  hvdlite::allreduce_options options;
  canvas in, out, in_before, wanted;
  std::string refused = {};  ///< what the library said

  canvas& to() { return in_place ? in : out; }

  std::string name(const element_row& element) const {
    return "allreduce " + std::string{mode_names[in_place ? 0 : 1]} + ", " + std::string{op} +
           " of " + std::string{element.name} + " x " + std::to_string(where.count) + ", " +
           std::string{weights} + ", prescale " + std::to_string(scale.pre) + ", postscale " +
           std::to_string(scale.post) + ", " +
           std::string{layout_names[static_cast<std::size_t>(where.kind)]};
  }

  /// What is wrong; empty if nothing is.
  std::string verdict(const element_row& element) {
    if (refusal && refused.empty()) return "is not refused";
    if (!refusal && !refused.empty()) return "is refused: " + refused;
    if (!in_place && !(in == in_before)) return "has changed its input";
    if (to() == wanted) return {};
    for (std::size_t i = 0; i < where.count; ++i)
      if (!element.same(to().element(i), wanted.element(i)))
        return "element " + std::to_string(i) + " is not what it should be";
    return to().neighbours_untouched() ? "" : "has written to neighbours";
  }
};

/// All cells of one element and one op with its weights: prepared first, so that the ranks then
/// make their calls side by side.
std::vector<allreduce_cell> prepare(const world_type& world, const pass& p, std::size_t e,
                                    std::size_t v) {
  const auto ranks = static_cast<std::size_t>(world.size());
  const auto me = static_cast<std::size_t>(world.rank());
  const element_row& element = element_rows()[e];
  const op_variant& variant = op_variants()[v];
  const reduction kind = element.ops[variant.op].kind;
  std::vector<allreduce_cell> result;
  for (std::size_t s = 0; s < scales().size(); ++s)
    for (std::size_t z = 0; z < p.sizes.size(); ++z) {
      const std::size_t count = p.sizes[z];
      const bool scaled = scales()[s].pre != 1 || scales()[s].post != 1;
      scaling with{scales()[s].pre, scales()[s].post, variant.weights->of_rank};
      if (!with.weights.empty()) with.weights.resize(ranks);
      const bool refusal = refused_by_policy(element, kind, scales()[s], *variant.weights);
      std::vector<std::vector<std::byte>> data(ranks);
      for (std::size_t r = 0; r < ranks; ++r)
        if (!refusal || r == me)
          data[r] =
              !with.weights.empty() && with.weights[r] == 0
                  ? element.not_a_number(count)
                  : element.random((((e * 64 + v) * 8 + s) * 64 + r) * 64 + z, count, kind, scaled);
      const bool nothing = refusal || shares{with, ranks, kind == reduction::average}.nothing;
      // A world of one changes what a scale changes, and nothing else.
      const bool identity = nothing || (ranks == 1 && !scaled);
      const auto expected = identity ? data[me] : element.reference(data, kind, with);
      hvdlite::allreduce_options options{.prescale = with.prescale, .postscale = with.postscale};
      if (!with.weights.empty()) options.samples = with.weights[me];

      for (std::size_t m = 0; m < std::size(mode_names); ++m)
        for (std::size_t l = 0; l < std::size(layouts); ++l) {
          const bool in_place = m == 0;
          const layout where{layouts[l], count};
          const canvas blank{where, element.bytes};  // sentinels also where elements go
          canvas in = blank, wanted = blank;
          in.fill(data[me]);
          if (in_place || !nothing) wanted.fill(expected);
          result.push_back({{e, v, s, z, m, l},
                            op_names[variant.op],
                            variant.weights->name,
                            scales()[s],
                            where,
                            in_place,
                            refusal,
                            options,
                            in,
                            blank,
                            in,
                            wanted});
        }
    }
  return result;
}

/// The cells of an element and an op that the compiler refuses.
void refuse_all(const pass& p, std::size_t e, std::size_t v, std::string_view sentence,
                book* cells) {
  if (cells == nullptr) return;
  for (std::size_t s = 0; s < scales().size(); ++s)
    for (std::size_t z = 0; z < p.sizes.size(); ++z)
      for (std::size_t m = 0; m < std::size(mode_names); ++m)
        for (std::size_t l = 0; l < std::size(layouts); ++l)
          cells->refused({e, v, s, z, m, l}, sentence);
}

void allreduce_cells(const world_type& world, const pass& p, book* cells, failures& failed) {
  const auto& rows = element_rows();
  for (std::size_t e = 0; e < rows.size(); ++e)
    for (std::size_t v = 0; v < op_variants().size(); ++v) {
      const element_row& element = rows[e];
      const op_row& op = element.ops[op_variants()[v].op];
      if (defined_by_policy(element, op.kind) != (op.call != nullptr))
        failed.add(std::string{op_names[op_variants()[v].op]} + " of " + std::string{element.name},
                   op.call == nullptr ? "does not compile" : "compiles");
      if (op.call == nullptr) {
        CHECK(!op.unsupported.empty());
        refuse_all(p, e, v, op.unsupported, cells);
        continue;
      }
      auto group = prepare(world, p, e, v);
      for (allreduce_cell& cell : group) try {
          op.call(world, cell.in.data(), cell.to().data(), cell.where, cell.options);
        } catch (const hvdlite::usage_error& error) {
          cell.refused = sentence_of(error.what());
        }
      for (allreduce_cell& cell : group) {
        if (cells != nullptr && cell.refused.empty()) cells->ran(cell.index);
        if (cells != nullptr && !cell.refused.empty()) cells->refused(cell.index, cell.refused);
        const std::string wrong = cell.verdict(element);
        if (!wrong.empty())
          failed.add(cell.name(element) + ", chunks of '" + p.chunk_bytes + "'", wrong);
      }
    }
}

void broadcast_cells(const world_type& world, const pass& p, book* cells, failures& failed) {
  const auto& rows = element_rows();
  for (std::size_t e = 0; e < rows.size(); ++e)
    for (std::size_t root = 0; root < static_cast<std::size_t>(world.size()); ++root)
      for (std::size_t z = 0; z < p.sizes.size(); ++z)
        for (std::size_t l = 0; l < std::size(layouts); ++l) {
          const element_row& element = rows[e];
          const std::size_t count = p.sizes[z];
          const layout where{layouts[l], count};
          const auto bytes_of = [&](std::size_t rank) {  // any bits, also those of no number
            random_bits bits{(e * 64 + z) * 64 + rank + 1};
            std::vector<std::byte> result(count * element.bytes);
            for (auto& b : result)
              b = static_cast<std::byte>(bits.below(element.boolean ? 2 : 256));
            return result;
          };
          canvas data{where, element.bytes}, wanted{where, element.bytes};
          data.fill(bytes_of(static_cast<std::size_t>(world.rank())));
          wanted.fill(bytes_of(root));
          element.broadcast(world, data.data(), where, static_cast<int>(root));
          if (cells != nullptr) cells->ran({e, root, z, l});
          if (!(data == wanted))
            failed.add("broadcast from rank " + std::to_string(root) + " of " +
                           std::string{element.name} + " x " + std::to_string(count) + ", " +
                           std::string{layout_names[l]} + ", chunks of '" + p.chunk_bytes + "'",
                       "is not the root's, or has written to neighbours");
        }
}

void barrier_cells(const world_type& world, const pass&, book* cells, failures& failed) {
  // One clock for all processes of this machine.
  const auto now = [] {
    return static_cast<double>(std::chrono::steady_clock::now().time_since_epoch().count());
  };
  for (int last = 0; last < world.size(); ++last) {
    if (world.rank() == last) std::this_thread::sleep_for(std::chrono::milliseconds{5});
    double came = now();
    hvdlite::barrier(world);
    const double left = now();
    hvdlite::allreduce(world, came, hvdlite::max{});
    if (cells != nullptr) cells->ran({static_cast<std::size_t>(last)});
    if (left < came)
      failed.add("barrier", "was left before rank " + std::to_string(last) + " had come");
  }
}

/// The verbs. A further one is a further line.
struct verb_row {
  std::string_view name;
  std::vector<axis> (*axes)(const pass&, int ranks);
  void (*cells)(const world_type&, const pass&, book*, failures&);
};
constexpr verb_row verbs[] = {
    {"allreduce", &allreduce_axes, &allreduce_cells},
    {"broadcast", &broadcast_axes, &broadcast_cells},
    {"barrier", &barrier_axes, &barrier_cells},
};

TEST_CASE("matrix") {
  // "every rank gave 0 samples" is said once per world; that is another test's.
  const auto previous = hvdlite::set_log_sink([](hvdlite::log_level, std::string_view) {});
  // Planned before anything runs, for every world there has to be.
  std::map<std::pair<std::size_t, int>, std::vector<book>> books;
  for (std::size_t p = 0; p < passes().size(); ++p)
    for (const int ranks : world_sizes())
      for (const verb_row& verb : verbs)
        books[{p, ranks}].emplace_back(std::string{verb.name}, verb.axes(passes()[p], ranks));

  bool prints = true;
  for (std::size_t p = 0; p < passes().size(); ++p) {
    world_options options;
    if (!passes()[p].chunk_bytes.empty())
      options.environment = {{"HVDLITE_CHUNK_BYTES", passes()[p].chunk_bytes}};
    on_every_world(
        [&](const world_type& world) {
          const bool keeps_books = under_mpi() || world.rank() == 0;
          failures failed;
          for (std::size_t v = 0; v < std::size(verbs); ++v) {
            if (keeps_books) restart_deadline();
            book* cells = keeps_books ? &books.at({p, world.size()})[v] : nullptr;
            verbs[v].cells(world, passes()[p], cells, failed);
          }
          CHECK(failed.count() == 0);
          if (keeps_books) prints = world.rank() == 0;
        },
        options);
  }
  hvdlite::set_log_sink(previous);

  std::size_t ran = 0, refused = 0, missing = 0;
  std::map<std::string, std::size_t> sentences;
  std::string first_missing;
  for (const auto& [world, of_verb] : books)
    for (const book& b : of_verb) {
      ran += b.count_ran();
      refused += b.count_refused();
      missing += b.count_missing();
      if (first_missing.empty()) first_missing = b.first_missing();
      for (const auto& [sentence, count] : b.sentences()) sentences[sentence] += count;
    }
  if (prints) {
    std::string text = "matrix: cells run " + std::to_string(ran) + ", refused " +
                       std::to_string(refused) + ", missing " + std::to_string(missing) + "\n";
    for (const auto& [sentence, count] : sentences)
      text += "matrix:   refused " + std::to_string(count) + ": " + sentence + "\n";
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }
  CHECK_MESSAGE(missing == 0, "the first missing cell: " << first_missing);
}

}  // namespace
}  // namespace hvdtest
