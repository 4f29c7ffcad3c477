"""Operators and methods: bound to `Tensor` here, and operators to `Expr` too."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import autograd
from .._core.dispatch import FLOATS
from .._core.expressions import Expr
from .._core.tensor import Tensor, wrap
from .._foundation.dtypes import SCALAR_RANK
from .._foundation.errors import KeywordError, ShapeError
from .._foundation.modes import GRAD, mode
from ..primitives import elementwise as ops
from . import (
    aliases,
    arrangement,
    assignment,
    at,
    contractions,
    creation,
    elementwise,
    hints,
    indexing,
    inplace,
    inspection,
    interchange,
    notebooks,
    numpy_calls,
    reductions,
    shapes,
    sorting,
)


def with_spread(name: str, function: Callable) -> Callable:
    """A method that takes lengths or axes one by one as well: x.reshape(2, 3)."""

    def call(x: Any, first: Any, *more: int, **options: Any) -> Any:
        return function(x, (first, *more) if more else first, **options)

    call.__name__, call.__doc__ = name, function.__doc__
    return call


def with_one(name: str, function: Callable, instead: str) -> Callable:
    """A method of one argument, where two of them mean different things in NumPy and PyTorch."""

    @functools.wraps(function)
    def call(x: Any, *args: Any, **options: Any) -> Any:
        if len(args) > 1:
            given = ", ".join(map(repr, args))
            raise KeywordError(f"x.{name}({given}): {instead.format(given, *args)}")
        return function(x, *args, **options)

    return call


BINARY: dict[str, Callable] = {
    "add": ops.add,
    "sub": ops.subtract,
    "mul": ops.multiply,
    "truediv": ops.divide,
    "floordiv": ops.floor_divide,
    "mod": ops.remainder,
    "pow": elementwise.power,
    "matmul": contractions.matmul,
    "and": ops.bitwise_and,
    "or": ops.bitwise_or,
    "xor": ops.bitwise_xor,
    "lshift": ops.bitwise_left_shift,
    "rshift": ops.bitwise_right_shift,
}
COMPARISONS: dict[str, Callable] = {
    "lt": ops.less,
    "le": ops.less_equal,
    "gt": ops.greater,
    "ge": ops.greater_equal,
}
UNARY: dict[str, Callable] = {
    "pos": elementwise.positive,
    "neg": ops.negative,
    "abs": ops.abs,
    "invert": ops.bitwise_invert,
}
METHODS: dict[str, Callable] = {
    "backward": autograd.backward,
    "astype": elementwise.astype,
    "broadcast_to": shapes.broadcast_to,
    "clip": elementwise.clip,
    "conj": elementwise.conj,
    "copy": creation.copy,
    "expand_dims": shapes.expand_dims,
    "flip": arrangement.flip,
    "permute": with_spread("permute_dims", shapes.permute_dims),
    "permute_dims": with_spread("permute_dims", shapes.permute_dims),
    "pow": elementwise.power,
    "reshape": with_spread("reshape", shapes.reshape),
    "squeeze": shapes.squeeze,
    "take": indexing.take,
    "to": elementwise.to,
    "transpose": with_one(
        "transpose",
        shapes.transpose,
        "to exchange two axes is x.swapaxes({1}, {2}); an order of all is x.permute_dims({0})",
    ),
    "all": reductions.all,
    "any": reductions.any,
    "argmax": reductions.argmax,
    "cumulative_sum": reductions.cumulative_sum,
    "log_softmax": reductions.log_softmax,
    "max": reductions.max,
    "mean": reductions.mean,
    "softmax": reductions.softmax,
    "sum": reductions.sum,
    "topk": sorting.topk,
    "var": reductions.var,
    "to_device": elementwise.to_device,
    "reciprocal": elementwise.reciprocal,
    "argmin": reductions.argmin,
    "argsort": sorting.argsort,
    "cumulative_prod": reductions.cumulative_prod,
    "diagonal": arrangement.diagonal,
    "logsumexp": reductions.logsumexp,
    "min": reductions.min,
    "moveaxis": shapes.moveaxis,
    "prod": reductions.prod,
    "repeat": with_one(
        "repeat",
        arrangement.repeat,
        "copies of the whole are x.tile(({0})), of each element x.repeat({1}, axis={2})",
    ),
    "roll": arrangement.roll,
    "sort": sorting.sort,
    "split": shapes.split,
    "std": reductions.std,
    "swapaxes": shapes.swapaxes,
    "tile": arrangement.tile,
    "__array_namespace__": inspection.array_namespace,
    "__array_function__": numpy_calls.array_function,
    "__array_ufunc__": numpy_calls.array_ufunc,
    "__dlpack__": interchange.dlpack,
    "__dlpack_device__": interchange.dlpack_device,
    "_repr_html_": notebooks.as_html,
    "__getattr__": hints.missing_from_tensor,
    "__getitem__": indexing.getitem,
    "__setitem__": assignment.setitem,
}
IN_PLACE: dict[str, Callable] = {
    "add_": inplace.add_,
    "clamp_": inplace.clamp_,
    "copy_": inplace.copy_,
    "div_": inplace.div_,
    "fill_": inplace.fill_,
    "mul_": inplace.mul_,
    "sub_": inplace.sub_,
    "zero_": inplace.zero_,
}


def reflected(function: Callable) -> Callable:
    """The operator with its operands exchanged: `2 - x` calls `x.__rsub__(2)`."""

    def call(x: Any, y: Any) -> Any:
        if type(y) in (float, int) and mode.word <= GRAD and type(x.raw) in FLOATS:
            constants = FLOATS[type(x.raw)].get(x.raw.dtype)
            try:
                y = y if constants is None else wrap(constants[y])
            except OverflowError:
                pass  # the function explains
        return function(y, x)

    return call


def comparable(function: Callable) -> Callable:
    """== and != with things that aren't numbers are Python's: never equal."""

    def call(x: Tensor, y: Any) -> Any:
        if isinstance(y, np.generic):
            numeric = not numpy_calls.is_no_number(y)
        else:
            numeric = isinstance(y, (Tensor, np.ndarray)) or type(y) in SCALAR_RANK
        return function(x, y) if numeric else NotImplemented

    return call


def transposed(x: Tensor) -> Tensor:
    """The transpose of a matrix."""
    if x.ndim != 2:
        raise ShapeError(f"T: for matrices; shape is {x.shape}: use x.mT or ad.permute_dims")
    return shapes.transpose(x)


PROPERTIES: dict[str, Any] = {
    "data": property(aliases.data, aliases.set_data),
    "at": property(at.At, doc="x.at[index].set(v), .add(v), .multiply(v), .min(v), ..."),
    "T": property(transposed),
    "real": property(elementwise.real),
    "imag": property(elementwise.imag),
    "mT": property(shapes.matrix_transpose),
}


def bind() -> None:
    for cls in (Tensor, Expr):
        for name, function in BINARY.items():
            setattr(cls, f"__{name}__", function)
            setattr(cls, f"__r{name}__", reflected(function))
        for name, function in (COMPARISONS | UNARY).items():
            setattr(cls, f"__{name}__", function)
        for name, function in vars(ops).items():
            if hasattr(function, "op") and len(function.op.inputs) == 1:
                setattr(cls, name, function)
    for name, function in (("__eq__", ops.equal), ("__ne__", ops.not_equal)):
        setattr(Tensor, name, comparable(function))
        setattr(Expr, name, function)
    for name, function in BINARY.items():
        bind_in_place(f"__i{name}__", inplace.inplace(function))
    for name, function in IN_PLACE.items():
        bind_in_place(name, function)
    for name, function in METHODS.items():
        setattr(Tensor, name, function)
    for name, value in PROPERTIES.items():
        setattr(Tensor, name, value)


def bind_in_place(name: str, function: Callable) -> None:
    """Have a method that changes tensors, and through an alias the tensor that it is a name of."""
    setattr(Tensor, name, function)
    setattr(aliases.Alias, name, aliases.through(name, function))


bind()
