# SPDX-License-Identifier: Apache-2.0
"""RDMA in the kernel without hardware: rdma_rxe on the lab's network."""
import contextlib
import re

from lab.case import case, eventually

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
        assert node.run('stat -c %U /dev/infiniband/uverbs0').out.strip() == 'shmemd'
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
