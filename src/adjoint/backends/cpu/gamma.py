"""Gamma variates, each from counters of its own (Marsaglia and Tsang, 2000).

The state gives a key and moves on by one counter. Under that key, element i takes what it needs
from the counters (i, 0), (i, 1), ...: what it gets doesn't depend on the other elements, on the
order of the work, or on how many of them are tried again.
"""

import numpy as np

from .table import entry
from .threefry import CHUNK, LOW, advanced, counter, encrypt, encrypted


@entry
def random_log_gamma(state: np.ndarray, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of gamma variates, and the state after them; NaN unless 0 < alpha < infinity."""
    key = encrypted(state, counter(state), 1)[0]
    flat = alpha.reshape(-1)
    out = np.empty(flat.shape, alpha.dtype)
    lowest = np.finfo(alpha.dtype).min / 4  # finite, so that differences of logarithms are
    for first in range(0, flat.size, CHUNK):
        part = flat[first : first + CHUNK].astype(np.float64)
        elements = np.arange(first, first + part.size, dtype=np.uint64)
        out[first : first + CHUNK] = np.maximum(log_gamma(key, elements, part), lowest)
    return out.reshape(alpha.shape), advanced(state, 1)


def log_gamma(key: np.ndarray, elements: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Where alpha < 1, from a variate of alpha + 1, times a uniform number to the 1 / alpha."""
    small = alpha < 1
    out = log_gamma_above_one(key, elements, np.where(small, alpha + 1, alpha))
    out[small] += np.log(fractions(key, elements[small], 0)) / alpha[small]
    out[~(alpha > 0)] = np.nan
    return out


def log_gamma_above_one(key: np.ndarray, elements: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """A cube of a normal number has nearly the distribution; rejection makes it exact."""
    out = np.full(alpha.shape, np.nan)
    trying = np.flatnonzero((alpha >= 1) & (alpha < np.inf))
    slot = 1
    while trying.size:
        d = alpha[trying] - 1 / 3
        x, u = normals_and_fractions(key, elements[trying], slot)
        h = x / np.sqrt(9 * d)
        log_t = np.log1p(h)  # NaN or -inf where 1 + h isn't positive: not accepted
        accepted = np.log(u) < x * x / 2 - d * (h * (3 + h * (3 + h)) - 3 * log_t)
        out[trying[accepted]] = (np.log(d) + 3 * log_t)[accepted]
        trying = trying[~accepted]
        slot += 3
    return out


def normals_and_fractions(
    key: np.ndarray, elements: np.ndarray, slot: int
) -> tuple[np.ndarray, np.ndarray]:
    """A normal and a uniform number for each element, from three slots."""
    radius = np.sqrt(-2 * np.log(fractions(key, elements, slot)))
    angle = 2 * np.pi * fractions(key, elements, slot + 1)
    return radius * np.cos(angle), fractions(key, elements, slot + 2)


def fractions(key: np.ndarray, elements: np.ndarray, slot: int) -> np.ndarray:
    """Odd multiples of 2 ** -53 between 0 and 1, from the counters (element, slot)."""
    x0 = (elements & LOW).astype(np.uint32)
    x1 = (elements >> np.uint64(32)).astype(np.uint32) | np.uint32(slot << 16)
    encrypt(key, x0, x1)
    words = (x0.astype(np.uint64) << np.uint64(32)) | x1
    return ((words >> np.uint64(12)) + 0.5) * 2.0**-52
