"""Training on several ranks is that of one process, to the last bit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.distributed import programs
from tests.distributed.ranks import run
from tests.support.helpers import needs_kernels


@pytest.fixture(scope="module", params=[2, 3, 4])
def trained(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, list[dict]]:
    count = request.param
    return count, run(count, "train_all", tmp_path_factory.mktemp("ranks"))


@pytest.mark.parametrize("kind", ["plain", "sharded", "reducing"])
def test_training_has_the_bits_of_one_process_that_adds_up_the_parts(
    kind: str, trained: tuple[int, list[dict]]
) -> None:
    count, found = trained
    expected = programs.accumulated(count)
    losses = expected.pop("losses")
    for rank, one in enumerate(found):
        np.testing.assert_array_equal(one[f"{kind}/losses"], losses[rank])
        for name, value in expected.items():
            np.testing.assert_array_equal(one[f"{kind}/{name}"], value, err_msg=name)


def test_the_loss_is_that_of_the_whole_batch(trained: tuple[int, list[dict]]) -> None:
    count, found = trained
    own = np.mean([one["plain/losses"] for one in found], axis=0)
    np.testing.assert_allclose(own, programs.whole_batch(count)["losses"], atol=1e-6)


@needs_kernels
def test_compiled_steps_exchange_gradients(trained: tuple[int, list[dict]]) -> None:
    _, found = trained
    for one in found:
        assert one.pop("compiled/is_native")
        for name in (x for x in one if x.startswith("compiled/")):
            plain = one[name.replace("compiled", "plain")]
            np.testing.assert_allclose(one[name], plain, rtol=1e-5, atol=1e-6, err_msg=name)
            if "losses" not in name:
                np.testing.assert_array_equal(one[name], found[0][name])


@pytest.mark.webgpu
def test_ranks_train_on_gpus(tmp_path: Path) -> None:
    found = run(2, "on_gpu", tmp_path)
    expected = programs.accumulated(2, 3, lambda params, lr: ad.optim.SGD(params, lr=0.1))
    assert found[0]["total"] == found[1]["total"]
    for name, value in found[0].items():
        np.testing.assert_array_equal(found[1][name], value)
        if name != "total":
            np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-5)
