#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The mlx5 backend under another rdma-core than the distribution's: both ways to make objects, and their adoption.
# usage: mlx5-objects.sh RDMA_CORE_BUILD [BUILD]
# RDMA_CORE_BUILD is a folder that was built by cmake -DIN_PLACE=1, of rdma-core 63 or later; BUILD is ours.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
libs=${1:-}/lib
build=${2:-$here/../../build}

if [ ! -e "$libs/libmlx5.so.1" ]; then
    echo "SKIP: no libmlx5 in $libs: usage: mlx5-objects.sh RDMA_CORE_BUILD [BUILD]"
    exit 77
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for way in ioctl library; do
    for program in mlx5sim/test-mlx5-adopt mlx5sim/test-mlx5-backend unit/nic/test-nic-contract; do
        # Without the stand-in for its exports: the library has its own.
        LD_LIBRARY_PATH=$libs SHMEMD_MLX5_OBJECTS=$way SHMEMD_TEST_BACKEND=mlx5 "$build/tests/mlx5sim/mlx5sim" --nics 2 --log "$log" -- \
            "$build/tests/$program" | tail -n 1 | sed "s|^|$way, ${program##*/}: |"
    done
done
