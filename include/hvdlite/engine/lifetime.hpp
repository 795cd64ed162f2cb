// SPDX-License-Identifier: Apache-2.0
// The communicators that end together, with their Environment or their launch.
#pragma once

#include <cstddef>
#include <string_view>

#include <hvdlite/core/call_lock.hpp>
#include <hvdlite/core/config.hpp>
#include <hvdlite/core/list.hpp>

namespace hvdlite {

/// See the file's head. May be used by several threads.
class lifetime {
 public:
  /// What ends with others. It takes itself out before it is destroyed.
  class member {
   public:
    /// Tells the peers `why`, and refuses later calls with the words `later`.
    virtual void close(std::string_view why, std::string_view later) noexcept = 0;
    /// Only tells the peers: of a process that is about to end.
    virtual void tell_the_end(std::string_view why) noexcept = 0;

   protected:
    ~member() = default;
  };

  HVDLITE_COLD void add(member* one) {
    const detail::call_lock::guard lock{lock_};
    members_.push_back(one);
  }

  /// Waits while `end` is at work in another thread.
  HVDLITE_COLD void remove(const member* one) noexcept {
    if (lock_.held_by_this_thread()) return;  // the process exits, after tell_the_end
    const detail::call_lock::guard lock{lock_};
    for (std::size_t i = members_.size(); i-- > 0;)
      if (members_[i] == one) members_.erase(i);
  }

  /// Closes all members; once.
  HVDLITE_COLD void end(std::string_view why, std::string_view later) noexcept {
    if (lock_.held_by_this_thread()) return;  // the same
    const detail::call_lock::guard lock{lock_};
    for (member* const one : members_) one->close(why, later);
    members_.clear();
  }

  /// Tells the peers of all members. The lock stays held: nothing is to change until the process
  /// has ended.
  HVDLITE_COLD void tell_the_end(std::string_view why) noexcept {
    if (!lock_.lock_soon()) return;
    for (member* const one : members_) one->tell_the_end(why);
  }

 private:
  detail::call_lock lock_;
  detail::list<member*> members_;
};

}  // namespace hvdlite
