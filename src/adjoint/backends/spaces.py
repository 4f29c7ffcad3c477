"""Iteration spaces: which axes a kernel walks over, in which order, and as few as possible."""

from collections.abc import Sequence
from typing import Any, NamedTuple

Ints = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]  # what is before and after, by axis


def positive(axis: Any, rank: int) -> Ints:
    """Axes counted from the first, in order: of an axis, of several, or None for all."""
    axes = range(rank) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return tuple(sorted(k % rank for k in axes))


def window_count(x_shape: Ints, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints) -> Ints:
    """How many windows fit along each spatial axis."""
    sizes = zip(x_shape[2:], kernel, stride, padding, dilation, strict=True)
    return tuple(
        (n + before + after - d * (k - 1) - 1) // s + 1 for n, k, s, (before, after), d in sizes
    )


class Axes(NamedTuple):
    """The sizes of axes, outermost first, and for each array how far its elements are apart."""

    sizes: list[int]
    steps: list[list[int]]  # per array

    def with_longest_last(self) -> "Axes":
        """Where the last axis is shorter than a vector, another one may be better to walk along."""
        longest = max(range(len(self.sizes)), key=self.sizes.__getitem__)
        order = [*(k for k in range(len(self.sizes)) if k != longest), longest]
        return Axes([self.sizes[k] for k in order], [[s[k] for k in order] for s in self.steps])

    def without(self, position: int) -> "Axes":
        return Axes(
            [n for k, n in enumerate(self.sizes) if k != position],
            [[s for k, s in enumerate(steps) if k != position] for steps in self.steps],
        )


def merged(shape: Sequence[int], steps: Sequence[Sequence[int]]) -> Axes:
    """The axes of a shape without those of length 1, and with neighbours made one where all arrays
    go on from one to the next without a gap."""
    sizes: list[int] = []
    out: list[list[int]] = [[] for _ in steps]
    for k, size in enumerate(shape):
        if size == 1:
            continue
        here = [array[k] for array in steps]
        if sizes and all(done[-1] == step * size for done, step in zip(out, here, strict=True)):
            sizes[-1] *= size
            for done, step in zip(out, here, strict=True):
                done[-1] = step
        else:
            sizes.append(size)
            for done, step in zip(out, here, strict=True):
                done.append(step)
    return Axes(sizes, out)


def steps_in(array: Any, shape: Ints) -> Ints:
    """An array's strides in a shape that it is broadcast to."""
    if array.shape == shape:
        return array.strides
    missing = len(shape) - array.ndim
    own = zip(array.shape, shape[missing:], array.strides, strict=True)
    return (0,) * missing + tuple(0 if n == 1 != m else step for n, m, step in own)


def axis_order(shape: Ints, steps: Sequence[Sequence[int]]) -> list[int]:
    """The axes in the order in which arrays have them in memory, if all agree on one.

    Arrays that lack axes don't count. So it doesn't matter in how many steps something is computed.
    """
    axes = list(range(len(shape)))
    real = [k for k in axes if shape[k] > 1]
    full = [own for own in steps if all(own[k] for k in real)]
    orders = {tuple(sorted(real, key=lambda k: -abs(own[k]))) for own in full}
    if len(orders) != 1:
        return axes
    order = orders.pop()
    return axes if list(order) == real else [*(k for k in axes if shape[k] <= 1), *order]
