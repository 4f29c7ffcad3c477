"""Factorisations and linear equations without LAPACK: see `elimination`.

Each function takes what the NumPy function of its name takes, and passes on to it what it doesn't
take itself.
"""

import numpy as np

from .. import factorizations as reference
from .. import solving, triangles
from ..jit.memory import empty
from ..lowering.native import FLOATS
from . import elimination


def can_take(x: np.ndarray) -> bool:
    return x.dtype in FLOATS and x.size > 0


def stacked(x: np.ndarray) -> np.ndarray:
    """With three axes."""
    return x.reshape(-1, *x.shape[-2:])


def copied(x: np.ndarray) -> np.ndarray:
    """A copy by rows, which may be written to."""
    out = empty(x.shape, x.dtype)
    out[...] = x
    return out


def as_lines(x: np.ndarray) -> np.ndarray:
    """With the elements of each row beside each other, or those of each column."""
    x = elimination.in_whole_steps(x)
    return x if x.swapaxes(-1, -2).flags.c_contiguous else np.ascontiguousarray(x)


def cholesky(x: np.ndarray) -> np.ndarray:
    if not can_take(x):
        return reference.cholesky(x)
    out = copied(x)
    orders = elimination.cholesky(stacked(out)).reshape(x.shape[:-2])
    failed = np.argwhere(orders)
    if len(failed):
        index = tuple(failed[0])
        raise reference.not_definite_from(x, index, int(orders[index]))
    if x.shape[-1] > elimination.MOST:
        triangles.clear(out, 0, upper=True)
    return out.swapaxes(-1, -2)


def cholesky_gradient(dout: np.ndarray, out: np.ndarray) -> np.ndarray:
    if not can_take(out):
        return solving.cholesky_gradient(dout, out)
    upper = np.ascontiguousarray(out.swapaxes(-1, -2))
    result = copied(dout.swapaxes(-1, -2))
    elimination.cholesky_gradient(stacked(upper), stacked(result))
    result *= np.array(0.5, result.dtype)
    return result


def lu(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if not can_take(x):
        return solving.lu(x)
    factors = copied(x)
    return factors, elimination.lu(stacked(factors)).reshape(x.shape[:-1])


def lu_solve(x, factors, pivots, y, *, transposed: bool, asked: str) -> np.ndarray:
    if not (y.size and can_take(factors) and pivots.flat[0]):
        return solving.lu_solve(x, factors, pivots, y, transposed=transposed, asked=asked)
    if not np.diagonal(factors, 0, -2, -1).all():
        raise solving.singular(asked, x)
    factors, pivots = np.ascontiguousarray(factors), np.ascontiguousarray(pivots)
    n = pivots.shape[-1]
    out = elimination.lu_solve(stacked(factors), pivots.reshape(-1, n), stacked(y), transposed)
    return out.reshape(y.shape)


def inv(x: np.ndarray) -> np.ndarray:
    if not can_take(x):
        return solving.inv(x)
    one = np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)
    return lu_solve(x, *lu(x), one, transposed=False, asked="inv")


def slogdet(x: np.ndarray, *, real: np.dtype) -> tuple:
    if not can_take(x):
        return solving.slogdet(x, real=real)
    factors, pivots = lu(x)
    diagonal = np.diagonal(factors, 0, -2, -1)
    exchanged = pivots != np.arange(1, x.shape[-1] + 1)
    odd = (exchanged.sum(-1) + (diagonal < 0).sum(-1)) & 1
    logarithm = np.log(np.abs(diagonal)).sum(-1)
    sign = np.where(np.isnan(logarithm), np.nan, np.where(np.isneginf(logarithm), 0, 1 - 2 * odd))
    return sign.astype(x.dtype), np.asarray(logarithm, real), factors, pivots


def solve_triangular(x: np.ndarray, y: np.ndarray, *, upper: bool, unit: bool) -> np.ndarray:
    if not (y.size and can_take(x)):
        return solving.solve_triangular(x, y, upper=upper, unit=unit)
    if not unit:
        solving.check_diagonal(x)
    out = copied(y)
    elimination.solve_triangular(stacked(as_lines(x)), stacked(out), lower=not upper, unit=unit)
    return out


def cholesky_solve(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if not (y.size and can_take(x)):
        return solving.cholesky_solve(x, y)
    solving.check_diagonal(x)
    out, lines = copied(y), stacked(as_lines(x))
    elimination.solve_triangular(lines, stacked(out), lower=True, unit=False)
    elimination.solve_triangular(lines.swapaxes(1, 2), stacked(out), lower=False, unit=False)
    return out
