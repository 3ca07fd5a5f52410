#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Has the units judged by systemd: check-units.sh SERVICE SOCKET. A unit with a planted error must fail.
set -eu
service=$1 socket=$2

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/good" "$scratch/bad"

# The program need not be installed to judge the unit.
sed 's,^ExecStart=.*,ExecStart=/bin/true,' "$service" >"$scratch/good/shmemd.service"
cp "$socket" "$scratch/good/shmemd.socket"
cp "$scratch/good/shmemd.service" "$scratch/bad/shmemd.service"
sed 's,^ListenSequentialPacket=,ListenSequencedPackets=,' "$socket" >"$scratch/bad/shmemd.socket"

# Any word at all is a complaint.
complaints() {
    systemd-analyze verify --man=no "$1/shmemd.service" "$1/shmemd.socket" 2>&1 || true
}

said=$(complaints "$scratch/good")
if [ -n "$said" ]; then
    echo "$said"
    exit 1
fi
if [ -z "$(complaints "$scratch/bad")" ]; then
    echo "a planted error was not noticed"
    exit 1
fi
echo "units are sound"
