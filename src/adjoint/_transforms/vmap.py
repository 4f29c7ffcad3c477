"""vmap: a function of one example becomes a function of many.

The function is traced once, on stand-ins for one example: what depends on them is recorded, the
rest computed on the way. Then the recorded ops are run on all examples at once, their axis before
all others, each op in the way that it declares. What is run are ordinary ops: gradients are
recorded as anywhere, and another vmap can trace them.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import backends
from .._core.node import Leaf
from .._core.promotion import placed
from .._core.tensor import Tensor, describe, journal, share, wrap
from .._foundation.dtypes import canonical
from .._foundation.errors import (
    ArgumentError,
    AxisError,
    DTypeError,
    GradientError,
    KeywordError,
    ShapeError,
    TraceError,
)
from .._foundation.trees import map_tree, under
from .._trace.partial import PartialTrace
from .._trace.recording import Slot, Step, Traced
from ..primitives.reductions import repeated
from ..primitives.shapes import permute_dims, reshape, slice_
from .batched_steps import Kept, Task, Values, parted, run, scheduled

__all__ = ["vmap"]

HINTS = {
    "in_dims": "; it is called in_axes=",
    "out_dims": "; it is called out_axes=",
    "randomness": "; every example draws its own numbers, and all share those drawn outside",
    "chunk_size": "; call it on parts of the examples, and ad.concat the results",
}

Axes = Any  # an int, None, or a container of these


def vmap(
    function: Callable[..., Any], in_axes: Axes = 0, out_axes: Axes = 0, **unknown: Any
) -> Callable[..., Any]:
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

    The function is traced on one example, so a Python `if` can't depend on the values of what is
    mapped; `ad.where` can. What all examples share is computed at once, and can be looked at. Every
    example draws its own random numbers from generators made outside; draw outside for numbers that
    all examples share. Tensors from outside can be changed, once and not once per example, to what
    is the same for all of them.
    Hooks that the function registers run for gradients that it takes itself. An op that isn't
    declared with `batch=` (see `ad.op`) is run on one example after the other.
    """
    if not callable(function):
        raise DTypeError(f"vmap: a function is needed, got {short(function)}")
    for name in unknown:
        raise KeywordError(f"vmap: there is no {name}=" + HINTS.get(name, ""))
    in_axes, out_axes = map_tree(as_axis, (in_axes, out_axes))

    @functools.wraps(function, updated=())
    def mapped(*args: Any, **kwargs: Any) -> Any:
        return over_examples(function, mapped_leaves(args, kwargs, in_axes), out_axes, args, kwargs)

    return mapped


def as_axis(axis: Any) -> int | None:
    if axis is None:
        return None
    if isinstance(axis, (bool, np.bool_)) or not hasattr(axis, "__index__"):
        raise DTypeError(f"vmap: an axis is an int or None, got {axis!r}")
    return operator.index(axis)


class Mapped(NamedTuple):
    """A leaf of the arguments, and the axis along which its examples lie; None: they share it."""

    leaf: Any
    axis: int | None
    place: str

    @property
    def described(self) -> str:
        return f"{self.place} ({describe(self.leaf)})"


class Write(NamedTuple):
    """A change of a tensor from outside; `same_node`: it stays the leaf or constant that it is."""

    slot: Slot
    kept: Kept
    same_node: bool


class Stream(NamedTuple):
    """A generator that the function uses: what stands for its state before and after."""

    generator: Any
    first: Traced
    last: Kept


def mapped_leaves(args: tuple, kwargs: dict, in_axes: Axes) -> list[Mapped]:
    """The leaves of the arguments in order, each with its axis, counted from the start."""
    if isinstance(in_axes, dict):
        raise ArgumentError(f"vmap: in_axes is an int, None or a tuple, got {in_axes!r}")
    outlines = in_axes if isinstance(in_axes, (tuple, list)) else [in_axes] * len(args)
    if len(outlines) != len(args):
        raise ArgumentError(
            f"vmap: in_axes={in_axes} is for {len(outlines)} positional arguments, the function "
            f"was called with {len(args)}"
        )
    named = [(outlines[k], arg, f"argument {k}") for k, arg in enumerate(args)]
    named += [(0, arg, f"keyword argument {key!r}") for key, arg in kwargs.items()]
    out = [
        normalized(Mapped(leaf, axis, place))
        for axes, arg, start in named
        for axis, leaf, place in under("vmap: in_axes", axes, arg, start)
    ]
    if all(entry.axis is None for entry in out):
        raise ArgumentError(
            f"vmap: no argument is mapped: in_axes={in_axes}, and there are {len(args)} positional "
            f"and {len(kwargs)} keyword arguments; at least one tensor needs an axis"
        )
    return out


def normalized(entry: Mapped) -> Mapped:
    leaf, axis, place = entry
    if axis is None or leaf is None:
        return Mapped(leaf, None, place)
    tensor = as_tensor(leaf)
    if tensor is None:
        raise DTypeError(
            f"vmap: {place} is {short(leaf)}, not a tensor, so it has no axis {axis}; "
            + (
                "keyword arguments are mapped along axis 0: pass it by position, with None in "
                "in_axes, or bind it with functools.partial"
                if place.startswith("keyword")
                else "pass it on as it is with None in in_axes; lists of numbers can be made "
                "tensors with ad.tensor"
            )
        )
    if not -tensor.ndim <= axis < tensor.ndim:
        what = Mapped(tensor, axis, place).described
        raise AxisError(f"vmap: {what} has {tensor.ndim} axes, so none of them is axis {axis}")
    return Mapped(tensor, axis % tensor.ndim, place)


def short(leaf: Any) -> str:
    """A number or a word as it is, of anything else the type."""
    return repr(leaf) if np.isscalar(leaf) else f"of type {type(leaf).__name__}"


def as_tensor(leaf: Any) -> Tensor | None:
    if isinstance(leaf, np.ndarray):
        return placed(canonical(leaf), backends.DefaultDevice.name)
    return leaf if isinstance(leaf, Tensor) else None


def common_size(entries: list[Mapped]) -> int:
    """The number of examples."""
    mapped = [entry for entry in entries if entry.axis is not None]
    by_size = {entry.leaf.shape[entry.axis]: entry for entry in reversed(mapped)}
    if len(by_size) > 1:
        what = ", ".join(
            f"{entry.described} has {size} along axis {entry.axis}"
            for size, entry in reversed(by_size.items())
        )
        raise ShapeError(f"vmap: arguments don't have the same number of examples: {what}")
    return next(iter(by_size))


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
    place: str
    kept: Kept | None  # None: it is passed on as it is


class Traces(NamedTuple):
    """What a function did for one example; `values` has what it was given, for all of them."""

    steps: list[Step]
    values: Values
    out: Any
    results: list[Result]
    writes: list[Write]
    streams: list[Stream]

    @property
    def wanted(self) -> list[Kept]:
        kept = [x.kept for x in (*self.results, *self.writes) if x.kept is not None]
        return [*kept, *(stream.last for stream in self.streams)]


def over_examples(
    function: Callable, entries: list[Mapped], out_axes: Axes, args: tuple, kwargs: dict
) -> Any:
    """Trace the function for one example, and run what it did on all of them."""
    size = common_size(entries)
    once = trace_example(function, entries, out_axes, args, kwargs)
    first, others = parted(once.steps, {stream.last.value for stream in once.streams})
    tasks, values = scheduled([*first, *others], once.wanted), once.values
    if once.streams:
        draw(once.streams, tasks[: len(first)], values, size)
    run(tasks[len(first) :], values, size)
    for write in once.writes:
        check_write(write, values)
    for write in once.writes:
        put(write, values)
    finished = iter([finish(values, result, size) for result in once.results])
    return map_tree(lambda _: next(finished), once.out)


def draw(streams: list[Stream], tasks: list[Task], values: Values, size: int) -> None:
    """Move generators on; other threads that draw wait for it, but not for the rest of the work."""
    turns = [stream.generator._turn for stream in sorted(streams, key=lambda x: id(x.generator))]
    in_turn(turns, lambda: move_on(streams, tasks, values, size))


def in_turn(turns: list[Any], work: Callable[[], Any]) -> Any:
    """Do something with all locks held; Ctrl-C can't come between taking one and its `with`."""
    if not turns:
        return work()
    with turns[0]:
        return in_turn(turns[1:], work)


def move_on(streams: list[Stream], tasks: list[Task], values: Values, size: int) -> None:
    """Run the tasks that lead to the states in which generators are left."""
    states = [stream.generator._here() for stream in streams]
    values |= {stream.first: share(x) for stream, x in zip(streams, states, strict=True)}
    run(tasks, values, size)
    for stream, state in zip(streams, states, strict=True):
        last = values[stream.last.value]
        if last.shape != state.shape:
            raise TraceError(
                "vmap: the function moves a random generator from outside to a state that "
                "isn't the same for all examples; make one inside: ad.random.Generator(0)"
            )
        journal(state)
        state.raw = share(last).raw


def trace_example(
    function: Callable, entries: list[Mapped], out_axes: Axes, args: tuple, kwargs: dict
) -> Traces:
    """Run the function on stand-ins for one example; what it changed is undone."""
    stacks = [None if e.axis is None else moved(e.leaf, e.axis, 0) for e in entries]
    recording = PartialTrace()
    with recording:
        try:
            try:
                return record_example(recording, function, entries, stacks, out_axes, args, kwargs)
            finally:
                recording.undo()
        finally:
            recording.undo()  # all of it, if Ctrl-C came while it was done


def record_example(
    recording: PartialTrace,
    function: Callable,
    entries: list[Mapped],
    stacks: list[Tensor | None],
    out_axes: Axes,
    args: tuple,
    kwargs: dict,
) -> Traces:
    """Call the function with stand-ins; return its steps, results, writes and random streams."""
    wholes = [None if x is None else stand_in(recording, x) for x in stacks]
    given = [e.leaf if w is None else example(w) for e, w in zip(entries, wholes, strict=True)]
    values = {one.raw: x for one, x in zip(given, stacks, strict=True) if x is not None}
    recording.steps.clear()
    following = iter(given)
    own_args, own_kwargs = map_tree(lambda _: next(following), (args, kwargs))
    out = function(*own_args, **own_kwargs)
    results = [
        Result(leaf, axis, place, keep(recording, leaf, axis, place))
        for axis, leaf, place in under("vmap: out_axes", out_axes, out, "the result")
    ]
    writes = [as_write(recording, slot, x) for slot, x in recording.unknown_changes()]
    streams = [
        Stream(generator, first, Kept(recording.kept(now), False))
        for generator, (first, now) in recording.states.items()
    ]
    check_backward(entries, wholes)
    values |= dict(recording.constants.values())
    return Traces(recording.steps, values, out, results, writes, streams)


# What goes in: stand-ins for one example.


def stand_in(recording: PartialTrace, x: Tensor) -> Tensor:
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


def keep(recording: PartialTrace, leaf: Any, axis: int | None, place: str) -> Kept | None:
    """What stands for a leaf of the result; None for one that is passed on as it is."""
    if leaf is None or (axis is None and not isinstance(leaf, Tensor)):
        return None
    tensor = as_tensor(leaf)
    if tensor is None:
        raise DTypeError(
            f"vmap: {place} is {short(leaf)}, not a tensor, so it can't have axis {axis}; return a "
            "tensor, or pass it on with None in out_axes"
        )
    return Kept(recording.kept(tensor), recording.is_attached(tensor))


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


def as_write(recording: PartialTrace, slot: Slot, changed: Tensor) -> Write:
    tensor: Any = slot.owner
    kept = Kept(recording.kept(changed), recording.is_attached(changed))
    return Write(slot, kept, tensor.node is recording.before[id(tensor)].node)


def check_write(write: Write, values: Values) -> None:
    if values[write.kept.value].ndim == len(write.kept.value.shape):
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
    value = value_of(values, write.kept)
    if write.slot.grad:
        tensor.grad = value
        return
    journal(tensor)
    tensor.raw = value.raw
    if not write.same_node:
        tensor.node = value.node
