"""adjoint against PyTorch, on the workloads of a fixed file that both sides are measured with.

The file is named by the environment variable ADJOINT_PEERS. Called with the name of a library, it
prints two JSON objects, {workload: {library: seconds}} and {workload: {library: checksum}}, and on
the error stream a line that starts with FAILED or LATER for each workload that is missing.
"""

import importlib.util
import json
import math
import os
from pathlib import Path

from ._common import ROOT, Report, python

COLUMNS = ("ratio", "adjoint", "torch", "adjoint_spread", "torch_spread")
TOLERANCE = 1e-3  # relative, of the sum of absolute gradients


class Measurements:
    """All that the rounds of one library printed."""

    def __init__(self, library: str) -> None:
        self.library = library
        self.times: dict[str, list[float]] = {}
        self.checksums: dict[str, float] = {}
        self.remarks: dict[str, None] = {}  # in order, each one once

    def add_round(self, file: Path) -> None:
        process = python(str(file), self.library)
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


def run(rounds: int) -> Report:
    """Run each library in processes of its own, alternated, and compare the best times."""
    file = peers_file()
    if not file.is_file():
        return Report({}, [f"peers: no file {file}; set ADJOINT_PEERS to the path of peers.py"])
    ours, theirs = Measurements("adjoint"), Measurements("torch")
    compared = [ours, theirs] if importlib.util.find_spec("torch") else [ours]
    for _ in range(rounds):
        for measurements in compared:
            measurements.add_round(file)
    if theirs not in compared:
        print("torch isn't installed: times of adjoint alone")
    return report(ours, theirs)


def peers_file() -> Path:
    return Path(os.environ.get("ADJOINT_PEERS", ROOT / "../shared/bench/peers.py")).resolve()


def report(ours: Measurements, theirs: Measurements) -> Report:
    figures = table(ours, theirs)
    remarks = [*ours.remarks, *theirs.remarks]
    missing = [name for name in theirs.times if name not in ours.times]
    if missing:
        print(f"missing from adjoint: {', '.join(missing)}")
    print(*remarks, sep="\n")
    problems = [f"peers: {line}" for line in remarks if line.startswith("FAILED")]
    return Report(figures, problems + wrong_gradients(ours.checksums, theirs.checksums))


def table(ours: Measurements, theirs: Measurements) -> dict[str, dict[str, float]]:
    """Print a row for each workload, and return the same figures."""
    print(f"{'workload':18} {'ratio':>6} {'adjoint ms':>12} {'torch ms':>12} {'max / min':>15}")
    rows = {}
    for workload, seconds in ours.times.items():
        if not theirs.times or workload in theirs.times:
            rows[workload] = compare(seconds, theirs.times.get(workload))
            print_row(workload, rows[workload])
    ratios = [row["ratio"] for row in rows.values() if "ratio" in row]
    if ratios:
        print(f"worst ratio {max(ratios):.2f} over {len(ratios)} workloads")
    return rows


def compare(ours: list[float], theirs: list[float] | None) -> dict[str, float]:
    row = {"adjoint": min(ours), "adjoint_spread": max(ours) / min(ours)}
    if theirs:
        row |= {"torch": min(theirs), "torch_spread": max(theirs) / min(theirs)}
        row["ratio"] = row["adjoint"] / row["torch"]
    return row


def print_row(workload: str, row: dict[str, float]) -> None:
    ratio, adjoint, torch, *spreads = (row.get(column, math.nan) for column in COLUMNS)
    times = f"{adjoint * 1e3:12.4f} {torch * 1e3:12.4f}"
    print(f"{workload:18} {ratio:6.2f} {times} {spreads[0]:8.2f} {spreads[1]:6.2f}")


def wrong_gradients(ours: dict[str, float], theirs: dict[str, float]) -> list[str]:
    return [
        f"peers: {workload}: gradients add up to {ours[workload]:.8g}, torch's to {expected:.8g}"
        for workload, expected in theirs.items()
        if workload in ours and not abs(ours[workload] - expected) <= TOLERANCE * abs(expected)
    ]
