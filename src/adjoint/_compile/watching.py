"""What a recording reads of modules, optimizers and the like, and what it may do to them.

While a function is recorded anywhere, reading and setting attributes of these classes goes through
here, and in the thread that records is noted. For other threads nothing is different.
"""

import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from .._core.tensor import Tensor
from .._foundation.errors import TraceError
from .._foundation.modes import mode
from .._foundation.numbers import Number
from .._foundation.trees import leaves
from ..nn.modules.tree import Tree
from ..optim._ema import EMA
from ..optim._optimizer import Checked, Optimizer
from ..optim.lr_scheduler._scheduler import LRScheduler
from .journal import Journal, check_groups, check_state
from .notes import Notes
from .seen import ABSENT, in_class
from .settings import Settings, of_attributes, of_group, of_state
from .views import View

CLASSES = (Tree, Optimizer, LRScheduler, EMA)
SETTERS = ("_check_name", "_forget_buffer", "_reserve")  # which begin to set other attributes
NAMES = ("__getattribute__", "__setattr__", "__delattr__")

under_way: dict[int, Any] = {}  # recordings: their tokens, known weakly, by id
lock = threading.Lock()


class Token:
    """Alive as long as a recording is."""

    def end(self) -> None:
        under_way.pop(id(self), None)


def watch_here() -> "Watch | None":
    """What watches for the recording under way in this thread."""
    trace = mode.trace
    while trace is not None:
        watch = getattr(trace, "watch", None)
        if watch is not None:
            return watch
        trace = trace.outer
    return None


def hooked(cls: type) -> tuple[Callable, Callable, Callable]:
    """What stands for the methods of a class that read, set and delete attributes."""
    read, write, remove = (getattr(cls, name) for name in NAMES)

    def on_read(x: Any, name: str) -> Any:
        watch = watch_here()
        if watch is not None:
            return watch.read(x, name)
        if not under_way:
            uninstall()
        return read(x, name)

    def on_write(x: Any, name: str, value: Any) -> None:
        watch = watch_here()
        if watch is not None:
            watch.journal.before_setting(x, name)
        write(x, name, value)

    def on_remove(x: Any, name: str) -> None:
        watch = watch_here()
        if watch is not None:
            watch.journal.before_setting(x, name)
        remove(x, name)

    return on_read, on_write, on_remove


OWN = {cls: {name: vars(cls).get(name) for name in NAMES} for cls in CLASSES}
HOOKED = {cls: dict(zip(NAMES, hooked(cls), strict=True)) for cls in CLASSES}


def install(token: Token) -> None:
    with lock:
        under_way[id(token)] = weakref.ref(token, partial(under_way.pop, id(token)))
        for cls in CLASSES:
            for name in NAMES:
                setattr(cls, name, HOOKED[cls][name])


def uninstall() -> None:
    """Give the classes back what they had, unless a recording is under way. Where Ctrl-C came
    before that, the next one who reads an attribute does it."""
    with lock:
        if under_way:
            return
        for cls in CLASSES:
            for name in NAMES:
                if OWN[cls][name] is not None:
                    setattr(cls, name, OWN[cls][name])
                elif name in vars(cls):
                    delattr(cls, name)


class Watch:
    """What one recording reads and changes of Python objects. `actions` are calls that it put off
    until after a run."""

    def __init__(self, settings: Settings, calls_at_end: list[tuple]) -> None:
        self.settings = settings
        self.journal = Journal(calls_at_end)
        self.notes = Notes()
        self.views: dict[tuple[int, str], tuple[str, Any, Any]] = {}
        self.numbers: dict[tuple[int, str], Any] = {}
        self.scheduled: dict[int, Any] = {}  # optimizers whose scheduler has been called
        self.actions: list[tuple[Later, tuple, dict]] = []

    def read(self, x: Any, name: str) -> Any:
        try:
            value = object.__getattribute__(x, name)
        except AttributeError:
            if not name.startswith("__"):
                self.notes.add(x, name, ABSENT)
            raise
        if name.startswith("__") and name != "__dict__":
            return value
        if name in SETTERS:
            self.journal.before_setting(x, name)
        own = object.__getattribute__(x, "__dict__")
        if own or name == "_hooks":  # what has no attributes yet may be in its constructor
            self.journal.hold(x)
        if self.journal.is_new(x):
            return value
        if isinstance(x, LRScheduler):
            return self.read_scheduler(x, name, value)
        if isinstance(x, Optimizer) and name in ("param_groups", "_state"):
            return self.view(x, name, value)
        if name == "_own_hooks":
            raise TraceError(
                f"compile: {type(x).__name__} gets a hook within the function, which would stay; "
                "register it before"
            )
        return self.read_attribute(x, name, value, own)

    def read_attribute(self, x: Any, name: str, value: Any, own: dict) -> Any:
        if name == "__dict__":
            self.notes.add_parts(x, own)
        elif isinstance(x, Checked) and name.startswith("_"):
            pass  # what our optimizers know by themselves follows from their groups
        elif name in own or in_class(x, name) is value:
            if isinstance(value, float) and name in type(x)._numbers:
                key = id(x), name
                if key not in self.numbers:
                    meet = self.settings.meet(x, None, of_attributes, name, value)
                    self.numbers[key] = meet
                return self.numbers[key]
            if (id(x), name) not in self.journal.lines:
                self.notes.add(x, name, value)
            if name in own:
                self.journal.met(f"{type(x).__name__}.{name}", value)
        return value

    # Optimizers and schedulers.

    def view(self, optimizer: Optimizer, name: str, value: Any) -> Any:
        """An optimizer's groups, or its state, with Numbers in the place of floats; what the
        function does to these is done to copies, and found."""
        key = id(optimizer), name
        if key in self.views:
            return self.views[key][2]
        what = type(optimizer).__name__
        if name == "param_groups":
            self.notes.add(optimizer, name, [tuple(group["params"]) for group in value])
            out: Any = [
                View(group, f"{what}.param_groups[{k}]", self.reader(optimizer, k, of_group(k)))
                for k, group in enumerate(value)
            ]
            self.journal.met(f"{what}.param_groups", value)
            for group, view in zip(value, out, strict=True):
                self.journal.met(view.what, group)
                dict.__setitem__(view, "params", list(group["params"]))
        else:
            out = value.copy()
            for p, entry in value.items():
                if type(entry) is dict and isinstance(p, Tensor):
                    reader = self.reader(optimizer, id(p), of_state(p), False)
                    out[p] = View(entry, f"{what}.state[...]", reader)
        self.views[key] = what, value, out
        return out

    def check(self) -> None:
        """Raise if the function has changed what won't change when its graph runs."""
        self.journal.check()
        for (_, name), (what, real, view) in self.views.items():
            check = check_groups if name == "param_groups" else check_state
            check(what, real, view)

    def reader(
        self, optimizer: Optimizer, part: Any, reader: Callable, tensors: bool = True
    ) -> Callable:
        """What a view asks for the value of a setting; `tensors`: which may be one."""
        journal, scheduled, settings = self.journal, self.scheduled, self.settings
        met: dict[str, Any] = {}

        def read(name: str, value: Any) -> Any:
            journal.met(f"{type(optimizer).__name__}'s {name}", value)
            if isinstance(value, Tensor) and not tensors:
                return value
            if id(optimizer) in scheduled:
                raise TraceError(
                    f"compile: {name!r} of {type(optimizer).__name__} is read after "
                    "scheduler.step(), which is called when all else is done; call "
                    "scheduler.step() last"
                )
            if name not in met:
                met[name] = settings.meet(optimizer, part, reader, name, value)
            return met[name]

        return read

    def read_scheduler(self, scheduler: LRScheduler, name: str, value: Any) -> Any:
        """A scheduler's step is called later; what it knows changes with each step."""
        what = type(scheduler).__name__
        if name == "step":
            return partial(self.put_off, scheduler, what)
        own = object.__getattribute__(scheduler, "__dict__")
        if name in own and name != "optimizer":
            raise TraceError(
                f"compile: the function reads {name!r} of {what}, which is another one after each "
                "step; read it outside, and call nothing but scheduler.step() inside"
            )
        return value

    def put_off(self, scheduler: LRScheduler, what: str, *args: Any, **kwargs: Any) -> None:
        if any(isinstance(x, Tensor | Number) for x in leaves((args, kwargs))):
            raise TraceError(
                f"compile: {what}.step reads a value, which isn't known while the function is "
                "recorded; return it, and call scheduler.step(value) outside"
            )
        optimizer = object.__getattribute__(scheduler, "__dict__").get("optimizer")
        self.scheduled[id(optimizer)] = optimizer
        self.actions.append((Later(scheduler), args, kwargs))


class Later:
    """A scheduler's step, which doesn't keep it alive."""

    def __init__(self, scheduler: LRScheduler) -> None:
        self.ref = weakref.ref(scheduler)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        scheduler: Any = self.ref()
        if scheduler is None:
            raise TraceError("compile: a scheduler that the function used isn't there any more")
        scheduler.step(*args, **kwargs)
