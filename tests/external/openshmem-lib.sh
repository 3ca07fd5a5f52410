#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# openshmem-lib.sh SUITE SOURCE_DIR [OPTION...] [PROGRAM...]: a suite of OpenSHMEM on our library, under a private daemon; options: openshmem.py.
# BUILD names the build folder (default: build); MLX5SIM a simulator, under which daemon and programs then run.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
suite=$1
build=$(realpath "${BUILD:-$here/../../build}")
source=${2:-}
if ! [ -d "$source" ]; then echo "no sources of $suite in '$source'"; exit 77; fi
shift 2
commit=$(git -C "$source" rev-parse --short=7 HEAD 2>/dev/null || echo unknown)
wanted=$(sed -n '1s/^# //p' "$here/$suite.expected" 2>/dev/null || true)
if [ -n "$wanted" ] && [ "$commit" != "$wanted" ]; then echo "commit $commit; results are known for $wanted"; exit 1; fi
nics=()
if [ -n "${MLX5SIM:-}" ]; then
    nics=("$MLX5SIM" --nics 2 --)
    export SHMEMD_ARGS="--backend mlx5"
fi
exec "${nics[@]}" "$here/../lib/with-daemon.sh" "$build/daemon/shmemd" "$build/libclient/ctl/shmemctl" python3 "$here/openshmem.py" "$suite" \
    "$source" "$here/$suite.expected" "$build/libclient/compat/openshmem" --commit "$commit" "$@"
