"""Cholesky factors, and choices that factors leave.

Where a matrix isn't positive definite there are NaNs; the error is raised when data is next read.
"""

import math

import numpy as np

from ..._foundation.errors import AdjointError
from ..launches import View
from . import elimination, host
from .arrays import Array, Ints, broadcast_shape
from .launcher import contiguous_copy
from .lowering import ProgramLowering, on_arrays
from .programs import Program
from .solving import copied_unless, no_gradient, over
from .stacks import LARGEST, place, stacked, step_words, steps, turned
from .status import WORD, refusal
from .table import KERNELS, kernel
from .triangles import with_image

SPOIL = Program(
    "spoil",
    {"found": "u32"},
    {"out": "f32"},
    "size each nan:f32",
    """
    let e = group * 256u + lane;
    if (e < p.size && found[e / p.each] != 0u) { out[e] = p.nan; }
    """,
    workgroup=256,
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


@kernel
def cholesky(x: Array) -> Array:
    out = KERNELS["triangle"](x, k=0, upper=False)
    if x.size:
        matrices = stacked(out)
        found = x.gpu.empty((len(matrices),), WORD)
        elimination.cholesky(matrices, found)
        each = out.shape[-1] ** 2
        if each > elimination.BLOCK**2:
            words = {"size": out.size, "each": each, "nan": math.nan}
            x.gpu.launch(SPOIL, -(-out.size // 256), found, out, **words)
        x.gpu.status.report(found, not_definite, x.shape)
    return out


@kernel
def cholesky_gradient(dout: Array, out: Array) -> Array:
    upper, solve = turned(out), KERNELS["solve_triangular"]
    inner = KERNELS["mirrored"](KERNELS["matmul"](upper, dout))
    half = solve(upper, inner, upper=True, unit=False)
    whole = solve(upper, turned(half), upper=True, unit=False)
    return mirrored_half(whole)


@on_arrays
def mirrored_half(to: ProgramLowering, x: View) -> None:
    with_image(to, "mirrored_half", "0.5 * select(own, image, column > row)", x)


def largest(name: str) -> str:
    """The largest absolute value in a matrix, as bits: NaNs are larger than all."""
    width = f"p.{name}_columns"
    return f"""
    for (var e = lane; e < p.{name}_rows * {width}; e += 64u) {{
        let value = {name}[{place(name, "group", f"e / {width}", f"e % {width}")}];
        atomicMax(&{name}_size, bitcast<u32>(value) & 0x7fffffffu);
    }}
    """


GAUGE = Program(
    "gauge",
    {"free": "f32", "scale": "f32"},
    {"found": "u32"},
    f"count limit:f32 free_rows free_columns scale_rows scale_columns {steps('free', 'scale')}",
    f"""
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
    }}
    """,
    declarations="""
var<workgroup> free_size: atomic<u32>;
var<workgroup> scale_size: atomic<u32>;
""",
)


@kernel
def gauge(x: Array, free: Array, scale: Array, *, asked: str) -> Array:
    if max(*free.shape[-2:], *scale.shape[-2:]) > LARGEST:
        return host.function("gauge")(x, free, scale, asked=asked)
    batch = broadcast_shape([free.shape[:-2], scale.shape[:-2]])
    free, scale = over(free, batch), over(scale, batch)
    found = x.gpu.empty((len(free),), WORD)
    limit = float(np.sqrt(np.finfo(x.dtype).eps))
    words = {"count": len(free), "limit": limit, **step_words(free=free, scale=scale)}
    words |= {"free_rows": free.shape[1], "free_columns": free.shape[2]}
    words |= {"scale_rows": scale.shape[1], "scale_columns": scale.shape[2]}
    x.gpu.launch(GAUGE, len(free), free, scale, found, **words)
    first = x.gpu.status.report(found, no_gradient, asked)
    row = contiguous_copy(x).view((1, 1, x.size), (x.size, x.size, 1))
    return copied_unless(first, row, x.shape)
