#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ranks.sh N PROGRAM [ARGUMENT...]: runs PROGRAM as N MPI ranks on this machine, which may have
# fewer cores, and ends the job after RANKS_TIMEOUT seconds (600). MPIEXEC names the launcher,
# RANKS_OPTIONS are further options of Open MPI's.
set -eu

if [ $# -lt 2 ]; then
  echo "usage: $0 N PROGRAM [ARGUMENT...]" >&2
  exit 2
fi
ranks=$1
shift
launcher=${MPIEXEC:-mpirun}
limit=${RANKS_TIMEOUT:-600}

case $("$launcher" --version 2>&1) in
  *"Open MPI"* | *OpenRTE*)
    # Bound ranks would share one core when ranks outnumber cores.
    options="--oversubscribe --bind-to none ${RANKS_OPTIONS:-}"
    if [ "$(id -u)" -eq 0 ]; then options="$options --allow-run-as-root"; fi
    ;;
  *) options= ;;  # MPICH and its kin neither bind nor count slots unless told to
esac

# In the foreground, so that Ctrl-C reaches the ranks; the launcher hands the signal on to them.
status=0
# shellcheck disable=SC2086  # options are words
timeout --foreground -k 15 "$limit" "$launcher" $options -n "$ranks" "$@" </dev/null || status=$?
if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
  echo "ranks.sh: $1 on $ranks ranks was ended after $limit s" >&2
fi
exit "$status"
