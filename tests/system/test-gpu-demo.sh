#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The GPU demo, with its kernels as C and a CUDA driver over host memory. Without kernels it must fail: no CPU thread does
# their work.
# usage: test-gpu-demo.sh CASE WITH_DAEMON SHMEMD SHMEMCTL DEMO DEMO_WITHOUT_LAUNCH
set -euo pipefail

case=$1 with_daemon=$2 shmemd=$3 shmemctl=$4 demo=$5 without=$6
out=$(mktemp)
trap 'rm -f "$out"' EXIT

run() { # PROGRAM ARGS...: status in $status, output in $out
    status=0
    "$with_daemon" "$shmemd" "$shmemctl" "$@" >"$out" 2>&1 || status=$?
    cat "$out"
}

must_succeed() { # PES
    [ "$status" = 0 ] || exit 1
    tail -n 1 "$out" | grep -Eq "^demo: $1 PEs, [1-9][0-9]* operations verified, 0 errors\$"
}

case $case in
one-process)
    run "$demo" && must_succeed 2
    [ "$(grep -c '^PE .* GPU memory behind the memory agent$' "$out")" = 2 ]
    ;;
host-memory)
    run "$demo" --host-memory && must_succeed 2
    [ "$(grep -c '^PE .* host memory$' "$out")" = 2 ]
    ;;
processes) run "$demo" --gpus 2 && must_succeed 2 ;;
five) run "$demo" --pes 5 && must_succeed 5 ;;
no-such-gpu)
    run "$demo" --gpus 3 --pes 3
    [ "$status" = 1 ] && grep -q '^PE 2: open the GPU: ' "$out"
    ;;
no-launch)
    for gpus in 1 2; do
        run "$without" --gpus "$gpus"
        [ "$status" = 1 ] || { echo "exit status $status instead of 1"; exit 1; }
        grep -Eq '^PE [0-9]+: .* byte 0 of .* instead of' "$out"
        grep -q '^posted by the PEs: 0 operations; .* 0$' "$out"
    done
    ;;
*) echo "unknown case $case"; exit 2 ;;
esac
