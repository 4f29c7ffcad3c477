"""Check derivatives against finite differences."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import autograd
from ._errors import CheckError, DeviceError
from ._tensor import Tensor, wrap
from .backends import widest
from .functions.creation import asarray

__all__ = ["check_grads"]


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    *,
    eps: float = 1e-5,
    rtol: float = 1e-5,
    atol: float = 1e-7,
) -> None:
    """Compare the gradients of f up to an order with central differences, in float64.

    `f` takes the tensors `args` and returns a tensor, or a tuple of them. Integer arguments are
    left as they are. Order 2 checks the gradient's own gradient, and so on.

    >>> ad.testing.check_grads(lambda x: ad.tanh(x * x).sum(), [ad.asarray([0.5, 2.0])])
    """
    tensors = [asarray(x) for x in args]
    for x in tensors:
        if widest(x.device, "f") != np.float64:
            raise DeviceError(
                f"check_grads: differences need float64, which {x.device} hasn't; move the "
                "arguments, and what f uses besides, to the CPU: x.to('cpu')"
            )
    tensors = [wrap(as_double(x)) for x in tensors]
    check_order(f, tensors, order, 1, eps, rtol, atol, np.random.default_rng(0))


def as_double(x: Tensor) -> np.ndarray:
    data = x.detach().numpy()
    return data.astype(np.float64) if data.dtype.kind == "f" else data


def check_order(f, args, order, level, eps, rtol, atol, rng) -> None:
    variable = [k for k, x in enumerate(args) if x.raw.dtype.kind == "f"]
    outputs = results(f, args)
    weights = [wrap(rng.standard_normal(out.shape)) for out in outputs]

    def pulled_back(*values):
        """The gradients of f, as a function of its arguments and of the incoming gradients."""
        given = list(values[: len(args)])
        given = [x if x.requires_grad else wrap(x.raw) for x in given]
        leaves = [
            given[k] if given[k].requires_grad else given[k].requires_grad_() for k in variable
        ]
        outs = results(f, given)
        pairs = [
            (out, g) for out, g in zip(outs, values[len(args) :], strict=True) if out.requires_grad
        ]
        if not pairs:
            return tuple(zeros(x) for x in leaves)
        grads = autograd.grad(
            [out for out, _ in pairs],
            leaves,
            [g for _, g in pairs],
            create_graph=True,
            allow_unused=True,
        )
        return tuple(zeros(x) if g is None else g for g, x in zip(grads, leaves, strict=True))

    exact = pulled_back(*map(fresh, args), *weights)
    for k, g in zip(variable, exact, strict=True):
        compare(f, args, weights, k, g, level, eps, rtol, atol)
    if order > 1:
        check_order(pulled_back, [*args, *weights], order - 1, level + 1, eps, rtol, atol, rng)


def fresh(x: Tensor) -> Tensor:
    return wrap(x.raw.copy())


def zeros(x: Tensor) -> Tensor:
    return wrap(np.zeros(x.shape, x.raw.dtype))


def results(f: Callable, args: list) -> list[Tensor]:
    """The float outputs of f."""
    out = f(*args)
    outs = out if isinstance(out, (tuple, list)) else (out,)
    return [x for x in outs if x.raw.dtype.kind == "f"]


def compare(f, args, weights, position, exact, level, eps, rtol, atol) -> None:
    """Compare one argument's gradient with differences, element by element."""

    def value(data: np.ndarray) -> float:
        given = [fresh(x) for x in args]
        given[position] = wrap(data)
        outs = results(f, given)
        return math.fsum(
            float(np.vdot(out.detach().numpy(), w.numpy()))
            for out, w in zip(outs, weights, strict=True)
        )

    start = args[position].raw
    numeric = np.empty(start.shape)
    for index in np.ndindex(start.shape):
        up, down = start.copy(), start.copy()
        up[index] += eps
        down[index] -= eps
        numeric[index] = (value(up) - value(down)) / (2 * eps)
    found = exact.detach().numpy()
    if found.shape != start.shape or not np.allclose(found, numeric, rtol, atol):
        raise CheckError(
            f"gradient of order {level} with respect to argument {position} is wrong:\n"
            f"rules say\n{found}\nfinite differences say\n{numeric}"
        )
