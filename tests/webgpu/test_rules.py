"""Derivative rules on a GPU: the same bits one by one, several in a kernel, and op by op.

What a driver does with an operation depends on what stands around it, so programs are made such
that nothing can be rearranged; drivers that don't try are no proof, so the text is looked at too.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint._engine import chains, lazy_gradients
from adjoint.kernels.language import F32, Kernel, Value, element, fma, select, sqrt
from adjoint.kernels.wgsl import Loops, render
from tests.support.helpers import default_device
from tests.support.samples import OPS, TABLE, Sample

COUNT = 500
Hook = Callable[[ad.Tensor], ad.Tensor]
Function = Callable[..., ad.Tensor]  # of tensors, and of what is to be done with those in between


def bits(g: ad.Tensor | None) -> np.ndarray | None:
    """All bits but those that tell NaNs apart."""
    if g is None:
        return None
    values = g.detach().numpy()
    return np.where(np.isnan(values), np.float32(np.nan), values).view(np.uint32)


def unchanged(x: ad.Tensor) -> ad.Tensor:
    return x


def watched(x: ad.Tensor) -> ad.Tensor:
    """A tensor whose gradient is needed as an array."""
    if x.requires_grad:
        x.register_hook(lambda g: None)
    return x


def backward(out: ad.Tensor, leaves: list[ad.Tensor]) -> Sequence:
    out.sum().backward()
    return [x.grad for x in leaves]


def asked(out: ad.Tensor, leaves: list[ad.Tensor], **options: Any) -> Sequence:
    return ad.autograd.grad(out.sum(), leaves, allow_unused=True, **options)


def recorded(out: ad.Tensor, leaves: list[ad.Tensor]) -> Sequence:
    return asked(out, leaves, create_graph=True)


def gradients(
    function: Function, inputs: list[np.ndarray], ask: Callable = backward, hook: Hook = unchanged
) -> list[np.ndarray | None]:
    tensors = [ad.asarray(x, device="webgpu") for x in inputs]
    leaves = [x.requires_grad_() for x in tensors if x.dtype == ad.float32]
    with default_device("webgpu"):
        return [bits(g) for g in ask(function(*tensors, hook=hook), leaves)]


def check_ways(
    function: Function, inputs: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare the first pass of a process with later ones, and with other ways to the same."""
    monkeypatch.setattr(lazy_gradients, "launchers", {})
    first = gradients(function, inputs)
    assert any(g is not None for g in first)
    found = {
        "second": gradients(function, inputs),
        "third": gradients(function, inputs),
        "asked for": gradients(function, inputs, asked),
        "watched": gradients(function, inputs, hook=watched),
        "op by op": gradients(function, inputs, recorded),
    }
    monkeypatch.setattr(chains, "try_postpone", lambda *_: False)
    found["one by one"] = gradients(function, inputs)
    for way, grads in found.items():
        for g, expected in zip(grads, first, strict=True):
            np.testing.assert_array_equal(g, expected, way)


def chain(*functions: Callable) -> Function:
    def call(x: ad.Tensor, hook: Hook) -> ad.Tensor:
        out = hook(x * 1.5)
        for function in functions:
            out = hook(function(out))
        return out

    return call


def shared(x: ad.Tensor, hook: Hook) -> ad.Tensor:
    """Steps that have products, and what is made of them, in common."""
    square = hook(x * x)
    return hook(ad.atan(square + 1)) * square + hook(ad.erf(x) / (1 + square)) - x * square


def cancelled(x: ad.Tensor, hook: Hook) -> ad.Tensor:
    """A gradient that is 0 and keeps its sign."""
    out = hook(ad.hypot(ad.sigmoid(x) * x, x))
    return out - out


# Drivers have rules for each of them: factors that are constants are multiplied in advance, what is
# divided and multiplied by the same is left alone, a common factor is taken out, x - x is 0.
CASES: dict[str, Function] = {
    "erf, square": chain(ad.erf, ad.square),
    "erf, erf": chain(ad.erf, ad.erf),
    "erf, log, sigmoid": chain(ad.erf, lambda x: ad.log(x + 2), ad.sigmoid),
    "exp, reciprocal": chain(ad.exp, ad.reciprocal),
    "tan, atan": chain(lambda x: x * 0.3, ad.tan, ad.atan),
    "sqrt, square": chain(ad.exp, ad.sqrt, ad.square),
    "factors": chain(lambda x: x * 0.7, lambda x: x / 1.3, lambda x: 1.1 - x, ad.sin),
    "shared": shared,
    "cancelled": cancelled,
}


@pytest.mark.webgpu
@pytest.mark.parametrize("name", CASES)
def test_gradients_have_the_same_bits_in_every_pass(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(0).normal(0, 0.7, 4 * COUNT).astype(np.float32)
    check_ways(CASES[name], [x], monkeypatch)


def among_others(sample: Sample) -> Function:
    """A function that goes on from what an op gives, and adds up gradients before and after it."""

    def call(*tensors: ad.Tensor, hook: Hook) -> ad.Tensor:
        inputs = [
            hook(x * hook(0.95 + 0.05 * ad.erf(x))) if x.requires_grad else x for x in tensors
        ]
        out = hook(sample.call(*inputs))
        return hook(ad.sigmoid(out)) * out

    return call


def widened(x: np.ndarray) -> np.ndarray:
    """Many numbers of a domain, from a few of it."""
    many = np.resize(x, COUNT)
    return (many * np.linspace(0.9, 1, COUNT)).astype("f") if x.dtype.kind == "f" else many


ELEMENTWISE = {
    sample.op: sample
    for sample in TABLE
    if OPS[sample.op].kind == "elementwise"
    and OPS[sample.op].differentiable
    and len({x.shape for x in map(np.asarray, sample.inputs())}) == 1
    and all(x.size and x.dtype.kind in "fb" for x in map(np.asarray, sample.inputs()))
}


@pytest.mark.webgpu
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_every_rule_has_the_same_bits_among_others(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = ELEMENTWISE[name]
    inputs = [widened(np.asarray(x)) for x in sample.inputs()]
    check_ways(among_others(sample), inputs, monkeypatch)


X, Y, Z = (element(k, F32) for k in range(3))

KEPT_APART: dict[str, tuple[Value, int]] = {
    "a sum": (X + Y, 0),
    "a sum of sums": ((X + Y) - (Y + Z), 2),
    "a product and a sum, which could be rounded once": (X * Y + Z, 1),
    "a product of products": (X * Y * Z, 1),
    "a quotient that is multiplied": (X / Y * Y, 1),
    "a product of a sum, which could be multiplied out": ((X + 1) * Y, 1),
    "products with a common factor": (X * Y + X * Z, 2),
    "roots": (sqrt(X) * sqrt(X), 1),
    "what is taken from itself": (X + -X, 1),
    "a product that is chosen": (select(X < 0, X * Y, Z) * Z, 1),
    "a sum that is compared": (select(X + 1 < 2, Y, Z), 1),
    "a polynomial": (fma(fma(fma(X, Y, 1), Y, 2), Y, 3), 0),
    "two polynomials": (fma(X, Y, fma(X, Z, 1)), 1),
    "a polynomial of a product": (fma(X * Y, Z, 1), 1),
}


@pytest.mark.parametrize("name", KEPT_APART)
def test_operations_are_kept_apart(name: str) -> None:
    value, count = KEPT_APART[name]
    text = render(Kernel([value]), Loops(flat=True), 64)
    assert text.body.count("opaque(") == count
    assert ("nothing" in text.words) == (count > 0)
