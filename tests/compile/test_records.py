"""Every record of the tables of samples, compiled: values and gradients are as right as eager's.

What is right is told by float64: eager's float32 results, and compiled ones, are compared with
eager's of the same numbers in float64. In float64 itself eager's error is taken to be as many units
of the last digit as in float32.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from adjoint._compile.compiled import CompiledFunction
from tests.kernels import lowering_cases
from tests.support import neural_cases, records, samples
from tests.support.helpers import as_tuple, needs_kernels, values

pytestmark = needs_kernels
F = ad.nn.functional

# What depends on values in its shape, and therefore can't be recorded.
REFUSED = {"nonzero", "unique", "repeat"}
# The terms of their gradients cancel: errors are those of far larger numbers.
ORTHOGONAL = {"eig", "eigh", "qr", "svd"}


class Case(NamedTuple):
    """A function of tensors, and where it is tried. Functions are made of ops, which are tried in
    both dtypes: they take turns."""

    id: str
    call: Callable
    arrays: Callable[[], list[np.ndarray]]
    differentiable: bool = True
    op: str = ""
    turn: str = "f4"


def of_op(sample: samples.Sample) -> Case:
    op = samples.OPS[sample.op]
    return Case(sample.id, sample.call, sample.inputs, op.differentiable, op.name)


def of_function(record: records.Record) -> Case:
    name = f"{record.name}-{record.case}"
    return Case(name, lambda *xs: record.call(records.ADJOINT, *xs), lambda: record.arrays)


def of_network(case: neural_cases.Case) -> Case:
    function = getattr(F, case.function)
    return Case(
        case.id, lambda *xs: case.call(function, case.options, list(xs)), lambda: case.given
    )


def in_turn(cases: list[Case]) -> list[Case]:
    return [case._replace(turn=("f4", "f8")[k % 2]) for k, case in enumerate(cases)]


SAMPLES = [of_op(x) for x in samples.TABLE if not samples.OPS[x.op].dynamic_shape]
FUNCTIONS = in_turn([of_function(x) for x in records.TABLE if x.traces])
NETWORKS = in_turn([of_network(x) for x in neural_cases.CASES])
DYNAMIC = [of_op(x) for x in samples.TABLE if samples.OPS[x.op].dynamic_shape]
DYNAMIC += [of_function(x) for x in records.TABLE if not x.traces]


def size(case: Case) -> int:
    return sum(a.size for a in case.arrays())


# One record of each op that has gradients.
LARGEST = {case.op: case for case in sorted(SAMPLES, key=size) if case.differentiable}.values()


def each(cases: Iterable[Case]) -> Any:
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.id)


WEIGHTS = np.random.default_rng(0).standard_normal(997).astype("f4")

# Running.


def forward(case: Case) -> Callable:
    return lambda *xs: as_tuple(case.call(*xs))


def with_gradients(case: Case) -> Callable:
    """The results, and the gradients of a weighted sum of them."""

    def function(*xs: ad.Tensor) -> tuple:
        own = [x.detach().requires_grad_() if x.dtype.kind == "float" else x for x in xs]
        leaves = [x for x in own if x.requires_grad]
        outs = as_tuple(case.call(*own))
        roots = [out for out in outs if out.requires_grad]
        if not roots:
            return outs
        weights = [weight(out) for out in roots]
        grads = ad.autograd.grad(roots, leaves, weights, allow_unused=True)
        return (*[out.detach() for out in outs], *grads)

    return function


def weight(out: ad.Tensor) -> ad.Tensor:
    """The same numbers in float32 and in float64."""
    numbers = np.resize(WEIGHTS, out.shape).astype(out.dtype.name)
    return ad.asarray(numbers)


def inputs(case: Case, factor: float) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The same numbers in float32 and in float64."""
    single = [a.astype("f4") * np.float32(factor) if is_real(a) else a for a in case.arrays()]
    return single, [a.astype("f8") if is_real(a) else a for a in single]


def is_real(a: np.ndarray) -> bool:
    return a.dtype.kind == "f"


def ran(function: Callable, arrays: list[np.ndarray]) -> list[Any]:
    return [None if x is None else values(x) for x in function(*map(ad.asarray, arrays))]


def program_of(compiled: CompiledFunction) -> Any:
    """Its only program, which isn't one that runs eagerly."""
    assert not compiled._eager
    ((_, program),) = compiled._programs
    assert not program.eager
    return program


# Comparing.


class Run(NamedTuple):
    """What eager gives for the same numbers in float32 and in float64, which is the truth."""

    inputs: dict[str, list[np.ndarray]]
    eager: list[Any]
    truth: list[Any]

    @classmethod
    def of(cls, function: Callable, single: list[np.ndarray], double: list[np.ndarray]) -> "Run":
        return cls({"f4": single, "f8": double}, ran(function, single), ran(function, double))

    def error(self) -> float:
        """Eager's in float32. Rounding alone costs half a unit, if it isn't right by luck."""
        pairs = [(x, y) for x, y in zip(self.eager, self.truth, strict=True) if has_digits(x)]
        return max([0.5, *(distance(x, y) for x, y in pairs)])

    def check(self, compiled: CompiledFunction, dtype: str, error: float) -> None:
        """In float64 the bound is that of two results which are both off."""
        single = dtype == "f4"
        results = ran(compiled, self.inputs[dtype])
        bound = (2 if single else 3) * error + 1
        expected = self.eager if single else self.truth
        for x, y, truth in zip(results, expected, self.truth, strict=True):
            compare(x, y, truth, bound)


def compare(x: Any, eager: Any, truth: Any, bound: float) -> None:
    assert kind(x) == kind(eager)
    if not has_digits(x):
        np.testing.assert_array_equal(x, eager)
        return
    np.testing.assert_array_equal(np.isfinite(x), np.isfinite(eager))
    assert distance(x, truth) <= bound


def kind(x: Any) -> Any:
    return None if x is None else (x.shape, x.dtype)


def has_digits(x: Any) -> bool:
    return x is not None and x.dtype.kind in "fc"


def distance(x: np.ndarray, y: np.ndarray) -> float:
    """The largest difference, in units of the last digit of the largest number in x."""
    finite = np.isfinite(x) & np.isfinite(y)
    x, y = x[finite], y[finite]
    largest = np.abs(x).max(initial=0)
    return float(np.abs(x - y).max(initial=0) / np.spacing(largest))


def check(case: Case, make: Callable[[Case], Callable], *dtypes: str) -> None:
    """Twice, so that the second run is that of a program which is there. What eager's error is
    three runs say: a single one may be lucky."""
    function = make(case)
    with np.errstate(all="ignore"):
        runs = [Run.of(function, *inputs(case, factor)) for factor in (1, 0.97, 0.94)]
        error = max(run.error() for run in runs) * (3 if case.op in ORTHOGONAL else 1)
        for dtype in dtypes:
            compiled = ad.compile(function)
            for run in runs[:2]:
                run.check(compiled, dtype, error)
            program_of(compiled)


@each(SAMPLES)
def test_ops_and_their_gradients(case: Case) -> None:
    check(case, with_gradients if case.differentiable else forward, "f4", "f8")


@each(LARGEST)
def test_ops_without_gradients(case: Case) -> None:
    check(case, forward, "f4")


@each(FUNCTIONS)
def test_functions_and_their_gradients(case: Case) -> None:
    check(case, with_gradients, case.turn)


@each(NETWORKS)
def test_functions_of_networks_and_their_gradients(case: Case) -> None:
    check(case, with_gradients, case.turn)


@each(DYNAMIC)
def test_shapes_that_depend_on_values_are_refused(case: Case) -> None:
    args = [ad.asarray(a) for a in case.arrays()]
    case.call(*args)
    with pytest.raises(ad.TraceError, match=rf"^compile: ({'|'.join(REFUSED)}): .*at \w+.py:"):
        ad.compile(forward(case))(*args)


def test_only_these_are_refused() -> None:
    assert {op for op in samples.OPS if samples.OPS[op].dynamic_shape} <= REFUSED


FLOATING = [op for op in lowering_cases.ELEMENTWISE if not op.startswith("bitwise")]


@pytest.mark.parametrize("op", FLOATING)
def test_elementwise_ops_give_the_bits_that_eager_s_kernels_give(op: str) -> None:
    """As part of a larger kernel too. Of few numbers eager's are NumPy's."""
    (call,) = lowering_cases.elementwise(op, lowering_cases.LARGE, "f4")
    own = samples.CALLS[op]

    def function(*xs: ad.Tensor) -> tuple[ad.Tensor, ...]:
        return own(*xs, **call.attrs), ad.not_equal(xs[0], xs[-1])

    args = [ad.asarray(x) for x in call.inputs]
    with np.errstate(all="ignore"):
        found, expected = ad.compile(function)(*args)[0], function(*args)[0]
    assert found.dtype == expected.dtype
    assert values(found).tobytes() == values(expected).tobytes()
