"""Reductions over `axis`, a sorted tuple, and ops along one axis, an int."""

import math

from .. import op
from .._shapes import Shape, reduced_shape
from .conversions import cast
from .elementwise import equal, exp, where
from .shapes import reshape


def shared_among_largest(g, x, out, axis: Shape):
    """g where x is the largest along `axis`, shared equally among ties."""
    largest = equal(x, spread(out, axis=axis, shape=x.shape))
    count = sum_(cast(largest, dtype=x.data.dtype), axis=axis, keepdims=True)
    return where(largest, spread(g, axis=axis, shape=x.shape) / count, 0)


def unbroadcast(g, shape: Shape):
    """Sum over the axes that broadcasting added or stretched: the adjoint of broadcasting."""
    new = len(g.shape) - len(shape)
    stretched = [k for k, n in enumerate(shape, new) if n == 1 and g.shape[k] != 1]
    g = sum_(g, axis=(*range(new), *stretched), keepdims=bool(stretched))
    return reshape(g, shape=shape) if g.shape != shape else g


def length(shape: Shape, axis: Shape) -> int:
    return math.prod(shape[k] for k in axis)


def moments_rule(g_mean, g_var, x, mean, axis):
    return (g_mean + 2 * g_var * (x - mean)) / length(x.shape, axis)


def moments_shape(x_shape: Shape, axis: Shape) -> tuple[Shape, Shape]:
    shape = reduced_shape(x_shape, axis, True)
    return shape, shape


sum_ = op.reduction(
    "sum",
    "The sum over axes.",
    attrs="axis keepdims",
    linear=True,
    x=lambda g, x_shape, axis: spread(g, axis=axis, shape=x_shape),
)
spread = op.movement(
    "spread",
    "What was reduced over axes, broadcast to the shape before that: the adjoint of sum.",
    attrs="axis shape",
    linear=True,
    shape=lambda shape: shape,
    x=lambda g, x_shape, axis: reshape(sum_(g, axis=axis, keepdims=False), shape=x_shape),
)
broadcast_to = op.movement(
    "broadcast_to",
    "Repeated along axes of length 1 and new leading axes.",
    attrs="shape",
    linear=True,
    shape=lambda shape: shape,
    x=lambda g, x_shape: unbroadcast(g, x_shape),
)
max_ = op.reduction(
    "max",
    "The largest element over axes; equals share the gradient.",
    attrs="axis keepdims",
    x=lambda g, x, out, axis: shared_among_largest(g, x, out, axis),
)
any_ = op.reduction(
    "any",
    "Whether any element over axes is true.",
    inputs="x",
    attrs="axis keepdims",
    dtype="bool",
    differentiable=False,
)
all_ = op.reduction(
    "all",
    "Whether all elements over axes are true.",
    inputs="x",
    attrs="axis keepdims",
    dtype="bool",
    differentiable=False,
)
argmax = op.reduction(
    "argmax",
    "The index of the first largest element along an axis.",
    inputs="x",
    attrs="axis keepdims",
    dtype="int64",
    shape=lambda x_shape, axis, keepdims: reduced_shape(x_shape, (axis,), keepdims),
    differentiable=False,
)
moments = op.other(
    "moments",
    "Mean and variance over axes that are kept as ones.",
    outputs="mean var",
    attrs="axis",
    shape=moments_shape,
    x=moments_rule,
)
cumulative_sum = op.other(
    "cumulative_sum",
    "The running sum along an axis, from its start or its end.",
    attrs="axis reverse",
    linear=True,
    shape=lambda x_shape: x_shape,
    x=lambda g, axis, reverse: cumulative_sum(g, axis=axis, reverse=not reverse),
)
softmax = op.other(
    "softmax",
    "exp(x) / sum(exp(x)) along an axis.",
    attrs="axis",
    shape=lambda x_shape: x_shape,
    x=lambda g, out, axis: out * (g - sum_(g * out, axis=(axis,), keepdims=True)),
)
log_softmax = op.other(
    "log_softmax",
    "log(softmax(x)) along an axis.",
    attrs="axis",
    shape=lambda x_shape: x_shape,
    x=lambda g, out, axis: g - exp(out) * sum_(g, axis=(axis,), keepdims=True),
)
