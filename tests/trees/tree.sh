#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tree.sh SOURCE BUILD TESTS OPTION...: configures SOURCE in BUILD with the options of cmake, builds
# it and runs the tests whose names match the regular expression TESTS.
set -euo pipefail
source=$1 build=$2 tests=$3
shift 3
cmake -S "$source" -B "$build" "$@"
cmake --build "$build"
case " $* " in
  *VERIFY_INTERFACE_HEADER_SETS=ON*)
    cmake --build "$build" --target all_verify_interface_header_sets
    ;;
esac
ctest --test-dir "$build" --output-on-failure --no-tests=error -R "$tests"
