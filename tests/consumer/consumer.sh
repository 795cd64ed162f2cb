#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# consumer.sh WAY SOURCE BUILD SCRATCH: configures, builds and runs the project beside this file
# against hvdlite as SOURCE and BUILD have it.
#   installed     hvdlite installed from BUILD, found by find_package and by pkg-config
#   subdirectory  hvdlite in the project's own tree, by add_subdirectory
#   minimal       the same with MPI and Eigen switched off
set -euo pipefail
way=$1 source=$2 build=$3 scratch=$4
project=$(cd "$(dirname "$0")" && pwd)/project
cmake=${CMAKE:-cmake}
rm -rf "$scratch"
mkdir -p "$scratch"

if [ "$way" = installed ]; then
  "$cmake" --install "$build" --prefix "$scratch/prefix" >"$scratch/install.log"
  arguments=(-DCMAKE_PREFIX_PATH="$scratch/prefix")

  # What is not there must be refused by its name.
  if "$cmake" -S "$project" -B "$scratch/refused" "${arguments[@]}" -DCOMPONENTS=telepathy \
    >"$scratch/refused.log" 2>&1 || ! tr -s ' \n' ' ' <"$scratch/refused.log" |
    grep -q 'installed without telepathy'; then
    cat "$scratch/refused.log"
    echo "FAILED: an unknown component is not refused by its name"
    exit 1
  fi
else
  arguments=(-DHVDLITE_SOURCE="$source")
  if [ "$way" = minimal ]; then arguments+=(-DHVDLITE_MPI=OFF -DHVDLITE_EIGEN=OFF); fi
fi

# How a project gets at hvdlite makes no difference to the others of its programs.
programs=(minimal core_only)
if [ "$way" = installed ]; then programs+=(one_world one_world_lto hostile_macros); fi
"$cmake" -S "$project" -B "$scratch/build" "${arguments[@]}"
"$cmake" --build "$scratch/build" --target "${programs[@]}"
for program in "${programs[@]}"; do "$scratch/build/$program"; done

# Many processes that each train alone is not what a launcher with several ranks was asked for.
if [ "$way" = minimal ]; then
  if OMPI_COMM_WORLD_SIZE=2 "$scratch/build/minimal" >"$scratch/alone.log" 2>&1 ||
    ! grep -q 'the launcher started 2 processes' "$scratch/alone.log"; then
    cat "$scratch/alone.log"
    echo "FAILED: a program without MPI does not refuse to be one of several ranks"
    exit 1
  fi
fi

if [ "$way" = installed ] && command -v pkg-config >/dev/null; then
  PKG_CONFIG_PATH=$(dirname "$(find "$scratch/prefix" -name hvdlite.pc)")
  export PKG_CONFIG_PATH
  read -r -a flags <<<"$(pkg-config --cflags --libs hvdlite)"
  compiler=${CXX:-c++}
  case "${flags[*]}" in
    *HVDLITE_WITH_MPI=1*)
      # MPI's own flags come from its wrapper, whatever compiler that would take by itself.
      export OMPI_CXX=$compiler MPICH_CXX=$compiler
      compiler=mpicxx
      ;;
  esac
  "$compiler" -std=c++20 "$project/minimal.cpp" "${flags[@]}" -o "$scratch/minimal"
  "$scratch/minimal"
fi
