#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# compile_fail.sh INCLUDE_DIR [FILE...]: every file holds one mistake. The compiler's first error
# must match the file's line "// expect: REGEX" and the whole output stay short; with -DCONTROL the
# file holds the correct variant, which must compile. So a message is tested like any other output.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
include=$1
shift
files=("$@")
if [ ${#files[@]} -eq 0 ]; then files=("$here"/*.cpp); fi
most_lines=40

compilers=()
for compiler in g++ clang++; do
  if command -v "$compiler" >/dev/null; then compilers+=("$compiler"); fi
done
# None of the mistakes is about MPI or Eigen, and without them a compilation takes half the time.
flags=(-std=c++20 -fsyntax-only -I "$include" -DHVDLITE_WITH_MPI=0 -DHVDLITE_WITH_EIGEN=0)

failed() {  # WHY OUTPUT
  echo "FAILED: $compiler ${file##*/}: $1"
  head -n 12 <<<"$2" | cut -c 1-300
  return 1
}

check() {
  local expect output first lines
  expect=$(sed -n 's|^// expect: ||p' "$file" | head -n 1)
  [ -n "$expect" ] || { failed "no line '// expect: REGEX'" ""; return 1; }
  output=$("$compiler" "${flags[@]}" -DCONTROL "$file" 2>&1) && [ -z "$output" ] ||
    { failed "the control doesn't compile" "$output"; return 1; }
  if output=$("$compiler" "${flags[@]}" "$file" 2>&1); then
    failed "the mistake compiles" "$output"
    return 1
  fi
  first=$(grep -m 1 'error:' <<<"$output") || { failed "no error line" "$output"; return 1; }
  grep -qE -- "$expect" <<<"$first" ||
    { failed "the first error is not '$expect'" "$first"; return 1; }
  lines=$(wc -l <<<"$output")
  [ "$lines" -lt "$most_lines" ] ||
    { failed "$lines lines of output, $most_lines are too many" "$output"; return 1; }
}

failures=0
pids=()
reap() {
  wait "${pids[0]}" || failures=$((failures + 1))
  pids=("${pids[@]:1}")
}
for file in "${files[@]}"; do
  for compiler in "${compilers[@]}"; do
    if [ "${#pids[@]}" -ge "$(nproc)" ]; then reap; fi
    check &
    pids+=($!)
  done
done
while [ "${#pids[@]}" -gt 0 ]; do reap; done
echo "compile_fail: ${#files[@]} mistakes with ${compilers[*]}, $failures failures"
[ "$failures" -eq 0 ]
