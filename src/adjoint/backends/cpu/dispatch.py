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
from .table import COMPLEX, FAST, FastForm

# Small ufuncs take microseconds, so that all threads share a context: it is found sooner than that
# of a thread. Who finds it taken, by another thread or by a finalizer, gets a RuntimeError.
alone = silent_context().run

COMPLEX_DTYPES = frozenset({np.dtype(np.complex64), np.dtype(np.complex128)})


def are_small(inputs: tuple, least: int) -> bool:
    for x in inputs:
        if x is not None and x.size >= least:
            return False
    return True


def mapped(name: str, small: Callable, *dtypes: Any, **attrs: Any) -> Callable:
    """The function that computes an op on large arrays of these dtypes: it takes a list of arrays,
    and numbers, and returns a list of outputs."""
    from .fast.elementwise import launcher_of

    launcher = launcher_of(name, dtypes, tuple(attrs), attrs.get("dtype"))
    if launcher is None:
        return lambda arrays, *_: [small(*arrays, **attrs)]
    return launcher.map


def try_compute_into(x: Any, name: str, y: Any, **attrs: Any) -> bool:
    """x = op(x, y) in place, by a kernel; False where there is none."""
    from .fast.elementwise import launcher_of

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
        from .fast import elementwise

        return elementwise.compute(name, usual, inputs, attrs)

    return call


def by_size(name: str, small: Callable, form: FastForm) -> Callable:
    """The dispatcher of an op whose kernels have a module, and may leave a case to NumPy."""
    fast, only_moves = None, form.module == "movement"
    limits, limit = vars(thresholds), form.least

    def call(x, *inputs, **attrs):
        nonlocal fast
        function, least = small, limits[limit]
        if x.size >= least or not are_small(inputs, least):
            function = fast = fast or fast_function(name, small)
        if only_moves or is_computing.get():
            return function(x, *inputs, **attrs)
        return silence.run(function, x, *inputs, **attrs)

    return call


def product(name: str, large: Callable, form: FastForm) -> Callable:
    """The dispatcher of matrix products, of which small ones are many."""
    small, usual, fast = np.matmul, computing(np.matmul), None
    times = binary("multiply", np.multiply)

    def call(x, y):
        nonlocal fast
        size = x.size + y.size
        if size < thresholds.FACTORS:
            try:
                return alone(small, x, y)
            except RuntimeError:
                return usual(x, y)
        if x.shape[-1] == 1 == y.shape[-2] and x.ndim > 1:  # nothing is summed
            return times(x, y)
        if fast is None:
            fast = fast_function(name, large)
        return fast(x, y) if is_computing.get() else silence.run(fast, x, y)

    return call


def by_shape(name: str, small: Callable, form: FastForm) -> Callable:
    """The dispatcher of an op whose result has the shape that it is given."""
    fast = None

    def call(*inputs, shape):
        nonlocal fast
        if math.prod(shape) < thresholds.RANDOM_BITS:
            return small(*inputs, shape=shape)
        if fast is None:
            fast = fast_function(name, small)
        return fast(*inputs, shape=shape)

    return computing(call)


def fast_function(name: str, small: Callable) -> Callable:
    """The function that launches an op's kernels; the small one where none can be compiled."""
    if not available():
        return small
    module = importlib.import_module(f".fast.{FAST[name].module}", __package__)
    return getattr(module, name, None) or getattr(module, f"{name}_")


def elementwise(name: str, small: Callable, inputs: int, plain: bool) -> Callable:
    """The dispatcher of an elementwise op: the small case must cost no more than it has to.

    `plain`: it has no attributes, and all of its inputs are always there.
    """
    form = (unary, binary)[inputs - 1] if plain and inputs in (1, 2) else general
    return form(name, small)


DISPATCHERS = {"matmul": product, "random_bits": by_shape}  # of other ops: by_size


def over(table: dict[str, Callable]) -> dict[str, Callable]:
    """The dispatchers of all ops with a fast form, over a table of NumPy functions."""
    return {
        name: DISPATCHERS.get(name, by_size)(name, table[name], form) for name, form in FAST.items()
    }
