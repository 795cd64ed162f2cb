#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# readme.sh CXX "FLAGS" "LIBRARIES" RANKS: compiles every C++ block of README.md, runs those with a
# main (alone, and on RANKS ranks if that is more than 1), holds the diff against the two programs
# that it is of, and looks for the scripts that it names.
set -euo pipefail
cxx=$1 flags=$2 libraries=$3 ranks=$4
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

awk -v out="$work" '
  /^```[a-z]/ { kind = substr($0, 4); file = out "/" (++n) "." kind; printf "" > file; next }
  /^```/ { kind = ""; next }
  kind != "" { print > file }' "$top/README.md"

programs=0
for block in "$work"/*.cpp; do
  if grep -q 'int main' "$block"; then
    # shellcheck disable=SC2086  # flags and libraries are lists
    "$cxx" -std=c++20 $flags "$block" -o "$block.out" $libraries
    "$block.out" | tee "$block.alone"
    grep -q '^loss ' "$block.alone"
    if [ "$ranks" -gt 1 ]; then
      bash "$top/tests/support/ranks.sh" "$ranks" "$block.out" | tee "$block.together"
      # The same training: the same loss but for rounding.
      paste -d ' ' "$block.alone" "$block.together" |
        awk '{ d = $2 - $4; exit !(d < 1e-6 && d > -1e-6) }'
    fi
    programs=$((programs + 1))
  else
    { echo '#include <hvdlite/hvdlite.hpp>'; cat "$block"
      echo 'static_assert(hvdlite::writable_tensor<MyArray>);'; } >"$block.whole.cpp"
    # shellcheck disable=SC2086
    "$cxx" -std=c++20 $flags -fsyntax-only "$block.whole.cpp"
  fi
done
[ "$programs" -eq 1 ]

digits=$top/examples/digits
diff_lines=0
while IFS= read -r line; do
  case $line in
    -*) grep -qxF -- "${line:1}" "$digits/single_process.cpp" ;;
    *) grep -qxF -- "${line:1}" "$digits/main.cpp" ;;
  esac || { echo "README.md's diff has a line that the programs lack: $line" >&2; exit 1; }
  diff_lines=$((diff_lines + 1))
done < <(cat "$work"/*.diff)
[ "$diff_lines" -gt 10 ]

scripts=0
while read -r command script _; do
  [ "$command" = bash ] && [ -f "$top/$script" ] || { echo "README.md: no $script" >&2; exit 1; }
  scripts=$((scripts + 1))
done < <(cat "$work"/*.sh)
[ "$scripts" -eq 2 ]
echo "README.md: $programs program run, $diff_lines lines of diff and $scripts commands found"
