"""Every record of every op on a GPU, value and gradient, against the CPU in float32."""

from collections.abc import Sequence

import numpy as np
import pytest

import adjoint as ad
from tests.support.helpers import as_tuple, default_device
from tests.support.samples import OPS, TABLE, Sample

pytestmark = pytest.mark.webgpu

# The GPU's functions are within a few last digits of the CPU's, whose own are; what is made of
# several of them, or of sums of several terms, a little more.
RTOL, ATOL = 2e-5, 2e-6
# Decompositions, inverses and powers lose digits by their condition, on both sides differently.
LOOSE: dict[str, float] = dict.fromkeys(
    "inv det slogdet lu_solve expm cofactors cofactors_change".split(), 0.0002
)


def on(device: str, array: np.ndarray) -> ad.Tensor:
    narrow = {"f": np.float32, "i": np.int32, "u": np.uint32}.get(array.dtype.kind)
    return ad.asarray(array if narrow is None else array.astype(narrow), device=device)


def weighted(parts: list[ad.Tensor]) -> list[ad.Tensor]:
    """A weight for each element of the outputs that have gradients."""
    return [
        ad.asarray(
            np.cos(np.arange(part.size) + k).reshape(part.shape).astype(part.dtype),
            device=part.device,
        )
        for k, part in enumerate(parts)
    ]


def run(sample: Sample, device: str) -> tuple[list[np.ndarray], list[np.ndarray | None]]:
    inputs = [on(device, array) for array in sample.inputs()]
    floats = [x for x in inputs if x.dtype.kind == "float" and OPS[sample.op].differentiable]
    for x in floats:
        x.requires_grad_()
    with default_device(device):
        parts = as_tuple(sample.call(*inputs))
    recorded = [part for part in parts if part.requires_grad]
    grads: Sequence = [None] * len(floats)
    if recorded:
        grads = ad.autograd.grad(recorded, floats, weighted(recorded), allow_unused=True)
    return [x.detach().numpy() for x in parts], [None if g is None else g.numpy() for g in grads]


def close(found: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    assert found.shape == expected.shape
    if expected.dtype.kind in "iu" or found.dtype.kind in "iu":
        assert found.dtype.itemsize <= 4
        np.testing.assert_array_equal(found, expected)
        return
    assert found.dtype.kind == expected.dtype.kind  # what is float64 on the CPU is float32 here
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=1) if found.size else 1
    np.testing.assert_allclose(found, expected, tolerance, ATOL * scale)


@pytest.mark.parametrize("sample", TABLE, ids=lambda sample: sample.id)
def test_values_and_gradients_are_the_cpus(sample: Sample) -> None:
    if any(array.dtype.kind == "c" for array in sample.inputs()):
        with pytest.raises(ad.DeviceError, match="has no complex"):
            run(sample, "webgpu")
        return
    values, grads = run(sample, "cpu")
    if any(value.dtype.kind == "c" for value in values):
        with pytest.raises((ad.DeviceError, ad.DTypeError), match="complex"):
            run(sample, "webgpu")
        return
    tolerance = LOOSE.get(sample.op, RTOL)
    found, found_grads = run(sample, "webgpu")
    for one, other in zip(found, values, strict=True):
        close(one, other, tolerance)
    for one, other in zip(found_grads, grads, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            close(one, other, 5 * tolerance)


def test_every_op_has_a_record() -> None:
    assert {sample.op for sample in TABLE} >= set(OPS)
