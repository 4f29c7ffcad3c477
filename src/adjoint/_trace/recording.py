"""Tracing: run a function on arrays without values, and keep what it did.

While a function is traced every op is recorded, also those on tensors from outside: the mode
decides, not the arguments. Tensors from outside become captures, read anew at every replay; those
that the function changes (parameters, `.grad`s, the random state) are put back by the replay.
Whatever the function did to them while it was traced is undone at the end, also if it raises.
"""

import itertools
import math
import weakref
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from .. import backends
from .._core.declaration import Op
from .._core.execute import explained
from .._core.node import HookHandle, Leaf, Node, next_order
from .._core.plan import dtype_of
from .._core.promotion import constant
from .._core.shape_inference import Shape, infer_dtypes, infer_shapes
from .._core.tensor import Tensor, describe, wrap
from .._foundation.blocks import Block, all_of, ends
from .._foundation.dtypes import SCALAR_RANK, show
from .._foundation.errors import GradientError, TraceError
from .._foundation.modes import GRAD, TRACE, mode, no_grad
from .._foundation.numbers import Number
from ..primitives.shapes import reshape


class Traced:
    """A raw array of which only shape, dtype and device are known; `mark` tells whose it is."""

    __slots__ = ("device", "dtype", "mark", "name", "shape")

    def __array_ufunc__(self, *_: Any, **__: Any) -> Any:
        raise TraceError.escaped("trace")

    def __init__(self, name: str, shape: Shape, dtype: np.dtype, device: str, mark: object) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.mark = mark

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __repr__(self) -> str:
        return f"%{self.name}"

    def typed(self) -> str:
        return f"{self} : {show(self.dtype)}{list(self.shape)}"


class Step(NamedTuple):
    """One recorded op: its inputs are Traced arrays, Python scalars or None.

    `attached`: for each input, whether it has a gradient outside of the traced function. `run`: in
    which further run of a checkpoint's function it was, if not 0.
    """

    op: Op
    inputs: tuple
    attrs: dict[str, Any]
    results: tuple[Traced, ...]
    attached: tuple[bool, ...] = ()
    run: float = 0

    @property
    def name(self) -> str:
        """The name of an op of ours: users may have given it to one of theirs, too."""
        return "" if self.op.is_self_made else self.op.name

    def __repr__(self) -> str:
        attrs = [f"{key}={plain(value)}" for key, value in self.attrs.items()]
        call = f"{self.op.name}({', '.join([*map(repr, self.inputs), *attrs])})"
        return f"{', '.join(result.typed() for result in self.results)} = {call}"


def plain(value: Any) -> str:
    """An attribute's value, short."""
    return value.name if isinstance(value, np.dtype) else repr(value)


class Slot(NamedTuple):
    """Where a graph reads or writes: a tensor from outside, which may be known weakly, or an input
    by its number, or either's `.grad`. Random states count from the end of the inputs."""

    owner: "Tensor | weakref.ref[Tensor] | int"
    grad: bool = False

    def tensor(self, inputs: list[Tensor]) -> Tensor:
        owner = self.owner
        if isinstance(owner, int):
            return inputs[owner]
        if isinstance(owner, Tensor):
            return owner
        tensor = owner()
        if tensor is None:
            raise TraceError(
                "graph: a tensor from outside, which the function used when it was recorded, isn't "
                "there any more; record the function again"
            )
        return tensor

    def read(self, inputs: list[Tensor]) -> Tensor:
        tensor = self.tensor(inputs)
        if not self.grad:
            return tensor
        if tensor.grad is None:
            raise TraceError(
                f"graph: a tensor ({describe(tensor)}) had a .grad when the function was traced, "
                "but has none now"
            )
        return tensor.grad

    @property
    def is_argument(self) -> bool:
        return isinstance(self.owner, int) and self.owner >= 0

    def __repr__(self) -> str:
        owner = f"input {self.owner}" if self.is_argument else "a tensor"
        return f"the .grad of {owner}" if self.grad else owner


class Before(NamedTuple):
    """A tensor as it was before the trace touched it."""

    tensor: Tensor
    raw: Any
    node: Any
    grad: Tensor | None


class Trace(Block):
    """A recording; what runs in its `with` block is recorded, and undone at the end."""

    watch: Any = None  # what sees how Python objects are read and changed

    def __init__(self) -> None:
        self.start = next_order()
        self.outer: Trace | None = mode.trace
        self.mark = object()
        self.steps: list[Step] = []
        self.captures: dict[int, tuple[Traced, Slot]] = {}
        self.before: dict[int, Before] = {}
        self.grads: dict[int, Traced | None] = {}  # `.grad`s met: what stands for them, if read
        self.assigned: set[int] = set()  # tensors whose `.grad` was set
        self.without_grad: dict[Slot, None] = {}  # whose `.grad` was read, and was None
        self.with_grad: dict[Slot, None] = {}  # whose `.grad` was read, and was there
        self.stand_ins: dict[int, Tensor] = {}  # tensors that are arguments: what stands for them
        self.arguments: list[tuple[Tensor, Before]] = []  # and as these were at first
        self.number = itertools.count()
        self.leads_outside: dict[Node, bool] = {}  # of nodes: whether one that was there before
        self.changes_seen = 0  # of tensors from outside
        self.impure: dict[Traced, str] = {}  # results of ops whose forward did more than compute
        self.generators: dict[int, Any] = {}  # by the ids of their states
        self.states: dict[Any, tuple[Traced, Tensor]] = {}  # by generator: at first, and now
        self.below: dict[int, Tensor] = {}  # by position: what computed arguments are computed from
        self.former = mode.word, mode.trace, mode.draws
        self.calls_at_end: list[tuple] = []

    def __enter__(self) -> "Trace":
        word, trace, draws = self.former = mode.word, mode.trace, mode.draws
        self.calls_at_end.append((setattr, mode, "word", word))
        self.calls_at_end.append((setattr, mode, "trace", trace))
        self.calls_at_end.append((setattr, mode, "draws", draws))
        end = all_of(self.calls_at_end)
        ends.stack += (end,)
        mode.word, mode.trace, mode.draws = word | TRACE, self, self
        return self

    def new(self, shape: Shape, dtype: np.dtype, device: str) -> Traced:
        return Traced(str(next(self.number)), shape, dtype, device, self.mark)

    def like(self, tensor: Tensor) -> Traced:
        return self.new(tensor.raw.shape, tensor.raw.dtype, tensor.device)

    def owns(self, data: Any) -> bool:
        return type(data) is Traced and data.mark is self.mark

    def record(self, op: Op, inputs: Any, attrs: dict) -> tuple[list, tuple]:
        """Note down an op; returns its inputs, as rules will see them, and its results."""
        check_static(op)
        lifted = [self.lift(x) if isinstance(x, Tensor) else x for x in inputs]
        attached = self.attachments(inputs)
        if op.forward is not None and op.kind != "elementwise":
            results = self.record_forward(op, inputs, attrs, lifted, attached)
        else:
            results = self.step(op, lifted, attrs, attached)
        return self.typed(op, lifted), results

    def record_forward(
        self, op: Op, inputs: Any, attrs: dict, lifted: list, attached: tuple[bool, ...]
    ) -> tuple:
        """The results of an op whose forward is written in ops: these are the steps, or the op
        itself is where gradients may be recorded, as it has a rule of its own."""
        count, changes_seen = len(self.steps), self.changes_seen
        results = self.inline(op, inputs, attrs)
        if not op.differentiable or not mode.word & GRAD:
            return results
        if self.changes_seen > changes_seen or any(s.op.random for s in self.steps[count:]):
            self.impure.update(dict.fromkeys(results, op.name))
            return results
        del self.steps[count:]
        results = tuple(self.new(x.shape, x.dtype, x.device) for x in results)
        return self.noted(op, lifted, attrs, results, attached)

    def attachments(self, inputs: Any) -> tuple[bool, ...]:
        if not mode.word & GRAD:
            return (False,) * len(inputs)
        return tuple([isinstance(x, Tensor) and self.is_attached(x) for x in inputs])

    def is_attached(self, tensor: Tensor) -> bool:
        """Whether gradients flow from a tensor out of the function: it isn't detached, nor does it
        depend on nothing but leaves that the function made for itself."""
        node, known = tensor.node, self.leads_outside
        if node is None:
            return False
        if node in known:
            return known[node]
        stack = [node]
        while stack:
            node = stack[-1]
            inputs = () if node.order > self.start else node.inputs
            waiting = [parent for parent in inputs if parent not in known]
            if waiting and node not in known:
                stack += waiting
                continue
            known.setdefault(node, node.order > self.start or any(known[x] for x in inputs))
            stack.pop()
        return known[node]

    def step(self, op: Op, lifted: list, attrs: dict, attached: tuple = ()) -> tuple:
        """Note down an op as one step; returns its results."""
        shape = self.one_shape(op, lifted)
        if shape is not None:
            x = lifted[0]
            results = (Traced(str(next(self.number)), shape, x.dtype, x.device, self.mark),)
        else:
            device = attrs.get("device") or next(x.device for x in lifted if type(x) is Traced)
            shapes = infer_shapes(op, lifted, attrs)
            dtypes = infer_dtypes(op, [dtype_of(x) for x in lifted], attrs, device)
            results = tuple([self.new(s, d, device) for s, d in zip(shapes, dtypes, strict=True)])
        return self.noted(op, lifted, attrs, results, attached)

    def noted(self, op: Op, lifted: list, attrs: dict, results: tuple, attached: tuple) -> tuple:
        """The results of an op that becomes a step."""
        run = 0 if mode.recomputing is None else mode.recomputing.start
        self.steps.append(Step(op, tuple(lifted), dict(attrs), results, attached, run))
        return results

    def one_shape(self, op: Op, lifted: list) -> Shape | None:
        """The shape of the result of most ops: elementwise, of operands of one shape and dtype."""
        if op.kind != "elementwise" or op.dtype is not None or type(lifted[0]) is not Traced:
            return None
        if op.shape is not None or op.real_valued or len(op.promotes) < len(op.inputs):
            return None
        shape = lifted[0].shape
        for x in lifted:
            if type(x) is Traced and x.shape != shape:
                return None
        return shape if op.single_result else None

    def typed(self, op: Op, raw: list) -> list:
        """Scalars with the dtype that they act in, so that rules lose no digits."""
        if not mode.word & GRAD or not any(type(x) in SCALAR_RANK for x in raw):
            return raw
        together = [x for k, x in enumerate(raw) if op.input_name(k) in op.promotes]
        dtype, device = next((x.dtype, x.device) for x in together if hasattr(x, "dtype"))
        try:
            backend = backends.backend(device)
            return [backend.scalar(x, dtype) if type(x) in SCALAR_RANK else x for x in raw]
        except OverflowError as error:
            raise explained(
                op, [wrap(x) if hasattr(x, "dtype") else x for x in raw], error
            ) from None

    def inline(self, op: Op, inputs: Any, attrs: dict) -> tuple:
        """The results of an op whose forward is written in ops: it is traced through."""
        with no_grad():
            out = op.forward(*inputs, **attrs)  # type: ignore[misc]
        return tuple(self.lift(x) for x in ((out,) if isinstance(out, Tensor) else out))

    def lift(self, tensor: Tensor) -> Traced:
        """The traced array behind a tensor; a tensor from outside becomes a capture."""
        data = tensor.raw
        if self.owns(data):
            return data
        tensor = tensor._owner()
        if type(data) is Traced and not (self.outer and self.outer.is_known(data)):
            raise TraceError.escaped("trace")
        if id(tensor) in self.stand_ins:
            self.meet_argument(tensor)
        if id(tensor) not in self.captures:
            self.captures[id(tensor)] = self.like(tensor), Slot(tensor)
        return self.captures[id(tensor)][0]

    def meet_argument(self, tensor: Tensor) -> None:
        """A tensor from outside is one of the arguments, for which another one stands."""
        raise_alias(tensor)

    def meet_computed(self, position: int, tensor: Tensor) -> None:
        """A backward pass came to an argument that was computed: it would go on from there."""
        raise_computed(position, tensor)

    def output(self, x: Any) -> Any:
        """What stands for a leaf of what the function returns."""
        return self.lift(x) if isinstance(x, Tensor) else x

    def lift_number(self, number: Number, dtype: np.dtype, device: str) -> Tensor:
        """A 0-d tensor that has the value of a number."""
        if self.outer is not None:
            return self.outer.lift_number(number, dtype, device)
        return constant(number.fixed(), dtype, device)

    def note_value(self, tensor: Tensor, function: str) -> None:
        """The values of a tensor that isn't traced are read."""
        if self.outer is not None:
            self.outer.note_value(tensor, function)

    def note_made(self, tensors: Iterable[Tensor]) -> None:
        """An op gave these."""

    def note_visit(self, node: Node) -> None:
        """A backward pass went through a node, and let what it saved be."""
        if self.outer is not None:
            self.outer.note_visit(node)

    def note_hook(self, handle: HookHandle, node: Node) -> None:
        """A hook was registered for the gradient at a node."""

    def start_of_function(self, args: tuple, kwargs: dict) -> None:
        """The function is about to be called with these."""

    def end_of_function(self) -> None:
        """The function has returned; what it changed is still so."""

    def is_known(self, data: Traced) -> bool:
        return self.owns(data) or bool(self.outer and self.outer.is_known(data))

    def constant(self, data: Any) -> Tensor:
        """A tensor around data that the traced function brought along."""
        return wrap(self.lift(wrap(data)))

    def share(self, tensor: Tensor) -> Tensor:
        """Another tensor with the same values."""
        out = wrap(self.lift(tensor))
        self.note_made([out])
        return out

    def journal(self, tensor: Tensor) -> None:
        """A tensor is about to change: remember how it was."""
        self.remember(tensor)
        self.changes_seen += id(tensor._owner()) in self.before

    def remember(self, tensor: Tensor) -> Before:
        tensor = tensor._owner()
        if id(tensor) in self.stand_ins:
            self.meet_argument(tensor)
        now = Before(tensor, tensor.raw, tensor.node, tensor._grad)
        if self.owns(tensor.raw):
            return now
        if id(tensor) not in self.before:
            for name in ("raw", "node", "_grad"):
                self.calls_at_end.append((setattr, tensor, name, getattr(tensor, name)))
        return self.before.setdefault(id(tensor), now)

    def journal_grad(self, tensor: Tensor) -> None:
        """A tensor's `.grad` is about to be set: what it was before doesn't matter any more."""
        self.journal(tensor)
        self.assigned.add(id(tensor._owner()))
        if id(tensor) in self.before:
            self.grads.setdefault(id(tensor), None)

    def read_grad(self, tensor: Tensor) -> None:
        """A tensor's `.grad` is about to be read: in its place comes one that is read at replay."""
        before = self.remember(tensor)
        if id(tensor) not in self.before:
            self.read_grad_of_argument(tensor)
        elif id(tensor) not in self.grads:
            self.grads[id(tensor)] = None
            slot = Slot(tensor, grad=True)
            if before.grad is None:
                self.without_grad[slot] = None
            else:
                value = self.grads[id(tensor)] = self.like(before.grad)
                tensor._grad = wrap(value, before.grad.node)
                self.captures[id(value)] = value, slot
                self.with_grad[slot] = None

    def read_grad_of_argument(self, tensor: Tensor) -> None:
        """The same for what stands for an argument, whose `.grad` is there already, if it has one;
        for other tensors nothing is to be done."""
        if id(tensor) not in self.assigned:
            for position, (_, before) in enumerate(self.arguments):
                if before.tensor is tensor:
                    found = self.without_grad if before.grad is None else self.with_grad
                    found[Slot(position, grad=True)] = None

    def require(self, condition: Callable[[], Tensor]) -> None:
        """A condition on values without which the function would raise: a replay doesn't look."""

    def state_of(self, generator: Any) -> Tensor:
        """Where a generator draws from: a stand-in for its state, that no other thread sees; a
        replay asks the generator anew."""
        state = generator._state
        if self.owns(state.raw):
            return state  # the function made it
        if generator not in self.states:
            first = self.like(state)
            self.states[generator] = first, wrap(first)
            self.note_state(generator, first)
        return self.states[generator][1]

    def note_state(self, generator: Any, first: Traced) -> None:
        """A generator is asked for the first time."""
        self.generators[id(generator._state)] = generator
        self.captures[id(first)] = first, Slot(generator._state)

    def argument(self, tensor: Tensor, position: int, requires_grad: bool, grad: bool) -> Tensor:
        """A tensor without values that stands for an argument; `grad`: whether it has one."""
        value = self.stand_ins[id(tensor._owner())] = wrap(self.like(tensor))
        if requires_grad:
            leaf = value if tensor.is_leaf else wrap(value.raw)
            value.node = node = Leaf(leaf)
            self.leads_outside[node] = True
            if leaf is not value:  # the function may assign to it, but not ask for its .grad
                value.node = moved_on(node)
                self.below[position] = leaf
        if grad:
            stand_in = self.grads[id(value)] = self.like(tensor)
            value._grad = wrap(stand_in, None if tensor._grad is None else tensor._grad.node)
            self.captures[id(stand_in)] = stand_in, Slot(position, grad=True)
        return value

    def changes(self) -> list[tuple[Slot, Tensor | None, bool]]:
        """What the function did to tensors from outside and to its arguments: where, what is there
        now, and whether the tensor is the leaf or the result that it was."""
        owners: list[tuple[Tensor | int, Before]] = [(b.tensor, b) for b in self.before.values()]
        owners += [(k, before) for k, (_, before) in enumerate(self.arguments)]
        out: list[tuple[Slot, Tensor | None, bool]] = []
        for owner, before in owners:
            tensor = before.tensor
            if tensor.raw is not before.raw:
                out.append((Slot(owner), tensor, tensor.node is before.node))
            grad, start = tensor._grad, self.grads.get(id(tensor))
            touched = grad is not before.grad or start is not None or id(tensor) in self.assigned
            if touched and (grad is None or grad.raw is not start):
                out.append((Slot(owner, grad=True), grad, True))
        for generator, (first, now) in self.states.items():
            if now.raw is not first:
                out.append((Slot(generator._state), now, True))
        return out


def moved_on(node: Node) -> Node:
    """A node of the same values, on top of another one."""
    plan = reshape.op.plan((True,))  # type: ignore[attr-defined]
    like: Any = np.broadcast_to(np.empty((), node.dtype), node.shape)
    saved = plan.pick((like,), (like,), {"shape": node.shape})
    return Node(plan, node, saved, node.shape, node.dtype)


def check_static(op: Op) -> None:
    if op.dynamic_shape:
        raise TraceError(
            f"{op.name}: the shape of its result depends on values, which aren't known while a "
            "function is traced; use ad.where with a mask instead"
        )


def raise_computed(position: Any, tensor: Tensor) -> None:
    what = tensor.node.name  # type: ignore[union-attr]
    raise GradientError(
        f"graph: the function calls backward(), which would go on from argument {position} "
        f"({describe(tensor)}, computed by {what}) into what that was computed from; return "
        "ad.autograd.grad(...) instead, or pass x.detach().requires_grad_()"
    )


def raise_alias(tensor: Tensor) -> None:
    raise TraceError(
        f"trace: a tensor ({describe(tensor)}) that is an argument of the function is also used "
        "from outside of it; use it in one of the two ways"
    )
