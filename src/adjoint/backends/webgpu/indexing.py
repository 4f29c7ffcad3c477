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

from ...kernels.language import BOOL, I32, TYPES, Kernel, convert, element
from ...kernels.rows import wide
from ..launches import View
from ..spaces import Axes, merged, steps_in
from .arrays import WGSL, Array, Ints, broadcast_shape, contiguous
from .fills import axis_words, per_axis, stored_as, walk
from .lowering import Programs, lowering, on_arrays
from .maps import copy, lower_map
from .programs import Program, per_element
from .status import STATUS
from .table import FUNCTIONS, entry

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


def selected(shape: Ints, strides: Ints, spec: tuple, indices: Any) -> Selection:
    """`spec` applied to an array with these strides."""
    block = broadcast_shape([i.shape for i in indices]) if indices else ()
    advanced = [k for k, e in enumerate(spec) if isinstance(e, (int, str))] if indices else [0]
    together = advanced[-1] - advanced[0] == len(advanced) - 1
    sizes, steps, lengths, units = [], [], [], []
    axis = where = start = 0
    for k, item in enumerate(spec):
        if together and k == advanced[0]:
            where = len(sizes)
        if item is Ellipsis:
            continue
        if item is None:
            sizes.append(1)
            steps.append(0)
            continue
        n, stride = shape[axis], strides[axis]
        if isinstance(item, slice):
            first, stop, step = item.indices(n)
            sizes.append(len(range(first, stop, step)))
            steps.append(step * stride)
            start += first * stride
        elif isinstance(item, str):
            if not n and math.prod(block):
                raise IndexError(f"an index is out of bounds for axis {axis} with size 0")
            lengths.append(n)
            units.append(stride)
        else:
            if not -n <= item < n:
                raise IndexError(f"index {item} is out of bounds for axis {axis} with size {n}")
            start += item % n * stride
        axis += 1
    sizes += shape[axis:]
    steps += strides[axis:]
    return Selection(sizes, steps, start, block, where, lengths, units)


@lowering
def index(to: Programs, x: View, *indices: View, spec: tuple) -> None:
    at = selected(x.shape, x.strides, spec, indices)
    out = to.result(at.shape, x.dtype)
    x = x.view(x.shape, x.strides, at.start)
    if not indices:
        copy(to, out, x.view(at.shape, tuple(at.steps)))
        return
    if len(indices) == 1:
        given, length, stride = indices[0], at.lengths[0], at.strides[0]
    else:
        given, length, stride = places(to, indices, at.block, at.lengths, at.strides), 0, 1
    steps = at.along(at.steps, None), at.along(None, steps_in(given, at.block))
    gather(to, out, x, given, steps, length, stride)


gathered = FUNCTIONS["index"]


def gathered_or_seen(x: Array, *indices: Array, spec: tuple) -> Array:
    """What an index selects; a view, if it has no arrays."""
    if indices:
        return gathered(x, *indices, spec=spec)
    at = selected(x.shape, x.strides, spec, indices)
    return x.view(at.shape, tuple(at.steps), x.offset + at.start)


FUNCTIONS["index"] = gathered_or_seen


@lowering
def take_along_axis(to: Programs, x: View, index: View, *, axis: int) -> None:
    axis %= x.ndim
    if index.size and not x.shape[axis]:
        raise IndexError(f"an index is out of bounds for axis {axis} with size 0")
    along_axis(to, to.result(index.shape, x.dtype), x, index, axis)


def along_axis(to: Programs, out: View, x: View, index: View, axis: int) -> None:
    steps = (*x.strides[:axis], 0, *x.strides[axis + 1 :]), index.strides
    gather(to, out, x, index, steps, x.shape[axis], x.strides[axis])


def gather(
    to: Programs, out: View, x: View, index: View, steps: Sequence[Any], length: int, stride: int
) -> None:
    """Take what lies at x's `steps`, and as many strides further as index says, which has `steps`,
    too. `length`: of the axis that the index is for; 0 if all are known to be in range."""
    axes = merged(out.shape, steps)
    words = {"length": length, "stride": stride, **words_of(axes, "n x i")}
    program = gathering(stored_as(x.dtype), WGSL[index.dtype], len(axes.sizes) or 1)
    to.launch_each(program, out.size, x, index, out, STATUS, **words)


def words_of(axes: Axes, names: str) -> dict[str, int]:
    """For each axis its length, and the steps of each array; there is always one."""
    return axis_words(names, axes.sizes or [1], *(steps or [0] for steps in axes.steps))


@functools.cache
def gathering(type: str, index: str, rank: int) -> Program:
    arrays = f"x:{type} index:{index} -> out:{type} status:atomic<u32>"
    words = "at_x at_index length stride " + per_axis(rank, "n x i")
    return per_element("gather", arrays, words, position(index))(f"""
    var source = p.at_x;
    var which = p.at_index;
    {walk(rank, "source += c * p.x{k}; which += c * p.i{k};")}
    out[at] = x[source + position(index[which], p.length) * p.stride];""")


def places(
    to: Programs, indices: Sequence[View], block: Ints, lengths: list[int], strides: list[int]
) -> View:
    """How far from the start each element of a block is: the sum of all indices' strides."""
    out = to.temporary(block, UINT32)
    for k, (given, length, stride) in enumerate(zip(indices, lengths, strides, strict=True)):
        axes = merged(block, [steps_in(given, block)])
        program = placing(WGSL[given.dtype], len(axes.sizes) or 1)
        words = {"length": length, "stride": stride, "more": k > 0, **words_of(axes, "n i")}
        to.launch_each(program, out.size, given, out, STATUS, **words)
    return out


@functools.cache
def placing(index: str, rank: int) -> Program:
    arrays = f"index:{index} -> out status:atomic<u32>"
    words = "at_index length stride more " + per_axis(rank, "n i")
    return per_element("places", arrays, words, position(index))(f"""
    var which = p.at_index;
    {walk(rank, "which += c * p.i{k};")}
    let step = position(index[which], p.length) * p.stride;
    if (p.more != 0u) {{ out[at] += step; }} else {{ out[at] = step; }}""")


def numbered(to: Programs, indices: Sequence[View], at: Selection) -> tuple[View, int]:
    """The places of a block, as numbers that count in a step of as many elements."""
    unit = math.gcd(*at.strides)
    return places(to, indices, at.block, at.lengths, [s // unit for s in at.strides]), unit


@lowering
def assign(to: Programs, x: View, v: View, *indices: View, spec: tuple) -> None:
    """Of duplicates the last stays."""
    out = to.result(x.shape, x.dtype)
    copy(to, out, x)
    at = selected(out.shape, out.strides, spec, indices)
    size = math.prod(at.shape)
    if not indices:
        copy(to, out.view(at.shape, tuple(at.steps), at.start), v)
    elif size:
        keys, unit = numbered(to, indices, at)
        ends = zip(at.lengths, at.strides, strict=True)
        count = 1 + sum((n - 1) * stride // unit for n, stride in ends)
        owners = to.temporary((count,), UINT32, zeroed=True)
        to.launch_each(OWNERS, keys.size, keys, owners)
        steps = at.along(at.steps, None), steps_in(v, at.shape)
        axes = merged(at.shape, (*steps, at.along(None, contiguous(at.block))))
        program = assigning(stored_as(x.dtype), len(axes.sizes) or 1)
        goal = out.view(out.shape, out.strides, at.start)
        words = words_of(axes, "n out v key")
        to.launch_each(program, size, v, keys, owners, goal, unit=unit, **words)


OWNERS = per_element("owners", "keys -> owners:atomic<u32>", "")(
    "atomicMax(&owners[keys[at]], at + 1u);"
)


@functools.cache
def assigning(type: str, rank: int) -> Program:
    """What a block's element says is written if that owns its place: is the last that names it."""
    arrays = f"v:{type} keys owners -> out:{type}"
    words = "at_out at_v unit " + per_axis(rank, "n out v key")
    return per_element("assign", arrays, words)(f"""
    var goal = p.at_out;
    var source = p.at_v;
    var which = 0u;
    {walk(rank, "goal += c * p.out{k}; source += c * p.v{k}; which += c * p.key{k};")}
    let key = keys[which];
    if (owners[key] == which + 1u) {{ out[goal + key * p.unit] = v[source]; }}""")


@entry
def nonzero(x: Array) -> Array:
    if not x.ndim:
        raise ValueError("a 0-d array has no axes to find what isn't zero along")
    flags = flagged(x)
    numbers, count = numbered_flags(flags)
    return listed(flags, numbers, shape=x.shape, count=count)


def numbered_flags(flags: Array) -> tuple[Array, int]:
    """The numbers of what is flagged, from 1 on, and how many there are: this waits for the GPU."""
    numbers = FUNCTIONS["cumulative_sum"](flags, axis=0, reverse=False)
    count = int(flags.gpu.read(numbers.view((), (), flags.size - 1))) if flags.size else 0
    return numbers, count


@on_arrays
def flagged(to: Programs, x: View) -> None:
    """Whether elements aren't 0, in one axis."""
    flags = to.result((x.size,), INT32)
    lower_map(to, flagging(x.dtype), [x], [flags.view(x.shape, contiguous(x.shape))])


@functools.cache
def flagging(dtype: np.dtype) -> Kernel:
    return Kernel((convert(convert(wide(element(0, TYPES[dtype])), BOOL), I32),))


@on_arrays
def listed(to: Programs, flags: View, numbers: View, *, shape: Ints, count: int) -> None:
    """The coordinates of what is flagged, in an array of a shape, by their numbers from 1 on."""
    out = to.result((len(shape), count), INT32)
    if count:
        program, sizes = listing(len(shape)), axis_words("n", shape)
        to.launch_each(program, flags.size, flags, numbers, out, count=count, **sizes)


@functools.cache
def listing(rank: int) -> Program:
    """The coordinates of what is flagged: the nth of it goes to column n - 1."""
    return per_element(
        "list", "flags numbers -> out", "count at_flags at_numbers " + per_axis(rank, "n")
    )(f"""
    if (flags[p.at_flags + at] == 0u) {{ return; }}
    let column = numbers[p.at_numbers + at] - 1u;
    {walk(rank, "out[{k}u * p.count + column] = c;")}""")
