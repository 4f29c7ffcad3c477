"""Matrix products: our own kernel where it takes less time than NumPy's BLAS.

How a product is cut into chunks is decided once for arrays of given shapes and strides. It may
depend on the number of threads, since the result doesn't: each element is summed in one order.
"""

import functools
import math
from array import array
from typing import NamedTuple

import numpy as np

from ....kernels.matmul import POINTERS, WORDS, module
from ....kernels.tiles import ProductTile
from .. import thresholds
from ..jit import compiler, threads
from ..jit.addresses import HEADER
from ..jit.memory import empty
from ..table import KERNELS
from .rows import inner_products

DEPTH = 256  # a panel of so many rows fits into the nearest cache
MOST_TILES = 20  # rows of tiles in a chunk: their part of the first factor stays in a cache
MOST_PACKED = 1 << 17  # bytes of that part if it is packed: on the stack, which may be small
MOST_COLUMNS = 512  # of a chunk: the sums stay in a cache, too, from one block of depth to another
DIRECT_TILES = 2  # one above the other, for which it doesn't pay to pack the second factor
LEAST_CHUNK = 100_000  # multiplications; small matrices of a batch share a chunk

# Cycles that it takes to pack an element and to begin a chunk; multiplications per cycle.
PACK_X, PACK_Y_ROWS, PACK_Y_COLUMNS, CHUNK_CYCLES, PER_CYCLE = 0.6, 0.26, 0.31, 1000, 32
UNEVENNESS = 0.2  # chunks that the last thread is behind: threads are interrupted

SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
SCALARS = {"f": "float", "d": "double"}


class ProductLaunch(NamedTuple):
    """The kernel of a product of arrays of certain shapes and strides; addresses are missing."""

    kernel: int
    words: array  # the pointers are missing
    chunks: int
    shape: tuple[int, ...]  # of the result


def matmul(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """np.matmul(x, y)."""
    if x.ndim < 2 or y.ndim < 2 or x.size * y.shape[-1] < thresholds.PRODUCTS:
        return np.matmul(x, y)
    dtype = x.dtype
    if dtype is not y.dtype or not (dtype is SINGLE or dtype is DOUBLE):
        return np.matmul(x, y)
    if x.shape[-2] == 1 == y.shape[-1] and x.shape[-1] == y.shape[-2]:
        return inner_products(x[..., 0, :], y[..., 0])[..., None, None]
    launch = lower(x.shape, x.strides, y.shape, y.strides, dtype.char, threads.get_num_threads())
    if launch is None or not (x.flags.aligned and y.flags.aligned):
        return np.matmul(x, y)
    out = empty(launch.shape, dtype)
    words = with_pointers(launch, x, y, out, out)
    threads.run(launch.kernel, words.buffer_info()[0], launch.chunks)
    return out


def linear(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """x @ weight.T + bias, for a matrix x."""
    if bias is None:
        return matmul(x, weight.T)
    dtype, launch = x.dtype, None
    alike = dtype is weight.dtype is bias.dtype and (dtype is SINGLE or dtype is DOUBLE)
    if alike and x.size * len(weight) >= thresholds.PRODUCTS and bias.flags.c_contiguous:
        y, count = weight.T, threads.get_num_threads()
        launch = lower(x.shape, x.strides, y.shape, y.strides, dtype.char, count)
    if launch is None or not (x.flags.aligned and weight.flags.aligned and bias.flags.aligned):
        return KERNELS["linear"](x, weight, bias)
    out = empty(launch.shape, dtype)
    words = with_pointers(launch, x, y, out, bias)
    words[-4] = True
    threads.run(launch.kernel, words.buffer_info()[0], launch.chunks)
    return out


def with_pointers(
    launch: ProductLaunch, x: np.ndarray, y: np.ndarray, out: np.ndarray, start: np.ndarray
) -> array:
    """The words of a launch."""
    words = launch.words[:]
    words[0], words[1] = id(x) + HEADER, id(y) + HEADER
    words[2], words[3] = id(out) + HEADER, id(start) + HEADER
    return words


def add_product(out: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    """out += x @ y, all with three axes and of one dtype, out with neighbours in a row."""
    launch = None
    if x.size * y.shape[-1] >= thresholds.PRODUCTS:
        char, count = x.dtype.char, threads.get_num_threads()
        launch = lower(x.shape, x.strides, y.shape, y.strides, char, count)
    if launch is None:
        out += np.matmul(x, y)
        return
    words = with_pointers(launch, x, y, out, out)
    out_batch, out_step = (stride // out.itemsize for stride in out.strides[:2])
    words[-3], words[-2], words[-1] = out_step, out_batch, True
    threads.run(launch.kernel, words.buffer_info()[0], launch.chunks)


class Factors(NamedTuple):
    """What is multiplied, as the kernel sees it; steps are in elements."""

    rows: int
    columns: int
    inner: int
    x_by_rows: bool
    x_step: int
    y_by_rows: bool
    y_step: int
    batch: list[tuple[int, int, int]]  # for each axis its length, and the steps of x and y


@functools.lru_cache(maxsize=4096)
def lower(x_shape, x_strides, y_shape, y_strides, char: str, count: int) -> ProductLaunch | None:
    """The launch of a product on `count` threads; None where NumPy's BLAS is left to do it, or to
    refuse it."""
    given = factors(x_shape, x_strides, y_shape, y_strides, np.dtype(char).itemsize)
    if given is None:
        return None
    tile = tile_for(given, char)
    layers = -(-given.inner // tile.depth)
    height, width = grid(given, tile, count)
    row_blocks, column_blocks = -(-given.rows // height), -(-given.columns // width)
    blocks, batch = row_blocks * column_blocks, math.prod(axis[0] for axis in given.batch)
    group = max(1, LEAST_CHUNK // (height * width * given.inner)) if blocks == 1 else 1
    axes = [(1, 0, 0)] * (4 - len(given.batch)) + given.batch
    words = {
        "rows": given.rows,
        "columns": given.columns,
        "inner": given.inner,
        "x_step": given.x_step,
        "y_step": given.y_step,
        "y_by_rows": given.y_by_rows,
        "y_direct": given.y_by_rows and given.rows <= DIRECT_TILES * tile.rows,
        "packs": packs(given, tile, width),
        "depth": -(-given.inner // layers),
        "height": height,
        "width": width,
        "column_blocks": column_blocks,
        "blocks": blocks,
        "group": group,
        "batch": batch,
        **{f"size{k}": axes[k][0] for k in (1, 2, 3)},
        **{f"x_batch{k}": axes[k][1] for k in range(4)},
        **{f"y_batch{k}": axes[k][2] for k in range(4)},
        "starts": 0,
        "out_step": given.columns,
        "out_batch": given.rows * given.columns,
        "adds": 0,
    }
    shape = (*np.broadcast_shapes(x_shape[:-2], y_shape[:-2]), x_shape[-2], y_shape[-1])
    chunks = blocks * -(-batch // group)
    block = array("q", [*(0 for _ in POINTERS), *(words[name] for name in WORDS)])
    return ProductLaunch(kernel(tile), block, chunks, shape)


@functools.cache
def kernel(tile: ProductTile) -> int:
    return compiler.compiled(module(tile), "matmul")


def factors(x_shape, x_strides, y_shape, y_strides, size: int) -> Factors | None:
    """The factors, or None if they are none for the kernel."""
    rows, inner, columns = *x_shape[-2:], y_shape[-1]
    steps = [stride / size for stride in (*x_strides, *y_strides)]
    if not (
        inner == y_shape[-2]
        and min(rows, columns) >= thresholds.SIDE
        and inner > 0
        and all(step.is_integer() for step in steps)
    ):
        return None
    x_row, x_column, y_row, y_column = (
        int(step) for step in (*steps[len(x_shape) - 2 : len(x_shape)], *steps[-2:])
    )
    x_by_rows, y_by_rows = x_column == 1 or inner == 1, y_column == 1
    if not (x_by_rows or x_row == 1) or not (y_by_rows or y_row == 1 or inner == 1):
        return None
    batch = batch_axes(x_shape, steps[: len(x_shape)], y_shape, steps[len(x_shape) :])
    if batch is None:
        return None
    while batch and batch[-1][2] == 0 and x_by_rows and batch[-1][1] == rows * x_row:
        rows *= batch.pop()[0]  # all multiplied by one matrix, and their rows follow each other
    if len(batch) > 4:
        return None
    x_step, y_step = x_row if x_by_rows else x_column, y_row if y_by_rows else y_column
    return Factors(rows, columns, inner, x_by_rows, x_step, y_by_rows, y_step, batch)


def batch_axes(x_shape, x_steps, y_shape, y_steps) -> list[tuple[int, int, int]] | None:
    """Length and steps of the axes of a batch, as few as possible; None if they don't fit."""
    count = max(len(x_shape), len(y_shape)) - 2
    axes: list[tuple[int, int, int]] = []
    for k in range(-2 - count, -2):
        x_length, x_step = (x_shape[k], int(x_steps[k])) if -k <= len(x_shape) else (1, 0)
        y_length, y_step = (y_shape[k], int(y_steps[k])) if -k <= len(y_shape) else (1, 0)
        length = y_length if x_length == 1 else x_length
        if length == 0 or y_length not in (1, length):
            return None
        if length > 1:
            x_step, y_step = x_step * (x_length > 1), y_step * (y_length > 1)
            if axes and axes[-1][1:] == (length * x_step, length * y_step):
                length *= axes.pop()[0]
            axes.append((length, x_step, y_step))
    return axes


def tile_for(given: Factors, char: str) -> ProductTile:
    rows, vectors = registers()
    lanes = 64 // np.dtype(char).itemsize
    return ProductTile(
        SCALARS[char],
        given.x_by_rows,
        even_part(given.rows, rows),
        min(vectors, -(-given.columns // lanes)),
        DEPTH,
        MOST_TILES if given.x_by_rows else MOST_PACKED // (16 * DEPTH * np.dtype(char).itemsize),
    )


@functools.cache
def registers() -> tuple[int, int]:
    """Rows and vectors of the largest tile for which there are registers."""
    features = compiler.started().binding.get_host_cpu_features()
    return (14, 2) if features.get("avx512f") else (6, 1)


def even_part(total: int, most: int) -> int:
    """The rows of a tile, so that the last tile has little that is done twice."""
    if total <= most:
        return total
    waste = {part: -total % part / total - 0.004 * part for part in range(most // 2 + 1, most + 1)}
    return min(waste, key=waste.__getitem__)


def packs(given: Factors, tile: ProductTile, width: int) -> bool:
    """Whether to pack the first factor, too: its columns, if they are read more than once."""
    return not given.x_by_rows and width > tile.width


def grid(given: Factors, tile: ProductTile, count: int) -> tuple[int, int]:
    """Rows and columns of a block: what should take least time on so many threads."""
    batch = math.prod(axis[0] for axis in given.batch)
    tiles, panels = -(-given.rows // tile.rows), -(-given.columns // tile.width)
    best, least = (0, 0), math.inf
    for high in sizes(tiles, tile.most, count):
        for wide in sizes(panels, MOST_COLUMNS // tile.width, count):
            blocks = -(-tiles // high) * -(-panels // wide) * batch
            rows, columns = high * tile.rows, wide * tile.width
            pack = columns * (PACK_Y_ROWS if given.y_by_rows else PACK_Y_COLUMNS)
            pack += rows * PACK_X * (not given.x_by_rows)
            cycles = (rows * columns / PER_CYCLE + pack) * given.inner + CHUNK_CYCLES
            time = (-(-blocks // count) + UNEVENNESS) * cycles
            if time < least:
                best, least = (rows, columns), time
    return best


def sizes(total: int, most: int, count: int) -> set[int]:
    """Parts of a total to be tried: of equal size, as far as can be."""
    fewest = -(-total // most)
    return {-(-total // parts) for parts in range(fewest, min(total, fewest + 4 * count) + 1)}
