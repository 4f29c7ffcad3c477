"""Shapes and dtypes of results without computing them: one function per kind, plus exceptions."""

from typing import Any

import numpy as np

from .. import backends
from .._foundation.dtypes import BY_NAME, REAL_PART
from .._foundation.errors import ShapeError, TraceError
from .declaration import Op
from .plan import parameters, shape_of

Shape = tuple[int, ...]


def broadcast_shapes(name: str, shapes: list[Shape]) -> Shape:
    """The shape that shapes broadcast to."""
    sizes: list[int] = []
    for axis in range(-max(map(len, shapes), default=0), 0):
        lengths = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        if len(lengths) > 1:
            raise ShapeError(
                f"{name}: shapes {' and '.join(map(str, shapes))} don't broadcast: axis {axis} has "
                f"lengths {' and '.join(map(str, sorted(lengths)))}; they must be equal or 1"
            )
        sizes.append(lengths.pop() if lengths else 1)
    return tuple(sizes)


def broadcasts_to(shape: Shape, wanted: Shape) -> bool:
    pairs = zip(reversed(shape), reversed(wanted), strict=False)
    return len(shape) <= len(wanted) and all(n in (1, m) for n, m in pairs)


def at_axis(axis: int, *entries: Any) -> tuple:
    """An index that is about axes from `axis` on."""
    return (*(slice(None) for _ in range(axis)), *entries)


def reduced_shape(shape: Shape, axis: Shape | int, keepdims: bool) -> Shape:
    axis = tuple(k % len(shape) for k in (axis if isinstance(axis, tuple) else (axis,)))
    if keepdims:
        return tuple(1 if k in axis else n for k, n in enumerate(shape))
    return tuple(n for k, n in enumerate(shape) if k not in axis)


def infer_shapes(op: Op, inputs: Any, attrs: dict) -> tuple[Shape, ...]:
    """The shape of each result of an op on these inputs (anything that has a shape, or scalars)."""
    if op.shape is not None:
        shapes = op.shape(*(named(op, name, inputs, attrs) for name in parameters(op.shape)))
        return (shapes,) if op.single_result else shapes
    if op.kind == "elementwise":
        shapes = [shape_of(x) for x in inputs]
        same = shapes.count(shapes[0]) == len(shapes)
        return (shapes[0] if same else broadcast_shapes(op.name, shapes),) * len(op.results)
    if op.kind == "reduction":
        shape = reduced_shape(inputs[0].shape, attrs["axis"], attrs["keepdims"])
        return (shape,) * len(op.results)
    raise TraceError(f"{op.name}: declare the op with shape= to use it in a trace")


def named(op: Op, name: str, inputs: Any, attrs: dict) -> Any:
    """What a shape function means by a parameter's name."""
    if name in attrs:
        return attrs[name]
    owner, _, what = name.rpartition("_")
    position = op.inputs.index(owner)
    if what == "shapes":
        return tuple(map(shape_of, inputs[position:]))
    return shape_of(inputs[position])


def infer_dtypes(
    op: Op, dtypes: list[np.dtype | None], attrs: dict, device: str
) -> tuple[np.dtype, ...]:
    """The dtype of each result; `dtypes` has None for scalars and missing inputs."""
    if op.dtype is None and dtypes[0] is not None and op.inputs[0] in op.promotes:
        dtype = REAL_PART.get(dtypes[0], dtypes[0]) if op.real_valued else dtypes[0]
        return (dtype,) * len(op.results)
    known = dict(zip(op.inputs, dtypes, strict=False))
    promoting = [dtype for name, dtype in known.items() if name in op.promotes]
    default = next((dtype for dtype in promoting if dtype is not None), None)

    def resolve(word: str) -> Any:
        if word == "index":
            return backends.widest(device, "i")
        return attrs.get(word) or known.get(word) or (word in BY_NAME and BY_NAME[word].dtype)

    words = (op.dtype or "").split()
    found: list[Any] = [resolve(word) for word in words] or [default]
    if op.real_valued:
        found = [REAL_PART.get(dtype, dtype) for dtype in found]
    return tuple(found * len(op.results) if len(found) == 1 else found)
