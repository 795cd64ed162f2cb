#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# compare.sh PROGRAM...: all of them must print the same bits as the first. One that this machine
# cannot run (an instruction that it lacks) is named and left out.
set -euo pipefail

expected=$("$1")
careless=$("$1" careless)
[ "$(wc -l <<<"$expected")" -eq 30 ]
compared=0
fused=0
for program in "${@:2}"; do
  name=$(basename "$program")
  status=0
  bits=$("$program" 2>/dev/null) || status=$?
  if [ "$status" -eq 132 ]; then
    echo "$name: this machine lacks an instruction, not compared"
    continue
  fi
  if [ "$status" -ne 0 ]; then
    echo "$name: exit status $status"
    exit 1
  fi
  if [ "$bits" != "$expected" ]; then
    echo "$name: other bits than $(basename "$1"):"
    diff <(echo "$expected") <(echo "$bits") || exit 1
  fi
  compared=$((compared + 1))
  if [ "$("$program" careless)" != "$careless" ]; then
    fused=$((fused + 1))
  elif [[ $name == *fma* ]]; then
    echo "$name: the compiler fuses nothing, this test shows nothing"
    exit 1
  fi
done
echo "$compared programs with the same bits; $fused of them fuse where they may"
[ "$compared" -gt 0 ]
