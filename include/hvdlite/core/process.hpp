// SPDX-License-Identifier: Apache-2.0
// Processes of this machine, as others see them: how a rank finds out that a peer has died, which
// no message will ever tell. Read from Linux' /proc; elsewhere every process is unknown.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <hvdlite/core/config.hpp>
#include <hvdlite/core/text.hpp>

namespace hvdlite::detail {

/// Names a process to others on its machine; plain bytes, to be sent to them.
struct process_identity {
  std::int64_t number = 0;  ///< 0: unknown
  std::uint64_t space = 0;  ///< the numbers of another container mean other processes
  std::uint64_t birth = 0;  ///< numbers are used again
};

enum class process_state { unknown, running, stopped, ended };

/// What /proc/NUMBER/stat says; all zero if there is no such process.
struct process_status {
  char state = 0;
  long threads = 0;
  std::uint64_t birth = 0;
};

HVDLITE_COLD inline process_status status_of(std::int64_t number) {
  process_status result;
  const text path({"/proc/", number, "/stat"});
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return result;
  char line[1024];
  const ssize_t length = ::read(file, line, sizeof line - 1);
  ::close(file);
  if (length <= 0) return result;
  line[length] = '\0';
  // "NUMBER (any name) STATE ...", of which the 18th is the threads, the 20th the birth.
  const char* at = std::strrchr(line, ')');
  if (at == nullptr || at[1] == '\0') return result;
  result.state = at[2];
  at += 2;
  for (int field = 1; field <= 19 && at != nullptr; ++field) {
    at = std::strchr(at, ' ');
    if (at == nullptr) return {};
    ++at;
    if (field == 17) result.threads = std::strtol(at, nullptr, 10);
    if (field == 19) result.birth = std::strtoull(at, nullptr, 10);
  }
  return result;
}

HVDLITE_COLD inline process_identity this_process() {
  struct stat space{};
  if (::stat("/proc/self/ns/pid", &space) != 0) return {};
  const std::int64_t number = ::getpid();
  return {number, space.st_ino, status_of(number).birth};
}

/// A system call or three. `self`: this_process(), kept by the caller.
HVDLITE_COLD inline process_state state_of(const process_identity& process,
                                           const process_identity& self) {
  if (process.number == 0 || self.number == 0 || process.space != self.space)
    return process_state::unknown;
  const process_status now = status_of(process.number);
  // A process whose main thread has ended looks like a dead one, but for its other threads.
  if (now.state == 0 || now.birth != process.birth ||
      ((now.state == 'Z' || now.state == 'X') && now.threads <= 1))
    return process_state::ended;
  return now.state == 'T' || now.state == 't' ? process_state::stopped : process_state::running;
}

}  // namespace hvdlite::detail
