"""The tests of GPUs once more, on a second driver, whose limits are tighter."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.webgpu

HERE = Path(__file__).parent
# This file, and one about the text of programs, which is the same for all drivers.
LEFT_OUT = {Path(__file__).name, "test_webgpu_programs.py"}
FILES = sorted({file.name for file in HERE.glob("test_webgpu*.py")} - LEFT_OUT)


@pytest.mark.parametrize("file", FILES)
def test_swiftshader_passes(file: str, swiftshader: dict[str, str]) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(HERE / file)]
    process = subprocess.run(
        command, env=swiftshader, cwd=HERE.parent, capture_output=True, text=True, timeout=600
    )
    assert process.returncode == 0, process.stdout[-4000:]
    assert " passed" in process.stdout
