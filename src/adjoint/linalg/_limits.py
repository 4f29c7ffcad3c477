"""Quotients by differences of values, also where values are equal.

The gradient of eigenvectors has quotients: what a function says of a rotation of two of them, over
the difference of their values. Where these are equal any rotation of their vectors is as good. A
function that doesn't depend on the choice says nothing of the rotation, so the quotient is 0 / 0.
What it stands for is a limit: that of values which move apart while the vectors stay. By l'Hôpital
it is the quotient of derivatives in such a direction. So gradients are differentiated here, and the
engine is asked to record them: see `needs_graph` in `adjoint.op`. There is no such way to the next
order: who asks for it is told so.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import backends, op
from .._core.node import Leaf
from .._core.tensor import Tensor
from .._foundation.errors import GradientError
from .._foundation.modes import is_grad_enabled, no_grad
from .._foundation.silence import computing
from .._transforms.scopes import filled
from ..primitives.conversions import cast
from ..primitives.creation import arange
from ..primitives.elementwise import abs as absolute
from ..primitives.elementwise import equal, less_equal, maximum, where
from ..primitives.reductions import any_, max_
from ..primitives.solving import gauge
from ._choice import Choice, largest, pulled_back

Linear = Callable[..., Tensor]


def tolerance(dtype: np.dtype) -> float:
    """How far apart values of about 1 are that count as equal.

    Rounding errors in a quotient grow as values come closer, the error of the limit grows as they
    move apart. Here both cost half of the digits.
    """
    return float(np.finfo(dtype).eps) ** (1 / 2)


def nearness(dtype: np.dtype) -> float:
    """The same for derivatives of a quotient: here a third of the digits are left of them."""
    return float(np.finfo(dtype).eps) ** (1 / 3)


@computing
def are_close(values: Tensor, least: Tensor | None = None) -> bool:
    """Whether two neighbours among sorted values count as equal, or `least` as 0."""
    host = as_host(values)
    if host is None or not host.shape[-1]:
        return False
    limit = tolerance(host.dtype) * np.abs(host).max(-1, keepdims=True)
    close = bool((np.abs(np.diff(host)) <= limit).any())
    return close or (least is not None and bool((as_host(least) <= limit[..., 0]).any()))


def as_host(x: Tensor) -> np.ndarray | None:
    """The values of a tensor; None in a trace, where it has none."""
    backend = backends.LOADED.get(type(x.raw))
    return None if backend is None else backend.to_numpy(x.raw)


def refused_where(g: Tensor, near: Tensor, values: Tensor, asked: str) -> Tensor:
    reason = (
        f"{asked}: where values are equal or nearly so, second derivatives can't be had of "
        "functions that use the vectors, nor first ones through two such factorisations in a row"
    )
    return gauge(filled(values, 0), near, near * 0, asked=reason)


# A value that depends on others in a way that isn't known.
first_order_only = op.other(
    "first_order_only",
    "x, whose derivative with respect to `values` isn't known if `near` isn't 0 everywhere.",
    inputs="x near values",
    attrs="asked",
    shape=lambda x_shape: x_shape,
    batch="leading",
    forward=lambda x, near, values, *, asked: x,
    x=lambda g: g,
    values=refused_where,
)


class Quotients:
    """Quotients whose numerators are linear in the gradients `gs` of vectors, and denominators in
    the `values`; `asked` is what they are computed for.

    `outputs` are the vectors as the factorisation gave them, and `of_vectors` makes of gradients of
    those what `gs` are.
    """

    def __init__(
        self,
        gs: Sequence[Tensor],
        values: Tensor,
        outputs: Sequence[Tensor],
        of_vectors: Callable[..., Sequence[Tensor]],
        asked: str,
    ) -> None:
        self.gs = gs
        self.values = values
        self.outputs = outputs
        self.of_vectors = of_vectors
        self.asked = asked
        with no_grad():
            last = (values.ndim - 1,)
            size = max_(absolute(values), axis=last, keepdims=True)
            self.size = where(equal(size, 0), 1, size)[..., None]

    def __call__(self, numerator: Linear, denominator: Linear, *, cancels: bool = False) -> Tensor:
        """`denominator` is given the values and about how large they are. `cancels`: it is of
        values that may be large themselves, so that few digits are left where it is small."""
        above, below = numerator(*self.gs), denominator(self.values, self.size)
        dtype = below.raw.dtype
        close, near = (self.nearer(below, limit) for limit in (tolerance(dtype), nearness(dtype)))
        out = above / where(close, 1, below)
        if cancels and has_any(near) is not False:
            out = self.only_first(out, cast(near, dtype=dtype))
        anywhere = has_any(close)
        if anywhere is None:
            return self.apart(out, cast(close, dtype=dtype))
        return self.with_limits(out, above, close, numerator, denominator) if anywhere else out

    def nearer(self, below: Tensor, limit: float) -> Tensor:
        with no_grad():
            return less_equal(absolute(below), self.size * limit)

    def only_first(self, out: Tensor, near: Tensor) -> Tensor:
        return first_order_only(out, near, self.values, asked=self.asked)

    def apart(self, out: Tensor, close: Tensor) -> Tensor:
        """The quotients, if it turns out that no values are equal."""
        reason = f"{self.asked}: there are equal values, which a trace can't differentiate"
        return gauge(out, close, close * 0, asked=reason)

    def with_limits(
        self, out: Tensor, above: Tensor, close: Tensor, numerator: Linear, denominator: Linear
    ) -> Tensor:
        changes = self.changes

        def rotation(*found: Tensor) -> Tensor:
            return where(close, numerator(*self.of_vectors(*found)), 0)

        with no_grad():
            below = denominator(self.direction, filled(self.size, 1))
            scale = 4 * maximum(largest(self.gs), self.size * largest(changes))
        reason = f"{self.asked}: some are equal, and the function depends on the choice of vectors"
        choice = Choice(rotation, self.gs, self.outputs, [self.values], reason)
        out = choice.made_freely(out, where(close, above, 0), scale)
        limit = numerator(*changes) / where(close, below, 1)
        return where(close, self.only_first(limit, cast(close, dtype=out.raw.dtype)), out)

    @property
    def direction(self) -> Tensor:
        """A way to move the values apart from each other, and from 0."""
        n, dtype = self.values.shape[-1], self.values.raw.dtype
        return arange(start=1, stop=n + 1, step=1, dtype=dtype, device=self.values.device)

    @functools.cached_property
    def changes(self) -> list[Tensor]:
        """How the gradients change as the values move; the vectors stay."""
        if not is_grad_enabled():
            raise GradientError(
                f"{self.asked}: values are equal in what a checkpoint recomputed: keep this part "
                "out of the checkpoint"
            )
        recorded = [g for g in self.gs if g.node is not None]
        probes = [variable(filled(g, 0)) for g in recorded]
        (inner,) = pulled_back(recorded, probes, [self.values], create_graph=True)
        changed: list[Any] = [None] * len(probes)
        if inner is not None and inner.node is not None:
            along = filled(self.values, 1) * self.direction
            changed = pulled_back([inner], [along], probes, create_graph=True)
        found = iter(changed)
        out = [None if g.node is None else next(found) for g in self.gs]
        return [filled(g, 0) if x is None else x for g, x in zip(self.gs, out, strict=True)]


def has_any(places: Tensor) -> bool | None:
    """Whether any is true; None in a trace."""
    with no_grad():
        found = as_host(any_(places, axis=tuple(range(places.ndim)), keepdims=False))
    return None if found is None else bool(found)


def variable(x: Tensor) -> Tensor:
    x.node = Leaf(x)
    return x
