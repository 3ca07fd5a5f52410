#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of NVSHMEM on a CUDA without a GPU, under shmemctl run --nvshmem: test-nvshmem.py SHMEMCTL PROGRAM WAY."""
import os
import sys

import pes
from pes import expect

# Scratch of every team is memory, and here of the host.
FEW_TEAMS = {'SHMD_MAX_TEAMS': '10'}
# Each takes two PEs.
WAYS = ('late', 'cycles', 'fails', 'stateless', 'stateless-late', 'copies', 'half-way', 'forks', 'ids', 'copyless', 'frees', 'handles')


def main():
    shmemctl, program, way = sys.argv[1:]
    pes.skip_on_emulators()

    def start(n_pes, minor, name, **environment):
        return pes.run(shmemctl, n_pes, [program, str(minor), name], FEW_TEAMS | environment)

    if way == 'refused':
        expect(start(1, 9, 'refused'), 'a minor that is newer', words=['NVSHMEM 3.9.5', 'SHMD_NVSHMEM_NEWER=on'])
        expect(start(1, 9, 'all', SHMD_NVSHMEM_NEWER='on'), 'a minor that is newer, and allowed', status=1, words=['host.nvshmemx_cumodule_init(kernels) == 3'])
    elif way == 'ops':
        for n_pes in (1, 2, 3):
            expect(start(n_pes, 8, 'all'), f'{n_pes} PEs', words=['a call on a stream: PE 0: broadcast on a stream: memory outside the GPU heap'])
    elif way == 'buffers':
        for n_pes in (1, 2, 3):
            expect(start(n_pes, 8, way), f'{n_pes} PEs')
    elif way == 'unlike':
        expect(start(2, 4, way), way, words=['is no memory of a GPU', 'made begins at', 'are no multiple of 2 MiB', 'the buffer has 1024 pages on PE 1, and 512 on PE 0',
                                             'is in the GPU heap', 'CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR', 'no symmetric buffer is registered there'])
    elif way == 'log':
        for setting, said in (({}, ('WARN 1', 'INFO 4')), ({'NVSHMEM_DEBUG': 'WARN'}, ('WARN 0', 'WARN 1', 'INFO 4')), ({'SHMD_DEBUG': '1'}, ('WARN 0', 'INFO 0', 'WARN 1', 'INFO 4', 'INFO 8')), ({'SHMD_LOG': 'info,heap=warn'}, ('WARN 0', 'INFO 0', 'WARN 1', 'INFO 4', 'INFO 8'))):
            done = start(1, 4, way, **setting)
            expect(done, f'{setting}', words=[f'shmemd: NVSHMEM program: PE 0: main.c:7: {text}' for text in said])
            if done.stderr.count('NVSHMEM program') != len(said):
                sys.exit(f'{setting}: other lines: {done.stderr!r}')
    elif way == 'none':
        for name in ('none', 'some'):
            expect(start(2, 4, name), f'{name} of the PEs have kernels', words=['nvshmem_int_sum_reduce', 'this call is a kernel, which not all PEs could load'])
    elif way.startswith('another,'):
        other = way.split(',')[1]
        done = start(1, 4, 'another', OTHER_LIBRARY=other, SHMD_DEBUG='1')
        expect(done, 'another library of the name', words=[f'has loaded {other}, too'])
        done = start(1, 4, 'another', SHMD_DEBUG='1')
        expect(done, 'which library', words=['NVSHMEM calls of this process go to ', 'libnvshmem_host.so.3'])
        done = start(1, 4, 'another')
        expect(done, 'one library')
        if done.stderr:
            sys.exit(f'it warns without a cause: {done.stderr!r}')
        # Without the launcher's help the other library comes first.
        os.environ['SHMEMD_TEST_NVSHMEM_FOLDER'] = os.path.join(os.path.dirname(shmemctl), '../compat/nvshmem')
        done = start(1, 4, 'another', OTHER_LIBRARY=other, OTHER_IS_GLOBAL='1')
        expect(done, 'another library takes calls', words=[f'nvshmem_malloc() of this process goes to {other}', 'shmemctl run --nvshmem'])
    elif way in WAYS:
        expect(start(2, 4, way), way)
    else:
        minor, *numbers = map(int, way.split(','))
        for n_pes in numbers:
            done = start(n_pes, minor, 'all')
            expect(done, f'3.{minor}, {n_pes} PEs')
            # After finalize it is nothing.
            if 'nvshmem_free' in done.stderr:
                sys.exit(f'a free says something: {done.stderr!r}')


main()
