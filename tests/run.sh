#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/run.sh [--quick | --all]: builds and passes all tests, on a bare Debian or Ubuntu too.
#   --quick  g++ only
#   (none)   what has to pass on every change: also clang++ and the sanitizers
#   --all    also without MPI, debug builds and all mutants
# Installs missing packages as root or by a sudo that asks nothing; builds below build/.
set -euo pipefail
cd "$(dirname "$0")/.."

trees=ON
case ${1:-} in
  "") ;;
  --quick) trees=OFF ;;
  --all) trees=ALL ;;
  *)
    sed -n '3,7s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac

# shellcheck source=examples/support/packages.sh
. examples/support/packages.sh
packages=(g++ make cmake ccache pkg-config libopenmpi-dev openmpi-bin libboost-mpi-dev
  libeigen3-dev doctest-dev libcli11-dev zlib1g-dev)
if [ "$trees" != OFF ]; then packages+=(clang); fi
need_packages "${packages[@]}"

CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
export CMAKE_BUILD_PARALLEL_LEVEL
# The other builds are tests of this one, so that there is one summary: ctest's, at the end.
build=build/tests
cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O2 \
  -DHVDLITE_MPI=ON -DHVDLITE_EIGEN=ON -DHVDLITE_TEST_TREES="$trees"
cmake --build "$build"
ctest --test-dir "$build" --output-on-failure --no-tests=error
