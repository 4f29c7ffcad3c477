"""Every public function of `ad.`: values, gradients of two orders, torch's, traces, conventions."""

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint._foundation.dtypes import ALL
from adjoint.functions.methods import IN_PLACE
from tests.support.helpers import as_tuple, close, derivative, floats, leaf, values
from tests.support.records import (
    ADJOINT,
    AT_KINKS,
    EXEMPT,
    NUMPY,
    TABLE,
    Array,
    Methods,
    Record,
    Torch,
)

RECORDS = {record.name for record in TABLE}
every = pytest.mark.parametrize("record", TABLE, ids=lambda r: f"{r.name}-{r.case}")


def tensors(record: Record, dtype: str = "f8") -> list[ad.Tensor]:
    return [
        ad.tensor(a.astype(dtype), requires_grad=True) if a.dtype.kind == "f" else ad.asarray(a)
        for a in record.arrays
    ]


def random_like(xs: Sequence[Any], seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.standard_normal(tuple(x.shape))) for x in xs]


def two_orders(grad: Callable, outs: tuple, leaves: list, constant: Callable) -> list[list]:
    """The gradients for random incoming ones, and the gradients of a projection of those.

    `grad` is a library's autograd.grad, `constant` makes its tensors from arrays.
    """
    seeds = [constant(w) for w in random_like(outs, 0)]
    first = grad(outs, leaves, seeds, create_graph=True, allow_unused=True)
    chosen = [(g, w) for g, w in zip(first, random_like(leaves, 1), strict=True)]
    chosen = [(g, constant(w)) for g, w in chosen if g is not None and g.requires_grad]
    if not chosen:
        return [list(first), [None] * len(leaves)]
    again, weights = zip(*chosen, strict=True)
    return [list(first), list(grad(again, leaves, weights, allow_unused=True))]


def as_array(g: Any, x: Any, **how: Any) -> Array:
    return np.zeros(tuple(x.shape)) if g is None else g.detach().numpy(**how)


@every
def test_value_is_numpy_s(record: Record) -> None:
    outs = as_tuple(record.call(ADJOINT, *tensors(record)))
    expected = as_tuple(record.call(NUMPY, *record.arrays))
    for out, array in zip(outs, expected, strict=True):
        assert type(out.raw) is np.ndarray
        assert out.shape == np.shape(array)
        np.testing.assert_allclose(values(out), array, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "record",
    [r for r in TABLE if r.name not in ("astype", "sum in float64", "prod in float64")],
    ids=lambda r: f"{r.name}-{r.case}",
)
def test_smaller_floats_give_results_of_their_dtype_with_its_precision(record: Record) -> None:
    for dtype, tolerance in ((ad.float32, 4e-6), (ad.float16, 2e-2)):
        args = tensors(record, dtype.name)
        exact = [values(x).astype("f8") if x.dtype is dtype else values(x) for x in args]
        expected = as_tuple(record.call(NUMPY, *exact))
        for out, array in zip(as_tuple(record.call(ADJOINT, *args)), expected, strict=True):
            assert out.dtype is dtype
            np.testing.assert_allclose(values(out), array, rtol=tolerance, atol=tolerance)


@every
def test_gradients_of_two_orders_agree_with_finite_differences(record: Record) -> None:
    ad.testing.check_grads(lambda *xs: record.call(ADJOINT, *xs), record.arrays, order=2)


@pytest.mark.parametrize(
    "record", [r for r in TABLE if r.torch], ids=lambda r: f"{r.name}-{r.case}"
)
def test_value_and_gradients_of_two_orders_agree_with_torch(torch: Any, record: Record) -> None:
    args = tensors(record)
    theirs = [torch.tensor(a, requires_grad=a.dtype.kind == "f") for a in record.arrays]
    outs = as_tuple(record.call(ADJOINT, *args))
    expected = as_tuple(record.call(Torch(torch), *theirs))
    for out, other in zip(outs, expected, strict=True):
        assert out.shape == tuple(other.shape)
        np.testing.assert_allclose(values(out), other.detach().numpy(), rtol=1e-9, atol=1e-12)
    leaves, other_leaves = floats(args), [x for x in theirs if x.requires_grad]
    found = two_orders(ad.autograd.grad, outs, leaves, ad.asarray)
    wanted = two_orders(torch.autograd.grad, expected, other_leaves, torch.tensor)
    for ours, theirs in zip(found, wanted, strict=True):
        for x, g, other in zip(leaves, ours, theirs, strict=True):
            wanted_g = as_array(other, x, force=True)  # torch keeps some zeros without memory
            np.testing.assert_allclose(as_array(g, x), wanted_g, rtol=1e-9, atol=1e-12)


@every
def test_gradient_has_the_shape_and_dtype_of_its_input(record: Record) -> None:
    args = tensors(record, "f4")
    outs = as_tuple(record.call(ADJOINT, *args))
    assert all(out.requires_grad for out in outs)
    leaves = floats(args)
    seeds = [ad.ones_like(out) for out in outs]
    for x, g in zip(leaves, ad.autograd.grad(outs, leaves, seeds, allow_unused=True), strict=True):
        if g is not None:
            assert (g.shape, g.dtype) == (x.shape, ad.float32)


@pytest.mark.parametrize(
    "record", [r for r in TABLE if r.traces], ids=lambda r: f"{r.name}-{r.case}"
)
def test_a_trace_gives_what_eager_execution_gives(record: Record) -> None:
    def run(*args: ad.Tensor) -> list:
        outs = as_tuple(record.call(ADJOINT, *args))
        first, second = two_orders(ad.autograd.grad, outs, floats(args), ad.asarray)
        return [*outs, *first, *second]

    args = tensors(record)
    for replayed, eager in zip(ad.trace(run, *args)(*args), run(*args), strict=True):
        assert (replayed is None) == (eager is None)
        if eager is not None:
            assert replayed.dtype is eager.dtype
            np.testing.assert_array_equal(values(replayed), values(eager), strict=True)


@pytest.mark.parametrize(
    "record", [r for r in TABLE if len(r.arrays) > 1], ids=lambda r: f"{r.name}-{r.case}"
)
def test_the_gradient_of_one_input_alone_is_the_one_among_others(record: Record) -> None:
    """What is kept and computed for backward depends on which inputs need a gradient."""
    together = tensors(record)
    outs = as_tuple(record.call(ADJOINT, *together))
    expected = two_orders(ad.autograd.grad, outs, floats(together), ad.asarray)[0]
    for k, g in zip(range(len(expected)), expected, strict=True):
        args = tensors(record)
        for number, x in enumerate(floats(args)):
            x.requires_grad_(number == k)
        outs = as_tuple(record.call(ADJOINT, *args))
        chosen = [(out, w) for out, w in zip(outs, random_like(outs, 0), strict=True)]
        chosen = [(out, ad.asarray(w)) for out, w in chosen if out.requires_grad]
        if g is None or not chosen:
            assert g is None or not values(g).any()
            continue
        roots, weights = zip(*chosen, strict=True)
        (alone,) = ad.autograd.grad(roots, [floats(args)[k]], weights)
        np.testing.assert_allclose(values(alone), values(g), rtol=1e-12, atol=1e-14)


@every
def test_no_anomaly_is_found_where_there_is_none(record: Record) -> None:
    """Neither function nor rules go through NaN or infinity."""
    with ad.detect_anomaly():
        args = tensors(record)
        outs = as_tuple(record.call(ADJOINT, *args))
        two_orders(ad.autograd.grad, outs, floats(args), ad.asarray)


METHODS = [r for r in TABLE if callable(getattr(ad.Tensor, r.name, None))]


@pytest.mark.parametrize("record", METHODS, ids=lambda r: f"{r.name}-{r.case}")
def test_method_is_the_function(record: Record) -> None:
    args = tensors(record)
    outs, others = (as_tuple(record.call(xp, *args)) for xp in (ADJOINT, Methods()))
    for out, other in zip(outs, others, strict=True):
        assert other.requires_grad
        np.testing.assert_array_equal(values(out), values(other), strict=True)


# Integers, truth values and complex numbers.

MOVES = (
    "reshape permute_dims transpose matrix_transpose x.T x.mT swapaxes moveaxis broadcast_to "
    "broadcast_arrays expand_dims squeeze concat stack unstack split meshgrid flip roll tile "
    "repeat diagonal diagflat tril triu take take_along_axis gather index_select where x[i] "
    "x[i]_=_v x.at[i].set"
)
MOVING = [r for r in TABLE if r.name.replace(" ", "_") in MOVES.split()]
ADDS = "diff sum prod cumulative_sum cumulative_prod scatter_add x.at[i].add x.at[i].subtract"
ADDING = [r for r in TABLE if r.name in ADDS.split() or r.name.startswith("x.at[i].m")]


def in_dtype(record: Record, dtype: ad.DType) -> list[Array]:
    """The arrays with other numbers, some of them equal."""
    return [
        np.asarray((a * 7).round().astype(np.int64)).astype(dtype.dtype)
        if a.dtype.kind == "f"
        else a
        for a in record.arrays
    ]


def same_in(record: Record, dtype: ad.DType) -> None:
    arrays = in_dtype(record, dtype)
    outs = as_tuple(record.call(ADJOINT, *map(ad.asarray, arrays)))
    for out, expected in zip(outs, as_tuple(record.call(NUMPY, *arrays)), strict=True):
        np.testing.assert_array_equal(out.numpy(), expected, strict=True)


@pytest.mark.parametrize("record", MOVING, ids=lambda r: f"{r.name}-{r.case}")
def test_elements_of_every_dtype_are_moved_as_numpy_moves_them(record: Record) -> None:
    for dtype in ALL:
        same_in(record, dtype)


@pytest.mark.parametrize("record", ADDING, ids=lambda r: f"{r.name}-{r.case}")
def test_numbers_of_every_integer_dtype_are_added_as_numpy_adds_them(record: Record) -> None:
    for dtype in (d for d in ALL if d.kind in ("int", "uint")):
        same_in(record, dtype)


# What has no record, and why.


def public_functions() -> set[str]:
    """Names in `ad.` that are functions, but for ops that are declared to have no gradient."""
    found = {name: getattr(ad, name) for name in dir(ad) if not name.startswith("_")}
    found = {name: f for name, f in found.items() if callable(f)}
    return {
        name
        for name, f in found.items()
        if not isinstance(f, type) and getattr(getattr(f, "op", None), "differentiable", True)
    }


def test_every_public_function_of_floats_has_a_record() -> None:
    exempt = {name for names in EXEMPT.values() for name in names.split()}
    functions = public_functions()
    assert functions - RECORDS - exempt == set()
    assert exempt - functions == set()
    assert exempt & RECORDS == set()


def test_every_method_that_computes_has_a_record() -> None:
    machinery = set(
        "backward detach item numpy register_hook register_post_accumulate_grad_hook "
        "requires_grad_ retain_grad tolist to to_device permute".split()
    )
    methods = {n for n, f in vars(ad.Tensor).items() if callable(f) and not n.startswith("_")}
    methods -= {*IN_PLACE, "normal_", "uniform_"}  # test_aliases has them
    without = {n for n in methods - RECORDS - machinery if n in public_functions()}
    assert without <= {name for names in EXEMPT.values() for name in names.split()}
    assert methods - machinery - set(vars(ad)) == set()


# Conventions where a derivative doesn't exist, or where careless formulas fail.


def slopes(f: Callable, *points: Any) -> list[Array]:
    """The gradients of the sum of f at points."""
    leaves = [leaf(point) for point in points]
    return [values(g) for g in ad.autograd.grad(f(*leaves).sum(), leaves)]


def curvature(f: Callable, point: Any) -> Array:
    """The gradient of the sum of the gradient of f."""
    x = leaf(point)
    g = derivative(f(x).sum(), x, create_graph=True)
    return values(derivative(g.sum(), x)) if g.requires_grad else np.zeros(x.shape)


INF, NAN = math.inf, math.nan


@pytest.mark.parametrize("name", AT_KINKS)
def test_the_gradient_at_a_kink_is_the_documented_one(name: str) -> None:
    f, where, expected = AT_KINKS[name]
    np.testing.assert_allclose(slopes(f, where)[0], expected, rtol=1e-14)


@pytest.mark.parametrize("name", sorted(set(AT_KINKS) - {"pow 1.5"}))
def test_second_derivatives_at_kinks_are_finite(name: str) -> None:
    f, where, _ = AT_KINKS[name]
    assert np.isfinite(curvature(f, where)).all()


SECOND_AT_ZERO: dict[str, tuple] = {
    "prod of one zero": (ad.prod, [2.0, 0.0, 3.0], [[0, 3, 0], [3, 0, 2], [0, 2, 0]]),
    "prod of two zeros": (ad.prod, [0.0, 2.0, 0.0], [[0, 0, 2], [0, 0, 0], [2, 0, 0]]),
    "prod of three zeros": (ad.prod, [0.0, 0.0, 0.0], np.zeros((3, 3))),
    "cumulative_prod": (ad.cumulative_prod, [0.0, 0.0, 3.0], [[0, 4, 0], [4, 0, 0], [0, 0, 0]]),
    "pow 2": (lambda x: x**2.0, [0.0, 1.0], [[2, 0], [0, 2]]),
    "pow 3": (lambda x: x**3, [0.0, 1.0], [[0, 0], [0, 6]]),
    "pow of a tensor": (lambda x: x ** ad.asarray([1.0, 2.0]), [0.0, 0.0], [[0, 0], [0, 2]]),
    "square": (ad.square, [0.0], [[2]]),
    "relu": (lambda x: ad.relu(x) ** 2, [0.0, 1.0], [[0, 0], [0, 2]]),
    "abs": (lambda x: ad.abs(x) ** 2, [0.0, 1.0], [[0, 0], [0, 2]]),
    "max": (lambda x: ad.max(x) ** 2, [1.0, 1.0], [[0.5, 0.5], [0.5, 0.5]]),
}


@pytest.mark.parametrize("name", SECOND_AT_ZERO)
def test_hessian_at_a_special_point(name: str) -> None:
    f, where, expected = SECOND_AT_ZERO[name]
    x = leaf(where)
    g = derivative(f(x).sum(), x, create_graph=True)
    rows = [values(derivative(g[k], x, retain_graph=True)) for k in range(x.size)]
    np.testing.assert_allclose(rows, expected, atol=1e-14)


# name: (function, where, value, derivative, second derivative)
KNOWN: dict[str, tuple] = {
    "exp": (ad.exp, 0.5, math.exp(0.5), math.exp(0.5), math.exp(0.5)),
    "expm1": (ad.expm1, 0.0, 0, 1, 1),
    "log1p": (ad.log1p, 0.0, 0, 1, -1),
    "log2": (ad.log2, 8.0, 3, 1 / (8 * math.log(2)), -1 / (64 * math.log(2))),
    "log10": (ad.log10, 100.0, 2, 0.01 / math.log(10), -1e-4 / math.log(10)),
    "sqrt": (ad.sqrt, 4.0, 2, 1 / 4, -1 / 32),
    "reciprocal": (ad.reciprocal, 2.0, 0.5, -0.25, 0.25),
    "sin": (ad.sin, math.pi / 2, 1, 0, -1),
    "tan": (ad.tan, math.pi / 4, 1, 2, 4),
    "asin": (ad.asin, 0.6, math.asin(0.6), 1.25, 0.6 / 0.512),
    "acos": (ad.acos, 0.6, math.acos(0.6), -1.25, -0.6 / 0.512),
    "atan": (ad.atan, 1.0, math.pi / 4, 0.5, -0.5),
    "sinh": (ad.sinh, 0.0, 0, 1, 0),
    "cosh": (ad.cosh, 0.0, 1, 0, 1),
    "tanh": (ad.tanh, 0.0, 0, 1, 0),
    "asinh": (ad.asinh, 0.75, math.log(2), 0.8, -0.75 * 0.8**3),
    "acosh": (ad.acosh, 1.25, math.log(2), 4 / 3, -1.25 * (4 / 3) ** 3),
    "atanh": (ad.atanh, 0.6, math.log(2), 1 / 0.64, 1.2 / 0.64**2),
    "sigmoid": (ad.sigmoid, 0.0, 0.5, 0.25, 0),
    "softplus": (ad.softplus, 0.0, math.log(2), 0.5, 0.25),
    "silu": (ad.silu, 0.0, 0, 0.5, 0.5),
    "gelu": (ad.gelu, 0.0, 0, 0.5, math.sqrt(2 / math.pi)),
    "gelu tanh": (lambda x: ad.gelu(x, "tanh"), 0.0, 0, 0.5, math.sqrt(2 / math.pi)),
    "erf": (ad.erf, 0.0, 0, 2 / math.sqrt(math.pi), 0),
    "elu": (lambda x: ad.elu(x, 2.0), -math.log(2), -1, 1, 1),
    "hypot": (lambda x: ad.hypot(x, 4), 3.0, 5, 0.6, 16 / 125),
    "atan2": (lambda x: ad.atan2(x, 1), 1.0, math.pi / 4, 0.5, -0.5),
    "logaddexp": (lambda x: ad.logaddexp(x, 0), 0.0, math.log(2), 0.5, 0.25),
    "pow": (lambda x: x**3.5, 4.0, 128, 112, 3.5 * 2.5 * 8),
    "power of": (lambda x: 2**x, 3.0, 8, 8 * math.log(2), 8 * math.log(2) ** 2),
    "prod": (lambda x: ad.prod(ad.stack([x, x * 3])), -2.0, 12, -12, 6),
    "std": (lambda x: ad.std(ad.stack([x, x * x])), 2.0, 1, 1.5, 1),
}


@pytest.mark.parametrize("name", KNOWN)
def test_derivatives_of_two_orders_have_the_known_numbers(name: str) -> None:
    f, where, *expected = KNOWN[name]
    found = [f(leaf(where)).item(), slopes(f, where)[0].item(), curvature(f, where).item()]
    assert found == pytest.approx(expected, rel=1e-13, abs=1e-15)


def test_the_product_of_minus_two_and_three_is_minus_six() -> None:
    assert ad.prod(ad.asarray([-2.0, 3.0])).item() == -6
    assert slopes(ad.prod, [-2.0, 3.0])[0].tolist() == [3, -2]


def test_max_of_nan_gives_it_the_gradient() -> None:
    for f in (ad.max, ad.min):
        found = slopes(f, [1.0, NAN, 2.0])[0]
        assert found[1] == 1 or math.isnan(found[1]), found


PIECEWISE_CONSTANT = ("sign", "floor", "ceil", "round", "trunc", "imag")


@pytest.mark.parametrize("name", PIECEWISE_CONSTANT)
def test_what_is_constant_nearly_everywhere_has_a_zero_gradient_not_a_missing_one(
    name: str,
) -> None:
    x = leaf([-1.5, 0.0, 2.0])
    out = getattr(ad, name)(x)
    assert out.requires_grad
    out.sum().backward()
    close(x.grad, np.zeros(3))


@pytest.mark.parametrize("f", [ad.floor_divide, lambda x, y: ad.copysign(x * 0, y)])
def test_quotients_and_signs_give_zero_gradients(f: Callable) -> None:
    for g in slopes(f, [7.0, -7.0], [2.0, 2.0]):
        np.testing.assert_array_equal(g, [0, 0])


@pytest.mark.parametrize("function", [ad.argmax, ad.argsort, ad.isnan, ad.count_nonzero, ad.any])
def test_indices_and_truth_values_have_no_gradient(function: Callable) -> None:
    assert not function(leaf([1.0, 2.0])).requires_grad


def test_where_keeps_nan_of_the_untaken_branch_out_at_both_orders() -> None:
    x = leaf([0.0, 4.0])
    out = ad.where(ad.asarray([False, True]), x, ad.asarray([NAN, NAN]))
    g = derivative((out[1:] ** 3).sum(), x, create_graph=True)
    close(g, [0.0, 48.0])
    close(derivative(g.sum(), x), [0.0, 24.0])


def test_active_bounds_of_clip_get_the_gradient() -> None:
    x, low, high = [-1.0, 0.5, 2.0, 0.0, 1.0], [0.0] * 5, [1.0] * 5
    found = slopes(ad.clip, x, low, high)
    np.testing.assert_array_equal(found, [[0, 1, 0, 0, 0], [1, 0, 0, 1, 0], [0, 0, 1, 0, 1]])


def test_bounds_of_clip_in_the_wrong_order_give_the_upper_one() -> None:
    x, low, high = slopes(ad.clip, [-1.0, 0.5, 2.0], [1.0] * 3, [0.0] * 3)
    assert x.tolist() == low.tolist() == [0, 0, 0] and high.tolist() == [1, 1, 1]


# Numbers that are large, small or close to each other.

STABLE: dict[str, tuple] = {
    # name: (function, where, values, gradients)
    "logsumexp": (ad.logsumexp, [1e4, 1e4], 1e4 + math.log(2), [0.5, 0.5]),
    "logsumexp of small": (ad.logsumexp, [-1e4, -1e4], -1e4 + math.log(2), [0.5, 0.5]),
    "softplus": (ad.softplus, [1e4, -1e4, INF, -INF], [1e4, 0, INF, 0], [1, 0, 1, 0]),
    "sigmoid": (ad.sigmoid, [1000.0, -1000.0, INF, -INF], [1, 0, 1, 0], [0, 0, 0, 0]),
    "silu": (ad.silu, [1e4, -1e4], [1e4, 0], [1, 0]),
    "gelu": (ad.gelu, [1e4, -1e4], [1e4, 0], [1, 0]),
    "gelu tanh": (lambda x: ad.gelu(x, "tanh"), [1e4, -1e4], [1e4, 0], [1, 0]),
    "tanh": (ad.tanh, [1e4, -1e4, INF], [1, -1, 1], [0, 0, 0]),
    "erf": (ad.erf, [1e4, -1e4], [1, -1], [0, 0]),
    "elu": (ad.elu, [1e4, -1e4], [1e4, -1], [1, 0]),
    "logaddexp": (lambda x: ad.logaddexp(x, 1e4), [1e4, -1e4], [1e4 + math.log(2), 1e4], [0.5, 0]),
    "log_softmax": (ad.log_softmax, [1e4, 0.0], [0, -1e4], [-1, 1]),
    "softmax": (lambda x: ad.softmax(x)[0], [1e4, 0.0], 1, [0, 0]),
    "expm1": (ad.expm1, [1e-12, -1e-12], [1e-12 + 5e-25, -1e-12 + 5e-25], [1 + 1e-12, 1 - 1e-12]),
    "log1p": (ad.log1p, [1e-12, -1e-12], [1e-12 - 5e-25, -1e-12 - 5e-25], [1 - 1e-12, 1 + 1e-12]),
    "hypot": (lambda x: ad.hypot(x, 4e200), [3e200], [5e200], [0.6]),
    "hypot of small": (lambda x: ad.hypot(x, 4e-200), [3e-200], [5e-200], [0.6]),
    "atan2": (lambda x: ad.atan2(x, 4e200), [3e200], [math.atan(0.75)], [4 / 25 * 1e-200]),
    "asinh": (ad.asinh, [1e200], [math.asinh(1e200)], [1e-200]),
    "acosh": (ad.acosh, [1e200], [math.acosh(1e200)], [1e-200]),
    "atanh": (ad.atanh, [1e-12], [1e-12], [1]),
    "log of tiny": (ad.log, [1e-150], [math.log(1e-150)], [1e150]),
}


@pytest.mark.parametrize("name", STABLE)
def test_stable_form(name: str) -> None:
    f, where, expected, gradients = STABLE[name]
    np.testing.assert_allclose(values(f(leaf(where))), expected, rtol=1e-14, atol=1e-300)
    np.testing.assert_allclose(slopes(f, where)[0], gradients, rtol=1e-12, atol=1e-300)
    assert np.isfinite(curvature(f, where)).all()


@pytest.mark.parametrize(
    "name", ["softplus", "sigmoid", "silu", "gelu", "tanh", "erf", "elu", "exp"]
)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_no_nan_at_any_finite_number(name: str, dtype: str) -> None:
    """Values, gradients and theirs over nearly a dtype's whole range; exp may be infinite."""
    size = float(np.finfo(dtype).max) / 4
    points = np.concatenate([np.geomspace(1e-7, size, 200), [0.0, 1.0]]).clip(0, size)
    x = leaf(np.concatenate([points, -points]), dtype)
    out = getattr(ad, name)(x)
    g = derivative(out, x, ad.ones_like(out), create_graph=True)
    for result in (out, g, derivative(g, x, ad.ones_like(g))):
        assert not np.isnan(values(result)).any()
        assert name == "exp" or np.isfinite(values(result)).all()


@pytest.mark.parametrize("axis", [0, 1, None])
def test_variance_of_close_numbers_with_a_large_mean(axis: int | None) -> None:
    x = (1e4 + np.random.default_rng(0).uniform(0, 1e-2, (200, 200))).astype("float32")
    exact = x.astype("float64")
    for name in ("var", "std"):
        found = getattr(ad, name)(ad.asarray(x), axis=axis).numpy()
        np.testing.assert_allclose(found, getattr(np, name)(exact, axis=axis), rtol=2e-3)
    g = values(derivative(ad.var(t := leaf(x, "float32")), t))
    half_a_unit = np.spacing(x.max()) / 2  # of the mean, in float32
    deviations = exact - exact.mean()
    np.testing.assert_allclose(g * x.size / 2, deviations, rtol=1e-6, atol=half_a_unit)


def test_accumulation_of_float16_is_not_in_float16() -> None:
    ones = ad.ones((5000, 2), dtype=ad.float16)
    x = ad.ones((), dtype=ad.float16, requires_grad=True)
    results = {
        "sum": ad.sum(ones, axis=0)[0],
        "sum of a row": ad.sum(ones[:, 0]),
        "mean": ad.mean(ones * 60000, axis=0)[0] / 12,
        "cumulative_sum": ad.cumulative_sum(ones, axis=0)[-1, 0],
        "matmul": (ones.T @ ones)[0, 1],
        "at.add": ad.zeros(1, dtype=ad.float16).at[np.zeros(5000, int)].add(1.0)[0],
        "scatter_add": ad.scatter_add(
            ad.zeros((1, 2), dtype=ad.float16), np.zeros((5000, 2), int), ones
        )[0, 0],
        "gradient of broadcasting": derivative((x * ones[:, 0]).sum(), x),
        "gradient of indexing": derivative(x.reshape(1)[np.zeros(5000, int)].sum(), x),
    }
    assert {name: out.dtype for name, out in results.items()} == dict.fromkeys(results, ad.float16)
    assert {name: out.item() for name, out in results.items()} == dict.fromkeys(results, 5000.0)


def test_logsumexp_of_infinities_is_infinite() -> None:
    assert ad.logsumexp(ad.asarray([INF, 0.0])).item() == INF
    assert ad.logsumexp(ad.asarray([INF, INF])).item() == INF
    assert ad.logsumexp(ad.asarray([INF, -INF])).item() == INF
    assert ad.logsumexp(ad.asarray([-INF, -INF])).item() == -INF
    assert ad.logsumexp(ad.zeros((2, 0)), axis=1).tolist() == [-INF, -INF]
    assert math.isnan(ad.logsumexp(ad.asarray([INF, NAN])).item())


def test_logarithms_of_sums_of_many_float16() -> None:
    zeros = ad.zeros(60000, dtype=ad.float16)
    expected = np.float16(math.log(60000))
    assert ad.logsumexp(zeros).item() == expected
    assert ad.log_softmax(zeros)[0].item() == -expected
    assert ad.var(ad.asarray(np.linspace(0, 500, 5000).astype("f2"))).item() == pytest.approx(
        20850, rel=2e-3
    )


# Edges that were wrong once.


def test_products_that_overflow_where_they_aren_t_needed_leave_gradients_alone() -> None:
    x = leaf(np.r_[np.full(100, 0.5), np.full(200, 2.0)], np.float32)
    ad.cumulative_prod(x)[:3].sum().backward()
    close(x.grad, [1.75, 0.75, 0.25, *np.zeros(297)])


def test_an_infinity_at_one_place_leaves_others_alone() -> None:
    out = ad.ones(3).at[[0, 1, 1]].multiply(ad.asarray([math.inf, 2.0, 3.0]))
    assert out.tolist() == [math.inf, 6.0, 1.0]


def test_a_missing_bound_is_one_of_the_common_dtype() -> None:
    out = ad.clip(ad.asarray([100], dtype=ad.int8), min=ad.asarray([200], dtype=ad.int16))
    assert out.tolist() == [200]


def test_more_ties_than_float16_can_count_share_the_gradient() -> None:
    x = ad.zeros(70000, dtype=ad.float16, requires_grad=True)
    ad.max(x).backward()
    total = values(x.grad).astype(np.float64).sum()
    assert total == pytest.approx(1, rel=2e-2)  # 1 / 70000 is denormal in float16


def test_elu_keeps_its_tail() -> None:
    x = leaf([-30.0], np.float32)
    ad.elu(x).sum().backward()
    close(x.grad, np.exp(np.array([-30.0], np.float32)), 1e-20)


def test_a_running_sum_in_float32_is_as_good_as_float32_can_be() -> None:
    total = ad.cumulative_sum(ad.full(10**6, 0.1))[-1].item()
    assert total == pytest.approx(np.float32(0.1).astype(float) * 10**6, rel=1e-7)


@pytest.mark.parametrize(
    "call",
    [
        ad.positive,
        ad.real,
        ad.conj,
        lambda x: ad.roll(x, (), axis=()),
        lambda x: ad.pad(x, 0, "edge"),
        lambda x: ad.pad(x, 0),
        lambda x: ad.reshape(x, x.shape),
        lambda x: ad.broadcast_to(x, x.shape),
        lambda x: ad.squeeze(x, ()),
        lambda x: ad.clip(x),
        lambda x: ad.diff(x, n=0),
        lambda x: ad.asarray(x, copy=True),
        lambda x: ad.astype(x, x.dtype),
        lambda x: ad.einsum("ij", x),
        lambda x: ad.broadcast_arrays(x)[0],
        lambda x: ad.concat([x]),
        lambda x: ad.tile(x, 1),
        lambda x: ad.linalg.matrix_power(x, 1),
        lambda x: ad.flip(x, ()),
        lambda x: ad.permute_dims(x, (0, 1)),
        lambda x: ad.moveaxis(x, 0, 0),
        lambda x: x[...],
        ad.copy,
        lambda x: x.copy(),
        copy.copy,
    ],
)
def test_what_does_nothing_gives_another_tensor(call: Callable) -> None:
    x = ad.zeros((2, 2))
    y = call(x)
    y += 1
    assert x.tolist() == [[0, 0], [0, 0]]


def test_a_copy_has_a_gradient_of_its_own() -> None:
    x = leaf([1.0])
    x.grad = ad.ones(1, dtype=ad.float64)
    copied = copy.copy(x)
    copied.grad[0] = 9.0
    assert x.grad.tolist() == [1.0]


def test_nothing_can_be_reshaped_without_a_copy() -> None:
    assert ad.reshape(ad.zeros((0, 3)), (3, 0), copy=False).shape == (3, 0)


def test_empty_tensors_show_their_shape() -> None:
    assert repr(ad.zeros((0, 3))) == "tensor([], shape=(0, 3))"
    assert repr(ad.zeros(0)) == "tensor([])"


SORTED = ["bool", "int8", "int32", "int64", "uint16", "uint64", "float16", "float32", "float64"]


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("dtype", SORTED)
def test_large_tensors_are_sorted_as_stably_as_small_ones(dtype: str, wide: bool) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 50, (3, 400)).astype(dtype)
    if dtype.startswith("float"):
        x[:, ::7] = np.resize([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0], (3, 58))
        x = x - 20
    if wide and dtype in ("int64", "uint64"):
        x[0, 0], x[0, 1] = np.iinfo(dtype).max, np.iinfo(dtype).min
    order = np.argsort(x, axis=1, stable=True)
    down = 399 - np.argsort(x[:, ::-1], axis=1, stable=True)[:, ::-1]
    t = ad.asarray(x)
    np.testing.assert_array_equal(ad.argsort(t, axis=1).numpy(), order)
    np.testing.assert_array_equal(ad.argsort(t, axis=1, descending=True).numpy(), down)
    np.testing.assert_array_equal(ad.argsort(t.T, axis=0).numpy(), order.T)
    for k in (0, 1, 30, 400):
        np.testing.assert_array_equal(ad.topk(t, k).indices.numpy(), down[:, :k])
        np.testing.assert_array_equal(ad.topk(t, k, largest=False).indices.numpy(), order[:, :k])
    np.testing.assert_array_equal(ad.sort(t).numpy(), np.take_along_axis(x, order, 1))


def test_a_square_in_a_rule_is_compiled() -> None:
    cube = ad.op.elementwise("a_cube", x=lambda g, x: 3 * g * x**2, forward=lambda x: x**2 * x)
    assert cube.op.plan((True,)).compiled[np.ndarray] is not None  # type: ignore[attr-defined]
    x = leaf([2.0])
    cube(x).sum().backward()
    close(x.grad, [12.0])
