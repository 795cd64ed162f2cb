# SPDX-License-Identifier: Apache-2.0
# What was configured, in six lines.

set(sanitize "")
if(HVDLITE_SANITIZE)
  set(sanitize ", sanitizers ${HVDLITE_SANITIZE}")
endif()
set(programs "")
foreach(kind IN ITEMS TESTS EXAMPLES BENCHMARKS)
  string(TOLOWER ${kind} name)
  if(HVDLITE_${kind} AND EXISTS ${PROJECT_SOURCE_DIR}/${name}/CMakeLists.txt)
    list(APPEND programs ${name})
  endif()
endforeach()
list(JOIN programs ", " programs)

message(STATUS "hvdlite ${PROJECT_VERSION}, headers only")
message(STATUS "  compiler  ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, ${CMAKE_BUILD_TYPE}${sanitize}")
message(STATUS "  mpi       ${HVDLITE_MPI_TEXT}")
message(STATUS "  eigen     ${HVDLITE_EIGEN_TEXT}")
message(STATUS "  programs  ${programs}")
message(STATUS "  install   ${CMAKE_INSTALL_PREFIX}")
