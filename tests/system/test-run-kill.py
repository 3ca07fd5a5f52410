#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shmemctl run whose processes are killed at random moments: nothing stays, whichever it was.

test-run-kill.py SHMEMCTL RUN-PE [SEED]. Each round starts PEs that fork, detach and use PMI, and kills the launcher, the keeper
or a PE, during the start, the work or the end.
"""
import os
import random
import signal
import sys
import time

from ctl_subject import Cases
from run_lab import Lab, end_by, marked, parent_of, pes, text_of, wait_gone, wait_until

ROUNDS = 100


def keeper_of(mark, launcher):
    """Not a PE that it has just forked, which has its name at first."""
    return [pid for pid, name in marked(mark).items() if name == 'shmemctl-keeper' and parent_of(pid) == launcher.pid]


def is_pe(pid):
    """Not a process that a PE forked: it leads a group of the session of the launcher."""
    try:
        return os.getpgid(pid) == pid and os.getsid(pid) == os.getsid(0)
    except ProcessLookupError:
        return False


def victims(mark, what, launcher):
    return {'launcher': lambda: [launcher.pid], 'keeper': lambda: keeper_of(mark, launcher), 'pe': lambda: [pid for pid in pes(mark) if is_pe(pid)]}[what]()


def one_round(lab, rng):
    mark, n = lab.mark(), rng.randint(1, 4)
    words = [rng.choice(['fork', 'detach', 'fork']) for _ in range(rng.randint(0, 2))]
    what = rng.choice(['launcher', 'keeper', 'pe'])
    process = lab.start(mark, '-n', str(n), '--kill-after', '0.1', 'PE', 'init', *words, rng.choice(['barrier', 'print=x', 'ignore=15']), 'sleep')
    time.sleep(rng.choice([0, 0.01, 0.03, 0.1]) * rng.random())
    found = []
    # A keeper or PE may not be there so early.
    wait_until(lambda: found.extend(victims(mark, what, process)) or found)
    try:
        os.kill(rng.choice(found), signal.SIGKILL)
    except ProcessLookupError:
        pass
    done = end_by(process)
    expected = {'launcher': -9, 'keeper': 1, 'pe': 137}[what]
    problems = [] if done.returncode == expected else [f'{what} of {n}: not {expected}: {text_of(done)}']
    return problems + [f'{what} of {n}, {words}: {problem}' for problem in wait_gone(mark)]


def main():
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 32)
    print(f'seed {seed}')
    rng, lab, cases, problems = random.Random(seed), Lab(sys.argv[1], sys.argv[2]), Cases(), []
    for _ in range(ROUNDS):
        problems += one_round(lab, rng)
    cases.add('nothing_stays_whoever_is_killed_and_when', problems)
    cases.end()


if __name__ == '__main__':
    main()
