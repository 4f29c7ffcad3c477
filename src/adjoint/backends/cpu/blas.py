"""y += alpha * x, threaded, by the BLAS that comes with NumPy, which doesn't offer it itself."""

import ctypes
import functools
import os
from collections.abc import Callable

import numpy as np

from . import thresholds


@functools.cache
def library() -> ctypes.CDLL | None:
    """NumPy's own OpenBLAS, or None where it was built with another BLAS."""
    from pathlib import Path  # a tenth of what importing adjoint takes, for a first product

    root = Path(np.__file__).parent
    places = (root.parent / "numpy.libs", root / ".dylibs")
    for file in (file for place in places for file in sorted(place.glob("*openblas*"))):
        try:
            return ctypes.CDLL(str(file))
        except OSError:
            continue
    return None


@functools.cache
def axpy_function(dtype: np.dtype) -> Callable | None:
    letter, number = {"f4": ("s", ctypes.c_float), "f8": ("d", ctypes.c_double)}[dtype.str[1:]]
    function = getattr(library(), f"scipy_cblas_{letter}axpy64_", None)
    if function is not None:
        length, pointer = ctypes.c_int64, ctypes.c_void_p
        function.argtypes = [length, number, pointer, length, pointer, length]
        function.restype = None
    return function


def blas_threads() -> int:
    """How many threads a matrix product uses; where the BLAS doesn't say, all there are."""
    function = getattr(library(), "scipy_openblas_get_num_threads64_", None)
    return function() if function else os.cpu_count() or 1


def axpy(y: np.ndarray, x: np.ndarray, alpha: float) -> None:
    """y += alpha * x in place, for arrays of one shape and dtype."""
    flat = (
        y.flags.c_contiguous and x.flags.c_contiguous and y.size >= thresholds.AXPY and alpha != 0
    )
    function = axpy_function(y.dtype) if flat and y.dtype.str[1:] in ("f4", "f8") else None
    if function is None:
        np.add(y, np.multiply(x, np.array(alpha, y.dtype)), y)
    else:
        function(y.size, alpha, x.ctypes.data, 1, y.ctypes.data, 1)
