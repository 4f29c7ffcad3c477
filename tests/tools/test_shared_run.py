"""Processes that share the tests: each file is run once, and no result is lost."""

import subprocess
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.processes import python

SAMPLES = {
    "test_breaks.py": "import no_such_library",
    "test_fails.py": "def test_one(): assert False",
    "test_lacks_a_library.py": "import pytest; pytest.importorskip('no_such_library')",
    "test_passes.py": "def test_one(given): assert given == 1",
    "conftest.py": "import pytest\n@pytest.fixture\ndef given(): return 1",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in SAMPLES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "claims").mkdir()
    return tmp_path


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    how = ("-p", "tests.shared_run", f"--claims={folder / 'claims'}", "-p", "no:cacheprovider")
    return python("-m", "pytest", *how, "-o", f"pythonpath={ROOT}", folder, folder=folder)


def test_the_first_process_takes_all_that_is_free_and_the_next_nothing(folder: Path) -> None:
    first = run(folder)
    assert "1 failed, 1 passed, 1 skipped, 1 error" in first.stdout
    assert first.returncode == pytest.ExitCode.TESTS_FAILED
    assert run(folder).returncode == pytest.ExitCode.NO_TESTS_COLLECTED


def test_files_that_were_taken_are_left_to_who_took_them(folder: Path) -> None:
    for number in "01":
        (folder / "claims" / number).touch()
    process = run(folder)
    assert "1 passed, 1 skipped" in process.stdout
    assert process.returncode == 0


def test_long_tests_are_taken_one_by_one(folder: Path) -> None:
    (folder / "webgpu").mkdir()
    both = "def test_one(): assert False\ndef test_two(): pass"
    (folder / "webgpu" / "test_swiftshader.py").write_text(both)
    for number in ("0-0", "1", "2", "3", "4"):
        (folder / "claims" / number).touch()
    process = run(folder)
    assert "1 passed" in process.stdout
    assert process.returncode == 0
