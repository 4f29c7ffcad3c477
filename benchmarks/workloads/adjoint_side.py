"""The workloads in adjoint."""

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

import adjoint as ad

from . import inputs
from .measuring import Look, Step

F = ad.nn.functional


def parameters(arrays: Iterable[np.ndarray]) -> list[ad.Tensor]:
    return [ad.tensor(a, requires_grad=True) for a in arrays]


def looked(function: Callable[[], Iterable[ad.Tensor]], look: Look) -> Step:
    """A step of a function whose results are looked at."""
    call = look.wrap(function)
    return lambda: look(*call())


def gradient_step(loss: Callable[[], ad.Tensor], params: list[ad.Tensor], look: Look) -> Step:
    def gradients() -> list[ad.Tensor]:
        loss().backward()
        found = [p.grad for p in params]
        for p in params:
            p.grad = None
        return found  # type: ignore[return-value]

    return looked(gradients, look)


def training_step(loss: Callable[[], ad.Tensor], params: list[ad.Tensor], look: Look) -> Step:
    optimizer = ad.optim.SGD(params, lr=inputs.LEARNING_RATE)
    looked(lambda: ad.autograd.grad(loss(), params), look)()  # type: ignore[arg-type,return-value]

    def update() -> list:
        loss().backward()
        optimizer.step()
        optimizer.zero_grad()
        return []

    call = look.wrap(update)
    return lambda: (call(), look(*params))


def tiny_op(look: Look) -> Step:
    (x,) = parameters([inputs.vector(64)])

    def loss() -> ad.Tensor:
        y = x
        for _ in range(inputs.TINY_STEPS):
            y = y * 1.001
            y = ad.tanh(y)
        return y.sum()

    return gradient_step(loss, [x], look)


def elementwise(look: Look) -> Step:
    (x,) = parameters([inputs.vector(4_000_000)])
    return gradient_step(lambda: (x * ad.sigmoid(x) + ad.tanh(x)).sum(), [x], look)


def mlp(
    x: ad.Tensor, labels: ad.Tensor, weights: list[ad.Tensor], biases: list[ad.Tensor]
) -> ad.Tensor:
    h = F.relu(x @ weights[0] + biases[0])
    h = F.relu(h @ weights[1] + biases[1])
    return F.cross_entropy(h @ weights[2] + biases[2], labels)


def mlp_step(look: Look) -> Step:
    given = inputs.mlp()
    x, labels = ad.tensor(given.x), ad.tensor(given.labels)
    weights, biases = parameters(given.weights), parameters(given.biases)
    return training_step(lambda: mlp(x, labels, weights, biases), weights + biases, look)


def cnn_step(look: Look) -> Step:
    given = inputs.cnn()
    x, labels = ad.tensor(given.x), ad.tensor(given.labels)
    weights, biases = parameters(given.weights), parameters(given.biases)

    def loss() -> ad.Tensor:
        h = F.max_pool2d(F.relu(F.conv2d(x, weights[0], biases[0], padding=1)), 2)
        h = F.max_pool2d(F.relu(F.conv2d(h, weights[1], biases[1], padding=1)), 2)
        return F.cross_entropy(h.reshape((len(given.x), -1)) @ weights[2] + biases[2], labels)

    return training_step(loss, weights + biases, look)


def transformer_step(look: Look) -> Step:
    given, arrays = inputs.transformer()
    x = ad.tensor(given)
    w = dict(zip(arrays, parameters(arrays.values()), strict=True))
    batch, length, width = given.shape
    by_head = (batch, length, 3, inputs.HEADS, inputs.HEAD_SIZE)

    def loss() -> ad.Tensor:
        qkv = (F.layer_norm(x, (width,)) @ w["qkv"]).reshape(by_head)
        q, k, v = ad.unstack(ad.permute_dims(qkv, (2, 0, 3, 1, 4)))
        attended = F.softmax(q @ k.mT / inputs.HEAD_SIZE**0.5, axis=-1) @ v
        y = x + ad.permute_dims(attended, (0, 2, 1, 3)).reshape(given.shape) @ w["out"]
        h = F.layer_norm(y, (width,))
        y = y + F.gelu(h @ w["up"], approximate="tanh") @ w["down"]
        return (y * y).mean()

    return training_step(loss, list(w.values()), look)


def gp_likelihood(look: Look) -> Step:
    points, values, start = inputs.gaussian_process()
    x, y = ad.tensor(points), ad.tensor(values)
    log_scale = ad.asarray(start, dtype=ad.float64, requires_grad=True)

    def loss() -> ad.Tensor:
        distances = ((x[:, None] - x[None]) ** 2).sum(axis=-1)
        covariance = ad.exp(-0.5 * distances * ad.exp(-2 * log_scale))
        covariance = covariance + inputs.NOISE * ad.eye(len(values), dtype=ad.float64)
        factor = ad.linalg.cholesky(covariance)
        solved = ad.linalg.cholesky_solve(y[:, None], factor)[:, 0]
        return 0.5 * (y @ solved) + ad.log(ad.linalg.diagonal(factor)).sum()

    return gradient_step(loss, [log_scale], look)


def solve_1000(look: Look) -> Step:
    x, y = parameters(inputs.equations())
    return gradient_step(lambda: ad.linalg.solve(x, y).sum(), [x, y], look)


def rnn(look: Look) -> Step:
    given, *weights = inputs.rnn()
    x = ad.tensor(given)
    state, entry = parameters(weights)

    def loss() -> ad.Tensor:
        h = ad.zeros(inputs.RECURRENT_STATE, dtype=ad.float32)
        for t in range(inputs.RECURRENT_STEPS):
            h = ad.tanh(h @ state + x[t] @ entry)
        return h.sum()

    return gradient_step(loss, [state, entry], look)


def embedding(look: Look) -> Step:
    table, taken = inputs.embedding()
    (weight,) = parameters([table])
    ids = ad.tensor(taken)
    return gradient_step(lambda: (F.embedding(ids, weight) ** 2).sum(), [weight], look)


def mlp_hvp(look: Look) -> Step:
    given = inputs.mlp()
    x, labels = ad.tensor(given.x), ad.tensor(given.labels)
    weights, biases = parameters(given.weights), [ad.tensor(b) for b in given.biases]

    def product() -> Iterable[ad.Tensor]:
        loss = mlp(x, labels, weights, biases)
        first = ad.autograd.grad(loss, weights, create_graph=True)
        along = sum((g * w).sum() for g, w in zip(first, weights, strict=True))
        return ad.autograd.grad(along, weights)  # type: ignore[arg-type,return-value]

    return looked(product, look)


def conv2d_fwd(look: Look) -> Step:
    x, w = parameters(inputs.conv2d())

    def forward() -> list[ad.Tensor]:
        with ad.no_grad():
            return [F.conv2d(x, w, padding=1)]

    return looked(forward, look)


def conv2d_fwd_bwd(look: Look) -> Step:
    x, w = parameters(inputs.conv2d())
    return gradient_step(lambda: F.conv2d(x, w, padding=1).sum(), [x, w], look)


def by_rows(function: Callable[[ad.Tensor], ad.Tensor], look: Look) -> Step:
    given, gradient = inputs.rows()
    (x,) = parameters([given])
    g = ad.tensor(gradient)

    def gradients() -> list[ad.Tensor]:
        function(x).backward(g)
        found, x.grad = x.grad, None
        return [found]  # type: ignore[list-item]

    return looked(gradients, look)


def softmax(x: ad.Tensor) -> ad.Tensor:
    return F.softmax(x, axis=-1)


def layer_norm(x: ad.Tensor) -> ad.Tensor:
    return F.layer_norm(x, x.shape[-1:])


def gelu(x: ad.Tensor) -> ad.Tensor:
    return F.gelu(x, approximate="tanh")


def adam_step(look: Look) -> Step:
    arrays, gradients = inputs.adam()
    params = parameters(arrays)
    for p, g in zip(params, gradients, strict=True):
        p.grad = ad.tensor(g)
    optimizer = ad.optim.Adam(params, lr=inputs.LEARNING_RATE)

    call = look.wrap(optimizer.step)
    return lambda: (call(), look(*params))


WORKLOADS = [
    ("tiny_op", tiny_op),
    ("elementwise_4M", elementwise),
    ("mlp_step", mlp_step),
    ("cnn_step", cnn_step),
    ("transformer_step", transformer_step),
    ("gp_likelihood", gp_likelihood),
    ("solve_1000", solve_1000),
    ("rnn_100", rnn),
    ("embedding", embedding),
    ("mlp_hvp", mlp_hvp),
    ("conv2d_fwd", conv2d_fwd),
    ("conv2d_fwd_bwd", conv2d_fwd_bwd),
    ("softmax_8M", partial(by_rows, softmax)),
    ("layernorm_8M", partial(by_rows, layer_norm)),
    ("gelu_8M", partial(by_rows, gelu)),
    ("adam_step", adam_step),
]
