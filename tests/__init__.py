"""Tests, in rooms by what they test."""

import pytest

# Where a helper's assertion fails it says what the values are, as assertions in tests do.
pytest.register_assert_rewrite(*(f"tests.{room}" for room in ("support", "kernels", "webgpu")))
