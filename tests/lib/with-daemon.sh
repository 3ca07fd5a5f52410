#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# with-daemon.sh SHMEMD SHMEMCTL COMMAND [ARG...]: run COMMAND with SHMEMD_SOCKET naming a private shmemd.
# SHMEMD_ARGS are more arguments for the daemon, SHMEMD_FAULT its fault point. Exit status: the command's, or that of a
# daemon that does not end well.
set -euo pipefail

# meson names what runs programs of a cross build; COMMAND looks after itself.
read -ra wrapper <<<"${MESON_EXE_WRAPPER:-}"
shmemd=("${wrapper[@]}" "$1")
shmemctl=("${wrapper[@]}" "$2")
shift 2
scratch=$(mktemp -d "${TMPDIR:-/tmp}/shmemd-test.XXXXXX")
daemon=
cleanup() {
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
    [ -z "$daemon" ] || wait "$daemon" 2>/dev/null || true
    rm -rf "$scratch"
}
trap cleanup EXIT

export SHMEMD_SOCKET=$scratch/sock
# shellcheck disable=SC2086 # several arguments are meant
"${shmemd[@]}" --config /dev/null --socket "$SHMEMD_SOCKET" ${SHMEMD_ARGS:-} >"$scratch/log" 2>&1 &
daemon=$!
unset SHMEMD_FAULT
for ((i = 0; i < 400; i++)); do
    "${shmemctl[@]}" status >/dev/null 2>&1 && break
    kill -0 "$daemon" 2>/dev/null || { cat "$scratch/log" >&2; exit 99; }
    sleep 0.025
done
status=0
"$@" || status=$?
# The daemon must end in good order, and not before.
if [ "$status" = 0 ]; then
    kill "$daemon" 2>/dev/null || true
    wait "$daemon" || { status=$?; echo "shmemd ended with $status" >&2; }
    daemon=
fi
[ "$status" = 0 ] || { echo "--- shmemd's log:"; tail -n 30 "$scratch/log"; } >&2
exit "$status"
