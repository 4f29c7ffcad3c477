"""Trains a small convolutional network to read handwritten digits."""

import argparse
import math
import os
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

import adjoint as ad
import adjoint.nn.functional as F

TRAINING = 1437  # of the 1797 digits; the others are for the test
BATCH = 64

Layer = tuple[ad.Tensor, ad.Tensor]  # weight and bias


class Digits(NamedTuple):
    """Images (N, 1, 8, 8) with values from 0 to 1, and the digit that each one shows."""

    images: ad.Tensor
    labels: ad.Tensor


def main() -> None:
    options = parse_arguments()
    ad.random.seed(options.seed)
    training, test = load_digits(options.device)
    model = make_model(options.device)
    train(model, training, options.epochs, np.random.default_rng(options.seed))
    print(f"test accuracy: {accuracy(model, test):.1%}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="for weights and order of images")
    parser.add_argument("--epochs", type=int, default=30, help="passes over the training digits")
    parser.add_argument(
        "--device", default=os.environ.get("ADJOINT_DEVICE", "cpu"), help="where to compute"
    )
    return parser.parse_args()


def load_digits(device: str) -> tuple[Digits, Digits]:
    """Digits to train with and digits to test with: the same ones in every run."""
    with np.load(Path(__file__).with_name("digits.npz")) as data:
        images = data["images"].astype(np.float32)[:, None] / 16
        labels = data["labels"].astype(np.int32)  # GPUs have no int64
    order = np.random.default_rng(0).permutation(len(images))

    def select(chosen: np.ndarray) -> Digits:
        return Digits(
            ad.asarray(images[chosen], device=device), ad.asarray(labels[chosen], device=device)
        )

    return select(order[:TRAINING]), select(order[TRAINING:])


def make_model(device: str) -> list[Layer]:
    """Two convolutions, each followed by pooling, and a linear layer."""
    return [
        make_layer((16, 1, 3, 3), inputs=9, outputs=16, device=device),
        make_layer((32, 16, 3, 3), inputs=144, outputs=32, device=device),
        make_layer((128, 10), inputs=128, outputs=10, device=device),
    ]


def make_layer(shape: tuple[int, ...], inputs: int, outputs: int, device: str) -> Layer:
    """A random weight, scaled by the number of inputs to each output, and a bias of zeros."""
    weight = ad.random.normal(shape, std=math.sqrt(2 / inputs), device=device, requires_grad=True)
    return weight, ad.zeros(outputs, device=device, requires_grad=True)


def predict(model: list[Layer], images: ad.Tensor) -> ad.Tensor:
    """A score for each image and digit, shape (N, 10)."""
    (filters1, bias1), (filters2, bias2), (weight, bias) = model
    x = F.max_pool2d(F.relu(F.conv2d(images, filters1, bias1, padding=1)), 2)
    x = F.max_pool2d(F.relu(F.conv2d(x, filters2, bias2, padding=1)), 2)
    return ad.reshape(x, (len(images), -1)) @ weight + bias


def train(model: list[Layer], digits: Digits, epochs: int, rng: np.random.Generator) -> None:
    optimizer = ad.optim.SGD([p for layer in model for p in layer], lr=0.05, momentum=0.9)
    for epoch in range(1, epochs + 1):
        batches = shuffled_batches(len(digits.labels), rng)
        losses = []
        for batch in batches:
            loss = F.cross_entropy(predict(model, digits.images[batch]), digits.labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            report(f"epoch {epoch}/{epochs}", losses, len(batches))
    if sys.stderr.isatty():
        print(file=sys.stderr)


def shuffled_batches(count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """The numbers below `count` in random order, in pieces of the size of a batch."""
    order = rng.permutation(count)
    return [order[start : start + BATCH] for start in range(0, count, BATCH)]


def report(title: str, losses: list[float], batches: int) -> None:
    """Show progress: a line that is written over on a terminal, else one line per epoch."""
    bar = "#" * (20 * len(losses) // batches)
    line = f"{title} [{bar:20}] loss {np.mean(losses):.4f}"
    if sys.stderr.isatty():
        print(f"\r{line}", end="", file=sys.stderr, flush=True)
    elif len(losses) == batches:
        print(line, file=sys.stderr)


def accuracy(model: list[Layer], digits: Digits) -> float:
    """The share of images whose digit has the highest score."""
    with ad.no_grad():
        guesses = ad.argmax(predict(model, digits.images), axis=-1)
    return np.mean(guesses.numpy() == digits.labels.numpy()).item()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        sys.exit(130)
