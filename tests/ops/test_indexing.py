"""Properties of indexing, arrangements and promotion on random cases, against NumPy."""

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint._foundation.dtypes import ALL
from tests.support.helpers import leaf, values
from tests.support.records import NUMPY, Array

some = settings(max_examples=300, deadline=None, derandomize=True)
fewer = settings(some, max_examples=150)
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)


# Any index, valid or not

numbers = st.integers(-4, 4)
slices = st.builds(
    slice, *(st.none() | numbers,) * 2, st.none() | numbers.filter(lambda step: step != 0)
)
block_shapes = st.sampled_from([(), (1,), (2,), (2, 1), (1, 3), (0,), (0, 1)])
index_arrays = block_shapes.flatmap(lambda shape: hnp.arrays(np.int64, shape, elements=numbers))
masks = shapes.flatmap(lambda shape: hnp.arrays(np.bool_, shape))
truths = st.booleans() | st.booleans().map(np.bool_)
entries = (
    numbers
    | slices
    | st.none()
    | st.just(Ellipsis)
    | index_arrays
    | index_arrays.filter(lambda i: i.ndim > 0).map(Array.tolist)
    | masks
    | truths
    | numbers.map(np.int32)
)


@st.composite
def fitting_masks(draw: Any, shape: tuple[int, ...]) -> tuple:
    """Slices, and a mask of one or more axes somewhere between them."""
    first = draw(st.integers(0, len(shape)))
    last = draw(st.integers(first, len(shape)))
    before = tuple(draw(slices) for _ in range(first))
    return (*before, draw(hnp.arrays(np.bool_, shape[first:last])))


@st.composite
def cases(draw: Any) -> tuple[tuple[int, ...], Any]:
    shape = draw(shapes)
    index = st.lists(entries, max_size=4).map(tuple)
    return shape, draw(entries | index | fitting_masks(shape))


def array_of(shape: tuple[int, ...], seed: int = 0) -> Array:
    """Different numbers between 1 and 2."""
    return np.random.default_rng(seed).uniform(1, 2, shape)


def selected(shape: tuple[int, ...], index: Any) -> Array | None:
    """What NumPy selects of an array of that shape, or None if it refuses."""
    try:
        return np.asarray(array_of(shape)[index])
    except IndexError:
        return None


def refused(case: tuple, use: Callable[[], Any]) -> None:
    with pytest.raises(ad.AdjointError) as error:
        use()
    assert isinstance(error.value, (ad.IndexingError, ad.ShapeError)), case


@settings(some, max_examples=600)
@given(cases())
def test_what_numpy_reads_we_read_and_what_it_refuses_we_refuse(case):
    shape, index = case
    expected = selected(shape, index)
    x = leaf(array_of(shape))
    if expected is None:
        refused(case, lambda: x[index])
        return
    out = x[index]
    np.testing.assert_array_equal(values(out), expected, strict=True)
    g = array_of(expected.shape, 1)
    out.backward(gradient=ad.asarray(g))
    back = np.zeros(shape)
    np.add.at(back, index, g)
    np.testing.assert_allclose(values(x.grad), back, rtol=1e-14)


@some
@given(cases(), st.booleans())
def test_what_numpy_writes_we_write_and_what_it_refuses_we_refuse(case, recorded):
    shape, index = case
    place = selected(shape, index)
    x = leaf(array_of(shape)) * 1.0 if recorded else ad.asarray(array_of(shape))
    if place is None:
        refused(case, lambda: x.__setitem__(index, 0.0))
        refused(case, lambda: x.at[index].set(0.0))
        np.testing.assert_array_equal(values(x), array_of(shape))
        return
    v = array_of(place.shape, 1)
    expected = array_of(shape)
    expected[index] = v
    np.testing.assert_array_equal(values(x.at[index].set(v)), expected)
    np.testing.assert_array_equal(values(x), array_of(shape))
    x[index] = v
    np.testing.assert_array_equal(values(x), expected)


CHANGES = ("add", "subtract", "multiply", "divide", "min", "max")


@some
@given(cases(), st.sampled_from(CHANGES), st.booleans())
def test_changes_at_an_index_are_those_of_numpy_s_ufunc_at(case, change, scalar):
    shape, index = case
    place = selected(shape, index)
    x = ad.asarray(array_of(shape))
    if place is None:
        refused(case, lambda: getattr(x.at[index], change)(2.0))
        return
    v = array_of(() if scalar else place.shape, 1)
    expected = NUMPY.at(array_of(shape), index, change, v)
    found = getattr(x.at[index], change)(ad.asarray(v))
    np.testing.assert_allclose(values(found), expected, rtol=1e-14)
    np.testing.assert_array_equal(x.numpy(), array_of(shape))


INTEGER_CHANGES = ("add", "subtract", "multiply", "min", "max")


@fewer
@given(
    st.sampled_from(["int8", "uint8", "int64", "float16", "float32"]),
    st.sampled_from(INTEGER_CHANGES),
    hnp.arrays(np.int64, (5,), elements=st.integers(-3, 2)),
)
def test_changes_keep_the_dtype_and_wrap_as_numpy_does(dtype, change, index):
    x, v = np.array([3, 5, 100], dtype), np.array([2, 7, 1, 0, 3], dtype)
    found = getattr(ad.asarray(x).at[index], change)(ad.asarray(v))
    np.testing.assert_array_equal(found.numpy(), NUMPY.at(x, index, change, v), strict=True)


@fewer
@given(st.sampled_from(CHANGES), hnp.arrays(np.int64, (4,), elements=st.integers(0, 2)))
def test_changes_at_duplicates_have_gradients_of_two_orders(change, index):
    x, v = array_of((3,)), array_of((4,), 1)
    ad.testing.check_grads(lambda x, v: getattr(x.at[index], change)(v), [x, v], order=2)


@fewer
@given(st.data())
def test_taking_along_an_axis_and_scattering_are_adjoint(data):
    """<gather(x, i), y> = <x, scatter_add(0, i, y)>, and so for their gradients."""
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=3))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    n, count = shape[axis], data.draw(st.integers(0, 4))
    index_shape = tuple(count if k == axis % len(shape) else m for k, m in enumerate(shape))
    index = data.draw(hnp.arrays(np.int64, index_shape, elements=st.integers(-n, n - 1)))
    a, b = array_of(shape), array_of(index_shape, 1)
    x, y = leaf(a), leaf(b)
    for function in (ad.gather, ad.take_along_axis):
        taken = function(x, ad.asarray(index), axis=axis)
        np.testing.assert_array_equal(values(taken), np.take_along_axis(a, index, axis))
        taken.backward(gradient=ad.asarray(b))
    zeros = ad.zeros(shape, dtype=ad.float64)
    added = ad.scatter_add(zeros, ad.asarray(index), y, axis=axis)
    expected = NUMPY.scatter_add(np.zeros(shape), index, b, axis)
    np.testing.assert_allclose(values(added), expected, rtol=1e-14)
    np.testing.assert_allclose(values(x.grad), 2 * expected, rtol=1e-14)
    added.backward(gradient=ad.asarray(a))
    np.testing.assert_array_equal(values(y.grad), np.take_along_axis(a, index, axis))


# Reductions and arrangements with any arguments, valid or not

REDUCTIONS = "sum prod max min mean var std logsumexp any all count_nonzero argmax argmin".split()
axes = st.none() | numbers | st.lists(st.integers(-2, 2), max_size=3).map(tuple)


def outcome(call: Callable[[], Any]) -> Any:
    """What NumPy gives, or None if it refuses."""
    try:
        return call()
    except (ValueError, TypeError, IndexError, ZeroDivisionError):
        return None


@settings(some, max_examples=600)
@given(st.sampled_from(REDUCTIONS), shapes, axes, st.booleans())
def test_reductions_of_any_shape_over_any_axes_are_numpy_s(name, shape, axis, keepdims):
    assume(shape or not isinstance(axis, int))  # NumPy takes axis 0 of 0-d arrays, sometimes
    array = array_of(shape)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of means of nothing
        expected = outcome(lambda: getattr(NUMPY, name)(array, axis=axis, keepdims=keepdims))
    run = lambda: getattr(ad, name)(leaf(array), axis=axis, keepdims=keepdims)  # noqa: E731
    if expected is None:
        with pytest.raises(ad.AdjointError, match=name):
            run()
        return
    out = run()
    assert out.shape == np.shape(expected)
    np.testing.assert_allclose(values(out), expected, rtol=1e-13)
    if out.requires_grad and array.size:
        assert values(out.sum().backward() or out).shape == out.shape


arguments: dict[str, Any] = {
    "flip": st.fixed_dictionaries({"axis": axes}),
    "roll": st.fixed_dictionaries(
        {"shift": st.integers(-7, 7), "axis": axes.filter(lambda k: k != ())}
    ),
    "tril": st.fixed_dictionaries({"k": numbers}),
    "triu": st.fixed_dictionaries({"k": numbers}),
    "diagonal": st.fixed_dictionaries({"offset": numbers, "axis1": numbers, "axis2": numbers}),
    "diagflat": st.fixed_dictionaries({"k": numbers}),
    "diff": st.fixed_dictionaries({"axis": numbers, "n": st.sampled_from([-1, 1, 2, 5])}),
    "squeeze": st.fixed_dictionaries({"axis": axes}),
    "expand_dims": st.fixed_dictionaries({"axis": axes.filter(lambda axis: axis is not None)}),
    "swapaxes": st.fixed_dictionaries({"axis1": numbers, "axis2": numbers}),
    "transpose": st.fixed_dictionaries(
        {"axes": st.none() | st.permutations([0, -2, 2]).map(tuple)}
    ),
    "reshape": st.fixed_dictionaries(
        {"shape": st.lists(st.integers(-1, 4), max_size=3).map(tuple)}
    ),
    "broadcast_to": st.fixed_dictionaries({"shape": shapes}),
    "pad": st.fixed_dictionaries(
        {
            "pad_width": st.integers(-1, 4) | st.tuples(st.integers(0, 4), st.integers(0, 4)),
            "mode": st.sampled_from(["constant", "edge", "reflect", "symmetric", "wrap"]),
        }
    ),
    "split": st.fixed_dictionaries(
        {"indices_or_sections": st.lists(numbers, max_size=3) | st.integers(-1, 3), "axis": numbers}
    ),
    "moveaxis": st.fixed_dictionaries({"source": numbers, "destination": numbers}),
    "tile": st.fixed_dictionaries({"reps": st.lists(st.integers(0, 2), max_size=3).map(tuple)}),
    "repeat": st.fixed_dictionaries({"repeats": st.integers(0, 3), "axis": st.none() | numbers}),
}
BY_POSITION = {"moveaxis", "tile", "repeat"}


def called(xp: Any, name: str, x: Any, options: dict[str, Any]) -> tuple:
    first = [value for key, value in options.items() if name in BY_POSITION and key != "axis"]
    rest = {key: v for key, v in options.items() if name not in BY_POSITION or key == "axis"}
    out = getattr(xp, name)(x, *first, **rest)
    return tuple(out) if isinstance(out, (tuple, list)) else (out,)


@settings(some, max_examples=1000)
@given(st.sampled_from(sorted(arguments)), st.data(), shapes)
def test_arrangements_of_any_shape_are_numpy_s_and_linear(name, data, shape):
    options, array = data.draw(arguments[name]), array_of(shape)
    assume(shape or not isinstance(options.get("axis"), int))
    assume(len(shape) > 1 or name not in ("tril", "triu"))  # NumPy makes matrices of vectors
    assume(shape or name != "pad")  # NumPy looks at widths that there is no axis for
    expected = outcome(lambda: called(NUMPY, name, array, options))
    x = leaf(array)
    if expected is None:
        with pytest.raises(ad.AdjointError, match=name):
            called(ad, name, x, options)
        return
    outs = called(ad, name, x, options)
    total = ad.asarray(0.0, dtype=ad.float64)
    for number, (out, wanted) in enumerate(zip(outs, expected, strict=True)):
        np.testing.assert_array_equal(values(out), wanted, strict=True)
        total = total + (out * ad.asarray(array_of(out.shape, number))).sum()
    total.backward()
    # A linear function is its gradient applied.
    assert (values(x.grad) * array).sum() == pytest.approx(total.item(), rel=1e-12)


# What an index can't be

NOT_INDICES: list[Any] = [
    1.0,
    "a",
    np.float64(1),
    np.zeros(0),
    np.array([0.0]),
    [0.5],
    [None],
    {},
    1j,
    object,
    slice(0.5, None),
    slice("a", None),
    slice(None, None, 0),
    (0, 1.0),
]


@pytest.mark.parametrize("index", NOT_INDICES, ids=repr)
def test_what_is_no_index_is_refused_everywhere(index: Any) -> None:
    x = ad.zeros((2, 2))
    for use in (
        lambda: x[index],
        lambda: x.__setitem__(index, 1.0),
        lambda: x.at[index].set(1.0),
        lambda: x.at[index].multiply(1.0),
    ):
        with pytest.raises(ad.IndexingError):
            use()


@pytest.mark.parametrize(
    "index", [(None, [0, 0], ..., [0, 0]), (None, 0, ..., [0, 0]), (None, [0, 0], 0, ...)]
)
def test_an_ellipsis_parts_index_arrays_also_where_it_stands_for_no_axes(index: Any) -> None:
    array = np.zeros((1, 1))
    array[index] = 1
    x = ad.zeros((1, 1))
    assert x[index].shape == array[index].shape
    x[index] = ad.ones(array[index].shape)
    np.testing.assert_array_equal(x.numpy(), array)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 2)])
def test_an_empty_mask_is_a_mask(shape: tuple[int, ...]) -> None:
    x, mask = ad.zeros(shape), np.zeros(shape, bool)
    for index in (mask, ad.asarray(mask)):
        assert x[index].shape == (0,)
        x[index] = 1.0


@pytest.mark.parametrize("shape", [(2,), (4,), (3, 1), (1, 2), (3, 2, 1)])
def test_a_mask_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    for mask in (np.zeros(shape, bool), np.ones(shape, bool)):
        with pytest.raises(ad.IndexingError):
            ad.zeros((3, 2))[mask]


def test_tensors_of_every_integer_dtype_are_indices() -> None:
    x = ad.arange(300)
    for dtype in (d for d in ALL if d.kind in ("int", "uint")):
        assert x[ad.asarray([2, 100], dtype=dtype)].tolist() == [2, 100]
        assert ad.take(x, ad.asarray([2, 100], dtype=dtype)).tolist() == [2, 100]
        if dtype.kind == "int":
            assert x[ad.asarray([-1], dtype=dtype)].tolist() == [299]


# Promotion: an op's result has the dtype that result_type says.

SCALARS: list[Any] = [True, 2, 2.0, 2j]
SAME: dict[str, Callable] = {
    "add": ad.add,
    "multiply": ad.multiply,
    "x + y": lambda x, y: x + y,
    "x * y": lambda x, y: x * y,
    "where": lambda x, y: ad.where(True, x, y),
}
OF_NUMBERS: dict[str, Callable] = {  # not of truth values
    "subtract": ad.subtract,
    "x - y": lambda x, y: x - y,
    "pow": ad.pow,
    "x ** y": lambda x, y: x**y,
}
OF_REALS: dict[str, Callable] = {  # not of complex numbers either
    "maximum": ad.maximum,
    "minimum": ad.minimum,
    "floor_divide": ad.floor_divide,
    "x // y": lambda x, y: x // y,
    "remainder": ad.remainder,
    "x % y": lambda x, y: x % y,
}
TO_FLOATS: dict[str, Callable] = {
    "divide": ad.divide,
    "x / y": lambda x, y: x / y,
    "hypot": ad.hypot,
    "atan2": ad.atan2,
    "logaddexp": ad.logaddexp,
    "copysign": ad.copysign,
}
ARRAYS: dict[str, Callable] = {  # of arrays only
    "concat": lambda x, y: ad.concat([x, y]),
    "stack": lambda x, y: ad.stack([x, y]),
    "matmul": ad.matmul,
    "outer": ad.outer,
    "tensordot": lambda x, y: ad.tensordot(x, y, axes=1),
    "einsum": lambda x, y: ad.einsum("i,i", x, y),
}


def operands() -> Iterator[tuple[Any, Any]]:
    """Pairs of tensors of all dtypes, and of a tensor and a Python number, in both orders."""
    tensors = [ad.ones(3, dtype=dtype) for dtype in ALL]
    for x in tensors:
        yield from ((x, y) for y in tensors)
        yield from ((x, scalar) for scalar in SCALARS)
        yield from ((scalar, x) for scalar in SCALARS)


def result_type(x: Any, y: Any) -> ad.DType | None:
    try:
        return ad.result_type(x, y)
    except ad.DTypeError:
        return None


def wrong(name: str, function: Callable, x: Any, y: Any, expected: ad.DType | None) -> Any:
    """What a call gave if it isn't the dtype (or, for None, the error) that it should give."""
    try:
        found = function(x, y).dtype
    except ad.DTypeError:
        found = None
    shown = [getattr(z, "dtype", z) for z in (x, y)]
    return None if found is expected else (name, *shown, found, expected)


@pytest.mark.parametrize("default", [ad.float32, ad.float64])
@pytest.mark.parametrize("table", ["SAME", "OF_NUMBERS", "OF_REALS", "TO_FLOATS", "ARRAYS"])
def test_results_have_the_dtype_that_result_type_says(table: str, default: ad.DType) -> None:
    ad.set_default_dtype(default)
    try:
        failures = []
        for x, y in operands():
            if table == "ARRAYS" and not (isinstance(x, ad.Tensor) and isinstance(y, ad.Tensor)):
                continue
            expected = result_type(x, y)
            kind = expected and expected.kind
            if table in ("OF_NUMBERS", "OF_REALS") and kind == "bool":
                continue
            if table == "OF_REALS" and kind == "complex":
                continue
            for name, function in globals()[table].items():
                if table == "TO_FLOATS":
                    if kind == "complex" and "div" not in name and "/" not in name:
                        continue
                    if kind in ("bool", "int", "uint"):
                        expected = default
                failures.append(wrong(name, function, x, y, expected))
        assert [f for f in failures if f] == []
    finally:
        ad.set_default_dtype(ad.float32)


FLOATING = (
    "exp expm1 log log1p log2 log10 sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh sigmoid erf silu softplus gelu elu leaky_relu reciprocal mean var std logsumexp softmax "
    "log_softmax"
).split()
KEEPING = (
    "positive square abs sign floor ceil trunc round max min sort flip roll diagflat unique_values"
).split()


@pytest.mark.parametrize("dtype", [d for d in ALL if d.kind != "complex"], ids=repr)
def test_functions_of_one_real_tensor_keep_floats_and_turn_integers_into_the_default(
    dtype: ad.DType,
) -> None:
    x = ad.ones(3, dtype=dtype)
    expected = dtype if dtype.kind == "float" else ad.float32
    found = {name: getattr(ad, name)(x).dtype for name in FLOATING}
    assert found == dict.fromkeys(FLOATING, expected)


@pytest.mark.parametrize("dtype", [d for d in ALL if d.kind not in ("complex", "bool")], ids=repr)
def test_other_functions_of_one_tensor_keep_its_dtype(dtype: ad.DType) -> None:
    x = ad.ones(3, dtype=dtype)
    found = {name: getattr(ad, name)(x, *[1] * (name == "roll")).dtype for name in KEEPING}
    assert found == dict.fromkeys(KEEPING, dtype)


@pytest.mark.parametrize("dtype", ALL, ids=repr)
def test_squares_and_powers_agree_in_dtype_and_value(dtype: ad.DType) -> None:
    """x ** 2 has an op of its own, which must not show."""
    x = ad.asarray(np.array([0, 1, 1]), dtype=ad.int64).astype(dtype)
    for exponent in (2, 2.0):
        expected = ad.result_type(dtype, exponent)
        for out in (x**exponent, ad.pow(x, exponent), x.pow(exponent)):
            assert out.dtype is expected
            assert out.tolist() == [0, 1, 1]
    assert (3 ** ad.asarray([2], dtype=ad.int8)).tolist() == [9]


# Complex numbers have values, but no gradients.

INTO_COMPLEX: dict[str, Callable] = {
    "tensor": lambda x: ad.tensor([1j], requires_grad=True),
    "requires_grad_": lambda x: ad.asarray([1j]).requires_grad_(),
    "x * 1j": lambda x: x * 1j,
    "1j - x": lambda x: 1j - x,
    "x + array": lambda x: x + ad.asarray([1j, 2]),
    "astype": lambda x: ad.astype(x, ad.complex64),
    "where": lambda x: ad.where(x > 0, x, 1j),
    "concat": lambda x: ad.concat([x, ad.asarray([1j])]),
    "stack": lambda x: ad.stack([x, ad.asarray([1j, 2])]),
    "sum": lambda x: ad.sum(x, dtype=ad.complex64),
    "at.set": lambda x: ad.asarray([1j, 2]).at[0].set(x[0]),
    "assignment": lambda x: ad.asarray([1j, 2]).__setitem__(0, x[0]),
    "matmul": lambda x: x @ ad.asarray([1j, 2]),
    "einsum": lambda x: ad.einsum("i,i", x, ad.asarray([1j, 2])),
    "full": lambda x: ad.full((2,), x[0], dtype=ad.complex64),
    "pow": lambda x: x**1j,
}


@pytest.mark.parametrize("name", INTO_COMPLEX)
def test_gradients_through_complex_numbers_are_refused(name: str) -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(ad.DTypeError, match="complex"):
        INTO_COMPLEX[name](x)


REAL_ONLY = (
    "max min argmax argmin sort argsort var std logsumexp softmax log_softmax sigmoid erf gelu elu "
    "leaky_relu relu silu softplus floor ceil trunc clip"
).split()


@pytest.mark.parametrize("name", REAL_ONLY)
def test_functions_of_real_numbers_refuse_complex_ones(name: str) -> None:
    with pytest.raises(ad.DTypeError, match=rf"{name}.*complex64|{name}.*complex numbers"):
        getattr(ad, name)(ad.asarray([1j, 2]))


@pytest.mark.parametrize("name", ["maximum", "minimum", "hypot", "atan2", "logaddexp", "remainder"])
def test_functions_of_two_real_numbers_refuse_complex_ones(name: str) -> None:
    with pytest.raises(ad.DTypeError, match=rf"{name}.*complex64"):
        getattr(ad, name)(ad.asarray([1j, 2]), 1.0)


@pytest.mark.parametrize("change", ["min", "max"])
@pytest.mark.parametrize("index", [0, [0, 0]])
def test_complex_numbers_have_no_smaller_and_larger(change: str, index: Any) -> None:
    with pytest.raises(ad.DTypeError, match=rf"at\.{change}.*complex"):
        getattr(ad.asarray([1j, 2]).at[index], change)(1.0)


def test_topk_refuses_complex_numbers() -> None:
    with pytest.raises(ad.DTypeError, match=r"topk.*complex"):
        ad.topk(ad.asarray([1j, 2]), 1)


def test_division_at_an_index_is_division() -> None:
    """Not multiplication by reciprocals, which rounds twice and overflows."""
    x, v = np.arange(1.0, 50), np.arange(2.0, 51)
    for index in (np.arange(49), slice(None)):
        np.testing.assert_array_equal(ad.asarray(x).at[index].divide(v).numpy(), x / v)
    tiny = ad.asarray([1e-39])
    assert tiny.at[[0]].divide(tiny).tolist() == [1.0]
    assert math.isinf(ad.asarray([1.0]).at[[0]].divide(0.0).item())


def test_division_at_an_index_of_integers_is_refused() -> None:
    for index in (0, [0, 0]):
        with pytest.raises(ad.DTypeError, match=r"at\.divide.*int64"):
            ad.asarray([4, 6]).at[index].divide(2)


@pytest.mark.parametrize("change", ["multiply", "min", "max", "add"])
def test_changes_of_truth_values_are_truth_values(change: str) -> None:
    x, index, v = np.array([True, True, False]), [0, 0, 2], np.array([True, False, True])
    found = getattr(ad.asarray(x).at[index], change)(ad.asarray(v))
    np.testing.assert_array_equal(found.numpy(), NUMPY.at(x, index, change, v), strict=True)


@pytest.mark.parametrize(
    "index", [range(2), range(0), range(2, -1, -1), (range(3), [0, 1, 2]), (slice(None), range(1))]
)
def test_ranges_are_indices_as_lists_are(index: Any) -> None:
    a = np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(ad.asarray(a)[index].numpy(), a[index])
