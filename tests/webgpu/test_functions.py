"""Every public function on a GPU gives what it gives on the CPU: values, dtypes and gradients.

Both compute in float32, int32 and truth values; what is int64 on the CPU is int32 there.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from tests.support import function_references, linalg_cases, neural_cases, swiftshader
from tests.support.helpers import as_tuple, default_device
from tests.support.records import ADJOINT, AT_KINKS, EXEMPT, TABLE
from tests.webgpu.tensors import narrowed, near, weights

pytestmark = pytest.mark.webgpu

F, L = ad.nn.functional, ad.linalg
NAN, INF = math.nan, math.inf
TINY = np.finfo(np.float32).tiny  # GPUs may take numbers below it for 0

# Functions are within a few last digits of the CPU's; so is what is made of several of them, or of
# sums of several terms, as a part of the largest element.
RTOL, ATOL = 2e-5, 2e-6
HALF = 3e-3  # the same, of float16

Array = np.ndarray
INDICES = {np.dtype("i8"): np.dtype("i4"), np.dtype("u8"): np.dtype("u4")}  # there, and on the GPU


class Call(NamedTuple):
    """A function of tensors, the arrays to call it with, and which of them are differentiated."""

    id: str
    function: Callable
    arrays: list[Array]
    variable: list[bool]


def result(call: Call, device: str, half: bool = False) -> tuple[list[Array], list[Array | None]]:
    """The values of a call, and the gradients of its variables."""
    with default_device(device):
        args = [narrowed(device, array, half) for array in call.arrays]
        pairs = zip(args, call.variable, strict=True)
        leaves = [x.requires_grad_() for x, variable in pairs if variable]
        outs = as_tuple(call.function(*args))
        chosen = [out for out in outs if out.requires_grad]
        seeds = [weights(out, k) for k, out in enumerate(chosen)]
        grads = ad.autograd.grad(chosen, leaves, seeds, allow_unused=True) if chosen else ()
        assert {x.device for x in (*outs, *grads) if x is not None} <= {device}
        return [x.detach().numpy() for x in outs], [None if g is None else g.numpy() for g in grads]


def agree(call: Call, rtol: float = RTOL, atol: float = ATOL, half: bool = False) -> None:
    expected, found = (result(call, device, half) for device in ("cpu", "webgpu"))
    for ours, theirs in zip(found, expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            if one is None or other is None:
                assert one is other
                continue
            assert one.dtype == INDICES.get(other.dtype, other.dtype)
            near(one, other, rtol, atol)


# The records of all functions that have gradients.

FLOAT64 = ("astype", "sum in float64", "prod in float64")  # a GPU has none: see REFUSED


def neural(case: neural_cases.Case) -> Call:
    def function(*given: ad.Tensor) -> Any:
        return case.call(getattr(F, case.function), case.options, list(given))

    return Call(f"F.{case.id}", function, case.given, case.variable)


def linear(name: str, case: linalg_cases.Case, shape: tuple[int, int]) -> Call:
    arrays = case.arguments((2, 3), *shape)
    return Call(f"L.{name}-{shape[0]}x{shape[1]}", case.call, arrays, [True for _ in arrays])


RECORDS = {
    f"{record.name}-{record.case}": Call(
        record.name,
        functools.partial(record.call, ADJOINT),
        record.arrays,
        [array.dtype.kind == "f" for array in record.arrays],
    )
    for record in TABLE
    if record.name not in FLOAT64
}
CALLS = [
    *(call._replace(id=name) for name, call in RECORDS.items()),
    *(neural(case) for case in neural_cases.CASES),
    *(
        linear(name, case, shape)
        for name, case in linalg_cases.CASES.items()
        for shape in sorted({case.shapes[0], case.shapes[-1], case.shapes[len(case.shapes) // 2]})
    ),
]


# By decompositions that the host computes.
ON_HOST = (
    *("L.lstsq", "L.pinv", "L.svd", "L.qr", "L.eig", "L.expm"),
    *(f"L.{name} {ord}" for name in ("matrix_norm", "cond") for ord in ("nuc", "2", "-2", "None")),
)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.id)
def test_values_and_gradients_are_the_cpus_and_computed_on_the_device(call: Call) -> None:
    with ad.config(host_ops="allow" if call.id.startswith(ON_HOST) else "error"):
        agree(call)


def first_of_each(calls: Iterator[Call]) -> list[Call]:
    """The first call of each function that has more than one element to compute with."""
    found: dict[str, Call] = {}
    for call in calls:
        if max((array.size for array in call.arrays), default=0) > 1:
            found.setdefault(call.id, call)
    return list(found.values())


HALVES = first_of_each(
    itertools.chain(
        RECORDS.values(),
        (neural(case)._replace(id=f"F.{case.function}") for case in neural_cases.CASES),
    )
)


@pytest.mark.parametrize(
    "call", [c for c in HALVES if c.id != "nextafter"], ids=lambda call: call.id
)
def test_float16_is_the_cpus_where_the_adapter_has_it(call: Call) -> None:
    found = next(device for device in ad.devices() if device.name == "webgpu")
    if "float16" not in found.dtypes:
        with pytest.raises(ad.DTypeError, match="float16"):
            ad.ones(1, dtype=ad.float16, device="webgpu")
        return
    agree(call, HALF, HALF, half=True)


@pytest.mark.parametrize("name", AT_KINKS)
def test_the_gradient_at_a_kink_is_the_documented_one(name: str) -> None:
    f, where, expected = AT_KINKS[name]
    with default_device("webgpu"):
        x = narrowed("webgpu", where).requires_grad_()
        (g,) = ad.autograd.grad(f(x).sum(), x)
    assert g is not None
    np.testing.assert_allclose(g.numpy(), expected, rtol=1e-6)


# Integers, truth values, and functions without gradients.

WHOLE = np.array([0, 1, -1, 2, -2, 3, -3, 7, -7, 31, 32, 33, -32, 100, -100, 46341, 123456789])
EDGES = np.array([2**31 - 1, -(2**31), -(2**31) + 1])
KINDS = {
    "int32": np.append(WHOLE, EDGES).astype(np.int32),
    "uint32": np.append(np.abs(WHOLE), [2**31 - 1, 2**31, 2**32 - 1]).astype(np.uint32),
    "bool": np.array([True, False, False, True]),
}
NUMBERS, ALL_KINDS = ("int32", "uint32"), ("int32", "uint32", "bool")
UNARY = {
    **dict.fromkeys("negative positive sign".split(), NUMBERS),
    **dict.fromkeys("abs square floor ceil round trunc isfinite isinf isnan".split(), NUMBERS),
    **dict.fromkeys("bitwise_invert logical_not any all count_nonzero".split(), ALL_KINDS),
    **dict.fromkeys("sqrt exp sum prod mean sort argsort argmax argmin".split(), ALL_KINDS),
    **dict.fromkeys("max min cumulative_prod unique_all nonzero".split(), NUMBERS),
}
BINARY = {
    **dict.fromkeys("subtract divide floor_divide remainder".split(), NUMBERS),
    **dict.fromkeys("bitwise_left_shift bitwise_right_shift".split(), NUMBERS),
    **dict.fromkeys("add multiply maximum minimum equal not_equal less".split(), ALL_KINDS),
    **dict.fromkeys("less_equal greater greater_equal bitwise_and bitwise_or".split(), ALL_KINDS),
    **dict.fromkeys("bitwise_xor logical_and logical_or logical_xor".split(), ALL_KINDS),
    **dict.fromkeys("isin searchsorted".split(), NUMBERS),
}
LONGER = ("sum", "prod", "cumulative_prod")  # on the CPU, where results have 64 bits


def same_integers(function: Callable, *arrays: Array) -> None:
    agree(Call("", function, list(arrays), [False for _ in arrays]))


@pytest.mark.parametrize(("name", "kind"), [(name, k) for name in UNARY for k in UNARY[name]])
def test_functions_of_integers_and_truth_values_are_the_cpus(name: str, kind: str) -> None:
    x = KINDS[kind]
    small = x[np.abs(x.astype(np.int64)) < 4]
    same_integers(getattr(ad, name), small if name in LONGER else x)


@pytest.mark.parametrize(("name", "kind"), [(name, k) for name in BINARY for k in BINARY[name]])
def test_functions_of_two_integers_or_truth_values_are_the_cpus(name: str, kind: str) -> None:
    x = KINDS[kind]
    first, second = (np.sort(x), x) if name == "searchsorted" else (x[:, None], x)
    same_integers(getattr(ad, name), first, second)


def test_powers_of_integers_are_the_cpus() -> None:
    for kind in NUMBERS:
        x = KINDS[kind][:, None]
        same_integers(ad.pow, x, np.arange(7).astype(x.dtype))
        same_integers(lambda x: x**2, x)
        same_integers(lambda x: 2 ** (x % 5), x)


MIXED: dict[str, Callable] = {
    "float and int": lambda x, i, u, b: x + i,
    "int and bool": lambda x, i, u, b: i * b,
    "uint and bool": lambda x, i, u, b: u + b,
    "float and bool": lambda x, i, u, b: ad.maximum(x, b),
    "where": lambda x, i, u, b: ad.where(b, x, i),
    "int / int": lambda x, i, u, b: i / (i + 1),
    "int and 1.5": lambda x, i, u, b: i + 1.5,
    "int < 1.5": lambda x, i, u, b: i < 1.5,
    "1 - bool": lambda x, i, u, b: 1 - b,
    "int % -3": lambda x, i, u, b: i % -3,
    "int // 0": lambda x, i, u, b: i // 0,
    "int >> 40": lambda x, i, u, b: i >> 40,
    "clip of int": lambda x, i, u, b: ad.clip(i, -5, 5),
    "sum of bool": lambda x, i, u, b: ad.sum(b),
    "mean of int": lambda x, i, u, b: ad.mean(i),
    "float to int": lambda x, i, u, b: ad.astype(x, ad.int32),
    "float to bool": lambda x, i, u, b: ad.astype(x, ad.bool),
    "int to uint": lambda x, i, u, b: ad.astype(i, ad.uint32),
    "uint to float": lambda x, i, u, b: ad.astype(u, ad.float32),
    "bool to float": lambda x, i, u, b: ad.astype(b, ad.float32),
    "matmul of int": lambda x, i, u, b: i.reshape((2, 2)) @ i.reshape((2, 2)),
    "matmul of bool": lambda x, i, u, b: b.reshape((2, 2)) @ b.reshape((2, 2)),
    "outer of uint": lambda x, i, u, b: ad.outer(u, u),
    "x.at[i].add of int": lambda x, i, u, b: i.at[[0, 0, 1]].add(i[1]),
    "one_hot": lambda x, i, u, b: F.one_hot(ad.abs(i) % 3, num_classes=4),
    "matrix_rank": lambda x, i, u, b: L.matrix_rank(x.reshape((2, 2))),
    "unique_counts": lambda x, i, u, b: ad.unique_counts(b * 2),
    "unique_inverse": lambda x, i, u, b: ad.unique_inverse(i % 2),
    "topk": lambda x, i, u, b: ad.topk(i, 2),
    "signbit": lambda x, i, u, b: ad.signbit(x),
}


@pytest.mark.parametrize("name", MIXED)
def test_mixed_dtypes_and_other_functions_without_gradients_are_the_cpus(name: str) -> None:
    x = np.array([0.5, -1.9, 1e9, -INF if name == "float and bool" else 7.0])
    i, u = np.array([3, -7, 0, 2**29]), np.array([1, 2, 3, 2**30 + 3], np.uint32)
    same_integers(MIXED[name], x, i, u, KINDS["bool"])


X = np.arange(6.0).reshape(2, 3)
MADE: dict[str, Callable] = {
    "arange": lambda x: ad.arange(2, 9, 3),
    "arange of floats": lambda x: ad.arange(0.5, 4),
    "asarray": lambda x: ad.asarray([[1, 2], [3, 4]]),
    "eye": lambda x: ad.eye(3, 4, k=1),
    "linspace": lambda x: ad.linspace(-1, 2, 7),
    "ones": lambda x: ad.ones((2, 3)),
    "ones_like": lambda x: ad.ones_like(x),
    "zeros": lambda x: ad.zeros((2, 0)),
    "zeros_like": lambda x: ad.zeros_like(x, dtype=ad.int32),
    "full": lambda x: ad.full((2, 2), 7),
    "full_like": lambda x: ad.full_like(x, -0.5),
    "empty": lambda x: ad.zeros_like(ad.empty((3, 2))),
    "empty_like": lambda x: ad.ones_like(ad.empty_like(x)),
    "tensor": lambda x: ad.tensor([1.5, -2.5]),
    "meshgrid": lambda x: ad.meshgrid(x[0], x[1]),
    "fftfreq": lambda x: ad.fft.fftfreq(5),
    "rfftfreq": lambda x: ad.fft.rfftfreq(6),
    "fftshift": lambda x: ad.fft.fftshift(x),
    "ifftshift": lambda x: ad.fft.ifftshift(x),
}


@pytest.mark.parametrize("name", MADE)
def test_what_is_made_on_the_default_device_has_its_dtypes_and_the_cpus_values(name: str) -> None:
    agree(Call("", MADE[name], [X], [False]))


WITHOUT_REAL_RESULT = "fft fftn hfft ifft ifftn ihfft irfft irfftn rfft rfftn".split()
REFUSED: dict[str, tuple[Callable, str]] = {
    "astype": (lambda x: ad.astype(x, ad.float64), "has no float64.*float32"),
    "sum in float64": (lambda x: ad.sum(x, dtype=ad.float64), "has no float64.*float32"),
    "prod in float64": (lambda x: ad.prod(x, dtype=ad.float64), "has no float64.*float32"),
    "zeros in int64": (lambda x: ad.zeros(2, dtype=ad.int64), "has no int64.*int32"),
    "an array of int64": (lambda x: ad.asarray(np.arange(3)), "has no int64.*int32"),
    "an array of float64": (lambda x: ad.asarray(np.ones(3)), "has no float64.*float32"),
    "uint8": (lambda x: ad.astype(x, ad.uint8), "has no uint8.*uint32"),
    "nextafter of float16": (  # its bits aren't those of the float32 that is computed with
        lambda x: ad.nextafter(ad.astype(x, ad.float16), ad.astype(-x, ad.float16)),
        "f16|float16",
    ),
    "int32 and uint32": (
        lambda x: ad.astype(x, ad.int32) + ad.astype(x, ad.uint32),
        "int32 and uint32 have no common dtype",
    ),
    "a complex number": (lambda x: x * 1j, "complex64"),
    "complex numbers": (lambda x: ad.asarray([1j]), "has no complex64"),
    "eig": (lambda x: L.eig(x), "complex64"),
    "eigvals": (lambda x: L.eigvals(x), "complex64"),
    **{name: (getattr(ad.fft, name), "complex64") for name in WITHOUT_REAL_RESULT},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_a_dtype_that_there_is_not_on_the_device_is_refused_by_name(name: str) -> None:
    call, words = REFUSED[name]
    with default_device("webgpu"):
        x = narrowed("webgpu", np.eye(3) + 1)
        with pytest.raises((ad.DTypeError, ad.DeviceError), match=words):
            call(x)


# Special values of elementwise functions.

SPECIAL = np.array(
    [
        *(0.0, -0.0, INF, -INF, NAN, 1, -1, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 0.1, -0.3, 0.9999999),
        *(1.0000001, -1.0000001, math.pi, -math.pi, math.pi / 2, 3, -3, 7, -7, 9, -9, 10, 1e-3),
        *(1e-10, -1e-10, 1e-30, -1e-30, 12345.678, -1e5, 1e10, -1e10, 1e20, 3e38, -3e38, -1e-3),
        *(88.7, 88.8, 89, -87.3, -88, -103, -104, -110, 127, 128, -126, -149, -150, 2**31),
        *(3.4028235e38, 8388607.5, -8388607.5, 16777216, -(2**32), TINY, -TINY, TINY / 2),
        *(-TINY / 2, 1e-40, 1e-45, -1e-45),
    ],
    np.float32,
)
FAR = SPECIAL[~(np.abs(SPECIAL) <= TINY) | (SPECIAL == 0)]  # from what GPUs may take for 0
SPECIAL_UNARY: dict[str, Callable] = {
    **{
        name: getattr(ad, name)
        for name in (
            "abs acos acosh asin asinh atan atanh ceil cos cosh elu erf exp expm1 floor gelu "
            "isfinite isinf isnan leaky_relu log log10 log1p log2 logical_not negative positive "
            "reciprocal relu round sigmoid sign signbit silu sin sinh softplus sqrt square tan "
            "tanh trunc"
        ).split()
    },
    "gelu_tanh": lambda x: ad.gelu(x, approximate="tanh"),
    "x ** 2": lambda x: x**2,
    "x ** 3": lambda x: x**3,
    "x ** -1": lambda x: x**-1,
    "x ** 2.5": lambda x: x**2.5,
    "2 ** x": lambda x: 2**x,
    "x % 2.5": lambda x: x % 2.5,
    "5 % x": lambda x: 5 % x,
    "x // 2.5": lambda x: x // 2.5,
    "x * inf": lambda x: x * INF,
    "x - inf": lambda x: x - INF,
    "x == x": lambda x: x == x,
    "x != x": lambda x: x != x,
    "x == 0": lambda x: x == 0,
    "x != nan": lambda x: x != NAN,
    "x != inf": lambda x: x != INF,
    "clip": lambda x: ad.clip(x, -1, 1),
    "clip at infinity": lambda x: ad.clip(x, -INF, 2),
    "maximum with nan": lambda x: ad.maximum(x, NAN),
    "where": lambda x: ad.where(x > 0, x, -1.0),
}
SPECIAL_BINARY: dict[str, Callable] = {
    name: getattr(ad, name)
    for name in (
        "add subtract multiply divide pow floor_divide remainder hypot atan2 logaddexp copysign "
        "nextafter maximum minimum equal not_equal less less_equal greater greater_equal"
    ).split()
}
# The CPU's gelu loses its digits in the tail, also in float64.
EXACT = {"gelu": function_references.gelu, "gelu_tanh": function_references.gelu_tanh}
# NumPy's choice between 0.0 and -0.0 depends on the processor; the CPU's elu(-0.0) is 0.0.
ANY_ZERO = ("maximum", "minimum", "elu", "clip", "maximum with nan")
SPECIAL_RTOL = 2e-6  # of the exact value: 16 units of the last digit


def exact(name: str, function: Callable, inputs: list[Array]) -> Array:
    """What the CPU computes in float64, rounded."""
    with np.errstate(all="ignore"):
        if name == "nextafter":
            return function(*map(ad.asarray, inputs)).numpy()
        wide = [x.astype(np.float64) for x in inputs]
        out = EXACT[name](*wide) if name in EXACT else function(*map(ad.asarray, wide)).numpy()
        return out.astype(np.float32) if out.dtype.kind == "f" else out


def right(found: Array, expected: Array, any_zero: bool) -> Array:
    """Where a result is right. Numbers below the smallest normal one may be 0."""
    if found.dtype.kind != "f":
        return found == expected
    with np.errstate(all="ignore"):
        error = np.abs(found.astype(np.float64) - expected)
        near = np.isfinite(expected) & (error <= SPECIAL_RTOL * np.abs(expected) + TINY)
        signs = np.signbit(found) == np.signbit(expected)
        zeros = (found == 0) & (expected == 0) & ~signs & (not any_zero)
        return (near | (found == expected)) & ~zeros | np.isnan(found) & np.isnan(expected)


def check_special_values(name: str, function: Callable, inputs: list[Array]) -> None:
    """A number below the smallest normal one may also be taken for 0 where it is an input."""
    found = function(*(narrowed("webgpu", x) for x in inputs)).numpy()
    flushed = [np.where(np.abs(x) < TINY, np.copysign(np.float32(0), x), x) for x in inputs]
    expected = exact(name, function, inputs)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    good = right(found, expected, name in ANY_ZERO)
    for choice in itertools.product(*zip(inputs, flushed, strict=True)):
        small = functools.reduce(
            np.logical_or, (x != y for x, y in zip(choice, inputs, strict=True))
        )
        good |= right(found, exact(name, function, list(choice)), True) & small
    wrong = np.flatnonzero(~good)[:10]
    assert not wrong.size, [
        (*(x[k].item() for x in inputs), found[k].item(), "not", expected[k].item()) for k in wrong
    ]


def pairs(values: Array) -> list[Array]:
    return [x.ravel() for x in np.meshgrid(values, values)]


@pytest.mark.parametrize("name", SPECIAL_UNARY)
def test_special_values_have_the_results_that_they_have_on_the_cpu(name: str) -> None:
    check_special_values(name, SPECIAL_UNARY[name], [SPECIAL])


@pytest.mark.parametrize("name", SPECIAL_BINARY)
def test_pairs_of_special_values_have_the_results_that_they_have_on_the_cpu(name: str) -> None:
    check_special_values(name, SPECIAL_BINARY[name], pairs(SPECIAL))


def gradients(function: Callable, inputs: list[Array], device: str, dtype: Any) -> list[Array]:
    leaves = [ad.tensor(x.astype(dtype), device=device, requires_grad=True) for x in inputs]
    with np.errstate(all="ignore"):
        out = function(*leaves)
        found = ad.autograd.grad(out, leaves, ad.full_like(out, 0.75), allow_unused=True)
        return [g.numpy().astype(np.float32) for g in found if g is not None]


COMPARING = (
    "isfinite isinf isnan logical_not signbit equal not_equal less less_equal greater greater_equal"
)
DIFFERENTIABLE = {
    name: function
    for name, function in (SPECIAL_UNARY | SPECIAL_BINARY).items()
    if name not in COMPARING.split() and "=" not in name
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_at_special_values_are_the_cpus(name: str) -> None:
    """In float32 or float64, as some overflow on their way."""
    function = DIFFERENTIABLE[name]
    inputs = pairs(FAR[::2]) if name in SPECIAL_BINARY else [FAR]
    found = gradients(function, inputs, "webgpu", np.float32)
    single, double = (gradients(function, inputs, "cpu", dtype) for dtype in ("f4", "f8"))
    assert len(found) == len(single)
    for g, *expected in zip(found, single, double, strict=True):
        with np.errstate(all="ignore"):
            good = [
                (g == e) | np.isnan(g) & np.isnan(e) | (np.abs(g - e) <= 1e-5 * np.abs(e) + 1e-6)
                for e in expected
            ]
        wrong = np.flatnonzero(~(good[0] | good[1]))[:10]
        assert not wrong.size, [
            (*(x[k].item() for x in inputs), g[k].item(), *(e[k].item() for e in expected))
            for k in wrong
        ]


# Layouts.

LAYOUTS: dict[str, tuple[tuple[int, ...], Callable]] = {
    "contiguous": ((4, 5, 6), lambda x: x),
    "transposed": ((6, 5, 4), lambda x: ad.permute_dims(x, (2, 1, 0))),
    "permuted": ((5, 6, 4), lambda x: ad.permute_dims(x, (2, 0, 1))),
    "every second": ((8, 10, 6), lambda x: x[::2, ::2]),
    "backwards": ((4, 5, 6), lambda x: x[::-1, :, ::-1]),
    "backwards in steps": ((8, 5, 13), lambda x: x[::-2, :, 11::-2]),
    "from the middle": ((5, 7, 9), lambda x: x[1:, 2:, 3:]),
    "broadcast": ((4, 1, 6), lambda x: ad.broadcast_to(x, (4, 5, 6))),
    "one number": ((), lambda x: ad.broadcast_to(x, (4, 5, 6))),
    "diagonal": ((4, 4, 6), lambda x: ad.diagonal(x)),
    "new axis": ((4, 6), lambda x: x[:, None, ::-1]),
    "rank 8": ((4, 3, 1, 2, 2, 3, 2, 2), lambda x: ad.permute_dims(x, (7, 3, 5, 0, 2, 1, 6, 4))),
    "rank 8 in steps": ((4, 3, 2, 2, 2, 3, 2, 2), lambda x: ad.transpose(x)[::-1, :, ::2]),
    "0-d": ((4, 5), lambda x: x[2, 3]),
    "one element": ((3, 1), lambda x: x[1]),
    "nothing": ((4, 3), lambda x: x[2:2]),
    "nothing inside": ((4, 0, 3), lambda x: ad.swapaxes(x, 0, 2)),
}
OVER: dict[str, Callable] = {
    "exp": ad.exp,
    "x + y": lambda x: x + x[..., :1] if x.ndim else x + x,
    "where": lambda x: ad.where(x > 0, x, -x),
    "cast": lambda x: ad.astype(x * 100, ad.int32),
    "reshape": lambda x: ad.reshape(x, (-1,)),
    "sum": ad.sum,
    "sum of the first": lambda x: ad.sum(x, axis=0),
    "sum of the last": lambda x: ad.sum(x, axis=-1),
    "sum of the ends": lambda x: ad.sum(x, axis=(0, -1)),
    "max": lambda x: ad.max(x, axis=0),
    "argmax": lambda x: ad.argmax(x, axis=-1),
    "any": lambda x: ad.any(x > 1, axis=0),
    "softmax": lambda x: ad.softmax(x, axis=0),
    "var": lambda x: ad.var(x, axis=-1),
    "cumulative_sum": lambda x: ad.cumulative_sum(x, axis=0),
    "sort": lambda x: ad.sort(x, axis=0),
    "concat": lambda x: ad.concat([x, x], axis=-1),
    "pad": lambda x: ad.pad(x, 1),
    "indices": lambda x: x[[0, -1, 0]],
    "mask": lambda x: x[x > 0],
    "put": lambda x: x.at[0].set(7.0),
    "matmul": lambda x: x @ x.mT,
}


# What these layouts have too few axes or elements for.
TOO_SMALL = {
    "0-d": set(OVER) - {"exp", "x + y", "where", "cast", "reshape", "sum", "pad", "mask"},
    "one element": {"sum of the ends", "matmul"},
    "nothing": {"max", "indices", "put"},
}
COMBINATIONS = [(n, k) for n in OVER for k in LAYOUTS if n not in TOO_SMALL.get(k, ())]


@functools.cache
def spread(shape: tuple[int, ...]) -> Array:
    """Different numbers of both signs."""
    size = math.prod(shape)
    order = np.random.default_rng(size).permutation(size)
    return ((order - size / 2 + 0.3) * (3 / max(size, 1))).reshape(shape)


@pytest.mark.parametrize(("name", "layout"), COMBINATIONS)
def test_every_layout_gives_what_it_gives_on_the_cpu(name: str, layout: str) -> None:
    shape, view = LAYOUTS[layout]
    agree(Call("", lambda x: OVER[name](view(x)), [spread(shape)], [True]))


# Reductions, and what runs along an axis: ties, NaNs, infinities.

ROWS = np.array(
    [
        [1, 2, 2, 1],
        [NAN, 1, 2, 3],
        [1, NAN, NAN, 3],
        [INF, -INF, INF, 0],
        [-INF, -INF, -INF, -INF],
        [INF, INF, INF, INF],
        [NAN, NAN, NAN, NAN],
        [-INF, NAN, INF, 0],
        [1, 0, NAN, 2],
        [0, INF, 1, 2],
        [0, 0, 0, 0],
        [5, 5, 5, 5],
    ]
)
ALONG: dict[str, Callable] = {
    name: getattr(ad, name)
    for name in (
        "max min argmax argmin any all count_nonzero sum prod mean var logsumexp softmax "
        "log_softmax cumulative_sum cumulative_prod sort argsort"
    ).split()
}


@pytest.mark.parametrize("length", [4, 65, 1000])
@pytest.mark.parametrize("name", ALONG)
def test_ties_nans_and_infinities_along_either_axis_are_treated_as_on_the_cpu(
    name: str, length: int
) -> None:
    rows = np.resize(ROWS.T, (length, len(ROWS)))  # in columns
    for axis, array in ((0, rows), (1, rows.T.copy())):
        agree(Call("", lambda x, k=axis: ALONG[name](x, axis=k), [array], [False]))


LENGTHS = (1, 31, 32, 33, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 4097, 16383, 16384, 16385)
REDUCED: dict[str, tuple[Callable, Callable]] = {
    "sum": (ad.sum, np.sum),
    "argmax": (ad.argmax, np.argmax),
    "var": (ad.var, np.var),
    "logsumexp": (ad.logsumexp, lambda x, axis: np.log(np.sum(np.exp(x), axis))),
    "any": (lambda x, axis: ad.any(x > 2.99, axis=axis), lambda x, axis: np.any(x > 2.99, axis)),
    "softmax": (ad.softmax, lambda x, axis: np.exp(x) / np.sum(np.exp(x), axis, keepdims=True)),
    "cumulative_sum": (ad.cumulative_sum, np.cumsum),
}


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("rows", [1, 3, 65])
def test_rows_of_all_lengths_around_the_sizes_of_workgroups_are_whole(name: str, rows: int) -> None:
    ours, reference = REDUCED[name]
    for length in LENGTHS:
        array = np.random.default_rng(length).uniform(-1, 3, (rows, length)).astype(np.float32)
        wide = array.astype(np.float64)
        for axis, x, y in ((1, array, wide), (0, array.T.copy(), wide.T)):
            found = ours(narrowed("webgpu", x), axis=axis).numpy()
            np.testing.assert_allclose(found, reference(y, axis=axis), rtol=3e-6, atol=1e-6)


# Large arrays: more workgroups than one dimension of a launch has, and rows for many of them.

LARGE = 1_000_000 if swiftshader.is_chosen() else 10_000_000
MANY = LARGE // 2 + 11


@pytest.fixture(scope="module")
def large() -> tuple[Array, ad.Tensor]:
    """Numbers between 0 and 1."""
    array = np.random.default_rng(1).random(LARGE, np.float32)
    return array, ad.asarray(array, device="webgpu")


ELEMENTS: dict[str, Callable] = {
    "x + y": lambda x, y: x + y,
    "x backwards": lambda x, y: x[::-1] * y,
    "x > y": lambda x, y: x > y,
    "x transposed": lambda x, y: (
        x[: LARGE // 2].reshape((2000, -1)).T - y[: LARGE // 2].reshape((-1, 2000))
    ),
    "a row each": lambda x, y: (x[:MANY, None] + y[:MANY, None])[::-1],
}


@pytest.mark.parametrize("name", ELEMENTS)
def test_every_element_of_large_arrays_is_computed(name: str, large: tuple) -> None:
    array, x = large
    found = ELEMENTS[name](x[:MANY], x[-MANY:]).numpy()
    np.testing.assert_array_equal(found, ELEMENTS[name](array[:MANY], array[-MANY:]))


@swiftshader.one_driver_is_enough
def test_more_rows_than_one_dimension_of_a_launch_has_workgroups_are_reduced(large: tuple) -> None:
    array, x = large
    shape = (66_000, 40)
    size = math.prod(shape)
    found = ad.argmax(x[:size].reshape(shape), axis=1).numpy()
    np.testing.assert_array_equal(found, array[:size].reshape(shape).argmax(1))


PARTS: dict[str, tuple[tuple[int, ...], Any]] = {
    "all": ((-1,), None),
    "long rows": ((10, -1), 1),
    "long columns": ((-1, 10), 0),
    "short rows": ((-1, 10), 1),
    "in the middle": ((100, -1, 100), 1),
    "at both ends": ((100, -1, 100), (0, 2)),
}


@pytest.mark.parametrize("name", PARTS)
def test_sums_of_millions_of_numbers_are_accurate_to_a_millionth(name: str, large: tuple) -> None:
    array, x = large
    shape, axis = PARTS[name]
    expected = array.reshape(shape).sum(axis, dtype=np.float64)
    np.testing.assert_allclose(ad.sum(x.reshape(shape), axis=axis).numpy(), expected, rtol=1e-6)


LONG: dict[str, tuple[Callable, Callable]] = {
    "mean": (ad.mean, np.mean),
    "var": (ad.var, np.var),
    "var of large numbers": (lambda x: ad.var(x + 1000), lambda x: np.var(x.astype("f4") + 1000)),
    "max": (ad.max, np.max),
    "min": (ad.min, np.min),
    "argmax": (ad.argmax, np.argmax),
    "argmin": (ad.argmin, np.argmin),
    "logsumexp": (ad.logsumexp, lambda x: np.log(np.sum(np.exp(x)))),
    "any of none": (lambda x: ad.any(x > 2), lambda x: np.any(x > 2)),
    "any of the last": (lambda x: ad.any(x == x[-1]), lambda x: np.any(x == x[-1])),
    "all": (lambda x: ad.all(x < 2), lambda x: np.all(x < 2)),
    "all but the last": (lambda x: ad.all(x != x[-1]), lambda x: np.all(x != x[-1])),
    "count": (lambda x: ad.count_nonzero(x > 0.5), lambda x: np.count_nonzero(x > 0.5)),
    "norm": (L.vector_norm, lambda x: np.sqrt(np.sum(x * x))),
    "dot": (lambda x: ad.vecdot(x, x), lambda x: np.sum(x * x)),
    "part of the whole": (lambda x: ad.softmax(x)[::99_999], lambda x: share(x)[::99_999]),
    "cumulative_sum": (lambda x: ad.cumulative_sum(x)[::99_999], lambda x: x.cumsum()[::99_999]),
}


def share(x: Array) -> Array:
    e = np.exp(x - x.max())
    return e / e.sum()


@pytest.mark.parametrize("name", LONG)
def test_one_row_of_millions_of_numbers_is_reduced_accurately(name: str, large: tuple) -> None:
    """2e-6: sums are accurate to that, also the part of each element in running sums."""
    array, x = large
    ours, reference = LONG[name]
    np.testing.assert_allclose(ours(x).numpy(), reference(array.astype(np.float64)), rtol=2e-6)


ROWS_OF_SCORES = {"long rows": (7, 100_003), "many short rows": (300_001, 5)}


@pytest.mark.parametrize("shape", ROWS_OF_SCORES.values(), ids=ROWS_OF_SCORES.keys())
@pytest.mark.parametrize("transposed", [False, True])
def test_softmax_and_its_gradient_are_accurate_in_long_and_in_many_rows(
    shape: tuple[int, int], transposed: bool
) -> None:
    """1e-5: exp(x - y) has the rounding error of x - y, which is up to 40 here."""
    scores = np.random.default_rng(2).standard_normal(shape).astype(np.float32) * 5
    wide = scores.astype(np.float64)
    total = np.log(np.exp(wide).sum(1, keepdims=True))
    axis = 0 if transposed else 1
    turned = (lambda a: a.T) if transposed else (lambda a: a)
    x = narrowed("webgpu", turned(scores).copy()).requires_grad_()
    found = ad.logsumexp(x, axis=axis, keepdims=True)
    np.testing.assert_allclose(turned(found.detach().numpy()), total, rtol=1e-6, atol=1e-6)
    found.sum().backward()
    for part in (x.grad, ad.softmax(x.detach(), axis=axis)):
        assert part is not None
        np.testing.assert_allclose(turned(part.numpy()), np.exp(wide - total), rtol=1e-5)
    logs = ad.log_softmax(x.detach(), axis=axis)
    np.testing.assert_allclose(turned(logs.numpy()), wide - total, rtol=1e-6, atol=1e-5)


def test_products_neither_overflow_nor_lose_digits_on_their_way() -> None:
    """1e-4: a hundred thousand roundings in running products, as many up as down."""
    factors = np.random.default_rng(3).uniform(0.99, 1.01, 100_000).astype(np.float32)
    expected = np.cumprod(factors.astype(np.float64))
    x = narrowed("webgpu", factors)
    np.testing.assert_allclose(ad.cumulative_prod(x).numpy(), expected, rtol=1e-4)
    np.testing.assert_allclose(ad.prod(x).numpy(), expected[-1], rtol=1e-6)
    apart = np.resize([2.0**100, 2.0**-100], 1000)
    assert ad.prod(narrowed("webgpu", apart)).item() == 1
    np.testing.assert_array_equal(
        ad.cumulative_prod(narrowed("webgpu", apart)).numpy(), np.resize([2.0**100, 1.0], 1000)
    )


# Nothing is left out.

HERE = (UNARY, BINARY, MIXED, MADE, REFUSED, SPECIAL_UNARY, SPECIAL_BINARY)
OF_THE_HOST = ("about", "the machinery", "applies", "transforms")
ELSEWHERE = {
    *(n for why, names in EXEMPT.items() if why.startswith(OF_THE_HOST) for n in names.split()),
    *"alpha_dropout dropout dropout1d dropout2d dropout3d".split(),  # random numbers
    *"config get_default_device launch_times set_default_device".split(),  # about devices
    "from_dlpack",  # memory of the host
}


def test_every_public_function_is_called_here() -> None:
    called = {call.id for call in RECORDS.values()}.union(*HERE, ELSEWHERE)
    called |= {case.function for case in neural_cases.CASES}
    called |= {case.function for case in linalg_cases.CASES.values()}
    functions = [(m, n) for m in (ad, F, L, ad.fft) for n in dir(m) if not n.startswith("_")]
    functions = {
        n for m, n in functions if callable(f := getattr(m, n)) and not isinstance(f, type)
    }
    assert functions - called == set()
