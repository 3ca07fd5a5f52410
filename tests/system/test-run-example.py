#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shmemctl run starts an example as a world, over mapped memory and over queues: test-run-example.py SHMEMCTL EXAMPLE NAME"""
import os
import socket
import subprocess
import sys

PATIENCE_SEC = 60

# The lines that n PEs print, in any order.
EXPECTED = {
    'hello': lambda n: [f'[{pe}] PE {pe} of {n}: hello from PE {(pe - 1) % n}' for pe in range(n)],
    'ring': lambda n: [f'[0] 10 rounds through {n} PEs: the token is {10 * sum(range(n))}'],
    'work-queue': lambda n: [f'[0] 100 tasks by {n} PEs: 9592 primes below 100000'],
    'halo': lambda n: [f'[0] 200 steps by {n} PEs: the heat is 40853.759660100'],
}

if os.environ.get('MESON_EXE_WRAPPER'):
    print('the launcher starts programs of this machine alone')
    sys.exit(77)
shmemctl, example, name = sys.argv[1:]


def check(n_pes, **variables):
    done = subprocess.run([shmemctl, 'run', '-n', str(n_pes), example], capture_output=True, text=True, timeout=PATIENCE_SEC,
                          check=False, env=os.environ | variables)
    if done.returncode or sorted(done.stdout.splitlines()) != EXPECTED[name](n_pes):
        sys.exit(f'{n_pes} PEs, {variables}: status {done.returncode}, printed {done.stdout!r} and {done.stderr!r}')


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(('::1', 0))
    except OSError:
        return False
    return True


for paths in ('self,mapped', 'self,queue'):
    for pes in (1, 2, 4, 7):
        check(pes, SHMD_PATHS=paths)
if name == 'hello' and has_ipv6():
    check(4, SHMD_BOOTSTRAP_FAMILY='ipv6', SHMD_BOOTSTRAP_INTERFACE='=lo')
elif name == 'hello':
    print('this machine has no address ::1, so the family ipv6 was not tried')
