"""`ad.compile`: functions that are recorded at their first call, and run whole from then on."""

import functools
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import MethodType
from typing import Any

import numpy as np

from .._core.tensor import Tensor
from .._foundation.caller_warnings import warn
from .._foundation.config import is_switched_off
from .._foundation.errors import DTypeError
from .._foundation.modes import GRAD, PROFILE, mode
from .._foundation.spans import region, unseen
from .._foundation.trees import leaves, map_tree
from ..backends.cpu.jit.availability import available, obstacle
from .explaining import explained
from .methods import Method, Unbound, forget
from .names import names_of
from .profiled import timed
from .program import MISFIT, Program, Turn
from .recording import Uncompilable, record
from .signature import differences, signature, with_tensors

__all__ = ["CompiledFunction", "compile"]

MOST_PROGRAMS = 8  # of a function
STATIC = (staticmethod, partial) if sys.version_info < (3, 14) else staticmethod  # in a class
OWN = frozenset(("_function", "_programs", "_eager", "_bound", "_warned"))


class CompiledFunction:
    """A function that runs as one native program for each kind of arguments: see `ad.compile`."""

    def __init__(self, function: Callable) -> None:
        functools.update_wrapper(self, function, updated=())
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self._function = function
        self._programs: list[tuple[tuple, Program]] = []  # the latest first
        self._eager: dict[tuple, str] = {}  # signatures that can't be compiled, and why
        self._bound: dict[int, tuple[weakref.ref, CompiledFunction]] = {}  # by ids of instances
        self._warned = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if mode.word > GRAD or mode.draws is not None:
            return self._call_in_mode(args, kwargs)
        key, tensors = signature(args, kwargs)
        for k, (own, program) in enumerate(self._programs):
            if own == key and (out := program(tensors, args, kwargs)) is not MISFIT:
                if k:
                    self._use_first(own, program)
                return out
        return self._run_new(args, kwargs)

    def _call_in_mode(self, args: tuple, kwargs: dict) -> Any:
        if mode.word & ~PROFILE > GRAD or mode.draws is not None:
            return self._function(*args, **kwargs)
        with region(self.__name__):
            return self._run_new(args, kwargs)

    def _use_first(self, key: tuple, program: Program) -> None:
        rest = [pair for pair in self._programs if pair[1] is not program]
        self._programs = [(key, program), *rest]

    def _run_new(self, args: tuple, kwargs: dict) -> Any:
        """Record the function for arguments like these, and run what comes of it."""
        if why_eager():
            return self._function(*args, **kwargs)
        if any(isinstance(x, np.ndarray) for x in leaves((args, kwargs))):
            args, kwargs = map_tree(with_tensors, (args, kwargs))
        key, tensors = signature(args, kwargs)
        if key in self._eager:
            return self._function(*args, **kwargs)
        out = self._run(key, tensors, args, kwargs)
        if out is MISFIT:
            with Turn.lock:  # while tensors are recorded, programs of other threads can't read them
                out = self._run(key, tensors, args, kwargs)
                if out is MISFIT and self._record(key, tensors, args, kwargs):
                    out = self._run(key, tensors, args, kwargs)
        # What the first run changes may be what the recording depends on.
        return self._function(*args, **kwargs) if out is MISFIT else out

    def _run(self, key: tuple, tensors: Sequence[Tensor], args: tuple, kwargs: dict) -> Any:
        """The result of a program that fits, or MISFIT."""
        for own, program in self._programs:
            run = timed(program) if mode.word & PROFILE else program
            if own == key and (out := run(tensors, args, kwargs)) is not MISFIT:
                self._use_first(own, program)
                return out
        return MISFIT

    def _record(self, key: tuple, tensors: Sequence[Tensor], args: tuple, kwargs: dict) -> bool:
        """Make a program; returns whether there can be one."""
        with region(self.__name__, "compile"), progress(self.__name__) as log:
            try:
                names = names_of(self._function)  # before it runs, as it may change them
                with unseen():
                    recorded = record(self._function, args, kwargs)
                program = Program(self._function, recorded, names, tensors, log)
            except Uncompilable as reason:
                self._leave(key, str(reason))
                return False
        pairs = [(key, program), *(pair for pair in self._programs if pair[1].lives())]
        self._programs = pairs[:MOST_PROGRAMS]
        if len(pairs) > MOST_PROGRAMS:
            self._warn(pairs)
        return True

    def _leave(self, key: tuple, reason: str) -> None:
        latest = list(self._eager.items())[1 - MOST_PROGRAMS :]
        self._eager = {**dict(latest), key: reason}
        warn(f"compile: {self.__name__} runs eagerly: {reason}", RuntimeWarning)

    def _warn(self, pairs: list[tuple[tuple, Program]]) -> None:
        if not self._warned:
            self._warned = True
            (new, program), (old, former) = pairs[:2]
            what = differences(old, new) or program.difference(former)
            times = f"was compiled for the {MOST_PROGRAMS + 1}th time, now as {what}"
            kept = f"At most {MOST_PROGRAMS} programs are kept"
            warn(f"compile: {self.__name__} {times}. {kept}", RuntimeWarning)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """As a method: each instance has programs of its own, where it can be known weakly."""
        is_method = hasattr(self._function, "__get__") and not isinstance(self._function, STATIC)
        if instance is None or not is_method:
            return self
        known = self._bound.get(id(instance))
        if known is None or known[0]() is not instance:
            try:
                ref = weakref.ref(instance, partial(forget, self._bound, id(instance)))
            except TypeError:
                return MethodType(self, instance)
            known = self._bound[id(instance)] = ref, CompiledFunction(Unbound(self._function, ref))
        return Method(known[1], instance)

    def __getattr__(self, name: str) -> Any:
        """Attributes of the function, such as the parameters of a compiled Module."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._function, name)

    def __setattr__(self, name: str, value: Any) -> None:
        own = name in OWN or name.startswith("__")
        if own:
            object.__setattr__(self, name, value)
        else:
            setattr(self._function, name, value)

    def __reduce__(self) -> Any:
        """Copies compile the copied function; pickles name a decorated one."""
        name = getattr(self, "__qualname__", "")
        found: Any = sys.modules.get(self.__module__)
        for part in name.split("."):
            found = getattr(found, part, None)
        return name if found is self else (compile, (self._function,))

    def explain(self) -> str:
        """A report of the function's programs: their kernels and memory, and the ops that stayed in
        Python."""
        programs = [program for _, program in self._programs]
        return explained(self.__name__, programs, [why_eager(), *self._eager.values()])

    def __repr__(self) -> str:
        return f"<compiled {self.__name__}: {len(self._programs)} programs>"


@contextmanager
def progress(name: str) -> Iterator[Callable[[str, Any], None]]:
    """A function to be called with the result of each pass: it prints those that are asked for, and
    a line on a terminal if it takes long."""
    start, shown = time.perf_counter(), False
    wanted = os.environ.get("ADJOINT_COMPILE_LOG", "").replace(",", " ").split()

    def tell(what: str, result: Any) -> None:
        nonlocal shown
        if what in wanted:
            rows = result if isinstance(result, list) else [result]
            print(f"compile {name}: {what}", *rows, sep="\n", file=sys.stderr)
        elif what == "lower" and sys.stderr.isatty() and time.perf_counter() - start > 1:
            shown = True
            print(f"\rcompiling {name}: {result}\033[K", end="", file=sys.stderr, flush=True)

    try:
        yield tell
    finally:
        if shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


@functools.cache
def why_eager() -> str:
    """Why functions run eagerly, or "" if they do not; what nobody asked for is said, once."""
    if is_switched_off("ADJOINT_COMPILE"):
        return "ADJOINT_COMPILE=0 in the environment"
    if available():
        return ""
    if reason := obstacle():
        warn(f"compile: functions run eagerly: {reason}", RuntimeWarning)
    return reason or "ADJOINT_JIT=0 in the environment"


def compile(function: Callable) -> CompiledFunction:
    """The function as native programs, which do the same: results, gradients, changes of parameters
    and of state, random numbers and errors.

    It is recorded at its first call, and again where arguments or what it uses are of another kind.
    Whole training steps are what it is for; also as a decorator, also of a Module.

    >>> model = ad.nn.Linear(3, 1)
    >>> optimizer = ad.optim.SGD(model.parameters(), lr=0.1)
    >>> @ad.compile
    ... def step(x, y):
    ...     loss = ad.mean((model(x) - y) ** 2)
    ...     optimizer.zero_grad()
    ...     loss.backward()
    ...     optimizer.step()
    ...     return loss
    >>> x, y = ad.ones((8, 3)), ad.zeros((8, 1))
    >>> first, second = step(x, y), step(x, y)
    >>> bool(second < first)
    True
    """
    if not callable(function):
        what = type(function).__name__
        raise DTypeError(f"compile: a function or a Module is needed, got {what}")
    return function if isinstance(function, CompiledFunction) else CompiledFunction(function)
