#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Structures and numbers of the Python package are those of <shmd.h>: test-python-abi.py PYTHON_ABI

The program prints those of the header; the package has no more and no others.
"""
import ctypes
import os
import subprocess
import sys

from shmemclient import _types

STRUCTURES = {"shmd_uid": _types.Uid, "shmd_world_attr": _types.WorldAttr, "shmd_atomic": _types.AtomicArgs}
ENUMS = {"SHMD_SIGNAL_": _types.Signal, "SHMD_CMP_": _types.Cmp, "SHMD_ATOMIC_": _types.Atomic, "SHMD_TYPE_": _types.Type,
         "SHMD_REDUCE_": _types.Reduce, "SHMD_HINT_": _types.Hint, "SHMD_ALLOW_": _types.Path}


def of_package():
    found = {}
    for name, structure in STRUCTURES.items():
        found[f"sizeof {name}"] = ctypes.sizeof(structure)
        found |= {f"{name}.{field}": getattr(structure, field).offset for field, _ in structure._fields_ if name != "shmd_uid"}
    for prefix, enum in ENUMS.items():
        found |= {prefix + member.name: int(member) for member in enum}
    return found


def main():
    # meson names what runs programs of a cross build.
    printed = subprocess.run([*os.environ.get("MESON_EXE_WRAPPER", "").split(), sys.argv[1]], check=True, capture_output=True, text=True).stdout
    header = {name: int(number) for name, number in (line.rsplit(" ", 1) for line in printed.splitlines())}
    package = of_package()
    wrong = [f"{name}: {header.get(name)} in the header, {package.get(name)} in the package"
             for name in sorted(header | package) if header.get(name) != package.get(name)]
    sys.exit("\n".join(wrong) or 0)


main()
