// SPDX-License-Identifier: Apache-2.0
// Tests of optim/broadcast_state.hpp: sets of parameters of every structure get the root's bits.
#include "support/ranks.hpp"

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <hvdlite/core/error.hpp>
#include <hvdlite/optim/broadcast_state.hpp>

using floats = std::vector<float>;

TEST_CASE("broadcast_parameters: tuples, ranges and maps, any root") {
  hvdtest::on_every_world([](const auto& world) {
    for (int root = 0; root < world.size(); ++root) {
      const float r = static_cast<float>(world.rank());
      const float expected = static_cast<float>(root);
      floats a(1000, r);
      double b = world.rank();
      hvdlite::broadcast_parameters(world, std::tie(a, b), root);
      CHECK(a == floats(1000, expected));
      CHECK(b == root);
      std::vector<floats> range{floats(3, r), floats{}, floats(1, r + 0.5f)};
      hvdlite::broadcast_parameters(world, range, root);
      CHECK(range ==
            std::vector<floats>{floats(3, expected), floats{}, floats(1, expected + 0.5f)});
      std::map<std::string, floats> named{{"w", {r}}, {"b", {-r}}};
      hvdlite::broadcast_parameters(world, named, root);
      CHECK(named == std::map<std::string, floats>{{"w", {expected}}, {"b", {-expected}}});
    }
  });
}

TEST_CASE("broadcast_parameters: other names on one rank are named on all") {
  hvdtest::on_every_world(
      [](const auto& world) {
        std::vector<std::pair<std::string, floats>> params{
            {world.rank() == 1 ? "fc2.weight" : "fc1.weight", floats(4)}};
        const auto text = hvdtest::message_of<hvdlite::mismatch_error>(
            [&] { hvdlite::broadcast_parameters(world, params); });
        CHECK(hvdtest::lacking(text, {"parameter 0 of 1, fc1.weight",
                                      "parameter 0 of 1, fc2.weight", "rank 1"}) == "");
        params[0].first = "fc1.weight";
        params[0].second.assign(4, static_cast<float>(world.rank() + 1));
        hvdlite::broadcast_parameters(world, params);
        CHECK(params[0].second == floats(4, 1.0f));
      },
      {.least = 2});
}
