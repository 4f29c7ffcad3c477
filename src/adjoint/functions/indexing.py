"""Reading parts of tensors by position: x[index], take, nonzero, and scatter, their adjoint."""

import operator
from typing import Any, NamedTuple

import numpy as np

from .._core.promotion import placed_indices
from .._core.shape_inference import at_axis, broadcast_shapes
from .._core.tensor import Tensor, describe
from .._foundation.dtypes import canonical
from .._foundation.errors import ArgumentError, IndexingError, ShapeError
from ..primitives import indexing, shapes
from ..primitives.reductions import broadcast_to
from ..primitives.shapes import indexed_shape
from ._arguments import as_axis, as_tensor, as_tensor_like, host_array, reject
from ._marks import method, method_named

__all__ = ["gather", "index_select", "nonzero", "scatter_add", "take", "take_along_axis"]


class Index(NamedTuple):
    """An index in normal form: ints, slices, None and "array", and a tensor for each "array".

    `shape` is what it selects. `view` is the shape that the tensor is indexed in: its own, with an
    axis of length 1 for each 0-d boolean.
    """

    spec: tuple
    arrays: tuple[Tensor, ...]
    shape: tuple[int, ...]
    view: tuple[int, ...]


def parse(x: Tensor, index: Any) -> Index:
    """The normal form of whatever stands in the brackets, and the shape it selects."""
    spec: list[Any] = []
    arrays: list[Tensor] = []
    view: list[int] = []
    axis = 0
    for entry in one_per_axis(x, index):
        if isinstance(entry, Tensor):
            found = mask_indices(entry, x, axis) if entry.raw.dtype.kind == "b" else [entry]
            spec += ["array"] * len(found)
            arrays += found
        else:
            spec.append(entry)
        if isinstance(entry, int) and not -x.shape[axis] <= entry < x.shape[axis]:
            raise IndexingError(
                f"index {entry} is out of range for axis {axis} of a tensor of shape {x.shape}"
            )
        taken = axes_taken(entry)
        view += x.shape[axis : axis + taken] or ([1] if isinstance(entry, Tensor) else [])
        axis += taken
    if not arrays:
        spec = [entry for entry in spec if entry is not Ellipsis]
    array_shapes = tuple(a.raw.shape for a in arrays)
    shape = indexed_shape(tuple(view), tuple(spec), array_shapes)
    return Index(tuple(spec), tuple(arrays), shape, tuple(view))


def one_per_axis(x: Tensor, index: Any) -> list[Any]:
    """The entries of an index, with slices for the axes that it leaves out."""
    given = index if isinstance(index, tuple) else (index,)
    entries = [as_entry(entry, x.device) for entry in given]
    taken = sum(axes_taken(entry) for entry in entries)
    if taken > x.ndim:
        raise IndexingError(f"too many indices: {taken} for a tensor of shape {x.shape}")
    dots = [k for k, entry in enumerate(entries) if entry is Ellipsis]
    if len(dots) > 1:
        raise IndexingError("an index can have only one ellipsis (...)")
    rest = [slice(None)] * (x.ndim - taken)
    at = dots[0] if dots else len(entries)
    # Between arrays an ellipsis counts as a slice, as in NumPy, also if it stands for no axes.
    entries[at : at + len(dots)] = rest or (dots and [Ellipsis])
    return entries


def as_entry(entry: Any, device: str) -> Any:
    """One entry of an index: None, an ellipsis, an int, a slice of ints, or an index tensor."""
    if entry is None or entry is Ellipsis or type(entry) is int:
        return entry
    if isinstance(entry, (list, tuple, range, np.ndarray, bool, np.bool_)):
        try:
            array = host_array(entry, None, None)
        except (TypeError, ValueError) as error:
            raise IndexingError(f"an index must be integers or booleans: {error}") from None
        empty = isinstance(entry, (list, tuple, range)) and not array.size
        entry = placed_indices(array.astype(np.int64) if empty else array, device)
    if isinstance(entry, Tensor):
        if entry.raw.dtype.kind not in "iub":
            raise IndexingError(f"an index must be integers or booleans, not {describe(entry)}")
        return entry
    try:
        if isinstance(entry, slice):
            return slice(*(None if n is None else operator.index(n) for n in slice_parts(entry)))
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
    return entry.ndim if isinstance(entry, Tensor) and entry.raw.dtype.kind == "b" else 1


def mask_indices(mask: Tensor, x: Tensor, axis: int) -> list[Tensor]:
    """A boolean mask as integer indices, one tensor per axis."""
    if mask.ndim == 0:  # it stands for a new axis, of which it selects everything or nothing
        return mask_indices(shapes.reshape(mask, shape=(1,)), shapes.reshape(mask, shape=(1,)), 0)
    covered = x.shape[axis : axis + mask.ndim]
    # As in NumPy, a mask without elements selects nothing, whatever it stands for.
    pairs = zip(mask.shape, covered, strict=False)
    if len(covered) < mask.ndim or any(n not in (0, m) for n, m in pairs):
        raise IndexingError(
            f"a boolean index of shape {mask.shape} doesn't fit the axes of shape {covered} that "
            f"it stands for (tensor of shape {x.shape})"
        )
    places = indexing.nonzero(mask)
    return [shapes.slice_(places, index=(k,)) for k in range(mask.ndim)]


@method_named("__getitem__")
def getitem(x: Tensor, index: Any) -> Tensor:
    """x[index]: basic indices give views, arrays and masks select."""
    if type(index) is int and x.raw.shape and -x.raw.shape[0] <= index < x.raw.shape[0]:
        return shapes.slice_(x, index=(index,))
    spec, arrays, _, view = parse(x, index)
    if not arrays:
        return shapes.slice_(x, index=spec)
    return call_index_op(x, indexing.index, viewed(x, view), *arrays, spec=spec)


def viewed(x: Tensor, view: tuple[int, ...]) -> Tensor:
    return x if x.raw.shape == view else shapes.reshape(x, shape=view)


def call_index_op(x: Tensor, op: Any, *args: Any, function: str = "", **attrs: Any) -> Tensor:
    """Call an index op, and say what was indexed if an index is out of range."""
    try:
        return op(*args, **attrs)
    except IndexError as error:
        reason = str(error).rpartition("): ")[2]
        name = f"{function}: " if function else ""
        raise IndexingError(f"{name}{reason} (tensor of shape {x.shape})") from None


@method
def take(x: Any, indices: Any, /, axis: int | None = None, **unknown: Any) -> Tensor:
    """Elements at integer indices along an axis, which may be left out for 1-d tensors.

    >>> ad.take(ad.asarray([[1, 2], [3, 4]]), ad.asarray([1, 0, 1]), axis=0)
    tensor([[3, 4],
            [1, 2],
            [3, 4]])
    """
    return taken("take", *prepared("take", x, indices, unknown), axis)


def taken(function: str, x: Tensor, indices: Tensor, axis: int | None) -> Tensor:
    if axis is None and x.ndim != 1:
        raise ArgumentError(f"{function}: name an axis: the tensor has shape {x.shape}")
    axis = as_axis(function, 0 if axis is None else axis, x.ndim)
    spec = at_axis(axis, "array")
    return call_index_op(x, indexing.index, x, indices, function=function, spec=spec)


def index_select(x: Any, index: Any, axis: int = 0, **unknown: Any) -> Tensor:
    """The parts of x at 1-d integer indices along an axis.

    >>> ad.index_select(ad.asarray([[1, 2], [3, 4]]), ad.asarray([1]), axis=1)
    tensor([[2],
            [4]])
    """
    x, index = prepared("index_select", x, index, unknown)
    if index.ndim != 1:
        raise ShapeError(f"index_select: 1-d indices are needed, got shape {index.shape}; use take")
    return taken("index_select", x, index, axis)


def gather(x: Any, index: Any, axis: int = 0, **unknown: Any) -> Tensor:
    """Elements at indices along one axis, as in PyTorch: in the others the index may be shorter.

    >>> ad.gather(ad.asarray([[1, 2], [3, 4]]), ad.asarray([[1, 1, 0]]), axis=1)
    tensor([[2, 2, 1]])
    """
    x, index = prepared("gather", x, index, unknown)
    axis = as_axis("gather", axis, x.ndim)
    others = [k for k in range(x.ndim) if k != axis]
    if index.ndim != x.ndim or any(index.shape[k] > x.shape[k] for k in others):
        raise ShapeError(
            f"gather: x has shape {x.shape}, the index {index.shape}; it must have as many axes, "
            f"and be no longer in any but axis {axis}"
        )
    part = tuple(slice(None) if k == axis else slice(n) for k, n in enumerate(index.shape))
    near = shapes.slice_(x, index=part)
    return call_index_op(x, indexing.take_along_axis, near, index, function="gather", axis=axis)


def take_along_axis(x: Any, indices: Any, /, axis: int = -1, **unknown: Any) -> Tensor:
    """Elements at indices that run along one axis and broadcast with x in the others.

    >>> ad.take_along_axis(ad.asarray([[1, 2], [3, 4]]), ad.asarray([[1], [0]]), axis=1)
    tensor([[2],
            [3]])
    """
    x, indices = prepared("take_along_axis", x, indices, unknown)
    axis = as_axis("take_along_axis", axis, x.ndim)
    x, indices = stretched(axis, x, indices)
    return call_index_op(
        x, indexing.take_along_axis, x, indices, function="take_along_axis", axis=axis
    )


def scatter_add(x: Any, index: Any, src: Any, axis: int = 0, **unknown: Any) -> Tensor:
    """x with src added at indices along one axis, once for each time an index occurs.

    >>> ad.scatter_add(ad.zeros(3), ad.asarray([1, 1]), ad.asarray([5.0, 6.0]))
    tensor([ 0., 11.,  0.])
    """
    x, index = prepared("scatter_add", x, index, unknown)
    src = as_tensor_like("scatter_add", x, src)
    axis = as_axis("scatter_add", axis, x.ndim)
    check_same_but("scatter_add", axis, x, index)
    if src.shape != index.shape:
        raise ShapeError(f"scatter_add: index has shape {index.shape}, src {src.shape}")
    options = {"function": "scatter_add", "axis": axis, "shape": x.shape}
    return x + call_index_op(x, indexing.scatter_along_axis, src, index, **options)


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


def prepared(function: str, x: Any, indices: Any, unknown: dict) -> tuple[Tensor, Tensor]:
    """The tensor and the places in it."""
    if unknown:
        reject(function, unknown)
    x = as_tensor(function, x)
    return x, as_indices(function, indices, x)


def as_indices(function: str, indices: Any, x: Tensor | None = None) -> Tensor:
    """Integers that are places in x."""
    if isinstance(indices, np.ndarray) and x is not None and indices.dtype.kind in "iu":
        return placed_indices(canonical(indices), x.device)
    indices = as_tensor(function, indices)
    if indices.raw.dtype.kind not in "iu":
        raise IndexingError(f"{function}: integer indices are needed, got {describe(indices)}")
    return indices


def stretched(axis: int, *tensors: Tensor) -> list[Tensor]:
    """Tensors broadcast to each other in all axes but one."""
    if len({x.ndim for x in tensors}) > 1:
        raise ShapeError(
            f"take_along_axis: x has shape {tensors[0].shape}, the indices {tensors[1].shape}; "
            "they must have as many axes"
        )
    others = [(*x.shape[:axis], 1, *x.shape[axis + 1 :]) for x in tensors]
    common = list(broadcast_shapes("take_along_axis", others))
    wanted = [(*common[:axis], x.shape[axis], *common[axis + 1 :]) for x in tensors]
    return [
        x if x.shape == shape else broadcast_to(x, shape=shape)
        for x, shape in zip(tensors, wanted, strict=True)
    ]


def check_same_but(function: str, axis: int, x: Tensor, indices: Tensor) -> None:
    """Raise unless index and tensor agree in all axes but one."""
    others = [k for k in range(x.ndim) if k != axis]
    if indices.ndim != x.ndim or any(x.shape[k] != indices.shape[k] for k in others):
        raise ShapeError(
            f"{function}: x has shape {x.shape}, the indices {indices.shape}; all axes but {axis} "
            "must be equal"
        )
