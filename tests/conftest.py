"""Doctests of the package run with the rest, with `ad` in scope."""

import pytest

import adjoint


@pytest.fixture(autouse=True)
def _seed() -> None:
    adjoint.random.seed(0)
