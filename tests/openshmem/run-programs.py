#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program that checks the OpenSHMEM library, with several numbers of PEs: run-programs.py SHMEMCTL PROGRAM PATHS N...

PATHS: of the runtime (self,mapped or self,queue). With PATHS ends or ends-cxx, the program's ways to end are tried, each with its status and words;
with launchers, the program runs under those of others that are here.
"""
import concurrent.futures
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field

PATIENCE_SEC = 100


@dataclass
class Way:
    arguments: str
    status: int | tuple = 0     # one of several
    stdout: str | list = ''     # one of the lines, or several
    stderr: str = ''      # words in it
    most: tuple = ('', sys.maxsize)     # words, and how often at most they are in it
    environment: dict = field(default_factory=dict)
    n_pes: int = 3
    others: str = ''      # a program of the same folder, which all PEs but the first run


WAYS = [
    Way('wait-for-word', status=1, environment={'SHMD_TIMEOUT': '5s'},
        stderr='shmem_long_wait_until: wait, the world: not within the time limit (SHMD_TIMEOUT)'),
    Way('twice'),
    Way('threads', stderr='shmem_init_thread: an unknown thread level'),
    Way('info'),
    # Section 8: the deprecated names of variables, behind the others.
    Way('info', environment={'SMA_VERSION': '1', 'SMA_SYMMETRIC_SIZE': '5m'}, stderr='[0] libshmemclient '),
    Way('info', environment={'SMA_INFO': '1', 'SMA_SYMMETRIC_SIZE': '5m'}, stderr='[0] SHMD_HEAP_SIZE=5M (SHMEM_SYMMETRIC_SIZE)'),
    Way('info', environment={'SMA_DEBUG': '1', 'SMA_SYMMETRIC_SIZE': '5m', 'SHMEM_SYMMETRIC_SIZE': '6m'},
        stderr='settings debug: SHMD_HEAP_SIZE=6M (SHMEM_SYMMETRIC_SIZE)'),
    Way('start-pes', stdout='[2] PE 2 of 3'),
    Way('no-finalize', stdout='[2] PE 2 of 3'),
    Way('exit-handler', stdout='[2] PE 2 of 3'),
    Way('failure', status=5),
    Way('bad-pe', status=1, stderr="shmem_long_p: p: PE 1000 is out of range; the context's team has 3 PEs"),
    Way('negative-pe', status=1, stderr="shmem_long_p: p: PE -1 is out of range; the context's team has 3 PEs"),
    Way('no-init', status=1, stderr='shmem_my_pe: OpenSHMEM is not initialised; call shmem_init() first'),
    Way('into-program', status=1, others='osh-memory', n_pes=2,
        stderr='shmem_long_p: p: memory outside the symmetric heap, a word that is not aligned, or an unknown size or operation; '
               'global data of the program is not symmetric: '),
    Way('into-thread', status=1, stderr='shmem_long_p: p: memory outside the symmetric heap'),
    Way('into-library', status=1, stderr='shmem_long_p: p: memory outside the symmetric heap'),
    Way('wait-for-pes', status=1, environment={'SHMD_TIMEOUT': '5s'}, stderr='did not come within the time limit (SHMD_TIMEOUT)'),
    Way('half-finalize', stdout='[2] PE 2 of 3'),
    Way('after-finalize', stdout='[2] finalized'),
    Way('many-sets', environment={'SHMD_MAX_TEAMS': '7'}, n_pes=4),
    # Each PE begins 4 teams with its world, and then 2 for each of its sets, however often it calls on them.
    Way('many-sets', environment={'SHMD_LOG': 'team=debug'}, most=('begins: ', 4 * 4 + 2 * 16), n_pes=4),
    Way('sets-of-threads', environment={'SHMD_MAX_TEAMS': '7'}, n_pes=5),
    Way('no-ptrace', stderr='the threads of the program could not be stopped'),
    Way('flush-all', status=4, stdout=['[0] words of 0', '[1] words of 1', '[2] words of 2']),
    Way('many-exits', status=(11, 12, 13)),
    Way('exit-of-thread', status=6),
    Way('exit-of-reader', status=8, stdout=['[0] words of 0', '[1] words of 1', '[2] words of 2']),
    Way('global-exit 0', stdout='[2] last words'),
    Way('global-exit 3', status=3, stdout='[2] last words'),
]

WAYS_CXX = [
    Way('streams', status=3, stdout=['[0] words of 0', '[1] words of 1', '[1] handler', '[1] destructor', '[2] words of 2']),
    Way('stuck-handler', status=4, stdout=['[0] words of 0', '[1] words of 1', '[2] words of 2']),
    Way('exit-in-handler', status=5),
]


def run(shmemctl, n_pes, command, **environment):
    return subprocess.run([shmemctl, 'run', '-n', str(n_pes), *command], capture_output=True, text=True, timeout=PATIENCE_SEC,
                          check=False, env=os.environ | environment)


def command_of(program, way):
    command = [program, *way.arguments.split()]
    if not way.others:
        return command
    other = os.path.join(os.path.dirname(program), way.others)
    return ['sh', '-c', f'[ "$PMI_RANK" = 0 ] || exec "{other}"; exec "$@"', 'sh', *command]


def try_way(shmemctl, program, way):
    """A sentence if something is wrong."""
    done = run(shmemctl, way.n_pes, command_of(program, way), **way.environment)
    lines = set(way.stdout if isinstance(way.stdout, list) else filter(None, [way.stdout]))
    statuses = way.status if isinstance(way.status, tuple) else (way.status,)
    is_good = done.returncode in statuses and way.stderr in done.stderr and done.stderr.count(way.most[0]) <= way.most[1]
    if is_good and lines <= set(done.stdout.splitlines()):
        return None
    return f'{way}: status {done.returncode}, printed {done.stdout!r} and {done.stderr!r}'


def try_ways(shmemctl, program, ways):
    """Several at once, since most of them wait for a while."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        wrong = [words for words in pool.map(lambda way: try_way(shmemctl, program, way), ways) if words]
    if wrong:
        sys.exit('\n'.join(wrong))


def try_numbers(shmemctl, program, paths, numbers):
    for n_pes in numbers:
        done = run(shmemctl, n_pes, [program], SHMD_PATHS=paths)
        if done.returncode == 77:
            print('the library leaves data where it is in programs with AddressSanitizer')
            sys.exit(77)
        if done.returncode or done.stdout or done.stderr:
            sys.exit(f'{n_pes} PEs, {paths}: status {done.returncode}, printed {done.stdout!r} and {done.stderr!r}')


# Open MPI's refuses to run more processes than cores, and as root.
LAUNCHERS = {'mpirun.openmpi': ['--oversubscribe'], 'mpiexec.hydra': []}
AS_ROOT = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1', 'OMPI_MCA_plm': 'isolated'}


def run_under(name, n_pes, command):
    done = subprocess.run([name, *LAUNCHERS[name], '-n', n_pes, *command], capture_output=True, text=True, timeout=PATIENCE_SEC, check=False, env=os.environ | AS_ROOT)
    # A launcher may have warnings of its own.
    if done.returncode:
        sys.exit(f'{name}, {n_pes} PEs: status {done.returncode}, printed {done.stdout!r} and {done.stderr!r}')
    return done.stdout


def try_launchers(program, numbers):
    here = [name for name in LAUNCHERS if shutil.which(name)]
    if not here:
        print(f'none of {", ".join(LAUNCHERS)} is here')
        sys.exit(77)
    for name in here:
        for n_pes in numbers:
            run_under(name, n_pes, [program])
            words = run_under(name, n_pes, [os.path.join(os.path.dirname(program), 'osh-end'), 'start-pes'])
            if f'PE {int(n_pes) - 1} of {n_pes}' not in words:
                sys.exit(f'{name}: {n_pes} processes are not one job: {words!r}')


def main():
    shmemctl, program, paths, *numbers = sys.argv[1:]
    if os.environ.get('MESON_EXE_WRAPPER'):
        print('the launcher starts programs of this machine alone')
        sys.exit(77)
    if paths.startswith('ends'):
        try_ways(shmemctl, program, WAYS if paths == 'ends' else WAYS_CXX)
    elif paths == 'launchers':
        try_launchers(program, numbers)
    else:
        try_numbers(shmemctl, program, paths, map(int, numbers))


main()
