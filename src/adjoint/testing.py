"""Check derivatives against finite differences."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import autograd
from ._core.tensor import Tensor, wrap
from ._foundation.errors import CheckError, DeviceError
from .backends import widest
from .functions.creation import asarray

__all__ = ["check_grads"]


# By the narrowest dtype on the way: eps is about the cube root of its precision u, where rounding
# and curvature cost the same, u^(2/3); rtol and atol leave room for some dozens of roundings.
SETTINGS = {
    np.dtype(np.float64): {"eps": 1e-5, "rtol": 1e-5, "atol": 1e-7},
    np.dtype(np.float32): {"eps": 5e-3, "rtol": 1e-3, "atol": 1e-3},
    np.dtype(np.float16): {"eps": 1e-1, "rtol": 1e-1, "atol": 1e-1},
}


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    *,
    eps: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """Compare the gradients of f up to an order with central differences, in float64.

    `f` takes the tensors `args` and returns a tensor, or a tuple of them. Integer arguments are
    left as they are, and outputs that aren't floats are left out. Order 2 checks the gradient's own
    gradient, and so on.

    A difference is no better than the narrowest dtype between an output and the arguments. For
    float64 the step `eps` is 1e-5, `rtol` 1e-5, `atol` 1e-7; for float32 they are 5e-3, 1e-3 and
    1e-3, for float16 0.1 each. Those that are given are used instead.

    >>> ad.testing.check_grads(lambda x: ad.tanh(x * x).sum(), [ad.asarray([0.5, 2.0])])
    >>> ad.testing.check_grads(lambda x: ad.tanh(x.astype(ad.float32)), [ad.asarray([0.5, 2.0])])
    """
    tensors = [asarray(x) for x in args]
    for x in tensors:
        if widest(x.device, "f") != np.float64:
            raise DeviceError(
                f"check_grads: differences need float64, which {x.device} hasn't; move the "
                "arguments, and what f uses besides, to the CPU: x.to('cpu')"
            )
    tensors = [wrap(as_double(x)) for x in tensors]
    given = {k: v for k, v in {"eps": eps, "rtol": rtol, "atol": atol}.items() if v is not None}
    for dtype, places in by_precision(f, tensors).items():
        check_outputs(chosen(f, places), tensors, order, **SETTINGS[dtype] | given)


def by_precision(f: Callable, args: list[Tensor]) -> dict[np.dtype, list[int]]:
    """Which outputs have which dtype as the narrowest on the way."""
    groups: dict[np.dtype, list[int]] = {}
    given = [fresh(x).requires_grad_() if x.raw.dtype.kind == "f" else x for x in args]
    for k, out in enumerate(results(f, given)):
        groups.setdefault(narrowest(out), []).append(k)
    return groups


def narrowest(out: Tensor) -> np.dtype:
    """The narrowest of the float dtypes between an output and what it depends on."""
    found, seen, waiting = {out.raw.dtype}, set(), [out.node] if out.node else []
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting.extend(node.inputs)
            found.add(node.dtype)
    return min((dtype for dtype in found if dtype in SETTINGS), key=lambda dtype: dtype.itemsize)


def chosen(f: Callable, places: list[int]) -> Callable:
    """f with some of its float outputs only."""

    def call(*args: Tensor) -> list[Tensor]:
        outs = results(f, args)
        return [outs[k] for k in places]

    return call


def check_outputs(f, args, order, eps, rtol, atol) -> None:
    def expected(weights: list[Tensor]) -> list[np.ndarray]:
        return by_elements(f, args, weights, eps)

    check_order(f, args, expected, order, 1, eps, rtol, atol, np.random.default_rng(0))


def as_double(x: Tensor) -> np.ndarray:
    data = x.detach().numpy()
    return data.astype(np.float64) if data.dtype.kind == "f" else data


def check_order(f, args, expected, order, level, eps, rtol, atol, rng) -> None:
    """Compare the gradients of f with those that are expected for given weights of its outputs."""
    variable = places(args)
    outputs = results(f, args)
    weights = [wrap(np.asarray(rng.standard_normal(out.shape), out.raw.dtype)) for out in outputs]

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
            create_graph=any(x.requires_grad for x in values),
            allow_unused=True,
        )
        return tuple(zeros(x) if g is None else g for g, x in zip(grads, leaves, strict=True))

    def differences(directions: list[Tensor]) -> list[np.ndarray]:
        """The gradients of pulled_back, weighted by directions. Second derivatives are symmetric:
        with respect to args it is how pulled_back changes in these directions, all its elements at
        once, and with respect to the weights it is how f does."""
        gradients = along(lambda *xs: pulled_back(*xs, *weights), args, directions, eps)
        return gradients + along(f, args, directions, eps)

    exact = pulled_back(*(leaf(x) if k in variable else x for k, x in enumerate(args)), *weights)
    for k, found, numeric in zip(variable, exact, expected(weights), strict=True):
        compare(as_double(found), numeric, k, level, rtol, atol)
    if order > level:
        inputs = [*args, *weights]
        check_order(pulled_back, inputs, differences, order, level + 1, eps, rtol, atol, rng)


def places(args: list[Tensor]) -> list[int]:
    """Which arguments are differentiated."""
    return [k for k, x in enumerate(args) if x.raw.dtype.kind == "f"]


def fresh(x: Tensor) -> Tensor:
    return wrap(x.raw.copy())


def leaf(x: Tensor) -> Tensor:
    return fresh(x).requires_grad_()


def zeros(x: Tensor) -> Tensor:
    return wrap(np.zeros(x.shape, x.raw.dtype))


def results(f: Callable, args: Sequence[Any]) -> list[Tensor]:
    """The float outputs of f."""
    out = f(*args)
    outs = out if isinstance(out, (tuple, list)) else (out,)
    return [x for x in outs if x.raw.dtype.kind == "f"]


def by_elements(f, args, weights, eps) -> list[np.ndarray]:
    """Central differences of the weighted sum of f's outputs, by each element of its arguments."""

    def value(position: int, data: np.ndarray) -> float:
        given = [fresh(x) for x in args]
        given[position] = wrap(data)
        outs = results(f, given)
        return math.fsum(
            float(np.vdot(as_double(out), as_double(w)))
            for out, w in zip(outs, weights, strict=True)
        )

    def difference(position: int, index: tuple[int, ...]) -> float:
        up, down = args[position].raw.copy(), args[position].raw.copy()
        up[index] += eps
        down[index] -= eps
        step = float(up[index]) - float(down[index])
        return (value(position, up) - value(position, down)) / step

    shapes = {k: args[k].shape for k in places(args)}
    return [
        np.array([difference(k, index) for index in np.ndindex(shape)]).reshape(shape)
        for k, shape in shapes.items()
    ]


def along(f, args, directions, eps) -> list[np.ndarray]:
    """Central differences of f's outputs as its arguments move in their directions. They do so one
    after the other, and no element by more than eps: f may compare them, with others or labels."""

    def moved(position: int, by: np.ndarray) -> list[np.ndarray]:
        given = [fresh(x) for x in args]
        start = args[position].raw
        given[position] = wrap(np.asarray(start + by, start.dtype))
        return [as_double(out) for out in results(f, given)]

    total = [np.zeros(out.shape) for out in results(f, args)]
    for k, direction in zip(places(args), directions, strict=True):
        step = eps / float(np.abs(direction.raw).max(initial=1))
        ups, downs = (moved(k, by * as_double(direction)) for by in (step, -step))
        for out, up, down in zip(total, ups, downs, strict=True):
            out += (up - down) / (2 * step)
    return total


def compare(found: np.ndarray, numeric: np.ndarray, position, level, rtol, atol) -> None:
    if found.shape != numeric.shape or not np.allclose(found, numeric, rtol, atol):
        raise CheckError(
            f"gradient of order {level} with respect to argument {position} is wrong:\n"
            f"rules say\n{found}\nfinite differences say\n{numeric}"
        )
