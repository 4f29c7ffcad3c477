from typing import Any

import pytest

from adjoint import backends


@pytest.fixture(scope="session")
def webgpu() -> Any:
    return backends.backend("webgpu")
