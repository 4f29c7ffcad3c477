"""Trades time for memory: the gradients of a deep network, with and without checkpoints.

A backward pass needs what the forward pass computed. `ad.checkpoint_sequential` keeps only what
goes into each segment of layers, and computes the rest again when its turn comes. The gradients are
the same, bit for bit.
"""

import argparse
import math
import time
from typing import NamedTuple

import numpy as np

import adjoint as ad
from adjoint import nn


class Block(nn.Module):
    """A residual layer: x and a correction."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        return x + self.second(ad.gelu(self.first(self.norm(x))))


class Cost(NamedTuple):
    """What a forward and backward pass took, and the gradients that it gave.

    The peak is 0 where memory isn't adjoint's own: on Windows, and without llvmlite.
    """

    kept: int
    peak: int
    seconds: float
    grads: list[np.ndarray]


def main() -> None:
    options = parse_arguments()
    ad.set_default_device(options.device)
    ad.random.seed(options.seed)
    model = nn.Sequential(*(Block(options.width) for _ in range(options.depth)))
    x = ad.random.normal((options.batch, options.width))
    parameters = sum(p.size * p.dtype.itemsize for p in model.parameters())
    print(f"{options.depth} layers, parameters of {parameters / 1e6:.1f} MB")

    # The peak of a program never falls, so what needs least memory comes first.
    root = round(math.sqrt(options.depth))
    costs = {
        f"{root} checkpoints": cost(model, x, root, options.rounds),
        "2 checkpoints": cost(model, x, 2, options.rounds),
        "none": cost(model, x, 0, options.rounds),
    }
    print_table(costs, costs["none"])


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--depth", type=int, default=64, help="layers (default: 64)")
    parser.add_argument("--width", type=int, default=256, help="of each layer (default: 256)")
    parser.add_argument("--batch", type=int, help="rows (default: 2048, quick: 512)")
    parser.add_argument("--quick", action="store_true", help="a short run, of a few seconds")
    parser.add_argument("--seed", type=int, default=0, help="of the weights (default: 0)")
    parser.add_argument("--device", default="cpu", help="where to compute (default: cpu)")
    options = parser.parse_args()
    options.batch = options.batch or (512 if options.quick else 2048)
    options.rounds = 1 if options.quick else 3
    return options


def cost(model: nn.Sequential, x: ad.Tensor, segments: int, rounds: int) -> Cost:
    """The least time of some rounds, the most memory, and the gradients of the last."""
    times, kept = [], 0
    for _ in range(rounds):
        model.zero_grad()
        start = time.perf_counter()
        out = ad.checkpoint_sequential(list(model), segments, x) if segments else model(x)
        loss = ad.mean(out**2)
        kept = ad.memory(loss).total - ad.memory(loss).parameters
        loss.backward()
        grads = [p.grad.numpy() for p in model.parameters() if p.grad is not None]
        times.append(time.perf_counter() - start)
    return Cost(kept, ad.memory_stats(str(x.device))["peak"], min(times), grads)


def print_table(costs: dict[str, Cost], plain: Cost) -> None:
    print(f"{'':16}{'kept':>10}{'peak':>10}{'time':>9}  gradients")
    for name, found in costs.items():
        pairs = zip(found.grads, plain.grads, strict=True)
        same = all(np.array_equal(a, b) for a, b in pairs)
        peak = f"{found.peak / 1e6:.1f} MB" if found.peak else "unknown"
        print(
            f"{name:16}{found.kept / 1e6:7.1f} MB{peak:>10}{found.seconds:7.2f} s  "
            f"{'same' if same else 'DIFFERENT'}"
        )


if __name__ == "__main__":
    main()
