"""Stochastic gradient descent."""

from collections.abc import Iterable

from .._errors import ArgumentError
from .._tensor import Tensor
from ..kernels.optimizers import Rule, sgd
from ._optimizer import Optimizer


class SGD(Optimizer):
    """Gradient descent: p -= lr * p.grad, with momentum and weight decay as in PyTorch.

    >>> x = ad.tensor(3.0, requires_grad=True)
    >>> optimizer = ad.optim.SGD([x], lr=0.1)
    >>> (x * x).backward()
    >>> optimizer.step()
    >>> x
    tensor(2.4, requires_grad=True)
    """

    lr: float
    momentum: float
    weight_decay: float
    nesterov: bool

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1e-3,
        *,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        settings = {
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
        }
        super().__init__(params, settings, ("momentum_buffer",) if momentum else ())
        if nesterov and not momentum:
            raise ArgumentError(f"SGD: nesterov needs a momentum above 0, got momentum={momentum}")

    def rule(self) -> Rule:
        flags = (("decays", self.weight_decay != 0), ("nesterov", self.nesterov))
        return Rule(sgd, 2 + len(self.state), 3, flags)

    def numbers(self) -> tuple[float, ...]:
        return self.lr, self.weight_decay, self.momentum
