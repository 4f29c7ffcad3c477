"""Data-parallel steps of the transformer of `models.py`, on ranks of this machine.

The network is made slow: each byte that is exchanged takes a delay, in which nothing is computed
for it. So steps show whether the exchange goes on beside backward. Compute is that of all ranks at
once, each on one thread; exchange is what the link takes when nothing is computed. The forward pass
is a third of the step, and nothing can be exchanged before its end: so steps of which compute and
exchange take about the same time can't take only the longer of the two. Memory is that of the
optimizer's state with `ShardedOptimizer`. A world of one shows what `DataParallel` itself costs.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ._common import ROOT, Report, duration
from .models import Library, char_transformer
from .scaling import missing, mpiexec

RANKS = 2
SLOWNESS = 0.0, 0.2, 0.4, 3.0, 6.0  # exchanges, in parts of the time of computing
LIMIT = 1.15  # times the longer of the two, at most
ONE = 1.02  # times the plain model's step, at most, in a world of one
MEMORY = 0.27  # of one process's, on four ranks
STEPS, ROUNDS = 4, 10


def run(rounds: int) -> Report:
    reason = missing()
    if reason:
        print(f"nothing is measured: {reason}")
        return Report({})
    figures: dict[str, Any] = {"one": on_ranks(1, "one"), "steps": on_ranks(RANKS, "steps")}
    figures["memory"] = on_ranks(4, "memory")
    problems = []
    one = figures["one"]
    print(f"a world of one: {one:.3f} of the plain model's step")
    if one > ONE:
        problems.append(f"distributed: DataParallel alone takes {one:.3f} of the plain step")
    print(f"{RANKS} ranks: compute   exchange  one after the other    beside it  of the longer")
    for row in figures["steps"]:
        compute, exchange, apart, step = (row[k] for k in ("compute", "exchange", "apart", "step"))
        ratio = step / max(compute, exchange)
        cells = (duration(compute), duration(exchange), duration(apart), duration(step))
        print(f"{cells[0]:>17} {cells[1]:>10} {cells[2]:>20} {cells[3]:>12} {ratio:14.2f}")
        if ratio > LIMIT:
            problems.append(f"distributed: a step takes {ratio:.2f} of compute or exchange")
    print(f"state of AdamW on one of 4 ranks: {figures['memory']:.3f} of one process's")
    if figures["memory"] > MEMORY:
        problems.append(f"distributed: {figures['memory']:.3f} of the state is on one rank")
    return Report(figures, problems)


def on_ranks(count: int, what: str) -> Any:
    program = [sys.executable, "-m", "benchmarks.distributed", what]
    command = program if count == 1 else [str(mpiexec()), "-n", str(count), *program]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if process.returncode:
        raise SystemExit(f"{what} on {count} ranks failed:\n{process.stderr}")
    return json.loads(process.stdout)


# On each rank.


class Steps:
    """A training step of the transformer, whose model is wrapped by a function."""

    def __init__(self, wrap: Callable[[Any], Any]) -> None:
        library = Library("adjoint")
        usual = library.step
        self.model: Any = None

        def step(model: Any, loss: Any) -> Any:
            self.model = wrap(model)
            return usual(model, loss)

        library.step = step  # type: ignore[method-assign]
        self.step = char_transformer(library)


def best(world: Any, **given: Callable[[], Any]) -> dict[str, float]:
    """Seconds of each step, of the slowest rank, in the best of some rounds, taken in turn."""
    found: dict[str, list[float]] = {name: [] for name in given}
    for _ in range(ROUNDS):
        for name, step in given.items():
            step()
            world.barrier()
            start = time.perf_counter()
            for _ in range(STEPS):
                step()
            found[name].append(world.all_reduce((time.perf_counter() - start) / STEPS, "max"))
    return {name: min(times) for name, times in found.items()}


def steps(ad: Any, world: Any) -> list[dict[str, float]]:
    ad.set_num_threads(1)
    parallel = ad.distributed.DataParallel
    beside, apart = Steps(parallel), Steps(lambda m: parallel(m, bucket_bytes=1 << 40))

    beside.step()  # in which buckets are made, in the order of the backward pass

    def alone() -> None:
        with beside.model.no_sync():
            beside.step()

    compute = best(world, alone=alone)["alone"]
    size = sum(p.raw.nbytes for p in beside.model.parameters())
    out = []
    for part in SLOWNESS:
        world._link.delay = part * compute / size
        own = {"compute": alone, "exchange": exchange(beside)}
        out.append(best(world, **own, apart=apart.step, step=beside.step))
    return out


def exchange(it: Steps) -> Callable[[], None]:
    """The exchange of all gradients, which are there already."""
    own = it.model._exchange

    def do() -> None:
        for p in it.model.parameters():
            own.add(p)
        own.finish()

    return do


def one(ad: Any, world: Any) -> float:
    """The step of DataParallel in a world of one, over that of the plain model."""
    plain, wrapped = Steps(lambda model: model), Steps(ad.distributed.DataParallel)
    found = best(world, plain=plain.step, wrapped=wrapped.step)
    return found["wrapped"] / found["plain"]


def memory(ad: Any, world: Any) -> float:
    model = ad.nn.Transformer(64, 4, 2, 2, 128)
    optimizer = ad.distributed.ShardedOptimizer(ad.optim.AdamW, model.parameters())
    whole = ad.optim.AdamW(model.parameters())
    for p in model.parameters():
        p.grad = ad.ones_like(p.detach())
    optimizer.step()
    whole.step()
    own = world.all_reduce(state_bytes(optimizer), "max")
    return own / state_bytes(whole)


def state_bytes(optimizer: Any) -> int:
    tensors = (x for entry in optimizer.state.values() for x in entry.values())
    return int(np.sum([x.raw.nbytes for x in tensors]))


if __name__ == "__main__":
    import adjoint as ad

    world = ad.distributed.init()
    found = {"steps": steps, "one": one, "memory": memory}[sys.argv[1]](ad, world)
    world.print(json.dumps(found))
