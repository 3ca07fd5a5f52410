# SPDX-License-Identifier: Apache-2.0
"""Other OpenSHMEM libraries to compare with: those that SHMEMD_OPENSHMEM names, prefixes with bin/oshcc and bin/oshrun, with colons
between them. Without the variable a benchmark skips."""
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

LIMIT_SECONDS = 300


class Peer:
    def __init__(self, prefix, launcher):
        self.prefix = pathlib.Path(prefix)
        # Open MPI's launcher wants to be asked by root, and for more processes than cores. Other libraries find their processes by PMI 1.
        is_open_mpi = (self.prefix / 'bin/ompi_info').exists()
        self.name = 'Open MPI' if is_open_mpi else str(self.prefix)
        self.arguments = ['--oversubscribe'] if is_open_mpi else []
        self.environment = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}
        if not is_open_mpi:
            self.environment['OSHRUN_LAUNCHER'] = 'mpiexec.hydra' if shutil.which('mpiexec.hydra') else f'{launcher} --no-prefix'

    def folder_name(self):
        return str(self.prefix).strip('/').replace('/', '-')

    def compiler(self):
        return self.prefix / 'bin/oshcc'

    def compile(self, root, sources, folder):
        target = pathlib.Path(folder) / f'rows-{self.folder_name()}'
        subprocess.run([self.compiler(), '-O3', '-I', root, *[pathlib.Path(root) / source for source in sources], '-o', target],
                       check=True)
        return target

    def command(self, program, n_pes):
        # Open MPI's and Sandia's fail where addresses are random.
        return ['setarch', '-R', self.prefix / 'bin/oshrun', *self.arguments, '-n', str(n_pes), program]


def peers(launcher):
    """launcher: our oshrun, for libraries that bring none, where there is no Hydra."""
    prefixes = [prefix for prefix in os.environ.get('SHMEMD_OPENSHMEM', '').split(':') if prefix]
    if not prefixes:
        print('SHMEMD_OPENSHMEM names no OpenSHMEM: prefixes with bin/oshcc and bin/oshrun, with colons between them')
        sys.exit(77)
    return [Peer(prefix, launcher) for prefix in prefixes]


def rows_of(command, names, environment=None):
    """The figure of each row. A program may fail behind its rows: that of Open MPI 4.1.4 crashes in shmem_finalize()."""
    command = [str(word) for word in command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT_SECONDS, check=False,
                          env=os.environ | (environment or {}))
    words = [line.split() for line in done.stdout.splitlines()]
    rows = [(line[0], float(line[1])) for line in words if len(line) == 2 and line[0] in names]
    # A row twice: processes that did not find each other.
    if sorted(name for name, _ in rows) != sorted(names):
        sys.exit(f'{" ".join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}')
    return dict(rows)


def spread(figures):
    return (max(figures) - min(figures)) / 2 / statistics.median(figures) * 100
