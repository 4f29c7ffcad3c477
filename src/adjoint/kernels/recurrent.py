"""A step of an LSTM, and of its gradient, element by element."""

from .exponential import sigmoid, tanh
from .language import Kernel, Type, element


def lstm_step(type: Type) -> Kernel:
    """Gates, new cell and new state, from the input's and the state's shares in the gates i, f, n,
    o, and from the cell."""
    i, f, n, o = (element(k, type) + element(k + 4, type) for k in range(4))
    i, f, n, o = sigmoid(i), sigmoid(f), tanh(n), sigmoid(o)
    cell = f * element(8, type) + i * n
    return Kernel((i, f, n, o, cell, o * tanh(cell)))


def lstm_step_gradient(type: Type) -> Kernel:
    """Gradients of the gates' shares and of the former cell, from those of the state and the cell,
    each from outside and from the next step, and from the gates, the cell and the former cell."""
    outside, dh, dc, from_cell = (element(k, type) for k in range(4))
    i, f, n, o, cell, former = (element(k, type) for k in range(4, 10))
    dh, squashed = outside + dh, tanh(cell)
    dc = dh * o * (1 - squashed * squashed) + dc + from_cell
    di, df = dc * n * i * (1 - i), dc * former * f * (1 - f)
    dn, do = dc * i * (1 - n * n), dh * squashed * o * (1 - o)
    return Kernel((di, df, dn, do, dc * f))
