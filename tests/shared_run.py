"""Processes of pytest that share the tests: `pytest -p shared_run --claims=FOLDER`, twice or more.

Each takes a file that no other has taken, collects it and runs it, until all are taken. So no
process collects what another one runs, nothing is sent between them, and a file stays together.
"""

from itertools import pairwise
from pathlib import Path

import pytest

FILES = pytest.StashKey[list[pytest.Collector]]()
# What takes longest comes first: at the end, one processor would wait for another.
FIRST = (
    "test_webgpu_swiftshader.py",
    "test_transforms.py",
    "test_examples.py",
    "test_linalg_gradients.py",
    "test_webgpu_functions.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--claims", type=Path, help="folder with a note for each file that is taken")


def pytest_collection(session: pytest.Session) -> bool:
    """Find files only: what is in them is collected when their turn comes."""
    files = [str(file) for place in session.config.args for file in Path(place).rglob("test_*.py")]
    found = session.perform_collect(sorted(files, key=rank), genitems=False)
    session.stash[FILES] = [file for file in found if isinstance(file, pytest.Collector)]
    return True


def rank(file: str) -> tuple[int, str]:
    name = Path(file).name
    return (FIRST.index(name) if name in FIRST else len(FIRST), name)


def pytest_runtestloop(session: pytest.Session) -> bool:
    for number, file in enumerate(session.stash[FILES]):
        if is_free(session.config.getoption("claims") / str(number)):
            run(session, list(session.genitems(file)))
    return True


def is_free(note: Path) -> bool:
    """Whether nobody has made this note; if so, it is made now."""
    try:
        note.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def run(session: pytest.Session, items: list[pytest.Item]) -> None:
    hook = session.config.hook
    hook.pytest_collection_modifyitems(session=session, config=session.config, items=items)
    session.testscollected += len(items)
    for item, following in pairwise([*items, None]):
        hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
