"""Simplify: fewer steps that give the same values.

Numbers take the place of arrays that are full of them, what depends on nothing is computed once,
equal steps are one, those that change nothing are left out, and so are those that nobody needs.
x + 0 stays (it makes 0 of -0), and so does x * 0 (NaN). What a checkpoint computes again is done
again.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.execute import as_array
from .._foundation.silence import compute
from .._trace.recording import Step, Traced
from ..primitives.elementwise import equal, greater_equal
from ..primitives.elementwise import where as where_op
from .draft import Draft, Fill, is_array, nbytes, traced, with_fills
from .layouts import MOVES

LARGEST = 1 << 22  # bytes of a result that is computed beforehand, unless its inputs are as large


class Simplifier:
    """Walks over steps once, and knows what became of each value."""

    def __init__(self, draft: Draft, joins_equal: bool) -> None:
        self.joins_equal = joins_equal
        self.constants = dict(draft.constants)
        self.known: dict[Traced, Any] = {
            value: Fill(array.item(), array.shape, array.dtype)
            for value, array in draft.constants.items()
            if array.size == 1 and array.dtype.kind in "fiub"
        }
        self.equal: dict[str, tuple] = {}
        self.made_by: dict[Traced, Step] = {}
        self.ranges: dict[tuple, Traced] = {}
        self.masks: dict[tuple, Traced] = {}
        self.steps: list[Step] = []

    def found(self, x: Any) -> Any:
        return self.known.get(x, x) if type(x) is Traced else x

    def add(self, step: Step) -> None:
        if step.name in ("triangle", "eye") and step.results[0].device == "cpu":
            step = self.masked(step)
        elementwise = step.op.kind == "elementwise"
        inputs = with_fills(step) if elementwise else step.inputs
        step = step._replace(inputs=tuple([self.found(x) for x in inputs]))
        for result, replacement in zip(step.results, self.replacements(step), strict=False):
            self.known[result] = replacement
        if step.results[0] not in self.known:
            self.steps.append(step)
            self.made_by |= dict.fromkeys(step.results, step)

    def masked(self, step: Step) -> Step:
        """A triangle of x, or an identity matrix, as a choice of elements."""
        result = step.results[0]
        zero, one = (Fill(np.array(n, result.dtype).item(), (), result.dtype) for n in (0, 1))
        x = one if step.name == "eye" else step.inputs[0]
        inputs = self.mask(result, step.attrs["k"], step.attrs.get("upper")), x, zero
        return step._replace(op=where_op.op, inputs=inputs, attrs={})

    def mask(self, x: Traced, k: int, upper: bool | None) -> Traced:
        """What is true above or below the k-th diagonal, or on it, which matrices of a shape share;
        made of two rows of numbers, as it may be large itself."""
        rows, columns = x.shape[-2:]
        key = rows, columns, k, upper
        if key not in self.masks:
            inside = Traced(f"{x.name}.inside", (rows, columns), np.dtype(bool), "cpu", None)
            down = self.range(min(max(k, -rows), columns), rows, (rows, 1))
            along = self.range(0, columns, (1, columns))
            op = equal.op if upper is None else greater_equal.op
            self.add(Step(op, (along, down) if upper else (down, along), {}, (inside,)))
            self.masks[key] = inside
        return self.masks[key]

    def range(self, start: int, count: int, shape: tuple[int, ...]) -> Traced:
        """Whole numbers one after the other, as a constant."""
        key = start, shape
        if key not in self.ranges:
            name = f"range{len(self.ranges)}"
            value = self.ranges[key] = Traced(name, shape, np.dtype(np.int64), "cpu", None)
            self.constants[value] = np.arange(start, start + count).reshape(shape)
        return self.ranges[key]

    def replacements(self, step: Step) -> tuple:
        """What stands for the results of a step already; nothing, if it has to be done."""
        if step.op.random or step.op.is_self_made:
            return ()
        rule = RULES.get(step.name)
        found = rule(self, step) if rule else None
        if found is None and step.name in MOVES and type(step.inputs[0]) is Fill:
            found = step.inputs[0]._replace(shape=step.results[0].shape)
        if found is not None:
            return (found,)
        if self.is_constant(step):
            return self.computed(step)
        if not self.joins_equal:
            return ()
        shapes = [(x.shape, x.dtype) for x in fills(step)]
        key = repr((step.name, step.inputs, shapes, step.attrs, step.run))
        former = self.equal.setdefault(key, step.results)
        return () if former is step.results else former

    def is_constant(self, step: Step) -> bool:
        """Whether a step depends on nothing that may change, and is worth being kept."""
        arrays = [x for x in step.inputs if is_array(x)]
        if not all(type(x) is Fill or x in self.constants for x in arrays):
            return False
        if any(x.device != "cpu" for x in step.results):
            return False
        if not arrays:
            return True  # there is no kernel that makes something of nothing
        given = sum(nbytes(x) for x in arrays if type(x) is Traced)
        return sum(map(nbytes, step.results)) <= max(LARGEST, given) or all_fills(step)

    def computed(self, step: Step) -> tuple:
        """The results of a step on constants."""
        if step.name == "full":
            return (full(step),)
        small = all_fills(step)
        inputs = [self.value(x, small) for x in step.inputs]
        attrs = {key: value for key, value in step.attrs.items() if key != "device"}
        try:
            out = compute(step.op.functions[np.ndarray], *inputs, **attrs)
        except Exception:
            return ()  # it is a run that raises
        out = [as_array(x) for x in ((out,) if step.op.single_result else out)]
        if small:
            return (Fill(out[0].item(), step.results[0].shape, out[0].dtype),)
        self.constants |= zip(step.results, out, strict=True)
        return step.results

    def value(self, x: Any, single: bool) -> Any:
        if type(x) is Fill:
            return x._replace(shape=()).array() if single else x.array()
        return self.constants[x] if type(x) is Traced else x


def all_fills(step: Step) -> bool:
    """Whether one number tells all elements of the result."""
    if step.name == "full":
        return True
    return (
        step.op.kind == "elementwise"
        and step.op.single_result
        and step.results[0].dtype.kind in "fiub"
        and all(type(x) is Fill for x in step.inputs)
    )


def full(step: Step) -> Fill:
    result = step.results[0]
    value = compute(np.array, step.attrs["value"], result.dtype).item()
    return Fill(value, result.shape, result.dtype)


def fills(step: Step) -> list[Fill]:
    return [x for x in step.inputs if type(x) is Fill]


# What single steps come to. A rule returns None where its step has to be done.


def is_number(x: Any, value: float) -> bool:
    if type(x) is not Fill or x.value != value or x.dtype.kind == "c":
        return False  # complex products and sums change infinities, and zeros of the other part
    return math.copysign(1, x.value) == math.copysign(1, value) if x.dtype.kind == "f" else True


def same(step: Step, x: Any) -> Any:
    """x, if it is like the result."""
    result = step.results[0]
    if not is_array(x) or x.dtype != result.dtype:
        return None
    if type(x) is Fill:
        return x._replace(shape=result.shape)
    return x if x.shape == result.shape else None


def multiply(_: Simplifier, step: Step) -> Any:
    x, y = step.inputs
    return same(step, x) if is_number(y, 1) else same(step, y) if is_number(x, 1) else None


def divide(_: Simplifier, step: Step) -> Any:
    return same(step, step.inputs[0]) if is_number(step.inputs[1], 1) else None


def subtract(_: Simplifier, step: Step) -> Any:
    return same(step, step.inputs[0]) if is_number(step.inputs[1], 0.0) else None


def add(_: Simplifier, step: Step) -> Any:
    x, y = step.inputs
    nothing = -0.0 if step.results[0].dtype.kind == "f" else 0
    return (
        same(step, x) if is_number(y, nothing) else same(step, y) if is_number(x, nothing) else None
    )


def where(_: Simplifier, step: Step) -> Any:
    condition, x, y = step.inputs
    return same(step, x if condition.value else y) if type(condition) is Fill else None


def twice(name: str) -> Callable:
    """An op that undoes itself."""

    def rule(to: Simplifier, step: Step) -> Any:
        before = to.made_by.get(step.inputs[0])
        return before.inputs[0] if before is not None and before.name == name else None

    return rule


def cast(to: Simplifier, step: Step) -> Any:
    """There and back again, if nothing is lost on the way."""
    (x,) = step.inputs
    if same(step, x) is not None:
        return x
    before = to.made_by.get(x)
    if before is None or before.name != "cast":
        return None
    source = before.inputs[0]
    return same(step, source) if is_array(source) and holds_all(x.dtype, source.dtype) else None


def holds_all(wide: np.dtype, narrow: np.dtype) -> bool:
    """Whether a dtype has all numbers of another one: NumPy calls float64 safe for int64, too."""
    is_long = narrow.kind in "iu" and narrow.itemsize == 8 and wide.kind in "fc"
    return not is_long and np.can_cast(narrow, wide, "safe")


def reshape(to: Simplifier, step: Step) -> Any:
    return same(step, source_of(to, step)) or same(step, step.inputs[0])


def permute_dims(to: Simplifier, step: Step) -> Any:
    axes = step.attrs["axes"]
    if axes == tuple(range(len(axes))):
        return step.inputs[0]
    before = to.made_by.get(step.inputs[0])
    if before is None or before.name != "permute_dims":
        return None
    together = tuple(before.attrs["axes"][k] for k in axes)
    return before.inputs[0] if together == tuple(range(len(axes))) else None


def source_of(to: Simplifier, step: Step) -> Any:
    """What a row of steps of this op began with."""
    x = step.inputs[0]
    while (before := to.made_by.get(x)) is not None and before.op is step.op:
        x = before.inputs[0]
    return x


def total(_: Simplifier, step: Step) -> Any:
    """The sum of equal numbers."""
    x, result = step.inputs[0], step.results[0]
    if type(x) is not Fill or x.dtype.kind != "f":
        return None
    if not (count := math.prod(x.shape) // max(1, math.prod(result.shape))):
        return Fill(0.0, result.shape, result.dtype)
    value = compute(np.multiply, np.float64(x.value), count)
    return Fill(compute(value.astype, x.dtype).item(), result.shape, result.dtype)


RULES: dict[str, Callable] = {
    "multiply": multiply,
    "divide": divide,
    "subtract": subtract,
    "add": add,
    "where": where,
    "negative": twice("negative"),
    "matrix_transpose": twice("matrix_transpose"),
    "cast": cast,
    "reshape": reshape,
    "permute_dims": permute_dims,
    "sum": total,
}


def simplify(draft: Draft, joins_equal: bool = True) -> Draft:
    """The same values in fewer steps. Equal ones become one, whose result may wait longer."""
    to = Simplifier(draft, joins_equal)
    for step in draft.steps:
        to.add(step)
    wanted = [to.found(x) for x in draft.wanted]
    return without_dead(Draft(to.steps, to.constants, wanted))


def without_dead(draft: Draft) -> Draft:
    """Only the steps, and the constants, that a wanted value depends on, and ops that aren't ours:
    they may do more than give results."""
    needed = set(traced(draft.wanted))
    steps = []
    for step in reversed(draft.steps):
        if step.op.is_self_made or not needed.isdisjoint(step.results):
            steps.append(step)
            needed.update(traced(step.inputs))
    constants = {value: array for value, array in draft.constants.items() if value in needed}
    return Draft(steps[::-1], constants, draft.wanted)
