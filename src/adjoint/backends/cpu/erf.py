"""The error function, which NumPy lacks.

Below 1 erf(x) / x is a polynomial in x * x; above, exp(x * x) * (1 + 2 x) * erfc(x) is one in
(x - 3) / (x + 3). Both are Chebyshev expansions, fitted in 60 digits; float32 needs fewer terms.
Largest error over all x: 2 ulp in float64, 2.3 ulp in float32.
"""

import numpy as np

from .table import entry, refuse_non_floats, wide

SINGLE_NEAR = (
    1.1283791658483509,
    -0.37612626666720334,
    0.11283594715160218,
    -0.026854212010626412,
    0.005189087423433974,
    -0.000801686428716587,
    7.875875062685488e-05,
)
SINGLE_FAR = (
    1.2530080582954823,
    -0.13562110480829231,
    -0.04756230247319259,
    0.1296450271993634,
    -0.11927331862820557,
    0.0683117786257719,
    -0.023774294371183263,
    0.0024870036329243126,
    0.0018888361023274495,
    -0.0006001439368362041,
)
DOUBLE_NEAR = (
    1.1283791670955126,
    -0.37612638903183543,
    0.11283791670945006,
    -0.02686617064323777,
    0.0052239776071164225,
    -0.0008548325975389692,
    0.00012055294904839707,
    -1.492473690741966e-05,
    1.6447424703317362e-06,
    -1.6208483801871705e-07,
    1.3720064546777686e-08,
    -7.795898827002142e-10,
)
DOUBLE_FAR = (
    1.2530080582697296,
    -0.1356211061245812,
    -0.04756229435345138,
    0.12964515870276402,
    -0.11927366341524273,
    0.06830802734381189,
    -0.02377051492166855,
    0.0025293918199671304,
    0.0018886904382191838,
    -0.0007798322989976216,
    -0.00010516105757847154,
    0.00012509872522756537,
    4.961221060958892e-06,
    -2.0086107812713232e-05,
    -7.879926769870066e-07,
    3.3607217706286008e-06,
    4.441155248337316e-07,
    -2.950461038452191e-07,
)

CHUNK = 8192  # elements that stay in the cache over all steps of a polynomial


@entry
def erf(x: np.ndarray) -> np.ndarray:
    refuse_non_floats(x)
    flat = np.ascontiguousarray(x, wide(x.dtype)).reshape(-1)
    out = np.empty_like(flat)
    for start in range(0, flat.size, CHUNK):
        out[start : start + CHUNK] = erf_of_chunk(flat[start : start + CHUNK])
    return out.reshape(x.shape).astype(x.dtype, copy=False)


def erf_of_chunk(x: np.ndarray) -> np.ndarray:
    double = x.dtype == np.float64
    near, far = (DOUBLE_NEAR, DOUBLE_FAR) if double else (SINGLE_NEAR, SINGLE_FAR)
    size = np.minimum(np.abs(x), x.dtype.type(6))  # erf(6) is 1; NaN stays
    square = size * size
    inner = size * polynomial(near, np.minimum(square, 1))
    tail = np.exp(-square) * polynomial(far, (size - 3) / (size + 3)) / (1 + 2 * size)
    return np.copysign(np.where(size < 1, inner, 1 - tail), x)


def polynomial(coefficients: tuple[float, ...], x: np.ndarray) -> np.ndarray:
    """By Horner's scheme, lowest power first."""
    out = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        out *= x
        out += x.dtype.type(coefficient)
    return out
