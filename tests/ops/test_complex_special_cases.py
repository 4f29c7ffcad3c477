"""The array API standard's special cases of complex numbers.

A line `a b : re im` says what a function gives for a + bj. The left side has values and classes of
values, each of which stands for several numbers; the right side has parts of the result. `±` means
that the standard leaves the sign open. Symmetries that the standard demands make further cases.
"""

import cmath
import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import adjoint as ad

inf, nan, pi = math.inf, math.nan, math.pi

CASES = {
    "acos": """
        zero +0 : pi/2 -0
        zero nan : pi/2 nan
        finite +inf : pi/2 -inf
        nonzero nan : nan nan
        -inf positive : pi -inf
        +inf positive : +0 -inf
        -inf +inf : 3pi/4 -inf
        +inf +inf : pi/4 -inf
        infinite nan : nan ±inf
        nan finite : nan nan
        nan +inf : nan -inf
        nan nan : nan nan""",
    "acosh": """
        zero +0 : +0 pi/2
        finite +inf : +inf pi/2
        nonzero nan : nan nan
        +0 nan : nan ±pi/2
        -inf positive : +inf pi
        +inf positive : +inf +0
        -inf +inf : +inf 3pi/4
        +inf +inf : +inf pi/4
        infinite nan : +inf nan
        nan finite : nan nan
        nan +inf : +inf nan
        nan nan : nan nan""",
    "asinh": """
        +0 +0 : +0 +0
        positive +inf : +inf pi/2
        finite nan : nan nan
        +inf positive : +inf +0
        +inf +inf : +inf pi/4
        nan +0 : nan +0
        nan nonzero : nan nan
        nan +inf : ±inf nan
        nan nan : nan nan""",
    "atanh": """
        +0 +0 : +0 +0
        +0 nan : +0 nan
        1 +0 : +inf +0
        positive +inf : +0 pi/2
        nonzero nan : nan nan
        +inf positive : +0 pi/2
        +inf +inf : +0 pi/2
        +inf nan : +0 nan
        nan finite : nan nan
        nan +inf : ±0 pi/2
        nan nan : nan nan""",
    "cosh": """
        +0 +0 : 1 +0
        +0 +inf : nan ±0
        +0 nan : nan ±0
        nonzero +inf : nan nan
        nonzero nan : nan nan
        +inf +0 : +inf +0
        +inf nonzero : inf*cos inf*sin
        +inf +inf : ±inf nan
        +inf nan : +inf nan
        nan zero : nan ±0
        nan nonzero : nan nan
        nan nan : nan nan""",
    "exp": """
        zero +0 : 1 +0
        finite +inf : nan nan
        finite nan : nan nan
        +inf +0 : +inf +0
        -inf finite : 0*cos 0*sin
        +inf nonzero : inf*cos inf*sin
        -inf +inf : ±0 ±0
        +inf +inf : ±inf nan
        -inf nan : ±0 ±0
        +inf nan : ±inf nan
        nan +0 : nan +0
        nan nonzero : nan nan
        nan infinite : nan nan
        nan nan : nan nan""",
    "expm1": """
        zero +0 : ±0 +0
        finite +inf : nan nan
        finite nan : nan nan
        +inf +0 : +inf +0
        -inf finite : -1 0*sin
        +inf nonzero : inf*cos inf*sin
        -inf +inf : -1 ±0
        +inf +inf : ±inf nan
        -inf nan : -1 ±0
        +inf nan : ±inf nan
        nan +0 : nan +0
        nan nonzero : nan nan
        nan infinite : nan nan
        nan nan : nan nan""",
    "log": """
        -0 +0 : -inf pi
        +0 +0 : -inf +0
        finite +inf : +inf pi/2
        finite nan : nan nan
        -inf positive : +inf pi
        +inf positive : +inf +0
        -inf +inf : +inf 3pi/4
        +inf +inf : +inf pi/4
        infinite nan : +inf nan
        nan finite : nan nan
        nan +inf : +inf nan
        nan nan : nan nan""",
    "log1p": """
        -1 +0 : -inf +0
        finite +inf : +inf pi/2
        finite nan : nan nan
        -inf positive : +inf pi
        +inf positive : +inf +0
        -inf +inf : +inf 3pi/4
        +inf +inf : +inf pi/4
        infinite nan : +inf nan
        nan finite : nan nan
        nan +inf : +inf nan
        nan nan : nan nan""",
    "sign": """
        zero zero : ±0 ±0
        nan finite : nan nan
        nan infinite : nan nan
        finite nan : nan nan
        infinite nan : nan nan
        nan nan : nan nan""",
    "sinh": """
        +0 +0 : +0 +0
        +0 +inf : ±0 nan
        +0 nan : ±0 nan
        positive +inf : nan nan
        positive nan : nan nan
        +inf +0 : +inf +0
        +inf positive : inf*cos inf*sin
        +inf +inf : ±inf nan
        +inf nan : ±inf nan
        nan +0 : nan +0
        nan nonzero : nan nan
        nan nan : nan nan""",
    "sqrt": """
        zero +0 : +0 +0
        finite +inf : +inf +inf
        infinite +inf : +inf +inf
        nan +inf : +inf +inf
        finite nan : nan nan
        -inf positive : +0 +inf
        +inf positive : +inf +0
        -inf nan : nan ±inf
        +inf nan : +inf nan
        nan finite : nan nan
        nan nan : nan nan""",
    "tanh": """
        +0 +0 : +0 +0
        nonzero +inf : nan nan
        +0 +inf : +0 nan
        nonzero nan : nan nan
        +0 nan : +0 nan
        +inf positive : 1 +0
        +inf +inf : 1 ±0
        +inf nan : 1 ±0
        nan +0 : nan +0
        nan nonzero : nan nan
        nan infinite : nan nan
        nan nan : nan nan""",
}
LOGARITHMS = {"log2": math.log(2), "log10": math.log(10)}  # log(x) over these
TURNED = {"sin": "sinh", "tan": "tanh", "asin": "asinh", "atan": "atanh"}  # -1j * f(1j * x)
ODD = ["asinh", "atanh", "sinh", "tanh"]
NAMES = [*CASES, *LOGARITHMS, *TURNED, "cos"]
DTYPES = ["complex64", "complex128"]

# Finite numbers: around the places where sines and cosines change their signs, small and large.
POSITIVE = [1e-30, 0.5, 1.0, pi / 2, 2.0, pi, 4.0, 3 * pi / 2, 5.0, 1e6, 1e30, 2.8e153, 1e300]

# A part of a result, and whether its sign counts.
Part = tuple[float, bool]
Case = tuple[complex, Part, Part]


def members(word: str, dtype: str) -> list[float]:
    """The numbers that a value or a class of values stands for, each one of the dtype."""
    real = np.finfo(dtype).dtype.type
    positive = [float(real(x)) for x in POSITIVE if x < float(np.finfo(dtype).max)]
    nonzero = positive + [-x for x in positive]
    classes = {
        "positive": positive,
        "nonzero": nonzero,
        "finite": [*nonzero, 0.0, -0.0],
        "zero": [0.0, -0.0],
        "infinite": [inf, -inf],
    }
    return classes.get(word) or [float(word)]


def part(word: str, b: float) -> Part:
    """The meaning of a word of the right side beside an imaginary part of b."""
    if "*" in word:
        size, function = word.split("*")
        return float(size) * getattr(math, function)(b), True
    number = word.lstrip("±")
    if "pi" in number:
        factor, _, divisor = number.partition("pi")
        return float(factor or 1) * pi / float(divisor[1:] or 1), number == word
    return float(number), number == word


def listed(name: str, dtype: str) -> Iterator[Case]:
    """The cases that the standard lists for a function."""
    for line in CASES[name].strip().splitlines():
        before, after = (half.split() for half in line.split(":"))
        for a, b in itertools.product(*(members(word, dtype) for word in before)):
            re, im = (part(word, b) for word in after)
            yield complex(a, b), re, im


def negated(x: Part) -> Part:
    return -x[0], x[1]


def mirrored(name: str, dtype: str) -> Iterator[Case]:
    """The cases of a function, and those that follow by symmetry."""
    for z, re, im in listed(name, dtype):
        yield z, re, im
        yield z.conjugate(), re, negated(im)
        if name in ODD:
            yield -z, negated(re), negated(im)
            yield -z.conjugate(), negated(re), im
        elif name == "cosh":
            yield -z, re, im


def cases(name: str, dtype: str) -> list[Case]:
    if name in LOGARITHMS:
        scale = LOGARITHMS[name]
        return [(z, re, (im / scale, s)) for z, re, (im, s) in mirrored("log", dtype)]
    if name == "cos":  # cosh(1j * x)
        found = mirrored("cosh", dtype)
        return [(complex(z.imag, -z.real), re, im) for z, re, im in found]
    if name in TURNED:
        found = mirrored(TURNED[name], dtype)
        return [(complex(z.imag, -z.real), im, negated(re)) for z, re, im in found]
    return list(mirrored(name, dtype))


def agreeing(x: np.ndarray, value: np.ndarray, signed: np.ndarray | bool = True) -> np.ndarray:
    """Where real numbers are those expected: nearly, but for zeros, infinities, NaNs and signs."""
    near = np.isclose(np.abs(x), np.abs(value), rtol=8 * np.finfo(x.dtype).eps, atol=0)
    alike = (np.signbit(x) == np.signbit(value)) | np.logical_not(signed)
    return (np.isnan(x) & np.isnan(value)) | (near & alike)


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "small": lambda x: x,
    "large": lambda x: np.resize(x, 1 << 15),
    "reversed": lambda x: x[::-1],
    "strided": lambda x: np.repeat(x, 3)[::3],
    "large strided": lambda x: np.repeat(np.resize(x, 1 << 15), 2)[::2],
    "transposed": lambda x: np.resize(x, (x.size, 3)).T,
}


def check(name: str, found: np.ndarray, wanted: list[Case]) -> None:
    z, re, im = zip(*wanted, strict=True)
    found = found.ravel()
    right = agreeing(found.real, *np.array(re).T) & agreeing(found.imag, *np.array(im).T)
    wrong = {f"{name}({z[k]}): {found[k]}, not {re[k]}, {im[k]}" for k in np.flatnonzero(~right)}
    assert not wrong, "\n".join(sorted(wrong))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", NAMES)
def test_special_cases(name: str, layout: str, dtype: str) -> None:
    wanted = cases(name, dtype)
    x = LAYOUTS[layout](np.array([z for z, *_ in wanted], dtype))
    places = LAYOUTS[layout](np.arange(len(wanted))).ravel()
    out = getattr(ad, name)(ad.asarray(x)).numpy()
    assert out.dtype == dtype
    assert out.shape == x.shape
    check(name, out, [wanted[k] for k in places])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_special_cases_of_single_numbers(name: str, dtype: str) -> None:
    wanted = cases(name, dtype)
    function = getattr(ad, name)
    tensors = [function(ad.asarray(np.array(z, dtype))) for z, *_ in wanted]
    assert {(x.shape, x.dtype.name) for x in tensors} == {((), dtype)}
    found = np.array([x.numpy() for x in tensors])
    check(name, found, wanted)


def test_special_cases_in_a_trace() -> None:
    x = ad.asarray(np.array([complex(inf, 0), complex(-inf, nan), complex(nan, 0)]))
    graph = ad.trace(ad.expm1, ad.zeros(3, dtype=x.dtype))
    for out in (ad.expm1(x), graph(x)):
        assert repr(out.numpy().tolist()) == "[(inf+0j), (-1+0j), (nan+0j)]"


# Functions that treat parts separately, or ask about both

EVERY = [0.0, -0.0, 1.0, -2.5, 0.5, inf, -inf, nan]


def every(dtype: str, layout: str = "small") -> tuple[np.ndarray, np.ndarray]:
    """Real and imaginary parts in every combination."""
    a, b = np.array(list(itertools.product(EVERY, EVERY)), np.finfo(dtype).dtype).T
    return LAYOUTS[layout](a), LAYOUTS[layout](b)


def joined(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = np.empty(a.shape, np.result_type(a, np.complex64))
    out.real, out.imag = a, b
    return out


def assert_same(x: np.ndarray, y: np.ndarray) -> None:
    assert x.dtype == y.dtype
    if x.dtype == bool:
        assert (x == y).all()
    else:
        assert agreeing(x.real, y.real).all()
        assert agreeing(x.imag, y.imag).all()


PARTS: dict[str, Callable] = {
    "abs": lambda a, b: np.hypot(a, b),
    "conj": lambda a, b: joined(a, -b),
    "imag": lambda a, b: b,
    "isfinite": lambda a, b: np.isfinite(a) & np.isfinite(b),
    "isinf": lambda a, b: np.isinf(a) | np.isinf(b),
    "isnan": lambda a, b: np.isnan(a) | np.isnan(b),
    "negative": lambda a, b: joined(-a, -b),
    "positive": joined,
    "real": lambda a, b: a,
    "round": lambda a, b: joined(np.rint(a), np.rint(b)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["small", "large", "strided"])
@pytest.mark.parametrize("name", PARTS)
def test_functions_of_parts(name: str, layout: str, dtype: str) -> None:
    a, b = every(dtype, layout)
    found = getattr(ad, name)(ad.asarray(joined(a, b))).numpy()
    assert_same(found, PARTS[name](a, b))


PAIRS: dict[str, Callable] = {
    "add": np.errstate(all="ignore")(lambda a, b, c, d: joined(a + c, b + d)),
    "subtract": np.errstate(all="ignore")(lambda a, b, c, d: joined(a - c, b - d)),
    "equal": lambda a, b, c, d: (a == c) & (b == d),
    "not_equal": lambda a, b, c, d: (a != c) | (b != d),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["small", "large"])
@pytest.mark.parametrize("name", PAIRS)
def test_functions_of_two_numbers_by_parts(name: str, layout: str, dtype: str) -> None:
    a, b = every(dtype)
    a, c = (LAYOUTS[layout](x.ravel()) for x in np.meshgrid(a, a))
    b, d = (LAYOUTS[layout](x.ravel()) for x in np.meshgrid(b, b))
    found = getattr(ad, name)(ad.asarray(joined(a, b)), ad.asarray(joined(c, d))).numpy()
    assert_same(found, PAIRS[name](a, b, c, d))


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_quotients_squares_and_reciprocals(dtype: str) -> None:
    x = ad.asarray(joined(*every(dtype)))
    nans = ad.full(3, complex(nan, nan), dtype=x.dtype)
    for out in (nans * nans, nans / nans):
        assert_same(out.numpy(), nans.numpy())
    assert_same(ad.square(x).numpy(), (x * x).numpy())
    assert_same(ad.reciprocal(x).numpy(), (1 / x).numpy())


# Finite numbers at which NumPy overflows or has no digits left


def epsilon(dtype: str) -> float:
    return float(np.finfo(dtype).eps)


@pytest.mark.parametrize(("dtype", "a"), [("complex64", 89.0), ("complex128", 710.0)])
@pytest.mark.parametrize("b", [0.0, -0.0, 1e-30, -0.001, 3.0])
def test_expm1_of_what_overflows_in_one_part(dtype: str, a: float, b: float) -> None:
    """exp(a) isn't finite, exp(a) * sin(b) may well be."""
    out = ad.expm1(ad.full(5, complex(a, b), dtype=getattr(ad, dtype))).numpy()
    assert (out.real == math.copysign(inf, math.cos(b))).all()
    expected = math.exp(a / 2) * math.sin(b) * math.exp(a / 2)
    expected = math.copysign(inf, b) if abs(expected) > np.finfo(dtype).max else expected
    np.testing.assert_allclose(out.imag, expected, rtol=32 * epsilon(dtype), atol=0)
    assert (np.signbit(out.imag) == np.signbit(b)).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_log1p_keeps_the_digits_of_small_numbers(dtype: str) -> None:
    small = [x for x in (1e-6, 1e-9, 1e-12, 1e-15) if dtype == "complex128" or x > 1e-13]
    directions = [1, -1, 1j, -1j, 1 + 1j, -3 + 2j]
    x = np.array([s * d for s in small for d in directions], dtype)
    expected = x.astype("complex128")
    expected = expected - expected**2 / 2 + expected**3 / 3 - expected**4 / 4
    out = ad.log1p(ad.asarray(x)).numpy()
    rtol = 8 * epsilon(dtype)
    np.testing.assert_allclose(out.real, expected.real, rtol=rtol, atol=0)
    np.testing.assert_allclose(out.imag, expected.imag, rtol=rtol, atol=0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_log1p_of_other_numbers_is_the_logarithm(dtype: str) -> None:
    """On both sides of the branch cut, which ends at -1, and of where small numbers end."""
    numbers = [0.0, -0.0, 0.25, -0.4, 0.499, -0.501, 0.75, -1.5, -3.0, 20.0]
    x = np.array([complex(a, b) for a in numbers for b in numbers], dtype)
    expected = [cmath.log(complex(1 + z.real, z.imag)) for z in x.tolist()]
    out = ad.log1p(ad.asarray(x)).numpy()
    np.testing.assert_allclose(out, expected, rtol=8 * epsilon(dtype), atol=epsilon(dtype))
    assert (np.signbit(out.imag) == np.signbit(x.imag)).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_of_the_largest_numbers(dtype: str) -> None:
    largest = float(np.finfo(dtype).max)
    x = ad.full(5, complex(largest, -largest), dtype=getattr(ad, dtype))
    rtol = 8 * epsilon(dtype)
    unit = complex(math.sqrt(0.5), -math.sqrt(0.5))
    logarithm = complex(math.log(largest) + math.log(2) / 2, -pi / 4)
    np.testing.assert_allclose(ad.sign(x).numpy(), unit, rtol=rtol)
    np.testing.assert_allclose(ad.log1p(x).numpy(), logarithm, rtol=rtol)
