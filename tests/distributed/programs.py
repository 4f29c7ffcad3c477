"""What ranks do in tests: functions of the world and a folder, which return arrays by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import adjoint as ad

STEPS = 50
BATCH = 6  # samples of each rank


def data(n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 8)).astype(np.float32)
    return x, np.sin(x[:, :3] * 2).astype(np.float32)


def network(seed: int = 0) -> Any:
    """With parameters of several sizes: buckets of 512 bytes are several."""
    ad.random.seed(seed)
    sizes = (8, 24), (24, 24), (24, 3)
    layers = [x for size in sizes for x in (ad.nn.Linear(*size), ad.nn.Tanh())]
    return ad.nn.Sequential(*layers[:-1])


def loss_of(model: Any, x: Any, y: Any) -> Any:
    return ad.mean((model(x) - y) ** 2)


def batch(step: int, rank: int, size: int) -> tuple[Any, Any]:
    """The part of a rank of the batch of a step."""
    x, y = data()
    first = (step * size + rank) * BATCH % (len(x) - BATCH)
    return ad.asarray(x[first : first + BATCH]), ad.asarray(y[first : first + BATCH])


def parameters(model: Any, prefix: str = "") -> dict[str, np.ndarray]:
    return {f"{prefix}{k}": v.numpy().copy() for k, v in model.state_dict().items()}


def accumulated(size: int, steps: int = STEPS, make: Callable = ad.optim.AdamW) -> dict[str, Any]:
    """One process that adds up the gradients of all parts, and then takes their average."""
    model = network()
    optimizer = make(model.parameters(), lr=0.01)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        own = []
        for rank in range(size):
            loss = loss_of(model, *batch(step, rank, size))
            loss.backward()
            own.append(loss.item())
        for p in model.parameters():
            p.grad = p.grad * (1 / size)
        optimizer.step()
        losses.append(own)
    return {"losses": np.array(losses).T, **parameters(model)}


def whole_batch(size: int, steps: int = STEPS) -> dict[str, Any]:
    """One process whose batches are those of all ranks."""
    model = network()
    optimizer = ad.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for step in range(steps):
        parts = [batch(step, rank, size) for rank in range(size)]
        optimizer.zero_grad()
        loss = loss_of(model, *(ad.concat(list(x)) for x in zip(*parts, strict=True)))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": np.array(losses), **parameters(model)}


def train(world: Any, folder: Path, kind: str = "plain", steps: int = STEPS) -> dict[str, Any]:
    """The same on several ranks; kinds of optimizers and of steps."""
    model = ad.distributed.DataParallel(network(seed=world.rank), bucket_bytes=512)
    params = model.parameters()
    if kind in ("sharded", "reducing"):
        reduces = kind == "reducing"
        optimizer: Any = ad.distributed.ShardedOptimizer(
            ad.optim.AdamW, params, lr=0.01, reduces_gradients=reduces
        )
    else:
        optimizer = ad.optim.AdamW(params, lr=0.01)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        if kind == "reducing":
            with model.no_sync():
                loss.backward()
        else:
            loss.backward()
        optimizer.step()
        return loss

    call = ad.compile(step) if kind == "compiled" else step
    losses = [call(*batch(k, world.rank, world.size)).item() for k in range(int(steps))]
    return {"losses": np.array(losses), **parameters(model)}
