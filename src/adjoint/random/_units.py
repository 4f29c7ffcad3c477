"""From random words to numbers between 0 and 1."""

from typing import NamedTuple

from .._core.tensor import Tensor
from ..primitives.conversions import cast
from ..primitives.creation import random_bits
from ..primitives.elementwise import bitwise_invert, bitwise_right_shift, log, log1p, where
from ..primitives.shapes import slice_
from ._parameters import Draw

# Random bits that a float dtype can hold: uniform numbers are multiples of 2 ** -bits.
PRECISION = {"float16": 11, "float32": 24, "float64": 53}


def words(draw: Draw, *leading: int) -> Tensor:
    """Random 32-bit words, of the draw's shape with axes before it."""
    shape = (*leading, *draw.shape)
    return draw.generator.draw(random_bits, shape=shape, device=draw.device)


def part(x: Tensor, k: int) -> Tensor:
    return slice_(x, index=(k,))


def unit(draw: Draw) -> Tensor:
    """Multiples of 2 ** -precision in [0, 1)."""
    precision = PRECISION[draw.dtype.name]
    if precision <= 32:
        return cast(bitwise_right_shift(words(draw), 32 - precision), dtype=draw.dtype) * (
            2.0**-precision
        )
    both = words(draw, 2)
    high = cast(bitwise_right_shift(part(both, 0), 5), dtype=draw.dtype)
    low = cast(bitwise_right_shift(part(both, 1), 6), dtype=draw.dtype)
    return (high * 2.0**26 + low) * 2.0**-precision


class Fraction(NamedTuple):
    """A number strictly between 0 and 1, by its distance from the nearer end: tails keep digits."""

    distance: Tensor  # at most 1/2
    upper: Tensor  # whether it is the distance from 1

    @property
    def log(self) -> Tensor:
        """The logarithm of the number."""
        return where(self.upper, log1p(-self.distance), log(self.distance))

    @property
    def log_rest(self) -> Tensor:
        """The logarithm of 1 less the number."""
        return where(self.upper, log(self.distance), log1p(-self.distance))

    def mirrored(self, lower_half: Tensor) -> Tensor:
        """An odd function around 1/2, from its values in the lower half."""
        return where(self.upper, -lower_half, lower_half)


def fraction(draw: Draw) -> Fraction:
    """Numbers spread evenly between 0 and 1: odd multiples of 2 ** -33, or in float64 2 ** -65."""
    if PRECISION[draw.dtype.name] <= 32:
        word = words(draw)
        upper = word >= 2**31
        folded = cast(where(upper, bitwise_invert(word), word), dtype=draw.dtype)
        return Fraction((folded + 0.5) * 2.0**-32, upper)
    both = words(draw, 2)
    upper = part(both, 0) >= 2**31
    folded = cast(where(upper, bitwise_invert(both), both), dtype=draw.dtype)
    return Fraction((part(folded, 0) + (part(folded, 1) + 0.5) * 2.0**-32) * 2.0**-32, upper)
