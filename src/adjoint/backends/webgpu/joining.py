"""Arrays joined, and put into larger ones that are one number elsewhere."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .arrays import WGSL, Array, Ints
from .launcher import copy_into
from .programs import Program
from .table import kernel

WORKGROUP = 256
VALUES = {
    "u32": "p.value",
    "f16": "f16(unpack2x16float(p.value).x)",
}  # of a word


def groups_for(count: int) -> int:
    """How many workgroups there must be for each element to have an invocation."""
    return -(-count // WORKGROUP)


def stored_as(dtype: np.dtype) -> str:
    """The WGSL type to move elements in, which are bits where nothing is computed."""
    return "f16" if WGSL[dtype] == "f16" else "u32"


def walk(rank: int, step: str) -> str:
    """Text that takes the coordinates of element `at` from its number, the last one first.

    `step` says what to do with one, `c`, where `{k}` is the number of its axis.
    """
    lines = ["var rest = at;"]
    for k in reversed(range(rank)):
        taken = f"let c = rest % p.n{k}; rest /= p.n{k};" if k else "let c = rest;"
        lines.append(f"{{ {taken} {step.format(k=k)} }}")
    return "\n".join(lines)


def per_axis(rank: int, names: str) -> str:
    """The words of a program that has some for each axis."""
    return " ".join(f"{name}{k}" for k in range(rank) for name in names.split())


def axis_words(names: str, *columns: Sequence[int]) -> dict[str, int]:
    """What such words are: for each name a number for each axis."""
    return {
        f"{name}{k}": number
        for name, column in zip(names.split(), columns, strict=True)
        for k, number in enumerate(column)
    }


@kernel
def concat(*xs: Array, axis: int) -> Array:
    first = xs[0]
    length = sum(x.shape[axis] for x in xs)
    shape = (*first.shape[:axis], length, *first.shape[axis + 1 :])
    out = first.gpu.empty(shape, first.dtype)
    start = 0
    for x in xs:
        copy_into(out.view(x.shape, out.strides, start), x)
        start += x.shape[axis] * out.strides[axis]
    return out


class AxisSpan(NamedTuple):
    """Where an array lies along one axis of a larger one: at `count` places from `start` on."""

    length: int
    start: int
    step: int
    count: int
    stride: int  # of the array

    @property
    def whole(self) -> bool:
        return self.count == self.length and self.step == 1


@kernel
def pad(x: Array, *, pad_width: Sequence[tuple[int, int]], value: Any) -> Array:
    sides = zip(x.shape, x.strides, pad_width, strict=True)
    spans = [AxisSpan(before + n + after, before, 1, n, s) for n, s, (before, after) in sides]
    return put(x, x.offset, spans, value)


@kernel
def place(x: Array, *, index: tuple, shape: Ints) -> Array:
    own = iter(zip(x.shape, x.strides, strict=True))
    start, spans = x.offset, []
    for entry in index:
        if entry is None:
            next(own)
            continue
        length = shape[len(spans)]
        if isinstance(entry, slice):
            count, stride = next(own)
            first, _, step = entry.indices(length)
            if step < 0:  # from the other end
                start += (count - 1) * stride
                first, step, stride = first + (count - 1) * step, -step, -stride
            spans.append(AxisSpan(length, first, step, count, stride))
        else:
            spans.append(AxisSpan(length, entry % length, 1, 1, 0))
    spans += [AxisSpan(n, 0, 1, n, stride) for n, stride in own]
    return put(x, start, spans, 0)


def put(x: Array, start: int, spans: list[AxisSpan], value: Any) -> Array:
    """x, which begins at `start`, along the axes of a larger array with one value elsewhere."""
    out = x.gpu.empty(tuple([span.length for span in spans]), x.dtype)
    spans = joined(spans)
    words = {"size": out.size, "value": word(value, x.dtype)}
    words |= axis_words("n start step count stride", *zip(*spans, strict=True))
    program = placing(stored_as(x.dtype), len(spans))
    x = x.view(x.shape, x.strides, start)
    x.gpu.launch(program, groups_for(out.size), x, out, **words)
    return out


def joined(spans: list[AxisSpan]) -> list[AxisSpan]:
    """Fewer axes: neighbours made one where the second is covered wholly, and without a gap."""
    out: list[AxisSpan] = []
    for span in spans:
        last = out[-1] if out else None
        n = span.length
        if n == 1 == span.count and last:
            continue
        if last and span.whole and last.step == 1 and last.stride == span.stride * n:
            out[-1] = AxisSpan(last.length * n, last.start * n, 1, last.count * n, span.stride)
        else:
            out.append(span)
    return out or [AxisSpan(1, 0, 1, 1, 0)]


def word(value: Any, dtype: np.dtype) -> int:
    """A number's bits, as a word takes them."""
    number = np.array(value, dtype)
    return int(number.view({1: "i1", 2: "u2", 4: "i4"}[number.itemsize]))


@functools.cache
def placing(type: str, rank: int) -> Program:
    """An axis has the words of an `AxisSpan`."""
    step = """
        let steps = (c - p.start{k}) / p.step{k};
        inside = inside && steps < p.count{k} && c - p.start{k} == steps * p.step{k};
        source += steps * p.stride{k};"""
    return Program(
        "place",
        {"x": type},
        {"out": type},
        "size at_x value " + per_axis(rank, "n start step count stride"),
        f"""
    let at = group * {WORKGROUP}u + lane;
    if (at >= p.size) {{ return; }}
    var inside = true;
    var source = p.at_x;
    {walk(rank, step)}
    var value = {VALUES[type]};
    if (inside) {{ value = x[source]; }}
    out[at] = value;""",
        workgroup=WORKGROUP,
    )


def filled(like: Array, shape: Ints, dtype: np.dtype, value: Any = 0) -> Array:
    """A new array in memory, on the device of another, with one number everywhere."""
    out = like.gpu.empty(shape, dtype)
    words = {"size": out.size, "value": word(value, dtype)}
    like.gpu.launch(filling(stored_as(dtype)), groups_for(out.size), out, **words)
    return out


@functools.cache
def filling(type: str) -> Program:
    return Program(
        "fill",
        {},
        {"out": type},
        "size value",
        f"""
    let at = group * {WORKGROUP}u + lane;
    if (at < p.size) {{ out[at] = {VALUES[type]}; }}""",
        workgroup=WORKGROUP,
    )
