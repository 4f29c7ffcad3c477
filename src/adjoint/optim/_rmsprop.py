"""RMSprop."""

from typing import Any

from .._core.tensor import Tensor
from ..kernels.optimizers import Rule, rmsprop
from ._elementwise import Elementwise
from ._groups import Params
from ._steps import Number


class RMSprop(Elementwise):
    """RMSprop: each element moves by its gradient over the root of its mean squared gradient.

    The mean forgets by the factor `alpha` per step. If `centered`, the root is that of the
    gradient's variance. With `momentum` a velocity adds up what would be the steps.

    >>> x = ad.tensor([3.0, -400.0], requires_grad=True)
    >>> optimizer = ad.optim.RMSprop([x], lr=0.05)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([   2.5, -399.5], requires_grad=True)
    """

    _memory = ("square_avg", "momentum_buffer", "grad_avg")

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
        **unknown: Any,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "alpha": alpha,
                "eps": eps,
                "centered": centered,
                "weight_decay": weight_decay,
                "maximize": maximize,
            },
            **unknown,
        )

    def _remembers(self, settings: dict[str, Any]) -> tuple[str, ...]:
        kept = (True, settings["momentum"], settings["centered"])
        return tuple(name for name, keep in zip(self._memory, kept, strict=True) if keep)

    def _rule(self, settings: dict[str, Any]) -> Rule:
        flags = (
            ("maximize", settings["maximize"]),
            ("decays", settings["weight_decay"] != 0),
            ("centered", settings["centered"]),
            ("mostly_new", settings["alpha"] <= 0.5),
        )
        return Rule(rmsprop, 2 + len(self._remembers(settings)), 7, flags)

    def _numbers(self, rule: Rule, settings: dict[str, Any], steps: Tensor) -> tuple[Number, ...]:
        alpha = settings["alpha"]
        part = alpha if rule.has("mostly_new") else 1 - alpha
        rest = settings["eps"], settings["weight_decay"], settings["momentum"]
        return settings["lr"], alpha, 1 - alpha, part, *rest
