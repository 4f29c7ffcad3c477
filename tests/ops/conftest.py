from typing import Any

import pytest


@pytest.fixture(scope="session")
def torch() -> Any:
    module = pytest.importorskip("torch")
    module.set_num_threads(1)
    return module
