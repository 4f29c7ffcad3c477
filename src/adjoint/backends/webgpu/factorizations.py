"""Cholesky factors, and choices that factors leave.

Where a matrix isn't positive definite there are NaNs; the error is raised when data is next read.
"""

import numpy as np

from ..._foundation.errors import AdjointError
from ...kernels.language import F32, U32, Kernel, convert, element, equal, scalar
from ..launches import View
from . import elimination
from .arrays import Ints, broadcast_shape
from .lowering import Programs, lowering
from .maps import as_contiguous, lower_map
from .matmul import multiply
from .solving import copy_unless, magnitudes, no_gradient, solve_triangles
from .stacks import over, stacked
from .status import WORD, refusal
from .triangles import MIRRORED, MIRRORED_HALF, keep_triangle, mirror


def not_definite(shape: Ints, index: int, word: int) -> AdjointError:
    order = word & 0x7FFFFFFF
    if order != word:
        return refusal("cholesky", shape, index, "has NaNs or infinities in it")
    complaint = (
        f"isn't positive definite: its leading minor of order {order} isn't; add a small multiple "
        "of the identity if it should be"
    )
    return refusal("cholesky", shape, index, complaint)


@lowering
def cholesky(to: Programs, x: View) -> None:
    out = to.result(x.shape, x.dtype)
    if x.size:
        keep_triangle(to, out, x, 0, False)
        matrices = stacked(to, out)
        found = to.temporary((matrices.shape[0],), WORD)
        elimination.cholesky(to, matrices, found)
        if out.shape[-1] > elimination.BLOCK:
            copy_unless(to, out, found, matrices)
        to.report(found, not_definite, x.shape)


@lowering
def cholesky_gradient(to: Programs, dout: View, out: View) -> None:
    g, upper = to.result(out.shape, out.dtype), out.swapped()
    product, inner, half, whole = (to.temporary(out.shape, out.dtype) for _ in range(4))
    multiply(to, product, upper, dout)
    mirror(to, inner, product, MIRRORED)
    solve_triangles(to, half, upper, inner, upper=True)
    solve_triangles(to, whole, upper, half.swapped(), upper=True)
    mirror(to, g, whole, MIRRORED_HALF)


def gauging() -> Kernel:
    """Whether a number is larger than a part of another, both being numbers."""
    size, most = element(0, F32), element(1, F32) * scalar(0, F32)
    return Kernel((convert((size > most) & equal(size, size) & equal(most, most), U32),))


GAUGE = gauging()


@lowering
def gauge(to: Programs, x: View, free: View, scale: View, *, asked: str) -> None:
    out = to.result(x.shape, x.dtype)
    batch = broadcast_shape([free.shape[:-2], scale.shape[:-2]])
    known = [magnitudes(to, "max", over(to, y, batch), 1, 2) for y in (free, scale)]
    found = to.temporary(known[0].shape, WORD)
    lower_map(to, GAUGE, known, [found], numbers={0: float(np.sqrt(np.finfo(x.dtype).eps))})
    first = to.report(found, no_gradient, asked)
    copy_unless(to, out, first, as_contiguous(to, x).view((1, 1, x.size), (x.size, x.size, 1)))
