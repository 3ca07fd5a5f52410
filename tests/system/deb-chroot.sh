#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The packages in a copy of a Debian that keeps nothing: installed, tried, upgraded, removed and purged.
# usage: deb-chroot.sh here|fresh DEBS WORK
#   here: of this machine, without network; fresh: of a new Debian, which mmdebstrap makes in WORK/debian
# Exit status: 77, with a reason as the last line, where this machine cannot do that.
set -euo pipefail

names=(shmemd libshmemclient0 libshmemclient-dev shmemctl libshmd-openshmem0 libshmd-openshmem-dev shmd-nvshmem python3-shmemclient)

skip() { echo "$*"; exit 77; }
fail() { echo "FAILED: $*"; exit 1; }

# ---- outside: as root, in namespaces of its own --------------------------------------------------------------------

dependencies() { # dependencies DEBS: of the packages, but for one another
    local name
    for name in "${names[@]}"; do dpkg-deb -f "$1/${name}"_*.deb Depends; done |
        tr ',' '\n' | sed 's/^ *//' | grep -Ev '^(shmemctl|libshmemclient|libshmd-openshmem)' | sort -u
}

# The packages' dependencies, what their autopkgtests need, and a service manager that is not running.
make_debian() { # make_debian DEBS WORK
    local codename include
    # shellcheck disable=SC1091 # of this machine
    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    include=$({ dependencies "$1" | sed 's/[ |(].*//'; printf '%s\n' udev gcc libc6-dev pkg-config util-linux; } | sort -u | paste -sd,)
    if [ "$codename $include" = "$(cat "$2/debian/complete" 2>/dev/null)" ]; then return; fi
    command -v mmdebstrap >/dev/null || skip 'mmdebstrap is not there; tools/deps --deb-fresh installs it'
    echo "mmdebstrap: a new Debian $codename in $2/debian, which later runs use again"
    rm -rf "$2/debian"
    mkdir "$2/debian"
    mmdebstrap --quiet --variant=essential --include="$include" "$codename" "$2/debian/root" ||
        skip 'mmdebstrap made no Debian; are its servers out of reach?'
    echo "$codename $include" >"$2/debian/complete"
}

mount_copy() { # mount_copy LOWER: the copy is $scratch/root, what is changed in it appears in $scratch/upper
    local name
    mkdir "$scratch/upper" "$scratch/work" "$scratch/root"
    mount -t overlay -o "lowerdir=$1,upperdir=$scratch/upper,workdir=$scratch/work" overlay "$scratch/root" &&
        mount -t proc proc "$scratch/root/proc" || return 1
    for name in dev run tmp var/tmp; do mount -t tmpfs -o mode=755 tmpfs "$scratch/root/$name" || return 1; done
    chmod 1777 "$scratch/root/tmp" "$scratch/root/var/tmp"
    for name in null zero full random urandom tty; do
        if [ -e "/dev/$name" ]; then
            touch "$scratch/root/dev/$name"
            mount --bind "/dev/$name" "$scratch/root/dev/$name" || return 1
        fi
    done
    ln -s /proc/self/fd "$scratch/root/dev/fd"
    mkdir -m 1777 "$scratch/root/dev/shm"
    # Parts of this machine that are file systems of their own are not in the copy.
    [ -x "$scratch/root/usr/bin/env" ] && [ -e "$scratch/root/var/lib/dpkg/status" ]
}

judge() { # judge LOWER PATH: prints differences from the tree below
    local new=$scratch/upper/$2 old=$1/$2
    if [ -L "$new" ]; then
        [ "$(readlink "$new")" = "$(readlink "$old")" ] || echo "changed: $2"
    elif [ -d "$new" ]; then
        [ -d "$old" ] || echo "made:    $2"
    elif [ -c "$new" ]; then
        echo "removed: $2"
    elif ! cmp -s "$new" "$old" || [ "$(stat -c '%a %u %g' "$new")" != "$(stat -c '%a %u %g' "$old")" ]; then
        echo "changed: $2"
    fi
}

# Not the packages' own: notes of the package tools and indexes of files that others share, backups of /etc/passwd.
left_over() { # left_over LOWER
    local path
    (cd "$scratch/upper" && find . -mindepth 1 \( -path ./var/lib/dpkg -o -path ./var/lib/apt -o -path ./var/cache \
        -o -path ./var/log -o -path ./var/lib/systemd/catalog/database -o -path ./etc/ld.so.cache -o -path './etc/*-' \
        -o -path ./etc/.pwd.lock \) -prune -o -print | sort) |
        while IFS= read -r path; do judge "$1" "$path"; done
    (cd "$scratch/root" && find run dev -name '*shmem*')
    (cd "$scratch/upper" && find . -name '*shmem*')
}

inside() { # inside COMMAND: this script, in the copy
    chroot "$scratch/root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive bash /tmp/in/deb-chroot.sh "$1"
}

outside() { # outside MODE DEBS WORK
    local lower=/ top name left
    top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
    if [ "$1" = fresh ]; then lower=$3/debian/root; fi
    scratch=$3/chroot
    mkdir -p "$scratch"
    # It goes with the namespace.
    mount -t tmpfs -o size=2G tmpfs "$scratch" || skip 'no file system can be mounted here'
    mount_copy "$lower" || skip 'this machine cannot be copied: no overlay file system over its root, or not all of it is in that'

    mkdir -p "$scratch/root/tmp/in/debs" "$scratch/root/tmp/in/tree/tests/system"
    for name in "${names[@]}"; do cp "$2/${name}"_*.deb "$scratch/root/tmp/in/debs/"; done
    cp "${BASH_SOURCE[0]}" "$scratch/root/tmp/in/deb-chroot.sh"
    cp "$top"/tests/system/demo* "$scratch/root/tmp/in/tree/tests/system/"
    cp -r "$top/systemd/debian" "$scratch/root/tmp/in/tree/debian"

    inside life
    inside planted
    left=$(left_over "$lower")
    [ "$left" = 'made:    ./var/lib/planted' ] ||
        fail "after the purge the file system is not what it was (but for ./var/lib/planted, which is planted): $left"
    echo 'purged: the file system is what it was'
}

# ---- inside the copy -----------------------------------------------------------------------------------------------

says() { # says WHAT COMMAND...: fails with what it is about
    local what=$1
    shift
    "$@" || fail "$what"
    echo "ok: $what"
}

# Sets of packages of a lower version: the same files, other numbers.
make_lower() { # make_lower VERSION
    local deb
    mkdir /tmp/in/lower
    for deb in /tmp/in/debs/*.deb; do
        rm -rf /tmp/in/unpacked
        dpkg-deb -R "$deb" /tmp/in/unpacked
        sed -i "s/^Version: .*/Version: $1/; s/(= [^)]*)/(= $1)/g; s/(>= ${1%~lower})/(>= $1)/g" /tmp/in/unpacked/DEBIAN/control
        dpkg-deb --root-owner-group -b /tmp/in/unpacked /tmp/in/lower >/dev/null
    done
}

version_of() { dpkg-query -W -f '${Version}' "$1"; }
is() { [ "$1" = "$2" ]; }
not() { ! "$@"; }

run_autopkgtests() {
    local name
    cd /tmp/in/tree
    sed -n 's/^Tests: //p' debian/tests/control | while read -r name; do
        mkdir "/tmp/in/$name"
        chmod 755 "/tmp/in/$name"
        AUTOPKGTEST_TMP=/tmp/in/$name says "autopkgtest $name" "debian/tests/$name" </dev/null
    done
}

# The unit says Requires=, so what is enabled decides what a boot starts.
installed_rightly() {
    says 'the socket is enabled' systemctl --quiet is-enabled shmemd.socket
    says 'the service waits for a client' not systemctl --quiet is-enabled shmemd.service
    says 'user and group are there' getent passwd shmemd
    says 'the folder of the socket is there' is "$(stat -c '%a %U' /run/shmemd)" '755 root'
    says 'the catalog knows the messages' grep -q 'shmemd is ready' <(journalctl --list-catalog)
    says 'the units are right' systemd-analyze verify --man=no shmemd.socket shmemd.service
    says 'the installation started nothing' not pidof shmemd
}

life() {
    local new
    # The index of all manual pages of a machine takes long and is not ours.
    if [ -e /var/lib/man-db/auto-update ]; then mv /var/lib/man-db/auto-update /tmp/in/; fi
    new=$(dpkg-deb -f /tmp/in/debs/shmemd_*.deb Version)
    make_lower "$new~lower"

    dpkg -i /tmp/in/lower/*.deb
    says 'a lower version is installed' is "$(version_of shmemd)" "$new~lower"
    installed_rightly
    # An administrator's choice outlives an upgrade.
    systemctl --quiet disable shmemd.socket
    dpkg -i /tmp/in/debs/*.deb
    says 'the upgrade is installed' is "$(version_of shmemd)" "$new"
    says 'the upgrade enables nothing again' not systemctl --quiet is-enabled shmemd.socket
    systemctl --quiet enable shmemd.socket
    run_autopkgtests

    dpkg --remove "${names[@]}"
    says 'removed: no program is left' not command -v shmemd shmemctl
    dpkg --install /tmp/in/debs/*.deb
    installed_rightly
    dpkg --purge "${names[@]}"
    says 'purged: no user is left' not getent passwd shmemd
    says 'purged: no group is left' not getent group shmemd
    if [ -e /tmp/in/auto-update ]; then mv /tmp/in/auto-update /var/lib/man-db/; fi
}

case ${1:-} in
here | fresh)
    [ "$(id -u)" = 0 ] || skip 'a copy of a Debian wants root'
    unshare --mount --pid --fork --kill-child true 2>/dev/null || skip 'namespaces cannot be made here'
    if [ "$1" = fresh ]; then
        make_debian "$2" "$3"
    else
        missing=$(dpkg-checkbuilddeps -d "$(dependencies "$2" | paste -sd,)" /dev/null 2>&1) ||
            skip "this machine lacks packages that ours depend on: ${missing##*: }"
    fi
    exec unshare --mount --pid --fork --kill-child bash "${BASH_SOURCE[0]}" outside "$@"
    ;;
outside) shift; outside "$@" ;;
life) life ;;
# left_over must be able to find something.
planted) mkdir /var/lib/planted ;;
*) sed -n 's/^# //p' "${BASH_SOURCE[0]}" | sed -n '/^usage/,/^Exit/p' >&2; exit 2 ;;
esac
