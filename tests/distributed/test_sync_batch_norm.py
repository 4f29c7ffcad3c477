"""SyncBatchNorm on several ranks does what BatchNorm does in one process with all samples."""

from collections.abc import Callable

import numpy as np
import pytest

import adjoint as ad
from tests.distributed import sync_batch_norms
from tests.distributed.checks import assert_all_right
from tests.distributed.ranks import run

Found = list[dict[str, np.ndarray]]


@pytest.fixture(scope="module", params=[2, 3])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Found:
    return run(request.param, "sync_batch_norms:run_all", tmp_path_factory.mktemp("norms"))


@pytest.mark.parametrize("name", [check.__name__ for check in sync_batch_norms.CHECKS])
def test_batch_norms_of_several_ranks(name: str, found: Found) -> None:
    assert_all_right(found, name)


@pytest.mark.parametrize("check", sync_batch_norms.CHECKS, ids=lambda check: check.__name__)
def test_batch_norms_of_one_rank_alone(check: Callable) -> None:
    check(ad.distributed.init())
