"""What ranks give each other, and its gradients, are those of one process that has all of it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import adjoint as ad
from tests.distributed import exchanges
from tests.distributed.checks import assert_all_right
from tests.distributed.ranks import run

Found = list[dict[str, np.ndarray]]


@pytest.fixture(scope="module", params=[2, 3, 4])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Found:
    return run(request.param, "exchanges:run_all", tmp_path_factory.mktemp("exchanges"))


@pytest.mark.parametrize("name", [check.__name__ for check in exchanges.CHECKS])
def test_exchanges_of_several_ranks(name: str, found: Found) -> None:
    assert_all_right(found, name)


def test_recorded_exchanges_come_in_one_order_on_all_ranks(tmp_path: Path) -> None:
    found = run(2, "exchanges:run_orders", tmp_path)
    for check in exchanges.ORDERS:
        assert_all_right(found, check.__name__)


@pytest.mark.parametrize(
    "check", exchanges.CHECKS + exchanges.ORDERS, ids=lambda check: check.__name__
)
def test_exchanges_of_one_rank_alone(check: Callable) -> None:
    check(ad.distributed.init())
