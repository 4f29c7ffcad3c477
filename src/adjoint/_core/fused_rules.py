"""Expressions of ops as one kernel: a derivative rule becomes a single pass over memory.

Elementwise ops become values of the kernel language, sums over the rule's axis reductions of rows.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._foundation.modes import PROFILE, mode
from .._foundation.spans import timed
from ..kernels.language import (
    BOOL,
    F16,
    F32,
    TYPES,
    Kernel,
    Type,
    Value,
    constant,
    convert,
    element,
    reduce,
    scalar,
)
from .expressions import Expr, walk

REDUCTIONS = {"sum": "sum", "max": "max", "min": "min"}


class Fused:
    """Expressions as a function of the arrays and numbers that symbols stand for.

    A call is given what `names` name, in that order. It returns NotImplemented where there is no
    kernel for that: the ops have to be run one by one then. `op`: whose rules they are.
    """

    def __init__(
        self, op: str, outputs: Sequence[Expr], names: Sequence[str], backend: Any
    ) -> None:
        self.op = op
        self.outputs = list(outputs)
        self.names = list(names)
        self.backend = backend
        self.launchers: dict[tuple, Any] = {}
        order = walk(*outputs)
        self.arrays, self.numbers = self.positions(outputs)
        self.used = [self.positions([out]) for out in outputs]  # by each of them
        self.computed = [k for k, out in enumerate(outputs) if out.op is not None]
        self.axis: Any = next((e.attrs["axis"] for e in order if is_reduction(e)), None)
        is_one_op = len(outputs) == 1 and len(order) == 2
        self.adder: Any = backend.ADDERS.get(outputs[0].op.name) if is_one_op else None

    def positions(self, outputs: Sequence[Expr]) -> tuple[list[int], list[int]]:
        """What outputs are made of, by position among the names: arrays, and numbers."""
        symbols = {e.name: e for e in walk(*outputs) if e.op is None}
        known = [(k, symbols[name]) for k, name in enumerate(self.names) if name in symbols]
        arrays = [k for k, symbol in known if not symbol.static]
        return arrays, [k for k, symbol in known if symbol.static]

    def __call__(self, *given: Any) -> Any:
        arrays = [given[k] for k in self.arrays]
        launcher = self.launcher(tuple([a.dtype for a in arrays]))
        if launcher is None:
            return NotImplemented
        numbers = [given[k] for k in self.numbers]
        axis = self.axis_of(given, arrays[0].ndim) if launcher.kernel.reduces else None
        out = launcher.map(arrays, numbers, None, axis)
        return out[0] if len(self.outputs) == 1 else self.completed(out, given)

    def completed(self, out: list, given: tuple) -> list:
        """All outputs, from those that are computed: some are just what is given."""
        made = dict(zip(self.computed, out, strict=True))
        return [made[k] if k in made else self.value(e, given) for k, e in enumerate(self.outputs)]

    def launcher(self, dtypes: tuple) -> Any:
        """What runs the kernel for arrays of these dtypes; None where there is no such kernel."""
        if dtypes not in self.launchers:
            outputs = self.described(dtypes)
            made = outputs and self.backend.launcher(Kernel([outputs[k] for k in self.computed]))
            self.launchers[dtypes] = made or None
        return self.launchers[dtypes]

    def described(self, dtypes: tuple) -> list[Value] | None:
        """The outputs in the kernel language; None where they can't be said in it."""
        if not self.computed or not all(dtype in TYPES for dtype in dtypes):
            return None
        types = [TYPES[dtype] for dtype in dtypes]
        number = F32 if types[0] == F16 else types[0]
        if not any(type.kind == "f" for type in types):
            return None
        given = {k: element(n, types[n]) for n, k in enumerate(self.arrays)}
        given |= {k: scalar(n, number) for n, k in enumerate(self.numbers)}
        return self.values(given, self.outputs)

    def values(self, given: dict[int, Value], outputs: Sequence[Expr]) -> list[Value] | None:
        """Outputs of values, by position among the names. float16 is computed in float32."""
        from ..kernels.ops import Unsupported, describe

        half = any(x.type == F16 for x in given.values())
        known: dict[Any, Any] = {
            self.names[k]: convert(x, F32) if x.type == F16 else x for k, x in given.items()
        }
        number = next(x.type for x in known.values() if x.type.kind == "f")
        try:
            for expr in walk(*outputs):
                if expr.op is None:
                    known[id(expr)] = known[expr.name]
                    continue
                args = [operand(arg, known, number) for arg in expr.args]
                if is_reduction(expr):
                    known[id(expr)] = self.reduction(expr, args[0])
                else:
                    attrs = {key: operand(v, known, number) for key, v in expr.attrs.items()}
                    known[id(expr)] = describe(expr.op.name, args, **attrs)
        except (Unsupported, KeyError, TypeError):
            return None
        values = [known[id(out)] for out in outputs]
        return [convert(out, F16) if half and out.type == F32 else out for out in values]

    def reduction(self, expr: Expr, x: Value) -> Value:
        if expr.attrs["axis"] != self.axis or expr.attrs["keepdims"] is not True:
            raise KeyError("rows of one kernel run along the same axes, which stay")
        return reduce(REDUCTIONS[expr.op.name], x)

    def axis_of(self, given: tuple, rank: int) -> tuple[int, ...]:
        """The axes of the reductions, from the attributes of the call."""
        return tuple(self.value(axis, given) % rank for axis in self.axis)

    def add_to(self, former: np.ndarray, given: tuple) -> None:
        """Add the result of the only op to an array (by `adder`, if there is one)."""
        only = self.outputs[0]
        attrs = {key: self.value(v, given) for key, v in only.attrs.items()}
        adder = timed(self.op, "backward", self.adder) if mode.word & PROFILE else self.adder
        adder(former, *(self.value(arg, given) for arg in only.args), **attrs)

    def value(self, symbol: Any, given: tuple) -> Any:
        return given[self.names.index(symbol.name)] if isinstance(symbol, Expr) else symbol


def is_reduction(expr: Expr) -> bool:
    return expr.op is not None and expr.op.name in REDUCTIONS and "axis" in expr.attrs


def operand(value: Any, known: dict[int, Any], type: Type) -> Any:
    if isinstance(value, Expr):
        return known[id(value)]
    if value is None or isinstance(value, np.dtype):
        return value
    return constant(value, BOOL if isinstance(value, bool) else type)
