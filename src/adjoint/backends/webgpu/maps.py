"""Kernels of the kernel language on arrays of any layout, lowered to launches, and run.

A launcher has one kernel. For arrays of a certain shape and strides it makes a launch once: which
program runs, the words that don't change, and the outputs. Arrays of one known number are no arrays
to a kernel, but numbers.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._foundation.silence import compute
from ...kernels.language import (
    BOOL,
    F16,
    F32,
    TYPES,
    Kernel,
    Type,
    Value,
    convert,
    element,
    row,
    scalar,
    substituted,
)
from ...kernels.wgsl import Layout, render
from ..spaces import Ints, axis_order, merged, steps_in
from .arrays import SIZES, Array, broadcast_shape, contiguous
from .programs import ROUNDS, Program

WIDTH = 64  # invocations of a workgroup
WIDE = 256  # the same where a workgroup takes a long row
MOST_GROUPS = 4096  # of elementwise kernels: each invocation takes several elements beyond that
MOST_LAUNCHES = 4096
SHORT = 32  # elements of a row, below which one invocation takes it


class ProgramLaunch(NamedTuple):
    """A program for arrays of certain shapes and strides; arrays and numbers are missing."""

    program: Program
    words: list[int]
    constants: tuple[float, ...]
    groups: int
    outputs: list[tuple[Ints, np.dtype, Ints]]  # shapes, dtypes, strides


class Launcher:
    """Runs a kernel: keeps launches for shapes that it has met."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.used = sorted(kernel.sources)
        self.numbers = sorted(kernel.scalars)
        self.dtypes = [out.type.dtype for out in kernel.outputs]
        self.launches: dict[tuple, ProgramLaunch] = {}
        self.variants: dict[tuple[int, ...], tuple[Launcher, int]] = {}

    def map(
        self,
        arrays: Sequence[Array],
        numbers: Sequence[Any] = (),
        outputs: Sequence[Array] | None = None,
    ) -> list[Array]:
        """The outputs of a kernel without reductions, for the elements of arrays that broadcast."""
        return self.run(arrays, None, numbers, outputs)

    def run(
        self,
        arrays: Sequence[Array],
        axis: Ints | None,
        numbers: Sequence[Any],
        outputs: Sequence[Array] | None,
    ) -> list[Array]:
        known = tuple([k for k in self.used if arrays[k].number is not None])
        if known:
            if outputs is None:
                return self.run_with_numbers(known, arrays, axis, numbers)
            arrays = [in_memory(x) for x in arrays]
        first = arrays[0]
        gpu, kind = first.gpu, type(first)
        key: list[Any] = [axis]
        for x in arrays:
            key += (x.shape, x.strides)
        shared: tuple = ()
        if outputs is not None:
            shared = self.shared(arrays, outputs)
            key += (shared, *[out.strides for out in outputs])
        identity = tuple(key)
        launch = self.launches.get(identity)
        if launch is None:
            launch = self.lower(arrays, axis, shared, outputs)
            if len(self.launches) >= MOST_LAUNCHES:
                self.launches.clear()
            self.launches[identity] = launch
        results = (
            [
                kind(shape, dtype, gpu.pool.take(math.prod(shape) * SIZES[dtype]), strides)
                for shape, dtype, strides in launch.outputs
            ]
            if outputs is None
            else list(outputs)
        )
        taken = [arrays[k] for k in self.used]
        words = [*launch.words, *[x.offset for x in taken], *[x.offset for x in results]]
        scalars = self.kernel.scalars
        words += [number_word(numbers[k], scalars[k]) for k in self.numbers]
        words += launch.constants
        inside = [k for k, _ in shared]
        gpu.run(
            launch.program,
            [*[arrays[k] for k in self.used if k not in inside], *results],
            words,
            launch.groups,
        )
        return results

    def shared(
        self, arrays: Sequence[Array], outputs: Sequence[Array]
    ) -> tuple[tuple[int, int], ...]:
        """Which inputs are in an output's memory, and so are overwritten."""
        return tuple(
            (k, n)
            for k in self.used
            for n, out in enumerate(outputs)
            if arrays[k].memory is out.memory
        )

    def run_with_numbers(
        self, known: tuple[int, ...], arrays: Sequence[Array], axis: Ints | None, numbers: Any
    ) -> list[Array]:
        """Run the kernel with numbers in the place of arrays that have one number only."""
        found = self.variants.get(known)
        if found is None:
            start = max(self.numbers, default=-1) + 1
            sources = self.kernel.sources
            changes = {sources[k]: number(start + n, sources[k].type) for n, k in enumerate(known)}
            rest = [k for k in range(len(arrays)) if k not in known]
            for n, k in enumerate(rest):
                source = self.kernel.sources.get(k)
                if source is not None and n != k:
                    changes[source] = source_at(source, n)
            kernel = Kernel(substituted(self.kernel.outputs, changes))
            found = self.variants[known] = type(self)(kernel), start
        launcher, start = found
        rest = [x for k, x in enumerate(arrays) if k not in known]
        if axis is not None or not rest or not is_covered([arrays[k] for k in known], rest):
            solid = [in_memory(x) for x in arrays]
            return self.run(solid, axis, numbers, None)
        given = [*numbers[:start], *[0] * (start - len(numbers))]
        given += [arrays[k].number for k in known]
        return launcher.run(rest, axis, given, None)

    def lower(
        self, arrays: Sequence[Array], axis: Ints | None, shared: tuple, outputs: Any
    ) -> ProgramLaunch:
        strides = None if outputs is None else [out.strides for out in outputs]
        if self.kernel.reduces:
            return self.lower_reduction(arrays, axis or (), shared, strides)
        return self.lower_map(arrays, shared, strides)

    def lower_map(
        self, arrays: Sequence[Array], shared: tuple, strides: list[Ints] | None
    ) -> ProgramLaunch:
        shape = broadcast_shape([x.shape for x in arrays])
        steps = [steps_in(x, shape) for x in arrays]
        order = axis_order(shape, steps)
        strides = strides or [laid_out(shape, order)] * len(self.dtypes)
        steps = [*(steps[k] for k in self.used), *strides]
        axes = merged([shape[k] for k in order], [[s[k] for k in order] for s in steps])
        size = math.prod(shape)
        flat = len(axes.sizes) < 2 and all(not s or s[0] == 1 for s in axes.steps)
        groups = min(-(-size // WIDTH), MOST_GROUPS)
        words = [size, groups * WIDTH]
        if not flat:
            words += axes.sizes
            words += [s for array in axes.steps for s in array]
        layout = Layout(outer=len(axes.sizes), flat=flat, shared=shared)
        if flat:
            layout = Layout(flat=True, shared=shared)
        program, constants = program_of(self.kernel, layout, WIDTH)
        outputs = [(shape, dtype, own) for dtype, own in zip(self.dtypes, strides, strict=True)]
        return ProgramLaunch(program, words, constants, groups, outputs)

    def lower_reduction(
        self, arrays: Sequence[Array], axis: Ints, shared: tuple, strides: list[Ints] | None
    ) -> ProgramLaunch:
        taken = [arrays[k] for k in self.used]
        varies = [self.kernel.sources[k].varies for k in self.used]
        shape = broadcast_shape([x.shape for x, full in zip(taken, varies, strict=True) if full])
        small = tuple([1 if k in axis else n for k, n in enumerate(shape)])
        own = [out.varies for out in self.kernel.outputs]
        shapes = [shape if full else small for full in own]
        strides = strides or [contiguous(one) for one in shapes]
        steps = [
            *(steps_in(x, shape if full else small) for x, full in zip(taken, varies, strict=True)),
            *strides,
        ]
        full = [*varies, *own]
        steps = [
            s if one else [0 if k in axis else n for k, n in enumerate(s)]
            for s, one in zip(steps, full, strict=True)
        ]
        kept = [k for k in range(len(shape)) if k not in axis]
        outer = merged([shape[k] for k in kept], [[s[k] for k in kept] for s in steps])
        inner = merged([shape[k] for k in axis], [[s[k] for k in axis] for s in steps])
        rows, length = math.prod(outer.sizes), math.prod(inner.sizes)
        first = varies.index(True)
        beside = bool(outer.sizes) and abs(outer.steps[first][-1]) == 1 and rows >= WIDTH
        many = length < 1024 or rows >= 16 * WIDE
        side_by_side = beside and many and length < ROUNDS // 8  # a row may be gone over many times
        whole = length >= SHORT and not side_by_side
        width = (WIDE if length > 4 * WIDTH else WIDTH) if whole else WIDTH
        words = [rows, length, *outer.sizes, *inner.sizes]
        for one, two in zip(outer.steps, inner.steps, strict=True):
            words += [*one, *two]
        layout = Layout(len(outer.sizes), len(inner.sizes), False, whole, shared)
        program, constants = program_of(self.kernel, layout, width)
        groups = rows if whole else -(-rows // width)
        outputs = list(zip(shapes, self.dtypes, strides, strict=True))
        return ProgramLaunch(program, words, constants, groups, outputs)


@functools.cache
def program_of(kernel: Kernel, layout: Layout, width: int) -> tuple[Program, tuple[float, ...]]:
    text = render(kernel, layout, width)
    program = Program(
        "rows" if kernel.reduces else "elements",
        text.inputs,
        text.outputs,
        text.words,
        text.body,
        declarations=text.declarations,
        workgroup=width,
    )
    return program, text.constants


def is_covered(numbers: list[Array], rest: list[Array]) -> bool:
    """Whether arrays broadcast to the same shape without the numbers among them."""
    first = rest[0].shape
    if all(x.shape == first for x in rest) and all(x.shape in ((), first) for x in numbers):
        return True
    shape = broadcast_shape([x.shape for x in rest])
    return broadcast_shape([shape, *[x.shape for x in numbers]]) == shape


def source_at(source: Value, position: int) -> Value:
    """The same of another array."""
    return (element if source.op == "element" else row)(position, source.type)


def number(position: int, type: Type) -> Value:
    """A number that stands for the elements of an array: words are never of 16 bits."""
    return convert(scalar(position, F32), F16) if type == F16 else scalar(position, type)


def in_memory(x: Array) -> Array:
    """The same array; not as a number, if it was one."""
    return x if x.number is None else type(x)(x.shape, x.dtype, x.memory, x.strides)


def number_word(number: Any, type: Any) -> Any:
    """A number as it goes into a word; infinite where it is too large."""
    if type.kind == "f":
        return float(compute(np.float32, number))
    if type == BOOL:
        return int(bool(number))
    number = int(number) & 0xFFFFFFFF
    return number - (number >> 31 << 32)


def laid_out(shape: Ints, order: list[int]) -> Ints:
    """The strides of an array without gaps whose axes lie in some order."""
    strides, step = [0] * len(shape), 1
    for k in reversed(order):
        strides[k] = step
        step *= shape[k]
    return tuple(strides)


@functools.cache
def copier(dtype: np.dtype) -> Launcher:
    return Launcher(Kernel((element(0, TYPES[dtype]),)))


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
        copier(x.dtype).map([wide], (), [target])
