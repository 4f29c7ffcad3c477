"""Launches on memory: the one place where kernels of the CPU are run.

A run fills a copy of a launch's words, since other threads run the same launch at the same time,
and kernels write into their words. Addresses may be those of any memory.
"""

import math
import struct
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...launches import Launch, Scratch
from ...spaces import Ints
from . import threads
from .addresses import HEADER, MEMORY, address
from .memory import POOLED_FROM, empty, zeros

LINE = 64  # bytes
FORMATS = {"f2": "e6x", "f4": "f4x", "f8": "d", "b1": "?7x"}
BYTE = np.dtype(np.uint8)
plain, ndarray = np.empty, np.ndarray


class NativeKernel(NamedTuple):
    """Machine code `void kernel(ptr words, i64 chunk)`, its name, and the names of its words.

    `past`: the same kernel, which writes its results past the caches, or 0. They must begin at
    multiples of a line.
    """

    name: str
    address: int
    words: tuple[str, ...]
    past: int = 0

    def unpack(self, words: bytes) -> Any:
        return array("q", words)


def run(
    launches: tuple[Launch, ...],
    arrays: Sequence[np.ndarray],
    numbers: Any = (),
    outputs: Sequence[np.ndarray] | None = None,
) -> Any:
    """Run the launches of an op on arrays; returns the results, in memory of `outputs` where that
    is given. None if data was such that they have no result: see `Status`."""
    # A small kernel takes as long as these lines: comprehensions would cost more.
    first, addresses = launches[0], []
    for x in arrays:
        known = type(x) is ndarray  # else it may be a NumPy scalar, which has no elements to read
        addresses.append(MEMORY[id(x) + HEADER >> 3] if known else address(x))
    if outputs is None:
        results = []
        for shape, dtype, _, size, order in first.results:
            if order is not None:
                out = turned(shape, dtype, order)
            else:
                out = plain(shape, dtype) if size < POOLED_FROM else empty(shape, dtype)
            results.append(out)
            addresses.append(MEMORY[id(out) + HEADER >> 3])
    else:
        results = list(outputs)
        for out in results:
            addresses.append(MEMORY[id(out) + HEADER >> 3])  # noqa: PERF401
    if first.scratch:
        scratch = [memory_for(one) for one in first.scratch]
        addresses += [start for _, start in scratch]
    for launch in launches:
        (_, code, _, past), packed, places, given, chunks, _, _, _, status, _, _ = launch
        words = array("q", packed)
        for position, slot, offset in places:
            words[position] = addresses[slot] + offset
        for position, number in given:
            words[position] = word_of(numbers[number.key], number.dtype)
        if past and outputs is None and are_lines(addresses[len(arrays) :]):
            code = past
        threads.run(code, words.buffer_info()[0], chunks)
        if status is not None and words[status.position]:
            return None
    return results


def are_lines(addresses: Sequence[int]) -> bool:
    """Whether all are where lines of the caches begin."""
    return not any(start % LINE for start in addresses)


def run_words(kernel: int, words: np.ndarray, chunks: int) -> None:
    """Run a kernel on words that are complete."""
    threads.run(kernel, MEMORY[id(words) + HEADER >> 3], chunks)


def memory_for(scratch: Scratch) -> tuple[np.ndarray, int]:
    """Memory, and where in it what is aligned begins."""
    make = zeros if scratch.zeroed else empty
    block = make((scratch.bytes + scratch.alignment,), BYTE)
    start = MEMORY[id(block) + HEADER >> 3]
    return block, start + -start % scratch.alignment


def turned(shape: Ints, dtype: np.dtype, order: Ints) -> np.ndarray:
    """New memory whose axes lie in some order."""
    return empty(tuple([shape[k] for k in order]), dtype).transpose(np.argsort(order))


def word_of(number: Any, dtype: np.dtype) -> int:
    """A number as 64 bits of which the first are its own; infinite where it is too large."""
    if dtype.kind not in "fb":
        return int(number)
    form = "<" + FORMATS[dtype.str[1:]]
    try:
        packed = struct.pack(form, float(number) if dtype.kind == "f" else number)
    except OverflowError:
        packed = struct.pack(form, math.copysign(math.inf, number))
    return struct.unpack("<q", packed)[0]
