"""Matrix products: how one is cut into chunks, for arrays of given shapes and strides.

It may depend on the number of threads, since the result doesn't: each element is summed in one
order.
"""

import functools
import math
from typing import NamedTuple

import numpy as np

from ....kernels.matmul import WORDS, module
from ....kernels.ops import Unsupported
from ....kernels.tiles import ProductTile
from ...launches import Target, View
from ...spaces import Ints, merged, steps_in
from ..jit.compiler import compiled
from ..jit.runner import NativeKernel
from .maps import as_contiguous
from .native import FLOATS, NativeLowering, Words
from .rows import lower_inner_products

DEPTH = 256  # rows of a panel, which fits into the nearest cache
MOST_TILES = 20  # rows of tiles in a chunk: their part of the first factor stays in a cache
MOST_PACKED = 1 << 17  # bytes of that part if it is packed: on the stack, which may be small
MOST_COLUMNS = 512  # of a chunk: the sums stay in a cache, too, from one block of depth to another
DIRECT_TILES = 2  # one above the other, for which it doesn't pay to pack the second factor
LEAST_CHUNK = 100_000  # multiplications; small matrices of a batch share a chunk

# Cycles that it takes to pack an element and to begin a chunk; multiplications per cycle.
PACK_X, PACK_Y_ROWS, PACK_Y_COLUMNS, CHUNK_CYCLES, PER_CYCLE = 0.6, 0.26, 0.31, 1000, 32
UNEVENNESS = 0.2  # chunks that the last thread is behind: threads are interrupted


def matmul(to: NativeLowering, x: View, y: View) -> None:
    rows, columns = x.shape[:-1][-1:], y.shape[-1:] if y.ndim > 1 else ()
    if x.ndim == 1:
        x = x.view((1, *x.shape), (0, *x.strides))
    if y.ndim == 1:
        y = y.view((*y.shape, 1), (*y.strides, 0))
    batch = batch_of(x, y)
    out = to.result((*batch, *rows, *columns), x.dtype)
    if x.shape[-2] == 1 == y.shape[-1]:
        inner = out.view(batch, out.strides[: len(batch)])
        left, right = (one.view(one.shape[:-1], one.strides[:-1]) for one in (x.swapped(), y))
        lower_inner_products(to, left, right, inner)
    else:
        lower_product(to, factors(x, y), x, y, out)


def add_product(to: NativeLowering, x: View, y: View) -> View:
    """Add x @ y, of matrices, to what is in the memory of the result."""
    if x.ndim < 2 or y.ndim < 2 or x.shape[-2] == 1 == y.shape[-1]:
        raise Unsupported("sums of products of vectors")
    out = to.result((*batch_of(x, y), x.shape[-2], y.shape[-1]), x.dtype)
    given = factors(x, y)
    lower_product(to, given, x, y, out, steps=(given.columns, given.rows * given.columns))
    return out


def linear(to: NativeLowering, x: View, weight: View, bias: View | None) -> None:
    y = weight.swapped()
    if bias is None:
        matmul(to, x, y)
        return
    if bias.dtype != x.dtype or bias.shape != y.shape[-1:]:
        raise Unsupported(f"a bias of {bias.dtype} {bias.shape}")
    out = to.result((*batch_of(x, y), x.shape[-2], y.shape[-1]), x.dtype)
    lower_product(to, factors(x, y), x, y, out, start=as_contiguous(to, bias))


def batch_of(x: View, y: View) -> Ints:
    """The shape of a batch of products; refuses what isn't of one dtype, or doesn't fit."""
    alike = x.dtype in FLOATS and x.dtype == y.dtype and x.size and y.size
    try:
        batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    except ValueError:
        batch = None
    if not alike or x.shape[-1] != y.shape[-2] or batch is None:
        raise Unsupported(f"a product of {x.dtype} {x.shape} and {y.dtype} {y.shape}")
    return batch


class Factors(NamedTuple):
    """Two factors as the kernel sees them; steps are in elements."""

    rows: int
    columns: int
    inner: int
    x_by_rows: bool
    x_step: int
    y_by_rows: bool
    y_step: int
    batch: list[tuple[int, int, int]]  # for each axis its length, and the steps of x and y


def lower_product(
    to: NativeLowering,
    given: Factors,
    x: View,
    y: View,
    out: View,
    start: View | None = None,
    steps: tuple[int, int] | None = None,
) -> None:
    """Launch a product. `start`: what all rows of it start from. `steps`: those of `out` from row
    to row and from matrix to matrix, if the product is to be added to what is there."""
    tile = tile_for(given, x.dtype, to.target)
    layers = -(-given.inner // tile.depth)
    height, width = grid(given, tile, to.target.threads)
    row_blocks, column_blocks = -(-given.rows // height), -(-given.columns // width)
    blocks, batch = row_blocks * column_blocks, math.prod(axis[0] for axis in given.batch)
    group = max(1, LEAST_CHUNK // (height * width * given.inner)) if blocks == 1 else 1
    axes = [(1, 0, 0)] * (4 - len(given.batch)) + given.batch
    out_step, out_batch = steps or (given.columns, given.rows * given.columns)
    words: Words = dict(x=x, y=y, out=out, start=0 if start is None else start)
    words |= dict(rows=given.rows, columns=given.columns, inner=given.inner)
    words |= dict(x_step=given.x_step, y_step=given.y_step, y_by_rows=given.y_by_rows)
    words |= dict(y_direct=given.y_by_rows and given.rows <= DIRECT_TILES * tile.rows)
    words |= dict(packs=packs(given, tile, width), depth=-(-given.inner // layers), height=height)
    words |= dict(width=width, column_blocks=column_blocks, blocks=blocks, group=group, batch=batch)
    words |= {f"size{k}": axes[k][0] for k in (1, 2, 3)}
    for k, (_, x_batch, y_batch) in enumerate(axes):
        words |= {f"x_batch{k}": x_batch, f"y_batch{k}": y_batch}
    words |= dict(starts=start is not None, out_step=out_step, out_batch=out_batch)
    words |= dict(adds=steps is not None)
    to.launch(kernel(tile), blocks * -(-batch // group), words)


@functools.cache
def kernel(tile: ProductTile) -> NativeKernel:
    return NativeKernel("matmul", compiled(module(tile), "matmul"), WORDS)


def factors(x: View, y: View) -> Factors:
    """The factors of products that `batch_of` takes; refuses strides that the kernel doesn't."""
    size, (rows, inner), columns = x.itemsize, x.shape[-2:], y.shape[-1]
    whole = not any(stride % size for stride in (*x.strides, *y.strides))
    x_steps, y_steps = ([stride // size for stride in one.strides] for one in (x, y))
    (x_row, x_column), (y_row, y_column) = x_steps[-2:], y_steps[-2:]
    x_by_rows, y_by_rows = x_column == 1 or inner == 1, y_column == 1
    batch = batch_axes(x, y)
    while batch and batch[-1][2] == 0 and x_by_rows and batch[-1][1] == rows * x_row:
        rows *= batch.pop()[0]  # all multiplied by one matrix, and their rows follow each other
    lines = (x_by_rows or x_row == 1) and (y_by_rows or y_row == 1 or inner == 1)
    if not (lines and whole and x.aligned and y.aligned) or len(batch) > 4:
        raise Unsupported(f"a product of arrays with strides {x.strides} and {y.strides}")
    x_step, y_step = x_row if x_by_rows else x_column, y_row if y_by_rows else y_column
    return Factors(rows, columns, inner, x_by_rows, x_step, y_by_rows, y_step, batch)


def batch_axes(*arrays: View) -> list[tuple[int, int, int]]:
    """Length and steps of the axes of a batch, as few as possible."""
    stacks = [x.view(x.shape[:-2], x.strides[:-2]) for x in arrays]
    shape = np.broadcast_shapes(*(x.shape for x in stacks))
    axes = merged(shape, [[s // x.itemsize for s in steps_in(x, shape)] for x in stacks])
    return list(zip(axes.sizes, *axes.steps, strict=True))


def tile_for(given: Factors, dtype: np.dtype, target: Target) -> ProductTile:
    rows, vectors = registers(target)
    return ProductTile(
        FLOATS[dtype],
        given.x_by_rows,
        (steady_part if target.steady else even_part)(given.rows, rows),
        min(vectors, -(-given.columns * dtype.itemsize // 64)),
        DEPTH,
        MOST_TILES if given.x_by_rows else MOST_PACKED // (16 * DEPTH * dtype.itemsize),
    )


def registers(target: Target) -> tuple[int, int]:
    """Rows and vectors of the largest tile for which there are registers."""
    return (14, 2) if "avx512f" in target.features else (6, 1)


def even_part(total: int, most: int) -> int:
    """The rows of a tile, so that the last tile has little that is done twice."""
    if total <= most:
        return total
    waste = {part: -total % part / total - 0.004 * part for part in range(most // 2 + 1, most + 1)}
    return min(waste, key=waste.__getitem__)


def steady_part(total: int, most: int) -> int:
    """The same for all numbers of rows from a few on: a power of two."""
    return 1 << min(total, most).bit_length() - 1


def packs(given: Factors, tile: ProductTile, width: int) -> bool:
    """Whether to pack the first factor, too: its columns, if they are read more than once."""
    return not given.x_by_rows and width > tile.width


def grid(given: Factors, tile: ProductTile, count: int) -> tuple[int, int]:
    """Rows and columns of the blocks that should take least time on `count` threads."""
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
