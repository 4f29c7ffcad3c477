"""Optimizers, built on the public API: so far stochastic gradient descent."""

from collections.abc import Iterable

from ._errors import ArgumentError
from ._modes import no_grad
from ._tensor import Tensor
from .functions.creation import zeros_like


class SGD:
    """Gradient descent: p -= lr * p.grad, with momentum and weight decay as in PyTorch.

    >>> x = ad.tensor(3.0, requires_grad=True)
    >>> optimizer = ad.optim.SGD([x], lr=0.1)
    >>> (x * x).backward()
    >>> optimizer.step()
    >>> x
    tensor(2.4, requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1e-3,
        *,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
    ) -> None:
        if isinstance(params, Tensor):
            raise ArgumentError("SGD: params must be a list of tensors, got one tensor")
        if lr < 0 or momentum < 0 or weight_decay < 0:
            raise ArgumentError(
                f"SGD: none may be negative: lr={lr}, momentum={momentum}, "
                f"weight_decay={weight_decay}"
            )
        self.params = list(dict.fromkeys(params))
        self.lr = lr
        self.momentum = momentum
        self.weight_decay = weight_decay
        if not self.params or not all(isinstance(p, Tensor) and p.is_leaf for p in self.params):
            raise ArgumentError("SGD: params must be leaves, at least one")
        self.velocities = [zeros_like(p) for p in self.params] if momentum else None

    @no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient."""
        for k, p in enumerate(self.params):
            g = p.grad
            if g is None or not p.requires_grad:
                continue
            if self.weight_decay:
                g = g + self.weight_decay * p
            if self.velocities is not None:
                velocity = self.velocities[k]
                velocity[...] = self.momentum * velocity + g
                g = velocity
            p.add_(g, alpha=-self.lr)

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for p in self.params:
            p.grad = None
