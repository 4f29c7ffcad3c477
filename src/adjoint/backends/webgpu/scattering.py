"""Elements added at places that are data, in the order of their positions: always the same sum.

The numbers of places are sorted, stably. Runs of one number are then added up in chunks, and what
crosses the border of a chunk is in turn added up, from one sum for each run and chunk.
"""

import functools
from typing import NamedTuple

import numpy as np

from ..launches import View
from ..spaces import Axes, merged
from .arrays import WGSL, Ints
from .fills import fill, per_axis, walk
from .indexing import UINT32, numbered, places, position, selected, words_of
from .joining import place_into
from .lowering import Programs, lowering
from .maps import as_contiguous, laid_out
from .programs import WORKGROUP, Program, per_element, wgsl
from .rows import permuted, rows_last
from .sorting import in_order
from .status import STATUS

CHUNK = 32  # elements that one invocation adds up
SHORT = 64  # indices along an axis, all of which each element of the result may look at


@lowering
def scatter(to: Programs, x: View, *indices: View, spec: tuple, shape: Ints) -> None:
    out = to.result(shape, x.dtype)
    if not indices:
        place_into(to, out, x, spec)
        return
    fill(to, out)
    if not x.size:
        return
    at = selected(shape, out.strides, spec, indices)
    keys, unit = numbered(to, indices, at)
    keys, order = in_order(to, keys.view((1, keys.size), (keys.size, 1)))
    block = range(at.where, at.where + len(at.block))
    first = permuted(x, (*block, *(k for k in range(x.ndim) if k not in block)))
    targets = Targets(unit, merged(at.sizes, [at.steps]))
    goal = out.view(out.shape, out.strides, at.start)
    add_runs(to, goal, as_contiguous(to, first), keys, order, 0, targets)


@lowering
def scatter_along_axis(to: Programs, x: View, index: View, *, axis: int, shape: Ints) -> None:
    axis %= len(shape)
    length, count = shape[axis], index.shape[axis]
    if x.size and not length:
        raise IndexError(f"an index is out of bounds for axis {axis} with size 0")
    own = (*index.shape[:axis], length, *index.shape[axis + 1 :])
    few = count <= SHORT
    last = tuple(range(x.ndim)) if few else rows_last(x.ndim, (axis,))
    strides = laid_out(own, last)
    out = to.result(shape, x.dtype, strides if own == shape else None)
    goal = out if own == shape else to.temporary(own, x.dtype).view(own, strides)
    if few and x.size:
        look_up(to, goal, x, index, axis)
    else:
        fill(to, goal)
    if x.size and not few:
        keys = places(to, [permuted(index, last)], permuted(x, last).shape, [length], [1])
        keys, order = in_order(to, keys.view((x.size // count, count), (count, 1)))
        first = as_contiguous(to, permuted(x, last))
        add_runs(to, goal, first, keys, order, length, Targets(1, Axes([], [[]])))
    if own != shape:
        place_into(to, out, goal, tuple([slice(n) for n in own]))


class Targets(NamedTuple):
    """Where sums go: so many elements from the start for each key, and along some axes."""

    unit: int
    axes: Axes


def add_runs(
    to: Programs, out: View, x: View, keys: View, order: View, length: int, targets: Targets
) -> None:
    """Add the elements of x, or rows of them, that have one key, which are in the order given.

    Keys are sorted in rows; those of a row begin `length` after those of the one before.
    """
    size, row = keys.size, keys.shape[1]
    inner = x.size // size
    ordered = True
    while size:
        chunks = -(-size // CHUNK)
        left = 2 * chunks if chunks > 1 else 0
        sums = to.temporary((left, inner), summed_in(out.dtype))
        sum_keys = to.temporary((left,), UINT32)
        words = {"size": size, "inner": inner, "row": row, "length": length, "chunks": chunks}
        words |= {"ordered": ordered, "unit": targets.unit, **words_of(targets.axes, "n out")}
        program = adding(x.dtype, out.dtype, len(targets.axes.sizes) or 1)
        arrays = [x, keys, order, out, sums, sum_keys]
        to.launch(program, -(-chunks * inner // WORKGROUP), *arrays, **words)
        x, keys, order, size = sums, sum_keys, sum_keys, left
        row, length, ordered = left, 0, False


def summed_in(dtype: np.dtype) -> np.dtype:
    """float16 has too few digits."""
    return np.dtype("f4") if dtype == np.float16 else dtype


def plus(dtype: np.dtype) -> str:
    return "|" if dtype.kind == "b" else "+"


@functools.cache
def adding(x: np.dtype, out: np.dtype, rank: int) -> Program:
    """The first and the last run of a chunk may go on in others: their sums are handed on."""
    type, stored = WGSL[summed_in(out)], WGSL[out]
    arrays = f"x:{WGSL[x]} keys order -> out:{stored} sums:{type} sum_keys"
    words = "size inner row length chunks ordered at_x at_out unit " + per_axis(rank, "n out")
    declarations = f"""
fn hand_on(place: u32, at: u32, key: u32, sum: {type}) {{
    sums[place * p.inner + at] = sum;
    if (at == 0u) {{ sum_keys[place] = key; }}
}}"""
    return wgsl("add runs", arrays, words, declarations, WORKGROUP)(f"""
    let number = group * {WORKGROUP}u + lane;
    let chunk = number / p.inner;
    let at = number % p.inner;
    if (chunk >= p.chunks) {{ return; }}
    var goal = p.at_out;
    {walk(rank, "goal += c * p.out{k};")}
    let first = chunk * {CHUNK}u;
    var key = keys[first] + first / p.row * p.length;
    var sum = {type}(0);
    var goes_on = p.chunks > 1u;
    for (var k = first; k < min(first + {CHUNK}u, p.size); k++) {{
        let row = k / p.row;
        let next = keys[k] + row * p.length;
        if (next != key) {{
            if (goes_on) {{ hand_on(2u * chunk, at, key, sum); }}
            else {{ out[goal + key * p.unit] = {stored}(sum); }}
            goes_on = false;
            key = next;
            sum = {type}(0);
        }}
        var source = k;
        if (p.ordered != 0u) {{ source = order[k] + row * p.row; }}
        sum = sum {plus(out)} {type}(x[p.at_x + source * p.inner + at]);
    }}
    if (p.chunks == 1u) {{ out[goal + key * p.unit] = {stored}(sum); return; }}
    if (goes_on) {{
        hand_on(2u * chunk, at, key, sum);
        sum = {type}(0);
    }}
    hand_on(2u * chunk + 1u, at, key, sum);""")


def look_up(to: Programs, out: View, x: View, index: View, axis: int) -> None:
    """Each element of the result looks at all indices along the axis, in order."""
    x, index = as_contiguous(to, x), as_contiguous(to, index)
    words = dict(inner=out.strides[axis], count=index.shape[axis], length=out.shape[axis])
    program = looking_up(x.dtype, WGSL[index.dtype])
    to.launch_each(program, out.size, x, index, out, STATUS, **words)


@functools.cache
def looking_up(dtype: np.dtype, index: str) -> Program:
    type, stored = WGSL[summed_in(dtype)], WGSL[dtype]
    arrays = f"x:{stored} index:{index} -> out:{stored} status:atomic<u32>"
    words = "inner count length at_x at_index"
    return per_element("scatter along", arrays, words, position(index))(f"""
    let wanted = at / p.inner % p.length;
    var source = at / p.inner / p.length * p.count * p.inner + at % p.inner;
    var sum = {type}(0);
    for (var k = 0u; k < p.count; k++) {{
        if (position(index[p.at_index + source], p.length) == wanted) {{
            sum = sum {plus(dtype)} {type}(x[p.at_x + source]);
        }}
        source += p.inner;
    }}
    out[at] = {stored}(sum);""")
