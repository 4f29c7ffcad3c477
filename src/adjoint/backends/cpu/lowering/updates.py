"""One elementwise kernel on many tensors of different sizes, in one launch.

All chunks of all tensors are numbered in a row, so that threads share them; a table says which
chunk of which tensor each of them is. Each tensor has a block of words, as the kernel takes them.
"""

import numpy as np

from ....kernels.frame import Loops
from ....kernels.template import Template
from ...launches import Number, View
from ...spaces import Ints
from ..jit.runner import NativeKernel
from .expressions import Expression
from .maps import array_words
from .native import NativeLowering, Words, chunks_of, kernel_of


def lower_updates(
    to: NativeLowering, expression: Expression, inputs: list[list[View]], sizes: Ints
) -> None:
    """`inputs`: the arrays of each tensor, all without gaps and of its size. The results are the
    outputs of each tensor, in a row. A run's numbers are a table, with a row for each tensor."""
    chunk, dtypes = expression.chunk, expression.dtypes
    arrays = [
        [*own, *(to.result((size,), dtype) for dtype in dtypes)]
        for own, size in zip(inputs, sizes, strict=True)
    ]
    loops = Loops("c" * len(arrays[0]), 0, lanes=expression.lanes)
    single, whole = expression.native(loops), kernel_of(many)
    counts = [chunks_of(chunk, size) for size in sizes]
    words: Words = dict(kernel=single.address, table=chunk_table(counts), length=len(single.words))
    for n, (size, own) in enumerate(zip(sizes, arrays, strict=True)):
        block: Words = dict(rows=1, columns=size, row_step=1, column_step=chunk, parts=counts[n])
        for k, x in enumerate(own):
            block |= array_words(k, x, x.itemsize)
        block |= {f"number{k}": Number((n, k), t) for k, t in expression.numbers.items()}
        words |= {f"{n}_{name}": block[name] for name in single.words}
    to.launch(NativeKernel("updates", whole.address, tuple(words)), sum(counts), words)


def chunk_table(counts: list[int]) -> np.ndarray:
    """For each chunk of all tensors, whose it is, and which of its own."""
    owners = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(counts) - counts
    return np.stack([owners, np.arange(len(owners)) - starts[owners]], axis=1)


def many() -> Template:
    """Run a chunk of the table, by the kernel that is given. Blocks follow the words."""
    t = Template("many")
    kernel, table = t.words("ptr", "kernel table")
    (length,) = t.words("i64", "length")
    entry = t.product("%chunk", 2)
    owner, number = t.load(table, "i64", entry), t.load(table, "i64", t.add(entry, 1))
    block = t.at("%words", "i64", t.add(t.product(owner, length), len(t.names)))
    t.line(f"call void {kernel}(ptr {block}, i64 {number})")
    return t
