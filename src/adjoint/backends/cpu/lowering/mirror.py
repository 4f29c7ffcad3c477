"""Mirror images of square matrices."""

import math
from collections.abc import Callable

from ....kernels import mirror as templates
from ....kernels.ops import Unsupported
from ...launches import View
from ...spaces import merged
from .maps import as_contiguous
from .native import FLOATS, NativeLowering, Words, chunks_of, kernel_of


def lower_mirror(to: NativeLowering, template: Callable, x: View) -> None:
    if x.dtype not in FLOATS or not x.size or x.shape[-1] != x.shape[-2]:
        raise Unsupported(f"mirror images of {x.dtype} {x.shape}")
    out, n = to.result(x.shape, x.dtype), x.shape[-1]
    stack = as_stack(to, x)
    blocks = chunks_of(templates.SIDE, n)
    step, row_step, column_step = (stride // x.itemsize for stride in stack.strides)
    words: Words = dict(x=stack, out=out, n=n, blocks=blocks, row_step=row_step)
    words |= dict(column_step=column_step, step=step)
    to.launch(kernel_of(template, FLOATS[x.dtype]), stack.shape[0] * blocks, words)


def as_stack(to: NativeLowering, x: View) -> View:
    """Matrices with one distance from each to the next, all in whole elements."""
    batch = merged(x.shape[:-2], [x.strides[:-2]])
    if len(batch.sizes) > 1 or not x.aligned or any(step % x.itemsize for step in x.strides):
        return as_stack(to, as_contiguous(to, x))
    step = batch.steps[0][0] if batch.sizes else 0
    return x.view((math.prod(batch.sizes), *x.shape[-2:]), (step, *x.strides[-2:]))


def symmetrized(to: NativeLowering, x: View) -> None:
    lower_mirror(to, templates.symmetrized, x)


def mirrored(to: NativeLowering, x: View) -> None:
    lower_mirror(to, templates.mirrored, x)
