"""Convolution and pooling."""

from typing import Any

from .._errors import ArgumentError, DTypeError, ShapeError
from .._operands import promoted
from .._tensor import Tensor
from ..primitives import windows
from ._arguments import as_pair, as_tensor

Pair = int | tuple[int, int]


def conv2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of images (N, C, H, W) with filters (O, C / groups, h, w), as in PyTorch.

    >>> image, blur = ad.ones((1, 1, 3, 3)), ad.full((1, 1, 2, 2), 0.25)
    >>> ad.nn.functional.conv2d(image, blur).shape
    (1, 1, 2, 2)
    """
    tensors = [as_tensor("conv2d", t) for t in (x, weight)]
    if bias is not None:
        tensors.append(as_tensor("conv2d", bias))
    stride, dilation = (
        as_pair("conv2d", "stride", stride, 1),
        as_pair("conv2d", "dilation", dilation, 1),
    )
    padding = as_pair("conv2d", "padding", padding, 0)
    check_conv([t.shape for t in tensors], groups)
    image, kernel, *rest = promoted(windows.conv.op, tensors)
    check_window("conv2d", image.shape, kernel.shape[2:], padding, dilation)
    return windows.conv(
        image,
        kernel,
        rest[0] if rest else None,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
    )


def check_conv(shapes: list[tuple[int, ...]], groups: int) -> None:
    x, weight, *bias = shapes
    if len(x) != 4 or len(weight) != 4:
        raise ShapeError(
            f"conv2d: images (N, C, H, W) and filters (O, C / groups, h, w) are needed, got shapes "
            f"{x} and {weight}"
        )
    if groups < 1 or x[1] % groups or weight[0] % groups:
        raise ArgumentError(
            f"conv2d: groups={groups} must divide the {x[1]} input and {weight[0]} output channels"
        )
    if x[1] != weight[1] * groups:
        raise ShapeError(
            f"conv2d: the images {x} have {x[1]} channels, the filters {weight} are for "
            f"{weight[1]} x {groups} groups = {weight[1] * groups}"
        )
    if bias and bias[0] != (weight[0],):
        raise ShapeError(f"conv2d: bias has shape {bias[0]}, {(weight[0],)} is needed")


def check_window(function: str, x: tuple, kernel: tuple, padding: tuple, dilation: tuple) -> None:
    for n, k, p, d in zip(x[2:], kernel, padding, dilation, strict=True):
        if k < 1:
            raise ShapeError(f"{function}: a window of {tuple(kernel)} has no elements")
        if n + 2 * p < d * (k - 1) + 1:
            raise ShapeError(
                f"{function}: a window of {tuple(kernel)} (dilation {dilation}) is larger than the "
                f"image {x[2:]} with padding {padding}"
            )


def max_pool2d(x: Any, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0) -> Tensor:
    """The largest element of each window of images (N, C, H, W); the first of equals counts.

    >>> ad.nn.functional.max_pool2d(ad.reshape(ad.arange(16), (1, 1, 4, 4)), 2)
    tensor([[[[ 5,  7],
              [13, 15]]]])
    """
    x = as_tensor("max_pool2d", x)
    if x.data.dtype.kind not in "iuf":
        raise DTypeError(f"max_pool2d: real numbers are needed, got {x.dtype.name}")
    if x.ndim != 4:
        raise ShapeError(f"max_pool2d: images (N, C, H, W) are needed, got shape {x.shape}")
    kernel = as_pair("max_pool2d", "kernel_size", kernel_size, 1)
    stride = kernel if stride is None else as_pair("max_pool2d", "stride", stride, 1)
    padding = as_pair("max_pool2d", "padding", padding, 0)
    if any(2 * p > k for p, k in zip(padding, kernel, strict=True)):
        raise ArgumentError(f"max_pool2d: padding {padding} is more than half of kernel {kernel}")
    check_window("max_pool2d", x.shape, kernel, padding, (1, 1))
    return windows.max_pool(x, kernel=kernel, stride=stride, padding=padding)[0]
