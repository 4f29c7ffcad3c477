"""Programs: recorded functions as native code, and the tensors that they read and change.

A call checks and holds the tensors that are read, takes memory for results and an arena, runs the
lists, and then makes all changes at once: an interrupt finds the state of before or of after.
"""

import itertools
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._core.holding import Expected
from .._core.tensor import Tensor, wrap
from .._foundation.blocks import at_once, undoing
from .._foundation.changes import Changes
from .._foundation.errors import AdjointError
from .._foundation.modes import GRAD, mode
from .._foundation.trees import map_tree
from .._trace.recording import Slot, Traced
from .._trace.released import maker_of_node
from .._transforms.vmap import in_turn
from ..backends.cpu import exclusive
from ..backends.cpu.lowering.targets import layout_of
from .building import Built, Sources, build
from .draft import Draft
from .names import Name
from .notes import hooks_of
from .recording import Recorded, Uncompilable
from .restoring import scheduler_as_it_is, set_grad, set_raw, tensors_as_they_are
from .running import Code, FailedError, Run

MISFIT = object()  # what a call gives that is for another program


class Turn:
    """Programs that change tensors run one at a time, and so do recordings."""

    lock = threading.RLock()


if hasattr(os, "register_at_fork"):  # a child has none of the threads that may hold it
    os.register_at_fork(after_in_child=lambda: setattr(Turn, "lock", threading.RLock()))


class Read(NamedTuple):
    """A tensor that is looked at before each run, or its gradient: its array is to be as expected,
    and is `value` of the graph, if there is to be one."""

    slot: Slot
    expected: Expected
    value: Traced | None = None


class Program:
    """A recorded function as native code, for tensors of some layouts."""

    run_type: type[Run] = Run

    def __init__(
        self,
        function: Callable,
        recorded: Recorded,
        names: list[Name],
        tensors: Sequence[Tensor],
        log: Callable[[str, Any], None],
    ) -> None:
        self.function, self.recorded = function, recorded
        self.graph = graph = recorded.graph
        self.settings, self.generators = recorded.settings, graph.generators
        self.captured_arguments, self.names = recorded.captured_arguments, names
        self.in_order = sorted(self.generators, key=id)  # as all programs take turns with them
        self.seen = Changes.latest
        self.runs: list[Run] = []
        self.timed: Program | None = None
        self.own = places_of(tensors, recorded)
        self.eager = must_record(recorded)
        self.constants: dict[Traced, np.ndarray] = {}
        self.lent: dict[Traced, np.ndarray] = {}  # arrays whose memory somebody may write to
        given = self.with_states([tensors[k] for k in self.own])
        self.reads = self.read(given)
        arguments = [read.slot.owner for read in self.reads if isinstance(read.slot.owner, int)]
        self.order = [] if arguments == [*range(len(arguments))] else arguments
        self.wanted = [*(result.value for result in graph.kept), *recorded.requirements]
        following = itertools.count(len(graph.results))
        self.changes = [
            (write.slot, None if write.result is None else next(following))
            for write in graph.writes
        ]
        self.writes = bool(self.changes or recorded.actions)
        self.has_settings = bool(recorded.numbers or recorded.settings.owners)
        pairs = zip(self.own, self.reads, strict=False)
        self.may_have_hooks = [k for k, read in pairs if read.expected.requires_grad]
        conditions = self.writes or self.eager or self.has_settings or self.captured_arguments
        conditions = conditions or self.may_have_hooks
        self.is_pure = not conditions and len(self.own) == len(tensors)
        slots = [*(read.slot for read in self.reads), *(slot for slot, _ in self.changes)]
        self.captured = [slot for slot in slots if not isinstance(slot.owner, int)]
        self.captured_ids = {id(tensor_of(slot, ())) for slot in self.captured}
        self.code = Code([], None, len(self.reads), {}, 0, [], [], [], [])
        if not self.eager:
            self.built = self.build(given, log)
            self.code = self.built.code
            self.prepare_results()

    # What it reads and changes

    def with_states(self, given: Sequence[Tensor]) -> Sequence[Tensor]:
        """Arguments, followed by the states of generators."""
        return [*given, *[generator._here() for generator in self.generators]]

    def read(self, given: Sequence[Tensor]) -> list[Read]:
        """Tensors to look at before each run, arguments first; other captures become constants."""
        reads: list[Read] = []
        arguments = [(value, Slot(k)) for k, value in enumerate(self.graph.inputs)]
        for value, slot in [*arguments, *self.graph.captures]:
            if isinstance(slot.owner, Tensor):
                raw = numpy_array(slot.owner)
                own = not raw.flags.writeable or exclusive(raw, 2)
                (self.constants if own and raw.base is None else self.lent)[value] = raw
            else:
                reads.append(Read(slot, expected_now(slot, given), value))
        read = {read.slot for read in reads}
        looked_at = [slot for slot in self.graph.looked_at if slot not in read]
        reads += [Read(slot, expected_now(slot, given)) for slot in looked_at]
        absent = Expected(None, of_grad=True)
        return [*reads, *(Read(slot, absent) for slot in self.graph.without_grad)]

    def build(self, given: Sequence[Tensor], log: Callable[[str, Any], None]) -> Built:
        own = [(number, read.slot) for number, read in enumerate(self.reads) if not read.slot.grad]
        numbers = {id(tensor_of(slot, given)): number for number, slot in reversed(own)}
        over = {
            wanted: numbers[key]
            for slot, wanted in self.changes
            if wanted is not None and (key := id(tensor_of(slot, given))) in numbers
            if not slot.grad
        }
        draft = Draft(list(self.graph.steps), self.constants, list(self.wanted))
        objects: list[Any] = [
            (read.value, read.expected.layout) for read in self.reads if read.value is not None
        ]
        settings = [value for value, _ in self.recorded.numbers]
        return build(draft, Sources(objects, len(self.reads), settings, self.lent), over, log)

    def prepare_results(self) -> None:
        graph, outputs, updated = self.graph, self.built.outputs, self.built.updated
        self.required = [place.buffer for place in outputs[len(graph.kept) :]]
        self.is_plain = type(graph.outputs) is tuple and {*map(type, graph.outputs)} == {Traced}
        sources = [(read.value, read.slot) for read in self.reads]
        self.makes = [
            (place.buffer, place.shape, maker_of_node(result, sources))
            for place, result in zip(outputs, graph.results, strict=False)
        ]
        self.moves = [(slot, updated[w]) for slot, w in self.changes if w in updated]
        places = {**dict(enumerate(outputs)), None: None}
        self.sets = [(slot, places[w]) for slot, w in self.changes if w not in updated]

    # Running

    def __call__(self, tensors: Sequence[Tensor], args: tuple, kwargs: dict) -> Any:
        """The function's result, or MISFIT."""
        if not self.writes:
            return self.attempt(tensors, args, kwargs)
        with Turn.lock:
            return self.attempt(tensors, args, kwargs)

    def attempt(self, tensors: Sequence[Tensor], args: tuple, kwargs: dict) -> Any:
        if self.seen != Changes.latest and not self.is_as_recorded():
            return MISFIT
        for _, look, ref in self.names:
            if look() is not ref():
                return MISFIT
        numbers: Any = ()
        if not self.is_pure:
            if not self.are_apart(tensors):
                return MISFIT
            if len(self.own) < len(tensors):
                tensors = [tensors[k] for k in self.own]
            if self.has_settings and (numbers := self.settings.read()) is None:
                return MISFIT
        try:
            if self.in_order:
                turns = [generator._turn for generator in self.in_order]  # others after a fork
                return in_turn(turns, partial(self.run, tensors, numbers, args, kwargs))
            return self.run(tensors, numbers, args, kwargs)
        except FailedError:
            pass
        return self.run_function(tensors, args, kwargs)

    def is_as_recorded(self) -> bool:
        latest = Changes.latest
        if self.recorded.watched.changed() is not None:
            return False
        self.seen = latest
        return True

    def are_apart(self, tensors: Sequence[Tensor]) -> bool:
        """Whether those arguments, and only those, are captured tensors that were so; they are,
        too, if they have hooks."""
        for place, ref in self.captured_arguments.items():
            if tensors[place] is not ref():
                return False
        for k in self.may_have_hooks:
            if hooks_of(tensors[k]):
                return False
        if self.writes or self.eager:
            for k in self.own:
                if id(tensors[k]) in self.captured_ids:
                    return False
        return True

    def run_function(self, given: Sequence[Tensor], args: tuple, kwargs: dict) -> Any:
        """The function itself, for its error: what it changes before it raises is undone."""
        found = [*self.with_states(given), *(tensor_of(slot, ()) for slot in self.captured)]
        with undoing(*tensors_as_they_are(found)) as undo:
            out = self.function(*args, **kwargs)
            undo.calls.clear()
        return out

    def run(self, given: Sequence[Tensor], numbers: Any, args: tuple, kwargs: dict) -> Any:
        if self.generators:
            given = self.with_states(given)
        own = [given[k] for k in self.order] if self.order else given
        try:
            run = self.runs.pop()
        except IndexError:
            if (run := self.new_run()) is None:
                return MISFIT
        try:
            if run.objects.enter(own) >= 0:
                return MISFIT
            if self.eager:
                return self.replay(given, args, kwargs)
            return self.compute(run, given, own, numbers)
        finally:
            run.objects.leave()
            self.runs.append(run)

    def new_run(self) -> Run | None:
        """Memory for a run; None if a tensor that it reads is gone."""
        nobody = dict.fromkeys(self.order or range(len(self.reads)))
        captured = [tensor_of(read.slot, nobody) for read in self.reads]  # which live from here on
        expected = [read.expected for read in self.reads]
        return self.run_type(self.code, expected, captured) if self.lives() else None

    def replay(self, given: Sequence[Tensor], args: tuple, kwargs: dict) -> Any:
        """Run the recorded ops one by one; all is undone unless the last change is made."""
        if self.recorded.requirements:
            raise FailedError
        found = [tensor_of(slot, given) for slot, _ in self.changes]
        with undoing(*tensors_as_they_are(found)) as undo:
            try:
                out = self.graph(*args, **kwargs)
            except AdjointError:
                raise FailedError from None
            if self.writes:
                self.act(undo, [])
        return out

    def compute(
        self, run: Run, given: Sequence[Tensor], own: Sequence[Tensor], numbers: Any
    ) -> Any:
        if numbers is not run.numbers:
            run.write_numbers(numbers)
        held, arena = run.compute()
        if self.required and any(held[buffer].item() for buffer in self.required):
            raise FailedError
        out = self.result(held, given)
        if self.writes:
            if self.moves and threading.active_count() > 1:
                # Other threads may have taken values meanwhile, as p.detach() does.
                run.objects.leave()
                if run.objects.enter(own) >= 0:
                    return MISFIT
            calls = self.calls(run, held, given)
            if self.recorded.actions:
                with undoing() as undo:
                    self.act(undo, calls)
            else:
                at_once(calls)
            del arena  # not before
        return out

    def calls(self, run: Run, held: dict, given: Sequence[Tensor]) -> list[tuple]:
        """Calls of C functions that make all changes: no signal is handled between them, nor could
        a value be taken while it is written."""
        moved = run.place_updates() if self.moves else {}
        calls: list[tuple] = [*run.finishing]
        for slot, place in self.sets:
            if (tensor := tensor_of(slot, given)) is not None:
                array = None if place is None else shaped(held[place.buffer], place.shape)
                if slot.grad:
                    calls.append((set_grad, tensor, None if array is None else wrap(array)))
                else:
                    calls.append((set_raw, tensor, array))
        for slot, number in self.moves if moved else ():
            if number in moved and (tensor := tensor_of(slot, given)) is not None:
                calls.append((set_raw, tensor, moved[number]))
        return calls

    def act(self, undo: undoing, calls: list[tuple]) -> None:
        """Step schedulers and make other changes: all of it, or nothing."""
        for later, *_ in self.recorded.actions:
            if (scheduler := later.ref()) is not None:
                undo.calls += scheduler_as_it_is(scheduler)
        for function, args, kwargs in self.recorded.actions:
            function(*args, **kwargs)
        at_once([*calls, (undo.calls.clear,)])

    def result(self, held: dict, given: Sequence[Tensor]) -> Any:
        made = []
        for buffer, shape, node in self.makes:
            array = held[buffer]
            if array.shape != shape:
                array = array.reshape(shape)
            made.append(wrap(array, None if node is None else node(given)))
        outputs = self.graph.outputs
        if type(outputs) is Traced:
            return made[0]
        if self.is_plain:
            return tuple(made)
        following = iter(made)
        return map_tree(lambda x: next(following) if type(x) is Traced else fresh(x), outputs)

    # About it

    def lives(self) -> bool:
        """Whether all tensors that it reads do."""
        owners: list[Any] = [read.slot.owner for read in self.reads]
        return all(isinstance(owner, int) or owner() is not None for owner in owners)

    def difference(self, other: "Program") -> str:
        """The first thing in which two programs differ, in words."""
        for mine, theirs in zip(self.reads, other.reads, strict=False):
            now, before = mine.expected.layout, theirs.expected.layout
            if now and before and now != before:
                if now.shape != before.shape:
                    return f"the shape of a tensor is {now.shape}, was {before.shape}"
                return f"the dtype or the strides of a tensor of shape {now.shape} are others"
        for name, look, ref in other.names:
            if look() is not ref():
                return f"{name} is another one"
        return other.recorded.watched.changed() or "a setting or a tensor that it uses is another"


def tensor_of(slot: Slot, given: Any) -> Tensor | None:
    """The tensor itself of a slot; None if it is gone."""
    owner: Any = slot.owner
    return given[owner] if type(owner) is int else owner()


def expected_now(slot: Slot, given: Sequence[Tensor]) -> Expected:
    """The array of a slot as it is now, and has to be at each run."""
    tensor = tensor_of(slot, given)
    if tensor is None:
        raise Uncompilable("a tensor that it uses is gone")
    layout = layout_of(numpy_array(tensor._grad if slot.grad else tensor))
    if slot.grad:
        return Expected(layout, of_grad=True)
    return Expected(layout, tensor.requires_grad, is_leaf=tensor.is_leaf)


def numpy_array(tensor: Any) -> np.ndarray:
    if type(tensor.raw) is not np.ndarray:
        raise Uncompilable(f"it uses a tensor on {tensor.raw.device}")
    return tensor.raw


def fresh(x: Any) -> Any:
    """x itself, or a copy of a NumPy array, which its receiver may write to."""
    return x.copy() if isinstance(x, np.ndarray) else x


def shaped(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return array if array.shape == shape else array.reshape(shape)


def places_of(tensors: Sequence[Tensor], recorded: Recorded) -> list[int]:
    """The places of the tensors of a call that are arguments of the graph: each once."""
    own = [k for k in range(len(tensors)) if k not in recorded.captured_arguments]
    return sorted({id(tensors[k]): k for k in reversed(own)}.values())


def must_record(recorded: Recorded) -> bool:
    """Whether results have to be differentiable: then the recorded ops are run one by one."""
    graph = recorded.graph
    if not mode.word & GRAD:
        return False
    if any(not write.same_node and write.result is not None for write in graph.writes):
        return True
    if not graph.required:
        return False
    live = [x for x in graph.kept if x.attached and x.spent is None]
    return bool(live) and (True in graph.flows or any(x.value in graph.required for x in live))
