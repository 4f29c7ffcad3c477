"""The exponential of matrices: a quotient of polynomials of a part of the matrix, then squared.

Higham, "The scaling and squaring method for the matrix exponential revisited" (2005).
"""

import math

import numpy as np

from .table import entry

# By the degree of the polynomials, the largest norm for which they are exact to 53 bits.
LARGEST = {3: 1.495585217958292e-2, 5: 2.539398330063230e-1, 7: 9.504178996162932e-1}
LARGEST |= {9: 2.097847961257068, 13: 5.371920351148152}


def coefficients(degree: int) -> list[float]:
    """Of the polynomial p with exp(x) = p(x) / p(-x), nearly."""
    f = math.factorial
    return [
        f(2 * degree - k) * f(degree) / (f(2 * degree) * f(k) * f(degree - k))
        for k in range(degree + 1)
    ]


@entry
def expm(x: np.ndarray) -> np.ndarray:
    wide = np.promote_types(x.dtype, np.float64)
    scaled = x.astype(wide)
    norms = np.abs(scaled).sum(-2).max(-1, initial=0)
    norms = np.where(np.isfinite(norms), norms, 0)
    largest = norms.max(initial=0)
    degree = next((degree for degree, norm in LARGEST.items() if largest <= norm), 13)
    with np.errstate(divide="ignore"):
        halvings = np.ceil(np.log2(norms / LARGEST[degree])).clip(0).astype(int)
    out = quotient(scaled * (0.5**halvings)[..., None, None], degree)
    for step in range(halvings.max(initial=0)):
        out = np.where((halvings > step)[..., None, None], out @ out, out)
    return out.astype(x.dtype, copy=False)


def quotient(x: np.ndarray, degree: int) -> np.ndarray:
    """Even powers make what numerator and denominator share, odd ones what they differ in."""
    factors = coefficients(degree)
    one = np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)
    square = x @ x
    even, odd, power = factors[0] * one, factors[1] * one, one
    for k in range(2, degree, 2):
        power = power @ square if k > 2 else square
        even = even + factors[k] * power
        odd = odd + factors[k + 1] * power
    odd = x @ odd
    finite = np.isfinite(even).all((-2, -1)) & np.isfinite(odd).all((-2, -1))
    if finite.all():
        return np.linalg.solve(even - odd, even + odd)
    out = np.full(x.shape, np.nan, x.dtype)
    out[finite] = np.linalg.solve((even - odd)[finite], (even + odd)[finite])
    return out
