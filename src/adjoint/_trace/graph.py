"""Graphs: what a trace kept of a function, to be read and run again.

A replay of a graph gives what the function gives, gradients included: steps that gradients flow
through, from a tensor that requires grad to a result, are recorded as they were in the trace.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

import numpy as np

from .._core.declaration import Op
from .._core.execute import apply
from .._core.node import RELEASED, Node
from .._core.promotion import constant
from .._core.tensor import Tensor, describe, journal, share, wrap
from .._engine.graph_walks import reachable
from .._foundation.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    GradientError,
    ShapeError,
    TraceError,
)
from .._foundation.modes import GRAD, mode
from .._foundation.numbers import Number
from .._foundation.trees import DiffersError, leaves, map_tree, side_by_side
from ..primitives.shapes import reshape
from .keys import Same
from .recording import Before, Slot, Step, Trace, Traced, raise_computed
from .settings import Settings

__all__ = ["Graph", "trace"]

Values = dict[Traced, Tensor]


class Result(NamedTuple):
    """A value that outlives a replay. `attached`: gradients flow from it; `retains`: it keeps its.

    `spent`: the op whose result it is, if the function ran backward through it and released the
    graph. Then `sources` are the inputs and captures that it depends on.
    """

    value: Traced
    attached: bool
    retains: bool = False
    spent: Op | None = None
    sources: tuple[Traced, ...] = ()


class Write(NamedTuple):
    """A change of a tensor; `same_node`: it stays the leaf or the constant that it is."""

    slot: Slot
    result: Result | None
    same_node: bool

    def check(self, inputs: list[Tensor]) -> None:
        """A computed tensor can't be changed without its graph, nor get a `.grad`."""
        tensor = self.slot.tensor(inputs)
        if tensor.is_leaf or (self.slot.grad and not self.slot.is_argument):
            return
        if self.slot.grad:
            raise_computed(self.slot.owner, tensor)
        if self.same_node or not mode.word & GRAD:
            raise GradientError(
                f"graph: the function changes {self.slot}, which was computed by "
                f"{tensor.node.name}, without its graph; use x.detach()"  # type: ignore[union-attr]
            )

    def do(self, inputs: list[Tensor], value: Tensor | None) -> None:
        tensor = self.slot.tensor(inputs)
        if self.slot.grad:
            tensor.grad = value
        elif value is not None:
            journal(tensor)
            tensor.raw = value.raw
            if not self.same_node and mode.word & GRAD:
                tensor.node = value.node


class Spent:
    """The plan of a result whose graph the traced function released: backward raises."""

    single = False
    compiled = None
    output = None
    recomputes = True  # so nothing is pruned
    names = ()

    def __init__(self, op: Op) -> None:
        self.op = op


class Graph:
    """A traced function: print it to read it, call it to run it.

    >>> x = ad.tensor([1.0, 2.0])
    >>> graph = ad.trace(lambda x: (x * x).sum(), x)
    >>> graph
    graph(%0 : float32[2])
      %1 : float32[2] = multiply(%0, %0)
      %2 : float32[] = sum(%1, axis=(0,), keepdims=False)
      return %2
    >>> graph(ad.tensor([3.0, 4.0]))
    tensor(25.)

    It can be differentiated as the function can, also with respect to what didn't require grad when
    it was traced: then the function is traced again, once.

    >>> ad.grad(graph)(ad.tensor([3.0, 4.0]))
    tensor([6., 8.])
    """

    def __init__(
        self,
        function: Callable,
        trace: Trace,
        arguments: Any,
        inputs: dict[Traced, Tensor],
        outputs: Any,
        results: list[Result],
        writes: list[Write],
        refusal: str,
    ) -> None:
        streams = list(trace.generators.items())
        place = {key: -1 - k for k, (key, _) in enumerate(streams)}

        def placed(slot: Slot) -> Slot:
            return Slot(place.get(id(slot.owner), slot.owner), slot.grad)

        self.function: Callable | None = function
        self.arguments = arguments
        self.inputs = list(inputs)
        self.generators = [generator for _, generator in reversed(streams)]
        self.steps = trace.steps
        self.outputs = outputs
        self.results = results
        self.writes = [write._replace(slot=placed(write.slot)) for write in writes]
        used = {x for step in self.steps for x in step.inputs if type(x) is Traced}
        used |= {result.value for result in self.kept}
        self.captures = [(v, placed(slot)) for v, slot in trace.captures.values() if v in used]
        self.without_grad = list(trace.without_grad)
        # Those whose `.grad` the function looked at, whatever it did with it.
        self.looked_at = list(trace.with_grad)
        self.last_uses = last_uses(self.steps, {result.value for result in self.kept})
        self.flows = flows(self.steps, self.kept)
        states = [generator._state for generator in self.generators]
        gradients = [slot for _, slot in trace.captures.values() if slot.grad]
        self.with_grad = {slot.owner for slot in gradients if slot.is_argument}
        sources = inputs | {v: slot.read([*inputs.values(), *states]) for v, slot in self.captures}
        # What required grad in the trace: with more than that, other steps may be recorded.
        grad = mode.word & GRAD
        self.required = {v for v, x in sources.items() if grad and x.node is not None}
        self.wider: Graph | None = None
        self.refusal = refusal
        # Numbers that may be others at each run: what stands for them, and who knows them now.
        self.numbers: list[tuple[Traced, Number]] = []
        self.settings: Settings | None = None

    @property
    def kept(self) -> list[Result]:
        return [*self.results, *(w.result for w in self.writes if w.result is not None)]

    def __repr__(self) -> str:
        lines = [f"graph({', '.join(value.typed() for value in self.inputs)})"]
        lines += [f"  {value.typed()} = {slot}" for value, slot in self.captures]
        lines += [f"  {step}" for step in self.steps]
        lines += [f"  {slot} := {result and result.value}" for slot, result, _ in self.writes]
        lines.append(f"  return {self.outputs!r}")
        return "\n".join(lines)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the recorded ops on these arguments; they must be like those it was traced with."""
        inputs = self.match((args, kwargs))
        inputs += [generator._here() for generator in self.generators]
        for slot in self.without_grad:
            tensor = slot.tensor(inputs)
            if tensor.grad is not None:
                raise TraceError(
                    f"graph: {slot} ({describe(tensor)}) was None when the function was traced, "
                    "but isn't now; set it to None first, or trace again"
                )
        sources = dict(zip(self.inputs, inputs, strict=False))
        sources |= {value: slot.read(inputs) for value, slot in self.captures}
        sources |= self.present_numbers()
        requiring = [v for v, x in sources.items() if x.node is not None and mode.word & GRAD]
        if not self.required.issuperset(requiring):
            return self.widened(args, kwargs)(*args, **kwargs)
        for write in self.writes:
            write.check(inputs)
        nodes = {value: sources[value].node for value in requiring}
        # Values from outside may be replaced by writes: hold them as they are now.
        values = {value: wrap(share(x).raw, nodes.get(value)) for value, x in sources.items()}
        self.run(values, bool(nodes))
        kept = [finished(values, result, nodes) for result in self.kept]
        following = iter(kept[len(self.results) :])
        for write in self.writes:
            write.do(inputs, None if write.result is None else next(following))
        following = iter(kept)
        return map_tree(lambda x: next(following) if type(x) is Traced else x, self.outputs)

    def present_numbers(self) -> Values:
        """The numbers as tensors, with their present values."""
        if self.settings is None or not self.numbers:
            return {}
        now = self.settings.read()
        if now is None:
            raise TraceError(
                "graph: a setting isn't what it was when the function was recorded, and the "
                "function did something that depended on it; record it again"
            )
        pairs = zip(self.numbers, now, strict=True)
        return {x: constant(value, x.dtype, x.device) for (x, _), value in pairs}

    def run(self, values: Values, recorded: bool) -> None:
        """Run the steps; those that gradients flow through are recorded if that is wanted."""
        former = mode.word
        recorded = recorded and True in self.flows
        if recorded and self.refusal:
            raise TraceError(self.refusal)
        mode.word = former & ~GRAD
        try:
            for k, (step, dead) in enumerate(zip(self.steps, self.last_uses, strict=True)):
                given = [values[x] if type(x) is Traced else x for x in step.inputs]
                if recorded and self.flows[k]:
                    given = list(map(joined, given, step.attached))
                    mode.word = former
                    out = apply(step.op, given, step.attrs)
                    mode.word = former & ~GRAD
                else:
                    out = apply(step.op, given, step.attrs)
                results = (out,) if step.op.single_result else out
                values |= zip(step.results, results, strict=True)
                for value in dead:
                    del values[value]
        finally:
            mode.word = former

    def widened(self, args: tuple, kwargs: dict) -> "Graph":
        """The graph of the function when it is traced with what requires grad now."""
        if self.function is None:
            raise TraceError(
                "graph: a tensor requires grad now and didn't when the function was recorded; "
                "record it again, or call the graph under ad.no_grad()"
            )
        if self.wider is None:
            wider = record_graph(self.function, args, kwargs, self)
            # It may do more for the sake of gradients, but it must be the same function.
            if not same(self, wider) and not same(
                self, record_graph(self.function, args, kwargs, self, False)
            ):
                raise TraceError(
                    "graph: an argument, or a tensor that the function uses from outside, requires "
                    "grad now and didn't when the function was traced, so it was traced again, and "
                    "did something else; trace it with tensors that require grad, or call the "
                    "graph under ad.no_grad()"
                )
            self.wider = wider
        return self.wider

    def match(self, arguments: Any) -> list[Tensor]:
        """The tensors among the arguments, if they are like the traced ones."""
        try:
            pairs = [(old, new) for _, old, new in side_by_side(self.arguments, arguments)]
        except DiffersError as error:
            raise ArgumentError(
                f"graph: the arguments aren't as they were when it was traced: {error}"
            ) from None
        for position, (old, new) in enumerate(pairs):
            if isinstance(old, Traced) and isinstance(new, Tensor):
                check_argument(position, old, new)
            elif isinstance(old, Same):
                check_object(position, old, new)
            elif isinstance(old, Traced) or not same_constant(old, new):
                raise ArgumentError(
                    f"graph: argument {position} was {old!r} when traced, got {new!r}; only the "
                    "values of tensors may differ"
                )
        given = {old: new for old, new in pairs if isinstance(old, Traced)}
        self.check_aliases(pairs, given)
        return list(given.values())

    def check_aliases(self, pairs: list[tuple], given: dict[Traced, Tensor]) -> None:
        """Which arguments and captures are one tensor must be as it was when traced."""
        same = all(given[old] is new for old, new in pairs if isinstance(old, Traced))
        slots = [slot for _, slot in self.captures] + [write.slot for write in self.writes]
        held = {id(slot.tensor([])) for slot in slots if not isinstance(slot.owner, int)}
        owners = {id(x._owner()) for x in given.values()}
        shared = len(owners) < len(given) or held & owners
        if not same or (self.writes and shared):
            raise TraceError(
                "graph: two arguments, or an argument and a tensor that the function uses from "
                "outside, are one tensor now but weren't when it was traced, or the other way round"
            )


def check_object(position: int, old: Same, new: Any) -> None:
    if old != Same(new):
        raise ArgumentError(
            f"graph: argument {position} was an object ({old}) that the function also uses from "
            "outside, or that isn't a tensor; it must be the same one"
        )


def check_argument(position: int, old: Traced, new: Tensor) -> None:
    what = f"graph: argument {position} was {old.typed()} when traced, got {describe(new)}"
    if new.raw.shape != old.shape:
        raise ShapeError(what)
    if new.raw.dtype != old.dtype:
        raise DTypeError(what)
    if new.device != old.device:
        raise DeviceError(f"{what} on {new.device}, not {old.device}")


def same_constant(old: Any, new: Any) -> bool:
    if type(old) is not type(new):
        return False
    if isinstance(old, np.ndarray):
        return old.dtype == new.dtype and np.array_equal(old, new)
    return old is new or bool(old == new) or (old != old and new != new)


def joined(x: Any, attached: bool) -> Any:
    """An input of a step, without its graph where gradients didn't flow on from it."""
    return x if attached or not isinstance(x, Tensor) or x.node is None else share(x)


def finished(values: Values, result: Result, nodes: dict[Traced, Node | None]) -> Tensor:
    """A value as a tensor of its own, whatever it was made from."""
    found = values[result.value]
    if result.spent is not None:
        parents = tuple(dict.fromkeys(nodes[x] for x in result.sources if x in nodes))
        spent = Node(Spent(result.spent), parents, RELEASED, found.raw.shape, found.raw.dtype)
        return wrap(found.raw, spent if parents else None)
    if result.attached and found.node is not None and found.is_leaf:
        return reshape(found, shape=found.shape)
    out = wrap(found.raw, found.node if result.attached else None)
    if result.retains and out.node is not None:
        out.retain_grad()
    return out


def last_uses(steps: list[Step], wanted: set[Traced]) -> list[list[Traced]]:
    """For each step the values that nothing reads after it."""
    kept = set(wanted)
    out: list[list[Traced]] = []
    for step in reversed(steps):
        used = dict.fromkeys(x for x in (*step.inputs, *step.results) if type(x) is Traced)
        out.append([x for x in used if x not in kept])
        kept.update(used)
    return out[::-1]


def flows(steps: list[Step], wanted: Iterable[Result]) -> list[bool]:
    """For each step whether gradients flow through it to a result."""
    attached = {x.value for x in wanted if x.attached and x.spent is None}
    return attach(steps, attached)


def attach(steps: list[Step], attached: set[Traced]) -> list[bool]:
    """For each step whether gradients flow through it to some values, which are joined by those
    that they come from."""
    out: list[bool] = []
    for step in reversed(steps):
        out.append(not attached.isdisjoint(step.results))
        if out[-1]:
            attached.update(x for x, a in zip(step.inputs, step.attached, strict=True) if a)
    return out[::-1]


def same(graph: Graph, other: Graph) -> bool:
    """Whether two graphs do the same to the same tensors, and to constants of the same values."""
    if repr(graph) != repr(other):
        return False
    pairs = zip(graph.captures, other.captures, strict=True)
    return all(same_owners(one.owner, two.owner) for (_, one), (_, two) in pairs)


def same_owners(x: Any, y: Any) -> bool:
    if isinstance(x, int) or isinstance(y, int):
        return type(x) is type(y) and x == y
    if x is y or type(x.raw) is Traced or type(y.raw) is Traced:
        return x is y
    alike = x.node is None and y.node is None and x.raw.dtype == y.raw.dtype
    return alike and np.array_equal(x._host("graph"), y._host("graph"), x.raw.dtype.kind in "fc")


def trace(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Graph:
    """Record what `function` does with arguments like these, without computing anything.

    Tensors may be nested in tuples, lists and dicts; everything else counts as a constant. The
    function may call `backward` and change tensors: a replay does so too.

    >>> weight = ad.tensor([1.0, 2.0], requires_grad=True)
    >>> def step(x):
    ...     (weight * x).sum().backward()
    ...     with ad.no_grad():
    ...         weight.__isub__(weight.grad)
    ...     weight.grad = None
    >>> graph = ad.trace(step, ad.tensor([0.5, 0.5]))
    >>> graph(ad.tensor([0.5, 0.5]))
    >>> weight
    tensor([0.5, 1.5], requires_grad=True)
    """
    return record_graph(function, args, kwargs)


def record_graph(
    function: Callable,
    args: tuple,
    kwargs: dict,
    former: Graph | None = None,
    wider: bool = True,
    recording: Trace | None = None,
    as_they_are: Collection[int] = (),
) -> Graph:
    """The graph of a function. Arguments that required grad for its `former` graph do so here too;
    others do if it is to be `wider`. Nothing stands for arguments with these ids: the function gets
    them as they are."""
    recording = recording or Trace()
    arguments = recording.arguments

    def stand_in(x: Any) -> Any:
        if not isinstance(x, Tensor) or id(x._owner()) in as_they_are:
            return x
        known = recording.stand_ins.get(id(x._owner()))
        if known is not None:
            if all(argument is not x for argument, _ in arguments):
                recording.meet_argument(x)
            return known
        k = len(arguments)
        requires_grad, grad = wider and x.requires_grad, x._grad is not None
        if former is not None:
            requires_grad = requires_grad or former.inputs[k] in former.required
            grad = k in former.with_grad
        value = recording.argument(x, k, requires_grad, grad)
        arguments.append((x, Before(value, value.raw, value.node, value._grad)))
        return value

    given = map_tree(stand_in, (args, kwargs))
    with recording:
        recording.start_of_function(*given)
        out = function(*given[0], **given[1])
        recording.end_of_function()
        found = [x for x in leaves(out) if isinstance(x, Tensor)]
        outputs = map_tree(recording.output, out)
        changes = recording.changes()
        kept = [as_result(recording, x) for x in found]
        for slot, x, same_node in changes:
            if x is not None:
                found.append(x)
                keeps_node = same_node and not slot.grad
                kept.append(as_result(recording, share(x) if keeps_node else x))
        why_not = refusal(recording, found, kept)
    for position, leaf in recording.below.items():
        if leaf._grad is not None:
            recording.meet_computed(position, arguments[position][0])
    for position, (_, before) in enumerate(arguments):
        if before.grad is None and before.tensor._grad is not None:
            recording.without_grad[Slot(position, grad=True)] = None
    following = iter(kept)
    results = [next(following) for x in leaves(outputs) if type(x) is Traced]
    writes = [
        Write(slot, None if x is None else next(following), same) for slot, x, same in changes
    ]
    inputs = {before.raw: x for x, before in arguments}
    shown = {id(x): before.raw for x, before in arguments}
    pattern = map_tree(lambda x: shown.get(id(x), x), (args, kwargs))
    return Graph(function, recording, pattern, inputs, outputs, results, writes, why_not)


def as_result(recording: Trace, x: Tensor) -> Result:
    """The Result that stands for a tensor that outlives the trace."""
    value, attached = recording.lift(x), recording.is_attached(x)
    extra = x.node and x.node.extra
    retains = bool(extra and extra.retains and extra.retains() is x)
    if not any(node.saved is RELEASED for node in inside(recording, x)):
        return Result(value, attached, retains)
    sources = {value}
    attach(recording.steps, sources)
    op = x.node.plan.op  # type: ignore[union-attr]
    return Result(value, attached, False, op, tuple(sources))


def inside(recording: Trace, x: Tensor) -> list[Node]:
    """The nodes between a result and what was there before the function ran."""
    if not recording.is_attached(x):
        return []
    nodes = reachable([x.node], newer_than=recording.start)  # type: ignore[list-item]
    return [node for node in nodes if recording.leads_outside[node]]


def refusal(recording: Trace, tensors: list[Tensor], kept: list[Result]) -> str:
    """Why what a replay gives can't be differentiated as what the function gives, if so."""
    instead = "call the graph under ad.no_grad(), or the function itself"
    live = [(x, y.value) for x, y in zip(tensors, kept, strict=True) if y.attached and not y.spent]
    attached = {value for _, value in live}
    attach(recording.steps, attached)
    for value in attached & recording.impure.keys():
        return (
            f"graph: {recording.impure[value]}, whose gradient would be recorded, has a forward "
            f"that changes tensors from outside or draws random numbers; {instead}"
        )
    if any(node.extra and node.extra.hooks for x, _ in live for node in inside(recording, x)):
        return (
            "graph: the function registers a hook for the gradient of a tensor that its results "
            f"depend on, which a replay can't run; {instead}"
        )
    return ""
