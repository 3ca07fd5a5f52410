#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test-oshcc-installed.sh OSHCC PREFIX LIBDIR HEADERS LIBRARY...: a program of the oshcc that is installed links, and finds its libraries, under
# any prefix and without LD_LIBRARY_PATH. The installation is a copy, in a folder that stands for PREFIX.
set -euo pipefail

oshcc=$1 prefix=$2 libdir=$3 headers=$4
shift 4
if [ -n "${MESON_EXE_WRAPPER:-}" ]; then echo 'the libraries are for another machine'; exit 77; fi
if [ "$prefix" = /usr ]; then echo "under /usr the system's folders count"; exit 77; fi
scratch=$(mktemp -d "${TMPDIR:-/tmp}/shmemd-test.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
new=$scratch$libdir
mkdir -p "$new" "$scratch$prefix/include/shmd-openshmem"
cp "$headers"/{shmem,pshmem}.h "$scratch$prefix/include/shmd-openshmem"
for library; do
    name=$(basename "$library")
    cp "$library" "$new/${name%.so*}.so.0"
    ln -s "${name%.so*}.so.0" "$new/${name%.so*}.so"
done
sed "s,$prefix/,$scratch$prefix/,g" "$oshcc" >"$scratch/oshcc"
printf '#include <shmem.h>\nint main(void) { int n; shmem_query_initialized(&n); return n; }\n' >"$scratch/program.c"
unset LD_LIBRARY_PATH
sh "$scratch/oshcc" -o "$scratch/program" "$scratch/program.c"
"$scratch/program"
