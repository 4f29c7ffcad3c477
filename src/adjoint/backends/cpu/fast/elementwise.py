"""Elementwise ops on large arrays, each by a kernel of its own."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ....kernels.language import F16, F32, TYPES, Kernel, Type, Value, element, scalar
from ..dispatch import arrays_of
from ..jit import available
from .maps import Launcher


def large(name: str, small: Callable, inputs: tuple, attrs: dict[str, Any]) -> np.ndarray:
    """An op on large arrays, by its kernel if it has one for their dtypes."""
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
    """The kernel of an op on arrays of these dtypes; None where it has none."""
    if not available() or any(t is not None and t not in TYPES for t in dtypes):
        return None
    from ....kernels.ops import Unsupported, describe

    given = [k for k, t in enumerate(dtypes) if t is not None]
    places = {k: n for n, k in enumerate(given)}
    inputs: list[Value | None] = [
        element(places[k], TYPES[t]) if t is not None else None for k, t in enumerate(dtypes)
    ]
    number = number_type(TYPES[dtypes[given[0]]])
    names = [name for name in attributes if name != "dtype"]
    attrs: dict[str, Any] = {name: scalar(k, number) for k, name in enumerate(names)}
    if dtype is not None:
        attrs["dtype"] = np.dtype(dtype)
    try:
        return Launcher(Kernel((describe(name, inputs, **attrs),)))
    except Unsupported:
        return None


def number_type(type: Type) -> Type:
    """The type in which numbers meet elements of a type."""
    return F32 if type == F16 else type
