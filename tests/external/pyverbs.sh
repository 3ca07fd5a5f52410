#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tests that rdma-core has for itself, as the distribution brings them with pyverbs, on a simulated device.
# usage: pyverbs.sh MLX5SIM [--write] [TEST...]
# --write makes the committed list from what comes out. With TESTs (module.Class.test) only those are run.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
source=${PYVERBS_TESTS:-/usr/share/doc/rdma-core/tests}
expected=$here/pyverbs.expected

skip() {
    echo "SKIP: $1"
    exit 77
}

[ $# -ge 1 ] || { echo "usage: $0 MLX5SIM [--write] [TEST...]" >&2; exit 2; }
mlx5sim=$(realpath "$1")
shift
[ -e "$source/run_tests.py" ] || skip "no tests of rdma-core in $source (package python3-pyverbs, with its documentation)"
python=
for p in /usr/bin/python3 python3; do
    if [ -z "$python" ] && "$p" -c 'import pyverbs, scapy' 2>/dev/null; then python=$p; fi
done
[ -n "$python" ] || skip 'no pyverbs or no scapy (packages python3-pyverbs, python3-scapy)'
version=$(pkg-config --modversion libibverbs 2>/dev/null || echo unknown)
wanted=$(sed -n 's/^# libibverbs //p' "$expected" 2>/dev/null || true)
[ "${1:-}" = --write ] || [ "$version" = "$wanted" ] || skip "libibverbs $version; results are known for $wanted"

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cp -r "$source" "$tmp/tests"
find "$tmp/tests" -name '*.gz' -exec gunzip {} +

# A DEVX client has to know the MAC of the peer, and asks iproute2 for that of the device's network interface.
mkdir "$tmp/bin"
cat >"$tmp/bin/ip" <<'END'
#!/bin/sh
echo '[{"address": "02:6d:6c:78:35:01", "addr_info": [{"local": ""}]}]'
END
chmod +x "$tmp/bin/ip"
# shellcheck disable=SC2016 # for the shell in the simulator
with_interface='mkdir -p "$MLX5SIM_ROOT/sys/class/infiniband/mlx5_0/device/net/sim0" && exec "$@"'

run() { # run TEST...: the home is empty, so no file of a user decides anything
    (cd "$tmp" && HOME=$tmp PATH=$tmp/bin:$PATH timeout -k 5 150 "$mlx5sim" --log "$tmp/log" -- sh -c "$with_interface" sh \
        "$python" "$here/pyverbs-run.py" run "$tmp/tests" "$tmp/results" "$@") >"$tmp/out" 2>&1
}

if [ "${1:-}" = --write ]; then
    run || { tail -n 30 "$tmp/out"; exit 1; }
    "$python" "$here/pyverbs-run.py" write "$expected" "$tmp/results" "$version"
    exit
fi
run "$@" || { tail -n 30 "$tmp/out"; exit 1; }
"$python" "$here/pyverbs-run.py" compare "$expected" "$tmp/results" "$@" || { tail -n 60 "$tmp/out"; exit 1; }
