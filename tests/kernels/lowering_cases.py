"""Calls of each op that has kernels, by a size: what lowering is tried on.

Sizes are 1, 7 and about 100,000 elements. Matrices and images have sides that make about as many
multiplications.
"""

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import adjoint as ad
from adjoint.backends.cpu.lowering.elementwise import launcher_of
from adjoint.kernels.ops import OPS as DESCRIBED
from tests.support.arrays import normal
from tests.support.samples import OPS, TABLE, Sample, geometry, tensors

LARGE = 100_003  # several chunks, and no multiple of any vector
SIZES = (1, 7, LARGE)
FLOATS = ("f4", "f8")


class Call(NamedTuple):
    """What the function of an op is given."""

    inputs: tuple[Any, ...]
    attrs: dict[str, Any]


def call_of(sample: Sample, dtype: str = "f8") -> Call:
    """What a record's op is given on the CPU."""
    kernels, met = OPS[sample.op].functions, []
    function = kernels[np.ndarray]

    def noted(*inputs: Any, **attrs: Any) -> Any:
        met.append(Call(inputs, attrs))
        return function(*inputs, **attrs)

    kernels[np.ndarray] = noted
    try:
        with ad.no_grad():
            sample.call(*tensors(sample, dtype))
    finally:
        kernels[np.ndarray] = function
    (call,) = met
    return call


ELEMENTWISE = sorted({sample.op for sample in TABLE if sample.op in DESCRIBED})


# Elementwise ops: the inputs of their records, as often as it takes.


@functools.cache
def recorded(op: str) -> tuple[list[np.ndarray], dict[str, Any]]:
    """The inputs of all records of an op, each as one row, and attributes of the first."""
    samples = [sample for sample in TABLE if sample.op == op]
    cases = [np.broadcast_arrays(*sample.inputs()) for sample in samples]
    rows = [np.concatenate([x.ravel() for x in row]) for row in zip(*cases, strict=True)]
    return rows, call_of(samples[0]).attrs


def elementwise(op: str, n: int, dtype: str) -> Iterator[Call]:
    """A condition stays boolean beside numbers."""
    rows, attrs = recorded(op)
    are_floats = any(x.dtype.kind == "f" for x in rows)
    with np.errstate(invalid="ignore"):
        own = [x if x.dtype.kind == "b" and are_floats else x.astype(dtype) for x in rows]
    yield Call(tuple([np.resize(x, n) for x in own]), attrs)


# Reductions, and ops along rows.


def shapes(n: int) -> list[tuple[int, ...]]:
    """Shapes with about so many elements: flat, and with short rows, and with long ones."""
    if n == 1:
        return [(1,), (1, 1)]
    if n < 100:
        return [(n,), (n, 1), (1, n), (3, n)]
    return [(n,), (n // 100, 100), (40, n // 40), (n // 3, 3)]


def grids(n: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """The shapes, with each axis of them."""
    for shape in shapes(n):
        for axis in range(len(shape)):
            yield shape, axis


def without(axis: int, shape: tuple[int, ...], length: int = 1) -> tuple[int, ...]:
    return (*shape[:axis], length, *shape[axis + 1 :])


def reductions(n: int, dtype: str) -> Iterator[Call]:
    for shape, axis in grids(n):
        x = normal(*shape, dtype=dtype)
        yield Call((x,), {"axis": (axis,), "keepdims": bool(axis)})
    yield Call((x,), {"axis": None, "keepdims": False})


def factors(*shape: int, dtype: str) -> np.ndarray:
    """Floats near 1, of which long products are finite; integers that overflow."""
    x = np.exp(normal(*shape, dtype="f8") / 40)
    return (x if dtype[0] == "f" else 3 * x).astype(dtype)


def products(n: int, dtype: str) -> Iterator[Call]:
    for (x,), attrs in reductions(n, dtype):
        yield Call((factors(*x.shape, dtype=dtype),), attrs)


def along_one(n: int, dtype: str) -> Iterator[Call]:
    for shape, axis in grids(n):
        yield Call((normal(*shape, dtype=dtype),), {"axis": axis})


def along_many(n: int, dtype: str) -> Iterator[Call]:
    for (x,), attrs in along_one(n, dtype):
        yield Call((30 + x,), {"axis": (attrs["axis"],)})


def deviations(n: int, dtype: str) -> Iterator[Call]:
    """float64 has no kernel for those that are 0: the status says so."""
    for (x,), attrs in along_many(n, dtype):
        if dtype != "f8" or x.shape[attrs["axis"][0]] > 1:
            yield Call((x,), attrs)


def masked(n: int, dtype: str) -> Iterator[Call]:
    for (x,), attrs in along_one(n, dtype):
        yield Call((x, normal(*x.shape, seed=1) > 0), attrs)
        yield Call((x, normal(*x.shape[1:], seed=1) > 0), attrs)


def standardized(n: int, dtype: str) -> Iterator[Call]:
    for shape, axis in grids(n):
        for center in (True, False):
            how = {"axis": (axis,), "eps": 1e-5, "center": center}
            yield Call((normal(*shape, dtype=dtype),), how)


def scaled_standardized(n: int, dtype: str) -> Iterator[Call]:
    for (x,), attrs in standardized(n, dtype):
        weight, bias = (normal(x.shape[-1], dtype=dtype, seed=k) for k in (1, 2))
        yield Call((x, weight, bias if attrs["center"] else None), attrs)


def standardize_gradients(n: int, dtype: str) -> Iterator[Call]:
    for (x,), attrs in standardized(n, dtype):
        small = without(attrs["axis"][0], x.shape)
        mean, var = (normal(*small, dtype=dtype, seed=k) for k in (1, 2))
        yield Call((x, mean, var, normal(*x.shape, dtype=dtype, seed=3), var * var), attrs)


def running(n: int, dtype: str) -> Iterator[Call]:
    for shape, axis in grids(n):
        x = factors(*shape, dtype=dtype)
        yield Call((x,), {"axis": axis, "reverse": False})
        yield Call((x,), {"axis": axis - x.ndim, "reverse": True})


def recurrences(n: int, dtype: str) -> Iterator[Call]:
    for (x,), attrs in running(n, dtype):
        yield Call((x, normal(*x.shape, dtype=dtype, seed=1)), attrs)


def losses(n: int, dtype: str) -> Iterator[Call]:
    for shape, axis in grids(n):
        target = integers(shape[axis], without(axis, shape))
        yield Call((normal(*shape, dtype=dtype), target), {"axis": axis})


# Gathers and scatters.


def integers(below: int, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, max(below, 1), shape)


def gathers(n: int, dtype: str) -> Iterator[Call]:
    """Of elements, of rows, along a later axis, and along two at once."""
    whole = slice(None)
    length = min(n, 1000)
    yield Call((normal(length, dtype=dtype), integers(length, (n,))), {"spec": ("array",)})
    for width in (1, 5):
        i = integers(length, (-(-n // width),))
        yield Call((normal(length, width, dtype=dtype), i), {"spec": ("array", whole)})
        yield Call((normal(width, length, dtype=dtype), i), {"spec": (whole, "array")})
    i, j = integers(length, (n,)), integers(3, (n,), seed=1)
    yield Call((normal(length, 3, dtype=dtype), i, j), {"spec": ("array", "array")})


def scatters(n: int, dtype: str) -> Iterator[Call]:
    """The transposes of the gathers."""
    for (x, *indices), attrs in gathers(n, dtype):
        left = iter(indices)
        index = tuple(next(left) if entry == "array" else entry for entry in attrs["spec"])
        g = normal(*x[index].shape, dtype=dtype, seed=2)
        yield Call((g, *indices), {**attrs, "shape": x.shape})


def gathers_along(n: int, dtype: str) -> Iterator[Call]:
    for shape, axis in grids(n):
        for count in (1, 3):
            index = integers(shape[axis], without(axis, shape, count))
            yield Call((normal(*shape, dtype=dtype), index), {"axis": axis})


def scatters_along(n: int, dtype: str) -> Iterator[Call]:
    for (x, index), attrs in gathers_along(n, dtype):
        g = normal(*index.shape, dtype=dtype, seed=1)
        yield Call((g, index), {**attrs, "shape": x.shape})


# Matrices.


def sides(n: int) -> list[tuple[int, int, int]]:
    """Rows, what is summed, and columns: of large ones also single rows and columns of many."""
    if n < 100:
        return [(n, n, n)]
    large = (1, 7, 300)
    return [(m, k, o) for m in large for k in large for o in large if 300 in (m, k, o)]


def matrix_products(n: int, dtype: str) -> Iterator[Call]:
    for m, k, o in sides(n):
        x, y = normal(m, k, dtype=dtype), normal(k, o, dtype=dtype, seed=1)
        yield Call((x, y), {})
    yield Call((normal(k, m, dtype=dtype).T, y), {})
    yield Call((x, normal(o, k, dtype=dtype, seed=1).T), {})
    yield Call((normal(3, m, k, dtype=dtype), y), {})
    yield Call((normal(2, 1, m, k, dtype=dtype), normal(3, k, o, dtype=dtype, seed=1)), {})


def layers(n: int, dtype: str) -> Iterator[Call]:
    for m, k, o in sides(n):
        x, weight = normal(m, k, dtype=dtype), normal(o, k, dtype=dtype, seed=1)
        yield Call((x, weight, normal(o, dtype=dtype, seed=2)), {})
        yield Call((x, weight, None), {})


def squares(n: int, dtype: str) -> Iterator[Call]:
    side = math.isqrt(n)
    yield Call((normal(side, side, dtype=dtype),), {})
    yield Call((normal(3, side, side, dtype=dtype).mT,), {})


# Images.

SAME = geometry(padding=((1, 1), (1, 1)))
# Images, channels, side, filters, side of a filter, and how they are taken.
IMAGES: dict[int, list[tuple[int, int, int, int, int, dict[str, Any]]]] = {
    0: [(0, 1, 3, 2, 1, geometry())],
    1: [(1, 1, 1, 1, 1, geometry()), (1, 1, 1, 1, 3, SAME)],
    7: [(1, 1, 7, 1, 3, geometry()), (2, 3, 7, 5, 3, SAME), (1, 4, 7, 6, 1, geometry())],
    LARGE: [
        (3, 4, 33, 7, 3, SAME),
        (18, 4, 20, 8, 3, geometry()),
        (2, 6, 40, 8, 3, geometry((2, 2), ((1, 1), (1, 1)), (1, 1), 2)),
        (2, 5, 40, 9, 1, geometry()),
    ],
}


def convolutions(n: int, dtype: str) -> Iterator[Call]:
    for count, channels, side, filters, kernel, how in IMAGES[n]:
        x = normal(count, channels, side, side, dtype=dtype)
        w = normal(filters, channels // how["groups"], kernel, kernel, dtype=dtype, seed=1)
        yield Call((x, w, normal(filters, dtype=dtype, seed=2)), how)
        yield Call((x, w, None), how)


def gradients_of_convolutions(n: int, dtype: str) -> Iterator[tuple]:
    """Images, filters and the gradient of what they make."""
    for (x, w, bias), how in convolutions(n, dtype):
        if bias is None:
            sizes = (
                (size + sum(pad) - kernel) // stride + 1
                for size, pad, kernel, stride in zip(
                    x.shape[2:], how["padding"], w.shape[2:], how["stride"], strict=True
                )
            )
            yield x, w, normal(len(x), len(w), *sizes, dtype=dtype, seed=3), how


def input_gradients(n: int, dtype: str) -> Iterator[Call]:
    for x, w, g, how in gradients_of_convolutions(n, dtype):
        yield Call((g, w), {**how, "x_shape": x.shape})


def weight_gradients(n: int, dtype: str) -> Iterator[Call]:
    for x, w, g, how in gradients_of_convolutions(n, dtype):
        yield Call((x, g), {**how, "w_shape": w.shape})


PLAIN = {"kernel": (1, 1), "stride": (1, 1), "padding": ((0, 0), (0, 0))}
HALVING = {"kernel": (2, 2), "stride": (2, 2), "padding": ((0, 0), (0, 0))}
OVERLAPPING = {"kernel": (3, 3), "stride": (1, 2), "padding": ((1, 1), (1, 0))}
POOLS = {0: [PLAIN], 1: [PLAIN], 7: [PLAIN, HALVING, OVERLAPPING], LARGE: [HALVING, OVERLAPPING]}


def sums_of_windows(n: int, dtype: str) -> Iterator[Call]:
    side = min(n or 3, 70)
    count = -(-n // side**2)
    for how in POOLS[n]:
        yield Call((normal(count, 2, side, side, dtype=dtype),), how)


def largest_of_windows(n: int, dtype: str) -> Iterator[Call]:
    """Also of whole images."""
    for (x,), how in sums_of_windows(n, dtype):
        yield Call((x,), {**how, "dilation": (1, 1)})
    yield Call((x,), {**PLAIN, "kernel": x.shape[2:], "dilation": (1, 1)})


def spreads_of_windows(n: int, dtype: str) -> Iterator[Call]:
    for (x,), how in sums_of_windows(n, dtype):
        counts = (
            (size + sum(pad) - kernel) // stride + 1
            for size, kernel, stride, pad in zip(x.shape[2:], *how.values(), strict=True)
        )
        yield Call((normal(*x.shape[:2], *counts, dtype=dtype),), {**how, "shape": x.shape})


def random_words(n: int, dtype: str) -> Iterator[Call]:
    state = np.array([1, 2, 2**32 - 3, 4], "u4")
    for shape in shapes(n):
        yield Call((state,), {"shape": shape})


Calls = Callable[[int, str], Iterator[Call]]
CALLS: dict[str, Calls] = {
    "conv": convolutions,
    "conv_input": input_gradients,
    "conv_weight": weight_gradients,
    "cross_entropy": losses,
    "cumulative_prod": running,
    "cumulative_sum": running,
    "deviation": deviations,
    "index": gathers,
    "linear": layers,
    "log_softmax": along_one,
    "logsumexp": reductions,
    "masked_softmax": masked,
    "matmul": matrix_products,
    "max": reductions,
    "max_pool": largest_of_windows,
    "min": reductions,
    "mirrored": squares,
    "moments": along_many,
    "norm": reductions,
    "prod": products,
    "random_bits": random_words,
    "recurrence": recurrences,
    "scaled_standardize": scaled_standardized,
    "scatter": scatters,
    "scatter_along_axis": scatters_along,
    "softmax": along_one,
    "standardize": standardized,
    "standardize_gradient": standardize_gradients,
    "sum": reductions,
    "symmetrized": squares,
    "take_along_axis": gathers_along,
    "window_spread": spreads_of_windows,
    "window_sum": sums_of_windows,
    **{op: functools.partial(elementwise, op) for op in ELEMENTWISE},
}

RECORDS = {op: [sample for sample in TABLE if sample.op == op] for op in CALLS}

# What else kernels take, beside float32 and float64.
HALF, NUMBERS = ("f2",), ("f2", "i1", "i4", "u8")
OTHERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("sum", "prod", "max", "min"), NUMBERS),
    **dict.fromkeys(("index", "take_along_axis"), (*NUMBERS, "?")),
    **dict.fromkeys(("scatter", "scatter_along_axis"), ("f2", "i4", "u8")),
    **dict.fromkeys(("cumulative_sum", "cumulative_prod"), ("f2", "i4", "u8")),
    **dict.fromkeys(("softmax", "log_softmax", "masked_softmax", "logsumexp"), HALF),
    **dict.fromkeys(("moments", "deviation", "norm", "cross_entropy", "recurrence"), HALF),
    **dict.fromkeys(("conv", "conv_input", "conv_weight"), HALF),
    **dict.fromkeys(("max_pool", "window_sum", "window_spread"), HALF),
}


def has_kernel(op: str, dtype: str) -> bool:
    """Whether an elementwise op is described for a dtype."""
    (call,) = elementwise(op, 1, dtype)
    dtypes = tuple(x.dtype for x in call.inputs)
    return launcher_of(op, dtypes, tuple(call.attrs), call.attrs.get("dtype")) is not None


def dtypes_of(op: str) -> tuple[str, ...]:
    if op == "random_bits":
        return ("u4",)
    if op not in ELEMENTWISE:
        return FLOATS + OTHERS.get(op, ())
    return tuple(dtype for dtype in (*FLOATS, *NUMBERS, "?") if has_kernel(op, dtype))


def sizes_of(op: str, dtype: str) -> tuple[int, ...]:
    """All for the usual dtypes, of others one that isn't a multiple of any vector."""
    return SIZES if dtype in (*FLOATS, "u4") else (7,)
