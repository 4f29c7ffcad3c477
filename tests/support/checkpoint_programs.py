"""Programs that call functions, or checkpoints of them."""

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad
from adjoint._foundation.trees import map_tree

Pair = namedtuple("Pair", "first second")


def plain(function: Callable, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def gradients_of(run: Callable, program: Callable, tensors: list[ad.Tensor]) -> list[np.ndarray]:
    """The gradients of a program that calls `run` where it may checkpoint."""
    grads = ad.autograd.grad(program(run, *tensors), tensors, allow_unused=True)
    return [np.zeros(()) if g is None else g.numpy() for g in grads]


def tensors_in(tree: Any) -> list[ad.Tensor]:
    found = []
    map_tree(lambda x: isinstance(x, ad.Tensor) and found.append(x), tree)
    return found


def nested(d: dict, *, scale: float, label: str) -> dict:
    x, (y, z) = d["x"], d["rest"]
    assert label == "kept"
    return {"out": [ad.tanh(x * scale), (y @ z, Pair(z + 1, "text"))], "n": 3, "x": x}


def assigns(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
    out = x * 1
    out[0] = y[1] * 3
    out += x
    return out


def in_a_row(x: ad.Tensor, y: ad.Tensor) -> list[ad.Tensor]:
    """Each but the first result is computed from the one before."""
    out = [ad.sin(x)]
    for _ in range(3):
        out.append(ad.tanh(out[-1] * y))
    return out[::-1]


def stops(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
    with ad.no_grad():
        scale = x * y
    return x * scale


def differentiates(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
    z = y * 1
    z = z if z.requires_grad else z.requires_grad_()
    (g,) = ad.autograd.grad((x * z * z).sum(), z, create_graph=True)
    return g * x


# Programs of three 3x3 leaves; `run` is `checkpoint`, or just calls.
PROGRAMS: dict[str, Callable] = {
    "one input": lambda run, x, y, z: run(lambda x: ad.tanh(x) * x, x).sum(),
    "closed over": lambda run, x, y, z: run(lambda x: ad.tanh(x @ y) @ z, x).sum(),
    "only closed over": lambda run, x, y, z: run(lambda: (x * y * z).sum()),
    "closed over intermediate": lambda run, x, y, z: (
        lambda h: run(lambda x: ad.exp(x) * h, x).sum() + h.sum()
    )(ad.sin(y * z)),
    "same tensor twice": lambda run, x, y, z: run(lambda a, b: a * b, x, x).sum(),
    "argument and closed over": lambda run, x, y, z: run(lambda a: a * x, x).sum(),
    "several outputs": lambda run, x, y, z: (lambda a, b, c: (a * b).sum() + c.sum())(
        *run(lambda x: (x * y, x + z, x * 2), x)
    ),
    "an output unused": lambda run, x, y, z: run(lambda x: (x * y, x @ z), x)[0].sum(),
    "an output twice": lambda run, x, y, z: sum(out.sum() for out in run(lambda x: [x * y] * 2, x)),
    "op with several outputs": lambda run, x, y, z: (
        lambda values, rest: values.sum() + (rest * y).sum()
    )(*run(lambda x: (ad.topk(x, 2)[0], x * x), x)),
    "nested containers": lambda run, x, y, z: sum(
        out.sum()
        for out in tensors_in(run(nested, {"x": x, "rest": (y, z)}, scale=2.0, label="kept"))
    ),
    "input as output": lambda run, x, y, z: sum(
        out.sum() for out in run(lambda x: (x, x * y, z), x)
    ),
    "nested checkpoints": lambda run, x, y, z: run(
        lambda x: run(lambda a: ad.tanh(run(lambda b: b * y + z, a)), x @ y) * x, x
    ).sum(),
    "in a chain": lambda run, x, y, z: (lambda step: step(step(step(x))).sum())(
        lambda h: run(lambda h: ad.tanh(h @ y + z), h)
    ),
    "assigns inside": lambda run, x, y, z: run(assigns, x, y).sum(),
    "detaches inside": lambda run, x, y, z: run(lambda x: x.detach() * x * y, x).sum(),
    "no_grad inside": lambda run, x, y, z: run(stops, x, y).sum(),
    "gradient inside": lambda run, x, y, z: run(differentiates, x, y).sum(),
    "an output of another": lambda run, x, y, z: (
        lambda h, out, more: (h * z).sum() + out.sum() + (more * h).sum()
    )(*run(lambda x: (lambda h: (h, h * h, ad.sin(h) @ y))(ad.tanh(x * y)), x)),
    "outputs in a row": lambda run, x, y, z: sum(
        (out * k).sum() for k, out in enumerate(run(in_a_row, x, y), 1)
    ),
    "branches": lambda run, x, y, z: run(lambda x: x * y if x.sum() > 0 else x + z, x).sum(),
}
