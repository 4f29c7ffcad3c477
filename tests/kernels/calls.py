"""Public functions on arrays that are large enough for kernels, by themselves and differentiated.

What they give in a process without kernels can be compared with what they give here.
"""

from collections.abc import Callable

import numpy as np

import adjoint as ad
from tests.kernels.cases import LARGE

ROWS, COLUMNS = 257, 263
assert ROWS * COLUMNS > LARGE


def normalized(x: ad.Tensor) -> ad.Tensor:
    rest = x - ad.mean(x, axis=-1, keepdims=True)
    return rest / ad.sqrt(ad.mean(rest * rest, axis=-1, keepdims=True) + 1e-5)


def attention(x: ad.Tensor) -> ad.Tensor:
    return ad.softmax(x @ x.mT / 16, axis=-1) @ x


CALLS: dict[str, Callable[[ad.Tensor], ad.Tensor]] = {
    "polynomial": lambda x: x * x * x - 2 * x + 1,
    "exp and log": lambda x: ad.log(1 + ad.exp(-x)) * ad.tanh(x),
    "waves": lambda x: ad.sin(x) * ad.cos(3 * x) + ad.atan2(x, 1 + x * x),
    "powers": lambda x: ad.sqrt(x * x + 1) ** 1.5 / ad.hypot(x, 2.0),
    "gelu": ad.nn.functional.gelu,
    "silu and relu": lambda x: ad.nn.functional.silu(x) + ad.relu(x) * ad.sigmoid(x),
    "choices": lambda x: ad.where(x > 0.3, ad.maximum(x, 0.5 * x + 1), ad.clip(x, -1.0, 0.2)),
    "broadcasting": lambda x: x * x[:1] + x[:, :1] / (2 + ad.abs(x)),
    "transposed": lambda x: ad.exp(x.mT) * x.mT,
    "every other": lambda x: ad.expm1(x[::-1, 1::2]) * x[:, :-1:2],
    "sums": lambda x: ad.sum(x * x, axis=0) / ad.sum(ad.abs(x)) + ad.sum(ad.abs(x), axis=1)[:1],
    "extremes": lambda x: ad.max(x, axis=1) * ad.min(x, axis=0)[:ROWS],
    "softmax": lambda x: ad.softmax(x, axis=0) * ad.softmax(3 * x, axis=1),
    "log_softmax": lambda x: ad.log_softmax(x, axis=1) + ad.log_softmax(x, axis=0),
    "logsumexp": lambda x: ad.logsumexp(x, axis=1) * ad.logsumexp(x),
    "moments": lambda x: ad.var(x, axis=0) * ad.mean(x, axis=0) + ad.std(x),
    "norm": normalized,
    "layer_norm": lambda x: ad.nn.functional.layer_norm(x, (COLUMNS,)),
    "attention": attention,
}


def argument(dtype: str) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype(dtype)


def results() -> dict[str, np.ndarray]:
    """For each call and dtype, the result and the gradient of its weighted sum."""
    out = {}
    for name, call in CALLS.items():
        for dtype in ("f4", "f8"):
            x = ad.tensor(argument(dtype), requires_grad=True)
            y = call(x)
            weight = np.random.default_rng(1).standard_normal(y.shape).astype(dtype)
            (g,) = ad.autograd.grad(y, x, ad.asarray(weight))
            assert g is not None
            out[f"{name}, {dtype}"] = y.detach().numpy()
            out[f"gradient of {name}, {dtype}"] = g.numpy()
    return out
