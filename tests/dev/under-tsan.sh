#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# under-tsan.sh PROGRAM: run a program that is built with TSan. The address layout of newer kernels is too random for older ones of it.
set -euo pipefail

without_aslr=()
if setarch -R true 2>/dev/null; then without_aslr=(setarch -R); fi
status=0
"${without_aslr[@]}" "$1" --list >/dev/null 2>&1 || status=$?
[ "$status" = 0 ] || { echo "SKIP: TSan does not start here"; exit 77; }
exec "${without_aslr[@]}" "$1"
