# SPDX-License-Identifier: Apache-2.0
"""PEs of shmemd in Python: symmetric memory as torch tensors, one-sided operations, Triton kernels that call them.

World is where to begin; shmemclient.triton has the functions for kernels. A failed call raises OSError with the errno and the
sentence of the library: TimeoutError is one, and so on.
"""

from ._library import bitcode_path, make_uid, status_text, version
from ._memory import Memory
from ._types import Atomic, Cmp, Hint, Path, Reduce, Signal, Type
from ._world import World

__all__ = ["Atomic", "Cmp", "Hint", "Memory", "Path", "Reduce", "Signal", "Type", "World", "bitcode_path", "make_uid", "status_text", "version"]
