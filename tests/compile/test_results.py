"""What goes into compiled functions and comes out of them: memory of every kind, results of every
structure, numbers of every dtype, and errors."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from adjoint._compile.lowering import HostStep
from adjoint._core.tensor import wrap
from adjoint._foundation.trees import leaves
from tests.support.arrays import normal
from tests.support.helpers import as_tuple, needs_kernels

pytestmark = needs_kernels
F = ad.nn.functional


def compiled(function: Callable, *args: Any) -> Any:
    """The result of a program's second run."""
    own = ad.compile(function)
    own(*args)
    out = own(*args)
    ((_, program),) = own._programs
    assert not program.eager and not own._eager
    return out


def same(one: Any, other: Any) -> None:
    """Equal to the last bit."""
    for x, y in zip(as_tuple(one), as_tuple(other), strict=True):
        assert x.dtype == y.dtype
        a, b = x.detach().numpy(), y.detach().numpy()
        np.testing.assert_array_equal(a, b, strict=True)
        if a.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(a), np.signbit(b))


# Operands.


def unaligned(x: np.ndarray) -> np.ndarray:
    memory = np.empty(x.nbytes + 1, np.uint8)[1:]
    out = memory.view(x.dtype).reshape(x.shape)
    out[...] = x
    assert not out.flags.aligned
    return out


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "plain": lambda x: x,
    "transposed": lambda x: np.asfortranarray(x),
    "stepped": lambda x: np.repeat(x, 2, 1)[:, ::2],
    "turned around": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "part": lambda x: np.pad(x, 3)[3:-3, 3:-3],
    "columns swapped": lambda x: np.ascontiguousarray(x[:, ::-1])[:, ::-1],
    "broadcast rows": lambda x: np.broadcast_to(x[:1], x.shape),
    "broadcast columns": lambda x: np.broadcast_to(x[:, :1], x.shape),
    "one element": lambda x: np.broadcast_to(x[0, 0], x.shape),
    "unaligned": unaligned,
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
}

CALLS: dict[str, Callable] = {
    "map": lambda x, y: ad.tanh(x) * y - x,
    "rows": lambda x, y: F.softmax(x, axis=-1) + y.sum(axis=1, keepdims=True),
    "columns": lambda x, y: x / x.sum(axis=0) + y.max(axis=0),
    "product": lambda x, y: x @ y.mT,
    "product of transposed": lambda x, y: x.mT @ y,
    "views": lambda x, y: (x.mT[::-1], y.reshape((5, -1))[1:], x[:, None] * y[None]),
    "flat": lambda x, y: x.reshape((-1,)) + y.mT.reshape((-1,)),
    "gather": lambda x, y: x[[2, 0, 1]] + ad.take(y, ad.asarray([0, 3, 1]), axis=1)[:, :1],
    "joined": lambda x, y: ad.concat([x, y[::-1], x[:, ::-1]], axis=0),
    "sort": lambda x, y: ad.sort(x, axis=1) + ad.cumulative_sum(y, axis=1),
    "triangle": lambda x, y: ad.tril(x) + ad.triu(y, k=1),
    "moments": lambda x, y: ad.var(x, axis=1) + ad.mean(y, axis=1),
    "gradient": lambda x, y: ad.grad(lambda x: (ad.exp(x) * y.mT[0, 0] + x.mT.sum()).sum())(x),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("call", CALLS)
def test_operands_of_every_layout(call: str, layout: str) -> None:
    """As arguments and as captured tensors; those of one are plain in the other."""
    x, y = (normal(3, 5, dtype="f4", seed=k) for k in range(2))
    laid, plain = wrap(LAYOUTS[layout](x)), wrap(y)
    function = CALLS[call]
    expected = function(laid, plain), function(plain, laid)
    found = compiled(function, laid, plain), compiled(lambda x: function(x, laid), plain)
    for one, other in zip(found, expected, strict=True):
        for a, b in zip(as_tuple(one), as_tuple(other), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-6, atol=2e-6, strict=True)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 3), (3, 0), (2, 0, 3), (1, 1, 1)])
@pytest.mark.parametrize(
    "call",
    [
        lambda x: ad.square(x) * 2 + x,
        lambda x: (ad.sum(x), ad.sum(x, axis=tuple(range(x.ndim)), keepdims=True)),
        lambda x: x.reshape((-1,)) if x.size else x.reshape((0, 7)),
        lambda x: ad.broadcast_to(x, (2, *x.shape)) + x,
        lambda x: ad.concat([x[None], x[None] * 2], axis=0),
        lambda x: ad.permute_dims(x, tuple(range(x.ndim))[::-1]) * 3,
        lambda x: x.reshape((*x.shape, 1, 1)) @ x.reshape((*x.shape, 1, 1)).mT,
        lambda x: ad.grad(lambda x: (x * x).sum())(x),
    ],
)
def test_single_numbers_and_nothing(call: Callable, shape: tuple[int, ...]) -> None:
    x = ad.asarray(normal(*shape, dtype="f4").reshape(shape))
    same(compiled(call, x), call(x))


def test_arguments_of_another_layout_have_a_program_of_their_own() -> None:
    function = ad.compile(lambda x: x * 2 + 1)
    x = normal(4, 6, dtype="f4")
    for array in (x, np.asfortranarray(x), x, np.asfortranarray(x)):
        same(function(wrap(array)), wrap(array * 2 + 1))
    assert len(function._programs) == 2


# Results.


class Pair(NamedTuple):
    first: Any
    second: Any


W = ad.asarray(normal(3, 4, dtype="f4", seed=7))

RESULTS: dict[str, Callable] = {
    "an argument": lambda x: x,
    "an argument beside others": lambda x: (x, x * 2),
    "twice the same": lambda x: [y := x * 3, y],
    "an argument twice": lambda x: (x, x),
    "a captured tensor": lambda x: (W, x + W),
    "a view of an argument": lambda x: x.mT,
    "a view of a captured tensor": lambda x: W[1:, ::-1],
    "a view of a result": lambda x: (y := x * 3, y.mT, y[::-1]),
    "a transposed result before itself": lambda x: ((y := x * 3).mT, y, y.mT, y.reshape((4, 3))),
    "a view of what isn't a result": lambda x: (x * 3)[1:, ::2],
    "a broadcast result": lambda x: ad.broadcast_to(ad.max(x, axis=0), (5, 4)),
    "a constant": lambda x: ad.ones((2, 3)),
    "constants": lambda x: (ad.arange(5), ad.eye(3), ad.full((2,), 7), ad.linspace(0, 1, 3)),
    "a constant of an array": lambda x: ad.asarray(np.arange(6.0).reshape(2, 3)),
    "a dict": lambda x: {"a": x + 1, "b": [x - 1, {"c": x.max()}]},
    "a named tuple": lambda x: Pair(x * 2, Pair(x.max(), None)),
    "what isn't a tensor": lambda x: (x * 2, 3, "text", None, 2.5),
    "nothing": lambda x: None,
    "an empty tuple": lambda x: (),
    "a reshaped argument": lambda x: x.reshape((2, 6)),
    "a reshaped result": lambda x: (x * 3).reshape((2, 6)),
    "parts": lambda x: ad.unstack(x * 3),
    "a cast": lambda x: (ad.astype(x, ad.float64), ad.astype(x, ad.int32), ad.astype(x, ad.bool)),
}


def assert_equal_trees(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(one, ad.Tensor):
        same(one, other)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        assert_equal_trees(list(one.values()), list(other.values()))
    elif isinstance(one, tuple | list):
        assert len(one) == len(other)
        for x, y in zip(one, other, strict=True):
            assert_equal_trees(x, y)
    else:
        assert one == other


@pytest.mark.parametrize("name", RESULTS)
def test_results_of_every_structure(name: str) -> None:
    x = ad.asarray(normal(3, 4, dtype="f4"))
    assert_equal_trees(compiled(RESULTS[name], x), RESULTS[name](x))


@pytest.mark.parametrize("name", RESULTS)
def test_results_have_memory_of_their_own(name: str) -> None:
    """Nothing else changes if one of them does."""
    x = ad.asarray(normal(3, 4, dtype="f4"))
    function = ad.compile(RESULTS[name])
    results = [out for _ in range(3) for out in tensors(function(x))]
    rest = [x, W, *results]
    before = [other.numpy().copy() for other in rest]
    for k, out in enumerate(results):
        out[...] = ad.zeros_like(out)
        before[2 + k] = np.zeros_like(before[2 + k])
        for other, array in zip(rest, before, strict=True):
            if not any(other is y for y in results[: k + 1]):
                np.testing.assert_array_equal(other.numpy(), array)
    assert_equal_trees(function(x), RESULTS[name](x))


def tensors(out: Any) -> list[ad.Tensor]:
    return [x for x in leaves(out) if isinstance(x, ad.Tensor)]


# Numbers of every dtype.

DTYPES = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "c8", "c16")
NUMBERS: dict[str, tuple[str, Callable]] = {
    # kinds of dtypes, and a function
    "sums": ("fiuc", lambda x, y: (x + y - x * y, -x if x.dtype.kind != "uint" else x)),
    "sums with numbers": ("fiuc", lambda x, y: (x * 2 + 1, 3 - y)),
    "comparisons": ("fiu?", lambda x, y: (x < y, x >= y, (x == y) | (x != x), ~(x > y))),
    "choices": ("fiu", lambda x, y: (ad.where(x > y, x, y), ad.maximum(x, y), ad.minimum(x, 2))),
    "where": ("fiuc?", lambda x, y: ad.where(ad.asarray([True, False, True]), x, y)),
    "bits": ("iu?", lambda x, y: (x & y, x | y, x ^ y, ~x)),
    "shifts": ("iu", lambda x, y: (x << 1, x >> 1)),
    "remainders": ("iu", lambda x, y: (x // (abs(y) + 1), x % (abs(y) + 1))),
    "largest": ("fiu", lambda x, y: (ad.max(x, axis=0), ad.argmin(y, axis=1), ad.sort(x))),
    "totals": ("iu?", lambda x, y: (ad.sum(x, axis=0), ad.sum(y), ad.cumulative_sum(x, axis=1))),
    "any": ("fiu?c", lambda x, y: (ad.any(x, axis=0), ad.all(y), ad.count_nonzero(x))),
    "products": ("iu", lambda x, y: (x @ y.mT, ad.prod(y, axis=0))),
    "moved": ("fiuc?", lambda x, y: (x.mT[::-1], ad.concat([x, y]), ad.pad(x, 1), ad.tril(y))),
    "gathered": ("fiuc?", lambda x, y: (x[[1, 1, 0]], ad.take(y, ad.asarray([2, 0]), axis=1))),
    "parts of complex": ("c", lambda x, y: (ad.real(x), ad.imag(y), ad.conj(x) * y, abs(x))),
    "products of complex": ("c", lambda x, y: (x @ y.mT, x / y)),
    "casts": ("fiu?", lambda x, y: [ad.astype(x, d) for d in (ad.float32, ad.int32, ad.bool)]),
}
EVERY = [(n, d) for n, (kinds, _) in NUMBERS.items() for d in DTYPES if np.dtype(d).kind in kinds]


@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n, d in EVERY if d not in ("f4", "f8")])
def test_numbers_of_every_dtype(name: str, dtype: str) -> None:
    numbers = np.array([[3, 0, 2], [1, 5, 4]]), np.array([[1, 4, 2], [7, 0, 6]])
    if np.dtype(dtype).kind == "c":
        numbers = numbers[0] * (1 - 2j) + 1, numbers[1] * (1 + 1j) + 2
    x, y = (ad.asarray(a.astype(dtype)) for a in numbers)
    function = NUMBERS[name][1]
    same(compiled(function, x, y), function(x, y))


HALVES: dict[str, Callable] = {
    "map": lambda x: ad.tanh(x) * 0.1 + ad.exp(x),
    "rows": lambda x: F.softmax(x, axis=-1),
    "norm": lambda x: F.layer_norm(x, (5,)),
    "sums": lambda x: (x.sum(), ad.mean(x, axis=0), ad.var(x, axis=1)),
    "product": lambda x: x @ x.mT,
    "gradient": lambda x: ad.grad(lambda x: (F.gelu(x) * x).sum())(x),
}


@pytest.mark.parametrize("name", HALVES)
def test_float16(name: str) -> None:
    x = ad.asarray(normal(4, 5, dtype="f2"))
    for one, other in zip(
        *map(as_tuple, (compiled(HALVES[name], x), HALVES[name](x))), strict=True
    ):
        assert one.dtype == other.dtype == ad.float16
        np.testing.assert_array_max_ulp(one.numpy(), other.numpy(), 2)


# Errors.

F4 = ad.ones((4, 2))
ERRORS: dict[str, tuple[Callable, tuple, type[Exception], str]] = {
    # function, arguments, and the error's type and what eager's and ours both say
    "shapes": (lambda x: x + ad.ones(3), (F4,), ad.ShapeError, "add: shapes .4, 2. and .3,. don't"),
    "product": (lambda x: x @ x, (F4,), ad.ShapeError, "matmul: shapes"),
    "reshape": (lambda x: x.reshape((3, 3)), (F4,), ad.ShapeError, "8 elements of shape"),
    "axis": (lambda x: F.softmax(x, axis=3), (F4,), ad.AxisError, "axis 3 is out of range"),
    "dtype": (lambda x: x & 1, (F4,), ad.DTypeError, "bitwise_and.*not supported for the input"),
    "nothing": (lambda x: ad.max(x[:0]), (F4,), ad.ArgumentError, "nothing to choose from"),
    "embedding": (F.embedding, ([0, 9], F4), ad.IndexingError, "index 9 is out of bounds for axis"),
    "index": (lambda x, i: x[i], (F4, [0, -7]), ad.IndexingError, "index -7 is out of bounds"),
    "gradient of an index": (
        lambda x, i: ad.grad(lambda x: x[i].sum())(x),
        (F4, [0, 7]),
        ad.IndexingError,
        "index 7 is out of bounds for axis 0 with size 4",
    ),
    "assignment": (
        lambda x, i: x.at[i].set(1.0),
        (F4, [0, 7]),
        ad.IndexingError,
        "index 7 is out of bounds for axis 0 with size 4",
    ),
    "classes": (F.cross_entropy, (F4, [0, 1, 7, 0]), ad.IndexingError, "cross_entropy.* 7"),
    "negative powers": (lambda x: x**-1, ([1, 2],), ad.ArgumentError, "negative integer powers"),
    "not positive": (
        ad.linalg.cholesky,
        ([[1.0, 2.0], [2.0, 1.0]],),
        ad.ArgumentError,
        "isn't positive definite: its leading minor of order 2",
    ),
    "singular": (ad.linalg.inv, ([[1.0, 2.0], [2.0, 4.0]],), ad.ArgumentError, "is singular"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_those_of_eager(name: str) -> None:
    function, args, error, text = ERRORS[name]
    args = [x if isinstance(x, ad.Tensor) else ad.asarray(x) for x in args]
    own = ad.compile(function)
    for run in (function, own, own):
        with pytest.raises(error, match=text):
            run(*args)


def test_what_failed_runs_again_with_better_data() -> None:
    function = ad.compile(lambda x, i: ad.tanh(x)[i] * 2)
    good, bad = ad.asarray([0, 3]), ad.asarray([0, 4])
    expected = function(F4, good)
    for _ in range(2):
        with pytest.raises(ad.IndexingError, match="index 4 is out of bounds"):
            function(F4, bad)
        same(function(F4, good), expected)
    assert len(function._programs) == 1


LARGE_MADE = {
    "arange": lambda: ad.arange(1_500_000) * 2,
    "linspace": lambda: ad.linspace(0, 1, 1_500_000),
    "eye": lambda: ad.eye(1200, 1100, k=-3) + ad.eye(1200, 1100, k=2),
    "triangles": lambda: ad.triu(ad.ones((1200, 1100)), k=5) + ad.tril(ad.ones((1200, 1100)), k=5),
}


@pytest.mark.parametrize("name", LARGE_MADE)
def test_large_arrays_that_are_made_of_nothing(name: str) -> None:
    """Those of two axes aren't kept: one launch makes them."""
    own = ad.compile(LARGE_MADE[name])
    same(own(), LARGE_MADE[name]())
    ((_, program),) = own._programs
    assert not any(isinstance(item, HostStep) for item in program.built.items)
    if name in ("eye", "triangles"):
        assert sum(x.nbytes for x in program.built.code.constants) < own().nbytes


def test_ops_of_users_may_be_called_as_ours_are() -> None:
    plus = ad.op.elementwise("exp", x=lambda g: g, kernels={"cpu": lambda x: x + 1})
    twice = ad.op.elementwise("negative", x=lambda g: 2 * g, forward=lambda x: x * 2)
    total = ad.op.elementwise(
        "multiply", inputs="x y", x=lambda g: g, y=lambda g: g, kernels={"cpu": np.add}
    )
    function = lambda x: (total(plus(x), ad.exp(x)), twice(twice(x)), total(x, 1.0))  # noqa: E731
    same(compiled(function, F4), function(F4))
    same(compiled(ad.grad(lambda x: twice(x).sum()), F4), ad.full_like(F4, 2))


@pytest.mark.parametrize("number", [2**31, -(2**70), 10**40])
def test_numbers_too_large_for_a_dtype_are_infinite(number: int) -> None:
    x = ad.asarray([1.0, -2.0], dtype=ad.float16)
    same(compiled(lambda x: x * number, x), x * number)
