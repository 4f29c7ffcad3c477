"""Kernels of a GPU on arrays of any layout, and NumPy's functions of the same names."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from adjoint.backends.cpu import NUMPY
from tests.support.helpers import as_tuple


def laid_out(webgpu: Any, x: np.ndarray, layout: str = "plain") -> Any:
    """x on the device, in memory as a layout has it."""
    if layout == "transposed":
        base = webgpu.from_numpy(x.T.copy())
        return base.view(x.shape, base.strides[::-1])
    if layout == "backwards":
        base = webgpu.from_numpy(np.flip(x).copy())
        return base.view(x.shape, tuple(-s for s in base.strides), max(x.size - 1, 0))
    if layout == "strided":
        base = webgpu.from_numpy(np.stack([x, x * 0 + 1, x], -1))
        return base.view(x.shape, base.strides[:-1], 2)
    if layout == "sliced":
        return every_other(webgpu, x, range(x.ndim))
    if layout == "sliced at both ends":  # which takes less memory where there are many axes
        return every_other(webgpu, x, {0, x.ndim - 1})
    assert layout == "plain"
    return webgpu.from_numpy(x)


def every_other(webgpu: Any, x: np.ndarray, axes: Iterable[int]) -> Any:
    """x as every other element along axes of a larger array."""
    steps = [2 if k in axes else 1 for k in range(x.ndim)]
    sizes = list(zip(x.shape, steps, strict=True))
    wide = np.full([2 * n + 3 if step == 2 else n for n, step in sizes], 77, x.dtype)
    places = [slice(1, 2 * n + 1, 2) if step == 2 else slice(None) for n, step in sizes]
    wide[tuple(places)] = x
    base = webgpu.from_numpy(wide)
    strides = [(s, step) for s, step in zip(base.strides, steps, strict=True)]
    start = sum(s for s, step in strides if step == 2)
    return base.view(x.shape, tuple(s * step for s, step in strides), start)


def computed(
    webgpu: Any, name: str, *arrays: np.ndarray, layout: str = "plain", **attrs: Any
) -> tuple[list[np.ndarray], tuple[np.ndarray, ...]]:
    """What the device finds, and what NumPy does, of the same shapes; int64 is int32 there."""
    given = [laid_out(webgpu, x, layout) for x in arrays]
    found = as_tuple(webgpu.FUNCTIONS[name](*given, **attrs))
    wanted = as_tuple(NUMPY[name](*arrays, **attrs))
    assert [x.shape for x in found] == [x.shape for x in wanted]
    dtypes = [np.dtype("i4") if x.dtype == np.int64 else x.dtype for x in wanted]
    assert [x.dtype for x in found] == dtypes
    return [webgpu.to_numpy(x) for x in found], wanted


def same(webgpu: Any, name: str, *arrays: np.ndarray, **more: Any) -> None:
    """Both find the same, bit for bit."""
    for found, wanted in zip(*computed(webgpu, name, *arrays, **more), strict=True):
        np.testing.assert_array_equal(found, wanted)
