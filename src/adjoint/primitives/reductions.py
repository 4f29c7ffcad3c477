"""Reductions over `axis`, a sorted tuple, and ops along one axis, an int."""

import math

from .. import op
from .._core.shape_inference import Shape, reduced_shape
from .._foundation.dtypes import float16, float32
from ..backends import widest
from .conversions import cast
from .elementwise import equal, exp, isnan, logical_or, where
from .shapes import reshape, with_rank

INFINITY = float("inf")


def shared_among_equals(g, x, out, axis: Shape):
    """g where x is what was chosen along `axis`, shared equally among ties."""
    chosen = logical_or(equal(x, spread(out, axis=axis, shape=x.shape)), isnan(x))
    count = sum_(cast(chosen, dtype=widest(chosen.device, "i")), axis=axis, keepdims=True)
    dtype = g.raw.dtype
    wide = float32.dtype if dtype == float16.dtype else dtype  # float16 can't count to 65505
    share = cast(reshape(g, shape=count.shape), dtype=wide) / count
    return where(chosen, spread(cast(share, dtype=dtype), axis=axis, shape=x.shape), 0)


def unbroadcast(g, shape: Shape):
    """Sum over the axes that broadcasting added or stretched: the adjoint of broadcasting."""
    new = len(g.shape) - len(shape)
    stretched = [k for k, n in enumerate(shape, new) if n == 1 and g.shape[k] != 1]
    g = sum_(g, axis=(*range(new), *stretched), keepdims=bool(stretched))
    return reshape(g, shape=shape) if g.shape != shape else g


def repeated(x, size: int):
    """x for each example of a batch."""
    return broadcast_to(x, shape=(size, *x.shape))


def length(shape: Shape, axis: Shape) -> int:
    return math.prod(shape[k] for k in axis)


def logsumexp_rule(g, x, out, axis: Shape):
    """Where all are -inf, none has a share."""
    total = spread(where(equal(out, -INFINITY), 0, out), axis=axis, shape=x.shape)
    return spread(g, axis=axis, shape=x.shape) * exp(x - total)


def softmax_rule(g, out, axis: int):
    return out * (g - sum_(g * out, axis=(axis,), keepdims=True))


def masked_softmax_batch(size: int, batched: tuple[bool, ...], x, mask, *, axis: int):
    x = x if batched[0] else repeated(x, size)
    mask = with_rank(mask, len(x.shape) - 1) if batched[1] else mask
    return masked_softmax(x, mask, axis=axis + 1)


def moments_rule(g_mean, g_var, x, mean, axis):
    return (g_mean + 2 * g_var * (x - mean)) / length(x.shape, axis)


def deviation_rule(g_mean, g_std, x, mean, std, axis):
    """Where the deviation is 0 its gradient is 0."""
    flat = equal(std, 0)
    slope = where(flat, 0, g_std) * ((x - mean) / where(flat, 1, std))
    return (g_mean + slope) / length(x.shape, axis)


def norm_rule(g, x, out, axis: Shape):
    """Where the norm is 0 its gradient is 0."""
    zero = equal(out, 0)
    g, size = (
        spread(z, axis=axis, shape=x.shape) for z in (where(zero, 0, g), where(zero, 1, out))
    )
    return g * (x / size)


def moments_shape(x_shape: Shape, axis: Shape) -> tuple[Shape, Shape]:
    shape = reduced_shape(x_shape, axis, True)
    return shape, shape


sum_ = op.reduction(
    "sum",
    "The sum over axes.",
    linear=True,
    x=lambda g, x_shape, axis: spread(g, axis=axis, shape=x_shape),
)
spread = op.movement(
    "spread",
    "What was reduced over axes, broadcast to the shape before that: the adjoint of sum.",
    attrs="axis shape",
    linear=True,
    shape=lambda shape: shape,
    batch="leading",
    x=lambda g, x_shape, axis: reshape(sum_(g, axis=axis, keepdims=False), shape=x_shape),
)
broadcast_to = op.movement(
    "broadcast_to",
    "Repeated along axes of length 1 and new leading axes.",
    attrs="shape",
    linear=True,
    shape=lambda shape: shape,
    batch=lambda size, batched, x, *, shape: broadcast_to(
        with_rank(x, len(shape)), shape=(size, *shape)
    ),
    x=lambda g, x_shape: unbroadcast(g, x_shape),
)
max_ = op.reduction(
    "max", "The largest element over axes; equals share the gradient.", x=shared_among_equals
)
min_ = op.reduction(
    "min", "The smallest element over axes; equals share the gradient.", x=shared_among_equals
)
logsumexp = op.reduction(
    "logsumexp", "log(sum(exp(x))) over axes, without overflow.", x=logsumexp_rule
)
any_ = op.reduction(
    "any",
    "Whether any element over axes is true.",
    inputs="x",
    dtype="bool",
    differentiable=False,
)
all_ = op.reduction(
    "all",
    "Whether all elements over axes are true.",
    inputs="x",
    dtype="bool",
    differentiable=False,
)
argmax = op.reduction(
    "argmax",
    "The index of the first largest element along an axis.",
    inputs="x",
    dtype="index",
    differentiable=False,
)
argmin = op.reduction(
    "argmin",
    "The index of the first smallest element along an axis.",
    inputs="x",
    dtype="index",
    differentiable=False,
)
norm = op.reduction(
    "norm",
    "The root of the sum of squares over axes, also where squares leave the range.",
    x=norm_rule,
)
moments = op.other(
    "moments",
    "Mean and variance over axes that are kept as ones.",
    outputs="mean var",
    attrs="axis",
    shape=moments_shape,
    batch="leading",
    x=moments_rule,
)
deviation = op.other(
    "deviation",
    "Mean and standard deviation, also where the variance leaves the range; see `moments`.",
    outputs="mean std",
    attrs="axis",
    shape=moments_shape,
    batch="leading",
    x=deviation_rule,
)
cumulative_sum = op.other(
    "cumulative_sum",
    "The running sum along an axis, from its start or its end.",
    attrs="axis reverse",
    linear=True,
    shape=lambda x_shape: x_shape,
    batch="leading",
    x=lambda g, axis, reverse: cumulative_sum(g, axis=axis, reverse=not reverse),
)
softmax = op.other(
    "softmax",
    "exp(x) / sum(exp(x)) along an axis.",
    attrs="axis",
    shape=lambda x_shape: x_shape,
    batch="leading",
    x=softmax_rule,
)
masked_softmax = op.other(
    "masked_softmax",
    "softmax along an axis of the elements where a mask, which broadcasts to x, is true; 0 for the "
    "others, also where there is none.",
    inputs="x mask",
    attrs="axis",
    shape=lambda x_shape: x_shape,
    batch=masked_softmax_batch,
    x=softmax_rule,
)
log_softmax = op.other(
    "log_softmax",
    "log(softmax(x)) along an axis.",
    attrs="axis",
    shape=lambda x_shape: x_shape,
    batch="leading",
    x=lambda g, out, axis: g - exp(out) * sum_(g, axis=(axis,), keepdims=True),
)
