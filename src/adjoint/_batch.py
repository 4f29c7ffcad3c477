"""vmap: a function of one example becomes a function of many.

The function is traced once, on stand-ins for one example. Then the recorded ops are run on all
examples at once, their axis before all others, each op in the way that it declares. What is run
are ordinary ops: gradients are recorded as anywhere, and another vmap can trace them.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from . import backends
from ._apply import apply
from ._dtypes import canonical
from ._errors import ArgumentError, AxisError, DTypeError, GradientError, ShapeError, TraceError
from ._modes import GRAD, TRACE, mode
from ._node import Leaf
from ._op import Op
from ._operands import lift
from ._tensor import Tensor, describe, journal, share, wrap
from ._trace import Slot, Step, Trace, Traced
from ._tree import leaves, map_tree, under
from .primitives.creation import full
from .primitives.reductions import repeated
from .primitives.shapes import concat, lined_up, permute_dims, reshape, slice_

Axes = Any  # an int, None, or a container of these
Values = dict[Traced, Tensor]


def vmap(function: Callable[..., Any], in_axes: Axes = 0, out_axes: Axes = 0) -> Callable[..., Any]:
    """A function of one example as a function of many, computed all at once.

    `in_axes` says along which axis of each positional argument the examples lie: an int, None for
    what all examples share, or a tuple of these, one for each argument (for an argument that is a
    container, also a container of these). In keyword arguments they lie along axis 0. `out_axes`
    says so of the result; None is for what is the same for all examples.

    >>> distances = ad.vmap(lambda x, y: ad.sqrt(ad.square(x - y).sum()), in_axes=(0, None))
    >>> distances(ad.asarray([[3.0, 4.0], [6.0, 8.0]]), ad.zeros(2))
    tensor([ 5., 10.])

    Gradients inside are those of each example, here with respect to what all examples share:

    >>> w = ad.tensor([1.0, 2.0], requires_grad=True)
    >>> def gradient(x):
    ...     return ad.autograd.grad(ad.square(w @ x), w)[0]
    >>> ad.vmap(gradient)(ad.asarray([[1.0, 0.0], [0.0, 1.0]]))
    tensor([[2., 0.],
            [0., 4.]])

    The function is traced, so a Python `if` can't depend on values; `ad.where` can. Every example
    draws its own random numbers; draw them outside for numbers that all examples share. Tensors
    from outside can be changed, once and not once per example, to what is the same for all of them.
    Hooks that the function registers run for gradients that it takes itself. An op that isn't
    declared with `batch=` (see `ad.op`) is run on one example after the other.
    """
    if not callable(function):
        raise DTypeError(f"vmap: a function is needed, got {function!r}")
    for axis in (*leaves(in_axes), *leaves(out_axes)):
        if axis is not None and type(axis) is not int:
            raise DTypeError(f"vmap: an axis is an int or None, got {axis!r}")

    @functools.wraps(function, updated=())
    def mapped(*args: Any, **kwargs: Any) -> Any:
        return over_examples(function, mapped_leaves(args, kwargs, in_axes), out_axes, args, kwargs)

    return mapped


class Mapped(NamedTuple):
    """A leaf of the arguments, and the axis along which its examples lie; None: they share it."""

    leaf: Any
    axis: int | None
    path: tuple

    @property
    def place(self) -> str:
        first, *inner = self.path
        name = f"argument {first}" if isinstance(first, int) else f"keyword argument {first!r}"
        return name + "".join(f"[{key!r}]" for key in inner)

    @property
    def described(self) -> str:
        return f"{self.place} ({describe(self.leaf)})"


class Kept(NamedTuple):
    """A value that outlives the trace, and whether gradients flow from it."""

    value: Traced
    attached: bool


class Write(NamedTuple):
    """A change of a tensor from outside; `same_node`: it stays the leaf or constant that it is."""

    slot: Slot
    kept: Kept | None
    same_node: bool


def mapped_leaves(args: tuple, kwargs: dict, in_axes: Axes) -> list[Mapped]:
    """The leaves of the arguments in order, each with its axis, counted from the start."""
    if isinstance(in_axes, (tuple, list)):
        if len(in_axes) != len(args):
            raise ArgumentError(
                f"vmap: in_axes={in_axes} is for {len(in_axes)} positional arguments, the function "
                f"was called with {len(args)}"
            )
        in_axes = tuple(in_axes)
    elif isinstance(in_axes, dict):
        raise ArgumentError(f"vmap: in_axes is an int, None or a tuple, got {in_axes!r}")
    found = [*under("vmap: in_axes", in_axes, args), *under("vmap: in_axes", 0, kwargs)]
    out = [normalized(Mapped(leaf, axis, path)) for axis, leaf, path in found]
    if all(entry.axis is None for entry in out):
        raise ArgumentError(
            f"vmap: no argument is mapped: in_axes={in_axes}, and there are {len(args)} positional "
            f"and {len(kwargs)} keyword arguments; at least one tensor needs an axis"
        )
    return out


def normalized(entry: Mapped) -> Mapped:
    leaf, axis, path = entry
    if axis is None or leaf is None:
        return Mapped(leaf, None, path)
    tensor = as_tensor(leaf)
    if tensor is None:
        raise DTypeError(
            f"vmap: {entry.place} is {leaf!r}, not a tensor, so it has no axis {axis}; pass it on "
            "as it is with None in in_axes"
        )
    if not -tensor.ndim <= axis < tensor.ndim:
        what = Mapped(tensor, axis, path).described
        raise AxisError(f"vmap: {what} has {tensor.ndim} axes, so none of them is axis {axis}")
    return Mapped(tensor, axis % tensor.ndim, path)


def as_tensor(leaf: Any) -> Tensor | None:
    if isinstance(leaf, np.ndarray):
        return lift(backends.backend("cpu").from_numpy(canonical(leaf)))
    return leaf if isinstance(leaf, Tensor) else None


def common_size(entries: list[Mapped]) -> int:
    """The number of examples."""
    sizes = [(e, e.leaf.shape[e.axis]) for e in entries if e.axis is not None]
    if len({size for _, size in sizes}) > 1:
        what = ", ".join(f"{e.described} has {size} along axis {e.axis}" for e, size in sizes)
        raise ShapeError(f"vmap: arguments don't have the same number of examples: {what}")
    return sizes[0][1]


def moved(x: Tensor, start: int, stop: int) -> Tensor:
    """x with one axis moved to another place."""
    if start == stop:
        return x
    axes = [k for k in range(x.ndim) if k != start]
    axes.insert(stop, start)
    return permute_dims(x, axes=tuple(axes))


class Result(NamedTuple):
    """A leaf of what the function returned, and the axis that the examples shall lie along."""

    leaf: Any
    axis: int | None
    path: tuple
    kept: Kept | None  # None: it is passed on as it is

    @property
    def place(self) -> str:
        return "the result" + "".join(f"[{key!r}]" for key in self.path)


class Traces(NamedTuple):
    """What a function did for one example; `values` has what it was given, for all of them."""

    steps: list[Step]
    values: Values
    out: Any
    results: list[Result]
    writes: list[Write]

    @property
    def wanted(self) -> list[Kept]:
        return [x.kept for x in (*self.results, *self.writes) if x.kept is not None]


def over_examples(
    function: Callable, entries: list[Mapped], out_axes: Axes, args: tuple, kwargs: dict
) -> Any:
    """Trace the function for one example, and run what it did on all of them."""
    size = common_size(entries)
    steps, values, out, results, writes = once = traced(function, entries, out_axes, args, kwargs)
    run(scheduled(steps, once.wanted), values, size)
    for write in writes:
        check_write(write, values)
    for write in writes:
        put(write, values)
    finished = iter([finish(values, result, size) for result in results])
    return map_tree(lambda _: next(finished), out)


def traced(
    function: Callable, entries: list[Mapped], out_axes: Axes, args: tuple, kwargs: dict
) -> Traces:
    """Run the function on stand-ins for one example."""
    stacks = [None if e.axis is None else moved(e.leaf, e.axis, 0) for e in entries]
    recording = Trace(for_gradients=True)
    with recording:
        wholes = [None if x is None else stand_in(recording, x) for x in stacks]
        given = [e.leaf if w is None else example(w) for e, w in zip(entries, wholes, strict=True)]
        values = {one.data: x for one, x in zip(given, stacks, strict=True) if x is not None}
        recording.steps.clear()
        following = iter(given)
        own_args, own_kwargs = map_tree(lambda _: next(following), (args, kwargs))
        out = function(*own_args, **own_kwargs)
        results = [
            Result(leaf, axis, path, keep(recording, leaf, axis, path))
            for axis, leaf, path in under("vmap: out_axes", out_axes, out)
        ]
        writes = [as_write(recording, slot, value) for slot, value in recording.changes([])]
    check_backward(entries, wholes)
    values |= {value: slot.read([]) for value, slot in recording.captures.values()}
    return Traces(recording.steps, values, out, results, writes)


# What goes in: stand-ins for one example.


def stand_in(recording: Trace, x: Tensor) -> Tensor:
    """All examples, without values."""
    whole = wrap(recording.like(x))
    if x.node is not None:
        whole.node = Leaf(whole)
        recording.leads_outside[whole.node] = True
    return whole


def example(whole: Tensor) -> Tensor:
    """One example, as x[k] is: also in that it isn't a leaf if x requires grad."""
    return slice_(whole, index=(0,))


def check_backward(entries: list[Mapped], wholes: list[Tensor | None]) -> None:
    for entry, whole in zip(entries, wholes, strict=True):
        if whole is not None and whole._grad is not None:
            raise GradientError(
                f"vmap: the function calls backward(), which would add to the .grad of "
                f"{entry.described} for each example; return ad.autograd.grad(...) instead"
            )


# What comes out.


def keep(recording: Trace, leaf: Any, axis: int | None, path: tuple) -> Kept | None:
    """What stands for a leaf of the result; None for one that is passed on as it is."""
    if leaf is None or (axis is None and not isinstance(leaf, Tensor)):
        return None
    tensor = as_tensor(leaf)
    if tensor is None:
        raise DTypeError(
            f"vmap: {Result(leaf, axis, path, None).place} is {leaf!r}, not a tensor, so it can't "
            f"have axis {axis}; return a tensor, or pass it on with None in out_axes"
        )
    return Kept(recording.lift(tensor), recording.attached(tensor))


def finish(values: Values, result: Result, size: int) -> Any:
    """A result with its examples along the axis that was asked for."""
    if result.kept is None:
        return result.leaf
    out, axis, rank = value_of(values, result.kept), result.axis, len(result.kept.value.shape)
    if axis is None:
        if out.ndim > rank:
            raise ArgumentError(
                f"vmap: out_axes has None for {result.place}, {describe(out)} with the axis of the "
                "examples: it isn't the same for all of them; give it an axis"
            )
        return out
    if not -rank - 1 <= axis <= rank:
        raise AxisError(
            f"vmap: {result.place} has {rank + 1} axes with that of the examples, so none of them "
            f"is axis {axis} of out_axes"
        )
    return moved(out if out.ndim > rank else repeated(out, size), 0, axis % (rank + 1))


def value_of(values: Values, kept: Kept) -> Tensor:
    """What was kept, as a tensor of its own, whatever it was made from."""
    found = values[kept.value]
    if kept.attached and found.node is not None and found.is_leaf:
        return reshape(found, shape=found.shape)
    out = share(found)
    out.node = found.node if kept.attached else None
    return out


def as_write(recording: Trace, slot: Slot, value: Traced | None) -> Write:
    tensor: Any = slot.owner
    before = recording.before[id(tensor)]
    changed = tensor._grad if slot.grad else tensor
    kept = None if value is None else Kept(value, recording.attached(changed))
    return Write(slot, kept, not slot.grad and tensor.node is before.node)


def check_write(write: Write, values: Values) -> None:
    if write.kept is None or values[write.kept.value].ndim == len(write.kept.value.shape):
        return
    tensor: Any = write.slot.owner
    raise TraceError(
        f"vmap: the function changes {write.slot} from outside ({describe(tensor)}) to something "
        "that isn't the same for all examples; return the new value instead"
        + (", as ad.autograd.grad(...) does" if write.slot.grad else "")
    )


def put(write: Write, values: Values) -> None:
    """Let a tensor from outside change as the function changed it."""
    tensor: Any = write.slot.owner
    value = None if write.kept is None else value_of(values, write.kept)
    if write.slot.grad:
        tensor.grad = value
    elif value is not None:
        journal(tensor)
        tensor.data = value.data
        if not write.same_node:
            tensor.node = value.node


# Running the steps on all examples. A value has the axis of the examples, before all others, if it
# has one axis more than what stood for it in the trace.


class Task(NamedTuple):
    """A step to run, whether with gradients recorded, and the values that it is the last to use."""

    step: Step
    recorded: bool
    dead: list[Traced]


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
            mode.word = former | GRAD if recorded else former & ~GRAD
            results = outcome(step, recorded, values, size)
            values.update(zip(step.results, results, strict=True))
            for value in dead:
                del values[value]
    finally:
        mode.word = former


def outcome(step: Step, recorded: bool, values: Values, size: int) -> tuple[Tensor, ...]:
    """The results of a step for all examples."""
    op, given, batched = step.op, list(step.inputs), [False] * len(step.inputs)
    for k, x in enumerate(step.inputs):
        if type(x) is Traced:
            found = given[k] = values[x]
            batched[k] = len(found.data.shape) > len(x.shape)
            if recorded and found.node is not None and not step.attached[k]:
                given[k] = share(found)
    out: Any = NotImplemented
    if True not in batched and not op.random:
        out = call(op, given, step.attrs)
    elif op.batch == "broadcast":
        out = call(op, given if len(given) == 1 else lined_up(batched, given), step.attrs)
    elif op.batch == "leading":
        out = leading(op, given, batched, step.attrs, size)
    elif callable(op.batch):
        out = op.batch(size, tuple(batched), *given, **step.attrs)
        check_batch(step, out, size)
    if out is NotImplemented:
        return one_by_one(step, given, batched, size)
    return out if isinstance(out, tuple) else (out,)


def check_batch(step: Step, out: Any, size: int) -> None:
    """What an op's own way to batch returned fits the op."""
    if out is NotImplemented:
        return
    shapes = [x.shape for x in (out if isinstance(out, tuple) else (out,))]
    single = [x.shape for x in step.results]
    if len(shapes) != len(single) or any(
        x not in (one, (size, *one)) for x, one in zip(shapes, single, strict=True)
    ):
        raise ShapeError(
            f"{step.op.name}: its batch= function returned shapes {shapes} for {size} examples "
            f"whose results have shapes {single}; the axis of the examples must come first"
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
        return tuple(
            full(shape=(0, *x.shape), value=0, dtype=x.dtype, device=x.device) for x in step.results
        )
    return tuple(stacked(parts) for parts in zip(*runs, strict=True))


def stacked(parts: tuple[Tensor, ...]) -> Tensor:
    return concat(*(reshape(x, shape=(1, *x.shape)) for x in parts), axis=0)
