# SPDX-License-Identifier: Apache-2.0
"""Symmetric memory as an object, and as torch tensors without a copy.

A tensor keeps its Memory alive; when the last reference is gone this PE frees it. Kernels and streams must be through with it then: the
allocator of torch does not know of it. A tensor of a world that has closed must not be used.
"""

import ctypes as c
import weakref

from ._library import ask, call

_DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL


class Memory:
    """Some bytes of the symmetric heap, or of a peer's copy of them. World.malloc() and World.peer() make it."""

    def __init__(self, world, address, n_bytes, gpu, owner=None):
        self.address, self.bytes, self.gpu = address, n_bytes, gpu
        self._owner = owner  # of a peer's copy: what keeps the allocation
        self._free = None if owner is not None else weakref.finalize(self, _free, world, address)
        if self._free:
            self._free.atexit = False

    def data_ptr(self):
        """The address, as a tensor has it."""
        return self.address

    def free(self):
        """This PE does not need it any more. No tensor of it may be used afterwards."""
        if self._free:
            self._free()

    @property
    def __cuda_array_interface__(self):
        if not self.gpu:
            raise AttributeError("this is memory of the host")
        return {"shape": (self.bytes,), "typestr": "|u1", "data": (self.address, False), "version": 3, "strides": None}

    def host_array(self):
        """The bytes as an array of ctypes, which has the buffer protocol and keeps this memory."""
        if self.gpu:
            raise ValueError("memory of a GPU has no address for the host")
        array = (c.c_uint8 * self.bytes).from_address(self.address)
        array.memory = self
        return array

    def tensor(self, shape, dtype):
        """The first bytes as a torch tensor, without a copy."""
        import torch

        n = torch.Size(shape).numel() * dtype.itemsize
        if n > self.bytes:
            raise ValueError(f"{n} bytes do not fit into {self.bytes}")
        flat = self._on_gpu(torch) if self.gpu else torch.frombuffer(self.host_array(), dtype=torch.uint8)
        return flat[:n].view(dtype).view(shape)

    def _on_gpu(self, torch):
        """torch copies memory that is on another GPU than the one it is told, and its current one may be another."""
        flat = torch.as_tensor(self, device=_torch_device(self.address))
        if flat.data_ptr() != self.address:
            raise RuntimeError("torch copies this memory, since it sees it on another GPU: no tensor of it can be made")
        return flat


def _torch_device(address):
    """The driver counts GPUs as torch does. Without an answer it is torch's current one."""
    ordinal = c.c_int()
    failed = c.CDLL("libcuda.so.1").cuPointerGetAttribute(c.byref(ordinal), _DEVICE_ORDINAL, c.c_uint64(address))
    return "cuda" if failed else f"cuda:{ordinal.value}"


def _free(world, address):
    opened = world()
    if opened is None:
        return
    with opened.lock:
        if opened.is_open:
            ask("free", opened.handle, address)


def allocate(world, n_bytes, hints, zero):
    """Collective on the world."""
    found = c.c_void_p()
    if zero:
        call("calloc", world.handle, 1, n_bytes, hints, c.byref(found))
    else:
        call("malloc", world.handle, n_bytes, hints, c.byref(found))
    return found.value


def address_of(what):
    """The address of a tensor, a Memory, an array of ctypes, or a number."""
    if what is None or isinstance(what, int):
        return what
    if hasattr(what, "data_ptr"):
        return what.data_ptr()
    if isinstance(what, (c.Array, c._SimpleCData, c.Structure)):
        return c.addressof(what)
    raise TypeError(f"{type(what).__name__} has no address")


def bytes_of(what):
    """The size of a contiguous tensor, a Memory or an array of ctypes."""
    if hasattr(what, "is_contiguous"):
        if not what.is_contiguous():
            raise ValueError("the tensor is not contiguous")
        return what.numel() * what.element_size()
    if isinstance(what, Memory):
        return what.bytes
    if isinstance(what, (c.Array, c._SimpleCData, c.Structure)):
        return c.sizeof(what)
    raise TypeError("say how many bytes: the size of a number is unknown")
