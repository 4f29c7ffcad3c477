"""Convolution and pooling, over any number of spatial axes.

A convolution, and what the gradient of its output says of its input and of its weight, are linear
in each input and are each other's rules; so are sums over windows and their adjoint. `padding` is
(before, after) for each spatial axis. Less than nothing after means that the end isn't read.
"""

import math

from .. import op
from .._core.shape_inference import Shape
from ..backends.spaces import window_count
from .indexing import scatter_along_axis
from .reductions import broadcast_to, sum_
from .shapes import permute_dims, reshape

GEOMETRY = "stride padding dilation groups"


def conv_shape(x_shape: Shape, w_shape: Shape, stride, padding, dilation) -> Shape:
    size = window_count(x_shape, w_shape[2:], stride, padding, dilation)
    return (x_shape[0], w_shape[0], *size)


def max_pool_shape(x_shape: Shape, kernel, stride, padding, dilation) -> tuple[Shape, Shape]:
    shape = (*x_shape[:2], *window_count(x_shape, kernel, stride, padding, dilation))
    return shape, shape


def window_sum_shape(x_shape: Shape, kernel, stride, padding) -> Shape:
    return (*x_shape[:2], *window_count(x_shape, kernel, stride, padding, (1,) * len(kernel)))


def to_image(g, indices, x_shape: Shape):
    """g at the places of the image that it came from."""
    images, size = math.prod(x_shape[:2]), math.prod(x_shape[2:])
    each = g.size // max(images, 1)
    g, indices = (reshape(z, shape=(images, each)) for z in (g, indices))
    return reshape(scatter_along_axis(g, indices, axis=1, shape=(images, size)), shape=x_shape)


# A batch: images of all examples are one set of images where they share the filters, else channels
# in groups of their own.


def folded(x):
    """The axis of a batch, and the one after it, as one."""
    return reshape(x, shape=(x.shape[0] * x.shape[1], *x.shape[2:]))


def unfolded(out, x):
    """The first axis as the first two of x, which it was made from."""
    return reshape(out, shape=(*x.shape[:2], *out.shape[1:]))


def in_channels(x, size: int, batched: bool):
    """(N, batch * C, ...) from (batch, N, C, ...), or from (N, C, ...) that all examples share."""
    if batched:
        x = permute_dims(x, axes=(1, 0, *range(2, len(x.shape))))
    else:
        n, *rest = x.shape
        x = broadcast_to(reshape(x, shape=(n, 1, *rest)), shape=(n, size, *rest))
    return reshape(x, shape=(x.shape[0], size * x.shape[2], *x.shape[3:]))


def out_of_channels(x, size: int):
    """(batch, N, C, ...) from (N, batch * C, ...)."""
    n, channels, *rest = x.shape
    x = reshape(x, shape=(n, size, channels // size, *rest))
    return permute_dims(x, axes=(1, 0, *range(2, len(x.shape))))


def conv_batch(size: int, batched: tuple[bool, ...], x, w, bias, **geometry):
    if bias is None or not (batched[1] or batched[2]):
        return convolved(size, batched, x, w, bias, **geometry)
    out = convolved(size, batched, x, w, None, **geometry)
    if out is NotImplemented:
        return out
    shape = (size, 1, *bias.shape[1:]) if batched[2] else bias.shape
    return out + reshape(bias, shape=(*shape, *(1,) * len(geometry["stride"])))


def convolved(size: int, batched: tuple[bool, ...], x, w, bias, *, groups, **geometry):
    if not batched[1]:
        if not batched[0]:
            return conv(x, w, bias, groups=groups, **geometry)
        return unfolded(conv(folded(x), w, bias, groups=groups, **geometry), x)
    if not size:
        return NotImplemented
    if batched[0] or groups > 1:
        x, groups = in_channels(x, size, batched[0]), groups * size
    return out_of_channels(conv(x, folded(w), bias, groups=groups, **geometry), size)


def conv_input_batch(size: int, batched: tuple[bool, ...], dy, w, *, x_shape, groups, **geometry):
    n, channels, *rest = x_shape
    if not batched[1]:
        shape = (size * n, channels, *rest)
        return unfolded(conv_input(folded(dy), w, x_shape=shape, groups=groups, **geometry), dy)
    if not size:
        return NotImplemented
    shape = (n, size * channels, *rest)
    dy = in_channels(dy, size, batched[0])
    out = conv_input(dy, folded(w), x_shape=shape, groups=groups * size, **geometry)
    return out_of_channels(out, size)


def conv_weight_batch(size: int, batched: tuple[bool, ...], x, dy, *, w_shape, groups, **geometry):
    if not size:
        return NotImplemented
    if batched[0] or groups > 1:
        x, groups = in_channels(x, size, batched[0]), groups * size
    dy = in_channels(dy, size, batched[1])
    shape = (size * w_shape[0], *w_shape[1:])
    out = conv_weight(x, dy, w_shape=shape, groups=groups, **geometry)
    return reshape(out, shape=(size, *w_shape))


def window_spread_batch(size: int, batched: tuple[bool, ...], x, *, shape, **geometry):
    shape = (size * shape[0], *shape[1:])
    return unfolded(window_spread(folded(x), shape=shape, **geometry), x)


conv = op.contraction(
    "conv",
    "Cross-correlation of (N, C, ...) with filters (O, C / groups, ...).",
    inputs="x w bias?",
    attrs=GEOMETRY,
    shape=conv_shape,
    batch=conv_batch,
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
    batch=conv_input_batch,
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
    attrs=GEOMETRY + " w_shape",
    shape=lambda w_shape: w_shape,
    batch=conv_weight_batch,
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
    dtype="x index",
    shape=max_pool_shape,
    batch=lambda size, batched, x, **geometry: tuple(
        unfolded(out, x) for out in max_pool(folded(x), **geometry)
    ),
    x=lambda g, indices, x_shape: to_image(g, indices, x_shape),
)
window_sum = op.other(
    "window_sum",
    "The sum of each window.",
    attrs="kernel stride padding",
    linear=True,
    shape=window_sum_shape,
    batch=lambda size, batched, x, **geometry: unfolded(window_sum(folded(x), **geometry), x),
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
    batch=window_spread_batch,
    x=lambda g, kernel, stride, padding: window_sum(
        g, kernel=kernel, stride=stride, padding=padding
    ),
)
