"""A step of an optimizer: by one kernel for all parameters where that's possible, else by ops."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import backends
from .._modes import ANOMALY, TRACE, mode
from .._tensor import Tensor
from ..functions.assignment import replace
from ..functions.elementwise import astype
from ..kernels.language import TYPES
from ..kernels.optimizers import Functions, Rule
from ..primitives.elementwise import maximum, sqrt

cpu: Any = backends.backend("cpu")
exclusive = cpu.exclusive

OPS = Functions(sqrt, maximum)
NATIVE = (np.dtype("f4"), np.dtype("f8"))  # float16 is rounded after each op, which no kernel does
FEW = 4  # parameters whose step, if they are small, ops have done before a kernel was launched


class Slot(NamedTuple):
    """A parameter, its place in numbers that are tensors, and all that a step changes: the
    parameter itself and what the optimizer remembers of it."""

    place: int
    p: Tensor
    tensors: tuple[Tensor, ...]


Number = float | Tensor  # one for all parameters, or one for each


def step(rule: Rule, slots: list[Slot], numbers: Sequence[Number]) -> None:
    """Update parameters, all of which have gradients."""
    rest = slots
    if not mode.word & (TRACE | ANOMALY):
        rest = [slot for slot in slots if not is_launched(rule, slot, numbers)]
        if is_worth_a_launch(rest):
            batches = {dtype: Batch([], [], []) for dtype in NATIVE}
            rest = [slot for slot in rest if not is_taken(slot, batches)]
            for dtype, batch in batches.items():
                if batch.slots:
                    batch.launch(launcher(cpu, rule, dtype), numbers)
    for slot in rest:
        compose(rule, slot, numbers)


def is_worth_a_launch(slots: list[Slot]) -> bool:
    large = len(slots) > FEW or sum([slot.p.data.size for slot in slots]) >= cpu.LEAST
    return large and cpu.has_kernels()


# By one kernel.


@functools.cache
def launcher(backend: Any, rule: Rule, dtype: np.dtype) -> Any:
    return backend.launcher(rule.kernel(TYPES[dtype]))


def is_launched(rule: Rule, slot: Slot, numbers: Sequence[Number]) -> bool:
    """Update a parameter on another device than the CPU by a launch of its own; False if none."""
    place, p, tensors = slot
    kind = type(p.data)
    backend: Any = backends.LOADED.get(kind)
    if kind is np.ndarray or not hasattr(backend, "launcher"):
        return False
    g = p._grad.data  # type: ignore[union-attr]
    dtype = g.dtype
    if dtype not in NATIVE or any(x.data.dtype is not dtype for x in tensors):
        return False
    kernel = launcher(backend, rule, dtype)
    if kernel is None:
        return False
    own = [number_at(number, place, p) for number in numbers]
    outputs = [
        x.data if backend.exclusive(x.data, 1) else backend.empty(x.data.shape, dtype)
        for x in tensors
    ]
    arrays = [p.data, g, *(x.data for x in tensors[1:])]
    made = kernel.map(arrays, own, outputs)
    for tensor, data in zip(tensors, made, strict=True):
        tensor.data = data
    return True


class Batch(NamedTuple):
    """Parameters that are updated together: the arrays of each one, inputs first, then outputs;
    and the outputs that are in new memory, with the tensors that move there."""

    slots: list[Slot]
    arrays: list[np.ndarray]
    moved: list[tuple[Tensor, np.ndarray]]

    def launch(self, launcher: Any, numbers: Sequence[Number]) -> None:
        cpu.update(launcher, self.arrays, table(numbers, self.slots))
        for tensor, data in self.moved:
            tensor.data = data


def is_taken(slot: Slot, batches: dict[np.dtype, Batch]) -> bool:
    """Put a parameter into the batch of its dtype, if a kernel can walk over all of its arrays as
    over one row."""
    _, p, tensors = slot
    g = p._grad.data  # type: ignore[union-attr]
    dtype, size = g.dtype, g.size
    if dtype not in batches or type(g) is not np.ndarray:
        return False
    inputs, outputs, moved = [], [], []
    for tensor in tensors:
        data = tensor.data
        if data.dtype is not dtype or data.size != size:
            return False
        inputs.append(data)
        if exclusive(data, 3):
            outputs.append(data)
        elif type(data) is np.ndarray and data.flags.c_contiguous:
            # Somebody else can see it, so it stays as it is.
            outputs.append(cpu.empty(data.shape, dtype))
            moved.append((tensor, outputs[-1]))
        else:
            return False
    inputs.insert(1, g if g.flags.c_contiguous else g.copy())
    batch = batches[dtype]
    batch.slots.append(slot)
    batch.arrays.extend(inputs)
    batch.arrays.extend(outputs)
    batch.moved.extend(moved)
    return True


def table(numbers: Sequence[Number], slots: list[Slot]) -> np.ndarray:
    """The numbers of each parameter, in a row."""
    out = np.empty((len(slots), len(numbers)))
    for column, number in enumerate(numbers):
        if isinstance(number, Tensor):
            out[:, column] = number.data[[slot.place for slot in slots]]
        else:
            out[:, column] = number
    return out


# By ops.


def compose(rule: Rule, slot: Slot, numbers: Sequence[Number]) -> None:
    place, p, tensors = slot
    own = [number_at(number, place, p) for number in numbers]
    outputs = rule((p, p.grad, *tensors[1:]), own, OPS)
    for tensor, value in zip(tensors, outputs, strict=True):
        replace("step", tensor, value)


def number_at(number: Number, place: int, p: Tensor) -> Any:
    """A parameter's own number; in a trace it isn't known yet, so it stays a tensor."""
    if not isinstance(number, Tensor):
        return number
    return astype(number[place], p.dtype) if mode.word & TRACE else number.data.item(place)
