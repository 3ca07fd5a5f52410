#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The table of plans that bench-coll prints is that of libclient/runtime/coll/README.md: test-bench-plans.sh BENCH-COLL
set -euo pipefail
export LC_ALL=C
wanted='1 mapped local local local local local
2 mapped slots slots flat flat flat
4 mapped slots slots flat flat flat
16 mapped slots slots flat flat flat
17 mapped rounds rounds rounds rounds rounds
1 queues local local local local local
4 queues slots slots flat flat flat
5 queues rounds rounds rounds rounds rounds
1024 queues rounds rounds rounds rounds rounds'
table=$("$1" --plans | tr -s ' ' | sed 's/ $//')
head -n 1 <<<"$table" | grep -qx 'PEs path 8 56 57 4096 1048576 bytes'
while read -r line; do
    grep -qxF -- "$line" <<<"$table" || { printf 'no line "%s" in\n%s\n' "$line" "$table" >&2; exit 1; }
done <<<"$wanted"
