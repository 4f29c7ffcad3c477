"""Kernels of the kernel language on arrays: lowered once for each layout, and run."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...kernels.language import F16, F32, Kernel, Type, Value, convert, scalar, substituted
from ..launches import Cache, Launch
from ..spaces import Ints, steps_in
from .arrays import Array, broadcast_shape, in_memory
from .lowering import Programs, Shared, layout_of
from .maps import copier, lower_map
from .rows import lower_rows, source_at

Arrays = Sequence[Array]
Launches = tuple[Launch, ...]


class Launcher:
    """Runs a kernel: keeps launches for layouts that it has met.

    Arrays of one known number are no arrays to a kernel, but numbers: a variant of it takes those.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.used = sorted(kernel.sources)
        self.launches = Cache()
        self.variants: dict[Ints, tuple[Launcher, int]] = {}

    def map(
        self,
        arrays: Arrays,
        numbers: Sequence[Any] = (),
        outputs: Arrays | None = None,
        axis: Ints | None = None,
    ) -> list[Array]:
        """The outputs of a kernel. `axis`: along which its rows run, if it has reductions; it stays
        as ones in outputs and arrays that have one element for each row."""
        known = tuple([k for k in self.used if arrays[k].number is not None])
        if known:
            if outputs is None:
                return self.map_with_numbers(known, arrays, numbers, axis)
            arrays = [in_memory(x) for x in arrays]
        key: list[Any] = [axis]
        for x in arrays:
            key += (x.shape, x.strides)
        if outputs is not None:
            for out in outputs:
                key += (out.strides, *[k for k in self.used if arrays[k]._memory is out._memory])
        identity = tuple(key)
        launches = self.launches[identity]
        if launches is None:
            launches = self.launches.keep(identity, self.lower(arrays, axis, outputs))
        return arrays[0].gpu.run(launches, arrays, numbers, outputs)

    def lower(self, arrays: Arrays, axis: Ints | None, outputs: Arrays | None) -> Launches:
        layouts = [layout_of(x) for x in arrays]
        for n, out in enumerate(outputs or ()):
            for k in self.used:
                x = arrays[k]
                if x.memory is out.memory:
                    layouts[k] = Shared(x.shape, x.strides, x.dtype, result=n)
        to = Programs(layouts, arrays[0].gpu.target)
        goals = [to.result(out.shape, out.dtype, out.strides) for out in outputs or ()] or None
        views: Any = to.operands
        if self.kernel.reduces:
            lower_rows(to, self.kernel, views, axis or (), goals)
        else:
            lower_map(to, self.kernel, views, goals)
        return to.finished()

    def map_with_numbers(
        self, known: Ints, arrays: Arrays, numbers: Sequence[Any], axis: Ints | None
    ) -> list[Array]:
        """Run the kernel with numbers in the place of arrays that have one number only."""
        rest = [x for k, x in enumerate(arrays) if k not in known]
        if axis is not None or not rest or not is_covered([arrays[k] for k in known], rest):
            return self.map([in_memory(x) for x in arrays], numbers, None, axis)
        launcher, start = self.variants.get(known) or self.variant(known, len(arrays))
        given = [*numbers[:start], *[0] * (start - len(numbers))]
        given += [arrays[k].number for k in known]
        return launcher.map(rest, given, None, axis)

    def variant(self, known: Ints, count: int) -> "tuple[Launcher, int]":
        """The launcher for numbers in the place of some of `count` arrays, and which they are."""
        sources, start = self.kernel.sources, max(self.kernel.scalars, default=-1) + 1
        changes = {sources[k]: number(start + n, sources[k].type) for n, k in enumerate(known)}
        rest = [k for k in range(count) if k not in known]
        for n, k in enumerate(rest):
            source = sources.get(k)
            if source is not None and n != k:
                changes[source] = source_at(source, n)
        kernel = Kernel(substituted(self.kernel.outputs, changes))
        return self.variants.setdefault(known, (Launcher(kernel), start))


def is_covered(numbers: list[Array], rest: list[Array]) -> bool:
    """Whether arrays broadcast to the same shape without the numbers among them."""
    first = rest[0].shape
    if all(x.shape == first for x in rest) and all(x.shape in ((), first) for x in numbers):
        return True
    shape = broadcast_shape([x.shape for x in rest])
    return broadcast_shape([shape, *[x.shape for x in numbers]]) == shape


def number(position: int, type: Type) -> Value:
    """A number that stands for the elements of an array: words are never of 16 bits."""
    return convert(scalar(position, F32), F16) if type == F16 else scalar(position, type)


@functools.cache
def copies(dtype: np.dtype) -> Launcher:
    return Launcher(copier(dtype))


def contiguous_copy(x: Array) -> Array:
    """x with its elements one after the other, from the start of its memory."""
    if x.number is None and x.offset == 0 and x.is_contiguous:
        return x
    out = x.gpu.empty(x.shape, x.dtype)
    copy_into(out, x)
    return out


def copy_into(target: Array, x: Array) -> None:
    """Copy x, which may broadcast, to the places of another array in memory of its own."""
    if target.size:
        wide = in_memory(x).view(target.shape, steps_in(x, target.shape))
        copies(x.dtype).map([wide], (), [target])
