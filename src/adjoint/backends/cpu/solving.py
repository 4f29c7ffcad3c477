"""Linear equations, inverses and determinants by NumPy's LAPACK."""

import numpy as np

from ..._foundation.errors import ArgumentError, GradientError
from .factorizations import refusal, refused
from .table import FUNCTIONS, entry, hosted
from .triangles import adjoint

FUNCTIONS["det"] = np.linalg.det

SINGULAR = "is singular; ad.linalg.pinv gives its pseudo-inverse, ad.linalg.lstsq solves with it"


def singular(asked: str, x: np.ndarray) -> ArgumentError | GradientError:
    """The error for x, of which a matrix is singular; `asked`: what needs its inverse."""
    if asked != "slogdet":
        return refused(asked, np.linalg.inv, SINGULAR, x)
    complaint = "is singular: log |det| is -inf there, and has no gradient; ad.linalg.det has one"
    return GradientError(str(refused(asked, np.linalg.inv, complaint, x)))


@hosted("equations", least="EQUATIONS")
def lu(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """NumPy has no function for it: nothing is done, and pivots of 0 say so."""
    return x, np.zeros(x.shape[:-1], np.int64)


@hosted("equations", least="EQUATIONS")
def lu_solve(x, factors, pivots, y, *, transposed: bool, asked: str) -> np.ndarray:
    try:
        return np.linalg.solve(x.swapaxes(-1, -2) if transposed else x, y)
    except np.linalg.LinAlgError:
        raise singular(asked, x) from None


@hosted("equations", least="EQUATIONS")
def inv(x: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.inv(x)
    except np.linalg.LinAlgError:
        raise singular("inv", x) from None


@hosted("equations", least="EQUATIONS")
def slogdet(x: np.ndarray, *, real: np.dtype) -> tuple:
    sign, logarithm = np.linalg.slogdet(x)
    return np.asarray(sign), np.asarray(logarithm).astype(real, copy=False), *lu(x)


def check_diagonal(x: np.ndarray) -> None:
    """Triangles are singular if, and only if, there is a 0 on the diagonal."""
    zeros = np.argwhere(np.diagonal(x, 0, -2, -1) == 0)
    if len(zeros):
        *index, place = zeros[0].tolist()
        complaint = f"is singular: element {place} of its diagonal is 0"
        raise refusal("solve_triangular", x, tuple(index), complaint)


@hosted("equations", least="EQUATIONS")
def solve_triangular(x: np.ndarray, y: np.ndarray, *, upper: bool, unit: bool) -> np.ndarray:
    x = FUNCTIONS["triangle"](x, k=0, upper=upper)
    if unit:
        np.einsum("...ii->...i", x)[...] = 1
    else:
        check_diagonal(x)
    try:
        return np.linalg.solve(x, y)
    except np.linalg.LinAlgError:  # of infinities, which have no pivots
        raise singular("solve_triangular", x) from None


@hosted("equations", least="EQUATIONS")
def cholesky_solve(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    solve = FUNCTIONS["solve_triangular"]
    half = solve(x, y, upper=False, unit=False)
    return solve(adjoint(x), half, upper=True, unit=False)


@hosted("equations", least="EQUATIONS")
def cholesky_gradient(dout: np.ndarray, out: np.ndarray) -> np.ndarray:
    turned, solve = out.swapaxes(-1, -2), FUNCTIONS["solve_triangular"]
    inner = FUNCTIONS["mirrored"](turned @ dout) / np.array(2, out.dtype)
    half = solve(turned, inner, upper=True, unit=False)
    return FUNCTIONS["mirrored"](solve(turned, half.swapaxes(-1, -2), upper=True, unit=False))


# Cofactors. Where a matrix is far from singular they are its determinant times the transposed
# inverse. Else it is x = u @ diag(s) @ vh, and they are those of the diagonal, in these directions.

WELL_CONDITIONED = 1e3  # an estimate of how much rounding errors grow


def inverses(x: np.ndarray, largest: float) -> tuple[np.ndarray, np.ndarray]:
    """Inverses, and of which matrices they are missing, or not precise: rounding errors grow by
    more than `largest`. There is no better way where a matrix isn't finite."""
    finite = np.asarray(np.isfinite(x).all((-2, -1)))
    try:
        inverse = np.linalg.inv(x)
    except np.linalg.LinAlgError:
        return np.full_like(x, np.nan), finite
    grown = np.abs(x).sum(-1).max(-1, initial=0) * np.abs(inverse).sum(-1).max(-1, initial=0)
    return inverse, finite & ~(grown < largest)


@entry
def far_from_singular(x: np.ndarray, *, power: float, asked: str) -> np.ndarray:
    _, others = inverses(x, float(np.finfo(x.dtype).eps) ** -power)
    if others.any():
        raise GradientError(asked)
    return x


def normalized(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Matrices of about 1, and the powers of two that they were divided by: a determinant may be
    too large or too small for the dtype where cofactors aren't."""
    largest = np.abs(x).max((-2, -1), initial=0, keepdims=True)
    _, exponents = np.frexp(np.where(np.isfinite(largest), largest, 1))
    return np.ldexp(x, -exponents), exponents


@entry
def cofactors(x: np.ndarray) -> np.ndarray:
    scaled, exponents = normalized(x)
    return np.ldexp(scaled_cofactors(scaled), exponents * (x.shape[-1] - 1))


def scaled_cofactors(x: np.ndarray) -> np.ndarray:
    inverse, others = inverses(x, WELL_CONDITIONED)
    out = np.linalg.det(x)[..., None, None] * inverse.swapaxes(-1, -2)
    if others.any():
        u, s, vh, sign = directions(x[others])
        out[others] = sign * (u * products(s, 1)[..., None, :]) @ vh
    return out


@entry
def cofactors_change(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    scaled, exponents = normalized(x)
    return np.ldexp(scaled_change(scaled, y), exponents * (x.shape[-1] - 2))


def scaled_change(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    inverse, others = inverses(x, WELL_CONDITIONED)
    along = inverse @ y
    traces = np.trace(along, axis1=-2, axis2=-1)[..., None, None]
    change = traces * inverse - along @ inverse
    out = np.linalg.det(x)[..., None, None] * change.swapaxes(-1, -2)
    if others.any():
        u, s, vh, sign = directions(x[others])
        inner = u.swapaxes(-1, -2) @ y[others] @ vh.swapaxes(-1, -2)
        pairs = products(s, 2)
        diagonal = np.einsum("...ij,...jj->...i", pairs, inner)
        changed = -pairs * inner.swapaxes(-1, -2)
        np.einsum("...ii->...i", changed)[...] += diagonal
        out[others] = sign * u @ changed @ vh
    return out


def directions(x: np.ndarray) -> tuple[np.ndarray, ...]:
    u, s, vh = np.linalg.svd(x)
    sign = np.linalg.det(u) * np.linalg.det(vh)
    return u, s, vh, np.round(sign)[..., None, None]


def products(s: np.ndarray, left_out: int) -> np.ndarray:
    """The products of all numbers of a row but one, or but two, of which 0 is for the same one."""
    n = s.shape[-1]
    out = np.zeros((*s.shape[:-1], *(n,) * left_out), s.dtype)
    if left_out == 1:
        for i in range(n):
            out[..., i] = np.delete(s, i, -1).prod(-1)
        return out
    for i in range(n):
        for j in range(i):
            out[..., i, j] = out[..., j, i] = np.delete(s, [i, j], -1).prod(-1)
    return out


@entry
def least_squares(x, u, s, vh, y, *, transposed: bool) -> np.ndarray:
    if transposed:
        return (u * s[..., None, :]) @ (vh @ y)
    return (adjoint(vh) * s[..., None, :]) @ (adjoint(u) @ y)
