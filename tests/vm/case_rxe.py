# SPDX-License-Identifier: Apache-2.0
"""RDMA in the kernel without hardware: rdma_rxe on the lab's network."""
import contextlib
import json
import re

from lab.case import case, eventually
from service import PROGRAMS, clock, service, since

ITERATIONS = 100


@contextlib.contextmanager
def rxe(node):
    """rxe0 on the card that joins the machines."""
    node.run('modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0', limit=240)
    try:
        yield
    finally:
        node.run('rdma link delete rxe0')


@case(short=True)
def an_rxe_link_is_an_active_device_of_verbs(lab):
    node = lab.node(1)
    with rxe(node):
        assert re.search(r'link rxe0/1 state ACTIVE .*netdev eth0', node.run('rdma link show').out)
        said = eventually(lambda: (found := node.execute('ibv_devinfo -d rxe0')).status == 0 and found.out, 'verbs open it')
        assert 'PORT_ACTIVE' in said and 'Ethernet' in said, said
        eventually(lambda: node.execute('stat -c %U /dev/infiniband/uverbs0').out.strip() == 'shmemd',
                   'udev gives it to the daemon')
    assert 'rxe0' not in node.run('rdma link show').out


@case(nodes=2)
def two_machines_exchange_messages_by_rxe(lab):
    server, client = lab.node(1), lab.node(2)
    pingpong = f'ibv_rc_pingpong -d rxe0 -g 1 -n {ITERATIONS}'
    with rxe(server), rxe(client):
        with server.background(pingpong, limit=300) as ended:
            eventually(lambda: ':18515' in server.run('ss -tln').out, 'the server listens')
            said = client.run(f'{pingpong} node1', limit=300).out
            assert f'{ITERATIONS} iters in' in said, said
            assert ended().status == 0


@case(nodes=4)
def four_machines_reach_each_other_and_no_other_address(lab):
    """By rxe each the next; and there is no way out of their network."""
    nodes = [lab.node(i) for i in range(1, 5)]
    with contextlib.ExitStack() as stack:
        for node in nodes:
            stack.enter_context(rxe(node))
        ends = [stack.enter_context(node.background(f'ibv_rc_pingpong -d rxe0 -g 1 -n {ITERATIONS}', limit=300))
                for node in nodes]
        for node in nodes:
            eventually(lambda node=node: ':18515' in node.run('ss -tln').out, 'the server listens')
        for i, node in enumerate(nodes):
            said = node.run(f'ibv_rc_pingpong -d rxe0 -g 1 -n {ITERATIONS} node{(i + 1) % 4 + 1}', limit=300).out
            assert f'{ITERATIONS} iters in' in said, said
        assert [end().status for end in ends] == [0] * 4
    for node in nodes:
        assert node.run('ip -j route').out.count('"dst"') == 1 and 'default' not in node.run('ip route').out


def told(node, words):
    return lambda: words in node.run('cat /tmp/rxe-events').out


def undriven(node):
    return json.loads(node.run('shmemctl --json list nics').out)['undriven']


def states(node):
    return [(nic['name'], nic['state']) for nic in undriven(node)]


def is_complete(nics):
    wanted = {'name': 'rxe0', 'driver': 'rdma_rxe', 'netdev': 'eth0', 'port': 1, 'link': 'ethernet', 'state': 'active',
              'phys_state': 'link-up', 'mtu_bytes': 1024}
    return (len(nics) == 1 and {key: nics[0].get(key) for key in wanted} == wanted and
            any(gid.get('gid') == '::ffff:10.77.0.1' and gid.get('type') == 'roce-v2' for gid in nics[0].get('gids', [])))


@case(short=True)
def an_rxe_device_is_listed_and_its_changes_are_told(lab):
    """The unit as it is: with neither the host's network nor its devices."""
    node = lab.node(1)
    node.run('systemctl start shmemd && rm -f /tmp/rxe-events')
    monitor = 'exec timeout 600 shmemctl monitor --kind port-state,nic-lost >/tmp/rxe-events 2>&1'
    with node.background(monitor, limit=600), contextlib.ExitStack() as added:
        eventually(lambda: json.loads(node.run('shmemctl --json status').out)['n_monitors'] == 1, 'a monitor listens')
        added.enter_context(rxe(node))
        eventually(told(node, ': it was found; shmemd does not manage it'), 'a monitor is told that it came')
        eventually(lambda: is_complete(undriven(node)), 'it is listed with its state and its addresses')
        for command in 'shmemctl port rxe0 down', f'{PROGRAMS}/vm-waiter rxe0':
            said = node.execute(command)
            assert said.status == 1 and 'does not support rxe0' in said.err + said.out, said
        node.run('ip link set dev eth0 down')
        eventually(told(node, 'rxe0 is down'), 'a monitor is told that the port went down')
        eventually(lambda: states(node) == [('rxe0', 'down')], 'the list says so too')
        node.run('ip link set dev eth0 up')
        eventually(told(node, 'rxe0 is active\n'), 'a monitor is told that the port is up again')
        eventually(lambda: is_complete(undriven(node)), 'and it is listed as before')
        added.close()
        eventually(told(node, 'rxe0 is gone'), 'a monitor is told that it went')
    node.run('rm /tmp/rxe-events')
    assert undriven(node) == []


@case()
def without_the_drop_in_for_devices_the_journal_says_where_it_is(lab):
    node = lab.node(1)
    with rxe(node), service(node):
        start = clock(node)
        node.run('systemctl start shmemd.service')
        eventually(lambda: 'SERVICE in shmemd(8)' in since(node, start), 'the advice is in the journal')
