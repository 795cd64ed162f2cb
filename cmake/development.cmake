# SPDX-License-Identifier: Apache-2.0
# How our own tests, examples and benchmarks are compiled: they link hvdlite::development, users
# don't.

option(HVDLITE_WERROR "Warnings are errors in hvdlite's own programs" ${PROJECT_IS_TOP_LEVEL})
set(HVDLITE_SANITIZE "" CACHE STRING
  "Sanitizers for hvdlite's own programs: 'address,undefined' or 'thread'")

if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug, RelWithDebInfo" FORCE)
  endif()
  find_program(HVDLITE_CCACHE ccache)
  mark_as_advanced(HVDLITE_CCACHE)
  if(HVDLITE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${HVDLITE_CCACHE})
  endif()
endif()
set(CMAKE_CXX_EXTENSIONS OFF)

set(HVDLITE_WARNINGS -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # Wrong about "text" + std::string (GCC bug 105651), and at -O3 about vectors that are moved.
  list(APPEND HVDLITE_WARNINGS -Wno-restrict -Wno-free-nonheap-object)
endif()
if(HVDLITE_WERROR)
  list(APPEND HVDLITE_WARNINGS -Werror)
endif()

add_library(hvdlite_development INTERFACE)
add_library(hvdlite::development ALIAS hvdlite_development)
target_compile_options(hvdlite_development INTERFACE ${HVDLITE_WARNINGS})
if(HVDLITE_SANITIZE)
  # A find of the undefined-behaviour sanitizer must fail the test, not only be printed.
  set(flags -fsanitize=${HVDLITE_SANITIZE} -fno-sanitize-recover=all)
  target_compile_options(hvdlite_development INTERFACE ${flags} -fno-omit-frame-pointer -g1)
  target_link_options(hvdlite_development INTERFACE ${flags})
endif()
