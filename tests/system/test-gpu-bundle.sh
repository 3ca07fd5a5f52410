#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The folder of tools/gpu-bundle is complete: its CPU demo runs from another place, with every library that is not glibc's
# taken from it. usage: test-gpu-bundle.sh TOP BUILD
set -euo pipefail
top=$1 build=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$top/tools/gpu-bundle" --build "$build" "$scratch/made"
mv "$scratch/made" "$scratch/moved"
cd /
"$scratch/moved/run" demo | tee "$scratch/out"
tail -n 1 "$scratch/out" | grep -Eq '^demo: 4 PEs, [1-9][0-9]* operations verified, 0 errors$'
for program in "$scratch"/moved/bin/*; do
    # NVIDIA's library stays where NVIDIA put it.
    LD_LIBRARY_PATH=$scratch/moved/lib ldd "$program" | grep -v libnvshmem_host >"$scratch/ldd"
    if grep -E '=>' "$scratch/ldd" | grep -v "$scratch/moved/lib/" |
        grep -Ev '^\s*(libc|libm|libdl|librt|libpthread|libresolv)\.so'; then
        echo "$program: libraries from elsewhere"
        exit 1
    fi
done
status=0
"$scratch/moved/run" nothing >"$scratch/out" 2>&1 || status=$?
[ "$status" = 2 ]
! "$top/tools/gpu-bundle" --build "$build" "$scratch/moved" 2>/dev/null
