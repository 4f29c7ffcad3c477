"""What ranks do in tests: functions of the world and a folder, which return arrays by name."""

import os
import signal
import sys
import time
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
    out = {"losses": np.array(losses), **parameters(model)}
    if isinstance(call, ad.CompiledFunction):
        is_native = "in Python, as there is no kernel: all_reduce 1" in call.explain()
        out["is_native"] = np.array(is_native)
    return out


KINDS = "plain", "sharded", "reducing", "compiled"


def train_all(world: Any, folder: Path) -> dict[str, Any]:
    return {f"{kind}/{k}": x for kind in KINDS for k, x in train(world, folder, kind).items()}


# Faults: on rank 1, in the fourth step; each step's state is saved by rank 0.


def train_until(world: Any, folder: Path, fault: str) -> None:
    if fault == "parameters":
        model: Any = ad.nn.Linear(8, 3, bias=world.rank != 1)
    elif fault == "shapes":
        model = ad.nn.Linear(8, 3 + (world.rank == 1))
    else:
        model = network()
    model = ad.distributed.DataParallel(model)
    optimizer = ad.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(8):
        if step == 3 and world.rank == 1 and FAULTS[fault]():
            break
        loss = loss_of(model, *batch(step, world.rank, world.size))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if world.is_first:
            ad.save({"model": model.state_dict(), "step": step}, folder / "last.safetensors")


def fail() -> None:
    raise ValueError("a bad sample")


FAULTS: dict[str, Callable] = {
    "raise": fail,
    "exit": lambda: sys.exit(3),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "hang": lambda: time.sleep(1000),
    "batches": lambda: True,
    "parameters": lambda: None,
    "shapes": lambda: None,
}


# What DataParallel works with: each returns gradients on two ranks, and in one process.


class Ranks:
    """A model on this rank, or copies of it for all parts in one process."""

    def __init__(self, world: Any, make: Callable[[], Any]) -> None:
        self.size, self.rank = (world.size, world.rank) if world else (2, None)
        self.inner = make()
        self.model = self.inner
        if world:
            self.model = ad.distributed.DataParallel(self.inner, bucket_bytes=512)

    def each(self, do: Callable[[Any, int], Any]) -> None:
        """Do something for each part: on ranks for the own one."""
        for rank in range(self.size) if self.rank is None else [self.rank]:
            do(self.model, rank)

    def average(self) -> None:
        """In one process gradients are sums of those of the parts."""
        for p in self.inner.parameters() if self.rank is None else ():
            if p.grad is not None:
                p.grad = p.grad * (1 / self.size)

    def gradients(self, prefix: str) -> dict[str, np.ndarray]:
        named = self.inner.named_parameters()
        return {f"{prefix}/{k}": p.grad.detach().numpy() for k, p in named if p.grad is not None}


def backward(model: Any, rank: int, step: int = 0) -> Any:
    loss = loss_of(model, *batch(step, rank, 2))
    loss.backward()
    return loss


class Branches(ad.nn.Module):
    """On each rank another branch is used, and one nowhere."""

    def __init__(self) -> None:
        super().__init__()
        ad.random.seed(3)
        self.first, self.second, self.unused = (ad.nn.Linear(8, 3) for _ in range(3))
        self.shared = ad.nn.Linear(3, 3)

    def forward(self, x: Any, branch: int = 0) -> Any:
        return self.shared(self.second(x) if branch else self.first(x))


class Recomputed(ad.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = network()

    def forward(self, x: Any) -> Any:
        return ad.checkpoint_sequential(list(self.inner), 2, x)


def accumulation(world: Any) -> dict[str, Any]:
    it = Ranks(world, network)
    for step in range(3):
        if world and step < 2:
            with it.model.no_sync():
                it.each(lambda m, r, k=step: backward(m, r, k))
        else:
            it.each(lambda m, r, k=step: backward(m, r, k))
    it.average()
    return it.gradients("accumulation")


def kept_gradients(world: Any) -> dict[str, Any]:
    """A second pass adds to the averages of the first; none is lost."""
    it = Ranks(world, network)
    it.each(backward)
    it.average()
    first = {k: p.grad for k, p in it.inner.named_parameters()}
    if not world:
        for p in it.inner.parameters():
            p.grad = None
    it.each(lambda m, r: backward(m, r, 1))
    it.average()
    if not world:
        for k, p in it.inner.named_parameters():
            p.grad = p.grad + first[k]
    return it.gradients("kept")


def branches(world: Any) -> dict[str, Any]:
    it = Ranks(world, Branches)
    for step in range(2):
        it.inner.zero_grad()
        it.each(lambda m, r, k=step: loss_of(lambda x: m(x, branch=r), *batch(k, r, 2)).backward())
        it.average()
    assert it.inner.unused.weight.grad is None
    return it.gradients("branches")


def checkpoints(world: Any) -> dict[str, Any]:
    it = Ranks(world, Recomputed)
    for step in range(2):
        it.inner.zero_grad()
        it.each(lambda m, r, k=step: backward(m, r, k))
        it.average()
    return it.gradients("checkpoints")


def with_workers(world: Any) -> dict[str, Any]:
    it = Ranks(world, lambda: ad.nn.Sequential(ad.nn.Linear(8, 512), ad.nn.Linear(512, 3)))
    x = ad.random.Generator(1).normal((2, 512, 8))
    for _ in range(3):
        it.inner.zero_grad()
        it.each(lambda m, r: ad.mean(m(x[r]) ** 2).backward(workers=2))
        it.average()
    return it.gradients("workers")


def hooks(world: Any) -> dict[str, Any]:
    """A hook of a tensor sees this rank's gradient, one after accumulation the average."""
    it = Ranks(world, network)
    weight = it.inner[0].weight
    weight.register_hook(lambda g: g * 2)
    seen = []
    weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.numpy().copy()))
    it.each(backward)
    it.average()
    if world:
        np.testing.assert_array_equal(seen[-1], weight.grad.numpy())
    return it.gradients("hooks")


def clipping(world: Any) -> dict[str, Any]:
    it = Ranks(world, network)
    it.each(backward)
    it.average()
    norm = ad.nn.utils.clip_grad_norm_(it.inner.parameters(), 0.01)
    return {"clipping/norm": norm.numpy(), **it.gradients("clipping")}


def graphs(world: Any) -> dict[str, Any]:
    """Gradients of averages that have a graph: the second pass goes back through the exchange."""
    it = Ranks(world, network)

    def create(model: Any, rank: int) -> None:
        loss_of(model, *batch(0, rank, 2)).backward(create_graph=True)

    it.each(create)
    it.average()
    first = it.gradients("graph 1")
    grads = [p.grad for p in it.inner.parameters()]
    for p in it.inner.parameters():
        p.grad = None
    # The total of all ranks: each has half of it, of which the sum of squares is taken.
    penalty = sum(((g**2).sum() for g in grads), ad.asarray(0.0))
    if world:
        with it.model.no_sync():
            (penalty / 2).backward()
    else:
        penalty.backward()
    second = it.gradients("graph 2")
    if world:
        second = {k: world.all_reduce(v).numpy() for k, v in second.items()}
    return first | second


def several_models(world: Any) -> dict[str, Any]:
    one, other = Ranks(world, network), Ranks(world, lambda: ad.nn.Linear(3, 3))

    def do(model: Any, rank: int) -> None:
        x, y = batch(0, rank, 2)
        ad.mean((other.model(model(x)) - y) ** 2).backward()

    for _ in range(2):
        one.inner.zero_grad()
        other.inner.zero_grad()
        one.each(do)
    one.average()
    other.average()
    return one.gradients("several 1") | other.gradients("several 2")


def changes(world: Any) -> dict[str, Any]:
    """Parameters that are frozen, replaced and added between steps."""
    out: dict[str, Any] = {}
    it = Ranks(world, network)

    def go(name: str) -> None:
        it.inner.zero_grad()
        it.each(backward)
        it.average()
        out.update(it.gradients(f"changes {name}"))

    go("before")
    it.inner[0].weight.requires_grad_(False)
    go("frozen")
    it.inner[0].weight.requires_grad_(True)
    go("thawed")
    ad.random.seed(8)
    it.inner[2] = ad.nn.Linear(24, 24)
    go("replaced")
    it.inner[0].bias = None
    go("without")
    it.inner.double()
    go("in another dtype")
    return out


def failing_pass(world: Any) -> dict[str, Any]:
    """An error that is caught on all ranks leaves nothing behind."""
    it = Ranks(world, network)
    it.each(backward)
    handle = it.inner[2].weight.register_hook(lambda g: 1 / 0)
    for _ in range(2):
        it.inner.zero_grad()
        try:
            it.each(backward)
        except ZeroDivisionError:
            pass
    handle.remove()
    it.inner.zero_grad()
    it.each(backward)
    it.average()
    return it.gradients("failing")


BEHAVIOURS = (
    accumulation, kept_gradients, branches, checkpoints, with_workers, hooks, clipping, graphs,
    several_models, changes, failing_pass,
)  # fmt: skip


def behaviours(world: Any, folder: Path | None = None) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for behaviour in BEHAVIOURS:
        ad.random.seed(0)
        out |= behaviour(world)
    return out


def on_gpu(world: Any, folder: Path) -> dict[str, Any]:
    """A few steps on another device; the values go through the host."""
    ad.random.seed(0)
    model = ad.distributed.DataParallel(network().to("webgpu"), bucket_bytes=512)
    optimizer = ad.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, y = (x.to("webgpu") for x in batch(step, world.rank, world.size))
        loss = loss_of(model, x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    total = world.all_reduce(loss.detach())
    assert total.device.startswith("webgpu"), total.device
    state = {k: v.to("cpu") for k, v in model.state_dict().items()}
    return {k: v.numpy() for k, v in state.items()} | {"total": total.to("cpu").numpy()}
