"""What the parts share: their report, and Python processes of their own."""

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))

Environment = dict[str, str] | None  # None is that of this process


@dataclass
class Report:
    """The figures that a part measured, what is wrong with them, and how documents show them."""

    figures: dict[str, Any]
    problems: list[str] = field(default_factory=list)
    markdown: str = ""
    picture: str = ""


def python(*args: str, env: Environment = None) -> subprocess.CompletedProcess[str]:
    """Run a fresh interpreter in the repository root, and keep its output."""
    return subprocess.run(
        [sys.executable, *args], cwd=ROOT, env=env, capture_output=True, text=True
    )


def output(*args: str, env: Environment = None) -> str:
    """What a fresh interpreter prints; its errors are ours."""
    process = python(*args, env=env)
    if process.returncode:
        raise SystemExit(f"python {' '.join(args)} failed:\n{process.stderr}")
    return process.stdout


def duration(seconds: float) -> str:
    """Seconds with three digits, in a unit that suits them."""
    size, unit = next((u for u in UNITS if seconds >= u[0]), UNITS[-1])
    value = seconds / size
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {unit}"


def markdown_table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
