"""Training steps of models made of layers: the same code for adjoint and for PyTorch.

Called as `python -m benchmarks.models LIBRARY` it prints two JSON objects: the seconds of a step,
and the loss after a few steps from the same weights, which shows that the work is the same.
"""

import importlib
import importlib.util
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ._common import Report, output
from ._ratios import Row, print_table
from .peers import environment
from .workloads.measuring import THREADS, best_time

STEPS = 5  # from the first weights, after which losses are compared
TOLERANCE = 1e-4
LIMITS = {"char_transformer": 1 / 0.95}  # at most this part of PyTorch's time
LETTERS = 65

Loss = Callable[[], Any]


class Library:
    """adjoint or torch, and random numbers that are the same for both."""

    def __init__(self, name: str) -> None:
        self.root = importlib.import_module(name)
        self.nn, self.optim = self.root.nn, self.root.optim
        self.rng = np.random.default_rng(0)

    def normal(self, *shape: int) -> Any:
        return self.root.tensor(self.rng.standard_normal(shape, np.float32))

    def integers(self, high: int, *shape: int) -> Any:
        return self.root.tensor(self.rng.integers(0, high, shape))

    def with_weights(self, model: Any) -> Any:
        """A model with the same weights in both libraries."""
        state = {
            name: self.root.tensor(self.rng.normal(0, 0.05, tuple(x.shape)).astype(np.float32))
            for name, x in model.state_dict().items()
        }
        model.load_state_dict(state)
        return model

    def step(self, model: Any, loss: Loss) -> Loss:
        """A training step."""
        optimizer = self.optim.AdamW(model.parameters(), lr=1e-3)

        def step() -> Any:
            out = loss()
            optimizer.zero_grad()
            out.backward()
            optimizer.step()
            return out

        return step


def char_transformer(library: Library) -> Loss:
    """4 layers, width 128, 4 heads, context 64, batch 16."""
    nn, root, context, width = library.nn, library.root, 64, 128

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(LETTERS, width)
            self.places = nn.Embedding(context, width)
            layer = nn.TransformerEncoderLayer(
                width, 4, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
            )
            self.encoder = nn.TransformerEncoder(layer, 4, nn.LayerNorm(width))
            self.head = nn.Linear(width, LETTERS)

        def forward(self, x: Any) -> Any:
            x = self.letters(x) + self.places(numbers)
            return self.head(self.encoder(x, mask, is_causal=True))

    numbers = root.arange(context)
    mask = nn.Transformer.generate_square_subsequent_mask(context)
    model = library.with_weights(Model())
    text = library.integers(LETTERS, 16, context + 1)
    x, following = text[:, :-1], text[:, 1:].reshape(-1)
    loss = nn.CrossEntropyLoss()
    return library.step(model, lambda: loss(model(x).reshape(-1, LETTERS), following))


def recurrent(kind: str) -> Callable[[Library], Loss]:
    """64 sequences of 30 steps, 64 features."""

    def made(library: Library) -> Loss:
        model = library.with_weights(getattr(library.nn, kind)(64, 64, batch_first=True))
        x = library.normal(64, 30, 64)
        return library.step(model, lambda: (model(x)[0] ** 2).mean())

    return made


def mlp(library: Library) -> Loss:
    """784-256-256-10, batch of 128."""
    nn = library.nn
    model = library.with_weights(
        nn.Sequential(
            nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
        )
    )
    x, labels, loss = library.normal(128, 784), library.integers(10, 128), nn.CrossEntropyLoss()
    return library.step(model, lambda: loss(model(x), labels))


def cnn(library: Library) -> Loss:
    """Two convolutions with batch norms on 64 images of 28 x 28."""
    nn = library.nn
    model = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 49, 10)),
    )
    for name, p in model.named_parameters():
        values = library.rng.normal(0, 0.1, tuple(p.shape)).astype(np.float32)
        with library.root.no_grad():
            p[...] = library.root.tensor(values + (1 if name in ("1.weight", "5.weight") else 0))
    x, labels, loss = library.normal(64, 1, 28, 28), library.integers(10, 64), nn.CrossEntropyLoss()
    return library.step(model, lambda: loss(model(x), labels))


MODELS: dict[str, Callable[[Library], Loss]] = {
    "char_transformer": char_transformer,
    "mlp": mlp,
    "cnn": cnn,
    "rnn": recurrent("RNN"),
    "lstm": recurrent("LSTM"),
    "gru": recurrent("GRU"),
}


def run(rounds: int) -> Report:
    """Each library in processes of its own, alternated."""
    libraries = ["adjoint", *(["torch"] if importlib.util.find_spec("torch") else [])]
    times: dict[str, dict[str, list[float]]] = {name: {} for name in libraries}
    losses: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        for name in libraries:
            text = output("-m", "benchmarks.models", name, env=environment())
            seconds, losses[name] = map(json.loads, text.splitlines())
            for model, one in seconds.items():
                times[name].setdefault(model, []).append(one)
    rows = [
        Row(model, own, {n: times[n][model] for n in libraries[1:]}, LIMITS.get(model))
        for model, own in times["adjoint"].items()
    ]
    print_table(rows)
    problems = [row.excess() for row in rows if row.met is False]
    for name in libraries[1:]:
        problems += [
            f"{model}: the loss is {own:.6g}, in {name} {losses[name][model]:.6g}"
            for model, own in losses["adjoint"].items()
            if not abs(own - losses[name][model]) <= TOLERANCE * abs(losses[name][model])
        ]
    figures = {"models": {row.workload: row.figures() for row in rows}, "losses": losses}
    return Report(figures, [f"models: {problem}" for problem in problems])


def main() -> None:
    library = sys.argv[1]
    if library == "torch":
        importlib.import_module("torch").set_num_threads(THREADS)
    times, losses = {}, {}
    for name, make in MODELS.items():
        step = make(Library(library))
        losses[name] = [float(step()) for _ in range(STEPS)][-1]
        times[name] = best_time(step)
    print(json.dumps(times))
    print(json.dumps(losses))


if __name__ == "__main__":
    main()
