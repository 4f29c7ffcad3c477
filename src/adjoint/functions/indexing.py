"""Reading parts of tensors by position: x[index], take, nonzero, and scatter, their adjoint."""

import operator
from typing import Any, NamedTuple

import numpy as np

from .._errors import ArgumentError, IndexingError, ShapeError
from .._operands import lift
from .._tensor import Tensor, describe
from ..primitives import indexing, shapes
from ..primitives.shapes import indexed_shape
from ._arguments import as_axis, as_tensor, as_tensor_like, host_array, reject


class Index(NamedTuple):
    """An index in normal form: ints, slices, None and "array", and a tensor for each "array"."""

    spec: tuple
    arrays: tuple[Tensor, ...]
    shape: tuple[int, ...]


def parse(x: Tensor, index: Any) -> Index:
    """The normal form of whatever stands in the brackets, and the shape it selects."""
    entries = [as_entry(entry) for entry in (index if isinstance(index, tuple) else (index,))]
    taken = sum(axes_taken(entry) for entry in entries)
    if taken > x.ndim:
        raise IndexingError(f"too many indices: {taken} for a tensor of shape {x.shape}")
    dots = [k for k, entry in enumerate(entries) if entry is Ellipsis]
    if len(dots) > 1:
        raise IndexingError("an index can have only one ellipsis (...)")
    rest = [slice(None)] * (x.ndim - taken)
    at = dots[0] if dots else len(entries)
    entries[at : at + len(dots)] = rest

    spec: list[Any] = []
    arrays: list[Tensor] = []
    axis = 0
    for entry in entries:
        if isinstance(entry, Tensor):
            found = mask_indices(entry, x, axis) if entry.data.dtype.kind == "b" else [entry]
            spec += ["array"] * len(found)
            arrays += found
        else:
            spec.append(entry)
        if isinstance(entry, int) and not -x.shape[axis] <= entry < x.shape[axis]:
            raise IndexingError(
                f"index {entry} is out of range for axis {axis} of a tensor of shape {x.shape}"
            )
        axis += axes_taken(entry)
    array_shapes = tuple(a.data.shape for a in arrays)
    return Index(tuple(spec), tuple(arrays), indexed_shape(x.shape, tuple(spec), array_shapes))


def as_entry(entry: Any) -> Any:
    """One entry of an index: None, an ellipsis, an int, a slice of ints, or an index tensor."""
    if entry is None or entry is Ellipsis or type(entry) is int:
        return entry
    if isinstance(entry, (list, tuple, np.ndarray)):
        try:
            array = host_array(entry, None, None)
        except (TypeError, ValueError) as error:
            raise IndexingError(f"an index must be integers or booleans: {error}") from None
        entry = lift(array.astype(np.int64) if array.size == 0 else array)
    if isinstance(entry, Tensor):
        if entry.data.dtype.kind not in "iub":
            raise IndexingError(f"an index must be integers or booleans, not {describe(entry)}")
        return entry
    try:
        if isinstance(entry, slice):
            return slice(*(None if n is None else operator.index(n) for n in slice_parts(entry)))
        if isinstance(entry, (bool, np.bool_)):
            raise TypeError
        return operator.index(entry)
    except TypeError:
        raise IndexingError(
            f"{entry!r} can't be an index; integers, slices, None, ..., and integer or boolean "
            "arrays can"
        ) from None


def slice_parts(entry: slice) -> tuple:
    if entry.step == 0:
        raise IndexingError("a slice's step can't be 0")
    return entry.start, entry.stop, entry.step


def axes_taken(entry: Any) -> int:
    """How many axes of the tensor an entry is about."""
    if entry is None or entry is Ellipsis:
        return 0
    return entry.ndim if isinstance(entry, Tensor) and entry.data.dtype.kind == "b" else 1


def mask_indices(mask: Tensor, x: Tensor, axis: int) -> list[Tensor]:
    """A boolean mask as integer indices, one tensor per axis."""
    covered = x.shape[axis : axis + mask.ndim]
    if mask.ndim == 0:
        raise IndexingError("a 0-d boolean can't be an index; use ad.where")
    if mask.shape != covered:
        raise IndexingError(
            f"a boolean index of shape {mask.shape} doesn't fit the axes of shape {covered} that "
            f"it stands for (tensor of shape {x.shape})"
        )
    places = indexing.nonzero(mask)
    return [shapes.slice_(places, index=(k,)) for k in range(mask.ndim)]


def getitem(x: Tensor, index: Any) -> Tensor:
    """x[index]: basic indices give views, arrays and masks select."""
    if type(index) is int and x.data.shape and -x.data.shape[0] <= index < x.data.shape[0]:
        return shapes.slice_(x, index=(index,))
    spec, arrays, _ = parse(x, index)
    if not arrays:
        return shapes.slice_(x, index=spec)
    return in_range(x, indexing.index, x, *arrays, spec=spec)


def in_range(x: Tensor, function: Any, *args: Any, **attrs: Any) -> Tensor:
    """Call an index op, and say what was indexed if an index is out of range."""
    try:
        return function(*args, **attrs)
    except IndexError as error:
        reason = str(error).rpartition("): ")[2]
        raise IndexingError(f"{reason} (tensor of shape {x.shape})") from None


def take(x: Any, indices: Any, axis: int | None = None, **unknown: Any) -> Tensor:
    """Elements at integer indices along an axis, which may be left out for 1-d tensors.

    >>> ad.take(ad.asarray([[1, 2], [3, 4]]), ad.asarray([1, 0, 1]), axis=0)
    tensor([[3, 4],
            [1, 2],
            [3, 4]])
    """
    if unknown:
        reject("take", unknown)
    x, indices = as_tensor("take", x), as_indices("take", indices)
    if axis is None and x.ndim != 1:
        raise ArgumentError(f"take: name an axis: the tensor has shape {x.shape}")
    axis = as_axis("take", 0 if axis is None else axis, x.ndim)
    spec = (*(slice(None) for _ in range(axis)), "array")
    return in_range(x, indexing.index, x, indices, spec=spec)


def take_along_axis(x: Any, indices: Any, axis: int = -1, **unknown: Any) -> Tensor:
    """Elements at indices that run along one axis and match x in the others.

    >>> ad.take_along_axis(ad.asarray([[1, 2], [3, 4]]), ad.asarray([[1], [0]]), axis=1)
    tensor([[2],
            [3]])
    """
    if unknown:
        reject("take_along_axis", unknown)
    x, indices = as_tensor("take_along_axis", x), as_indices("take_along_axis", indices)
    axis = as_axis("take_along_axis", axis, x.ndim)
    same_but("take_along_axis", axis, x, indices)
    return in_range(x, indexing.take_along_axis, x, indices, axis=axis)


def scatter_add(x: Any, index: Any, src: Any, axis: int = 0, **unknown: Any) -> Tensor:
    """x with src added at indices along one axis, once for each time an index occurs.

    >>> ad.scatter_add(ad.zeros(3), ad.asarray([1, 1]), ad.asarray([5.0, 6.0]))
    tensor([ 0., 11.,  0.])
    """
    if unknown:
        reject("scatter_add", unknown)
    x, index = as_tensor("scatter_add", x), as_indices("scatter_add", index)
    src = as_tensor_like("scatter_add", x, src)
    axis = as_axis("scatter_add", axis, x.ndim)
    same_but("scatter_add", axis, x, index)
    if src.shape != index.shape:
        raise ShapeError(f"scatter_add: index has shape {index.shape}, src {src.shape}")
    added = in_range(x, indexing.scatter_along_axis, src, index, axis=axis, shape=x.shape)
    return x + added


def nonzero(x: Any) -> tuple[Tensor, ...]:
    """The indices of the elements that aren't zero, one tensor per axis.

    >>> ad.nonzero(ad.asarray([0, 5, 6]))
    (tensor([1, 2]),)
    """
    x = as_tensor("nonzero", x)
    if x.ndim == 0:
        raise ShapeError("nonzero: a 0-d tensor has no axes")
    places = indexing.nonzero(x)
    return tuple(shapes.slice_(places, index=(k,)) for k in range(x.ndim))


def as_indices(function: str, indices: Any) -> Tensor:
    indices = as_tensor(function, indices)
    if indices.data.dtype.kind not in "iu":
        raise IndexingError(f"{function}: integer indices are needed, got {describe(indices)}")
    return indices


def same_but(function: str, axis: int, x: Tensor, indices: Tensor) -> None:
    """Index and tensor agree in all axes but one."""
    others = [k for k in range(x.ndim) if k != axis]
    if indices.ndim != x.ndim or any(x.shape[k] != indices.shape[k] for k in others):
        raise ShapeError(
            f"{function}: x has shape {x.shape}, the indices {indices.shape}; all axes but {axis} "
            "must be equal"
        )
