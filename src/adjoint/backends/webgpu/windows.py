"""Pooling: the largest element or the sum of each window, and the gradient of sums.

An invocation has one element of the output, and walks over its window, or over the windows that
have it. Where that is many more elements than the window has along its axes, one axis is done after
the other.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..launches import View
from ..spaces import Ints
from .arrays import WGSL, contiguous
from .fills import axis_words, per_axis
from .lowering import LOWERINGS, Programs, lowering
from .maps import as_contiguous
from .programs import Program, check_rounds, per_element
from .tiles import SUMMED
from .unrolled import LANES, by_axis

Pairs = tuple[tuple[int, int], ...]
MANY = 4  # times the elements along the axes: where axes are done one after the other
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
    arrays = f"x:{type}{' known:i32' if placed else ''} -> out:{type} indices:i32"
    words = f"at_x x_plane lowest:{number} " + per_axis(rank, WINDOW_WORDS)
    declarations = KEY if number == "f32" else ""
    name = f"largest {type} {rank} {placed}"
    return per_element(name, arrays, words, declarations=declarations, workgroup=LANES)(f"""
    var left = at;
    {by_axis(WINDOW_AXIS, rank)}
    var best = p.lowest;
    var best_rank = {"i32()" if number == "f32" else "p.lowest"};
    var best_index = i32({beside});
    var none = true;
    let at_ = p.at_x + left * p.x_plane;
    {nested(WINDOW_LOOP, rank, compared)}
    out[at] = {type}(best);
    indices[at] = best_index;""")


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


SUMS = "sums", WINDOW_WORDS, WINDOW_AXIS, WINDOW_LOOP
SPREAD = "spread", SPREAD_WORDS, SPREAD_AXIS, SPREAD_LOOP


@functools.cache
def total(how: tuple[str, str, str, str], type: str, to: str, rank: int) -> Program:
    """The sum of what a loop over axes visits, for each element of the output."""
    (name, words, axis, loop), number = how, SUMMED[type]
    words, arrays = "at_x x_plane " + per_axis(rank, words), f"x:{type} -> out:{to}"
    return per_element(f"{name} {type} {to} {rank}", arrays, words, workgroup=LANES)(f"""
    var left = at;
    {by_axis(axis, rank)}
    var sum = {number}();
    let at_ = p.at_x + left * p.x_plane;
    {nested(loop, rank, f"sum += {number}(x[at{rank - 1}]);")}
    out[at] = {to}(sum);""")


def launch_total(
    to: Programs, how: tuple, x: View, out: View, words: Callable[[View, View], dict[str, int]]
) -> None:
    x, plane = planes(to, x)
    program = total(how, WGSL[x.dtype], WGSL[out.dtype], x.ndim - 2)
    to.launch_each(program, out.size, x, out, x_plane=plane, **words(x, out))


def planes(to: Programs, x: View) -> tuple[View, int]:
    """A view whose images and channels are one axis, and the stride of that."""
    images, channels = x.shape[:2]
    if channels > 1 < images and x.strides[0] != channels * x.strides[1]:
        x = as_contiguous(to, x)
    return x, x.strides[1] if channels > 1 else x.strides[0]


class Windows(NamedTuple):
    """Where windows are, along each axis of an image."""

    kernel: Ints
    stride: Ints
    padding: Pairs
    dilation: Ints

    def shape(self, x: Ints) -> Ints:
        """The shape of what has an element for each window of an array."""
        sizes = zip(x[2:], *self, strict=True)
        size = [(n + sum(around) - d * (k - 1) - 1) // s + 1 for n, k, s, around, d in sizes]
        return (*x[:2], *size)

    def steps(self, counts: Ints) -> list[tuple[int, "Windows"]]:
        """All axes at once, or if elements are many, one after the other: and then which is."""
        if math.prod(counts) <= MANY * sum(counts):
            return [(0, self)]
        return [(k, self.along(k)) for k in reversed(range(len(counts)))]

    def along(self, axis: int) -> "Windows":
        """The same along one axis; along the others they do nothing."""
        nothing = (1, 1, (0, 0), 1)
        return Windows(*(only(axis, *pair) for pair in zip(self, nothing, strict=True)))

    def words(self, x: View, out: View) -> dict[str, int]:
        check_rounds("pooling", 3 * math.prod(self.kernel))
        before = [start for start, _ in self.padding]
        columns = x.shape[2:], out.shape[2:], self.kernel, before, self.dilation, self.stride
        return axis_words(WINDOW_WORDS, *columns, x.strides[2:], contiguous(x.shape)[2:])

    def spread_words(self, x: View, out: View) -> dict[str, int]:
        met = [-(-k // s) for k, s in zip(self.kernel, self.stride, strict=True)]
        check_rounds("the gradient of pooling", 3 * math.prod(met))
        before = [start for start, _ in self.padding]
        columns = x.shape[2:], out.shape[2:], self.kernel, before, self.stride, x.strides[2:]
        return axis_words(SPREAD_WORDS, *columns)


def only(axis: int, values: tuple, other: object) -> tuple:
    return tuple(value if k == axis else other for k, value in enumerate(values))


@lowering
def max_pool(to: Programs, x: View, *, kernel, stride, padding, dilation) -> None:
    """The largest element of each window, and its flat index in the image (the first of equals)."""
    windows = Windows(kernel, stride, padding, dilation)
    shape = windows.shape(x.shape)
    results, places = (to.result(shape, x.dtype), to.result(shape, INT32)), None
    for axis, part in windows.steps(kernel):
        own = part.shape(x.shape)
        out = (to.temporary(own, x.dtype), to.temporary(own, INT32)) if axis else results
        pool(to, x, places, out, part)
        x, places = out


def pool(
    to: Programs, x: View, places: View | None, out: tuple[View, View], windows: Windows
) -> None:
    """The same by one launch; `places` are the indices of the elements, if x isn't the image."""
    x, plane = planes(to, x)
    words = {"x_plane": plane, "lowest": LOWEST[x.dtype.kind], **windows.words(x, out[0])}
    program = largest(WGSL[x.dtype], len(windows.kernel), places is not None)
    arrays = [x] if places is None else [x, places]
    to.launch_each(program, out[0].size, *arrays, *out, **words)


@lowering
def window_sum(to: Programs, x: View, *, kernel, stride, padding) -> None:
    if kernel == x.shape[2:] and not any(map(any, padding)):
        LOWERINGS["sum"](to, x, axis=tuple(range(2, x.ndim)), keepdims=True)
        return
    windows = Windows(kernel, stride, padding, (1,) * len(kernel))
    result = to.result(windows.shape(x.shape), x.dtype)
    for axis, part in windows.steps(kernel):
        wide = widened(result.dtype)
        out = to.temporary(part.shape(x.shape), wide) if axis else result
        launch_total(to, SUMS, x, out, part.words)
        x = out


def widened(dtype: np.dtype) -> np.dtype:
    """Of sums that are terms of others."""
    return FLOAT32 if dtype.kind == "f" else dtype


@lowering
def window_spread(to: Programs, x: View, *, shape, kernel, stride, padding) -> None:
    """Gradient of window_sum, given the gradient x of its output."""
    result = to.result(shape, x.dtype)
    sizes = zip(x.shape[2:], kernel, stride, strict=True)
    met = tuple(min(n, -(-k // s)) for n, k, s in sizes)
    for axis, part in Windows(kernel, stride, padding, (1,) * len(kernel)).steps(met):
        own = (*x.shape[: axis + 2], *shape[axis + 2 :])
        out = to.temporary(own, widened(result.dtype)) if axis else result
        launch_total(to, SPREAD, x, out, part.spread_words)
        x = out
