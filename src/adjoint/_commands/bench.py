"""`adjoint bench`: how fast a few things are here, and how fast in PyTorch."""

import argparse
import importlib
import json
import statistics
import textwrap
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import adjoint as ad

from .._foundation.formatting import show_seconds, table
from .arguments import UsageError, add_count, add_device, add_seed, check_device
from .info import machine, versions
from .workloads import WORKLOADS, Step, Workload

NAME = "bench"
SUMMARY = "measure a few ops and training steps on this machine"
EXAMPLES = {
    "bench": "the time of a few ops and training steps",
    "bench --peer torch": "side by side with PyTorch, if it is installed",
    "bench --device webgpu --json": "on a GPU, for a program",
}
REPEATS = 3
LEAST_SECONDS = 0.02  # of a repeat, so that the clock is fine enough


class Measured(NamedTuple):
    """A workload, and the seconds of each round by library."""

    workload: Workload
    rounds: dict[str, list[float]]

    def best(self, library: str) -> float:
        return min(self.rounds[library])

    def noise(self) -> float:
        """How far a middle round is above the best one, as a share of it."""
        return max(statistics.median(times) / min(times) - 1 for times in self.rounds.values())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_count(parser, "--rounds", 1, 1000, "measure everything so often", 5, 5)
    parser.add_argument("--peer", choices=["torch"], help="measure this one too, on the CPU")
    parser.add_argument("--json", action="store_true", help="print JSON, with all rounds")
    add_device(parser)
    add_seed(parser, "for random parameters")


def run(options: argparse.Namespace) -> int:
    check_device(options.device)
    libraries = {"adjoint": ad, **peer(options.peer)}
    if len(libraries) > 1 and options.device != "cpu":
        raise UsageError(f"--peer {options.peer} is for the CPU, not for {options.device}")
    for library in libraries.values():
        seed = ad.random.seed if library is ad else library.manual_seed
        seed(options.seed)
    results = list(measure(libraries, options.device, options.rounds))
    print(as_json(results, options) if options.json else as_text(results, options))
    return 0


def peer(name: str | None) -> dict[str, Any]:
    """PyTorch, told to use as many threads as we do."""
    if name is None:
        return {}
    try:
        library = importlib.import_module(name)
    except ImportError as error:
        raise ad.ArgumentError(
            f"--peer {name}: {name} can't be imported ({error}); install it, or leave --peer out"
        ) from error
    library.set_num_threads(ad.get_num_threads())
    return {name: library}


def measure(libraries: dict[str, Any], device: str, rounds: int) -> Iterator[Measured]:
    """Workload by workload; libraries take turns, so that what disturbs one disturbs all."""
    for workload in WORKLOADS:
        steps = {name: workload.make(library, device) for name, library in libraries.items()}
        times: dict[str, list[float]] = {name: [] for name in steps}
        for _ in range(rounds):
            for name, step in steps.items():
                times[name].append(seconds(step) / workload.ops)
        yield Measured(workload, times)


def seconds(step: Step) -> float:
    """Of a step: the least of some repeats, after two steps that aren't counted."""
    finish(step())
    count = max(1, round(LEAST_SECONDS / max(mean_time(step, 1), 1e-7)))
    return min(mean_time(step, count) for _ in range(REPEATS))


def mean_time(step: Step, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        finish(step())
    return (time.perf_counter() - start) / count


def finish(x: Any) -> None:
    """Wait until a tensor is there. Of a GPU's one number is read: all before it is done then."""
    x = x.detach()
    if str(x.device) == "cpu":
        x.numpy()
    else:
        x.reshape(-1)[0].item()


def as_json(results: list[Measured], options: argparse.Namespace) -> str:
    found = {
        "versions": versions(),
        "machine": machine(),
        "device": options.device,
        "workloads": {
            r.workload.name: {
                "what": r.workload.what,
                "seconds": {library: r.best(library) for library in r.rounds},
                "rounds": r.rounds,
                **rate(r),
            }
            for r in results
        },
    }
    return json.dumps(found, indent=2)


def rate(result: Measured) -> dict[str, dict[str, float]]:
    """What people compare, such as GFLOP/s, by library."""
    unit, amount = result.workload.unit, result.workload.amount
    return {unit: {name: amount / result.best(name) for name in result.rounds}} if unit else {}


def as_text(results: list[Measured], options: argparse.Namespace) -> str:
    names = list(results[0].rounds)
    head = ["workload", *names, *(["ratio"] if len(names) > 1 else []), "rate", "what"]
    noise = max(result.noise() for result in results) if options.rounds > 1 else None
    place = f"{options.device}, {machine()['processor']}, {ad.get_num_threads()} threads"
    lines = table([head, *map(row, results)], right=range(1, len(head) - 1))
    return "\n".join([place, "", *lines, "", remark(names, noise)])


def row(result: Measured) -> list[str]:
    names = list(result.rounds)
    times = [show_seconds(result.best(name)) for name in names]
    ratio = [f"{result.best(names[0]) / result.best(names[1]):.2f}"] if len(names) > 1 else []
    rates = [f"{r:.0f} {unit}" for unit, by in rate(result).items() for r in [by["adjoint"]]]
    return [result.workload.name, *times, *ratio, *(rates or [""]), result.workload.what]


def remark(names: list[str], noise: float | None) -> str:
    """How far these numbers can be trusted; after one round `noise` is None."""
    ratio = f" A ratio below 1 says that adjoint is faster than {names[-1]}."
    spread = "With one round nobody knows how much is noise, --rounds 5 tells it"
    if noise is not None:
        spread = f"A middle round took up to {noise:.0%} longer: differences below that are noise"
    text = (
        f"Each time is the least of all rounds.{ratio if len(names) > 1 else ''} {spread}, and "
        "other programs on this machine add to it. Only numbers of the same machine, measured in "
        "turns, can be compared."
    )
    return textwrap.fill(text, 100)
