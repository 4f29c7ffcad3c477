"""What a function changed of Python objects while it was recorded: undone, and an error."""

from operator import setitem
from typing import Any, NoReturn

from .._core.tensor import Tensor
from .._foundation.errors import TraceError
from .lines import present_line
from .seen import PLAIN, in_class, items
from .views import View


class Journal:
    """Attributes and containers as they were, which `calls_at_end` restore."""

    def __init__(self, calls_at_end: list[tuple]) -> None:
        self.calls_at_end = calls_at_end
        self.held: dict[int, Any] = {}  # objects, so that their ids stay theirs
        self.new: set[int] = set()  # those that the function made
        self.before: dict[int, dict[str, Any]] = {}
        self.lines: dict[tuple[int, str], str] = {}
        self.containers: dict[int, tuple[str, Any, list]] = {}

    def hold(self, x: Any) -> None:
        self.held.setdefault(id(x), x)

    def is_new(self, x: Any) -> bool:
        return id(x) in self.new

    def before_setting(self, x: Any, name: str) -> None:
        own = object.__getattribute__(x, "__dict__")
        if not own and id(x) not in self.held:
            self.new.add(id(x))
        self.hold(x)
        if self.is_new(x):
            return
        if id(x) not in self.before:
            self.before[id(x)] = snapshot = dict(own)
            self.restore(own, snapshot)
        self.lines.setdefault((id(x), name), present_line())

    def restore(self, container: Any, snapshot: Any) -> None:
        if isinstance(container, list):
            self.calls_at_end.append((setitem, container, slice(None), snapshot))
        else:
            self.calls_at_end += [(container.clear,), (container.update, snapshot)]

    def met(self, what: str, value: Any) -> None:
        """A container that is read: the function may change it."""
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            for part in value:
                self.met(what, part)
        elif isinstance(value, list | dict | set) and id(value) not in self.containers:
            self.hold(value)
            self.containers[id(value)] = what, value, items(value)
            self.restore(value, type(value)(value) if type(value) in (list, set) else dict(value))

    def check(self) -> None:
        """Raise if something isn't as it was before the function ran."""
        for key, before in self.before.items():
            x = self.held[key]
            own = object.__getattribute__(x, "__dict__")
            for name in dict.fromkeys([*before, *own]):
                former, value = (own.get(name, in_class(x, name)) for own in (before, own))
                if not is_same(former, value):
                    raise_set(x, name, value, self.lines.get((key, name), ""))
        for what, value, former in self.containers.values():
            now = items(value)
            if len(now) != len(former) or not all(map(is_same, now, former)):
                raise TraceError(
                    f"compile: {what}, a {type(value).__name__}, is changed in the function, which "
                    "runs once, when it is recorded: return what it is to have, and change it "
                    "outside"
                )


def is_same(x: Any, y: Any) -> bool:
    return x is y or (isinstance(x, PLAIN) and type(x) is type(y) and x == y)


def raise_set(x: Any, name: str, value: Any, line: str) -> NoReturn:
    what = f"compile: {type(x).__name__}.{name} is set in the function"
    what += f" ({line})" if line else ""
    if name == "training":
        advice = "call train() and eval() outside of it"
    elif isinstance(value, Tensor):
        advice = (
            f"make it a buffer, self.register_buffer({name!r}, tensor), and write "
            f"self.{name}[...] = value"
        )
    else:
        advice = "keep what changes in a buffer (a tensor), or set it outside"
    raise TraceError(f"{what}, which runs once, when it is recorded; {advice}")


def check_groups(what: str, real: list, views: list) -> None:
    if len(views) != len(real):
        raise TraceError(
            f"compile: {what}.param_groups is changed in the function; call add_param_group before"
        )
    for view in views:
        changed = view.changed() if isinstance(view, View) else what
        if changed:
            raise TraceError(
                f"compile: {changed} is changed in the function, which runs once, when it is "
                "recorded; use a scheduler, or do it outside"
            )


def check_state(what: str, real: dict, view: dict) -> None:
    for p, entry in view.items():
        if p not in real:
            changed = f"{what}.state[...][{next(iter(entry))!r}]" if entry else None
        elif isinstance(entry, View):
            changed = entry.changed()
        else:
            changed = None if entry is real[p] else f"{what}.state"
        if changed:
            raise TraceError(
                f"compile: {changed} is set in the function, which runs once, when it is recorded; "
                "make tensors in it before, as in __init__, and change them with "
                "state[name][...] = value"
            )
    if len(view) < len(real):
        raise TraceError(f"compile: {what}.state loses entries in the function; do that outside")
