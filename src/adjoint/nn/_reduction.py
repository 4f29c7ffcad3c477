"""What losses share: equal shapes, and the three ways to reduce."""

from typing import Any

from .._core.tensor import Tensor
from .._foundation.errors import ArgumentError, ShapeError
from ..functions.reductions import mean, sum
from ._operands import in_common_float


def operands(
    function: str, x: Any, target: Any, reduction: str, *more: str
) -> tuple[Tensor, Tensor]:
    """Float tensors of one dtype and one shape: broadcasting here is nearly always a mistake. The
    reduction, of which there may be more, is checked first."""
    check_reduction(function, reduction, *more)
    first, second = in_common_float(function, x, target)
    if first.shape != second.shape:
        raise ShapeError(
            f"{function}: x has shape {first.shape}, the target {second.shape}; they must be equal "
            "(ad.broadcast_to and ad.reshape make them so)"
        )
    return first, second


def check_reduction(function: str, reduction: str, *more: str) -> None:
    known = ("mean", "sum", "none", *more)
    if reduction not in known:
        names = ", ".join(map(repr, known[:-1]))
        raise ArgumentError(f"{function}: reduction {reduction!r} isn't {names} or {known[-1]!r}")


def reduced(losses: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return losses
    return mean(losses) if reduction == "mean" else sum(losses)
