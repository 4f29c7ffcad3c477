"""What NumPy's own functions do with tensors.

NumPy asks arguments that aren't its arrays: about ufuncs, which are also behind the operators of
arrays (`array * x`), by `__array_ufunc__`, about other functions by `__array_function__`. Operators
are ours. Whatever else can't be done without losing a gradient is an error that says what to write.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._core.tensor import Tensor
from .._foundation.dtypes import SCALAR_RANK
from .._foundation.errors import DTypeError, GradientError
from ..primitives import elementwise as ops
from . import contractions, elementwise, hints
from ._marks import method_named
from .inspection import array_namespace

# The operators of tensors, by ufunc: the name of the method, what it calls, and what is written, if
# there is a reflected and an in-place form.
OPERATORS: dict[Any, tuple[str, Callable, str]] = {
    np.add: ("add", ops.add, "+"),
    np.subtract: ("sub", ops.subtract, "-"),
    np.multiply: ("mul", ops.multiply, "*"),
    np.divide: ("truediv", ops.divide, "/"),
    np.floor_divide: ("floordiv", ops.floor_divide, "//"),
    np.remainder: ("mod", ops.remainder, "%"),
    np.power: ("pow", elementwise.power, "**"),
    np.matmul: ("matmul", contractions.matmul, "@"),
    np.bitwise_and: ("and", ops.bitwise_and, "&"),
    np.bitwise_or: ("or", ops.bitwise_or, "|"),
    np.bitwise_xor: ("xor", ops.bitwise_xor, "^"),
    np.left_shift: ("lshift", ops.bitwise_left_shift, "<<"),
    np.right_shift: ("rshift", ops.bitwise_right_shift, ">>"),
    np.less: ("lt", ops.less, ""),
    np.less_equal: ("le", ops.less_equal, ""),
    np.greater: ("gt", ops.greater, ""),
    np.greater_equal: ("ge", ops.greater_equal, ""),
    np.equal: ("eq", ops.equal, ""),
    np.not_equal: ("ne", ops.not_equal, ""),
    np.positive: ("pos", elementwise.positive, ""),
    np.negative: ("neg", ops.negative, ""),
    np.absolute: ("abs", ops.abs, ""),
    np.invert: ("invert", ops.bitwise_invert, ""),
}
COMPARISONS = (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)
EQUALITIES = {np.equal: False, np.not_equal: True}  # what they are with texts and dates
METHODS = {  # of ufuncs
    "add.accumulate": "ad.cumulative_sum",
    "add.at": "x.at[index].add(values)",
    "add.reduce": "ad.sum",
    "logical_and.reduce": "ad.all",
    "logical_or.reduce": "ad.any",
    "maximum.reduce": "ad.max",
    "minimum.reduce": "ad.min",
    "multiply.accumulate": "ad.cumulative_prod",
    "multiply.outer": "ad.outer",
    "multiply.reduce": "ad.prod",
}


@method_named("__array_ufunc__")
def array_ufunc(x: Tensor, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
    """Compute a ufunc that an operator stands for, as that does; refuse others."""
    name, (_, function, symbol) = ufunc.__name__, OPERATORS.get(ufunc, ("", None, ""))
    if method != "__call__":
        raise refusal(f"{name}.{method}", inputs, options)
    if function is not None and not options:
        if ufunc in COMPARISONS:  # for which NumPy makes a 0-d array of a scalar on the left
            inputs = tuple([as_number(y) for y in inputs])
            if ufunc in EQUALITIES and any(map(is_no_number, inputs)):
                return EQUALITIES[ufunc]
        return function(*inputs)
    if symbol and "out" in options:
        raise DTypeError(
            f"np.{name} with out=, as in `y {symbol}= x`: arrays can't take what is computed with "
            f"tensors, nor tensors what NumPy computes; write y = y {symbol} x, which is a tensor, "
            f"or y {symbol}= x.numpy() where y is an array"
        )
    raise refusal(name, inputs, options)


def as_number(x: Any) -> Any:
    return x[()] if isinstance(x, np.ndarray) and not x.shape else x


def is_no_number(x: Any) -> bool:
    """Whether something is a text or a date of NumPy's."""
    return isinstance(x, np.generic) and x.dtype.kind in "SUMm"


@method_named("__array_function__")
def array_function(x: Tensor, function: Any, types: Any, args: tuple, options: dict) -> Any:
    """Let a function of NumPy's read tensors as arrays, if it can."""
    try:
        return function._implementation(*args, **options)
    except (TypeError, AttributeError, GradientError) as error:
        module = function.__module__.removeprefix("numpy").lstrip(".")
        path = f"{module}.{function.__name__}" if module else function.__name__
        raise refusal(path, args, options) from error


def refusal(path: str, args: tuple, options: dict) -> DTypeError:
    """The error of a function np.<path> that can't be given tensors, with what to write."""
    form, reason = "{}.numpy()", "doesn't take tensors"
    if any(x.requires_grad for x in tensors_in((*args, *options.values()))):
        form, reason = "{}.detach().numpy()", "would lose the graph of a tensor that requires grad"
    instead = ours(path)
    if instead.startswith("ad.") and " " not in instead:
        known = {key: value for key, value in options.items() if key not in ("out", "where")}
        instead += f"({spelled(args, known, '{}')})"
    instead += ", or " if instead else ""
    return DTypeError(f"np.{path} {reason}: use {instead}np.{path}({spelled(args, options, form)})")


def ours(path: str) -> str:
    """What a function of NumPy's is called here; nothing if it isn't there."""
    module, _, name = path.rpartition(".")
    home: Any = array_namespace(None)  # type: ignore[arg-type]
    if module in ("", "linalg", "fft") and hasattr(getattr(home, module) if module else home, name):
        return f"ad.{path}"
    known = METHODS | hints.FUNCTIONS | hints.IDIOMS
    return known.get(path) or known.get(name, "")


def tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from tensors_in(part)


def spelled(args: tuple, options: dict, form: str) -> str:
    """Arguments as they could be written, with tensors by `form`."""
    names = iter("xyzuvw")

    def one(value: Any) -> str:
        if isinstance(value, Tensor):
            return form.format(next(names, "x"))
        if isinstance(value, (list, tuple)) and next(tensors_in(value), None) is not None:
            return f"[{', '.join(map(one, value))}]"
        return repr(value) if type(value) in (*SCALAR_RANK, str, tuple) else "..."

    return ", ".join([*map(one, args), *(f"{key}={one(value)}" for key, value in options.items())])
