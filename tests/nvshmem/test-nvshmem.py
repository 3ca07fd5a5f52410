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
WAYS = ('late', 'cycles', 'fails', 'stateless', 'stateless-late', 'copies', 'half-way', 'forks', 'ids', 'copyless', 'frees')
MISSING = ['nvshmemx_qp_create', 'nvshmem_debug_log']


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
            for name in MISSING:
                if done.stderr.count(f'shmemd: {name} is not implemented') != n_pes:
                    sys.exit(f'{name}: not once for each PE: {done.stderr!r}')


main()
