"""Adam and AdamW."""

from typing import Any

from .._core.tensor import Tensor
from .._foundation.errors import ArgumentError
from ..kernels.optimizers import Rule, adam
from ..primitives.elementwise import sqrt
from ._elementwise import Elementwise
from ._groups import Params
from ._steps import Number


class Adam(Elementwise):
    """Adam: each element moves by its mean gradient over the root of its mean squared gradient.

    The means forget by the factors `betas` per step. `weight_decay` is added to the gradient, times
    the parameter; if `decoupled_weight_decay`, the parameter shrinks by lr * weight_decay of itself
    instead. With `amsgrad` the largest mean square so far counts. `maximize` goes up instead of
    down.

    >>> x = ad.tensor([3.0, -400.0], requires_grad=True)
    >>> optimizer = ad.optim.Adam([x], lr=0.5)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([   2.5, -399.5], requires_grad=True)
    """

    _memory = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        decoupled_weight_decay: bool = False,
        **unknown: Any,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "amsgrad": amsgrad,
                "maximize": maximize,
                "decoupled_weight_decay": decoupled_weight_decay,
            },
            **unknown,
        )

    def _remembers(self, settings: dict[str, Any]) -> tuple[str, ...]:
        return self._memory if settings["amsgrad"] else self._memory[:2]

    def _rule(self, settings: dict[str, Any]) -> Rule:
        decoupled = settings["decoupled_weight_decay"]
        flags = (
            ("maximize", settings["maximize"]),
            # A factor of 1 changes no bit, so that groups with and without decay go together.
            ("decays", decoupled or settings["weight_decay"] != 0),
            ("decoupled", decoupled),
            ("mostly_new", settings["betas"][0] <= 0.5),
        )
        return Rule(adam, 5 if settings["amsgrad"] else 4, 7, flags)

    def _numbers(self, rule: Rule, settings: dict[str, Any], steps: Tensor) -> tuple[Number, ...]:
        lr, (beta1, beta2), decay = settings["lr"], settings["betas"], settings["weight_decay"]
        size = lr / (1 - beta1**steps)
        root = sqrt(1 - beta2**steps)
        part = beta1 if rule.has("mostly_new") else 1 - beta1
        if rule.has("decoupled"):
            decay = 1 - lr * decay
        return size, root, part, beta2, 1 - beta2, settings["eps"], decay


class AdamW(Adam):
    """Adam with decoupled weight decay: the parameter shrinks by lr * weight_decay of itself.

    >>> x = ad.tensor([3.0, -400.0], requires_grad=True)
    >>> optimizer = ad.optim.AdamW([x], lr=0.5, weight_decay=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([   2.35, -379.5 ], requires_grad=True)
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        **unknown: Any,
    ) -> None:
        settings = lr, betas, eps, weight_decay, amsgrad
        super().__init__(
            params, *settings, maximize=maximize, decoupled_weight_decay=True, **unknown
        )

    def _check_settings(self, settings: dict[str, Any]) -> None:
        super()._check_settings(settings)
        if not settings["decoupled_weight_decay"]:
            raise ArgumentError(
                "AdamW: its weight decay is decoupled, got decoupled_weight_decay=False; use Adam"
            )
