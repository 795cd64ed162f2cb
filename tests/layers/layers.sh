#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# layers.sh INCLUDE_DIR: a folder of hvdlite is a layer, and includes only go down. Fails on an
# include that goes up or sideways, and on a third party outside of the file that may include it.
set -euo pipefail
cd "$1"

find hvdlite -name '*.hpp' -o -name '*.cuh' | sort | xargs awk '
BEGIN {
  # Folders on one line are side by side and must not see each other.
  n = split("fwd version|core|trace|tensor|ops|comm|engine|collective|optim data nn|train|job tune",
            line, "|")
  for (i = 1; i <= n; i++) {
    m = split(line[i], names, " ")
    for (j = 1; j <= m; j++) level[names[j]] = i
  }
  top = n + 1  # the doors, hvdlite.hpp and its kin

  # Who may include which third party; what is not listed may be included by nobody.
  allow("^(Eigen|unsupported)/", "tensor/eigen")
  allow("^mpi(-ext)?\\.h$", "comm/mpi_channel")
  allow("^boost/(mpi|serialization|archive)", "comm/mpi_channel|collective/object|train/checkpoint")
  allow("^boost/(asio|process)", "job/[a-z_]+")
  allow("^nccl", "comm/nccl")
  allow("^(cuda|cub/|thrust/)", "tensor/cuda|comm/nccl|comm/staged|ops/kernels")
  allow("^dlpack/", "tensor/dlpack")
  allow("^(torch|ATen|c10)/", "tensor/torch")
  allow("^xtensor/", "tensor/xtensor")
  allow("^armadillo$", "tensor/armadillo")
  # The standard library and the system: no folder, or a folder of the system.
  allow("^[a-z_0-9]+(\\.h)?$", ".*")
  allow("^(sys|linux|netinet|arpa|net)/", ".*")
}
function allow(pattern, files) {
  patterns[++rules] = pattern
  allowed[rules] = "^hvdlite/(" files ")\\.(hpp|cuh)$"
}
function layer(path,    part) {  # hvdlite/core/error.hpp -> core, hvdlite/fwd.hpp -> fwd
  part = path
  sub(/^hvdlite\//, "", part)
  if (sub(/\/.*/, "", part)) return part
  sub(/\.hpp$/, "", part)
  return part in level && level[part] == 1 ? part : "top"
}
function wrong(why) {
  printf "%s:%d: %s\n", FILENAME, FNR, why
  mistakes++
}
/^[ \t]*#[ \t]*include/ {
  target = $0
  sub(/^[^<"]*/, "", target)
  if (target ~ /^"/) { wrong("write #include <hvdlite/...>, not " target); next }
  sub(/^</, "", target)
  sub(/>.*/, "", target)

  if (target ~ /^hvdlite\//) {
    from = layer(FILENAME)
    to = layer(target)
    a = from == "top" ? top : level[from]
    b = to == "top" ? top : level[to]
    if (!a) wrong("unknown layer " from)
    else if (!b) wrong("unknown layer " to)
    else if (b > a) wrong(from " includes " target ", which is above it")
    else if (b == a && from != to && a > 1) wrong(from " includes " target ", which is beside it")
    next
  }
  for (i = 1; i <= rules; i++)
    if (target ~ patterns[i]) {
      if (FILENAME !~ allowed[i]) wrong("third party <" target "> does not belong here")
      next
    }
  wrong("unknown third party <" target ">")
}
END {
  if (mistakes) printf "layers: %d mistakes\n", mistakes
  else printf "layers: %d files, every include goes down\n", ARGC - 1
  exit mistakes > 0
}'
