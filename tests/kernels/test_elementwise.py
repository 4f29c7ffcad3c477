"""Elementwise kernels against the NumPy table, which is the reference for them.

Small arrays never reach a kernel through the public functions, so the tests call what large ones
are given to.
"""

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint.backends.cpu import NUMPY
from adjoint.backends.cpu.lowering import elementwise
from adjoint.backends.cpu.lowering.expressions import CHUNK
from adjoint.backends.cpu.lowering.launchers import Launcher
from adjoint.kernels import language, rows
from adjoint.kernels.language import F32, F64, TYPES, Kernel, constant, element, reduce
from adjoint.kernels.ops import Unsupported, describe
from tests.kernels.cases import (
    FLOATS,
    INTEGERS,
    LARGE,
    check_same,
    kernel_free,
    numbers,
    operands,
    special_values,
)
from tests.kernels.programs import evaluated, inputs, maps, row_programs
from tests.support.arrays import normal
from tests.support.fast_forms import FAST
from tests.support.function_references import PRECISE, largest_term
from tests.support.helpers import needs_kernels
from tests.support.precise import Truth, ulps
from tests.support.samples import OPS, TABLE

pytestmark = needs_kernels

ELEMENTWISE = sorted(name for name, op in OPS.items() if op.kind == "elementwise")


# Elementwise ops that NumPy computes also for large arrays of floats, and why.
WITHOUT_FLOAT_KERNEL = {
    "floor_divide": "exact only by fmod, which takes a step for each bit of the quotient",
    "remainder": "the same",
    "conj": "of complex numbers only: a real number is returned as it is",
    "real": "the same",
    "imag": "the same",
    "bitwise_and": "of integers",
    "bitwise_invert": "of integers",
    "bitwise_left_shift": "of integers",
    "bitwise_or": "of integers",
    "bitwise_right_shift": "of integers",
    "bitwise_xor": "of integers",
}
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "leaky_relu": {"negative_slope": 0.1},
    "elu": {"alpha": 1.5},
    "add_scaled": {"alpha": -0.5},
    "cast": {"dtype": np.dtype(bool)},
}


def launcher_of(name: str, dtype: Any) -> Launcher | None:
    attrs = ATTRIBUTES.get(name, {})
    dtypes = (np.dtype(dtype),) * len(OPS[name].inputs)
    return elementwise.launcher_of(name, dtypes, tuple(attrs), attrs.get("dtype"))


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_ops_have_kernels_for_floats(name: str) -> None:
    expected = [name not in WITHOUT_FLOAT_KERNEL] * 3
    expected[0] &= name != "nextafter"  # float16 is computed in float32
    assert [launcher_of(name, dtype) is not None for dtype in FLOATS] == expected


# Accuracy.


# NumPy's maximum of -0 and 0 is the one or the other.
ZEROS_OF_ANY_SIGN = ("maximum", "minimum", "relu", "clip", "elu")
# Units of the last digit that results in float32 and float64 may be off, where it isn't one.
LIMITS = {"erf": 1.5, "sigmoid": 1.5, "gelu_tanh": 1.5, "logaddexp": 1.5}


def of_records(name: str) -> list[list[np.ndarray]]:
    """The inputs of an op's samples, one row each, for elementwise computation."""
    cases = [sample.inputs() for sample in TABLE if sample.op == name]
    return [[a.ravel() for a in np.broadcast_arrays(*case)] for case in cases]


def inputs_of(name: str, dtype: np.dtype) -> list[np.ndarray]:
    """Rows of all that an op is tried on: its samples, and all pairs of special values."""
    count = len(OPS[name].inputs)
    special = special_values(dtype)
    if count == 3:
        special = special[::3]
    rows = [np.concatenate(row) for row in zip(*of_records(name), strict=True)]
    pairs = np.array(list(itertools.product(special, repeat=count)), dtype).T
    with np.errstate(all="ignore"):
        return [np.concatenate([r.astype(dtype), p]) for r, p in zip(rows, pairs, strict=True)]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [n for n in ELEMENTWISE if n not in WITHOUT_FLOAT_KERNEL])
def test_elementwise_kernels_are_right_but_for_the_last_digit(name: str, dtype: str) -> None:
    """Where there is no other reference an op is one operation, with one right result."""
    arrays, attrs = inputs_of(name, np.dtype(dtype)), ATTRIBUTES.get(name, {})
    with np.errstate(all="ignore"):
        out = FAST[name](*arrays, **attrs)
    expected = kernel_free(name, *arrays, **attrs)
    if name in ZEROS_OF_ANY_SIGN:
        out, expected = out + 0, expected + 0
    if name not in PRECISE:
        check_same([out], [expected])
        return
    assert out.dtype == expected.dtype
    function = functools.partial(PRECISE[name], **attrs)
    near = kernel_free(name, *(a.astype("f8") for a in arrays), **attrs)
    size = largest_term(*arrays) if name == "logaddexp" else None
    # float16 is computed in float32, and rounded once more.
    limit = 0.501 if dtype == "f2" else LIMITS.get(name, 1)
    assert ulps(out, Truth.of(function, near, *arrays), size).max() <= limit


# Integers and booleans.


@functools.cache
def of_integers(dtype: np.dtype) -> dict[str, tuple[np.ndarray, list[np.ndarray]]]:
    """The result of each op that has a kernel for a dtype, all from one kernel; and its inputs."""
    described = {}
    for name in ELEMENTWISE:
        inputs = [element(k, TYPES[dtype]) for k in range(len(OPS[name].inputs))]
        try:
            described[name] = describe(name, inputs, **ATTRIBUTES.get(name, {}))
        except Unsupported:
            continue
    arrays = operands(dtype, 3 if dtype.kind == "b" else 2)
    if dtype.kind != "b":
        arrays.append(np.roll(arrays[0], 1))
    results = Launcher(Kernel(described.values())).map(arrays)
    return {
        name: (out, arrays[: len(OPS[name].inputs)])
        for name, out in zip(described, results, strict=True)
    }


COMPARISONS = "equal not_equal less less_equal greater greater_equal"
LOGICAL = "logical_and logical_or logical_xor logical_not"
BITWISE = "bitwise_and bitwise_or bitwise_xor bitwise_invert"
CHOICES = "maximum minimum where clip cast"
ARITHMETIC = (
    "add subtract multiply negative square abs sign relu floor_divide remainder "
    "bitwise_left_shift bitwise_right_shift"
)
OF_BOOLEANS = f"{COMPARISONS} {LOGICAL} {BITWISE} {CHOICES}".split()
OF_INTEGERS = [*OF_BOOLEANS, *ARITHMETIC.split()]


@pytest.mark.parametrize("dtype", [*INTEGERS, "?"])
def test_ops_with_kernels_for_integers(dtype: str) -> None:
    assert set(of_integers(np.dtype(dtype))) == set(OF_BOOLEANS if dtype == "?" else OF_INTEGERS)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *itertools.product(OF_INTEGERS, INTEGERS),
        *itertools.product(OF_BOOLEANS, "?"),
    ],
)
def test_integer_kernels_equal_numpy(name: str, dtype: str) -> None:
    out, arrays = of_integers(np.dtype(dtype))[name]
    with np.errstate(all="ignore"):
        expected = NUMPY[name](*arrays, **ATTRIBUTES.get(name, {}))
    assert out.dtype == expected.dtype
    np.testing.assert_array_equal(out, expected)


# Casts.


def castable(dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "f":
        return special_values(dtype)
    return operands(dtype, 1)[0]


def is_described(source: np.dtype, target: np.dtype) -> bool:
    """NumPy's own ways with floats out of an integer's range aren't; nor is rounding twice."""
    if source.kind == "f" and target.kind in "iu":
        return False
    return (source, target) != (np.dtype("f8"), np.dtype("f2"))


@pytest.mark.parametrize("source", [*FLOATS, *INTEGERS, "?"])
def test_casts_equal_numpy(source: str) -> None:
    dtype = np.dtype(source)
    x = castable(dtype)
    targets = [np.dtype(t) for t in (*FLOATS, *INTEGERS, "?") if is_described(dtype, np.dtype(t))]
    values = [describe("cast", [element(0, TYPES[dtype])], dtype=target) for target in targets]
    with np.errstate(all="ignore"):
        for out, target in zip(Launcher(Kernel(values)).map([x]), targets, strict=True):
            assert out.dtype == target
            np.testing.assert_array_equal(out, x.astype(target), target.name)


@pytest.mark.parametrize(("source", "target"), [("f4", "i4"), ("f8", "u1"), ("f8", "f2")])
def test_casts_that_numpy_does(source: str, target: str) -> None:
    assert (
        elementwise.launcher_of("cast", (np.dtype(source),), ("dtype",), np.dtype(target)) is None
    )


# Layouts.


def unaligned(*shape: int, dtype: str = "f4") -> np.ndarray:
    """In memory that starts at an odd address."""
    x = numbers(*shape, dtype=dtype)
    held = np.zeros(x.nbytes + 1, np.uint8)
    out = held[1:].view(dtype).reshape(shape)
    out[...] = x
    assert not out.flags.aligned
    return out


PAIRS: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "contiguous": lambda: (numbers(3, 35), numbers(3, 35)[::-1].copy()),
    "transposed": lambda: (numbers(35, 3).T, numbers(35, 3).T),
    "one transposed": lambda: (numbers(35, 20).T, numbers(20, 35)),
    "permuted": lambda: (numbers(4, 5, 6).transpose(2, 0, 1), numbers(4, 5, 6).transpose(2, 0, 1)),
    "permuted differently": lambda: (numbers(4, 5, 6).transpose(2, 0, 1), numbers(6, 5, 4).mT),
    "steps": lambda: (numbers(6, 70)[::2, ::2], numbers(3, 105)[:, 1::3]),
    "negative": lambda: (numbers(3, 35)[::-1, ::-1], numbers(3, 35)[:, ::-1]),
    "repeated rows": lambda: (np.broadcast_to(numbers(35), (3, 35)), numbers(3, 35)),
    "repeated elements": lambda: (np.broadcast_to(numbers(3, 1), (3, 35)), numbers(3, 35)),
    "all repeated": lambda: (
        np.broadcast_to(numbers(1), (3, 35)),
        np.broadcast_to(numbers(1), (3, 35)),
    ),
    "row": lambda: (numbers(3, 35), numbers(35)),
    "column": lambda: (numbers(3, 1), numbers(3, 35)),
    "row and column": lambda: (numbers(1, 35), numbers(3, 1)),
    "axes of one": lambda: (numbers(1, 3, 1, 35), numbers(3, 1, 1)),
    "0-d": lambda: (numbers(), numbers(3, 35)),
    "two of 0-d": lambda: (numbers(), numbers()),
    "0-d and transposed": lambda: (numbers(35, 3).T, numbers()),
    "mixed": lambda: (numbers(4, 1, 18)[:, :, ::-2], numbers(9, 5, 4).T),
    "unaligned": lambda: (unaligned(3, 35), numbers(3, 35)),
    "unaligned steps": lambda: (unaligned(3, 70)[:, ::2], unaligned(35)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_layouts(name: str) -> None:
    x, y = PAIRS[name]()
    out = FAST["subtract"](x, y)
    np.testing.assert_array_equal(out, np.asarray(x - y), strict=True)


@pytest.mark.parametrize("name", PAIRS)
def test_layouts_of_three_arrays_of_two_sizes(name: str) -> None:
    x, y = (a.astype("f8", order="K") for a in PAIRS[name]())
    condition = np.asarray(x > 0)
    out = FAST["where"](condition, x, y)
    np.testing.assert_array_equal(out, np.where(condition, x, y), strict=True)


SIZES = (1, 7, 8, 15, 16, 17, 33, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7)
LARGER_THAN_CACHES = ((1 << 20) + 9, (1 << 21) + 32)


@pytest.mark.parametrize("size", [*SIZES, *LARGER_THAN_CACHES])
def test_sizes(size: int) -> None:
    x = numbers(2 * size)
    for a in (x[:size], x[::2], x[size - 1 :: -1]):
        out = FAST["subtract"](a, x[size:])
        np.testing.assert_array_equal(out, a - x[size:])


@pytest.mark.parametrize("shape", [(CHUNK // 5 + 1, 16), (2, CHUNK + 9), (5, 3, CHUNK // 8 + 1)])
def test_chunks_of_rows_and_of_columns(shape: tuple[int, ...]) -> None:
    x, y = numbers(*shape), numbers(*shape[:-1], 1)
    for a in (x, numbers(*shape[:-1], 2 * shape[-1])[..., ::2]):
        out = FAST["subtract"](a, y)
        np.testing.assert_array_equal(out, a - y)


def test_results_lie_in_memory_as_their_inputs_do() -> None:
    x = numbers(35, 3).T
    assert FAST["negative"](x).flags.f_contiguous


@pytest.mark.parametrize("shapes", [((LARGE, 1), (1, 0)), ((LARGE, 0), (LARGE, 1)), ((0,), (1,))])
def test_no_elements(shapes: tuple) -> None:
    x, y = (np.ones(shape, "f4") for shape in shapes)
    assert FAST["add"](x, y).shape == (x + y).shape
    assert (ad.asarray(x) + ad.asarray(y)).shape == (x + y).shape


# Long double is float64 on some processors.
@pytest.mark.parametrize("dtype", sorted({">f4", ">i8", "c8", np.dtype("g").str} - {"<f8"}))
def test_dtypes_that_numpy_computes(dtype: str) -> None:
    x = numbers(17).astype(dtype)
    assert elementwise.launcher_of("add", (x.dtype, x.dtype), (), None) is None
    np.testing.assert_array_equal(FAST["add"](x, x), x + x)


def test_memory_in_another_byte_order_is_put_in_ours() -> None:
    x = numbers(LARGE).astype(">f4")
    found, native = ad.asarray(x), x.astype("f4")
    np.testing.assert_allclose(ad.exp(found).numpy(), np.exp(native), rtol=1e-6)
    np.testing.assert_allclose(ad.sum(found).numpy(), np.sum(native, dtype="f8"), rtol=1e-6)
    expected = kernel_free("softmax", native, axis=0)
    np.testing.assert_allclose(ad.softmax(found, axis=0).numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("number", [1e300, -1e300, 1e-300, np.inf, np.nan, -0.0])
def test_attributes_beyond_the_range_of_a_dtype(number: float) -> None:
    x = np.array([-2, 0, 3] * 7, "f4")
    out = FAST["leaky_relu"](x, negative_slope=number)
    np.testing.assert_array_equal(out, kernel_free("leaky_relu", x, negative_slope=number))


@pytest.mark.parametrize("type", [language.F16, F32])
def test_constants_beyond_the_range_of_a_type(type: language.Type) -> None:
    x = element(0, type)
    kernel = Kernel((language.select(x < 1e300, x * 2, x - 1e300),))
    arrays = [np.array([-1, 0, np.inf, np.nan] * 5, type.dtype)]
    check_same(Launcher(kernel).map(arrays), evaluated(kernel, arrays))


def test_a_kernel_may_write_to_its_input() -> None:
    x, y = numbers(3, 35), numbers(3, 35)[::-1].copy()
    expected = x - y
    (out,) = Launcher(Kernel((element(0, F32) - element(1, F32),))).map([x, y], outputs=[x])
    assert out is x
    np.testing.assert_array_equal(x, expected)


def test_a_kernel_without_arrays() -> None:
    (out,) = Launcher(Kernel((constant(2.5, F32),))).map([numbers(3, 35)])
    np.testing.assert_array_equal(out, np.full((3, 35), 2.5, "f4"), strict=True)


# Random programs.

MAP_SHAPES = st.one_of(
    st.tuples(st.integers(1, 70)),
    st.tuples(st.integers(1, 6), st.integers(1, 40)),
    st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 9)),
)
ROW_SHAPES = st.one_of(
    st.tuples(st.integers(1, 70)),
    st.tuples(st.integers(1, 40), st.integers(1, 40)),
    st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 36)),
    st.tuples(*[st.integers(1, 4)] * 4),
)
NUMBER = 0.625
RANDOM_PROGRAMS = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def given_arrays(arrays: list[np.ndarray | None]) -> list[np.ndarray]:
    """What the kernel doesn't read may be anything."""
    return [np.zeros(()) if a is None else a for a in arrays]


@RANDOM_PROGRAMS
@given(st.data())
def test_random_maps_equal_numpy(data: st.DataObject) -> None:
    kernel = data.draw(maps())
    launcher = Launcher(kernel)
    for _ in range(2):
        arrays, _ = data.draw(inputs(kernel, MAP_SHAPES))
        results = launcher.map(given_arrays(arrays), [NUMBER])
        check_same(results, evaluated(kernel, arrays, [NUMBER]))


@RANDOM_PROGRAMS
@given(st.data())
def test_random_reductions_equal_numpy(data: st.DataObject) -> None:
    kernel = data.draw(row_programs())
    launcher = Launcher(kernel)
    for _ in range(2):
        arrays, axis = data.draw(inputs(kernel, ROW_SHAPES, axes=True))
        results = launcher.map(given_arrays(arrays), [NUMBER], axis=axis)
        check_same(results, evaluated(kernel, arrays, [NUMBER], axis))


@pytest.mark.parametrize("name", ["exp", "tanh", "log1p", "atan", "erf"])
def test_functions_are_the_programs_that_they_are_written_as(name: str) -> None:
    kernel = Kernel((describe(name, [element(0, F64)]),))
    x = np.concatenate([special_values(np.dtype("f8")), normal(15, dtype="f8")])
    check_same(Launcher(kernel).map([x]), evaluated(kernel, [x]))


# Printing.


def test_kernels_print_as_lines_of_ops() -> None:
    x = element(0, F32)
    rest = x - reduce("max", x)
    out = language.convert(rest / reduce("sum", rest), F64)
    assert (
        str(Kernel((out,)))
        == repr(out)
        == """\
%0: f32 = element 0
%1: f32 = reduce 'max' %0
%2: f32 = sub %0 %1
%3: f32 = reduce 'sum' %2
%4: f32 = div %2 %3
%5: f64 = convert %4
-> %5"""
    )


def test_softmax_is_its_definition() -> None:
    x = element(0, F32)
    y = describe("exp", [x - reduce("max", x)])
    (out,) = rows.softmax(F32)
    assert out is y / reduce("sum", y)
    *_, total, ratio, result = str(Kernel((out,))).splitlines()
    assert total.endswith(f"f32 = reduce 'sum' {ratio.split()[-2]}")
    assert ratio.endswith(total.partition(":")[0]) and result == f"-> {ratio.partition(':')[0]}"


def test_equal_values_are_one_object() -> None:
    x, y = element(0, F32), element(1, F32)
    assert element(0, F32) is x is not element(0, F64)
    assert x * y + 1 is x * y + 1.0
    assert x * y is not y * x
    assert constant(0.0, F32) is not constant(-0.0, F32)
    assert constant(math.nan, F32) is constant(math.nan, F32)
    assert constant(-1, language.U8) is constant(255, language.U8)
    assert reduce("sum", x) is reduce("sum", x) is not reduce("max", x)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: element(0, F32) + element(1, F64), "f32 and f64: convert one"),
        (lambda: bool(element(0, F32) < 1), "use select"),
        (lambda: reduce("mean", element(0, F32)), "reductions are sum"),
        (lambda: describe("matmul", [element(0, F32)]), "matmul isn't described"),
    ],
)
def test_mistakes_in_kernels(make: Callable, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_numbers_of_numpys_are_refused_where_arrays_are_read() -> None:
    """They look like arrays, but have no elements where an array has them."""
    launcher = Launcher(Kernel((element(0, F32) + element(1, F32),)))
    x, number = np.ones(3, np.float32), np.float32(1)
    launcher.map([x, np.asarray(number)])
    inputs: list[Any] = [x, number]
    with pytest.raises(TypeError, match="an array is needed, got float32"):
        launcher.map(inputs)
