"""Machine code on arrays: how it calls types of elements, how it is made, and how it is run."""

import functools
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..jit.compiler import compiled
from ..jit.threads import run

# Machine code for moving elements of a size, and for adding those of a dtype.
BY_SIZE = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}
KINDS = {"f4": "float", "f8": "double", "i4": "i32", "u4": "i32", "i8": "i64", "u8": "i64"}
BY_DTYPE = {np.dtype(name): kind for name, kind in KINDS.items()}


@functools.cache
def kernel_of(template: Callable[..., str], *options: Any) -> int:
    """The kernel that a template is the text of, which has its name."""
    return compiled(template(*options), template.__name__)


def run_kernel(kernel: int, words: Sequence[int], chunks: int) -> array:
    """Run a kernel on words; returns the words as it leaves them."""
    block = array("q", words)
    run(kernel, block.buffer_info()[0], chunks)
    return block


def chunks_of(step: int, total: int) -> int:
    return -(-total // step)
