"""What the function that a kernel becomes on the CPU is given: the words of a launch, by name.

The function's text depends on the layout of the arrays, as far as `Loops` says it; sizes, strides
and addresses are words.
"""

from typing import NamedTuple

from .language import Kernel, Type
from .template import Template
from .vectors import stored_type


class Loops(NamedTuple):
    """How a launch walks over memory, as far as the text depends on it.

    `access`: for each array, then each output, how its elements follow each other along the
    columns: "c" one after the other, "b" the same for all, "s" at some distance, "n" (an output) as
    "c", aligned, and past the caches. `outer`: how many axes the rows have. `inner`: how many axes
    are reduced, besides the columns if rows are reduced `along` them; if not, each column is
    reduced by itself.
    """

    access: str
    outer: int
    inner: int = 0
    along: bool = False
    lanes: int = 16


class ArrayWords(NamedTuple):
    """An array or output as the function sees it: its type, and names of its words."""

    position: int
    type: Type
    access: str
    pointer: str
    step: str  # bytes from column to column
    inner: tuple[str, ...]  # the same along the reduced axes
    outer: tuple[str, ...]  # and along the rows

    @property
    def size(self) -> int:
        return self.type.bits // 8


class Frame:
    """The words of a launch, and their names in the order in which they are packed.

    rows, columns, rows per chunk, columns per chunk, chunks along the columns; the sizes of the
    inner, then of the outer axes; for each array and each output a pointer and the bytes between
    elements along columns, inner axes, outer axes; the numbers.
    """

    def __init__(self, write: Template, kernel: Kernel, loops: Loops) -> None:
        self.write = write
        self.rows, self.columns, self.row_step, self.column_step, self.parts = write.words(
            "i64", "rows columns row_step column_step parts"
        )
        self.inner = self.words("inner", loops.inner)
        self.outer = self.words("outer", loops.outer)
        types = [source.type for _, source in sorted(kernel.sources.items())]
        types += [out.type for out in kernel.outputs]
        self.arrays = [
            self.array(k, type, access, loops)
            for k, (type, access) in enumerate(zip(types, loops.access, strict=True))
        ]
        self.numbers = {
            k: write.words(stored_type(t), f"number{k}")[0]
            for k, t in sorted(kernel.scalars.items())
        }

    def array(self, position: int, type: Type, access: str, loops: Loops) -> ArrayWords:
        name = f"array{position}"
        (pointer,), (step,) = self.write.words("ptr", name), self.write.words("i64", f"{name}_step")
        inner = self.words(f"{name}_inner", loops.inner)
        outer = self.words(f"{name}_outer", loops.outer)
        step = str(type.bits // 8) if access in "cn" else step
        return ArrayWords(position, type, access, pointer, step, tuple(inner), tuple(outer))

    def words(self, name: str, count: int) -> list[str]:
        return self.write.words("i64", " ".join(f"{name}{k}" for k in range(count)))
