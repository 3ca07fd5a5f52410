#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# two-nodes.sh RANK_PROGRAM [lost] - a job of 12 ranks by torchrun's variables, on two nodes: two namespaces of networks and of mounts
#
# Run by test-nodes in namespaces of its own. Node A, where this runs, knows its own name as 127.0.1.1, as Debian writes it into /etc/hosts, and
# has an interface that node B does not reach. The ranks of node A come first, so that they are parents of ranks of node B. With "lost" the
# nodes lose each other when the job is open, and it ends when each rank has heard of the 6 ranks of the other node.
set -e
program=$1
folder=$(mktemp -d)
[ "$2" != lost ] || export BOOTSTRAP_RANK_END=lost
trap 'kill $pids $node_b 2>/dev/null || true; rm -r "$folder"' EXIT

unshare -n -m sleep 100 &
node_b=$!
while [ "$(readlink /proc/$node_b/ns/mnt)" = "$(readlink /proc/$$/ns/mnt)" ]; do sleep 0.01; done
on_b() { nsenter -t "$node_b" -n -m "$@"; }

echo "127.0.1.1 node-a" >"$folder/hosts-a"
echo "10.77.0.1 node-a" >"$folder/hosts-b"
mount --bind "$folder/hosts-a" /etc/hosts
on_b mount --bind "$folder/hosts-b" /etc/hosts
ip link set lo up
ip link add inner0 type veth peer name inner1
ip addr add 172.31.7.1/24 dev inner0
ip link set inner0 up
ip link set inner1 up
ip link add veth-a type veth peer name veth-b netns "$node_b"
ip addr add 10.77.0.1/24 dev veth-a
ip link set veth-a up
on_b ip link set lo up
on_b ip addr add 10.77.0.2/24 dev veth-b
on_b ip link set veth-b up
echo "two nodes"

export WORLD_SIZE=12 LOCAL_WORLD_SIZE=6 MASTER_ADDR=node-a MASTER_PORT=29400 BOOTSTRAP_RANK_INTERFACE=
pids=
for rank in 0 1 2 3 4 5; do
	RANK=$rank LOCAL_RANK=$rank "$program" torchrun >>"$folder/output" &
	pids="$pids $!"
done
sleep 1
for rank in 6 7 8 9 10 11; do
	RANK=$rank LOCAL_RANK=$((rank - 6)) nsenter -t "$node_b" -n -m "$program" torchrun >>"$folder/output" &
	pids="$pids $!"
done
if [ "$2" = lost ]; then
	until [ "$(grep -c 'is there' "$folder/output")" = 12 ]; do sleep 0.05; done
	ip link set veth-a down
	until [ "$(grep -c 'has ended' "$folder/output")" -ge 72 ]; do sleep 0.05; done
	cat "$folder/output"
	exit 0
fi
status=0
for pid in $pids; do wait "$pid" || status=1; done
cat "$folder/output"
exit $status
