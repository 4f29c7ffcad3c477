"""Tracing: run a function on arrays without values, and keep what it did as a Graph.

While a function is traced every op is recorded, also those on tensors from outside: the mode
decides, not the arguments. Tensors from outside become captures, read anew at every replay; those
that the function changes (parameters, `.grad`s, the random state) are put back by the replay.
Whatever the function did to them while it was traced is undone at the end, also if it raises.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from . import backends
from ._apply import apply, explained
from ._dtypes import SCALAR_RANK, show
from ._errors import ArgumentError, DeviceError, DTypeError, ShapeError, TraceError
from ._modes import GRAD, TRACE, mode, no_grad
from ._node import Leaf, next_order
from ._op import Op, dtype_of
from ._shapes import Shape, infer_dtypes, infer_shapes
from ._tensor import Tensor, describe, journal, share, wrap
from ._tree import DiffersError, leaves, map_tree, side_by_side


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

    In a trace for vmap, `attached` says of each input whether gradients flow on from it.
    """

    op: Op
    inputs: tuple
    attrs: dict[str, Any]
    results: tuple[Traced, ...]
    attached: tuple[bool, ...] = ()

    def __repr__(self) -> str:
        attrs = [f"{key}={plain(value)}" for key, value in self.attrs.items()]
        call = f"{self.op.name}({', '.join([*map(repr, self.inputs), *attrs])})"
        return f"{', '.join(result.typed() for result in self.results)} = {call}"


def plain(value: Any) -> str:
    """An attribute's value, short."""
    return value.name if isinstance(value, np.dtype) else repr(value)


class Slot(NamedTuple):
    """Where a graph reads or writes: a tensor from outside, or an input by its number, or either's
    `.grad`."""

    owner: Tensor | int
    grad: bool = False

    def tensor(self, inputs: list[Tensor]) -> Tensor:
        return inputs[self.owner] if isinstance(self.owner, int) else self.owner

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

    def write(self, inputs: list[Tensor], value: Tensor | None) -> None:
        tensor = self.tensor(inputs)
        if self.grad:
            tensor.grad = value
        elif value is not None:
            journal(tensor)
            tensor.raw = value.raw

    def __repr__(self) -> str:
        owner = f"input {self.owner}" if isinstance(self.owner, int) else "a tensor"
        return f"the .grad of {owner}" if self.grad else owner


class Before(NamedTuple):
    """A tensor as it was before the trace touched it."""

    tensor: Tensor
    raw: Any
    node: Any
    grad: Tensor | None

    def restore(self) -> None:
        self.tensor.raw, self.tensor.node, self.tensor._grad = self.raw, self.node, self.grad


class Trace:
    """A recording; what runs in its `with` block is recorded, and undone at the end."""

    def __init__(self) -> None:
        self.start = next_order()
        self.outer: Trace | None = mode.trace
        self.mark = object()
        self.steps: list[Step] = []
        self.captures: dict[int, tuple[Traced, Slot]] = {}
        self.before: dict[int, Before] = {}
        self.grads: dict[int, Traced | None] = {}  # `.grad`s met: what stands for them, if read
        self.without_grad: list[Slot] = []  # whose `.grad` was read, and was None
        self.stand_ins: dict[int, Tensor] = {}  # tensors that are arguments: what stands for them
        self.number = itertools.count()
        self.former: tuple[int, Trace | None] = mode.word, mode.trace

    def __enter__(self) -> "Trace":
        self.former = mode.word, mode.trace
        mode.word, mode.trace = mode.word | TRACE, self
        return self

    def __exit__(self, *exception: object) -> None:
        mode.word, mode.trace = self.former
        self.undo()

    def undo(self) -> None:
        for before in self.before.values():
            before.restore()

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
        if op.forward is not None and op.kind != "elementwise":
            results = self.inline(op, inputs, attrs)
        else:
            results = self.step(op, lifted, attrs)
        return self.typed(op, lifted), results

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
        self.steps.append(Step(op, tuple(lifted), dict(attrs), results, attached))
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
        if type(data) is Traced and not (self.outer and self.outer.known(data)):
            raise TraceError.escaped("trace")
        if id(tensor) in self.stand_ins:
            raise_alias(tensor)
        if id(tensor) not in self.captures:
            self.captures[id(tensor)] = self.like(tensor), Slot(tensor)
        return self.captures[id(tensor)][0]

    def known(self, data: Traced) -> bool:
        return self.owns(data) or bool(self.outer and self.outer.known(data))

    def constant(self, data: Any) -> Tensor:
        """A tensor around data that the traced function brought along."""
        return wrap(self.lift(wrap(data)))

    def share(self, tensor: Tensor) -> Tensor:
        """Another tensor with the same values."""
        return wrap(self.lift(tensor))

    def journal(self, tensor: Tensor) -> None:
        """A tensor is about to change: remember how it was."""
        self.remember(tensor)

    def remember(self, tensor: Tensor) -> Before:
        tensor = tensor._owner()
        if id(tensor) in self.stand_ins:
            raise_alias(tensor)
        now = Before(tensor, tensor.raw, tensor.node, tensor._grad)
        return now if self.owns(tensor.raw) else self.before.setdefault(id(tensor), now)

    def written_grad(self, tensor: Tensor) -> None:
        """A tensor's `.grad` is about to be set: what it was before doesn't matter any more."""
        self.journal(tensor)
        if id(tensor) in self.before:
            self.grads.setdefault(id(tensor), None)

    def read_grad(self, tensor: Tensor) -> None:
        """A tensor's `.grad` is about to be read: in its place comes one that is read at replay."""
        before = self.remember(tensor)
        if id(tensor) in self.grads or id(tensor) not in self.before:
            return
        self.grads[id(tensor)] = None
        slot = Slot(tensor, grad=True)
        if before.grad is None:
            self.without_grad.append(slot)
        else:
            value = self.grads[id(tensor)] = self.like(before.grad)
            tensor._grad = wrap(value)
            self.captures[id(value)] = value, slot

    def argument(self, tensor: Tensor, position: int) -> Tensor:
        """A tensor without values that stands for an argument."""
        value = self.stand_ins[id(tensor)] = wrap(self.like(tensor))
        if tensor.requires_grad:
            value.node = Leaf(value)
        if tensor._grad is not None:
            grad = self.grads[id(value)] = self.like(tensor._grad)
            value._grad = wrap(grad)
            self.captures[id(grad)] = grad, Slot(position, grad=True)
        return value

    def changes(self, arguments: list[tuple[Tensor, Before]]) -> list[tuple[Slot, Traced | None]]:
        """What the function did to tensors from outside and to its arguments."""
        owners: list[tuple[Tensor | int, Before]] = [(b.tensor, b) for b in self.before.values()]
        owners += [(k, before) for k, (_, before) in enumerate(arguments)]
        out: list[tuple[Slot, Traced | None]] = []
        for owner, before in owners:
            tensor = before.tensor
            if tensor.raw is not before.raw:
                out.append((Slot(owner), self.lift(tensor)))
            grad, start = tensor._grad, self.grads.get(id(tensor))
            untouched = grad is before.grad and start is None
            if not untouched and (grad is None or grad.raw is not start):
                out.append((Slot(owner, grad=True), None if grad is None else self.lift(grad)))
        return out


def check_static(op: Op) -> None:
    if op.dynamic_shape:
        raise TraceError(
            f"{op.name}: the shape of its result depends on values, which aren't known while a "
            "function is traced; use ad.where with a mask instead"
        )


def raise_alias(tensor: Tensor) -> None:
    raise TraceError(
        f"trace: a tensor ({describe(tensor)}) that is an argument of the function is also used "
        "from outside of it; use it in one of the two ways"
    )


class Graph:
    """A traced function: print it to read it, call it to run it. Results carry no graph.

    >>> x = ad.tensor([1.0, 2.0])
    >>> graph = ad.trace(lambda x: (x * x).sum(), x)
    >>> graph
    graph(%0 : float32[2])
      %1 : float32[2] = multiply(%0, %0)
      %2 : float32[] = sum(%1, axis=(0,), keepdims=False)
      return %2
    >>> graph(ad.tensor([3.0, 4.0]))
    tensor(25.)
    """

    def __init__(self, trace: Trace, arguments: Any, inputs: list, outputs: Any, writes: list):
        self.arguments = arguments
        self.inputs: list[Traced] = inputs
        self.captures: list[tuple[Traced, Slot]] = list(trace.captures.values())
        self.steps = trace.steps
        self.outputs = outputs
        self.writes: list[tuple[Slot, Traced | None]] = writes
        self.without_grad = trace.without_grad
        self.last_uses = last_uses(self)

    def __repr__(self) -> str:
        lines = [f"graph({', '.join(value.typed() for value in self.inputs)})"]
        lines += [f"  {value.typed()} = {slot}" for value, slot in self.captures]
        lines += [f"  {step}" for step in self.steps]
        lines += [f"  {slot} := {value}" for slot, value in self.writes]
        lines.append(f"  return {self.outputs!r}")
        return "\n".join(lines)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the recorded ops on these arguments; they must be like those it was traced with."""
        inputs = self.match((args, kwargs))
        for slot in self.without_grad:
            tensor = slot.tensor(inputs)
            if tensor.grad is not None:
                raise TraceError(
                    f"graph: {slot} ({describe(tensor)}) was None when the function was traced, "
                    "but isn't now; set it to None first, or trace again"
                )
        with no_grad():
            values = dict(zip(self.inputs, inputs, strict=True))
            values |= {value: slot.read(inputs) for value, slot in self.captures}
            # Values from outside may be replaced by writes: hold them as they are now.
            values = {key: share(tensor) for key, tensor in values.items()}
            for step, dead in zip(self.steps, self.last_uses, strict=True):
                given = [values[x] if type(x) is Traced else x for x in step.inputs]
                out = apply(step.op, given, step.attrs)
                results = (out,) if step.op.single_result else out
                values |= zip(step.results, results, strict=True)
                for value in dead:
                    del values[value]
            for slot, value in self.writes:
                slot.write(inputs, None if value is None else wrap(values[value].raw))
            return map_tree(lambda x: wrap(values[x].raw) if type(x) is Traced else x, self.outputs)

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
        held = {id(slot.owner) for _, slot in self.captures}
        held |= {id(slot.owner) for slot, _ in self.writes}
        distinct = len({id(x) for x in given.values()}) == len(given)
        shared = not distinct or held & {id(x) for x in given.values()}
        if not same or (self.writes and shared):
            raise TraceError(
                "graph: two arguments, or an argument and a tensor that the function uses from "
                "outside, are one tensor now but weren't when it was traced, or the other way round"
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


def last_uses(graph: Graph) -> list[list[Traced]]:
    """For each step the values that nothing reads after it."""
    kept = {x for x in leaves(graph.outputs) if isinstance(x, Traced)}
    kept |= {value for _, value in graph.writes if value is not None}
    out: list[list[Traced]] = []
    for step in reversed(graph.steps):
        used = dict.fromkeys(x for x in (*step.inputs, *step.results) if type(x) is Traced)
        out.append([x for x in used if x not in kept])
        kept.update(used)
    return out[::-1]


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
    recording = Trace()
    arguments: list[tuple[Tensor, Before]] = []

    def stand_in(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        known = recording.stand_ins.get(id(x))
        if known is not None:
            return known
        value = recording.argument(x, len(arguments))
        arguments.append((x, Before(value, value.raw, value.node, value._grad)))
        return value

    given = map_tree(stand_in, (args, kwargs))
    with recording:
        out = function(*given[0], **given[1])
        outputs = map_tree(lambda x: recording.lift(x) if isinstance(x, Tensor) else x, out)
        writes = recording.changes(arguments)
    for position, (_, before) in enumerate(arguments):
        if before.grad is None and before.tensor._grad is not None:
            recording.without_grad.append(Slot(position, grad=True))
    inputs = [before.raw for _, before in arguments]
    shown = {id(x): before.raw for x, before in arguments}
    pattern = map_tree(lambda x: shown[id(x)] if isinstance(x, Tensor) else x, (args, kwargs))
    return Graph(recording, pattern, inputs, outputs, writes)
