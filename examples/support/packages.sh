# SPDX-License-Identifier: Apache-2.0
# Sourced by examples/quickstart.sh and tests/run.sh: makes sure that Debian or Ubuntu packages are
# there. Says what it does, asks nothing, and touches the network only if something is missing.
# shellcheck shell=bash

# need_packages PACKAGE...
need_packages() {
  local package missing=() root=() command
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "This is neither Debian nor Ubuntu: going on with what is installed. There they are: $*"
    return 0
  fi
  for package in "$@"; do
    # One word per architecture; "not-installed" and "config-files" are no package to compile with.
    case " $(dpkg-query -W -f='${db:Status-Status} ' "$package" 2>/dev/null || true)" in
      *" installed "*) ;;
      *) missing+=("$package") ;;
    esac
  done
  if [ "${#missing[@]}" -eq 0 ]; then return 0; fi

  command="apt-get install -y --no-install-recommends ${missing[*]}"
  if [ "$(id -u)" -ne 0 ]; then
    # Only a sudo that asks for no password: there may be nobody to answer.
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
      root=(sudo -n)
    else
      echo "Packages are missing, and installing them takes root. Please run" >&2
      echo "  apt-get update && $command" >&2
      echo "as root, then this again." >&2
      return 1
    fi
  fi
  echo "Installing ${missing[*]} (apt-get)"
  local log
  log=$(mktemp)
  if ! { "${root[@]}" apt-get update -q && "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    echo "apt-get failed, see above; by hand: apt-get update && $command" >&2
    return 1
  fi
  rm -f "$log"
}
