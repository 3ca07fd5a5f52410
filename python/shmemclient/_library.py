# SPDX-License-Identifier: Apache-2.0
"""libshmemclient.so.0 by ctypes: prototypes, and errors as exceptions.

The library is loaded by the first call. SHMEMCLIENT_LIBRARY names another file than the one that the system finds. ctypes lets other
threads of Python run during a call.
"""

import ctypes as c
import functools
import os

from ._types import AtomicArgs, Uid, WorldAttr

_HANDLE, _ADDRESS, _WORD, _BYTES, _INT = c.c_void_p, c.c_void_p, c.c_uint64, c.c_size_t, c.c_int
_MOVE = [_HANDLE, _ADDRESS, _ADDRESS, _BYTES, _INT]  # context, dest, source, bytes, pe
_SIGNAL = [_HANDLE, _ADDRESS, _WORD, _INT, _INT]  # context, word, value, op, pe
_PUT_SIGNAL = [_HANDLE, _ADDRESS, _ADDRESS, _BYTES, _ADDRESS, _WORD, _INT, _INT]
_WAIT = [_HANDLE, _ADDRESS, c.c_uint32, c.c_uint32, _WORD]  # context, word, bytes, cmp, value
_COLLECT = [_HANDLE, _ADDRESS, _ADDRESS, _BYTES]  # team, dest, source, bytes
_REDUCE = [*_COLLECT, _INT, _INT]
_STREAM = [c.c_void_p]

# Functions that return 0 or a negative errno.
_CALLS = {
    "uid_make": [c.POINTER(Uid)],
    "world_open": [c.POINTER(WorldAttr), c.POINTER(_HANDLE)],
    "world_start": [_HANDLE],
    "world_close": [_HANDLE],
    "world_forgive": [_HANDLE],
    "malloc": [_HANDLE, _BYTES, c.c_uint32, c.POINTER(_ADDRESS)],
    "calloc": [_HANDLE, _BYTES, _BYTES, c.c_uint32, c.POINTER(_ADDRESS)],
    "free": [_HANDLE, _ADDRESS],
    "ctx_gpu_dev": [_HANDLE, c.POINTER(c.c_uint64)],
    "team_gpu_dev": [_HANDLE, c.POINTER(c.c_uint64)],
    "put": _MOVE, "put_nbi": _MOVE, "get": _MOVE, "get_nbi": _MOVE,
    "p": [_HANDLE, _ADDRESS, _WORD, _BYTES, _INT],
    "g": [_HANDLE, _ADDRESS, _BYTES, _INT, c.POINTER(c.c_uint64)],
    "put_signal": _PUT_SIGNAL, "put_signal_nbi": _PUT_SIGNAL, "signal": _SIGNAL,
    "atomic": [_HANDLE, _ADDRESS, c.POINTER(AtomicArgs), _INT],
    "atomic_fetch": [_HANDLE, _ADDRESS, c.POINTER(AtomicArgs), _INT, c.POINTER(c.c_uint64)],
    "wait_until": _WAIT,
    "fence": [_HANDLE], "quiet": [_HANDLE],
    "barrier_all": [_HANDLE], "sync_all": [_HANDLE],
    "broadcast": [*_COLLECT, _INT], "fcollect": _COLLECT, "alltoall": _COLLECT, "reduce": _REDUCE, "reduce_scatter": _REDUCE,
    "put_on_stream": _MOVE + _STREAM, "get_on_stream": _MOVE + _STREAM, "signal_on_stream": _SIGNAL + _STREAM,
    "put_signal_on_stream": _PUT_SIGNAL + _STREAM, "wait_until_on_stream": _WAIT + _STREAM, "quiet_on_stream": [_HANDLE] + _STREAM,
    "team_sync_on_stream": [_HANDLE] + _STREAM, "team_barrier_on_stream": [_HANDLE] + _STREAM,
    "broadcast_on_stream": [*_COLLECT, _INT] + _STREAM, "fcollect_on_stream": _COLLECT + _STREAM,
    "alltoall_on_stream": _COLLECT + _STREAM, "reduce_on_stream": _REDUCE + _STREAM, "reduce_scatter_on_stream": _REDUCE + _STREAM,
    "stream_status": [_HANDLE],
}

# Functions that cannot fail, with what they return.
_QUESTIONS = {
    "error_text": (c.c_char_p, []),
    "version": (c.c_char_p, []),
    "dev_status_text": (c.c_char_p, [_INT]),
    "my_pe": (_INT, [_HANDLE]),
    "n_pes": (_INT, [_HANDLE]),
    "ptr": (c.c_void_p, [_HANDLE, _ADDRESS, _INT]),
    "world_ctx": (_HANDLE, [_HANDLE]),
    "team_world": (_HANDLE, [_HANDLE]),
}


@functools.lru_cache(maxsize=None)
def library():
    """The library, with prototypes."""
    loaded = c.CDLL(os.environ.get("SHMEMCLIENT_LIBRARY") or "libshmemclient.so.0")
    for name, arguments in _CALLS.items():
        function = getattr(loaded, "shmd_" + name)
        function.restype, function.argtypes = c.c_int, arguments
    for name, (result, arguments) in _QUESTIONS.items():
        function = getattr(loaded, "shmd_" + name)
        function.restype, function.argtypes = result, arguments
    return loaded


def ask(name, *arguments):
    """Call shmd_NAME, which cannot fail."""
    return getattr(library(), "shmd_" + name)(*arguments)


def call(name, *arguments):
    """Call shmd_NAME; raise OSError with the library's sentence if it fails."""
    result = getattr(library(), "shmd_" + name)(*arguments)
    if result < 0:
        raise OSError(-result, ask("error_text").decode(errors="replace"))
    return result


def version():
    """Version of the library that runs."""
    return ask("version").decode()


def status_text(status):
    """A sentence for the status that a function of a kernel returned."""
    return ask("dev_status_text", int(status)).decode()


def make_uid():
    """A unique id for World(uid=...), as bytes: the caller gives it to all ranks, and is rank 0 itself."""
    uid = Uid()
    call("uid_make", c.byref(uid))
    return bytes(uid.data)


def bitcode_path():
    """libshmd_device.bc for kernels: $SHMEMCLIENT_BITCODE, or the file beside the shared library that is loaded."""
    named = os.environ.get("SHMEMCLIENT_BITCODE")
    if named:
        return named
    library()
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        folders = {os.path.dirname(line.split(None, 5)[5].strip()) for line in maps if "/libshmemclient.so" in line}
    found = [path for path in (os.path.join(folder, "libshmd_device.bc") for folder in sorted(folders)) if os.path.exists(path)]
    if not found:
        raise FileNotFoundError(f"no libshmd_device.bc in {', '.join(sorted(folders))}: install libshmemclient-dev, build the library with clang, or set SHMEMCLIENT_BITCODE")
    return found[0]
