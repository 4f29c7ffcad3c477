"""A pool of memory for large arrays: what one array leaves, the next one takes.

Memory that is new from the system costs a fault for each of its pages, which takes as long as the
arithmetic that fills it. What is idle is bounded; beyond the limit the oldest goes back. The arrays
are like all others: they own their memory, and give it back when the last view of it dies.

Where no pool can be (no compiler, Windows), arrays have NumPy's own memory.
"""

import ctypes
import functools
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ...._foundation.errors import ArgumentError
from . import allocator, compiler, handler
from .availability import available

POOLED_FROM = 1 << 15  # bytes
STATISTICS = ("in_use", "idle", "limit", "peak", "allocations", "reuses", "releases")
HANDLER = ("malloc", "calloc", "realloc", "free")
CONTAINER_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


class Pool:
    """Blocks of memory: those in use, and those that wait for the next user.

    `call(function, *args, **kwargs)` calls a NumPy function, whose new arrays are from here.
    """

    def __init__(self, limit: int) -> None:
        text = allocator.text()
        words = np.zeros(allocator.TOTAL_WORDS, np.int64)
        handler.keep_for_ever(words)
        self.words = words
        self.address: int = words.__array_interface__["data"][0]
        self.close_rings()
        functions = {name: compiler.compiled(text, f"pool_{name}") for name in HANDLER}
        self.call: Callable = handler.caller("adjoint", self.address, functions)
        trim = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
        self.native_trim = trim(compiler.compiled(text, "pool_trim"))
        self.set_limit(limit)
        os.register_at_fork(after_in_child=self.leave_to_parent)

    def close_rings(self) -> None:
        """No idle blocks: the fixed link of each ring comes before and after itself."""
        first = len(allocator.COUNTERS)
        links = self.address + 8 * np.arange(first, allocator.TOTAL_WORDS, 2)
        self.words[first:] = np.repeat(links, 2)

    def stats(self) -> dict[str, int]:
        return {name: int(self.words[allocator.PLACE[name]]) for name in STATISTICS}

    def trim(self, limit: int) -> int:
        """Return the oldest idle blocks to the system; returns their size in bytes."""
        return self.native_trim(self.address, limit)

    def set_limit(self, limit: int) -> None:
        self.words[allocator.PLACE["limit"]] = limit
        self.trim(limit)

    def leave_to_parent(self) -> None:
        """In a forked child: to write into idle memory would first copy what the parent left there.

        Had another thread been at the rings, they are in no state to be looked at.
        """
        if self.words[allocator.PLACE["lock"]]:
            self.close_rings()
            self.words[[allocator.PLACE["idle"], allocator.PLACE["lock"]]] = 0
        self.trim(0)


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """np.empty(shape, dtype), from the pool if it is large."""
    if math.prod(shape) * dtype.itemsize < POOLED_FROM:
        return np.empty(shape, dtype)
    return Active.call(np.empty, shape, dtype)


def zeros(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """np.zeros(shape, dtype), from the pool if it is large."""
    if math.prod(shape) * dtype.itemsize < POOLED_FROM:
        return np.zeros(shape, dtype)
    return Active.call(np.zeros, shape, dtype)


def call_with_pool(function: Callable, *args: Any, **kwargs: Any) -> Any:
    """Call a NumPy function whose results are large: they get their memory from the pool."""
    return Active.call(function, *args, **kwargs)


def stats() -> dict[str, int]:
    """What the pool holds and what it did; all zero where there is none."""
    current = pool()
    return dict.fromkeys(STATISTICS, 0) if current is None else current.stats()


def release() -> int:
    """Return all idle memory to the system; returns its size in bytes."""
    current = pool()
    return 0 if current is None else current.trim(0)


def set_limit(limit: int) -> None:
    """Limit the memory that is kept for reuse, in bytes."""
    if type(limit) is not int or limit < 0:
        raise ArgumentError(f"set_cache_limit: the limit is a number of bytes, got {limit!r}")
    current = pool()
    if current is not None:
        current.set_limit(min(limit, allocator.LARGEST))


def pool() -> Pool | None:
    """The pool of this process, which starts on first use."""
    with compiler.lock:
        return start()


@functools.cache
def start() -> Pool | None:
    if not (handler.supported() and available()):
        Active.call = without_pool
        return None
    result = Pool(default_limit())
    Active.call = result.call
    return result


def start_and_call(function: Callable, *args: Any, **kwargs: Any) -> Any:
    pool()
    return Active.call(function, *args, **kwargs)


def without_pool(function: Callable, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


class Active:
    call: Callable = start_and_call


def default_limit() -> int:
    """An eighth of the memory, or 256 MiB if that is more and not more than a quarter."""
    memory = system_memory()
    return max(memory // 8, min(256 << 20, memory // 4))


def system_memory() -> int:
    """Bytes of memory that this process could have, in its container if it is in one."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in map(Path, CONTAINER_LIMITS):
        text = file.read_text().strip() if file.exists() else ""
        if text.isdigit():
            limits.append(int(text))
    return min(limits)
