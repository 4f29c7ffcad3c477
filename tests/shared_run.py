"""Processes of pytest that share the tests: `pytest -p tests.shared_run --claims=FOLDER`, started
twice or more.

Each takes a file that no other has taken, collects it and runs it, until all are taken. So no
process collects what another one runs, nothing is sent between them, and a file stays together. But
where each test is a long program of its own, they are taken one by one.
"""

from itertools import pairwise
from pathlib import Path

import pytest

FILES = pytest.StashKey[list[pytest.Collector]]()
# What takes longest comes first: at the end, one processor would wait for another.
FIRST = (
    "webgpu/test_swiftshader.py",
    "tools/test_examples.py",
    "transforms/test_transforms.py",
    "tools/test_demo.py",
    "kernels/test_jit.py",
    "webgpu/test_functions.py",
    "linalg/test_gradients.py",
    "webgpu/test_runtime.py",
    "tools/test_devices.py",
    "webgpu/test_transforms.py",
    "transforms/test_vmap.py",
)
ONE_BY_ONE = ("webgpu/test_swiftshader.py",)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--claims", type=Path, help="folder with a note for each file that is taken")


def pytest_collection(session: pytest.Session) -> bool:
    """Find files only: what is in them is collected when their turn comes."""
    files = [str(file) for place in session.config.args for file in Path(place).rglob("test_*.py")]
    found = session.perform_collect(sorted(files, key=rank), genitems=False)
    session.stash[FILES] = [file for file in found if isinstance(file, pytest.Collector)]
    return True


def rank(file: str) -> tuple[int, str]:
    name = in_its_folder(Path(file))
    return (FIRST.index(name) if name in FIRST else len(FIRST), file)


def in_its_folder(file: Path) -> str:
    return "/".join(file.parts[-2:])


def pytest_runtestloop(session: pytest.Session) -> bool:
    claims = session.config.getoption("claims")
    for number, file in enumerate(session.stash[FILES]):
        if in_its_folder(file.path) in ONE_BY_ONE:
            for k, item in enumerate(session.genitems(file)):
                if is_free(claims / f"{number}-{k}"):
                    run(session, [item])
        elif is_free(claims / str(number)):
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
