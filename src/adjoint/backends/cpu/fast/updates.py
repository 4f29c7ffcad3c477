"""One elementwise kernel on many tensors of different sizes, in one launch.

All chunks of all tensors are numbered in a row, so that threads share them; a table says which
chunk of which tensor each of them is.
"""

import functools
from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ....kernels.frame import Layout
from ....kernels.text import Function
from ..jit.addresses import HEADER, address
from ..jit.compiler import compiled
from ..jit.threads import run
from .machine_code import chunks_of
from .maps import Launcher

OWN = 6  # words of `many`, which the blocks of the tensors follow
HEAD = 5  # words of a block before the arrays: see `frame.Frame`


class ChunkTable(NamedTuple):
    """What depends on sizes only: the words, without arrays and numbers, and which chunk of which
    tensor each chunk is."""

    words: bytes
    blocks: tuple[int, int]
    table: np.ndarray
    address: int  # of the table


def update(launcher: Launcher, arrays: Sequence[np.ndarray], numbers: np.ndarray) -> None:
    """Run a kernel on tensors. `arrays`: for each tensor the inputs, then the outputs, all without
    gaps and of one size; an output may be an input. `numbers`: those of each tensor, in a row."""
    count, dtype = len(launcher.used) + len(launcher.dtypes), launcher.dtypes[0]
    sizes = tuple([a.size for a in arrays[::count]])
    chunks = chunk_table(sizes, launcher.chunk, count, len(launcher.kernel.scalars))
    words = array("q", chunks.words)
    start = words.buffer_info()[0]
    words[0] = launcher.address(Layout("c" * count, 0, lanes=launcher.lanes))
    words[1] = start + 8 * OWN
    words[2] = chunks.address
    blocks = np.frombuffer(words, np.int64, offset=8 * OWN).reshape(chunks.blocks)
    first = HEAD + 2 * count
    objects = np.fromiter(map(id, arrays), np.int64, len(arrays))
    blocks[:, HEAD:first:2] = objects.reshape(-1, count)
    places = blocks[:, first:].view(dtype)[:, :: 8 // dtype.itemsize]
    places[...] = numbers[:, sorted(launcher.kernel.scalars)]
    run(many_address(), start, len(chunks.table))


@functools.lru_cache(maxsize=64)
def chunk_table(sizes: tuple[int, ...], chunk: int, arrays: int, numbers: int) -> ChunkTable:
    parts = [chunks_of(chunk, size) for size in sizes]
    first = HEAD + 2 * arrays
    blocks = np.zeros((len(sizes), first + numbers), np.int64)
    for block, size, count in zip(blocks, sizes, parts, strict=True):
        block[:HEAD] = 1, size, 1, chunk, count
    own = np.array([0, 0, 0, blocks.shape[1], HEAD, first])
    owners = np.repeat(np.arange(len(sizes)), parts)
    starts = np.cumsum(parts) - parts
    table = np.stack([owners, np.arange(len(owners)) - starts[owners]], axis=1)
    return ChunkTable(own.tobytes() + blocks.tobytes(), blocks.shape, table, address(table))


@functools.cache
def many_address() -> int:
    return compiled(many(), "many")


def many() -> str:
    """A function that runs a chunk of the table, whose words are copied for it.

    The words have array objects in the place of pointers: to ask NumPy for the pointers of hundreds
    of arrays takes longer than to update them. Where an array has its data is part of NumPy's
    binary interface.
    """
    write = Function("many(ptr noalias %words, i64 %chunk)")

    def load(pointer: str, position: str | int, type: str = "i64") -> str:
        place = write.offset(pointer, write.product("8", position))
        return write.new(f"load {type}, ptr {place}")

    kernel, blocks, table = (load("%words", k, "ptr") for k in range(3))
    length, first, end = (load("%words", k) for k in range(3, 6))
    copy = write.new(f"alloca i64, i64 {length}")
    entry = write.offset(table, write.product("%chunk", 16))
    block = write.offset(blocks, write.product(write.product(load(entry, 0), length), 8))
    with write.loop("0", length) as k:
        place = write.offset(copy, write.product(k, 8))
        write.line(f"store i64 {load(block, k)}, ptr {place}")
    with write.loop(first, end, "2") as k:
        place = write.offset(copy, write.product(k, 8))
        data = write.offset(load(block, k, "ptr"), str(HEADER))
        write.line(f"store ptr {write.new(f'load ptr, ptr {data}')}, ptr {place}")
    write.line(f"call void {kernel}(ptr {copy}, i64 {load(entry, 1)})")
    return str(write)
