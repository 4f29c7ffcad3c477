"""Elements taken from, and put at, places that are data.

An index is an array's view by ints, slices and None, and a number of index arrays, which together
say one place for each element of a block. That block is some of the axes of what is selected.

A program can't raise. It says in the device's status that an index was out of range, and goes on
with place 0. The status is looked at when data is next read.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..spaces import Axes, merged, steps_in
from .arrays import WGSL, Array, Ints, broadcast_shape, contiguous
from .joining import WORKGROUP, axis_words, filled, groups_for, per_axis, stored_as, walk
from .launcher import contiguous_copy, copy_into
from .programs import Program
from .table import KERNELS, kernel

INT32, UINT32 = np.dtype("i4"), np.dtype("u4")


def position(type: str) -> str:
    """WGSL's `position`: the place that an index means on an axis of a length, which is 0 where the
    index was made by another program and needs no check."""
    end = "select(0u, length, given < 0)" if type == "i32" else "0u"
    return f"""
fn position(given: {type}, length: u32) -> u32 {{
    let found = bitcast<u32>(given);
    if (length == 0u) {{ return found; }}
    let counted = found + {end};
    if (counted < length) {{ return counted; }}
    if (atomicAdd(&status[0], 1u) == 0u) {{
        atomicStore(&status[1], found);
        atomicStore(&status[2], length);
        atomicStore(&status[3], {int(type == "u32")}u);
    }}
    return 0u;
}}"""


class Selection(NamedTuple):
    """What an index selects of an array: views along most axes, a block in the place of others."""

    sizes: list[int]  # of the axes besides the block
    steps: list[int]  # in the array, along them
    start: int
    block: Ints
    where: int  # how many axes stand before the block
    lengths: list[int]  # of the axes that index arrays are for
    strides: list[int]

    @property
    def shape(self) -> Ints:
        return (*self.sizes[: self.where], *self.block, *self.sizes[self.where :])

    def along(self, others: Sequence[int] | None, block: Sequence[int] | None) -> list[int]:
        """Strides along all axes, from those along the axes besides the block, and along it."""
        others = others or [0] * len(self.sizes)
        block = block or [0] * len(self.block)
        return [*others[: self.where], *block, *others[self.where :]]


def selected(shape: Ints, strides: Ints, start: int, spec: tuple, indices: Any) -> Selection:
    """`spec` applied to an array with these strides."""
    block = broadcast_shape([i.shape for i in indices]) if indices else ()
    advanced = [k for k, e in enumerate(spec) if isinstance(e, (int, str))] if indices else [0]
    together = advanced[-1] - advanced[0] == len(advanced) - 1
    sizes, steps, lengths, units = [], [], [], []
    axis = where = 0
    for k, entry in enumerate(spec):
        if together and k == advanced[0]:
            where = len(sizes)
        if entry is Ellipsis:
            continue
        if entry is None:
            sizes.append(1)
            steps.append(0)
            continue
        n, stride = shape[axis], strides[axis]
        if isinstance(entry, slice):
            first, stop, step = entry.indices(n)
            sizes.append(len(range(first, stop, step)))
            steps.append(step * stride)
            start += first * stride
        elif isinstance(entry, str):
            if not n and math.prod(block):
                raise IndexError(f"an index is out of bounds for axis {axis} with size 0")
            lengths.append(n)
            units.append(stride)
        else:
            if not -n <= entry < n:
                raise IndexError(f"index {entry} is out of bounds for axis {axis} with size {n}")
            start += entry % n * stride
        axis += 1
    sizes += shape[axis:]
    steps += strides[axis:]
    return Selection(sizes, steps, start, block, where, lengths, units)


@kernel
def index(x: Array, *indices: Array, spec: tuple) -> Array:
    at = selected(x.shape, x.strides, x.offset, spec, indices)
    if not indices:
        return x.view(tuple(at.sizes), tuple(at.steps), at.start)
    if len(indices) == 1:
        given, length, stride = indices[0], at.lengths[0], at.strides[0]
    else:
        given, length, stride = places(indices, at.block, at.lengths, at.strides), 0, 1
    steps = at.along(at.steps, None)
    which = at.along(None, steps_in(given, at.block))
    return gathered(x, given, at.shape, steps, which, at.start, length, stride)


@kernel
def take_along_axis(x: Array, index: Array, *, axis: int) -> Array:
    return taken(x, index, axis, x.shape[axis])


def taken(x: Array, index: Array, axis: int, length: int) -> Array:
    """x's elements at an index along an axis; `length` is 0 if all are known to be in range."""
    if index.size and not x.shape[axis]:
        raise IndexError(f"an index is out of bounds for axis {axis} with size 0")
    steps = [*x.strides[:axis], 0, *x.strides[axis + 1 :]]
    return gathered(x, index, index.shape, steps, index.strides, x.offset, length, x.strides[axis])


def gathered(
    x: Array,
    index: Array,
    shape: Ints,
    steps: Sequence[int],
    which: Sequence[int],
    start: int,
    length: int,
    stride: int,
) -> Array:
    """What lies at x's `steps` from `start`, and as many strides further as index says."""
    out = x.gpu.empty(shape, x.dtype)
    axes = merged(shape, (steps, which))
    words = {"size": out.size, "length": length, "stride": stride, **words_of(axes, "n x i")}
    rank = len(axes.sizes) or 1
    program = gathering(stored_as(x.dtype), WGSL[index.dtype], rank)
    x = x.view(x.shape, x.strides, start)
    status = x.gpu.status.for_indices()
    x.gpu.launch(program, groups_for(out.size), x, index, out, status, **words)
    return out


def words_of(axes: Axes, names: str) -> dict[str, int]:
    """For each axis its length, and the steps of each array; there is always one."""
    return axis_words(names, axes.sizes or [1], *(steps or [0] for steps in axes.steps))


@functools.cache
def gathering(type: str, index: str, rank: int) -> Program:
    return Program(
        "gather",
        {"x": type, "index": index},
        {"out": type, "status": "atomic<u32>"},
        "size at_x at_index length stride " + per_axis(rank, "n x i"),
        f"""
    let at = group * {WORKGROUP}u + lane;
    if (at >= p.size) {{ return; }}
    var source = p.at_x;
    var which = p.at_index;
    {walk(rank, "source += c * p.x{k}; which += c * p.i{k};")}
    out[at] = x[source + position(index[which], p.length) * p.stride];""",
        declarations=position(index),
        workgroup=WORKGROUP,
    )


def places(
    indices: Sequence[Array], block: Ints, lengths: Sequence[int], strides: Sequence[int]
) -> Array:
    """How far from the start each element of a block is: the sum of all indices' strides."""
    out = indices[0].gpu.empty(block, UINT32)
    status = out.gpu.status.for_indices()
    for k, (given, length, stride) in enumerate(zip(indices, lengths, strides, strict=True)):
        axes = merged(block, [steps_in(given, block)])
        program = placing(WGSL[given.dtype], len(axes.sizes) or 1)
        words = {"size": out.size, "length": length, "stride": stride, "more": k > 0}
        words |= words_of(axes, "n i")
        out.gpu.launch(program, groups_for(out.size), given, out, status, **words)
    return out


@functools.cache
def placing(index: str, rank: int) -> Program:
    return Program(
        "places",
        {"index": index},
        {"out": "u32", "status": "atomic<u32>"},
        "size at_index length stride more " + per_axis(rank, "n i"),
        f"""
    let at = group * {WORKGROUP}u + lane;
    if (at >= p.size) {{ return; }}
    var which = p.at_index;
    {walk(rank, "which += c * p.i{k};")}
    let step = position(index[which], p.length) * p.stride;
    if (p.more != 0u) {{ out[at] += step; }} else {{ out[at] = step; }}""",
        declarations=position(index),
        workgroup=WORKGROUP,
    )


def numbered(indices: Sequence[Array], at: Selection) -> tuple[Array, int]:
    """The places of a block, as numbers that count in a step of as many elements."""
    unit = math.gcd(*at.strides)
    return places(indices, at.block, at.lengths, [s // unit for s in at.strides]), unit


@kernel
def assign(x: Array, v: Array, *indices: Array, spec: tuple) -> Array:
    """Of duplicates the last stays."""
    out = x.gpu.empty(x.shape, x.dtype)
    copy_into(out, x)
    at = selected(out.shape, out.strides, 0, spec, indices)
    size = math.prod(at.shape)
    if not indices:
        copy_into(out.view(at.shape, tuple(at.steps), at.start), v)
    elif size:
        keys, unit = numbered(indices, at)
        ends = zip(at.lengths, at.strides, strict=True)
        count = 1 + sum((n - 1) * stride // unit for n, stride in ends)
        owners = filled(x, (count,), UINT32)
        x.gpu.launch(OWNERS, groups_for(keys.size), keys, owners, size=keys.size)
        steps = at.along(at.steps, None), steps_in(v, at.shape)
        axes = merged(at.shape, (*steps, at.along(None, contiguous(at.block))))
        words = {"size": size, "unit": unit, **words_of(axes, "n out v key")}
        program = assigning(stored_as(x.dtype), len(axes.sizes) or 1)
        goal = out.view(out.shape, out.strides, at.start)
        x.gpu.launch(program, groups_for(size), v, keys, owners, goal, **words)
    return out


OWNERS = Program(
    "owners",
    {"keys": "u32"},
    {"owners": "atomic<u32>"},
    "size",
    f"""
    let at = group * {WORKGROUP}u + lane;
    if (at < p.size) {{ atomicMax(&owners[keys[at]], at + 1u); }}""",
    workgroup=WORKGROUP,
)


@functools.cache
def assigning(type: str, rank: int) -> Program:
    """What a block's element says is written if that owns its place: is the last that names it."""
    return Program(
        "assign",
        {"v": type, "keys": "u32", "owners": "u32"},
        {"out": type},
        "size at_out at_v unit " + per_axis(rank, "n out v key"),
        f"""
    let at = group * {WORKGROUP}u + lane;
    if (at >= p.size) {{ return; }}
    var goal = p.at_out;
    var source = p.at_v;
    var which = 0u;
    {walk(rank, "goal += c * p.out{k}; source += c * p.v{k}; which += c * p.key{k};")}
    let key = keys[which];
    if (owners[key] == which + 1u) {{ out[goal + key * p.unit] = v[source]; }}""",
        workgroup=WORKGROUP,
    )


@kernel
def nonzero(x: Array) -> Array:
    if not x.ndim:
        raise ValueError("a 0-d array has no axes to find what isn't zero along")
    x = contiguous_copy(x)
    flags = x.gpu.empty((x.size,), INT32)
    mask = 0x7FFFFFFF if x.dtype.kind == "f" else -1  # without the sign of a float's 0
    flag = flagging(stored_as(x.dtype))
    x.gpu.launch(flag, groups_for(x.size), x, flags, size=x.size, mask=mask)
    numbers = KERNELS["cumulative_sum"](flags, axis=0, reverse=False)
    count = int(x.gpu.read(numbers.view((), (), x.size - 1))) if x.size else 0
    out = x.gpu.empty((x.ndim, count), INT32)
    if count:
        words = {"size": x.size, "count": count, **axis_words("n", x.shape)}
        x.gpu.launch(listing(x.ndim), groups_for(x.size), flags, numbers, out, **words)
    return out


@functools.cache
def flagging(type: str) -> Program:
    bits = "x[at]" if type == "u32" else "bitcast<u32>(f32(x[at]))"
    return Program(
        "flag",
        {"x": type},
        {"out": "u32"},
        "size mask",
        f"""
    let at = group * {WORKGROUP}u + lane;
    if (at < p.size) {{ out[at] = select(0u, 1u, ({bits} & p.mask) != 0u); }}""",
        workgroup=WORKGROUP,
    )


@functools.cache
def listing(rank: int) -> Program:
    """The coordinates of what is flagged: the nth of it goes to column n - 1."""
    return Program(
        "list",
        {"flags": "u32", "numbers": "u32"},
        {"out": "u32"},
        "size count " + per_axis(rank, "n"),
        f"""
    let at = group * {WORKGROUP}u + lane;
    if (at >= p.size || flags[at] == 0u) {{ return; }}
    let column = numbers[at] - 1u;
    {walk(rank, "out[{k}u * p.count + column] = c;")}""",
        workgroup=WORKGROUP,
    )
