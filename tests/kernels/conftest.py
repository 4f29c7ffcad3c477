from collections.abc import Callable, Iterator

import pytest

import adjoint as ad
from adjoint.backends.cpu.jit import threads as native_threads
from adjoint.backends.launches import Cache


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Sets the number of threads until the test ends."""
    former = ad.get_num_threads()
    yield ad.set_num_threads
    ad.set_num_threads(former)


@pytest.fixture(autouse=True)
def _new_launches() -> Iterator[None]:
    """Tests change what launches depend on: none is kept from one to the next."""
    Cache.forget_all()
    yield
    Cache.forget_all()


@pytest.fixture
def chunks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of chunks of each kernel that is run from now on."""
    found: list[int] = []
    run = native_threads.run

    def noted(kernel: int, words: int, count: int) -> None:
        found.append(count)
        run(kernel, words, count)

    monkeypatch.setattr(native_threads, "run", noted)
    return found
