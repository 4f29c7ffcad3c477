"""Trains an LSTM to add: of a sequence of numbers, the two that are marked.

The marks are far apart, so the network has to remember the first number while others pass by. Who
always says 1, the mean of the sums, has an error of 1/6.
"""

import argparse
import time

import numpy as np

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F


class Adder(nn.Module):
    """Reads pairs of a number and a mark, and says a sum at the end."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(2, width, batch_first=True)
        self.out = nn.Linear(width, 1)

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        states, _ = self.lstm(x)
        return self.out(states[:, -1])[:, 0]


def main() -> None:
    options = parse_arguments()
    ad.set_default_device(options.device)
    ad.random.seed(options.seed)
    model = Adder(options.width)
    start = time.perf_counter()
    train(model, options.steps, options.length)
    seconds = time.perf_counter() - start
    x, sums = sequences(1000, options.length)
    with ad.no_grad():
        error = F.mse_loss(model(x), sums).item()
        baseline = F.mse_loss(ad.ones_like(sums), sums).item()
    print(f"trained {options.steps} steps on sequences of {options.length} in {seconds:.1f} s")
    print(f"mean squared error {error:.5f}, of always saying 1: {baseline:.5f}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, help="of training (default: 800, quick: 400)")
    parser.add_argument("--length", type=int, help="of a sequence (default: 30, quick: 10)")
    parser.add_argument("--width", type=int, default=64, help="of the state (default: 64)")
    parser.add_argument("--quick", action="store_true", help="a short run, of a few seconds")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
    parser.add_argument("--device", default="cpu", help="where to compute (default: cpu)")
    options = parser.parse_args()
    options.steps = options.steps or (400 if options.quick else 800)
    options.length = options.length or (10 if options.quick else 30)
    return options


def sequences(count: int, length: int) -> tuple[ad.Tensor, ad.Tensor]:
    """Numbers from 0 to 1 with one mark in each half, shape (count, length, 2), and their sums."""
    numbers = ad.random.uniform((count, length))
    half = length // 2
    first = ad.random.integers(0, half, (count, 1))
    second = ad.random.integers(half, length, (count, 1))
    places = ad.arange(length)
    marks = ad.astype((places == first) | (places == second), ad.float32)
    return ad.stack([numbers, marks], axis=-1), (numbers * marks).sum(axis=1)


def train(model: nn.Module, steps: int, length: int) -> None:
    optimizer = ad.optim.Adam(model.parameters(), lr=1e-2)
    schedule = ad.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    losses = []
    for step in range(1, steps + 1):
        x, sums = sequences(64, length)
        loss = F.mse_loss(model(x), sums)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if step % 100 == 0:
            print(f"step {step}: loss {np.mean(losses[-100:]):.5f}", flush=True)


if __name__ == "__main__":
    main()
