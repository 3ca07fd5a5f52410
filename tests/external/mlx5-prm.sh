#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The committed commands of the mlx5 backend against the structures that rdma-core's own tests have for them.
# usage: mlx5-prm.sh [STRUCTS] [--write]
# STRUCTS is tests/mlx5_prm_structs.py of some rdma-core; without, the one that the distribution documents.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
expected=$here/mlx5-prm.expected
structs=/usr/share/doc/rdma-core/tests/mlx5_prm_structs.py
write=no
for arg in "$@"; do
    case $arg in
    --write) write=yes ;;
    *) structs=$arg ;;
    esac
done

skip() {
    echo "SKIP: $1"
    exit 77
}

[ -e "$structs" ] || structs=$structs.gz
[ -e "$structs" ] || skip "no structures of rdma-core in ${structs%/*} (package python3-pyverbs, with its documentation)"
python=
for p in /usr/bin/python3 python3; do
    if [ -z "$python" ] && "$p" -c 'import scapy' 2>/dev/null; then python=$p; fi
done
[ -n "$python" ] || skip 'no scapy (package python3-scapy)'

out=$("$python" "$here/mlx5-prm.py" "$structs" "$here/../data/mlx5-trace-roce" "$here/../data/mlx5-trace-ib" \
    "$here/../data/mlx5-trace-dc-roce" "$here/../data/mlx5-trace-dc-ib") || {
    echo "$out"
    exit 1
}
if [ "$write" = yes ]; then
    echo "$out" >"$expected"
    exit
fi
diff "$expected" <(echo "$out")
echo "$(grep -c ' fields as ' "$expected") kinds of commands, every field the same"
