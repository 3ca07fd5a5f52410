# SPDX-License-Identifier: Apache-2.0
"""Functions for Triton kernels (Triton 3.4 or later), from libshmd_device.bc.

A kernel is launched with extern_libs=libs(), gets World.gpu_ctx as an argument, and calls shmem.put(ctx, ...) with pointers or numbers. A plain
name has scope block: all threads of the program take part, once. put_warp() and its like do the same once for each warp, put_thread()
once for each thread, or for each element of the tensors that it is given, perhaps more than once. All return the status, 0 for success;
status_text() has a sentence.

A plain function begins with a barrier of the program, so that it covers what the program stored before; after it the program sees what the
function brought. Functions with ret_value store the value there.
"""

from triton.language import core as _core

from . import _types
from ._device import PLAIN, SCOPED, WIDE
from ._library import bitcode_path

_TYPES = {"l": _core.int64, "i": _core.int32}


def libs():
    """The extern_libs of a launch."""
    return {"shmd_device": bitcode_path()}


def _function(name, symbol, kinds, wide, barrier, tensors):
    types = tuple(_TYPES[kind] for kind in kinds)
    result = _core.int64 if wide else _core.int32
    for_elements = name.removesuffix("_block").removesuffix("_warp") + "_thread"

    def convert(value, kind, semantic):
        value = semantic.to_tensor(value)
        if not (value.dtype.is_ptr() or value.dtype.is_int()):
            raise TypeError(f"shmemclient.triton.{name} takes addresses and integers, not {value.dtype}")
        if value.type.is_block() and not tensors:
            raise TypeError(f"shmemclient.triton.{name} takes single values; {for_elements}() may take tensors")
        return semantic.cast(value, kind)

    def function(*args, _semantic=None):
        if len(args) != len(types):
            raise TypeError(f"shmemclient.triton.{name} has {len(types)} arguments, not {len(args)}")
        values = [convert(arg, kind, _semantic) for arg, kind in zip(args, types)]
        if barrier:
            _core.debug_barrier(_semantic=_semantic)
        return _core.extern_elementwise("", "", values, {types: (symbol, result)}, is_pure=False, _semantic=_semantic)

    function.__name__ = function.__qualname__ = name
    return _core.extern(function)


for _name, _kinds in SCOPED.items():
    for _suffix, _scope in (("", "_block"), ("_block", "_block"), ("_warp", "_warp"), ("_thread", "_thread")):
        globals()[_name + _suffix] = _function(_name + _suffix, "shmd_bc_" + _name + _scope, _kinds, _name in WIDE, _scope == "_block",
                                               _scope == "_thread")
for _name, _kinds in PLAIN.items():
    globals()[_name] = _function(_name, "shmd_bc_" + _name, _kinds, _name in WIDE, False, True)

# SIGNAL_SET, CMP_EQ, ATOMIC_ADD, TYPE_FLOAT, REDUCE_SUM and so on.
for _enum in (_types.Signal, _types.Cmp, _types.Atomic, _types.Type, _types.Reduce):
    for _member in _enum:
        globals()[f"{_enum.__name__.upper()}_{_member.name}"] = _core.constexpr(int(_member))
