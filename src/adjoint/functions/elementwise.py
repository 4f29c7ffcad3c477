"""Elementwise functions with more than an op's signature."""

from typing import Any

import numpy as np

from .._core.promotion import beside_tensors, common_dtype
from .._core.tensor import Tensor
from .._foundation.dtypes import FROM_NUMPY, DType, as_numpy, of_scalar
from .._foundation.errors import ArgumentError, DTypeError
from .._foundation.numbers import Number
from ..primitives import activations, conversions
from ..primitives.devices import move
from ..primitives.elementwise import divide, logaddexp, pow, square, where
from ..primitives.shapes import reshape
from ._arguments import as_number, as_real, as_tensor, is_elsewhere, tensor_or_number
from ._marks import method, method_named, property_named
from .dtypes import iinfo

__all__ = ["astype", "clip", "conj", "elu", "gelu", "imag", "leaky_relu", "positive", "real"]
__all__ += ["reciprocal", "softplus"]

REAL_SCALARS = (np.integer, np.floating, Number)


@method
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: str | None = None) -> Tensor:
    """The values in another dtype, rounded towards zero if that is an integer one.

    >>> ad.astype(ad.asarray([1.7, -1.7]), ad.int32)
    tensor([ 1, -1], dtype=adjoint.int32)
    """
    x = as_tensor("astype", x)
    raw = as_numpy(dtype)
    if x.raw.dtype.kind == "c" and raw.kind not in "cb":
        raise DTypeError(
            f"astype: {x.dtype.name} to {raw} would lose the imaginary part; use ad.real(x)"
        )
    x = x if device is None else to_device(x, device)
    return x._value() if raw is x.raw.dtype and not copy else conversions.cast(x, dtype=raw)


@method
def clip(x: Any, /, min: Any = None, max: Any = None) -> Tensor:
    """x, but at least `min` and at most `max`; the gradient is 1 strictly between them.

    >>> ad.clip(ad.asarray([-1.0, 0.5, 2.0]), 0, 1)
    tensor([0. , 0.5, 1. ])
    """
    x, min, max = beside_tensors((x, min, max))
    given = [tensor_or_number("clip", operand) for operand in (x, min, max) if operand is not None]
    own = given[0].raw.dtype if isinstance(given[0], Tensor) else of_scalar(x)
    low, high = extremes(FROM_NUMPY[own], FROM_NUMPY[common_dtype("clip", given)])
    return conversions.clip(x, low if min is None else min, high if max is None else max)


def extremes(*dtypes: DType) -> tuple[Any, Any]:
    """Bounds that nothing of the last dtype passes; all must be of real numbers."""
    for dtype in dtypes:
        if dtype.kind not in ("int", "uint", "float"):
            raise DTypeError(f"clip: real numbers are needed, got {dtype.name}")
    if dtypes[-1].kind == "float":
        return -float("inf"), float("inf")
    limits = iinfo(dtypes[-1])
    return limits.min, limits.max


@method_named("pow")
def power(x: Tensor, y: Any) -> Tensor:
    """x ** y; squares are frequent, and have an op of their own."""
    is_real = type(y) in (int, float) or isinstance(y, REAL_SCALARS)
    if not is_real or y != 2:
        return pow(x, y)
    is_tensor = isinstance(x, Tensor)  # in a rule that is being compiled it is an expression
    return pow(x, y) if is_tensor and x.raw.dtype.kind != "f" else square(x)


def positive(x: Any, /) -> Tensor:
    """+x: the same values.

    >>> ad.positive(-3.0)
    tensor(-3.)
    """
    x = as_tensor("positive", x)
    return reshape(x, shape=x.shape)


@method
def reciprocal(x: Any, /) -> Tensor:
    """1 / x; integers give the default float.

    >>> ad.reciprocal(4.0)
    tensor(0.25)
    """
    return divide(1, as_tensor("reciprocal", x))


@property_named("real")
def real(x: Any, /) -> Tensor:
    """The real part; of a real number, the number.

    >>> ad.real(3 + 4j)
    tensor(3.)
    """
    x = as_tensor("real", x)
    return conversions.real(x) if x.raw.dtype.kind == "c" else positive(x)


@property_named("imag")
def imag(x: Any, /) -> Tensor:
    """The imaginary part; of a real number, zero.

    >>> ad.imag(3 + 4j)
    tensor(4.)
    """
    x = as_tensor("imag", x)
    if x.raw.dtype.kind == "c":
        return conversions.imag(x)
    return where(False, x, 0)


@method
def conj(x: Any, /) -> Tensor:
    """The complex conjugate; of a real number, the number.

    >>> ad.conj(3 + 4j)
    tensor(3.-4.j, dtype=adjoint.complex64)
    """
    x = as_tensor("conj", x)
    return conversions.conj(x) if x.raw.dtype.kind == "c" else positive(x)


def softplus(x: Any, /) -> Tensor:
    """log(1 + exp(x)) without overflow.

    >>> ad.softplus(ad.asarray([0.0, 100.0]))
    tensor([  0.6931, 100.    ])
    """
    return logaddexp(as_real("softplus", x), 0)


def gelu(x: Any, /, approximate: str = "none") -> Tensor:
    """x times the normal distribution function of x; `approximate="tanh"` for its cheaper form.

    >>> ad.gelu(ad.asarray([-1.0, 0.0, 1.0]))
    tensor([-0.1587,  0.    ,  0.8413])
    """
    forms = {"none": activations.gelu, "tanh": activations.gelu_tanh}
    if approximate not in forms:
        raise ArgumentError(f"gelu: approximate is 'none' or 'tanh', got {approximate!r}")
    return forms[approximate](x)


def leaky_relu(x: Any, /, negative_slope: float = 0.01) -> Tensor:
    """x, times a slope where it is negative.

    >>> ad.leaky_relu(ad.asarray([-1.0, 2.0]))
    tensor([-0.01,  2.  ])
    """
    return activations.leaky_relu(
        x, negative_slope=as_number("leaky_relu", "negative_slope", negative_slope)
    )


def elu(x: Any, /, alpha: float = 1.0) -> Tensor:
    """x, or alpha * (exp(x) - 1) where it is negative.

    >>> ad.elu(ad.asarray([-1.0, 2.0]))
    tensor([-0.6321,  2.    ])
    """
    return activations.elu(x, alpha=as_number("elu", "alpha", alpha))


@method
def to(x: Tensor, target: Any) -> Tensor:
    """The tensor on another device (a string) or in another dtype.

    >>> ad.asarray([1, 2]).to(ad.float32)
    tensor([1., 2.])
    """
    return to_device(x, target) if isinstance(target, str) else astype(x, target, copy=False)


@method
def to_device(x: Tensor, device: str, /, *, stream: Any = None) -> Tensor:
    """The tensor on another device; `stream` is for devices that have streams: none so far.

    >>> ad.asarray([1, 2]).to_device("cpu")
    tensor([1, 2])
    """
    if stream is not None:
        raise ArgumentError(f"to_device: {device} has no streams, got stream={stream!r}")
    return move(x, device=device, source=x.device) if is_elsewhere(x, device) else x._value()
