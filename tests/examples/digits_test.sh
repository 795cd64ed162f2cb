#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# digits_test.sh DIGITS DIGITS_SINGLE_PROCESS RANKS: the main example gives the same losses without
# a launcher and with 1 to RANKS processes, and ends on all of them, in time, whatever is wrong.
set -euo pipefail

digits=$1
single=$2
ranks=$3
here=$(cd "$(dirname "$0")" && pwd)
start=$here/../support/ranks.sh
export RANKS_TIMEOUT=120  # seconds for one run; the slowest takes a few, or ten with a sanitizer
if ! command -v "${MPIEXEC:-mpirun}" >/dev/null; then ranks=0; fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# run N ARGUMENTS...: digits on N processes, 0 for "without a launcher"; output in $out, $err.
run() {
  local n=$1
  shift
  out=$scratch/out
  err=$scratch/err
  local status=0
  if [ "$n" -eq 0 ]; then
    timeout "$RANKS_TIMEOUT" "$digits" "$@" >"$out" 2>"$err" </dev/null || status=$?
  else
    "$start" "$n" "$digits" "$@" >"$out" 2>"$err" || status=$?
  fi
  return "$status"
}

# trains_alike EPOCHS ARGUMENTS...: with every number of processes the losses are those without a
# launcher, within 1e-5, and all ranks end with the same parameters.
trains_alike() {
  local epochs=$1 n
  shift
  for n in $(seq 0 "$ranks"); do
    if ! run "$n" --epochs "$epochs" "$@"; then
      fail "digits $* on $n processes"
      cat "$out" "$err"
      continue
    fi
    grep '^epoch' "$out" >"$scratch/curve.$n" || true
    if ! paste "$scratch/curve.0" "$scratch/curve.$n" | awk -v epochs="$epochs" -v n="$n" '
        NF != 20 || $2 != NR || $12 != NR || $14 !~ /^[0-9]+[.][0-9]+$/ { wrong = 1 }
        { d = $4 - $14; if (d < 0) d = -d; if (d > worst) worst = d }
        worst > 1e-5 { wrong = 1 }
        END { printf "%d processes: loss %s accuracy %s, losses differ by at most %.1e\n",
                n, $14, $16, worst
              exit wrong || NR != epochs }'; then
      fail "digits $* on $n processes: the losses are not those of one process"
      cat "$out"
    fi
    grep -q "^parameters 0x[0-9a-f]* identical on $((n > 0 ? n : 1)) ranks$" "$out" ||
      fail "digits $* on $n processes: no line about the parameters"
  done
}

# refuses TEXT ARGUMENTS...: with every number of processes the job fails in time and says TEXT.
refuses() {
  local text=$1 n status
  shift
  for n in $(seq 0 "$ranks"); do
    status=0
    run "$n" "$@" || status=$?
    case $status in
      0) fail "digits $* on $n processes ended as if all were well" ;;
      124 | 137) fail "digits $* on $n processes hung" ;;
    esac
    if ! grep -qF -- "$text" "$out" "$err"; then
      fail "digits $* on $n processes does not say '$text':"
      cat "$out" "$err"
    fi
  done
}

trains_alike 5
trains_alike 1 --batch 3 --learning-rate 0.01  # the fourth of four ranks has no row in any batch

# A bucket holds any number of gradients, or part of one: the bits stay.
if [ "$ranks" -ge 3 ]; then
  for bytes in 0 20 1000000; do
    run 3 --epochs 2 --bucket-bytes "$bytes" || fail "--bucket-bytes $bytes"
    grep '^parameters' "$out" || true
  done | sort -u >"$scratch/hashes"
  [ "$(wc -l <"$scratch/hashes")" -eq 1 ] || fail "buckets change bits: $(cat "$scratch/hashes")"
fi

run "$ranks" --epochs 2 --csv "$scratch/curve.csv" || fail "--csv"
if [ "$(head -n 1 "$scratch/curve.csv")" != "epoch,loss,accuracy,seconds" ] ||
  [ "$(wc -l <"$scratch/curve.csv")" -ne 3 ]; then
  fail "the curve is not a heading and two epochs"
fi

refuses "no-such-file.csv" --data "$scratch/no-such-file.csv"
refuses "--batch" --batch 0
refuses "no-such-folder" --csv "$scratch/no-such-folder/curve.csv"  # only rank 0 writes it
head -c 20000 "$here/../../examples/digits/data/digits.csv.gz" >"$scratch/cut.csv.gz"
refuses "cut.csv.gz" --data "$scratch/cut.csv.gz"

"$single" --epochs 2 >"$scratch/out" || fail "digits_single_process"
grep -q '^epoch 2 loss' "$scratch/out" || fail "digits_single_process: no second epoch"

if [ "$failures" -gt 0 ]; then
  echo "$failures failed"
  exit 1
fi
echo "passed"
