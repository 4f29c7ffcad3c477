"""Factorisations by the LAPACK that NumPy brings along, also where NumPy has no function for them.

Each function takes what the NumPy function of its name takes, and passes on to it what it doesn't
take itself; small matrices go to `elimination`. LAPACK has matrices by columns: what NumPy has by
rows is the transpose to it. So a triangle or a symmetric matrix is there already, and of any other
the transpose is taken apart.
"""

import ctypes
import functools
import math
from array import array
from collections.abc import Sequence

import numpy as np

from ....kernels.foreign import calls
from .. import blas, solving, triangles
from .. import factorizations as reference
from ..jit.compiler import compiled
from . import elimination
from .elimination import copied
from .launch import address, launch

LETTERS = {np.dtype(np.float32): "s", np.dtype(np.float64): "d"}

Argument = tuple[int, int]  # where it is, and the bytes to the next


@functools.cache
def routine(name: str, letter: str) -> int | None:
    """The address of a function of LAPACK, or None if it isn't there."""
    function = getattr(blas.library(), f"scipy_{letter}{name}_64_", None)
    return None if function is None else ctypes.cast(function, ctypes.c_void_p).value


@functools.cache
def kernel(arguments: int) -> int:
    return compiled(calls(arguments), "calls")


def call(name: str, x: np.ndarray, arguments: Sequence[Argument]) -> None:
    """Call a function of LAPACK for each matrix in x, one after the other: it has threads itself,
    and those of several calls would stand in each other's way."""
    count = math.prod(x.shape[:-2])
    words = [routine(name, LETTERS[x.dtype]), count, count]
    for argument in arguments:
        words += argument
    launch(kernel(len(arguments)), words, 1)


class Constants:
    """Numbers and letters, which LAPACK wants to find in memory."""

    def __init__(self, *numbers: int) -> None:
        self.memory = array("q", numbers)

    def __getitem__(self, k: int) -> Argument:
        return self.memory.buffer_info()[0] + 8 * k, 0


@functools.cache
def letters(text: str) -> array:
    return array("b", text.encode())


def letter(text: str) -> Argument:
    return letters(text).buffer_info()[0], 0


def matrices(x: np.ndarray) -> Argument:
    """Contiguous matrices."""
    return address(x), x.itemsize * math.prod(x.shape[-2:])


def taken(x: np.ndarray) -> bool:
    """Whether it is for these functions."""
    return x.dtype in LETTERS and x.size > 0 and routine("potrf", LETTERS[x.dtype]) is not None


def cholesky(x: np.ndarray) -> np.ndarray:
    if not taken(x):
        return reference.cholesky(x)
    out, orders = (elimination.cholesky if elimination.small(x) else large_cholesky)(x)
    failed = np.argwhere(orders)
    if len(failed):
        index = tuple(failed[0])
        complaint = reference.not_definite_from(int(orders[index]))
        raise reference.refusal("cholesky", x, index, complaint)
    return out


def large_cholesky(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The triangles, and the orders of the first minors that aren't positive, or 0."""
    out, orders, sizes = copied(x), np.zeros(x.shape[:-2], np.int64), Constants(x.shape[-1])
    given = [letter("U"), sizes[0], matrices(out), sizes[0], (address(orders), 8)]
    call("potrf", out, given)
    triangles.clear(out, 0, upper=False)
    return out, orders


def lu(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of the transpose, unless it is small: that is what LAPACK sees."""
    if not taken(x):
        return solving.lu(x)
    if elimination.small(x):
        return elimination.lu(x)
    n, factors, sizes = x.shape[-1], copied(x), Constants(x.shape[-1])
    pivots = np.empty(x.shape[:-1], np.int64)
    info = np.zeros(x.shape[:-2], np.int64)
    given = [sizes[0], sizes[0], matrices(factors), sizes[0]]
    given += [(address(pivots), 8 * n), (address(info), 8)]
    call("getrf", factors, given)
    return factors, pivots


def lu_solve(x, factors, pivots, y, *, transposed: bool, asked: str) -> np.ndarray:
    if not (y.size and taken(factors) and pivots.flat[0]):
        return solving.lu_solve(x, factors, pivots, y, transposed=transposed, asked=asked)
    if not np.diagonal(factors, 0, -2, -1).all():
        raise solving.singular(asked, x)
    if elimination.small(x):
        return elimination.lu_solve(factors, pivots, y, transposed)
    n, k = y.shape[-2:]
    factors, pivots = np.ascontiguousarray(factors), np.ascontiguousarray(pivots)
    out = copied(y.swapaxes(-1, -2))  # by columns
    info = np.zeros(1, np.int64)
    sizes = Constants(n, k)
    given = [letter("N" if transposed else "T"), sizes[0], sizes[1], matrices(factors), sizes[0]]
    given += [(address(pivots), 8 * n), matrices(out), sizes[0], (address(info), 0)]
    call("getrs", factors, given)
    return out.swapaxes(-1, -2)


def inv(x: np.ndarray) -> np.ndarray:
    if not taken(x):
        return solving.inv(x)
    one = np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)
    return lu_solve(x, *lu(x), one, transposed=False, asked="inv")


def slogdet(x: np.ndarray, *, real: np.dtype) -> tuple:
    if not taken(x):
        return solving.slogdet(x, real=real)
    factors, pivots = lu(x)
    diagonal = np.diagonal(factors, 0, -2, -1)
    swaps = pivots != np.arange(1, x.shape[-1] + 1)
    odd = (swaps.sum(-1) + (diagonal < 0).sum(-1)) & 1
    logarithm = np.log(np.abs(diagonal)).sum(-1)
    sign = np.where(np.isnan(logarithm), np.nan, np.where(np.isneginf(logarithm), 0, 1 - 2 * odd))
    return sign.astype(x.dtype), np.asarray(logarithm, real), factors, pivots


def solve_triangular(x: np.ndarray, y: np.ndarray, *, upper: bool, unit: bool) -> np.ndarray:
    if not (y.size and taken(x)):
        return solving.solve_triangular(x, y, upper=upper, unit=unit)
    if not unit:
        solving.check_diagonal(x)
    turned = x.swapaxes(-1, -2)
    by_columns = not x.flags.c_contiguous and turned.flags.c_contiguous
    x = turned if by_columns else np.ascontiguousarray(x)
    if elimination.small(x):
        return elimination.solve_triangular(x, y, by_columns, upper, unit)
    n, k = y.shape[-2:]
    out, sizes, one = copied(y), Constants(n, k), np.ones(1, y.dtype)
    # out @ x's transpose = y, of the transposes: what LAPACK sees.
    side = [letter("R"), letter("L" if upper != by_columns else "U")]
    given = [*side, letter("T" if by_columns else "N"), letter("U" if unit else "N")]
    given += [sizes[1], sizes[0], (address(one), 0), matrices(x), sizes[0], matrices(out), sizes[1]]
    call("trsm", x, given)
    return out


FAST = {
    "cholesky": cholesky,
    "inv": inv,
    "lu": lu,
    "lu_solve": lu_solve,
    "slogdet": slogdet,
    "solve_triangular": solve_triangular,
}
