#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The demo is real: it succeeds when all is well, and fails within 10 s when the NIC thread stops, one payload byte is
# flipped or one CQE is dropped.
# usage: test-demo.sh CASE WITH_DAEMON SHMEMD SHMEMCTL DEMO
set -euo pipefail

case=$1 with_daemon=$2 shmemd=$3 shmemctl=$4 demo=$5
out=$(mktemp) seconds=$(mktemp)
trap 'rm -f "$out" "$seconds"' EXIT

run() { # FAULT ARGS...: status in $status, output in $out, whole seconds that the demo itself ran in $took
    local fault=$1
    shift
    status=0
    if [ -n "$fault" ]; then export SHMEMD_FAULT=$fault; fi
    # shellcheck disable=SC2016 # for the inner shell
    "$with_daemon" "$shmemd" "$shmemctl" bash -c 'status=0; SECONDS=0; "${@:2}" || status=$?; echo $SECONDS >"$1"; exit $status' \
        timed "$seconds" "$demo" "$@" >"$out" 2>&1 || status=$?
    took=$(cat "$seconds")
    cat "$out"
}

must_fail() { # FAULT PATTERN: what the demo must complain about
    run "$1"
    [ "$status" = 1 ] || { echo "exit status $status instead of 1"; exit 1; }
    [ "$took" -le 10 ] || { echo "took $took s, more than 10"; exit 1; }
    grep -Eq "$2" "$out" || { echo "nobody said: $2"; exit 1; }
    ! grep -q ' 0 errors$' "$out" || { echo "the closing line claims success"; exit 1; }
}

case $case in
success)
    run ""
    [ "$status" = 0 ]
    tail -n 1 "$out" | grep -Eq '^demo: 4 PEs, [1-9][0-9]* operations verified, 0 errors$'
    ;;
json)
    run "" --json --pes 3
    [ "$status" = 0 ]
    python3 -c 'import json, sys
r = json.load(open(sys.argv[1]))
assert r["errors"] == 0 and r["pes"] == 3 and r["operations"] == r["posted"] > 0, r' "$out"
    ;;
dc)
    run "" --dc --pes 8
    [ "$status" = 0 ]
    tail -n 1 "$out" | grep -Eq '^demo: 8 PEs, [1-9][0-9]* operations verified, 0 errors$'
    ;;
hot)
    run "" --dc --hot 2 --pes 6
    [ "$status" = 0 ]
    tail -n 1 "$out" | grep -Eq '^demo: 6 PEs, [1-9][0-9]* operations verified, 0 errors$'
    grep -Eq '^hot peers: [1-9][0-9]* ways went to RC, [1-9][0-9]* back to DC; [1-9][0-9]* of [0-9]+ operations by RC$' "$out"
    ;;
runtime)
    run "" --runtime
    [ "$status" = 0 ]
    grep -Eq '^runtime, mapped memory +[1-9][0-9]* +[1-9][0-9]* ' "$out"
    grep -Eq '^runtime, queues +[1-9][0-9]* +[1-9][0-9]* ' "$out"
    tail -n 1 "$out" | grep -Eq '^demo: 4 PEs, [1-9][0-9]* operations verified, 0 errors$'
    ;;
runtime-json)
    run "" --runtime --json --pes 3
    [ "$status" = 0 ]
    # 24 by puts and signals, 3 gets, 32 atomics, over 2 kinds of paths.
    python3 -c 'import json, sys
r = json.load(open(sys.argv[1]))
assert r["errors"] == 0 and r["operations"] == r["posted"] and r["runtime_operations"] == 3 * 2 * (24 + 3 + 32), r
assert [p["bytes_verified"] for p in r["phases"][4:]] == [3 * (16 + 3) * 4096 + 8] * 2, r' "$out"
    ;;
sixteen)
    run "" --pes 16
    [ "$status" = 0 ] && [ "$took" -le 60 ]
    ;;
nic-thread-stop) must_fail soft.nic-thread-stop:200 '^PE [0-9]+: .*(time|arrive)' ;;
flip-payload-byte) must_fail soft.flip-payload-byte:100 '^PE [0-9]+: .* byte [0-9]+ of .* instead of' ;;
drop-cqe) must_fail soft.drop-cqe:100 '^PE [0-9]+: .*time' ;;
*) echo "unknown case $case"; exit 2 ;;
esac
