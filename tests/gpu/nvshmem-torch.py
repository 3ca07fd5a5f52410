#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's symmetric memory on NVSHMEM: its operators, and Triton kernels with NVIDIA's device library.

    shmemctl run --nvshmem -n 1 -- python3 nvshmem-torch.py [--ranks N] [--seconds S] [--json FILE]

Starts N processes (default: 2), which share the GPUs. Without shmemctl run it uses NVIDIA's library, for comparison. Ranks on one GPU need MPS:
without it a kernel that waits keeps the other's from running for milliseconds. One line for each case. Exit status: 1 if one failed, 77 without
PyTorch, a GPU or NVSHMEM.
"""
import argparse
import json
import os
import sys
import tempfile
import time
import traceback

try:
    import torch
    import torch.distributed as dist
    import torch.distributed._symmetric_memory as symm_mem
    import torch.distributed._symmetric_memory._nvshmem_triton as nvshmem
    import torch.multiprocessing
    import triton
    import triton.language as tl
except ImportError as error:
    print(f'skipped: {error}')
    sys.exit(77)

SET, EQ = 9, 0
HUNG = 'did not end'
WORLD = 0


@nvshmem.requires_nvshmem
@triton.jit
def put_kernel(dest, source, nelems, pe):
    nvshmem.put(dest, source, nelems, pe)


@nvshmem.requires_nvshmem
@triton.jit
def get_kernel(dest, source, nelems, pe):
    nvshmem.get(dest, source, nelems, pe)
    nvshmem.quiet()


@nvshmem.requires_nvshmem
@triton.jit
def put_signal_kernel(dest, source, nbytes, signal, value, op, pe):
    nvshmem.putmem_signal_block(dest, source, nbytes, signal, value, op, pe)


@nvshmem.requires_nvshmem
@triton.jit
def signal_wait_kernel(signal, compare, value):
    nvshmem.signal_wait_until(signal, compare, value)


@nvshmem.requires_nvshmem
@triton.jit
def ordered_puts_kernel(dest, source, nelems, flag, flag_source, pe):
    nvshmem.put(dest, source, nelems, pe)
    nvshmem.fence()
    nvshmem.put(flag, flag_source, 1, pe)
    nvshmem.quiet()


@nvshmem.requires_nvshmem
@triton.jit
def wait_kernel(flag, compare, value):
    nvshmem.wait_until(flag, compare, value)


@nvshmem.requires_nvshmem
@triton.jit
def ids_kernel(out):
    tl.store(out, nvshmem.my_pe())
    tl.store(out + 1, nvshmem.n_pes())


@nvshmem.requires_nvshmem
@triton.jit
def barrier_kernel(dest, source, nelems):
    me = nvshmem.my_pe()
    n = nvshmem.n_pes()
    nvshmem.put(dest, source, nelems, (me + 1) % n)
    nvshmem.barrier_all()
    tl.store(source, tl.load(dest) + 100)
    nvshmem.sync_all()


@nvshmem.requires_nvshmem
@triton.jit
def alltoall_kernel(team, dest, source, nelems):
    nvshmem.alltoall(team, dest, source, nelems)


@nvshmem.requires_nvshmem
@triton.jit
def broadcast_kernel(team, dest, source, nelems, root):
    nvshmem.broadcast(team, dest, source, nelems, root)


@nvshmem.requires_nvshmem
@triton.jit
def reduce_kernel(team, dest, source, nelems, operation: tl.constexpr):
    nvshmem.reduce(team, dest, source, nelems, operation)


class Rank:
    """A rank with symmetric tensors. Cases are its methods that begin with case_."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size
        self.right, self.left = (rank + 1) % size, (rank - 1) % size
        self.group = dist.group.WORLD.group_name
        self.device = torch.device('cuda', torch.cuda.current_device())
        self.kept = []

    def tensor(self, n, dtype=torch.int64, value=0):
        t = symm_mem.empty(n, dtype=dtype, device=self.device).fill_(value)
        self.kept.append((t, symm_mem.rendezvous(t, group=self.group)))
        return t

    def meet(self):
        torch.cuda.synchronize()
        dist.barrier()

    def expect(self, tensor, values):
        torch.cuda.synchronize()
        want = torch.as_tensor(values, dtype=tensor.dtype)
        if not torch.equal(tensor.cpu(), want.expand(tensor.shape)):
            raise AssertionError(f'rank {self.rank}: {tensor.tolist()[:16]} instead of {want.tolist() if want.dim() == 0 else want.tolist()[:16]}')

    def case_rendezvous(self):
        for n in (1, 1000, 1 << 20):
            self.tensor(n, torch.float32, self.rank)
            t, handle = self.kept[-1]
            if (handle.rank, handle.world_size) != (self.rank, self.size):
                raise AssertionError('rank or size of the handle')
            self.expect(t, float(self.rank))

    def case_remote_tensor(self):
        t = self.tensor(256, torch.int32, self.rank)
        handle = self.kept[-1][1]
        self.meet()
        self.expect(handle.get_buffer(self.right, (256,), torch.int32), self.right)

    def case_put_operator(self):
        t = self.tensor(4096, torch.float32, self.rank)
        self.meet()
        if self.rank == 0:
            torch.ops.symm_mem.nvshmem_put(t, self.size - 1)
        self.meet()
        self.expect(t, 0.0 if self.rank == self.size - 1 else float(self.rank))

    def case_get_operator(self):
        t = self.tensor(4096, torch.float32, self.rank)
        self.meet()
        if self.rank == 0:
            torch.ops.symm_mem.nvshmem_get(t, self.size - 1)
        self.meet()
        self.expect(t, float(self.size - 1) if self.rank == 0 else float(self.rank))

    def case_broadcast_operator(self):
        t = self.tensor(5000, torch.float32, self.rank)
        self.meet()
        torch.ops.symm_mem.nvshmem_broadcast(t, 0, self.group)
        self.expect(t, 0.0)

    def case_all_to_all_operator(self):
        source, dest = self.tensor(64 * self.size), self.tensor(64 * self.size, value=-1)
        source.copy_(torch.arange(64 * self.size, device=self.device) + 10000 * self.rank)
        self.meet()
        torch.ops.symm_mem.nvshmem_all_to_all(source, dest, self.group)
        self.expect(dest, torch.cat([torch.arange(64 * self.rank, 64 * self.rank + 64) + 10000 * r for r in range(self.size)]))

    def splits(self, rank):
        return [(3 * rank + 5 * to) % 7 + 1 for to in range(self.size)]

    def case_all_to_all_v_operator(self):
        most = 8 * self.size
        source, dest = self.tensor(most, torch.float32), self.tensor(most * self.size, torch.float32, -1)
        table, out_table = self.tensor((1, self.size)), self.tensor((2, self.size), value=-1)
        table[0].copy_(torch.tensor(self.splits(self.rank), device=self.device))
        source.copy_(torch.arange(most, device=self.device) + 1000 * self.rank)
        self.meet()
        torch.ops.symm_mem.all_to_all_vdev(source, dest, table[0], out_table, self.group)
        received = [self.splits(r)[self.rank] for r in range(self.size)]
        self.expect(out_table[0], received)
        offsets = [sum(received[:r]) for r in range(self.size)]
        self.expect(out_table[1], offsets)
        for r in range(self.size):
            first = sum(self.splits(r)[:self.rank])
            self.expect(dest[offsets[r]:offsets[r] + received[r]], torch.arange(first, first + received[r]) + 1000.0 * r)

    def case_dispatch_and_combine_operators(self):
        experts = 4
        for align in (1, 8, 16):
            self.dispatch_and_combine(experts, experts * self.size, align)

    def dispatch_and_combine(self, experts, n, align):
        def split(rank, i):
            return (3 * rank + 5 * i + align) % 9  # sometimes 0
        source, back = self.tensor(9 * n, torch.float32), self.tensor(9 * n * self.size, torch.float32, -1)
        dest = self.tensor((9 + align) * n * self.size, torch.float32, -1)
        in_splits, out_table, back_table = self.tensor(n), self.tensor((2, n), value=-1), self.tensor((2, n), value=-1)
        mine = [split(self.rank, i) for i in range(n)]
        in_splits.copy_(torch.tensor(mine, device=self.device))
        source.copy_(torch.arange(9 * n, device=self.device) + 1000 * self.rank)
        self.meet()
        torch.ops.symm_mem.all_to_all_vdev_2d(source, dest, in_splits, out_table, self.group, major_align=align)
        at, offsets, sizes = 0, [], []
        for expert in range(experts):
            begin = at
            for rank in range(self.size):
                offsets.append(at)
                sizes.append(split(rank, self.rank * experts + expert))
                at += sizes[-1]
            at = begin + max(align, (at - begin + align - 1) // align * align)
        self.expect(out_table[0], sizes)
        self.expect(out_table[1], offsets)
        for i, (offset, size) in enumerate(zip(offsets, sizes)):
            expert, rank = divmod(i, self.size)
            first = 1000.0 * rank + sum(split(rank, j) for j in range(self.rank * experts + expert))
            self.expect(dest[offset:offset + size], torch.arange(size) + first)
        self.meet()
        torch.ops.symm_mem.all_to_all_vdev_2d_offset(dest, back, out_table, back_table, self.group)
        self.expect(back_table[0], mine)
        self.expect(back[:sum(mine)], torch.arange(sum(mine)) + 1000.0 * self.rank)
        self.meet()

    def case_triton_put(self):
        source, dest = self.tensor(1024, torch.int32, 7 + self.rank), self.tensor(1024, torch.int32, -1)
        self.meet()
        put_kernel[(1,)](dest, source, 1024, self.right)
        self.meet()
        self.expect(dest, 7 + self.left)

    def case_triton_get(self):
        source, dest = self.tensor(1024, torch.int32, 7 + self.rank), self.tensor(1024, torch.int32, -1)
        self.meet()
        get_kernel[(1,)](dest, source, 1024, self.right)
        self.meet()
        self.expect(dest, 7 + self.right)

    def case_triton_put_signal(self):
        source, dest, signal = self.tensor(512, value=self.rank), self.tensor(512, value=-1), self.tensor(1)
        self.meet()
        put_signal_kernel[(1,)](dest, source, 4096, signal, 5, SET, self.right)
        signal_wait_kernel[(1,)](signal, EQ, 5)
        self.expect(dest, self.left)
        self.expect(signal, 5)
        self.meet()

    def case_triton_fence_and_wait(self):
        source, dest, flag, one = (self.tensor(512, torch.int32, v) for v in (self.rank, -1, 0, 1))
        self.meet()
        ordered_puts_kernel[(1,)](dest, source, 512, flag, one, self.right)
        wait_kernel[(1,)](flag, EQ, 1)
        self.expect(dest, self.left)
        self.meet()

    def case_triton_numbers(self):
        out = self.tensor(2, torch.int32, -1)
        ids_kernel[(1,)](out)
        self.expect(out, [self.rank, self.size])

    def case_triton_alltoall(self):
        source, dest = self.tensor(2 * self.size), self.tensor(2 * self.size, value=-1)
        source.copy_(torch.arange(2 * self.size, device=self.device) // 2 + 100 * self.rank)
        self.meet()
        alltoall_kernel[(1,)](WORLD, dest, source, 2, launch_cooperative_grid=True)
        self.meet()
        self.expect(dest, [100 * (i // 2) + self.rank for i in range(2 * self.size)])

    def case_triton_broadcast(self):
        source, dest = self.tensor(300, value=self.rank + 3), self.tensor(300, value=-1)
        self.meet()
        broadcast_kernel[(1,)](WORLD, dest, source, 300, 0, launch_cooperative_grid=True)
        self.meet()
        self.expect(dest, 3)

    # The last two call functions of one thread from all threads of a block, as PyTorch has them; they may hang, with NVIDIA's library as well.

    def case_triton_barrier(self):
        source, dest = self.tensor(1, torch.int32, 40 + self.rank), self.tensor(1, torch.int32)
        self.meet()
        barrier_kernel[(1,)](dest, source, 1, launch_cooperative_grid=True)
        self.expect(dest, 40 + self.left)
        self.expect(source, 140 + self.left)
        self.meet()

    def case_triton_reduce(self):
        wants = {'sum': sum(r + 1 for r in range(self.size)), 'max': self.size, 'min': 1}
        for dtype in (torch.int64, torch.float32):
            for operation, want in wants.items():
                source, dest = self.tensor(37, dtype, self.rank + 1), self.tensor(37, dtype, -1)
                self.meet()
                reduce_kernel[(1,)](WORLD, dest, source, 37, operation, launch_cooperative_grid=True)
                self.meet()
                self.expect(dest, want)


def cases():
    return [name for name in vars(Rank) if name.startswith('case_')]


def rank_main(rank, size, store, folder):
    torch.cuda.set_device(rank % torch.cuda.device_count())
    # The group is on the host: NCCL refuses two ranks on a GPU.
    dist.init_process_group('gloo', init_method=f'file://{store}', rank=rank, world_size=size)
    begin = time.monotonic()
    symm_mem.set_backend('NVSHMEM')
    torch.empty(1, device='cuda')
    me = Rank(rank, size)
    me.tensor(1)
    results = {'seconds to the first allocation': round(time.monotonic() - begin, 3)}

    def write(name, result):
        results[name] = result
        with open(f'{folder}/{rank}.new', 'w', encoding='utf-8') as file:
            json.dump(results, file)
        os.rename(f'{folder}/{rank}.new', f'{folder}/{rank}')

    for name in cases():
        write(name[5:], HUNG)
        try:
            getattr(me, name)()
            write(name[5:], 'ok')
        except Exception as error:  # whatever it is, the other cases run
            write(name[5:], f'{type(error).__name__}: {error}'.splitlines()[0])
            traceback.print_exc()
        dist.barrier()
    me.kept.clear()
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--ranks', type=int, default=2)
    parser.add_argument('--seconds', type=float, default=200, help='ranks end after this time; Triton compiles for 5 s a kernel, once')
    parser.add_argument('--json')
    arguments = parser.parse_args()
    if not torch.cuda.is_available() or not symm_mem.is_nvshmem_available():
        print('skipped: no GPU, or PyTorch without NVSHMEM')
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        job = torch.multiprocessing.start_processes(rank_main, (arguments.ranks, f'{folder}/store', folder), nprocs=arguments.ranks, start_method='spawn',
                                                    join=False)
        end = time.monotonic() + arguments.seconds
        while not job.join(timeout=1) and time.monotonic() < end:
            pass
        for process in job.processes:
            process.kill()
        ranks = [json.load(open(f'{folder}/{rank}', encoding='utf-8')) for rank in range(arguments.ranks)]
    merged = {name: next((r[name] for r in ranks if r[name] != 'ok'), 'ok') for name in ranks[0]}
    for name, result in merged.items():
        print(f'{name:36} {result}')
    if arguments.json:
        with open(arguments.json, 'w', encoding='utf-8') as file:
            json.dump(merged, file, indent=1)
    sys.exit(any(result != 'ok' for name, result in merged.items() if isinstance(result, str)))


if __name__ == '__main__':
    main()
