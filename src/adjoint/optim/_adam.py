"""Adam and AdamW."""

from collections.abc import Iterable

from .._tensor import Tensor
from ..kernels.optimizers import Rule, adam
from ..primitives.elementwise import maximum, sqrt
from ._optimizer import Optimizer
from ._steps import Number


class Adam(Optimizer):
    """Adam: each element moves by its mean gradient over the root of its mean squared gradient.

    The means forget by the factors `betas` per step. `weight_decay` is added to the gradient, times
    the parameter. With `amsgrad` the largest mean square so far counts.

    >>> x = ad.tensor([3.0, -400.0], requires_grad=True)
    >>> optimizer = ad.optim.Adam([x], lr=0.5)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([   2.5, -399.5], requires_grad=True)
    """

    lr: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float
    amsgrad: bool

    counts = True
    decoupled = False  # whether weight decay is apart from the gradient

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
    ) -> None:
        settings = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
        }
        largest = ("max_exp_avg_sq",) if amsgrad else ()
        super().__init__(params, settings, ("exp_avg", "exp_avg_sq", *largest))

    def rule(self) -> Rule:
        flags = (
            ("decays", self.weight_decay != 0),
            ("decoupled", self.decoupled),
            ("mostly_new", self.betas[0] <= 0.5),
        )
        return Rule(adam, 2 + len(self.state), 7, flags)

    def numbers(self) -> tuple[Number, ...]:
        beta1, beta2 = self.betas
        steps = maximum(
            self.steps, 1.0
        )  # those of parameters that never had a gradient don't count
        size = self.lr / (1 - beta1**steps)
        root = sqrt(1 - beta2**steps)
        part = beta1 if beta1 <= 0.5 else 1 - beta1
        decay = 1 - self.lr * self.weight_decay if self.decoupled else self.weight_decay
        return size, root, part, beta2, 1 - beta2, self.eps, decay


class AdamW(Adam):
    """Adam with decoupled weight decay: the parameter shrinks by lr * weight_decay of itself.

    >>> x = ad.tensor([3.0, -400.0], requires_grad=True)
    >>> optimizer = ad.optim.AdamW([x], lr=0.5, weight_decay=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([   2.35, -379.5 ], requires_grad=True)
    """

    decoupled = True

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad)
