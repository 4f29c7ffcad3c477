"""The array API standard 2025.12: names, signatures and behaviour.

A call is written once, as data, with NumPy arrays in the place of tensors. It is then made in
adjoint and in array-api-strict, and what comes out must agree: types, dtypes, shapes, and values
including NaNs and the signs of zeros. `EXPLAINED` lists what differs on purpose. Tests that don't
take the `strict` fixture need no oracle.
"""

import inspect
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from tests.support.helpers import DEVICES, as_tuple

# The standard's functions, as Python writes signatures. `test_signature` compares adjoint with
# them, and `test_signatures_are_those_of_the_oracle` compares them with array-api-strict.

ELEMENTWISE = """
abs(x, /) acos(x, /) acosh(x, /) add(x1, x2, /) asin(x, /) asinh(x, /) atan(x, /) atan2(x1, x2, /)
atanh(x, /) bitwise_and(x1, x2, /) bitwise_left_shift(x1, x2, /) bitwise_invert(x, /)
bitwise_or(x1, x2, /) bitwise_right_shift(x1, x2, /) bitwise_xor(x1, x2, /) ceil(x, /)
clip(x, /, min=None, max=None) conj(x, /) copysign(x1, x2, /) cos(x, /) cosh(x, /)
divide(x1, x2, /) equal(x1, x2, /) exp(x, /) expm1(x, /) floor(x, /) floor_divide(x1, x2, /)
greater(x1, x2, /) greater_equal(x1, x2, /) hypot(x1, x2, /) imag(x, /) isfinite(x, /) isinf(x, /)
isnan(x, /) less(x1, x2, /) less_equal(x1, x2, /) log(x, /) log1p(x, /) log2(x, /) log10(x, /)
logaddexp(x1, x2, /) logical_and(x1, x2, /) logical_not(x, /) logical_or(x1, x2, /)
logical_xor(x1, x2, /) maximum(x1, x2, /) minimum(x1, x2, /) multiply(x1, x2, /) negative(x, /)
nextafter(x1, x2, /) not_equal(x1, x2, /) positive(x, /) pow(x1, x2, /) real(x, /)
reciprocal(x, /) remainder(x1, x2, /) round(x, /) sign(x, /) signbit(x, /) sin(x, /) sinh(x, /)
square(x, /) sqrt(x, /) subtract(x1, x2, /) tan(x, /) tanh(x, /) trunc(x, /)
"""
CREATION = """
arange(start, /, stop=None, step=1, *, dtype=None, device=None)
asarray(obj, /, *, dtype=None, device=None, copy=None)
empty(shape, *, dtype=None, device=None)
empty_like(x, /, *, dtype=None, device=None)
eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
from_dlpack(x, /, *, device=None, copy=None)
full(shape, fill_value, *, dtype=None, device=None)
full_like(x, /, fill_value, *, dtype=None, device=None)
linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
meshgrid(*arrays, indexing='xy')
ones(shape, *, dtype=None, device=None)
ones_like(x, /, *, dtype=None, device=None)
tril(x, /, *, k=0)
triu(x, /, *, k=0)
zeros(shape, *, dtype=None, device=None)
zeros_like(x, /, *, dtype=None, device=None)
"""
OTHERS = """
__array_namespace_info__()
all(x, /, *, axis=None, keepdims=False)
any(x, /, *, axis=None, keepdims=False)
argmax(x, /, *, axis=None, keepdims=False)
argmin(x, /, *, axis=None, keepdims=False)
argsort(x, /, *, axis=-1, descending=False, stable=True)
astype(x, dtype, /, *, copy=True, device=None)
broadcast_arrays(*arrays)
broadcast_shapes(*shapes)
broadcast_to(x, /, shape)
can_cast(from_, to, /)
concat(arrays, /, *, axis=0)
count_nonzero(x, /, *, axis=None, keepdims=False)
cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
expand_dims(x, /, axis)
finfo(type, /)
flip(x, /, *, axis=None)
iinfo(type, /)
isdtype(dtype, kind)
isin(x1, x2, /, *, invert=False)
matmul(x1, x2, /)
matrix_transpose(x, /)
max(x, /, *, axis=None, keepdims=False)
mean(x, /, *, axis=None, keepdims=False)
min(x, /, *, axis=None, keepdims=False)
moveaxis(x, source, destination, /)
nonzero(x, /)
permute_dims(x, /, axes)
prod(x, /, *, axis=None, dtype=None, keepdims=False)
repeat(x, repeats, /, *, axis=None)
reshape(x, /, shape, *, copy=None)
result_type(*arrays_and_dtypes)
roll(x, /, shift, *, axis=None)
searchsorted(x1, x2, /, *, side='left', sorter=None)
sort(x, /, *, axis=-1, descending=False, stable=True)
squeeze(x, /, axis)
stack(arrays, /, *, axis=0)
std(x, /, *, axis=None, correction=0.0, keepdims=False)
sum(x, /, *, axis=None, dtype=None, keepdims=False)
take(x, indices, /, *, axis=None)
take_along_axis(x, indices, /, *, axis=-1)
tensordot(x1, x2, /, *, axes=2)
tile(x, repetitions, /)
unique_all(x, /)
unique_counts(x, /)
unique_inverse(x, /)
unique_values(x, /)
unstack(x, /, *, axis=0)
var(x, /, *, axis=None, correction=0.0, keepdims=False)
vecdot(x1, x2, /, *, axis=-1)
where(condition, x1, x2, /)
"""
LINALG = """
linalg.cholesky(x, /, *, upper=False)
linalg.cross(x1, x2, /, *, axis=-1)
linalg.det(x, /)
linalg.diagonal(x, /, *, offset=0)
linalg.eigh(x, /)
linalg.eigvalsh(x, /)
linalg.inv(x, /)
linalg.matmul(x1, x2, /)
linalg.matrix_norm(x, /, *, keepdims=False, ord='fro')
linalg.matrix_power(x, n, /)
linalg.matrix_rank(x, /, *, rtol=None)
linalg.matrix_transpose(x, /)
linalg.outer(x1, x2, /)
linalg.pinv(x, /, *, rtol=None)
linalg.qr(x, /, *, mode='reduced')
linalg.slogdet(x, /)
linalg.solve(x1, x2, /)
linalg.svd(x, /, *, full_matrices=True)
linalg.svdvals(x, /)
linalg.tensordot(x1, x2, /, *, axes=2)
linalg.trace(x, /, *, offset=0, dtype=None)
linalg.vecdot(x1, x2, /, *, axis=-1)
linalg.vector_norm(x, /, *, axis=None, keepdims=False, ord=2)
"""
FFT = """
fft.fft(x, /, *, n=None, axis=-1, norm='backward')
fft.hfft(x, /, *, n=None, axis=-1, norm='backward')
fft.ifft(x, /, *, n=None, axis=-1, norm='backward')
fft.ihfft(x, /, *, n=None, axis=-1, norm='backward')
fft.irfft(x, /, *, n=None, axis=-1, norm='backward')
fft.rfft(x, /, *, n=None, axis=-1, norm='backward')
fft.fftn(x, /, *, s=None, axes=None, norm='backward')
fft.ifftn(x, /, *, s=None, axes=None, norm='backward')
fft.irfftn(x, /, *, s=None, axes=None, norm='backward')
fft.rfftn(x, /, *, s=None, axes=None, norm='backward')
fft.fftfreq(n, /, *, d=1.0, dtype=None, device=None)
fft.rfftfreq(n, /, *, d=1.0, dtype=None, device=None)
fft.fftshift(x, /, *, axes=None)
fft.ifftshift(x, /, *, axes=None)
"""
METHODS = """
__abs__(self, /) __add__(self, other, /) __and__(self, other, /)
__array_namespace__(self, /, *, api_version=None) __bool__(self, /) __complex__(self, /)
__dlpack__(self, /, *, stream=None, max_version=None, dl_device=None, copy=None)
__dlpack_device__(self, /) __eq__(self, other, /) __float__(self, /) __floordiv__(self, other, /)
__ge__(self, other, /) __getitem__(self, key, /) __gt__(self, other, /) __index__(self, /)
__int__(self, /) __invert__(self, /) __le__(self, other, /) __lshift__(self, other, /)
__lt__(self, other, /) __matmul__(self, other, /) __mod__(self, other, /) __mul__(self, other, /)
__ne__(self, other, /) __neg__(self, /) __or__(self, other, /) __pos__(self, /)
__pow__(self, other, /) __rshift__(self, other, /) __setitem__(self, key, value, /)
__sub__(self, other, /) __truediv__(self, other, /) __xor__(self, other, /)
to_device(self, device, /, *, stream=None)
"""
ARITHMETIC = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
inf, nan = math.inf, math.nan
ATTRIBUTES = "T device dtype mT ndim shape size".split()
CONSTANTS = {"e": math.e, "inf": math.inf, "nan": math.nan, "newaxis": None, "pi": math.pi}
SIGNED: list[str] = ["int8", "int16", "int32", "int64"]
UNSIGNED: list[str] = ["uint8", "uint16", "uint32", "uint64"]
FLOATS: list[str] = ["float32", "float64"]
COMPLEX: list[str] = ["complex64", "complex128"]
INTEGERS = SIGNED + UNSIGNED
DTYPES = ["bool", *INTEGERS, *FLOATS, *COMPLEX]
NUMERIC = DTYPES[1:]


def promotable(dtype1: str, dtype2: str) -> bool:
    """Whether the standard's promotion tables have the pair."""
    together = np.result_type(dtype1, dtype2).kind
    kinds = {np.dtype(dtype1).kind, np.dtype(dtype2).kind}
    return len(kinds) == 1 or (together in kinds and (kinds <= {*"iu"} or kinds <= {*"fc"}))


PAIRS = [pair for pair in itertools.product(DTYPES, DTYPES) if promotable(*pair)]
NUMERIC_PAIRS = [pair for pair in PAIRS if "bool" not in pair]


def parsed(text: str) -> dict[str, inspect.Signature]:
    """Signatures by name."""
    out = {}
    for line in text.strip().replace(") ", ")\n").splitlines():
        name, arguments = line.strip().split("(", 1)
        scope: dict[str, Any] = {}
        exec(f"def function({arguments}: ...", scope)
        out[name] = inspect.signature(scope["function"])
    return out


FUNCTIONS = parsed(ELEMENTWISE) | parsed(CREATION) | parsed(OTHERS)
EXTENSION = parsed(LINALG) | parsed(FFT)
UNARY = [n for n, s in parsed(ELEMENTWISE).items() if list(s.parameters) == ["x"]]
BINARY = [n for n, s in parsed(ELEMENTWISE).items() if list(s.parameters) == ["x1", "x2"]]


def look_up(xp: Any, name: str) -> Any:
    """A function of a namespace, or of one of its extensions."""
    return operator.attrgetter(name)(xp)


# What is asked of both namespaces


class DType(str):
    """The name of a dtype, in the arguments of a call."""


class Call(NamedTuple):
    """A call of a function by name, or of a Python function that gets the namespace first."""

    function: str | Callable
    args: tuple
    kwargs: dict

    @property
    def name(self) -> str:
        return self.function if isinstance(self.function, str) else self.function.__name__

    def __repr__(self) -> str:
        given = [show(a) for a in self.args] + [f"{k}={show(v)}" for k, v in self.kwargs.items()]
        return f"{self.name}({', '.join(given)})"

    def of(self, xp: Any) -> Any:
        """What the call gives in a namespace."""
        args = [converted(xp, a) for a in self.args]
        kwargs = {k: converted(xp, v) for k, v in self.kwargs.items()}
        if isinstance(self.function, str):
            return look_up(xp, self.function)(*args, **kwargs)
        return self.function(xp, *args, **kwargs)


def call(function: str | Callable, *args: Any, **kwargs: Any) -> Call:
    return Call(function, args, kwargs)


def show(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    return value if isinstance(value, DType) else repr(value)


def converted(xp: Any, value: Any) -> Any:
    """An argument in the terms of a namespace."""
    if isinstance(value, np.ndarray):
        return xp.asarray(value.copy())
    if isinstance(value, DType):
        return getattr(xp, value)
    if type(value) in (tuple, list):
        return type(value)(converted(xp, item) for item in value)
    return value


# What came out, compared

# Rounding may differ in these, by some units in the last place: in some, of complex numbers only.
ROUNDED = {
    *"acos acosh asin asinh atan atan2 atanh cos cosh exp expm1 hypot log log1p log2 log10".split(),
    *"logaddexp pow sin sinh tan tanh linspace arange".split(),
    *"sum prod mean std var cumulative_sum cumulative_prod matmul tensordot vecdot".split(),
    *EXTENSION,
}
ROUNDED_IF_COMPLEX = {*"abs divide multiply reciprocal sign sqrt square".split()}
UNITS = 4


def is_rounded(question: "Call") -> bool:
    if question.name in ROUNDED_IF_COMPLEX:
        return any(np.iscomplexobj(x) for x in question.args)
    return question.name in ROUNDED


def differences(ours: Any, theirs: Any, tolerant: bool) -> Iterator[str]:
    """How a result of adjoint differs from the oracle's."""
    if isinstance(theirs, tuple):
        yield from tuple_differences(ours, theirs, tolerant)
    elif hasattr(theirs, "__array_namespace__"):
        yield from array_differences(ours, theirs, tolerant)
    elif type(theirs).__module__.startswith("array_api_strict"):
        if name_of(ours) != name_of(theirs):
            yield f"{ours!r} instead of {theirs!r}"
    elif type(ours) is not type(theirs) or (ours != theirs and (ours == ours or theirs == theirs)):
        yield f"{ours!r} ({type(ours).__name__}) instead of {theirs!r} ({type(theirs).__name__})"


def tuple_differences(ours: Any, theirs: tuple, tolerant: bool) -> Iterator[str]:
    if not isinstance(ours, tuple) or len(ours) != len(theirs):
        yield f"{type(ours).__name__} instead of a tuple of {len(theirs)}"
        return
    if getattr(ours, "_fields", None) != getattr(theirs, "_fields", None):
        yield f"the fields are {getattr(ours, '_fields', None)}"
    for x, y in zip(ours, theirs, strict=True):
        yield from differences(x, y, tolerant)


def array_differences(ours: Any, theirs: Any, tolerant: bool) -> Iterator[str]:
    if not isinstance(ours, ad.Tensor):
        yield f"{type(ours).__name__} instead of a tensor"
    elif ours.dtype.name != name_of(theirs.dtype):
        yield f"dtype {ours.dtype.name} instead of {name_of(theirs.dtype)}"
    elif ours.shape != theirs.shape:
        yield f"shape {ours.shape} instead of {theirs.shape}"
    else:
        x, y = ours.detach().numpy(), np.asarray(theirs)
        wrong = np.argwhere(~agreeing(x, y, tolerant))
        yield from (f"at {k.tolist()} {x[*k]} instead of {y[*k]}" for k in wrong[:3])


def name_of(dtype: Any) -> str:
    return repr(dtype).split(".")[-1].rstrip("')")


def agreeing(x: np.ndarray, y: np.ndarray, tolerant: bool) -> np.ndarray:
    """Where they are equal, NaNs and the signs of zeros included; nearly equal if tolerant."""
    if x.dtype.kind not in "fc":
        return np.asarray(x == y)
    scale = np.where(np.isfinite(y), np.abs(y), 0) if tolerant else np.zeros(y.shape)
    if x.dtype.kind == "f":
        return is_close(x, y, scale)
    return is_close(x.real, y.real, scale) & is_close(x.imag, y.imag, scale)


def is_close(x: np.ndarray, y: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Equal, or units of the scale apart; zeros and what isn't finite must be equal."""
    same = (x == y) & (np.signbit(x) == np.signbit(y)) | np.isnan(x) & np.isnan(y)
    info = np.finfo(y.dtype)
    allowed = UNITS * np.maximum(info.eps * scale, info.smallest_subnormal) * (scale > 0)
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(x - y) <= allowed
    return same | near & (y != 0) & np.isfinite(x)


class Refused(Exception):
    """The oracle raised: the standard doesn't ask for this call."""


def asked(strict: Any, question: Call) -> Any:
    with np.errstate(all="ignore"):
        try:
            return question.of(strict)
        except Exception as error:
            raise Refused(str(error)) from error


def check(strict: Any, questions: Iterator[Call] | list[Call], least: int = 1) -> None:
    """Adjoint answers every question that the oracle answers, and answers it the same."""
    found, answered = [], 0
    for question in questions:
        try:
            theirs = asked(strict, question)
        except Refused:
            continue
        answered += 1
        if question.name in EXPLAINED and EXPLAINED[question.name](question):
            continue
        try:
            wrong = list(differences(question.of(ad), theirs, is_rounded(question)))
        except Exception as error:
            wrong = [f"raises {type(error).__name__}: {error}"]
        found += [f"{question}: {text}" for text in wrong]
    assert not found, f"{len(found)} differences:\n" + "\n".join(found[:12])
    assert answered >= least, f"the oracle answered {answered} questions only"


def is_complex(question: Call) -> bool:
    return question.args[0].dtype.kind == "c"


# sign(inf + 0j) is 1 as in NumPy, not NaN; reciprocal(0j) is that of 1 / 0j: the standard leaves
# both open. Their values elsewhere are in test_complex_sign_and_reciprocal. log1p of small complex
# numbers has the digits that the oracle loses: test_complex_special_cases.
EXPLAINED: dict[str, Callable[[Call], bool]] = {
    "log1p": is_complex,
    "sign": is_complex,
    "reciprocal": is_complex,
}


@pytest.fixture(scope="module")
def strict() -> Any:
    """array-api-strict, at the version of the standard that adjoint follows."""
    module = pytest.importorskip("array_api_strict", minversion="2.6")
    with module.ArrayAPIStrictFlags(api_version="2025.12"):
        yield module


# Values


def specials(dtype: str) -> np.ndarray:
    """A vector of a dtype's interesting values."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.array([True, False])
    if kind in "iu":
        info = np.iinfo(dtype)
        numbers = [0, 1, 2, 3, 7, 100, info.max - 1, info.max, info.min, info.min + 1, -1, -2, -7]
        return np.array([n for n in numbers if info.min <= n <= info.max], dtype)
    if kind == "f":
        return special_floats(dtype)
    numbers = [0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 1e-30]
    parts = np.array(numbers, "float32" if dtype == "complex64" else "float64")
    out = np.empty((parts.size, parts.size), dtype)
    out.real, out.imag = parts[:, None], parts
    return out.reshape(-1)


def special_floats(dtype: str) -> np.ndarray:
    info = np.finfo(dtype)
    positive = [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.3, 1e-8, 100.0, np.pi, np.inf, np.nan]
    positive += [info.max, info.tiny, info.smallest_subnormal, info.eps]
    half = np.array(positive, dtype)
    return np.concatenate([half, -half])


def grid(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Small values, with repetitions, that sums and products don't overflow on."""
    rng = np.random.default_rng([seed, *shape])
    numbers = np.asarray(rng.integers(0, 5, shape))
    if dtype == "bool":
        return np.asarray(numbers > 2)
    if np.dtype(dtype).kind == "i":
        return np.asarray(numbers - 2, dtype)
    if np.dtype(dtype).kind == "f":
        return np.asarray((numbers - 2) / 2, dtype)
    if np.dtype(dtype).kind == "c":
        return np.asarray((numbers - 2) / 2 + 1j * rng.integers(-2, 3, shape), dtype)
    return numbers.astype(dtype)


SHAPES = [(), (0,), (1,), (6,), (2, 3), (3, 0, 2), (2, 1, 4)]


def over(dtypes: Sequence[str], shapes: list[tuple[int, ...]]) -> Iterator[np.ndarray]:
    for dtype, shape in itertools.product(dtypes, shapes):
        yield grid(dtype, shape)


# Names and signatures


def test_version_and_constants() -> None:
    assert ad.__array_api_version__ == "2025.12"
    for name, value in CONSTANTS.items():
        constant = getattr(ad, name)
        assert type(constant) is type(value)
        assert constant == value or value != value


@pytest.mark.parametrize("name", FUNCTIONS | EXTENSION)
def test_signature(name: str) -> None:
    """Extra parameters have defaults; the standard's positional-only ones may have any name."""
    ours = list(inspect.signature(look_up(ad, name)).parameters.values())
    check_parameters(ours, (FUNCTIONS | EXTENSION)[name])


@pytest.mark.parametrize(("name", "signature"), parsed(METHODS).items())
def test_method(name: str, signature: inspect.Signature) -> None:
    ours = list(inspect.signature(getattr(ad.Tensor, name)).parameters.values())
    check_parameters(ours, signature)


def check_parameters(ours: list[inspect.Parameter], standard: inspect.Signature) -> None:
    by_name = {p.name: p for p in ours}
    positional = 0
    for parameter in standard.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            own = by_name[parameter.name]
            assert own.kind in (own.KEYWORD_ONLY, own.POSITIONAL_OR_KEYWORD), own
        else:
            own = ours[positional]
            positional += 1
            if parameter.kind is parameter.POSITIONAL_ONLY:
                assert own.kind in (own.POSITIONAL_ONLY, own.POSITIONAL_OR_KEYWORD), own
            else:
                assert own.kind is parameter.kind, own
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            assert own.name == parameter.name
        if parameter.default is not parameter.empty:
            assert own.default == parameter.default, own
    for own in ours[positional:]:
        variadic = own.kind in (own.VAR_KEYWORD, own.VAR_POSITIONAL)
        assert own.name in standard.parameters or variadic or own.default is not own.empty, own


@pytest.mark.parametrize("operation", ARITHMETIC)
def test_operator_has_all_three_forms(operation: str) -> None:
    for prefix in ("", "r", "i"):
        assert callable(getattr(ad.Tensor, f"__{prefix}{operation}__"))


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attribute_is_a_property(name: str) -> None:
    assert isinstance(inspect.getattr_static(ad.Tensor, name), property)


def test_every_name_of_the_oracle_is_in_the_tables(strict: Any) -> None:
    own = {"fft", "Device", "ArrayAPIStrictFlags", "linalg", "__array_api_version__", "__version__"}
    names = {n for n in strict.__all__ if not n.endswith("_flags")} - own
    assert names == set(FUNCTIONS) | set(CONSTANTS) | set(DTYPES)
    extensions = {"linalg": strict.linalg, "fft": strict.fft}
    theirs = {f"{part}.{n}" for part, module in extensions.items() for n in module.__all__}
    assert theirs == set(EXTENSION)


@pytest.mark.parametrize("name", FUNCTIONS | EXTENSION)
def test_signatures_are_those_of_the_oracle(strict: Any, name: str) -> None:
    theirs = inspect.signature(look_up(strict, name)).parameters.values()
    table = (FUNCTIONS | EXTENSION)[name].parameters.values()
    assert [(p.name, p.kind) for p in theirs] == [(p.name, p.kind) for p in table]


def test_methods_are_those_of_the_oracle(strict: Any) -> None:
    array = type(strict.asarray(1))
    generated = {f"__{p}{name}__" for p in ("r", "i", "") for name in ARITHMETIC}
    ignored = {f"__{n}__" for n in "array buffer iter repr str new reduce".split()}
    theirs = {n for n, f in vars(array).items() if inspect.isfunction(f) and n[:2] == "__"}
    assert theirs - ignored <= set(parsed(METHODS)) | generated


# Elementwise functions


@pytest.mark.parametrize("name", UNARY)
def test_unary(strict: Any, name: str) -> None:
    check(strict, unary_calls(name))


def unary_calls(name: str) -> Iterator[Call]:
    """Complex numbers are finite: what the oracle has for others depends on the C library. Theirs
    are in test_complex_special_cases."""
    for dtype in DTYPES:
        x = specials(dtype)
        x = x[np.isfinite(x)] if dtype in COMPLEX else x
        yield call(name, x)
        yield from (call(name, x[k : k + 1].reshape(())) for k in (0, x.size - 1))
        yield call(name, np.resize(x, (3, 4)).T)
        yield call(name, np.zeros((2, 0), dtype))


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_sign_and_reciprocal(strict: Any, dtype: str) -> None:
    x = specials(dtype)
    x = x[np.isfinite(x) & (x.real != 0) & (x.imag != 0)]
    for name in ("sign", "reciprocal"):
        theirs = getattr(strict, name)(strict.asarray(x))
        assert not list(differences(getattr(ad, name)(ad.asarray(x)), theirs, tolerant=True))
    assert ad.sign(ad.zeros(1, dtype=getattr(ad, dtype))).tolist() == [0j]


@pytest.mark.parametrize("name", BINARY)
def test_binary(strict: Any, name: str) -> None:
    check(strict, binary_calls(name))


def binary_calls(name: str) -> Iterator[Call]:
    for dtype1, dtype2 in PAIRS:
        x1, x2 = operands(name, dtype1, dtype2)
        yield call(name, x1[:, None], x2)
        yield call(name, x1[:1].reshape(()), x2[None, :2])
        yield call(name, x1[-1:].reshape(()), x2[-1:].reshape(()))
        yield call(name, np.zeros((0, 1), dtype1), x2[:3])


def operands(name: str, dtype1: str, dtype2: str) -> tuple[np.ndarray, np.ndarray]:
    """Special values of two dtypes, without what the standard leaves open."""
    x1, x2 = specials(dtype1), specials(dtype2)
    if name == "floor_divide" and x1.dtype.kind == "f":
        x1, x2 = x1[~np.isinf(x1)], x2[~np.isinf(x2)]
    if x2.dtype.kind in "iu":
        if name in ("floor_divide", "remainder"):
            x2 = x2[x2 != 0]
        if name == "pow":
            x2 = x2[(0 <= x2) & (x2 < 8)]
        if name.endswith("shift"):
            x2 = x2[(0 <= x2) & (x2 < 8 * x1.itemsize)]
    return x1, x2


ORDERING = ("less", "greater", "maximum", "minimum")
SCALARS = [True, False, 0, 1, 3, -2, 0.5, -1.5, math.inf, math.nan, -0.0, 2j, 1 - 0.5j]


@pytest.mark.parametrize("name", BINARY)
def test_binary_with_a_python_number(strict: Any, name: str) -> None:
    check(strict, scalar_calls(name))


def scalar_calls(name: str | Callable, function: str = "") -> Iterator[Call]:
    for dtype, scalar in itertools.product(DTYPES, SCALARS):
        x = specials(dtype)
        if (function or name) == "floor_divide" and x.dtype.kind == "f":
            x = x[~np.isinf(x)]
        if open_question(function or str(name), scalar, x.dtype):
            continue
        yield call(name, x, scalar)
        if not open_question(function or str(name), 0, x.dtype):
            yield call(name, scalar, x)
        yield call(name, x[:1].reshape(()), scalar)


def open_question(name: str, divisor: complex, dtype: np.dtype) -> bool:
    """Whether the standard leaves it open: integers // 0, % 0, **-2, >> -2; x // inf; x < 2j."""
    if name == "floor_divide" and divisor == inf:
        return True
    if isinstance(divisor, complex):
        return name.startswith(ORDERING)
    if dtype.kind not in "iu":
        return False
    if name in ("floor_divide", "remainder"):
        return divisor == 0
    return (name == "pow" or name.endswith("shift")) and divisor <= 0


@pytest.mark.parametrize("name", ["maximum", "minimum", "max", "min"])
def test_order_of_signed_zeros_is_free_but_their_result_is_zero(name: str) -> None:
    x = ad.asarray([0.0, -0.0])
    out = getattr(ad, name)(x, x[::-1]) if name.endswith("imum") else getattr(ad, name)(x)
    assert ad.all(out == 0)


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_clip(strict: Any, dtype: str) -> None:
    x = specials(dtype)
    low, high = np.array(1, dtype), np.array([3, 100], dtype)[:, None]
    bounds = [(), (1,), (None, 3), (1, 3), (low, None), (None, high), (low, high), (1, high)]
    calls = [call("clip", x, *bound) for bound in bounds]
    calls += [call("clip", x, min=1), call("clip", x, max=3), call("clip", x[:1].reshape(()), 1, 2)]
    if dtype in FLOATS:
        calls += [call("clip", x, np.array(np.nan, dtype)), call("clip", x, 0.5, math.inf)]
    check(strict, calls, least=len(calls) - 2)


# Operators


OPERATORS = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "pow": operator.pow,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "bitwise_left_shift": operator.lshift,
    "bitwise_right_shift": operator.rshift,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}
INPLACE = {
    name: getattr(operator, f"i{f.__name__.rstrip('_')}")
    for name, f in list(OPERATORS.items())[:12]
}


def as_call(function: Callable, name: str) -> Callable:
    """A Python function in the place of a function of the namespace."""

    def call(xp: Any, *args: Any) -> Any:
        return function(*args)

    call.__name__ = name
    return call


@pytest.mark.parametrize("name", OPERATORS)
def test_operator(strict: Any, name: str) -> None:
    function = as_call(OPERATORS[name], name)
    pairs = (operands(name, *pair) for pair in PAIRS)
    check(strict, (call(function, x1[:, None], x2) for x1, x2 in pairs))
    check(strict, scalar_calls(function, name))


@pytest.mark.parametrize("name", INPLACE)
def test_inplace_operator(strict: Any, name: str) -> None:
    """x op= y keeps x's dtype and shape, and raises where it can't."""

    def assign(x: Any, y: Any) -> Any:
        out = INPLACE[name](x, y)
        assert out is x
        return out

    assign = as_call(assign, name)
    check(strict, (call(assign, *inplace_operands(name, *pair)) for pair in PAIRS), least=2)


def inplace_operands(name: str, dtype1: str, dtype2: str) -> tuple[np.ndarray, np.ndarray]:
    x1, x2 = operands(name, dtype1, dtype2)
    return np.broadcast_to(x1[:, None], (x1.size, x2.size)).copy(), x2


@pytest.mark.parametrize("name", ["negative", "positive", "abs", "bitwise_invert"])
def test_unary_operator(strict: Any, name: str) -> None:
    names = {"negative": "neg", "positive": "pos", "bitwise_invert": "invert"}
    function = as_call(getattr(operator, names.get(name, name)), name)
    check(strict, (call(function, specials(dtype)) for dtype in DTYPES))


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.ones(2, "int8"), np.ones(2, "int16")),
        (np.ones(2, "float32"), np.ones(2, "float64")),
        (np.ones(2, "int64"), 0.5),
        (np.ones(2, "float32"), 1j),
        (np.ones(1), np.ones(2)),
        (np.ones(2, "uint8"), np.ones(2, "int8")),
    ],
)
def test_inplace_never_changes_dtype_or_shape(x: np.ndarray, y: Any) -> None:
    tensor = ad.asarray(x)
    with pytest.raises((TypeError, ValueError)):
        tensor += converted(ad, y)
    assert tensor.dtype.name == x.dtype.name
    assert tensor.shape == x.shape


@pytest.mark.parametrize("dtype", ["float64", "int32", "complex64"])
def test_matmul_operator_in_three_forms(strict: Any, dtype: str) -> None:
    def forms(xp: Any, x: Any, y: Any) -> Any:
        z = xp.asarray(x, copy=True)
        z @= y
        return x @ y, x.__rmatmul__(y), z

    check(strict, [call(forms, grid(dtype, (2, 3, 3)), grid(dtype, (3, 3)))])


def test_python_conversions(strict: Any) -> None:
    def through(convert: Callable) -> Callable:
        return as_call(convert, convert.__name__)

    converters = [bool, int, float, complex, operator.index]
    samples = [np.array(v, d) for d in DTYPES for v in (0, 1)]
    calls = [call(through(c), x) for c in converters for x in samples]
    check(strict, calls, least=60)


@pytest.mark.parametrize(
    ("convert", "value", "error"),
    [
        (int, math.inf, OverflowError),
        (int, math.nan, ValueError),
        (float, 1j, TypeError),
        (int, 1j, TypeError),
        (operator.index, 1.0, TypeError),
        (operator.index, True, TypeError),
        (bool, [1, 2], ValueError),
        (float, [1.0, 2.0], ValueError),
    ],
)
def test_conversions_that_fail(convert: Callable, value: Any, error: type) -> None:
    with pytest.raises(error):
        convert(ad.asarray(value))


# Creation


def creation_calls() -> Iterator[Call]:
    for shape in [(), 3, (0,), (2, 3), (2, 0)]:
        yield from (call(name, shape) for name in ("zeros", "ones"))
        yield call(emptied, shape)
        yield from (call("full", shape, value) for value in (True, 7, -2.5, 1j))
    for dtype in map(DType, DTYPES):
        yield from (call(name, (2, 1), dtype=dtype) for name in ("zeros", "ones"))
        yield call(emptied, (2, 1), dtype=dtype)
        yield call("full", (2,), 1, dtype=dtype)
        yield call("eye", 3, dtype=dtype)
        yield call("asarray", 1, dtype=dtype)
        yield call("asarray", [[1, 0], [1, 1]], dtype=dtype)
        yield call("linspace", 0, 10, 5, dtype=dtype)
        yield call("arange", 5, dtype=dtype)
        yield call("arange", 1, 10, 3, dtype=dtype)
    for n, m, k in itertools.product((0, 1, 3), (None, 0, 2, 4), (-5, -1, 0, 1, 5)):
        yield call("eye", n, m, k=k)
    for ends in [(3,), (0,), (-3,), (2, 5), (5, 2), (5, 2, -1), (0, 7, 3), (2, -8, -3), (0, 1, -1)]:
        yield call("arange", *ends)
        yield call("arange", *map(float, ends))
    yield from (call("arange", 1.5, 3), call("arange", 0, 1, 0.125))
    yield call("arange", 3, stop=9, step=2)
    for start, stop in [(0, 1), (1, 0), (-2.5, 2.5), (1, 1), (0, 1j), (1, 4)]:
        for num, endpoint in itertools.product((0, 1, 2, 5), (True, False)):
            yield call("linspace", start, stop, num, endpoint=endpoint)
    for data in [True, 3, 2.5, 1j, [], [[]], [1, 2.5], [True, 2], [1, 2j], ((1, 2), (3, 4))]:
        yield call("asarray", data)


@pytest.mark.parametrize("default", ["float32", "float64"])
def test_creation(strict: Any, default: str) -> None:
    """As the oracle, whose default float is float64, in the default float."""
    before = ad.get_default_dtype()
    ad.set_default_dtype(getattr(ad, default))
    try:
        check(DefaultFloat(strict, default), list(creation_calls()), least=200)
    finally:
        ad.set_default_dtype(before)


class DefaultFloat:
    """The oracle, with float64 as its default float replaced by another dtype."""

    def __init__(self, strict: Any, default: str) -> None:
        self.strict = strict
        pairs = {"float64": default, "complex128": str(np.result_type(default, "complex64"))}
        self.default = {getattr(strict, k): getattr(strict, v) for k, v in pairs.items()}

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.strict, name)
        if name not in FUNCTIONS:
            return function

        def call(*args: Any, **kwargs: Any) -> Any:
            out = function(*args, **kwargs)
            if "dtype" in kwargs:
                return out
            return self.strict.astype(out, self.default.get(out.dtype, out.dtype))

        return call


LIKE = ["zeros_like", "ones_like", "empty_like", "full_like"]


@pytest.mark.parametrize("name", LIKE)
def test_like(strict: Any, name: str) -> None:
    value = (3,) if name == "full_like" else ()
    ask = emptied if name == "empty_like" else name
    calls = []
    for x in over(DTYPES, SHAPES):
        if name == "full_like" and x.dtype.kind == "b":
            continue
        calls.append(call(ask, x, *value))
        calls += [call(ask, x, *value, dtype=DType(d)) for d in ("int8", "float32")]
    check(strict, calls, least=100)


def emptied(xp: Any, given: Any, **kwargs: Any) -> Any:
    """The shape and dtype of empty and empty_like, whose values are whatever was there."""
    out = (xp.empty_like if hasattr(given, "dtype") else xp.empty)(given, **kwargs)
    return xp.zeros(out.shape, dtype=out.dtype)


@pytest.mark.parametrize("dtype", [None, "float64", "int8"])
def test_full_takes_a_tensor_of_one_number(dtype: str | None) -> None:
    """SciPy and the conformance suite do this; the value keeps its dtype unless told otherwise."""
    value = ad.asarray(3, dtype=ad.int16)
    kwargs = {} if dtype is None else {"dtype": getattr(ad, dtype)}
    for out in (ad.full((2,), value, **kwargs), ad.full_like(ad.zeros(2), value, **kwargs)):
        assert out.tolist() == [3, 3]
        assert dtype is None or out.dtype.name == dtype


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("dtype", FLOATS)
def test_linspace_has_exact_ends(dtype: str, endpoint: bool) -> None:
    """And without its end it is the longer one without its last element, bit for bit."""
    rng = np.random.default_rng(0)
    for start, stop in rng.standard_normal((50, 2)) * 10.0 ** rng.integers(-3, 6, (50, 1)):
        out = ad.linspace(start, stop, 7, dtype=getattr(ad, dtype), endpoint=endpoint)
        longer = ad.linspace(start, stop, 7 + (not endpoint), dtype=out.dtype)
        assert ad.all(out == longer[:7])
        assert longer[0] == ad.asarray(start, dtype=out.dtype)
        assert longer[-1] == ad.asarray(stop, dtype=out.dtype)


@pytest.mark.parametrize("name", ["zeros", "ones", "empty", "full", "arange", "eye", "linspace"])
def test_device_keyword(name: str) -> None:
    args = {"full": (2, 1), "linspace": (0, 1, 3)}.get(name, (2,))
    assert getattr(ad, name)(*args, device="cpu").device == "cpu"
    assert getattr(ad, name)(*args, device=None).device == "cpu"


@pytest.mark.parametrize("name", ["tril", "triu"])
def test_triangles(strict: Any, name: str) -> None:
    arrays = over(DTYPES, [(3, 3), (2, 4), (4, 2), (0, 3), (2, 3, 3)])
    check(strict, [call(name, x, k=k) for x in arrays for k in (-9, -1, 0, 1, 9)], least=300)


def test_meshgrid(strict: Any) -> None:
    vectors = [grid("float32", (3,)), grid("float32", (0,)), grid("float32", (2,), 1)]
    calls = [call("meshgrid", *v) for n in range(4) for v in itertools.permutations(vectors, n)]
    calls += [call("meshgrid", *vectors, indexing=i) for i in ("ij", "xy")]
    calls += [call("meshgrid", np.array(1), np.array(2))]
    check(strict, calls, least=10)


# Data types


def test_result_type(strict: Any) -> None:
    pairs = [(DType(a), DType(b)) for a, b in itertools.product(DTYPES, DTYPES)]
    calls = [call("result_type", *pair) for pair in pairs]
    calls += [call("result_type", np.ones(2, a), b) for a, b in pairs]
    calls += [call("result_type", a, s) for a in map(DType, DTYPES) for s in (True, 1, 1.0, 1j)]
    calls += [call("result_type", s, a) for a in map(DType, DTYPES) for s in (True, 1, 1.0, 1j)]
    calls += [call("result_type", DType("int8"), DType("uint8"), DType("int32"))]
    calls += [call("result_type", DType("float32"), 1, np.ones(2, "float64"), 2.0)]
    check(strict, calls, least=150)


@pytest.mark.parametrize("source", DTYPES)
def test_can_cast(strict: Any, source: str) -> None:
    """What promotion does by itself can be cast; between kinds that is adjoint's to say."""
    for target in DTYPES:
        given = getattr(ad, source), getattr(ad, target)
        try:
            own = ad.result_type(*given)
        except TypeError:
            own = None
        assert ad.can_cast(*given) is (own == given[1])
        assert ad.can_cast(ad.ones(2, dtype=given[0]), given[1]) is (own == given[1])
        if strict.can_cast(getattr(strict, source), getattr(strict, target)):
            assert ad.can_cast(*given)


KINDS = [
    *("bool", "signed integer", "unsigned integer", "integral", "real floating"),
    *("complex floating", "numeric"),
]


def test_isdtype(strict: Any) -> None:
    kinds = [*KINDS, *map(DType, DTYPES), ("bool", "integral"), (DType("int8"), "real floating")]
    check(strict, [call("isdtype", DType(d), k) for d in DTYPES for k in kinds], least=250)


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX + INTEGERS)
def test_finfo_and_iinfo(strict: Any, dtype: str) -> None:
    name = "iinfo" if dtype in INTEGERS else "finfo"
    fields = ["bits", "max", "min", "dtype"] + ["eps", "smallest_normal"] * (name == "finfo")

    def attributes(xp: Any, given: Any) -> tuple:
        return tuple(getattr(getattr(xp, name)(given), field) for field in fields)

    check(strict, [call(attributes, DType(dtype)), call(attributes, np.ones(2, dtype))], least=2)


def test_astype(strict: Any) -> None:
    calls = []
    for x, target in itertools.product(over(DTYPES, SHAPES), map(DType, DTYPES)):
        calls.append(call("astype", x, target))
    calls += [call("astype", specials(d), DType("bool")) for d in DTYPES]
    calls += [call("astype", specials(d), DType(t)) for d in INTEGERS for t in INTEGERS]
    calls += [call("astype", specials(d), DType(t)) for d in FLOATS for t in FLOATS + COMPLEX]
    calls += [call("astype", np.ones(2), DType("float64"), copy=c) for c in (True, False)]
    check(strict, calls, least=1000)


@pytest.mark.parametrize("name", DTYPES)
def test_dtype_object(name: str) -> None:
    dtype = getattr(ad, name)
    assert repr(dtype) == f"adjoint.{name}"
    assert hash(dtype) == hash(getattr(ad, name))
    assert dtype == dtype
    assert (dtype == None) is False  # noqa: E711
    assert (dtype == "other") is False
    assert sum(dtype == getattr(ad, other) for other in DTYPES) == 1
    assert ad.zeros(1, dtype=dtype).dtype is dtype


# Manipulation


MANIPULATED = [(), (0,), (6,), (2, 3), (1, 2, 1), (2, 0, 3)]


def manipulation_calls(x: np.ndarray) -> dict[str, list[Call]]:
    n = x.ndim
    axes = range(-n, n)
    tuples = [t for r in range(n + 1) for t in itertools.permutations(range(n), r)]
    ones = [k for k in axes if x.shape[k] == 1]
    return {
        "expand_dims": [call("expand_dims", x, axis=k) for k in range(-n - 1, n + 1)],
        "squeeze": [call("squeeze", x, k) for k in ones] + [call("squeeze", x, axis=())],
        "flip": [call("flip", x)]
        + [call("flip", x, axis=k) for k in axes]
        + [call("flip", x, axis=t) for t in tuples if t],
        "permute_dims": [call("permute_dims", x, t) for t in itertools.permutations(range(n))]
        + [call("permute_dims", x, tuple(range(-n, 0))), call("permute_dims", x, tuple(range(n)))],
        "moveaxis": [call("moveaxis", x, a, b) for a in axes for b in axes]
        + [call("moveaxis", x, (0, -1), (-1, 0))] * (n > 1),
        "reshape": [call("reshape", x, s) for s in [(x.size,), (1, *x.shape, 1), x.shape[::-1]]]
        + [call("reshape", x, (-1,)), call("reshape", x, shape=x.shape, copy=True)] * (x.size > 0),
        "roll": [call("roll", x, s) for s in (0, 1, -2, 100)]
        + [call("roll", x, 2, axis=k) for k in axes]
        + [call("roll", x, tuple(range(1, len(t) + 1)), axis=t) for t in tuples if t]
        + [call("roll", x, 1, axis=t) for t in tuples if t],
        "repeat": [call("repeat", x, r) for r in (0, 1, 3)]
        + [call("repeat", x, 2, axis=k) for k in axes]
        + [call("repeat", x, np.array([2], d), axis=k) for k in axes for d in INTEGERS]
        + [call("repeat", x, np.arange(x.shape[k]), axis=k) for k in axes],
        "tile": [call("tile", x, r) for r in [(), (1,), (2,), (0,), (2, 1), (1, 2, 3)]],
        "unstack": [call("unstack", x, axis=k) for k in axes] + [call("unstack", x)] * (n > 0),
        "broadcast_to": [call("broadcast_to", x, s) for s in [x.shape, (2, *x.shape)]],
        "broadcast_arrays": [call("broadcast_arrays", x), call("broadcast_arrays", x, x[None], x)],
        "matrix_transpose": [call("matrix_transpose", x)] * (n > 1),
    }


@pytest.mark.parametrize("name", manipulation_calls(np.zeros(1)))
def test_manipulation(strict: Any, name: str) -> None:
    check(strict, (c for x in over(DTYPES, MANIPULATED) for c in manipulation_calls(x)[name]), 13)


@pytest.mark.parametrize("axis", [(0,), (0, 1), (-1, 0), (0, 3), (-4, -2), (2, 0, 4), (), (-1,)])
def test_expand_dims_of_several_axes_is_as_in_numpy(axis: tuple[int, ...]) -> None:
    x = grid("float32", (2, 3))
    assert ad.expand_dims(ad.asarray(x), axis).shape == np.expand_dims(x, axis).shape


@pytest.mark.parametrize("name", ["concat", "stack"])
def test_joining(strict: Any, name: str) -> None:
    calls = []
    for d1, d2 in PAIRS:
        x, y = grid(d1, (2, 3)), grid(d2, (2, 3), 1)
        calls += [call(name, [x, y]), call(name, (x, y, x), axis=-1), call(name, [x, y], axis=1)]
    x = grid("int16", (2, 0, 3))
    calls += [call(name, [x, x], axis=k) for k in (0, 1, 2, -3)] + [call(name, [x])]
    if name == "concat":
        calls += [call(name, [np.array(1), x, np.ones((2, 2), "int8")], axis=None)]
        calls += [call(name, [np.ones((2, 1)), np.ones((2, 3))], axis=1)]
    check(strict, calls, least=80)


def test_broadcast_shapes(strict: Any) -> None:
    shapes = [(), (1,), (3,), (2, 1), (2, 3), (4, 1, 3), (0,), (1, 1)]
    together = [s for n in range(4) for s in itertools.product(shapes, repeat=n)]
    check(strict, [call("broadcast_shapes", *s) for s in together], least=200)


def test_copy_keyword_of_reshape() -> None:
    x = ad.asarray(np.arange(6.0).reshape(2, 3))
    with pytest.raises(ValueError, match="copy"):
        ad.reshape(x.T, (6,), copy=False)
    y = ad.reshape(x, (6,), copy=True)
    y[0] = 100.0
    assert x[0, 0] == 0


# Searching, sorting, sets


SEARCHED = [(1,), (6,), (2, 3), (3, 1, 4)]
REAL = INTEGERS + FLOATS


@pytest.mark.parametrize("name", ["argmax", "argmin", "max", "min"])
def test_extremes(strict: Any, name: str) -> None:
    check(strict, (c for x in over(REAL, [(), *SEARCHED]) for c in reductions(name, x)), least=300)


@pytest.mark.parametrize("name", ["argmax", "argmin", "max", "min"])
def test_extremes_of_nan_and_infinity(strict: Any, name: str) -> None:
    rows = [[1, nan, 3], [nan, nan, 0], [inf, -inf, 2], [-inf, -1, -2]]
    check(strict, [call(name, np.array(rows, d), axis=1) for d in FLOATS])


def reductions(name: str, x: np.ndarray, **kwargs: Any) -> Iterator[Call]:
    single = name.startswith("arg")
    axes: list[Any] = [None, *range(-x.ndim, x.ndim)]
    if not single:
        axes += [t for r in (1, 2, 3) for t in itertools.permutations(range(x.ndim), r)]
    yield call(name, x, **kwargs)
    for axis, keepdims in itertools.product(axes, (False, True)):
        yield call(name, x, axis=axis, keepdims=keepdims, **kwargs)


@pytest.mark.parametrize("name", ["count_nonzero", "all", "any"])
def test_counting(strict: Any, name: str) -> None:
    arrays = itertools.chain(over(DTYPES, SHAPES), map(specials, DTYPES))
    check(strict, (c for x in arrays for c in reductions(name, x)), least=500)


def test_nonzero(strict: Any) -> None:
    calls = [call("nonzero", x) for x in over(DTYPES, SHAPES)]
    check(strict, calls + [call("nonzero", specials(d)) for d in DTYPES], least=60)


def test_where(strict: Any) -> None:
    condition = np.array([[True], [False]])
    calls = []
    for d1, d2 in PAIRS:
        calls.append(call("where", condition, specials(d1)[:2], specials(d2)[-2:]))
    for dtype, scalar in itertools.product(DTYPES, SCALARS):
        calls.append(call("where", condition, grid(dtype, (3,)), scalar))
        calls.append(call("where", condition, scalar, grid(dtype, (3,))))
    calls.append(call("where", np.array(True), np.ones((0, 2)), np.array(2.0)))
    check(strict, calls, least=150)


@pytest.mark.parametrize("name", ["sort", "argsort"])
def test_sorting(strict: Any, name: str) -> None:
    """Ties keep their order, ascending and descending."""
    calls = []
    for x in over(REAL, [(0,), (1,), (12,), (4, 5), (2, 7, 3)]):
        for axis, descending in itertools.product(range(-x.ndim, x.ndim), (False, True)):
            calls.append(call(name, x, axis=axis, descending=descending))
        calls += [call(name, x), call(name, x, descending=True, stable=True)]
    for dtype, descending in itertools.product(REAL, (False, True)):
        x = specials(dtype)[::-1]  # NaN included; the oracle mixes up zeros of both signs
        calls.append(call(name, x[x != 0], descending=descending))
    check(strict, calls, least=300)


def test_unstable_sort_sorts() -> None:
    x = ad.asarray(grid("int32", (50,)))
    for descending in (False, True):
        out = ad.sort(x, stable=False, descending=descending)
        assert ad.all(out == ad.sort(x, descending=descending))
        assert ad.all(ad.take(x, ad.argsort(x, stable=False, descending=descending)) == out)


def test_searchsorted(strict: Any) -> None:
    calls = []
    real = [pair for pair in NUMERIC_PAIRS if not {*pair} & {*COMPLEX}]
    for (d1, d2), side in itertools.product(real, ("left", "right")):
        x1, x2 = np.sort(grid(d1, (9,))), grid(d2, (2, 3), 1)
        calls += [call("searchsorted", x1, x2, side=side), call("searchsorted", x1, x2[0])]
    for dtype, side in itertools.product(REAL, ("left", "right")):
        x = grid(dtype, (9,))
        order = np.argsort(x, stable=True)
        calls.append(call("searchsorted", x, grid(dtype, (5,), 1), side=side, sorter=order))
        calls.append(call("searchsorted", np.sort(x), 1, side=side))
        calls.append(call("searchsorted", np.sort(x), x[:1].reshape(()), side=side))
    calls += [call("searchsorted", np.array([0.5, 1.5]), v) for v in (1.0, -1.0, 2.0, 0.5)]
    check(strict, calls, least=100)


@pytest.mark.parametrize("name", ["unique_all", "unique_counts", "unique_inverse", "unique_values"])
def test_sets(strict: Any, name: str) -> None:
    """Every NaN is its own; zeros of both signs are one."""
    calls = [call(name, x) for x in over(DTYPES, SHAPES)]
    calls += [call(name, np.array([np.nan, 1.0, np.nan, 1.0, np.inf, -np.inf], d)) for d in FLOATS]
    calls += [call(name, np.array([[np.nan, 2.0], [2.0, np.nan]], d)) for d in FLOATS]
    check(strict, calls, least=80)


@pytest.mark.parametrize("dtype", FLOATS)
def test_unique_takes_zeros_of_both_signs_as_one(dtype: str) -> None:
    x = ad.asarray(np.array([0.0, -0.0, 0.0], dtype))
    values, counts = ad.unique_counts(x)
    assert values.tolist() == [0.0]
    assert counts.tolist() == [3]


@pytest.mark.parametrize("invert", [False, True])
def test_isin_is_as_in_numpy(invert: bool) -> None:
    """array-api-strict 2.6 ignores `invert`."""
    integers = [pair for pair in PAIRS if {*pair} <= {*INTEGERS}]
    cases: list[tuple[Any, Any]] = [(grid(a, (2, 4)), grid(b, (3,), 2)) for a, b in integers]
    cases += [(grid(d, (2, 4)), 1) for d in INTEGERS] + [(1, grid(d, (2, 4))) for d in INTEGERS]
    cases += [(np.ones((0, 2)), np.ones(3)), (np.ones(2), np.ones(0)), (np.array(2), np.array([2]))]
    cases += [(np.array([np.nan, 1.0]), np.array([np.nan, 1.0]))]
    for x1, x2 in cases:
        out = ad.isin(converted(ad, x1), converted(ad, x2), invert=invert)
        expected = np.isin(x1, x2, invert=invert)
        assert (out.dtype, out.shape) == (ad.bool, expected.shape)
        assert np.array_equal(out.numpy(), expected)


# Statistics


@pytest.mark.parametrize("name", ["sum", "prod"])
def test_sums_and_products(strict: Any, name: str) -> None:
    calls = [c for x in over(NUMERIC, SHAPES) for c in reductions(name, x)]
    for source, target in itertools.product(NUMERIC, map(DType, NUMERIC)):
        calls.append(call(name, grid(source, (2, 3)), axis=0, dtype=target))
    calls += [call(name, grid("float32", (2, 3)), axis=())]
    check(strict, calls, least=900)


@pytest.mark.parametrize("name", ["mean", "std", "var"])
def test_moments(strict: Any, name: str) -> None:
    arrays = list(over(FLOATS + COMPLEX, [(), (1,), (6,), (2, 3), (2, 3, 4)]))
    calls = [c for x in arrays for c in reductions(name, x)]
    if name != "mean":
        for x, correction in itertools.product(arrays[2:5], (0, 1, 0.5, 2)):
            calls += reductions(name, x, correction=correction)
    check(strict, calls, least=60)


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_cumulative(strict: Any, name: str) -> None:
    calls = []
    for x in over(NUMERIC, [(0,), (1,), (6,), (2, 3), (2, 0, 3)]):
        calls += [call(name, x)] * (x.ndim == 1)
        for axis, initial in itertools.product(range(-x.ndim, x.ndim), (False, True)):
            calls.append(call(name, x, axis=axis, include_initial=initial))
    for source, target in itertools.product(NUMERIC, map(DType, NUMERIC)):
        calls.append(call(name, grid(source, (4,)), dtype=target))
    check(strict, calls, least=300)


def test_diff(strict: Any) -> None:
    calls = []
    for x in over(NUMERIC, [(1,), (6,), (3, 4), (2, 0)]):
        for axis, n in itertools.product(range(-x.ndim, x.ndim), (0, 1, 2, 3)):
            calls.append(call("diff", x, axis=axis, n=n))
        calls += [call("diff", x), call("diff", x, prepend=x[..., :1], append=x)]
    check(strict, calls, least=200)


# Linear algebra


MATRICES = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((4, 1, 2, 3), (5, 3, 1)),
    ((2, 0), (0, 3)),
    ((0, 3), (3, 2)),
    ((0, 2, 3), (3, 1)),
]


def test_matmul(strict: Any) -> None:
    calls = []
    for d1, d2 in NUMERIC_PAIRS:
        calls += [call("matmul", grid(d1, a), grid(d2, b, 1)) for a, b in MATRICES]
    check(strict, calls, least=400)


def test_tensordot_and_vecdot(strict: Any) -> None:
    calls = []
    for d1, d2 in NUMERIC_PAIRS:
        x, y = grid(d1, (2, 3, 4)), grid(d2, (3, 4, 5), 1)
        calls += [call("tensordot", x, y), call("tensordot", x, y, axes=((1, 2), (0, 1)))]
        calls += [call("tensordot", x, grid(d2, (4, 3)), axes=((-1, 1), (0, -1)))]
        calls += [call("tensordot", x, grid(d2, (4, 3)), axes=1)]
        calls += [call("tensordot", x, np.array([1, 2], d2), axes=0)]
        calls += [call("vecdot", x, grid(d2, (3, 4), 1), axis=k) for k in (-1, -2)]
        calls += [call("vecdot", grid(d1, (4,)), grid(d2, (4,), 1))]
    check(strict, calls, least=300)


def matrices(dtype: str, *shape: int) -> np.ndarray:
    """Well-conditioned matrices."""
    rng = np.random.default_rng(shape)
    x = rng.standard_normal(shape) + 2 * np.eye(shape[-2], shape[-1])
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def hermitian(dtype: str, *shape: int) -> np.ndarray:
    x = matrices(dtype, *shape)
    return x @ np.conj(x).mT + np.eye(shape[-1], dtype=dtype)


STACKS = [(3, 3), (1, 1), (2, 3, 3), (0, 3, 3), (2, 0, 0)]
RECTANGLES = [*STACKS, (3, 2), (2, 4), (2, 4, 3)]


def linalg_calls(name: str, dtype: str) -> Iterator[Call]:
    function = f"linalg.{name}"
    if name in ("det", "slogdet", "inv"):
        yield from (call(function, matrices(dtype, *shape)) for shape in STACKS)
    elif name in ("cholesky", "eigvalsh"):
        yield from (call(function, hermitian(dtype, *shape)) for shape in STACKS)
    elif name == "solve":
        for shape, columns in itertools.product([(3, 3), (2, 3, 3)], (0, 1, 4)):
            yield call(function, matrices(dtype, *shape), matrices(dtype, *shape[:-1], columns))
            yield call(function, matrices(dtype, *shape), matrices(dtype, 3, columns))
        yield call(function, matrices(dtype, 2, 3, 3), matrices(dtype, 3, 1)[:, 0])
    elif name in ("svdvals", "pinv", "matrix_rank"):
        yield from (call(function, matrices(dtype, *shape)) for shape in RECTANGLES)
    elif name == "matrix_power":
        powers = itertools.product(STACKS, (-3, -1, 0, 1, 2, 5))
        yield from (call(function, matrices(dtype, *shape), n) for shape, n in powers)
    elif name == "matrix_norm":
        for shape, order in itertools.product(RECTANGLES, ("fro", "nuc", 1, -1, 2, -2, inf, -inf)):
            yield call(function, matrices(dtype, *shape), ord=order)
            yield call(function, matrices(dtype, *shape), ord=order, keepdims=True)
    elif name == "vector_norm":
        for order in (0, 1, 2, 3, 0.5, -1, -2, inf, -inf):
            yield from reductions(function, matrices(dtype, 2, 3, 4), ord=order)
            yield call(function, matrices(dtype, 3, 1)[:, 0], ord=order)


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX)
@pytest.mark.parametrize(
    "name",
    "det slogdet inv cholesky eigvalsh solve svdvals pinv matrix_rank matrix_power matrix_norm "
    "vector_norm".split(),
)
def test_linalg(strict: Any, name: str, dtype: str) -> None:
    """To the accuracy that the condition of the problem allows."""
    tolerance = 3e-4 if dtype in ("float32", "complex64") else 1e-12
    for question in linalg_calls(name, dtype):
        try:
            theirs = asked(strict, question)
        except Refused:  # norms of matrices without elements
            continue
        ours = question.of(ad)
        for x, y in zip(as_tuple(ours), as_tuple(theirs), strict=True):
            assert (x.dtype.name, x.shape) == (name_of(y.dtype), y.shape), question
            np.testing.assert_allclose(
                x.numpy(), np.asarray(y), rtol=tolerance, atol=tolerance, err_msg=repr(question)
            )


def test_linalg_of_integers(strict: Any) -> None:
    calls = []
    for x in over(NUMERIC, [(2, 3), (3, 3), (2, 3, 2), (0, 2)]):
        for offset in (-9, -1, 0, 1, 9):
            calls.append(call("linalg.diagonal", x, offset=offset))
            calls.append(call("linalg.trace", x, offset=offset))
    for d1, d2 in NUMERIC_PAIRS:
        calls.append(call("linalg.outer", grid(d1, (3,)), grid(d2, (2,))))
        calls.append(call("linalg.cross", grid(d1, (2, 3)), grid(d2, (3,), 1)))
        calls.append(call("linalg.cross", grid(d1, (3, 2)), grid(d2, (3, 1), 1), axis=-2))
        calls.append(call("linalg.trace", grid(d1, (3, 3)), dtype=DType(d2)))
    check(strict, calls, least=300)


@pytest.mark.parametrize("name", ["matmul", "matrix_transpose", "tensordot", "vecdot"])
def test_linalg_has_what_the_namespace_has(name: str) -> None:
    assert getattr(ad.linalg, name) is getattr(ad, name)


FACTORS = {
    "qr": ("Q", "R"),
    "svd": ("U", "S", "Vh"),
    "eigh": ("eigenvalues", "eigenvectors"),
    "slogdet": ("sign", "logabsdet"),
}


@pytest.mark.parametrize(("name", "fields"), FACTORS.items())
def test_factors_are_named(name: str, fields: tuple[str, ...]) -> None:
    out = getattr(ad.linalg, name)(ad.asarray(hermitian("float64", 3, 3)))
    assert out._fields == fields
    assert all(part is getattr(out, field) for part, field in zip(out, fields, strict=True))


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX)
@pytest.mark.parametrize("shape", RECTANGLES)
def test_factors_multiply_to_the_matrix(shape: tuple[int, ...], dtype: str) -> None:
    """Factors aren't unique: their shapes count, that they are unitary, and their product."""
    x = ad.asarray(matrices(dtype, *shape))
    *stack, m, n = shape
    k = min(m, n)
    for mode, size in (("reduced", k), ("complete", m)):
        q, r = ad.linalg.qr(x, mode=mode)
        assert (q.shape, r.shape) == ((*stack, m, size), (*stack, size, n))
        near(q @ r, x)
        near(adjoint_of(q) @ q, ad.eye(size, dtype=x.dtype))
    for full, (rows, columns) in ((True, (m, n)), (False, (k, k))):
        u, s, vh = ad.linalg.svd(x, full_matrices=full)
        assert (u.shape, s.shape, vh.shape) == (
            (*stack, m, rows),
            (*stack, k),
            (*stack, columns, n),
        )
        near((u[..., :k] * ad.astype(s[..., None, :], x.dtype)) @ vh[..., :k, :], x)
    h = ad.asarray(hermitian(dtype, *stack, k, k))
    values, vectors = ad.linalg.eigh(h)
    near(h @ vectors, vectors * ad.astype(values[..., None, :], h.dtype))
    near(adjoint_of(vectors) @ vectors, ad.eye(k, dtype=x.dtype))


def adjoint_of(x: ad.Tensor) -> ad.Tensor:
    return ad.conj(ad.matrix_transpose(x))


def near(x: ad.Tensor, y: ad.Tensor) -> None:
    assert x.dtype == y.dtype
    tolerance = 2e-4 if ad.finfo(x.dtype).bits == 32 or x.dtype == ad.complex64 else 1e-11
    expected = np.broadcast_to(y.numpy(), x.shape)
    np.testing.assert_allclose(x.numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX)
def test_eig(dtype: str) -> None:
    """New in 2025.12: complex values of the matrix's precision."""
    x = ad.asarray(matrices(dtype, 2, 3, 3))
    values, vectors = ad.linalg.eig(x)
    assert values.dtype == vectors.dtype == ad.result_type(x.dtype, ad.complex64)
    near(ad.astype(x, values.dtype) @ vectors, vectors * values[..., None, :])
    assert ad.linalg.eigvals(x).shape == (2, 3)
    assert ad.linalg.eigvals(x).dtype == values.dtype


@pytest.mark.parametrize("value", [inf, nan])
@pytest.mark.parametrize("name", ["det", "slogdet", "qr", "inv"])
def test_linalg_of_infinities_and_nans_gives_a_result(name: str, value: float) -> None:
    getattr(ad.linalg, name)(ad.full((2, 2), value) + ad.eye(2))


# Gradients


class Recording:
    """adjoint, with float tensors that require grad."""

    def __getattr__(self, name: str) -> Any:
        return getattr(ad, name)

    def asarray(self, value: np.ndarray) -> ad.Tensor:
        return ad.tensor(value, requires_grad=value.dtype.kind == "f")


def float_calls(name: str) -> Iterator[Call]:
    """Calls of a function with float64 arrays."""
    arrays = list(over(["float64"], [(4,), (2, 3), (2, 1, 4), (0, 2)]))
    if name in UNARY:
        yield call(name, specials("float64"))
    elif name in BINARY:
        x1, x2 = operands(name, "float64", "float64")
        yield from (call(name, x1[:, None], x2), call(name, x1, 2.0), call(name, 2.0, x2))
    elif name.startswith("linalg."):
        yield from linalg_calls(name.removeprefix("linalg."), "float64")
    elif name in manipulation_calls(arrays[0]):
        for x in arrays:
            yield from manipulation_calls(x)[name]
    elif name in ("sort", "argsort", "cumulative_sum", "cumulative_prod", "diff"):
        yield from (call(name, x, axis=k) for x in arrays for k in range(-x.ndim, x.ndim))
    else:
        yield from (c for x in arrays[:3] for c in reductions(name, x))


RECORDED = [
    *(name for name in UNARY + BINARY if name not in ("imag", "bitwise_invert", "logical_not")),
    *manipulation_calls(np.zeros(1)),
    *"sort argsort cumulative_sum cumulative_prod diff sum prod mean std var max min".split(),
    *"argmax argmin all any count_nonzero".split(),
    "linalg.vector_norm",
]


@pytest.mark.parametrize("name", [n for n in RECORDED if n[:8] not in ("bitwise_", "logical_")])
def test_tensors_that_require_grad_give_the_same(name: str) -> None:
    """The functions take the path that records, and the values stay the same bit for bit."""
    for question in float_calls(name):
        try:
            plain = question.of(ad)
        except ad.AdjointError:  # norms of nothing
            continue
        recorded = question.of(Recording())
        assert not list(differences(recorded, plain, tolerant=False)), question


# Indexing


KEYS: list[Any] = [
    *(0, -1, ..., None, (), slice(None), slice(1, None), slice(None, None, -1), slice(3, 0, -2)),
    *((0, 1), (0, ...), (..., 0), (None, 0), (..., None), (0, None, ..., -1), (slice(0, 0),)),
    *((slice(None), -1), (slice(None, None, 2), slice(None, None, -1), 0), (1, 2, 3), (-1, -1, -1)),
    np.array(True),
    np.array(False),
    np.array([True, False, True]),
    grid("bool", (3, 4)),
    grid("bool", (3, 4, 5)),
    np.zeros((3, 4), bool),
    (np.array([0, 2]), np.array([1, 1]), np.array([-1, 0])),
    (np.array([[0], [2]]), np.array([1, 3]), np.array(4)),
    (0, np.array([1, 2]), np.array([0, -5], "int8")),
    (np.array([], "int64"), 0, 0),
    (np.array(1, "uint8"), np.array(2, "int16"), 3),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("key", KEYS, ids=lambda k: f"{k}".replace("\n", ""))
def test_getitem_is_as_in_numpy(key: Any, dtype: str) -> None:
    array = grid(dtype, (3, 4, 5))
    out, expected = ad.asarray(array)[converted(ad, key)], np.asarray(array[key])
    assert (out.dtype.name, out.shape) == (dtype, expected.shape)
    assert np.array_equal(out.numpy(), expected)


@pytest.mark.parametrize("key", [(), ..., None, (..., None), np.array(True), np.array(False)])
def test_getitem_of_a_scalar_is_as_in_numpy(key: Any) -> None:
    out, expected = ad.asarray(2.5)[converted(ad, key)], np.asarray(np.array(2.5, "float32")[key])
    assert out.shape == expected.shape
    assert np.array_equal(out.numpy(), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("key", KEYS, ids=lambda k: f"{k}".replace("\n", ""))
def test_setitem_is_as_in_numpy(key: Any, dtype: str) -> None:
    """Python numbers, scalars and arrays that broadcast; the dtype stays."""
    array = grid(dtype, (3, 4, 5))
    values = [True, np.array(1, dtype), np.broadcast_to(np.array(1, dtype), array[key].shape)]
    values += [1] * (dtype != "bool") + [0.5] * (dtype in FLOATS) + [2j] * (dtype in COMPLEX)
    for value in values:
        x, expected = ad.asarray(array, copy=True), array.copy()
        x[converted(ad, key)] = converted(ad, value)
        expected[key] = value
        assert x.dtype.name == dtype
        assert np.array_equal(x.numpy(), expected)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4), (0, 0), (3, 4, 0), (0, 0, 0)])
def test_masks_without_elements_select_nothing(shape: tuple[int, ...]) -> None:
    array = grid("float32", (3, 4, 5))
    out = ad.asarray(array)[ad.ones(shape, dtype=ad.bool)]
    assert out.shape == array[np.ones(shape, bool)].shape == (0, *array.shape[len(shape) :])


def test_tensors_are_bounds_of_slices() -> None:
    x = ad.arange(6)
    for dtype in INTEGERS:
        one, four = (ad.asarray(n, dtype=getattr(ad, dtype)) for n in (1, 4))
        assert x[one:four].tolist() == [1, 2, 3]
        assert x[:four:2].tolist() == [0, 2]


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (3, 4, 5, 1), (2,)])
def test_masks_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    x = ad.asarray(grid("float32", (3, 4, 5)))
    with pytest.raises(IndexError):
        x[ad.ones(shape, dtype=ad.bool)]


@pytest.mark.parametrize(("dtype", "value"), [("int32", 0.5), ("float32", 1j), ("bool", 2)])
def test_values_of_a_larger_kind_are_refused(dtype: str, value: complex) -> None:
    x = ad.ones(3, dtype=getattr(ad, dtype))
    with pytest.raises(TypeError):
        x[0] = value


@pytest.mark.parametrize("name", ["take", "take_along_axis"])
def test_taking(strict: Any, name: str) -> None:
    calls = []
    for x, index_dtype in itertools.product(over(DTYPES, [(5,), (2, 3), (2, 1, 4)]), INTEGERS):
        for axis in range(-x.ndim, x.ndim):
            shape = [1] * x.ndim if name == "take_along_axis" else [1]
            shape[axis if len(shape) > 1 else 0] = 3
            index = np.array([0, 0, x.shape[axis] - 1], index_dtype).reshape(shape)
            calls.append(call(name, x, index, axis=axis))
        calls += [call(name, x, np.array([1, 0], index_dtype))] * (x.ndim == 1)
    calls += [call(name, np.arange(4.0), np.array([-1, -4, 2]), axis=0)]
    check(strict, calls, least=400)


# Iteration and attributes


def test_attributes(strict: Any) -> None:
    def attributes(xp: Any, x: Any) -> tuple:
        return x.dtype, x.ndim, x.shape, x.size

    check(strict, [call(attributes, x) for x in over(DTYPES, SHAPES)], least=90)
    check(strict, [call(lambda xp, x: (x.T, x.mT), x) for x in over(DTYPES, [(2, 3), (0, 2)])])
    check(strict, [call(lambda xp, x: x.mT, x) for x in over(DTYPES, [(2, 3, 4), (1, 0, 2)])])
    check(strict, [call(lambda xp, x: tuple(x), x) for x in over(DTYPES, [(4,), (0,)])])


def test_device_of_a_tensor() -> None:
    x = ad.asarray([1.0, 2.0])
    assert x.device in ad.__array_namespace_info__().devices()
    assert x.to_device(x.device) is x
    assert ad.all(x.to_device("cpu", stream=None) == x)
    with pytest.raises((ValueError, RuntimeError)):
        x.to_device("nowhere")


@pytest.mark.parametrize("version", [None, "2021.12", "2022.12", "2023.12", "2024.12", "2025.12"])
def test_array_namespace(version: str | None) -> None:
    assert ad.asarray(1.0).__array_namespace__(api_version=version) is ad


@pytest.mark.parametrize("version", ["2020.01", "1.0", 2025])
def test_array_namespace_of_an_unknown_version(version: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"2025\.12"):
        ad.asarray(1.0).__array_namespace__(api_version=version)


# Inspection


def test_inspection_types_and_contents() -> None:
    info = ad.__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": True,
        "data-dependent shapes": True,
        "max dimensions": 32,
    }
    assert isinstance(info.devices(), tuple)
    assert "cpu" in info.devices()
    assert info.default_device() == "cpu"
    assert info.default_dtypes() == info.default_dtypes(device="cpu")
    assert info.default_dtypes() == {
        "real floating": ad.float32,
        "complex floating": ad.complex64,
        "integral": ad.int64,
        "indexing": ad.int64,
    }


OF_MOST_DIMENSIONS: list[Callable] = [
    lambda x, y: ad.where(x > y, x + y, 2),
    lambda x, y: x[x > 0],
    lambda x, y: ad.sort(x),
    lambda x, y: ad.take_along_axis(x, ad.argsort(x)),
    lambda x, y: ad.tile(x, (2,) + (1,) * (x.ndim - 1)),
    lambda x, y: ad.repeat(x, 2, axis=0),
    lambda x, y: ad.sum(ad.permute_dims(x, range(x.ndim)[::-1]), axis=0),
    lambda x, y: ad.matmul(x, ad.matrix_transpose(x)),
    lambda x, y: ad.concat([x, x], axis=-1),
    lambda x, y: ad.cumulative_sum(x, axis=-1),
    lambda x, y: ad.grad(lambda x: ad.sum(x * y))(x),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", OF_MOST_DIMENSIONS)
def test_functions_of_the_most_dimensions(function: Callable, device: str) -> None:
    most = ad.__array_namespace_info__().capabilities()["max dimensions"]
    assert most is not None
    x = ad.ones((1,) * (most - 1) + (3,), device=device)
    y = ad.ones((2,) + (1,) * (most - 1), device=device)
    function(x, y).numpy()


@pytest.mark.parametrize("kind", [None, *KINDS, ("bool", "integral"), ("real floating",), ()])
def test_dtypes_of_a_kind(strict: Any, kind: Any) -> None:
    ours = ad.__array_namespace_info__().dtypes(kind=kind, device="cpu")
    theirs = strict.__array_namespace_info__().dtypes(kind=kind)
    assert ours == {name: getattr(ad, name) for name in theirs}


def test_dtypes_of_an_unknown_kind() -> None:
    with pytest.raises((ValueError, TypeError)):
        ad.__array_namespace_info__().dtypes(kind="real")


@pytest.fixture(params=["float16", "float32", "float64"])
def default_float(request: pytest.FixtureRequest) -> Iterator[str]:
    before = ad.get_default_dtype()
    ad.set_default_dtype(request.param)
    yield request.param
    ad.set_default_dtype(before)


# Of each kind, functions of a device that leave the dtype to adjoint.
BY_DEFAULT: dict[str, list[Callable]] = {
    "real floating": [
        lambda device: ad.zeros(3, device=device),
        lambda device: ad.eye(3, device=device),
        lambda device: ad.linspace(0, 1, 3, device=device),
        lambda device: ad.asarray([1.0], device=device),
        lambda device: ad.arange(3.0, device=device),
        lambda device: ad.full(3, 1.0, device=device),
        lambda device: ad.fft.fftfreq(3, device=device),
        lambda device: ad.random.normal((3,), device=device),
        lambda device: ad.asarray([1], device=device) / 2,
    ],
    "complex floating": [
        lambda device: ad.asarray([1j], device=device),
        lambda device: ad.full(3, 1j, device=device),
        lambda device: ad.ones(3, device=device) * 1j,
    ],
    "integral": [
        lambda device: ad.asarray([1], device=device),
        lambda device: ad.arange(3, device=device),
        lambda device: ad.full(3, 1, device=device),
        lambda device: ad.sum(ad.asarray([True], device=device)),
    ],
    "indexing": [
        lambda device: ad.argmax(ad.arange(3, device=device)),
        lambda device: ad.argsort(ad.arange(3, device=device)),
        lambda device: ad.nonzero(ad.arange(3, device=device))[0],
        lambda device: ad.count_nonzero(ad.arange(3, device=device)),
        lambda device: ad.unique_counts(ad.arange(3, device=device)).counts,
        lambda device: ad.unique_inverse(ad.arange(3, device=device)).inverse_indices,
        lambda device: ad.searchsorted(*[ad.arange(3, device=device)] * 2),
    ],
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", BY_DEFAULT)
def test_default_dtypes_are_what_functions_give(default_float: str, kind: str, device: str) -> None:
    """And where there is no entry, they refuse."""
    defaults = ad.__array_namespace_info__().default_dtypes(device=device)
    for function in BY_DEFAULT[kind]:
        if kind in defaults:
            assert function(device).dtype is defaults[kind]
        else:
            with pytest.raises(ad.AdjointError, match=f"{device} has no"):
                function(device)


@pytest.mark.parametrize("device", DEVICES)
def test_dtypes_are_those_that_tensors_can_have(device: str) -> None:
    there = ad.__array_namespace_info__().dtypes(device=device)
    for name in DTYPES:
        if name in there:
            assert ad.zeros(3, dtype=there[name], device=device).dtype is there[name]
        else:
            with pytest.raises(ad.AdjointError, match=f"{device} has no {name}"):
                ad.zeros(3, dtype=name, device=device)


def test_every_device_can_be_named() -> None:
    for device in ad.__array_namespace_info__().devices():
        assert ad.zeros(3, device=device).device == device


@pytest.mark.parametrize("device", ["cuda", 3])
@pytest.mark.parametrize("name", ["dtypes", "default_dtypes"])
def test_inspection_of_an_unknown_device(name: str, device: Any) -> None:
    with pytest.raises(ad.AdjointError, match=f"there is no device {device!r}"):
        getattr(ad.__array_namespace_info__(), name)(device=device)


# Exchange


def exported(x: Any, **options: Any) -> np.ndarray:
    """What NumPy gets by DLPack; NumPy 2.0 has no options yet."""
    old = np.lib.NumpyVersion(np.__version__) < "2.1.0"
    return np.from_dlpack(x) if old else np.from_dlpack(x, **options)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_dlpack_round_trips(name: str, shape: tuple[int, ...]) -> None:
    x = grid(name, shape)
    tensor = ad.asarray(x, copy=True)
    assert tensor.__dlpack_device__() == (1, 0)
    for back in (exported(tensor), exported(tensor, copy=True, device="cpu")):
        assert back.dtype == x.dtype
        assert np.array_equal(back, x)
    for own in (ad.from_dlpack(x), ad.from_dlpack(tensor), ad.from_dlpack(x, copy=True)):
        assert own.dtype is tensor.dtype
        assert np.array_equal(own.numpy(), x)


@pytest.mark.parametrize("max_version", [None, (0, 0), (0, 8), (1, 0), (1, 1), (2, 0)])
@pytest.mark.parametrize("copy", [None, True, False])
def test_dlpack_keywords(max_version: tuple[int, int] | None, copy: bool | None) -> None:
    x = ad.asarray([1.0, 2.0])
    capsule = x.__dlpack__(stream=None, max_version=max_version, dl_device=(1, 0), copy=copy)
    assert "dltensor" in repr(capsule)


@pytest.mark.parametrize("options", [{"dl_device": (2, 0)}, {"stream": 1}])
def test_dlpack_of_what_the_cpu_has_not(options: dict) -> None:
    with pytest.raises((BufferError, ValueError, RuntimeError)):
        ad.asarray([1.0]).__dlpack__(**options)


@pytest.mark.parametrize("options", [{}, {"copy": None}, {"copy": True}])
def test_writing_to_what_was_exported_never_changes_a_tensor(options: dict) -> None:
    x = ad.asarray([1.0, 2.0])
    array = exported(x, **options)
    if array.flags.writeable:
        array[0] = 100.0
    assert x.tolist() == [1.0, 2.0]


def test_writing_to_a_tensor_never_changes_what_was_exported() -> None:
    x = ad.asarray([1.0, 2.0])
    array = exported(x)
    x[0] = 100.0
    assert array.tolist() == [1.0, 2.0]


def test_from_dlpack_shares_memory_but_writing_copies_first() -> None:
    array = np.array([1.0, 2.0])
    x = ad.from_dlpack(array)
    y = ad.from_dlpack(array, copy=True)
    x[0] = 100.0
    assert array.tolist() == [1.0, 2.0]
    array[1] = 50.0
    assert y.tolist() == [1.0, 2.0]


def test_from_dlpack_of_something_else() -> None:
    with pytest.raises((TypeError, AttributeError)):
        ad.from_dlpack(object())


def test_a_tensor_that_requires_grad_is_not_exported() -> None:
    with pytest.raises((BufferError, RuntimeError), match="detach"):
        ad.tensor([1.0], requires_grad=True).__dlpack__()


# asarray


def test_copy_keyword_of_asarray() -> None:
    array = np.array([1.0, 2.0], "float32")
    shared, copied = ad.asarray(array, copy=False), ad.asarray(array, copy=True)
    array[0] = 100.0
    assert shared.tolist() == [100.0, 2.0]
    assert copied.tolist() == [1.0, 2.0]
    tensor = ad.asarray([1.0, 2.0])
    again = ad.asarray(tensor, copy=True)
    again[0] = 100.0
    assert tensor.tolist() == [1.0, 2.0]
    assert ad.asarray(tensor) is tensor


@pytest.mark.parametrize("data", [[1, 2], 3.0, np.array([1], "int8")])
def test_asarray_refuses_what_needs_a_copy(data: Any) -> None:
    with pytest.raises(ValueError, match="copy"):
        ad.asarray(data, dtype=ad.float32, copy=False)


@pytest.mark.parametrize("dtype", DTYPES)
def test_asarray_of_sequences_of_tensors(dtype: str) -> None:
    """Sequences of what `unstack` and indexing give, as deep as they come."""
    array = grid(dtype, (2, 3))
    x = ad.asarray(array)
    nested = [[x[i, j] for j in range(3)] for i in range(2)]
    for data in (ad.unstack(x), list(x), nested):
        out = ad.asarray(data)
        assert out.dtype is x.dtype
        assert np.array_equal(out.numpy(), array)


@pytest.mark.parametrize("code", "bBhHiIqQfd")
def test_asarray_of_a_buffer(code: str) -> None:
    import array

    data = array.array(code, [1, 2, 3])
    out = ad.asarray(data)
    assert out.dtype.name == np.asarray(data).dtype.name
    assert out.tolist() == [1, 2, 3]
    assert ad.asarray(memoryview(data)).tolist() == [1, 2, 3]


def test_asarray_of_large_integers() -> None:
    assert ad.asarray(2**64 - 1, dtype=ad.uint64).item() == 2**64 - 1


OUT_OF_RANGE: list[Callable] = [
    lambda: ad.asarray(2**64, dtype=ad.uint64),
    lambda: ad.asarray(2**64),
    lambda: ad.asarray([1, 300], dtype=ad.uint8),
    lambda: ad.full((2,), 2**63),
    lambda: ad.full((2,), 300, dtype=ad.int8),
    lambda: ad.full_like(ad.ones(2, dtype=ad.int8), 300),
    lambda: ad.ones(2, dtype=ad.int8) + 300,
    lambda: ad.ones(2, dtype=ad.int8).__setitem__(0, 300),
]


@pytest.mark.parametrize("question", OUT_OF_RANGE)
def test_numbers_out_of_range_overflow(question: Callable) -> None:
    """The conformance suite forgives an OverflowError, and nothing else."""
    with pytest.raises(OverflowError) as caught:
        question()
    assert isinstance(caught.value, ad.AdjointError)


# Without the oracle: the standard's special cases, where implementations often differ

SPECIAL_CASES: list[tuple[str, tuple, float]] = [
    ("floor", (-0.0,), -0.0),
    ("ceil", (-0.5,), -0.0),
    ("trunc", (-0.5,), -0.0),
    ("round", (-0.5,), -0.0),
    ("round", (0.5,), 0.0),
    ("round", (2.5,), 2.0),
    ("round", (3.5,), 4.0),
    ("sign", (nan,), nan),
    ("signbit", (-0.0,), True),
    ("expm1", (-0.0,), -0.0),
    ("log1p", (-0.0,), -0.0),
    ("log1p", (-1.0,), -inf),
    ("sinh", (-0.0,), -0.0),
    ("atanh", (1.0,), inf),
    ("acosh", (0.5,), nan),
    ("sqrt", (-0.0,), -0.0),
    ("sqrt", (-1.0,), nan),
    ("exp", (-inf,), 0.0),
    ("log", (-0.0,), -inf),
    ("reciprocal", (-0.0,), -inf),
    ("atan2", (0.0, -0.0), math.pi),
    ("atan2", (-0.0, 0.0), -0.0),
    ("atan2", (-inf, -inf), -3 * math.pi / 4),
    ("hypot", (inf, nan), inf),
    ("logaddexp", (-inf, -inf), -inf),
    ("logaddexp", (inf, inf), inf),
    ("logaddexp", (nan, 1.0), nan),
    ("copysign", (3.0, -0.0), -3.0),
    ("nextafter", (0.0, -0.0), -0.0),
    ("nextafter", (1.0, nan), nan),
    ("maximum", (nan, 1.0), nan),
    ("minimum", (1.0, nan), nan),
    ("remainder", (-1.0, 3.0), 2.0),
    ("remainder", (1.0, -3.0), -2.0),
    ("remainder", (0.0, -3.0), -0.0),
    ("remainder", (3.0, inf), 3.0),
    ("remainder", (-3.0, inf), inf),
    ("remainder", (inf, 3.0), nan),
    ("floor_divide", (inf, 2.0), inf),
    ("floor_divide", (-inf, 2.0), -inf),
    ("floor_divide", (3.0, -inf), -0.0),
    ("floor_divide", (-3.0, inf), -0.0),
    ("floor_divide", (-1.0, 2.0), -1.0),
    ("floor_divide", (1.0, 0.0), inf),
    ("floor_divide", (-0.0, 3.0), -0.0),
    ("pow", (nan, 0.0), 1.0),
    ("pow", (1.0, nan), 1.0),
    ("pow", (-1.0, inf), 1.0),
    ("pow", (-inf, 3.0), -inf),
    ("pow", (-inf, 2.5), inf),
    ("pow", (-0.0, 3.0), -0.0),
    ("pow", (-0.0, 2.5), 0.0),
    ("pow", (-0.0, -3.0), -inf),
    ("pow", (-2.0, 0.5), nan),
    ("pow", (0.5, -inf), inf),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("name", "args", "expected"), SPECIAL_CASES)
def test_special_case(name: str, args: tuple, expected: float, dtype: str) -> None:
    tensors = [ad.full(5, value, dtype=getattr(ad, dtype)) for value in args]
    out = getattr(ad, name)(*tensors)
    assert np.all(agreeing(out.numpy(), np.full(5, expected, out.numpy().dtype), tolerant=True))


@pytest.mark.parametrize("exponent", [2.0, 2.5, 3.0, 4.0])
@pytest.mark.parametrize("dtype", FLOATS)
def test_inplace_power_of_minus_infinity_and_minus_zero(exponent: float, dtype: str) -> None:
    x = ad.asarray(np.array([-np.inf, -0.0] * 4, dtype))
    odd = exponent == 3.0
    expected = np.array(([-np.inf, -0.0] if odd else [np.inf, 0.0]) * 4, dtype)
    x **= ad.full(8, exponent, dtype=x.dtype)
    assert np.all(agreeing(x.numpy(), expected, tolerant=False))


PROMOTION = {
    ("int8", "uint8"): "int16",
    ("int8", "uint16"): "int32",
    ("int16", "uint32"): "int64",
    ("int64", "uint8"): "int64",
    ("uint8", "uint64"): "uint64",
    ("float32", "float64"): "float64",
    ("float32", "complex64"): "complex64",
    ("float64", "complex64"): "complex128",
    ("complex64", "complex128"): "complex128",
    ("int64", "float32"): "float32",
    ("uint64", "float32"): "float32",
    ("int32", "complex64"): "complex64",
}


@pytest.mark.parametrize(("pair", "expected"), PROMOTION.items())
def test_promotion(pair: tuple[str, str], expected: str) -> None:
    dtypes = [getattr(ad, name) for name in pair]
    x, y = (ad.ones(2, dtype=dtype) for dtype in dtypes)
    for out in (ad.result_type(*dtypes), (x + y).dtype, (y * x).dtype, ad.concat([x, y]).dtype):
        assert out == getattr(ad, expected)


@pytest.mark.parametrize("dtype", UNSIGNED + SIGNED)
def test_integers_are_summed_in_64_bits(dtype: str) -> None:
    wide = ad.uint64 if dtype in UNSIGNED else ad.int64
    x = ad.full((300,), 127, dtype=getattr(ad, dtype))
    for out in (ad.sum(x), ad.prod(x[:2]), ad.cumulative_sum(x), ad.cumulative_prod(x[:2])):
        assert out.dtype == wide
    assert ad.sum(x).item() == 300 * 127


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_rounding_of_integers_is_the_identity(name: str, dtype: str) -> None:
    x = ad.asarray(specials(dtype))
    out = getattr(ad, name)(x)
    assert out.dtype is x.dtype
    assert ad.all(out == x)


def test_tuples_are_tuples() -> None:
    x = ad.ones((2, 3))
    for out in (
        ad.broadcast_arrays(x, x),
        ad.meshgrid(x[0], x[1]),
        ad.nonzero(x),
        ad.unstack(x),
        ad.broadcast_shapes((2, 1), (3,)),
        ad.unique_all(x),
        ad.unique_counts(x),
        ad.unique_inverse(x),
        x.shape,
    ):
        assert isinstance(out, tuple)


INVALID: list[tuple[Call, Any]] = [
    (call("reshape", np.ones(6), (4,)), ValueError),
    (call("reshape", np.ones(6), (-1, -1)), ValueError),
    (call("squeeze", np.ones((2, 3)), 0), ValueError),
    (call("expand_dims", np.ones(2), axis=3), IndexError),
    (call("expand_dims", np.ones(2), axis=-3), IndexError),
    (call("expand_dims", np.ones(2), axis=(0, 0)), (IndexError, ValueError)),
    (call("permute_dims", np.ones((2, 3)), (0,)), ValueError),
    (call("permute_dims", np.ones((2, 3)), (0, 0)), ValueError),
    (call("concat", [np.ones((2, 3)), np.ones((3, 2))]), ValueError),
    (call("concat", []), ValueError),
    (call("stack", [np.ones(2), np.ones(3)]), ValueError),
    (call("broadcast_to", np.ones(3), (2,)), ValueError),
    (call("broadcast_shapes", (2,), (3,)), ValueError),
    (call("broadcast_arrays", np.ones(2), np.ones(3)), ValueError),
    (call("add", np.ones(2), np.ones(3)), ValueError),
    (call("matmul", np.ones((2, 3)), np.ones((2, 3))), ValueError),
    (call("matmul", np.array(1.0), np.ones(2)), ValueError),
    (call("vecdot", np.ones(2), np.ones(3)), ValueError),
    (call("tensordot", np.ones((2, 3)), np.ones((4, 5))), ValueError),
    (call("take", np.ones((2, 3)), np.array([0])), (TypeError, ValueError)),
    (call("cumulative_sum", np.ones((2, 3))), (TypeError, ValueError)),
    (call("cumulative_prod", np.ones((2, 3))), (TypeError, ValueError)),
    (call("nonzero", np.array(1.0)), (ValueError, TypeError)),
    (call("max", np.ones(0)), ValueError),
    (call("min", np.ones((2, 0)), axis=1), ValueError),
    (call("argmax", np.ones(0)), ValueError),
    (call("sum", np.ones(2), axis=1), (ValueError, IndexError)),
    (call("sort", np.ones(2), axis=1), (ValueError, IndexError)),
    (call("roll", np.ones((2, 2)), (1, 2), axis=0), (ValueError, TypeError)),
    (call("tril", np.ones(3)), ValueError),
    (call("matrix_transpose", np.ones(3)), ValueError),
    (call("repeat", np.ones(3), np.array([1, 2])), ValueError),
    (call("searchsorted", np.ones((2, 2)), np.ones(2)), ValueError),
    (call("searchsorted", np.ones(2), np.ones(2), side="middle"), ValueError),
    (call("meshgrid", np.ones(2), indexing="yx"), ValueError),
    (call("isdtype", DType("int8"), "integer"), (ValueError, TypeError)),
    (call("finfo", DType("int8")), TypeError),
    (call("iinfo", DType("float32")), TypeError),
    (call("astype", np.ones(2), "nonsense"), (TypeError, ValueError)),
    (call("arange", 0, 5, 0), (ValueError, ZeroDivisionError)),
    (call("linspace", 0, 1, -1), ValueError),
    (call("zeros", (-1,)), ValueError),
    (call("result_type"), (ValueError, TypeError)),
    *((call(name, np.ones(2), 1j), TypeError) for name in ORDERING),
    (call("bitwise_and", np.ones(2), np.ones(2)), TypeError),
    (call("bitwise_left_shift", np.ones(2), 1), TypeError),
]


@pytest.mark.parametrize(("question", "error"), INVALID, ids=lambda v: repr(v)[:60])
def test_invalid_calls_raise(question: Call, error: Any) -> None:
    with pytest.raises(error) as caught:
        question.of(ad)
    assert isinstance(caught.value, ad.AdjointError), repr(caught.value)
