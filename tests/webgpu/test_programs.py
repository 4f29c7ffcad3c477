"""Programs are WGSL as the standard has it, so that other compilers than wgpu's take them too."""

import functools
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import backends
from tests.support.samples import OPS, TABLE
from tests.webgpu.tensors import results
from tests.webgpu.wgsl_grammar import misplaced_operators

REFUSED = (
    "a & b >> c",
    "a << b + c",
    "a << b << c",
    "a & b == c",
    "a | b & c",
    "a ^ b | c",
    "a < b == c",
    "a && b || c",
    "a < b && c & d",
    "f(x)[a + b << c]",
    "return (a | b) & c + 1u",
)
TAKEN = (
    "(a & b) >> c",
    "a << (b + c)",
    "a & b & c",
    "a < b << c",
    "a + b * c < d - e && f",
    "a || b == c || !d",
    "a == 1u && (b & c) == 0u",
    "x = -a & ~b; y += c | d;",
    "f(a & b, c | d, &e, -1.5e-3 * 0x1p-3)",
    "array<vec4<f32>, 4>(a, b)[c] > bitcast<f32>(d)",
    "if (a < b) { return c & d; }  // a & b == c",
    "for (var i = a; i < b; i += c) { d <<= e + f; }",
)


@pytest.mark.parametrize("text", REFUSED)
def test_operators_that_cant_stand_side_by_side_are_found(text: str) -> None:
    assert len(misplaced_operators(text)) == 1


@pytest.mark.parametrize("text", TAKEN)
def test_operators_that_can_are_let_be(text: str) -> None:
    assert misplaced_operators(text) == []


found = functools.cache(misplaced_operators)


def check_programs() -> None:
    """Look at all that has been compiled so far."""
    gpu = backends.backend("webgpu").gpu  # type: ignore[attr-defined]
    assert [(p.name, found(p.text)) for p in gpu.pipelines if found(p.text)] == []


@pytest.mark.webgpu
@pytest.mark.parametrize("kind", sorted({op.kind for op in OPS.values()}))
def test_programs_of_ops_and_their_rules_keep_to_the_standard(kind: str) -> None:
    for sample in TABLE:
        if OPS[sample.op].kind == kind:
            with suppress(ad.DeviceError, ad.DTypeError):  # complex numbers
                results(sample, "webgpu")
    check_programs()


def normal(*shape: int) -> ad.Tensor:
    values = np.random.default_rng(0).standard_normal(shape).astype("f")
    return ad.tensor(values, device="webgpu", requires_grad=True)


def definite(n: int) -> ad.Tensor:
    x = normal(n, n).detach()
    return x @ x.mT + n * ad.eye(n, device="webgpu")


# Large arrays take programs of their own.
LARGE: dict[str, Callable[[], ad.Tensor]] = {
    "products": lambda: normal(200, 100) @ normal(100, 200),
    "long products": lambda: normal(4, 9000) @ normal(9000, 4),
    "convolutions": lambda: F.conv2d(normal(8, 4, 40, 40), normal(4, 4, 3, 3)),
    "running products": lambda: ad.cumulative_prod(normal(1 << 17)),
    "running sums": lambda: ad.cumulative_sum(normal(1 << 17)),
    "sorted numbers": lambda: ad.sort(normal(1 << 14)),
    "long rows": lambda: ad.softmax(normal(1 << 17), axis=0),
    "factors": lambda: ad.linalg.cholesky(definite(200).requires_grad_()),
    "solutions": lambda: ad.linalg.solve(definite(200).requires_grad_(), normal(200, 200)),
}


@pytest.mark.webgpu
@pytest.mark.parametrize("software", [True, False])
@pytest.mark.parametrize("name", LARGE)
def test_programs_for_large_arrays_keep_to_the_standard(
    name: str, software: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = backends.backend("webgpu").gpu  # type: ignore[attr-defined]
    features = gpu.target.features - {"software"} | ({"software"} if software else set())
    monkeypatch.setattr(gpu, "target", gpu.target._replace(features=features))
    LARGE[name]().sum().backward()
    check_programs()
