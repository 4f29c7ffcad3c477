"""Operators and marked functions: bound to `Tensor` here, and operators to `Expr` too."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import autograd
from .._core.dispatch import FLOATS
from .._core.expressions import Expr
from .._core.tensor import Tensor, wrap
from .._foundation.dtypes import SCALAR_RANK
from .._foundation.modes import GRAD, mode
from ..primitives import elementwise as ops
from . import (  # noqa: F401  some for their marks alone
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
from ._marks import IN_PLACE, METHODS, PROPERTIES

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
    for name, value in {"backward": autograd.backward, **METHODS, **PROPERTIES}.items():
        setattr(Tensor, name, value)


def bind_in_place(name: str, function: Callable) -> None:
    """Have a method that changes tensors, and through an alias the tensor that it is a name of."""
    setattr(Tensor, name, function)
    setattr(aliases.Alias, name, aliases.through(name, function))


bind()
