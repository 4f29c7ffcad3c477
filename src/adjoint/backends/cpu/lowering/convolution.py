"""Convolution and its gradients by direct kernels."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....kernels.convolution import tilings
from ....kernels.convolution.tilings import Machine, Shape
from ....kernels.ops import Unsupported
from ...launches import Layout, Target, View
from ...spaces import Ints, window_count
from . import direct_convolution as direct
from .maps import as_contiguous, held_in
from .native import FLOATS, NativeLowering

HALF, SINGLE = np.dtype(np.float16), np.dtype(np.float32)


def held_dtype(x: Layout) -> np.dtype:
    """float16 is computed as float32: sums of products need its digits and its range."""
    return SINGLE if x.dtype == HALF else x.dtype


def machine(target: Target) -> Machine | None:
    """The vectors of a processor; None where it can't multiply and add in one step."""
    if "avx512f" in target.features:
        return Machine(64, 32)
    if {"avx2", "fma"} <= target.features:
        return Machine(32, 16)
    return Machine(16, 32) if "neon" in target.features else None


def checked_machine(target: Target, shape: Shape, *arrays: View) -> Machine:
    host, first = machine(target), arrays[0]
    possible = (
        host is not None
        and held_dtype(first) in FLOATS
        and all(x.dtype == first.dtype and x.size for x in arrays)
        and math.prod(shape.w) * math.prod(shape.out) * math.prod(shape.x) > 0
        and fits_tables(shape)
    )
    if host is None or not possible:
        raise Unsupported(f"a direct convolution of {first.dtype} {first.shape}")
    return host


def fits_tables(shape: Shape) -> bool:
    """Whether 32 bits are enough for the bytes of a round of images, however they are packed."""
    x, out = shape.x[0], shape.w[0]
    for axis in shape.axes:
        around = axis.dilation * axis.kernel + axis.stride
        x *= axis.x + axis.before + around
        out *= axis.out + around
    images = 1 + tilings.NEAR // (shape.size * math.prod(shape.out))
    return max(x, out) * shape.w[-1] * shape.size * images < 1 << 31


def forward_shape(x: Layout, w: Layout, groups: int, **geometry: Any) -> Shape:
    size = window_count(x.shape, w.shape[2:], **geometry)
    itemsize = held_dtype(x).itemsize
    return Shape(x.shape[1:], w.shape, size, **geometry, groups=groups, size=itemsize)


def input_shape(g: Layout, w: Layout, x_shape: Ints, **geometry: Any) -> Shape:
    itemsize = held_dtype(g).itemsize
    return Shape(tuple(x_shape[1:]), w.shape, g.shape[2:], **geometry, size=itemsize)


def weight_shape(x: Layout, g: Layout, w_shape: Ints, **geometry: Any) -> Shape:
    itemsize = held_dtype(x).itemsize
    return Shape(x.shape[1:], tuple(w_shape), g.shape[2:], **geometry, size=itemsize)


def conv(
    to: NativeLowering, x: View, w: View, bias: View | None = None, *, groups: int, **geometry: Any
) -> None:
    shape = forward_shape(x, w, groups, **geometry)
    if bias is not None and bias.shape != w.shape[:1]:
        raise Unsupported(f"a bias of shape {bias.shape} for {w.shape[0]} filters")
    tiling = tilings.forward(checked_machine(to.target, shape, x, w), shape)
    lower_direct(to, direct.correlate, tiling, (x.shape[0], *tiling.out_shape), x, w, bias)


def conv_input(to: NativeLowering, g: View, w: View, *, x_shape: Ints, **geometry: Any) -> None:
    shape = input_shape(g, w, x_shape, **geometry)
    tiling = tilings.backward(checked_machine(to.target, shape, g, w), shape)
    lower_direct(to, direct.correlate, tiling, (g.shape[0], *tiling.out_shape), g, w, None)


def conv_weight(to: NativeLowering, x: View, g: View, *, w_shape: Ints, **geometry: Any) -> None:
    shape = weight_shape(x, g, w_shape, **geometry)
    tiling = tilings.weights(checked_machine(to.target, shape, x, g), shape)
    lower_direct(to, direct.weight_gradient, tiling, tuple(w_shape), x, g)


def lower_direct(
    to: NativeLowering,
    function: Callable,
    tiling: tilings.Correlation | tilings.WeightGradient,
    shape: Ints,
    x: View,
    y: View,
    *bias: View | None,
) -> None:
    """Have a result of a shape computed from arrays in the dtype that has their digits."""
    dtype, result = held_dtype(x), to.result(shape, x.dtype)
    x, y = (one if one.dtype == dtype else as_contiguous(to, one, dtype) for one in (x, y))
    with held_in(to, dtype, result) as out:
        function(to, tiling, x, y, *bias, out)
