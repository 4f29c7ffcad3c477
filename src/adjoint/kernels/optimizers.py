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
    flags: tuple[tuple[str, bool], ...] = ()

    def __call__(self, arrays: Sequence[Any], numbers: Sequence[Any], functions: Functions) -> Any:
        return self.function(arrays, numbers, functions, **dict(self.flags))

    def has(self, flag: str) -> bool:
        return (flag, True) in self.flags

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
    maximize: bool,
    decays: bool,
    dampens: bool,
    nesterov: bool,
) -> tuple:
    """Gradient descent, with momentum if there is a velocity among the arrays.

    If it `dampens`, only the part `fresh` of a gradient is added to the velocity.
    """
    p, g, *velocities = arrays
    lr, weight_decay, momentum, fresh = numbers
    g = downhill(p, g, weight_decay, maximize, decays)
    if not velocities:
        return (p - lr * g,)
    velocity = velocities[0] * momentum + (fresh * g if dampens else g)
    return p - lr * (g + momentum * velocity if nesterov else velocity), velocity


def adam(
    arrays: Sequence[Any],
    numbers: Sequence[Any],
    functions: Functions,
    *,
    maximize: bool,
    decays: bool,
    decoupled: bool,
    mostly_new: bool,
) -> tuple:
    """Adam; AdamW if the weight decay is decoupled; AMSGrad if there is a largest second moment.

    `step` is the learning rate and `root` the divisor of the second moment's root, both corrected
    for the start from zeros. `decay` is added to the gradient for each unit of the parameter, or if
    decoupled, the parameter is multiplied by it.
    """
    p, g, first, second, *largest = arrays
    step, root, part, beta2, rest2, eps, decay = numbers
    g = downhill(p, g, decay, maximize, decays and not decoupled)
    if decays and decoupled:
        p = p * decay
    first = moved(first, g, part, mostly_new)
    second = second * beta2 + rest2 * g * g
    largest = [functions.maximum(largest[0], second)] if largest else []
    scale = functions.sqrt(largest[0] if largest else second) / root + eps
    return p - step * first / scale, first, second, *largest


def rmsprop(
    arrays: Sequence[Any],
    numbers: Sequence[Any],
    functions: Functions,
    *,
    maximize: bool,
    decays: bool,
    centered: bool,
    mostly_new: bool,
) -> tuple:
    """RMSprop: with momentum if there is a velocity among the arrays, before the mean gradient."""
    p, g, squares, *others = arrays
    lr, alpha, rest, part, eps, weight_decay, momentum = numbers
    g = downhill(p, g, weight_decay, maximize, decays)
    variance = squares = squares * alpha + rest * g * g
    means = [moved(others.pop(), g, part, mostly_new)] if centered else []
    if centered:
        # Rounding can bring the difference below 0, of which there is no root.
        variance = functions.maximum(squares - means[0] * means[0], 0.0)
    scale = functions.sqrt(variance) + eps
    if not others:
        return p - lr * g / scale, squares, *means
    velocity = others[0] * momentum + g / scale
    return p - lr * velocity, squares, velocity, *means


def adagrad(
    arrays: Sequence[Any],
    numbers: Sequence[Any],
    functions: Functions,
    *,
    maximize: bool,
    decays: bool,
) -> tuple:
    """Adagrad: `lr` has decayed already."""
    p, g, total = arrays
    lr, eps, weight_decay = numbers
    g = downhill(p, g, weight_decay, maximize, decays)
    total = total + g * g
    return p - lr * g / (functions.sqrt(total) + eps), total


def average(arrays: Sequence[Any], numbers: Sequence[Any], functions: Functions) -> tuple:
    """A running average, moved to a new value."""
    mean, value = arrays
    return (moved(mean, value, numbers[0], False),)


def downhill(p: Any, g: Any, weight_decay: Any, maximize: bool, decays: bool) -> Any:
    """The gradient, turned round to `maximize`, with that of the weight decay if p `decays`."""
    g = -g if maximize else g
    return g + weight_decay * p if decays else g


def moved(mean: Any, value: Any, part: Any, mostly_new: bool) -> Any:
    """A mean, moved to a value by `part` of their difference; if `mostly_new`, the value is moved
    to the mean instead, which is more exact where that part is the small one."""
    return value + part * (mean - value) if mostly_new else mean + part * (value - mean)
