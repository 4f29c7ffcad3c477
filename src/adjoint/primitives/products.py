"""Products over axes and along one, and the linear recurrence that their gradients are made of.

The gradient of a product is the product of the other factors: of those before and of those after.
No division, so zeros are fine. Either may be too large or too small for a float where both together
aren't, so factors are multiplied without most of their powers of two, which are added up apart.
"""

from .. import op
from .._core.shape_inference import Shape, at_axis
from .._foundation.dtypes import float16, float32
from ..backends import exponent_bound
from .conversions import cast, scale
from .elementwise import abs, isfinite, log2, logical_and, maximum, minimum, trunc, where
from .reductions import any_, cumulative_sum, length, max_, min_, spread
from .shapes import inverse, pad, permute_dims, reshape, slice_

EXPONENTS = {4: 120, 8: 1000}  # powers of two that floats have, by their size in bytes


def product_of_others(x, axis: Shape):
    """For each element, the product over `axis` without it."""
    kept = [k for k in range(len(x.shape)) if k not in axis]
    order, last = (*kept, *axis), len(kept)
    turned = permute_dims(in_float32_at_least(x), axes=order)
    flat = reshape(turned, shape=(*turned.shape[:last], length(x.shape, axis)))
    others = of_any_range(scaled_others, plain_others, flat, last)
    out = permute_dims(reshape(others, shape=turned.shape), axes=inverse(order))
    return cast(out, dtype=x.raw.dtype)


def plain_others(x, axis: int):
    before = shifted(cumulative_prod(x, axis=axis, reverse=False), axis, 1, 1)
    after = shifted(cumulative_prod(x, axis=axis, reverse=True), axis, -1, 1)
    return before * after


def scaled_others(x, axis: int):
    level = levels(x, axis, reverse=False)
    change = level - shifted(level, axis, 1, 0)
    total = slice_(level, index=at_axis(axis, slice(-1, None)))
    return scale(plain_others(scale(x, -change), axis), total - change)


def cumulative_prod_rule(g, x, axis: int, reverse: bool):
    """For each k, what comes before x[k], times the sum over j of g[j] and the factors between."""
    wide_x, wide_g = in_float32_at_least(x), in_float32_at_least(g)
    out = of_any_range(scaled_tails, plain_tails, wide_x, axis, wide_g, reverse)
    return cast(out, dtype=x.raw.dtype)


def plain_tails(x, axis: int, g, reverse: bool):
    by = -1 if reverse else 1
    before = shifted(cumulative_prod(x, axis=axis, reverse=reverse), axis, by, 1)
    return before * recurrence(shifted(x, axis, -by, 0), g, axis=axis, reverse=not reverse)


def scaled_tails(x, axis: int, g, reverse: bool):
    by = -1 if reverse else 1
    level = levels(x, axis, reverse)
    earlier = shifted(level, axis, by, 0)
    near_one = scale(x, earlier - level)
    before = shifted(cumulative_prod(near_one, axis=axis, reverse=reverse), axis, by, 1)
    following, none = shifted(x, axis, -by, 0), where(False, g, 0)
    after, exponent = scaled_recurrence(following, g, none, axis=axis, reverse=not reverse)
    return scale(before * after, earlier + exponent)


def of_any_range(scaled, plain, x, axis: int, *more):
    """`plain(x, axis, ...)`, or the same by scaled factors where products may leave the range.

    Where this is differentiated, it is decided for each line by itself: the gradient of a product
    that is too small for a float mostly isn't. Each function gets ones for the other's lines.
    """
    most = EXPONENTS[x.raw.dtype.itemsize]
    if not x.shape[axis] or 2 * x.shape[axis] * exponent_bound(x.raw) < most:
        return plain(x, axis, *more)
    if not x.requires_grad:
        return scaled(x, axis, *more)
    leaves = leaves_range(x, axis, most)
    inside = plain(where(leaves, 1, x), axis, *more)
    return where(leaves, scaled(where(leaves, x, 1), axis, *more), inside)


def leaves_range(x, axis: int, most: float):
    """Whether running products may be too large and too small for a float, along an axis."""
    size = exponents(x)
    level = cumulative_sum(size, axis=axis, reverse=False)
    rises, falls = (any_(change, axis=(axis,), keepdims=True) for change in (size > 0, size < 0))
    highest = max_(maximum(level, 0), axis=(axis,), keepdims=True)
    lowest = min_(minimum(level, 0), axis=(axis,), keepdims=True)
    far = highest - lowest > most
    return logical_and(far, logical_and(rises, falls))


def levels(x, axis: int, reverse: bool):
    """Exponents of the running product, zeros left out, rounded towards 0."""
    return trunc(cumulative_sum(exponents(x), axis=axis, reverse=reverse))


def exponents(x):
    """log2 of |x|, 0 where x is 0 or not finite; not differentiated."""
    size = abs(x.detach())
    return log2(where(logical_and(isfinite(size), size > 0), size, 1))


def in_float32_at_least(x):
    return cast(x, dtype=float32.dtype) if x.raw.dtype == float16.dtype else x


def shifted(x, axis: int, by: int, value: float):
    """x moved by one place along an axis, in whose place comes a value."""
    n = x.shape[axis]
    kept = slice_(x, index=at_axis(axis, slice(0, n - 1) if by > 0 else slice(1, n)))
    width = [(0, 0) for _ in x.shape]
    width[axis] = (min(n, 1), 0) if by > 0 else (0, min(n, 1))
    return pad(kept, pad_width=tuple(width), value=value)


def recurrence_vjp(g, a, out, axis: int, reverse: bool):
    by = -1 if reverse else 1
    b = recurrence(shifted(a, axis, -by, 0), g, axis=axis, reverse=not reverse)
    return b * shifted(out, axis, by, 0), b


def scaled_recurrence_vjp(g, a, n, out, exponent, axis: int, reverse: bool):
    by, following = -1 if reverse else 1, shifted(a, axis, 1 if reverse else -1, 0)
    after, power = scaled_recurrence(following, g, -exponent, axis=axis, reverse=not reverse)
    before, earlier = shifted(out, axis, by, 0), shifted(exponent, axis, by, 0)
    return scale(after * before, power + earlier), scale(after, power + n), None


prod = op.reduction(
    "prod",
    "The product over axes.",
    x=lambda g, x, axis: spread(g, axis=axis, shape=x.shape) * product_of_others(x, axis),
)
cumulative_prod = op.other(
    "cumulative_prod",
    "The running product along an axis, from its start or its end.",
    attrs="axis reverse",
    shape=lambda x_shape: x_shape,
    batch="leading",
    x=cumulative_prod_rule,
)
recurrence = op.other(
    "recurrence",
    "out[k] = a[k] * out[k - 1] + b[k] along an axis, from its start or its end. 0 * inf is 0.",
    inputs="a b",
    attrs="axis reverse",
    shape=lambda b_shape: b_shape,
    batch="leading",
    vjp=recurrence_vjp,
)
scaled_recurrence = op.other(
    "scaled_recurrence",
    "The same with b[k] * 2 ** n[k], and out * 2 ** exponent, so that nothing leaves the range.",
    inputs="a b n",
    aux="exponent",
    attrs="axis reverse",
    shape=lambda b_shape: (b_shape, b_shape),
    batch="leading",
    vjp=scaled_recurrence_vjp,
)
