"""Reads recorded nodes into plain descriptions."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from .. import backends
from .._core.node import RELEASED, Joint, Node, Output
from .._core.tensor import Tensor, describe
from .._engine.graph_walks import reachable
from .._foundation.dtypes import FROM_NUMPY, show
from .._foundation.errors import ArgumentError, DTypeError, GradientError
from .._foundation.formatting import show_bytes
from .._foundation.trees import leaves
from .._trace.recording import plain
from .kept import Ledger, saved_by_name

LONGEST_ATTRIBUTE = 40
PLAIN = (int, float, str, slice, type(None), np.dtype)


class Entry(NamedTuple):
    """One recorded node.

    `name`: the name that was given to it, or its number. `inputs`: the names of the nodes that
    gradients go on to. `shape`, `dtype`: of the result; tuples for an op with several, named by
    `outputs`. `bytes`: what it alone keeps for backward; `shared`: what others counted before it.
    `call`: the op with its inputs and attributes, as far as they were kept. `marks`: hooks,
    retained gradients, and whether what it kept was released.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    shape: Any
    dtype: Any
    outputs: tuple[str, ...]
    bytes: int
    shared: int
    is_leaf: bool
    call: str
    marks: tuple[str, ...]

    def __str__(self) -> str:
        shares = [f"shares {show_bytes(self.shared)}"] if self.shared else []
        notes = ", ".join([*self.keeps(), *shares, *self.marks])
        what = "leaf" if self.is_leaf else f"= {self.call}"
        return f"{self.typed()} {what}" + (f"  {notes}" if notes else "")

    def typed(self) -> str:
        """The results with their types."""
        parts = zip(self.outputs or (self.name,), show_types(self.shape, self.dtype), strict=True)
        return ", ".join(f"%{name} : {type_}" for name, type_ in parts)

    def own_name(self, output: str) -> str:
        """The name of an output without that of the op."""
        return output.removeprefix(f"{self.name}.")

    def keeps(self) -> list[str]:
        return [f"keeps {show_bytes(self.bytes)}"] if self.bytes else []

    def notes(self) -> list[str]:
        """What a picture says besides op and type."""
        return [*self.keeps(), *self.marks]


def show_types(shape: Any, dtype: Any) -> list[str]:
    """The type of each result, as in float32[2, 3]."""
    several = zip(shape, dtype, strict=True) if isinstance(dtype, tuple) else [(shape, dtype)]
    return [f"{dtype.name}{list(shape)}" for shape, dtype in several]


def result_types(node: Node) -> tuple[Any, Any]:
    """Shape and dtype of the result, or tuples of them."""
    if not isinstance(node, Joint):
        return node.shape, FROM_NUMPY[node.dtype]
    if len(node.shape) == 1:
        return node.shape[0], FROM_NUMPY[node.dtype[0]]
    return node.shape, tuple(FROM_NUMPY[dtype] for dtype in node.dtype)


def roots_of(function: str, tensors: Any) -> list[Node]:
    """The nodes of the tensors in a nesting; those without a graph are left out."""
    found = list(leaves(tensors))
    for x in found:
        if not isinstance(x, Tensor):
            raise DTypeError(
                f"{function}: a tensor, or tensors in tuples, lists and dicts, are needed, "
                f"got {type(x).__name__}"
            )
    if not found:
        raise ArgumentError(f"{function}: there is no tensor in {tensors!r}")
    nodes = [x.node for x in found if x.node is not None]
    if not nodes:
        what = f"this tensor ({describe(found[0])})" if len(found) == 1 else "any of the tensors"
        raise GradientError(
            f"{function}: nothing was recorded for {what}: it was computed from tensors that don't "
            "require grad, under no_grad, or detached; call x.requires_grad_() on a tensor before "
            "computing with it"
        )
    return nodes


class Reader:
    """Names the nodes below some roots, and describes them, oldest first."""

    def __init__(self, roots: list[Node], names: Mapping[str, Tensor] | None) -> None:
        everything = reachable(roots)
        self.nodes = [node for node in everything if not isinstance(node, Output)]
        self.given = given_names(names or {})
        numbered = enumerate(self.nodes)
        self.names = {node: self.given.get(node, str(number)) for number, node in numbered}
        self.outputs: dict[Node, tuple[str, ...]] = {
            node: self.output_names(node) for node in self.nodes if isinstance(node, Joint)
        }
        for node in everything:
            if isinstance(node, Output):
                outputs = self.outputs[node.parents] or (self.names[node.parents],)
                self.names[node] = outputs[node.plan.output]
        self.marks: dict[Node, list[str]] = {}
        for node in everything:
            if node.extra is not None:
                self.mark(node)
        self.ledger = Ledger(self.nodes)

    def output_names(self, node: Joint) -> tuple[str, ...]:
        """What the results are called, if there are several; a single one is called as the op."""
        known = [self.given.get(x and x()) for x in node.outputs]  # type: ignore[arg-type]
        if len(known) == 1:
            self.names[node] = known[0] or self.names[node]
            return ()
        declared = node.plan.op.outputs
        words = declared if len(declared) == len(known) else map(str, range(len(known)))
        own = [f"{self.names[node]}.{word}" for word in words]
        for name in self.given.values():
            if name in own:
                raise ArgumentError(f"names: {name!r} is the name of an output of {node.name}")
        return tuple(name or other for name, other in zip(known, own, strict=True))

    def mark(self, node: Node) -> None:
        """Note what hangs on a node; on an output, at the op that it comes from."""
        owner = node.parents if isinstance(node, Output) else node
        of = ""
        if owner is not node and self.outputs[owner]:
            of = f" of {self.names[node].removeprefix(f'{self.names[owner]}.')}"
        self.marks.setdefault(owner, []).extend(mark + of for mark in marks_of(node))

    def entries(self) -> Iterator[Entry]:
        for node in self.nodes:
            kept = self.ledger.kept(node)
            own = sum([x.bytes for x in kept if x.is_counted])
            shared = sum([x.bytes for x in kept if x.note == "shared"])
            yield self.entry(node, own, shared)

    def entry(self, node: Node, own: int, shared: int) -> Entry:
        shape, dtype = result_types(node)
        inputs = tuple([self.names[parent] for parent in node.inputs])
        return Entry(
            name=self.names[node],
            op=node.name,
            inputs=inputs,
            shape=shape,
            dtype=dtype,
            outputs=self.outputs.get(node, ()),
            bytes=own,
            shared=shared,
            is_leaf=node.plan is None,
            call="" if node.plan is None else call_text(node, inputs),
            marks=(*self.marks.get(node, ()), *states_of(node)),
        )


def given_names(names: Mapping[str, Any]) -> dict[Node, str]:
    """Node -> name, for the tensors that have a node; in a nested dict names are joined by dots."""
    if not isinstance(names, Mapping) or any(isinstance(name, Tensor) for name in names):
        raise DTypeError('names is a dict such as {"w": w}: the name first, then the tensor')
    given: dict[Node, str] = {}
    for name, tensor in names.items():
        if isinstance(tensor, Mapping):
            inner = given_names({f"{name}.{key}": x for key, x in tensor.items()})
            given = inner | given
            continue
        if not isinstance(tensor, Tensor):
            raise DTypeError(f"names: {name!r} must be a tensor, got {type(tensor).__name__}")
        if not isinstance(name, str) or not name or name.isdigit() or not name.isprintable():
            raise ArgumentError(
                f"names: {name!r} can't name a tensor: printable text is needed, and no number, "
                "because nodes without a name are numbered"
            )
        if tensor.node is not None:
            given.setdefault(tensor.node, name)
    return given


def marks_of(node: Node) -> Iterator[str]:
    extra: Any = node.extra
    for count, what in (len(extra.hooks), "hook"), (len(extra.post_hooks), "post-accumulate hook"):
        if count:
            yield f"{count} {what}{'s' * (count > 1)}"
    if extra.retains and extra.retains() is not None:
        yield "retains grad"


def states_of(node: Node) -> Iterator[str]:
    if node.plan is not None and node.plan.recomputes:
        yield "runs again in backward"
    if node.saved is RELEASED:
        yield "released"


def call_text(node: Node, inputs: Iterable[str]) -> str:
    """The op as it was called; `_` stands for an input of which nothing was kept."""
    plan, known, names = node.plan, saved_by_name(node), iter(inputs)
    needs = [True] * len(node.inputs) if plan.recomputes else plan.needs
    arguments = [
        f"%{next(names)}" if need else constant_text(plan, k, known) for k, need in enumerate(needs)
    ]
    while arguments and arguments[-1] == "None":
        arguments.pop()
    for name, value in known.items():
        if name in plan.op.attributes and is_short(value):
            arguments.append(f"{name}={plain(value)}")
    return f"{plan.op.name}({', '.join(arguments)})"


def constant_text(plan: Any, position: int, known: dict[str, Any]) -> str:
    """An input that needs no gradient: a number, or a type, if the node keeps it."""
    name = plan.op.input_name(position)
    if name in plan.absent:
        return "None"
    value: Any = known.get(name)
    if isinstance(value, tuple):
        value = value[position - len(plan.op.inputs) + 1]
    if not hasattr(value, "dtype"):
        return "_"
    backend = backends.LOADED.get(type(value))
    if value.shape or backend is None:
        return f"{show(value.dtype)}{list(value.shape)}"
    return str(backend.to_numpy(value)[()])


def is_short(value: Any) -> bool:
    """Whether an attribute helps the reader more than it takes room."""
    if isinstance(value, (tuple, list)) and len(value) > LONGEST_ATTRIBUTE // 2:
        return False
    return all(isinstance(x, PLAIN) for x in leaves(value)) and (
        len(plain(value)) <= LONGEST_ATTRIBUTE
    )
