"""Elementwise ops, each by a kernel of its own."""

import functools
from typing import Any

import numpy as np

from ....kernels.language import TYPES
from ....kernels.ops import Unsupported, kernel_of
from ...launches import View
from .launchers import Launcher
from .maps import lower_map
from .native import NativeLowering


@functools.cache
def launcher_of(
    name: str, dtypes: tuple, attributes: tuple[str, ...], dtype: np.dtype | None
) -> Launcher | None:
    """The launcher of an op's kernel for arrays of these dtypes; None where it has none."""
    if not dtypes or any(t is not None and t not in TYPES for t in dtypes):
        return None
    try:
        return Launcher(kernel_of(name, dtypes, attributes, dtype))
    except Unsupported:
        return None


def lower_elementwise(to: NativeLowering, name: str, *inputs: View | None, **attrs: Any) -> None:
    """Lower an op to a launch whose numbers are its attributes."""
    dtypes = tuple([None if x is None else x.dtype for x in inputs])
    launcher = launcher_of(name, dtypes, tuple(attrs), attrs.get("dtype"))
    if launcher is None:
        raise Unsupported(f"{name} of {dtypes}")
    lower_map(to, launcher.expression, to.views, keys=[key for key in attrs if key != "dtype"])
