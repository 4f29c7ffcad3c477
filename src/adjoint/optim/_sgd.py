"""Stochastic gradient descent."""

from typing import Any

from .._core.tensor import Tensor
from .._foundation.errors import ArgumentError
from ..kernels.optimizers import Rule, sgd
from ..primitives.elementwise import minimum
from ._elementwise import Elementwise
from ._groups import Params
from ._steps import Number


class SGD(Elementwise):
    """Gradient descent: p -= lr * p.grad, with momentum and weight decay as in PyTorch.

    With `momentum` a velocity takes the gradient's place: velocity * momentum + (1 - dampening) *
    gradient, which starts from the first gradient. `weight_decay` is added to the gradient, times
    the parameter. `maximize` goes up instead of down.

    >>> x = ad.tensor(3.0, requires_grad=True)
    >>> optimizer = ad.optim.SGD([x], lr=0.1)
    >>> (x * x).backward()
    >>> optimizer.step()
    >>> x
    tensor(2.4, requires_grad=True)
    """

    _memory = ("momentum_buffer",)
    _shows_steps = False

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        **unknown: Any,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
            },
            **unknown,
        )

    def _check_settings(self, settings: dict[str, Any]) -> None:
        super()._check_settings(settings)
        momentum, dampening = settings["momentum"], settings["dampening"]
        if settings["nesterov"] and (not momentum or dampening):
            raise ArgumentError(
                "SGD: nesterov needs a momentum above 0 and no dampening, got "
                f"momentum={momentum}, dampening={dampening}"
            )

    def _remembers(self, settings: dict[str, Any]) -> tuple[str, ...]:
        return self._memory if settings["momentum"] else ()

    def _rule(self, settings: dict[str, Any]) -> Rule:
        flags = (
            ("maximize", settings["maximize"]),
            ("decays", settings["weight_decay"] != 0),
            ("dampens", settings["momentum"] != 0 and settings["dampening"] != 0),
            ("nesterov", settings["nesterov"]),
        )
        return Rule(sgd, 3 if settings["momentum"] else 2, 4, flags)

    def _numbers(self, rule: Rule, settings: dict[str, Any], steps: Tensor) -> tuple[Number, ...]:
        fresh = 1.0
        if rule.has("dampens"):  # from the second step on
            fresh = 1 - settings["dampening"] * minimum(steps - 1, 1.0)
        return settings["lr"], settings["weight_decay"], settings["momentum"], fresh
