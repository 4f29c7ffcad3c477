"""Whether launches take less time than NumPy's function, where the size of an input doesn't tell.

Each function has the name of an op, and is given layouts and attributes: eager calls ask it once
for arrays of a layout. Lowering never does.
"""

import math
from typing import Any

from ..launches import Layout
from ..spaces import Ints, window_count
from . import thresholds
from .lowering import convolution, places


def matmul(x: Layout, y: Layout) -> bool:
    if x.ndim < 2 or y.ndim < 2:
        return False
    rows, columns = x.shape[-2], y.shape[-1]
    return is_worth_multiplying(x, rows, columns) or (
        rows == columns == 1 and x.size >= thresholds.PRODUCTS
    )


def linear(x: Layout, weight: Layout, bias: Layout | None) -> bool:
    return is_worth_multiplying(x, x.shape[-2], weight.shape[0])


def is_worth_multiplying(x: Layout, rows: int, columns: int) -> bool:
    return x.size * columns >= thresholds.PRODUCTS and min(rows, columns) >= thresholds.SIDE


def index(x: Layout, *indices: Layout, spec: tuple) -> bool:
    if not indices or max(i.size for i in indices) * x.nbytes < thresholds.GATHERED_BYTES:
        return False
    found = places.selection(x.shape, spec, indices)
    count = math.prod(found.shape)
    if places.units(x, found.inner)[1] == 1:
        return count >= thresholds.GATHERED_ELEMENTS
    return count * x.itemsize >= thresholds.GATHERED_BYTES


def scatter(x: Layout, *indices: Layout, spec: tuple, shape: Ints) -> bool:
    return x.nbytes + math.prod(shape) * x.itemsize >= thresholds.ADDED_BYTES


def take_along_axis(x: Layout, index: Layout, *, axis: int) -> bool:
    return index.size >= thresholds.TAKEN_ALONG


def scatter_along_axis(x: Layout, index: Layout, *, axis: int, shape: Ints) -> bool:
    return math.prod(shape) * x.itemsize >= thresholds.ADDED_BYTES


def max_pool(x: Layout, *, kernel: Ints, **geometry: Any) -> bool:
    """NumPy takes few large windows one after the other, which is soon done."""
    return math.prod(window_count(x.shape, kernel, **geometry)) >= math.prod(kernel)


def conv(x: Layout, w: Layout, bias: Layout | None = None, **geometry: Any) -> bool:
    shape = convolution.forward_shape(x, w, **geometry)
    return is_worth_convolving(thresholds.CONVOLUTION, shape, x.shape[0])


def conv_input(g: Layout, w: Layout, **geometry: Any) -> bool:
    shape = convolution.input_shape(g, w, **geometry)
    return is_worth_convolving(thresholds.CONVOLUTION_INPUT, shape, g.shape[0])


def conv_weight(x: Layout, g: Layout, **geometry: Any) -> bool:
    shape = convolution.weight_shape(x, g, **geometry)
    return is_worth_convolving(thresholds.CONVOLUTION_WEIGHT, shape, x.shape[0])


def is_worth_convolving(least: int, shape: convolution.Shape, images: int) -> bool:
    filters, places = math.prod(shape.w), math.prod(shape.out)
    if filters > thresholds.LARGE_FILTERS:
        least = max(least, thresholds.FILTER_PLACES * filters)
    if images * filters * places < least:
        return False
    if math.prod(shape.w[2:]) > 1 or shape.groups > 1:
        return True
    return places >= thresholds.LONG_PLANE and set(shape.stride) == {1}
