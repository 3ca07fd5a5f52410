# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# Common part of pyverbs.sh and rdma-core.sh: rdma-core's tests, run on a simulated device in a scratch folder.
# The sourcing script sets: here, expected, tmp (removed at the end), mlx5sim.

skip() {
    echo "SKIP: $1"
    exit 77
}

# Debian's first: what is installed in packages is there.
find_python() { # find_python MODULES: sets python
    local p
    python=
    for p in /usr/bin/python3 python3; do
        if [ -z "$python" ] && "$p" -c "import $1" 2>/dev/null; then python=$p; fi
    done
    [ -n "$python" ]
}

# A DEVX client has to know the MAC of the peer, and asks iproute2 for that of the device's network interface.
fake_interface() {
    mkdir -p "$tmp/bin"
    cat >"$tmp/bin/ip" <<'END'
#!/bin/sh
echo '[{"address": "02:6d:6c:78:35:01", "addr_info": [{"local": ""}]}]'
END
    cat >"$tmp/bin/rdma" <<'END'
#!/bin/sh
echo '[{"ifname": "mlx5_0", "port": 1, "netdev": "sim0"}]'
END
    chmod +x "$tmp/bin/ip" "$tmp/bin/rdma"
}

run_tests() { # run_tests TEST...: of $tmp/tests. The home is empty, so no file of a user decides anything
    # shellcheck disable=SC2016 # for the shell in the simulator
    local within='mkdir -p "$MLX5SIM_ROOT/sys/class/infiniband/mlx5_0/device/net/sim0" &&
        export LD_PRELOAD="$1:$LD_PRELOAD" && shift && exec "$@"'
    fake_interface
    (cd "$tmp" && HOME=$tmp PATH=$tmp/bin:$PATH timeout -k 5 700 "$mlx5sim" --memfd-dmabuf --log "$tmp/log" -- sh -c "$within" sh \
        "${mlx5sim%/*}/pyverbs-dmabuf.so" "$python" "$here/pyverbs-run.py" run "$tmp/tests" "$tmp/results" "$@") >"$tmp/out" 2>&1 || {
        tail -n 30 "$tmp/out"
        exit 1
    }
}

run_and_compare() { # run_and_compare VERSION [--write] [TEST...]: VERSION is the first line of the list
    local version=$1
    shift
    if [ "${1:-}" = --write ]; then
        run_tests
        "$python" "$here/pyverbs-run.py" write "$expected" "$tmp/results" "$version"
        exit
    fi
    run_tests "$@"
    "$python" "$here/pyverbs-run.py" compare "$expected" "$tmp/results" "$@" || { tail -n 60 "$tmp/out"; exit 1; }
}
