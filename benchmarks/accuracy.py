"""How exact the functions are: largest errors in units of the last place, beside NumPy's.

The reference is NumPy in the next larger type: float64, and for float64 the long double of the
platform, if it has more digits. Inputs are of all magnitudes, more of them where functions bend.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad

from ._common import Report, markdown_table

MOST = {"float32": 2.0, "float64": 4.0}
WIDER: dict[str, Any] = {"float32": np.float64, "float64": np.longdouble}
RANGES = (1.0, 10.0, 100.0, 800.0)
COUNT = 1 << 18  # of each range, and of all magnitudes

UNARY = (
    "sqrt exp expm1 log log1p log2 log10 sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh sigmoid erf"
)
BINARY = "pow atan2 hypot"


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def erf(x: np.ndarray) -> np.ndarray | None:
    """The standard library has it in double precision, no one in more."""
    if x.dtype != np.float64:
        return None
    return np.vectorize(math.erf, otypes=[np.float64])(x)


OUR_REFERENCES: dict[str, Callable] = {"sigmoid": sigmoid, "erf": erf}

Errors = dict[str, dict[str, dict[str, float]]]  # by function, dtype, library


def run(rounds: int) -> Report:
    with np.errstate(all="ignore"):
        errors = measure([d for d in MOST if np.finfo(WIDER[d]).nmant > np.finfo(d).nmant])
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


def measure(dtypes: list[str]) -> Errors:
    errors: Errors = {}
    for dtype in dtypes:
        inputs = [samples(dtype, seed) for seed in range(2)]
        for name in (*UNARY.split(), *BINARY.split()):
            given = inputs[: 1 + (name in BINARY.split())]
            reference = OUR_REFERENCES.get(name) or getattr(np, name)
            expected = reference(*(x.astype(WIDER[dtype]) for x in given))
            if expected is not None:
                found = {"adjoint": getattr(ad, name)(*map(ad.asarray, given)).numpy()}
                if name not in OUR_REFERENCES:
                    found["numpy"] = getattr(np, name)(*given)
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
    infinity = expected.dtype.type(2) ** limits.maxexp
    x, y = (
        np.clip(values[numbers].astype(expected.dtype), -infinity, infinity)
        for values in (found, expected)
    )
    unit = np.spacing(np.minimum(np.abs(y), limits.max).astype(found.dtype))
    return float(np.max(np.abs(x - y) / unit))
