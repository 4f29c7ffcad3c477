"""Programs: a recording, its native code, and the tensors that it reads and changes."""

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import backends
from .._core.node import RELEASED, Node, next_order
from .._core.tensor import Tensor, wrap
from .._foundation.blocks import undoing
from .._foundation.changes import Changes
from .._foundation.modes import GRAD, mode
from .._foundation.trees import map_tree
from .._trace.graph import Result, Spent
from .._trace.recording import Slot, Traced
from .._transforms.vmap import in_turn
from ..backends.cpu.jit import threads
from ..backends.cpu.lowering.targets import layout_of
from .building import Built, Sources, build
from .draft import Draft
from .objects import Expected, Objects
from .program import FailedError, Run, at_once, set_grad, set_raw
from .recording import Recorded
from .restoring import scheduler_as_it_is, tensors_as_they_are

cpu: Any = backends.backend("cpu")
MISFIT = object()  # what a call gives that is for another program
FAILED = object()  # what a run gives whose data has no result


class Uncompilable(Exception):
    """Why a function is run eagerly."""


class Turn:
    """Programs that change tensors run one at a time, and so do recordings."""

    lock = threading.RLock()


def anew() -> None:
    Turn.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=anew)


class Lost(Node):
    """The node of a result whose graph the function has released. Its parents, which may be many,
    are looked up when somebody asks."""

    __slots__ = ("captured", "own")

    def __init__(self, plan: Any, captured: list, own: tuple, value: Traced) -> None:
        self.plan, self.captured, self.own, self.saved = plan, captured, own, RELEASED
        self.shape, self.dtype, self.extra = value.shape, value.dtype, None
        self.order = next_order()

    @property
    def parents(self) -> tuple:  # type: ignore[override]
        found = [x.node for ref in self.captured if (x := ref()) is not None]
        return tuple(dict.fromkeys([*self.own, *(node for node in found if node is not None)]))


class Owner(NamedTuple):
    """A tensor that a program knows: captured, or by its place among those of a call."""

    ref: "weakref.ref[Tensor] | None"
    place: int = -1

    def tensor(self, given: Sequence[Tensor]) -> Tensor | None:
        return given[self.place] if self.ref is None else self.ref()


class Change(NamedTuple):
    """A change of a tensor, or of its gradient. `wanted`: which wanted value it becomes; -1: no
    gradient. `number`: that of the tensor among the objects if its memory may be written over."""

    owner: Owner
    grad: bool
    wanted: int
    number: int


class Program:
    """A recorded function as native code, for tensors of some layouts."""

    def __init__(
        self,
        function: Callable,
        recorded: Recorded,
        tensors: Sequence[Tensor],
        log: Callable[[str, Any], None],
    ) -> None:
        self.function = function
        self.recorded = recorded
        self.graph = graph = recorded.graph
        self.settings = recorded.settings
        self.seen = Changes.latest
        self.runs: list[tuple[Run, Objects]] = []
        self.captured_arguments = recorded.captured_arguments
        self.own = places_of(tensors, recorded)
        self.eager = must_record(recorded)
        self.generators = graph.generators
        self.turns = [g._turn for g in sorted(self.generators, key=id)]
        self.expected: list[Expected] = []
        self.owners: list[Owner] = []
        self.constants: dict[Traced, np.ndarray] = {}
        self.lent: dict[Traced, np.ndarray] = {}  # arrays whose memory somebody may write to
        self.objects: list[tuple[Traced, Any]] = []
        given = [*[tensors[k] for k in self.own], *[g._here() for g in self.generators]]
        self.read_sources(given)
        self.changes: list[Change] = []
        self.wanted: list[Traced] = [result.value for result in graph.results]
        self.note_changes()
        self.wanted += recorded.requirements
        self.writes = bool(self.changes or recorded.actions)
        self.has_settings = bool(recorded.numbers or recorded.settings.owners)
        pure = not (self.writes or self.eager or self.has_settings or self.captured_arguments)
        self.is_pure = pure and not self.generators and len(self.own) == len(tensors)
        self.captured_ids = {id(o.ref()) for o in self.owners if o.ref is not None}
        self.captured_ids |= {id(c.owner.ref()) for c in self.changes if c.owner.ref is not None}
        if not self.eager:
            self.built = self.build(log)
            self.prepare_results()

    # What it reads

    def read_sources(self, given: Sequence[Tensor]) -> None:
        """The values that tensors have at each run, and the constants. A list of objects begins
        with the arguments."""
        graph = self.graph
        for k, value in enumerate(graph.inputs):
            self.add_object(value, Slot(k), Owner(None, k), given)
        for value, slot in graph.captures:
            if isinstance(slot.owner, Tensor):
                raw = numpy_array(slot.owner.raw)
                own = not raw.flags.writeable or cpu.exclusive(raw, 2)
                (self.constants if own and raw.base is None else self.lent)[value] = raw
            else:
                self.add_object(value, slot, owner_of(slot, given), given)
        for slot in graph.without_grad:
            self.add_expected(owner_of(slot, given), Expected(None, False, True))

    def add_object(self, value: Traced, slot: Slot, owner: Owner, given: Sequence[Tensor]) -> None:
        tensor = owner.tensor(given)
        if tensor is None:
            raise Uncompilable("a tensor that it uses is gone")
        raw = numpy_array((tensor._grad if slot.grad else tensor).raw)  # type: ignore[union-attr]
        layout = layout_of(raw)
        assert layout is not None
        requires = tensor.node is not None and not slot.grad
        self.objects.append((value, layout))
        self.add_expected(owner, Expected(layout, requires, slot.grad))

    def add_expected(self, owner: Owner, expected: Expected) -> None:
        self.owners.append(owner)
        self.expected.append(expected)

    # What it changes

    def note_changes(self) -> None:
        for write in self.graph.writes:
            owner = owner_of(write.slot, self.graph.inputs)
            wanted, number = -1, -1
            if write.result is not None:
                wanted = len(self.wanted)
                self.wanted.append(write.result.value)
                if not write.slot.grad:
                    number = self.number_of(owner)
            self.changes.append(Change(owner, write.slot.grad, wanted, number))

    def number_of(self, owner: Owner) -> int:
        for k, (other, expected) in enumerate(zip(self.owners, self.expected, strict=True)):
            same = other.ref is owner.ref and other.place == owner.place
            if same and not expected.of_grad:
                return k
        return -1

    def build(self, log: Callable[[str, Any], None]) -> Built:
        over = {c.wanted: c.number for c in self.changes if c.number >= 0}
        draft = Draft(list(self.graph.steps), self.constants, list(self.wanted))
        numbers = [value for value, _ in self.recorded.numbers]
        return build(
            draft, Sources(self.objects, len(self.expected), numbers, self.lent), over, log
        )

    def prepare_results(self) -> None:
        count = len(self.graph.results)
        outputs = self.built.outputs
        last = len(self.wanted) - len(self.recorded.requirements)
        self.required = [place.buffer for place in outputs[last:]]
        tree = self.graph.outputs
        self.is_plain = type(tree) is tuple and {*map(type, tree)} == {Traced}
        self.makes = [
            (place.buffer, place.shape, self.node_of(result))
            for place, result in zip(outputs[:count], self.graph.results, strict=True)
        ]
        self.sets = [
            (change, None if change.wanted < 0 else outputs[change.wanted])
            for change in self.changes
            if change.wanted not in self.built.updated
        ]
        self.moves = [
            (change, change.number)
            for change in self.changes
            if change.wanted in self.built.updated
        ]

    def node_of(self, result: Result) -> Any:
        """A function that makes the node of a result whose graph is released; None for others."""
        if result.spent is None:
            return None
        values = dict(zip((value for value, _ in self.objects), self.owners, strict=False))
        owners = [values[x] for x in result.sources if x in values]
        captured = [o.ref for o in owners if o.ref and (x := o.ref()) is not None and x.node]
        places = [o.place for o in owners if o.ref is None]
        plan = Spent(result.spent)

        def node(given: Sequence[Tensor]) -> Node | None:
            own = tuple([given[k].node for k in places if given[k].node is not None])
            return Lost(plan, captured, own, result.value) if captured or own else None

        return node

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
        if self.is_pure:
            out = self.run(tensors, (), args, kwargs)
            return self.run_function(tensors, args, kwargs) if out is FAILED else out
        for place, ref in self.captured_arguments.items():
            if tensors[place] is not ref():
                return MISFIT
        if self.writes or self.eager:
            for k in self.own:
                if id(tensors[k]) in self.captured_ids:
                    return MISFIT
        numbers = self.settings.read() if self.has_settings else ()
        if numbers is None:
            return MISFIT
        given = tensors if len(self.own) == len(tensors) else [tensors[k] for k in self.own]
        if not self.generators:
            out = self.run(given, numbers, args, kwargs)
        else:
            out = in_turn(self.turns, lambda: self.run(given, numbers, args, kwargs))
        return self.run_function(given, args, kwargs) if out is FAILED else out

    def run_function(self, given: Sequence[Tensor], args: tuple, kwargs: dict) -> Any:
        """The function itself, for its error: what it changes before it raises is undone."""
        owners = [*self.owners, *(change.owner for change in self.changes)]
        given = [*given, *[g._here() for g in self.generators]]
        found = [owner.tensor(given) for owner in owners]
        with undoing(*tensors_as_they_are([x for x in found if x is not None])) as undo:
            out = self.function(*args, **kwargs)
            undo.calls.clear()
        return out

    def is_as_recorded(self) -> bool:
        latest = Changes.latest
        if self.recorded.watched.changed() is not None:
            return False
        self.seen = latest
        return True

    def run(self, given: Sequence[Tensor], numbers: Any, args: tuple, kwargs: dict) -> Any:
        if self.generators:
            given = [*given, *[g._here() for g in self.generators]]
        try:
            pair = self.runs.pop()
        except IndexError:
            pair = self.new_run()
        run, objects = pair
        try:
            own = [given[k] for k in self.order] if self.order else given
            if objects.enter(own) >= 0:
                return MISFIT
            if self.eager:
                required = self.recorded.requirements
                return FAILED if required else self.replay(given, args, kwargs)
            return self.compute(run, objects, given, own, numbers)
        except FailedError:
            return FAILED
        finally:
            objects.leave()
            self.runs.append(pair)

    def replay(self, given: Sequence[Tensor], args: tuple, kwargs: dict) -> Any:
        """Run the recorded ops one by one; all is undone unless the last change is made."""
        if not self.writes:
            return self.graph(*args, **kwargs)
        found = [change.owner.tensor(given) for change in self.changes]
        with undoing(*tensors_as_they_are([x for x in found if x is not None])) as undo:
            out = self.graph(*args, **kwargs)
            self.act(undo, [])
        return out

    def act(self, undo: undoing, calls: list[tuple]) -> None:
        """Step schedulers and make other changes: all of it, or nothing."""
        for later, *_ in self.recorded.actions:
            if (scheduler := later.ref()) is not None:
                undo.calls += scheduler_as_it_is(scheduler)
        for function, args, kwargs in self.recorded.actions:
            function(*args, **kwargs)
        at_once([*calls, (undo.calls.clear,)])

    def compute(
        self,
        run: Run,
        objects: Objects,
        given: Sequence[Tensor],
        own: Sequence[Tensor],
        numbers: Any,
    ) -> Any:
        if numbers is not run.numbers:
            run.write_numbers(numbers)
        held, moved, arena = run.compute(objects.shared)
        if self.required and any(held[buffer].item() for buffer in self.required):
            raise FailedError
        out = self.result(held, given)
        if self.writes:
            if self.moves and threading.active_count() > 1:
                # Other threads may have taken values meanwhile, as p.detach() does.
                objects.leave()
                if objects.enter(own) >= 0:
                    return MISFIT
                run.move(objects.shared, moved)
            calls = self.calls(run, held, moved, given)
            if self.recorded.actions:
                with undoing() as undo:
                    self.act(undo, calls)
            else:
                at_once(calls)
            del arena  # not before
        return out

    def calls(self, run: Run, held: dict, moved: dict, given: Sequence[Tensor]) -> list[tuple]:
        """The calls that make all changes, for `at_once`."""
        calls: list[tuple] = []
        if run.final is not None:
            if run.final.pool is not threads.pool:
                run.final.meet_threads()
            calls.append((run.final.finish,))  # else a value could be taken while it is written
        for change, place in self.sets:
            tensor = change.owner.tensor(given)
            if tensor is None:
                continue
            array = None if place is None else shaped(held[place.buffer], place.shape)
            if change.grad:
                calls.append((set_grad, tensor, None if array is None else wrap(array)))
            else:
                calls.append((set_raw, tensor, array))
        for change, number in self.moves if moved else ():
            tensor = change.owner.tensor(given)
            if number in moved and tensor is not None:
                calls.append((set_raw, tensor, moved[number]))
        return calls

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
        return map_tree(lambda x: next(following) if type(x) is Traced else x, outputs)

    def lives(self) -> bool:
        """Whether all tensors that it uses do."""
        return all(o.ref is None or o.ref() is not None for o in self.owners)

    def difference(self, other: "Program") -> str:
        """What a program is for that another isn't, in words."""
        for mine, theirs in zip(self.expected, other.expected, strict=False):
            now, before = mine.layout, theirs.layout
            if now and before and now != before:
                if now.shape != before.shape:
                    return f"the shape of a tensor is {now.shape}, was {before.shape}"
                return f"the dtype or the strides of a tensor of shape {now.shape} are others"
        return other.recorded.watched.changed() or "a setting or a tensor that it uses is another"

    def new_run(self) -> tuple[Any, Objects]:
        captured = [o.ref() if o.ref is not None else None for o in self.owners]
        places = [o.place for o in self.owners if o.ref is None]
        self.order = [] if places == [*range(len(places))] else places
        if any(o.ref is not None and x is None for o, x in zip(self.owners, captured, strict=True)):
            raise Uncompilable("a tensor that it uses is gone")
        if self.eager:
            return None, Objects(self.expected, captured, np.zeros(len(self.owners) + 1, np.int64))
        run = Run(self.built.code)
        return run, Objects(self.expected, captured, run.bases)

    order: list[int] = []  # noqa: RUF012


def shaped(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return array if array.shape == shape else array.reshape(shape)


def numpy_array(raw: Any) -> np.ndarray:
    if type(raw) is not np.ndarray:
        raise Uncompilable(f"it uses a tensor on {raw.device}")
    return raw


def owner_of(slot: Slot, given: Sequence[Any]) -> Owner:
    if isinstance(slot.owner, weakref.ref):
        return Owner(slot.owner)
    assert isinstance(slot.owner, int)
    return Owner(None, slot.owner)


def places_of(tensors: Sequence[Tensor], recorded: Recorded) -> list[int]:
    """The places of the tensors of a call that are arguments of the graph: each once."""
    seen: set[int] = set()
    own = []
    for k, x in enumerate(tensors):
        if k not in recorded.captured_arguments and id(x) not in seen:
            seen.add(id(x))
            own.append(k)
    return own


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
