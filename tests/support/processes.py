"""Python in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.paths import ROOT


def python(
    *arguments: object,
    folder: Path = ROOT,
    inherited: Mapping[str, str] = os.environ,
    timeout: float = 300,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Run it until it ends, with warnings as errors, and keep what it prints."""
    return subprocess.run(
        [sys.executable, "-W", "error", *map(str, arguments)],
        env={**inherited, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def printed(*arguments: object, **options: Any) -> str:
    """What it prints, if it succeeds and says nothing on standard error."""
    done = python(*arguments, **options)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def without_kernels(module: str, file: Path, **options: Any) -> dict[str, np.ndarray]:
    """What `results()` of a module gives where there is no compiler; a file to pass it by."""
    code = (
        f"import sys, numpy, {module} as m; from adjoint.backends.cpu.jit import availability; "
        "assert not availability.available(); numpy.savez(sys.argv[1], **m.results())"
    )
    done = python("-c", code, file, ADJOINT_JIT="0", **options)
    assert done.returncode == 0, done.stderr
    with np.load(file) as found:
        return dict(found)
