// SPDX-License-Identifier: Apache-2.0
// A collective as bytes: names, sizes, and what counts as a reduction.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include <hvdlite/comm/operation.hpp>
#include <hvdlite/ops/reduce_op.hpp>

namespace {

TEST_CASE("operation: names of verbs") {
  CHECK(std::string{hvdlite::verb_name(hvdlite::verb::barrier)} == "barrier");
  CHECK(std::string{hvdlite::verb_name(hvdlite::verb::allreduce)} == "allreduce");
  CHECK(std::string{hvdlite::verb_name(hvdlite::verb::broadcast)} == "broadcast");
  CHECK(std::string{hvdlite::verb_name(hvdlite::verb::split)} == "split");
}

TEST_CASE("operation: bytes are 64 bits wide, a reduction has kernels") {
  hvdlite::operation op;
  CHECK(op.bytes() == 0);
  CHECK_FALSE(op.reduces());
  op.count = std::size_t{3} << 30;
  op.element_bytes = 16;
  CHECK(op.bytes() == std::size_t{48} << 30);
  op.kernels = &hvdlite::kernels_of<float, hvdlite::sum>;
  CHECK(op.reduces());
}

}  // namespace
