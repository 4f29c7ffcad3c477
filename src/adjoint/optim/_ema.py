"""Exponential moving averages of parameters."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .._core.tensor import Tensor, share
from .._foundation.changes import Watched
from .._foundation.dtypes import float64
from .._foundation.errors import ArgumentError
from .._foundation.modes import no_grad
from ..functions._arguments import as_number
from ..functions.creation import asarray, zeros
from ..functions.inplace import replace
from ..functions.shapes import broadcast_to
from ..kernels.optimizers import Rule, average
from ..primitives.elementwise import minimum
from . import _steps
from ._elementwise import count_of
from ._groups import as_list, as_pair, nothing_given
from ._saved import check_alike, check_entries

RULE = Rule(average, 2, 1)


class EMA(Watched):
    """Averages of parameters, in which those of n updates ago count by the factor decay ** n.

    It takes a module or parameters. Floats of a module's parameters are averaged; its buffers, and
    what isn't floats, are copied. With `warmup` the n-th update, counted from 0, uses the decay
    (1 + n) / (10 + n) if that is smaller, so that first values are forgotten sooner.

    >>> w = ad.tensor([0.0], requires_grad=True)
    >>> ema = ad.optim.EMA([w], decay=0.9)
    >>> with ad.no_grad():
    ...     w[...] = 10.0
    >>> ema.update()
    >>> with ema.apply():
    ...     print(w)
    tensor([1.], requires_grad=True)
    >>> w
    tensor([10.], requires_grad=True)
    """

    _numbers = ("decay",)

    def __init__(self, params: Any, decay: float = 0.999, *, warmup: bool = False) -> None:
        if not 0 <= as_number("EMA", "decay", decay) <= 1:
            raise ArgumentError(f"EMA: decay is between 0 and 1, got {decay!r}")
        self.decay = decay
        self.warmup = warmup
        self._params, averaged = tensors_of("EMA", params)
        self._averages = {name: share(x) for name, x in self._params.items()}
        self._averaged = [name for name in self._params if name in averaged]
        self._copied = [name for name in self._params if name not in averaged]
        self.updates = zeros((), dtype=float64, device="cpu")

    @no_grad()
    def update(self) -> None:
        """Move the averages to the parameters as they are now."""
        updates = [((self._averages[name],), share(self._params[name])) for name in self._averaged]
        if updates:
            _steps.step(RULE, updates, (self._part(len(updates)),))
        for name in self._copied:
            self._averages[name][...] = share(self._params[name])
        replace("update", self.updates, self.updates + 1.0)

    def _part(self, count: int) -> _steps.Number:
        """By which part of the way the averages move."""
        if not self.warmup:
            return 1 - self.decay
        n = self.updates
        return broadcast_to(1 - minimum((1 + n) / (10 + n), self.decay), (count,))

    @contextmanager
    def apply(self) -> Iterator[None]:
        """Within it the parameters are the averages; then they are again what they were before."""
        before = {name: share(x) for name, x in self._params.items()}
        write("apply", self._params, self._averages)
        try:
            yield
        finally:
            write("apply", self._params, before)

    def copy_to(self, params: Any = None) -> None:
        """Put the averages into the parameters, or into a module or parameters like them.

        >>> w, other = ad.tensor([1.0]), ad.tensor([5.0])
        >>> ad.optim.EMA([w]).copy_to([other])
        >>> other
        tensor([1.])
        """
        if params is None:
            write("copy_to", self._params, self._averages)
            return
        targets, _ = tensors_of("copy_to", params)
        check_entries("copy_to", "params", targets, tuple(self._averages))
        for name, target in targets.items():
            check_alike(f"copy_to: {name!r}", self._averages[name], target)
        write("copy_to", targets, self._averages)

    def state_dict(self) -> dict[str, Any]:
        """The averages by name, and how many updates there were, which later ones don't change."""
        averages = {name: share(x) for name, x in self._averages.items()}
        return {"updates": self.updates.item(), "averages": averages}

    @no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what another EMA's `state_dict` gave. Nothing changes if there is an error."""
        function = "EMA.load_state_dict"
        check_entries(function, "the state dict", state_dict, ("updates", "averages"))
        given = state_dict["averages"]
        check_entries(function, "averages", given, tuple(self._averages))
        for name, own in self._averages.items():
            check_alike(f"{function}: averages[{name!r}]", own, given[name])
        count = count_of(f"{function}: updates", state_dict["updates"])
        write(function, self._averages, given)
        self.updates[...] = count


def tensors_of(function: str, params: Any) -> tuple[dict[str, Tensor], set[str]]:
    """Tensors by name, and the names of those that are averaged: parameters of floats."""
    buffers: dict[str, Tensor] = {}
    if hasattr(params, "named_parameters"):
        given, buffers = dict(params.named_parameters()), dict(params.named_buffers())
    else:
        items = as_list(function, params)
        named = [
            as_pair(function, item) if isinstance(item, tuple) else (str(k), item)
            for k, item in enumerate(items)
        ]
        given = dict(named)
        if len(given) < len(named):
            raise ArgumentError(f"{function}: two params have one name")
    if not given:
        raise nothing_given(f"{function}:")
    for x in given.values():
        if not isinstance(x, Tensor):
            raise ArgumentError(f"{function}: params must be tensors, got {type(x).__name__}")
    return given | buffers, {name for name, x in given.items() if x.raw.dtype.kind == "f"}


@no_grad()
def write(function: str, targets: dict[str, Tensor], values: dict[str, Tensor]) -> None:
    for name, target in targets.items():
        target[...] = asarray(values[name], device=target.device).detach()
