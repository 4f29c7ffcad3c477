"""Convolution by direct kernels on all cores, where they are faster than windows and BLAS.

Same functions as in `windows`, which compute the rest. `geometry` is stride, padding, dilation, and
groups if they aren't named.
"""

import functools
import math

import numpy as np

from ....kernels.convolution import tilings
from ....kernels.convolution.tilings import Machine, Shape
from .. import thresholds, windows
from . import direct_convolution as direct

DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


def chosen(least: int, shape: Shape, images: int, *arrays: np.ndarray) -> Machine | None:
    """The machine, if direct kernels can compute this and are faster: `least` products are."""
    dtype = arrays[0].dtype
    products = images * math.prod(shape.w) * math.prod(shape.out)
    possible = (
        dtype in DTYPES
        and all(x.dtype == dtype for x in arrays)
        and products * math.prod(shape.x) > 0
        and is_faster(least, shape, products)
        and fits_tables(shape)
    )
    return direct.machine() if possible else None


def is_faster(least: int, shape: Shape, products: int) -> bool:
    filters = math.prod(shape.w)
    are_large = filters > thresholds.LARGE_FILTERS
    if products < (max(least, thresholds.FILTER_PLACES * filters) if are_large else least):
        return False
    if math.prod(shape.w[2:]) > 1 or shape.groups > 1:
        return True
    return math.prod(shape.out) >= thresholds.LONG_PLANE and set(shape.stride) == {1}


@functools.lru_cache(1024)
def fits_tables(shape: Shape) -> bool:
    """Whether 32 bits are enough for the bytes of a round of images, however they are packed."""
    x, out = shape.x[0], shape.w[0]
    for axis in shape.axes:
        around = axis.dilation * axis.kernel + axis.stride
        x *= axis.x + axis.before + around
        out *= axis.out + around
    images = 1 + tilings.NEAR // (shape.size * math.prod(shape.out))
    return max(x, out) * shape.w[-1] * shape.size * images < 1 << 31


def conv(x, w, bias=None, *, groups, **geometry):
    dtype, x, w = x.dtype, windows.widened(x), windows.widened(w)
    size = windows.output_size(x.shape, w.shape[2:], **geometry)
    shape = Shape(x.shape[1:], w.shape, size, **geometry, groups=groups, size=x.itemsize)
    host = chosen(thresholds.CONVOLUTION, shape, len(x), x, w)
    if host is None:
        out = windows.conv(x, w, bias, groups=groups, **geometry)
    else:
        out = direct.correlate(tilings.forward(host, shape), x, w, bias)
    return out.astype(dtype, copy=False)


def conv_input(g, w, *, x_shape, **geometry):
    dtype, g, w = g.dtype, windows.widened(g), windows.widened(w)
    shape = Shape(tuple(x_shape[1:]), w.shape, g.shape[2:], **geometry, size=g.itemsize)
    host = chosen(thresholds.CONVOLUTION_INPUT, shape, len(g), g, w)
    if host is None:
        out = windows.conv_input(g, w, x_shape=x_shape, **geometry)
    else:
        out = direct.correlate(tilings.backward(host, shape), g, w, None)
    return out.astype(dtype, copy=False)


def conv_weight(x, g, *, w_shape, **geometry):
    dtype, x, g = g.dtype, windows.widened(x), windows.widened(g)
    shape = Shape(x.shape[1:], tuple(w_shape), g.shape[2:], **geometry, size=x.itemsize)
    host = chosen(thresholds.CONVOLUTION_WEIGHT, shape, len(x), x, g)
    if host is None:
        out = windows.conv_weight(x, g, w_shape=w_shape, **geometry)
    else:
        out = direct.weight_gradient(tilings.weights(host, shape), x, g, shape.w)
    return out.astype(dtype, copy=False)
