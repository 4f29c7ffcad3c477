"""The workloads in JAX: each step is one compiled function, with its gradients inside.

A step waits for its results. Their checksum is taken once, before; a training step has none, for it
gives the parameters after the update and no gradients.
"""

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

from . import inputs
from .measuring import Look, Step

jax: Any = importlib.import_module("jax")
jnp: Any = importlib.import_module("jax.numpy")
linalg: Any = importlib.import_module("jax.scipy.linalg")
jax.config.update("jax_enable_x64", True)


def checked_step(look: Look, function: Callable[..., Any], *args: Any) -> Step:
    """A step of a function that returns (what is compared with other libraries, anything else)."""
    run = jax.jit(function)
    look.add_up(jax.tree.leaves(run(*args)[0]))
    return lambda: jax.block_until_ready(run(*args))


def gradient_step(look: Look, loss: Callable[..., Any], *args: Any) -> Step:
    return checked_step(look, lambda *args: (jax.grad(loss)(*args), ()), *args)


def training_step(loss: Callable[..., Any], params: Any, *args: Any) -> Step:
    @jax.jit
    def update(params: Any, *args: Any) -> Any:
        gradients = jax.grad(loss)(params, *args)
        return jax.tree.map(lambda p, g: p - inputs.LEARNING_RATE * g, params, gradients)

    return lambda: jax.block_until_ready(update(params, *args))


def tensors(arrays: Any) -> Any:
    return jax.tree.map(jnp.asarray, arrays)


def tiny_op(look: Look) -> Step:
    def loss(x: Any) -> Any:
        y = x
        for _ in range(inputs.TINY_STEPS):
            y = y * 1.001
            y = jnp.tanh(y)
        return y.sum()

    return gradient_step(look, loss, tensors(inputs.vector(64)))


def elementwise(look: Look) -> Step:
    def loss(x: Any) -> Any:
        return (x * jax.nn.sigmoid(x) + jnp.tanh(x)).sum()

    return gradient_step(look, loss, tensors(inputs.vector(4_000_000)))


def cross_entropy(logits: Any, labels: Any) -> Any:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()


def mlp(params: Any, x: Any, labels: Any) -> Any:
    weights, biases = params
    h = jax.nn.relu(x @ weights[0] + biases[0])
    h = jax.nn.relu(h @ weights[1] + biases[1])
    return cross_entropy(h @ weights[2] + biases[2], labels)


def mlp_step(look: Look) -> Step:
    given = inputs.mlp()
    params = tensors((given.weights, given.biases))
    return training_step(mlp, params, tensors(given.x), tensors(given.labels))


def convolution(x: Any, w: Any) -> Any:
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME")


def pool(x: Any) -> Any:
    window = (1, 1, 2, 2)
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")


def cnn(params: Any, x: Any, labels: Any) -> Any:
    weights, biases = params
    h = x
    for w, b in zip(weights[:2], biases[:2], strict=True):
        h = pool(jax.nn.relu(convolution(h, w) + b[None, :, None, None]))
    return cross_entropy(h.reshape(len(x), -1) @ weights[2] + biases[2], labels)


def cnn_step(look: Look) -> Step:
    given = inputs.cnn()
    params = tensors((given.weights, given.biases))
    return training_step(cnn, params, tensors(given.x), tensors(given.labels))


def layer_norm(x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5)


def transformer(w: Any, x: Any) -> Any:
    batch, length, _ = x.shape
    qkv = (layer_norm(x) @ w["qkv"]).reshape(batch, length, 3, inputs.HEADS, inputs.HEAD_SIZE)
    q, k, v = qkv.transpose(2, 0, 3, 1, 4)
    attended = jax.nn.softmax(q @ k.swapaxes(-1, -2) / inputs.HEAD_SIZE**0.5, -1) @ v
    y = x + attended.swapaxes(1, 2).reshape(x.shape) @ w["out"]
    y = y + jax.nn.gelu(layer_norm(y) @ w["up"]) @ w["down"]
    return (y * y).mean()


def transformer_step(look: Look) -> Step:
    x, weights = inputs.transformer()
    return training_step(transformer, tensors(weights), tensors(x))


def gp_likelihood(look: Look) -> Step:
    points, values, start = inputs.gaussian_process()
    x, y = tensors(points), tensors(values)

    def loss(log_scale: Any) -> Any:
        distances = ((x[:, None] - x[None]) ** 2).sum(-1)
        covariance = jnp.exp(-0.5 * distances * jnp.exp(-2 * log_scale))
        factor = jnp.linalg.cholesky(covariance + inputs.NOISE * jnp.eye(len(values)))
        solved = linalg.cho_solve((factor, True), y)
        return 0.5 * (y @ solved) + jnp.log(jnp.diagonal(factor)).sum()

    return gradient_step(look, loss, jnp.float64(start))


def solve_1000(look: Look) -> Step:
    x, y = tensors(inputs.equations())
    return gradient_step(look, lambda given: jnp.linalg.solve(*given).sum(), (x, y))


def rnn(look: Look) -> Step:
    x, *weights = inputs.rnn()

    def loss(weights: Any, x: Any) -> Any:
        state, entry = weights
        h = jnp.zeros(inputs.RECURRENT_STATE, "float32")
        for t in range(inputs.RECURRENT_STEPS):
            h = jnp.tanh(h @ state + x[t] @ entry)
        return h.sum()

    return gradient_step(look, loss, tensors(weights), tensors(x))


def embedding(look: Look) -> Step:
    def loss(table: Any, ids: Any) -> Any:
        return (table[ids] ** 2).sum()

    return gradient_step(look, loss, *tensors(inputs.embedding()))


def mlp_hvp(look: Look) -> Step:
    given = inputs.mlp()
    weights, biases, x, labels = tensors((given.weights, given.biases, given.x, given.labels))

    def product(weights: Any) -> tuple:
        def slope(weights: Any) -> Any:
            first = jax.grad(lambda w: mlp((w, biases), x, labels))(weights)
            return sum((g * w).sum() for g, w in zip(first, weights, strict=True))

        return jax.grad(slope)(weights), ()

    return checked_step(look, product, weights)


def conv2d_fwd(look: Look) -> Step:
    return checked_step(look, lambda x, w: (convolution(x, w), ()), *tensors(inputs.conv2d()))


def conv2d_fwd_bwd(look: Look) -> Step:
    def both(x: Any, w: Any) -> tuple:
        loss, gradients = jax.value_and_grad(lambda *xw: convolution(*xw).sum(), (0, 1))(x, w)
        return gradients, loss

    return checked_step(look, both, *tensors(inputs.conv2d()))


def by_rows(function: Callable[[Any], Any], look: Look) -> Step:
    def both(x: Any, gradient: Any) -> tuple:
        out, pull = jax.vjp(function, x)
        return pull(gradient), out

    return checked_step(look, both, *tensors(inputs.rows()))


def adam_step(look: Look) -> Step:
    params, gradients = tensors(inputs.adam())
    zeros = jax.tree.map(jnp.zeros_like, params)

    @partial(jax.jit, donate_argnums=0)
    def update(state: Any, gradients: Any) -> Any:
        count, params, means, squares = state
        count = count + 1
        means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, gradients)
        squares = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, squares, gradients)
        rate = inputs.LEARNING_RATE / (1 - 0.9**count)
        root = jnp.sqrt(1 - 0.999**count)

        def moved(p: Any, m: Any, s: Any) -> Any:
            return p - rate * m / (jnp.sqrt(s) / root + 1e-8)

        return count, jax.tree.map(moved, params, means, squares), means, squares

    state = [(jnp.float32(0), params, zeros, jax.tree.map(jnp.copy, zeros))]

    def step() -> None:
        state[0] = jax.block_until_ready(update(state[0], gradients))

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
    ("softmax_8M", partial(by_rows, jax.nn.softmax)),
    ("layernorm_8M", partial(by_rows, layer_norm)),
    ("gelu_8M", partial(by_rows, jax.nn.gelu)),
    ("adam_step", adam_step),
]
