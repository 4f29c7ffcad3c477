"""Elementwise kernels on arrays of any layout, lowered to launches, and run."""

import math
import struct
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ....kernels.frame import Layout
from ....kernels.language import Kernel
from ....kernels.llvm import render
from ...spaces import Ints, axis_order, merged, steps_in
from ..jit.addresses import address
from ..jit.compiler import compiled
from ..jit.memory import empty
from ..jit.threads import run

CHUNK = 1 << 14  # elements
STREAMED = 1 << 23  # bytes of an output, from which on it is written past the caches
LINE = 64  # bytes
MOST_LAUNCHES = 256  # of one kernel
FORMATS = {"f2": "e6x", "f4": "f4x", "f8": "d", "b1": "?7x"}


class Launch(NamedTuple):
    """A kernel for arrays of certain shapes and strides; addresses and numbers are missing.

    `past`: the kernel that writes its outputs past the caches, or 0.
    """

    kernel: int
    past: int
    words: array
    places: list[int]  # of the addresses among the words
    chunks: int
    order: list[int] | None  # of the axes of outputs in memory, if it isn't that of the axes
    outputs: list[tuple[Ints, np.dtype]]


class Launcher:
    """Runs a kernel: keeps its machine code for each layout, and launches for shapes it has met.

    It takes arrays only, also for single numbers.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.dtypes = [out.type.dtype for out in kernel.outputs]
        self.addresses: dict[Layout, int] = {}
        self.launches: dict[tuple, Launch] = {}
        widest = max((v.type.bits for v in kernel.values if v.op != "constant"), default=32)
        self.lanes = 8 if widest == 64 else 16
        self.chunk = CHUNK if len(kernel.values) < 24 else CHUNK // 4
        self.used = sorted(kernel.sources)
        self.numbers = sorted(kernel.scalars)

    def map(
        self,
        arrays: Sequence[np.ndarray],
        numbers: Sequence[Any] = (),
        outputs: Sequence[np.ndarray | None] | None = None,
    ) -> list[np.ndarray]:
        """The outputs of a kernel without reductions, in new memory or in that of arrays."""
        key = layout_key(arrays, outputs)
        launch = self.launches.get(key)
        if launch is None:
            launch = self.keep(key, self.lower_map(arrays, outputs))
        return self.run(launch, arrays, numbers, outputs)

    def keep(self, key: tuple, launch: Launch) -> Launch:
        if len(self.launches) >= MOST_LAUNCHES:
            self.launches.clear()
        self.launches[key] = launch
        return launch

    def run(
        self,
        launch: Launch,
        arrays: Sequence[np.ndarray],
        numbers: Sequence[Any],
        outputs: Sequence[np.ndarray | None] | None,
    ) -> list[np.ndarray]:
        if outputs is None and launch.order is None:
            results = [empty(shape, dtype) for shape, dtype in launch.outputs]
        else:
            results = completed(launch, outputs)
        if len(self.used) < len(arrays):
            arrays = [arrays[k] for k in self.used]
        words, aligned = launch.words[:], 0
        places = iter(launch.places)
        for x in arrays:
            words[next(places)] = address(x)
        for out in results:
            start = words[next(places)] = address(out)
            aligned |= start
        for k in self.numbers:
            words.append(word_of(numbers[k], self.kernel.scalars[k].dtype))
        past = launch.past if outputs is None and not aligned % LINE else 0
        run(past or launch.kernel, words.buffer_info()[0], launch.chunks)
        return results

    def lower_map(
        self, arrays: Sequence[np.ndarray], outputs: Sequence[np.ndarray | None] | None
    ) -> Launch:
        """Lower a kernel without reductions to a launch."""
        shape = np.broadcast_shapes(*(x.shape for x in arrays))
        steps = [steps_in(x, shape) for x in arrays]
        order = axis_order(shape, steps)
        shapes = [shape for _ in self.dtypes]
        steps = [steps[k] for k in self.used]
        steps += steps_of_outputs(outputs or [None] * len(shapes), shapes, self.dtypes, order)
        axes = merged([shape[k] for k in order], [[s[k] for k in order] for s in steps])
        axes = axes.with_longest_last() if axes.sizes and axes.sizes[-1] < self.lanes else axes
        *outer, columns = axes.sizes or [1]
        rows = math.prod(outer)
        row_step, column_step = max(1, self.chunk // max(columns, 1)), min(columns, self.chunk)
        parts = -(-columns // max(column_step, 1))
        sizes = [arrays[k].itemsize for k in self.used] + [t.itemsize for t in self.dtypes]
        words, places, access = [rows, columns, row_step, column_step, parts, *outer], [], ""
        for size, strides in zip(sizes, axes.steps, strict=True):
            step = strides[-1] if strides else size  # a single element: nothing follows it
            access += "c" if step == size else "b" if not step else "s"
            places.append(len(words))
            words += (0, step, *strides[:-1])
        layout = Layout(access, len(outer), lanes=self.lanes)
        chunks = -(-rows // row_step) * parts
        past = self.past(layout, columns) if outputs is None and not outer else 0
        return self.launch_of(layout, past, words, places, chunks, order, shapes)

    def launch_of(
        self,
        layout: Layout,
        past: int,
        words: list[int],
        places: list[int],
        chunks: int,
        order: list[int],
        shapes: list[Ints],
    ) -> Launch:
        outputs = list(zip(shapes, self.dtypes, strict=True))
        turned = order if order != sorted(order) else None
        kernel = self.address(layout)
        return Launch(kernel, past, array("q", words), places, chunks, turned, outputs)

    def past(self, layout: Layout, columns: int) -> int:
        """The kernel that writes past the caches, if outputs are so large that this is better."""
        count = len(self.used)
        if layout.access[count:] != "c" * len(self.dtypes):
            return 0
        if any(columns * t.itemsize < STREAMED for t in self.dtypes):
            return 0
        if any(self.lanes * t.itemsize != LINE for t in self.dtypes):
            return 0
        return self.address(layout._replace(access=layout.access[:count] + "n" * len(self.dtypes)))

    def address(self, layout: Layout) -> int:
        found = self.addresses.get(layout)
        if found is None:
            found = self.addresses[layout] = compiled(*render(self.kernel, layout))
        return found


def completed(launch: Launch, outputs: Sequence[np.ndarray | None] | None) -> list[np.ndarray]:
    """The outputs, in new memory where none is given."""
    outputs = outputs or [None] * len(launch.outputs)
    return [
        laid_out(shape, dtype, launch.order) if out is None else out
        for out, (shape, dtype) in zip(outputs, launch.outputs, strict=True)
    ]


def layout_key(
    arrays: Sequence[np.ndarray], outputs: Sequence[np.ndarray | None] | None, *more: Any
) -> tuple:
    """What a launch depends on."""
    key: list[Any] = [*more]
    for x in arrays:
        key += (x.shape, x.strides)
    for out in outputs or ():
        key.append(None if out is None else out.strides)
    return tuple(key)


def steps_of_outputs(
    outputs: Sequence[np.ndarray | None],
    shapes: list[Ints],
    dtypes: list[np.dtype],
    order: list[int],
) -> list[Ints]:
    """The strides of outputs, also of those that are yet to be made."""
    return [
        laid_out(shape, dtype, order).strides if out is None else out.strides
        for out, shape, dtype in zip(outputs, shapes, dtypes, strict=True)
    ]


def laid_out(shape: Ints, dtype: np.dtype, order: list[int] | None) -> np.ndarray:
    """New memory whose axes lie in some order."""
    if order is None or order == sorted(order):
        return empty(shape, dtype)
    turned = empty(tuple(shape[k] for k in order), dtype)
    return turned.transpose(np.argsort(order))


def word_of(number: Any, dtype: np.dtype) -> int:
    """A number as 64 bits of which the first are its own; infinite where it is too large."""
    if dtype.kind not in "fb":
        return int(number)
    form = "<" + FORMATS[dtype.str[1:]]
    try:
        packed = struct.pack(form, number)
    except OverflowError:
        packed = struct.pack(form, math.copysign(math.inf, number))
    return struct.unpack("<q", packed)[0]
