"""Trains a network on handwritten digits, on several ranks or alone.

    python examples/data_parallel.py
    mpiexec -n 4 python examples/data_parallel.py

Each rank computes with its part of every batch; after `backward` all have the average of the
gradients. The batches are the same for any number of ranks, so the losses are, too, but for
rounding. With --sharded each rank has its part of the optimizer's state. Training goes on from
--checkpoint if that file is there, on as many ranks as there are now.
"""

import argparse
import os
import time
from typing import Any

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F


def main() -> None:
    options = parse_arguments()
    world = ad.distributed.init()
    if options.batch % world.size:
        raise SystemExit(f"--batch {options.batch} can't be divided among {world.size} ranks")
    ad.random.seed(options.seed)  # for the parameters, which are rank 0's
    model = ad.distributed.DataParallel(network())
    world.seed(options.seed)  # for dropout, on each rank its own
    optimizer = make_optimizer(model, options)
    loader = ad.data.DataLoader(
        ad.data.digits(train=True),
        batch_size=options.batch // world.size,
        shuffle=True,
        seed=options.seed,
        shard=world,
    )
    if options.checkpoint and os.path.exists(options.checkpoint):
        resume(options.checkpoint, world, model, optimizer, loader)
    start = time.perf_counter()
    while loader.epoch < options.epochs:
        loss = train(model, optimizer, loader)
        loss = world.all_reduce(loss, "mean")
        world.print(f"epoch {loader.epoch}: loss {loss:.4f}", flush=True)
        if options.checkpoint:
            save(options.checkpoint, world, model, optimizer, loader)
    seconds = time.perf_counter() - start
    right = accuracy(model, *ad.data.digits(train=False).tensors)
    world.print(f"{world.size} ranks, {seconds:.1f} s, test accuracy {100 * right:.1f}%")


def parse_arguments() -> argparse.Namespace:
    description = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--epochs", type=int, help="(default: 20, quick: 3)")
    parser.add_argument("--batch", type=int, default=96, help="of all ranks together (default: 96)")
    parser.add_argument("--sharded", action="store_true", help="divide the optimizer's state")
    parser.add_argument("--checkpoint", help="an .npz file to save to, and to go on from")
    parser.add_argument("--quick", action="store_true", help="a short run, of a few seconds")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
    options = parser.parse_args()
    options.epochs = options.epochs or (3 if options.quick else 20)
    return options


def network() -> nn.Module:
    first = [nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.2)]
    return nn.Sequential(*first, nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))


def make_optimizer(model: nn.Module, options: argparse.Namespace) -> Any:
    if options.sharded:
        kind = ad.optim.AdamW
        return ad.distributed.ShardedOptimizer(kind, model.parameters(), lr=2e-3)
    return ad.optim.AdamW(model.parameters(), lr=2e-3)


def train(model: nn.Module, optimizer: Any, loader: ad.data.DataLoader) -> float:
    """The mean loss of an epoch, of this rank's batches."""
    model.train()
    losses = []
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def accuracy(model: nn.Module, x: ad.Tensor, y: ad.Tensor) -> float:
    model.eval()
    with ad.no_grad():
        return (model(x).argmax(axis=1) == y).to(ad.float32).mean().item()


def save(path: str, world: Any, model: nn.Module, optimizer: Any, loader: Any) -> None:
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),  # of a sharded one all ranks gather it
        "loader": loader.state_dict(),
        "random": world.all_gather(ad.random.get_state()),
    }
    if world.is_first:
        ad.save(state, path)


def resume(path: str, world: Any, model: nn.Module, optimizer: Any, loader: Any) -> None:
    state = ad.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    loader.load_state_dict(state["loader"])
    if len(state["random"]) == world.size:  # else dropout has other numbers from here on
        ad.random.set_state(state["random"][world.rank])
    world.print(f"going on after epoch {loader.epoch}")


if __name__ == "__main__":
    main()
