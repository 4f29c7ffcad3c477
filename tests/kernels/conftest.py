from collections.abc import Callable, Iterator

import pytest

import adjoint as ad


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Sets the number of threads until the test ends."""
    former = ad.get_num_threads()
    yield ad.set_num_threads
    ad.set_num_threads(former)
