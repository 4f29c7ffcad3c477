"""A step of an optimizer: by one kernel for all parameters where that's possible, else by ops."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import backends
from .._core.tensor import Tensor, describe
from .._foundation.errors import DeviceError, DTypeError
from .._foundation.modes import ANOMALY, TRACE, mode
from ..functions.elementwise import astype
from ..functions.inplace import replace
from ..kernels.language import TYPES
from ..kernels.optimizers import Functions, Rule
from ..primitives.devices import move
from ..primitives.elementwise import maximum, sqrt

cpu: Any = backends.backend("cpu")
exclusive = cpu.exclusive

OPS = Functions(sqrt, maximum)
NATIVE = (np.dtype("f4"), np.dtype("f8"))  # float16 is rounded after each op, which no kernel does
FEW = 4  # parameters whose step, if they are small, ops have done before a kernel was launched

Number = float | Tensor  # one for all parameters, or one for each


# What happens to one parameter: all tensors that change, the parameter first and then what is
# remembered of it; and its gradient.
Update = tuple[tuple[Tensor, ...], Tensor]


def step(rule: Rule, updates: Sequence[Update], numbers: Sequence[Number]) -> None:
    """Update parameters; numbers that are tensors have one for each."""
    rest = list(range(len(updates)))
    if not mode.word & (TRACE | ANOMALY):
        rest = [
            k
            for k in rest
            if type(updates[k][1].raw) is np.ndarray or not try_launch(rule, updates, k, numbers)
        ]
        if is_worth_a_launch([updates[k][1] for k in rest]):
            batches = {dtype: Batch([], [], []) for dtype in NATIVE}
            rest = [k for k in rest if not try_batch(updates, k, batches)]
            for dtype, batch in batches.items():
                if batch.places:
                    batch.launch(launcher(cpu, rule, dtype), numbers)
    for k in rest:
        compose(rule, updates, k, numbers)


def is_worth_a_launch(gradients: list[Tensor]) -> bool:
    large = len(gradients) > FEW or sum([g.raw.size for g in gradients]) >= cpu.LEAST
    return large and cpu.has_kernels()


# By one kernel.


@functools.cache
def launcher(backend: Any, rule: Rule, dtype: np.dtype) -> Any:
    return backend.launcher(rule.kernel(TYPES[dtype]))


def try_launch(
    rule: Rule, updates: Sequence[Update], place: int, numbers: Sequence[Number]
) -> bool:
    """Update a parameter on another device than the CPU by a launch of its own; False if none."""
    tensors, gradient = updates[place]
    g = gradient.raw
    kind, dtype = type(g), g.dtype
    backend: Any = backends.LOADED.get(kind)
    if dtype not in NATIVE or not hasattr(backend, "launcher"):
        return False
    if any(type(x.raw) is not kind or x.raw.dtype is not dtype for x in tensors):
        return False
    kernel = launcher(backend, rule, dtype)
    if kernel is None:
        return False
    own = [number_at(number, place, tensors[0]) for number in numbers]
    outputs = [
        x.raw if backend.exclusive(x.raw, 1) else backend.empty(x.raw.shape, dtype) for x in tensors
    ]
    arrays = [tensors[0].raw, g, *(x.raw for x in tensors[1:])]
    made = kernel.map(arrays, own, outputs)
    for tensor, data in zip(tensors, made, strict=True):
        tensor.raw = data
    return True


class Batch(NamedTuple):
    """Parameters that are updated together: their places among all, the arrays of each one, inputs
    first, then outputs; and the outputs that are in new memory, with the tensors that move there.
    """

    places: list[int]
    arrays: list[np.ndarray]
    moved: list[tuple[Tensor, np.ndarray]]

    def launch(self, launcher: Any, numbers: Sequence[Number]) -> None:
        cpu.update(launcher, self.arrays, table(numbers, self.places))
        for tensor, data in self.moved:
            tensor.raw = data


def try_batch(updates: Sequence[Update], place: int, batches: dict[np.dtype, Batch]) -> bool:
    """Put a parameter into the batch of its dtype, if a kernel can walk over all of its arrays as
    over one row."""
    tensors, gradient = updates[place]
    g = gradient.raw
    dtype, size = g.dtype, g.size
    if dtype not in batches or type(g) is not np.ndarray:
        return False
    inputs, outputs, moved = [], [], []
    for tensor in tensors:
        data = tensor.raw
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
    batch.places.append(place)
    batch.arrays.extend(inputs)
    batch.arrays.extend(outputs)
    batch.moved.extend(moved)
    return True


def table(numbers: Sequence[Number], places: list[int]) -> np.ndarray:
    """The numbers of each parameter, in a row."""
    out = np.empty((len(places), len(numbers)))
    for column, number in enumerate(numbers):
        out[:, column] = number.raw[places] if isinstance(number, Tensor) else number
    return out


# By ops.


def compose(rule: Rule, updates: Sequence[Update], place: int, numbers: Sequence[Number]) -> None:
    tensors, g = updates[place]
    check_alike(*tensors)
    own = [x if type(x) is float else number_at(x, place, tensors[0]) for x in numbers]
    outputs = rule((tensors[0], g, *tensors[1:]), own, OPS)
    for tensor, value in zip(tensors, outputs, strict=True):
        replace("step", tensor, value)


def check_alike(p: Tensor, *remembered: Tensor) -> None:
    """What is remembered of a parameter is like it, unless that has been changed since."""
    for x in remembered:
        if x.raw.dtype is not p.raw.dtype or x.device != p.device:
            error = DTypeError if x.device == p.device else DeviceError
            raise error(
                f"step: a parameter is {describe(p)} on {p.device}, but what is remembered of it "
                f"{describe(x)} on {x.device}; it was moved or cast after the first step: make a "
                "new optimizer, or do that before"
            )


def number_at(number: Number, place: int, p: Tensor) -> Any:
    """A parameter's own number; in a trace it isn't known yet, so it stays a tensor."""
    if not isinstance(number, Tensor):
        return number
    if not mode.word & TRACE:
        return number.raw.item(place)
    own = astype(number[place], p.dtype)
    return own if p.device == "cpu" else move(own, device=p.device, source="cpu")
