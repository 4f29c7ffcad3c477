"""Every record of every op on a GPU, value and gradient, against the CPU in float32."""

import pytest

import adjoint as ad
from tests.support.samples import TABLE, Sample
from tests.webgpu.tensors import near, results

pytestmark = pytest.mark.webgpu

# The GPU's functions are within a few last digits of the CPU's, whose own are; what is made of
# several of them, or of sums of several terms, a little more.
RTOL, ATOL = 2e-5, 2e-6
# Decompositions, inverses and powers lose digits by their condition, on both sides differently.
LOOSE: dict[str, float] = dict.fromkeys(
    "inv det slogdet lu_solve expm cofactors cofactors_change".split(), 0.0002
)


@pytest.mark.parametrize("sample", TABLE, ids=lambda sample: sample.id)
def test_values_and_gradients_are_the_cpus(sample: Sample) -> None:
    if any(array.dtype.kind == "c" for array in sample.inputs()):
        with pytest.raises(ad.DeviceError, match="has no complex"):
            results(sample, "webgpu")
        return
    values, grads = results(sample, "cpu")
    if any(value.dtype.kind == "c" for value in values):
        with pytest.raises((ad.DeviceError, ad.DTypeError), match="complex"):
            results(sample, "webgpu")
        return
    tolerance = LOOSE.get(sample.op, RTOL)
    found, found_grads = results(sample, "webgpu")
    for one, other in zip(found, values, strict=True):
        assert one.dtype.itemsize <= 4  # what is float64 on the CPU is float32 here
        near(one, other, tolerance, ATOL)
    for one, other in zip(found_grads, grads, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert one.dtype.itemsize <= 4
            near(one, other, 5 * tolerance, ATOL)
