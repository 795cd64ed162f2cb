#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [--quick | --fit | NAME...]: shows that the tests notice mistakes. Each mutant of
# mutants.txt (all of them, the quick selection, or those named) is applied to a copy of include/;
# the test named there is built against it and must fail, while it passes without the mutant.
# Prints a line per mutant; fails if one survives, does not compile, or fits no line any more
# (--fit looks only at that, in seconds).
# CXX, MPICXX, JOBS (processors), MUTANTS_BUILD (where to build, build/mutants).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
tests=$(dirname "$here")
root=$(dirname "$tests")
build=${MUTANTS_BUILD:-$root/build/mutants}
include=$build/include # as it was when the script started
jobs=${JOBS:-$(nproc)}
cxx=${CXX:-g++}
mpicxx=${MPICXX:-mpicxx}
export HVDTEST_DEADLINE=${HVDTEST_DEADLINE:-40} TSAN_OPTIONS=halt_on_error=1
ccache=$(command -v ccache || true)

# --- The list ------------------------------------------------------------------------------------

names=()
declare -A file line with kill quick
while IFS= read -r text; do
  case $text in
    "#"* | "") ;;
    "name "*) name=${text#name } && names+=("$name") ;;
    "file "*) file[$name]=${text#file } ;;
    "line "*) line[$name]=${text#line } ;;
    "with "*) with[$name]=${text#with } ;;
    "kill "*) kill[$name]=${text#kill } ;;
    quick) quick[$name]=1 ;;
    *) echo "mutants.txt: what is '$text'?" >&2 && exit 2 ;;
  esac
done <"$here/mutants.txt"

# mutate NAME INCLUDE_DIR: applies it; fails if the line is not there, or ambiguous.
mutate() {
  local path=$2/hvdlite/${file[$1]} wanted=${line[$1]} nth=0 seen=0 text bare indent result=
  if [[ $wanted =~ ^([0-9]+):\ (.*)$ ]]; then
    nth=${BASH_REMATCH[1]}
    wanted=${BASH_REMATCH[2]}
  fi
  while IFS= read -r text || [ -n "$text" ]; do
    indent=${text%%[![:space:]]*}
    bare=${text#"$indent"}
    if [ "$bare" = "$wanted" ]; then
      seen=$((seen + 1))
      if [ "$nth" -eq 0 ] || [ "$nth" -eq "$seen" ]; then text=$indent${with[$1]}; fi
    fi
    result+=$text$'\n'
  done <"$path"
  if [ "$nth" -eq 0 ] && [ "$seen" -ne 1 ]; then return 1; fi
  if [ "$nth" -ne 0 ] && [ "$seen" -lt "$nth" ]; then return 1; fi
  printf %s "$result" >"$path"
}

# --- Building and running ------------------------------------------------------------------------

common=(-std=c++20 -I"$tests" -DHVDLITE_WITH_EIGEN=0)

compiler_of() { # BUILD
  case $1 in
    mpi:*) echo "$mpicxx" ;;
    *) echo "$cxx" ;;
  esac
}
flags_of() { # BUILD
  case $1 in
    plain) echo "-O0 -DHVDLITE_WITH_MPI=0" ;;
    fast) echo "-O2 -ffast-math -DHVDLITE_WITH_MPI=0" ;;
    asan)
      echo "-O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -DHVDLITE_WITH_MPI=0"
      ;;
    tsan) echo "-O1 -g1 -fsanitize=thread -DHVDLITE_WITH_MPI=0" ;;
    mpi:*) echo "-O0 -DHVDLITE_WITH_MPI=1 -DOMPI_SKIP_MPICXX=1 -DMPICH_SKIP_MPICXX=1" ;;
    *) echo "run.sh: there is no build '$1'" >&2 && return 1 ;;
  esac
}
main_of() { # BUILD
  echo "$build/main-${1%%:*}.o"
}

# compile BUILD SOURCE INCLUDE_DIR PROGRAM: a test program of one source file.
compile() {
  local source=$tests/$2 main flags libraries=(-pthread)
  read -ra flags <<<"$(flags_of "$1")"
  main=$(main_of "$1")
  if grep -q 'support/ranks.hpp' "$source"; then # it has the main function of such tests with it
    printf '#include "support/collective_main.cpp"\n#include "%s"\n' "$2" >"$4.cpp"
    source=$4.cpp
    main=
  fi
  if [[ $1 == mpi:* ]]; then libraries+=(-lboost_mpi -lboost_serialization); fi
  $ccache "$(compiler_of "$1")" "${common[@]}" "${flags[@]}" -I"$3" -c "$source" -o "$4.o" &&
    "$(compiler_of "$1")" "${flags[@]}" "$4.o" ${main:+"$main"} "${libraries[@]}" -o "$4"
}

# run_test BUILD PROGRAM FILTER
run_test() {
  case $1 in
    mpi:*)
      RANKS_TIMEOUT=40 sh "$tests/support/ranks.sh" "${1#mpi:}" "$2" --no-colors=1 --test-case="$3"
      ;;
    *) timeout -k 5 60 "$2" --threads --no-colors=1 --test-case="$3" ;;
  esac
}

# contraction INCLUDE_DIR PROGRAM: the same bits with and without fused multiply-add?
contraction() {
  local probe=$tests/ops/contraction/probe.cpp
  "$cxx" "${common[@]}" -I"$1" -O0 "$probe" -o "$2-plain" &&
    "$cxx" "${common[@]}" -I"$1" -O2 -mfma "$probe" -o "$2-fma" || return 2
  [ "$("$2-plain")" = "$("$2-fma")" ]
}
can_fuse() { "$cxx" -mfma -x c++ -E /dev/null >/dev/null 2>&1 && grep -qw fma /proc/cpuinfo; }

split_kill() { # NAME: sets `how`, `source`, `filter`
  how='' source='' filter=''
  read -r how source filter <<<"${kill[$1]}"
}

fail() { # NAME LOG WORDS: ends this process, which looks at one mutant or program only
  echo "FAILED   $1: $3"
  if [ -s "$2" ]; then tail -n 12 "$2" | sed 's/^/    /'; fi
  exit 1
}

# one NAME: a mutant from beginning to end.
one() {
  local place=$build/$1 log=$build/$1/log status=0
  rm -rf "$place"
  mkdir -p "$place"
  cp -r "$include" "$place/include"
  : >"$log"
  split_kill "$1"
  mutate "$1" "$place/include" || fail "$1" "$log" "fits no line, or several, of ${file[$1]}"
  if [ "$how" = contraction ]; then
    contraction "$place/include" "$place/probe" >"$log" 2>&1 || status=$?
    if [ "$status" -eq 2 ]; then fail "$1" "$log" "does not compile"; fi
    if [ "$status" -eq 0 ]; then fail "$1" "$log" "survived"; fi
    echo "killed   $1 ($how)"
    return
  fi
  compile "$how" "$source" "$place/include" "$place/test" >"$log" 2>&1 ||
    fail "$1" "$log" "does not compile"
  run_test "$how" "$place/test" "$filter" >"$log" 2>&1 || status=$?
  case $status in
    0) fail "$1" "$log" "survived $source, $filter" ;;
    124 | 137) echo "killed   $1 ($how, $source: does not end)" ;;
    *) echo "killed   $1 ($how, $source)" ;;
  esac
}

# baseline BUILD SOURCE FILTERS...: without a mutant the same program passes, and has such tests.
baseline() {
  local key=${1%%:*}-${2//[\/.]/_} filter count
  local program=$build/baseline/$key
  compile "$1" "$2" "$include" "$program" >"$program.log" 2>&1 ||
    fail "no mutant" "$program.log" "$2 does not compile ($1)"
  for filter in "${@:3}"; do
    run_test "$1" "$program" "$filter" >"$program.log" 2>&1 ||
      fail "no mutant" "$program.log" "$2 fails ($1, $filter)"
    count=$(sed -n 's/.*test cases: *\([0-9]*\).*/\1/p' "$program.log" | head -n 1)
    if [ "${count:-0}" -eq 0 ]; then
      fail "no mutant" "$program.log" "$2 has no test case '$filter'"
    fi
  done
}

case ${1:-} in
  --one) one "$2" && exit 0 ;;
  --baseline)
    mapfile -d '' -t arguments <"$2"
    baseline "${arguments[@]}" && exit 0
    ;;
esac

# --- All together --------------------------------------------------------------------------------

if [ "${1:-}" = --fit ]; then
  misfits=0
  mkdir -p "$build"
  for name in "${names[@]}"; do
    rm -rf "$include"
    mkdir -p "$(dirname "$include/hvdlite/${file[$name]}")"
    cp "$root/include/hvdlite/${file[$name]}" "$include/hvdlite/${file[$name]}"
    if ! mutate "$name" "$include"; then
      echo "$name fits no line, or several, of ${file[$name]}"
      misfits=$((misfits + 1))
    fi
  done
  echo "${#names[@]} mutants, $misfits misfits"
  [ "$misfits" -eq 0 ] && exit 0 || exit 1
fi

chosen=()
for name in "${names[@]}"; do
  case ${1:-} in
    "") chosen+=("$name") ;;
    --quick) if [ -n "${quick[$name]:-}" ]; then chosen+=("$name"); fi ;;
    *) if [[ " $* " == *" $name "* ]]; then chosen+=("$name"); fi ;;
  esac
done
named=${1:+$#} # how many there must be
if [ "${1:-}" = --quick ]; then named=; fi
if [ ${#chosen[@]} -eq 0 ] || [ ${#chosen[@]} -ne "${named:-${#chosen[@]}}" ]; then
  echo "run.sh: no such mutant; there are: ${names[*]}" >&2
  exit 2
fi

mkdir -p "$build/baseline"
rm -rf "$include"
cp -r "$root/include" "$include"
left_out=0
runnable=()
for name in "${chosen[@]}"; do
  split_kill "$name"
  if [ "$how" = contraction ] && ! can_fuse; then
    echo "left out $name: no fused multiply-add here"
    left_out=$((left_out + 1))
  elif [[ $how == mpi:* ]] && ! command -v "$mpicxx" >/dev/null; then
    echo "left out $name: no MPI here"
    left_out=$((left_out + 1))
  else
    runnable+=("$name")
  fi
done
[ ${#runnable[@]} -gt 0 ]

# The main functions, which include nothing of the library, once per build.
declare -A programs=()
for name in "${runnable[@]}"; do
  split_kill "$name"
  if [ "$how" = contraction ]; then
    if ! contraction "$include" "$build/baseline/probe"; then
      echo "FAILED   no mutant: the bits depend on fused multiply-add"
      exit 1
    fi
    continue
  fi
  read -ra flags <<<"$(flags_of "$how")"
  main=$(main_of "$how")
  if [ ! -e "$main" ] || [ "$tests/main.cpp" -nt "$main" ]; then
    $ccache "$(compiler_of "$how")" "${common[@]}" "${flags[@]}" -c "$tests/main.cpp" -o "$main"
  fi
  if [[ $'\t'"${programs[$how $source]:-}"$'\t' != *$'\t'"$filter"$'\t'* ]]; then
    programs[$how $source]+=${programs[$how $source]:+$'\t'}$filter
  fi
done

rm -f "$build"/baseline/*.arguments
number=0
for program in "${!programs[@]}"; do
  IFS=$'\t' read -ra filters <<<"${programs[$program]}"
  number=$((number + 1))
  # shellcheck disable=SC2086  # build and source are words
  printf '%s\0' $program "${filters[@]}" >"$build/baseline/$number.arguments"
done
status=0
if [ "$number" -gt 0 ]; then
  printf '%s\n' "$build"/baseline/*.arguments | xargs -P "$jobs" -n 1 "$0" --baseline || status=1
fi
if [ "$status" -ne 0 ]; then
  echo "the tests fail without any mutant: fix them first"
  exit 1
fi

results=$build/results
printf '%s\n' "${runnable[@]}" | xargs -P "$jobs" -n 1 "$0" --one | tee "$results" || true
killed=$(grep -c '^killed ' "$results" || true)
note=
if [ "$left_out" -ne 0 ]; then note=", $left_out left out"; fi
echo "${#runnable[@]} mutants, $killed killed$note"
[ "$killed" -eq ${#runnable[@]} ]
