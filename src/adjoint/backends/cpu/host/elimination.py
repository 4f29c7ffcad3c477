"""Matrices taken apart in place, and equations solved in place, by kernels and matrix products.

All arrays have three axes: matrices, rows, columns, and elements of a row beside each other. What
has few columns is done by one kernel. Anything larger is cut into halves, so that most of the work
is in the products of large matrices, on all cores. LAPACK isn't asked: its threads and ours would
stand in each other's way, and it has no function for many small matrices.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ....kernels import elimination as templates
from ...launches import View
from ..jit.memory import empty
from ..lowering.launchers import launched
from ..lowering.native import FLOATS, NativeLowering, Words, chunks_of, kernel_of
from .products import add_product

CHUNK = 1 << 13  # elements of a chunk
EXCHANGED = 128  # columns of a chunk whose rows are exchanged
MOST = templates.MOST


def in_whole_steps(x: np.ndarray) -> np.ndarray:
    """x, or a copy where its elements don't lie at multiples of their size from each other."""
    regular = x.flags.aligned and not any(stride % x.itemsize for stride in x.strides)
    return x if regular else x.copy()


def steps(x: np.ndarray | View) -> list[int]:
    """From a matrix to the next, a row to the next, a column to the next."""
    return [stride // x.itemsize for stride in x.strides]


def half(n: int) -> int:
    """Where to cut n columns, so that the parts can be cut into wholes of kernels."""
    return (n + MOST - 1) // MOST // 2 * MOST


def take_away(x: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
    """x -= left @ right."""
    add_product(x, np.negative(left), right)


def matrices_in_chunks(x: View) -> tuple[int, int]:
    """How many matrices there are, and how many a chunk has."""
    return x.shape[0], max(1, CHUNK // (x.shape[1] * x.shape[2]))


def lower_each(to: NativeLowering, template: Callable, x: View, /, **words: Any) -> None:
    """Launch a kernel that takes matrices one by one: see `templates.each_matrix`."""
    count, group = matrices_in_chunks(x)
    step, row_step, _ = steps(x)
    words |= dict(total=count, group=group, row_step=row_step, step=step)
    kernel = kernel_of(template, FLOATS[x.dtype], x.shape[-1])
    to.launch(kernel, chunks_of(group, count), words)


# Cholesky.


def cholesky(x: np.ndarray) -> np.ndarray:
    """x = uᵀ @ u, of which u is left above the diagonal and on it.

    Returns, for each matrix, the order of the first minor that isn't positive, or 0.
    """
    n = x.shape[-1]
    if n <= MOST:
        orders = np.empty(len(x), np.int64)
        decompose(x, orders)
        return orders
    m = half(n)
    first, beside, last = x[:, :m, :m], x[:, :m, m:], x[:, m:, m:]
    orders = cholesky(first)
    solve_triangular(first.swapaxes(1, 2), beside, lower=True, unit=False)
    take_away(last, beside.swapaxes(1, 2), beside)
    later = cholesky(last)
    return np.where((orders == 0) & (later > 0), later + m, orders)


@launched
def decompose(to: NativeLowering, x: View, orders: View) -> None:
    lower_each(to, templates.cholesky, x, x=x, orders=orders)


def cholesky_gradient(u: np.ndarray, g: np.ndarray) -> None:
    """g, the gradient of what `cholesky` leaves, becomes twice that of x, a symmetric matrix.

    With x = [[x11, x12], [x12ᵀ, x22]] and likewise u: u12 = inv(u11)ᵀ @ x12, and u22 is that of
    x22 - u12ᵀ @ u12. To go back takes a sixth of the products that a formula for the whole takes.
    """
    n = u.shape[-1]
    if n <= MOST:
        small_cholesky_gradient(u, g)
        return
    m = half(n)
    first, beside = u[:, :m, :m], u[:, :m, m:]
    g_first, g_beside = g[:, :m, :m], g[:, :m, m:]
    cholesky_gradient(u[:, m:, m:], g[:, m:, m:])
    take_away(g_beside, beside, g[:, m:, m:])
    solve_triangular(first, g_beside, lower=False, unit=False)
    take_away(g_first, beside, g_beside.swapaxes(1, 2))
    cholesky_gradient(first, g_first)
    g[:, m:, :m] = g_beside.swapaxes(1, 2)


@launched
def small_cholesky_gradient(to: NativeLowering, u: View, g: View) -> None:
    step, row_step, _ = steps(u)
    lower_each(to, templates.cholesky_gradient, g, u=u, g=g, u_row_step=row_step, u_step=step)


# Triangles.


def solve_triangular(x: np.ndarray, y: np.ndarray, lower: bool, unit: bool) -> None:
    """y = inv(x) @ y."""
    n, columns = y.shape[1:]
    if columns == 1 and steps(y)[1] == 1:
        solve_vector(x, y, lower=lower, unit=unit)
        return
    if n <= MOST:
        substitute(x, y, lower=lower, unit=unit)
        return
    m = half(n)
    parts = (slice(0, m), slice(m, n))
    first, last = parts if lower else parts[::-1]
    solve_triangular(x[:, first, first], y[:, first], lower, unit)
    take_away(y[:, last], x[:, last, first], y[:, first])
    solve_triangular(x[:, last, last], y[:, last], lower, unit)


def blocks_of_columns(y: View) -> Iterator[tuple[int, int, int]]:
    """Where parts of the columns of y start, how many blocks they have, and the width of these: as
    large as can be, then halves of that, so that few kernels serve all widths."""
    start, columns = 0, y.shape[-1]
    while start < columns:
        rest = columns - start
        width = min(templates.COLUMNS[FLOATS[y.dtype]], 1 << rest.bit_length() - 1)
        yield start, rest // width, width
        start += rest // width * width


def columns_from(y: View, start: int) -> View:
    """Where the columns from `start` on are."""
    return y.view(y.shape, y.strides, start * y.strides[-1])


@launched
def substitute(to: NativeLowering, x: View, y: View, *, lower: bool, unit: bool) -> None:
    """Solve triangular equations for small x, and y with elements of a row beside each other."""
    count, n, _ = y.shape
    x_step, row_step, column_step = steps(x)
    y_step, y_row_step, _ = steps(y)
    for start, blocks, width in blocks_of_columns(y):
        total, group = count * blocks, max(1, CHUNK // (n * width))
        words: Words = dict(x=x, y=columns_from(y, start), blocks=blocks, total=total, group=group)
        words |= dict(row_step=row_step, column_step=column_step, x_step=x_step)
        words |= dict(y_row_step=y_row_step, y_step=y_step)
        kernel = kernel_of(templates.solve_triangular, FLOATS[y.dtype], n, width, lower, unit)
        to.launch(kernel, chunks_of(group, total), words)


@launched
def solve_vector(to: NativeLowering, x: View, y: View, *, lower: bool, unit: bool) -> None:
    """The same for one column, whose elements are neighbours."""
    count, group = matrices_in_chunks(x)
    step, row_step, column_step = steps(x)
    by_rows = column_step == 1
    words: Words = dict(x=x, y=y, n=x.shape[1], total=count, group=group)
    words |= dict(line_step=row_step if by_rows else column_step, x_step=step, y_step=steps(y)[0])
    kernel = kernel_of(templates.solve_vector, FLOATS[y.dtype], by_rows, lower, unit)
    to.launch(kernel, chunks_of(group, count), words)


# LU.


def lu(x: np.ndarray) -> np.ndarray:
    """x = p @ l @ u, of matrices with at least as many rows as columns; returns pivots, from 1.

    l, with ones on its diagonal, is left below the diagonal, u above it and on it.
    """
    n = x.shape[-1]
    if n <= MOST:
        pivots = np.empty((len(x), n), np.int64)
        eliminate(x, pivots)
        return pivots
    m = half(n)
    left, right = x[:, :, :m], x[:, :, m:]
    first = lu(left)
    exchange(right, first)
    solve_triangular(left[:, :m], right[:, :m], lower=True, unit=True)
    take_away(right[:, m:], left[:, m:], right[:, :m])
    last = lu(right[:, m:])
    exchange(left[:, m:], last)
    return np.concatenate([first, last + m], axis=1)


@launched
def eliminate(to: NativeLowering, x: View, pivots: View) -> None:
    lower_each(to, templates.lu, x, x=x, pivots=pivots, count=x.shape[1])


@launched
def exchange(to: NativeLowering, x: View, pivots: View, *, backwards: bool = False) -> None:
    """Exchange the rows of x that pivots say, one pair after the other."""
    (count, _, columns), pairs = x.shape, pivots.shape[1]
    parts = chunks_of(EXCHANGED, columns)
    step, row_step, _ = steps(x)
    words: Words = dict(x=x, pivots=pivots, count=pairs, pivot_step=pairs)
    words |= dict(direction=-1 if backwards else 1, columns=columns, width=EXCHANGED, parts=parts)
    words |= dict(row_step=row_step, step=step)
    to.launch(kernel_of(templates.exchange, FLOATS[x.dtype]), count * parts, words)


def lu_solve(factors: np.ndarray, pivots: np.ndarray, y: np.ndarray, transposed: bool):
    """Solve x @ out = y, or xᵀ @ out = y if `transposed`, where `lu` left the factors of x.

    All are contiguous.
    """
    if factors.shape[-1] <= MOST:
        out = empty(y.shape, y.dtype)
        solve_small(factors, pivots, np.ascontiguousarray(y), out, transposed=transposed)
        return out
    out = y.copy()
    if transposed:
        turned = factors.swapaxes(1, 2)
        solve_triangular(turned, out, lower=True, unit=False)
        solve_triangular(turned, out, lower=False, unit=True)
        exchange(out, pivots, backwards=True)
    else:
        exchange(out, pivots)
        solve_triangular(factors, out, lower=True, unit=True)
        solve_triangular(factors, out, lower=False, unit=False)
    return out


@launched
def solve_small(
    to: NativeLowering, factors: View, pivots: View, y: View, out: View, *, transposed: bool
) -> None:
    count, n, columns = y.shape
    for start, blocks, width in blocks_of_columns(y):
        total, group = count * blocks, max(1, CHUNK // (n * max(n, width)))
        words: Words = dict(factors=factors, pivots=pivots, y=columns_from(y, start))
        words |= dict(out=columns_from(out, start), columns=columns, blocks=blocks)
        kernel = kernel_of(templates.lu_solve, FLOATS[y.dtype], n, width, transposed)
        to.launch(kernel, chunks_of(group, total), words | dict(total=total, group=group))
