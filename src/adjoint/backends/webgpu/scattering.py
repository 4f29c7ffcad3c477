"""Elements added at places that are data, in the order of their positions: always the same sum.

The numbers of places are sorted, stably. Runs of one number are then added up in chunks, and what
crosses the border of a chunk is in turn added up, from one sum for each run and chunk.
"""

import functools
from typing import NamedTuple

import numpy as np

from ..spaces import Axes, merged
from .arrays import WGSL, Array, Ints, contiguous
from .indexing import UINT32, numbered, places, position, selected, words_of
from .joining import WORKGROUP, filled, groups_for, per_axis, place, walk
from .launcher import contiguous_copy
from .movement import permute_dims
from .programs import Program
from .sorting import in_order
from .table import kernel

CHUNK = 32  # elements that one invocation adds up
SHORT = 64  # indices along an axis, all of which each element of the result may look at


@kernel
def scatter(x: Array, *indices: Array, spec: tuple, shape: Ints) -> Array:
    if not indices:
        return place(x, index=spec, shape=shape)
    at = selected(shape, contiguous(shape), 0, spec, indices)
    out = filled(x, shape, x.dtype)
    if not x.size:
        return out
    keys, unit = numbered(indices, at)
    keys, order = in_order(keys.view((1, keys.size), (keys.size, 1)))
    block = range(at.where, at.where + len(at.block))
    first = permute_dims(x, axes=[*block, *(k for k in range(x.ndim) if k not in block)])
    targets = Targets(at.start, unit, merged(at.sizes, [at.steps]))
    add_runs(out, contiguous_copy(first), keys, order, 0, targets)
    return out


@kernel
def scatter_along_axis(x: Array, index: Array, *, axis: int, shape: Ints) -> Array:
    length = shape[axis]
    own = (*index.shape[:axis], length, *index.shape[axis + 1 :])
    if own != shape:
        part = scatter_along_axis(x, index, axis=axis, shape=own)
        return place(part, index=tuple([slice(n) for n in own]), shape=shape)
    if not x.size:
        return filled(x, shape, x.dtype)
    if not length:
        raise IndexError(f"an index is out of bounds for axis {axis} with size 0")
    if index.shape[axis] <= SHORT:
        return looked_up(x, index, axis, shape)
    last = [*(k for k in range(x.ndim) if k != axis), axis]
    x, index = permute_dims(x, axes=last), permute_dims(index, axes=last)
    rest, count = x.shape[:-1], x.shape[-1]
    keys = places([index], index.shape, [length], [1])
    keys, order = in_order(keys.view((x.size // count, count), (count, 1)))
    out = filled(x, (*rest, length), x.dtype)
    add_runs(out, contiguous_copy(x), keys, order, length, Targets(0, 1, Axes([], [[]])))
    return permute_dims(out, axes=[*range(axis), x.ndim - 1, *range(axis, x.ndim - 1)])


class Targets(NamedTuple):
    """Where sums go: so many elements from `start` for each key, and along some axes."""

    start: int
    unit: int
    axes: Axes


def add_runs(
    out: Array, x: Array, keys: Array, order: Array, length: int, targets: Targets
) -> None:
    """Add the elements of x, or rows of them, that have one key, which are in the order given.

    Keys are sorted in rows; those of a row begin `length` after those of the one before.
    """
    gpu, size, row = out.gpu, keys.size, keys.shape[1]
    inner = x.size // size
    goal = out.view(out.shape, out.strides, targets.start)
    ordered = True
    while size:
        chunks = -(-size // CHUNK)
        left = 2 * chunks if chunks > 1 else 0
        sums = gpu.empty((left, inner), summed_in(out.dtype))
        sum_keys = gpu.empty((left,), UINT32)
        words = {"size": size, "inner": inner, "row": row, "length": length, "chunks": chunks}
        words |= {"ordered": ordered, "unit": targets.unit, **words_of(targets.axes, "n out")}
        program = adding(x.dtype, out.dtype, len(targets.axes.sizes) or 1)
        arrays = [x, keys, order, goal, sums, sum_keys]
        gpu.launch(program, groups_for(chunks * inner), *arrays, **words)
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
    return Program(
        "add runs",
        {"x": WGSL[x], "keys": "u32", "order": "u32"},
        {"out": stored, "sums": type, "sum_keys": "u32"},
        "size inner row length chunks ordered at_out unit " + per_axis(rank, "n out"),
        f"""
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
        sum = sum {plus(out)} {type}(x[source * p.inner + at]);
    }}
    if (p.chunks == 1u) {{ out[goal + key * p.unit] = {stored}(sum); return; }}
    if (goes_on) {{
        hand_on(2u * chunk, at, key, sum);
        sum = {type}(0);
    }}
    hand_on(2u * chunk + 1u, at, key, sum);""",
        declarations=f"""
fn hand_on(place: u32, at: u32, key: u32, sum: {type}) {{
    sums[place * p.inner + at] = sum;
    if (at == 0u) {{ sum_keys[place] = key; }}
}}""",
        workgroup=WORKGROUP,
    )


def looked_up(x: Array, index: Array, axis: int, shape: Ints) -> Array:
    """Each element of the result looks at all indices along the axis, in order."""
    x, index = contiguous_copy(x), contiguous_copy(index)
    out = x.gpu.empty(shape, x.dtype)
    words = {"size": out.size, "inner": contiguous(shape)[axis]}
    words |= {"count": index.shape[axis], "length": shape[axis]}
    program, status = looking_up(x.dtype, WGSL[index.dtype]), x.gpu.status.for_indices()
    x.gpu.launch(program, groups_for(out.size), x, index, out, status, **words)
    return out


@functools.cache
def looking_up(dtype: np.dtype, index: str) -> Program:
    type, stored = WGSL[summed_in(dtype)], WGSL[dtype]
    return Program(
        "scatter along",
        {"x": stored, "index": index},
        {"out": stored, "status": "atomic<u32>"},
        "size inner count length",
        f"""
    let at = group * {WORKGROUP}u + lane;
    if (at >= p.size) {{ return; }}
    let wanted = at / p.inner % p.length;
    var source = at / p.inner / p.length * p.count * p.inner + at % p.inner;
    var sum = {type}(0);
    for (var k = 0u; k < p.count; k++) {{
        if (position(index[source], p.length) == wanted) {{
            sum = sum {plus(dtype)} {type}(x[source]);
        }}
        source += p.inner;
    }}
    out[at] = {stored}(sum);""",
        declarations=position(index),
        workgroup=WORKGROUP,
    )
