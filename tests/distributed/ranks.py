"""Runs functions of `programs.py` on several ranks, started by mpiexec."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import paths

BESIDE = Path(sys.executable).with_name("mpiexec")  # that of the package mpich
MPIEXEC = str(BESIDE) if BESIDE.exists() else shutil.which("mpiexec")


def need_mpi() -> None:
    """Skip a test where there is no MPI; where CI is set it fails."""
    why = "there is no mpiexec (pip install mpi4py mpich)" if MPIEXEC is None else ""
    if not why:
        found = importlib.util.find_spec("mpi4py")
        why = "" if found else "mpi4py isn't installed (pip install mpi4py mpich)"
    if why and os.environ.get("CI"):
        pytest.fail(f"CI is set, so tests of ranks must run, but {why}", pytrace=False)
    if why:
        pytest.skip(why)


def start(count: int, name: str, folder: Path, *args: Any, **environment: str) -> subprocess.Popen:
    """All processes of the program have the folder in their environment, as RANKS_OF."""
    need_mpi()
    python = [sys.executable, "-W", "error", "-m", "tests.distributed.rank"]
    command = [MPIEXEC, "-n", str(count), *python]
    own = {"OPENBLAS_NUM_THREADS": "1", "ADJOINT_NUM_THREADS": "1", "RANKS_OF": str(folder)}
    return subprocess.Popen(
        [*map(str, command), name, str(folder), *map(str, args)],
        cwd=paths.ROOT,
        env={**os.environ, **own, **environment},
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # a signal to the group of pytest isn't one to it
    )


def finish(process: subprocess.Popen, seconds: float = 120) -> str:
    """The text that the ranks have printed."""
    try:
        return process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        pytest.fail(
            f"the ranks didn't end in {seconds} seconds: {process.communicate()[0][-3000:]}"
        )


def run(count: int, name: str, folder: Path, *args: Any) -> list[dict[str, np.ndarray]]:
    """What a function returns on each rank."""
    process = start(count, name, folder, *args)
    printed = finish(process)
    assert process.returncode == 0, printed[-5000:]
    return [dict(np.load(folder / f"{name}-{rank}.npz")) for rank in range(count)]
