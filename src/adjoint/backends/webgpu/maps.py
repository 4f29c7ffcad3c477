"""Kernels without reductions, lowered: programs that compute each element by itself."""

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...kernels.language import TYPES, Kernel, element
from ...kernels.wgsl import Loops, render
from ..launches import Number, View
from ..spaces import Axes, Ints, axis_order, merged, steps_in
from .arrays import broadcast_shape, contiguous, number_word
from .lowering import ProgramLowering
from .programs import Program

WIDTH = 64  # invocations of a workgroup
MOST_GROUPS = 4096  # each invocation takes several elements beyond that


def lower_map(
    to: ProgramLowering,
    kernel: Kernel,
    views: Sequence[View],
    outputs: Sequence[View] | None = None,
    numbers: Mapping[int, Any] | None = None,
) -> Sequence[View]:
    """Launch a kernel on the elements of views that broadcast. `numbers`: those that are known."""
    shape = broadcast_shape([x.shape for x in views])
    steps = [steps_in(x, shape) for x in views]
    order = axis_order(shape, steps)
    if outputs is None:
        strides = laid_out(shape, order)
        outputs = [to.result(shape, out.type.dtype, strides) for out in kernel.outputs]
    steps = [*(steps[k] for k in sorted(kernel.sources)), *(out.strides for out in outputs)]
    axes = merged([shape[k] for k in order], [[s[k] for k in order] for s in steps])
    flat = len(axes.sizes) < 2 and all(not s or s[0] == 1 for s in axes.steps)
    size = math.prod(shape)
    groups = min(-(-size // WIDTH), MOST_GROUPS)
    words = {"count": size, "step": groups * WIDTH}
    if not flat:
        words |= axis_words("outer", axes, array_names(kernel))
    loops = Loops(outer=0 if flat else len(axes.sizes), flat=flat)
    launch_kernel(to, kernel, loops, WIDTH, groups, views, outputs, numbers, words)
    return outputs


def launch_kernel(
    to: ProgramLowering,
    kernel: Kernel,
    loops: Loops,
    width: int,
    groups: int,
    views: Sequence[View],
    outputs: Sequence[View],
    numbers: Mapping[int, Any] | None,
    words: dict[str, Any],
) -> None:
    """Launch the program of a kernel. `words`: those of the loops."""
    used = sorted(kernel.sources)
    goals = {to.memory_of(out): n for n, out in enumerate(outputs)}
    within = {k: goals[to.memory_of(views[k])] for k in used if to.memory_of(views[k]) in goals}
    program, constants = program_of(kernel, loops._replace(shared=tuple(within.items())), width)
    arrays = [*(views[k] for k in used), *outputs]
    starts = {f"at_{name}": x for name, x in zip(array_names(kernel), arrays, strict=True)}
    known = numbers or {}
    values = {
        f"n{k}": word_of(known[k], type.dtype) if k in known else Number(k, type.dtype)
        for k, type in kernel.scalars.items()
    }
    bound = [*(views[k] for k in used if k not in within), *outputs]
    to.launch(program, groups, *bound, **words, **starts, **values, **constants)


def word_of(number: Any, dtype: np.dtype) -> Any:
    return number if isinstance(number, Number) else number_word(number, dtype)


def array_names(kernel: Kernel) -> list[str]:
    """What a kernel's arrays are called in its program."""
    outputs = range(len(kernel.outputs))
    return [*(f"x{k}" for k in sorted(kernel.sources)), *(f"out{n}" for n in outputs)]


def axis_words(prefix: str, axes: Axes, arrays: Sequence[str]) -> dict[str, int]:
    words = {f"{prefix}{a}_size": size for a, size in enumerate(axes.sizes)}
    for array, steps in zip(arrays, axes.steps, strict=True):
        words |= {f"{prefix}{a}_{array}": step for a, step in enumerate(steps)}
    return words


@functools.cache
def program_of(kernel: Kernel, loops: Loops, width: int) -> tuple[Program, dict[str, float]]:
    """The program of a kernel, and the words in it that are always the same."""
    text = render(kernel, loops, width)
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


def copy(to: ProgramLowering, target: View, x: View) -> None:
    """Copy x, which may broadcast, to the places of another view, in memory of its own."""
    wide = x.view(target.shape, steps_in(x, target.shape))
    lower_map(to, copier(x.dtype), [wide], [target])


def as_contiguous(to: ProgramLowering, x: View) -> View:
    """x with its elements one after the other: a copy, if they aren't."""
    if to.is_contiguous(x):
        return x.view(x.shape, contiguous(x.shape))
    out = to.temporary(x.shape, x.dtype)
    copy(to, out, x)
    return out
