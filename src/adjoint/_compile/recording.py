"""Recording a function so that nothing is frozen silently, and nothing kept alive."""

import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .._core.declaration import Op
from .._core.execute import scalar_dtype
from .._core.node import HookHandle, Node
from .._core.tensor import Tensor, describe, wrap
from .._foundation.errors import TraceError
from .._foundation.lines import line_of
from .._foundation.modes import no_grad
from .._foundation.numbers import Number
from .._foundation.trees import leaves
from .._trace.graph import Graph, record_graph
from .._trace.recording import Trace, Traced
from .._trace.settings import Settings
from ..primitives.conversions import cast
from ..primitives.elementwise import logical_not
from ..primitives.reductions import max_
from .captures import hold_weakly
from .journal import HOOKS, ONCE
from .notes import Notes, hooks_of
from .watching import Later, Watch, run_watched, uninstall

WRONG = np.dtype(np.float32)  # of what is 0 where a requirement holds: kernels find the largest


@dataclass(eq=False)
class Recorded:
    """A recorded function. `numbers` stand for settings in the graph, `settings.read()` gives their
    values; `actions` are to be called after each run; `watched.changed()` says what isn't as the
    recording saw it. `captured_arguments`, by their places among the tensors of the arguments, are
    used as captures. Where `requirements` aren't 0 the function would raise.
    """

    graph: Graph
    numbers: list[tuple[Traced, Number]]
    settings: Settings
    actions: list[tuple[Later, tuple, dict]]
    watched: Notes
    captured_arguments: dict[int, "weakref.ref[Tensor]"]
    requirements: list[Traced]


class Uncompilable(Exception):
    """Why a function is run eagerly."""


OUTSIDE = "it runs backward through what was computed before it was called"


class CapturedArgument(BaseException):
    """An argument that the function also uses from outside; no `except Exception` may catch it."""


class Recording(Trace):
    """A trace in which settings are Numbers, and Python objects are watched."""

    def __init__(self) -> None:
        super().__init__()
        self.settings = Settings()
        self.watch = Watch(self.settings, self.calls_at_end)
        self.numbers: dict[Any, tuple[Traced, Number]] = {}
        self.requirements: list[Traced] = []
        self.made: list[weakref.ref[Tensor]] = []  # results of ops
        self.goes_outside = False  # whether a backward pass went through nodes from before

    def record(self, op: Op, inputs: Any, attrs: dict) -> tuple[list, tuple]:
        if [x for x in inputs if isinstance(x, Number)]:
            device, *_ = [x.device for x in inputs if isinstance(x, Tensor)]
            dtype = scalar_dtype(op, inputs)
            lift = partial(self.lift_number, dtype=dtype, device=device)
            lift = Number.fixed if dtype is None else lift
            inputs = [lift(x) if isinstance(x, Number) else x for x in inputs]
        attrs = {k: x.fixed() if isinstance(x, Number) else x for k, x in attrs.items()}
        return super().record(op, inputs, attrs)

    def lift_number(self, number: Number, dtype: np.dtype, device: str) -> Tensor:
        if number.ledger is not self.settings.ledger:
            raise TraceError.escaped("compile")
        key = number.place, dtype, device
        if key not in self.numbers:
            self.numbers[key] = self.new((), dtype, device), number
        return wrap(self.numbers[key][0])

    @no_grad()
    def require(self, condition: Callable[[], Tensor]) -> None:
        wrong = cast(logical_not(condition()), dtype=WRONG)
        if wrong.size:
            axes = tuple(range(wrong.ndim))
            self.requirements.append(self.lift(max_(wrong, axis=axes, keepdims=False)))

    def output(self, x: Any) -> Any:
        if isinstance(x, Iterator | Awaitable | AsyncIterator):
            close = getattr(x, "close", None)
            if close:
                close()  # before it runs
            raise TraceError(
                f"the function returns a {type(x).__name__}, which would run once, and later; "
                "return a list or a tuple"
            )
        return x.fixed() if isinstance(x, Number) else super().output(x)

    def meet_argument(self, tensor: Tensor) -> None:
        raise CapturedArgument(tensor._owner())

    def meet_computed(self, position: int, tensor: Tensor) -> None:
        self.goes_outside = True

    def note_made(self, tensors: Iterable[Tensor]) -> None:
        self.made += map(weakref.ref, tensors)

    def note_visit(self, node: Node) -> None:
        self.goes_outside |= node.order > self.start
        super().note_visit(node)

    def note_hook(self, handle: HookHandle, node: Node) -> None:
        if node.order > self.start:  # it was there before the function ran
            journal = self.watch.journal
            journal.keep("a tensor from outside", handle._hooks, HOOKS).pop(handle._key, None)
            journal.note_line(handle._hooks, handle._key)

    def start_of_function(self, args: tuple, kwargs: dict) -> None:
        """Containers among the arguments are copies, in which the caller finds no changes."""
        named = {**{f"argument {k}": x for k, x in enumerate(args)}, **kwargs}
        for name, value in named.items():
            self.watch.journal.keep(name, value)

    def end_of_function(self) -> None:
        self.watch.journal.check()
        for x in (*self.before.values(), *[before for _, before in self.arguments]):
            tensor, requires = x.tensor, x.tensor.requires_grad
            may_lose_graph = tensor.raw is not x.raw and not requires  # as it is written over
            if tensor.is_leaf and not may_lose_graph and requires != (x.node is not None):
                what = f"requires_grad of a tensor ({describe(tensor)}) from outside is changed"
                raise TraceError(what + ONCE + "call requires_grad_() outside")


def record(function: Callable, args: tuple, kwargs: dict) -> Recorded:
    """What a function does with arguments like these; it runs, and nothing is changed by that."""
    given = [x for x in leaves((args, kwargs)) if isinstance(x, Tensor)]
    # Hooks are a tensor's own.
    captured = {id(x._owner()): x._owner() for x in given if hooks_of(x)}
    while True:
        recording = Recording()
        run = partial(run_watched, function, recording.calls_at_end)
        try:
            graph = record_graph(run, args, kwargs, None, True, recording, captured)
            break
        except CapturedArgument as found:
            captured[id(found.args[0])] = found.args[0]
        except TraceError as error:
            explain(error)
            raise
        finally:
            uninstall()
            watch = recording.watch
            for known in (recording.calls_at_end, watch.views, watch.journal.kept):
                known.clear()  # they know the recording
    if recording.goes_outside:
        raise Uncompilable(OUTSIDE)
    numbers, settings = list(recording.numbers.values()), recording.settings
    actions, notes, own = watch.actions, watch.notes, watch.journal.made()
    requirements, made = recording.requirements, recording.made
    graph.numbers, graph.settings, graph.function = numbers, settings, None
    del recording, watch, run  # with them go the last references to what the function made
    check_nothing_kept(made, graph)
    notes.settle(hold_weakly(graph), own)
    settings.finish([number for _, number in numbers])
    places = {k: weakref.ref(x) for k, x in enumerate(given) if id(x._owner()) in captured}
    return Recorded(graph, numbers, settings, actions, notes, places, requirements)


def check_nothing_kept(made: list[weakref.ref], graph: Graph) -> None:
    """Raise if a tensor without values is left that the function made: who has it would be told so
    when it is used, and would find no other one after the next run."""
    if any(x() is not None for x in made):
        gc.collect()  # garbage may know it
    for x in made:
        if (tensor := x()) is not None:
            op = next((step.op.name for step in graph.steps if tensor.raw in step.results), "")
            raise TraceError(
                f"compile: the function puts a tensor ({describe(tensor)}, made by {op}) where it "
                "stays after the call, and has no values: in a global, an attribute, a list, a "
                "generator or an object of another kind that it returns. Return it, in tuples, "
                "lists or dicts; or leave the function uncompiled"
            )


def explain(error: TraceError) -> None:
    """Let an error say at which of the user's lines it was raised, and what to do."""
    message, line = str(error.args[0] if error.args else error), line_of(error)
    message = message.removeprefix("compile: ")
    vars(error).pop("_adjoint_location", None)  # modules around the call add theirs to this message
    where = f" (at {line})" if line else ""
    error.args = (
        f"compile: {message}{where}; if the function can't do without it, leave it uncompiled",
    )
