"""Cholesky factors, and choices that factors leave.

Where a matrix isn't positive definite there are NaNs; the error is raised when data is next read.
"""

import math

import numpy as np

from ..._foundation.errors import AdjointError
from ..launches import View
from . import elimination
from .arrays import Ints, broadcast_shape
from .lowering import Programs, lowering
from .maps import as_contiguous
from .matmul import multiply
from .programs import per_element, wgsl
from .solving import copy_unless, no_gradient, solve_triangles
from .stacks import check_size, over, place, stacked, step_words, steps
from .status import WORD, refusal
from .triangles import MIRRORED, MIRRORED_HALF, keep_triangle, mirror

SPOIL = per_element("spoil", "found -> out:f32", "each nan:f32")(
    "if (found[at / p.each] != 0u) { out[at] = p.nan; }"
)


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
        matrices, each = stacked(to, out), out.shape[-1] ** 2
        found = to.temporary((matrices.shape[0],), WORD)
        elimination.cholesky(to, matrices, found)
        if each > elimination.BLOCK**2:
            to.launch_each(SPOIL, out.size, found, out, each=each, nan=math.nan)
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


def largest(name: str) -> str:
    """The largest absolute value in a matrix, as bits: NaNs are larger than all."""
    width = f"p.{name}_columns"
    return f"""
    for (var e = lane; e < p.{name}_rows * {width}; e += 64u) {{
        let value = {name}[{place(name, "group", f"e / {width}", f"e % {width}")}];
        atomicMax(&{name}_size, bitcast<u32>(value) & 0x7fffffffu);
    }}
    """


GAUGE = wgsl(
    "gauge",
    "free:f32 scale:f32 -> found",
    f"count limit:f32 free_rows free_columns scale_rows scale_columns {steps('free', 'scale')}",
    declarations="""
var<workgroup> free_size: atomic<u32>;
var<workgroup> scale_size: atomic<u32>;
""",
)(f"""
    if (group >= p.count) {{ return; }}
    if (lane == 0u) {{
        atomicStore(&free_size, 0u);
        atomicStore(&scale_size, 0u);
    }}
    workgroupBarrier();
    {largest("free")}
    {largest("scale")}
    workgroupBarrier();
    if (lane == 0u) {{
        let size = atomicLoad(&free_size);
        let most = bitcast<u32>(p.limit * bitcast<f32>(atomicLoad(&scale_size)));
        found[group] = select(0u, 1u, size <= 0x7f800000u && size > most);
    }}""")


@lowering
def gauge(to: Programs, x: View, free: View, scale: View, *, asked: str) -> None:
    check_size(free, scale)
    out = to.result(x.shape, x.dtype)
    batch = broadcast_shape([free.shape[:-2], scale.shape[:-2]])
    free, scale = over(to, free, batch), over(to, scale, batch)
    count = free.shape[0]
    found = to.temporary((count,), WORD)
    limit = float(np.sqrt(np.finfo(x.dtype).eps))
    words = {"count": count, "limit": limit, **step_words(free=free, scale=scale)}
    words |= {"free_rows": free.shape[1], "free_columns": free.shape[2]}
    words |= {"scale_rows": scale.shape[1], "scale_columns": scale.shape[2]}
    to.launch(GAUGE, count, free, scale, found, **words)
    first = to.report(found, no_gradient, asked)
    copy_unless(to, out, first, as_contiguous(to, x).view((1, 1, x.size), (x.size, x.size, 1)))
