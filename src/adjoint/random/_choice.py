"""Choices among things: permutations, samples, categories."""

import math
from typing import Any

import numpy as np

from .._core.promotion import to_dtype
from .._core.tensor import Tensor, describe
from .._foundation.errors import ArgumentError, ShapeError
from ..backends import widest
from ..functions._arguments import as_axis, as_shape, as_tensor, reject
from ..functions.creation import asarray
from ..functions.dtypes import finfo
from ..functions.indexing import take
from ..functions.reductions import any, as_float, count_nonzero, cumulative_sum, sum
from ..functions.shapes import expand_dims, moveaxis, reshape
from ..functions.sorting import argsort, searchsorted, topk
from ..primitives.conversions import cast
from ..primitives.elementwise import abs, where
from ..primitives.reductions import softmax
from ..primitives.shapes import slice_
from ._generator import Generator
from ._integers import INTEGERS, below
from ._parameters import Draw, Options, check, draw_of, refuse_grad
from ._units import fraction, part, unit, words


def permutation(
    x: Any,
    axis: int = 0,
    *,
    device: str | None = None,
    generator: Generator | None = None,
    **unknown: Any,
) -> Tensor:
    """The numbers below x in random order if x is an integer; else x, with an axis in random order.

    All orders are equally likely. Nothing is changed in place: to shuffle, write
    `x = ad.random.permutation(x)`; to shuffle several tensors alike, index them with one
    permutation.

    >>> order = ad.random.permutation(4)
    >>> ad.sort(order)
    tensor([0, 1, 2, 3])
    >>> images, labels = ad.ones((4, 2)), ad.arange(4)
    >>> images, labels = images[order], labels[order]
    """
    if unknown:
        reject("random.permutation", unknown)
    n, x = things("random.permutation", x, axis)
    options = Options(n, None, device or device_of(x), generator)
    order = shuffled(draw_of("random.permutation", options, [], INTEGERS))
    return order if x is None else take(x, order, axis=axis)


def choice(
    a: Any,
    shape: Any = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    *,
    device: str | None = None,
    generator: Generator | None = None,
    **unknown: Any,
) -> Tensor:
    """Elements along an axis of `a`, or numbers below it if it is an integer, chosen at random.

    `p` gives each its probability. Without replacement nothing is chosen twice, and p is what each
    has in the first choice.

    >>> ad.random.choice(ad.asarray([10, 20, 30]), (5,), p=[0.0, 1.0, 0.0])
    tensor([20, 20, 20, 20, 20])
    >>> ad.sort(ad.random.choice(3, (3,), replace=False))
    tensor([0, 1, 2])
    """
    if unknown:
        reject("random.choice", unknown)
    n, a = things("random.choice", a, axis)
    options = Options(shape, None, device or device_of(a), generator)
    draw = draw_of("random.choice", options, [], INTEGERS)
    weights = None if p is None else probabilities(n, p, draw.device)
    check_supply(n, math.prod(draw.shape), replace, weights)
    places = with_replacement(draw, n, weights) if replace else distinct(draw, n, weights)
    return places if a is None else take(a, places, axis=axis)


def categorical(
    logits: Any,
    shape: Any = None,
    axis: int = -1,
    *,
    generator: Generator | None = None,
    **unknown: Any,
) -> Tensor:
    """Numbers of categories, with the probabilities softmax(logits) along an axis.

    `shape` is that of the result; the other axes of `logits`, which it has by default, broadcast to
    it.

    >>> logits = ad.log(ad.asarray([[1.0, 0.0], [0.0, 1.0]]))
    >>> ad.random.categorical(logits)
    tensor([0, 1])
    >>> ad.random.categorical(logits, (3, 2)).shape
    (3, 2)
    """
    if unknown:
        reject("random.categorical", unknown)
    logits = as_float(as_tensor("random.categorical", logits))
    axis = as_axis("random.categorical", axis, logits.ndim)
    refuse_grad("random.categorical", "logits", logits)
    if not logits.shape[axis]:
        raise ShapeError(f"random.categorical: there are no categories in {describe(logits)}")
    logits = moveaxis(to_dtype(logits, widest(logits.device, "f")), axis, -1)
    known = logits < math.inf  # not NaN either
    check("random.categorical", known, "logits must be numbers below infinity", logits)
    some = any(logits > -math.inf, axis=-1)
    check("random.categorical", some, "some category must be possible", -math.inf)
    options = Options(shape, None, logits.device, generator)
    draw = draw_of("random.categorical", options, [logits[..., 0]], INTEGERS)
    return by_running_sum(draw, softmax(logits, axis=logits.ndim - 1))


def things(function: str, x: Any, axis: int) -> tuple[int, Tensor | None]:
    """How many things there are, and the tensor that they are parts of, unless they are numbers."""
    if isinstance(x, (int, np.integer)):
        return as_shape(function, x)[0], None
    x = as_tensor(function, x)
    return x.shape[as_axis(function, axis, x.ndim)], x


def device_of(x: Tensor | None) -> str | None:
    return None if x is None else x.device


def probabilities(n: int, p: Any, device: str) -> Tensor:
    """One for each of n things, in the widest dtype."""
    given = p if isinstance(p, Tensor) else asarray(p, dtype=widest(device, "f"), device=device)
    refuse_grad("random.choice", "p", given)
    if given.shape != (n,):
        raise ShapeError(
            f"random.choice: p must have a probability for each of {n} things, its shape is "
            f"{given.shape}"
        )
    out = to_dtype(as_float(given), widest(device, "f"))
    check("random.choice", out >= 0, "probabilities must not be negative", out)
    total = sum(out)
    tolerance = math.sqrt(finfo(as_float(given)).eps)
    check("random.choice", abs(total - 1) <= tolerance, "p must add up to 1", total)
    return out


def check_supply(n: int, size: int, replace: bool, p: Tensor | None) -> None:
    """Raise unless there are things enough."""
    if size and not n:
        raise ArgumentError("random.choice: there is nothing to choose from")
    if not replace and size > n:
        raise ArgumentError(
            f"random.choice: {size} of {n} things can't be chosen without replacement"
        )
    if not replace and p is not None:
        possible = count_nonzero(p)
        what = f"to choose {size} things without replacement as many must have p > 0"
        check("random.choice", possible >= size, what, possible)


def with_replacement(draw: Draw, n: int, p: Tensor | None) -> Tensor:
    """Numbers below n."""
    if p is not None:
        return by_running_sum(draw, p)
    return cast(below(draw, max(n, 1), 2), dtype=widest(draw.device, "i"))


def by_running_sum(draw: Draw, p: Tensor) -> Tensor:
    """Where uniform numbers fall among the running sums of probabilities along the last axis."""
    running = cumulative_sum(p, axis=-1)
    running = running / running[..., -1:]
    number = unit(draw._replace(dtype=p.raw.dtype))
    if p.ndim == 1:
        return searchsorted(running, number, side="right")
    return sum(running <= expand_dims(number, -1), axis=-1)


def distinct(draw: Draw, n: int, p: Tensor | None) -> Tensor:
    """Different numbers below n: the first ones of a random order.

    With probabilities that is the order in which exponential times with the rates p run out.
    """
    size = math.prod(draw.shape)
    everything = draw._replace(shape=(n,))
    if p is None:
        first = slice_(shuffled(everything), index=(slice(0, size),))
    else:
        possible = p > 0
        times = -fraction(everything._replace(dtype=p.raw.dtype)).log
        times = where(possible, times / where(possible, p, 1), finfo(p).max)
        first = topk(times, size, largest=False).indices
    return reshape(first, draw.shape)


def shuffled(draw: Draw) -> Tensor:
    """The numbers below n, sorted by random 64-bit keys: first by the low words, then the high."""
    keys = words(draw, 2)
    by_low = argsort(part(keys, 0))
    return take(by_low, argsort(take(part(keys, 1), by_low)))
