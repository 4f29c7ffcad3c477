"""Trains a small transformer on Shakespeare's sonnets, letter by letter, and lets it write.

The loss is the mean surprise at the next letter, in nats. Who only knows how often each letter
occurs has that of the entropy of the letters; the network learns from the letters before.
"""

import argparse
import math
import time
from pathlib import Path

import numpy as np

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F

BEGINNING = "When I do count the clock that tells the time"


class Text:
    """A text as numbers of its symbols; the last tenth is held out."""

    def __init__(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        self.symbols = sorted(set(text))
        numbers = np.array(self.encode(text), np.int32)  # GPUs have no int64
        cut = len(numbers) * 9 // 10
        self.training, self.held_out = numbers[:cut], numbers[cut:]

    def encode(self, text: str) -> list[int]:
        return [self.symbols.index(symbol) for symbol in text]

    def decode(self, numbers: list[int]) -> str:
        return "".join(self.symbols[number] for number in numbers)

    def windows(self, numbers: np.ndarray, starts: np.ndarray, length: int) -> ad.Tensor:
        """Pieces of the text, one per row."""
        return ad.asarray(numbers[starts[:, None] + np.arange(length)])


class Transformer(nn.Module):
    """Scores for the symbol after each one, from that one and those before."""

    def __init__(self, symbols: int, context: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.context = context
        self.embedding = nn.Embedding(symbols, width)
        self.positions = nn.Parameter(ad.random.normal((context, width), std=0.5))
        layer = nn.TransformerEncoderLayer(
            width,
            heads,
            dim_feedforward=4 * width,
            dropout=0.0,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.encoder = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(width))
        self.scores = nn.Linear(width, symbols)

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        h = self.embedding(x) + self.positions[: x.shape[1]]
        return self.scores(self.encoder(h, is_causal=True))


def main() -> None:
    options = parse_arguments()
    ad.set_default_device(options.device)
    ad.random.seed(options.seed)
    text = Text(options.text)
    model = Transformer(
        len(text.symbols), options.context, options.width, options.heads, options.layers
    )
    count = sum(parameter.size for parameter in model.parameters())
    print(f"{len(text.training)} letters, {len(text.symbols)} different ones, {count} parameters")

    start = time.perf_counter()
    loss = train(model, text, options.steps, options.batch)
    rate = options.steps / (time.perf_counter() - start)
    model.eval()
    print(sample(model, text, BEGINNING, options.sample))
    print(f"{options.steps} steps, {rate:.1f} steps/s")
    print(
        f"loss {loss:.3f}, held-out loss {held_out_loss(model, text):.3f}, "
        f"entropy of the letters {entropy(text):.3f}"
    )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, help="of training (default: 800, quick: 50)")
    parser.add_argument("--layers", type=int, default=4, help="(default: 4)")
    parser.add_argument("--width", type=int, default=128, help="of a layer (default: 128)")
    parser.add_argument("--heads", type=int, default=4, help="of attention (default: 4)")
    parser.add_argument("--context", type=int, default=64, help="letters it sees (default: 64)")
    parser.add_argument("--batch", type=int, default=16, help="pieces in a step (default: 16)")
    parser.add_argument("--sample", type=int, help="letters to write (default: 400, quick: 60)")
    parser.add_argument(
        "--text",
        type=Path,
        default=Path(__file__).with_name("text.txt"),
        help="a file to learn from (default: %(default)s)",
    )
    parser.add_argument("--quick", action="store_true", help="a short run, of a few seconds")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
    parser.add_argument("--device", default="cpu", help="where to compute (default: cpu)")
    options = parser.parse_args()
    options.steps = options.steps or (50 if options.quick else 800)
    options.sample = options.sample or (60 if options.quick else 400)
    return options


def train(model: Transformer, text: Text, steps: int, batch: int) -> float:
    """The mean loss of the last tenth of the steps."""
    optimizer = ad.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = ad.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=2e-3, total_steps=steps, pct_start=0.1
    )
    last = len(text.training) - model.context
    losses = []
    for step in range(1, steps + 1):
        starts = ad.random.integers(0, last, (batch,)).numpy()
        loss = surprise(model, text.windows(text.training, starts, model.context + 1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if step % 50 == 0:
            print(f"step {step}: loss {np.mean(losses[-50:]):.3f}", flush=True)
    return np.mean(losses[-math.ceil(steps / 10) :]).item()


def surprise(model: Transformer, windows: ad.Tensor) -> ad.Tensor:
    """The mean negative logarithm of the probability of each letter, given those before."""
    scores = model(windows[:, :-1])
    return F.cross_entropy(scores.reshape(-1, scores.shape[-1]), windows[:, 1:].reshape(-1))


@ad.no_grad()
def held_out_loss(model: Transformer, text: Text) -> float:
    starts = np.arange(0, len(text.held_out) - model.context, model.context)
    return surprise(model, text.windows(text.held_out, starts, model.context + 1)).item()


def entropy(text: Text) -> float:
    """The surprise of who knows the frequencies of letters only."""
    shares = np.bincount(text.training) / len(text.training)
    return -np.sum(shares * np.log(np.maximum(shares, 1e-12))).item()


@ad.no_grad()
def sample(model: Transformer, text: Text, beginning: str, count: int) -> str:
    """The beginning of a text, continued letter by letter."""
    numbers = text.encode(beginning)
    for _ in range(count):
        x = ad.asarray([numbers[-model.context :]], dtype=ad.int32)
        scores = model(x)[0, -1]
        numbers.append(ad.random.categorical(scores / 0.8).item())
    return text.decode(numbers)


if __name__ == "__main__":
    main()
