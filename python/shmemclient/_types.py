# SPDX-License-Identifier: Apache-2.0
"""Numbers and structures of <shmd.h>. A test compares them with the header."""

import ctypes as c
import enum


class Signal(enum.IntEnum):
    """Operation of a signal."""
    SET = 0
    ADD = 1


class Cmp(enum.IntEnum):
    """Comparison of a wait. Add SIGNED for words that are signed."""
    EQ = 0
    NE = 1
    GT = 2
    GE = 3
    LT = 4
    LE = 5
    SIGNED = 0x10


class Atomic(enum.IntEnum):
    """Operation on a word."""
    FETCH = 0
    ADD = 1
    AND = 2
    OR = 3
    XOR = 4
    SWAP = 5
    COMPARE_SWAP = 6
    ADD_FLOAT = 7


class Type(enum.IntEnum):
    """Element of a reduction."""
    INT8 = 1
    INT16 = 2
    INT32 = 3
    INT64 = 4
    UINT8 = 5
    UINT16 = 6
    UINT32 = 7
    UINT64 = 8
    FLOAT = 9
    DOUBLE = 10
    HALF = 14
    BFLOAT16 = 15


class Reduce(enum.IntEnum):
    """Operation of a reduction."""
    SUM = 1
    PROD = 2
    MIN = 3
    MAX = 4
    AND = 5
    OR = 6
    XOR = 7


class Hint(enum.IntFlag):
    """What memory is for; GPU chooses the heap."""
    ATOMICS = 0x1
    SIGNALS = 0x2
    GPU = 0x4


class Path(enum.IntFlag):
    """Paths that a world allows."""
    MAPPED = 0x1
    QUEUE = 0x2


class Uid(c.Structure):
    """struct shmd_uid"""
    _fields_ = [("data", c.c_uint8 * 128)]


class WorldAttr(c.Structure):
    """struct shmd_world_attr"""
    _fields_ = [
        ("bootstrap", c.c_char_p), ("uid", c.POINTER(Uid)), ("rank", c.c_int), ("size", c.c_int), ("mpi_comm", c.c_void_p),
        ("socket_path", c.c_char_p), ("heap_bytes", c.c_uint64), ("paths", c.c_uint32), ("threads", c.c_int),
        ("timeout_nsec", c.c_uint64), ("gpu", c.c_char_p), ("gpu_heap_bytes", c.c_uint64),
    ]


class AtomicArgs(c.Structure):
    """struct shmd_atomic"""
    _fields_ = [("op", c.c_int), ("bytes", c.c_uint32), ("value", c.c_uint64), ("compare", c.c_uint64)]
