#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# examples/quickstart.sh [OPTION...]: installs what is missing (Debian, Ubuntu), builds the example
# digits and trains it with 1, 2 and 4 processes, then shows the runs side by side. Options go to
# digits: --epochs 5, --help ...
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=examples/support/packages.sh
. examples/support/packages.sh
need_packages g++ make cmake libopenmpi-dev openmpi-bin libboost-mpi-dev libeigen3-dev \
  libcli11-dev zlib1g-dev

build=build/quickstart
mkdir -p "$build"
quietly() {  # runs a command whose output is of interest only if it fails
  "$@" >"$build/log" 2>&1 || { tail -n 40 "$build/log" >&2; exit 1; }
}
echo "Building digits in $build"
quietly cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DHVDLITE_TESTS=OFF \
  -DHVDLITE_BENCHMARKS=OFF -DHVDLITE_MPI=ON -DHVDLITE_EIGEN=ON
quietly cmake --build "$build" --target digits
digits=$build/examples/digits/digits
cores=$(nproc)
export OMP_NUM_THREADS=1  # a rank is one thread, so that times are comparable

curves=()
for n in 1 2 4; do
  echo
  if [ "$n" -eq 1 ]; then echo "digits with 1 process"; else echo "digits with $n processes"; fi
  curve=$build/digits_$n.csv
  rm -f "$curve"
  run=()
  if [ "$n" -gt 1 ]; then run=(tests/support/ranks.sh "$n"); fi  # one process needs no launcher
  RANKS_TIMEOUT=120 "${run[@]}" "$digits" --csv "$curve" "$@"
  # With --help there is no curve.
  if [ -f "$curve" ]; then curves+=("$curve"); else exit 0; fi
done

echo
echo "Side by side on $cores cores. One global batch, so equal losses but for rounding:"
awk -F, '
FNR == 1 { column++; next }
{
  loss[$1, column] = $2
  accuracy[column] = $3
  seconds[column] = $4
  if ($1 > epochs) epochs = $1
}
END {
  printf "%-14s %14s %14s %14s\n", "", "1 process", "2 processes", "4 processes"
  for (e = 1; e <= epochs; e++)
    printf "loss, epoch %-2d %14.8f %14.8f %14.8f\n", e, loss[e, 1], loss[e, 2], loss[e, 3]
  printf "%-14s %14.4f %14.4f %14.4f\n", "test accuracy", accuracy[1], accuracy[2], accuracy[3]
  printf "%-14s %14.3f %14.3f %14.3f\n", "seconds", seconds[1], seconds[2], seconds[3]
}' "${curves[@]}"
