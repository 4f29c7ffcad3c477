"""Pooling: the largest element or the sum of each window, and the gradient of sums.

An invocation has one element of the output, and walks over its window, or over the windows that
have it. Where that is many more elements than the window has along its axes, one axis is done after
the other.
"""

import functools
import math

import numpy as np

from ..spaces import Ints
from .arrays import WGSL, Array, contiguous
from .joining import axis_words, per_axis
from .launcher import contiguous_copy
from .programs import Program, check_rounds
from .table import KERNELS, kernel
from .unrolled import LANES, SUMMED, by_axis

Pairs = tuple[tuple[int, int], ...]
MANY = 4  # times the elements along the axes: where these are done one after the other
INT32, FLOAT32 = np.dtype("i4"), np.dtype("f4")
LOWEST = {"f": -math.inf, "i": -(1 << 31), "u": 0}

# An integer that is larger for larger numbers, the same for both zeros, and largest for NaN. Floats
# may be compared as if there were no NaN.
KEY = """
fn key(value: f32) -> i32 {
    let bits = bitcast<i32>(value);
    let size = bits & 0x7fffffff;
    return select(select(size, -size, bits < 0), 0x7fffffff, size > 0x7f800000);
}
"""
START = f"""
    let i = group * {LANES}u + lane;
    if (i >= p.count) {{ return; }}
    var left = i;
"""


def nested(loop: str, rank: int, body: str) -> str:
    """The body inside of a loop for each axis `$a`; what surrounds axis 0 has the name `_`."""
    for axis in reversed(range(rank)):
        inner = loop.replace("$before", str(axis - 1) if axis else "_").replace("$a", str(axis))
        body = f"{inner} {body} }}"
    return body


WINDOW_WORDS = "in size kernel before dilation stride x step"
WINDOW_AXIS = """
    let start$a = left % p.size$a * p.stride$a - p.before$a;
    left /= p.size$a;
"""
WINDOW_LOOP = """
    for (var k$a = 0u; k$a < p.kernel$a; k$a++) {
        let q$a = start$a + k$a * p.dilation$a;
        if (q$a >= p.in$a) { continue; }
        let at$a = at$before + q$a * p.x$a;
"""


@functools.cache
def largest(type: str, rank: int, placed: bool) -> Program:
    """`placed`: the index of each element is given. Of a window without elements it is where its
    last one would be."""
    number = SUMMED[type]
    key = "key(value)" if number == "f32" else "value"
    axes = range(rank)
    index = " + ".join(f"q{a} * p.step{a}" for a in axes)
    beside = " + ".join(
        f"(start{a} + (p.kernel{a} - 1u) * p.dilation{a}) * p.step{a}" for a in axes
    )
    compared = f"""
        let value = {number}(x[at{rank - 1}]);
        let rank_of = {key};
        if (none | (rank_of > best_rank)) {{
            best = value;
            best_rank = rank_of;
            best_index = {f"known[at{rank - 1}]" if placed else f"i32({index})"};
            none = false;
        }}
    """
    body = f"""
    {START}
    {by_axis(WINDOW_AXIS, rank)}
    var best = p.lowest;
    var best_rank = {"i32()" if number == "f32" else "p.lowest"};
    var best_index = i32({beside});
    var none = true;
    let at_ = p.at_x + left * p.x_plane;
    {nested(WINDOW_LOOP, rank, compared)}
    out[i] = {type}(best);
    indices[i] = best_index;
    """
    return Program(
        f"largest {type} {rank} {placed}",
        {"x": type, "known": "i32"} if placed else {"x": type},
        {"out": type, "indices": "i32"},
        f"count at_x x_plane lowest:{number} " + per_axis(rank, WINDOW_WORDS),
        body,
        declarations=KEY if number == "f32" else "",
        workgroup=LANES,
    )


SPREAD_WORDS = "in size kernel before stride x"
SPREAD_AXIS = """
    let place$a = left % p.size$a + p.before$a;
    left /= p.size$a;
    let start$a = select((place$a - p.kernel$a) / p.stride$a + 1u, 0u, place$a < p.kernel$a);
    let end$a = min(place$a / p.stride$a + 1u, p.in$a);
"""
SPREAD_LOOP = """
    for (var k$a = start$a; k$a < end$a; k$a++) {
        let at$a = at$before + k$a * p.x$a;
"""


def total(name: str, type: str, to: str, rank: int, words: str, axis: str, loop: str) -> Program:
    """The sum of what a loop over axes visits, for each element of the output."""
    number = SUMMED[type]
    body = f"""
    {START}
    {by_axis(axis, rank)}
    var sum = {number}();
    let at_ = p.at_x + left * p.x_plane;
    {nested(loop, rank, f"sum += {number}(x[at{rank - 1}]);")}
    out[i] = {to}(sum);
    """
    words = "count at_x x_plane " + per_axis(rank, words)
    name = f"{name} {type} {to} {rank}"
    return Program(name, {"x": type}, {"out": to}, words, body, workgroup=LANES)


@functools.cache
def sums(type: str, to: str, rank: int) -> Program:
    return total("sums", type, to, rank, WINDOW_WORDS, WINDOW_AXIS, WINDOW_LOOP)


@functools.cache
def spread(type: str, to: str, rank: int) -> Program:
    return total("spread", type, to, rank, SPREAD_WORDS, SPREAD_AXIS, SPREAD_LOOP)


def planes(x: Array) -> tuple[Array, int]:
    """An array whose images and channels are one axis, and the stride of that."""
    images, channels = x.shape[:2]
    if channels > 1 < images and x.strides[0] != channels * x.strides[1]:
        x = contiguous_copy(x)
    return x, x.strides[1] if channels > 1 else x.strides[0]


def groups_of(count: int) -> int:
    return -(-count // LANES)


def are_many(counts: Ints) -> bool:
    return math.prod(counts) > MANY * sum(counts)


def only(axis: int, values: tuple, other: object) -> tuple:
    """The value of one axis; for the others what does nothing."""
    return tuple(value if k == axis else other for k, value in enumerate(values))


def window_words(
    x: Array, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> tuple[Ints, dict[str, int]]:
    """The output's shape, and the words of the axes."""
    check_rounds("pooling", 3 * math.prod(kernel))
    sizes = zip(x.shape[2:], kernel, stride, padding, dilation, strict=True)
    size = [(n + sum(around) - d * (k - 1) - 1) // s + 1 for n, k, s, around, d in sizes]
    before = [start for start, _ in padding]
    columns = x.shape[2:], size, kernel, before, dilation, stride
    words = axis_words(WINDOW_WORDS, *columns, x.strides[2:], contiguous(x.shape)[2:])
    return (*x.shape[:2], *size), words


@kernel
def max_pool(x, *, kernel, stride, padding, dilation):
    """The largest element of each window, and its flat index in the image (the first of equals)."""
    if not are_many(kernel):
        return pooled(x, None, kernel, stride, padding, dilation)
    places = None
    for axis in reversed(range(len(kernel))):
        around = only(axis, padding, (0, 0))
        geometry = only(axis, kernel, 1), only(axis, stride, 1), around, only(axis, dilation, 1)
        x, places = pooled(x, places, *geometry)
    return x, places


def pooled(
    x: Array, places: Array | None, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> tuple[Array, Array]:
    """The same by one launch; `places` are the indices of the elements, if x isn't the image."""
    x, plane = planes(x)
    shape, words = window_words(x, kernel, stride, padding, dilation)
    out, indices = x.gpu.empty(shape, x.dtype), x.gpu.empty(shape, INT32)
    program = largest(WGSL[x.dtype], len(kernel), places is not None)
    arrays = [x, out, indices] if places is None else [x, places, out, indices]
    words |= {"count": out.size, "x_plane": plane, "lowest": LOWEST[x.dtype.kind]}
    x.gpu.launch(program, groups_of(out.size), *arrays, **words)
    return out, indices


@kernel
def window_sum(x, *, kernel, stride, padding):
    if kernel == x.shape[2:] and not any(map(any, padding)):
        return KERNELS["sum"](x, axis=tuple(range(2, x.ndim)), keepdims=True)
    if not are_many(kernel):
        return summed(x, x.dtype, kernel, stride, padding)
    dtype = x.dtype
    for axis in reversed(range(len(kernel))):
        around = only(axis, padding, (0, 0))
        to = widened(dtype) if axis else dtype
        x = summed(x, to, only(axis, kernel, 1), only(axis, stride, 1), around)
    return x


def widened(dtype: np.dtype) -> np.dtype:
    """Of sums that are terms of others."""
    return FLOAT32 if dtype.kind == "f" else dtype


def summed(x: Array, dtype: np.dtype, kernel: Ints, stride: Ints, padding: Pairs) -> Array:
    """The same by one launch."""
    x, plane = planes(x)
    shape, words = window_words(x, kernel, stride, padding, (1,) * len(kernel))
    out = x.gpu.empty(shape, dtype)
    program = sums(WGSL[x.dtype], WGSL[dtype], len(kernel))
    x.gpu.launch(program, groups_of(out.size), x, out, count=out.size, x_plane=plane, **words)
    return out


@kernel
def window_spread(x, *, shape, kernel, stride, padding):
    """Gradient of window_sum, given the gradient x of its output."""
    sizes = zip(x.shape[2:], kernel, stride, strict=True)
    met = tuple(min(n, -(-k // s)) for n, k, s in sizes)
    if not are_many(met):
        return added(x, x.dtype, shape, kernel, stride, padding)
    dtype = x.dtype
    for axis in reversed(range(len(kernel))):
        part = (*x.shape[: axis + 2], *shape[axis + 2 :])
        around = only(axis, padding, (0, 0))
        to = widened(dtype) if axis else dtype
        x = added(x, to, part, only(axis, kernel, 1), only(axis, stride, 1), around)
    return x


def added(
    x: Array, dtype: np.dtype, shape: Ints, kernel: Ints, stride: Ints, padding: Pairs
) -> Array:
    """The same by one launch."""
    met = [-(-k // s) for k, s in zip(kernel, stride, strict=True)]
    check_rounds("the gradient of pooling", 3 * math.prod(met))
    x, plane = planes(x)
    out = x.gpu.empty(shape, dtype)
    before = [start for start, _ in padding]
    columns = x.shape[2:], shape[2:], kernel, before, stride, x.strides[2:]
    words = {"count": out.size, "x_plane": plane, **axis_words(SPREAD_WORDS, *columns)}
    program = spread(WGSL[x.dtype], WGSL[dtype], len(kernel))
    x.gpu.launch(program, groups_of(out.size), x, out, **words)
    return out
