#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# nvshmem-first.sh WHEEL BUNDLE [PES [ARG...]]: build nvshmem-first.cu, nvshmem-ops.cu and nvshmem-jobs.cu with NVIDIA's headers and device library, and run them on shmemd.
#
# WHEEL: the folder nvidia/nvshmem of an installed wheel (nvidia-nvshmem-cu13), with include and lib, or one program, if it is built already.
# BUNDLE: what tools/gpu-bundle made. PES: how many processes (default: 2). Needs nvcc and a GPU. Nothing of NVIDIA's stays: programs are built in
# a temporary folder. PEs that share a GPU wait for each other's time slices in kernels, unless CUDA MPS runs. ARG: of the programs. With
# NVSHMEM_DISABLE_P2P=1 the payload of NICs, printed at the end, says that it went by queues; nvshmem-ops.cu is for PEs that map each other, and is left out, and so is nvshmem-jobs.cu.
# Exit status: that of the first job that fails.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -ge 2 ] || { sed -n '3,8s/^# //p' "${BASH_SOURCE[0]}" >&2; exit 2; }
wheel=$1 bundle=$(cd "$2" && pwd) n_pes=${3:-2}
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
scratch=$(mktemp -d)
daemon=
cleanup() {
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
    rm -rf "$scratch"
}
trap cleanup EXIT

programs=("$wheel")
if [ -d "$wheel" ]; then
    programs=("$scratch/nvshmem-first")
    [ "${NVSHMEM_DISABLE_P2P:-0}" != 0 ] || programs+=("$scratch/nvshmem-ops" "$scratch/nvshmem-jobs")
    for program in "${programs[@]}"; do
        "$nvcc" -std=c++17 -rdc=true -arch=sm_90 -I"$wheel/include" "$here/$(basename "$program").cu" -o "$program" \
            -L"$wheel/lib" -lnvshmem_device -Xlinker -l:libnvshmem_host.so.3 -lcuda
    done
fi

export LD_LIBRARY_PATH=$bundle/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} SHMEMD_SOCKET=$scratch/socket
"$bundle/bin/shmemd" --config /dev/null --socket "$SHMEMD_SOCKET" >"$scratch/log" 2>&1 &
daemon=$!
for ((i = 0; i < 200; i++)); do
    "$bundle/bin/shmemctl" status >/dev/null 2>&1 && break
    sleep 0.05
done
status=0
for program in "${programs[@]}"; do
    # shellcheck disable=SC2086 # several arguments are meant
    "$bundle/bin/shmemctl" run --nvshmem -n "$n_pes" --timeout 120 ${SHMEMD_RUN_ARGS:-} -- "$program" "${@:4}" || { status=$?; break; }
done
"$bundle/bin/shmemctl" metrics nics | grep '^shmemd_nic_payload_.*_total' || true
[ "$status" = 0 ] || { echo "--- shmemd's log:"; tail -n 30 "$scratch/log"; } >&2
exit "$status"
