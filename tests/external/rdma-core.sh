#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A current rdma-core, built from its sources, on simulated devices: its own tests against a committed list, and its
# ibv_devinfo and ibv_rc_pingpong.
# usage: rdma-core.sh SOURCE_DIR [--write] [TEST...]
# SOURCE_DIR is a clone of its repository, at any commit for --write and else at the one of the list. MLX5SIM names the
# simulator, RDMA_CORE_BUILD a folder to build in and to keep.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
expected=$here/rdma-core.expected
# shellcheck source-path=SCRIPTDIR source=pyverbs-lib.sh
. "$here/pyverbs-lib.sh"

[ $# -ge 1 ] || { echo "usage: $0 SOURCE_DIR [--write] [TEST...]" >&2; exit 2; }
[ -e "$1/tests/run_tests.py" ] || skip "no rdma-core in $1"
source=$(realpath "$1")
shift
mlx5sim=$(realpath "${MLX5SIM:-$here/../../build/tests/mlx5sim/mlx5sim}")
[ -x "$mlx5sim" ] || skip "no simulator $mlx5sim (build it, or set MLX5SIM)"
for program in cmake ninja cc git; do
    command -v $program >/dev/null || skip "no $program"
done
find_python 'Cython, scapy' || skip 'no Cython or no scapy (packages cython3, python3-dev, python3-scapy)'

commit=$(git -C "$source" rev-parse --verify -q HEAD) || { echo "of which commit is $source?"; exit 1; }
[ -z "$(git -C "$source" status --porcelain --untracked-files=no)" ] || { echo "$source is not what was committed"; exit 1; }
wanted=$(sed -n 's/^# rdma-core //p' "$expected" 2>/dev/null || true)
[ "${1:-}" = --write ] || [ "$commit" = "$wanted" ] || { echo "commit $commit; results are known for $wanted"; exit 1; }

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
build=${RDMA_CORE_BUILD:-$tmp/build}
mkdir -p "$build"
build=$(realpath "$build")

quietly() { # quietly COMMAND...: what it says is shown when it fails
    "$@" >"$tmp/built" 2>&1 || { tail -n 40 "$tmp/built"; exit 1; }
}

quietly cmake -S "$source" -B "$build" -GNinja -DIN_PLACE=1 -DNO_MAN_PAGES=1 -DCMAKE_BUILD_TYPE=Release \
    "-DCMAKE_C_FLAGS_RELEASE=-O1 -DNDEBUG" -DPYTHON_EXECUTABLE="$(command -v "$python")"
quietly nice ninja -C "$build" -j"${JOBS:-2}" pyverbs/all tests/all libmlx5.so ibv_devinfo ibv_rc_pingpong
ls "$build"/python/pyverbs/device.*.so >/dev/null 2>&1 ||
    { echo "pyverbs was not built (package python3-dev)"; exit 1; }
# Drivers that were not built are not missed.
find "$build/etc/libibverbs.d" -name '*.driver' ! -name mlx5.driver -delete

"$mlx5sim" --log "$tmp/log" -- "$build/bin/ibv_devinfo" -v >"$tmp/devinfo" 2>&1 || { cat "$tmp/devinfo"; exit 1; }
for line in 'hca_id: *mlx5_0' 'state: *PORT_ACTIVE' 'GID\[ *3\]:.*RoCE v2'; do
    tr '\t' ' ' <"$tmp/devinfo" | grep -Eq "$line" || { echo "ibv_devinfo: not there: $line"; cat "$tmp/devinfo"; exit 1; }
done

pingpong() { # pingpong OPTION...: server and client within one simulator
    local port=$((20000 + $$ % 10000))
    # shellcheck disable=SC2016 # for the shell in the simulator
    timeout -k 5 100 "$mlx5sim" --nics 2 --log "$tmp/log" -- sh -c '
        p=$1 port=$2; shift 2
        "$p" -d mlx5_0 -g 3 -p "$port" "$@" & server=$!
        n=0
        until "$p" -d mlx5_1 -g 3 -p "$port" "$@" 127.0.0.1; do
            kill -0 $server 2>/dev/null && [ $((n += 1)) -lt 100 ] || exit 1
            sleep 0.1
        done
        wait $server' sh "$build/bin/ibv_rc_pingpong" "$port" -c "$@" >"$tmp/pingpong" 2>&1 || {
        cat "$tmp/pingpong"
        exit 1
    }
}
pingpong
pingpong -e

cp -r "$source/tests" "$tmp/tests"
export PYTHONPATH=$build/python
run_and_compare "rdma-core $commit" "$@"
