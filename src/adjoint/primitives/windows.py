"""Convolution and pooling, over any number of spatial axes.

A convolution, and what the gradient of its output says of its input and of its weight, are linear
in each input and are each other's rules.
"""

import math

from .. import op
from .._shapes import Shape
from .indexing import scatter_along_axis
from .reductions import sum_
from .shapes import reshape

GEOMETRY = "stride padding dilation groups"


def window_count(x_shape: Shape, kernel: Shape, stride, padding, dilation) -> Shape:
    sizes = zip(x_shape[2:], kernel, stride, padding, dilation, strict=True)
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in sizes)


def conv_shape(x_shape: Shape, w_shape: Shape, stride, padding, dilation) -> Shape:
    size = window_count(x_shape, w_shape[2:], stride, padding, dilation)
    return (x_shape[0], w_shape[0], *size)


def pool_shape(x_shape: Shape, kernel, stride, padding) -> tuple[Shape, Shape]:
    size = window_count(x_shape, kernel, stride, padding, (1,) * len(kernel))
    shape = (*x_shape[:2], *size)
    return shape, shape


def to_image(g, indices, x_shape: Shape):
    """g at the places of the image that it came from."""
    image = (*x_shape[:2], math.prod(x_shape[2:]))
    flat = (*g.shape[:2], math.prod(g.shape[2:]))
    places = reshape(indices, shape=flat)
    return reshape(
        scatter_along_axis(reshape(g, shape=flat), places, axis=2, shape=image), shape=x_shape
    )


conv = op.contraction(
    "conv",
    "Cross-correlation of (N, C, ...) with filters (O, C / groups, ...).",
    inputs="x w bias?",
    attrs=GEOMETRY,
    shape=conv_shape,
    x=lambda g, w, x_shape, stride, padding, dilation, groups: conv_input(
        g, w, x_shape=x_shape, stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
    w=lambda g, x, w_shape, stride, padding, dilation, groups: conv_weight(
        x, g, w_shape=w_shape, stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
    bias=lambda g: sum_(g, axis=(0, *range(2, len(g.shape))), keepdims=False),
)
conv_input = op.contraction(
    "conv_input",
    "What the gradient of conv's output says of its input.",
    attrs=GEOMETRY + " x_shape",
    shape=lambda x_shape: x_shape,
    inputs="dy w",
    dy=lambda g, w, stride, padding, dilation, groups: conv(
        g, w, None, stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
    w=lambda g, dy, w_shape, stride, padding, dilation, groups: conv_weight(
        g, dy, w_shape=w_shape, stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
)
conv_weight = op.contraction(
    "conv_weight",
    "What the gradient of conv's output says of its weight.",
    inputs="x dy",
    attrs=GEOMETRY + " w_shape",
    shape=lambda w_shape: w_shape,
    x=lambda g, dy, x_shape, stride, padding, dilation, groups: conv_input(
        dy, g, x_shape=x_shape, stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
    dy=lambda g, x, stride, padding, dilation, groups: conv(
        x, g, None, stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
)
max_pool = op.index(
    "max_pool",
    "The largest element of each window, and its flat index in the image.",
    outputs="values",
    aux="indices",
    attrs="kernel stride padding",
    dtype="x int64",
    shape=pool_shape,
    x=lambda g, indices, x_shape: to_image(g, indices, x_shape),
)
