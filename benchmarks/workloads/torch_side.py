"""The workloads in PyTorch, eager."""

import importlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from . import inputs
from .measuring import THREADS, Look, Step

torch: Any = importlib.import_module("torch")
F = torch.nn.functional
torch.set_num_threads(THREADS)


def parameters(arrays: Iterable[np.ndarray]) -> list[Any]:
    return [torch.tensor(a, requires_grad=True) for a in arrays]


def gradient_step(loss: Callable[[], Any], params: list[Any], look: Look) -> Step:
    def step() -> None:
        loss().backward()
        look(*(p.grad for p in params))
        for p in params:
            p.grad = None

    return step


def training_step(loss: Callable[[], Any], params: list[Any], look: Look) -> Step:
    def step() -> None:
        loss().backward()
        look(*(p.grad for p in params))
        with torch.no_grad():
            for p in params:
                p -= inputs.LEARNING_RATE * p.grad
                p.grad = None

    return step


def tiny_op(look: Look) -> Step:
    (x,) = parameters([inputs.vector(64)])

    def loss() -> Any:
        y = x
        for _ in range(inputs.TINY_STEPS):
            y = y * 1.001
            y = y.tanh()
        return y.sum()

    return gradient_step(loss, [x], look)


def elementwise(look: Look) -> Step:
    (x,) = parameters([inputs.vector(4_000_000)])
    return gradient_step(lambda: (x * torch.sigmoid(x) + torch.tanh(x)).sum(), [x], look)


def mlp(x: Any, labels: Any, weights: list[Any], biases: list[Any]) -> Any:
    h = torch.relu(x @ weights[0] + biases[0])
    h = torch.relu(h @ weights[1] + biases[1])
    return F.cross_entropy(h @ weights[2] + biases[2], labels)


def mlp_step(look: Look) -> Step:
    given = inputs.mlp()
    x, labels = torch.tensor(given.x), torch.tensor(given.labels)
    weights, biases = parameters(given.weights), parameters(given.biases)
    return training_step(lambda: mlp(x, labels, weights, biases), weights + biases, look)


def cnn_step(look: Look) -> Step:
    given = inputs.cnn()
    x, labels = torch.tensor(given.x), torch.tensor(given.labels)
    weights, biases = parameters(given.weights), parameters(given.biases)

    def loss() -> Any:
        h = F.max_pool2d(torch.relu(F.conv2d(x, weights[0], biases[0], padding=1)), 2)
        h = F.max_pool2d(torch.relu(F.conv2d(h, weights[1], biases[1], padding=1)), 2)
        return F.cross_entropy(h.reshape(len(given.x), -1) @ weights[2] + biases[2], labels)

    return training_step(loss, weights + biases, look)


def transformer_step(look: Look) -> Step:
    given, arrays = inputs.transformer()
    x = torch.tensor(given)
    w = dict(zip(arrays, parameters(arrays.values()), strict=True))
    batch, length, width = given.shape
    by_head = (batch, length, 3, inputs.HEADS, inputs.HEAD_SIZE)

    def loss() -> Any:
        qkv = (F.layer_norm(x, (width,)) @ w["qkv"]).reshape(by_head)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attended = torch.softmax(q @ k.transpose(-1, -2) / inputs.HEAD_SIZE**0.5, -1) @ v
        y = x + attended.transpose(1, 2).reshape(given.shape) @ w["out"]
        h = F.layer_norm(y, (width,))
        y = y + F.gelu(h @ w["up"], approximate="tanh") @ w["down"]
        return (y * y).mean()

    return training_step(loss, list(w.values()), look)


def gp_likelihood(look: Look) -> Step:
    points, values, start = inputs.gaussian_process()
    x, y = torch.tensor(points), torch.tensor(values)
    log_scale = torch.tensor(start, dtype=torch.float64, requires_grad=True)

    def loss() -> Any:
        distances = ((x[:, None] - x[None]) ** 2).sum(-1)
        covariance = torch.exp(-0.5 * distances * torch.exp(-2 * log_scale))
        covariance = covariance + inputs.NOISE * torch.eye(len(values), dtype=torch.float64)
        factor = torch.linalg.cholesky(covariance)
        solved = torch.cholesky_solve(y[:, None], factor)[:, 0]
        return 0.5 * (y @ solved) + torch.log(torch.diagonal(factor)).sum()

    return gradient_step(loss, [log_scale], look)


def solve_1000(look: Look) -> Step:
    x, y = parameters(inputs.equations())
    return gradient_step(lambda: torch.linalg.solve(x, y).sum(), [x, y], look)


def rnn(look: Look) -> Step:
    given, *weights = inputs.rnn()
    x = torch.tensor(given)
    state, entry = parameters(weights)

    def loss() -> Any:
        h = torch.zeros(*inputs.RECURRENT_STATE)
        for t in range(inputs.RECURRENT_STEPS):
            h = torch.tanh(h @ state + x[t] @ entry)
        return h.sum()

    return gradient_step(loss, [state, entry], look)


def embedding(look: Look) -> Step:
    table, taken = inputs.embedding()
    (weight,) = parameters([table])
    ids = torch.tensor(taken)
    return gradient_step(lambda: (F.embedding(ids, weight) ** 2).sum(), [weight], look)


def mlp_hvp(look: Look) -> Step:
    given = inputs.mlp()
    x, labels = torch.tensor(given.x), torch.tensor(given.labels)
    weights, biases = parameters(given.weights), [torch.tensor(b) for b in given.biases]

    def step() -> None:
        loss = mlp(x, labels, weights, biases)
        first = torch.autograd.grad(loss, weights, create_graph=True)
        along = sum((g * w).sum() for g, w in zip(first, weights, strict=True))
        look(*torch.autograd.grad(along, weights))

    return step


def conv2d_fwd(look: Look) -> Step:
    x, w = parameters(inputs.conv2d())

    def step() -> None:
        with torch.no_grad():
            look(F.conv2d(x, w, padding=1))

    return step


def conv2d_fwd_bwd(look: Look) -> Step:
    x, w = parameters(inputs.conv2d())
    return gradient_step(lambda: F.conv2d(x, w, padding=1).sum(), [x, w], look)


def by_rows(function: Callable[[Any], Any], look: Look) -> Step:
    given, gradient = inputs.rows()
    (x,) = parameters([given])
    g = torch.tensor(gradient)

    def step() -> None:
        function(x).backward(g)
        look(x.grad)
        x.grad = None

    return step


def softmax(x: Any) -> Any:
    return torch.softmax(x, -1)


def layer_norm(x: Any) -> Any:
    return F.layer_norm(x, x.shape[-1:])


def gelu(x: Any) -> Any:
    return F.gelu(x, approximate="tanh")


def adam_step(look: Look, **options: bool) -> Step:
    arrays, gradients = inputs.adam()
    params = parameters(arrays)
    for p, g in zip(params, gradients, strict=True):
        p.grad = torch.tensor(g)
    optimizer = torch.optim.Adam(params, lr=inputs.LEARNING_RATE, **options)

    def step() -> None:
        optimizer.step()
        look(*params)

    return step


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
    ("adam_step", partial(adam_step, foreach=True)),
    ("adam_step", partial(adam_step, fused=True)),
]
