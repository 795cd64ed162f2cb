#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# guest.sh PROGRAM [SCENARIO...]: hvdlite as a guest in a process: all scenarios of program.cpp, or
# those named, each with its numbers of ranks, the status that the job must end with, and a limit.
set -euo pipefail
program=$1
shift
chosen=" $* "
ranks=$(cd "$(dirname "$0")/.." && pwd)/support/ranks.sh
output=$(mktemp)
trap 'rm -f "$output"' EXIT
failures=0
runs=0

# judge NAME STATUS WORDS COMMAND...: the command must end with STATUS and print WORDS, and nothing
# of a crash.
judge() {
  local name=$1 wanted=$2 words=$3 status=0 wrong=
  shift 3
  runs=$((runs + 1))
  "$@" >"$output" 2>&1 </dev/null || status=$?
  [ "$status" -eq "$wanted" ] || wrong+=" ended with $status, not $wanted;"
  grep -qF -- "$words" "$output" || wrong+=" does not say '$words';"
  if grep -qE 'Signal: |terminate called|MPI_ERRORS_ARE_FATAL|was ended after' "$output"; then
    wrong+=" crashed or hung;"
  fi
  if [ -n "$wrong" ]; then
    echo "$name:$wrong"
    sed 's/^/    /' "$output"
    failures=$((failures + 1))
  else
    echo "$name: as expected"
    grep -E '^(checks|[0-9]+ communicators)' "$output" | sed 's/^/    /' || true
  fi
}

# wanted SCENARIO: whether it is to run
wanted() { [ "$chosen" = "  " ] || [[ $chosen == *" $1 "* ]]; }

# on "RANKS..." STATUS WORDS SCENARIO [VARIANT...]
on() {
  local numbers=$1 status=$2 words=$3 n
  shift 3
  wanted "$1" || return 0
  for n in $numbers; do
    judge "$* ($n)" "$status" "$words" env RANKS_TIMEOUT=30 bash "$ranks" "$n" "$program" "$@"
  done
}

export HVDLITE_TIMEOUT=10 PMPI_SAYS=1
ended="pmpi: MPI_Finalize"

for level in init single funneled serialized multiple; do on "1 2" 0 "$ended" host $level; done
for when in before after inside around; do on "1 2" 0 "$ended" boost $when; done
for when in before after inside; do on "1 2" 0 "$ended" polite $when; done
on "1 2 3" 0 "$ended" finalized
on "1 2" 0 "$ended" again
for kind in plain horovod; do on "1 2 3" 0 "$ended" fork $kind; done
on "1 2" 0 "$ended" guarded_fork
on "1 2 3" 0 "$ended" thread
on "2 3" 0 "$ended" many 5000
on 1 0 "$ended" many 5000
on 1 0 "communicators" many_on_threads 5000
# An Environment that is alive when main has returned is an end of the program like any other.
for where in namespace thread function environment horovod; do
  on "1 2" 0 "$ended" late $where
done
on "1 2" 42 "$ended" late library
for checks in on off; do
  HVDLITE_CHECKS=$checks on "2 3" 0 "checks $checks" calls $checks
done

if wanted alone; then
  judge "a launcher that says 4 (1)" 0 "$ended" env OMPI_COMM_WORLD_SIZE=4 "$program" alone
fi
if wanted again; then judge "again (no launcher)" 0 "ended" "$program" again; fi
if wanted fork; then judge "fork plain (no launcher)" 0 "ended" "$program" fork plain; fi

# An error of MPI's on rank 1. 1000 bytes: with the check; more: while data moves, in two steps.
export HVDLITE_TIMEOUT=3
inject() {  # RANKS FUNCTION NTH FLOATS
  wanted inject || return 0
  local name="inject $2 $3 $4 ($1)" status=0 wrong=
  runs=$((runs + 1))
  # The job cannot end in order after that: what each rank says is what counts.
  RANKS_TIMEOUT=25 bash "$ranks" "$1" "$program" inject "$2" "$3" "$4" >"$output" 2>&1 </dev/null ||
    status=$?
  if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then wrong+=" hung;"; fi
  if grep -qE 'Signal: |terminate called|MPI_ERRORS_ARE_FATAL|wrong:' "$output"; then
    wrong+=" crashed, or is wrong;"
  fi
  grep -qE "rank 1: .*$2: " "$output" || wrong+=" rank 1 has seen no error;"
  if [ -n "$wrong" ]; then
    echo "$name:$wrong"
    sed 's/^/    /' "$output"
    failures=$((failures + 1))
  else
    echo "$name: as expected"
  fi
}
for floats in 1 250 100000; do
  for function in MPI_Isend MPI_Start MPI_Test; do inject 2 $function 1 $floats; done
done
for floats in 250 100000; do
  inject 2 MPI_Irecv 1 $floats
  inject 2 MPI_Testall 1 $floats
  inject 2 MPI_Isend 2 $floats # the first of data
done
inject 3 MPI_Isend 1 100000
inject 3 MPI_Irecv 1 100000
inject 3 MPI_Testall 1 100000

echo "guest: $runs runs, $failures failures"
[ "$failures" -eq 0 ]
