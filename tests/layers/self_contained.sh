#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# self_contained.sh INCLUDE_DIR FLAGS_FILE: every header compiles alone, twice in a row, without a
# warning, with each compiler there is, as C++20 and as what comes after it. The door as C++17, or
# without exceptions, gives one readable error. A header whose third party is off (see FLAGS_FILE) is
# left out.
set -euo pipefail
include=$1
read -r -a flags <"$2" || true

warnings=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
headers=$(cd "$include" && find hvdlite -name '*.hpp' | sort)
case " ${flags[*]} " in *WITH_MPI=0*) headers=$(grep -v comm/mpi <<<"$headers") ;; esac
case " ${flags[*]} " in *WITH_EIGEN=0*) headers=$(grep -v tensor/eigen.hpp <<<"$headers") ;; esac

compilers=()
for compiler in g++ clang++; do
  if command -v "$compiler" >/dev/null; then compilers+=("$compiler"); fi
done

compile() {  # COMPILER STANDARD HEADER
  local compiler=$1 standard=$2 header=$3
  if ! printf '#include <%s>\n#include <%s>\n' "$header" "$header" |
    "$compiler" -std="$standard" -fsyntax-only "${warnings[@]}" -I "$include" "${flags[@]}" \
      -x c++ - 2>&1 | head -n 30; then
    echo "FAILED: $header alone, $compiler -std=$standard"
    return 1
  fi
}

failures=0
pids=()
reap() {  # waits for the oldest
  wait "${pids[0]}" || failures=$((failures + 1))
  pids=("${pids[@]:1}")
}
jobs=$(nproc)
count=0
for compiler in "${compilers[@]}"; do
  for standard in c++20 c++2b; do
    for header in $headers; do
      if [ "${#pids[@]}" -ge "$jobs" ]; then reap; fi
      compile "$compiler" "$standard" "$header" &
      pids+=($!)
      count=$((count + 1))
    done
  done
done
while [ "${#pids[@]}" -gt 0 ]; do reap; done

# refused OPTION SENTENCE: the door gives this one error, and no other.
refused() {
  local compiler output errors
  for compiler in "${compilers[@]}"; do
    output=$(echo '#include <hvdlite/hvdlite.hpp>' |
      "$compiler" -std=c++20 "$1" -fsyntax-only -I "$include" "${flags[@]}" -x c++ - 2>&1) && {
      echo "FAILED: $compiler takes the door with $1"
      failures=$((failures + 1))
      continue
    }
    errors=$(grep -c 'error:' <<<"$output") || true
    if [ "$errors" -ne 1 ] || ! grep -q "error:.*$2" <<<"$output"; then
      head -n 20 <<<"$output"
      echo "FAILED: $compiler $1 gives $errors errors, not the one that says '$2'"
      failures=$((failures + 1))
    fi
  done
}
refused -std=c++17 'hvdlite needs C++20'
refused -fno-exceptions 'hvdlite tells of errors by exceptions'

echo "self-contained headers: $count compilations with ${compilers[*]}, $failures failures"
[ "$failures" -eq 0 ]
