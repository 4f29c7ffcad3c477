"""What a recording reads of modules, optimizers and the like, and what it may do to them.

While a function is recorded anywhere, reading and setting attributes of these classes goes through
here, and in the thread that records is noted. For other threads nothing is different.
"""

import threading
import weakref
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

from .._core.tensor import Tensor
from .._foundation.errors import TraceError
from .._foundation.modes import mode
from .._foundation.numbers import Number
from .._foundation.trees import leaves
from .._trace.settings import Place, Settings
from ..nn.modules.tree import Tree
from ..optim._ema import EMA
from ..optim._optimizer import Checked, Group, Optimizer
from ..optim.lr_scheduler._scheduler import LRScheduler
from .journal import ABSENT, GROUPS, HOOKS, ITEMS, STATE, Journal, View, attribute, item_of
from .notes import Notes, tensors_of

CLASSES = (Tree, Optimizer, LRScheduler, EMA)
SETTER = "_check_name"  # a method of modules that begins to set other attributes
VIEWED = {"param_groups": "param_groups", "_state": "state"}  # and what they are in errors
UNREAD = frozenset(("params", "param_names"))

under_way: set[int] = set()  # recordings: the ids of their lists of calls at the end
lock = threading.Lock()


def watch_here() -> "Watch | None":
    """What watches for the recording under way in this thread."""
    trace = mode.trace
    while trace is not None and trace.watch is None:
        trace = trace.outer
    return trace and trace.watch


def on_read(x: Any, name: str) -> Any:
    watch = watch_here()
    if watch is not None:
        return watch.read(x, name)
    if not under_way:
        uninstall()
    return object.__getattribute__(x, name)


def on_change(usual: Callable) -> Callable:
    def change(x: Any, name: str, *value: Any) -> None:
        watch = watch_here()
        if watch is not None:
            watch.journal.before_setting(x, name)
        usual(x, name, *value)

    return change


METHODS = [  # of classes, what they have themselves, and what stands for it
    (cls, name, vars(cls).get(name), on_read if name == "__getattribute__" else on_change(usual))
    for cls in CLASSES
    for name in ("__getattribute__", "__setattr__", "__delattr__")
    for usual in [getattr(cls, name)]
]


def run_watched(function: Callable, calls_at_end: list[tuple], /, *args: Any, **kw: Any) -> Any:
    """Call a function; until the calls at the end what it reads and changes is seen."""
    calls_at_end.append((under_way.discard, id(calls_at_end)))
    with lock:
        under_way.add(id(calls_at_end))
        for cls, name, _, hooked in METHODS:
            setattr(cls, name, hooked)
    return function(*args, **kw)


def uninstall() -> None:
    """Give the classes back what they had, unless a recording is under way. Where Ctrl-C came
    before that, the next one who reads an attribute does it."""
    with lock:
        if under_way:
            return
        for cls, name, own, _ in METHODS:
            if own is not None:
                setattr(cls, name, own)
            elif name in vars(cls):
                delattr(cls, name)


class Watch:
    """What one recording reads and changes of Python objects. `actions` are calls that it put off
    until after a run."""

    def __init__(self, settings: Settings, calls_at_end: list[tuple]) -> None:
        self.settings = settings
        self.journal = Journal(calls_at_end)
        self.notes = Notes()
        self.views: dict[int, Any] = {}  # by the ids of what they are views of
        self.scheduled: set[int] = set()  # ids of optimizers whose scheduler has been called
        self.actions: list[tuple[Later, tuple, dict]] = []

    def read(self, x: Any, name: str) -> Any:
        if name.startswith("__") and name != "__dict__":
            return object.__getattribute__(x, name)
        own = attribute(x, "__dict__")
        is_made = self.journal.meet(x, own, name)
        try:
            value = object.__getattribute__(x, name)
        except AttributeError:
            self.notes.add_attribute(x, name)
            raise
        # What our optimizers know by themselves follows from their groups.
        if is_made or (isinstance(x, Checked) and name.startswith("_") and name != "__dict__"):
            return value
        if isinstance(x, LRScheduler):
            return self.read_scheduler(x, name, value, own)
        if isinstance(x, Optimizer) and name in VIEWED:
            return self.view(x, name, value)
        if name == SETTER or (name == "__dict__" and not self.notes.add_all(x)):
            self.journal.before_setting(x, name)
        elif name in own or getattr(type(x), name, ABSENT) is value:
            return self.read_attribute(x, name, value, own)
        return value

    def read_attribute(self, x: Any, name: str, value: Any, own: dict) -> Any:
        if (id(own), name) in self.journal.lines:  # the function has set it itself
            return value
        if isinstance(value, float) and name in type(x)._numbers and name in own:
            return self.settings.meet(x, vars, name, value)
        self.notes.add_attribute(x, name)
        what = f"{type(x).__name__}.{name}".removesuffix("._hooks")
        self.journal.keep(what, value, HOOKS if name == "_hooks" else ITEMS)
        return value

    # Optimizers and schedulers.

    def view(self, optimizer: Optimizer, name: str, value: Any) -> Any:
        """An optimizer's groups, or its state, with Numbers in the place of floats; what the
        function does to these is done to copies, and found."""
        if id(value) in self.views:
            return self.views[id(value)]
        what, place = f"{type(optimizer).__name__}.{VIEWED[name]}", attrgetter(name)
        self.notes.add(optimizer, name, f"params in {what}", partial(tensors_of, name=name))
        if name == "_state":
            return self.view_dict(optimizer, value, what, STATE, place)
        out = self.views[id(value)] = [
            self.view_dict(optimizer, group, f"{what}[{k}]", GROUPS, lambda x, k=k: place(x)[k])
            for k, group in enumerate(value)
        ]
        for container in (value, out, *[group["params"] for group in value]):
            self.journal.keep(what, container, GROUPS)
        return out

    def view_dict(self, owner: Optimizer, real: dict, what: str, words: str, place: Place) -> View:
        def read(key: Any, value: Any) -> Any:
            inner = item_of(what, key)
            if words is STATE and isinstance(value, dict):
                return self.view_dict(owner, value, inner, STATE, inside(place, key))
            if key == "params" and not isinstance(real, Group):  # the user's own dict
                self.settings.meet(owner, place, key, value)
            if key in UNREAD or (words is STATE and isinstance(value, Tensor)):
                return value
            if id(owner) in self.scheduled:
                raise TraceError(
                    f"{inner} is read after scheduler.step(), which is called when all else is "
                    "done; call scheduler.step() last"
                )
            self.journal.keep(inner, value)
            return self.settings.meet(owner, place, key, value)

        if id(real) not in self.views:
            self.journal.keep(what, real, words)
            self.views[id(real)] = View(real, what, words, self.journal, read)
        return self.views[id(real)]

    def read_scheduler(self, scheduler: LRScheduler, name: str, value: Any, own: dict) -> Any:
        """A scheduler's step is called later; what it knows changes with each step."""
        if name == "step":
            return partial(self.put_off, scheduler)
        if (name in own and name != "optimizer") or name == "__dict__":
            raise TraceError(
                f"the function reads {name!r} of {type(scheduler).__name__}, which is another one "
                "after each step; read it outside, and call nothing but scheduler.step() inside"
            )
        return value

    def put_off(self, scheduler: LRScheduler, *args: Any, **kwargs: Any) -> None:
        if any(isinstance(x, Tensor | Number) for x in leaves((args, kwargs))):
            raise TraceError(
                f"{type(scheduler).__name__}.step reads a value, which isn't known while the "
                "function is recorded; return it, and call scheduler.step(value) outside"
            )
        # Once it is gone the function steps another one.
        self.settings.meet(scheduler, lambda x: {"kind": type(x)}, "kind", type(scheduler))
        self.scheduled.add(id(attribute(scheduler, "optimizer")))
        self.actions.append((Later(scheduler), args, kwargs))


def inside(place: Place, key: Any) -> Place:
    """Where a dict in a dict is; a tensor that is its key is known weakly."""
    known: Any = weakref.ref(key) if isinstance(key, Tensor) else lambda: key
    return lambda owner: place(owner).get(known())


class Later:
    """A scheduler's step, which doesn't keep it alive."""

    def __init__(self, scheduler: LRScheduler) -> None:
        self.ref: Callable[[], Any] = weakref.ref(scheduler)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self.ref().step(*args, **kwargs)
