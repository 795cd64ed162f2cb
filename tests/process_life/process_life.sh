#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# process_life.sh PROGRAM: whatever one rank of three does, the job ends soon; with success only if
# the work is complete, and the ranks that are left say what happened.
set -euo pipefail
program=$1
ranks=$(cd "$(dirname "$0")/.." && pwd)/support/ranks.sh
output=$(mktemp)
trap 'rm -f "$output"' EXIT
failures=0

# expect SCOPE DEED STATUS WORDS: STATUS is success or failure; WORDS must all be printed, | between
expect() {
  local begin status=success elapsed word
  begin=$(date +%s)
  RANKS_TIMEOUT=20 bash "$ranks" 3 "$program" "$1" "$2" >"$output" 2>&1 || status=failure
  elapsed=$(($(date +%s) - begin))
  local wrong=
  [ "$status" = "$3" ] || wrong+=" ended in $status;"
  [ "$elapsed" -le 10 ] || wrong+=" took $elapsed s;"
  while IFS= read -r -d '|' word; do
    grep -qF -- "$word" "$output" || wrong+=" does not say '$word';"
  done <<<"$4|"
  if [ -n "$wrong" ]; then
    echo "$1 $2:$wrong"
    sed 's/^/    /' "$output"
    failures=$((failures + 1))
  else
    echo "$1 $2: $status, as expected"
  fi
}

for scope in guarded caught bare; do
  expect $scope nothing success "complete"
  expect $scope late success "complete"
  expect $scope exit failure ""
done
expect guarded throw failure "rank 1] no more memory for flowers|allreduce 'second'|rank 1 is lost: it threw: no more memory for flowers"
expect caught throw failure "caught: no more memory for flowers"
expect bare throw failure "rank 1] it threw, and nobody caught: no more memory for flowers|rank 1 is lost: it threw, and nobody caught: no more"
expect bare terminate failure "rank 1] it called std::terminate|rank 1 is lost: it called std::terminate"
expect bare inside failure "rank 1] it threw, and nobody caught: in a function of the user|rank 1 is lost: it threw"
expect bare handler failure "a handler of the program's|rank 1 is lost: it threw, and nobody caught: no more"
expect guarded return failure "allreduce 'second'|rank 1 is lost: it has ended its Environment"
expect caught return failure "allreduce 'second'|rank 1 is lost: it has ended its Environment"
expect bare return failure "rank 1 is lost: it has ended its Environment"
[ "$failures" -eq 0 ]
