#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Registers, SASS instructions and spills of our device calls next to NVSHMEM's: nvshmem-sass.sh SOURCE_DIR
# SOURCE_DIR holds NVSHMEM's include/ (README.md says where it comes from). No GPU is needed.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:/usr/local/cuda/bin:/opt/cuda/bin
flags='-O3 -arch=sm_90 -std=c++17 -DNDEBUG'

skip() {
	echo "skipped: $1"
	exit 77
}

[ $# -eq 1 ] || { echo "usage: $0 SOURCE_DIR" >&2; exit 2; }
theirs=$1/include
[ -e "$theirs/nvshmem.h" ] || skip "no NVSHMEM in $1"
command -v nvcc >/dev/null || skip 'no nvcc'

version() {
	sed -n "s/^#define NVSHMEM_VENDOR_$1_VERSION //p" "$theirs/non_abi/nvshmem_version.h"
}

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# One compiler run for each side, the same flags. NVSHMEM's macro puts its device code into this unit
# instead of taking it, compiled by its vendor, from libnvshmem_device.a.
nvcc $flags -I "$here/../../kernels/include" -Xptxas -v -cubin -o "$out/ours.cubin" \
	"$here/nvshmem-sass-ours.cu" >"$out/ours.log" 2>&1 || { cat "$out/ours.log" >&2; exit 1; }
nvcc $flags -I "$theirs" -DNVSHMEM_ENABLE_ALL_DEVICE_INLINING -Xptxas -v -cubin -o "$out/theirs.cubin" \
	"$here/nvshmem-sass-theirs.cu" >"$out/theirs.log" 2>&1 || { cat "$out/theirs.log" >&2; exit 1; }

python3 "$here/nvshmem-sass.py" \
	"NVSHMEM $(version MAJOR).$(version MINOR).$(version PATCH), nvcc $(nvcc --version | sed -n 's/.*, V//p'), $flags" \
	"$here/nvshmem-sass.expected" "$out/ours" "$out/theirs"
