#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The script `run` of a folder that tools/gpu-bundle made.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
    cat <<'TEXT'
usage: ./run WHAT [ARG...]

Starts a private shmemd from this folder, runs one thing against it and stops it.

  demo [ARG...]      the demo on CPU threads
  gpu-demo [ARG...]  the demo with CUDA kernels: --gpus 2 for two GPUs
  no-launch          the same without kernels: succeeds when the demo fails
  selftest           every device function on GPU 0, from the headers and from the device library
  agent-selftest     payload in memory of GPU 0 behind the memory agent, on an idle GPU and while a kernel spins
  pe-selftest        every device function on PEs and teams, over mapped memory, on GPU 0
  stream-selftest [N]
                     N processes (default: 2), each a PE that calls the library on CUDA streams and in graphs
  world-selftest [N [MODE]]
                     N processes (default: 2), each a PE with a GPU heap, whose kernels use each other's memory: mapped (the
                     default), by queues, or mixed
  kill               the daemon dies while kernels wait; then the self-test, on a new daemon
  kill-world [ARG...]
                     PEs, memory agents and daemons die while kernels of worlds wait, 50 times each: --times, --jobs, --seconds
  example NAME [N]   N processes (default: 2) of an example for GPUs: gpu-halo, gpu-gemm
  sanitize           self-tests and demo under compute-sanitizer: memcheck, racecheck, synccheck; with two GPUs
                     the demo on both as well
  bench [ROW]        benchmarks on GPU 0; rows: issue issue-shared completion mailbox rate rate-together rate-8
  bench-agent        memory of GPU 0 behind the memory agent
  shmemperf [ARG...] kernels of two PEs against NVSHMEM and bare ones: on two GPUs, or on one under MPS
  bench-cpu          benchmarks on a CPU thread

Exit status: that of what was run; 2 usage.
TEXT
}

[ $# -gt 0 ] || { usage >&2; exit 2; }
what=$1
shift
case $what in
demo | gpu-demo | no-launch | selftest | agent-selftest | pe-selftest | stream-selftest | world-selftest | kill | kill-world | example | sanitize | bench | bench-agent | bench-cpu | shmemperf) ;;
--help) usage; exit 0 ;;
*) usage >&2; exit 2 ;;
esac

export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/shmemd-run.XXXXXX")
daemon=
stop_daemon() {
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
    [ -z "$daemon" ] || wait "$daemon" 2>/dev/null || true
    daemon=
}
# shellcheck disable=SC2317 # run by the trap
cleanup() {
    stop_daemon
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

start_daemon() { # ARGS...
    local i
    export SHMEMD_SOCKET=$scratch/sock
    "$here/bin/shmemd" --config /dev/null --socket "$SHMEMD_SOCKET" "$@" >"$scratch/log" 2>&1 &
    daemon=$!
    for ((i = 0; i < 200; i++)); do
        if "$here/bin/shmemctl" status >/dev/null 2>&1; then return 0; fi
        kill -0 "$daemon" 2>/dev/null || break
        sleep 0.05
    done
    echo "shmemd did not become ready; its log:" >&2
    cat "$scratch/log" >&2
    exit 1
}

program() { # NAME ARGS...
    local name=$1
    shift
    [ -x "$here/bin/$name" ] || { echo "this folder was made without nvcc: no $name" >&2; exit 2; }
    timeout 280 "$here/bin/$name" "$@"
}

sanitize() {
    local tool status=0
    command -v compute-sanitizer >/dev/null || { echo "no compute-sanitizer on this host" >&2; exit 2; }
    for tool in memcheck racecheck synccheck; do
        echo "--- $tool"
        timeout 140 compute-sanitizer --tool "$tool" --error-exitcode 9 "$here/bin/gpu-selftest" || status=1
        timeout 140 compute-sanitizer --tool "$tool" --error-exitcode 9 "$here/bin/gpu-pe-selftest" 0 gpu-memory || status=1
        timeout 280 compute-sanitizer --tool "$tool" --error-exitcode 9 "$here/bin/gpu-coll-selftest" 0 gpu-memory || status=1
        timeout 140 compute-sanitizer --tool "$tool" --error-exitcode 9 "$here/bin/shmemd-gpu-demo" || status=1
        if [ "$(nvidia-smi --list-gpus 2>/dev/null | wc -l)" -ge 2 ]; then
            timeout 140 compute-sanitizer --tool "$tool" --target-processes all --error-exitcode 9 \
                "$here/bin/shmemd-gpu-demo" --gpus 2 || status=1
        fi
    done
    return "$status"
}

status=0
case $what in
demo) start_daemon; program shmemd-demo "$@" || status=$? ;;
gpu-demo) start_daemon; program shmemd-gpu-demo "$@" || status=$? ;;
no-launch)
    start_daemon
    program shmemd-gpu-demo-no-launch "$@" || status=$?
    [ "$status" = 1 ] || { echo "exit status $status instead of 1"; exit 1; }
    status=0
    ;;
selftest)
    start_daemon
    program gpu-selftest || status=$?
    program gpu-selftest-library || status=$?
    ;;
agent-selftest) start_daemon; program gpu-agent-selftest || status=$? ;;
pe-selftest)
    program gpu-pe-selftest "$@" || status=$?
    program gpu-coll-selftest "$@" || status=$?
    ;;
stream-selftest)
    start_daemon
    [ -x "$here/bin/gpu-stream-selftest" ] || { echo "this folder was made without nvcc: no gpu-stream-selftest" >&2; exit 2; }
    timeout 280 "$here/bin/shmemctl" run -n "${1:-2}" "$here/bin/gpu-stream-selftest" || status=$?
    ;;
world-selftest)
    start_daemon
    [ -x "$here/bin/gpu-world-selftest" ] || { echo "this folder was made without nvcc: no gpu-world-selftest" >&2; exit 2; }
    timeout 280 "$here/bin/shmemctl" run -n "${1:-2}" "$here/bin/gpu-world-selftest" "${2:-mapped}" || status=$?
    ;;
kill-world) "$here/gpu-kill.py" "$@" "$here/bin" || status=$? ;;
example)
    start_daemon
    [ -x "$here/bin/example-${1:-}" ] || { echo "this folder has no example ${1:-}" >&2; exit 2; }
    timeout 280 "$here/bin/shmemctl" run -n "${2:-2}" "$here/bin/example-$1" || status=$?
    ;;
kill)
    start_daemon
    program gpu-selftest kill || status=$?
    stop_daemon
    start_daemon
    program gpu-selftest || status=$?
    ;;
sanitize) start_daemon; sanitize || status=$? ;;
bench) start_daemon --soft-nics 8 --spin-usec 1000000; program bench-gpu "$@" || status=$? ;;
bench-agent) start_daemon; program bench-agent || status=$? ;;
shmemperf) start_daemon; "$here/bin/shmemperf" --shmemctl "$here/bin/shmemctl" "$@" || status=$? ;;
bench-cpu) start_daemon --soft-nics 8; program bench-put || status=$? ;;
esac
if [ "$status" != 0 ] && [ -s "$scratch/log" ]; then
    echo "shmemd's log:" >&2
    tail -n 30 "$scratch/log" >&2
fi
exit "$status"
