# SPDX-License-Identifier: Apache-2.0
"""A world of PEs: symmetric memory, and operations of the host, at once or in the order of a CUDA stream.

dest, source and words are torch tensors, Memory, arrays of ctypes, or addresses; for a number say n_bytes. In stream calls the stream is a
number or has cuda_stream; None is the current stream of torch, or the default stream where torch is not loaded.
"""

import ctypes as c
import sys
import threading
import weakref

from ._library import ask, call
from ._memory import Memory, address_of, allocate, bytes_of
from ._types import AtomicArgs, Hint, Signal, Uid, WorldAttr


def _stream(stream):
    if stream is None:
        torch = sys.modules.get("torch")
        stream = torch.cuda.current_stream() if torch else 0
    return getattr(stream, "cuda_stream", stream)


def _number_of_bytes(n_bytes, what):
    return bytes_of(what) if n_bytes is None else n_bytes


def _nanoseconds(timeout):
    """0 is the default, and what is below would be a number without a sign."""
    if timeout is None:
        return 0
    if not 1e-9 <= timeout <= 1e9:
        raise ValueError(f"timeout is {timeout}, and not a number of seconds from 1e-9 to 1e9")
    return int(timeout * 1e9)


def _gpu_is_started():
    """torch makes its context with its first work; gpu="current" wants one."""
    torch = sys.modules.get("torch")
    if torch and torch.cuda.is_available():
        torch.cuda.synchronize()


class World:
    """A world. Opening, start(), malloc() and its like, close(), barrier() and sync() are collective: all PEs call them.

    gpu: "none", "auto", "current" or a number; None: $SHMD_GPU. timeout: seconds of each operation. uid, rank, size: where no launcher says
    them. A world opens, and starts unless start=False.
    """

    def __init__(self, *, bootstrap=None, uid=None, rank=0, size=0, socket_path=None, heap_bytes=0, gpu=None, gpu_heap_bytes=0, paths=0,
                 timeout=None, start=True):
        def text(value):
            return None if value is None else str(value).encode()

        if gpu == "current":
            _gpu_is_started()
        attr = WorldAttr(bootstrap=text(bootstrap), rank=rank, size=size, socket_path=text(socket_path), heap_bytes=heap_bytes, paths=paths,
                         timeout_nsec=_nanoseconds(timeout), gpu=text(gpu), gpu_heap_bytes=gpu_heap_bytes)
        if uid is not None:
            attr.uid = c.pointer(Uid.from_buffer_copy(uid))
        opened = c.c_void_p()
        call("world_open", c.byref(attr), c.byref(opened))
        self._handle, self.is_open = opened.value, True
        # The thread in which Python collects garbage may be any; one that holds the lock may collect, too.
        self.lock = threading.RLock()
        if start:
            try:
                self.start()
            except OSError:
                ask("world_close", self._ended())
                raise

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        """After an exception the world stays open: close() would wait for PEs that may not come, and the end of this process ends their waits."""
        if kind is None:
            self.close()

    @property
    def handle(self):
        if not self.is_open:
            raise ValueError("the world has closed")
        return self._handle

    def start(self):
        call("world_start", self.handle)

    def close(self):
        """Tensors of the world must not be used afterwards, and its calls raise ValueError."""
        if self.is_open:
            call("world_close", self._ended())

    def _ended(self):
        """From now on no memory is given back: shmd_world_close() wants no other call to be under way."""
        with self.lock:
            self.is_open = False
        return self._handle

    def forgive(self):
        """Go on without the PEs that have ended."""
        call("world_forgive", self.handle)

    # ---- what kernels and calls are given

    @property
    def my_pe(self):
        return ask("my_pe", self.handle)

    @property
    def n_pes(self):
        return ask("n_pes", self.handle)

    @property
    def ctx(self):
        return ask("world_ctx", self.handle)

    @property
    def team(self):
        return ask("team_world", self.handle)

    @property
    def gpu_ctx(self):
        """The number that functions of kernels take as ctx."""
        found = c.c_uint64()
        call("ctx_gpu_dev", self.ctx, c.byref(found))
        return found.value

    @property
    def gpu_team(self):
        """The number that they take as team; 0 is this team, too."""
        found = c.c_uint64()
        call("team_gpu_dev", self.team, c.byref(found))
        return found.value

    # ---- symmetric memory

    def malloc(self, n_bytes, *, gpu=False, hints=0, zero=False):
        """Symmetric memory, as a Memory."""
        hints |= Hint.GPU if gpu else 0
        return Memory(weakref.ref(self), allocate(self, n_bytes, hints, zero), n_bytes, bool(hints & Hint.GPU))

    def empty(self, shape, dtype, *, gpu=True, hints=0):
        """A symmetric torch tensor, on the GPU of the world or on the host."""
        return self._tensor(shape, dtype, gpu, hints, False)

    def zeros(self, shape, dtype, *, gpu=True, hints=0):
        """The same, with zeros on all PEs before any of them returns."""
        return self._tensor(shape, dtype, gpu, hints, True)

    def _tensor(self, shape, dtype, gpu, hints, zero):
        import torch

        shape = torch.Size((shape,) if isinstance(shape, int) else shape)
        memory = self.malloc(max(shape.numel() * dtype.itemsize, 1), gpu=gpu, hints=hints, zero=zero)
        return memory.tensor(shape, dtype)

    def ptr(self, what, pe):
        """Where this process reaches pe's copy by loads and stores; None if it does not."""
        return ask("ptr", self.handle, address_of(what), pe)

    def peer(self, what, pe):
        """pe's copy of a symmetric tensor or Memory, of the same kind; None where it is not mapped."""
        address = self.ptr(what, pe)
        if address is None:
            return None
        gpu = what.gpu if isinstance(what, Memory) else what.is_cuda
        memory = Memory(weakref.ref(self), address, bytes_of(what), gpu, owner=what)
        return memory if isinstance(what, Memory) else memory.tensor(what.shape, what.dtype)

    # ---- at once

    def put(self, dest, source, pe, n_bytes=None):
        """Returns when source may be changed."""
        call("put", self.ctx, address_of(dest), address_of(source), _number_of_bytes(n_bytes, source), pe)

    def put_nbi(self, dest, source, pe, n_bytes=None):
        """Complete after quiet()."""
        call("put_nbi", self.ctx, address_of(dest), address_of(source), _number_of_bytes(n_bytes, source), pe)

    def get(self, dest, source, pe, n_bytes=None):
        """Returns when the data is there."""
        call("get", self.ctx, address_of(dest), address_of(source), _number_of_bytes(n_bytes, dest), pe)

    def get_nbi(self, dest, source, pe, n_bytes=None):
        """Complete after quiet()."""
        call("get_nbi", self.ctx, address_of(dest), address_of(source), _number_of_bytes(n_bytes, dest), pe)

    def p(self, dest, value, n_bytes, pe):
        """One integer of 1, 2, 4 or 8 bytes."""
        call("p", self.ctx, address_of(dest), value, n_bytes, pe)

    def g(self, source, n_bytes, pe):
        found = c.c_uint64()
        call("g", self.ctx, address_of(source), n_bytes, pe, c.byref(found))
        return found.value

    def put_signal(self, dest, source, word, value, pe, op=Signal.SET, n_bytes=None):
        """A PE that sees the signal sees the data."""
        call("put_signal", self.ctx, address_of(dest), address_of(source), _number_of_bytes(n_bytes, source), address_of(word), value, op, pe)

    def signal(self, word, value, pe, op=Signal.SET):
        call("signal", self.ctx, address_of(word), value, op, pe)

    def atomic(self, dest, op, value, pe, *, compare=0, n_bytes=8):
        args = AtomicArgs(op=op, bytes=n_bytes, value=value, compare=compare)
        call("atomic", self.ctx, address_of(dest), c.byref(args), pe)

    def atomic_fetch(self, dest, op, value, pe, *, compare=0, n_bytes=8):
        """Returns the former value."""
        args, found = AtomicArgs(op=op, bytes=n_bytes, value=value, compare=compare), c.c_uint64()
        call("atomic_fetch", self.ctx, address_of(dest), c.byref(args), pe, c.byref(found))
        return found.value

    def wait_until(self, word, cmp, value, n_bytes=8):
        """Of a word of the host heap."""
        call("wait_until", self.ctx, address_of(word), n_bytes, cmp, value)

    def fence(self):
        call("fence", self.ctx)

    def quiet(self):
        call("quiet", self.ctx)

    def barrier(self):
        call("barrier_all", self.handle)

    def sync(self):
        call("sync_all", self.handle)

    def broadcast(self, dest, source, root, n_bytes=None):
        call("broadcast", self.team, address_of(dest), address_of(source), _number_of_bytes(n_bytes, source), root)

    def fcollect(self, dest, source, n_bytes=None):
        call("fcollect", self.team, address_of(dest), address_of(source), _number_of_bytes(n_bytes, source))

    def alltoall(self, dest, source, n_bytes=None):
        """n_bytes for each PE."""
        call("alltoall", self.team, address_of(dest), address_of(source), self._block(n_bytes, source))

    def reduce(self, dest, source, n, kind, op):
        """n elements of a Type, by an operation of Reduce."""
        call("reduce", self.team, address_of(dest), address_of(source), n, kind, op)

    def reduce_scatter(self, dest, source, n, kind, op):
        call("reduce_scatter", self.team, address_of(dest), address_of(source), n, kind, op)

    def _block(self, n_bytes, source):
        return bytes_of(source) // self.n_pes if n_bytes is None else n_bytes

    # ---- in the order of a stream, on memory of the GPU heap

    def put_on_stream(self, dest, source, pe, n_bytes=None, stream=None):
        call("put_on_stream", self.ctx, address_of(dest), address_of(source), _number_of_bytes(n_bytes, source), pe, _stream(stream))

    def get_on_stream(self, dest, source, pe, n_bytes=None, stream=None):
        call("get_on_stream", self.ctx, address_of(dest), address_of(source), _number_of_bytes(n_bytes, dest), pe, _stream(stream))

    def put_signal_on_stream(self, dest, source, word, value, pe, op=Signal.SET, n_bytes=None, stream=None):
        call("put_signal_on_stream", self.ctx, address_of(dest), address_of(source), _number_of_bytes(n_bytes, source), address_of(word), value,
             op, pe, _stream(stream))

    def signal_on_stream(self, word, value, pe, op=Signal.SET, stream=None):
        call("signal_on_stream", self.ctx, address_of(word), value, op, pe, _stream(stream))

    def wait_until_on_stream(self, word, cmp, value, n_bytes=8, stream=None):
        call("wait_until_on_stream", self.ctx, address_of(word), n_bytes, cmp, value, _stream(stream))

    def quiet_on_stream(self, stream=None):
        call("quiet_on_stream", self.ctx, _stream(stream))

    def barrier_on_stream(self, stream=None):
        call("team_barrier_on_stream", self.team, _stream(stream))

    def sync_on_stream(self, stream=None):
        call("team_sync_on_stream", self.team, _stream(stream))

    def broadcast_on_stream(self, dest, source, root, n_bytes=None, stream=None):
        call("broadcast_on_stream", self.team, address_of(dest), address_of(source), _number_of_bytes(n_bytes, source), root, _stream(stream))

    def fcollect_on_stream(self, dest, source, n_bytes=None, stream=None):
        call("fcollect_on_stream", self.team, address_of(dest), address_of(source), _number_of_bytes(n_bytes, source), _stream(stream))

    def alltoall_on_stream(self, dest, source, n_bytes=None, stream=None):
        call("alltoall_on_stream", self.team, address_of(dest), address_of(source), self._block(n_bytes, source), _stream(stream))

    def reduce_on_stream(self, dest, source, n, kind, op, stream=None):
        call("reduce_on_stream", self.team, address_of(dest), address_of(source), n, kind, op, _stream(stream))

    def reduce_scatter_on_stream(self, dest, source, n, kind, op, stream=None):
        call("reduce_scatter_on_stream", self.team, address_of(dest), address_of(source), n, kind, op, _stream(stream))

    def stream_status(self):
        """Raise the first failure of an operation that a stream has passed since the last call."""
        call("stream_status", self.handle)
