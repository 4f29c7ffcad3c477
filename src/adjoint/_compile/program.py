"""Programs: what became of a recording, ready to be run on memory.

A run checks and holds the tensors that it reads, takes memory for its results and an arena, runs
the lists, and then makes all changes at once: an interrupt finds the state of before or of after.
"""

from collections import deque
from collections.abc import Sequence
from itertools import starmap
from operator import call
from typing import Any, NamedTuple

import numpy as np

from .._core.execute import as_array
from .._core.tensor import Tensor, wrap
from .._foundation.silence import compute
from ..backends.cpu.jit import memory, threads
from ..backends.cpu.jit.addresses import HEADER, MEMORY
from ..backends.cpu.jit.memory import POOLED_FROM
from ..backends.launches import ALIGNMENT
from .draft import nbytes
from .layouts import Buffer, Place
from .listing import Frame, Listing
from .lowering import HostStep

BYTE = np.dtype(np.uint8)
NONE: dict[int, Any] = {}
KEPT = 1 << 18  # bytes of an arena that isn't given back: asking for it would take a while
empty = np.empty
set_raw: Any = Tensor.raw.__set__  # type: ignore[attr-defined]
set_node: Any = Tensor.node.__set__  # type: ignore[attr-defined]
set_grad: Any = Tensor._grad.__set__  # type: ignore[attr-defined]


class FailedError(Exception):
    """Data was such that a launch has no result."""


class Update(NamedTuple):
    """An object whose memory is written over, if nobody else can reach it; else `place` is new."""

    number: int
    place: Place


class Code(NamedTuple):
    """What is the same for all runs of a program."""

    segments: list[Any]  # listings and host steps, in order
    final: Listing | None  # launches that write over what was there, after all that can fail
    objects: int  # tensors that are read; then comes the arena, among the addresses
    slots: dict[Buffer, int]
    arena: int  # bytes
    cells: list[np.dtype]  # of numbers, each in 8 bytes
    results: list[Place]  # memory that is new at each run
    updates: list[Update]
    constants: list[np.ndarray]


class Run:
    """Words and addresses of a program, for one run at a time."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.bases = np.zeros(code.objects + 1 + len(code.slots), np.int64)
        self.base: Any = memoryview(self.bases)  # type: ignore[arg-type]  # sets items sooner
        self.cells = np.zeros(max(1, len(code.cells)), np.int64)
        for buffer, slot in code.slots.items():
            if buffer.kind == "constant":
                self.bases[slot] = code.constants[buffer.number].ctypes.data
            elif buffer.kind == "number":
                self.bases[slot] = self.cells.ctypes.data
        self.parts = [self.framed(part) for part in code.segments]
        self.final = None if code.final is None else self.framed(code.final)
        self.results = [(*maker(x), code.slots[x.buffer], x.buffer) for x in code.results]
        self.updates = [(x.number, x.place, code.slots[x.place.buffer]) for x in code.updates]
        self.arena = (code.arena + ALIGNMENT,) if code.arena else None
        self.kept = empty((code.arena + ALIGNMENT,), BYTE) if 0 < code.arena <= KEPT else None
        if self.kept is not None:
            start = self.kept.ctypes.data
            self.bases[code.objects] = start + -start % ALIGNMENT
        self.numbers: Sequence[Any] = ()

    def framed(self, part: Any) -> Any:
        return Frame(part, self.bases) if isinstance(part, Listing) else part

    def write_numbers(self, numbers: Sequence[Any]) -> None:
        """Put numbers where kernels read them; the same sequence has the same numbers."""
        for k, (dtype, number) in enumerate(zip(self.code.cells, numbers, strict=True)):
            self.cells[k : k + 1].view(dtype)[0] = number
        self.numbers = numbers

    def compute(self, shared: np.ndarray) -> tuple[dict[Buffer, np.ndarray], dict[int, Any], Any]:
        """Do all but the final launches. Returns the arrays that are new, those that objects are to
        have where their memory can't be written over, and the arena, which final launches read."""
        base = self.base
        held: dict[Buffer, np.ndarray] = {}
        for make, shape, dtype, slot, buffer in self.results:
            out = held[buffer] = make(shape, dtype)
            base[slot] = MEMORY[id(out) + HEADER >> 3]
        moved: dict[int, Any] = {} if self.updates else NONE
        for number, place, slot in self.updates:
            if shared[number]:
                self.renew(number, place, slot, moved)
            else:
                base[slot] = base[number]
        arena = self.kept
        if arena is None and self.arena is not None:
            arena = memory.empty(self.arena, BYTE)
            start = MEMORY[id(arena) + HEADER >> 3]
            base[self.code.objects] = start + -start % ALIGNMENT
        for part in self.parts:
            if type(part) is Frame:
                if part.pool is not threads.pool:
                    part.meet_threads()
                if part.run():
                    raise FailedError
            else:
                self.do(part, held)
        return held, moved, arena

    def move(self, shared: np.ndarray, moved: dict[int, Any]) -> None:
        """Give new memory to objects that are shared, so that what shares them stays as it is."""
        for number, place, slot in self.updates:
            if shared[number] and number not in moved:
                self.renew(number, place, slot, moved)

    def renew(self, number: int, place: Place, slot: int, moved: dict[int, Any]) -> None:
        out = moved[number] = new_array(place)
        self.base[slot] = MEMORY[id(out) + HEADER >> 3]

    def do(self, item: HostStep, held: dict[Buffer, np.ndarray]) -> None:
        """Do a host step; its results have memory of their own."""
        step, slots = item.step, self.code.slots
        inputs = [self.array(x) if isinstance(x, Place) else x for x in item.inputs]
        attrs = {key: value for key, value in step.attrs.items() if key != "device"}
        try:
            out = compute(step.op.functions[np.ndarray], *inputs, **attrs)
        except Exception:
            raise FailedError from None
        results = (out,) if step.op.single_result else out
        for place, result in zip(item.outputs, results, strict=True):
            own = np.array(as_array(result), order="C", copy=None if NEW_NUMPY else False)
            if own.base is not None:
                own = own.copy()
            if own.shape != place.shape or own.dtype != place.dtype:
                raise FailedError
            held[place.buffer] = own
            self.base[slots[place.buffer]] = MEMORY[id(own) + HEADER >> 3]

    def array(self, x: Place) -> np.ndarray:
        """An array on memory that a place lies in."""
        slot = self.code.objects if x.buffer.kind == "scratch" else self.code.slots[x.buffer]
        start = self.base[slot] + x.offset
        start += x.buffer.offset if x.buffer.kind == "scratch" else 0
        return np.asarray(Lent(start, x))


NEW_NUMPY = int(np.__version__.split(".")[0]) >= 2


class Lent:
    """Memory at an address, as NumPy's interface describes an array."""

    def __init__(self, start: int, x: Place) -> None:
        self.__array_interface__ = {
            "shape": x.shape,
            "strides": x.strides,
            "typestr": x.dtype.str,
            "data": (start, False),
            "version": 3,
        }


def maker(x: Place) -> tuple[Any, Any, np.dtype]:
    """What makes new memory with a layout: a function, and its arguments."""
    if not x.is_contiguous:
        return (lambda *_: new_array(x)), x.shape, x.dtype
    return (empty if nbytes(x) < POOLED_FROM else memory.empty), x.shape, x.dtype


def new_array(x: Place) -> np.ndarray:
    """New memory with a layout."""
    if x.is_contiguous:
        return memory.empty(x.shape, x.dtype)
    order = sorted(range(len(x.shape)), key=lambda k: -x.strides[k])
    out = memory.empty(tuple(x.shape[k] for k in order), x.dtype)
    return out.transpose(np.argsort(order))


def at_once(calls: Sequence[tuple]) -> None:
    """Make calls of functions that are C code: no signal is handled before the last one is done."""
    deque(starmap(call, calls), 0)


__all__ = ["Code", "FailedError", "Run", "Update"]
__all__ += ["at_once", "set_grad", "set_node", "set_raw", "wrap"]
