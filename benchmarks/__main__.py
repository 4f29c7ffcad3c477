"""Runs the benchmarks: python -m benchmarks [PART]."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from . import chain, checkpointing, importing, parallel, peers, transforms
from ._common import Report

PARTS: dict[str, Callable[[int], Report]] = {
    "peers": peers.run,
    "chain": chain.run,
    "checkpointing": checkpointing.run,
    "parallel": parallel.run,
    "transforms": transforms.run,
    "importing": importing.run,
}


def main() -> int:
    options = parse_arguments()
    reports = {name: run_part(name, options.rounds) for name in options.parts}
    if options.json:
        figures = {name: report.figures for name, report in reports.items()}
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    problems = [problem for report in reports.values() for problem in report.problems]
    for problem in problems:
        print(f"PROBLEM {problem}", file=sys.stderr)
    return 1 if problems else 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("part", nargs="?", choices=PARTS, help="only this part; all if left out")
    parser.add_argument("--rounds", type=int, default=3, help="times that everything is measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file")
    options = parser.parse_args()
    options.parts = [options.part] if options.part else list(PARTS)
    return options


def run_part(name: str, rounds: int) -> Report:
    print(f"== {name}")
    report = PARTS[name](rounds)
    print(flush=True)
    return report


if __name__ == "__main__":
    sys.exit(main())
