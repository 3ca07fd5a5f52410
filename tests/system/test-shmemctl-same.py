#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shmemctl tells the same of the same sessions, whether they have soft NICs or simulated ConnectX NICs.

test-shmemctl-same.py MLX5SIM WITH-DAEMON SHMEMD SHMEMCTL CTL-SUBJECT. Each command is run on both, beside each other, and every value of
its answer must be the same, but for what each run has anew and for the table below. A difference without a reason fails, and so
does a reason that nothing needs.
"""
import json
import os
import re
import subprocess
import sys
import time

from ctl_subject import Cases, subject

TRIES = 6000  # of 10 ms, for what others do
ANEW = re.compile(r'(^|\.)(pid|qpn|first_qpn|dest_qpn|cqn|iova|time|time_nsec|uptime_nsec|age_nsec|interval_nsec|waited_nsec)$')
# Command, path and why.
COUNTS = 'hardware counts no work requests and no bytes, and its errors when it is asked'
OTHER = 'it is another NIC'
STOPPED = 'no command of the firmware leads to SQD, in which ctl-subject stops the busy QP where it can'
DIFFERENT = [
    (r'status|list nics', r'nics\[\d\]\.(backend|pci|gid|mac|mtu_bytes|rate_mbps|max_log2_cq_entries|max_qps|mem_kinds.*)', OTHER),
    (r'status|list nics|list sessions', r'(|nics\[\d\]\.|sessions\[\d\]\.)counters\.(wqes.*|bytes_sent|recv_wqes|error_cqes)', COUNTS),
    (r'list qps', r'qps\[\d\]\.(wqes|bytes)', COUNTS),
    (r'list qps|stats qps', r'qps\[2\]\.state', STOPPED),
    (r'dump-queue busy', r'state', STOPPED),
    (r'status|list sessions', r'sessions\[\d\]\.doorbell', 'a ConnectX has a page that its client rings'),
    (r'port', r'status|lines.*', 'ports of hardware are not the daemon\'s to take down or up'),
]


def masked(value):
    """Without the words that say which NIC, process, queue or address it is; what has two digits is a syndrome."""
    if isinstance(value, str):
        value = re.sub(r'\b(soft|mlx5_)(\d)\b', r'NIC\2', value)
        value = re.sub(r'0x[0-9a-f]{3,}', '0x#', value)
        value = re.sub(r'\bpid \d+', 'pid *', value)
    return value


def flat(value, path=''):
    """{path: value} of all that is no object and no array, and the length of each array."""
    if isinstance(value, dict):
        return {p: v for key, inner in value.items() for p, v in flat(inner, f'{path}.{key}' if path else key).items()}
    if isinstance(value, list):
        return {f'{path}#': len(value)} | {p: v for i, inner in enumerate(value) for p, v in flat(inner, f'{path}[{i}]').items()}
    return {path: '*' if ANEW.search(path) else masked(value)}


def compare(command, soft, mlx5, used):
    """Lines of what differs without a reason; the reasons that were needed go into used."""
    ours, theirs, problems = flat(soft), flat(mlx5), []
    for path in sorted(ours.keys() | theirs.keys()):
        pair = ours.get(path), theirs.get(path)
        if pair[0] == pair[1]:
            continue
        reasons = [i for i, (of, where, _) in enumerate(DIFFERENT) if re.fullmatch(of, command) and re.fullmatch(where, path)]
        used.update(reasons)
        if not reasons:
            problems.append(f'{command}: {path} is {pair[0]} on soft and {pair[1]} on mlx5')
    return problems


def run(shmemctl, *words):
    """The answer, or how it was refused."""
    done = subprocess.run([shmemctl, '--json', *words], capture_output=True, text=True, timeout=120, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {'status': done.returncode, 'text': done.stderr.strip()}


def words_of(shmemctl, *words):
    """As a person sees it: lines, with one blank where there are several."""
    done = subprocess.run([shmemctl, *words], capture_output=True, text=True, timeout=120, check=False)
    lines = [' '.join(line.split()) for line in (done.stdout + done.stderr).splitlines()]
    return {'status': done.returncode, 'lines': lines}


def wait_for(look, what):
    for _ in range(TRIES):
        found = look()
        if found:
            return found
        time.sleep(0.01)
    raise SystemExit(f'not there: {what}')


def monitor(shmemctl, cause):
    with subprocess.Popen([shmemctl, '--json', 'monitor', '--kind', 'session-closed', '--count', '1'], stdout=subprocess.PIPE,
                          text=True) as process:
        wait_for(lambda: run(shmemctl, 'status')['n_monitors'], 'a monitor')
        done = cause()
        return json.loads(process.communicate(timeout=120)[0]), done


def collect(shmemctl, program):
    """{command: answer} for the sessions of ctl-subject."""
    with subject(program):
        # Hardware reports errors by events, a moment later.
        qps = wait_for(lambda: (qps := run(shmemctl, 'list', 'qps')['qps']) and sum(qp['first_error'] != 0 for qp in qps) == 2 and qps,
                       'two QPs with an error')
        names = [f'{qp["nic"]}/{qp["qpn"]:#x}' for qp in qps]
        answers = {f'list {what}': run(shmemctl, 'list', what) for what in ('sessions', 'qps', 'mrs', 'pes', 'paths', 'nics')}
        answers['status'] = run(shmemctl, 'status')
        answers['stats qps'] = run(shmemctl, 'stats', 'qps', '--all')
        for who, name in zip(('failed', 'its peer', 'busy', 'receiver'), names):
            answers[f'dump-queue {who}'] = run(shmemctl, 'dump-queue', name, '--all')
        answers['dump-queue failed, in words'] = words_of(shmemctl, 'dump-queue', '--wide', names[0])
        answers['list mrs, in words'] = words_of(shmemctl, 'list', 'mrs')
        nic = qps[0]['nic']
        answers['dump-queue of none'] = words_of(shmemctl, 'dump-queue', f'{nic}/0xfffffe')
        answers['kill of none'] = words_of(shmemctl, 'kill', '999')
        session = str(qps[0]['session'])
        answers['monitor'], answers['kill'] = monitor(shmemctl, lambda: run(shmemctl, 'kill', session))
        answers['port'] = words_of(shmemctl, 'port', nic, 'up')
        answers['drain'] = [run(shmemctl, 'drain', '--grace', '0'), run(shmemctl, 'drain', '--off')]
    wait_for(lambda: not run(shmemctl, 'list', 'sessions')['sessions'], 'the end of all sessions')
    answers |= {f'empty list {what}': run(shmemctl, 'list', what) for what in ('sessions', 'qps', 'mrs', 'pes', 'paths')}
    json.dump(answers, sys.stdout)


def start(simulator, daemon_args, args):
    """NICs of this machine are nobody's business: a simulator hides them, and soft NICs need none."""
    with_daemon, shmemd, shmemctl, program = args
    env = os.environ | {'SHMEMD_ARGS': daemon_args} | ({} if simulator else {'SHMEMD_SYSFS': '/nonexistent'})
    command = simulator + [with_daemon, shmemd, shmemctl, sys.executable, os.path.realpath(__file__), '--collect', shmemctl, program]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)


def finish(process, what):
    text = process.communicate(timeout=300)[0]
    if process.returncode:
        raise SystemExit(f'{what}: exit status {process.returncode}: {text}')
    return json.loads(text)


def self_test():
    good = {'state': 'SQD', 'qps': [{'qpn': 1, 'text': 'at 0x1000 syndrome 0x13'}]}
    planted = [(good, 0), ({**good, 'state': 'RTS'}, 1), ({**good, 'qps': [{'qpn': 2, 'text': 'at 0x2000 syndrome 0x13'}]}, 0),
               ({**good, 'qps': [{'qpn': 1, 'text': 'at 0x1000 syndrome 0x10'}]}, 1), ({**good, 'qps': []}, 3),
               ({**good, 'more': True}, 1)]
    return [f'{other}: {found}' for other, n in planted if len(found := compare('x', good, other, set())) != n]


def main():
    if sys.argv[1] == '--collect':
        return collect(*sys.argv[2:])
    cases, used = Cases(), set()
    cases.add('the_comparison_can_fail', self_test())
    processes = [start([], '--backend soft --soft-nics 2', sys.argv[2:]),
                 start([sys.argv[1], '--nics', '2', '--log', os.devnull, '--'], '--backend mlx5', sys.argv[2:])]
    soft, mlx5 = finish(processes[0], 'soft'), finish(processes[1], 'mlx5')
    for command, answer in soft.items():
        name = re.sub(r'[^a-z]+', '_', command)
        cases.add(f'{name}_is_the_same_on_both', compare(command, answer, mlx5[command], used))
    cases.add('every_reason_is_needed', [f'nothing differs: {of}: {where}' for i, (of, where, _) in enumerate(DIFFERENT) if i not in used])
    return cases.end()


if __name__ == '__main__':
    main()
