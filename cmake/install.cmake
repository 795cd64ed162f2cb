# SPDX-License-Identifier: Apache-2.0
# Installation: headers, a package for find_package(hvdlite [COMPONENTS mpi eigen]), and pkg-config.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/hvdlite)

# One export file per part, so that a consumer needs the third parties of what it asks for only.
set(HVDLITE_COMPONENTS core)
foreach(part IN LISTS parts)
  string(TOLOWER ${part} name)
  if(HVDLITE_HAS_${part})
    list(APPEND HVDLITE_COMPONENTS ${name})
  else()
    # Without CMake the header goes by what the compiler finds, so all headers have to be there.
    foreach(header IN LISTS ${part}_headers)
      if(EXISTS ${header})
        cmake_path(GET header PARENT_PATH folder)
        cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${include})
        install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
      endif()
    endforeach()
  endif()
endforeach()
foreach(name IN LISTS HVDLITE_COMPONENTS)
  install(TARGETS hvdlite_${name} EXPORT hvdlite-${name}
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT hvdlite-${name} NAMESPACE hvdlite:: DESTINATION ${package_dir})
endforeach()

configure_package_config_file(cmake/hvdlite-config.cmake.in hvdlite-config.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(hvdlite-config-version.cmake
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)  # 0.x: a minor version may break
install(FILES
  ${PROJECT_BINARY_DIR}/hvdlite-config.cmake
  ${PROJECT_BINARY_DIR}/hvdlite-config-version.cmake
  DESTINATION ${package_dir})

set(pc_requires "")
set(pc_cflags "")
set(pc_libs "")
if(HVDLITE_HAS_EIGEN)
  string(APPEND pc_requires "eigen3")
endif()
if(HVDLITE_HAS_MPI)
  string(APPEND pc_cflags " -DOMPI_SKIP_MPICXX=1 -DMPICH_SKIP_MPICXX=1")
  string(APPEND pc_libs " -lboost_mpi -lboost_serialization")
endif()
foreach(part IN LISTS parts)
  string(APPEND pc_cflags " -DHVDLITE_WITH_${part}=$<BOOL:${HVDLITE_HAS_${part}}>")
endforeach()
# From where the file lies, so that an installation can be moved.
cmake_path(SET pc_libdir NORMALIZE ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${pc_libdir} OUTPUT_VARIABLE pc_prefix)
configure_file(cmake/hvdlite.pc.in hvdlite.pc.genex @ONLY)
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/hvdlite.pc INPUT ${PROJECT_BINARY_DIR}/hvdlite.pc.genex)
install(FILES ${PROJECT_BINARY_DIR}/hvdlite.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
