"""Truth values and whole numbers."""

from typing import Any

import numpy as np

from .._core.promotion import to_dtype
from .._core.tensor import Tensor, describe
from .._foundation.dtypes import as_numpy, show, uint64
from .._foundation.errors import DTypeError
from ..backends import widest
from ..functions._arguments import as_integer, as_tensor
from ..primitives.conversions import cast
from ..primitives.devices import move
from ..primitives.elementwise import bitwise_and, bitwise_right_shift, logical_and, where
from ._generator import Generator
from ._parameters import Draw, Options, check, check_probability, draw_of, float_draw, refuse_grad
from ._units import fraction, part, words

INTEGERS = np.dtype("int64")  # what is drawn, on devices that have them

LOW_WORD = 2**32 - 1


def bits(
    shape: Any = None, *, device: str | None = None, generator: Generator | None = None
) -> Tensor:
    """Random 32-bit words: what all other numbers are made of.

    >>> ad.random.bits((3,)).dtype
    adjoint.uint32
    """
    draw = draw_of("random.bits", Options(shape, None, device, generator), [], np.dtype("uint32"))
    return words(draw)


def bernoulli(
    p: Any,
    shape: Any = None,
    *,
    dtype: Any = bool,
    device: str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """True with probability p, else False; another `dtype` gives ones and zeros.

    >>> ad.random.bernoulli(ad.asarray([0.0, 1.0]))
    tensor([False,  True])
    >>> 250 < ad.random.bernoulli(0.3, (1000,)).sum().item() < 350
    True
    """
    draw, (p,) = float_draw("random.bernoulli", Options(shape, None, device, generator), p=p)
    check_probability("random.bernoulli", "p", p)
    refuse_grad("random.bernoulli", "p", p)
    number = fraction(draw.working)
    hit = where(number.upper, number.distance > 1 - p, number.distance < p)
    return to_dtype(hit, as_numpy(dtype))


def integers(
    low: Any,
    high: Any = None,
    shape: Any = None,
    *,
    dtype: Any = None,
    device: str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Whole numbers from low (0 if only one is given) up to, but without, high.

    All are equally likely, to within one part in 2 ** 32.

    >>> x = ad.random.integers(1, 7, (1000,))
    >>> x.min(), x.max()
    (tensor(1), tensor(6))
    """
    low, high = (0, low) if high is None else (low, high)
    low, high = as_bound("low", low), as_bound("high", high)
    options = Options(shape, dtype, device, generator)
    draw = draw_of("random.integers", options, [low, high], INTEGERS)
    raw = widest(draw.device, "i") if dtype is None else as_numpy(dtype)
    if raw.kind not in "iu":
        raise DTypeError(f"random.integers: an integer dtype is needed, got {show(raw)}")
    check_bounds(low, high, raw)
    numbers = isinstance(low, int) and isinstance(high, int)
    wide = widest(draw.device, "u")
    span = high - low if numbers else modulo(high, wide) - modulo(low, wide)
    narrow = extremes(high)[1] - extremes(low)[0] <= 2**32
    return cast(below(draw, span, 2 if narrow else 4) + modulo(low, wide), dtype=raw)


def as_bound(name: str, bound: Any) -> Any:
    """A Python int or an integer tensor."""
    if isinstance(bound, (Tensor, np.ndarray)):
        bound = as_tensor("random.integers", bound)
        if bound.raw.dtype.kind not in "iu":
            raise DTypeError(f"random.integers: {name} must be integers, got {describe(bound)}")
        return bound
    return as_integer("random.integers", name, bound)


def extremes(bound: Any) -> tuple[int, int]:
    """The least and the largest that a bound can be, whatever its values."""
    if not isinstance(bound, Tensor):
        return bound, bound
    limits = np.iinfo(bound.raw.dtype)
    return int(limits.min), int(limits.max)


def check_bounds(low: Any, high: Any, dtype: np.dtype) -> None:
    check("random.integers", low < high, "low must be less than high", low)
    limits = np.iinfo(dtype)
    for bound, last in ((low, 0), (high, 1)):
        smallest, largest = int(limits.min) + last, int(limits.max) + last
        what = f"numbers must be in the range of {dtype}, {limits.min} to {limits.max}"
        if isinstance(bound, Tensor):
            least, most = extremes(bound)
            smallest, largest = max(smallest, least), min(largest, most)
            fits = logical_and(bound >= smallest, bound <= largest)
        else:
            fits = smallest <= bound <= largest
        check("random.integers", fits, what, bound)


def modulo(bound: Any, wide: np.dtype) -> Any:
    """A bound as it is in unsigned arithmetic."""
    limit = 2 ** (8 * wide.itemsize)
    return cast(bound, dtype=wide) if isinstance(bound, Tensor) else bound % limit


def below(draw: Draw, span: Any, count: int) -> Tensor:
    """floor(w * span / 2 ** (32 * count)) for a random w of `count` words: from 0 to span - 1.

    Long multiplication by the two digits of span, 32 bits each; no step overflows 64 bits. Devices
    that have 32 only are sent what the CPU draws.
    """
    wide = widest(draw.device, "u")
    if wide != uint64.dtype:
        here = move(span, device="cpu", source=draw.device) if isinstance(span, Tensor) else span
        wide_span = cast(here, dtype=uint64.dtype) if isinstance(here, Tensor) else here
        drawn = cast(below(draw._replace(device="cpu"), wide_span, count), dtype=wide)
        return move(drawn, device=draw.device, source="cpu")
    drawn = cast(words(draw, count), dtype=uint64.dtype)
    digits = [part(drawn, k) for k in range(count)]
    low, high = (span % 2**32, span >> 32) if isinstance(span, int) else two_digits(span)
    products: list[Any] = []
    carry: Any = 0
    for digit in digits:
        product = digit * low + carry
        carry = bitwise_right_shift(product, 32)
        products.append(bitwise_and(product, LOW_WORD))
    out: Any = None
    carry, products = 0, [*products[1:], carry]
    for digit, product in zip(digits, products, strict=True):
        out = digit * high + product + carry
        carry = bitwise_right_shift(out, 32)
    return out


def two_digits(span: Tensor) -> tuple[Tensor, Tensor]:
    return bitwise_and(span, LOW_WORD), bitwise_right_shift(span, 32)
