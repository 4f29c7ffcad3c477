"""Compiled functions with tensors on a GPU."""

import warnings

import pytest

import adjoint as ad
from tests.support.helpers import needs_kernels

pytestmark = [pytest.mark.webgpu, needs_kernels]


def test_a_step_on_a_gpu_runs_eagerly_and_says_so_once() -> None:
    weights = [ad.tensor([3.0, -1.0], device=d, requires_grad=True) for d in ("webgpu", "cpu")]
    steps = []
    for w in weights:
        optimizer = ad.optim.SGD([w], lr=0.1)

        def step(w: ad.Tensor = w, optimizer: ad.optim.SGD = optimizer) -> ad.Tensor:
            loss = (w * w).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        steps.append(ad.compile(step))
    with pytest.warns(RuntimeWarning, match="runs eagerly: it uses a tensor on webgpu"):
        first = steps[0]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = [first.item(), steps[0]().item()]
    assert found == pytest.approx([steps[1]().item(), steps[1]().item()])
    assert weights[0].tolist() == pytest.approx(weights[1].tolist())
    assert "run eagerly: it uses a tensor on webgpu" in steps[0].explain()
