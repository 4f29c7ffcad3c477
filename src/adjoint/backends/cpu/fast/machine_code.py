"""Machine code on arrays: how it calls types of elements, and how it is run."""

from array import array
from collections.abc import Sequence

import numpy as np

from ..jit.threads import run

# Machine code for moving elements of a size, and for adding those of a dtype.
BY_SIZE = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}
BY_DTYPE = {
    np.dtype(name): kind
    for kind, names in {
        "float": ["f4"],
        "double": ["f8"],
        "i32": ["i4", "u4"],
        "i64": ["i8", "u8"],
    }.items()
    for name in names
}


def run_kernel(kernel: int, words: Sequence[int], chunks: int) -> array:
    """Run a kernel on words; returns the words as it leaves them."""
    block = array("q", words)
    run(kernel, block.buffer_info()[0], chunks)
    return block


def chunks_of(step: int, total: int) -> int:
    return -(-total // step)
