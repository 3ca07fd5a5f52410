#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The suites of OpenSHMEM whose sources lie in FOLDER, each under the name of its script: openshmem-all.sh FOLDER [--full]
# Without --full, a few programs of each with two PEs, but none of shmem4py and bale, whose builds take long; with it, all, with 2, 3, 4 and 8
# PEs, over mapped memory and over queues, by oshrun and, where it is, by Hydra: an hour and more.
# tools/test runs it if SHMEMD_OPENSHMEM_SUITES names the folder.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:?usage: openshmem-all.sh FOLDER [--full]}
declare -A few=(
    [sos]='unit/hello unit/bcast unit/atomic_nbi unit/alltoall spec-example/shmem_ctx apps/gups'
    [shmemvv]='c_shmem_put c_shmem_reduce c_shmem_team_split_2d c11_shmem_atomic_add c11_shmem_wait_until'
    [uh]='test_shmem_atomics test_shmem_put_globals test_shmem_global_exit'
    [cray]='sma1/shmem_type_put sma1/shmem_lock_set_clear sma2/all_sum_alltypes'
    [isx]='weak' [prk]='stencil transpose' [osu]='barrier/collective put/heap' [mellanox]='lock sync')
launchers=oshrun
if command -v mpiexec.hydra >/dev/null; then launchers+=,hydra; fi
status=0
for suite in sos shmemvv uh cray mellanox shmem4py isx prk bale osu; do
    [ -d "$folder/$suite" ] || continue
    echo "--- $suite"
    if [ "${2:-}" != --full ]; then
        # shellcheck disable=SC2086 # names of programs
        [ -z "${few[$suite]:-}" ] || "$here/$suite.sh" "$folder/$suite" ${few[$suite]} || status=1
        continue
    fi
    "$here/$suite.sh" "$folder/$suite" -n 2,3,4,8 --over mapped,queue --launcher "$launchers" --jobs "$((($(nproc) + 7) / 8))" || status=1
done
exit "$status"
