"""Recurrent layers over sequences, and their cells, which do a single step.

All sequences of a batch have one length: there are no packed sequences.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ..._core.tensor import Tensor
from ..._foundation.errors import ArgumentError, DTypeError, ShapeError
from ...functions._arguments import as_real, in_common_dtype
from ...functions.creation import empty, zeros
from ...functions.shapes import concat, expand_dims, squeeze, stack, swapaxes, unstack
from .. import _recurrent, init
from .. import functional as F
from .._dropout import as_probability
from .._operands import narrowed, widened
from .._parameter import Parameter
from .applied import Kind, count, kind, one_of

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell"]

States = tuple[Tensor, ...]  # h, or h and c
USUAL = {
    "proj_size": 0,
    "num_layers": 1,
    "bias": True,
    "batch_first": False,
    "dropout": 0.0,
    "bidirectional": False,
}


class Weights(NamedTuple):
    """What a layer has in one direction; None for what it doesn't have."""

    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None
    weight_hr: Parameter | None = None


# All steps of one layer in one direction: its states, and the last of them.


def plain_steps(
    layer: Any, x: Tensor, states: States, weights: Weights, reverse: bool
) -> tuple[Tensor, States]:
    x = F.linear(x, weights.weight_ih, both_biases(weights))
    operands = in_common_dtype(kind(layer), x, *states, weights.weight_hh)
    out = _recurrent.rnn(*operands, nonlinearity=layer.nonlinearity, reverse=reverse)
    return out, (last(out, reverse),)


def lstm_steps(
    layer: Any, x: Tensor, states: States, weights: Weights, reverse: bool
) -> tuple[Tensor, States]:
    x = F.linear(x, weights.weight_ih, both_biases(weights))
    projection = () if weights.weight_hr is None else (weights.weight_hr,)
    operands = in_common_dtype(kind(layer), x, *states, weights.weight_hh, *projection)
    out, cells, _ = _recurrent.lstm(*operands, reverse=reverse)
    return out, (last(out, reverse), last(cells, reverse))


def gru_steps(
    layer: Any, x: Tensor, states: States, weights: Weights, reverse: bool
) -> tuple[Tensor, States]:
    x = F.linear(x, weights.weight_ih, weights.bias_ih)
    bias = () if weights.bias_hh is None else (weights.bias_hh,)
    operands = in_common_dtype(kind(layer), x, *states, weights.weight_hh, *bias)
    out, _ = _recurrent.gru(*operands, reverse=reverse)
    return out, (last(out, reverse),)


def both_biases(weights: Weights) -> Tensor | None:
    if weights.bias_ih is None or weights.bias_hh is None:
        return None
    return widened(weights.bias_ih) + widened(weights.bias_hh)


def last(states: Tensor, reverse: bool) -> Tensor:
    return states[0 if reverse else -1]


class Recurrent(Kind):
    """What layers and cells share: sizes, and how steps are done.

    Weights are for `gates` hidden sizes at once. There is one state, or `pairs` of them.
    """

    words = ("gates", "pairs", "steps")
    gates = 1
    pairs = False
    steps: Callable[..., tuple[Tensor, States]]

    def _set_sizes(self, input_size: int, hidden_size: int, bias: bool) -> None:
        self.input_size = count(self, "input_size", input_size)
        self.hidden_size = count(self, "hidden_size", hidden_size)
        self.bias = bias

    def _make_weights(self, suffix: str, inputs: int, outputs: int, **placement: Any) -> None:
        rows = self.gates * self.hidden_size
        shapes = {"weight_ih": (rows, inputs), "weight_hh": (rows, outputs)}
        shapes |= dict.fromkeys(("bias_ih", "bias_hh"), (rows,) if self.bias else None)
        for name, shape in shapes.items():
            made = None if shape is None else Parameter(empty(shape, **placement))
            setattr(self, name + suffix, made)

    def _weights(self, suffix: str = "") -> Weights:
        names = (name + suffix for name in Weights._fields)
        return Weights(*(getattr(self, name, None) for name in names))  # type: ignore[arg-type]

    def reset_parameters(self) -> None:
        """Draw all weights and biases anew, uniformly from ±1/√hidden_size."""
        init.uniform_within(1 / math.sqrt(self.hidden_size), *self.parameters())

    def _check_features(self, x: Tensor) -> None:
        if x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{kind(self)}: x of shape {x.shape} has {x.shape[-1]} features, the layer takes "
                f"input_size={self.input_size}"
            )

    def _given(self, hx: Any, shapes: Sequence[tuple[int, ...]], like: Tensor) -> States:
        """The states to begin with, zeros unless given."""
        if hx is None:
            return tuple(zeros(s, dtype=like.dtype, device=like.device) for s in shapes)
        if isinstance(hx, tuple | list) is not self.pairs or (self.pairs and len(hx) != 2):
            wanted = "a pair (h, c)" if self.pairs else "one tensor h"
            raise DTypeError(f"{kind(self)}: hx is {wanted}, got a {type(hx).__name__}")
        states = tuple(as_real(kind(self), state) for state in (hx if self.pairs else (hx,)))
        for name, state, shape in zip("hc", states, shapes, strict=False):
            if state.shape != shape:
                raise ShapeError(
                    f"{kind(self)}: {name} of shape {state.shape} doesn't go with x: shape {shape} "
                    "is needed"
                )
        return tuple(map(widened, states))


class Layers(Recurrent):
    """Layers on top of each other, in one direction or two."""

    proj_size = 0

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        placement: dict[str, Any] = {"device": device, "dtype": dtype}
        self._set_sizes(input_size, hidden_size, bias)
        self.num_layers = count(self, "num_layers", num_layers)
        self.batch_first, self.bidirectional = batch_first, bidirectional
        self.dropout = as_probability(kind(self), "dropout", dropout)
        if self.proj_size >= self.hidden_size:
            raise ArgumentError(
                f"{kind(self)}: proj_size={self.proj_size} must be below hidden_size={hidden_size}"
            )
        if self.dropout and self.num_layers == 1:
            warnings.warn(
                f"{kind(self)}: dropout={dropout} is between layers, and num_layers=1 has none",
                stacklevel=3,
            )
        size = self.proj_size or self.hidden_size
        for layer in range(self.num_layers):
            inputs = size * len(self._directions) if layer else self.input_size
            for suffix in self._suffixes(layer):
                self._make_weights(suffix, inputs, size, **placement)
                if self.proj_size:
                    shape = (self.proj_size, self.hidden_size)
                    setattr(self, f"weight_hr{suffix}", Parameter(empty(shape, **placement)))
        self.reset_parameters()

    @property
    def _directions(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    def _suffixes(self, layer: int) -> Iterator[str]:
        return (f"_l{layer}{direction}" for direction in self._directions)

    def forward(self, x: Any, hx: Any = None) -> tuple[Tensor, Any]:
        """The states of the last layer at all steps, and the last state(s) of all layers.

        x is (L, N, input_size), or (N, L, input_size) if `batch_first`, or (L, input_size) for one
        sequence.
        """
        given, x = x, as_real(kind(self), x)
        self._check(x)
        single = x.ndim == 2
        turned = self.batch_first and not single
        steps = widened(expand_dims(x, 1) if single else swapaxes(x, 0, 1) if turned else x)
        out, ends = self._run(steps, self._initial(steps, hx, single))
        states = [stack(same) for same in zip(*ends, strict=True)]
        if single:
            out, *states = (squeeze(y, 1) for y in (out, *states))
        elif turned:
            out = swapaxes(out, 0, 1)
        out, *states = (narrowed(y, given, self._weights("_l0").weight_ih) for y in (out, *states))
        return out, tuple(states) if self.pairs else states[0]

    def _run(self, x: Tensor, initial: list[States]) -> tuple[Tensor, list[States]]:
        """x through all layers, and all last states."""
        ends = []
        for layer in range(self.num_layers):
            if layer and self.dropout and self.training:
                x = F.dropout(x, self.dropout)
            outs = []
            for reverse, suffix in enumerate(self._suffixes(layer)):
                states = initial[len(ends)]
                out, end = type(self).steps(self, x, states, self._weights(suffix), bool(reverse))
                outs.append(out)
                ends.append(end)
            x = concat(outs, axis=-1) if self.bidirectional else outs[0]
        return x, ends

    def _initial(self, x: Tensor, hx: Any, single: bool) -> list[States]:
        """The states that each layer begins with in each direction."""
        number = self.num_layers * len(self._directions)
        sizes = (self.proj_size or self.hidden_size, self.hidden_size)[: 1 + self.pairs]
        batch = () if single else (x.shape[1],)
        states = self._given(hx, [(number, *batch, size) for size in sizes], x)
        if single:
            states = tuple(expand_dims(state, 1) for state in states)
        return list(zip(*map(unstack, states), strict=True))

    def _check(self, x: Tensor) -> None:
        form = "(N, L, input_size)" if self.batch_first else "(L, N, input_size)"
        if x.ndim not in (2, 3):
            raise ShapeError(
                f"{kind(self)}: x is {form}, or (L, input_size) for one sequence, got shape "
                f"{x.shape}"
            )
        self._check_features(x)
        if not x.shape[1 if self.batch_first and x.ndim == 3 else 0]:
            raise ShapeError(f"{kind(self)}: x of shape {x.shape} has no steps")

    def extra_repr(self) -> str:
        changed = [f"{k}={getattr(self, k)}" for k, v in USUAL.items() if getattr(self, k) != v]
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *changed])


class RNN(Layers, steps=plain_steps):
    """h = tanh(x @ weight_ih.mT + bias_ih + h @ weight_hh.mT + bias_hh) at each step, or relu.

    `dropout` is between layers. The initial state, zeros unless given, and the last one are
    (num_layers, N, hidden_size), with twice as many layers if `bidirectional`: each layer forwards,
    then backwards.

    >>> layer = ad.nn.RNN(3, 4, num_layers=2)
    >>> out, h = layer(ad.ones((5, 1, 3)))
    >>> out.shape, h.shape
    ((5, 1, 4), (2, 1, 4))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        options = num_layers, bias, batch_first, dropout, bidirectional
        super().__init__(input_size, hidden_size, *options, device=device, dtype=dtype)
        self.nonlinearity = one_of(self, "nonlinearity", nonlinearity, ("tanh", "relu"))


class LSTM(Layers, gates=4, pairs=True, steps=lstm_steps):
    """A long short-term memory: gates decide what a cell c takes in, keeps, and shows as h.

    The weights are those of the gates i, f, g and o, below each other; g is a tanh, the others are
    sigmoids. c = f * c + i * g and h = o * tanh(c), projected to `proj_size` if that isn't 0.
    States are pairs (h, c), else as in `RNN`.

    >>> layer = ad.nn.LSTM(3, 4, batch_first=True, bidirectional=True)
    >>> out, (h, c) = layer(ad.ones((2, 5, 3)))
    >>> out.shape, h.shape, c.shape
    ((2, 5, 8), (2, 2, 4), (2, 2, 4))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        self.proj_size = count(self, "proj_size", proj_size, 0)
        options = num_layers, bias, batch_first, dropout, bidirectional
        super().__init__(input_size, hidden_size, *options, device=device, dtype=dtype)


class GRU(Layers, gates=3, steps=gru_steps):
    """A gated recurrent unit: gates decide what of the state is used, and what is replaced.

    The weights are those of the gates r, z and n, below each other; n is a tanh, in which the
    state's share is multiplied by r, the others are sigmoids. h = (1 - z) * n + z * h. States are
    as in `RNN`.

    >>> layer = ad.nn.GRU(3, 4)
    >>> out, h = layer(ad.ones((5, 3)))
    >>> out.shape, h.shape
    ((5, 4), (1, 4))
    """


class Cell(Recurrent):
    """One step of one layer."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self._set_sizes(input_size, hidden_size, bias)
        self._make_weights("", self.input_size, self.hidden_size, device=device, dtype=dtype)
        self.reset_parameters()

    def forward(self, x: Any, hx: Any = None) -> Any:
        """The state(s) after x (N, input_size), or (input_size,) for one example; zeros before it
        unless given."""
        given, x = x, as_real(kind(self), x)
        if x.ndim not in (1, 2):
            raise ShapeError(
                f"{kind(self)}: x is (N, input_size) or (input_size,), got shape {x.shape}"
            )
        self._check_features(x)
        shape = (*x.shape[:-1], self.hidden_size)
        states = self._given(hx, [shape] * (1 + self.pairs), widened(x))
        missing = tuple(range(3 - x.ndim))  # the axes L, and N if it isn't there
        steps = expand_dims(widened(x), missing)
        weights = self._weights()
        start = tuple(expand_dims(h, 0) if x.ndim == 1 else h for h in states)
        _, ends = type(self).steps(self, steps, start, weights, False)
        out = [narrowed(h[0] if x.ndim == 1 else h, given, weights.weight_ih) for h in ends]
        return tuple(out) if self.pairs else out[0]

    def extra_repr(self) -> str:
        bias = "" if self.bias else ", bias=False"
        return f"{self.input_size}, {self.hidden_size}{bias}"


class RNNCell(Cell, steps=plain_steps):
    """One step of `RNN`: the state after an input.

    >>> cell = ad.nn.RNNCell(3, 4)
    >>> cell(ad.ones((2, 3)), ad.zeros((2, 4))).shape
    (2, 4)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = one_of(self, "nonlinearity", nonlinearity, ("tanh", "relu"))

    def extra_repr(self) -> str:
        plain = "" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}"
        return super().extra_repr() + plain


class LSTMCell(Cell, gates=4, pairs=True, steps=lstm_steps):
    """One step of `LSTM`: state and cell after an input.

    >>> cell = ad.nn.LSTMCell(3, 4)
    >>> h, c = cell(ad.ones((2, 3)))
    >>> h.shape, c.shape
    ((2, 4), (2, 4))
    """


class GRUCell(Cell, gates=3, steps=gru_steps):
    """One step of `GRU`: the state after an input.

    >>> cell = ad.nn.GRUCell(3, 4)
    >>> cell(ad.ones(3)).shape
    (4,)
    """
