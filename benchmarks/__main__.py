"""Runs benchmarks: python -m benchmarks [PART ...]; by default adjoint against its peers."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from . import (
    accuracy,
    chain,
    checkpointing,
    compiled,
    distributed,
    importing,
    kernels,
    models,
    parallel,
    peers,
    scaling,
    thresholds,
    transforms,
    webgpu,
    webgpu_matmul,
)
from ._common import Report
from ._documents import put_into

PARTS: dict[str, Callable[[int], Report]] = {
    "peers": peers.run,
    "models": models.run,
    "kernels": kernels.run,
    "accuracy": accuracy.run,
    "chain": chain.run,
    "checkpointing": checkpointing.run,
    "compiled": compiled.run,
    "distributed": distributed.run,
    "parallel": parallel.run,
    "scaling": scaling.run,
    "thresholds": thresholds.run,
    "transforms": transforms.run,
    "importing": importing.run,
    "webgpu": webgpu.run,
    "webgpu_matmul": webgpu_matmul.run,
}


def main() -> int:
    options = parse_arguments()
    reports = {name: run_part(name, options.rounds) for name in options.parts}
    if options.json:
        figures = {name: report.figures for name, report in reports.items()}
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    if options.plot:
        options.plot.write_text(reports["peers"].picture)
    for name, report in reports.items():
        if options.document and report.markdown:
            put_into(options.document, name, report.markdown)
    problems = [problem for report in reports.values() for problem in report.problems]
    for problem in problems:
        print(f"PROBLEM {problem}", file=sys.stderr)
    return 1 if problems else 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    known = ", ".join(PARTS)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"all, or some of: {known}")
    parser.add_argument(
        "--rounds", type=positive, default=3, help="times that everything is measured"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the ratios of peers as SVG")
    parser.add_argument(
        "--document", type=Path, metavar="FILE", help="replace the tables of a Markdown file"
    )
    options = parser.parse_args()
    options.parts = list(PARTS) if options.parts == ["all"] else options.parts or ["peers"]
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; choose from {known}, or all")
    if options.plot and "peers" not in options.parts:
        parser.error("--plot draws the ratios of peers, which isn't among the parts to run")
    return options


def positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"a positive number is needed, got {text}")
    return int(text)


def run_part(name: str, rounds: int) -> Report:
    print(f"== {name}", flush=True)
    report = PARTS[name](rounds)
    print(flush=True)
    return report


if __name__ == "__main__":
    sys.exit(main())
