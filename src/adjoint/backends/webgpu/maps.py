"""Kernels without reductions, lowered: programs that compute each element by itself."""

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ...kernels.language import TYPES, Kernel, element
from ...kernels.wgsl import Loops, render
from ..launches import Number, View
from ..spaces import Axes, Ints, axis_order, merged, steps_in
from .arrays import broadcast_shape, contiguous, number_word
from .lowering import Programs
from .programs import Program

WIDTH = 64  # invocations of a workgroup
Views = Sequence[View]
Known = Mapping[int, Any]  # numbers, by their positions
NONE: Known = MappingProxyType({})
MOST_GROUPS = 4096  # each invocation takes several elements beyond that


class KernelCall(NamedTuple):
    """A kernel on views; `numbers`: those that are known."""

    to: Programs
    kernel: Kernel
    views: Views
    outputs: Views
    numbers: Known

    @property
    def arrays(self) -> dict[str, View]:
        """Inputs and outputs, by their names in the program."""
        inputs = {f"x{k}": self.views[k] for k in sorted(self.kernel.sources)}
        return inputs | {f"out{n}": out for n, out in enumerate(self.outputs)}

    def launch(self, loops: Loops, width: int, groups: int, words: dict[str, Any]) -> None:
        """Launch the kernel's program; `words`: those of the loops."""
        to, kernel, arrays = self.to, self.kernel, self.arrays
        goals = {to.memory_of(out): n for n, out in enumerate(self.outputs)}
        found = {k: goals.get(to.memory_of(self.views[k])) for k in sorted(kernel.sources)}
        shared = {k: n for k, n in found.items() if n is not None}
        program, constants = program_of(kernel, loops._replace(shared=tuple(shared.items())), width)
        starts = {f"at_{name}": x for name, x in arrays.items()}
        numbers = {f"n{k}": self.number(k, type.dtype) for k, type in kernel.scalars.items()}
        bound = [arrays[name] for name in program.arrays]
        to.launch(program, groups, *bound, **words, **starts, **numbers, **constants)

    def number(self, k: int, dtype: np.dtype) -> Any:
        """What is known of a number: itself, or where the run has it."""
        number = self.numbers.get(k, Number(k, dtype))
        return number if isinstance(number, Number) else number_word(number, dtype)


def lower_map(
    to: Programs, kernel: Kernel, views: Views, outputs: Views | None = None, numbers: Known = NONE
) -> None:
    """Launch a kernel on the elements of views that broadcast."""
    shape = broadcast_shape([x.shape for x in views])
    order = axis_order(shape, [steps_in(x, shape) for x in views])
    if outputs is None:
        strides = laid_out(shape, order)
        outputs = [to.result(shape, out.type.dtype, strides) for out in kernel.outputs]
    call = KernelCall(to, kernel, views, outputs, numbers)
    steps = [steps_in(x, shape) for x in call.arrays.values()]
    axes = merged([shape[k] for k in order], [[s[k] for k in order] for s in steps])
    flat = len(axes.sizes) < 2 and all(not s or s[0] == 1 for s in axes.steps)
    size = math.prod(shape)
    groups = min(-(-size // WIDTH), MOST_GROUPS)
    words = {"count": size, "step": groups * WIDTH}
    if not flat:
        words |= axis_words("outer", axes, call.arrays)
    call.launch(Loops(0 if flat else len(axes.sizes), flat=flat), WIDTH, groups, words)


def axis_words(prefix: str, axes: Axes, arrays: Iterable[str]) -> dict[str, int]:
    words = {f"{prefix}{a}_size": size for a, size in enumerate(axes.sizes)}
    for array, steps in zip(arrays, axes.steps, strict=True):
        words |= {f"{prefix}{a}_{array}": step for a, step in enumerate(steps)}
    return words


@functools.cache
def program_of(kernel: Kernel, loops: Loops, width: int) -> tuple[Program, dict[str, float]]:
    """The program of a kernel, and the words in it that are always the same."""
    text, name = render(kernel, loops, width), "rows" if kernel.reduces else "elements"
    program = Program(name, text.arrays, text.words, text.body, text.declarations, width)
    return program, text.constants


def laid_out(shape: Ints, order: Sequence[int]) -> Ints:
    """The strides of an array without gaps whose axes lie in some order."""
    strides, step = [0] * len(shape), 1
    for k in reversed(order):
        strides[k] = step
        step *= shape[k]
    return tuple(strides)


@functools.cache
def copier(dtype: np.dtype) -> Kernel:
    return Kernel((element(0, TYPES[dtype]),))


def copy(to: Programs, target: View, x: View) -> None:
    """Copy x, which may broadcast, to the places of another view, in memory of its own."""
    wide = x.view(target.shape, steps_in(x, target.shape))
    lower_map(to, copier(x.dtype), [wide], [target])


def as_contiguous(to: Programs, x: View) -> View:
    """x with its elements one after the other: a copy, if they aren't."""
    if to.is_contiguous(x):
        return x.view(x.shape, contiguous(x.shape))
    out = to.temporary(x.shape, x.dtype)
    copy(to, out, x)
    return out
