"""adjoint against PyTorch and JAX: the same workloads, each library in processes of its own.

The workloads are those of `benchmarks.workloads`, or of a file that the environment variable
ADJOINT_PEERS names. Called with the name of a library, either prints two JSON objects,
{workload: {library: seconds}} and {workload: {library: checksum}}, and on the error stream a line
that starts with FAILED or LATER for each workload that is missing.
"""

import importlib.util
import json
import os
from pathlib import Path

from ._common import Report, python
from ._machine import machine
from ._ratios import Row, picture, print_table, table_for_documents
from .workloads.measuring import THREADS

PEERS = ("torch", "jax")
TOLERANCE = 1e-3  # relative, of the sum of absolute gradients

# At most this part of PyTorch's time.
LIMITS = {
    "tiny_op": 0.6,
    "elementwise_4M": 0.5,
    "mlp_step": 0.95,
    "cnn_step": 0.8,
    "conv2d_fwd": 1.0,
    "conv2d_fwd_bwd": 0.9,
    "transformer_step": 1.0,
    "gp_likelihood": 1.0,
    "solve_1000": 1.0,
    "rnn_100": 0.8,
    "embedding": 0.5,
    "softmax_8M": 0.5,
    "gelu_8M": 0.5,
    "layernorm_8M": 0.7,
    "adam_step": 1.0,
    "mlp_hvp": 1.0,
}


class Measurements:
    """All that the rounds of one library printed."""

    def __init__(self, library: str) -> None:
        self.library = library
        self.times: dict[str, list[float]] = {}
        self.checksums: dict[str, float] = {}
        self.remarks: dict[str, None] = {}  # in order, each one once

    def add_round(self) -> None:
        process = python(*workloads(), self.library, env=environment())
        objects = [json.loads(line) for line in process.stdout.splitlines() if line[:1] == "{"]
        if len(objects) != 2:
            self.remarks[f"FAILED {self.library} as a whole: {process.stderr[-300:]}"] = None
            return
        times, checksums = objects
        for workload, seconds in times.items():
            self.times.setdefault(workload, []).append(seconds[self.library])
        self.checksums |= {workload: sums[self.library] for workload, sums in checksums.items()}
        for line in process.stderr.splitlines():
            if line.startswith(("FAILED", "LATER")):
                self.remarks[line] = None


def workloads() -> list[str]:
    """What the interpreter is to run; the name of a library follows."""
    file = os.environ.get("ADJOINT_PEERS")
    return [str(Path(file).resolve())] if file else ["-m", "benchmarks.workloads"]


def environment() -> dict[str, str]:
    """As many threads for adjoint, and in NumPy's BLAS, as PyTorch is given."""
    names = ("ADJOINT_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return os.environ | dict.fromkeys(names, str(THREADS))


def run(rounds: int) -> Report:
    """Run each library in processes of its own, alternated, and compare the best times."""
    installed = [name for name in PEERS if importlib.util.find_spec(name)]
    for name in sorted(set(PEERS) - set(installed)):
        print(f"{name} isn't installed: no comparison with it")
    ours, *theirs = measured = [Measurements(name) for name in ("adjoint", *installed)]
    for _ in range(rounds):
        for measurements in measured:
            measurements.add_round()
    return report(ours, theirs, rounds)


def report(ours: Measurements, theirs: list[Measurements], rounds: int) -> Report:
    rows = [
        Row(workload, seconds, peer_times(workload, theirs), LIMITS.get(workload))
        for workload, seconds in ours.times.items()
    ]
    print_table(rows)
    remarks = [line for m in (ours, *theirs) for line in m.remarks]
    print(*remarks, sep="\n")
    figures = {
        "machine": machine(),
        "rounds": rounds,
        "workloads": {row.workload: row.figures() for row in rows},
    }
    failed = [line for line in remarks if line.startswith("FAILED")]
    problems = [line for line in failed if "has no gradient yet" not in line]
    problems += missing(ours, theirs)
    problems += [line for m in theirs for line in wrong_gradients(ours, m)]
    problems += [row.excess() for row in rows if row.met is False]
    problems = [f"peers: {problem}" for problem in problems]
    return Report(figures, problems, table_for_documents(rows, rounds), picture(rows))


def peer_times(workload: str, theirs: list[Measurements]) -> dict[str, list[float]]:
    return {m.library: m.times[workload] for m in theirs if workload in m.times}


def missing(ours: Measurements, theirs: list[Measurements]) -> list[str]:
    """Workloads that only others have, unless a remark already says why."""
    wanted = dict.fromkeys(workload for m in theirs for workload in m.times)
    explained = " ".join(ours.remarks).split()
    return [
        f"{workload} is missing from adjoint"
        for workload in wanted
        if workload not in ours.times and workload not in explained
    ]


def wrong_gradients(ours: Measurements, theirs: Measurements) -> list[str]:
    return [
        f"{workload}: gradients add up to {ours.checksums[workload]:.8g}, "
        f"those of {theirs.library} to {expected:.8g}"
        for workload, expected in theirs.checksums.items()
        if workload in ours.checksums
        and not abs(ours.checksums[workload] - expected) <= TOLERANCE * abs(expected)
    ]
