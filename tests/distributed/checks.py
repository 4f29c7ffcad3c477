"""Checks that all ranks make: each is a function of the world that asserts something."""

import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

Check = Callable[[Any], None]


def outcomes(world: Any, checks: Iterable[Check]) -> dict[str, np.ndarray]:
    """What is wrong with each, "" if nothing is: one that fails doesn't stop those that follow."""
    return {check.__name__: np.array(outcome(world, check)) for check in checks}


def outcome(world: Any, check: Check) -> str:
    try:
        check(world)
    except Exception:
        return traceback.format_exc()
    return ""


@contextmanager
def raises(kind: type[Exception], text: str) -> Iterator[None]:
    """As `pytest.raises`, which takes ranks a fifth of a second to load."""
    try:
        yield
    except kind as error:
        assert re.search(text, str(error)), error
    else:
        raise AssertionError(f"there was no {kind.__name__}: {text}")


def assert_all_right(found: list[dict[str, np.ndarray]], name: str) -> None:
    wrong = [f"rank {rank}: {one[name]}" for rank, one in enumerate(found) if one[name]]
    assert not wrong, "\n".join(wrong)
