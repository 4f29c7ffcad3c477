"""Tensors that require grad in place of numbers: their gradients flow, or an error says why not."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F
from tests.support.helpers import close, leaf
from tests.support.neural_cases import CASES, Case

X = np.array([0.5, -1.3, 2.0])

# Functions of numbers v, and what they are of Python numbers.
FLOWING: dict[str, tuple[Callable, tuple[float, ...]]] = {
    "arange's start": (lambda v: ad.arange(v, 4.0, dtype=ad.float64), (0.7,)),
    "arange's step": (lambda v: ad.arange(0.0, 3.0, v, dtype=ad.float64), (0.7,)),
    "arange's start and step": (lambda v, w: ad.arange(v, -4.0, w, dtype=ad.float64), (0.3, -0.7)),
    "an empty arange": (lambda v: ad.arange(v, 0.0, dtype=ad.float64), (0.7,)),
    "linspace's start": (lambda v: ad.linspace(v, 4.0, 5, dtype=ad.float64), (0.7,)),
    "linspace's stop": (
        lambda v: ad.linspace(1, v, 5, endpoint=False, dtype=ad.float64),
        (0.7,),
    ),
    "linspace's start and stop": (lambda v, w: ad.linspace(v, w, 4, dtype=ad.float64), (0.7, -2.0)),
    "one of linspace": (lambda v: ad.linspace(v, 2.0, 1, dtype=ad.float64), (0.7,)),
    "full": (lambda v: ad.full((2, 3), v), (0.7,)),
    "full_like": (lambda v: ad.full_like(X, v), (0.7,)),
    "pad": (lambda v: ad.pad(ad.asarray(X), (1, 2), constant_values=v), (0.7,)),
    "pad by several": (
        lambda v, w: ad.pad(
            ad.ones((2, 3), dtype=ad.float64), 1, constant_values=((v, 2.0), (w, v))
        ),
        (0.7, -0.3),
    ),
    "clip": (lambda v, w: ad.clip(ad.asarray(X), v, w), (-0.3, 1.1)),
    "where": (lambda v: ad.where(ad.asarray(X) > 0, v, ad.asarray(X)), (0.7,)),
    "random.uniform": (
        lambda v, w: ad.random.Generator(0).uniform((4,), v, w, dtype=ad.float64),
        (-1.0, 2.0),
    ),
    "random.normal": (
        lambda v, w: ad.random.Generator(0).normal((4,), v, w, dtype=ad.float64),
        (-1.0, 2.0),
    ),
    "add_'s alpha": (lambda v: ad.ones(3, dtype=ad.float64).add_(ad.asarray(X), alpha=v), (1.0,)),
    "sub_'s alpha": (lambda v: ad.ones(3, dtype=ad.float64).sub_(ad.asarray(X), alpha=v), (1.0,)),
    "fill_": (lambda v: ad.ones(3, dtype=ad.float64).fill_(v), (0.7,)),
    "clamp_": (lambda v: ad.asarray(X).clamp_(v, 1.1), (-0.3,)),
    "BCELoss": (lambda v: nn.BCELoss(weight=v)(ad.asarray(X / 5 + 0.4), ad.zeros(3)), (0.7,)),
}
each = pytest.mark.parametrize(("f", "numbers"), FLOWING.values(), ids=FLOWING)


@each
def test_gradients_flow_to_numbers(f: Callable, numbers: tuple[float, ...]) -> None:
    ad.testing.check_grads(f, [np.array(x) for x in numbers], order=2)


@each
def test_values_are_those_of_numbers(f: Callable, numbers: tuple[float, ...]) -> None:
    close(f(*(leaf(x) for x in numbers)), f(*map(np.float64, numbers)).numpy(), 1e-15)


REFUSED: dict[str, tuple[Callable[[Any], Any], type, str]] = {
    "uniform_": (lambda v: nn.init.uniform_(ad.zeros(2), v), ad.GradientError, r"detach\(\)"),
    "normal_": (lambda v: nn.init.normal_(ad.zeros(2), 0.0, v), ad.GradientError, r"detach\(\)"),
    "sparse_": (lambda v: nn.init.sparse_(ad.zeros((2, 2)), 0.5, v), ad.DTypeError, "std"),
    "constant_": (lambda v: nn.init.constant_(ad.zeros(2), v), ad.DTypeError, "val"),
    "matrix_norm": (lambda v: ad.linalg.matrix_norm(ad.eye(2), ord=v), ad.ArgumentError, "ord"),
    "ignore_index": (
        lambda v: F.cross_entropy(ad.eye(2), ad.arange(2), ignore_index=v),
        ad.DTypeError,
        "ignore_index must be an integer",
    ),
    "pad's edges": (
        lambda v: ad.pad(ad.ones(2), 1, "edge", constant_values=v),
        ad.ArgumentError,
        "constant_values go with mode 'constant', not 'edge'",
    ),
    "complex linspace": (lambda v: ad.linspace(v, 1j, 3), ad.DTypeError, "complex"),
}


@pytest.mark.parametrize(("call", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_numbers_without_a_gradient_are_refused(call: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        call(leaf(1.0, np.float32))


def numbers_of(case: Case) -> list[str]:
    return [
        name
        for name, value in case.options.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]


WITH_NUMBERS = [case for case in CASES if numbers_of(case)]


@pytest.mark.parametrize("case", WITH_NUMBERS, ids=[case.id for case in WITH_NUMBERS])
def test_numbers_among_options_have_gradients_or_are_refused(case: Case) -> None:
    for name in numbers_of(case):
        v = leaf(float(case.options[name]))
        given = [ad.asarray(a) for a in case.given]
        try:
            out = case.call(getattr(F, case.function), case.options | {name: v}, given)
        except (ad.AdjointError, TypeError):
            continue
        ad.sum(out).backward()
        assert v.grad is not None, name


def test_ends_of_linspace_may_be_traced_or_batched() -> None:
    v = ad.tensor([1.0, 3.0])
    close(ad.vmap(lambda a: ad.linspace(a, 4.0, 3))(v), np.linspace(v.numpy(), 4, 3).T, 1e-6)
    traced = ad.trace(lambda a: ad.linspace(0.0, a, 3), ad.tensor(1.0))
    close(traced(ad.tensor(4.0)), [0, 2, 4])
    close(ad.linspace(ad.tensor(1j), 1, 3), [1j, 0.5 + 0.5j, 1])  # nothing of it is discarded
    with pytest.raises(ad.TraceError, match="aren't known"):
        ad.trace(lambda a: ad.arange(a, 4.0), ad.tensor(1.0))


def test_constants_of_padding_may_be_traced_or_batched() -> None:
    x, v = ad.reshape(ad.arange(6.0), (2, 3)), ad.tensor([7.0, 8.0])
    found = ad.vmap(lambda a: ad.pad(x, 1, constant_values=a))(v)
    expected = [np.pad(x.numpy(), 1, constant_values=c) for c in (7, 8)]
    close(found, np.stack(expected))
    pairs = ((1.0, 2.0), (3.0, 4.0))
    found = ad.pad(x, ((1, 0), (2, 1)), constant_values=ad.tensor(pairs))
    close(found, np.pad(x.numpy(), ((1, 0), (2, 1)), constant_values=pairs))


def test_numbers_are_only_numbers_without_recording() -> None:
    v: Any = leaf(1.0)
    with ad.no_grad():
        assert not ad.arange(v, 4.0).requires_grad and not ad.linspace(v, 4.0, 3).requires_grad
        close(nn.init.normal_(ad.zeros(2), v, 0.0), [1, 1])
    assert ad.arange(v, 4.0, dtype=ad.int64).tolist() == [1, 2, 3]
    assert ad.arange(ad.tensor(3)).tolist() == [0, 1, 2]
