"""Checkpoints: keep the inputs of a function, and run it again when its gradients are needed.

The first run is recorded as usual. What its results depend on from outside (arguments and tensors
that the function closes over alike) is read off the recorded nodes and becomes the parents of one
node; the others are dropped. In backward the function runs again on tensors that stand on the same
nodes as the arguments did, so that the new nodes simply join the graph that is being run.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import backends
from .._core.declaration import Op
from .._core.node import Joint, Leaf, Node, next_order
from .._core.plan import Projection
from .._core.random_state import Noted, Replayed, drawing
from .._core.tensor import Tensor, share, wrap
from .._engine.graph_walks import reachable
from .._foundation.blocks import Block, all_of, ends
from .._foundation.errors import ArgumentError, DTypeError, GradientError
from .._foundation.modes import ANOMALY, GRAD, mode
from .._foundation.trees import leaves, map_tree

__all__ = ["checkpoint", "checkpoint_sequential"]


def checkpoint(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """The result of `function(*args, **kwargs)`, of which backward keeps only the arguments.

    The function runs again when its gradients are needed, with the same random numbers. Arguments
    and results may be nested in tuples, lists and dicts, with anything else among them. Tensors
    that the function closes over get their gradients too.

    >>> w = ad.tensor([1.0, 2.0], requires_grad=True)
    >>> x = ad.tensor([0.5, 0.25], requires_grad=True)
    >>> y = ad.checkpoint(lambda x: ad.tanh(w * x).sum(), x)
    >>> y.backward()
    >>> w.grad
    tensor([0.3932, 0.1966])
    """
    if not callable(function):
        raise DTypeError(f"checkpoint: a function is needed, got {type(function).__name__}")
    if not mode.word & GRAD:
        return function(*args, **kwargs)
    arguments = kept(args, kwargs)
    start = next_order()
    with drawing(Noted(mode.draws)) as noted:
        out = function(*args, **kwargs)
    recorded = Recording(out, start)
    if not recorded.outputs:
        check_looked_into(out)
        return out
    nodes = stand_ins(recorded, Recomputation(function, arguments, noted.seen, recorded))
    return map_tree(lambda x: outside(x, nodes) if isinstance(x, Tensor) else x, out)


def outside(x: Tensor, nodes: dict[Node, Node]) -> Tensor:
    """A result of the function as the caller gets it."""
    if x.node not in nodes:
        return x
    out = wrap(x.raw, nodes[x.node])
    if x.node.extra is not None and x.node.extra.retains and x.node.extra.retains() is x:
        out.retain_grad()
    return out


PLAIN = (Tensor, np.ndarray, np.generic, str, bytes, int, float, complex, type(None))


def check_looked_into(out: Any) -> None:
    """Results in objects of other kinds would be kept with all that they depend on."""
    for x in leaves(out):
        if not isinstance(x, PLAIN):
            raise DTypeError(
                f"checkpoint: no result that requires grad was found, but a {type(x).__name__}, "
                "which isn't looked into; return tensors, in tuples, lists and dicts"
            )


def checkpoint_sequential(layers: Iterable[Callable], segments: int, x: Any) -> Any:
    """The layers applied one after the other to x, in at most `segments` checkpoints of one length.

    With the square root of the number of layers as `segments`, the memory that backward needs
    grows as that root too.

    >>> x = ad.tensor([0.5, 1.0], requires_grad=True)
    >>> ad.checkpoint_sequential([ad.sin, ad.exp, ad.tanh], 2, x).sum().backward()
    >>> x.grad
    tensor([0.2075, 0.0475])
    """
    if not isinstance(layers, Iterable) or not all(map(callable, layers := list(layers))):
        raise DTypeError(
            "checkpoint_sequential: layers is a sequence of functions, such as [f, g]; got "
            f"{layers!r}"
        )
    if isinstance(segments, bool) or not isinstance(segments, int) or segments < 1:
        raise ArgumentError(
            f"checkpoint_sequential: segments is a positive integer, got {segments!r}"
        )
    length = math.ceil(len(layers) / segments)
    for first in range(0, len(layers), length or 1):
        x = checkpoint(in_sequence, layers[first : first + length], x)
    return x


def in_sequence(layers: list[Callable], x: Any) -> Any:
    for layer in layers:
        x = layer(x)
    return x


class Kept:
    """An argument of a checkpoint as it was: its values, and the node it stands on."""

    __slots__ = ("node", "raw")

    def __init__(self, tensor: Tensor) -> None:
        self.raw = share(tensor).raw
        self.node = tensor.node


def kept(args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """The arguments with tensors replaced; one that occurs twice stays one."""
    known: dict[int, Kept] = {}
    return map_tree(
        lambda x: known.setdefault(id(x), Kept(x)) if isinstance(x, Tensor) else x, (args, kwargs)
    )


class Entry(NamedTuple):
    """What is compared of a node: parents are places in the recording, or nodes from outside."""

    op: str
    shape: Any
    dtype: Any
    parents: tuple[int | Node, ...]

    def __str__(self) -> str:
        return f"{self.op} of shape {self.shape} and dtype {self.dtype}"


class Recording:
    """The nodes that a run of the function made, oldest first, and what they depend on."""

    def __init__(self, out: Any, start: int) -> None:
        self.start = start
        found = (x.node for x in leaves(out) if isinstance(x, Tensor) and x.node is not None)
        self.outputs = [node for node in dict.fromkeys(found) if node.order < start]
        data = {x.node: x.raw for x in leaves(out) if isinstance(x, Tensor)}
        self.fingerprints = [fingerprint(data[node]) for node in self.outputs]
        self.nodes = reachable(self.outputs, newer_than=start)
        place = {node: k for k, node in enumerate(self.nodes)}
        self.entries = [entry(node, place) for node in self.nodes]
        self.places = [place[node] for node in self.outputs]

    def parents(self, outputs: list[Node], inner: set[Node]) -> tuple[Node, ...]:
        """What outputs depend on of nodes from before and of inner outputs, as far as those."""
        seen, stack, found = set(outputs), list(outputs), {}
        while stack:
            for parent in stack.pop().inputs:
                if parent.order > self.start or parent in inner:
                    found[parent] = None
                elif parent not in seen:
                    seen.add(parent)
                    stack.append(parent)
        return tuple(found)


def stand_ins(recorded: Recording, again: "Recomputation") -> dict[Node, Node]:
    """For each output the node that stands for it outside, in place of all that it depends on.

    An output on which another depends has a checkpoint's node of its own, so that the gradients of
    both are what they are without checkpoints; the rest share one. Each node that is reached in
    backward runs the function again.
    """
    used = {parent for node in recorded.nodes for parent in node.inputs}
    inner = sorted((node for node in recorded.outputs if node in used), key=lambda x: -x.order)
    others = [node for node in recorded.outputs if node not in used]
    made: dict[Node, Node] = {}
    for outputs in filter(None, [*([node] for node in inner), others]):
        parents = recorded.parents(outputs, set(inner))
        inside = [recorded.outputs.index(x) if x in made else None for x in parents]
        parents = tuple(made.get(x, x) for x in parents)
        stage = Stage(again, [recorded.outputs.index(x) for x in outputs], parents, inside)
        shapes, dtypes = tuple(x.shape for x in outputs), tuple(x.dtype for x in outputs)
        node = Joint(CHECKPOINT_PLAN, parents, stage, shapes, dtypes)
        node.outputs = [None] * len(outputs)
        for k, output in enumerate(outputs):
            made[output] = node.output(k, Projection(CHECKPOINT_PLAN.op, k))
    return made


@dataclass(slots=True)
class Stage:
    """What a checkpoint's node saves. `outputs`: those of the function's that it stands for.

    `parents`: the node's, when it was made: if it was itself made by a recomputation, others may
    have been put in their place. `inside`: for each, which output of the function it stands for.
    """

    again: "Recomputation"
    outputs: list[int]
    parents: tuple[Node, ...]
    inside: list[int | None]

    @property
    def kept(self) -> list:
        """The raw arrays that are held for the sake of this checkpoint."""
        return self.again.kept

    def recompute(self, node: Node, anomaly: bool) -> list[Node]:
        """Run the function again: the new nodes of the outputs."""
        found = self.again.recompute(anomaly)
        outputs = [found[k] for k in self.outputs]
        instead: dict[Node, Node] = {}
        for then, now, k in zip(self.parents, node.parents, self.inside, strict=True):
            if k is not None:
                instead[found[k]] = now
            elif then is not now:
                instead[then] = now
        graft(outputs, instead, node.order)
        return outputs


def graft(outputs: list[Node], instead: dict[Node, Node], newer_than: float) -> None:
    """Let new nodes depend on other nodes in place of those that they were made with."""
    for node in reachable(outputs, newer_than) if instead else ():
        parents = tuple(instead.get(parent, parent) for parent in node.inputs)
        if parents:
            node.parents = parents[0] if node.plan.single else parents


def entry(node: Node, place: dict[Node, int]) -> Entry:
    parents = tuple(place.get(parent, parent) for parent in node.inputs)
    return Entry(node.name, node.shape, node.dtype, parents)


def fingerprint(data: Any) -> tuple[float, float] | None:
    """What is compared of a result's values; None where looking at them would take long."""
    find = getattr(backends.LOADED.get(type(data)), "fingerprint", None)
    return find and find(data)


def close(then: tuple[float, float], now: tuple[float, float], dtype: Any) -> bool:
    """Whether fingerprints are the same, up to how a sum may be divided among threads."""
    if then == now or not all(map(math.isfinite, (*then, *now))):
        return str(then) == str(now)
    tolerance = min(1e3 * float(np.finfo(dtype).eps), 0.05)
    sums, squares = (abs(a - b) for a, b in zip(then, now, strict=True))
    return sums <= tolerance * math.sqrt(then[1]) and squares <= tolerance * then[1]


class Recomputation:
    """A function that can be run again, and what is needed to see if it does the same."""

    def __init__(
        self,
        function: Callable,
        arguments: tuple[tuple, dict],
        draws: dict[Any, list[Tensor]],
        first: Recording,
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.draws = draws
        self.entries, self.places = first.entries, first.places
        self.fingerprints = first.fingerprints
        given = {id(x.node) for x in leaves(arguments) if type(x) is Kept}
        inputs = {parent for node in first.nodes for parent in node.inputs}
        closed_over = [x for x in inputs if isinstance(x, Leaf) and id(x) not in given]
        tensors = [(x, x.tensor()) for x in closed_over]
        self.closed_over = [(x, tensor.raw) for x, tensor in tensors if tensor is not None]

    @property
    def kept(self) -> list:
        """The raw arrays that are held to run the function again."""
        return [x.raw for x in leaves(self.arguments) if type(x) is Kept]

    def recompute(self, anomaly: bool) -> list[Node]:
        """Run the function again: the nodes of its outputs."""
        self.check_unchanged()
        known: dict[int, Tensor] = {}
        args, kwargs = map_tree(
            lambda x: known.setdefault(id(x), wrap(x.raw, x.node)) if type(x) is Kept else x,
            self.arguments,
        )
        with drawing(Replayed(self.draws)), recomputing(anomaly) as second:
            out = self.function(*args, **kwargs)
        again = Recording(out, second.start)
        self.check_same(again)
        return again.outputs

    def check_unchanged(self) -> None:
        for leaf, data in self.closed_over:
            tensor = leaf.tensor()
            if tensor is not None and tensor.raw is not data:
                raise GradientError(
                    f"checkpoint: a tensor of shape {leaf.shape} that the function closes over was "
                    "changed between the forward and the backward pass, so running the function "
                    "again would give something else; change it after backward, or pass it as an "
                    "argument: arguments are kept as they were"
                )

    def check_same(self, again: Recording) -> None:
        for k, (then, now) in enumerate(zip(self.entries, again.entries, strict=False)):
            if then != now:
                what = f"op {k} was {then}, now it is {now}"
                if then[:3] == now[:3]:
                    what = f"the inputs of op {k}, {then}, are others now"
                raise_differs(what)
        if len(self.entries) != len(again.entries) or self.places != again.places:
            shorter, longer = sorted((self.entries, again.entries), key=len)
            extra = f", the first more being {longer[len(shorter)]}" if longer != shorter else ""
            raise_differs(
                f"it recorded {len(self.entries)} ops and returned the results of ops "
                f"{self.places}, now {len(again.entries)} and {again.places}{extra}"
            )
        pairs = zip(self.fingerprints, again.fingerprints, again.outputs, strict=True)
        for k, (then, now, node) in enumerate(pairs):
            if then and now and not close(then, now, node.dtype):
                raise_differs(f"the same ops gave other values in result {k}, by {node.name}")


def raise_differs(what: str) -> None:
    raise GradientError(
        f"checkpoint: the function did something else when it ran again for backward: {what}; it "
        "must depend on nothing but its arguments, tensors and arrays that don't change, and "
        "ad.random (a function made in a loop sees the loop's variables as they are at its end)"
    )


class CheckpointPlan:
    """The plan of every checkpoint's node: its gradients come from running a function again."""

    op = Op("checkpoint", "other", {}, inputs="*xs", differentiable=False)
    single = False
    compiled = None
    output = None
    recomputes = True
    names = ()


CHECKPOINT_PLAN = CheckpointPlan()


class recomputing(Block):
    """Within it a function runs again: its ops are recorded as they were at first.

    `start`: since when. The hooks that it registers for what was there before are removed at the
    end, by `calls_at_end`.
    """

    def __init__(self, anomaly: bool) -> None:
        self.sets = GRAD | (ANOMALY if anomaly else 0)
        self.start = next_order()
        self.calls_at_end: list[tuple] = []

    def __enter__(self) -> "recomputing":
        word = mode.word
        self.calls_at_end.append((setattr, mode, "word", word))
        self.calls_at_end.append((setattr, mode, "recomputing", mode.recomputing))
        end = all_of(self.calls_at_end)
        ends.stack += (end,)
        mode.word, mode.recomputing = word | self.sets, self
        return self
