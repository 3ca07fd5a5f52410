#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shmemclient.triton without Triton: each function asks for the right symbol, with arguments of the right kind.

A stand-in for triton.language.core notes what it is asked for. The names of the symbols are those that test-bitcode-names finds in the bitcode.
"""
import sys
import types

from shmemclient import _device


class Kind:
    """A type of Triton."""

    def __init__(self, name, is_block=False):
        self.name, self.block = name, is_block

    def is_ptr(self):
        return self.name == "pointer"

    def is_int(self):
        return self.name.startswith("int")

    def is_block(self):
        return self.block


class Value:
    def __init__(self, kind):
        self.dtype = self.type = kind


class Semantic:
    """What the compiler hands to a function."""

    def to_tensor(self, value):
        return value if isinstance(value, Value) else Value(Kind("int32"))

    def cast(self, value, kind):
        return Value(Kind(kind.name, value.type.block))


def stand_in(asked):
    core = types.SimpleNamespace(int64=Kind("int64"), int32=Kind("int32"), constexpr=lambda value: ("constexpr", value), extern=lambda function: function)
    core.debug_barrier = lambda _semantic: asked.append("barrier")

    def extern_elementwise(lib_name, lib_path, args, symbols, is_pure, _semantic):
        (kinds, (symbol, result)), = symbols.items()
        asked.append((symbol, "".join("l" if kind.name == "int64" else "i" for kind in kinds), result.name, is_pure,
                      [value.dtype.name for value in args] == [kind.name for kind in kinds]))

    core.extern_elementwise = extern_elementwise
    language = types.ModuleType("triton.language")
    language.core = core
    sys.modules |= {"triton": types.ModuleType("triton"), "triton.language": language}


def expect(found, wanted, what):
    if found != wanted:
        sys.exit(f"{what}: {found}, not {wanted}")


def refused(function, arguments, what):
    try:
        function(*arguments, _semantic=Semantic())
    except TypeError as error:
        return str(error)
    sys.exit(f"{what}: no TypeError")


def main():
    asked = []
    stand_in(asked)
    import shmemclient.triton as shmem

    pointer, block, real = Value(Kind("pointer")), Value(Kind("int64", True)), Value(Kind("float32"))
    for name, kinds in _device.SCOPED.items():
        for suffix, symbol, barriers in (("", "_block", ["barrier"]), ("_block", "_block", ["barrier"]), ("_warp", "_warp", []), ("_thread", "_thread", [])):
            asked.clear()
            getattr(shmem, name + suffix)(*[pointer] * len(kinds), _semantic=Semantic())
            expect(asked, [*barriers, (f"shmd_bc_{name}{symbol}", kinds, "int32", False, True)], name + suffix)
    for name, kinds in _device.PLAIN.items():
        asked.clear()
        getattr(shmem, name)(*[7] * len(kinds), _semantic=Semantic())
        expect(asked, [(f"shmd_bc_{name}", kinds, "int64" if name in _device.WIDE else "int32", False, True)], name)
    refused(shmem.quiet, [], "too few arguments")
    refused(shmem.quiet, [real], "a float")
    refused(shmem.quiet, [block], "a tensor in scope block")
    for name in ("put_signal", "wait_until_warp", "atomic_fetch_block"):
        advice = refused(getattr(shmem, name), [block] * len(_device.SCOPED[name.removesuffix("_warp").removesuffix("_block")]), name)
        expect([word for word in advice.split() if word.endswith("_thread()") and hasattr(shmem, word[:-2])],
               [name.removesuffix("_warp").removesuffix("_block") + "_thread()"], f"the function that {name}() names instead")
    shmem.quiet_thread(block, _semantic=Semantic())
    expect((shmem.SIGNAL_ADD, shmem.CMP_GE, shmem.TYPE_FLOAT, shmem.REDUCE_SUM, shmem.ATOMIC_ADD),
           tuple(("constexpr", number) for number in (1, 3, 9, 1, 1)), "numbers")


main()
