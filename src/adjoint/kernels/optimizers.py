"""What an optimizer does to a parameter, element by element, in PyTorch's order of operations.

Each function takes arrays (the parameter, its gradient, what is remembered from step to step) and
numbers, and gives back the new parameter and what is remembered now. It is written with operators
and `Functions` only, so it works on values of the kernel language and on tensors alike: a kernel
computes what the ops would, to the last bit.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .language import Kernel, Type, element, scalar, sqrt


class Functions(NamedTuple):
    """What operators don't say."""

    sqrt: Callable
    maximum: Callable


class Rule(NamedTuple):
    """An optimizer's function, and how many arrays and numbers it takes."""

    function: Callable[..., tuple]
    arrays: int
    numbers: int
    flags: tuple[tuple[str, bool], ...]

    def __call__(self, arrays: Sequence[Any], numbers: Sequence[Any], functions: Functions) -> Any:
        return self.function(arrays, numbers, functions, **dict(self.flags))

    def kernel(self, type: Type) -> Kernel:
        from .ops import maximum

        arrays = [element(k, type) for k in range(self.arrays)]
        numbers = [scalar(k, type) for k in range(self.numbers)]
        return Kernel(self(arrays, numbers, Functions(sqrt, maximum)))


def sgd(
    arrays: Sequence[Any],
    numbers: Sequence[Any],
    functions: Functions,
    *,
    decays: bool,
    nesterov: bool,
) -> tuple:
    """Gradient descent, with momentum if there is a velocity among the arrays."""
    p, g, *velocities = arrays
    lr, weight_decay, momentum = numbers
    if decays:
        g = g + weight_decay * p
    if not velocities:
        return (p - lr * g,)
    velocity = velocities[0] * momentum + g
    return p - lr * (g + momentum * velocity if nesterov else velocity), velocity


def adam(
    arrays: Sequence[Any],
    numbers: Sequence[Any],
    functions: Functions,
    *,
    decays: bool,
    decoupled: bool,
    mostly_new: bool,
) -> tuple:
    """Adam; AdamW if the weight decay is decoupled; AMSGrad if there is a largest second moment.

    `step` is the learning rate and `root` the divisor of the second moment's root, both corrected
    for the start from zeros. `decay` is added to the gradient for each unit of the parameter, or if
    decoupled, the parameter is multiplied by it. The first moment moves to the gradient by `part`
    of their difference; if `mostly_new`, the gradient moves to the first moment instead, which is
    more exact where `part` would be large.
    """
    p, g, first, second, *largest = arrays
    step, root, part, beta2, rest2, eps, decay = numbers
    if decays and decoupled:
        p = p * decay
    elif decays:
        g = g + decay * p
    first = g + part * (first - g) if mostly_new else first + part * (g - first)
    second = second * beta2 + rest2 * g * g
    largest = [functions.maximum(largest[0], second)] if largest else []
    scale = functions.sqrt(largest[0] if largest else second) / root + eps
    return p - step * first / scale, first, second, *largest
