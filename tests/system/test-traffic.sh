#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test-traffic.sh CASE WITH-DAEMON SHMEMD SHMEMCTL SHMEMD-TRAFFIC: the traffic that other tests restart the daemon under counts
# right, and notices what is wrong.
set -eu
case=$1
shift

case $case in
counts)
    said=$("$@" --batches 200 --nics soft0,soft1)
    echo "$said"
    echo "$said" | grep -q '"batches": 200, "puts": 1600, "gets": 200, "adds": 1600, "fetches": 200, "sends": 1600, "immediates": 1600, '
    ;;
notices-a-wrong-byte)
    said=$(SHMEMD_FAULT=soft.flip-payload-byte:400 "$@" --batches 200 2>&1) && exit 1
    echo "$said"
    echo "$said" | grep -q 'has other bytes at '
    ;;
notices-a-lost-completion)
    said=$(SHMEMD_FAULT=soft.drop-cqe:401 "$@" --batches 200 --patience 2 2>&1) && exit 1
    echo "$said"
    echo "$said" | grep -q -e 'has not come' -e 'timed out' -e 'came as completion'
    ;;
esac
