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
    for name, function, symbol in numpy_calls.OPERATORS.values():
        for cls in (Tensor, Expr):
            setattr(cls, f"__{name}__", function)
            if symbol:
                setattr(cls, f"__r{name}__", reflected(function))
        if symbol:
            bind_in_place(f"__i{name}__", inplace.inplace(function))
    for name, function in (("__eq__", ops.equal), ("__ne__", ops.not_equal)):
        setattr(Tensor, name, comparable(function))
    for name, function in vars(ops).items():
        if hasattr(function, "op") and len(function.op.inputs) == 1:
            setattr(Tensor, name, function)
            setattr(Expr, name, function)
    for name, function in IN_PLACE.items():
        bind_in_place(name, function)
    for name, value in {"backward": autograd.backward, **METHODS, **PROPERTIES}.items():
        setattr(Tensor, name, value)


def bind_in_place(name: str, function: Callable) -> None:
    """Have a method that changes tensors, and through an alias the tensor that it is a name of."""
    setattr(Tensor, name, function)
    setattr(aliases.Alias, name, aliases.through(name, function))


bind()
