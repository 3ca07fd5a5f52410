#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test-oshrun.sh OSHRUN: the words that the launcher gets, and GLIBC_TUNABLES, which stays as it is if it is set.
set -euo pipefail

scratch=$(mktemp -d "${TMPDIR:-/tmp}/shmemd-test.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
# shellcheck disable=SC2016 # the script says what it gets
printf '#!/bin/sh\necho "$* [$GLIBC_TUNABLES]"\n' >"$scratch/shmemctl"
chmod +x "$scratch/shmemctl"
export SHMEMCTL=$scratch/shmemctl

expect() {
    local wanted=$1 got
    shift
    got=$("$@")
    [ "$got" = "$wanted" ] || { echo "$*: '$got', not '$wanted'"; exit 1; }
}

unset GLIBC_TUNABLES
expect 'run -n 2 program -np 3 [glibc.malloc.hugetlb=1]' sh "$1" -np 2 program -np 3
expect 'run -n 2 program [glibc.malloc.check=0]' env GLIBC_TUNABLES=glibc.malloc.check=0 sh "$1" -n 2 program
expect 'run -n 2 program []' env GLIBC_TUNABLES= sh "$1" -n 2 program
