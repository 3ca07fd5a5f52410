#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/deps on a machine that lacks everything: a PATH of a few harmless commands, and an apt-get that only takes notes.
set -euo pipefail
deps=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/bin"

for name in bash env cat head mkdir rm sort true; do ln -s "$(type -P "$name")" "$scratch/bin/$name"; done

command_that() { # command_that NAME SHELL...
    printf '#!%s\n%s\n' "$scratch/bin/bash" "$2" >"$scratch/bin/$1"
    chmod +x "$scratch/bin/$1"
}

# The packages of this machine decide nothing.
export PYVERBS_TESTS=$scratch/pyverbs DISTRIBUTION_PYTHON=$scratch/bin/python3

run_deps() { # run_deps ARGUMENT...; status in $status, words in $said
    : >"$scratch/apt"
    status=0
    said=$(PATH=$scratch/bin bash "$deps" "$@" 2>&1) || status=$?
}

expect() { # expect WHAT TEST...
    local what=$1
    shift
    if ! "$@"; then
        printf '%s\nstatus %s, it said:\n%s\napt-get was asked:\n%s\n' "$what" "$status" "$said" "$(cat "$scratch/apt")"
        exit 1
    fi
}

says() { [[ $said == *"$1"* ]]; }
apt_was_asked() { [ -s "$scratch/apt" ]; }
not() { ! "$@"; }

command_that apt-get "echo \"\$*\" >>'$scratch/apt'"
command_that id 'echo 1000'
command_that sudo 'exit 1'

run_deps
expect 'without rights: exit status 2' [ "$status" = 2 ]
expect 'without rights: the one command' says 'run: sudo apt-get install -y --no-install-recommends gcc '
expect 'without rights: nothing is installed' not apt_was_asked

command_that id 'echo 0'
run_deps --no-install
expect '--no-install: exit status 2' [ "$status" = 2 ]
expect '--no-install: says what is missing' says 'libevent-dev'
expect '--no-install: nothing is installed' not apt_was_asked

run_deps
expect 'as root: apt-get is asked' grep -q '^install .*meson' "$scratch/apt"
expect 'as root: clang is not asked for' not grep -q clang "$scratch/apt"
expect 'as root, and apt-get did not help: exit status 2' [ "$status" = 2 ]

expect 'as root: QEMU is not asked for' not grep -q qemu-system "$scratch/apt"
run_deps --vm
expect '--vm: QEMU is asked for' grep -q '^install .*qemu-system-x86' "$scratch/apt"

run_deps --ci
expect '--ci: clang is asked for' grep -q clang "$scratch/apt"
expect '--ci: rdma-core and its tests are asked for' grep -q 'path-include=/usr/share/doc/rdma-core/.* python3-pyverbs' "$scratch/apt"
expect '--ci: what it can use is asked for too' grep -q mandoc "$scratch/apt"
expect '--ci: and is missed by nobody' says 'optional and missing: libsystemd-dev'

run_deps --deb
expect '--deb: what builds packages is asked for' grep -q 'debhelper dpkg-dev lintian' "$scratch/apt"
expect '--deb: and no more than that' not grep -q mmdebstrap "$scratch/apt"
run_deps --deb-fresh
expect '--deb-fresh: that too' grep -q 'debhelper .*mmdebstrap' "$scratch/apt"

command_that id 'echo 1000'
command_that sudo "[ \"\$1\" = -n ] && shift && exec \"\$@\""
run_deps
expect 'with sudo -n: apt-get is asked' grep -q '^install .*meson' "$scratch/apt"

# All there: each probe finds what it looks for.
for name in cc c++ clang git ninja pkg-config python3 protoc-c aarch64-linux-gnu-gcc qemu-aarch64 ibv_devinfo ib_write_bw ucx_perftest mandoc zsh; do command_that "$name" 'exit 0'; done
command_that meson 'echo 1.0.1'
run_deps --ci
expect 'pyverbs without its tests is a missing one' says 'missing: python3-pyverbs'
mkdir "$PYVERBS_TESTS"
touch "$PYVERBS_TESTS/run_tests.py"
run_deps --ci
expect 'all there: exit status 0' [ "$status" = 0 ]
expect 'all there: nothing is installed' not apt_was_asked

command_that apt-get "echo \"\$*\" >>'$scratch/apt'; case \$* in *download*) echo >one.deb ;; esac"
command_that dpkg "echo \"dpkg \$*\" >>'$scratch/apt'"
run_deps --no-install --cross "$scratch/arm"
expect '--cross, --no-install: exit status 2' [ "$status" = 2 ]
expect '--cross, --no-install: says what is missing' says 'libevent-dev'
run_deps --cross "$scratch/arm"
expect '--cross: exit status 0' [ "$status" = 0 ]
expect '--cross: libraries are unpacked' grep -q 'dpkg -x ./one.deb' "$scratch/apt"
expect '--cross: nothing is installed' not grep -q '^install' "$scratch/apt"
expect '--cross: the cross file says where' grep -qx "root = '$scratch/arm'" "$scratch/arm/root.cross"
run_deps --cross "$scratch/arm"
expect '--cross, all there: nothing is asked for' not apt_was_asked
command_that dpkg 'exit 1'
run_deps --cross "$scratch/other"
expect '--cross, and it did not work: exit status 2' [ "$status" = 2 ]
run_deps --cross
expect '--cross without a folder: exit status 2' [ "$status" = 2 ]

command_that meson 'echo 0.61.2'
run_deps --no-install
expect 'an old meson is a missing one' says 'missing: meson'

run_deps --surprise
expect 'an unknown option: exit status 2' [ "$status" = 2 ]
echo 'tools/deps does what it says'
