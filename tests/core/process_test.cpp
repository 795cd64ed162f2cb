// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include <hvdlite/core/process.hpp>

using hvdlite::detail::process_identity;
using hvdlite::detail::process_state;
using hvdlite::detail::state_of;
using hvdlite::detail::this_process;

namespace {

struct child {
  pid_t number = -1;
  process_identity identity;
};

/// A process that runs `f` and ends; it has told who it is before.
child start(void (*f)()) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  child result;
  result.number = ::fork();
  REQUIRE(result.number >= 0);
  if (result.number == 0) {
    const process_identity mine = this_process();
    if (::write(ends[1], &mine, sizeof mine) != sizeof mine) ::_exit(1);
    f();
    ::_exit(0);
  }
  REQUIRE(::read(ends[0], &result.identity, sizeof result.identity) == sizeof result.identity);
  ::close(ends[0]);
  ::close(ends[1]);
  return result;
}

void wait_for_ever() {
  for (;;) ::pause();
}

bool becomes(const process_identity& process, process_state wanted) {
  const process_identity self = this_process();
  for (int i = 0; i < 2000; ++i) {
    if (state_of(process, self) == wanted) return true;
    ::usleep(1000);
  }
  return false;
}

}  // namespace

TEST_CASE("process: this one runs, and has a number, a space and a birth") {
  const process_identity self = this_process();
  CHECK(self.number == ::getpid());
  CHECK(self.space != 0);
  CHECK(self.birth != 0);
  CHECK(state_of(self, self) == process_state::running);
}

TEST_CASE("process: stopped, running again, killed but not yet taken away, gone") {
  const child c = start(wait_for_ever);
  CHECK(c.identity.number == c.number);
  CHECK(state_of(c.identity, this_process()) == process_state::running);
  ::kill(c.number, SIGSTOP);
  CHECK(becomes(c.identity, process_state::stopped));
  ::kill(c.number, SIGCONT);
  CHECK(becomes(c.identity, process_state::running));
  ::kill(c.number, SIGKILL);
  CHECK(becomes(c.identity, process_state::ended));  // a zombie
  ::waitpid(c.number, nullptr, 0);
  CHECK(state_of(c.identity, this_process()) == process_state::ended);
}

TEST_CASE("process: one whose main thread has ended is alive while others run") {
  const child c = start([] {
    std::thread{wait_for_ever}.detach();
    ::syscall(SYS_exit, 0);  // pthread_exit unwinds, which catch(...) does not like
  });
  for (int i = 0; i < 2000 && hvdlite::detail::status_of(c.number).state != 'Z'; ++i)
    ::usleep(1000);
  REQUIRE(hvdlite::detail::status_of(c.number).state == 'Z');
  CHECK(state_of(c.identity, this_process()) == process_state::running);
  ::kill(c.number, SIGKILL);
  CHECK(becomes(c.identity, process_state::ended));
  ::waitpid(c.number, nullptr, 0);
}

TEST_CASE("process: a number that is used again means nobody, one of another container nothing") {
  process_identity other = this_process();
  ++other.birth;
  CHECK(state_of(other, this_process()) == process_state::ended);
  other = this_process();
  ++other.space;
  CHECK(state_of(other, this_process()) == process_state::unknown);
  CHECK(state_of({}, this_process()) == process_state::unknown);
  CHECK(state_of(this_process(), {}) == process_state::unknown);
}
