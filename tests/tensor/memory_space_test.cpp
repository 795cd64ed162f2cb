// SPDX-License-Identifier: Apache-2.0
// A memory space is one of two types with a name that messages show.
#include <doctest/doctest.h>

#include <string_view>

#include <hvdlite/tensor/memory_space.hpp>

static_assert(hvdlite::memory_space<hvdlite::host_space>);
static_assert(hvdlite::memory_space<hvdlite::cuda_space>);
static_assert(!hvdlite::memory_space<int> && !hvdlite::memory_space<const hvdlite::host_space>);
static_assert(!hvdlite::memory_space<hvdlite::host_space&>);

TEST_CASE("spaces have different names") {
  CHECK(hvdlite::host_space::name == "host");
  CHECK(hvdlite::cuda_space::name == "cuda");
}
