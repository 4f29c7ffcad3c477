"""Checkpoints: keep the inputs of a function, and run it again when its gradients are needed.

The first run is recorded as usual. What its results depend on from outside (arguments and tensors
that the function closes over alike) is read off the recorded nodes and becomes the parents of one
node; the others are dropped. In backward the function runs again on tensors that stand on the same
nodes as the arguments did, so that the new nodes simply join the graph that is being run.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ._errors import ArgumentError, DTypeError, GradientError
from ._lookahead import reachable
from ._modes import ANOMALY, GRAD, mode
from ._node import Joint, Leaf, Node, next_order
from ._op import Op, Projection
from ._tensor import Tensor, share, wrap
from ._tree import leaves, map_tree


def checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
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
        return out
    again = Recomputation(function, arguments, noted.before, recorded)
    shapes = tuple(output.shape for output in recorded.outputs)
    dtypes = tuple(output.dtype for output in recorded.outputs)
    node = Joint(PLAN, recorded.parents, again, shapes, dtypes)
    node.outputs = [None] * len(recorded.outputs)
    position = {output: k for k, output in enumerate(recorded.outputs)}

    def outside(x: Any) -> Any:
        if not isinstance(x, Tensor) or x.node not in position:
            return x
        k = position[x.node]
        return wrap(x.data, node.output(k, Projection(PLAN.op, k)))

    return map_tree(outside, out)


def checkpoint_sequential(layers: Sequence[Callable], segments: int, x: Any) -> Any:
    """The layers applied one after the other to x, in about `segments` checkpoints of equal length.

    With the square root of the number of layers as `segments`, the memory that backward needs
    grows as that root too.

    >>> x = ad.tensor([0.5, 1.0], requires_grad=True)
    >>> ad.checkpoint_sequential([ad.sin, ad.exp, ad.tanh], 2, x).sum().backward()
    >>> x.grad
    tensor([0.2075, 0.0475])
    """
    layers = list(layers)
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

    __slots__ = ("data", "node")

    def __init__(self, tensor: Tensor) -> None:
        self.data = share(tensor).data
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
        found = (x.node for x in leaves(out) if isinstance(x, Tensor) and x.node is not None)
        self.outputs = [node for node in dict.fromkeys(found) if node.order < start]
        self.nodes = reachable(self.outputs, newer_than=start)
        place = {node: k for k, node in enumerate(self.nodes)}
        self.entries = [entry(node, place) for node in self.nodes]
        self.places = [place[node] for node in self.outputs]
        inputs = (parent for node in self.nodes for parent in node.inputs)
        self.parents = tuple(dict.fromkeys(node for node in inputs if node not in place))


def entry(node: Node, place: dict[Node, int]) -> Entry:
    parents = tuple(place.get(parent, parent) for parent in node.inputs)
    return Entry(node.name, node.shape, node.dtype, parents)


class Recomputation:
    """What a checkpoint's node saves: enough to run its function again and to see if it differs."""

    def __init__(
        self,
        function: Callable,
        arguments: tuple[tuple, dict],
        draws: dict[Any, Tensor],
        first: Recording,
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.draws = draws
        self.entries, self.places = first.entries, first.places
        given = {id(x.node) for x in leaves(arguments) if type(x) is Kept}
        closed_over = [x for x in first.parents if isinstance(x, Leaf) and id(x) not in given]
        tensors = [(x, x.tensor()) for x in closed_over]
        self.closed_over = [(x, tensor.data) for x, tensor in tensors if tensor is not None]

    @property
    def kept(self) -> list:
        """The raw arrays that are held for the sake of this checkpoint."""
        return [x.data for x in dict.fromkeys(leaves(self.arguments)) if type(x) is Kept]

    def recompute(self, anomaly: bool) -> tuple[list[Node], list[Node]]:
        """Run the function again: the nodes of its outputs, and all of its nodes, oldest first."""
        self.check_unchanged()
        known: dict[int, Tensor] = {}
        args, kwargs = map_tree(
            lambda x: known.setdefault(id(x), wrap(x.data, x.node)) if type(x) is Kept else x,
            self.arguments,
        )
        with drawing(Replayed(self.draws)), recomputing(anomaly) as start:
            out = self.function(*args, **kwargs)
        again = Recording(out, start)
        self.check_same(again)
        return again.outputs, again.nodes

    def check_unchanged(self) -> None:
        for leaf, data in self.closed_over:
            tensor = leaf.tensor()
            if tensor is not None and tensor.data is not data:
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


def raise_differs(what: str) -> None:
    raise GradientError(
        f"checkpoint: the function did something else when it ran again for backward: {what}; it "
        "must depend on nothing but its arguments, tensors that don't change, and ad.random (a "
        "function made in a loop sees the variables of the loop as they are at its end)"
    )


class Plan:
    """The plan of every checkpoint's node: its gradients come from running a function again."""

    op = Op("checkpoint", "other", {}, inputs="*xs", differentiable=False)
    single = False
    compiled = None
    output = None
    recomputes = True
    names = ()


PLAN = Plan()


# Random numbers: a generator asks `mode.draws`, if there is one, for the state to go on from.


class Noted:
    """During the first run: remembers where each generator was when it was first asked."""

    def __init__(self, outer: Any) -> None:
        self.outer = outer
        self.before: dict[Any, Tensor] = {}

    def state_of(self, generator: Any) -> Tensor:
        state = generator._state if self.outer is None else self.outer.state_of(generator)
        if generator not in self.before:
            self.before[generator] = share(state)
        return state


class Replayed:
    """When the function runs again: every generator goes on from where it was, for this alone."""

    def __init__(self, before: dict[Any, Tensor]) -> None:
        self.states = {generator: share(state) for generator, state in before.items()}

    def state_of(self, generator: Any) -> Tensor:
        if generator not in self.states:
            self.states[generator] = share(generator._state)
        return self.states[generator]


@contextmanager
def drawing(draws: Any) -> Any:
    former, mode.draws = mode.draws, draws
    try:
        yield draws
    finally:
        mode.draws = former


@contextmanager
def recomputing(anomaly: bool) -> Any:
    """The function's ops are recorded as they were at first."""
    former = mode.word, mode.recomputing
    start = mode.recomputing = next_order()
    mode.word |= GRAD | (ANOMALY if anomaly else 0)
    try:
        yield start
    finally:
        mode.word, mode.recomputing = former
