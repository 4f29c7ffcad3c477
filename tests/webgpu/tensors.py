"""Tensors on either device, and how what comes of them is compared."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import adjoint as ad
from tests.support.helpers import as_tuple, default_device
from tests.support.samples import OPS, Sample

NARROW = {"f": np.float32, "i": np.int32, "u": np.uint32}


def numbers(*shape: int, seed: int = 0, low: float = 0.2, high: float = 1.5) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def on(device: str, values: Any, dtype: Any = np.float32, **options: Any) -> ad.Tensor:
    return ad.tensor(np.asarray(values, dtype), device=device, **options)


def leaf(device: str, values: Any) -> ad.Tensor:
    return on(device, values, requires_grad=True)


def narrowed(device: str, array: Any, half: bool = False) -> ad.Tensor:
    """In the widest dtype of its kind that GPUs have; floats in float16 if asked."""
    array = np.asarray(array)
    kind = array.dtype.kind
    dtype = np.float16 if half and kind == "f" else NARROW.get(kind, array.dtype)
    return ad.asarray(array.astype(dtype), device=device)


def weights(x: ad.Tensor, number: int) -> ad.Tensor:
    """The gradient of an output, each element its own."""
    values = np.cos(np.arange(x.size) + number).reshape(x.shape)
    return ad.asarray(values.astype(x.raw.dtype), device=x.device)


def results(sample: Sample, device: str) -> tuple[list[np.ndarray], list[np.ndarray | None]]:
    """The values of an op, and the gradients of its float inputs."""
    inputs = [narrowed(device, array) for array in sample.inputs()]
    floats = [x for x in inputs if x.dtype.kind == "float" and OPS[sample.op].differentiable]
    for x in floats:
        x.requires_grad_()
    with default_device(device):
        parts = as_tuple(sample.call(*inputs))
    recorded = [part for part in parts if part.requires_grad]
    grads: Sequence = [None] * len(floats)
    if recorded:
        seeds = [weights(part, k) for k, part in enumerate(recorded)]
        grads = ad.autograd.grad(recorded, floats, seeds, allow_unused=True)
    return [x.detach().numpy() for x in parts], [None if g is None else g.numpy() for g in grads]


def close(found: Any, expected: Any, tolerance: float) -> None:
    """Equal but for a part of the largest magnitude; integers and truth values are equal."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
        return
    assert found.dtype == expected.dtype == np.float32
    scale = np.abs(expected).max(initial=0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)


def near(found: np.ndarray, expected: np.ndarray, rtol: float, atol: float) -> None:
    """Nearly equal where they are floats, else equal; `atol` is of the largest, or of 1."""
    assert found.shape == expected.shape
    if "f" not in (found.dtype.kind, expected.dtype.kind):
        np.testing.assert_array_equal(found, expected)
        return
    assert found.dtype.kind == expected.dtype.kind
    wide = expected.astype(np.float64)
    scale = np.abs(wide[np.isfinite(wide)]).max(initial=1)
    np.testing.assert_allclose(found.astype(np.float64), wide, rtol, atol * scale)
