# SPDX-License-Identifier: Apache-2.0
"""Steps of the cases about shmemd.service."""
import contextlib
import json
import re

from lab.case import eventually

SETTINGS = '/etc/shmemd/shmemd.conf'
DROP_IN = '/run/systemd/system/shmemd.service.d/case.conf'
PROGRAMS = '/usr/lib/shmemd-vm'
# An emulated machine takes longer to start a program than a client waits by itself.
PATIENT = 'restart-grace = 300000\n'

EVENTS = {
    'ADOPTED': 'aa85129dd85e4fbab473d964ab93bb76',
    'STATE_STRANGE': 'fb0e26f6368047898482a7d01198c181',
    'READY': '84aa6a9c0a2e4d5fa0d5a54978407062',
    'START_FAILED': 'a83e10f9a94445f39ac34783707b074c',
    'STOPPING': 'bf5cf15dcc914ee1bab71fdbf311f002',
    'RELOAD_DONE': '581632ee2c2f4736bde4469d30e8255e',
    'RELOAD_REFUSED': '528e56da5ae74172b0d63665670dcd0d',
    'SETTINGS_HELD': 'ec5c40c0a0574c58b86e58a6adcdc8f9',
    'SESSION_KILLED': 'ca0b0a60fa99477397aa30e001404b45',
}


def properties(node, *names):
    """Of shmemd.service, as a dictionary of texts."""
    text = node.run('systemctl show shmemd.service -p ' + ','.join(names)).out
    return dict(line.split('=', 1) for line in text.splitlines())


def main_pid(node):
    return int(properties(node, 'MainPID')['MainPID'])


# The output of `shmemctl list`, without fields that change by themselves.
LISTED = {
    'sessions': ('session', 'uid', 'gid', 'pid', 'command', 'cgroup', 'nics', 'doorbell', 'n_qps', 'n_cqs', 'n_mrs',
                 'registered_bytes', 'kept'),
    'qps': ('session', 'nic', 'qpn', 'type', 'state', 'dest_qpn', 'sq_wqebbs'),
    'mrs': ('session', 'nic', 'mr', 'kind', 'access', 'iova', 'length_bytes', 'reason'),
}


def listed(node, what):
    return [{key: one[key] for key in LISTED[what]} for one in json.loads(node.run(f'shmemctl list {what} --json').out)[what]]


@contextlib.contextmanager
def service(node, settings='', drop_in=''):
    """shmemd.service as it is after the boot, with these settings; the socket listens and no daemon runs yet."""
    write = f'mkdir -p "$(dirname {SETTINGS})" "$(dirname {DROP_IN})"; cat >{SETTINGS}'
    clear = ('systemctl stop shmemd.service; systemctl reset-failed shmemd.service shmemd.socket 2>&1; '
             f'rm -f {SETTINGS} {DROP_IN}')
    node.run(clear)
    node.run(write, stdin=settings)
    if drop_in:
        node.run(f'cat >{DROP_IN}', stdin=drop_in)
        node.run('systemctl daemon-reload')
    node.run('systemctl start shmemd.socket')
    try:
        yield
    finally:
        node.run(clear + ('; systemctl daemon-reload' if drop_in else ''))


def entries(node, event):
    """Of the journal, as dictionaries."""
    text = node.run(f'journalctl --sync; journalctl -q -o json --no-pager -u shmemd.service MESSAGE_ID={EVENTS[event]}').out
    return [json.loads(line) for line in text.splitlines()]


def clock(node):
    """For since()."""
    return node.run('date +%s').out.strip()


def since(node, start):
    """What the journal has of the service since that second."""
    return node.run(f'journalctl --sync; journalctl -q --no-pager -u shmemd.service --since @{start}').out


@contextlib.contextmanager
def waiting_client(node, user='alice'):
    """vm-waiter of that user, once it waits. The body gets the number of its session, and what waits for its Result."""
    said = '/run/vm-waiter'
    client = f'runuser -u {user} -- {PROGRAMS}/vm-waiter >{said} 2>&1; status=$?; cat {said}; exit $status'
    node.run(f'rm -f {said}')
    with node.background(client) as ended:
        found = eventually(lambda: re.search(r'session (\d+) waits', node.run(f'cat {said} || true').out),
                           'a client waits for something that nobody sends')
        yield int(found[1]), ended
