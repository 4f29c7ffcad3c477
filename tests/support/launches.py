"""A runner of launches that knows memory by addresses alone, and memory to run them in.

It is written apart from `jit/runner`: what it runs holds to what a launch says, not to how eager
calls happen to do it.
"""

import ctypes
import math
import mmap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from adjoint.backends import cpu
from adjoint.backends.cpu.jit import threads
from adjoint.backends.cpu.lowering.targets import current_target
from adjoint.backends.launches import Launch, Layout, Number, Target

GARBAGE = 0xFF  # bytes of memory that nobody has written to: as floats they are NaNs
GUARD = 64  # bytes around each piece of memory, at least
LINE = 64


def layout(x: Any) -> Layout | None:
    """Written down here: of an array only this is known where it is lowered."""
    return None if x is None else Layout(x.shape, x.strides, x.dtype, x.flags.aligned)


def lowered(
    op: str, inputs: Sequence[Any], attrs: dict[str, Any], target: Target | None = None
) -> tuple[Launch, ...] | None:
    """The launches of an op, from the layouts of its inputs."""
    return cpu.lower(op, [layout(x) for x in inputs], attrs, target or current_target())


# Running.


class Step(NamedTuple):
    """A launch that has memory: all that is left is to run it."""

    kernel: int
    words: ctypes.Array
    chunks: int
    status: int | None


def bound(launches: Sequence[Launch], addresses: Sequence[int], numbers: Any = None) -> list[Step]:
    """Launches on memory at addresses: those of the operands, of the results, of scratch memory."""
    steps = []
    for launch in launches:
        count = len(launch.words) // 8
        words = (ctypes.c_int64 * count).from_buffer_copy(launch.words)
        for position, slot, offset in launch.addresses:
            words[position] = addresses[slot] + offset
        for position, number in launch.numbers:
            words[position] = word_of(number, numbers)
        status = None if launch.status is None else launch.status.position
        steps.append(Step(launch.kernel.address, words, launch.chunks, status))
    return steps


def word_of(number: Number, numbers: Any) -> int:
    word = np.zeros(1, np.int64)
    with np.errstate(over="ignore"):
        word.view(number.dtype)[0] = numbers[number.key]
    return int(word[0])


def run(steps: Sequence[Step]) -> bool:
    """Run all; whether each says that it has a result."""
    for kernel, words, chunks, status in steps:
        threads.run(kernel, ctypes.addressof(words), chunks)
        if status is not None and words[status]:
            return False
    return True


def frozen(launches: Sequence[Launch]) -> list[tuple]:
    """All that launches say, copied, to be compared with what they say later."""
    return [
        tuple(
            [table.tobytes() for table in part] if name == "tables" else repr(part)
            for name, part in launch._asdict().items()
        )
        for launch in launches
    ]


# Memory.


class Piece(NamedTuple):
    """Memory that is needed. `before`: bytes before the address that a launch is given, as strides
    may be negative. `behind`: how far that address is behind a multiple of a line."""

    size: int
    before: int = 0
    behind: int = 0
    alignment: int = 1
    zeroed: bool = False


def span(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int]:
    """Bytes of an array from its first to its last in memory; those before its first element."""
    if not math.prod(shape):
        return 0, 0
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    before = -sum(min(r, 0) for r in reach)
    return before + sum(max(r, 0) for r in reach) + itemsize, before


def pieces_for(launches: Sequence[Launch], arrays: Sequence[np.ndarray], odd: bool) -> list[Piece]:
    """What the slots of launches need: all but scratch memory one element behind a line, if odd."""
    first = launches[0]
    found = []
    for x in (*arrays, *first.results):
        size = x.dtype.itemsize
        is_aligned = not isinstance(x, np.ndarray) or x.flags.aligned
        behind = size * odd + (not is_aligned)
        found.append(Piece(*span(x.shape, x.strides, size), behind, size if is_aligned else 1))
    return found + [Piece(x.bytes, 0, 0, x.alignment, x.zeroed) for x in first.scratch]


class Arena:
    """Pieces in one block of bytes, which is full of garbage around them and in them."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        offsets, end = [], GUARD
        for piece in pieces:
            start = -(-(end + piece.before - piece.behind) // LINE) * LINE + piece.behind
            offsets.append(start)
            end = start - piece.before + piece.size + GUARD
        self.block = np.full(end + LINE, GARBAGE, np.uint8)
        base = -self.block.ctypes.data % LINE
        self.offsets = [base + offset for offset in offsets]
        self.inside = np.zeros(self.block.shape, bool)
        for piece, offset in zip(pieces, self.offsets, strict=True):
            part = slice(offset - piece.before, offset - piece.before + piece.size)
            self.inside[part] = True
            if piece.zeroed:
                self.block[part] = 0

    @property
    def addresses(self) -> list[int]:
        return [self.block.ctypes.data + offset for offset in self.offsets]

    def array(self, slot: int, like: Any, offset: int = 0) -> np.ndarray:
        """An array of a shape, strides and dtype in a slot, so many bytes behind its start."""
        start = self.offsets[slot] + offset
        return np.ndarray(like.shape, like.dtype, self.block, start, like.strides)

    def check_guards(self) -> None:
        assert (self.block[~self.inside] == GARBAGE).all(), "written outside of all memory given"


class Separate:
    """Pieces each in memory of its own."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.arenas = [self.memory(piece) for piece in pieces]

    def memory(self, piece: Piece) -> Any:
        return Arena([piece])

    @property
    def addresses(self) -> list[int]:
        return [arena.addresses[0] for arena in self.arenas]

    def array(self, slot: int, like: Any) -> np.ndarray:
        return self.arenas[slot].array(0, like)

    def check_guards(self) -> None:
        for arena in self.arenas:
            arena.check_guards()


class FencedBehind(Separate):
    """Pieces that end where a page ends: who reads behind one ends the process."""

    def memory(self, piece: Piece) -> Any:
        room = pages(piece.size)
        start = (room - piece.size + piece.before) // piece.alignment * piece.alignment
        return FencedPiece(piece, room, start)


class FencedBefore(Separate):
    """Pieces that start where a page starts."""

    def memory(self, piece: Piece) -> Any:
        start = -(-piece.before // piece.alignment) * piece.alignment
        return FencedPiece(piece, pages(piece.size + piece.alignment), start)


def pages(size: int) -> int:
    """The bytes of whole pages that have room for so many."""
    return -(-max(size, 1) // mmap.PAGESIZE) * mmap.PAGESIZE


class FencedPiece:
    """Memory between pages that can't be read."""

    def __init__(self, piece: Piece, room: int, start: int) -> None:
        page = mmap.PAGESIZE
        self.memory = mmap.mmap(-1, room + 2 * page)
        self.block = np.frombuffer(self.memory, np.uint8)
        self.block[...] = 0 if piece.zeroed else GARBAGE
        base = self.block.ctypes.data
        for fence in (base, base + page + room):
            assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(fence), page, 0) == 0
        self.offset = page + start
        self.addresses = [base + self.offset]

    def array(self, slot: int, like: Any) -> np.ndarray:
        return np.ndarray(like.shape, like.dtype, self.block, self.offset, like.strides)

    def check_guards(self) -> None:
        """Nothing has been written there: the process is alive."""


def placed(
    memory: Any, launches: Sequence[Launch], arrays: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Have operands in memory; returns the results there."""
    for slot, x in enumerate(arrays):
        memory.array(slot, x)[...] = x
    first = len(arrays)
    return [memory.array(first + k, result) for k, result in enumerate(launches[0].results)]
