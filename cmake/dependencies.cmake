# SPDX-License-Identifier: Apache-2.0
# Looks for the third parties. Sets HVDLITE_HAS_<part> to YES or NO and HVDLITE_<part>_TEXT to what
# the summary says about it.

find_package(Threads REQUIRED)

# A part that was asked for by ON and isn't there ends the configuration.
function(hvdlite_settle part found text missing)
  if(NOT HVDLITE_${part})  # OFF, NO, 0 ...
    set(has NO)
    set(text "off (HVDLITE_${part}=${HVDLITE_${part}})")
  elseif(found)
    set(has YES)
  elseif(HVDLITE_${part} STREQUAL "AUTO")
    set(has NO)
    set(text "off (${missing})")
  else()
    message(FATAL_ERROR "HVDLITE_${part}=${HVDLITE_${part}}, but ${missing}")
  endif()
  set(HVDLITE_HAS_${part} ${has} PARENT_SCOPE)
  set(HVDLITE_${part}_TEXT "${text}" PARENT_SCOPE)
endfunction()

if(HVDLITE_MPI)
  find_package(MPI QUIET COMPONENTS CXX)
  # Boost's own package file: CMake's FindBoost is on its way out.
  find_package(Boost QUIET CONFIG COMPONENTS mpi serialization)
endif()
set(found NO)
if(MPI_CXX_FOUND AND TARGET Boost::mpi AND TARGET Boost::serialization)
  set(found YES)
endif()
if(MPI_CXX_FOUND)
  set(missing "Boost.MPI was not found, on Debian libboost-mpi-dev")
else()
  set(missing "MPI was not found, on Debian libopenmpi-dev and libboost-mpi-dev")
endif()
hvdlite_settle(MPI ${found} "MPI ${MPI_CXX_VERSION} (${MPI_CXX_COMPILER}), Boost ${Boost_VERSION}"
  "${missing}")

if(HVDLITE_EIGEN)
  find_package(Eigen3 QUIET CONFIG)
endif()
set(found NO)
if(TARGET Eigen3::Eigen AND NOT Eigen3_VERSION VERSION_LESS 3.4)
  set(found YES)
endif()
hvdlite_settle(EIGEN ${found} "Eigen ${Eigen3_VERSION}"
  "Eigen 3.4 or later was not found, on Debian libeigen3-dev")
unset(found)
unset(missing)
