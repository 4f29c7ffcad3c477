"""The state of an optimizer is divided among ranks, is saved whole, and goes on with any number."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import adjoint as ad
from tests.distributed import savings
from tests.distributed.checks import assert_all_right
from tests.distributed.ranks import run

Found = list[dict[str, np.ndarray]]
NAMES = [check.__name__ for check in savings.CHECKS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("saving")


@pytest.fixture(scope="module")
def four(folder: Path) -> Found:
    return run(4, "savings:run_four", folder)


@pytest.fixture(scope="module")
def three(four: Found, folder: Path) -> Found:
    return run(3, "savings:run_three", folder)


@pytest.mark.parametrize("name", NAMES)
def test_sharded_optimizers_of_four_ranks(name: str, four: Found) -> None:
    assert_all_right(four, name)


@pytest.mark.parametrize("name", NAMES)
def test_sharded_optimizers_of_three_ranks(name: str, three: Found) -> None:
    assert_all_right(three, name)


@pytest.mark.parametrize("check", savings.CHECKS, ids=lambda check: check.__name__)
def test_sharded_optimizers_of_one_rank_alone(check: Callable) -> None:
    check(ad.distributed.init())


def trained(found: dict[str, np.ndarray], start: str = "run/") -> dict[str, np.ndarray]:
    """Values and random numbers after six steps, and the losses of the last three."""
    out = {k.removeprefix(start): x for k, x in found.items() if k.startswith(start)}
    return out | {"losses": out["losses"][-3:]}


def test_training_goes_on_with_other_numbers_of_ranks(
    four: Found, three: Found, folder: Path
) -> None:
    """As four ranks would have gone on: there is no dropout, and the batches are the same."""
    expected = trained(four[0])
    alone = savings.resumed(ad.distributed.init(), folder, ranks=4, dropout=0.0)
    for found in (*map(trained, three), trained(alone)):
        for name in expected.keys() - {"draws"}:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-6, atol=1e-6)


def test_training_goes_on_bit_for_bit(three: Found, folder: Path) -> None:
    """With dropout, as if it had never ended."""
    for one, before in zip(run(3, "savings:run_again", folder), three, strict=True):
        found, expected = trained(one), trained(before, "whole run/")
        assert found.keys() == expected.keys()
        for name, value in found.items():
            np.testing.assert_array_equal(value, expected[name], err_msg=name)
