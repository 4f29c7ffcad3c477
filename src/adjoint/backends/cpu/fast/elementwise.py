"""Elementwise ops on large arrays, each by a kernel of its own."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ....kernels.language import TYPES
from ..jit.availability import available
from ..operands import arrays_of
from .maps import Launcher


def compute(name: str, small: Callable, inputs: tuple, attrs: dict[str, Any]) -> np.ndarray:
    """Compute an op on large arrays, by its kernel if it has one for their dtypes."""
    dtypes = tuple([None if x is None else x.dtype for x in inputs])
    launcher = launcher_of(name, dtypes, tuple(attrs), attrs.get("dtype"))
    if launcher is None:
        return small(*inputs, **attrs)
    arrays = arrays_of(x for x in inputs if x is not None)
    return launcher.map(arrays, [v for k, v in attrs.items() if k != "dtype"])[0]


@functools.cache
def launcher_of(
    name: str, dtypes: tuple, attributes: tuple[str, ...], dtype: np.dtype | None
) -> Launcher | None:
    """The launcher of an op's kernel for arrays of these dtypes; None where it has none."""
    if not available() or any(t is not None and t not in TYPES for t in dtypes):
        return None
    from ....kernels.ops import Unsupported, kernel_of

    try:
        return Launcher(kernel_of(name, dtypes, attributes, dtype))
    except Unsupported:
        return None
