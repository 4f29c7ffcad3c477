"""Small versions of the workloads that we are measured by: the same numbers as eager, natively."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint._compile.lowering import HostStep
from tests.support.arrays import normal
from tests.support.helpers import needs_kernels, values

pytestmark = needs_kernels
F = ad.nn.functional


def host_steps(function: Any) -> set[str]:
    """The ops of a compiled function that are functions on arrays."""
    ((_, program),) = function._programs
    assert not program.eager and not function._eager
    return {item.step.op.name for item in program.built.items if isinstance(item, HostStep)}


def tensor(*shape: int, seed: int = 0, scale: float = 0.3, dtype: str = "f4") -> ad.Tensor:
    return ad.asarray(scale * normal(*shape, seed=seed, dtype=dtype))


def classes(count: int, below: int) -> ad.Tensor:
    return ad.asarray(np.random.default_rng(0).integers(0, below, count))


# Steps of training: parameters, and the loss of them.


def mlp(w1, w2, b1, b2):
    h = F.relu(tensor(5, 6, seed=9) @ w1 + b1)
    return F.cross_entropy(h @ w2 + b2, classes(5, 3))


MLP = (6, 4), (4, 3), (4,), (3,)


def cnn(w1, w2, w3, b1, b2, b3):
    h = F.max_pool2d(F.relu(F.conv2d(tensor(3, 2, 8, 8, seed=9), w1, b1, padding=1)), 2)
    h = F.max_pool2d(F.relu(F.conv2d(h, w2, b2, padding=1)), 2)
    return F.cross_entropy(h.reshape((3, -1)) @ w3 + b3, classes(3, 4))


def transformer(qkv, o, a, b):
    x = tensor(2, 5, 8, seed=9)
    h = F.layer_norm(x, (8,)) @ qkv
    q, k, v = ad.unstack(ad.permute_dims(h.reshape((2, 5, 3, 2, 4)), (2, 0, 3, 1, 4)))
    attention = F.softmax(q @ k.mT / 2, axis=-1) @ v
    y = x + ad.permute_dims(attention, (0, 2, 1, 3)).reshape((2, 5, 8)) @ o
    y = y + F.gelu(F.layer_norm(y, (8,)) @ a, approximate="tanh") @ b
    return (y * y).mean()


def rnn(w, u):
    xs, h = tensor(6, 3, 5, seed=9), ad.zeros((3, 4))
    for t in range(6):
        h = ad.tanh(h @ w + xs[t] @ u)
    return h.sum()


def embedding(w):
    return (F.embedding(classes(12, 7).reshape((3, 4)), w) ** 2).sum()


def tiny(x):
    for _ in range(20):
        x = ad.tanh(x * 1.001)
    return x.sum()


def elementwise(x):
    return (x * ad.sigmoid(x) + ad.tanh(x)).sum()


def convolution(x, w):
    return F.conv2d(x, w, padding=1).sum()


LOSSES: dict[str, tuple[Callable, tuple[tuple[int, ...], ...]]] = {
    "mlp": (mlp, MLP),
    "cnn": (cnn, ((3, 2, 3, 3), (4, 3, 3, 3), (16, 4), (3,), (4,), (4,))),
    "transformer": (transformer, ((8, 24), (8, 8), (8, 16), (16, 8))),
    "rnn": (rnn, ((4, 4), (5, 4))),
    "embedding": (embedding, ((7, 4),)),
    "tiny": (tiny, ((64,),)),
    "elementwise": (elementwise, ((400,),)),
    "convolution": (convolution, ((2, 3, 6, 6), (4, 3, 3, 3))),
    "softmax": (lambda x: weighted(F.softmax(x, axis=-1)), ((6, 20),)),
    "layer_norm": (lambda x: weighted(F.layer_norm(x, (20,))), ((6, 20),)),
    "gelu": (lambda x: weighted(F.gelu(x, approximate="tanh")), ((6, 20),)),
}


def weighted(y: ad.Tensor) -> ad.Tensor:
    return (y * tensor(*y.shape, seed=8)).sum()


def parameters(shapes: tuple[tuple[int, ...], ...]) -> list[ad.Tensor]:
    return [tensor(*shape, seed=k).requires_grad_() for k, shape in enumerate(shapes)]


OPTIMIZERS: dict[str, Callable] = {
    "SGD": lambda p: ad.optim.SGD(p, lr=0.1),
    "momentum": lambda p: ad.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adam": lambda p: ad.optim.Adam(p, lr=0.01),
    "AdamW": lambda p: ad.optim.AdamW(p, lr=0.01),
}


def trained(name: str, optimizer: str, wrap: Callable) -> tuple[list[np.ndarray], Any]:
    """Losses and parameters after some steps, and the step."""
    loss_of, shapes = LOSSES[name]
    params = parameters(shapes)
    own = OPTIMIZERS[optimizer](params)

    def step() -> ad.Tensor:
        loss = loss_of(*params)
        own.zero_grad()
        loss.backward()
        own.step()
        return loss

    step = wrap(step)
    losses = [values(step()) for _ in range(4)]
    return [*losses, *map(values, params)], step


def close(found: list[np.ndarray], expected: list[np.ndarray], tolerance: float = 2e-5) -> None:
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance / 10, strict=True)


@pytest.mark.parametrize("name", LOSSES)
def test_steps_train_as_eager_ones_without_host_steps(name: str) -> None:
    found, step = trained(name, "SGD", ad.compile)
    close(found, trained(name, "SGD", lambda f: f)[0])
    assert host_steps(step) == set()
    ((_, program),) = step._programs
    built = program.built
    assert built.code.arena <= built.eager_peak


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers_train_as_eager_ones_without_host_steps(optimizer: str) -> None:
    found, step = trained("mlp", optimizer, ad.compile)
    close(found, trained("mlp", optimizer, lambda f: f)[0])
    assert host_steps(step) == set()


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_functions_have_no_host_steps(name: str) -> None:
    loss_of, shapes = LOSSES[name]
    gradient = ad.grad(loss_of, argnums=tuple(range(len(shapes))))
    args = [x.detach() for x in parameters(shapes)]
    function = ad.compile(gradient)
    for _ in range(2):
        close(list(map(values, function(*args))), list(map(values, gradient(*args))))
    assert host_steps(function) == set()


def test_products_of_the_hessian_have_no_host_steps() -> None:
    params, vector = parameters(MLP), parameters(MLP[:2])

    def product() -> Any:
        gradients = ad.autograd.grad(mlp(*params), params[:2], create_graph=True)
        first, second = [
            (g * v.detach()).sum() for g, v in zip(gradients, vector, strict=True) if g is not None
        ]
        return ad.autograd.grad(first + second, params[:2])

    function = ad.compile(product)
    for _ in range(2):
        close(list(map(values, function())), list(map(values, product())))
    assert host_steps(function) == set()


def test_a_likelihood_has_host_steps_for_factorisation_and_solves_alone() -> None:
    x, y = tensor(7, 3, scale=1, dtype="f8"), tensor(7, seed=1, scale=1, dtype="f8")
    scale = ad.asarray(0.3, dtype=ad.float64, requires_grad=True)

    def likelihood() -> Any:
        distances = ((x[:, None] - x[None]) ** 2).sum(axis=-1)
        noise = 1e-2 * ad.eye(7, dtype=ad.float64)
        factor = ad.linalg.cholesky(ad.exp(-0.5 * distances * ad.exp(-2 * scale)) + noise)
        solved = ad.linalg.cholesky_solve(y[:, None], factor)[:, 0]
        out = 0.5 * (y @ solved) + ad.log(ad.linalg.diagonal(factor)).sum()
        return ad.autograd.grad(out, scale)[0]

    function = ad.compile(likelihood)
    for _ in range(2):
        close([values(function())], [values(likelihood())], 1e-10)
    solves = {"cholesky_solve", "solve_triangular"}
    assert host_steps(function) <= {"cholesky", "cholesky_gradient", *solves}


# Forms that ops have without a kernel of their own.

NATIVE: dict[str, Callable] = {
    "tril": lambda x: ad.tril(x),
    "triu": lambda x: ad.triu(x, k=1),
    "triangles of many": lambda x: ad.tril(x[None] * ad.ones((3, 1, 1)), k=-1),
    "eye": lambda x: x @ ad.eye(6),
    "arange": lambda x: x * ad.arange(6),
    "linspace": lambda x: x + ad.linspace(0, 1, 6),
    "full": lambda x: ad.where(x > 0, ad.full((6, 6), 3), x),
    "zeros": lambda x: ad.maximum(x, ad.zeros_like(x)),
    "diagonal": lambda x: ad.linalg.diagonal(x),
    "diagflat": lambda x: ad.diagflat(x[0]),
    "trace": lambda x: ad.linalg.trace(x),
    "rolled": lambda x: ad.roll(x, 2, axis=1),
    "stacked": lambda x: ad.stack([x, x * 2], axis=1),
    "padded": lambda x: ad.pad(x, ((1, 0), (0, 2))),
    "repeated": lambda x: ad.repeat(x, 2, axis=0),
    "tiled": lambda x: ad.tile(x, (2, 1)),
    "one_hot": lambda x: F.one_hot(ad.asarray([0, 2, 1]), 3) * x[:3, :3],
    "causal": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
    "dropout": lambda x: F.dropout(x, 0.5) * 0,
    "differences": lambda x: ad.diff(x, axis=1),
    "sums": lambda x: ad.cumulative_sum(x, axis=0),
}


@pytest.mark.parametrize("name", NATIVE)
def test_ops_of_these_workloads_are_native(name: str) -> None:
    x = tensor(6, 6)
    both = [NATIVE[name], lambda x: ad.grad(lambda x: (NATIVE[name](x) ** 2).sum())(x)]
    for call in both:
        function = ad.compile(call)
        for _ in range(2):
            close([values(function(x))], [values(call(x))])
        assert host_steps(function) == set()
