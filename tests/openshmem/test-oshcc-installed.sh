#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test-oshcc-installed.sh OSHCC PC PREFIX LIBDIR HEADERS LIBRARY...: programs of the oshcc that is installed, and of the flags of pkg-config, link and
# find their libraries, under any prefix and without LD_LIBRARY_PATH. The installation is a copy, in a folder that stands for PREFIX.
set -euo pipefail

oshcc=$1 pc=$2 prefix=$3 libdir=$4 headers=$5
shift 5
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
if ! command -v pkg-config >/dev/null; then echo 'no pkg-config'; exit 77; fi
sed "s,^prefix=.*,prefix=$scratch$prefix,; s,$prefix/,$scratch$prefix/,g" "$pc" >"$scratch/shmd-openshmem.pc"
# shellcheck disable=SC2046 # several words are meant
cc -o "$scratch/program" "$scratch/program.c" $(PKG_CONFIG_PATH=$scratch pkg-config --cflags --libs shmd-openshmem)
"$scratch/program"
