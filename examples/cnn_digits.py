"""Trains a convolutional network to read handwritten digits, with what is usual in practice.

Batch norms, dropout, training images moved by up to a pixel, AdamW with a learning rate that rises
and falls, and a moving average of the weights, which is what is tested and saved.
"""

import argparse
import time
from pathlib import Path

import adjoint as ad
from adjoint import nn
from adjoint.data import DataLoader, TensorDataset
from adjoint.nn import functional as F


def main() -> None:
    options = parse_arguments()
    ad.set_default_device(options.device)
    ad.random.seed(options.seed)
    training, test = ad.data.digits(train=True), ad.data.digits(train=False)
    model = network()
    start = time.perf_counter()
    average = train(model, training, options)
    seconds = time.perf_counter() - start
    print(f"trained {options.epochs} epochs on {len(training)} images in {seconds:.1f} s")
    with average.apply():
        reached = accuracy(model, test)
        if options.weights:
            ad.save(model.state_dict(), options.weights)
            print(f"weights: {options.weights}")
    print(f"test accuracy: {reached:.2%}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, help="of training (default: 20, quick: 5)")
    parser.add_argument("--batch", type=int, default=64, help="images in a step (default: 64)")
    parser.add_argument("--weights", type=Path, help="a .npz or .safetensors file to write")
    parser.add_argument("--quick", action="store_true", help="a short run, of a few seconds")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
    parser.add_argument("--device", default="cpu", help="where to compute (default: cpu)")
    options = parser.parse_args()
    options.epochs = options.epochs or (5 if options.quick else 20)
    return options


def network() -> nn.Module:
    """From an image of shape (1, 8, 8) to a score for each digit."""

    def block(channels: int, filters: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(channels, filters, 3, padding=1, bias=False),
            nn.BatchNorm2d(filters),
            nn.ReLU(),
        )

    return nn.Sequential(
        block(1, 32),
        block(32, 32),
        nn.MaxPool2d(2),
        block(32, 64),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(64 * 2 * 2, 10),
    )


def train(model: nn.Module, training: TensorDataset, options: argparse.Namespace) -> ad.optim.EMA:
    """The moving average of the weights."""
    loader = DataLoader(
        training,
        batch_size=options.batch,
        shuffle=True,
        drop_last=True,
        seed=options.seed,
    )
    optimizer = ad.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    schedule = ad.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=1e-2, total_steps=options.epochs * len(loader)
    )
    average = ad.optim.EMA(model, decay=0.98)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    for epoch in range(1, options.epochs + 1):
        total = 0.0
        for images, labels in loader:
            loss = criterion(model(moved(images)), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            average.update()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.4f}", flush=True)
    return average


def moved(images: ad.Tensor) -> ad.Tensor:
    """Each image by up to one pixel up or down, and left or right; what comes in is empty."""
    count, _, height, width = images.shape
    wide = F.pad(images, (1, 1, 1, 1))

    def places(length: int) -> ad.Tensor:
        offsets = ad.random.integers(0, 3, (count, 1))
        return ad.arange(length) + offsets

    each = ad.arange(count)[:, None, None]
    return wide[each, 0, places(height)[:, :, None], places(width)[:, None, :]][:, None]


@ad.no_grad()
def accuracy(model: nn.Module, digits: TensorDataset) -> float:
    """The share of images whose digit has the highest score."""
    model.eval()
    right = 0
    for images, labels in DataLoader(digits, batch_size=500):
        right += (model(images).argmax(axis=1) == labels).sum().item()
    model.train()
    return right / len(digits)


if __name__ == "__main__":
    main()
