// SPDX-License-Identifier: Apache-2.0
// See plugin.hpp.
#include "plugin.hpp"

namespace guest_plugin {

namespace {
late at_namespace_scope;
}

late& kept() { return at_namespace_scope; }

hvdlite::default_communicator world_of_the_library() { return hvdlite::current_world(); }

}  // namespace guest_plugin
