"""Every op, from the table of samples: values, gradients of two orders, linearity of the rules."""

import numpy as np
import pytest

import adjoint as ad
from adjoint._core.tensor import wrap
from tests.support.helpers import as_tuple, floats, values
from tests.support.samples import OPS, TABLE, Sample, random_like, tensors

every = pytest.mark.parametrize("sample", TABLE, ids=lambda s: s.id)
differentiable = pytest.mark.parametrize(
    "sample", [s for s in TABLE if OPS[s.op].differentiable], ids=lambda s: s.id
)


def gradients(sample: Sample, args: list[ad.Tensor], seeds: list[ad.Tensor], **options) -> list:
    """The gradients of the float inputs, for incoming gradients of the float outputs."""
    outs = floats(as_tuple(sample.call(*args)))
    leaves = [x for x in args if x.requires_grad]
    return list(ad.autograd.grad(outs, leaves, seeds, allow_unused=True, **options))


@every
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_value(sample: Sample, dtype: str) -> None:
    args = tensors(sample, dtype)
    outs = as_tuple(sample.call(*args))
    expected = as_tuple(sample.reference(*(x.detach().numpy() for x in args)))
    for out, reference in zip(outs, expected, strict=True):
        assert type(out.raw) is np.ndarray
        assert out.shape == reference.shape
        tolerance = 1e-12 if dtype == "f8" else 2e-6
        np.testing.assert_allclose(
            out.detach().numpy(), reference, rtol=tolerance, atol=tolerance, err_msg=sample.id
        )


@differentiable
def test_gradient_and_its_gradient_agree_with_finite_differences(sample: Sample) -> None:
    ad.testing.check_grads(sample.call, sample.inputs(), order=2)


@differentiable
def test_gradient_has_the_shape_and_dtype_of_its_input(sample: Sample) -> None:
    args = tensors(sample, "f4")
    outs = floats(as_tuple(sample.call(*args)))
    grads = gradients(sample, args, random_like(outs, 0))
    for x, g in zip((x for x in args if x.requires_grad), grads, strict=True):
        assert g.shape == x.shape
        assert g.dtype == (ad.float32 if sample.op != "cast" else x.dtype)


@differentiable
def test_compiled_rule_equals_the_rule_on_tensors(sample: Sample) -> None:
    args = tensors(sample)
    seeds = random_like(floats(as_tuple(sample.call(*args))), 0)
    compiled = gradients(sample, args, seeds)
    recorded = gradients(sample, args, seeds, create_graph=True)
    for one, other in zip(compiled, recorded, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.detach().numpy())


@differentiable
def test_rule_is_linear_in_the_incoming_gradient(sample: Sample) -> None:
    args = tensors(sample)
    outs = floats(as_tuple(sample.call(*args)))
    one, other = random_like(outs, 0), random_like(outs, 1)
    both = [a * 2.0 - b * 3.0 for a, b in zip(one, other, strict=True)]
    parts = zip(gradients(sample, args, one), gradients(sample, args, other), strict=True)
    for whole, (a, b) in zip(gradients(sample, args, both), parts, strict=True):
        np.testing.assert_allclose(whole.numpy(), (a * 2.0 - b * 3.0).numpy(), atol=1e-11)


@pytest.mark.parametrize("sample", [s for s in TABLE if OPS[s.op].linear], ids=lambda s: s.id)
def test_ops_declared_linear_are(sample: Sample) -> None:
    args = tensors(sample)
    doubled = [x.detach() * 2.0 if x.dtype.kind == "float" else x for x in args]
    for out, twice in zip(
        as_tuple(sample.call(*args)), as_tuple(sample.call(*doubled)), strict=True
    ):
        np.testing.assert_allclose(twice.detach().numpy(), 2 * out.detach().numpy(), atol=1e-12)


@every
def test_memory_layout_of_inputs_doesn_t_matter(sample: Sample) -> None:
    def strided(x: ad.Tensor) -> ad.Tensor:
        """The same values, seen backwards in every other element of a larger array."""
        array = x.detach().numpy()
        wide = np.zeros(tuple(2 * n for n in array.shape), array.dtype)
        view = wide[tuple(slice(None, None, -2) for _ in array.shape)]
        view[...] = array
        return wrap(view).requires_grad_(x.requires_grad)

    args = tensors(sample)
    others = [strided(x) if x.ndim else x for x in args]
    outs, same = as_tuple(sample.call(*args)), as_tuple(sample.call(*others))
    for out, other in zip(outs, same, strict=True):
        np.testing.assert_allclose(values(out), values(other), rtol=1e-13, atol=1e-15)
    if OPS[sample.op].differentiable:
        seeds = random_like(floats(outs), 0)
        pairs = zip(gradients(sample, args, seeds), gradients(sample, others, seeds), strict=True)
        for one, other in pairs:
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12, atol=1e-13)
