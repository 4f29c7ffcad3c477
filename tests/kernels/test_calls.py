"""Public functions on large arrays: with and without kernels, on any number of threads."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.backends.cpu import FUNCTIONS, NUMPY, table, thresholds
from adjoint.backends.cpu.lowering.expressions import CHUNK
from adjoint.backends.cpu.lowering.ops import lowering_of
from tests.kernels import calls
from tests.kernels.cases import LARGE
from tests.support import processes
from tests.support.arrays import normal
from tests.support.fast_forms import FAST
from tests.support.helpers import as_tuple, leaf, needs_kernels

pytestmark = needs_kernels


@pytest.fixture(scope="module")
def without_kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """The results of the calls in a process that has no compiler."""
    file = tmp_path_factory.mktemp("calls") / "results.npz"
    return processes.without_kernels(calls.__name__, file)


@pytest.fixture(scope="module")
def with_kernels() -> dict[str, np.ndarray]:
    return calls.results()


@pytest.mark.parametrize("name", calls.CALLS)
def test_calls_give_the_same_with_and_without_kernels(
    name: str, with_kernels: dict, without_kernels: dict
) -> None:
    for key in (f"{name}, f4", f"gradient of {name}, f4", f"{name}, f8", f"gradient of {name}, f8"):
        out, expected = with_kernels[key], without_kernels[key]
        assert (out.shape, out.dtype) == (expected.shape, expected.dtype)
        limit = 64 * np.finfo(out.dtype).eps * np.abs(expected).max()
        np.testing.assert_allclose(out, expected, rtol=0, atol=limit, err_msg=key)


IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "+=": lambda x, y: x.__iadd__(y),
    "-=": lambda x, y: x.__isub__(y),
    "*=": lambda x, y: x.__imul__(y),
    "/=": lambda x, y: x.__itruediv__(y),
}


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize("share", [None, lambda x: x.mT, lambda x: x[1:], lambda x: x * 1])
def test_changes_in_place_reach_nobody_else(name: str, share: Callable | None) -> None:
    start, other = normal(260, 270, dtype="f8"), normal(260, 270, dtype="f8", seed=1)
    x = ad.asarray(start) * 1.0
    shared = None if share is None else share(x)
    before = None if shared is None else shared.numpy().copy()
    address = x.raw.__array_interface__["data"][0]
    changed = IN_PLACE[name](x, ad.asarray(other))
    np.testing.assert_array_equal(changed.numpy(), IN_PLACE[name](start.copy(), other))
    if shared is None:
        assert changed.raw.__array_interface__["data"][0] == address
    else:
        np.testing.assert_array_equal(shared.numpy(), before)


@pytest.mark.parametrize("side", [30, 60, 110, 260])  # around all limits
@pytest.mark.parametrize("turned", [False, True])
def test_adding_a_multiple_doesnt_depend_on_who_shares_the_memory(side: int, turned: bool) -> None:
    other = ad.asarray(normal(side, side, seed=1))
    other = other.mT if turned else other
    alone, shared = (ad.asarray(normal(side, side)) * 1.0 for _ in range(2))
    view = shared[:]
    for x in (alone, shared):
        x.add_(other, alpha=0.1234567)
    assert view.shape == shared.shape
    np.testing.assert_array_equal(alone.numpy(), shared.numpy())


def test_a_value_whose_trace_has_ended_isnt_computed_with() -> None:
    kept: list[ad.Tensor] = []
    ad.trace(kept.append, ad.ones(LARGE))
    for use in (
        ad.sin,
        ad.sum,
        lambda x: ad.ones(LARGE) * x,
        lambda x: ad.where(True, ad.ones(LARGE), x),
    ):
        with pytest.raises(ad.TraceError, match="after its trace ended"):
            use(kept[0])


def test_a_value_saved_for_backward_survives_a_change_in_place() -> None:
    x = leaf(normal(LARGE + 5))
    y = ad.exp(x)
    z = y * 1.0
    y += 1.0
    z.sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), np.exp(x.detach().numpy()), rtol=1e-14)


def test_gradients_of_gradients_of_large_arrays() -> None:
    x = leaf(normal(LARGE + 5))
    (g,) = ad.autograd.grad((ad.tanh(x) * x).sum(), x, create_graph=True)
    assert g is not None
    (second,) = ad.autograd.grad(g.sum(), x)
    assert second is not None
    t = np.tanh(x.detach().numpy())
    expected = 2 * (1 - t * t) * (1 - x.detach().numpy() * t)
    np.testing.assert_allclose(second.numpy(), expected, rtol=1e-12, atol=1e-14)


# Threads.


def long_map() -> Any:
    return FAST["exp"](normal(5 * CHUNK + 3))


def strided_map() -> Any:
    x = normal(7, 2 * CHUNK + 6)
    return FAST["subtract"](x[:, ::2], x[:, :1])


def long_sums() -> Any:
    x = normal(20 * CHUNK + 11, dtype="f8")
    return [FAST["sum"](a, axis=None, keepdims=False) for a in (x, x.astype("f4"))]


def sums_of_columns() -> Any:
    x = normal(6 * CHUNK, 7)
    return [FAST["sum"](x, axis=(k,), keepdims=False) for k in (0, 1)]


def several_rows() -> Any:
    x = normal(301, 401)
    return [FAST["softmax"](x, axis=0), FAST["log_softmax"](x, axis=1)]


def standardized() -> Any:
    x = normal(40, 30, 50)
    return FAST["standardize"](x, axis=(0, 2), eps=1e-5, center=True)


def training_step() -> Any:
    """The gradients of a small network whose layers have more elements than the limit."""
    x, target = ad.asarray(normal(260, 128)), ad.asarray(np.arange(260) % 10)
    weights = [leaf(0.1 * normal(n, m), "f4") for n, m in ((128, 270), (270, 270), (270, 10))]
    bias, scale = leaf(normal(270), "f4"), leaf(1 + 0.1 * normal(270), "f4")
    hidden = ad.nn.functional.gelu(x @ weights[0] + bias)
    hidden = ad.nn.functional.layer_norm(hidden, (270,), scale, bias)
    hidden = hidden + ad.tanh(hidden @ weights[1]) * ad.sigmoid(hidden)
    ad.nn.functional.cross_entropy(ad.softmax(hidden, axis=-1) @ weights[2], target).backward()
    return [x.grad.numpy() for x in (*weights, bias, scale) if x.grad is not None]


WORK = (
    long_map,
    strided_map,
    long_sums,
    sums_of_columns,
    several_rows,
    standardized,
    training_step,
)


@pytest.mark.parametrize("work", WORK, ids=lambda work: work.__name__)
def test_results_dont_depend_on_the_number_of_threads(work: Callable, threads: Callable) -> None:
    results = []
    for count in (1, 2, 3, 5):
        threads(count)
        results.append([np.asarray(out).tobytes() for out in as_tuple(work())])
    assert results[1:] == results[:-1]


@pytest.mark.parametrize("name", sorted(table.LOWERED | table.HOSTED))
def test_a_mark_names_a_function_and_a_threshold(name: str) -> None:
    form = (table.LOWERED | table.HOSTED)[name]
    assert isinstance(getattr(thresholds, form.least), int)
    found = lowering_of(name) if name in table.LOWERED else FAST[name]
    assert found is not NUMPY[name]
    room = "lowering" if name in table.LOWERED else "host"
    assert found.__module__.startswith(f"adjoint.backends.cpu.{room}.")


def test_thresholds_are_asked_when_an_op_runs(
    chunks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = normal(100, dtype="f4")
    FUNCTIONS["softmax"](x, axis=0)
    assert not chunks
    monkeypatch.setattr(thresholds, "ELEMENTS", 1)
    FUNCTIONS["softmax"](x, axis=0)
    assert chunks
