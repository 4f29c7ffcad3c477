"""Drafts, which passes rewrite: recorded steps, constants, and the values that outlive a run."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from .._core.declaration import Op
from .._trace.recording import Step, Traced


class Fill(NamedTuple):
    """An array all of whose elements are one number. It has no memory until a kernel asks for it.

    Elements that are equal but not the same (0.0 and -0.0, NaNs) are told apart by `repr`.
    """

    value: Any  # a Python number
    shape: tuple[int, ...]
    dtype: np.dtype

    def array(self) -> np.ndarray:
        return np.broadcast_to(np.array(self.value, self.dtype), self.shape)

    def __repr__(self) -> str:
        return f"{self.value!r}"


class Draft(NamedTuple):
    """A recorded function on its way to a program. `constants` are arrays that nobody changes;
    `wanted` the values that outlive a run."""

    steps: list[Step]
    constants: dict[Traced, np.ndarray]
    wanted: list[Any]  # Traced values, and fills

    def __repr__(self) -> str:
        lines = [f"{value.typed()} = a constant" for value in self.constants]
        lines += [repr(step) for step in self.steps]
        return "\n".join([*lines, f"keep {', '.join(map(repr, self.wanted))}"])


def with_fills(step: Step) -> tuple:
    """The inputs of an elementwise step, numbers as fills of the dtype that they act in."""
    op = step.op
    together = [x.dtype for k, x in enumerate(step.inputs) if promotes(op, k) and is_array(x)]
    dtype = together[0] if together else None
    return tuple(
        x if x is None or is_array(x) or dtype is None else Fill(x, (), dtype) for x in step.inputs
    )


def promotes(op: Op, position: int) -> bool:
    return op.input_name(position) in op.promotes


def is_array(x: Any) -> bool:
    return type(x) in (Traced, Fill)


def traced(values: Iterable[Any]) -> list[Traced]:
    return [x for x in values if type(x) is Traced]


def nbytes(x: Any) -> int:
    size = x.dtype.itemsize
    for n in x.shape:
        size *= n
    return size
