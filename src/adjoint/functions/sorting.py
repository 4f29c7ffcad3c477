"""Sorting, and searching in sorted tensors."""

from typing import Any, NamedTuple

from .._core.tensor import Tensor
from .._foundation.errors import ArgumentError, ShapeError
from ..primitives import indexing
from ._arguments import as_axis, as_integer, as_real, as_tensor, in_common_dtype, reject
from ._marks import method
from .indexing import as_indices, taken

__all__ = ["argsort", "searchsorted", "sort", "topk"]


class TopK(NamedTuple):
    values: Tensor
    indices: Tensor


@method
def topk(x: Any, k: int, axis: int = -1, largest: bool = True, **unknown: Any) -> TopK:
    """The k largest (or smallest) elements along an axis, best first, and their indices.

    >>> ad.topk(ad.asarray([1.0, 5.0, 3.0]), 2)
    TopK(values=tensor([5., 3.]), indices=tensor([1, 2]))
    """
    if unknown:
        reject("topk", unknown)
    x = as_real("topk", x)
    axis = as_axis("topk", axis, x.ndim)
    count = as_integer("topk", "k", k)
    if not 0 <= count <= x.shape[axis]:
        raise ArgumentError(
            f"topk: k={k}, but axis {axis} of shape {x.shape} has {x.shape[axis]} elements"
        )
    return TopK(*indexing.topk(x, k=count, axis=axis, largest=bool(largest)))


@method
def sort(
    x: Any, axis: int = -1, *, descending: bool = False, stable: bool = True, **unknown: Any
) -> Tensor:
    """The elements in order along an axis. NaN counts as the largest; sorting is always stable.

    >>> ad.sort(ad.asarray([3.0, 1.0, 2.0]), descending=True)
    tensor([3., 2., 1.])
    """
    return ordered("sort", x, axis, descending, unknown).values


@method
def argsort(
    x: Any, axis: int = -1, *, descending: bool = False, stable: bool = True, **unknown: Any
) -> Tensor:
    """The indices that sort along an axis; equals stay in their order, also if descending.

    >>> ad.argsort(ad.asarray([3.0, 1.0, 2.0]))
    tensor([1, 2, 0])
    """
    return ordered("argsort", x, axis, descending, unknown).indices


def ordered(function: str, x: Any, axis: int, descending: bool, unknown: dict) -> TopK:
    """Sorting is choosing all of the elements, best first."""
    if unknown:
        reject(function, unknown)
    x = as_real(function, x)
    axis = as_axis(function, axis, x.ndim)
    return TopK(*indexing.topk(x, k=x.shape[axis], axis=axis, largest=bool(descending)))


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Tensor:
    """Where values x2 would go in the sorted x1: before equals, or after them (side="right").

    `sorter` are the indices that sort x1, if it isn't sorted.

    >>> ad.searchsorted(ad.asarray([1.0, 2.0, 3.0]), ad.asarray([2.0, 9.0]))
    tensor([1, 3])
    """
    x1 = as_tensor("searchsorted", x1)
    if x1.ndim != 1:
        raise ShapeError(f"searchsorted: x1 must be 1-d, its shape is {x1.shape}")
    if side not in ("left", "right"):
        raise ArgumentError(f"searchsorted: side is 'left' or 'right', got {side!r}")
    if sorter is not None:
        sorter = as_indices("searchsorted", sorter)
        x1 = taken("searchsorted", x1, sorter, 0)
    return indexing.searchsorted(*in_common_dtype("searchsorted", x1, x2), after=side == "right")
