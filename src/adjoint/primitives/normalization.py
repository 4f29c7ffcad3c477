"""Standardising: what layer, group, batch, instance and RMS normalisation have in common.

The derivative of standardising is an op of its own, so that a backend can compute it in one go.
Like a convolution's it is linear in the gradients, and with respect to `dout` its own adjoint.
"""

import math

from .. import op
from .._core.shape_inference import Shape, reduced_shape
from .creation import full
from .elementwise import sqrt
from .reductions import repeated, sum_, unbroadcast
from .shapes import with_rank


def standardize_shape(x_shape: Shape, axis: Shape) -> tuple[Shape, Shape, Shape]:
    small = reduced_shape(x_shape, axis, True)
    return x_shape, small, small


def count(x, axis: Shape) -> int:
    return math.prod(x.shape[k] for k in axis)


def total(x, axis: Shape):
    return sum_(x, axis=axis, keepdims=True)


def dout_rule(g, out, var, axis, eps, center):
    none = full(shape=var.shape, value=0, dtype=var.raw.dtype, device=var.device)
    return standardize_gradient(g, none, none, out, var, axis=axis, eps=eps, center=center)


def dmean_rule(g, axis, center):
    if center:
        return total(g, axis) / count(g, axis)
    return total(g, axis) * 0


def out_rule(g, dout, dvar, out, var, axis, eps):
    n, scale = count(g, axis), sqrt(var + eps)
    slope = total(dout * out, axis) / scale - 2 * dvar * scale
    return -(g * slope + dout * (total(g * out, axis) / scale)) / n


def var_rule(g, dmean, dvar, out, var, result, axis, eps, center):
    n = count(g, axis)
    along = total(g * result, axis)
    if center:
        along = along - dmean * total(g, axis) / n
    return 2 * dvar * total(g * out, axis) / (sqrt(var + eps) * n) - along / (2 * (var + eps))


def scaled_standardize_batch(
    size: int, batched: tuple[bool, ...], x, weight, bias, *, axis, **attrs
):
    x = x if batched[0] else repeated(x, size)
    rank = len(x.shape) - 1
    weight = with_rank(weight, rank) if batched[1] else weight
    bias = with_rank(bias, rank) if batched[2] else bias
    return scaled_standardize(x, weight, bias, axis=tuple(k + 1 for k in axis), **attrs)


def scaled_standardize_vjp(
    g_out, g_normal, g_var, weight, bias_shape, normal, var, arrived, needs, axis, eps, center
):
    dnormal = g_out * weight
    if arrived[1]:
        dnormal = dnormal + g_normal
    none = full(shape=var.shape, value=0, dtype=var.raw.dtype, device=var.device)
    attrs = {"axis": axis, "eps": eps, "center": center}
    return (
        standardize_gradient(dnormal, none, g_var, normal, var, **attrs),
        unbroadcast(g_out * normal, weight.shape) if needs[1] else None,
        unbroadcast(g_out, bias_shape) if needs[2] else None,
    )


standardize = op.other(
    "standardize",
    "(x - mean) / sqrt(var + eps) over axes, and both statistics with these axes kept as ones. "
    "Without `center` the mean is taken to be 0.",
    outputs="out mean var",
    attrs="axis eps center",
    shape=standardize_shape,
    batch="leading",
    x=lambda g_out, g_mean, g_var, out, var, axis, eps, center: standardize_gradient(
        g_out, g_mean, g_var, out, var, axis=axis, eps=eps, center=center
    ),
)
scaled_standardize = op.other(
    "scaled_standardize",
    "standardize's result times a weight, plus a bias, which broadcast to x; the result without "
    "these; and the variance.",
    inputs="x weight bias?",
    outputs="out normal var",
    attrs="axis eps center",
    shape=lambda x_shape, axis: (x_shape, x_shape, reduced_shape(x_shape, axis, True)),
    batch=scaled_standardize_batch,
    vjp=scaled_standardize_vjp,
)
standardize_gradient = op.other(
    "standardize_gradient",
    "What the gradients of standardize's outputs say of its input.",
    outputs="result",
    attrs="axis eps center",
    shape=lambda dout_shape: dout_shape,
    batch="leading",
    dout=dout_rule,
    dmean=dmean_rule,
    dvar=lambda g, out, var, axis, eps: (
        total(g * out, axis) * sqrt(var + eps) * (2 / count(g, axis))
    ),
    out=out_rule,
    var=var_rule,
)
