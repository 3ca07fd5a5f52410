#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Values that the mlx5 backend sets in firmware commands, beside those that
# UCX and rdma-core's tests set in theirs on the same simulated NICs.
# usage: mlx5-values.sh MLX5SIM [--write]
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
expected=$here/mlx5-values.expected
data=$here/../data

skip() {
    echo "SKIP: $1"
    exit 77
}

[ $# -ge 1 ] || { echo "usage: $0 MLX5SIM [--write]" >&2; exit 2; }
mlx5sim=$(realpath "$1")
command -v ucx_perftest >/dev/null || skip 'no ucx_perftest (package ucx-utils)'
version=$(ucx_info -v | sed -n 's/^# Version \([0-9.]*\).*/\1/p')
wanted=$(sed -n 's/^# UCX //p' "$expected" 2>/dev/null || true)
[ "${2:-}" = --write ] || [ "$version" = "$wanted" ] || skip "UCX $version; values are known for $wanted"

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export tmp UCX_MEM_MMAP_HOOK_MODE=none UCX_RC_MLX5_SRQ_TOPO=list UCX_DC_MLX5_SRQ_TOPO=list UCX_LOG_LEVEL=error
# If another process has the port, the script tries the next one; the server says nothing when it listens.
pair() {
    local try port server
    for try in 1 2 3 4 5; do
        port=$((20000 + ($$ * 7 + try * 1009 + RANDOM) % 30000))
        ucx_perftest -p $port -d mlx5_0:1 -x "$1" -t fadd -s 8 -n 20 -w 1 >"$tmp/server" 2>&1 &
        server=$!
        for _ in $(seq 100); do
            if ! kill -0 $server 2>/dev/null; then break; fi
            if ucx_perftest -p $port -d mlx5_1:1 -x "$1" -t fadd -s 8 -n 20 -w 1 127.0.0.1 >"$tmp/client" 2>&1; then
                wait $server
                return
            fi
            sleep 0.2
        done
        kill $server 2>/dev/null || true
        wait $server || true
    done
    cat "$tmp/server" "$tmp/client"
    return 1
}
export -f pair

trace_all() { # trace_all LINK
    local transport
    for transport in rc_mlx5 dc_mlx5; do
        # shellcheck disable=SC2016 # for the shell in the simulator
        "$mlx5sim" --nics 2 --link "$1" --log "$tmp/log" --trace "$tmp/$1-$transport" -- bash -c 'pair "$1"' pair $transport
    done
    printf '#!/bin/sh\nexec "%s" --link %s --trace "%s" "$@"\n' "$mlx5sim" "$1" "$tmp/$1-tests" >"$tmp/mlx5sim"
    chmod +x "$tmp/mlx5sim"
    status=0
    "$here/pyverbs.sh" "$tmp/mlx5sim" test_mlx5_devx.Mlx5DevxRcTrafficTest >"$tmp/pyverbs" || status=$?
    if [ $status != 0 ]; then cat "$tmp/pyverbs"; exit $status; fi
}

trace_all roce
trace_all ib
args=()
for link in roce ib; do
    args+=("$link" "$data/mlx5-trace-$link" "$data/mlx5-trace-dc-$link" "$tmp/$link-rc_mlx5" "$tmp/$link-dc_mlx5" "$tmp/$link-tests")
done
echo "# UCX $version" >"$tmp/table"
if ! python3 "$here/mlx5-values.py" "${args[@]}" >>"$tmp/table"; then
    grep 'NO REASON\|^no difference' "$tmp/table"
    exit 1
fi
if [ "${2:-}" = --write ]; then
    cp "$tmp/table" "$expected"
    exit
fi
diff "$expected" "$tmp/table"
echo "$(grep -vc '^#' "$expected") values compared, $(grep -c ' -- ' "$expected") differ for a reason"
