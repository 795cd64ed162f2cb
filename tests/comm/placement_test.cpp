// SPDX-License-Identifier: Apache-2.0
// Who the ranks are and where: local and cross numbers, and the start-up channels.
#include <doctest/doctest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <hvdlite/comm/placement.hpp>

namespace {

/// A channel that knows who is where and never talks.
class silent_channel final : public hvdlite::channel {
 public:
  silent_channel(int rank, std::vector<int> nodes) : rank_{rank}, nodes_{std::move(nodes)} {}
  void exchange(const void*, std::size_t, void*) override {}
  std::unique_ptr<hvdlite::channel> split(int, int) override { return nullptr; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(nodes_.size()); }
  int node_of(int rank) const override { return nodes_[static_cast<std::size_t>(rank)]; }

 private:
  int rank_;
  std::vector<int> nodes_;
};

hvdlite::placement at(int rank, const std::vector<int>& nodes) {
  return hvdlite::placement{std::make_unique<silent_channel>(rank, nodes)};
}

TEST_CASE("placement: numbers of nodes mean nothing but equality") {
  const std::vector<int> nodes{9, 4, 9, 4, 4};  // round robin over unequal nodes
  CHECK(at(0, nodes).size() == 5);
  CHECK(at(3, nodes).rank() == 3);
  CHECK(at(3, nodes).node() == 4);
  CHECK(at(3, nodes).node_of(2) == 9);
  const std::vector<std::pair<int, int>> local{{0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};
  const std::vector<std::pair<int, int>> cross{{0, 2}, {1, 2}, {0, 2}, {1, 2}, {0, 1}};
  for (int r = 0; r < 5; ++r) {
    const auto where = at(r, nodes);
    CHECK(where.local_rank() == local[static_cast<std::size_t>(r)].first);
    CHECK(where.local_size() == local[static_cast<std::size_t>(r)].second);
    CHECK(where.cross_rank() == cross[static_cast<std::size_t>(r)].first);
    CHECK(where.cross_size() == cross[static_cast<std::size_t>(r)].second);
    CHECK_FALSE(where.homogeneous());
  }
  CHECK(at(1, {1, 1, 0, 0}).homogeneous());
  CHECK(at(0, {5}).homogeneous());
}

TEST_CASE("placement: a world of one") {
  const hvdlite::placement where{std::make_unique<hvdlite::lone_channel>()};
  CHECK(where.rank() == 0);
  CHECK(where.size() == 1);
  CHECK(where.local_size() == 1);
  CHECK(where.cross_rank() == 0);
  CHECK(where.cross_size() == 1);
  const char word[] = "hello";
  char all[sizeof word + 1] = "??????";
  where.start_up().exchange(word, sizeof word, all);
  CHECK(std::string{all} == word);
  where.start_up().exchange(nullptr, 0, nullptr);
  CHECK(where.start_up().split(3, 0)->size() == 1);
  CHECK(where.start_up().split(-1, 0) == nullptr);
}

}  // namespace
