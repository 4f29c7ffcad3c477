"""DataParallel's gradients are those of one process that adds up the parts and takes the average,
with all that training code does around it."""

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.distributed import programs
from tests.distributed.ranks import run

# What one process adds up in another order, or with another number of BLAS's threads.
ROUNDED = programs.accumulation, programs.kept_gradients, programs.graphs, programs.clipping
ROUNDED += (programs.with_workers,)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    return run(2, "behaviours", tmp_path_factory.mktemp("ranks")), programs.behaviours(None)


@pytest.mark.parametrize("behaviour", programs.BEHAVIOURS, ids=lambda f: f.__name__)
def test_gradients_are_averages_with(behaviour: Any, found: Any) -> None:
    ranks, expected = found
    own = behaviour(None)
    assert own and expected.keys() == ranks[0].keys() == ranks[1].keys()
    tolerance = 1e-5 if behaviour in ROUNDED else 0
    for name in own:
        np.testing.assert_array_equal(ranks[0][name], ranks[1][name], err_msg=name)
        atol = tolerance * float(np.max(np.abs(expected[name])))
        np.testing.assert_allclose(ranks[0][name], expected[name], 0, atol, err_msg=name)


def test_a_sharded_optimizer_refuses_parameters_of_another_dtype() -> None:
    model = ad.nn.Linear(3, 1)
    optimizer = ad.distributed.ShardedOptimizer(ad.optim.AdamW, model.parameters())
    model.double()
    model(ad.ones((2, 3), dtype=ad.float64)).sum().backward()
    with pytest.raises(ad.DTypeError, match=r"ShardedOptimizer.step: .* was .*float32"):
        optimizer.step()
