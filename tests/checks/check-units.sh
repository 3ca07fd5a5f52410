#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Has what is installed for systemd judged by systemd itself: check-units.sh FOLDER SERVICE SHMEMD, the systemd folder, the
# configured service and the daemon. Units, their exposure (2.5 at most), users, folders, catalog; each judge must notice a planted error.
set -eu
folder=$(realpath "$1") service=$2 shmemd=$3
worst_exposure=25

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/good" "$scratch/bad"

fail() {
    echo "$*"
    exit 1
}

# ---- units: any word at all is a complaint; the program need not be installed to judge the unit
sed 's,^ExecStart=.*,ExecStart=/bin/true,' "$service" >"$scratch/good/shmemd.service"
cp "$folder/shmemd.socket" "$scratch/good/shmemd.socket"
sed 's,^WatchdogSec=,WatchdogSecs=,' "$scratch/good/shmemd.service" >"$scratch/bad/shmemd.service"
cp "$folder/shmemd.socket" "$scratch/bad/shmemd.socket"

complaints() {
    systemd-analyze verify --man=no "$1/shmemd.service" "$1/shmemd.socket" 2>&1 || true
}
said=$(complaints "$scratch/good")
[ -z "$said" ] || fail "$said"
[ -n "$(complaints "$scratch/bad")" ] || fail "a planted error in a unit was not noticed"

# ---- what sessions pin and hold is not the manager's default
grep -qx 'LimitMEMLOCK=infinity' "$service" || fail "the unit limits locked memory"
grep -qx 'LimitNOFILE=65536' "$service" || fail "the unit has not the descriptors that SECURITY.md counts with"

# ---- descriptors that outlive the daemon: as many as the daemon believes, within its own limit
kept=$("$shmemd" --config=/dev/null --check-config | sed -n 's/^max-kept-fds = //p')
[ "$kept" -gt 0 ] && [ "$kept" -lt 32768 ] || fail "max-kept-fds is \"$kept\""
agrees() { # SERVICE
    grep -qx "FileDescriptorStoreMax=$kept" "$1" && grep -qx "Environment=FDSTORE=$kept" "$1"
}
agrees "$service" || fail "the unit does not keep the $kept descriptors of max-kept-fds"
sed 's,^FileDescriptorStoreMax=.*,&0,' "$service" >"$scratch/bad/kept.service"
! agrees "$scratch/bad/kept.service" || fail "another number of kept descriptors was not noticed"

# ---- product data are the daemon's user's, who could make them writable
keeps_sys() { # SERVICE
    [ "$(grep '^ProtectKernelTunables=' "$1" | tail -n 1)" = ProtectKernelTunables=yes ]
}
keeps_sys "$service" || fail "the daemon may write to /sys"
sed 's,^ProtectKernelTunables=.*,&\nProtectKernelTunables=no,' "$service" >"$scratch/bad/sys.service"
! keeps_sys "$scratch/bad/sys.service" || fail "a daemon that may write to /sys was not noticed"

# ---- exposure
exposed_at_most() {
    systemd-analyze security --no-pager --offline=true --threshold="$worst_exposure" "$1" >"$scratch/security" 2>&1
}
exposed_at_most "$scratch/good/shmemd.service" || fail "$(cat "$scratch/security")"
tail -n 1 "$scratch/security"
grep -v -e '^Protect' -e '^Private' -e '^System' -e '^Restrict' -e '^Capab' "$scratch/good/shmemd.service" \
    >"$scratch/bad/shmemd.service"
! exposed_at_most "$scratch/bad/shmemd.service" || fail "an open unit was not noticed"

# ---- exposure with the drop-in for hardware NICs, as it is installed for an example
grep -v '^#' "$folder/nics.conf" >"$scratch/drop-in"
opens() { # SETTING: with a reason in the table of OPERATION.md
    grep -qx "$1" "$scratch/drop-in" && grep -q "^| .*\`$1\`.* | ." "$folder/OPERATION.md"
}
if grep -q -e '^RestrictAddressFamilies=' -e '^IPAddressDeny=' "$scratch/drop-in"; then fail "the drop-in lets the daemon talk to networks"; fi
if grep -q '^[A-Z][a-z]*=.*[.]device' "$scratch/drop-in"; then fail "the drop-in waits for a device that may not be there"; fi
for setting in PrivateDevices=no ProcSubset=all PrivateNetwork=no; do
    opens "$setting" || fail "the drop-in for hardware NICs has no $setting, or does not say why"
done
mkdir "$scratch/nics"
cat "$scratch/good/shmemd.service" "$scratch/drop-in" >"$scratch/nics/shmemd.service"
cp "$folder/shmemd.socket" "$scratch/nics/shmemd.socket"
keeps_sys "$scratch/nics/shmemd.service" || fail "the drop-in lets the daemon write to /sys"
said=$(complaints "$scratch/nics")
[ -z "$said" ] || fail "$said"
exposed_at_most "$scratch/nics/shmemd.service" || fail "$(cat "$scratch/security")"
tail -n 1 "$scratch/security"

# ---- user, group, folder: made below a root of our own; where we are not root, in a namespace in which we are
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else unshare --map-root-user "$@"; fi
}
if as_root true 2>/dev/null; then
    mkdir -p "$scratch/root/etc" "$scratch/root/run"
    as_root systemd-sysusers --root="$scratch/root" "$folder/shmemd.sysusers" >"$scratch/said" 2>&1 || fail "$(cat "$scratch/said")"
    grep -q '^shmemd:' "$scratch/root/etc/group" || fail "no group shmemd"
    grep -q '^shmemd:.*/nologin$' "$scratch/root/etc/passwd" || fail "user shmemd can log in, or is not there"
    as_root systemd-tmpfiles --root="$scratch/root" --create "$folder/shmemd.tmpfiles" || fail "tmpfiles"
    [ "$(stat -c %a "$scratch/root/run/shmemd")" = 755 ] || fail "no folder /run/shmemd of mode 0755"
fi

# ---- catalog
catalog_ids() { # FILE: the ids that journalctl finds in it
    rm -rf "$scratch/journal"
    mkdir -p "$scratch/journal/usr/lib/systemd/catalog"
    cp "$1" "$scratch/journal/usr/lib/systemd/catalog/"
    journalctl --root="$scratch/journal" --update-catalog >"$scratch/said" 2>&1 || return 1
    journalctl --root="$scratch/journal" --list-catalog | cut -d ' ' -f 1
}
grep -o '^-- [0-9a-f]*' "$folder/shmemd.catalog" | cut -d ' ' -f 2 | sort >"$scratch/written"
catalog_ids "$folder/shmemd.catalog" | sort >"$scratch/found"
cmp "$scratch/written" "$scratch/found" || fail "journalctl reads another catalog: $(cat "$scratch/said")"
sed '0,/^-- /s/^-- .*/-- 1234/' "$folder/shmemd.catalog" >"$scratch/bad/shmemd.catalog"
! catalog_ids "$scratch/bad/shmemd.catalog" >"$scratch/found" || fail "a planted error in the catalog was not noticed"

# ---- rules: by udevadm where it can (systemd 254); check-udev has them anyway
if udevadm verify --help >/dev/null 2>&1; then
    udevadm verify --resolve-names=never "$folder/60-shmemd.rules" || fail "rules"
fi

# ---- what udev runs: product data that the kernel made are its user's to read afterwards, and nobody's to write
sed -n '/"pci"/s/RUN+=/\n&/gp' "$folder/60-shmemd.rules" | sed -n 's/^RUN+="\([^"]*\)".*/\1/p' >"$scratch/runs"
mkdir "$scratch/pci"
run_all() { # FILE: as udev does, one after the other, each by itself
    : >"$scratch/pci/vpd"
    chmod 600 "$scratch/pci/vpd"
    while read -r program words; do
        # shellcheck disable=SC2086
        "$program" $(printf '%s' "$words" | sed "s,%S%p,$scratch/pci,; s,^shmemd ,$(id -u) ,") || return 1
    done <"$1"
    [ "$(stat -c '%a %u' "$scratch/pci/vpd")" = "400 $(id -u)" ]
}
run_all "$scratch/runs" || fail "what udev runs for product data: $(cat "$scratch/runs") leaves $(stat -c '%a %u' "$scratch/pci/vpd")"
grep -v chmod "$scratch/runs" >"$scratch/bad/runs"
! run_all "$scratch/bad/runs" || fail "product data that may be written were not noticed"
echo "units, users, folders and catalog are sound"
