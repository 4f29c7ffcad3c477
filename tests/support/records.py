"""One record per public function of `ad.` and way to call it: `test_functions` runs them all.

A record's `call` takes a namespace first: adjoint's functions, its methods, NumPy or torch, the
last two with the names and arguments that adjoint has.
"""

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import adjoint as ad
from tests.support.helpers import as_tuple
from tests.support.samples import fractions, off_integers, positive, real

Array = np.ndarray


# The namespaces.


class Names:
    """A module's functions, some of them replaced by those of this class."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)


class Numpy(Names):
    """NumPy with the functions that it lacks or calls otherwise."""

    erf = staticmethod(np.vectorize(math.erf, otypes=[float]))

    def unstack(self, x: Array, axis: int = 0) -> tuple:
        return tuple(np.moveaxis(x, axis, 0))

    def cumulative_sum(self, x: Array, axis: int = 0, include_initial: bool = False) -> Array:
        return self.preceded(np.cumsum(x, axis), axis, 0) if include_initial else np.cumsum(x, axis)

    def cumulative_prod(self, x: Array, axis: int = 0, include_initial: bool = False) -> Array:
        return (
            self.preceded(np.cumprod(x, axis), axis, 1) if include_initial else np.cumprod(x, axis)
        )

    def preceded(self, x: Array, axis: int, value: float) -> Array:
        first = np.full_like(np.take(x, [0], axis), value)
        return np.concatenate([first, x], axis)

    def sigmoid(self, x: Array) -> Array:
        return 1 / (1 + np.exp(-x))

    def relu(self, x: Array) -> Array:
        return np.maximum(x, 0)

    def silu(self, x: Array) -> Array:
        return x * self.sigmoid(x)

    def softplus(self, x: Array) -> Array:
        return np.log1p(np.exp(x))

    def gelu(self, x: Array, approximate: str = "none") -> Array:
        if approximate == "tanh":
            return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
        return 0.5 * x * (1 + self.erf(x / np.sqrt(2)))

    def elu(self, x: Array, alpha: float = 1.0) -> Array:
        return np.where(x > 0, x, alpha * np.expm1(x))

    def leaky_relu(self, x: Array, negative_slope: float = 0.01) -> Array:
        return np.where(x > 0, x, negative_slope * x)

    def clip(self, x: Array, min: Any = None, max: Any = None) -> Array:
        low = x if min is None else np.maximum(x, min)
        return low if max is None else np.minimum(low, max)

    def softmax(self, x: Array, axis: int = -1) -> Array:
        e = np.exp(x)
        return e / e.sum(axis, keepdims=True)

    def log_softmax(self, x: Array, axis: int = -1) -> Array:
        return np.log(self.softmax(x, axis))

    def logsumexp(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        return np.log(np.sum(np.exp(x), axis, keepdims=keepdims))

    def sort(self, x: Array, axis: int = -1, descending: bool = False) -> Array:
        return np.flip(np.sort(x, axis), axis) if descending else np.sort(x, axis)

    def topk(self, x: Array, k: int, axis: int = -1, largest: bool = True) -> tuple[Array]:
        parts = np.split(self.sort(x, axis, largest), [k], axis)
        return (parts[0],)

    def diff(self, x: Array, prepend: Any = None, append: Any = None, **options: Any) -> Array:
        around = {"prepend": prepend, "append": append}
        return np.diff(x, **options, **{k: v for k, v in around.items() if v is not None})

    def gather(self, x: Array, index: Array, axis: int = 0) -> Array:
        part = tuple(slice(None if k == axis % x.ndim else n) for k, n in enumerate(index.shape))
        return np.take_along_axis(x[part], index, axis)

    def index_select(self, x: Array, index: Array, axis: int = 0) -> Array:
        return np.take(x, index, axis)

    def scatter_add(self, x: Array, index: Array, src: Array, axis: int = 0) -> Array:
        out = x.copy()
        for place in np.ndindex(*index.shape):
            to = list(place)
            to[axis] = index[place]
            with np.errstate(over="ignore"):  # of integers, which wrap around
                out[tuple(to)] += src[place]
        return out

    def cross(self, x: Array, y: Array, axis: int = -1) -> Array:
        return np.cross(x, y, axis=axis)

    def expand_dims(self, x: Array, axis: Any = 0) -> Array:
        return np.expand_dims(x, axis)

    def asarray(self, x: Any) -> Array:
        return np.array(x)

    def unique_all(self, x: Array) -> tuple[Array]:
        return (np.unique(x),)

    unique_counts = unique_inverse = unique_all

    def unique_values(self, x: Array) -> Array:
        return np.unique(x)

    def reciprocal(self, x: Array) -> Array:
        return 1 / x

    def get(self, x: Array, index: Any) -> Array:
        return np.asarray(x[index])

    def at(self, x: Array, index: Any, how: str, v: Array) -> Array:
        out = x.copy()
        if how == "set":
            out[index] = v
        else:
            ufunc = getattr(np, {"min": "minimum", "max": "maximum"}.get(how, how))
            ufunc.at(out, index, np.broadcast_to(v, out[index].shape))
        return out

    put = at


class Torch(Names):
    """torch with the array API's names and arguments."""

    def __getattr__(self, name: str) -> Any:
        if name in ("softplus", "silu", "gelu", "elu", "leaky_relu", "log_softmax", "softmax"):
            function = getattr(self.module.nn.functional, name)
            return lambda x, axis=None, **how: function(x, **how, **given(dim=axis))
        return super().__getattr__(name)

    def axes(self, x: Any, axis: Any) -> tuple[int, ...]:
        return tuple(range(x.ndim)) if axis is None else as_tuple(axis)

    def max(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return self.module.amax(x, self.axes(x, axis), keepdims)

    def min(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return self.module.amin(x, self.axes(x, axis), keepdims)

    def logsumexp(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return self.module.logsumexp(x, self.axes(x, axis), keepdims)

    def prod(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        for k in sorted((k % x.ndim for k in self.axes(x, axis)), reverse=True):
            x = self.module.prod(x, k, keepdims)
        return x

    def var(self, x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
        return self.module.var(x, self.axes(x, axis), correction=correction, keepdim=keepdims)

    def std(self, x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
        return self.module.std(x, self.axes(x, axis), correction=correction, keepdim=keepdims)

    def cumulative_sum(self, x: Any, axis: int = 0, include_initial: bool = False) -> Any:
        return self.preceded(self.module.cumsum(x, axis), x, axis, 0.0, include_initial)

    def cumulative_prod(self, x: Any, axis: int = 0, include_initial: bool = False) -> Any:
        return self.preceded(self.module.cumprod(x, axis), x, axis, 1.0, include_initial)

    def preceded(self, out: Any, x: Any, axis: int, value: float, wanted: bool) -> Any:
        first = self.module.full_like(x.narrow(axis, 0, 1), value) if wanted else out[:0]
        return self.module.cat([first, out], axis) if wanted else out

    def sort(self, x: Any, axis: int = -1, descending: bool = False) -> Any:
        return self.module.sort(x, dim=axis, descending=descending, stable=True)[0]

    def permute_dims(self, x: Any, axes: Any) -> Any:
        return self.module.permute(x, as_tuple(axes))

    def transpose(self, x: Any, axes: Any = None) -> Any:
        return self.module.permute(x, axes or tuple(range(x.ndim))[::-1])

    def matrix_transpose(self, x: Any) -> Any:
        return x.mT

    def flip(self, x: Any, axis: Any = None) -> Any:
        return self.module.flip(x, self.axes(x, axis))

    def roll(self, x: Any, shift: Any, axis: Any = None) -> Any:
        shifts = (
            shift if axis is None or isinstance(shift, tuple) else (shift,) * len(as_tuple(axis))
        )
        return self.module.roll(x, shifts, axis)

    def repeat(self, x: Any, repeats: Any, axis: Any = None) -> Any:
        return self.module.repeat_interleave(x, repeats, axis)

    def tile(self, x: Any, repetitions: Any) -> Any:
        return self.module.tile(x, as_tuple(repetitions))

    def take(self, x: Any, indices: Any, axis: int = 0) -> Any:
        return x[(*(slice(None),) * (axis % x.ndim), indices)]

    def take_along_axis(self, x: Any, indices: Any, axis: int = -1) -> Any:
        return self.module.take_along_dim(x, indices, axis)

    def gather(self, x: Any, index: Any, axis: int = 0) -> Any:
        return self.module.gather(x, axis, index)

    def index_select(self, x: Any, index: Any, axis: int = 0) -> Any:
        return self.module.index_select(x, axis, index)

    def scatter_add(self, x: Any, index: Any, src: Any, axis: int = 0) -> Any:
        return self.module.scatter_add(x, axis, index, src)

    def topk(self, x: Any, k: int, axis: int = -1, largest: bool = True) -> Any:
        return self.module.topk(x, k, axis, largest)[0]

    def tril(self, x: Any, k: int = 0) -> Any:
        return self.module.tril(x, k)

    def triu(self, x: Any, k: int = 0) -> Any:
        return self.module.triu(x, k)

    def diagonal(self, x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        return self.module.diagonal(x, offset, axis1, axis2)

    def diagflat(self, x: Any, k: int = 0) -> Any:
        return self.module.diagflat(x, k)

    def diff(self, x: Any, axis: int = -1, n: int = 1, **around: Any) -> Any:
        return self.module.diff(x, n, axis, **around)

    def split(self, x: Any, cuts: Any, axis: int = 0) -> Any:
        return self.module.tensor_split(x, cuts, axis)

    def expand_dims(self, x: Any, axis: Any = 0) -> Any:
        for k in sorted(as_tuple(axis)):
            x = x.unsqueeze(k)
        return x

    def squeeze(self, x: Any, axis: Any = None) -> Any:
        return x.squeeze() if axis is None else x.squeeze(as_tuple(axis))

    def unstack(self, x: Any, axis: int = 0) -> Any:
        return self.module.unbind(x, axis)

    def outer(self, x: Any, y: Any) -> Any:
        return self.module.outer(x, y)

    def tensordot(self, x: Any, y: Any, axes: Any = 2) -> Any:
        return self.module.tensordot(x, y, axes)

    def vecdot(self, x: Any, y: Any, axis: int = -1) -> Any:
        return self.module.linalg.vecdot(x, y, dim=axis)

    def cross(self, x: Any, y: Any, axis: int = -1) -> Any:
        return self.module.linalg.cross(x, y, dim=axis)

    def broadcast_arrays(self, *xs: Any) -> Any:
        return self.module.broadcast_tensors(*xs)

    def meshgrid(self, *xs: Any, indexing: str = "xy") -> Any:
        return self.module.meshgrid(*xs, indexing=indexing)

    def asarray(self, xs: Any) -> Any:
        return self.module.stack(xs)

    def copy(self, x: Any) -> Any:
        return x.clone()

    def astype(self, x: Any, dtype: Any) -> Any:
        return x.to(dtype)

    def get(self, x: Any, index: Any) -> Any:
        places = numbered(x.shape)[index]
        return x.reshape(-1)[places.reshape(-1)].reshape(places.shape)

    def at(self, x: Any, index: Any, how: str, v: Any) -> Any:
        """One element after the other."""
        places, out = numbered(x.shape)[index], list(x.reshape(-1))
        change = {"set": lambda x, v: v, "min": self.module.minimum, "max": self.module.maximum}
        change |= {"add": operator.add, "subtract": operator.sub}
        change |= {"multiply": operator.mul, "divide": operator.truediv}
        for k, value in zip(places.reshape(-1), v.expand(places.shape).reshape(-1), strict=True):
            out[k] = change[how](out[k], value)
        return self.module.stack(out).reshape(x.shape)

    put = at


class Methods:
    """The functions of `ad.` by way of tensors' methods."""

    float32, float64 = ad.float32, ad.float64

    def __getattr__(self, name: str) -> Any:
        return lambda x, *args, **options: getattr(ad.asarray(x), name)(*args, **options)


class Adjoint(Names):
    """adjoint's functions, and its ways to index as functions."""

    def get(self, x: ad.Tensor, index: Any) -> ad.Tensor:
        return x[index]

    def at(self, x: ad.Tensor, index: Any, how: str, v: ad.Tensor) -> ad.Tensor:
        return getattr(x.at[index], how)(v)

    def put(self, x: ad.Tensor, index: Any, how: str, v: ad.Tensor) -> ad.Tensor:
        """By assignment to a copy."""
        out = x.copy()
        out[index] = v
        return out


def numbered(shape: tuple[int, ...]) -> Array:
    """An array that has its places for elements."""
    return np.arange(math.prod(shape)).reshape(shape)


ADJOINT, NUMPY = Adjoint(ad), Numpy(np)


def given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


# The table.


class Record(NamedTuple):
    """`call(namespace, *arrays)`; the float arrays are what is differentiated."""

    name: str
    case: int
    call: Callable
    arrays: list[Array]
    torch: bool
    traces: bool


TABLE: list[Record] = []


def record(
    name: str,
    call: Callable,
    *inputs: Sequence[tuple[int, ...] | Array],
    by: Callable = real,
    torch: bool = True,
    traces: bool = True,
) -> None:
    """A record for each of the inputs, which are tuples of shapes or of integer arrays."""
    for parts in inputs:
        rng = np.random.default_rng(len(TABLE))
        # A factor for each argument: no ties between them either.
        arrays = [
            part if isinstance(part, np.ndarray) else by(rng, part) * (1 + 0.07 * k)
            for k, part in enumerate(parts)
        ]
        TABLE.append(Record(name, len(TABLE), call, arrays, torch, traces))


def named(name: str, *args: Any, **options: Any) -> Callable:
    """A call of a function of that name with these arguments after the arrays."""
    return lambda xp, *xs: getattr(xp, name)(*xs, *args, **options)


def integers(*numbers: Any) -> Array:
    return np.array(numbers, np.int64)


ONE = (((),), ((2, 3),), ((0, 2),))
TWO = (((), ()), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2,)), ((0, 1), (2,)))


def beyond_one(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return 1.1 + positive(rng, shape)


UNARY: dict[str, Callable] = {
    **dict.fromkeys(
        "abs atan asinh copy cos cosh erf exp expm1 negative positive real relu".split(), real
    ),
    **dict.fromkeys("conj sigmoid sign silu sin sinh softplus square tanh".split(), real),
    **dict.fromkeys("log log10 log1p log2 reciprocal sqrt".split(), positive),
    **dict.fromkeys("acos asin atanh tan".split(), fractions),
    **dict.fromkeys("ceil floor round trunc".split(), off_integers),
    "acosh": beyond_one,
    "gelu": real,
    "elu": real,
    "leaky_relu": real,
}
for name, domain in UNARY.items():
    record(name, named(name), *ONE, by=domain)
record("gelu", named("gelu", approximate="tanh"), ((2, 3),))
record("elu", named("elu", alpha=1.7), ((2, 3),))
record("leaky_relu", named("leaky_relu", negative_slope=0.3), ((2, 3),))
record("imag", named("imag"), ((2, 3),), torch=False)

for name in "add subtract multiply divide maximum minimum hypot atan2 logaddexp".split():
    record(name, named(name), *TWO)
record("pow", named("pow"), *TWO, by=positive)
for exponent in (3, 2.0, -1.5, 0, 1, 2):
    record("pow", named("pow", exponent), ((2, 3),), by=positive)
record("pow", lambda xp, y: xp.pow(2.0, y), ((2, 3),), torch=False)
record("floor_divide", named("floor_divide"), *TWO, torch=False)
record("remainder", named("remainder"), *TWO)
record("copysign", named("copysign"), *TWO)
record("nextafter", named("nextafter"), *TWO, torch=False)
for bounds in ((-0.5, 1.1), (None, 0.9), (-0.9, None)):
    record("clip", named("clip", *bounds), ((2, 3),), ((),))
record("clip", named("clip"), ((2, 3), (3,), ()), ((6,), (), (6,)), torch=False)
MASK = np.array([[True, False, True], [False, False, True]])
record("where", lambda xp, c, x, y: xp.where(c, x, y), (MASK, (2, 3), (3,)), (MASK[0], (2, 1), ()))
record("where(c, x, 1.5)", lambda xp, c, x: xp.where(c, x, 1.5), (MASK, (3,)))
record("astype", lambda xp, x: xp.astype(x, xp.float64), ((2, 3),), torch=False)

OPERATORS: dict[str, Callable] = {
    "x + y": lambda _, x, y: x + y,
    "x - y": lambda _, x, y: x - y,
    "x * y": lambda _, x, y: x * y,
    "x / y": lambda _, x, y: x / y,
    "x % y": lambda _, x, y: x % y,
}
NUMBERS: dict[str, Callable] = {
    "2 + x": lambda _, x: 2 + x,
    "2 - x": lambda _, x: 2 - x,
    "2.5 * x": lambda _, x: 2.5 * x,
    "2 / x": lambda _, x: 2 / x,
    "2 ** x": lambda _, x: 2**x,
    "x ** 2": lambda _, x: x**2,
    "x ** -1": lambda _, x: x**-1,
    "-x": lambda _, x: -x,
    "+x": lambda _, x: +x,
    "abs(x)": lambda _, x: abs(x),
}
for name, call in OPERATORS.items():
    record(name, call, *TWO)
for name, call in NUMBERS.items():
    record(name, call, ((2, 3),), ((),))
record("x // y", lambda _, x, y: x // y, ((2, 3), (3,)), torch=False)
record("5 % x", lambda _, x: 5 % x, ((2, 3),), torch=False)
record("x - True", lambda _, x: x - True, ((2, 3),), torch=False)
record("x @ y", lambda _, x, y: x @ y, ((2, 3), (3, 2)), ((3,), (3,)), ((2, 2, 3), (3,)))


def in_place(change: Callable) -> Callable:
    """A change of a copy of x, as a function of x and y."""

    def call(_: Any, x: Any, *y: Any) -> Any:
        out = x * 1.0
        return change(out, *y)

    return call


IN_PLACE = {
    "+=": operator.iadd,
    "-=": operator.isub,
    "*=": operator.imul,
    "/=": operator.itruediv,
    "%=": operator.imod,
}
for name, change in IN_PLACE.items():
    record(f"x {name} y", in_place(change), ((2, 3), (3,)), ((2, 3), (2, 3)), ((2, 1), ()))
record("x **= y", in_place(operator.ipow), ((2, 3), (3,)), by=positive)
record("x **= 2", in_place(lambda x: operator.ipow(x, 2)), ((2, 3),))
record("x //= y", in_place(operator.ifloordiv), ((2, 3), (3,)), torch=False)
record("x @= y", in_place(operator.imatmul), ((2, 3), (3, 3)), torch=False)

# Reductions.

AXES = (None, 0, -1, (0, 2), (-2,), ())
REDUCTIONS = [
    *(("sum", {}), ("mean", {}), ("prod", {}), ("max", {}), ("min", {}), ("logsumexp", {})),
    *((name, {"correction": c}) for name in ("var", "std") for c in (0, 1, 0.5)),
]
for (name, options), axis, keepdims in itertools.product(REDUCTIONS, AXES, (False, True)):
    if axis != () or (name not in ("var", "std") and not keepdims):
        call = named(name, axis=axis, keepdims=keepdims, **options)
        record(name, call, ((2, 3, 2),), torch=axis != ())
for name in ("sum", "mean", "prod", "max", "min", "logsumexp", "var"):
    record(name, named(name), ((),), torch=False)
for name in ("sum", "prod"):
    record(name, named(name, axis=1), ((2, 0),), ((0, 2),))
    call = lambda xp, x, name=name: getattr(xp, name)(x, axis=0, dtype=xp.float64)  # noqa: E731
    record(f"{name} in float64", call, ((2, 3),), torch=False)
for name in ("max", "min", "mean", "var", "std", "logsumexp"):
    record(name, named(name, axis=1), ((0, 2),), torch=name not in ("var", "std"))
for name, axis in itertools.product(("cumulative_sum", "cumulative_prod"), (0, 1, -1)):
    record(name, named(name, axis=axis), ((3, 4),), ((2, 3, 2),))
    record(name, named(name, axis=axis, include_initial=True), ((2, 3),))
    record(name, named(name), ((4,),), ((1,),), ((0,),))
for name, axis in itertools.product(("softmax", "log_softmax"), (0, 1, -1)):
    record(name, named(name, axis=axis), ((3, 4),), ((2, 3, 2),))
for axis, descending in itertools.product((0, 1, -1), (False, True)):
    record("sort", named("sort", axis=axis, descending=descending), ((3, 4),), ((0, 2),))
    call = lambda xp, x, axis=axis, largest=descending: (  # noqa: E731
        as_tuple(xp.topk(x, 2, axis=axis, largest=largest))[0]
    )
    record("topk", call, ((3, 4),))
record("topk", lambda xp, x: as_tuple(xp.topk(x, 0))[0], ((3, 4),))
for name in ("unique_all", "unique_counts", "unique_inverse"):
    record(name, lambda xp, x, n=name: getattr(xp, n)(x)[0], ((2, 3),), torch=False, traces=False)
record("unique_values", named("unique_values"), ((2, 3),), ((0,),), torch=False, traces=False)

# Shapes.

record("reshape", named("reshape", (3, -1)), ((2, 3),), ((3, 2, 1),))
record("reshape", named("reshape", ()), ((1, 1),))
record("reshape", named("reshape", (0, 5)), ((2, 0),))
record("permute_dims", named("permute_dims", (2, 0, -2)), ((2, 3, 4),))
record("transpose", named("transpose"), ((2, 3, 4),), ((),), ((3,),))
record("transpose", named("transpose", (1, 2, 0)), ((2, 3, 4),))
record("matrix_transpose", named("matrix_transpose"), ((2, 3, 4),), ((2, 3),))
record("x.T", lambda _, x: x.T, ((2, 3),))
record("x.mT", lambda _, x: x.mT, ((2, 3, 4),))
record("swapaxes", named("swapaxes", 0, -1), ((2, 3, 4),))
record("moveaxis", named("moveaxis", 0, -1), ((2, 3, 4),))
record("moveaxis", named("moveaxis", (0, 1), (-1, 0)), ((2, 3, 4),))
record("broadcast_to", named("broadcast_to", (2, 2, 3)), ((3,),), ((2, 1),), ((),))
record("broadcast_to", named("broadcast_to", (0, 3)), ((3,),), ((1, 1),))
record("broadcast_arrays", lambda xp, x, y: tuple(xp.broadcast_arrays(x, y)), ((2, 1), (3,)))
record("expand_dims", named("expand_dims", axis=1), ((2, 3),))
record("expand_dims", named("expand_dims", axis=-1), ((2, 3),))
record("expand_dims", named("expand_dims", axis=(0, 2)), ((2, 3),))
record("squeeze", named("squeeze"), ((1, 2, 1),), ((1, 1),))
record("squeeze", named("squeeze", axis=(0, -1)), ((1, 2, 1),))
record("concat", lambda xp, *xs: xp.concat(xs, axis=1), ((2, 3), (2, 1), (2, 0)), ((2, 3),))
record("concat", lambda xp, *xs: xp.concat(xs, axis=None), ((2, 3), (2,)), torch=False)
record("concat", lambda xp, x: xp.concat([x, x, x]), ((2, 2),))
record("stack", lambda xp, *xs: xp.stack(xs, axis=-1), ((2, 3), (2, 3)), ((), ()))
record("unstack", lambda xp, x: tuple(xp.unstack(x, axis=1)), ((2, 3),))
record("split", lambda xp, x: tuple(xp.split(x, 2, axis=1)), ((2, 4),), ((2, 0),))
record("split", lambda xp, x: tuple(xp.split(x, [1, 3, -1, 9])), ((5, 2),), torch=False)
for indexing in ("xy", "ij"):
    call = lambda xp, *xs, how=indexing: tuple(xp.meshgrid(*xs, indexing=how))  # noqa: E731
    record("meshgrid", call, ((2,), (3,)), ((2,), (3,), (1,)))
record("full", lambda xp, x: xp.full((2, 3), x), ((),), torch=False)
record("full_like", lambda xp, x, y: xp.full_like(y, x), ((), (2, 3)), torch=False)
record("asarray", lambda xp, *xs: xp.asarray([*xs]), ((2,), (2,)), ((), ()))

# Arrangement.

for axis in (None, 0, -1, (0, 1)):
    record("flip", named("flip", axis=axis), ((2, 3),))
    record("roll", named("roll", 1, axis=axis), ((2, 3),), ((0, 2),))
record("roll", named("roll", (1, -5), axis=(0, 1)), ((2, 3),))
record("roll", named("roll", -7), ((2, 3),))
record("tile", named("tile", (2, 2)), ((2, 3),), ((3,),), ((2, 1, 2),), ((),))
record("tile", named("tile", 2), ((2, 3),))
record("tile", named("tile", (0, 2)), ((3,),))
for axis in (None, 0, -1):
    record("repeat", named("repeat", 2, axis=axis), ((2, 3),), ((0, 2),))
COUNTS = integers(2, 0, 3)
record("repeat", lambda xp, x, n: xp.repeat(x, n, axis=1), ((2, 3), COUNTS), traces=False)
record("repeat", named("repeat", [1, 0, 2], axis=0), ((3, 2),), torch=False)
record("pad", named("pad", 1), ((2, 3),), ((),), torch=False)
record("pad", named("pad", (1, 2), constant_values=1.5), ((3,),), ((0,),), torch=False)
for mode in ("constant", "edge", "reflect", "symmetric", "wrap"):
    record("pad", named("pad", ((1, 0), (2, 1)), mode=mode), ((3, 3),), torch=False)
    record("pad", named("pad", 5, mode=mode), ((3,),), torch=False)
for name, k in itertools.product(("tril", "triu"), (0, 1, -1, 9)):
    record(name, named(name, k=k), ((3, 3),), ((2, 2, 3),), ((0, 2),))
for offset in (0, 1, -1, 9):
    record("diagonal", named("diagonal", offset), ((3, 4),), ((3, 2, 2),), torch=offset != 9)
    record("diagflat", named("diagflat", k=offset), ((3,),), ((2, 2),))
record("diagonal", named("diagonal", 1, -1, 0), ((3, 2, 4),))
record("diagonal", named("diagonal", axis1=1, axis2=2), ((2, 3, 3),))
for axis, n in itertools.product((0, -1), (0, 1, 2, 5)):
    record("diff", named("diff", axis=axis, n=n), ((3, 4),))
record("diff", lambda xp, x, a, b: xp.diff(x, prepend=a, append=b), ((2, 3), (2, 1), (2, 2)))
record("diff after 1.5", lambda xp, x: xp.diff(x, prepend=1.5), ((2, 3),), torch=False)

# Products.

record("matmul", named("matmul"), ((2, 3), (3, 2)), ((3,), (2, 3, 2)), ((2, 0), (0, 2)))
record("dot", named("dot"), ((3,), (3,)), ((0,), (0,)))
record("vecdot", named("vecdot"), ((2, 3), (3,)))
record("vecdot", named("vecdot", axis=-2), ((3, 2), (3, 1)))
record("inner", named("inner"), ((2, 3), (2, 3)))
record("outer", named("outer"), ((2,), (3,)))
record("kron", named("kron"), ((2, 2), (2, 1)), ((2,), (3,)))
record("cross", named("cross"), ((2, 3), (2, 3)))
record("tensordot", named("tensordot", axes=1), ((2, 3), (3, 2)))
record("tensordot", named("tensordot", axes=((0, 1), (1, 0))), ((2, 3), (3, 2)))
record("einsum", lambda xp, x, y: xp.einsum("ij,jk->ki", x, y), ((2, 3), (3, 2)))

# Taking and putting.

record("take", named("take", integers(2, 0, -1, 2), axis=1), ((2, 3),))
record("take", lambda xp, x, i: xp.take(x, i, axis=0), ((3, 2), integers([0, 2], [1, 1])))
record(
    "take_along_axis", named("take_along_axis", axis=1), ((2, 3), integers([0, 2, 2], [1, 0, 1]))
)
record("take_along_axis", named("take_along_axis", axis=-1), ((2, 3), integers([[2]])[0]))
record("gather", named("gather", axis=1), ((2, 3), integers([0, 2, 2, 1], [1, 0, 1, 1])))
record("gather", named("gather", axis=0), ((3, 2), integers([0], [2], [2], [1])))
record("index_select", named("index_select", axis=1), ((2, 3), integers(2, 0, 2)))
record(
    "scatter_add",
    lambda xp, x, i, src: xp.scatter_add(x, i, src, axis=1),
    ((2, 3), integers([0, 2, 2, 1], [1, 0, 1, 1]), (2, 4)),
)

# x[index], x[index] = v and x.at[index], for x of shape (4, 3, 2).

ROWS = np.array([True, False, True, True])
BLOCK = np.array([[True, False, False], [False, True, True], [False] * 3, [False, False, True]])
INDICES: dict[str, Any] = {
    "int": 1,
    "negative int": -4,
    "NumPy int": np.int64(2),
    "slice": slice(1, 3),
    "negative step": slice(None, None, -2),
    "empty slice": (slice(5, 2),),
    "everything": Ellipsis,
    "empty tuple": (),
    "last axis": (Ellipsis, 0),
    "new axes": (None, slice(None), None, 2),
    "steps": (slice(3, 0, -2), slice(None, None, 2), slice(-1, None)),
    "element": (3, 2, -1),
    "list": [0, 2, 2],
    "matrix of indices": integers([0, 1], [3, 0]),
    "small unsigned indices": np.array([3, 0, 3], np.uint8),
    "no indices": np.zeros((0, 2), np.int64),
    "empty list": [],
    "0-d index": integers(2)[0],
    "negative indices": [-1, -4, -1],
    "two lists": ([0, 1, 0], [2, 0, 2]),
    "lists apart": ([0, 0], slice(None), [1, 1]),
    "list and slice": (slice(1, None), [2, 0, 2]),
    "list and int": ([3, 0, 3], slice(None), 1),
    "list after dots": (Ellipsis, [1, 0, 1]),
    "lists that broadcast": ([[0], [1]], [0, 2, 2]),
    "list after a new axis": (None, [1, 1]),
    "list, new axis, list": ([1, 1], None, [0, 0]),
}
MASKS: dict[str, Any] = {
    "rows": ROWS,
    "list of truth values": ROWS.tolist(),
    "block": BLOCK,
    "all": numbered((4, 3, 2)) % 5 > 1,
    "none": np.zeros((4, 3, 2), bool),
    "mask after a slice": (slice(1, 3), BLOCK[1]),
    "mask and list": (ROWS, [0, 2, 0]),
    "mask and int": (ROWS, 1),
    "true": True,
    "false": False,
    "true and a list": (True, [1, 1]),
    "0-d mask": np.array(True),
}
for (name, index), masked in [
    *((item, False) for item in INDICES.items()),
    *((item, True) for item in MASKS.items()),
]:
    shape = numbered((4, 3, 2))[index].shape
    record("x[i]", lambda xp, x, i=index: xp.get(x, i), ((4, 3, 2),), traces=not masked)
    if index is Ellipsis:  # nothing of x is left
        continue
    call = lambda xp, x, v, i=index: xp.put(x, i, "set", v)  # noqa: E731
    record("x[i] = v", call, ((4, 3, 2), shape), ((4, 3, 2), shape[1:]), traces=not masked)
    if name in (
        "steps",
        "lists apart",
        "matrix of indices",
        "no indices",
        "block",
        "true and a list",
    ):
        for change in ("set", "add", "subtract", "multiply", "divide", "min", "max"):
            call = lambda xp, x, v, i=index, how=change: xp.at(x, i, how, v)  # noqa: E731
            record(
                f"x.at[i].{change}", call, ((4, 3, 2), shape), ((4, 3, 2), ()), traces=not masked
            )
record("x.at[i].get", lambda xp, x: xp.get(x, [1, 1]), ((4, 3),))

# What has no record, and why.

EXEMPT = {
    "indices, counts or truth values": "all any argmax argmin argsort count_nonzero isin nonzero "
    "searchsorted",
    "made from nothing, or from a tensor's shape": "arange empty empty_like eye linspace ones "
    "ones_like zeros zeros_like from_dlpack",
    "about dtypes, shapes and devices": "broadcast_shapes can_cast finfo get_default_dtype iinfo "
    "isdtype result_type set_default_dtype devices einsum_path config "
    "get_default_device set_default_device launch_times",
    "the machinery of gradients and traces": "checkpoint checkpoint_sequential get_default_workers "
    "compile gradients is_grad_enabled is_recomputing is_tracing set_default_workers trace",
    "about recorded graphs": "graph memory",
    "about files": "load load_metadata save",
    "about memory and threads": "empty_cache get_num_threads memory_stats set_cache_limit "
    "set_num_threads",
    "applies a function": "tree_map",
    "transforms of functions": "grad hessian hvp jacobian jvp value_and_grad vjp vmap",
    "a copy of values, without their graph": "tensor",
}

# Conventions where a derivative doesn't exist.

INF = math.inf
AT_KINKS: dict[str, tuple] = {
    # name: (function, where, gradients)
    "relu": (ad.relu, [-1.0, 0.0, 2.0], [0, 0, 1]),
    "abs": (ad.abs, [-1.0, 0.0, -0.0, 2.0], [-1, 0, 0, 1]),
    "leaky_relu": (lambda x: ad.leaky_relu(x, 0.25), [-1.0, 0.0, 1.0], [0.25, 0.25, 1]),
    "elu": (lambda x: ad.elu(x, 2.0), [0.0, 1.0], [2, 1]),
    "clip": (lambda x: ad.clip(x, 0, 1), [-1.0, 0.0, 0.5, 1.0, 2.0], [0, 0, 1, 0, 0]),
    "clip below": (lambda x: ad.clip(x, 0), [-1.0, 0.0, 0.5], [0, 0, 1]),
    "clip above": (lambda x: ad.clip(x, max=0), [-1.0, 0.0, 0.5], [1, 0, 0]),
    "clip between equals": (lambda x: ad.clip(x, 1, 1), [0.0, 1.0, 2.0], [0, 0, 0]),
    "max": (ad.max, [3.0, 1.0, 3.0], [0.5, 0, 0.5]),
    "min": (ad.min, [1.0, 3.0, 1.0, 1.0], [1 / 3, 0, 1 / 3, 1 / 3]),
    "max over axes": (
        lambda x: ad.max(x, axis=(0, 1)),
        [[[1.0, 2.0], [1.0, 0.0]]],
        [[[0.5, 1], [0.5, 0]]],
    ),
    "maximum of x and itself": (lambda x: ad.maximum(x, x), [1.0, 2.0], [1, 1]),
    "maximum with a number": (lambda x: ad.maximum(x, 1), [0.0, 1.0, 2.0], [0, 0.5, 1]),
    "minimum with a number": (lambda x: ad.minimum(1, x), [0.0, 1.0, 2.0], [1, 0.5, 0]),
    "std of equals": (ad.std, [2.0, 2.0, 2.0], [0, 0, 0]),
    "hypot": (lambda x: ad.hypot(x, 0), [0.0, -2.0], [0, -1]),
    "atan2": (lambda x: ad.atan2(x, 0), [0.0, 1.0], [0, 0]),
    "copysign": (lambda x: ad.copysign(x, -1), [2.0, -2.0, 0.0], [-1, 1, 0]),
    "prod of one zero": (ad.prod, [2.0, 0.0, 3.0], [0, 6, 0]),
    "prod of two zeros": (ad.prod, [0.0, 2.0, 0.0], [0, 0, 0]),
    "cumulative_prod": (ad.cumulative_prod, [2.0, 0.0, 3.0], [1, 8, 0]),
    "pow 0": (lambda x: x**0, [0.0, 2.0], [0, 0]),
    "pow 1": (lambda x: x**1, [0.0, 2.0], [1, 1]),
    "pow 1.5": (lambda x: x**1.5, [0.0, 4.0], [0, 3]),
    "pow 2": (lambda x: x**2, [0.0, -3.0], [0, -6]),
    "pow of a tensor of zeros": (lambda x: ad.pow(x, ad.zeros_like(x)), [0.0, 2.0], [0, 0]),
    "0 to the x": (lambda x: ad.pow(0, x), [0.0, 1.0, 2.0], [0, 0, 0]),
    "where": (lambda x: ad.where(x > 0, ad.sqrt(ad.where(x > 0, x, 1)), 0), [0.0, 4.0], [0, 0.25]),
    "sort of equals": (lambda x: ad.sort(x) * ad.arange(3), [5.0, 5.0, 5.0], [0, 1, 2]),
    "falling sort of equals": (
        lambda x: ad.sort(x, descending=True) * ad.arange(4),
        [5.0, 7.0, 5.0, 7.0],
        [2, 0, 3, 1],
    ),
    "topk of equals": (lambda x: ad.topk(x, 2).values, [5.0, 5.0, 5.0], [1, 1, 0]),
    "smallest of equals": (
        lambda x: ad.topk(x, 1, largest=False).values,
        [7.0, 5.0, 5.0],
        [0, 1, 0],
    ),
    "unique_values": (ad.unique_values, [5.0, 3.0, 5.0], [1, 1, 0]),
    "logaddexp of nothing": (lambda x: ad.logaddexp(x, -INF), [-INF, 0.0], [0.5, 1]),
    "logaddexp of infinities": (lambda x: ad.logaddexp(x, INF), [INF, 0.0], [0.5, 0]),
    "logsumexp with nothing": (ad.logsumexp, [-INF, 0.0], [0, 1]),
    "logsumexp of nothing": (ad.logsumexp, [-INF, -INF], [0, 0]),
    "log_softmax with nothing": (lambda x: ad.log_softmax(x)[1], [-INF, 0.0], [0, 0]),
    "softmax with nothing": (lambda x: ad.softmax(x)[1], [-INF, 0.0], [0, 0]),
    "remainder": (lambda x: x % 2, [-3.0, 0.0, 4.0, 5.0], [1, 1, 1, 1]),
}
