"""One record per op: how to call it, what it should give, inputs to try. All tests run from it.

An elementwise op is one line: `unary("exp", np.exp)`, or `unary("log", np.log, positive)` where the
domain isn't all numbers.
"""

import importlib
import math
import pkgutil
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np

import adjoint as ad
from adjoint import backends, get_default_device, primitives
from adjoint._core.tensor import wrap
from adjoint.op import Op

MODULES = [
    importlib.import_module(module.name)
    for module in pkgutil.iter_modules(primitives.__path__, "adjoint.primitives.")
]
MODULES.append(importlib.import_module("adjoint.linalg._orthogonal"))
CALLS: dict[str, Callable] = {
    call.op.name: call
    for module in MODULES
    for call in vars(module).values()
    if hasattr(call, "op")
}
OPS: dict[str, Op] = {name: call.op for name, call in CALLS.items()}


def widest(kind: str) -> np.dtype:
    """The dtype of a kind with the most bits, on the device that tests run on."""
    return backends.widest(get_default_device(), kind)


Array = np.ndarray
Domain = Callable[[np.random.Generator, tuple[int, ...]], Array]


class Sample(NamedTuple):
    """`call` takes tensors, `reference` NumPy arrays; `inputs` makes the arguments of one case."""

    op: str
    case: str
    call: Callable
    reference: Callable
    inputs: Callable[[], list[Array]]

    @property
    def id(self) -> str:
        return f"{self.op}-{self.case}"


def tensors(sample: Sample, dtype: str = "f8") -> list[ad.Tensor]:
    """The sample's inputs; floats require grad if the op has rules."""
    arrays = [a.astype(dtype) if a.dtype.kind == "f" else a for a in sample.inputs()]
    grad = OPS[sample.op].differentiable
    return [ad.tensor(a, requires_grad=grad and a.dtype.kind == "f") for a in arrays]


def random_like(outs: list[ad.Tensor], seed: int) -> list[ad.Tensor]:
    """Incoming gradients of outputs."""
    rng = np.random.default_rng(seed)
    return [wrap(rng.standard_normal(out.shape).astype(out.raw.dtype)) for out in outs]


def real(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Numbers of both signs, all different and none near 0: no kinks, no ties."""
    size = int(np.prod(shape))
    values = np.linspace(0.3, 2.0, max(size, 1))[:size] * np.where(np.arange(size) % 2, 1, -1)
    return rng.permutation(values).reshape(shape)


def positive(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.abs(real(rng, shape))


def fractions(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Between -0.9 and 0.9."""
    return real(rng, shape) * 0.45


def off_integers(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return real(rng, shape) * 0.97


def complex_numbers(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.asarray(real(rng, shape) + 1j * real(rng, shape))


def special(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Zeros, infinities and NaNs of both signs."""
    return np.resize(np.array([-0.0, 0.0, np.inf, -np.inf, np.nan, -np.nan, 1.0]), shape)


def boolean(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return real(rng, shape) > 0


def integers(high: int) -> Domain:
    return lambda rng, shape: rng.integers(0, high, shape)


TABLE: list[Sample] = []


def sample(
    op: str,
    call: Callable,
    reference: Callable,
    *cases: tuple[tuple[int, ...], ...],
    domains: tuple[Domain, ...] = (),
) -> None:
    """Add a record for each case, a tuple of input shapes."""
    for number, case in enumerate(cases):
        name = "_".join("x".join(map(str, shape)) or "0d" for shape in case)
        kinds = domains or (real,) * len(case)

        def inputs(case=case, number=number, kinds=kinds) -> list[Array]:
            rng = np.random.default_rng(number)
            arrays = [domain(rng, shape) for domain, shape in zip(kinds, case, strict=True)]
            # No ties between arguments either.
            return [a * (1 + 0.07 * k) if a.dtype.kind == "f" else a for k, a in enumerate(arrays)]

        TABLE.append(Sample(op, f"{number}-{name}", call, reference, inputs))


SHAPES = ((), (3,), (2, 3), (0,), (2, 0, 3))
PAIRS = (((), ()), ((3,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2,)), ((0,), (1,)))


def unary(op: str, reference: Callable, domain: Domain = real) -> None:
    sample(op, CALLS[op], reference, *((shape,) for shape in SHAPES), domains=(domain,))


def binary(op: str, reference: Callable, x: Domain = real, y: Domain = real) -> None:
    sample(op, CALLS[op], reference, *PAIRS, domains=(x, y))


unary("negative", np.negative)
unary("square", np.square)
unary("exp", np.exp)
unary("expm1", np.expm1)
unary("log", np.log, positive)
unary("log1p", np.log1p, positive)
unary("log2", np.log2, positive)
unary("log10", np.log10, positive)
unary("sqrt", np.sqrt, positive)
unary("sin", np.sin)
unary("cos", np.cos)
unary("tan", np.tan, fractions)
unary("asin", np.arcsin, fractions)
unary("acos", np.arccos, fractions)
unary("atan", np.arctan)
unary("sinh", np.sinh)
unary("cosh", np.cosh)
unary("tanh", np.tanh)
unary("asinh", np.arcsinh)
unary("acosh", np.arccosh, lambda rng, shape: 1.1 + positive(rng, shape))
unary("atanh", np.arctanh, fractions)
unary("sigmoid", lambda x: 1 / (1 + np.exp(-x)))
unary("silu", lambda x: x / (1 + np.exp(-x)))
unary("erf", np.vectorize(math.erf, otypes=[float]))
unary("gelu", lambda x: 0.5 * x * (1 + np.vectorize(math.erf, otypes=[float])(x * 0.5**0.5)))
unary(
    "gelu_tanh",
    lambda x: 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))),
)
sample(
    "leaky_relu",
    lambda x: CALLS["leaky_relu"](x, negative_slope=0.1),
    lambda x: np.where(x > 0, x, 0.1 * x),
    ((2, 3),),
    ((),),
)
sample(
    "elu",
    lambda x: CALLS["elu"](x, alpha=1.5),
    lambda x: np.where(x > 0, x, 1.5 * (np.exp(x) - 1)),
    ((2, 3),),
    ((),),
)
unary("sign", np.sign)
unary("floor", np.floor, off_integers)
unary("ceil", np.ceil, off_integers)
unary("trunc", np.trunc, off_integers)
unary("round", np.round)
unary("abs", np.abs)
unary("real", np.real, complex_numbers)
unary("imag", np.imag, complex_numbers)
unary("conj", np.conj, complex_numbers)
unary("relu", lambda x: np.where(x > 0, x, 0))
unary("logical_not", np.logical_not, boolean)
unary("isfinite", np.isfinite, special)
unary("isinf", np.isinf, special)
unary("isnan", np.isnan, special)
unary("signbit", np.signbit, special)
unary("bitwise_invert", np.invert, integers(9))

binary("add", np.add)
binary("subtract", np.subtract)
binary("multiply", np.multiply)
binary("divide", np.divide)
binary("pow", np.power, positive)
binary("floor_divide", np.floor_divide)
binary("remainder", np.remainder)
binary("hypot", np.hypot)
binary("atan2", np.arctan2)
binary("logaddexp", np.logaddexp)
binary("copysign", np.copysign)
binary("nextafter", np.nextafter)
binary("maximum", np.maximum)
binary("minimum", np.minimum)
sample(
    "add_scaled",
    lambda x, y: CALLS["add_scaled"](x, y, alpha=-0.5),
    lambda x, y: x - 0.5 * y,
    ((2, 3), (2, 3)),
    ((2, 1), (3,)),
    ((70, 70), (70, 70)),
)
binary("equal", np.equal, integers(2), integers(2))
binary("not_equal", np.not_equal, integers(2), integers(2))
binary("less", np.less)
binary("less_equal", np.less_equal, integers(2), integers(2))
binary("greater", np.greater)
binary("greater_equal", np.greater_equal, integers(2), integers(2))
binary("logical_and", np.logical_and, boolean, boolean)
binary("logical_or", np.logical_or, boolean, boolean)
binary("logical_xor", np.logical_xor, boolean, boolean)
binary("bitwise_xor", np.bitwise_xor, integers(9), integers(9))
binary("bitwise_left_shift", np.left_shift, integers(99), integers(4))
binary("bitwise_and", np.bitwise_and, integers(9), integers(9))
binary("bitwise_or", np.bitwise_or, integers(9), integers(9))
binary("bitwise_right_shift", np.right_shift, integers(99), integers(4))

sample(
    "where",
    CALLS["where"],
    np.where,
    ((2, 3), (2, 3), (2, 3)),
    ((3,), (2, 1), ()),
    ((0,), (0,), (0,)),
    domains=(boolean, real, real),
)


def like(x: Any, n: Any) -> Any:
    """Whole numbers as ops take them beside floats."""
    return CALLS["cast"](n, dtype=x.raw.dtype)


sample(
    "scale",
    lambda x, n: CALLS["scale"](x, like(x, n)),
    np.ldexp,
    *((shape, shape) for shape in SHAPES),
    domains=(real, integers(5)),
)
sample(
    "clip",
    CALLS["clip"],
    lambda x, low, high: np.minimum(np.maximum(x, low), high),
    ((6,), (), ()),
    ((2, 3), (2, 1), (3,)),
    ((0,), (), ()),
    domains=(real, lambda rng, s: -1 + 0.1 * real(rng, s), lambda rng, s: 1 + 0.1 * real(rng, s)),
)
sample("cast", lambda x: CALLS["cast"](x, dtype=widest("f")), lambda x: x.astype("f8"), ((2, 3),))

for axis, keepdims in product(((0,), (1,), (0, 2), ()), (False, True)):
    sample(
        "sum",
        lambda x, axis=axis, keepdims=keepdims: CALLS["sum"](x, axis=axis, keepdims=keepdims),
        lambda x, axis=axis, keepdims=keepdims: x.sum(axis=axis, keepdims=keepdims),
        ((2, 3, 2),),
        ((2, 0, 2),),
    )
    for name, reference in (
        ("max", np.max),
        ("min", np.min),
        ("prod", np.prod),
        ("logsumexp", lambda x, **how: np.log(np.sum(np.exp(x), **how))),
    ):
        sample(
            name,
            lambda x, f=CALLS[name], axis=axis, keepdims=keepdims: f(
                x, axis=axis, keepdims=keepdims
            ),
            lambda x, f=reference, axis=axis, keepdims=keepdims: f(x, axis=axis, keepdims=keepdims),
            ((2, 3, 2),),
        )
    for name, reference in (("any", np.any), ("all", np.all)):
        sample(
            name,
            lambda x, f=CALLS[name], axis=axis, keepdims=keepdims: f(
                x, axis=axis, keepdims=keepdims
            ),
            lambda x, f=reference, axis=axis, keepdims=keepdims: f(x, axis=axis, keepdims=keepdims),
            ((2, 3, 2),),
            domains=(boolean,),
        )
sample("sum", lambda x: CALLS["sum"](x, axis=(), keepdims=False), lambda x: x, ((),))
sample(
    "spread",
    lambda x: CALLS["spread"](x, axis=(1,), shape=(2, 4, 3)),
    lambda x: np.broadcast_to(x.reshape(2, 1, 3), (2, 4, 3)),
    ((2, 3),),
    ((2, 1, 3),),
)
sample(
    "argmax",
    lambda x: CALLS["argmax"](x, axis=1, keepdims=True),
    lambda x: x.argmax(axis=1, keepdims=True),
    ((3, 4),),
)
sample(
    "argmin",
    lambda x: CALLS["argmin"](x, axis=1, keepdims=False),
    lambda x: x.argmin(axis=1),
    ((3, 4),),
)
sample(
    "moments",
    lambda x: CALLS["moments"](x, axis=(0, 2)),
    lambda x: (x.mean((0, 2), keepdims=True), x.var((0, 2), keepdims=True)),
    ((2, 3, 2),),
    ((1, 2, 1),),
)
sample(
    "deviation",
    lambda x: CALLS["deviation"](x, axis=(0, 2)),
    lambda x: (x.mean((0, 2), keepdims=True), x.std((0, 2), keepdims=True)),
    ((2, 3, 2),),
)
for axis in ((1,), (0, 2)):
    sample(
        "norm",
        lambda x, axis=axis: CALLS["norm"](x, axis=axis, keepdims=False),
        lambda x, axis=axis: np.sqrt(np.square(x).sum(axis)),
        ((2, 3, 2),),
        ((2, 0, 2),),
    )


def with_zeros(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Every third number is zero: products and their derivatives stay finite."""
    values = real(rng, shape)
    values.reshape(-1)[::3] = 0
    return values


def recurred(a: Array, b: Array) -> Array:
    out = b.copy()
    for k in range(1, b.shape[1]):
        out[:, k] = a[:, k] * out[:, k - 1] + b[:, k]
    return out


for reverse in (False, True):
    sample(
        "cumulative_sum",
        lambda x, reverse=reverse: CALLS["cumulative_sum"](x, axis=1, reverse=reverse),
        lambda x, step=-1 if reverse else 1: x[:, ::step].cumsum(1)[:, ::step],
        ((2, 4),),
        ((2, 0),),
    )
    for domain in (real, with_zeros):
        sample(
            "cumulative_prod",
            lambda x, reverse=reverse: CALLS["cumulative_prod"](x, axis=1, reverse=reverse),
            lambda x, step=-1 if reverse else 1: x[:, ::step].cumprod(1)[:, ::step],
            ((2, 5),),
            ((2, 0),),
            domains=(domain,),
        )
    sample(
        "recurrence",
        lambda a, b, reverse=reverse: CALLS["recurrence"](a, b, axis=1, reverse=reverse),
        lambda a, b, step=-1 if reverse else 1: recurred(a[:, ::step], b[:, ::step])[:, ::step],
        ((2, 5), (2, 5)),
        ((2, 0), (2, 0)),
        ((1, 1), (1, 1)),
    )
    sample(
        "scaled_recurrence",
        lambda a, b, n, reverse=reverse: CALLS["scale"](
            *CALLS["scaled_recurrence"](a, b, like(a, n), axis=1, reverse=reverse)
        ),
        lambda a, b, n, step=-1 if reverse else 1: recurred(
            a[:, ::step], np.ldexp(b, n)[:, ::step]
        )[:, ::step],
        ((2, 5), (2, 5), (2, 5)),
        ((2, 0), (2, 0), (2, 0)),
        domains=(real, real, integers(3)),
    )
for axis in ((1,), (0, 1), (0, 2)):
    sample(
        "prod",
        lambda x, axis=axis: CALLS["prod"](x, axis=axis, keepdims=False),
        lambda x, axis=axis: x.prod(axis),
        ((2, 3, 2),),
        ((2, 0, 2),),
        domains=(with_zeros,),
    )


def softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def masked_softmax(x: Array, mask: Array, axis: int) -> Array:
    e = np.exp(x) * mask
    return e / np.maximum(e.sum(axis, keepdims=True), 1e-30)


for axis in (0, 1):
    sample(
        "masked_softmax",
        lambda x, mask, axis=axis: CALLS["masked_softmax"](x, mask, axis=axis),
        lambda x, mask, axis=axis: masked_softmax(x, mask, axis),
        ((3, 4), (3, 4)),
        ((2, 3, 2), (3, 1)),
        ((3, 4), (4,)),
        domains=(real, boolean),
    )
    sample(
        "softmax",
        lambda x, axis=axis: CALLS["softmax"](x, axis=axis),
        lambda x, axis=axis: softmax(x, axis),
        ((3, 4),),
    )
    sample(
        "log_softmax",
        lambda x, axis=axis: CALLS["log_softmax"](x, axis=axis),
        lambda x, axis=axis: np.log(softmax(x, axis)),
        ((3, 4),),
    )

sample("reshape", lambda x: CALLS["reshape"](x, shape=(3, 2)), lambda x: x.reshape(3, 2), ((2, 3),))
sample("reshape", lambda x: CALLS["reshape"](x, shape=(1, 0)), lambda x: x.reshape(1, 0), ((0, 2),))
sample(
    "permute_dims",
    lambda x: CALLS["permute_dims"](x, axes=(2, 0, 1)),
    lambda x: x.transpose(2, 0, 1),
    ((2, 3, 4),),
)
sample(
    "matrix_transpose",
    CALLS["matrix_transpose"],
    lambda x: x.swapaxes(-1, -2),
    ((2, 3),),
    ((2, 3, 4),),
)
sample(
    "broadcast_to",
    lambda x: CALLS["broadcast_to"](x, shape=(4, 2, 3)),
    lambda x: np.broadcast_to(x, (4, 2, 3)),
    ((3,),),
    ((2, 1),),
    ((),),
)
sample(
    "concat",
    lambda *xs: CALLS["concat"](*xs, axis=1),
    lambda *xs: np.concatenate(xs, 1),
    ((2, 3), (2, 1), (2, 0)),
    ((2, 3),),
)
sample(
    "pad",
    lambda x: CALLS["pad"](x, pad_width=((1, 0), (2, 1)), value=7.0),
    lambda x: np.pad(x, ((1, 0), (2, 1)), constant_values=7),
    ((2, 3),),
    ((0, 1),),
)
for index in ((1,), (slice(None, None, -2), None), (slice(1, 3), slice(None), 0), (slice(5, 2),)):
    sample(
        "slice",
        lambda x, index=index: CALLS["slice"](x, index=index),
        lambda x, index=index: x[index],
        ((4, 3, 2),),
    )
    shape = np.empty((4, 3, 2))[index].shape

    def placed(x: Array, index=index) -> Array:
        out = np.zeros((4, 3, 2), x.dtype)
        out[index] = x
        return out

    sample(
        "place",
        lambda x, index=index: CALLS["place"](x, index=index, shape=(4, 3, 2)),
        placed,
        (shape,),
    )

# Two index arrays around a slice: their axes go first. A repeated pair: its gradient adds up.
SPEC = ("array", slice(None), "array")
indices = (integers(4), integers(2))
sample(
    "index",
    lambda x, i, j: CALLS["index"](x, i, j, spec=SPEC),
    lambda x, i, j: x[i, :, j],
    ((4, 3, 2), (5,), (5,)),
    ((4, 3, 2), (2, 1), (3,)),
    ((4, 3, 2), (0,), (0,)),
    domains=(real, *indices),
)


def scattered(x: Array, i: Array, j: Array) -> Array:
    out = np.zeros((4, 3, 2), x.dtype)
    for k in range(len(i)):
        out[i[k], :, j[k]] += x[k]
    return out


def assigned(x: Array, v: Array, i: Array, j: Array) -> Array:
    out = x.copy()
    for k in range(len(i)):
        out[i[k], :, j[k]] = v[k]
    return out


sample(
    "scatter",
    lambda x, i, j: CALLS["scatter"](x, i, j, spec=SPEC, shape=(4, 3, 2)),
    scattered,
    ((9, 3), (9,), (9,)),
    domains=(real, *indices),
)
sample(
    "assign",
    lambda x, v, i, j: CALLS["assign"](x, v, i, j, spec=SPEC),
    assigned,
    ((4, 3, 2), (9, 3), (9,), (9,)),
    domains=(real, real, *indices),
)
sample(
    "assign",
    lambda x, v: CALLS["assign"](x, v, spec=(1, slice(None, None, -1))),
    lambda x, v: np.stack([x[0], v[::-1]]),
    ((2, 3), (3,)),
)
sample(
    "take_along_axis",
    lambda x, i: CALLS["take_along_axis"](x, i, axis=1),
    lambda x, i: np.take_along_axis(x, i, 1),
    ((2, 3), (2, 5)),
    ((2, 3), (2, 1)),
    domains=(real, integers(3)),
)


for axis, shapes in ((1, ((2, 3), (2, 1))), (0, ((3,), (1,))), (1, ((2, 3, 2), (2, 1, 2)))):
    sample(
        "cross_entropy",
        lambda x, i, axis=axis: CALLS["cross_entropy"](x, i, axis=axis),
        lambda x, i, axis=axis: -np.take_along_axis(np.log(softmax(x, axis)), i, axis),
        shapes,
        domains=(real, integers(3)),
    )


def scattered_along_axis(x: Array, index: Array) -> Array:
    out = np.zeros((2, 3), x.dtype)
    for row, column in np.ndindex(*index.shape):
        out[row, index[row, column]] += x[row, column]
    return out


sample(
    "scatter_along_axis",
    lambda x, i: CALLS["scatter_along_axis"](x, i, axis=1, shape=(2, 3)),
    scattered_along_axis,
    ((2, 5), (2, 5)),
    ((2, 1), (2, 1)),
    domains=(real, integers(3)),
)
for largest in (True, False):
    sample(
        "topk",
        lambda x, largest=largest: CALLS["topk"](x, k=2, axis=1, largest=largest),
        lambda x, sign=-1 if largest else 1: (
            np.take_along_axis(x, np.argsort(sign * x, 1), 1)[:, :2],
            np.argsort(sign * x, 1)[:, :2],
        ),
        ((3, 4),),
    )
for after in (False, True):
    sample(
        "searchsorted",
        lambda x, values, after=after: CALLS["searchsorted"](x, values, after=after),
        lambda x, values, after=after: np.searchsorted(x, values, "right" if after else "left"),
        ((5,), (2, 3)),
        ((0,), (2,)),
        domains=(lambda rng, shape: np.sort(rng.integers(0, 9, shape)), integers(9)),
    )
sample(
    "unique",
    CALLS["unique"],
    lambda x: np.unique(x, True, True, True)[1:],
    ((7,),),
    ((0,),),
    domains=(integers(4),),
)
sample(
    "nonzero", CALLS["nonzero"], lambda x: np.stack(np.nonzero(x)), ((3, 4),), domains=(boolean,)
)

sample(
    "linear",
    CALLS["linear"],
    lambda x, weight, bias: x @ weight.T + bias,
    ((4, 3), (2, 3), (2,)),
    ((1, 1), (5, 1), (5,)),
    ((0, 3), (2, 3), (2,)),
    ((2, 0), (3, 0), (3,)),
)
sample("linear", lambda x, w: CALLS["linear"](x, w, None), lambda x, w: x @ w.T, ((4, 3), (2, 3)))
sample("matmul", CALLS["matmul"], np.matmul, ((2, 3), (3, 2)), ((4, 2, 3), (3, 2)))
sample("matmul", CALLS["matmul"], np.matmul, ((2, 3), (4, 3, 2)), ((2, 1, 2, 3), (3, 3, 1)))
sample("matmul", CALLS["matmul"], np.matmul, ((2, 0), (0, 3)), ((1, 1), (2, 1, 1)))


def convolved(x: Array, w: Array, bias: Array | None = None, **g: Any) -> Array:
    """Convolution as its definition says."""
    (sh, sw), (dh, dw), groups = g["stride"], g["dilation"], g["groups"]
    x = np.pad(x, ((0, 0), (0, 0), *g["padding"]))
    out_channels, per_group, kh, kw = w.shape
    rows = (x.shape[2] - dh * (kh - 1) - 1) // sh + 1
    columns = (x.shape[3] - dw * (kw - 1) - 1) // sw + 1
    out = np.zeros((x.shape[0], out_channels, rows, columns), x.dtype)
    for n, o, r, c in np.ndindex(*out.shape):
        first = o // (out_channels // groups) * per_group
        window = x[n, first : first + per_group, r * sh : r * sh + dh * kh : dh]
        window = window[:, :kh, c * sw : c * sw + dw * kw : dw][:, :, :kw]
        out[n, o, r, c] = (window * w[o]).sum() + (0 if bias is None else bias[o])
    return out


def geometry(stride=(1, 1), padding=((0, 0), (0, 0)), dilation=(1, 1), groups=1) -> dict[str, Any]:
    return {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}


CONVOLUTIONS = (
    (geometry(), (2, 2, 4, 4), (3, 2, 3, 3)),
    (geometry(stride=(2, 2)), (1, 1, 4, 4), (1, 1, 1, 1)),
    (geometry(padding=((1, 1), (1, 1))), (1, 1, 1, 1), (1, 1, 3, 3)),
    (geometry((2, 1), ((1, 1), (0, 3)), (1, 2), 2), (1, 4, 5, 4), (2, 2, 2, 3)),
)


def add_convolution(attrs: dict[str, Any], x: tuple[int, ...], w: tuple[int, ...]) -> None:
    out = convolved(np.zeros(x), np.zeros(w), **attrs).shape

    def transpose_of_convolution(dy: Array, w: Array) -> Array:
        basis = np.eye(int(np.prod(x))).reshape(-1, *x)
        return np.array([(convolved(e, w, **attrs) * dy).sum() for e in basis]).reshape(x)

    def weight_gradient(image: Array, dy: Array) -> Array:
        basis = np.eye(int(np.prod(w))).reshape(-1, *w)
        return np.array([(convolved(image, e, **attrs) * dy).sum() for e in basis]).reshape(w)

    sample(
        "conv",
        lambda x, w, bias=None: CALLS["conv"](x, w, bias, **attrs),
        lambda x, w, bias=None: convolved(x, w, bias, **attrs),
        (x, w, (w[0],)),
    )
    sample(
        "conv",
        lambda x, w: CALLS["conv"](x, w, None, **attrs),
        lambda x, w: convolved(x, w, **attrs),
        (x, w),
    )
    sample(
        "conv_input",
        lambda dy, w: CALLS["conv_input"](dy, w, x_shape=x, **attrs),
        transpose_of_convolution,
        (out, w),
    )
    sample(
        "conv_weight",
        lambda x, dy: CALLS["conv_weight"](x, dy, w_shape=w, **attrs),
        weight_gradient,
        (x, out),
    )


for convolution in CONVOLUTIONS:
    add_convolution(*convolution)


sample(
    "full",
    lambda: CALLS["full"](shape=(2, 3), value=7.0, dtype=widest("f"), device=get_default_device()),
    lambda: np.full((2, 3), 7.0),
    (),
)
sample(
    "arange",
    lambda: CALLS["arange"](
        start=1, stop=8, step=3, dtype=widest("i"), device=get_default_device()
    ),
    lambda: np.arange(1, 8, 3),
    (),
)
sample(
    "linspace",
    lambda: CALLS["linspace"](
        start=1, stop=8, num=4, endpoint=False, dtype=widest("f"), device=get_default_device()
    ),
    lambda: np.linspace(1, 8, 4, endpoint=False),
    (),
)
for transform, shape in (("fft", (2, 3)), ("ifft", (2, 3)), ("irfft", (2, 3)), ("rfft", (2, 2))):
    sample(
        "fourier",
        lambda x, transform=transform, shape=shape: CALLS["fourier"](
            x,
            transform=transform,
            lengths=(3,),
            axis=(1,),
            norm="ortho",
            dtype=np.dtype("f8" if transform == "irfft" else "c16"),
            shape=shape,
        ),
        lambda x, transform=transform: getattr(np.fft, transform)(x, 3, 1, "ortho"),
        ((2, 4),),
        domains=(real if transform == "rfft" else complex_numbers,),
    )
sample(
    "eye",
    lambda: CALLS["eye"](rows=2, columns=3, k=1, dtype=widest("f"), device=get_default_device()),
    lambda: np.eye(2, 3, 1),
    (),
)
# Known answers of Threefry 2x32 with 20 rounds, published with Random123.
sample(
    "random_bits",
    lambda state: CALLS["random_bits"](state, shape=(2,), device=get_default_device()),
    lambda state: (
        np.array([0xC4923A9C, 0x483DF7A0], np.uint32),
        np.array([0x13198A2E, 0x03707344, 0x243F6A89, 0x85A308D3], np.uint32),
    ),
    ((4,),),
    domains=(
        lambda rng, shape: np.array([0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3], np.uint32),
    ),
)

sample(
    "move",
    lambda x: CALLS["move"](x, device="cpu", source=x.device),
    lambda x: x,
    ((2, 3),),
    ((),),
    ((0,),),
)

from tests.support import samples_linalg as samples_linalg  # noqa: E402
from tests.support import samples_neural as samples_neural  # noqa: E402
from tests.support import samples_random as samples_random  # noqa: E402
