"""GPU memory: a pool of buffers whose sizes are powers of two.

A buffer goes back to the pool when the last array that has it is gone, and the free buffer with the
smallest number is the next to be used. So a step that is done again gets the same buffers, and what
was prepared for them (bind groups) is found again. That the GPU may still be working on what the
buffer held before doesn't matter: it does things in order.
"""

import itertools
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from ..._foundation.errors import DeviceError

SMALLEST = 256  # bytes


class Buffer:
    """`handle`: wgpu's buffer; `number`: which it is of its pool; `batch`: the last submission that
    something was recorded for which uses it."""

    __slots__ = ("batch", "groups", "handle", "number", "size")

    def __init__(self, handle: Any, number: int, size: int) -> None:
        self.handle, self.number, self.size = handle, number, size
        self.batch = -1
        self.groups: set[tuple] = set()  # keys of bind groups that it is in


class Memory:
    """A buffer that is lent: it goes back when nothing refers to this any more."""

    __slots__ = ("buffer", "pool")

    def __init__(self, buffer: Buffer, pool: "BufferPool") -> None:
        self.buffer, self.pool = buffer, pool

    def __del__(self) -> None:
        self.pool.give(self.buffer)


class BufferPool:
    """`create(size)` makes a buffer of wgpu's, `forget(buffer)` frees it. No array can have more
    than `largest` bytes.

    Memory may come back at any moment, also between two steps of what is done here: so there are no
    locks, and everything that changes is a list or a dict, which Python changes at once.
    """

    def __init__(
        self, create: Callable[[int], Any], forget: Callable[[Buffer], None], largest: int
    ) -> None:
        self.create, self.forget, self.largest = create, forget, largest
        self.numbers = itertools.count()
        self.buffers: dict[int, Buffer] = {}
        self.free: dict[int, list[int]] = {}  # by size, the numbers of those that nobody has
        self.made = self.takes = self.releases = self.peak = self.lent = 0

    def take(self, size: int) -> Memory:
        """Memory of at least so many bytes."""
        rounded = max(SMALLEST, 1 << (size - 1).bit_length()) if size else SMALLEST
        if rounded > self.largest:
            rounded = size + -size % 4
        self.takes += 1
        try:
            buffer = self.buffers[heappop(self.free[rounded])]
        except (KeyError, IndexError):
            buffer = self.new(rounded)
        self.lent += rounded
        if self.lent > self.peak:
            self.note_peak()
        return Memory(buffer, self)

    def new(self, size: int) -> Buffer:
        if size > self.largest:
            raise DeviceError(
                f"an array of {size} bytes is larger than what this adapter can bind at once, "
                f"{self.largest} bytes; work on parts of it, or on the CPU"
            )
        self.free.setdefault(size, [])
        buffer = Buffer(self.create(size), next(self.numbers), size)
        self.buffers[buffer.number] = buffer
        self.made += 1
        return buffer

    def note_peak(self) -> None:
        """Count what is lent, which is only about known, as memory comes back between steps."""
        self.lent = self.in_use
        self.peak = max(self.peak, self.lent)

    def give(self, buffer: Buffer) -> None:
        self.lent -= buffer.size
        heappush(self.free[buffer.size], buffer.number)

    def release(self) -> int:
        """Return all free buffers to the system; returns their size in bytes."""
        freed = 0
        for size, numbers in list(self.free.items()):
            while numbers:
                self.forget(self.buffers.pop(heappop(numbers)))
                freed += size
                self.releases += 1
        return freed

    @property
    def idle(self) -> int:
        """Bytes of buffers that nobody has."""
        return sum(size * len(numbers) for size, numbers in list(self.free.items()))

    @property
    def in_use(self) -> int:
        """Bytes of buffers that somebody has."""
        return sum([buffer.size for buffer in list(self.buffers.values())]) - self.idle

    def stats(self) -> dict[str, int]:
        self.note_peak()
        return {
            "in_use": self.in_use,
            "idle": self.idle,
            "peak": self.peak,
            "allocations": self.takes,
            "reuses": self.takes - self.made,
            "releases": self.releases,
        }
