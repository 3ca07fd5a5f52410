#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nvshmem4py (NVIDIA's Python package for NVSHMEM) on a GPU: init by id, memory, puts, signals, collectives and teams of the host.

    shmemctl run --nvshmem -n 1 -- python3 nvshmem-4py.py [--ranks N] [--seconds S] [--json FILE]

Starts N processes (default: 2), which share the GPUs. Without shmemctl run it uses NVIDIA's library, for comparison. One line for each case; cases of
functions that a version of the package has not are missing there. Exit status: 1 if one failed, 77 without the package, PyTorch or a GPU.
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
    import torch.multiprocessing
    import nvshmem
    import nvshmem.core as nv
    from nvshmem.core.interop import torch as nv_torch
    try:
        from cuda.core import Device
    except ImportError:
        from cuda.core.experimental import Device
except ImportError as error:
    print(f'skipped: {error}')
    sys.exit(77)

HUNG = 'did not end'
TYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]


class Rank:
    """A rank with symmetric tensors. Cases are its methods that begin with case_."""

    def __init__(self, rank, size, device, stream):
        self.rank, self.size, self.device, self.stream = rank, size, device, stream
        self.right, self.left = (rank + 1) % size, (rank - 1) % size
        self.world = nv.Teams.TEAM_WORLD
        self.kept = []

    def tensor(self, n, dtype=torch.int32, value=0):
        t = nv_torch.tensor((n,), dtype=dtype)
        t.fill_(value)
        torch.cuda.synchronize()
        self.kept.append(t)
        return t

    def buffer(self, size):
        buffer = nv.buffer(size)
        torch.utils.dlpack.from_dlpack(buffer).fill_(0)
        torch.cuda.synchronize()
        self.kept.append(buffer)
        return buffer

    def meet(self):
        self.stream.sync()
        torch.cuda.synchronize()
        dist.barrier()

    def expect(self, tensor, values):
        self.stream.sync()
        torch.cuda.synchronize()
        want = torch.as_tensor(values).to(tensor.dtype)
        if not torch.equal(tensor.cpu(), want.expand(tensor.shape)):
            raise AssertionError(f'rank {self.rank}: {tensor.tolist()[:8]} instead of {want.tolist() if want.dim() == 0 else want.tolist()[:8]}')

    def case_numbers(self):
        got = (nv.my_pe(), nv.n_pes(), nv.team_my_pe(self.world), nv.team_n_pes(self.world), nv.init_status() >= 2)
        if got != (self.rank, self.size, self.rank, self.size, True):
            raise AssertionError(f'{got}')
        nv.get_version()

    def case_peer(self):
        t = self.tensor(100, torch.float32, self.rank)
        self.meet()
        self.expect(nv_torch.get_peer_tensor(t, self.right), self.right)
        self.meet()

    def case_put_and_get(self):
        for n in (1, 1000, 1 << 20):
            source, dest, back = self.tensor(n, value=self.rank), self.tensor(n, value=-1), self.tensor(n, value=-1)
            self.meet()
            nv.put(dest, source, remote_pe=self.right, stream=self.stream)
            nv.quiet(stream=self.stream)
            nv.barrier_all(stream=self.stream)
            nv.get(back, dest, remote_pe=self.right, stream=self.stream)
            self.expect(dest, self.left)
            self.expect(back, self.rank)
            self.meet()

    def case_put_signal(self):
        source, dest, signal = self.tensor(4096, value=self.rank + 5), self.tensor(4096, value=-1), self.buffer(8)
        self.meet()
        nv.put_signal(dest, source, signal, 7, nv.SignalOp.SIGNAL_SET, remote_pe=self.right, stream=self.stream)
        nv.signal_wait(signal, 7, nv.ComparisonType.CMP_EQ, stream=self.stream)
        self.expect(dest, self.left + 5)
        nv.signal_op(signal, 3, nv.SignalOp.SIGNAL_ADD, remote_pe=self.right, stream=self.stream)
        nv.signal_wait(signal, 10, nv.ComparisonType.CMP_GE, stream=self.stream)
        self.meet()

    def case_barriers(self):
        for function, arguments in ((nv.barrier, (self.world,)), (nv.sync, (self.world,)), (nv.barrier_all, ()), (nv.sync_all, ())):
            for _ in range(10):
                function(*arguments, stream=self.stream)
        self.meet()

    def team_cases(self, team, members):
        n = len(members)
        for dtype in TYPES:
            source, dest = self.tensor(16 * n, dtype, self.rank + 1), self.tensor(16 * n, dtype, 99)
            # A slice stands for its whole tensor there, so parts are tensors.
            part, out = self.tensor(16, dtype, self.rank + 1), self.tensor(16, dtype, 99)
            nv.reduce(team, dest, source, 'sum', stream=self.stream)
            self.expect(dest, sum(r + 1 for r in members))
            nv.barrier(team, stream=self.stream)
            nv.reduce(team, dest, source, 'max', stream=self.stream)
            self.expect(dest, max(members) + 1)
            nv.barrier(team, stream=self.stream)
            nv.broadcast(team, dest, source, root=n - 1, stream=self.stream)
            self.expect(dest, members[-1] + 1)
            nv.barrier(team, stream=self.stream)
            nv.fcollect(team, dest, part, stream=self.stream)
            self.expect(dest, [r + 1 for r in members for _ in range(16)])
            nv.barrier(team, stream=self.stream)
            if n == self.size:  # 0.1.3 divides by the size of the world
                nv.alltoall(team, dest, source, stream=self.stream)
                self.expect(dest, [r + 1 for r in members for _ in range(16)])
                nv.barrier(team, stream=self.stream)
            nv.reducescatter(team, out, source, 'sum', stream=self.stream)
            self.expect(out, sum(r + 1 for r in members))
            nv.barrier(team, stream=self.stream)

    def case_collectives(self):
        self.team_cases(self.world, list(range(self.size)))
        self.meet()

    def case_team_of_one(self):
        config = nv.TeamConfig()
        teams = [nv.team_split_strided(self.world, r, 1, 1, config, 0, new_team_name=f'one{r}') for r in range(self.size)]
        mine = teams[self.rank]
        if mine is None or any(team is not None for r, team in enumerate(teams) if r != self.rank):
            raise AssertionError(f'{teams}')
        # 0.1.3 takes the answer for a status, with any library.
        if nvshmem.__version__ != '0.1.3' and nv.team_translate_pe(mine, 0, self.world) != self.rank:
            raise AssertionError('translated')
        self.team_cases(mine, [self.rank])
        self.meet()
        nv.team_destroy(mine)
        self.meet()

    def case_atomics(self):
        word = self.tensor(1, torch.int64, 10)
        self.meet()
        before = nv.atomic_fetch_add(word, 5, remote_pe=self.right)
        nv.quiet(stream=self.stream)
        self.meet()
        if before != 10:
            raise AssertionError(f'fetch_add gave {before}')
        self.expect(word, 15)
        if nv.atomic_compare_swap(word, 15, 20, remote_pe=self.rank) != 15:
            raise AssertionError('compare_swap')
        self.expect(word, 20)
        self.meet()


def cases():
    return [name for name in vars(Rank) if name.startswith('case_') and (name != 'case_atomics' or hasattr(nv, 'atomic_fetch_add'))]


def rank_main(rank, size, store, folder):
    device = Device(rank % torch.cuda.device_count())
    device.set_current()
    torch.cuda.set_device(rank % torch.cuda.device_count())
    torch.empty(1, device='cuda')
    dist.init_process_group('gloo', init_method=f'file://{store}', rank=rank, world_size=size)
    ids = [bytes(nv.get_unique_id()._data.tobytes()) if rank == 0 else None]
    dist.broadcast_object_list(ids, src=0)
    uid = nv.get_unique_id(empty=True)
    uid._data.view('int8')[:] = memoryview(ids[0]).cast('b')
    begin = time.monotonic()
    nv.init(device=device, uid=uid, rank=rank, nranks=size, initializer_method='uid')
    me = Rank(rank, size, device, device.create_stream())
    results = {'seconds of init': round(time.monotonic() - begin, 3)}

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
    for kept in me.kept:
        nv_torch.free_tensor(kept) if isinstance(kept, torch.Tensor) else nv.free(kept)
    me.kept.clear()
    nv.finalize()
    write('finalize', 'ok')
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--ranks', type=int, default=2)
    parser.add_argument('--seconds', type=float, default=60)
    parser.add_argument('--json')
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print('skipped: no GPU')
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
    merged = {name: next((r[name] for r in ranks if r.get(name) != 'ok' and name in r), 'ok') for name in ranks[0]}
    for name, result in merged.items():
        print(f'{name:36} {result}')
    if arguments.json:
        with open(arguments.json, 'w', encoding='utf-8') as file:
            json.dump(merged, file, indent=1)
    sys.exit(any(result != 'ok' for name, result in merged.items() if isinstance(result, str)))


if __name__ == '__main__':
    main()
