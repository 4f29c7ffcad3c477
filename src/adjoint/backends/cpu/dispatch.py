"""Small arrays go to NumPy's functions, large ones to kernels, which are loaded when first needed.

`thresholds` says what is small.
"""

import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._foundation.silence import computing, is_computing, silence, silent_context
from . import thresholds
from .jit.availability import available
from .operands import arrays_of, as_array
from .table import COMPLEX, HOSTED, LOWERED, NativeForm

# Small ufuncs take microseconds, so that all threads share a context: it is found sooner than that
# of a thread. Who finds it taken, by another thread or by a finalizer, gets a RuntimeError.
alone = silent_context().run

COMPLEX_DTYPES = frozenset({np.dtype(np.complex64), np.dtype(np.complex128)})


def are_small(inputs: tuple, least: int) -> bool:
    for x in inputs:
        if x is not None and x.size >= least:
            return False
    return True


def mapped(name: str, small: Callable, *dtypes: Any) -> Callable:
    """The function that computes an op without attributes on large arrays of these dtypes: it takes
    a list of arrays, and returns a list of outputs."""
    launcher = launcher_of(name, dtypes, (), None)
    return (lambda arrays: [small(*arrays)]) if launcher is None else launcher.map


def launcher_of(name: str, dtypes: tuple, attributes: tuple[str, ...], dtype: Any) -> Any:
    """The launcher of an elementwise op's kernel; None where there is none."""
    if not available():
        return None
    from .lowering import elementwise

    return elementwise.launcher_of(name, dtypes, attributes, dtype)


def try_compute_into(x: Any, name: str, y: Any, **attrs: Any) -> bool:
    """x = op(x, y) in place, by a kernel; False where there is none."""
    launcher = launcher_of(name, (x.dtype, y.dtype), tuple(attrs), None)
    if launcher is not None:
        launcher.map([x, y], list(attrs.values()), [x])
    return launcher is not None


def unary(name: str, small: Callable) -> Callable:
    maps: dict[Any, Callable] = {}
    is_ufunc, usual = isinstance(small, np.ufunc), computing(small)
    special = computing(COMPLEX[name]) if name in COMPLEX else None

    def call(x):
        if special is not None and x.dtype in COMPLEX_DTYPES:
            return special(as_array(x))
        if x.size < thresholds.ELEMENTS:
            if is_ufunc:
                try:
                    return alone(small, x)
                except RuntimeError:
                    pass
            return usual(x)
        dtype = x.dtype
        if dtype not in maps:
            maps[dtype] = mapped(name, usual, dtype)
        return maps[dtype]([x])[0]

    return call


def binary(name: str, small: Callable) -> Callable:
    maps: dict[Any, Callable] = {}
    is_ufunc, usual = isinstance(small, np.ufunc), computing(small)

    def call(x, y):
        m, n = x.size, y.size
        least = thresholds.ELEMENTS
        if m < least and n < least and (m * n < least or not is_large_together(x, y)):
            if is_ufunc:
                try:
                    return alone(small, x, y)
                except RuntimeError:
                    pass
            return usual(x, y)
        dtype = x.dtype
        if dtype is not y.dtype or dtype not in maps:
            function = mapped(name, usual, dtype, y.dtype)
            if dtype is not y.dtype:
                return function(arrays_of((x, y)))[0]
            maps[dtype] = function
        return maps[dtype](arrays_of((x, y)))[0]

    return call


def is_large_together(x: Any, y: Any) -> bool:
    """Whether two small arrays broadcast to a large one. Mostly one of them fits into the other."""
    long, short = (x.shape, y.shape) if x.ndim >= y.ndim else (y.shape, x.shape)
    rest = len(long) - len(short)
    if long[rest:] == short:
        return False
    return math.prod(long[:rest]) * math.prod(map(max, long[rest:], short)) >= thresholds.ELEMENTS


def general(name: str, small: Callable) -> Callable:
    usual = computing(small)

    def call(*inputs, **attrs):
        if are_small(inputs, thresholds.ELEMENTS):
            return usual(*inputs, **attrs)
        dtypes = tuple([None if x is None else x.dtype for x in inputs])
        launcher = launcher_of(name, dtypes, tuple(attrs), attrs.get("dtype"))
        if launcher is None:
            return usual(*inputs, **attrs)
        arrays = arrays_of(x for x in inputs if x is not None)
        return launcher.map(arrays, [v for k, v in attrs.items() if k != "dtype"])[0]

    return call


def by_size(name: str, small: Callable, form: NativeForm) -> Callable:
    """The dispatcher of an op that is lowered."""
    native = None
    limits, limit = vars(thresholds), form.least

    def call(x, *inputs, **attrs):
        nonlocal native
        least = limits[limit]
        if x.size >= least or not are_small(inputs, least):
            if native is None:
                native = native_op(name)
            out = native(x, *inputs, **attrs)
            if out is not NotImplemented:
                return out
        if is_computing.get():
            return small(x, *inputs, **attrs)
        return silence.run(small, x, *inputs, **attrs)

    return call


def product(name: str, large: Callable, form: NativeForm) -> Callable:
    """The dispatcher of matrix products, of which small ones are many."""
    small, usual = np.matmul, computing(np.matmul)
    native: Any = None
    times = binary("multiply", np.multiply)

    def call(x, y):
        nonlocal native, usual
        if x.size + y.size < thresholds.FACTORS:
            try:
                return alone(small, x, y)
            except RuntimeError:
                return usual(x, y)
        if x.shape[-1] == 1 == y.shape[-2] and x.ndim > 1:  # nothing is summed
            return times(x, y)
        if native is None:
            native = native_op(name)
            usual = usual if available() else computing(large)
        own = x.shape, x.strides, x.dtype, x.flags.aligned, native.threads.chosen
        key = own, y.shape, y.strides, y.dtype, y.flags.aligned
        launches = native.launches[key]
        if launches is None:
            launches = native.lower(key, (x, y), {})
        return native.run(launches, (x, y))[0] if launches else usual(x, y)

    return call


def layer(name: str, small: Callable, form: NativeForm) -> Callable:
    """The dispatcher of products with a bias."""
    usual = computing(small)
    native: Any = None

    def call(x, weight, bias):
        nonlocal native
        if x.size + weight.size < thresholds.FACTORS:
            return usual(x, weight, bias)
        if native is None:
            native = native_op(name)
        if bias is None:
            out = native(x, weight, None)
            return usual(x, weight, None) if out is NotImplemented else out
        own = x.shape, x.strides, x.dtype, x.flags.aligned, native.threads.chosen
        other = weight.shape, weight.strides, weight.dtype, weight.flags.aligned
        key = own, other, bias.shape, bias.strides, bias.dtype, bias.flags.aligned
        launches = native.launches[key]
        if launches is None:
            launches = native.lower(key, (x, weight, bias), {})
        return native.run(launches, (x, weight, bias))[0] if launches else usual(x, weight, bias)

    return call


def by_shape(name: str, small: Callable, form: NativeForm) -> Callable:
    """The dispatcher of an op whose result has the shape that it is given."""
    native, usual = None, computing(small)

    def call(*inputs, shape):
        nonlocal native
        if math.prod(shape) < thresholds.RANDOM_BITS:
            return usual(*inputs, shape=shape)
        if native is None:
            native = native_op(name)
        out = native(*inputs, shape=shape)
        return usual(*inputs, shape=shape) if out is NotImplemented else out

    return call


def native_op(name: str) -> Any:
    """The runner of an op's launches; without a compiler it always returns NotImplemented."""
    from . import worth
    from .lowering.ops import NativeOp

    is_worth = getattr(worth, name, None) if available() else lambda *layouts, **attrs: False
    return NativeOp(name, is_worth)


def host_step(name: str, small: Callable, form: NativeForm) -> Callable:
    """The dispatcher of an op that stays a function on arrays, and may leave a case to NumPy's."""
    fast, only_moves = None, form.module == "movement"
    limits, limit = vars(thresholds), form.least

    def call(x, *inputs, **attrs):
        nonlocal fast
        function, least = small, limits[limit]
        if x.size >= least or not are_small(inputs, least):
            function = fast = fast or host_function(name, small)
        if only_moves or is_computing.get():
            return function(x, *inputs, **attrs)
        return silence.run(function, x, *inputs, **attrs)

    return call


def host_function(name: str, small: Callable) -> Callable:
    """The function that runs an op's kernels; the small one where none can be compiled."""
    if not available():
        return small
    module = importlib.import_module(f".host.{HOSTED[name].module}", __package__)
    return getattr(module, name)


def elementwise(name: str, small: Callable, inputs: int, plain: bool) -> Callable:
    """The dispatcher of an elementwise op: the small case must cost no more than it has to.

    `plain`: it has no attributes, and all of its inputs are always there.
    """
    form = (unary, binary)[inputs - 1] if plain and inputs in (1, 2) else general
    return form(name, small)


DISPATCHERS = {"matmul": product, "linear": layer, "random_bits": by_shape}  # of other ops: by_size


def over(table: dict[str, Callable]) -> dict[str, Callable]:
    """The dispatchers of all ops with launches or host steps, over a table of NumPy functions."""
    launched = {
        name: DISPATCHERS.get(name, by_size)(name, table[name], form)
        for name, form in LOWERED.items()
    }
    return launched | {name: host_step(name, table[name], form) for name, form in HOSTED.items()}
