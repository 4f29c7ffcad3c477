"""What the parts share: their report, and Python processes of their own."""

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

Environment = dict[str, str] | None  # None is that of this process


@dataclass
class Report:
    """The figures that a part measured, and what is wrong with them."""

    figures: dict[str, Any]
    problems: list[str] = field(default_factory=list)


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
