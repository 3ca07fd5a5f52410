#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tests that rdma-core has for itself, as the distribution brings them with pyverbs, on a simulated device.
# usage: pyverbs.sh MLX5SIM [--write] [TEST...]
# --write makes the committed list from what comes out. With TESTs (module.Class.test) only those are run.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
source=${PYVERBS_TESTS:-/usr/share/doc/rdma-core/tests}
expected=$here/pyverbs.expected
# shellcheck source-path=SCRIPTDIR source=pyverbs-lib.sh
. "$here/pyverbs-lib.sh"

[ $# -ge 1 ] || { echo "usage: $0 MLX5SIM [--write] [TEST...]" >&2; exit 2; }
mlx5sim=$(realpath "$1")
shift
[ -e "$source/run_tests.py" ] || skip "no tests of rdma-core in $source (package python3-pyverbs, with its documentation)"
find_python 'pyverbs, scapy' || skip 'no pyverbs or no scapy (packages python3-pyverbs, python3-scapy)'
version=$(pkg-config --modversion libibverbs 2>/dev/null || echo unknown)
wanted=$(sed -n 's/^# libibverbs //p' "$expected" 2>/dev/null || true)
[ "${1:-}" = --write ] || [ "$version" = "$wanted" ] || skip "libibverbs $version; results are known for $wanted"

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cp -r "$source" "$tmp/tests"
find "$tmp/tests" -name '*.gz' -exec gunzip {} +
run_and_compare "libibverbs $version" "$@"
