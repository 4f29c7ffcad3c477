"""Running a program: lists of launches and host steps, on memory for one run at a time."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._core.holding import Expected, Objects
from .._core.tensor import Tensor
from .._foundation.silence import compute
from ..backends.cpu.jit import memory, threads
from ..backends.cpu.jit.addresses import HEADER, MEMORY, address, array_at
from ..backends.cpu.jit.lists import Frame, Listed, Listing
from ..backends.cpu.jit.memory import POOLED_FROM
from ..backends.cpu.jit.runner import BYTE, turned
from ..backends.launches import ALIGNMENT
from .draft import nbytes
from .layouts import Buffer, Place
from .lowering import HostStep

KEPT = 1 << 18  # bytes of an arena that isn't given back: asking for it would take a while
empty = np.empty


class FailedError(Exception):
    """Data was such that a launch has no result."""


class Update(NamedTuple):
    """An object whose memory is written over, if nobody else can reach it; else `place` is new."""

    number: int
    place: Place


class Code(NamedTuple):
    """Lists, sizes and places that all runs of a program share."""

    segments: list[Any]  # listings and host steps, in order
    final: Listing | None  # launches that write over what was there, after all that can fail
    objects: int  # tensors that are read; then comes the arena, among the addresses
    slots: dict[Buffer, int]
    arena: int  # bytes
    cells: list[np.dtype]  # of numbers, each in 8 bytes
    results: list[Place]  # memory that is new at each run
    updates: list[Update]
    constants: list[np.ndarray]


def listing(items: Sequence[Any], slots: dict[Buffer, int], count: int) -> Listing:
    """Launches as a list; `slots`: at which of `count` addresses each buffer is."""
    pooled = memory.pool() is not None
    listed: list[Listed] = []
    for item in items:
        places = [(slots[buffer], buffer.offset + behind) for buffer, behind in item.places]
        # What is written past the caches must lie in memory of ours.
        past = all(x.kind == "scratch" or (x.kind == "result" and pooled) for x in item.own)
        *before, last = [Listed(launch, places, item.numbers, past) for launch in item.launches]
        updates = [x for x in item.buffers if x.kind == "update"]
        written = sum(x.nbytes for x in dict.fromkeys((*item.own, *updates)))
        listed += [*before, last._replace(bytes=written)]
    return Listing(listed, count)


class Run:
    """Words and addresses of a program, and the tensors that it reads, for one run at a time."""

    frame: Any = Frame

    def __init__(
        self, code: Code, expected: Sequence[Expected], captured: Sequence[Tensor | None]
    ) -> None:
        self.code = code
        self.bases = np.zeros(1 + max(code.slots.values(), default=code.objects), np.int64)
        self.base: Any = memoryview(self.bases)  # type: ignore[arg-type]  # sets items sooner
        self.objects = Objects(expected, captured, self.bases)
        self.shared: Any = memoryview(self.objects.shared)  # type: ignore[arg-type]
        self.cells = np.zeros(max(1, len(code.cells)), np.int64)
        for buffer, slot in code.slots.items():
            if buffer.kind == "constant":
                self.bases[slot] = address(code.constants[buffer.number])
            elif buffer.kind == "number":
                self.bases[slot] = address(self.cells)
        self.frames: list[Any] = []
        self.parts = [self.framed(x) if type(x) is Listing else x for x in code.segments]
        self.finishing = [] if code.final is None else self.framed(code.final).finishing
        self.pool: Any = self  # of no threads yet
        self.results = [(*maker(x), code.slots[x.buffer], x.buffer) for x in code.results]
        self.updates = [(x.number, x.place, code.slots[x.place.buffer]) for x in code.updates]
        self.kept = self.new_arena() if 0 < code.arena <= KEPT else None
        self.borrows = code.arena > KEPT
        self.numbers: Sequence[Any] = ()

    def framed(self, listing: Listing) -> Any:
        self.frames.append(self.frame(listing, self.bases))
        return self.frames[-1]

    def new_arena(self) -> np.ndarray:
        arena = memory.empty((self.code.arena + ALIGNMENT,), BYTE)
        start = MEMORY[id(arena) + HEADER >> 3]
        self.base[self.code.objects] = start + -start % ALIGNMENT
        return arena

    def meet_threads(self) -> None:
        """Let all lists know the threads of this process."""
        for frame in self.frames:
            frame.meet_threads()
        self.pool = threads.pool

    def write_numbers(self, numbers: Sequence[Any]) -> None:
        """Put numbers where kernels read them; the same sequence has the same numbers."""
        for k, (dtype, number) in enumerate(zip(self.code.cells, numbers, strict=True)):
            self.cells[k : k + 1].view(dtype)[0] = number
        self.numbers = numbers

    def compute(self) -> tuple[dict[Buffer, np.ndarray], Any]:
        """Do all but the final launches; returns new arrays, and the arena, which these read."""
        base = self.base
        held: dict[Buffer, np.ndarray] = {}
        for make, shape, dtype, slot, buffer in self.results:
            out = held[buffer] = make(shape, dtype)
            base[slot] = MEMORY[id(out) + HEADER >> 3]
        arena = self.new_arena() if self.borrows else self.kept
        if self.pool is not threads.pool:
            self.meet_threads()
        for part in self.parts:
            if type(part) is HostStep:
                self.do(part, held)
            elif part.run():
                raise FailedError
        return held, arena

    def place_updates(self) -> dict[int, np.ndarray]:
        """Let final launches write over objects, or, where these are shared, into new arrays, by
        their numbers: what shares them stays as it is."""
        base, shared = self.base, self.shared
        moved: dict[int, np.ndarray] = {}
        for number, place, slot in self.updates:
            if shared[number]:
                out = moved[number] = memory.empty(place.shape, place.dtype)
                base[slot] = MEMORY[id(out) + HEADER >> 3]
            else:
                base[slot] = base[number]
        return moved

    def do(self, item: HostStep, held: dict[Buffer, np.ndarray]) -> None:
        """Do a host step; its results have memory of their own."""
        step = item.step
        inputs = [self.array(x) if isinstance(x, Place) else x for x in item.inputs]
        attrs = {key: value for key, value in step.attrs.items() if key != "device"}
        try:
            out = compute(step.op.functions[np.ndarray], *inputs, **attrs)
        except Exception:
            raise FailedError from None
        results = (out,) if step.op.single_result else out
        for place, result in zip(item.outputs, results, strict=True):
            own = np.asarray(result, order="C")
            if own.base is not None:
                own = own.copy()
            if own.shape != place.shape or own.dtype != place.dtype:
                raise FailedError
            held[place.buffer] = own
            self.base[self.code.slots[place.buffer]] = address(own)

    def array(self, x: Place) -> np.ndarray:
        """An array on memory that a place lies in."""
        start = self.base[self.code.slots[x.buffer]] + x.buffer.offset + x.offset
        return array_at(start, x.shape, x.strides, x.dtype)


def maker(x: Place) -> tuple[Any, Any, np.dtype]:
    """A function that makes new memory with the layout of x, and its arguments."""
    if x.is_contiguous:
        return (empty if nbytes(x) < POOLED_FROM else memory.empty), x.shape, x.dtype
    order = tuple(sorted(range(len(x.shape)), key=lambda k: -x.strides[k]))
    return (lambda shape, dtype: turned(shape, dtype, order)), x.shape, x.dtype
