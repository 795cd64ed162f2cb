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

# expect SCOPE DEED STATUS WORDS: STATUS is success, failure or any; WORDS must all be printed, | between
expect() {
  local begin status=success elapsed word
  begin=$(date +%s)
  if [ "$1" = threads ]; then
    timeout 20 "$program" "$1" "$2" >"$output" 2>&1 || status=failure
  else
    RANKS_TIMEOUT=20 bash "$ranks" 3 "$program" "$1" "$2" >"$output" 2>&1 || status=failure
  fi
  elapsed=$(($(date +%s) - begin))
  local wrong=
  [ "$3" = any ] || [ "$status" = "$3" ] || wrong+=" ended in $status;"
  [ "$elapsed" -le 15 ] || wrong+=" took $elapsed s;"
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
  expect $scope exit failure "rank 1 is lost: it exits while its Environment is alive"
done
expect guarded throw failure "rank 1] no more memory for flowers|allreduce 'second'|rank 1 is lost: it threw: no more memory for flowers"
expect caught throw failure "caught: no more memory for flowers"
expect bare throw failure "rank 1] it threw, and nobody caught: no more memory for flowers|rank 1 is lost: it threw, and nobody caught: no more"
expect bare terminate failure "rank 1] it called std::terminate|rank 1 is lost: it called std::terminate"
expect bare noexcept failure "rank 1] it threw, and nobody caught: in a function of the user|rank 1 is lost: it threw"
expect bare handler failure "a handler of the program's|rank 1 is lost: it threw, and nobody caught: no more"
expect guarded return failure "allreduce 'second'|rank 1 is lost: it has ended its Environment"
expect caught return failure "allreduce 'second'|rank 1 is lost: it has ended its Environment"
expect bare return failure "rank 1 is lost: it has ended its Environment"

# What every survivor reports, within 0.4 s of a death: under plain mpirun, which ends the job half
# a second after it, and under one that leaves the other ranks alone (and then says success).
both() { printf 'rank 0: %s|rank 2: %s' "$1" "$1"; }  # WORDS of both survivors
soon=$(both "within 0.4 s")
lost="$soon|$(both "at once, peer_lost_error in later calls")|trace: call 3, allreduce 'second'|trace: last heard of rank"
export HVDLITE_TIMEOUT=2
for RANKS_OPTIONS in "" --enable-recovery; do
  export RANKS_OPTIONS
  echo "mpirun $RANKS_OPTIONS"
  for deed in quick_exit _exit abort kill inside-kill inside-_exit; do
    expect report $deed any "$lost|rank 1 is lost: its process ("
  done
  expect static kill any "$lost|rank 1 is lost: its process ("
  expect report exit any "$lost|rank 1 is lost: it exits while"
  expect report inside-exit any "$lost|rank 1 is lost: it exits while"
  expect report inside-throw any "$lost|rank 1 is lost: no more memory for flowers"
  expect report throw any "$soon|mismatch_error|verb: allreduce on ranks 0 and 2, barrier on rank 1"
  expect report return any "$soon|rank 1 is lost: it has ended its Environment"
  expect report alone any "complete|rank 1: within 0.4 s|allreduce 'third'|is lost: it has ended its Env"
  expect report skip any "$(both "not within 0.4 s")|timeout_error: allreduce 'second'|waited 2 s for rank 1 to enter the call; ranks 0 and 2 wait in it"
done
RANKS_OPTIONS=
expect report stop any "$(both "not within 0.4 s")|timeout_error: allreduce 'second'|the process of rank 1 (|) is stopped"

echo "threads"
expect threads nothing success "complete"
expect threads late success "complete"
expect threads inside-throw success "$lost|rank 1 is lost: no more memory for flowers"
expect threads throw success "$soon|mismatch_error|verb: allreduce on ranks 0 and 2, barrier on rank 1"
expect threads return success "$soon|rank 1 is lost: it has returned from the function given to launch"
expect threads alone success "complete|rank 1: within 0.4 s|allreduce 'third'|is lost: it has returned"
expect threads skip success "$(both "not within 0.4 s")|timeout_error: allreduce 'second'|waited 2 s for rank 1 to enter the call; ranks 0 and 2 wait in it"
[ "$failures" -eq 0 ]
