// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <hvdlite/core/fork.hpp>

using hvdlite::detail::home_process;

TEST_CASE(
    "home_process: left in the child of a fork, not in the parent, nor by what the child makes") {
  const home_process home;
  CHECK_FALSE(home.left());
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const home_process of_the_child;
    ::_exit((home.left() ? 1 : 0) + (of_the_child.left() ? 2 : 0));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1);
  CHECK_FALSE(home.left());
}
