#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Self-test of the Python package on a GPU: tensors, host and stream calls, Triton kernels: shmemctl run -n 2 triton-selftest.py

Each process is a PE; they share the GPUs there are. Every wait ends with the time limit of the world. Ends with 0 if all checks passed, 1 if
one failed, and 77 without a GPU, torch or Triton.
"""
import os
import sys
import time

try:
    import torch
    import triton
    import triton.language as tl
except ImportError as missing:
    print(f"triton-selftest: {missing}")
    sys.exit(77)
if not torch.cuda.is_available():
    print("triton-selftest: no GPU")
    sys.exit(77)

import shmemclient
import shmemclient.triton as shmem

N = 1000
BLOCK = 1024
ROUNDS = 10
N_TIMED = 200
INVALID = -5
failed = 0


@triton.jit
def exchange(ctx, source, dest, word, status, n, turn, BLOCK: tl.constexpr):
    """Data with a signal to the right neighbour; what comes from the left one is doubled in place."""
    me = shmem.my_pe(ctx)
    right = (me + 1) % shmem.n_pes(ctx)
    at = tl.arange(0, BLOCK)
    tl.store(source + at, (at * 3 + me * 100 + turn).to(tl.float32), mask=at < n)
    rc = shmem.put_signal(ctx, dest, source, n * 4, word, turn, shmem.SIGNAL_SET, right)
    rc |= shmem.wait_until(ctx, word, 8, shmem.CMP_GE, turn)
    came = tl.load(dest + at, mask=at < n)
    rc |= shmem.barrier(ctx, 0)
    tl.store(dest + at, came * 2, mask=at < n)
    rc |= shmem.barrier(ctx, 0)
    tl.store(status, rc)


@triton.jit
def collect(ctx, source, dest, status, n, BLOCK: tl.constexpr):
    """The sum over all PEs, and the copies of all."""
    at = tl.arange(0, BLOCK)
    tl.store(source + at, (at + shmem.my_pe(ctx)).to(tl.float32), mask=at < n)
    rc = shmem.reduce(ctx, 0, dest, source, n, shmem.TYPE_FLOAT, shmem.REDUCE_SUM)
    rc |= shmem.fcollect(ctx, 0, dest + n, source, n * 4)
    tl.store(status, rc)


@triton.jit
def words(ctx, mine, counter, found, status):
    """p, g, an atomic by one thread of the program, and one by each element of a tensor."""
    me = shmem.my_pe(ctx)
    n_pes = shmem.n_pes(ctx)
    rc = shmem.p(ctx, mine, me + 7, 8, (me + 1) % n_pes)
    rc |= shmem.atomic(ctx, counter, shmem.ATOMIC_ADD, 8, 5, 0, 0)
    rc |= shmem.barrier(ctx, 0)
    rc |= shmem.g(ctx, found, mine, 8, (me + 1) % n_pes)
    rc |= shmem.atomic_fetch(ctx, found + 1, counter, shmem.ATOMIC_FETCH, 8, 0, 0, 0)
    at = tl.arange(0, 128)
    each = shmem.p_thread(ctx, mine + 1 + at, at, 8, (me + 1) % n_pes)
    rc |= tl.min(each, axis=0)
    rc |= shmem.barrier(ctx, 0)
    tl.store(status, rc)


@triton.jit
def refusals(ctx, outside, source, word, status):
    """An address outside the heap, a PE that does not exist; a word that does not hold yet, and one that does."""
    tl.store(status, shmem.put(ctx, outside, source, 8, 0))
    tl.store(status + 1, shmem.put(ctx, source, source, 8, shmem.n_pes(ctx)))
    tl.store(status + 2, shmem.test(ctx, word, 8, shmem.CMP_EQ, -1))
    tl.store(status + 3, shmem.test(ctx, word, 8, shmem.CMP_NE, -1))
    tl.store(status + 4, (shmem.ptr(ctx, source, shmem.my_pe(ctx)) == source.to(tl.int64)).to(tl.int32))


@triton.jit
def ping_pong(ctx, data, word, status, n_bytes, n):
    """PE 0 and PE 1 in turn."""
    me = shmem.my_pe(ctx)
    rc = 0
    if me < 2:
        for i in range(n):
            if me == 1:
                rc |= shmem.wait_until(ctx, word, 8, shmem.CMP_GE, i + 1)
            rc |= shmem.put_signal(ctx, data, data, n_bytes, word, i + 1, shmem.SIGNAL_SET, 1 - me)
            if me == 0:
                rc |= shmem.wait_until(ctx, word, 8, shmem.CMP_GE, i + 1)
    tl.store(status, rc)


def check(holds, what):
    global failed
    if not holds:
        print(f"FAILED: {what}", flush=True)
        failed += 1


def judge(name, status, wanted=(0,)):
    torch.cuda.synchronize()
    found = status.tolist()[:len(wanted)]
    check(found == list(wanted), f"{name}: status {found}: {', '.join(map(shmemclient.status_text, found))}")
    status.zero_()


def kernels(world, status):
    me, n_pes, libs = world.my_pe, world.n_pes, shmem.libs()
    left = (me - 1) % n_pes
    at = torch.arange(N, device="cuda", dtype=torch.float32)
    source, dest = world.zeros(N, torch.float32), world.zeros(N * (n_pes + 1), torch.float32)
    own, mine = torch.zeros(4, dtype=torch.int64, device="cuda"), world.zeros(256, torch.int64, hints=shmemclient.Hint.SIGNALS)

    for turn in range(1, ROUNDS + 1):
        exchange[(1,)](world.gpu_ctx, source, dest, mine[200:], status, N, turn, BLOCK=BLOCK, extern_libs=libs)
        judge("exchange", status)
        check(torch.equal(dest[:N], 2 * (at * 3 + left * 100 + turn)), f"exchange, turn {turn}")
    world.barrier()
    collect[(1,)](world.gpu_ctx, source, dest, status, N, BLOCK=BLOCK, num_warps=8, extern_libs=libs)
    judge("collect", status)
    check(torch.equal(dest[:N], at * n_pes + n_pes * (n_pes - 1) // 2), "reduce")
    check(torch.equal(dest[N:].view(n_pes, N), torch.stack([at + pe for pe in range(n_pes)])), "fcollect")
    world.barrier()
    words[(1,)](world.gpu_ctx, mine, mine[201:], own, status, extern_libs=libs)
    judge("words", status)
    check(own.tolist()[:2] == [me + 7, 5 * n_pes], f"g and atomic: {own.tolist()}")
    check(mine[0].item() == left + 7 and mine[1:129].tolist() == list(range(128)), "p")
    refusals[(1,)](world.gpu_ctx, own, source, mine, status, extern_libs=libs)
    torch.cuda.synchronize()
    found = status.tolist()[:5]
    check(found[0] < 0 and found[0] == found[1] and found[2] not in (0, found[0]) and found[3:] == [0, 1], f"refusals: {found}")
    print(f"PE {me}: refusals: {[shmemclient.status_text(rc) for rc in found[:3]]}")
    status.zero_()
    world.barrier()
    return source, mine


def times(world, data, mine, status):
    for n_timed in (1, N_TIMED):
        mine[210] = 0
        torch.cuda.synchronize()
        world.barrier()
        begin = time.perf_counter()
        ping_pong[(1,)](world.gpu_ctx, data, mine[210:], status, 8, n_timed, extern_libs=shmem.libs())
        judge("ping_pong", status)
        took = time.perf_counter() - begin
    world.barrier()
    if world.my_pe == 0:
        print(f"put_signal of 8 bytes by Triton, half a round trip, kernel launch included: {took / N_TIMED / 2 * 1e6:.2f} us")


def host_and_streams(world):
    me, n_pes = world.my_pe, world.n_pes
    left, right = (me - 1) % n_pes, (me + 1) % n_pes
    half = world.empty((4, 8), torch.bfloat16)
    other = world.empty((4, 8), torch.bfloat16)
    half.fill_(me + 1)
    other.zero_()
    torch.cuda.synchronize()
    world.barrier()
    world.put(other, half, right)
    world.barrier()
    check(other.tolist() == [[left + 1] * 8] * 4, "put of the host")
    copy = torch.zeros(4, 8, dtype=torch.bfloat16)
    world.get(copy, half, right)
    check(copy.tolist() == [[right + 1] * 8] * 4, "get to the host's memory")
    seen = world.peer(half, right)
    check(seen is None or seen.tolist() == [[right + 1] * 8] * 4, "a peer's tensor")
    on_host = world.zeros(16, torch.int32, gpu=False)
    world.put(on_host, torch.arange(16, dtype=torch.int32) + me, right)
    world.barrier()
    check(on_host.tolist() == [left + i for i in range(16)], "put on the host heap")
    floats, sums, word = world.zeros(N, torch.float32), world.zeros(N, torch.float32), world.zeros(1, torch.int64)
    with torch.cuda.stream(torch.cuda.Stream()) as _:
        floats.fill_(me + 1)
        world.put_signal_on_stream(sums, floats, word, 3, right)
        world.wait_until_on_stream(word, shmemclient.Cmp.EQ, 3)
        came = sums.clone()
        world.barrier_on_stream()
        world.reduce_on_stream(sums, floats, N, shmemclient.Type.FLOAT, shmemclient.Reduce.SUM)
        torch.cuda.current_stream().synchronize()
    world.stream_status()
    check(torch.all(came == left + 1).item(), "put_signal on a stream")
    check(torch.all(sums == n_pes * (n_pes + 1) / 2).item(), "reduce on a stream")
    try:
        world.put(torch.zeros(1, device="cuda"), half, 0, n_bytes=2)
        check(False, "a put outside the heap is refused")
    except OSError as error:
        print(f"PE {me}: {error}")
    world.barrier()


def lives(world):
    """A tensor keeps its memory while a view of it is there, and no longer."""
    whole = world.zeros(4096, torch.int64)
    address, view = whole.data_ptr(), whole[1:2]
    del whole
    other = world.zeros(4096, torch.int64)
    check(other.data_ptr() != address and view.item() == 0, "memory that a view keeps")
    del view, other
    torch.cuda.synchronize()
    world.barrier()
    check(world.zeros(4096, torch.int64).data_ptr() == address, "memory that was given back")
    world.barrier()


def graphs(world):
    """Stream calls that torch captures."""
    left, right = (world.my_pe - 1) % world.n_pes, (world.my_pe + 1) % world.n_pes
    source, dest = world.zeros(64, torch.int32), world.zeros(64, torch.int32)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        world.put_on_stream(dest, source, right)
        world.barrier_on_stream()
    for turn in range(1, ROUNDS + 1):
        source.fill_(10 * turn + world.my_pe)
        graph.replay()
        torch.cuda.synchronize()
        check(dest.tolist() == [10 * turn + left] * 64, f"graph, turn {turn}")
        world.barrier()
    world.stream_status()


def main():
    torch.cuda.set_device(int(os.environ.get("SHMD_NODE_RANK", "0")) % torch.cuda.device_count())
    with shmemclient.World(gpu="current", timeout=60) as world:
        status = torch.zeros(8, dtype=torch.int32, device="cuda")
        if world.my_pe == 0:
            print(f"{world.n_pes} PEs, torch {torch.__version__}, Triton {triton.__version__}, shmemclient {shmemclient.version()}")
        host_and_streams(world)
        lives(world)
        graphs(world)
        # Compiling takes seconds, in which other PEs would wait.
        source, mine = kernels(world, status)
        if world.n_pes > 1:
            times(world, source, mine, status)
        print(f"PE {world.my_pe}: {'failed' if failed else 'all passed'}", flush=True)
        world.barrier()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
