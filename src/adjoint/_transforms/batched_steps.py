"""Running the steps that vmap recorded for one example on all of them.

A value has the axis of the examples, before all others, if it has one axis more than what stood for
it in the trace.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from .._core.declaration import Op
from .._core.execute import apply
from .._core.tensor import Tensor, share
from .._foundation.errors import ShapeError
from .._foundation.modes import GRAD, TRACE, mode
from .._trace.recording import Step, Traced
from ..primitives.conversions import cast
from ..primitives.creation import full
from ..primitives.elementwise import add
from ..primitives.reductions import repeated
from ..primitives.shapes import concat, lined_up, reshape, slice_

Values = dict[Traced, Tensor]


class Kept(NamedTuple):
    """A value that outlives the trace, and whether gradients flow from it."""

    value: Traced
    attached: bool


class Task(NamedTuple):
    """A step to run, whether with gradients recorded, and the values that it is the last to use."""

    step: Step
    recorded: bool
    dead: list[Traced]


def parted(steps: list[Step], wanted: set[Traced]) -> tuple[list[Step], list[Step]]:
    """The steps that lead to some values, and the others."""
    needed, first, others = set(wanted), [], []
    for step in reversed(steps if wanted else []):
        if needed.isdisjoint(step.results):
            others.append(step)
        else:
            first.append(step)
            needed.update(x for x in step.inputs if type(x) is Traced)
    return first[::-1], others[::-1] if wanted else steps


def scheduled(steps: list[Step], wanted: Iterable[Kept]) -> list[Task]:
    """The steps that lead to what is wanted, and those of them that gradients will flow through."""
    needed = {kept.value for kept in wanted}
    attached = {kept.value for kept in wanted if kept.attached}
    tasks: list[Task] = []
    for step in reversed(steps):
        if needed.isdisjoint(step.results):
            continue
        inputs = [x for x in step.inputs if type(x) is Traced]
        recorded = not attached.isdisjoint(step.results)
        if recorded:
            attached.update(x for x, a in zip(step.inputs, step.attached, strict=True) if a)
        dead = [x for x in {*inputs, *step.results} if x not in needed]
        needed.update(inputs)
        tasks.append(Task(step, recorded, dead))
    return tasks[::-1]


def run(tasks: list[Task], values: Values, size: int) -> None:
    former = mode.word
    try:
        for step, recorded, dead in tasks:
            word = former | GRAD if recorded else former & ~GRAD
            if word != mode.word:
                mode.word = word
            results = outcome(step, recorded, values, size)
            if len(results) == 1:
                values[step.results[0]] = results[0]
            else:
                values.update(zip(step.results, results, strict=True))
            for value in dead:
                del values[value]
    finally:
        mode.word = former


def outcome(step: Step, recorded: bool, values: Values, size: int) -> tuple[Tensor, ...]:
    """The results of a step for all examples."""
    op, given, batched = step.op, list(step.inputs), [False] * len(step.inputs)
    rank, uneven = None, False
    for k, x in enumerate(step.inputs):
        if type(x) is Traced:
            found, length = values[x], len(x.shape)
            given[k] = found
            batched[k] = len(found.raw.shape) > length
            uneven = uneven or length != (length if rank is None else rank)
            rank = length
            if recorded and found.node is not None and not step.attached[k]:
                given[k] = share(found)
    out: Any = NotImplemented
    if True not in batched and not op.random:
        out = call(op, given, step.attrs)
    elif op.batch == "broadcast":
        out = call(op, lined_up(batched, given) if uneven else given, step.attrs)
    elif op.batch == "leading":
        out = leading(op, given, batched, step.attrs, size)
    elif callable(op.batch):
        out = op.batch(size, tuple(batched), *given, **step.attrs)
    if out is NotImplemented:
        out = one_by_one(step, given, batched, size)
    results = out if isinstance(out, tuple) else (out,)
    if callable(op.batch) or op.is_self_made:
        check_batch(step, results, True in batched, size)
    return results


def check_batch(step: Step, results: tuple[Tensor, ...], batched: bool, size: int) -> None:
    """What a user's op or an op's own way to batch returned fits the op."""
    batch = step.op.batch
    shapes, single = [x.shape for x in results], [x.shape for x in step.results]
    many = [(size, *shape) if batched else shape for shape in single]
    if shapes == many or (
        callable(batch)
        and len(shapes) == len(single)
        and all(x in (one, (size, *one)) for x, one in zip(shapes, single, strict=True))
    ):
        return
    what = f"its batch= function returned shapes {shapes}"
    if not callable(batch):
        what = f"declared with batch={batch!r}, it returned shapes {shapes}"
    raise ShapeError(
        f"{step.op.name}: {what} for {size} examples whose results have shapes {single}; the axis "
        "of the examples must come first, and the others be as shape= says"
    )


def call(op: Op, inputs: list, attrs: dict) -> Any:
    """Run an op, by its dispatcher where that is quicker."""
    if op.call is None or mode.word & TRACE:
        return apply(op, inputs, attrs)
    return op.call(*inputs, **attrs)


def leading(op: Op, given: list, batched: list[bool], attrs: dict, size: int) -> Any:
    """Let all operands have the axis of the examples, and attributes count it."""
    inputs = [
        x if b or not isinstance(x, Tensor) else repeated(x, size)
        for x, b in zip(given, batched, strict=True)
    ]
    return call(op, inputs, {name: told(name, value, size) for name, value in attrs.items()})


def told(name: str, value: Any, size: int) -> Any:
    """An attribute, where there is one more axis before the others."""
    if name == "axis":
        return tuple(map(next_axis, value)) if isinstance(value, tuple) else next_axis(value)
    if name == "axes":
        return (0, *map(next_axis, value))
    if name == "index":
        return (slice(None), *value)
    if name == "pad_width":
        return ((0, 0), *value)
    return (size, *value) if name == "shape" or name.endswith("_shape") else value


def next_axis(axis: int) -> int:
    return axis if axis < 0 else axis + 1


def one_by_one(step: Step, given: list, batched: list[bool], size: int) -> tuple[Tensor, ...]:
    """Run an op on one example after the other."""
    runs = []
    for k in range(size):
        inputs = [slice_(x, index=(k,)) if b else x for x, b in zip(given, batched, strict=True)]
        out = call(step.op, inputs, step.attrs)
        runs.append(out if isinstance(out, tuple) else (out,))
    if not runs:
        return tuple(no_examples(x, given) for x in step.results)
    return tuple(stacked(parts) for parts in zip(*runs, strict=True))


def no_examples(value: Traced, given: list) -> Tensor:
    """The results for no examples; gradients flow through them, and are zeros."""
    shape = (0, *value.shape)
    out = full(shape=shape, value=0, dtype=value.dtype, device=value.device)
    if not mode.word & GRAD or value.dtype.kind != "f":
        return out
    for x in given:
        if isinstance(x, Tensor) and x.node is not None:
            nothing = slice_(reshape(x, shape=(x.size,)), index=(slice(0, 0),))
            out = add(out, cast(reshape(nothing, shape=shape), dtype=value.dtype))
    return out


def stacked(parts: tuple[Tensor, ...]) -> Tensor:
    return concat(*(reshape(x, shape=(1, *x.shape)) for x in parts), axis=0)
