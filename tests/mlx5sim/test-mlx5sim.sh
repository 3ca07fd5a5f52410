#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs of rdma-core, as the distribution brings them, on simulated devices.
# usage: test-mlx5sim.sh CASE MLX5SIM
set -euo pipefail

case=$1 mlx5sim=$2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

for program in ibv_devices ibv_devinfo ibv_rc_pingpong; do
    command -v $program >/dev/null || { echo "SKIP: no $program (package ibverbs-utils)"; exit 77; }
done

want() { # want FILE PATTERN...: each an extended expression that a line must fit
    local file=$1 pattern
    shift
    for pattern in "$@"; do
        grep -Eq "$pattern" "$file" || { echo "not there: $pattern"; cat "$file"; exit 1; }
    done
}

# Nothing was refused but what perftest leaves behind.
expect_log() { # expect_log [PATTERN]: and what the extended expression has
    want "$tmp/log" 'closed with'
    if grep -Ev "closed with|mlx5_0 is (lost|back)|mlx5_0: port is (up|down)|lost with|free_uar: [0-9]+ objects use it${1:+|$1}" "$tmp/log"; then
        echo "refused, and not expected"
        exit 1
    fi
}

is_listening() { # is_listening PORT
    grep -Eqs "^ *[0-9]+: [0-9A-F]+:$(printf %04X "$1") [0-9A-F:]+ 0A" /proc/net/tcp /proc/net/tcp6
}

give_up() { # give_up SERVER: the simulator would wait for it
    kill -KILL "$1" 2>/dev/null || true
}

# The server on one device, the client on the other, within one simulator. 3: the server did not come to listen.
pair_once() { # pair_once TRY PROGRAM DEVICE DEVICE OPTION...
    # By the process number: tests that run beside this one have others.
    local port=$((20000 + ($$ + $1 * 997) % 10000)) pid n=0
    shift
    local program=$1 server=$2 client=$3
    shift 3
    "$program" -d "$server" -p $port "$@" >"$tmp/server" 2>&1 &
    pid=$!
    until is_listening $port; do
        kill -0 $pid 2>/dev/null || return 3
        [ $((n += 1)) -lt 600 ] || { give_up $pid; return 1; }
        sleep 0.05
    done
    timeout --foreground 100 "$program" -d "$client" -p $port "$@" 127.0.0.1 >"$tmp/client" 2>&1 || {
        give_up $pid
        return 1
    }
    wait $pid || return 1
}

# Run inside the simulator. If another process has the port, the script tries the next one.
pair() {
    local try status=0
    for try in 1 2 3 4 5; do
        status=0
        pair_once $try "$@" || status=$?
        [ $status = 3 ] || break
    done
    cat "$tmp/server"
    [ ! -e "$tmp/client" ] || cat "$tmp/client"
    return $status
}

run_pair() { # run_pair SIMULATOR_OPTIONS PROGRAM DEVICE DEVICE OPTION...
    local options=$1
    shift
    command -v "$1" >/dev/null || { echo "SKIP: no $1"; exit 77; }
    export -f pair pair_once is_listening give_up
    export tmp
    # shellcheck disable=SC2086 # options are words
    "$mlx5sim" $options --log "$tmp/log" -- bash -c 'pair "$@"' pair "$@"
    expect_log
}

pingpong() { # pingpong TYPE SIMULATOR_OPTIONS DEVICE DEVICE OPTION...
    local type=$1 options=$2 file
    shift 2
    run_pair "$options" "ibv_${type}_pingpong" "$@"
    for file in "$tmp/server" "$tmp/client"; do
        want "$file" '^[0-9]+ bytes in' '^[0-9]+ iters in'
        ! grep -i 'invalid data\|fail' "$file" || exit 1
    done
}

# UCX replaces mmap in a way that no preloaded library sees unless an option forbids it; pools are linked lists here.
ucx() { # ucx TRANSPORT TEST OPTION...
    local transport=$1 test=$2 options="--nics 2"
    shift 2
    if [ "${1:-}" = ib ]; then options+=" --link ib"; shift; fi
    export UCX_MEM_MMAP_HOOK_MODE=none UCX_RC_MLX5_SRQ_TOPO=list UCX_DC_MLX5_SRQ_TOPO=list UCX_LOG_LEVEL=${ucx_log:-warn}
    run_pair "$options" ucx_perftest mlx5_0:1 mlx5_1:1 -x "$transport" -t "$test" -n 200 -w 10 "$@"
    want "$tmp/client" '^Final: +[0-9]+ '
    ! grep -h 'UCX  *\(ERROR\|WARN\)' "$tmp/server" "$tmp/client" || exit 1
}

perftest() { # perftest PROGRAM BYTES ITERATIONS OPTION...: the client's table must end with that line
    local program=$1 bytes=$2 iterations=$3
    shift 3
    run_pair "--nics 2" "$program" mlx5_0 mlx5_1 -x 3 -F "$@"
    want "$tmp/client" "^ $bytes +$iterations +[0-9.]+ +[0-9.]+"
}

# All that perftest offers over one type; for half an hour's patience, not for every run. Not -e with latency, nor with DC
# (README.md), nor for writes, which have no events.
matrix() { # matrix TYPE OPERATION...
    local type=$1 op option
    [ "${SHMEMD_TEST_FULL:-}" = 1 ] || return 0
    shift
    for op; do
        for option in '' -a -b '-q 8' -e '-I 32 -s 32'; do
            case "$op$type$option" in write*-e | *DC-e | read*-I* | atomic*-I* | atomic*-a) continue ;; esac
            # shellcheck disable=SC2086 # options are words
            run_pair "--nics 2" "ib_${op}_bw" mlx5_0 mlx5_1 -x 3 -F -n 100 -c "$type" $option
            want "$tmp/client" '^ [0-9]+ +[0-9]+ +[0-9.]+'
        done
        for option in '' -a '-I 32 -s 32'; do
            case "$op$option" in read-I* | atomic-I* | atomic-a) continue ;; esac
            # shellcheck disable=SC2086
            run_pair "--nics 2" "ib_${op}_lat" mlx5_0 mlx5_1 -x 3 -F -n 100 -c "$type" $option
            want "$tmp/client" '^ [0-9]+ +[0-9]+ +[0-9.]+'
        done
    done
}

# Programs started in between must see a state that lasts from one time to the other: when the machine is too busy
# for that within a second and a half, it gets more time.
in_time() { # in_time FROM_MSEC OPTIONS COMMAND: COMMAND gives up when it is over
    local to
    # shellcheck disable=SC2016 # for the shell in the simulator
    local over='over() { [ $SECONDS -gt $limit ]; }; limit=$1;'
    for to in 1500 6000 24000; do
        # shellcheck disable=SC2086 # options are words
        "$mlx5sim" $2 "$1,$to" --log "$tmp/log" -- bash -c "$over $3" in_time $((to / 1000 + 10)) && return
    done
    exit 1
}

case $case in
devices)
    "$mlx5sim" --nics 3 --log "$tmp/log" -- ibv_devices >"$tmp/out"
    want "$tmp/out" '^ +mlx5_0 +.*006d6cfffe783501$' '^ +mlx5_1 +.*006d6cfffe783502$' '^ +mlx5_2 +.*006d6cfffe783503$'
    [ "$(grep -c mlx5_ "$tmp/out")" = 3 ] || { cat "$tmp/out"; exit 1; }
    ;;
files) # the simulator has descriptors of all clients, also where few are usual; the command's limit is not touched
    ulimit -Sn 16
    # shellcheck disable=SC2016 # for the shell in the simulator
    "$mlx5sim" --nics 8 --log "$tmp/log" -- bash -c '[ "$(ulimit -Sn)" = 16 ] && ibv_devinfo' >"$tmp/out"
    [ "$(grep -c hca_id: "$tmp/out")" = 8 ] || { cat "$tmp/out"; exit 1; }
    expect_log
    ;;
devinfo-roce)
    "$mlx5sim" --nics 2 --log "$tmp/log" -- ibv_devinfo -v -d mlx5_1 >"$tmp/out"
    want "$tmp/out" '^hca_id:\s+mlx5_1$' 'fw_ver:\s+22\.36\.1010$' 'node_guid:\s+006d:6cff:fe78:3502$' \
        'vendor_part_id:\s+4125$' 'phys_port_cnt:\s+1$' 'max_qp:\s+16384$' 'max_qp_wr:\s+32768$' 'max_sge:\s+30$' \
        'max_cqe:\s+4194303$' 'max_qp_rd_atom:\s+16$' 'atomic_cap:\s+ATOMIC_HCA' 'num_comp_vectors:\s+1$' \
        'state:\s+PORT_ACTIVE' 'active_mtu:\s+1024' 'link_layer:\s+Ethernet$' 'gid_tbl_len:\s+8$' \
        'GID\[ +1\]:\s+fe80::6d:6cff:fe78:3502, RoCE v2$' 'GID\[ +3\]:\s+::ffff:192\.0\.2\.2, RoCE v2$'
    expect_log
    ;;
devinfo-ib)
    "$mlx5sim" --link ib --log "$tmp/log" -- ibv_devinfo -v >"$tmp/out"
    want "$tmp/out" 'link_layer:\s+InfiniBand$' 'port_lid:\s+1$' 'sm_lid:\s+1$' 'active_mtu:\s+4096' 'gid_tbl_len:\s+8$' \
        'GID\[ +0\]:\s+fe80:0000:0000:0000:006d:6cff:fe78:3501$'
    expect_log
    ;;
rc-poll)
    pingpong rc "--nics 2" mlx5_0 mlx5_1 -g 3 -c -n 500
    ;;
rc-poll-one-nic)
    pingpong rc "" mlx5_0 mlx5_0 -g 1 -c -n 300 -s 100000 -m 4096
    ;;
rc-poll-ib)
    pingpong rc "--nics 2 --link ib" mlx5_0 mlx5_1 -c -n 300
    ;;
rc-events)
    pingpong rc "--nics 2" mlx5_0 mlx5_1 -g 3 -c -e -n 1000
    ;;
uc-poll)
    pingpong uc "--nics 2" mlx5_0 mlx5_1 -g 3 -c -n 200
    pingpong uc "--nics 2 --link ib" mlx5_0 mlx5_1 -c -n 200 -s 100000
    ;;
uc-events)
    pingpong uc "--nics 2" mlx5_0 mlx5_1 -g 1 -c -e -n 300
    ;;
ud-poll) # RoCE v2 over IPv4 and IPv6, RoCE v1, and InfiniBand without GRH and with
    for gid in 3 1 0; do pingpong ud "--nics 2" mlx5_0 mlx5_1 -g $gid -c -n 100; done
    pingpong ud "--nics 2 --link ib" mlx5_0 mlx5_1 -c -n 100
    pingpong ud "--nics 2 --link ib" mlx5_0 mlx5_1 -g 0 -c -n 100
    ;;
ud-events)
    pingpong ud "--nics 2" mlx5_0 mlx5_1 -g 3 -c -e -n 300
    ;;
srq-poll)
    pingpong srq "--nics 2" mlx5_0 mlx5_1 -g 3 -c -n 500
    pingpong srq "--nics 2 --link ib" mlx5_0 mlx5_1 -c -n 500 -q 4
    ;;
srq-events)
    pingpong srq "--nics 2" mlx5_0 mlx5_1 -g 3 -c -e -n 500
    ;;
perftest-uc)
    perftest ib_write_bw 65536 800 -n 100 -c UC -q 8
    perftest ib_write_lat 64 100 -n 100 -s 64 -c UC
    perftest ib_send_bw 4096 300 -n 300 -s 4096 -c UC
    perftest ib_send_lat 64 100 -n 100 -s 64 -I 64 -c UC
    matrix UC write send
    ;;
perftest-ud) # no more than the receives that are posted: what comes without one is dropped
    perftest ib_send_bw 1024 300 -n 300 -s 1024 -c UD
    perftest ib_send_bw 512 300 -n 300 -s 512 -c UD -e
    perftest ib_send_lat 64 100 -n 100 -s 64 -I 64 -c UD
    matrix UD send
    ;;
perftest-srq)
    perftest ib_send_bw 65536 300 -n 300 -r 64 --use-srq
    ;;
perftest-dc)
    perftest ib_write_bw 65536 800 -n 100 -c DC -q 8
    perftest ib_read_bw 65536 300 -n 300 -c DC
    perftest ib_send_bw 4096 300 -n 300 -s 4096 -c DC
    perftest ib_atomic_bw 8 300 -n 300 -c DC
    perftest ib_write_lat 2 100 -n 100 -c DC
    matrix DC write read send atomic
    ;;
perftest-write)
    perftest ib_write_bw 65536 1000 -n 1000
    perftest ib_write_lat 64 200 -n 200 -s 64 -I 64
    matrix RC write
    ;;
perftest-write-both-ways)
    perftest ib_write_bw 4096 4000 -n 500 -s 4096 -q 8 -b
    ;;
perftest-all-sizes)
    perftest ib_write_bw 8388608 5 -n 5 -a
    ;;
perftest-read)
    perftest ib_read_lat 1000000 20 -n 20 -s 1000000
    perftest ib_read_bw 65536 500 -n 500
    matrix RC read
    ;;
perftest-send)
    perftest ib_send_bw 65536 300 -n 300
    perftest ib_send_bw 4096 300 -n 300 -s 4096 -e
    matrix RC send
    ;;
perftest-atomic)
    perftest ib_atomic_bw 8 1000 -n 1000
    perftest ib_atomic_lat 8 200 -n 200 -A CMP_AND_SWAP
    matrix RC atomic
    ;;
ucx-rc | ucx-dc)
    transport=${case#ucx-}_mlx5
    ucx "$transport" am_lat
    ucx "$transport" am_bw -D bcopy -s 4096
    ucx "$transport" put_lat
    ucx "$transport" put_bw -D zcopy -s 65536
    ucx "$transport" get -D zcopy -s 4096
    ucx_log=debug ucx "$transport" fadd -s 8
    want "$tmp/server" 'KSM registered memory' # the word lies under a key of another key
    ucx "$transport" cswap -s 4
    ucx "$transport" am_lat ib -n 1000 # more than a window of its flow control
    ;;
plans) # a device that is lost and returns, and a port that goes down and up, at the times that options say
    # shellcheck disable=SC2016 # also for the shell in the simulator
    in_time 100 "--nics 2 --fatal-after" '
        reach() { until [ "$(ibv_devices | grep -c mlx5_)" = "$1" ]; do over && exit 1; sleep 0.02; done; }
        ibv_devinfo >/dev/null; reach 1; reach 2; ibv_devinfo -d mlx5_0 | grep -q PORT_ACTIVE'
    # shellcheck disable=SC2016
    in_time 0 --port-down '
        reach() { until ibv_devinfo | grep -q "$1"; do over && exit 1; sleep 0.02; done; }
        reach PORT_DOWN; reach PORT_ACTIVE'
    expect_log 'Input/output error' # by the program that the loss came upon
    ! "$mlx5sim" --fatal-after 100,50 -- true 2>"$tmp/out" || exit 1
    want "$tmp/out" 'bad option'
    ;;
exit-status)
    status=0
    "$mlx5sim" --log "$tmp/log" -- sh -c 'exit 7' || status=$?
    [ $status = 7 ] || { echo "status $status instead of 7"; exit 1; }
    status=0
    "$mlx5sim" --log "$tmp/log" -- sh -c 'kill -KILL $$' || status=$?
    [ $status = 137 ] || { echo "status $status instead of 137"; exit 1; }
    status=0
    "$mlx5sim" --nics 9 -- true 2>/dev/null || status=$?
    [ $status = 2 ] || { echo "status $status instead of 2"; exit 1; }
    # A command that leaves a client behind has not succeeded.
    port=$((20000 + $$ % 10000)) status=0
    export -f is_listening
    export tmp
    # shellcheck disable=SC2016 # for the shell in the simulator
    "$mlx5sim" --patience 0 --log "$tmp/log" -- bash -c '
        ibv_rc_pingpong -d mlx5_0 -g 3 -p $1 >"$tmp/out" 2>&1 &
        echo $! >"$tmp/pid"
        until is_listening $1; do kill -0 $! || exit 1; sleep 0.05; done' go_on $port || status=$?
    kill "$(cat "$tmp/pid")" || true
    [ $status = 124 ] || { echo "status $status instead of 124"; cat "$tmp/out"; exit 1; }
    TMPDIR=$tmp "$mlx5sim" --log "$tmp/log" -- true
    ! ls -d "$tmp"/mlx5sim-* 2>/dev/null || { echo "left behind"; exit 1; }
    ;;
*)
    echo "no case $case"
    exit 2
    ;;
esac
