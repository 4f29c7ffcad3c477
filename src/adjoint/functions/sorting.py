"""Sorting, searching in sorted tensors, and sets."""

from typing import Any, NamedTuple

from .._core.tensor import Tensor
from .._foundation.dtypes import bool as boolean
from .._foundation.errors import ArgumentError, ShapeError
from ..primitives import indexing
from ..primitives.creation import full
from ..primitives.elementwise import equal, logical_not, minimum
from ..primitives.shapes import reshape
from ._arguments import as_axis, as_integer, as_real, as_tensor, in_common_dtype, reject
from ._marks import method
from .indexing import as_indices, taken

__all__ = ["argsort", "isin", "searchsorted", "sort", "topk", "unique_all", "unique_counts"]
__all__ += ["unique_inverse", "unique_values"]


class TopK(NamedTuple):
    values: Tensor
    indices: Tensor


class UniqueAll(NamedTuple):
    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    values: Tensor
    inverse_indices: Tensor


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


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Tensor:
    """Whether each element of x1 is among those of x2; NaN never is.

    >>> ad.isin(ad.asarray([1, 2, 3]), ad.asarray([3, 1]))
    tensor([ True, False,  True])
    """
    x, among = in_common_dtype("isin", x1, x2)
    if not among.size:
        return full(shape=x.shape, value=bool(invert), dtype=boolean.dtype, device=x.device)
    flat = reshape(among, shape=(among.size,))
    inorder = indexing.topk(flat, k=flat.size, axis=0, largest=False)[0]
    place = minimum(indexing.searchsorted(inorder, x, after=False), flat.size - 1)
    found = equal(indexing.index(inorder, place, spec=("array",)), x)
    return logical_not(found) if invert else found


def unique_all(x: Any, /) -> UniqueAll:
    """The distinct elements in order, where they first occur, which each is, how often each occurs.

    Each NaN is distinct. Values carry gradients.

    >>> ad.unique_all(ad.asarray([2, 1, 2])).inverse_indices
    tensor([1, 0, 1])
    """
    x = as_tensor("unique_all", x)
    flat = reshape(x, shape=(x.size,))
    indices, inverse, counts = indexing.unique(flat)
    values = indexing.index(flat, indices, spec=("array",))
    return UniqueAll(values, indices, reshape(inverse, shape=x.shape), counts)


def unique_counts(x: Any, /) -> UniqueCounts:
    """The distinct elements in order, and how often each occurs.

    >>> ad.unique_counts(ad.asarray([2, 1, 2]))
    UniqueCounts(values=tensor([1, 2]), counts=tensor([1, 2]))
    """
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Any, /) -> UniqueInverse:
    """The distinct elements in order, and which of them each element is.

    >>> ad.unique_inverse(ad.asarray([2, 1, 2]))
    UniqueInverse(values=tensor([1, 2]), inverse_indices=tensor([1, 0, 1]))
    """
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Any, /) -> Tensor:
    """The distinct elements, in order.

    >>> ad.unique_values(ad.asarray([2, 1, 2]))
    tensor([1, 2])
    """
    return unique_all(x).values
