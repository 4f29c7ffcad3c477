"""Factorisations of small matrices by kernels of our own: a call of LAPACK takes longer.

Each function takes what the NumPy function of its name takes, of matrices that are `small`.
"""

import functools
import math

import numpy as np

from ....kernels import elimination as templates
from ..jit.compiler import compiled
from ..jit.memory import empty
from .launch import address, chunks_of, launch

KINDS = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}
CHUNK = 1 << 13  # elements of a chunk


def small(x: np.ndarray) -> bool:
    return x.shape[-1] <= templates.MOST


@functools.cache
def kernel(name: str, *parameters: str | int | bool) -> int:
    return compiled(getattr(templates, name)(*parameters), name)


def copied(x: np.ndarray) -> np.ndarray:
    """A copy by rows, which may be written to."""
    out = empty(x.shape, x.dtype)
    out[...] = x
    return out


def chunked(x: np.ndarray) -> tuple[int, int, int]:
    """How many matrices there are, how many each chunk has, and chunks."""
    count = math.prod(x.shape[:-2])
    group = max(1, CHUNK // math.prod(x.shape[-2:]))
    return count, group, chunks_of(group, count)


def taken_apart(name: str, x: np.ndarray, found: np.ndarray) -> np.ndarray:
    out = copied(x)
    count, group, chunks = chunked(x)
    words = [address(out), address(found), count, group]
    launch(kernel(name, KINDS[x.dtype], x.shape[-1]), words, chunks)
    return out


def cholesky(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The triangles, and the orders of the first minors that aren't positive, or 0."""
    orders = np.empty(x.shape[:-2], np.int64)
    return taken_apart("cholesky", x, orders).swapaxes(-1, -2), orders


def lu(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    pivots = np.empty(x.shape[:-1], np.int64)
    return taken_apart("lu", x, pivots), pivots


def solved(name: str, given: list[np.ndarray], y: np.ndarray, *parameters: bool) -> np.ndarray:
    """Equations by the parts of matrices, which are contiguous, with right sides y."""
    y, out = np.ascontiguousarray(y), empty(y.shape, y.dtype)
    n, columns = y.shape[-2:]
    width = min(columns, templates.COLUMNS)
    count, group, chunks = chunked(y)
    words = [*map(address, given), address(y), address(out), count, group, columns]
    launch(kernel(name, KINDS[y.dtype], n, width, *parameters), words, chunks)
    return out


def lu_solve(factors: np.ndarray, pivots: np.ndarray, y: np.ndarray, transposed: bool):
    given = [np.ascontiguousarray(factors), np.ascontiguousarray(pivots)]
    return solved("lu_solve", given, y, transposed)


def solve_triangular(x: np.ndarray, y: np.ndarray, by_columns: bool, upper: bool, unit: bool):
    """x has columns where there are rows, if `by_columns`."""
    return solved("solve_triangular", [x], y, by_columns, not upper, unit)
