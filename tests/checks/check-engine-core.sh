#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check-engine-core.sh ARCHIVE DAEMON SIMULATOR: the daemon has no function of the engine's extra services, the simulator has.
set -euo pipefail
archive=$1 daemon=$2 simulator=$3

names() { nm --defined-only "$archive" | awk '$2 ~ /^[TDR]$/ {print $3}' | sort -u; }
# Hidden symbols are local ones in a program.
shared() { comm -12 <(names) <(nm --defined-only "$1" | awk '{print $3}' | sort -u); }

n=$(names | wc -l)
[ "$n" -ge 20 ] || { echo "$archive defines only $n names"; exit 1; }
found=$(shared "$daemon")
[ -z "$found" ] || { echo "the daemon has:"; echo "$found"; exit 1; }
[ "$(shared "$simulator" | wc -l)" = "$n" ] || { echo "$simulator does not have all of them, so the comparison proves nothing"; exit 1; }
echo "$n names, none in the daemon"
