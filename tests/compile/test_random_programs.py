"""Random programs, compiled, against eager runs of them on states of their own."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import adjoint as ad
from tests.compile.programs import Program, State, programs
from tests.compile.twins import copied, without_thresholds
from tests.support.helpers import needs_kernels

pytestmark = needs_kernels


@pytest.fixture
def kernels_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    without_thresholds(monkeypatch)


class Runs:
    """What a program gives in calls one after the other, and what is left of its state each time;
    `exact` runs in float64."""

    def __init__(self, program: Program, is_compiled: bool, wide: bool = False) -> None:
        ad.random.seed(1)
        dtype = ad.float64 if wide else getattr(ad, program.dtype)
        self.state = State(dtype, program.shape)

        def function(x: Any) -> Any:
            return program.run(self.state, x)

        call = ad.compile(function) if is_compiled else function
        self.found = []
        for k in range(3):
            size = program.shape[0] * program.shape[1]
            numbers = np.linspace(-1.5, 1 + k, size).reshape(program.shape)
            x = ad.astype(ad.asarray(numbers), dtype)
            out = call(x)
            state = [*self.state.arrays(), ad.random.get_state().numpy()]
            self.found.append([*leaves(copied(out)), *state])
        self.programs = [x for _, x in call._programs] if is_compiled else []  # type: ignore


def leaves(x: Any) -> list[Any]:
    if isinstance(x, dict):
        x = list(x.values())
    return [leaf for part in x for leaf in leaves(part)] if isinstance(x, list) else [x]


def check(program: Program) -> None:
    compiled, eager = Runs(program, True), Runs(program, False)
    assert 1 <= len(compiled.programs) <= 3
    for one in compiled.programs:
        assert one.eager or one.built.code.arena <= one.built.eager_peak
    if program.is_exact:
        for one, other in zip(compiled.found, eager.found, strict=True):
            assert bits(one) == bits(other)
        return
    wide = Runs(program, False, wide=True)
    for rows in zip(compiled.found, eager.found, wide.found, strict=True):
        for x, y, truth in zip(*rows, strict=True):
            check_near(x, y, truth)


def bits(values: list[Any]) -> list[Any]:
    return [(x.shape, x.dtype, x.tobytes()) if isinstance(x, np.ndarray) else x for x in values]


def check_near(x: Any, y: Any, truth: Any) -> None:
    if not isinstance(x, np.ndarray) or x.dtype.kind != "f":
        assert bits([x]) == bits([y])
        return
    assert (x.shape, x.dtype) == (y.shape, y.dtype)
    if x.size:
        size = float(np.max(np.abs(truth)))
        allowed = 2 * float(np.max(np.abs(y - truth))) + float(np.spacing(x.dtype.type(size)))
        if x.dtype == np.float64:
            allowed += 64 * float(np.spacing(size))  # there is nothing to tell eager's error by
        np.testing.assert_allclose(x, truth, 0, allowed)


@pytest.mark.usefixtures("kernels_for_all")
@settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(programs())
def test_random_programs_are_those_of_eager(program: Program) -> None:
    check(program)


@settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(programs(), st.integers(0, 7))
def test_random_programs_that_fail_change_nothing(program: Program, number: int) -> None:
    """An index out of range comes after all else; the error is eager's."""
    state = State(getattr(ad, program.dtype), program.shape)
    generator = ad.random.get_state()

    def function(x: Any, k: Any) -> Any:
        out = program.run(state, x)
        return out, state.weight.detach()[k]

    call, x = ad.compile(function), ad.ones(program.shape, dtype=getattr(ad, program.dtype))
    call(x, ad.asarray([0, 2]))
    if state.weight.grad is None:
        call(x, ad.asarray([1, 2]))
    before, random_state = state.arrays(), ad.random.get_state().numpy()
    with pytest.raises(ad.IndexingError) as found:
        call(x, ad.asarray([0, program.shape[0] + number]))
    now = state.arrays()
    assert bits(now) == bits(before)
    np.testing.assert_array_equal(ad.random.get_state().numpy(), random_state)
    with pytest.raises(ad.IndexingError) as expected:
        function(x, ad.asarray([0, program.shape[0] + number]))
    assert str(found.value) == str(expected.value)
    ad.random.set_state(generator)
