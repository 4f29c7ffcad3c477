"""The recorded graph: nodes that point to the nodes of their inputs, and nothing that points back.

Without cycles, memory is freed by reference counts as soon as the last tensor that needs it goes.
"""

import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from .._foundation.changes import note_change
from .._foundation.modes import PROFILE, mode
from .._foundation.spans import region

# Minus the creation number: a node is newer than, and so ordered before, everything it uses.
next_order = itertools.count(-1, -1).__next__


class Released:
    """What stands in `saved` after a backward that didn't keep the graph."""


RELEASED = Released()


class Node:
    """One recorded op.

    `plan`: the op, specialised to the inputs that need a gradient; None for a leaf.
    `parents`: their nodes: one Node where `plan.single`, else a tuple. `saved`: the raw values that
    the derivative rules name: one value, a tuple, or None. `shape`, `dtype`: of the output (tuples
    for an op with several). `extra`: hooks and the like, None for almost every node.
    """

    __slots__ = ("dtype", "extra", "order", "parents", "plan", "saved", "shape")

    plan: Any
    parents: Any
    saved: Any
    order: int
    shape: Any
    dtype: Any
    extra: "Extra | None"

    def __init__(self, plan, parents, saved, shape, dtype) -> None:
        self.plan = plan
        self.parents = parents
        self.saved = saved
        self.order = next_order()
        self.shape = shape
        self.dtype = dtype
        self.extra = None

    def __lt__(self, other: "Node") -> bool:
        return self.order < other.order

    @property
    def inputs(self) -> "tuple[Node, ...]":
        """The parents, always as a tuple."""
        if self.plan is None:
            return ()
        return (self.parents,) if self.plan.single else self.parents

    @property
    def name(self) -> str:
        return "leaf" if self.plan is None else self.plan.op.name


class Leaf(Node):
    """Where gradients end: it knows its tensor, weakly."""

    __slots__ = ("tensor",)

    def __init__(self, tensor) -> None:
        super().__init__(None, None, None, tensor.raw.shape, tensor.raw.dtype)
        self.tensor = weakref.ref(tensor)


class Argument(Leaf):
    """What an argument of a transform stands on, by itself: a leaf that no tensor has."""

    __slots__ = ("transform",)

    def __init__(self, tensor, transform: str) -> None:
        super().__init__(tensor)
        self.transform = transform


class Joint(Node):
    """The node of an op with several outputs; it finds the nodes of those that are still used."""

    __slots__ = ("__weakref__", "outputs")

    def output(self, position: int, projection: Any) -> "Output":
        """The node of one output."""
        known = self.outputs[position] and self.outputs[position]()
        if known is None:
            known = Output(projection, self, None, self.shape[position], self.dtype[position])
            self.outputs[position] = weakref.ref(known)
        return known


class Output(Node):
    """One output of a Joint node; its parent is that node."""

    __slots__ = ("__weakref__",)

    @property
    def needs_graph(self) -> bool:
        """Whether the rule of its op differentiates the gradient of this output."""
        return self.plan.output in needing_graph.get(self.parents, ())


# Nodes whose rules differentiate gradients that they are given: those of which outputs.
needing_graph: weakref.WeakKeyDictionary[Joint, tuple[int, ...]] = weakref.WeakKeyDictionary()


class Extra:
    """Parts that few nodes have: hooks, a tensor that wants its gradient kept, the user's source
    line, and the exchange that averages a leaf's gradient with those of other processes."""

    __slots__ = ("exchange", "hooks", "post_hooks", "retains", "source")

    def __init__(self) -> None:
        self.exchange: Any = None
        self.hooks: dict[int, Callable] = {}
        self.post_hooks: dict[int, Callable] = {}
        self.retains: Any = None
        self.source: str | None = None


def extra(node: Node) -> Extra:
    """The node's Extra, made on first use."""
    if node.extra is None:
        node.extra = Extra()
    return node.extra


class Exchanging:
    """Whether there may be leaves whose gradients are averaged with those of other processes."""

    has_begun = False


def exchange_by(leaf: Node, exchange: Any) -> None:
    """Let a leaf's gradient go to an exchange as soon as it is complete."""
    Exchanging.has_begun = True
    extra(leaf).exchange = exchange


class HookHandle:
    """Removes its hook; also as a context manager, at the end of the block."""

    def __init__(self, hooks: dict[int, Callable], hook: Callable) -> None:
        self._hooks = hooks
        self._key = next_order()
        hooks[self._key] = hook
        note_change()

    def remove(self) -> None:
        """Take the hook away; doing so twice, or while it runs, is fine."""
        self._hooks.pop(self._key, None)
        note_change()

    def __enter__(self) -> "HookHandle":
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def registered(hooks: dict[int, Callable]) -> Iterator[Callable]:
    """The hooks in order, also while they add and remove hooks."""
    for key in list(hooks):
        if key in hooks:
            yield hooks[key]


def name_of(hook: Callable) -> str:
    return getattr(hook, "__name__", repr(hook))


def call_hook(hook: Callable, *args: Any) -> Any:
    """Call what the user registered; a profile notes it."""
    if not mode.word & PROFILE:
        return hook(*args)
    with region(f"hook {name_of(hook)}", "backward"):
        return hook(*args)
