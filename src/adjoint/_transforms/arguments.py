"""Nested arguments and results of transforms: taken apart, checked, and put together again.

Leaves are float tensors, or what becomes one; None stands for nothing.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import backends
from .._core.promotion import constant, placed
from .._core.tensor import Tensor, describe
from .._foundation.dtypes import DefaultDType, canonical, weak
from .._foundation.errors import ArgumentError, DeviceError, DTypeError, ShapeError
from .._foundation.trees import DiffersError, leaves, map_tree, side_by_side


def like(tree: Any, values: Iterable[Any]) -> Any:
    """The values in the structure of a tree."""
    following = iter(values)
    return map_tree(lambda x: None if x is None else next(following), tree)


def present(tree: Any) -> list[Any]:
    return [x for x in leaves(tree) if x is not None]


def as_differentiable(function: str, path: str, x: Any) -> Tensor:
    """A float tensor from a tensor, a NumPy array or a Python float."""
    if isinstance(x, float) and not isinstance(x, np.generic):
        return constant(x, DefaultDType.float, backends.DefaultDevice.name)
    if isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind == "f":
        # A copy: who gave it may write to it.
        return placed(canonical(np.array(x)), backends.DefaultDevice.name)
    if isinstance(x, Tensor) and x.raw.dtype.kind == "f":
        return x
    raise DTypeError(
        f"{function}: {path} is {what_it_is(x)}, and only floats can be differentiated; {advice(x)}"
    )


def advice(x: Any) -> str:
    """What to do about an argument that can't be differentiated."""
    if type(x) is int:
        return f"write {x}.0, or pass it as an argument that isn't differentiated"
    kind = getattr(x.raw if isinstance(x, Tensor) else x, "dtype", np.dtype(object)).kind
    if kind in "iub":
        return "convert it with ad.astype(x, ad.float32), or leave it out of what is differentiated"
    if kind == "c":
        return "complex numbers carry no gradients yet"
    return (
        "pass it as an argument that isn't differentiated, or close over it; tensors are looked "
        "for in tuples, lists and dicts"
    )


def what_it_is(x: Any) -> str:
    if isinstance(x, Tensor):
        return describe(x)
    if isinstance(x, (np.ndarray, np.generic)):
        return f"a NumPy array of dtype {x.dtype}"
    return f"{x!r}, of type {type(x).__name__}" if np.isscalar(x) else f"of type {type(x).__name__}"


def as_output(function: str, path: str, x: Any) -> Tensor:
    """A result of the function that is being differentiated."""
    if isinstance(x, Tensor) and x.raw.dtype.kind == "f":
        return x
    raise DTypeError(
        f"{function}: the function returned {what_it_is(x)}{path and f' ({path})'}, and only float "
        "tensors can be differentiated; what isn't to be can be returned beside the result, with "
        "has_aux=True"
    )


def shown(tree: Any) -> str:
    """The structure of a tree, with dtypes and shapes for leaves."""
    return repr(map_tree(Shown, tree))


class Shown:
    """A leaf, that prints as what it is."""

    def __init__(self, x: Any) -> None:
        self.text = describe(x) if isinstance(x, Tensor) else repr(x)

    def __repr__(self) -> str:
        return self.text


def matched(function: str, name: str, pattern: Any, tree: Any) -> list[Tensor]:
    """The tensors of a tree that must be as those of the pattern are."""
    try:
        pairs = list(side_by_side(pattern, tree, name))
        odd = next((path for path, x, y in pairs if (x is None) != (y is None)), None)
    except DiffersError as error:
        pairs, odd = [], error.path
    if odd is not None:
        raise ArgumentError(
            f"{function}: {name} is {shown(tree)}, and must be like {shown(pattern)}; they differ "
            f"at {odd}"
        )
    return [checked_like(function, path, x, y) for path, x, y in pairs if x is not None]


def checked_like(function: str, path: str, x: Tensor, y: Any) -> Tensor:
    """y as a tensor, if it is like x; numbers take its dtype."""
    y = weak(y)
    if type(y) in (int, float):
        y = constant(y, x.raw.dtype, x.device)
    elif isinstance(y, np.ndarray):
        y = placed(canonical(np.array(y)), x.device)
    if not isinstance(y, Tensor):
        raise DTypeError(f"{function}: {path} must be a tensor like {describe(x)}, got {y!r}")
    if y.raw.shape != x.raw.shape or y.raw.dtype != x.raw.dtype:
        shape = y.raw.shape != x.raw.shape
        error, what = (ShapeError, "shape") if shape else (DTypeError, "dtype")
        raise error(
            f"{function}: {path} is {describe(y)}, and must be like {describe(x)}; "
            f"their {what}s must be equal"
        )
    if y.device != x.device:
        raise DeviceError(f"{function}: {path} is on {y.device}, and must be on {x.device}")
    return y
