#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The suite of Sandia OpenSHMEM on our OpenSHMEM library, under a private daemon.
# usage: sos.sh SOURCE_DIR [--write] [--verbose] [-n N] [PROGRAM...]; BUILD names the build folder (default: build)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
suite=$(basename "$0" .sh)
build=$(realpath "${BUILD:-$here/../../build}")
source=${1:-}
if ! [ -d "$source" ]; then echo "no sources of $suite in '$source'"; exit 77; fi
shift
commit=$(git -C "$source" rev-parse --short=7 HEAD 2>/dev/null || echo unknown)
wanted=$(sed -n '1s/^# //p' "$here/$suite.expected" 2>/dev/null || true)
if [ -n "$wanted" ] && [ "$commit" != "$wanted" ]; then echo "commit $commit; results are known for $wanted"; exit 1; fi
exec "$here/../lib/with-daemon.sh" "$build/daemon/shmemd" "$build/libclient/ctl/shmemctl" python3 "$here/openshmem.py" "$suite" "$source" \
    "$here/$suite.expected" "$build/libclient/compat/openshmem" --commit "$commit" "$@"
