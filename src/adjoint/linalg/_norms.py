"""Norms, and what is made of them."""

import math
from numbers import Real
from typing import Any, Literal

from .._core.shape_inference import reduced_shape
from .._core.tensor import Tensor
from .._foundation.dtypes import float16, float32
from .._foundation.errors import ArgumentError
from ..functions import reductions
from ..functions._arguments import Axis, as_axes, as_tensor, reject
from ..primitives.conversions import cast, scale
from ..primitives.elementwise import abs as absolute
from ..primitives.elementwise import equal, not_equal, pow, sign, trunc, where
from ..primitives.products import exponents
from ..primitives.reductions import max_, min_, norm, sum_
from ..primitives.shapes import reshape
from ..primitives.solving import identity_like, inv, slogdet
from ._checks import factorizable, matrices, named, real_of, regular
from ._factorizations import singular_values

MatrixOrd = float | Literal["fro", "nuc"] | None
MATRIX_ORDS = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)


def vector_norm(
    x: Any, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2, **unknown: Any
) -> Tensor:
    """(sum |x| ** ord) ** (1 / ord) over axes, all if none is named; its gradient at 0 is 0.

    `ord` is any number: inf and -inf give the largest and the smallest absolute value, 0 counts
    what isn't 0.

    >>> ad.linalg.vector_norm(ad.asarray([3.0, 4.0]))
    tensor(5.)
    """
    if unknown:
        reject("vector_norm", unknown)
    x = reductions.as_float(as_tensor("vector_norm", x))
    if not isinstance(ord, Real) or math.isnan(ord):
        raise ArgumentError(
            f"vector_norm: ord is a number, inf or -inf, got {ord!r}; matrices have "
            "ad.linalg.matrix_norm"
        )
    axes = as_axes("vector_norm", axis, x.ndim)
    if x.raw.dtype == float16.dtype:  # squares overflow where the norm doesn't
        wide = cast(x, dtype=float32.dtype)
        return cast(p_norm(wide, axes, keepdims, float(ord)), dtype=float16.dtype)
    return p_norm(x, axes, keepdims, float(ord))


def p_norm(x: Tensor, axis: tuple[int, ...], keepdims: bool, ord: float) -> Tensor:
    if x.raw.dtype.kind == "c":
        x = absolute(x)
    if math.isinf(ord):
        return extreme("vector_norm", absolute(x), axis, keepdims, ord)
    if ord == 0:  # sign has a gradient, of zeros
        return sum_(where(not_equal(x, 0), 1, sign(x)), axis=axis, keepdims=keepdims)
    if ord == 1:
        return sum_(absolute(x), axis=axis, keepdims=keepdims)
    if ord == 2:
        return norm(x, axis=axis, keepdims=keepdims)
    # Powers of the element that counts most are near 1: others leave the range.
    size = absolute(x.detach())
    largest = extreme("vector_norm", size, axis, True, math.copysign(math.inf, ord))
    exponent = trunc(exponents(largest))
    out = root(sum_(powers(scale(x, -exponent), ord), axis=axis, keepdims=True), ord)
    out = scale(out, exponent)
    return out if keepdims else reshape(out, shape=reduced_shape(x.shape, axis, False))


def extreme(function: str, x: Tensor, axis: tuple[int, ...], keepdims: bool, ord: float) -> Tensor:
    """The largest of numbers that aren't negative, 0 if there is none; or the smallest."""
    if ord > 0 and not math.prod(x.shape[k] for k in axis):
        return sum_(x, axis=axis, keepdims=keepdims)
    reductions.check_some_elements(function, x, axis)
    return (max_ if ord > 0 else min_)(x, axis=axis, keepdims=keepdims)


def powers(x: Tensor, ord: float) -> Tensor:
    """|x| ** ord, whose derivatives at 0 are those that exist, or 0."""
    if ord > 0 and ord == int(ord):
        return pow(absolute(x) if ord % 2 else x, ord)
    zero = equal(x, 0)
    return where(zero, 0.0 if ord > 0 else math.inf, pow(absolute(where(zero, 1, x)), ord))


def root(total: Tensor, ord: float) -> Tensor:
    """total ** (1 / ord), with gradient 0 where total is 0."""
    zero = equal(total, 0)
    safe = where(zero, 1, total)
    return where(zero, 0.0 if ord > 0 else math.inf, pow(safe, 1 / ord))


@named
def matrix_norm(
    x: Any,
    /,
    *,
    keepdims: bool = False,
    ord: float | Literal["fro", "nuc"] | None = "fro",
    **unknown: Any,
) -> Tensor:
    """A norm of matrices: "fro" (of all elements), "nuc" (the sum of the singular values), 1 or
    inf (the largest sum of absolute values in a column or a row), 2 (the largest singular value);
    -1, -inf and -2 take the smallest.

    >>> x = ad.asarray([[1.0, -2.0], [3.0, 4.0]])
    >>> ad.linalg.matrix_norm(x, ord=1), ad.linalg.matrix_norm(x, ord=float("inf"))
    (tensor(6.), tensor(7.))
    """
    if unknown:
        reject("matrix_norm", unknown)
    check_ord("matrix_norm", "ord", ord)
    x = reductions.as_float(matrices("matrix_norm", x))
    if x.raw.dtype == float16.dtype:
        wide = matrix_norm(cast(x, dtype=float32.dtype), keepdims=keepdims, ord=ord)
        return cast(wide, dtype=float16.dtype)
    if ord is None or ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord in (2, -2, "nuc"):
        values, axes = singular_values(factorizable("matrix_norm", x)), (x.ndim - 2,)
        if values.shape[-1]:  # norms have gradient 0 where they are 0
            values = where(equal(values[..., :1], 0), 0.0, values)
    else:
        summed = x.ndim - 2 if math.isfinite(ord) else x.ndim - 1
        values, axes = sum_(absolute(x), axis=(summed,), keepdims=False), (x.ndim - 2,)
    if ord == "nuc":
        out = sum_(values, axis=axes, keepdims=False)
    elif ord < 0 and not values.shape[-1]:
        raise ArgumentError(f"matrix_norm: nothing to take the smallest of; shape is {x.shape}")
    else:
        out = extreme("matrix_norm", values, axes, False, ord)
    return reshape(out, shape=(*out.shape, 1, 1)) if keepdims else out


def check_ord(function: str, name: str, ord: Any) -> None:
    if ord is not None and not (isinstance(ord, (Real, str)) and ord in MATRIX_ORDS):
        raise ArgumentError(f"{function}: {name} is None or one of {MATRIX_ORDS}, got {ord!r}")


@named
def cond(x: Any, /, p: MatrixOrd = None) -> Tensor:
    """The condition number: a norm of matrices (see `matrix_norm`) times that of their inverses.

    By default it is of the 2-norm, the largest singular value over the smallest, and matrices need
    not be square. It is infinite for singular matrices.

    >>> ad.linalg.cond(ad.asarray([[4.0, 0.0], [0.0, 2.0]]))
    tensor(2.)
    """
    check_ord("cond", "p", p)
    x = factorizable("cond", x)
    if 0 in x.shape[-2:]:
        raise ArgumentError(f"cond: nothing has no condition; shape is {x.shape}")
    if p is None or p in (2, -2):
        values = singular_values(x)
        last = (values.ndim - 1,)
        most, least = (extreme(values, axis=last, keepdims=False) for extreme in (max_, min_))
        out = least / most if p == -2 else most / least
        return where(equal(most, 0), math.inf, out)
    x = regular("cond", x)
    singular = equal(slogdet(x, real=real_of(x))[0], 0)
    stacked = reshape(singular, shape=(*singular.shape, 1, 1))
    inverse = inv(where(stacked, identity_like(x), x))
    both = matrix_norm(x, ord=p) * matrix_norm(inverse, ord=p)
    # Divided, so that where it is infinite its gradient isn't finite, either.
    return where(equal(both, 0), 1.0, both) / where(singular, 0.0, 1.0)
