# SPDX-License-Identifier: Apache-2.0
"""Sessions that outlive the daemon, under a real systemd."""
import contextlib
import json
import random
import re
import statistics

from lab.case import case, eventually
from lab.progress import say
from service import PATIENT, PROGRAMS, clock, entries, listed, main_pid, properties, service, since, waiting_client

TRAFFIC = '/run/vm-traffic'
FAULT = '/run/shmemd/fault'
TAKES_FAULT = ('[Service]\nExecStart=\nExecStart=/bin/sh -c "if [ -s %s ]; then read -r SHMEMD_FAULT <%s; '
               'export SHMEMD_FAULT; : >%s; fi; exec shmemd"\n' % (FAULT, FAULT, FAULT))
# Less than a page for each of a hundred restarts.
FEW_KIB = 390
# Allowed difference between the heaps of two processes with different histories.
HEAP_KIB = 1024
CLIENT_GONE = 'health: the connection to shmemd broke'


@contextlib.contextmanager
def traffic(node):
    """shmemd-traffic of alice, once it runs. The body gets a function that ends it and returns what it reports."""
    node.run(f'rm -f {TRAFFIC}')
    client = (f'runuser -u alice -- {PROGRAMS}/shmemd-traffic --patience 200 --pause-msec 100 >{TRAFFIC} 2>&1; status=$?; '
              f'cat {TRAFFIC}; exit $status')
    with node.background(client, limit=1800) as ended:
        eventually(lambda: 'running' in node.run(f'cat {TRAFFIC} || true').out, 'traffic runs')

        def report():
            node.run('pkill -TERM -x shmemd-traffic; true')
            result = ended()
            assert result.status == 0, result
            return json.loads(result.out.splitlines()[-1])
        yield report


def await_batch(node):
    """A whole batch was done since now, and its results were right. Returns how many atomics are unknown."""
    said = f'grep "^at " {TRAFFIC} || true'
    n = len(node.run(said).out.splitlines())
    node.run('pkill -USR1 -x shmemd-traffic')
    lines = eventually(lambda: (found := node.run(said).out.splitlines())[n:] and found, 'the traffic has gone on')
    return int(re.fullmatch(r'at \d+, (\d+) unknown', lines[-1])[1])


def sessions(node):
    return listed(node, 'sessions')


def queues(node):
    """QPs, and the regions that stay: now and then traffic registers one more and deregisters it at once."""
    regions = min((listed(node, 'mrs') for _ in range(4)), key=len)
    return listed(node, 'qps'), regions


# Fields that are new for queues that an atomic ended, and for the memory of their results; they may be listed in another order.
NUMBERS = ('qpn', 'dest_qpn', 'mr', 'iova')


def comparable(lists, unknown):
    """For two looks at queues(): all of them, or where atomics are unknown what is the same of queues that were made anew."""
    if not unknown:
        return lists
    return [sorted(json.dumps({key: one[key] for key in one if key not in NUMBERS}) for one in what) for what in lists]


def usage(node):
    """Of the client: descriptors, mappings, and KiB of memory that is no file's."""
    proc = '/proc/$(pidof shmemd-traffic)'
    said = node.run(f'ls {proc}/fd | wc -l; wc -l <{proc}/maps; grep RssAnon {proc}/status').out
    return [int(number) for number in re.findall(r'\d+', said)]


def kept(node):
    return int(properties(node, 'NFileDescriptorStore')['NFileDescriptorStore'])


def held(node):
    """Descriptors of the daemon."""
    return int(node.run(f'ls /proc/{main_pid(node)}/fd | wc -l').out)


def memory_kib(node):
    """What the daemon has written in memory of its own, and what lies in files that are none: memfds of sessions, dead ones too."""
    rollup = node.run(f'cat /proc/{main_pid(node)}/smaps_rollup').out
    machine = node.run('cat /proc/meminfo').out
    return int(re.search(r'Private_Dirty:\s+(\d+)', rollup)[1]), int(re.search(r'Shmem:\s+(\d+)', machine)[1])


def comes_back(node, pid):
    return eventually(lambda: main_pid(node) not in (0, pid) and properties(node, 'SubState')['SubState'] == 'running'
                      and main_pid(node), 'the next daemon is ready')


def kill(node):
    pid = main_pid(node)
    node.run(f'kill -KILL {pid}')
    return comes_back(node, pid)


# In the machine itself, where a look takes a tenth of what it takes from outside. A kill is in mid-traffic when a batch was done
# since the one before, which one of four does not wait for. Prints how many were.
KILL_OFTEN = '''
show() { systemctl show shmemd.service --value -p "$1"; }
said() { grep -c '^at ' %s; }
number=0; in_traffic=0
for pause in %s; do
    n=$(said)
    pkill -USR1 -x shmemd-traffic
    while [ $((number %% 4)) != 0 ] && [ "$(said)" = "$n" ]; do sleep 0.05; done
    sleep "$pause"
    [ "$(said)" = "$n" ] || in_traffic=$((in_traffic + 1))
    number=$((number + 1))
    pid=$(show MainPID)
    kill -KILL "$pid"
    while [ "$(show MainPID)" = "$pid" ] || [ "$(show SubState)" != running ]; do sleep 0.05; done
done
echo "$in_traffic"
'''


def kill_in_mid_traffic(node, times):
    chance = random.Random(times)
    moments = ' '.join(f'{chance.uniform(0.1, 1):.2f}' for _ in range(times))
    with service(node, PATIENT), traffic(node) as report:
        kill(node)
        await_batch(node)
        before, queues_before, n_kept, n_held = sessions(node), queues(node), kept(node), held(node)
        private, shmem = memory_kib(node)
        client = usage(node)
        assert n_kept > 0, (before, n_kept)
        in_traffic = int(node.run(KILL_OFTEN % (TRAFFIC, moments), limit=30 + 20 * times).out)
        await_batch(node)
        eventually(lambda: sessions(node) == before, 'the sessions are listed as before')
        eventually(lambda: kept(node) == n_kept, 'systemd keeps as many descriptors as before')
        eventually(lambda: held(node) == n_held, 'the daemon has as many descriptors open as before')
        most = [client[0], client[1], client[2] + FEW_KIB]
        eventually(lambda: all(now <= then for now, then in zip(usage(node), most)), f'the client has no more than {most}')
        private_after, shmem_after = memory_kib(node)
        assert private_after < private + FEW_KIB + HEAP_KIB, (private, private_after)
        assert shmem_after < shmem + FEW_KIB, (shmem, shmem_after)
        queues_after = queues(node)
        counts = report()
    same = comparable(queues_before, counts['unknown']), comparable(queues_after, counts['unknown'])
    assert same[0] == same[1], same
    # An atomic that was cut in its middle may take its queues with it; all else is counted by the client itself.
    assert counts['unknown'] <= times // 10 + 1, counts
    assert in_traffic >= times - (times + 3) // 4, (in_traffic, counts)
    # An emulated processor pauses by itself as well: the longest ones are those of the kills.
    pauses = sorted(counts['pauses_msec'])[-times:]
    say(f'{times} kills, {in_traffic} of them in mid-traffic: {counts["adds"]} adds, {counts["sends"]} sends and '
        f'{counts["immediates"]} immediate writes happened once; the {len(pauses)} longest pauses: median {statistics.median(pauses or [0]):.0f} ms, '
        f'longest {max(pauses or [0]):.0f} ms; {counts["unknown"]} atomics unknown')


@case(short=True)
def a_daemon_killed_ten_times_in_mid_traffic_loses_nothing_and_does_nothing_twice(lab):
    kill_in_mid_traffic(lab.node(1), 10)


@case()
def a_daemon_killed_a_hundred_times_in_mid_traffic_loses_nothing_and_does_nothing_twice(lab):
    kill_in_mid_traffic(lab.node(1), 100)


# Steps that this traffic passes; modify, modified, error, connect and connected have cases of their own. No daemon passes take-noted, since soft NICs
# offer no SRQs: engines without one are killed there (test-ledger).
STEPS = ('fetch', 'send', 'take', 'payload', 'intent', 'atomic', 'replay', 'executed', 'reply', 'response', 'complete',
         'cqe-body', 'cqe-intent', 'cqe', 'cqe-state', 'cqe-noted', 'notify')
# Steps that cut an atomic: its outcome is unknown.
UNDECIDED = ('intent', 'atomic', 'replay')


def arm(node, step, nth):
    """The next daemon ends when it passes this step for the nth time, the one after it does not."""
    node.run(f'echo engine.{step}:{nth} >{FAULT}; chmod 666 {FAULT}')
    return int(properties(node, 'NRestarts')['NRestarts'])


def await_starts(node, number, step):
    eventually(lambda: int(properties(node, 'NRestarts')['NRestarts']) >= number, f'the daemon was killed at {step}')
    eventually(lambda: properties(node, 'SubState')['SubState'] == 'running', f'it is back after {step}')


@case()
def a_daemon_killed_at_each_step_of_the_executor_loses_nothing_and_does_nothing_twice(lab):
    node = lab.node(1)
    chance = random.Random(1)
    # One NIC: its thread dies at that step, and no other one in the middle of an atomic.
    with service(node, PATIENT + 'soft-nics = 1\n', TAKES_FAULT), traffic(node) as report:
        before, queues_before, unknown = sessions(node), queues(node), await_batch(node)
        for step in STEPS:
            n = arm(node, step, chance.randint(1, 60))
            # This one ends by itself, as at a restart: what is unknown then is so because of the next one.
            node.run('systemctl kill --kill-who=main -s TERM shmemd.service')
            await_starts(node, n + 2, step)
            was, unknown = unknown, await_batch(node)
            assert unknown - was <= (step in UNDECIDED), (step, was, unknown)
        eventually(lambda: sessions(node) == before, 'the sessions are listed as before')
        queues_after = queues(node)
        counts = report()
    same = comparable(queues_before, counts['unknown']), comparable(queues_after, counts['unknown'])
    assert same[0] == same[1], same
    say(f'killed at {len(STEPS)} steps: {counts["batches"]} batches, {counts["unknown"]} atomics unknown')


@case()
def a_daemon_killed_while_queues_are_connected_connects_them(lab):
    node = lab.node(1)
    for step in ('modify', 'modified'):
        with service(node, PATIENT, TAKES_FAULT):
            node.run('systemctl start shmemd.service')
            n = arm(node, step, 1)
            kill(node)
            with traffic(node) as report:
                await_starts(node, n + 2, step)
                await_batch(node)
                assert report()['unknown'] == 0


@case()
def a_daemon_killed_while_a_dynamic_connection_changes_loses_nothing_and_does_nothing_twice(lab):
    node = lab.node(1)
    for step, nth in (('connected', 1), ('connect', 40)):
        # One NIC: its thread dies between two atomics, so each of them is known.
        with service(node, PATIENT + 'soft-nics = 1\n', TAKES_FAULT):
            node.run('systemctl start shmemd.service')
            n = arm(node, step, nth)
            kill(node)
            demo = node.run(f'runuser -u alice -- {PROGRAMS}/shmemd-demo --dc --json --patience 200', limit=900)
            assert json.loads(demo.out)['errors'] == 0, demo
            await_starts(node, n + 2, step)


@case()
def a_daemon_killed_when_a_queue_fails_tells_of_one_error_and_its_session_goes_on(lab):
    node = lab.node(1)
    # At the queue that refuses, whose peer asks again until it gives up or gets an answer, and at the one that was refused.
    for nth in (1, 2):
        with service(node, PATIENT, TAKES_FAULT):
            node.run('systemctl start shmemd.service')
            n = arm(node, 'error', nth)
            kill(node)
            client = node.run(f'runuser -u alice -- {PROGRAMS}/vm-refused', limit=900)
            assert re.search(r'^put: .*, 0x1[35]$', client.out, re.M), client
            assert 'error CQEs: 1;' in client.out, client
            await_starts(node, n + 2, 'error')


@case(short=True)
def a_restart_of_the_service_keeps_sessions_and_their_waits(lab):
    node = lab.node(1)
    with service(node, PATIENT), waiting_client(node) as (session, ended), traffic(node) as report:
        before = sessions(node)
        for _ in range(3):
            pid = main_pid(node)
            node.run('systemctl restart shmemd.service')
            assert main_pid(node) != pid
            eventually(lambda: sessions(node) == before, 'the sessions are listed as before')
        assert report()['batches'] > 0
        # And it is a session like any other: it can be ended.
        node.run(f'shmemctl kill {session}')
        assert 'wait ended' in ended().out


@case(short=True)
def memory_of_many_regions_outlives_daemons_and_costs_systemd_few_descriptors(lab):
    node = lab.node(1)
    said = '/run/vm-memories'
    client = f'runuser -u alice -- {PROGRAMS}/vm-memories >{said} 2>&1; status=$?; cat {said}; exit $status'
    with service(node, PATIENT):
        node.run(f'rm -f {said}; systemctl start shmemd.service')
        before = kept(node)
        with node.background(client, limit=900) as ended:
            eventually(lambda: '150 memories' in node.run(f'cat {said} || true').out, 'the client has its memory')
            # 64 under names of their own, and two for sixteen of the others.
            assert kept(node) - before < 100, (before, kept(node))
            for _ in range(5):
                kill(node)
            node.run('systemctl restart shmemd.service; pkill -TERM -x vm-memories')
            result = ended()
            assert result.status == 0 and re.search(r'[1-9]\d* rounds', result.out), result
        eventually(lambda: kept(node) == before, 'systemd keeps nothing of the session')


@case(short=True)
def state_of_an_unknown_version_ends_its_sessions_with_one_message(lab):
    node = lab.node(1)
    with service(node), waiting_client(node) as (_, ended):
        pid, start = main_pid(node), clock(node)
        node.run(f'{PROGRAMS}/vm-state-version {pid} 4711; kill -KILL {pid}')
        result = ended()
        assert 'its saved state is of another version of shmemd' in result.out, result
        comes_back(node, pid)
        assert sessions(node) == []
        found = eventually(lambda: entries(node, 'STATE_STRANGE'), 'the journal says why')
        assert len(found) == 1, found
        assert 'panic' not in since(node, start)
        with waiting_client(node):
            assert len(sessions(node)) == 1


@case(short=True)
def without_kept_descriptors_a_client_of_a_killed_daemon_is_told_and_the_service_comes_back(lab):
    node = lab.node(1)
    with service(node, settings='max-kept-fds = 0\n'), waiting_client(node) as (_, ended):
        pid = main_pid(node)
        node.run(f'kill -KILL {pid}')
        result = ended()
        assert CLIENT_GONE in result.out, result
        comes_back(node, pid)
        assert re.search(r'sessions\s+0 now', node.run('shmemctl status').out)
