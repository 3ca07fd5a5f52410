#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test-deb-alternatives.sh DEBIAN_FOLDER: oshcc and oshrun of another package stay as they are, whether it comes before or after ours.
# In a folder that stands for the root of a Debian.
set -euo pipefail

debian=$1
for program in dpkg-query update-alternatives; do
    command -v "$program" >/dev/null || { echo "no $program here"; exit 77; }
done
DPKG_ROOT=$(mktemp -d "${TMPDIR:-/tmp}/shmemd-test.XXXXXX")
trap 'rm -rf "$DPKG_ROOT"' EXIT
export DPKG_ROOT
bin=$DPKG_ROOT/usr/bin database=$DPKG_ROOT/var/lib/dpkg
mkdir -p "$bin" "$DPKG_ROOT"/{etc/alternatives,var/log,usr/share/man/man1} "$database"/{info,alternatives}
touch "$database/status" "$bin"/{oshcc,oshcxx,oshrun}.shmd "$DPKG_ROOT"/usr/share/man/man1/{oshcc,oshcxx,oshrun}.shmd.1.gz
# An older dpkg would use the database of this machine.
if dpkg-query --search /bin/sh >/dev/null 2>&1; then echo 'this dpkg-query does not know DPKG_ROOT'; exit 77; fi

fail() { echo "FAILED: $*"; ls -l "$bin"; exit 1; }
ours() { sh "$debian/libshmd-openshmem-dev.$1" "$2" 2>/dev/null >/dev/null || fail "$1 $2 ended with $?"; }
expect() { # expect WHEN NAME TARGET
    [ "$(readlink "$bin/$2" 2>/dev/null || true)" = "$3" ] || fail "$1: $2 is no link to '$3'"
}
expect_all() { # expect_all WHEN FOLDER: each program and its manual page is a link into FOLDER, or none
    for name in oshcc oshcxx oshc++ oshrun; do
        expect "$1" "$name" "${2:+$2/$name}"
        expect "$1" "../share/man/man1/$name.1.gz" "${2:+$2/$name.1.gz}"
    done
}
other_comes() {
    ln -sfn opal_wrapper "$bin/oshcc"
    ln -sfn mpirun.openmpi "$bin/oshrun"
    printf 'Package: other\nStatus: install ok installed\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b.c>\nDescription: a\n' \
        >"$database/status"
    printf '/.\n/usr\n/usr/bin\n/usr/bin/oshcc\n/usr/bin/oshrun\n' >"$database/info/other.list"
}
other_goes() { rm -f "$bin/oshcc" "$bin/oshrun" "$database/info/other.list"; : >"$database/status"; }
expect_other() { expect "$1" oshcc opal_wrapper; expect "$1" oshrun mpirun.openmpi; }

ours postinst configure
expect_all 'alone' /etc/alternatives
ours prerm remove
expect_all 'removed' ''

other_comes
ours postinst configure
expect_other 'ours comes second'
ours prerm remove
expect_other 'ours goes first'

other_goes
ours postinst configure
other_comes
ours postinst configure
expect_other 'ours is upgraded'
ours prerm remove
expect_other 'ours came first and goes first'
