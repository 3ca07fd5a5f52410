#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A PE of test-python.py: python-pe.py WHAT. Without torch; the GPU is tests/lib/fake-cuda.c."""
import ctypes
import errno
import gc
import sys
import threading
import time

import shmemclient
from shmemclient import Atomic, Cmp, Hint, Reduce, Signal, Type

N = 1000


def expect(found, wanted, what):
    if found != wanted:
        sys.exit(f"{what}: {repr(found)[:200]}, not {repr(wanted)[:200]}")


def refused(number, words, call, *arguments, **named):
    """The call raises OSError with this errno, and the sentence has the words."""
    try:
        call(*arguments, **named)
    except OSError as error:
        expect(error.errno, number, f"errno of {error}")
        expect([word for word in words if word not in error.strerror], [], f"words that are missing in {error}")
        return error
    sys.exit(f"{call.__name__}{arguments}: no error")


def ring(world):
    return (world.my_pe - 1) % world.n_pes, (world.my_pe + 1) % world.n_pes


def host(world):
    """Every host call, on host memory."""
    me, n = world.my_pe, world.n_pes
    left, right = ring(world)
    memory = world.malloc(8 * N, zero=True)
    numbers = memory.host_array()
    expect(bytes(numbers), bytes(8 * N), "memory with zeros")
    world.barrier()
    mine = (ctypes.c_uint64 * N)(*(me * N + i for i in range(N)))
    world.put(memory, mine, right)
    world.barrier()
    expect(bytes(numbers[:8]), (left * N).to_bytes(8, "little"), "put")
    back = (ctypes.c_uint64 * N)()
    world.get(back, memory, right)
    expect(list(back), list(mine), "get")
    world.put_nbi(memory, mine, right)
    world.quiet()
    world.get_nbi(back, memory, right, n_bytes=8)
    world.fence()
    world.quiet()
    world.barrier()
    words = world.malloc(64, hints=Hint.SIGNALS, zero=True)
    world.put_signal(memory, mine, words, 7, right, op=Signal.ADD)
    world.signal(words, 1, right, op=Signal.ADD)
    world.wait_until(words, Cmp.EQ, 8)
    world.p(words.address + 8, me + 40, 8, right)
    world.barrier()
    expect(world.g(words.address + 8, 8, right), me + 40, "p and g")
    world.atomic(words.address + 16, Atomic.ADD, 5, 0)
    world.barrier()
    expect(world.atomic_fetch(words.address + 16, Atomic.COMPARE_SWAP, 1, 0, compare=5 * n + 1), 5 * n, "atomics")
    reach = world.peer(memory, right)
    expect((reach.address, reach.bytes), (world.ptr(memory, right), 8 * N), "a peer's copy")
    expect(world.ptr(memory, me), memory.address, "the own copy")
    collectives(world)
    world.sync()


def collectives(world):
    me, n = world.my_pe, world.n_pes
    source, dest = world.malloc(64), world.malloc(64 * n, zero=True)
    floats = (ctypes.c_float * 16).from_buffer(source.host_array())
    floats[:] = [me + i for i in range(16)]
    found = (ctypes.c_float * (16 * n)).from_buffer(dest.host_array())
    world.reduce(dest, source, 16, Type.FLOAT, Reduce.SUM)
    expect(list(found[:16]), [n * i + n * (n - 1) / 2 for i in range(16)], "reduce")
    world.fcollect(dest, source)
    expect(list(found), [pe + i for pe in range(n) for i in range(16)], "fcollect")
    world.broadcast(dest, source, n - 1)
    expect(list(found[:16]), [n - 1 + i for i in range(16)], "broadcast")
    blocks = world.malloc(8 * n)
    (ctypes.c_uint64 * n).from_buffer(blocks.host_array())[:] = [me * 100 + pe for pe in range(n)]
    world.alltoall(dest, blocks)
    expect(list((ctypes.c_uint64 * n).from_buffer(dest.host_array())), [pe * 100 + me for pe in range(n)], "alltoall")
    world.barrier()


def a_stream():
    """An object with cuda_stream, as one of torch is; the driver without a GPU has no default stream."""
    class Stream:
        pass

    stream, handle = Stream(), ctypes.c_void_p()
    expect(ctypes.CDLL("libcuda.so.1").cuStreamCreate(ctypes.byref(handle), 1), 0, "cuStreamCreate")
    stream.cuda_stream = handle.value
    return stream


class Tensor:
    """Like one of torch: it has an address and a size, and is neither true nor false."""

    def __init__(self, memory):
        self.memory = memory

    def __bool__(self):
        raise RuntimeError("a tensor is neither true nor false")

    def data_ptr(self):
        return self.memory.address

    def is_contiguous(self):
        return True

    def numel(self):
        return self.memory.bytes // 4

    def element_size(self):
        return 4


class Flat:
    """A tensor of torch, as far as a Memory uses it."""

    def __init__(self, address):
        self.address = address

    def data_ptr(self):
        return self.address

    def __getitem__(self, part):
        return self

    def view(self, _):
        return self


class Torch:
    """A stand-in for torch, which copies memory that is not on the GPU it is told; "cuda" is its current one, and that is GPU 0."""

    class Size(tuple):
        def numel(self):
            return self[0]

    def __init__(self, gpu):
        self.gpu = gpu

    def as_tensor(self, memory, device):
        given = memory.__cuda_array_interface__["data"][0]
        return Flat(given if device.partition(":")[2] == self.gpu else given + (1 << 40))


def tensors(memory):
    """A tensor is the memory, whichever GPU is torch's current one, or there is none."""
    dtype = type("dtype", (), {"itemsize": 4})
    sys.modules["torch"] = Torch("1")
    expect(memory.tensor((8,), dtype).data_ptr(), memory.address, "a tensor on the GPU that is not torch's current one")
    sys.modules["torch"] = Torch("7")
    try:
        memory.tensor((8,), dtype)
        sys.exit("torch made a copy, and no RuntimeError")
    except RuntimeError:
        pass
    del sys.modules["torch"]


def gpu(world):
    """The GPU heap: host calls, the stream, what torch is given."""
    me = world.my_pe
    left, right = ring(world)
    memory = world.malloc(256, gpu=True, zero=True)
    tensors(memory)
    shape = memory.__cuda_array_interface__
    expect((shape["shape"], shape["typestr"], shape["data"]), ((256,), "|u1", (memory.address, False)), "the interface for torch")
    expect(hasattr(world.malloc(16), "__cuda_array_interface__"), False, "memory of the host has that interface")
    mine, found = (ctypes.c_uint8 * 256)(*([me + 1] * 256)), (ctypes.c_uint8 * 256)()
    world.put(memory, mine, right)
    world.barrier()
    world.get(found, memory, me)
    expect(bytes(found), bytes([left + 1] * 256), "put to a GPU")
    world.barrier()
    mine[:] = [me + 10] * 256
    stream = a_stream()
    world.put_on_stream(memory, mine, right, stream=stream)
    world.barrier()
    world.get_on_stream(found, memory, me, stream=stream)
    expect(bytes(found), bytes([left + 10] * 256), "put on a stream")
    world.stream_status()
    expect(world.gpu_ctx % 8 == 0 and world.gpu_ctx != 0 and world.gpu_team not in (0, world.gpu_ctx), True, "numbers for kernels")
    expect(world.peer(memory, right).gpu, True, "a peer's copy is of its GPU")
    world.barrier()
    tensor = Tensor(memory)
    view = shmemclient.Memory(None, world.ptr(memory, right), 256, True, owner=tensor)
    world.put(view.data_ptr() - world.ptr(memory, right) + memory.address, tensor, right, n_bytes=8)
    refused(errno.EINVAL, [], world.wait_until, memory, Cmp.EQ, 0)
    world.barrier()


def errors(world):
    """Sentences of the library, lives of memory and world."""
    memory = world.malloc(64)
    error = refused(errno.EINVAL, ["9"], world.put, memory, memory, 9)
    expect("Errno" in str(error), True, "the text of an OSError")
    refused(errno.EINVAL, [], world.put, id(world), memory, 0)
    refused(errno.EOPNOTSUPP, [], lambda: world.gpu_ctx)
    words = world.malloc(8, zero=True)
    begun = refused(errno.ETIMEDOUT, [], world.wait_until, words, Cmp.EQ, 1)
    expect(isinstance(begun, TimeoutError), True, "the class of a time-out")
    for call in (lambda: world.put(memory, "text", 0), lambda: world.put(memory, memory.address, 0)):
        try:
            call()
            sys.exit("no TypeError")
        except TypeError:
            pass
    world.barrier()
    # Memory that the last reference has given back serves again.
    del begun  # it names the arguments of the call
    address = words.address
    array = words.host_array()
    del words
    gc.collect()
    array[0] = 1
    del array
    gc.collect()
    world.barrier()
    again = world.malloc(8)
    expect(again.address, address, "memory that was given back")
    world.barrier()
    again.free()
    again.free()


def free_during_close(world):
    """Another thread, which may be one that collects garbage, gives memory back while this one closes the world."""
    memory, order, begun = world.malloc(64), [], threading.Event()
    ask, call = shmemclient._memory.ask, shmemclient._world.call

    def slow_free(name, *arguments):
        begun.set()
        time.sleep(0.3)
        ask(name, *arguments)
        order.append(name)

    def noted(name, *arguments):
        order.append(name)
        return call(name, *arguments)

    shmemclient._memory.ask, shmemclient._world.call = slow_free, noted
    other = threading.Thread(target=memory.free)
    other.start()
    begun.wait()
    world.close()
    other.join()
    shmemclient._memory.ask, shmemclient._world.call = ask, call
    expect(order, ["free", "world_close"], "a free while the world closes")


def closed(world):
    """A world that has closed has nothing that could be given back, and takes no calls."""
    kept = world.malloc(64)
    free_during_close(world)
    kept.free()
    world.close()
    for use in (lambda: world.my_pe, lambda: world.ctx, world.barrier, world.stream_status, lambda: world.malloc(8), lambda: world.ptr(kept, 0)):
        try:
            use()
        except ValueError:
            continue
        sys.exit("a call on a world that has closed: no ValueError")


def raises(world):
    """One PE fails; the others wait for it."""
    if world.my_pe == 0:
        raise RuntimeError("this PE fails")
    world.barrier()


def main():
    what = sys.argv[1]
    if what == "gpu":
        ctypes.CDLL("libcuda.so.1").fake_cuda_set_current(1)
    attr = {"gpu": {"gpu": "current", "gpu_heap_bytes": 1 << 22}, "errors": {"timeout": 0.5, "gpu": "none"}}.get(what, {})
    with shmemclient.World(**attr) as world:
        {"host": host, "gpu": gpu, "errors": errors, "raises": raises}[what](world)
        closed(world)
    refused(errno.EINVAL, [], lambda: shmemclient.World(bootstrap="nonsense"))
    for timeout in (-1e-9, -1, 0, 1e10, float("nan"), float("inf")):
        try:
            shmemclient.World(timeout=timeout)
            sys.exit(f"no ValueError for a time limit of {timeout}")
        except ValueError:
            pass


main()
