"""Adagrad."""

from typing import Any

from .._core.tensor import Tensor
from ..kernels.optimizers import Rule, adagrad
from ._elementwise import Elementwise
from ._groups import Params
from ._steps import Number


class Adagrad(Elementwise):
    """Adagrad: each element moves by its gradient over the root of the sum of its squares so far.

    The sum starts at `initial_accumulator_value`. In step n the learning rate is
    lr / (1 + (n - 1) * lr_decay).

    >>> x = ad.tensor([3.0, -400.0], requires_grad=True)
    >>> optimizer = ad.optim.Adagrad([x], lr=0.5)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([   2.5, -399.5], requires_grad=True)
    """

    _memory = ("sum",)

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
        **unknown: Any,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "lr_decay": lr_decay,
                "eps": eps,
                "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value,
                "maximize": maximize,
            },
            **unknown,
        )

    def _start(self, settings: dict[str, Any]) -> float:
        return settings["initial_accumulator_value"]

    def _remembers(self, settings: dict[str, Any]) -> tuple[str, ...]:
        return self._memory

    def _rule(self, settings: dict[str, Any]) -> Rule:
        flags = (("maximize", settings["maximize"]), ("decays", settings["weight_decay"] != 0))
        return Rule(adagrad, 3, 3, flags)

    def _numbers(self, rule: Rule, settings: dict[str, Any], steps: Tensor) -> tuple[Number, ...]:
        lr = settings["lr"] / (1 + (steps - 1) * settings["lr_decay"])
        return lr, settings["eps"], settings["weight_decay"]
