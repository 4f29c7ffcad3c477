"""Convolution and pooling, over any number of spatial axes.

A convolution, and what the gradient of its output says of its input and of its weight, are linear
in each input and are each other's rules; so are sums over windows and their adjoint. `padding` is
(before, after) for each spatial axis. Less than nothing after means that the end isn't read.
"""

import math

from .. import op
from .._dtypes import int64
from .._shapes import Shape
from .creation import arange
from .indexing import scatter
from .reductions import sum_
from .shapes import reshape

GEOMETRY = "stride padding dilation groups"


def window_count(x_shape: Shape, kernel: Shape, stride, padding, dilation) -> Shape:
    """How many windows fit along each spatial axis."""
    sizes = zip(x_shape[2:], kernel, stride, padding, dilation, strict=True)
    return tuple(
        (n + before + after - d * (k - 1) - 1) // s + 1 for n, k, s, (before, after), d in sizes
    )


def conv_shape(x_shape: Shape, w_shape: Shape, stride, padding, dilation) -> Shape:
    size = window_count(x_shape, w_shape[2:], stride, padding, dilation)
    return (x_shape[0], w_shape[0], *size)


def max_pool_shape(x_shape: Shape, kernel, stride, padding, dilation) -> tuple[Shape, Shape]:
    shape = (*x_shape[:2], *window_count(x_shape, kernel, stride, padding, dilation))
    return shape, shape


def window_sum_shape(x_shape: Shape, kernel, stride, padding) -> Shape:
    return (*x_shape[:2], *window_count(x_shape, kernel, stride, padding, (1,) * len(kernel)))


def to_image(g, indices, x_shape: Shape):
    """g at the places of the image that it came from: scattered over all images as one."""
    images, size = math.prod(x_shape[:2]), math.prod(x_shape[2:])
    first = arange(start=0, stop=images, step=1, dtype=int64.dtype, device=g.device) * size
    places = reshape(indices, shape=(images, g.size // max(images, 1)))
    places = reshape(places + reshape(first, shape=(images, 1)), shape=(g.size,))
    flat = reshape(g, shape=(g.size,))
    return reshape(scatter(flat, places, spec=("array",), shape=(images * size,)), shape=x_shape)


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
    "What the gradient of conv's output says of its input: a transposed convolution.",
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
    attrs="kernel stride padding dilation",
    dtype="x int64",
    shape=max_pool_shape,
    x=lambda g, indices, x_shape: to_image(g, indices, x_shape),
)
window_sum = op.other(
    "window_sum",
    "The sum of each window.",
    attrs="kernel stride padding",
    linear=True,
    shape=window_sum_shape,
    x=lambda g, x_shape, kernel, stride, padding: window_spread(
        g, shape=x_shape, kernel=kernel, stride=stride, padding=padding
    ),
)
window_spread = op.other(
    "window_spread",
    "Each element added to all of its window: the adjoint of window_sum.",
    attrs="shape kernel stride padding",
    linear=True,
    shape=lambda shape: shape,
    x=lambda g, kernel, stride, padding: window_sum(
        g, kernel=kernel, stride=stride, padding=padding
    ),
)
