"""Sets of elements: which are distinct, and which are among others."""

from typing import Any, NamedTuple

from .._core.tensor import Tensor
from .._foundation.dtypes import bool as boolean
from ..primitives import indexing
from ..primitives.creation import full
from ..primitives.elementwise import equal, logical_not, minimum
from ..primitives.shapes import reshape
from ._arguments import as_tensor, in_common_dtype

__all__ = ["isin", "unique_all", "unique_counts", "unique_inverse", "unique_values"]


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
