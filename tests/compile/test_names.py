"""Names that come to mean something else, and what a function leaves behind."""

import asyncio
import gc
import warnings
from collections import deque
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint._compile.names import names_of
from tests.support.helpers import needs_kernels

pytestmark = needs_kernels
X = ad.ones(2)


class Scale(ad.nn.Module):
    def __init__(self, value: float) -> None:
        super().__init__()
        self.w = ad.nn.Parameter(ad.full((2,), value))
        self.own = self.forward  # a cycle: it lives until garbage is collected

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        return x * self.w


model = Scale(1.0)


def through_a_global(x: ad.Tensor) -> ad.Tensor:
    return model(x)


def through_a_function(x: ad.Tensor) -> ad.Tensor:
    return sum(through_a_global(y) for y in (x, x))  # type: ignore[return-value]


@pytest.mark.parametrize(
    "function", [through_a_global, partial(through_a_function), ad.grad(lambda x: model(x).sum())]
)
def test_a_global_that_is_another_module_is_seen(function: Any) -> None:
    global model
    compiled, found = ad.compile(function), []
    with ad.no_grad():
        for value in (1.0, 1.0, 5.0, 5.0):
            if value != model.w[0].item():
                former, model = model, Scale(value)
            found.append(compiled(X).tolist())
            assert found[-1] == function(X).tolist()
    assert found[0] != found[-1] and len(compiled._programs) == 2
    model = former


def test_variables_of_closures_and_optimizers_are_seen() -> None:
    w, u = (ad.tensor([1.0], requires_grad=True) for _ in range(2))
    optimizer = ad.optim.SGD([w], lr=0.5)

    @ad.compile
    def step() -> None:
        optimizer.zero_grad()
        (w * u).sum().backward()
        optimizer.step()

    step()
    kept, optimizer = optimizer, ad.optim.SGD([u], lr=0.25)
    step()
    assert (w.tolist(), u.tolist()) == ([0.5], [0.875]) and kept is not optimizer


def test_a_warning_names_what_keeps_changing() -> None:
    w = ad.ones(2)
    f = ad.compile(lambda x: x * w)
    kept = []
    with pytest.warns(RuntimeWarning, match="w is another one"):
        for k in range(10):
            assert f(X).tolist() == [k + 1.0] * 2
            kept.append(w)
            w = w + 1.0


def test_names_are_looked_for_in_what_functions_call() -> None:
    inner = partial(lambda x: model(x))

    def function(x: ad.Tensor) -> Any:
        return [(lambda y: inner(y))(x) for _ in range(2)]

    assert [name for name, _, _ in names_of(ad.compile(function))] == ["model"]
    assert names_of(print) == names_of(3) == names_of(ad.nn.ReLU()) == []


# What is left behind.

KEPT: list = []
PLACE = SimpleNamespace(value=None)


class Pair:
    def __init__(self, x: ad.Tensor) -> None:
        self.x = x


def kept_in_a_global(x: ad.Tensor) -> None:
    global KEPT
    KEPT = [x * 2.0]


def kept_in_an_attribute(x: ad.Tensor) -> ad.Tensor:
    PLACE.value = x * 2.0
    return PLACE.value


@pytest.mark.parametrize(
    "function",
    [
        kept_in_a_global,
        kept_in_an_attribute,
        lambda x: Pair(x * 2.0),
        lambda x: partial(ad.add, x * 2.0),
        lambda x: KEPT.append(x * 2.0),
    ],
)
def test_tensors_without_values_are_not_left_behind(function: Any) -> None:
    with pytest.raises(ad.TraceError, match=r"made by multiply.*Return it"):
        ad.compile(function)(X)
    KEPT.clear()


def test_garbage_may_know_tensors() -> None:
    def function(x: ad.Tensor) -> ad.Tensor:
        cycle: list = [x * 2.0]
        cycle.append(cycle)
        return cycle[0] + 1.0

    gc.disable()
    try:
        assert ad.compile(function)(X).tolist() == [3.0, 3.0]
    finally:
        gc.enable()


async def coroutine(x: ad.Tensor) -> ad.Tensor:
    return x * 2.0


@pytest.mark.parametrize(
    "function",
    [lambda x: (y for y in (x, x)), lambda x: map(ad.exp, [x]), lambda x: iter([1]), coroutine],
)
def test_what_runs_later_is_refused(function: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ad.TraceError, match="would run once, and later"):
            ad.compile(function)(X)
    assert asyncio.run(coroutine(X)).tolist() == [2.0, 2.0]


def test_arrays_of_numpy_that_a_function_makes_are_others_at_each_call() -> None:
    f = ad.compile(lambda x: (x * 2.0, np.zeros(2)))
    f(X)[1][0] = 7.0
    assert f(X)[1].tolist() == [0.0, 0.0]


def test_changes_of_containers_among_the_arguments_are_errors() -> None:
    def append(x: ad.Tensor, out: list) -> None:
        out.append(x * 2.0)

    def store(given: dict) -> None:
        given["inner"]["y"] = given["x"] * 2.0

    with pytest.raises(ad.TraceError, match="argument 1, a list, is changed"):
        ad.compile(append)(X, [])
    with pytest.raises(ad.TraceError, match=r"given.*inner.*, a dict, is changed"):
        ad.compile(store)(given={"x": X, "inner": {}})
    read = ad.compile(lambda given: given["x"][0] * dict(given, y=2.0)["y"])
    assert read({"x": (X, X)}).tolist() == [2.0, 2.0]


class Counting(ad.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.counts, self.latest = {"calls": [0]}, deque([1.0], 3)

    def forward(self, x: ad.Tensor, nested: bool) -> ad.Tensor:
        if nested:
            self.counts["calls"].append(1)
        else:
            self.latest.append(2.0)
        return x * 2.0


@pytest.mark.parametrize("nested", [True, False])
def test_containers_in_containers_and_queues_are_as_they_were(nested: bool) -> None:
    model = Counting()
    with pytest.raises(ad.TraceError, match="is changed in the function"):
        ad.compile(model)(X, nested)
    assert (model.counts, list(model.latest)) == ({"calls": [0]}, [1.0])
