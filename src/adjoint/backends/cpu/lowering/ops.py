"""Ops lowered to launches: `lower`, and what eager calls make of it."""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....kernels.ops import Unsupported
from ...launches import Cache, Launch, Layout, Target
from ..jit import threads
from ..jit.runner import run
from ..operands import as_array
from ..table import LOWERED
from .elementwise import lower_elementwise
from .native import NativeLowering
from .targets import current_target, layout_of


def lower(
    op: str, layouts: Sequence[Layout | None], attrs: dict[str, Any], target: Target
) -> tuple[Launch, ...] | None:
    """The launches of an op on arrays of these layouts; None where kernels don't do it."""
    to = NativeLowering(layouts, target)
    try:
        lowering_of(op)(to, *to.operands, **attrs)
    except Unsupported:
        return None
    return to.finished()


def lowering_of(op: str) -> Callable:
    form = LOWERED.get(op)
    if form is None:
        return lambda to, *inputs, **attrs: lower_elementwise(to, op, *inputs, **attrs)
    module = importlib.import_module(f".{form.module}", __package__)
    return getattr(module, op, None) or getattr(module, f"{op}_")


class NativeOp:
    """Runs an op by launches, which it keeps for the layouts and attributes that it has met.

    `is_worth`: whether kernels are better than NumPy's function, by layouts.
    """

    run, threads = staticmethod(run), threads  # for callers that make keys of their own

    def __init__(self, op: str, is_worth: Callable[..., bool] | None) -> None:
        self.op, self.is_worth = op, is_worth
        self.launches = Cache()

    def __call__(self, *inputs: Any, **attrs: Any) -> Any:
        """The op's results; NotImplemented where NumPy's function has to give them."""
        arrays: list[Any] = []
        parts: list[Any] = [threads.chosen, *attrs.items()]
        for x in inputs:
            if x is None:
                parts.append(None)
                continue
            if type(x) is not np.ndarray:
                x = as_array(x)
            arrays.append(x)
            parts += (x.shape, x.strides, x.dtype, x.flags.aligned)
        key: Any = tuple(parts)
        try:
            launches = self.launches[key]
        except TypeError:  # slices have no hash before Python 3.12
            key = repr(key)
            launches = self.launches[key]
        if launches is None:
            launches = self.lower(key, inputs, attrs)
        if not launches:
            return NotImplemented
        results = run(launches, arrays, attrs)
        if results is None:
            return NotImplemented
        return results[0] if len(results) == 1 else tuple(results)

    def lower(self, key: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> tuple[Launch, ...]:
        layouts = [layout_of(x) for x in inputs]
        try:
            worth = self.is_worth is None or self.is_worth(*layouts, **attrs)
        except Unsupported:
            worth = False
        found = lower(self.op, layouts, attrs, current_target()) if worth else None
        return self.launches.keep(key, found or ())
