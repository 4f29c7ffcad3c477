"""Recording a function so that nothing is frozen silently, and nothing kept alive."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .._core.declaration import Op
from .._core.execute import scalar_dtype
from .._core.node import HookHandle, Node
from .._core.tensor import Tensor, describe, wrap
from .._foundation.errors import TraceError
from .._foundation.modes import no_grad
from .._foundation.numbers import Number
from .._foundation.trees import leaves
from .._trace.graph import Graph, record_graph
from .._trace.recording import Trace, Traced
from ..primitives.conversions import cast
from ..primitives.elementwise import logical_not
from ..primitives.reductions import max_
from .captures import hold_weakly
from .lines import line_of, present_line
from .notes import Notes
from .settings import Settings
from .watching import Later, Watch, install, uninstall

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


class CapturedArgument(BaseException):
    """An argument that the function also uses from outside; no `except Exception` may catch it."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


class Recording(Trace):
    """A trace in which settings are Numbers, and Python objects are watched."""

    def __init__(self) -> None:
        super().__init__()
        self.settings = Settings()
        self.watch = Watch(self.settings, self.calls_at_end)
        self.numbers: dict[Any, tuple[Traced, Number]] = {}
        self.own: list[tuple[Tensor, bool]] = []  # stand-ins, and whether they required grad
        self.hooked: list[tuple[HookHandle, str]] = []
        self.requirements: list[Traced] = []

    def run(self, function: Callable, /, *args: Any, **kwargs: Any) -> Any:
        install(self.calls_at_end)
        return function(*args, **kwargs)

    def end(self) -> None:
        """Let go of what knows the recording itself."""
        for known in (self.calls_at_end, self.watch.views, self.watch.journal.kept):
            known.clear()

    # Numbers.

    def record(self, op: Op, inputs: Any, attrs: dict) -> tuple[list, tuple]:
        if any(isinstance(x, Number) for x in inputs):
            device = next(x.device for x in inputs if isinstance(x, Tensor))
            dtype = scalar_dtype(op, inputs)
            inputs = [self.operand(x, dtype, device) for x in inputs]
        attrs = {k: x.fixed() if isinstance(x, Number) else x for k, x in attrs.items()}
        return super().record(op, inputs, attrs)

    def operand(self, x: Any, dtype: np.dtype | None, device: str) -> Any:
        if not isinstance(x, Number):
            return x
        return x.fixed() if dtype is None else self.lift_number(x, dtype, device)

    def lift_number(self, number: Number, dtype: np.dtype, device: str) -> Tensor:
        if number.ledger is not self.settings.ledger:
            raise TraceError.escaped("compile")
        key = number.place, dtype, device
        if key not in self.numbers:
            self.numbers[key] = self.new((), dtype, device), number
        return wrap(self.numbers[key][0])

    def require(self, condition: Callable[[], Tensor]) -> None:
        with no_grad():
            holds = condition()
            if not holds.size:
                return
            wrong = cast(logical_not(holds), dtype=WRONG)
            axes = tuple(range(wrong.ndim))
            self.requirements.append(self.lift(max_(wrong, axis=axes, keepdims=False)))

    def output(self, x: Any) -> Any:
        return x.fixed() if isinstance(x, Number) else super().output(x)

    # Arguments, and what else may have been changed.

    def meet_argument(self, tensor: Tensor) -> None:
        raise CapturedArgument(tensor._owner())

    def argument(self, tensor: Tensor, position: int, requires_grad: bool, grad: bool) -> Tensor:
        value = super().argument(tensor, position, requires_grad, grad)
        self.own.append((value, value.requires_grad))
        return value

    def note_hook(self, handle: HookHandle, node: Node) -> None:
        if node.order > self.start:  # it was there before the function ran
            self.hooked.append((handle, present_line()))
            self.calls_at_end.append((handle._hooks.pop, handle._key, None))

    def end_of_function(self) -> None:
        self.watch.journal.check()
        own = [(x.tensor, x.node is not None) for x in self.before.values()]
        unchanged = {id(x.tensor) for x in self.before.values() if x.tensor.raw is x.raw}
        for tensor, required in own + self.own:
            is_own = id(tensor) not in self.before or id(tensor) in unchanged
            if is_own and tensor.is_leaf and tensor.requires_grad != required:
                raise TraceError(
                    f"compile: requires_grad of a tensor ({describe(tensor)}) from outside is "
                    "changed in the function, which runs once, when it is recorded; call "
                    "requires_grad_() outside"
                )
        for handle, line in self.hooked:
            if handle._key in handle._hooks:
                raise TraceError(
                    f"compile: a tensor from outside gets a hook within the function ({line}), "
                    "which would stay; register it before, or remove it in the function"
                )


def record(function: Callable, args: tuple, kwargs: dict) -> Recorded:
    """What a function does with arguments like these; it runs, and nothing is changed by that."""
    captured: dict[int, Tensor] = {}
    while True:
        recording = Recording()
        try:
            run = partial(recording.run, function)
            graph = record_graph(run, args, kwargs, None, True, recording, captured)
            break
        except CapturedArgument as found:
            captured[id(found.tensor)] = found.tensor
        except TraceError as error:
            explain(error)
            raise
        finally:
            uninstall()
            recording.end()
    watch, numbers = recording.watch, list(recording.numbers.values())
    settings, actions, notes = recording.settings, watch.actions, watch.notes
    requirements, made = recording.requirements, watch.journal.made()
    graph.numbers, graph.settings, graph.function = numbers, settings, None
    del recording, watch, run  # with them go the last references to what the function made
    for tensor in hold_weakly(graph):
        notes.add_hooks(tensor)
    notes.settle(made)
    settings.finish([number for _, number in numbers])
    tensors = [x for x in leaves((args, kwargs)) if isinstance(x, Tensor)]
    places = {k: weakref.ref(x) for k, x in enumerate(tensors) if id(x._owner()) in captured}
    return Recorded(graph, numbers, settings, actions, notes, places, requirements)


def explain(error: TraceError) -> None:
    """Let an error say at which of the user's lines it was raised, and what to do."""
    message, line = str(error.args[0] if error.args else error), line_of(error)
    message = message.removeprefix("compile: ")
    vars(error).pop("_adjoint_location", None)  # modules around the call add theirs to this message
    where = f" (at {line})" if line else ""
    error.args = (
        f"compile: {message}{where}; if the function can't do without it, leave it uncompiled",
    )
