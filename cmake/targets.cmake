# SPDX-License-Identifier: Apache-2.0
# The targets: one per third party beside the core, each with the headers that only it can compile.

set(include ${PROJECT_SOURCE_DIR}/include)
file(GLOB_RECURSE core_headers CONFIGURE_DEPENDS ${include}/hvdlite/*.hpp)

function(hvdlite_add_target name)
  add_library(hvdlite_${name} INTERFACE)
  add_library(hvdlite::${name} ALIAS hvdlite_${name})
  set_target_properties(hvdlite_${name} PROPERTIES EXPORT_NAME ${name})
  if(ARGN)
    target_sources(hvdlite_${name} INTERFACE
      FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${ARGN})
  endif()
endfunction()

set(EIGEN_headers ${include}/hvdlite/tensor/eigen.hpp)
set(MPI_headers ${include}/hvdlite/comm/mpi.hpp ${include}/hvdlite/comm/mpi_channel.hpp)
foreach(part IN LISTS parts)
  list(REMOVE_ITEM core_headers ${${part}_headers})
  list(FILTER ${part}_headers INCLUDE REGEX "${include}/hvdlite/.*")
endforeach()

hvdlite_add_target(core ${core_headers})
target_compile_features(hvdlite_core INTERFACE cxx_std_20)
target_link_libraries(hvdlite_core INTERFACE Threads::Threads)

# What a program uses is what it links, whatever headers happen to lie in the compiler's path: the
# parts set the property HVDLITE_WITH_<part> of all who link them (below), and the core hands it on
# to the compiler as 0 or 1.
foreach(part IN LISTS parts)
  target_compile_definitions(hvdlite_core INTERFACE
    HVDLITE_WITH_${part}=$<BOOL:$<TARGET_PROPERTY:HVDLITE_WITH_${part}>>)
endforeach()

add_library(hvdlite_hvdlite INTERFACE)
add_library(hvdlite::hvdlite ALIAS hvdlite_hvdlite)
target_link_libraries(hvdlite_hvdlite INTERFACE hvdlite_core)

if(HVDLITE_HAS_EIGEN)
  hvdlite_add_target(eigen ${EIGEN_headers})
  target_link_libraries(hvdlite_eigen INTERFACE hvdlite_core Eigen3::Eigen)
endif()

if(HVDLITE_HAS_MPI)
  hvdlite_add_target(mpi ${MPI_headers})
  target_link_libraries(hvdlite_mpi INTERFACE
    hvdlite_core MPI::MPI_CXX Boost::mpi Boost::serialization)
  # The C++ bindings left the MPI standard in version 3; Open MPI and MPICH include them unasked.
  target_compile_definitions(hvdlite_mpi INTERFACE OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)
endif()

foreach(part IN LISTS parts)
  if(HVDLITE_HAS_${part})
    string(TOLOWER ${part} name)
    set_target_properties(hvdlite_${name} PROPERTIES
      INTERFACE_HVDLITE_WITH_${part} TRUE
      COMPATIBLE_INTERFACE_BOOL HVDLITE_WITH_${part})
    target_link_libraries(hvdlite_hvdlite INTERFACE hvdlite_${name})
  endif()
endforeach()
