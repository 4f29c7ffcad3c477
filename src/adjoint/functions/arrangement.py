"""Elements moved, repeated, left out or put around, along axes."""

from typing import Any

import numpy as np

from .._core.promotion import placed_indices
from .._core.shape_inference import at_axis, broadcasts_to
from .._core.tensor import Tensor
from .._foundation.dtypes import RANK
from .._foundation.errors import ArgumentError, DTypeError, ShapeError
from ..primitives import shapes
from ..primitives.creation import counting
from ..primitives.elementwise import not_equal, subtract
from ..primitives.indexing import index
from ..primitives.reductions import broadcast_to
from ..primitives.triangles import triangle
from ._arguments import (
    Axis,
    as_axes,
    as_axis,
    as_integer,
    as_integers,
    as_tensor,
    as_tensor_like,
    has_tensors,
    in_common_dtype,
    reject,
)
from ._marks import method, single_method
from .creation import asarray
from .elementwise import positive
from .shapes import concat, moveaxis, without

__all__ = ["diagflat", "diagonal", "diff", "flip", "pad", "repeat", "roll", "tile", "tril", "triu"]

# How elements outside the tensor are made from those inside; NumPy's names.
PAD_MODES = ("edge", "reflect", "symmetric", "wrap")


@method
def flip(x: Any, /, axis: Axis = None, **unknown: Any) -> Tensor:
    """The order of the elements reversed along axes, all if none is named.

    >>> ad.flip(ad.asarray([1, 2, 3]))
    tensor([3, 2, 1])
    """
    if unknown:
        reject("flip", unknown)
    x = as_tensor("flip", x)
    axes = as_axes("flip", axis, x.ndim)
    steps = (slice(None, None, -1) if k in axes else slice(None) for k in range(x.ndim))
    return shapes.slice_(x, index=tuple(steps))


@method
def roll(x: Any, /, shift: Any, axis: Axis = None, **unknown: Any) -> Tensor:
    """Elements moved along axes; what leaves at one end comes in at the other.

    Without an axis the tensor is rolled as if it were flat.

    >>> ad.roll(ad.asarray([1, 2, 3]), 1)
    tensor([3, 1, 2])
    """
    if unknown:
        reject("roll", unknown)
    x = as_tensor("roll", x)
    if axis is None:
        flat = shapes.reshape(x, shape=(x.size,))
        return shapes.reshape(rolled(flat, as_integer("roll", "shift", shift), 0), shape=x.shape)
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    shifts = tuple(shift) if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise ArgumentError(f"roll: shift {shift} and axis {axis} must be equally many")
    x = positive(x)
    for by, k in zip(shifts, axes, strict=True):
        x = rolled(x, as_integer("roll", "shift", by), as_axis("roll", k, x.ndim))
    return x


def rolled(x: Tensor, shift: int, axis: int) -> Tensor:
    cut = -shift % x.shape[axis] if x.shape[axis] else 0
    end, start = (shapes.slice_(x, index=at_axis(axis, s)) for s in (slice(cut, None), slice(cut)))
    return shapes.concat(end, start, axis=axis)


@method
def tile(x: Any, repetitions: Any, /) -> Tensor:
    """The tensor repeated as a whole along its axes; further axes come first.

    >>> ad.tile(ad.asarray([1, 2]), (2, 2))
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    x = as_tensor("tile", x)
    counts = as_integers("tile", "repetitions", repetitions)
    if min(counts, default=0) < 0:
        raise ArgumentError(f"tile: repetitions can't be negative, got {repetitions}")
    ndim = max(x.ndim, len(counts))
    counts = [1] * (ndim - len(counts)) + counts
    sizes = [1] * (ndim - x.ndim) + list(x.shape)
    pairs = list(zip(counts, sizes, strict=True))
    apart = shapes.reshape(x, shape=tuple(n for size in sizes for n in (1, size)))
    wide = broadcast_to(apart, shape=tuple(n for pair in pairs for n in pair))
    return shapes.reshape(wide, shape=tuple(count * size for count, size in pairs))


@single_method("copies of the whole are x.tile(({0})), of each element x.repeat({1}, axis={2})")
def repeat(x: Any, repeats: Any, /, *, axis: int | None = None, **unknown: Any) -> Tensor:
    """Each element repeated along an axis, or of the flattened tensor if none is named.

    `repeats` is one number, or one for each element along the axis.

    >>> ad.repeat(ad.asarray([1, 2]), 2)
    tensor([1, 1, 2, 2])
    """
    if unknown:
        reject("repeat", unknown)
    x = as_tensor("repeat", x)
    x, axis = (shapes.reshape(x, shape=(x.size,)), 0) if axis is None else (x, axis)
    axis = as_axis("repeat", axis, x.ndim)
    counts = as_counts(repeats, x.shape[axis])
    if counts.ndim:
        places = np.repeat(np.arange(x.shape[axis]), counts)
        return index(x, placed_indices(places, x.device), spec=at_axis(axis, "array"))
    count, (before, n, after) = int(counts), (x.shape[:axis], x.shape[axis], x.shape[axis + 1 :])
    apart = shapes.reshape(x, shape=(*before, n, 1, *after))
    wide = broadcast_to(apart, shape=(*before, n, count, *after))
    return shapes.reshape(wide, shape=(*before, n * count, *after))


def as_counts(repeats: Any, length: int) -> np.ndarray:
    """How often to repeat: a 0-d array, or a number for each element."""
    try:
        counts = repeats._host("repeat") if isinstance(repeats, Tensor) else np.asarray(repeats)
    except ValueError:
        raise ShapeError(f"repeat: repeats must be 1-d, got {repeats!r}") from None
    if counts.dtype.kind not in "iu" and counts.size:
        raise DTypeError(f"repeat: repeats must be integers, got {repeats!r}")
    if counts.ndim > 1 or (counts.ndim == 1 and len(counts) not in (1, length)):
        raise ShapeError(f"repeat: repeats of shape {counts.shape} for {length} elements")
    if (counts.astype(np.int64) < 0).any():
        raise ArgumentError(f"repeat: repeats can't be negative, got {repeats!r}")
    return counts.reshape(()).astype(np.int64) if counts.size == 1 else counts.astype(np.int64)


def pad(x: Any, /, pad_width: Any, mode: str = "constant", constant_values: Any = None) -> Tensor:
    """The tensor with elements around it: a constant, 0 unless given, or by mode "edge", "reflect",
    "symmetric" or "wrap" its own; widths, modes and constants as in `numpy.pad`.

    >>> ad.pad(ad.asarray([1, 2]), (1, 2))
    tensor([0, 1, 2, 0, 0])
    >>> ad.pad(ad.asarray([1, 2, 3]), 2, "reflect")
    tensor([3, 2, 1, 2, 3, 2, 1])
    """
    x = as_tensor("pad", x)
    widths = each_axis(pad_width, x.shape)
    if mode in PAD_MODES and constant_values is None:
        return padded_by_own(x, widths, mode)
    if mode in PAD_MODES:
        raise ArgumentError(f"pad: constant_values go with mode 'constant', not {mode!r}")
    if mode != "constant":
        raise ArgumentError(f"pad: mode {mode!r} is none of 'constant', {PAD_MODES}")
    if has_tensors(constant_values):
        return padded_by_tensors(x, widths, asarray(constant_values))
    constant_values = 0 if constant_values is None else constant_values
    values = np.broadcast_to(fitting(constant_values, x), (x.ndim, 2)).tolist()
    if len({value for pair in values for value in pair}) <= 1:
        return shapes.pad(x, pad_width=widths, value=values[0][0] if values else 0)
    for axis, ((before, after), (first, last)) in enumerate(zip(widths, values, strict=True)):
        for side, value in (((before, 0), first), ((0, after), last)):
            width = tuple(side if k == axis else (0, 0) for k in range(x.ndim))
            x = shapes.pad(x, pad_width=width, value=value)
    return x


def padded_by_tensors(x: Tensor, widths: tuple[tuple[int, int], ...], values: Tensor) -> Tensor:
    """Padding by constants that are tensors, which keep their gradients."""
    values = as_tensor_like("pad", x, values)
    check_constants(values, x)
    values, x = broadcast_to(values, shape=(x.ndim, 2)), positive(x)
    for axis, width in enumerate(widths):
        before, after = (
            broadcast_to(values[axis, k], shape=(*x.shape[:axis], n, *x.shape[axis + 1 :]))
            for k, n in enumerate(width)
        )
        x = concat([before, x, after], axis=axis)
    return x


def fitting(constant_values: Any, x: Tensor) -> np.ndarray:
    """The constants to pad x with, as NumPy broadcasts them."""
    values = np.asarray(constant_values)
    if values.dtype.kind not in RANK or RANK[values.dtype.kind] > RANK[x.raw.dtype.kind]:
        raise DTypeError(f"pad: {constant_values!r} doesn't fit into a tensor of {x.dtype.name}")
    check_constants(values, x)
    return values


def check_constants(values: Any, x: Tensor) -> None:
    if not broadcasts_to(values.shape, (x.ndim, 2)):
        raise ShapeError(
            f"pad: constant_values must be a number, a pair, or a pair for each of the {x.ndim} "
            f"axes, got shape {values.shape}"
        )


def padded_by_own(x: Tensor, widths: tuple[tuple[int, int], ...], mode: Any) -> Tensor:
    """Padding by elements of the tensor: NumPy says which, and they are taken."""
    x = positive(x)
    for axis, width in enumerate(widths):
        if width == (0, 0):
            continue
        if not x.shape[axis]:
            raise ShapeError(f"pad: mode {mode!r} has nothing to take along axis {axis}, {x.shape}")
        places = placed_indices(np.pad(np.arange(x.shape[axis]), width, mode=mode), x.device)
        x = index(x, places, spec=at_axis(axis, "array"))
    return x


def each_axis(pad_width: Any, shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """(before, after) for each axis, from an int, a pair, or a pair per axis."""
    try:
        widths = np.asarray(pad_width)
        pairs = np.broadcast_to(widths, (len(shape), 2)).tolist()
    except ValueError:
        widths, pairs = np.full(2, -1), []
    if widths.dtype.kind not in "iu" or widths.min(initial=0) < 0:
        raise ArgumentError(
            f"pad: pad_width {pad_width!r} must be an int, a pair, or a pair for each of the "
            f"{len(shape)} axes of shape {shape}, none negative"
        )
    return tuple((before, after) for before, after in pairs)


def tril(x: Any, /, *, k: int = 0, **unknown: Any) -> Tensor:
    """Matrices with zeros above the k-th diagonal.

    >>> ad.tril(ad.ones((2, 2)))
    tensor([[1., 0.],
            [1., 1.]])
    """
    if unknown:
        reject("tril", unknown)
    return half("tril", x, k, upper=False)


def triu(x: Any, /, *, k: int = 0, **unknown: Any) -> Tensor:
    """Matrices with zeros below the k-th diagonal.

    >>> ad.triu(ad.ones((2, 2)))
    tensor([[1., 1.],
            [0., 1.]])
    """
    if unknown:
        reject("triu", unknown)
    return half("triu", x, k, upper=True)


def half(function: str, x: Any, k: int, upper: bool) -> Tensor:
    x = as_tensor(function, x)
    if x.ndim < 2:
        raise ShapeError(f"{function}: at least 2 axes are needed, shape is {x.shape}")
    offset = max(-x.shape[-2], min(as_integer(function, "k", k), x.shape[-1]))
    return triangle(x, k=offset, upper=upper)


@method
def diagonal(x: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The elements of two axes whose indices differ by `offset`, along a new last axis.

    >>> ad.diagonal(ad.asarray([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    x = as_tensor("diagonal", x)
    axes = tuple(as_axis("diagonal", axis, x.ndim) for axis in (axis1, axis2))
    if axes[0] == axes[1]:
        raise ArgumentError(f"diagonal: axis1 and axis2 are both {axes[0]}")
    x = moveaxis(x, axes, (-2, -1))
    rows, columns = x.shape[-2:]
    first = as_integer("diagonal", "offset", offset)
    length = max(0, min(rows, columns - first) if first >= 0 else min(rows + first, columns))
    place = counting(length, x.device)
    row, column = (place, place + first) if first >= 0 else (place - first, place)
    return index(x, row, column, spec=at_axis(x.ndim - 2, "array", "array"))


def diagflat(x: Any, /, k: int = 0) -> Tensor:
    """A matrix with the flattened elements on its k-th diagonal, zeros elsewhere.

    >>> ad.diagflat(ad.asarray([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    x = as_tensor("diagflat", x)
    offset = as_integer("diagflat", "k", k)
    n = x.size + abs(offset)
    start = offset if offset >= 0 else -offset * n
    place = slice(start, start + x.size * (n + 1), n + 1)
    flat = shapes.reshape(x, shape=(x.size,))
    return shapes.reshape(shapes.place(flat, index=(place,), shape=(n * n,)), shape=(n, n))


def diff(
    x: Any,
    /,
    n: int = 1,
    axis: int = -1,
    prepend: Any = None,
    append: Any = None,
    **unknown: Any,
) -> Tensor:
    """Differences of neighbours along an axis, taken n times.

    >>> ad.diff(ad.asarray([1, 4, 9]))
    tensor([3, 5])
    """
    if unknown:
        reject("diff", unknown)
    x = as_tensor("diff", x)
    axis = as_axis("diff", axis, x.ndim)
    if as_integer("diff", "n", n) < 0:
        raise ArgumentError(f"diff: n can't be negative, got {n}")
    given = [part for part in (prepend, x, append) if part is not None]
    x = concat([joined(x, part, axis) for part in in_common_dtype("diff", *given)], axis)
    difference = not_equal if x.raw.dtype.kind == "b" else subtract
    for _ in range(n):
        later, earlier = slice(1, None), slice(0, max(0, x.shape[axis] - 1))
        x = difference(*(shapes.slice_(x, index=at_axis(axis, s)) for s in (later, earlier)))
    return x


def joined(x: Tensor, part: Tensor, axis: int) -> Tensor:
    """What diff puts before or after x; a number stands for one element in each place."""
    line = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    part = part if part.ndim else broadcast_to(part, shape=line)
    if part.ndim != x.ndim or without(part.shape, axis) != without(x.shape, axis):
        raise ShapeError(
            f"diff: x has shape {x.shape}, prepend or append {part.shape}; all axes but {axis} "
            "must be equal"
        )
    return part
