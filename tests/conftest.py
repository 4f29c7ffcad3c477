"""Doctests of the package run with the rest, with `ad` in scope. GPU tests need a GPU."""

import functools
import gc
import os
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

import adjoint
from adjoint._engine import lazy_gradients
from adjoint.backends.cpu.jit import cache, trust
from adjoint.backends.devices import devices
from tests.support import swiftshader as driver

PEERS = {"torch": "PyTorch", "jax": "JAX"}


def pytest_configure() -> None:
    """Have a kernel cache of our own where the user's isn't trusted, as in containers whose home
    belongs to another user: a warning in each process would be an error."""
    place = cache.directory()
    if place is not None and trust.objection(place) is not None:
        os.environ["ADJOINT_CACHE_DIR"] = tempfile.mkdtemp(prefix="adjoint-kernels-")


@pytest.fixture(autouse=True, scope="module")
def _freeze() -> None:
    """Have collections of garbage visit only what a file of tests makes: libraries and tests are a
    million objects, which take a third of a second each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def _no_chains_met() -> None:
    """Chains of rules that other files met don't count: only so many are compiled in a process."""
    lazy_gradients.launchers.clear()


@pytest.fixture(autouse=True)
def _seed() -> None:
    adjoint.random.seed(0)


@pytest.fixture
def no_garbage() -> None:
    """Nothing of earlier tests is left that could be released while memory is counted."""
    gc.collect()


@pytest.fixture
def ieee() -> Iterator[None]:
    """NumPy says nothing of infinities and NaNs: for tests that call kernels by themselves, or that
    take NumPy's results as they are."""
    with np.errstate(all="ignore"):
        yield


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, here and in processes that are started meanwhile.

    Where tests run in the background of a script it is ignored, and children inherit that.
    """
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


@functools.cache
def why_no_gpu() -> str | None:
    return next(device.why_not for device in devices() if device.name == "webgpu")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests marked `webgpu` are skipped where no GPU can be used. Where CI is set they fail."""
    if item.get_closest_marker("webgpu") is None or why_no_gpu() is None:
        return
    if os.environ.get("CI"):
        pytest.fail(f"CI is set, so GPU tests must run, but {why_no_gpu()}", pytrace=False)
    pytest.skip(f"no GPU: {why_no_gpu()}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests were skipped, and why."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(reason(report.longrepr[2].removeprefix("Skipped: ")) for report in skipped)
    for why, count in reasons.most_common():
        terminalreporter.write_line(f"{count} skipped: {why}")


def reason(text: str) -> str:
    """Why a test was skipped, in one line, and what can be done."""
    for name, title in PEERS.items():
        if f"No module named '{name}'" in text:
            return f"{title} isn't installed (./scripts/test --peers installs it where it can)"
    return text.partition("\n")[0]


@pytest.fixture(scope="session")
def swiftshader() -> dict[str, str]:
    """The environment of a process whose GPU is SwiftShader; where CI is set it must be there."""
    environment = driver.environment()
    if environment is None and os.environ.get("CI"):
        pytest.fail(f"CI is set, so tests on SwiftShader must run, but {driver.WHERE}")
    if environment is None:
        pytest.skip(driver.WHERE)
    return environment
