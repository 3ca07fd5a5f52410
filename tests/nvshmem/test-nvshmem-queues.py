#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of NVSHMEM whose PEs reach each other by queues, on a CUDA without a GPU: test-nvshmem-queues.py SHMEMCTL PROGRAM WAY."""
import os
import signal
import subprocess
import sys

PATIENCE_SEC = 150
# Scratch of every team is memory, and here of the host. A short ring wraps around.
SETTINGS = {'SHMD_MAX_TEAMS': '10', 'SHMD_QUEUE_DEPTH': '128', 'SHMD_GPU_HEAP_CHUNK': '64M', 'NVSHMEM_DISABLE_P2P': '1'}
LOST = 'requests of kernels of PE 0 to PE 1 are lost'
ENDED = 'all waits have ended'


def run(shmemctl, n_pes, command, environment):
    folder = os.environ.get('SHMEMD_TEST_NVSHMEM_FOLDER')
    options, found = (['--nvshmem'], {}) if not folder else ([], {'LD_LIBRARY_PATH': f'{folder}:{os.environ.get("LD_LIBRARY_PATH", "")}'})
    return subprocess.run([shmemctl, 'run', *options, '--keep-going', '-n', str(n_pes), *command], capture_output=True, text=True, timeout=PATIENCE_SEC,
                          check=False, env=os.environ | SETTINGS | found | environment)


def expect(done, what, words=(), status=0, output=''):
    if done.returncode != status or output not in done.stdout or any(word not in done.stderr for word in words):
        sys.exit(f'{what}: status {done.returncode}, printed {done.stdout!r} and {done.stderr!r}')


def main():
    shmemctl, program, way = sys.argv[1:]
    if os.environ.get('MESON_EXE_WRAPPER'):
        print('the launcher starts programs of this machine alone')
        sys.exit(77)

    def start(n_pes, minor, name, **environment):
        return run(shmemctl, n_pes, [program, str(minor), name], environment)

    if way == 'fails':
        expect(start(2, 4, way), way, ['PE 0: no kernel reaches PE 1 any more: ', LOST], 1, ENDED)
    elif way == 'differ':
        expect(start(2, 4, way), way, ["nvshmem_init: NVSHMEM_IBGDA_NUM_RC_PER_PE is 'none'", 'NVSHMEM_IBGDA_NUM_RC_PER_PE is 2 here, and something else'])
    elif way == 'ends':
        expect(start(2, 4, way, NVSHMEM_IBGDA_NUM_RC_PER_PE='12'), way, ['PE 0: no kernel reaches PE 1 any more: it has ended', LOST], 128 + signal.SIGKILL, ENDED)
    elif way == 'daemon':
        expect(start(2, 4, way), way, ['PE 0: kernels have no queues any more: ', LOST], 1)
    elif way == 'allocation':
        expect(start(2, 4, way, SHMD_MAX_TEAMS='8', SHMD_GPU_HEAP_SIZE='2M', SHMD_GPU_HEAP_CHUNK='2M'), way, ['nvshmem_malloc: PE 1: write GPU memory'])
    elif way == 'many':
        expect(start(2, 8, way, NVSHMEM_IBGDA_NUM_RC_PER_PE='144'), way)
    else:
        minor, n_pes, n_rc = way.split(',')
        expect(start(int(n_pes), int(minor), 'all', NVSHMEM_IBGDA_NUM_RC_PER_PE=n_rc), way)


main()
