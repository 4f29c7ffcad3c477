"""Arrays joined, and put into larger ones that are one number elsewhere."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..launches import View
from .arrays import Ints
from .fills import VALUES, axis_words, per_axis, stored_as, walk, word
from .lowering import Programs, lowering
from .maps import copy
from .programs import Program, per_element


@lowering
def concat(to: Programs, *xs: View, axis: int) -> None:
    shape = list(xs[0].shape)
    shape[axis] = sum(x.shape[axis] for x in xs)
    out = to.result(tuple(shape), xs[0].dtype)
    start = 0
    for x in xs:
        copy(to, out.view(x.shape, out.strides, start), x)
        start += x.shape[axis] * out.strides[axis]


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


@lowering
def pad(to: Programs, x: View, *, pad_width: Sequence[tuple[int, int]], value: Any) -> None:
    sides = zip(x.shape, x.strides, pad_width, strict=True)
    spans = [AxisSpan(before + n + after, before, 1, n, s) for n, s, (before, after) in sides]
    put(to, to.result(tuple([span.length for span in spans]), x.dtype), x, spans, value)


@lowering
def place(to: Programs, x: View, *, index: tuple, shape: Ints) -> None:
    place_into(to, to.result(shape, x.dtype), x, index)


def place_into(to: Programs, out: View, x: View, index: tuple) -> None:
    """Put x at an index of a larger array that is 0 elsewhere."""
    own = iter(zip(x.shape, x.strides, strict=True))
    start, spans = 0, []
    for entry in index:
        if entry is None:
            next(own)
            continue
        length = out.shape[len(spans)]
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
    put(to, out, x.view(x.shape, x.strides, start), spans, 0)


def put(to: Programs, out: View, x: View, spans: list[AxisSpan], value: Any) -> None:
    """x along the axes of a larger array with one value elsewhere."""
    spans = joined(spans)
    words = axis_words("n start step count stride", *zip(*spans, strict=True))
    program = placing(stored_as(x.dtype), len(spans))
    to.launch_each(program, out.size, x, out, value=word(value, x.dtype), **words)


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


@functools.cache
def placing(type: str, rank: int) -> Program:
    """An axis has the words of an `AxisSpan`."""
    step = """
        let steps = (c - p.start{k}) / p.step{k};
        inside = inside && steps < p.count{k} && c - p.start{k} == steps * p.step{k};
        source += steps * p.stride{k};"""
    words = "at_x value " + per_axis(rank, "n start step count stride")
    return per_element("place", f"x:{type} -> out:{type}", words)(f"""
    var inside = true;
    var source = p.at_x;
    {walk(rank, step)}
    var value = {VALUES[type]};
    if (inside) {{ value = x[source]; }}
    out[at] = value;""")
