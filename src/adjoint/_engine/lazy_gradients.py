"""Gradients that are yet to be computed: what elementwise rules said, put together in one kernel.

Rules of large arrays aren't run one by one. What a rule says of a parent stands as it is until it
is needed as an array: the parent's own rule, if it is elementwise too, goes on from it, and what
other rules say of the same parent is added to it. So a chain of rules, and the sum of several
chains, is a single pass over what was saved. Nothing is reordered: the result is that of the rules
one by one, bit for bit.
"""

from typing import TYPE_CHECKING, Any

from .. import backends
from .._foundation.modes import PROFILE, mode
from .._foundation.spans import timed

if TYPE_CHECKING:
    from .._core.fused_rules import Fused

MOST_ARRAYS = 6  # that one kernel reads, and that wait for it in memory
MOST_STEPS = 12
MOST_KERNELS = 512  # of several steps each; after that new ones are run one by one

# Steps and dtypes -> what runs the kernel; None for what was met once. That may never come again,
# so its steps are run one by one, by the kernels of single rules.
launchers: dict[tuple, Any] = {}

# A step is an output of a rule, or (None, 0, ...) a sum. Its operands are earlier steps (their
# numbers), arrays (~ their numbers) and numbers ("number", which).
Step = tuple["Fused | None", int, tuple]


class Pending:
    """An array that is yet to be computed, by steps."""

    __slots__ = ("_array", "arrays", "dtype", "kind", "numbers", "shape", "size", "steps", "taken")

    def __init__(self, like: Any) -> None:
        self.shape, self.dtype, self.size = like.shape, like.dtype, like.size
        self.kind: type = like.kind if type(like) is Pending else type(like)
        self.arrays: list[Any] = []
        self.numbers: list[Any] = []
        self.steps: list[Step] = []
        self._array: Any = None
        self.taken = 0  # how many others go on from it

    def take(self, x: Any) -> int:
        """Make an array, or another pending one with its steps, an operand of steps to come."""
        if type(x) is not Pending:
            for k, known in enumerate(self.arrays):
                if known is x:
                    return ~k
            self.arrays.append(x)
            return -len(self.arrays)
        x.taken += 1
        if x._array is not None or (x.taken > 1 and len(x.steps) > 1):
            return self.take(x.materialize())
        places = [self.take(array) for array in x.arrays]
        offset = len(self.numbers)
        self.numbers += x.numbers
        numbers: list[int] = []
        for fused, k, operands in x.steps:
            moved = tuple(
                ("number", o[1] + offset)
                if type(o) is tuple
                else numbers[o]
                if o >= 0
                else places[~o]
                for o in operands
            )
            numbers.append(self.add((fused, k, moved)))
        return numbers[-1]

    def number(self, value: Any) -> tuple[str, int]:
        self.numbers.append(value)
        return "number", len(self.numbers) - 1

    def add(self, step: Step) -> int:
        if step in self.steps:
            return self.steps.index(step)
        self.steps.append(step)
        return len(self.steps) - 1

    @property
    def is_small_enough(self) -> bool:
        return len(self.arrays) <= MOST_ARRAYS and len(self.steps) <= MOST_STEPS

    @property
    def key(self) -> tuple:
        return (self.kind, *self.steps, *[array.dtype for array in self.arrays])

    @property
    def name(self) -> str:
        """Whose rules the steps are, each op once: tanh+multiply."""
        ops = ["accumulate" if fused is None else fused.op for fused, _, _ in self.steps]
        return "+".join(dict.fromkeys(ops))

    def materialize(self) -> Any:
        """The array, computed when it is first asked for."""
        if self._array is None:
            launcher = self.known_launcher()
            if launcher is None:
                self._array = self.one_by_one()
            else:
                launch = launcher.map
                if mode.word & PROFILE:
                    launch = timed(self.name, "backward", launch)
                self._array = launch(self.arrays, self.numbers)[0]
            self.arrays, self.numbers, self.steps = [], [], []
        return self._array

    def known_launcher(self) -> Any:
        """What runs the kernel of all steps; None if that isn't worth compiling."""
        key = self.key
        launcher = launchers.get(key)
        if launcher is None:
            wanted = len(self.steps) == 1 or key in launchers
            room = len(self.steps) == 1 or len(launchers) < MOST_KERNELS
            launcher = self.launcher() if wanted and room else None
            if room:
                launchers[key] = launcher
        return launcher

    def one_by_one(self) -> Any:
        results: list[Any] = []
        for fused, k, operands in self.steps:
            step = Pending(self)
            own = tuple(
                step.number(self.numbers[o[1]])
                if type(o) is tuple
                else step.take(results[o] if o >= 0 else self.arrays[~o])
                for o in operands
            )
            step.add((fused, k, own))
            results.append(step.materialize())
        return results[-1]

    def launcher(self) -> Any:
        from ..kernels.language import TYPES, Kernel, Value, element, scalar

        values: list[Value] = []
        arrays = [element(k, TYPES[array.dtype]) for k, array in enumerate(self.arrays)]
        number = TYPES[self.dtype]
        for fused, k, operands in self.steps:
            given = [
                scalar(o[1], number) if type(o) is tuple else values[o] if o >= 0 else arrays[~o]
                for o in operands
            ]
            if fused is None:
                values.append(given[0] + given[1])
            else:
                places = [place for kind in fused.used[k] for place in kind]
                known = dict(zip(places, given, strict=True))
                values += fused.values(known, [fused.outputs[k]]) or []
        backend: Any = backends.LOADED[self.kind]
        return backend.launcher(Kernel([values[-1]]))


def from_rule(fused: "Fused", k: int, given: tuple) -> Pending | None:
    """An output of a rule, given the gradient and what was saved; None if that can't wait."""
    g = given[0]
    if fused.axis is not None or g.dtype.kind != "f" or g.dtype.itemsize < 4:
        return None
    if fused.launcher(tuple([given[n].dtype for n in fused.arrays])) is None:
        return None
    out = Pending(g)
    arrays, numbers = fused.used[k]
    operands = [out.take(given[n]) for n in arrays] + [out.number(given[n]) for n in numbers]
    out.add((fused, k, tuple(operands)))
    return out if out.is_small_enough else None


def from_sum(x: Any, y: Any) -> Pending | None:
    """The sum of two, pending or not; None if it can't wait."""
    out = Pending(x)
    out.add((None, 0, (out.take(x), out.take(y))))
    return out if out.is_small_enough else None


def materialize(x: Any) -> Any:
    """The array of a gradient, computed now if it is pending."""
    return x.materialize() if type(x) is Pending else x
