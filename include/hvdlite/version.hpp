// SPDX-License-Identifier: Apache-2.0
// The version of hvdlite, as macros so that the preprocessor and CMake can read it. Apart from
// everything else because it must be readable without compiling anything.
#pragma once

#define HVDLITE_VERSION_MAJOR 0
#define HVDLITE_VERSION_MINOR 1
#define HVDLITE_VERSION_PATCH 0
