"""Recurrent layers over whole sequences, each an op: x has the input's share of every step.

With L steps, N examples, a hidden size H and G for all gates, a state h is (N, H), its weight w
(G, H), and what the input adds to the gates, x, (L, N, G). Steps go backwards if `reverse`, but
results are in the order of x.

What a rule needs of each step is an output of its own, so that derivatives of every order follow
from it. Only what can't be done for all steps at once is done step by step.
"""

from collections.abc import Callable
from typing import Any

from .. import op
from .._core.shape_inference import at_axis
from .._core.tensor import Tensor, wrap
from .._transforms.derivatives import vjp
from ..functions.creation import full
from ..functions.elementwise import astype
from ..functions.reductions import sum
from ..functions.shapes import expand_dims
from ..primitives.contractions import matmul
from ..primitives.elementwise import relu, sigmoid, tanh
from ..primitives.shapes import concat, matrix_transpose, reshape, slice_
from . import _recurrent_steps
from ._recurrent_steps import order


def step(x: Tensor, t: int) -> Tensor:
    return slice_(x, index=(t,))


def joined(steps: list[Tensor], backwards: bool) -> Tensor:
    """Steps as one tensor; they were made in this order, or backwards."""
    rows = concat(*(steps[::-1] if backwards else steps), axis=0)
    return reshape(rows, shape=(len(steps), *steps[0].shape))


def before(first: Tensor, states: Tensor, reverse: bool) -> Tensor:
    """The state that each step began with."""
    first = expand_dims(first, 0)
    if reverse:
        return concat(slice_(states, index=(slice(1, None),)), first, axis=0)
    return concat(first, slice_(states, index=(slice(None, -1),)), axis=0)


def parts(x: Tensor, count: int) -> list[Tensor]:
    """Gates, side by side on the last axis."""
    axis, size = x.ndim - 1, x.shape[-1] // count
    return [slice_(x, index=at_axis(axis, slice(k * size, k * size + size))) for k in range(count)]


def rows(x: Tensor) -> Tensor:
    """All steps of all examples below each other."""
    length, n, size = x.shape
    return reshape(x, shape=(length * n, size))


def product(dy: Tensor, x: Tensor) -> Tensor:
    """The gradient of w in x @ w.mT, summed over all steps and examples."""
    return matmul(matrix_transpose(rows(dy)), rows(x))


def beside(*gates: Tensor) -> Tensor:
    return concat(*gates, axis=len(gates[0].raw.shape) - 1)


def plus(x: Tensor, y: Tensor | None) -> Tensor:
    return x if y is None else x + y


# h = tanh(x + h @ w.mT), or relu of it.


def rnn_forward(x, h, w, *, nonlinearity, reverse):
    act, w = tanh if nonlinearity == "tanh" else relu, matrix_transpose(w)
    states = []
    for t in order(x.shape[0], reverse):
        h = act(step(x, t) + matmul(h, w))
        states.append(h)
    return joined(states, reverse)


def rnn_vjp(g, h, w, out, needs, nonlinearity, reverse):
    slope = 1 - out * out if nonlinearity == "tanh" else astype(out > 0, out.dtype)
    dh, dgates = None, []
    for t in order(out.shape[0], not reverse):
        dgates.append(plus(step(g, t), dh) * step(slope, t))
        dh = matmul(dgates[-1], w)
    dx = joined(dgates, not reverse)
    return dx, dh, product(dx, before(h, out, reverse)) if needs[2] else None


rnn = op.other(
    "rnn",
    "States of a recurrent layer without gates.",
    inputs="x h w",
    attrs="nonlinearity reverse",
    forward=rnn_forward,
    vjp=rnn_vjp,
)


# LSTM: i, f, o = sigmoid and n = tanh of gates; c = f * c + i * n; h = o * tanh(c), then @ p.mT.
# sigmoid(x) is tanh(x / 2) / 2 + 1 / 2, so all gates are one tanh; halves are exact.


def lstm_forward(x, h, c, w, p=None, *, reverse):
    half, offset = halves(c, 1), halves(c, 0)
    x, w = x * half, matrix_transpose(w) * half
    p = None if p is None else matrix_transpose(p)
    results: tuple[list, list, list] = ([], [], [])
    for t in order(x.shape[0], reverse):
        gates = tanh(step(x, t) + matmul(h, w)) * half + offset
        i, f, n, o = parts(gates, 4)
        c = f * c + i * n
        h = o * tanh(c)
        if p is not None:
            h = matmul(h, p)
        for states, state in zip(results, (h, c, gates), strict=True):
            states.append(state)
    return tuple(joined(states, reverse) for states in results)


def halves(c: Tensor, other: float) -> Tensor:
    """1/2 at the gates i, f and o, another number at n."""
    half, rest = (full(c.shape[-1], k, dtype=c.dtype, device=c.device) for k in (0.5, other))
    return beside(half, half, rest, half)


def lstm_on_cpu(x, h, c, w, p=None, *, reverse):
    if p is None and x.size and _recurrent_steps.are_served((x, h, c, w)):
        return _recurrent_steps.lstm(x, h, c, w, reverse)
    return raw(lstm_forward, x, h, c, w, p, reverse=reverse)


def raw(forward: Callable, *arrays: Any, **attrs: Any) -> tuple:
    """What a forward computes of raw arrays."""
    tensors = [None if x is None else wrap(x) for x in arrays]
    return tuple(x.raw for x in forward(*tensors, **attrs))


def lstm_slopes(c: Tensor, cells: Tensor, gates: Tensor, reverse: bool) -> tuple[Tensor, Tensor]:
    """By what a state's gradient goes to its cell, and cells' (the last: states') to the gates."""
    i, f, n, o = parts(gates, 4)
    squashed = tanh(cells)
    former = before(c, cells, reverse)
    slopes = beside(n * i * (1 - i), former * f * (1 - f), i * (1 - n * n), squashed * o * (1 - o))
    return o * (1 - squashed * squashed), slopes


def lstm_vjp(g_out, g_cells, g_gates, h, c, w, p, out, cells, gates, needs, arrived, reverse):
    if p is None and not arrived[2]:
        dx, dh, dc = lstm_gradient(g_out, g_cells, c, w, cells, gates, reverse=reverse)
        return dx, dh, dc, product(dx, before(h, out, reverse)) if needs[3] else None, None
    i, f, n, o = parts(gates, 4)
    to_cell, slopes = lstm_slopes(c, cells, gates, reverse)
    g_gates = g_gates * beside(i * (1 - i), f * (1 - f), 1 - n * n, o * (1 - o))
    dh = dc = None
    dhs, dgates = [], []
    for t in order(out.shape[0], not reverse):
        dh = plus(step(g_out, t), dh)
        if p is not None:
            dhs.append(dh)
            dh = matmul(dh, p)
        dc = plus(dh * step(to_cell, t), dc) + step(g_cells, t)
        dgates.append(beside(dc, dc, dc, dh) * step(slopes, t) + step(g_gates, t))
        dh, dc = matmul(dgates[-1], w), dc * step(f, t)
    dx = joined(dgates, not reverse)
    dw = product(dx, before(h, out, reverse)) if needs[3] else None
    dp = product(joined(dhs, not reverse), o * tanh(cells)) if needs[4] else None
    return dx, dh, dc, dw, dp


lstm = op.other(
    "lstm",
    "States, cells and gates of an LSTM.",
    inputs="x h c w p?",
    outputs="out cells gates",
    attrs="reverse",
    forward=lstm_forward,
    kernels={"cpu": lstm_on_cpu},
    vjp=lstm_vjp,
)


def lstm_gradient_forward(dout, dcells, c, w, cells, gates, *, reverse):
    to_cell, slopes = lstm_slopes(c, cells, gates, reverse)
    f = parts(gates, 4)[1]
    dh = dc = None
    dgates = []
    for t in order(gates.shape[0], not reverse):
        dh = plus(step(dout, t), dh)
        dc = plus(dh * step(to_cell, t), dc) + step(dcells, t)
        dgates.append(beside(dc, dc, dc, dh) * step(slopes, t))
        dh, dc = matmul(dgates[-1], w), dc * step(f, t)
    return joined(dgates, not reverse), dh, dc


def lstm_gradient_on_cpu(*arrays, reverse):
    if arrays[0].size and _recurrent_steps.are_served(arrays):
        return _recurrent_steps.lstm_gradient(*arrays, reverse=reverse)
    return raw(lstm_gradient_forward, *arrays, reverse=reverse)


def lstm_gradient_vjp(g_dx, g_dh, g_dc, dout, dcells, c, w, cells, gates, reverse):
    """By differentiating the steps as they are written: only second derivatives need it."""
    inputs = (dout, dcells, c, w, cells, gates)
    _, pullback = vjp(lambda *xs: lstm_gradient_forward(*xs, reverse=reverse), *inputs)
    return pullback((g_dx, g_dh, g_dc))


lstm_gradient = op.other(
    "lstm_gradient",
    "What the gradients of an LSTM's states and cells say of what entered its gates, and of its "
    "first state and cell.",
    inputs="dout dcells c w cells gates",
    outputs="dx dh dc",
    attrs="reverse",
    forward=lstm_gradient_forward,
    kernels={"cpu": lstm_gradient_on_cpu},
    vjp=lstm_gradient_vjp,
)


# GRU: r, z = sigmoid of x + own, own = h @ w.mT + b; n = tanh(x + r * own); h = n + z * (h - n).


def gru_forward(x, h, w, b=None, *, reverse):
    w = matrix_transpose(w)
    states, shares = [], []
    for t in order(x.shape[0], reverse):
        own = plus(matmul(h, w), b)
        _, z, n = reset(step(x, t), own)
        h = n + z * (h - n)
        states.append(h)
        shares.append(own)
    return joined(states, reverse), joined(shares, reverse)


def reset(x: Tensor, own: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    (x_r, x_z, x_n), (own_r, own_z, own_n) = parts(x, 3), parts(own, 3)
    r, z = sigmoid(x_r + own_r), sigmoid(x_z + own_z)
    return r, z, tanh(x_n + r * own_n)


def gru_vjp(g_out, g_own, x, h, w, b, out, own, needs, arrived, reverse):
    r, z, n = reset(x, own)
    former = before(h, out, reverse)
    to_n = (1 - z) * (1 - n * n)
    to_r, to_z = to_n * parts(own, 3)[2] * r * (1 - r), (former - n) * z * (1 - z)
    slopes = beside(to_r, to_z, to_n * r)
    dh, dhs, downs = None, [], []
    for t in order(out.shape[0], not reverse):
        dh = plus(step(g_out, t), dh)
        down = beside(dh, dh, dh) * step(slopes, t)
        if arrived[1]:
            down = down + step(g_own, t)
        dhs.append(dh)
        downs.append(down)
        dh = dh * step(z, t) + matmul(down, w)
    every, down = joined(dhs, not reverse), joined(downs, not reverse)
    dx = beside(every * to_r, every * to_z, every * to_n)
    dw = product(down, former) if needs[2] else None
    return dx, dh, dw, sum(rows(down), axis=0) if needs[3] else None


gru = op.other(
    "gru",
    "States of a GRU, and the state's own share in its gates.",
    inputs="x h w b?",
    outputs="out own",
    attrs="reverse",
    forward=gru_forward,
    vjp=gru_vjp,
)
