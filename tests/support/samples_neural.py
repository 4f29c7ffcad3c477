"""Records of the ops of neural networks: pooling and standardising."""

from itertools import product
from typing import Any

import numpy as np

from tests.support.samples import CALLS, Array, positive, real, sample

# Kernel, stride, padding (before, after), dilation for each of two axes; overlap, ceil_mode's
# padding at the end, and elements that no window reads.
POOLS: tuple[dict[str, Any], ...] = (
    {"kernel": (2, 2), "stride": (2, 2), "padding": ((0, 0), (0, 0)), "dilation": (1, 1)},
    {"kernel": (3, 2), "stride": (1, 2), "padding": ((1, 1), (1, 1)), "dilation": (1, 1)},
    {"kernel": (2, 3), "stride": (3, 1), "padding": ((0, 1), (1, 0)), "dilation": (2, 1)},
    {"kernel": (3, 4), "stride": (2, 2), "padding": ((1, 1), (1, 1)), "dilation": (1, 1)},
    {"kernel": (3, 3), "stride": (1, 3), "padding": ((1, 1), (1, 0)), "dilation": (2, 2)},
    {"kernel": (4, 1), "stride": (1, 3), "padding": ((0, 0), (0, 0)), "dilation": (1, 1)},
)


def windows(x: Array, kernel, stride, padding, dilation) -> dict[tuple, list[tuple]]:
    """The places of the image that each window reads, by output position."""
    starts = [
        range(-before, n + after - d * (k - 1), s)
        for n, k, s, (before, after), d in zip(
            x.shape[2:], kernel, stride, padding, dilation, strict=True
        )
    ]
    found = {}
    for position in product(*(range(len(axis)) for axis in starts)):
        axes = [
            [start[i] + d * offset for offset in range(k) if 0 <= start[i] + d * offset < n]
            for start, i, k, d, n in zip(
                starts, position, kernel, dilation, x.shape[2:], strict=True
            )
        ]
        found[position] = list(product(*axes))
    return found


def largest(x: Array, **geometry: Any) -> tuple[Array, Array]:
    places = windows(x, **geometry)
    size = tuple(n + 1 for n in max(places))
    out, indices = np.empty((*x.shape[:2], *size)), np.empty((*x.shape[:2], *size), np.int64)
    for (position, inside), n, c in product(places.items(), range(x.shape[0]), range(x.shape[1])):
        best = max(inside, key=lambda place: x[n, c][place])
        out[n, c][position] = x[n, c][best]
        indices[n, c][position] = np.ravel_multi_index(best, x.shape[2:])
    return out, indices


def window_matrix(shape: tuple[int, ...], **geometry: Any) -> tuple[Array, tuple[int, ...]]:
    """The sum over windows as a matrix (outputs, elements of one image), and its output's shape."""
    places = windows(np.empty(shape), dilation=(1, 1), **geometry)
    matrix = np.zeros((len(places), int(np.prod(shape[2:]))))
    for row, inside in enumerate(places.values()):
        for place in inside:
            matrix[row, np.ravel_multi_index(place, shape[2:])] += 1
    return matrix, (*shape[:2], *(n + 1 for n in max(places)))


def add_pool(geometry: dict[str, Any], shape: tuple[int, ...]) -> None:
    sample(
        "max_pool",
        lambda x: CALLS["max_pool"](x, **geometry),
        lambda x: largest(x, **geometry),
        (shape,),
    )
    plain = {key: value for key, value in geometry.items() if key != "dilation"}
    matrix, out = window_matrix(shape, **plain)
    sample(
        "window_sum",
        lambda x: CALLS["window_sum"](x, **plain),
        lambda x: (x.reshape(*shape[:2], -1) @ matrix.T).reshape(out).astype(x.dtype),
        (shape,),
    )
    sample(
        "window_spread",
        lambda x: CALLS["window_spread"](x, shape=shape, **plain),
        lambda x: (x.reshape(*shape[:2], -1) @ matrix).reshape(shape).astype(x.dtype),
        (out,),
    )


for pool in POOLS:
    add_pool(pool, (2, 1, 4, 4))


def standardized(x: Array, axis: tuple[int, ...], eps: float, center: bool) -> tuple[Array, ...]:
    mean = x.mean(axis, keepdims=True) * center
    var = ((x - mean) ** 2).mean(axis, keepdims=True)
    return (x - mean) / np.sqrt(var + eps), mean, var


def scaled_standardized(
    x: Array, weight: Array, bias: Array, axis: tuple[int, ...], eps: float, center: bool
) -> tuple[Array, ...]:
    normal, _, var = standardized(x, axis, eps, center)
    return normal * weight + bias, normal, var


def gradient_of_standardized(
    dout: Array, dmean: Array, dvar: Array, out: Array, var: Array, *, axis, eps, center
) -> Array:
    n, scale = np.prod([out.shape[k] for k in axis]), np.sqrt(var + eps)
    through_out = dout - out * (dout * out).mean(axis, keepdims=True)
    if center:
        through_out = through_out - dout.mean(axis, keepdims=True) + dmean * scale / n
    return through_out / scale + 2 * dvar * out * scale / n


for axis, center in product(((1,), (0, 2), (0, 1, 2), (1, 2)), (True, False)):
    sample(
        "standardize",
        lambda x, a=axis, c=center: CALLS["standardize"](x, axis=a, eps=0.1, center=c),
        lambda x, a=axis, c=center: standardized(x, a, 0.1, c),
        ((2, 3, 2),),
    )
    for shapes in (((2, 3, 2), (2,), (2,)), ((2, 3, 2), (3, 1), (1, 2))):
        sample(
            "scaled_standardize",
            lambda *xs, a=axis, c=center: CALLS["scaled_standardize"](
                *xs, axis=a, eps=0.1, center=c
            ),
            lambda x, w, b, a=axis, c=center: scaled_standardized(x, w, b, a, 0.1, c),
            shapes,
        )
    small = tuple(1 if k in axis else n for k, n in enumerate((2, 3, 2)))
    sample(
        "standardize_gradient",
        lambda *xs, a=axis, c=center: CALLS["standardize_gradient"](*xs, axis=a, eps=0.1, center=c),
        lambda *xs, a=axis, c=center: gradient_of_standardized(*xs, axis=a, eps=0.1, center=c),
        ((2, 3, 2), small, small, (2, 3, 2), small),
        domains=(real, real, real, real, positive),
    )
