#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of NVSHMEM whose PEs reach each other by queues, on a CUDA without a GPU: test-nvshmem-queues.py SHMEMCTL PROGRAM WAY."""
import signal
import sys

import pes
from pes import expect

# Scratch of every team is memory, and here of the host. A short ring wraps around.
SETTINGS = {'SHMD_MAX_TEAMS': '10', 'SHMD_QUEUE_DEPTH': '128', 'SHMD_GPU_HEAP_CHUNK': '64M', 'SHMD_GPU_HEAP_RESERVE': '8G', 'NVSHMEM_DISABLE_P2P': '1'}
LOST = 'requests of kernels of PE 0 to PE 1 are lost'
LAZY = 'set CUDA_MODULE_LOADING=EAGER before the program starts'
ENDED = 'all waits have ended'
WRONG = {'operation': 'a kernel asks for operation 9, which does not exist', 'value': 'a kernel asks for a value of 9 bytes',
         'atomic': 'a kernel asks for atomic 11, which does not exist', 'pe': 'PE 2 is out of range', 'local': 'are neither symmetric memory nor host memory'}


def main():
    shmemctl, program, way = sys.argv[1:]
    pes.skip_on_emulators()

    def start(n_pes, minor, name, options=('--keep-going',), **environment):
        return pes.run(shmemctl, n_pes, [program, str(minor), name], SETTINGS | environment, options)

    def start_until_said(name, **environment):
        """The library ends the job half a second after requests are lost; on a machine with other work that may be too soon for the program's last word."""
        for _ in range(4):
            done = start(2, 4, name, **environment)
            if ENDED in done.stdout:
                break
        return done

    if way == 'fails':
        expect(start_until_said(way), way, 1, ['PE 0: no kernel reaches PE 1 any more: ', LOST], ENDED)
    elif way == 'differ':
        expect(start(2, 4, way), way, words=["nvshmem_init: NVSHMEM_IBGDA_NUM_RC_PER_PE is 'none'", 'NVSHMEM_IBGDA_NUM_RC_PER_PE is 2 here, and something else'])
    elif way == 'ends':
        expect(start_until_said(way, NVSHMEM_IBGDA_NUM_RC_PER_PE='12'), way, 128 + signal.SIGKILL, ['PE 0: no kernel reaches PE 1 any more: it has ended', LOST], ENDED)
    elif way == 'daemon':
        expect(start(2, 4, way), way, 1, ['PE 0: kernels have no queues any more: ', LOST])
    elif way == 'allocation':
        expect(start(2, 4, way, SHMD_MAX_TEAMS='8', SHMD_GPU_HEAP_SIZE='2M', SHMD_GPU_HEAP_CHUNK='2M'), way, words=['nvshmem_malloc: PE 1: write GPU memory'])
    elif way == 'ops':
        for minor, n_pes in ((4, 2), (8, 3)):
            expect(start(n_pes, minor, way), f'3.{minor}, {n_pes} PEs', words=['signal operations are SET (9) and ADD (10), not 77'])
    elif way == 'kernelless':
        expect(start(2, 4, way), way, words=[LAZY, 'nvshmemx_barrier_on_stream: PE 0: ', 'a sync on a stream is a kernel there', 'this call is a kernel, which not all'])
    elif way == 'channel':
        for n_pes in (2, 3):
            expect(start(n_pes, 4, way), f'{n_pes} PEs')
    elif way == 'wrong':
        for name, words in WRONG.items():
            expect(start(2, 4, name, ()), name, 1, ['a request of a kernel of PE 0 has failed', words])
    elif way == 'half':
        expect(start(2, 4, way, ()), way, 38, ['nvshmem_global_exit() of a kernel'])
    elif way == 'finish':
        expect(start(2, 4, way), way, words=['64 bytes of requests from there on are not carried out'], output='finalize has carried out all requests')
    elif way == 'count':
        expect(start(2, 4, way, NVSHMEM_DISABLE_P2P='0', NVSHMEM_IBGDA_NUM_RC_PER_PE='24'), way)
    elif way == 'eager':
        done = start(2, 4, 'kernelless', CUDA_MODULE_LOADING='EAGER')
        expect(done, way)
        if LAZY in done.stderr:
            sys.exit(f'{way}: printed {done.stderr!r}')
    elif way == 'exit':
        for disabled in ('0', '1'):
            expect(start(2, 8, way, NVSHMEM_DISABLE_P2P=disabled), f'{way}, NVSHMEM_DISABLE_P2P={disabled}', 37, ['nvshmem_global_exit() of a kernel'])
    elif way.startswith('handles'):
        expect(start(2, int(way[-1]), 'handles', NVSHMEM_IBGDA_NUM_RC_PER_PE='3' if way == 'handles-5' else '1'), way, words=['queues, and other PEs for another number', 'there is no room for 60 more'])
    elif way == 'buffers':
        expect(start(2, 8, 'refused'), way, words=['a job with queues takes no memory of the program'])
    elif way == 'many':
        expect(start(2, 8, way, NVSHMEM_IBGDA_NUM_RC_PER_PE='144'), way)
    else:
        minor, n_pes, n_rc = way.split(',')
        expect(start(int(n_pes), int(minor), 'all', NVSHMEM_IBGDA_NUM_RC_PER_PE=n_rc), way)


main()
