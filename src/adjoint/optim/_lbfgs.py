"""L-BFGS."""

import math
from collections.abc import Callable
from typing import Any

from .._core.tensor import Tensor, describe, share
from .._foundation.errors import ArgumentError, DeviceError, DTypeError, TraceError
from .._foundation.modes import is_tracing, no_grad
from .._foundation.spans import region
from ..functions._arguments import as_count
from ..functions.contractions import dot
from ..functions.creation import asarray, zeros
from ..functions.reductions import max, sum
from ..functions.shapes import concat
from ..primitives.elementwise import abs
from ._groups import Params, nothing_given
from ._line_search import Point, search
from ._optimizer import Checked, run_closure
from ._saved import check_alike, check_entries, plain

TENSORS = ("d", "prev_flat_grad")
LISTS = ("old_dirs", "old_stps")
NUMBERS = ("func_evals", "n_iter", "t", "H_diag", "prev_loss")
CURVED = 1e-10  # the least product of a step and the change of the gradient that is remembered


class LBFGS(Checked):
    """L-BFGS: Newton's method with a Hessian guessed from the last `history_size` gradients.

    A step is up to `max_iter` iterations, each of one or several calls of the closure, which
    computes the loss and its gradients. It ends earlier after `max_eval` calls (5 / 4 * max_iter
    unless given), if no gradient is above `tolerance_grad`, or if neither the loss nor a parameter
    changes by more than `tolerance_change`. With line_search_fn="strong_wolfe" each iteration looks
    for a good step length, which starts at `lr`; without, `lr` is the length. There is one group of
    parameters, all of one dtype and on one device.

    >>> x = ad.tensor([3.0, -4.0], requires_grad=True)
    >>> optimizer = ad.optim.LBFGS([x], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((x - ad.asarray([1.0, 2.0])) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure).item()
    40.0
    >>> x
    tensor([1., 2.], requires_grad=True)
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if max_eval is None:
            max_eval = as_count("LBFGS", "max_iter", max_iter) * 5 // 4
        self._memory: dict[str, Any] = {}
        super().__init__(
            params,
            {
                "lr": lr,
                "max_iter": max_iter,
                "max_eval": max_eval,
                "tolerance_grad": tolerance_grad,
                "tolerance_change": tolerance_change,
                "history_size": history_size,
                "line_search_fn": line_search_fn,
            },
        )

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        if self.param_groups:
            raise ArgumentError("LBFGS: there is one group of parameters only")
        super().add_param_group(param_group)
        if not self._all_params:
            raise nothing_given("LBFGS: the optimizer")
        for p in self._all_params:
            check_together(self._all_params[0], p)

    @no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Minimize the loss that `closure` returns, which also computes the gradients; returns the
        first loss."""
        if closure is None:
            raise ArgumentError("LBFGS: step needs a closure, which computes the loss again")
        if is_tracing():
            raise TraceError("LBFGS: a step depends on values, which aren't known in a trace")
        settings = self._settings_of(self.param_groups[0])
        self._check_settings(settings)
        state = self._memory = {"func_evals": 0, "n_iter": 0} | self._memory
        first = run_closure(closure)
        state["func_evals"] += 1
        point = Point(0.0, as_loss(first), self._gradient(), 0.0)
        if largest(point.g) > settings["tolerance_grad"]:
            with region("LBFGS.step"):
                self._iterate(closure, settings, point)
        return first

    def _iterate(self, closure: Callable[[], Any], settings: dict[str, Any], point: Point) -> None:
        """Take steps from a point, until one of the settings' limits is met."""
        state, evaluations = self._memory, 1
        least, flat = settings["tolerance_change"], settings["tolerance_grad"]
        for remaining in reversed(range(settings["max_iter"])):
            state["n_iter"] += 1
            self._remember(point.g, settings["history_size"])
            d, t = self._direction(point.g), settings["lr"]
            if state["n_iter"] == 1:
                t *= min(1.0, 1.0 / float(sum(abs(point.g))))
            state |= {"d": d, "t": t, "prev_flat_grad": point.g, "prev_loss": point.loss}
            start = Point(0.0, point.loss, point.g, float(dot(point.g, d)))
            if start.slope > -least:
                break
            if settings["line_search_fn"] is not None:
                budget = settings["max_eval"] - evaluations
                point, count = self._search(closure, start, d, t, budget)
            elif remaining:
                point, count = self._evaluate(closure, self._values(), d, t), 1
            else:  # nothing would be done with the loss and the gradient there
                move(self._all_params, self._values(), d, t)
                break
            evaluations += count
            state["func_evals"] += count
            state["t"] = point.t
            if evaluations >= settings["max_eval"] or largest(point.g) <= flat:
                break
            if largest(d * point.t) <= least or math.fabs(point.loss - start.loss) < least:
                break

    # Along a line.

    def _search(
        self, closure: Callable[[], Any], start: Point, d: Tensor, t: float, budget: int
    ) -> tuple[Point, int]:
        """Move the parameters to the point that a line search finds."""
        origin = self._values()
        try:
            point, count = search(
                lambda t: self._evaluate(closure, origin, d, t), start, t, largest(d), budget
            )
        except BaseException:
            move(self._all_params, origin, d, 0.0)
            raise
        move(self._all_params, origin, d, point.t)
        return point, count

    def _evaluate(
        self, closure: Callable[[], Any], origin: list[Tensor], d: Tensor, t: float
    ) -> Point:
        """Move the parameters to the point at t, and evaluate the closure there."""
        move(self._all_params, origin, d, t)
        loss, g = as_loss(run_closure(closure)), self._gradient()
        return Point(t, loss, g, float(dot(g, d)))

    def _values(self) -> list[Tensor]:
        return [share(p) for p in self._all_params]

    def _gradient(self) -> Tensor:
        """All gradients in a row, zeros for parameters that have none or don't require grad."""
        parts = [
            zeros((p.size,), dtype=p.dtype, device=p.device)
            if p.grad is None or not p.requires_grad
            else p.grad.detach().reshape(-1)
            for p in self._all_params
        ]
        return concat(parts)

    # The guess of the Hessian.

    def _remember(self, g: Tensor, most: int) -> None:
        """Put the last step, and how it changed the gradient, into the history."""
        state = self._memory
        if state["n_iter"] == 1:
            state |= {"old_dirs": [], "old_stps": [], "ro": [], "H_diag": 1.0}
            return
        y, s = g - state["prev_flat_grad"], state["d"] * state["t"]
        curvature = float(dot(y, s))
        if curvature > CURVED:
            new = {"old_dirs": y, "old_stps": s, "ro": 1.0 / curvature}
            for name, value in new.items():
                state[name] = [*state[name], value][-most:]
            state["H_diag"] = curvature / float(dot(y, y))

    def _direction(self, g: Tensor) -> Tensor:
        """Minus the gradient, times the guess of the Hessian's inverse."""
        state = self._memory
        history = list(zip(state["old_dirs"], state["old_stps"], state["ro"], strict=True))
        d, parts = -g, []
        for y, s, ro in reversed(history):
            parts.append(float(dot(s, d)) * ro)
            d = d - parts[-1] * y
        d = d * state["H_diag"]
        for (y, s, ro), part in zip(history, reversed(parts), strict=True):
            d = d + (part - float(dot(y, d)) * ro) * s
        return d

    # What is remembered.

    def _remembered(self) -> dict[Tensor, dict[str, Any]]:
        return {self._all_params[0]: self._memory} if self._memory else {}

    def _check_entry(self, where: str, p: Tensor, settings: dict[str, Any], entry: Any) -> None:
        function, _, what = where.partition(": ")
        if p is not self._all_params[0]:
            raise ArgumentError(f"{where} is unexpected: all is remembered with the first one")
        names = (*TENSORS, *LISTS, *NUMBERS, "ro")
        begun = isinstance(entry, dict) and entry.get("n_iter", 0)
        check_entries(function, what, entry, names if begun else (), (*names, "al"))
        for name in NUMBERS:
            check_number(f"{where}[{name!r}]", entry.get(name, 0))
        if not begun:
            return
        own = self._gradient()
        for name in TENSORS:
            check_alike(f"{where}[{name!r}]", own, entry[name])
        if len({len(entry[name]) for name in (*LISTS, "ro")}) > 1:
            raise ArgumentError(f"{where}: old_dirs, old_stps and ro must be of one length")
        for name in LISTS:
            for x in entry[name]:
                check_alike(f"{where}[{name!r}]", own, x)
        for x in entry["ro"]:
            check_number(f"{where}['ro']", x)

    def _recall(self, settings: list[dict[str, Any]], entries: dict[Tensor, dict]) -> None:
        first = self._all_params[0]
        entry = plain(entries.get(first, {}))
        entry.pop("al", None)  # what PyTorch keeps to use its memory again
        self._memory = {name: at_home(name, value, first.device) for name, value in entry.items()}


def as_loss(value: Any) -> float:
    """What a closure has returned, as a number."""
    try:
        return float(value)
    except TypeError:
        raise DTypeError(
            f"LBFGS: the closure must return the loss, got {type(value).__name__}; end it with "
            "`return loss`"
        ) from None


def at_home(name: str, value: Any, device: str) -> Any:
    """An entry of a saved state as a step needs it."""
    if isinstance(value, list):
        return [at_home(name, item, device) for item in value]
    if name in TENSORS or name in LISTS:
        return asarray(value, device=device)
    return int(value) if name in ("func_evals", "n_iter") else float(value)


def check_together(one: Tensor, other: Tensor) -> None:
    """L-BFGS puts all gradients in a row."""
    if one.dtype != other.dtype:
        raise DTypeError(
            f"LBFGS: all params must have one dtype, got {describe(one)} and {describe(other)}"
        )
    if one.device != other.device:
        raise DeviceError(
            f"LBFGS: all params must be on one device, got {one.device} and {other.device}"
        )


def check_number(where: str, value: Any) -> None:
    single = isinstance(value, Tensor) and value.size == 1
    if isinstance(value, bool) or not (single or isinstance(value, int | float)):
        raise DTypeError(f"{where} must be a number, got {value!r}")


def move(params: list[Tensor], origin: list[Tensor], d: Tensor, t: float) -> None:
    """Put parameters where they were, plus t times a direction."""
    start = 0
    for p, values in zip(params, origin, strict=True):
        p[...] = values + t * d[start : start + p.size].reshape(p.shape)
        start += p.size


def largest(x: Tensor) -> float:
    return float(max(abs(x))) if x.size else 0.0
