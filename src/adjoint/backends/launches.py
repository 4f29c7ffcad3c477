"""Launches: kernels with everything decided but memory. Lowering makes them, a runner runs them.

`lower(op, layouts, attrs, target)` of a backend knows arrays by their layouts alone, so that what
it makes serves all arrays that lie in memory in the same way: eager calls keep launches for the
next ones, and whole lists of launches can be planned before there is any memory.

The launches of an op share *slots*: first its operands, then its results, then scratch memory. A
launch says which of its words are addresses in which slot.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from .spaces import Ints

MOST_LAUNCHES = 1024  # that a cache has in each of its two generations
ALIGNMENT = 64  # bytes, of scratch memory


class Target(NamedTuple):
    """What launches are for: a device, what its processor can do, threads of a kernel, and on GPUs
    how many arrays one can have. `steady`: whether kernels should serve any number of rows, so that
    another batch size needs no other one."""

    device: str
    features: frozenset[str] = frozenset()
    threads: int = 1
    arrays: int = 0
    steady: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """An array without its memory.

    Strides count bytes on the CPU, elements on GPUs. `aligned`: whether the first element is where
    a kernel can load it at once: on the CPU at a multiple of its size, on GPUs of 4 elements.
    """

    shape: Ints
    strides: Ints
    dtype: np.dtype
    aligned: bool = True

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize


@dataclass(frozen=True, slots=True)
class View(Layout):
    """An array in a slot, which begins `offset` after the slot's own memory: bytes on the CPU,
    elements on GPUs."""

    slot: int = 0
    offset: int = 0

    def view(self, shape: Ints, strides: Ints, offset: int = 0) -> "View":
        """Other elements of the same memory, from `offset` after the first of these on."""
        return type(self)(shape, strides, self.dtype, self.aligned, self.slot, self.offset + offset)

    def swapped(self) -> "View":
        """The transposed matrices."""
        *batch, rows, columns = self.shape
        *steps, down, across = self.strides
        return self.view((*batch, columns, rows), (*steps, across, down))


class Result(NamedTuple):
    """Memory for a result; `order`: that of its axes in memory, where it isn't the usual one."""

    shape: Ints
    dtype: np.dtype
    strides: Ints
    bytes: int
    order: Ints | None = None


class Scratch(NamedTuple):
    """Memory that launches of an op share, and that nobody sees after them."""

    bytes: int
    alignment: int = ALIGNMENT
    zeroed: bool = False


class Number(NamedTuple):
    """A number that a run is given: its name or place among those, and its dtype in a word."""

    key: Any
    dtype: np.dtype


class Status(NamedTuple):
    """A word that isn't 0 after a run that can't give the result, and what that means.

    The function that is the op's reference then does it, or raises its error. On GPUs `meaning` is
    what makes the error, and the word says which of the device's words are those of that error.
    """

    position: int
    meaning: Any


class Launch(NamedTuple):
    """A kernel with everything decided but memory: never changed, and shared between threads.

    `words`: as the kernel takes them, with zeros where something is missing; `kernel.words` are
    their names. `addresses`: position of the word, slot, and how far behind its start. `numbers`:
    positions, and what goes there. `results` and `scratch` are those of all launches of the op.
    `chunks`: of work; on GPUs workgroups. `overwrites`: pairs of results and operands that may have
    the same memory. `tables`: memory that words point to, kept alive. `bound`: on GPUs, the slots
    of the kernel's arrays.
    """

    kernel: Any
    words: bytes
    addresses: tuple[tuple[int, int, int], ...]
    numbers: tuple[tuple[int, Number], ...]
    chunks: int
    results: tuple[Result, ...] = ()
    scratch: tuple[Scratch, ...] = ()
    overwrites: tuple[tuple[int, int], ...] = ()
    status: Status | None = None
    tables: tuple[Any, ...] = ()
    bound: Ints = ()

    @property
    def name(self) -> str:
        return self.kernel.name

    def word(self, name: str) -> Any:
        """The word of a name."""
        return self.kernel.unpack(self.words)[self.kernel.words.index(name)]


class Lowering:
    """The launches of one op, as they are found. Results come before scratch memory.

    A device's own class adds `launch`, which appends one.
    """

    def __init__(self, layouts: Sequence[Layout | None], target: Target) -> None:
        self.target = target
        self.operands: list[View | None] = []
        self.results: list[Result] = []
        self.scratch: list[Scratch] = []
        self.launches: list[Launch] = []
        slot = 0
        for x in layouts:
            if x is None:
                self.operands.append(None)
                continue
            self.operands.append(View(x.shape, x.strides, x.dtype, x.aligned, slot))
            slot += 1
        self.given = slot  # slots of operands

    def step(self, dtype: np.dtype) -> int:
        """How far strides take neighbours apart."""
        return dtype.itemsize

    def nbytes(self, shape: Ints, dtype: np.dtype) -> int:
        """Memory of an array whose elements follow each other."""
        return math.prod(shape) * dtype.itemsize

    def result(self, shape: Ints, dtype: np.dtype, strides: Ints | None = None) -> View:
        """A result, whose axes lie in memory as strides say."""
        assert not self.scratch
        usual = contiguous(shape, self.step(dtype))
        order = None
        if strides is None:
            strides = usual
        elif any(n > 1 and s != t for n, s, t in zip(shape, strides, usual, strict=True)):
            order = tuple(sorted(range(len(shape)), key=lambda k: (-strides[k], shape[k])))
        slot = self.given + len(self.results)
        self.results.append(Result(shape, dtype, strides, self.nbytes(shape, dtype), order))
        return View(shape, strides, dtype, True, slot)

    def temporary(self, shape: Ints, dtype: np.dtype, zeroed: bool = False) -> View:
        """Scratch memory for an array, whose elements follow each other."""
        slot = self.given + len(self.results) + len(self.scratch)
        self.scratch.append(Scratch(self.nbytes(shape, dtype), zeroed=zeroed))
        return View(shape, contiguous(shape, self.step(dtype)), dtype, True, slot)

    def is_contiguous(self, x: Layout) -> bool:
        usual = contiguous(x.shape, self.step(x.dtype))
        return not x.size or all(
            n == 1 or s == t for n, s, t in zip(x.shape, x.strides, usual, strict=True)
        )

    def finished(self) -> tuple[Launch, ...]:
        """The launches, each with the results and the scratch memory of all."""
        results, scratch = tuple(self.results), tuple(self.scratch)
        return tuple(one._replace(results=results, scratch=scratch) for one in self.launches)


class Cache(dict):
    """Launches by what they depend on, bounded: the dict itself has those of late, `older` those
    from before it was last full. A hit is a hit of the dict, without bookkeeping."""

    every: ClassVar["WeakValueDictionary[int, Cache]"] = WeakValueDictionary()

    def __init__(self) -> None:
        self.older: dict = {}
        self.every[id(self)] = self

    def __missing__(self, key: Any) -> Any:
        """What was found for a key before; None if nothing was, of late."""
        found = self.older.pop(key, None)
        return found if found is None else self.keep(key, found)

    def keep(self, key: Any, value: Any) -> Any:
        if len(self) >= MOST_LAUNCHES:
            self.older = dict(self)
            self.clear()
        self[key] = value
        return value

    @classmethod
    def forget_all(cls) -> None:
        """Empty all caches: what launches depend on beside their keys has changed, as in tests."""
        for cache in list(cls.every.values()):
            cache.clear()
            cache.older = {}


def contiguous(shape: Ints, step: int) -> Ints:
    """The strides of elements that follow each other, `step` apart."""
    strides = []
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))
