"""Ops as launches of programs: what lowering functions are given, and the table of them.

    @lowering
    def double(to: Programs, x: View) -> None:
        x = as_contiguous(to, x)
        out = to.result(x.shape, x.dtype)
        to.launch(DOUBLE, -(-x.size // 64), x, out, count=x.size)

A lowering function has the name of its op, and takes views where the op has arrays. The function on
arrays follows from it: it keeps launches for arrays of the same layouts, and runs them.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...kernels.ops import Unsupported
from ..launches import Cache, Launch, Layout, Lowering, Number, Status, Target, View
from ..spaces import Ints
from . import host
from .arrays import SIZES, WGSL, Array, in_memory
from .fills import fill
from .programs import Program, wgsl
from .status import REPORT, STATUS, WORD
from .table import FUNCTIONS

NOTHING = wgsl("nothing", "->", "")("")
IN_RANGE = Status(-1, None)  # indices are looked at: what is wrong with one has words of its own


@dataclass(frozen=True, slots=True)
class Shared(Layout):
    """An operand in the memory of a result, which overwrites it."""

    result: int = 0


class Programs(Lowering):
    """Launches of programs. `within`: slots of operands that are in the memory of a result, and the
    slots of those."""

    def __init__(self, layouts: Sequence[Layout | None], target: Target) -> None:
        super().__init__(layouts, target)
        given = [x for x in layouts if x is not None]
        for x in given:
            self.check(x.dtype)
        shared = [(k, x.result) for k, x in enumerate(given) if isinstance(x, Shared)]
        self.within = {k: self.given + result for k, result in shared}

    def step(self, dtype: np.dtype) -> int:
        return 1

    def nbytes(self, shape: Ints, dtype: np.dtype) -> int:
        return math.prod(shape) * SIZES[dtype]

    def check(self, dtype: np.dtype) -> None:
        if dtype not in SIZES or (WGSL[dtype] == "f16" and "f16" not in self.target.features):
            raise Unsupported(f"{self.target.device} has no {dtype.name}")

    def result(self, shape: Ints, dtype: np.dtype, strides: Ints | None = None) -> View:
        self.check(dtype)
        return super().result(shape, dtype, strides)

    def temporary(self, shape: Ints, dtype: np.dtype, zeroed: bool = False) -> View:
        """Scratch memory for an array, whose elements follow each other; `zeroed` by a launch."""
        out = super().temporary(shape, dtype)
        if zeroed:
            fill(self, out)
        return out

    def memory_of(self, x: View) -> int:
        """The slot whose memory is bound for a view."""
        return self.within.get(x.slot, x.slot)

    def launch(self, program: Program, groups: int, /, *arrays: View | int, **words: Any) -> None:
        """Append a launch with its arrays in order, STATUS among them, and its words by name.

        A word may be a Number, which the run is given, or a view: where that begins.
        """
        if not groups:
            return
        for start, x in zip(program.starts, arrays, strict=True):
            if start is not None:
                words |= {start: x}
            elif isinstance(x, View):
                assert x.slot >= self.given and not x.offset, f"{program.name} has no word for it"
        values, addresses, numbers = program.in_order(words), [], []
        for k, value in enumerate(values):
            if isinstance(value, Number):
                numbers.append((k, value))
                values[k] = 0
            elif isinstance(value, View):
                if value.slot < self.given + len(self.results):
                    addresses.append((k, value.slot, value.offset))
                values[k] = value.offset
        overwrites = tuple([(out - self.given, x) for x, out in self.within.items()])
        status = IN_RANGE if STATUS in arrays else None
        bound = tuple([x if isinstance(x, int) else self.memory_of(x) for x in arrays])
        one = Launch(program, program.pack(*values), tuple(addresses), tuple(numbers), groups)
        self.launches.append(one._replace(overwrites=overwrites, status=status, bound=bound))

    def launch_each(
        self, program: Program, size: int, /, *arrays: View | int, **words: Any
    ) -> None:
        """Append a launch of a program `per_element`, for `size` of them."""
        self.launch(program, -(-size // program.workgroup), *arrays, size=size, **words)

    def report(self, found: View, describe: Callable[..., Exception], *args: Any) -> View:
        """Raise `describe(*args, index, word)` when data is next read, if a word isn't 0.

        Returns the first such word, or 0, as an array of one element.
        """
        first = self.temporary((1,), WORD)
        self.launch(REPORT, 1, found, STATUS, first, count=found.size, place=0)
        status = Status(REPORT.words.index("place"), (describe, *args))
        self.launches[-1] = self.launches[-1]._replace(status=status)
        return first

    def finished(self) -> tuple[Launch, ...]:
        if not self.launches:  # there are no elements; results are made all the same
            self.launches = [Launch(NOTHING, b"", (), (), 0)]
        self.reuse_scratch()
        return super().finished()

    def reuse_scratch(self) -> None:
        """Let launches have scratch memory of the same size that those before are done with."""
        start, scratch = self.given + len(self.results), self.scratch
        last = {slot: k for k, one in enumerate(self.launches) for slot in one.bound}
        self.scratch, idle, slots = [], defaultdict(list), {}
        for k, one in enumerate(self.launches):
            used = [slot for slot in one.bound if slot >= start]
            for slot in used:
                if slot not in slots:
                    size = scratch[slot - start]
                    if not idle[size]:
                        idle[size].append(start + len(self.scratch))
                        self.scratch.append(size)
                    slots[slot] = idle[size].pop()
            for slot in {*used}:
                if last[slot] == k:
                    idle[scratch[slot - start]].append(slots[slot])
            bound = tuple([slots.get(slot, slot) for slot in one.bound])
            self.launches[k] = one._replace(bound=bound)


LOWERINGS: dict[str, Callable[..., None]] = {}


def lowering(function: Callable[..., None]) -> Callable[..., None]:
    """Enter a lowering function, and the function on arrays that follows from it."""
    enter(function.__name__, function)
    return function


def enter(name: str, function: Callable[..., None]) -> None:
    """The same under a name."""
    LOWERINGS[name] = function
    FUNCTIONS[name] = on_arrays(function, name)


def lower(
    op: str, layouts: Sequence[Layout | None], attrs: Mapping[str, Any], target: Target
) -> tuple[Launch, ...] | None:
    """The launches of an op for arrays of certain layouts; None where no program computes it."""
    function = LOWERINGS.get(op)
    try:
        return function and lowered(function, Programs(layouts, target), attrs)
    except Unsupported:
        return None


def lowered(function: Callable, to: Programs, attrs: Mapping[str, Any]) -> tuple[Launch, ...]:
    function(to, *to.operands, **attrs)
    return to.finished()


def layout_of(x: Array) -> Layout:
    return Layout(x.shape, x.strides, x.dtype, x.offset % 4 == 0)


def on_arrays(function: Callable[..., None], name: str = "") -> Callable[..., Any]:
    """The function on arrays that runs what a lowering function makes for their layouts; what that
    can't make of an op with a name is the host's."""
    cache = Cache()

    def call(*inputs: Array | None, **attrs: Any) -> Any:
        operands: list[Array] = []
        key: list[Any] = []
        for x in inputs:
            if x is None:
                key.append(None)
                continue
            if x.number is not None:
                x = in_memory(x)
            operands.append(x)
            key += (x.shape, x.strides, x.dtype, not x.offset % 4)
        gpu = operands[0].gpu
        key.append(gpu.target)
        count = len(key)
        for item in attrs.items():  # 0.0 and -0.0 are equal
            key.append(repr(item) if isinstance(item[1], (float, np.floating)) else item)
        identity = tuple(key)
        try:
            launches = cache[identity]
        except TypeError:  # before Python 3.12, slices have no hash
            identity = (*key[:count], repr(attrs))
            launches = cache[identity]
        if launches is None:
            layouts = [x if x is None else layout_of(x) for x in inputs]
            try:
                launches = lowered(function, Programs(layouts, gpu.target), attrs)
                cache.keep(identity, launches)
            except Unsupported:
                return host.function(name)(*inputs, **attrs)
        results = gpu.run(launches, operands)
        return results[0] if len(results) == 1 else tuple(results)

    return call
