"""How exact the functions are: largest errors in units of the last place, beside NumPy's.

Inputs are of all magnitudes, more of them where functions bend. float32 is compared with NumPy in
float64, and float64 with 48 digits: those results that differ most from NumPy's, and some others.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad

from ._common import Report, markdown_table

MOST = {"float32": 2.0, "float64": 4.0}
RANGES = (1.0, 10.0, 100.0, 800.0)
COUNT = 1 << 18  # of each range, and of all magnitudes
PRECISE = 1 << 15  # results in float64 that differ most, and as many others

UNARY = (
    "sqrt exp expm1 log log1p log2 log10 sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh sigmoid erf"
)
BINARY = "pow atan2 hypot"


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


OUR_REFERENCES: dict[str, Callable] = {
    "sigmoid": sigmoid,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
}

Errors = dict[str, dict[str, dict[str, float]]]  # by function, dtype, library


def run(rounds: int) -> Report:
    with np.errstate(all="ignore"):
        errors = measure()
    head = ["function", *(f"{dtype}{of}" for dtype in MOST for of in ("", ", NumPy"))]
    body = [[name, *cells(by_dtype)] for name, by_dtype in errors.items()]
    for line in (head, *body):
        print(f"{line[0]:12} " + " ".join(f"{cell:>15}" for cell in line[1:]))
    problems = [
        f"accuracy: {name} of {dtype}: {found['adjoint']:.2f} units of the last place"
        for name, by_dtype in errors.items()
        for dtype, found in by_dtype.items()
        if not found["adjoint"] <= MOST[dtype]
    ]
    rows = [[f"`{name}`", *rest] for name, *rest in body]
    return Report(dict(errors), problems, markdown_table(head, rows))


def cells(by_dtype: dict[str, dict[str, float]]) -> list[str]:
    found = [by_dtype.get(dtype, {}).get(of) for dtype in MOST for of in ("adjoint", "numpy")]
    return ["" if error is None else f"{error:.2f}" for error in found]


def measure() -> Errors:
    errors: Errors = {}
    for dtype in MOST:
        inputs = [samples(dtype, seed) for seed in range(2)]
        for name in (*UNARY.split(), *BINARY.split()):
            arrays = inputs[: 1 + (name in BINARY.split())]
            reference = OUR_REFERENCES.get(name) or getattr(np, name)
            expected = reference(*(x.astype(np.float64) for x in arrays))
            found = {"adjoint": getattr(ad, name)(*map(ad.asarray, arrays)).numpy()}
            if name not in OUR_REFERENCES:
                found["numpy"] = getattr(np, name)(*arrays)
            if dtype == "float64":
                by_library = largest_precise_errors(name, arrays, found, expected)
            else:
                by_library = {of: largest_error(y, expected) for of, y in found.items()}
            errors.setdefault(name, {})[dtype] = by_library
    return errors


def samples(dtype: str, seed: int) -> np.ndarray:
    """Numbers of all magnitudes, infinities and NaN among them, and evenly spread ones."""
    rng = np.random.default_rng(seed)
    size = np.dtype(dtype).itemsize
    everywhere = np.frombuffer(rng.bytes(COUNT * size), dtype)
    even = [rng.uniform(-limit, limit, COUNT).astype(dtype) for limit in RANGES]
    return rng.permutation(np.concatenate([everywhere, *even]))


def largest_error(found: np.ndarray, expected: np.ndarray) -> float:
    """In units of the last place, where infinity counts as the number after the largest."""
    if not np.array_equal(np.isnan(found), np.isnan(expected)):
        return math.inf
    numbers, limits = ~np.isnan(expected), np.finfo(found.dtype)
    infinity = 2.0**limits.maxexp
    x, y = (
        np.clip(values[numbers].astype(np.float64), -infinity, infinity)
        for values in (found, expected)
    )
    unit = np.spacing(np.minimum(np.abs(y), limits.max).astype(found.dtype))
    return float(np.max(np.abs(x - y) / unit))


def largest_precise_errors(
    name: str, arrays: list[np.ndarray], found: dict[str, np.ndarray], expected: np.ndarray
) -> dict[str, float]:
    """The same against many digits, in float64. What isn't finite is as in `expected`."""
    for y in found.values():
        if not np.array_equal(np.isnan(y), np.isnan(expected)):
            return dict.fromkeys(found, math.inf)
    mp, function = many_digits(), with_many_digits(name)
    errors = dict.fromkeys(found, 0.0)
    for k in doubtful(found["adjoint"], expected, arrays):
        right = bounded(function(*(mp.mpf(x[k]) for x in arrays)))
        unit = math.ulp(min(abs(float(right)), np.finfo(np.float64).max))
        for of, y in found.items():
            errors[of] = max(errors[of], float(abs(bounded(y[k]) - right) / unit))
    return errors


def doubtful(found: np.ndarray, expected: np.ndarray, arrays: list[np.ndarray]) -> np.ndarray:
    """Where results of numbers differ most, and some other places."""
    numbers = ~np.isnan(expected) & np.logical_and.reduce([np.isfinite(x) for x in arrays])
    places = np.flatnonzero(numbers)
    unit = np.spacing(np.minimum(np.abs(expected), np.finfo(np.float64).max))
    differences = np.nan_to_num(np.abs(found - expected) / unit)
    ranked = places[np.argsort(-differences[places])]
    return np.append(ranked[:PRECISE], ranked[PRECISE :: 1 + len(ranked) // PRECISE])


@functools.cache
def many_digits() -> Any:
    """mpmath with 48 digits, which no other benchmark needs."""
    import mpmath

    mp: Any = mpmath.mp.clone()
    mp.prec = 160
    return mp


def with_many_digits(name: str) -> Callable:
    mp = many_digits()
    ours: dict[str, Callable] = {
        "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
        "log2": lambda x: mp.log(x, 2),
        "pow": mp.power,
    }
    return ours.get(name) or getattr(mp, name)


def bounded(x: Any) -> Any:
    mp = many_digits()
    infinity = mp.ldexp(1, 1024)
    return min(max(mp.mpf(x), -infinity), infinity)
