"""The tests of GPUs once more, on a second driver, whose limits are tighter."""

from pathlib import Path

import pytest

from tests.support.processes import python

pytestmark = pytest.mark.webgpu

HERE = Path(__file__).parent
# This file, and one about the text of programs, which is the same for all drivers.
LEFT_OUT = {Path(__file__).name, "test_programs.py"}
# Processes that share the tests take these one by one: what takes longest comes first.
LONGEST = ["functions", "matmul", "runtime", "sorting", "linalg", "engine", "transforms", "ops"]
FIRST = [f"test_{name}.py" for name in LONGEST]
FILES = [*FIRST, *sorted({file.name for file in HERE.glob("test_*.py")} - LEFT_OUT - {*FIRST})]


@pytest.mark.parametrize("file", FILES)
def test_swiftshader_passes(file: str, swiftshader: dict[str, str]) -> None:
    command = ("-m", "pytest", "-p", "no:cacheprovider", HERE / file)
    process = python(*command, inherited=swiftshader, timeout=600)
    assert process.returncode == 0, process.stdout[-4000:]
    assert " passed" in process.stdout
