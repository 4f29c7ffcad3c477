"""What is done to the gradients or values of many parameters at once."""

import math
from collections.abc import Iterable
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from .._core.promotion import is_at_hand
from .._core.tensor import Tensor
from .._foundation.errors import ArgumentError, DTypeError, GradientError, ShapeError
from .._foundation.modes import no_grad
from ..functions._arguments import as_number, check_no_module
from ..functions.creation import zeros
from ..functions.elementwise import astype, clip
from ..functions.hints import missing
from ..functions.shapes import concat, reshape
from ..primitives.elementwise import minimum
from ._hints import LAYER_UTILITIES
from ._operands import widened
from ._total_norm import norm

__all__ = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]
__all__ += ["parameters_to_vector", "vector_to_parameters"]

if not TYPE_CHECKING:  # else every name would be right

    def __getattr__(name: str) -> Any:
        raise missing("module 'adjoint.nn.utils'", name, LAYER_UTILITIES)


@no_grad()
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """Scale gradients so that the norm of all of them together is at most `max_norm`; returns what
    it was.

    >>> x = ad.tensor([0.0, 0.0], requires_grad=True)
    >>> (3 * x[0] + 4 * x[1]).backward()
    >>> ad.nn.utils.clip_grad_norm_([x], max_norm=1.0)
    tensor(5.)
    >>> x.grad
    tensor([0.6, 0.8])
    """
    params = listed("clip_grad_norm_", parameters)
    grads = [p.grad for p in params if p.grad is not None]
    total = total_norm("clip_grad_norm_", grads, norm_type, error_if_nonfinite)
    scale("clip_grad_norm_", params, max_norm, total)
    return total


@no_grad()
def get_total_norm(
    tensors: Tensor | Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """The norm of all elements of all tensors.

    >>> ad.nn.utils.get_total_norm([ad.asarray([3.0]), ad.asarray([[4.0]])])
    tensor(5.)
    """
    given = listed("get_total_norm", tensors)
    return total_norm("get_total_norm", given, norm_type, error_if_nonfinite)


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor
) -> None:
    """Scale gradients, whose norm is known, so that it is at most `max_norm`.

    >>> x = ad.tensor([0.0, 0.0], requires_grad=True)
    >>> (3 * x[0] + 4 * x[1]).backward()
    >>> ad.nn.utils.clip_grads_with_norm_([x], 1.0, ad.asarray(10.0))
    >>> x.grad
    tensor([0.3, 0.4])
    """
    params = listed("clip_grads_with_norm_", parameters)
    scale("clip_grads_with_norm_", params, max_norm, total_norm)


@no_grad()
def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Clip all elements of gradients to ±`clip_value`.

    >>> x = ad.tensor([0.0, 0.0], requires_grad=True)
    >>> (3 * x[0] - 4 * x[1]).backward()
    >>> ad.nn.utils.clip_grad_value_([x], 1.0)
    >>> x.grad
    tensor([ 1., -1.])
    """
    bound = not_negative("clip_grad_value_", "clip_value", clip_value)
    for p in listed("clip_grad_value_", parameters):
        if p.grad is not None:
            p.grad = clip(p.grad, -bound, bound)


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of all parameters in one vector; it carries gradients to them.

    >>> ad.nn.utils.parameters_to_vector([ad.asarray([1.0]), ad.asarray([[2.0, 3.0]])])
    tensor([1., 2., 3.])
    """
    return concat(listed("parameters_to_vector", parameters), axis=None)


@no_grad()
def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Write the elements of one vector into parameters.

    >>> model = ad.nn.Linear(2, 1)
    >>> ad.nn.utils.vector_to_parameters(ad.asarray([1.0, 2.0, 3.0]), model.parameters())
    >>> model.bias
    Parameter(tensor([3.], requires_grad=True))
    """
    params = listed("vector_to_parameters", parameters)
    if not isinstance(vec, Tensor):
        raise DTypeError(f"vector_to_parameters: a tensor is needed, got {type(vec).__name__}")
    ends = list(accumulate((p.size for p in params), initial=0))
    if vec.shape != (ends[-1],):
        raise ShapeError(
            f"vector_to_parameters: the parameters have {ends[-1]} elements, vec has shape "
            f"{vec.shape}"
        )
    for p, start, end in zip(params, ends, ends[1:], strict=False):
        p[...] = reshape(vec[start:end], p.shape)


def listed(function: str, tensors: Any) -> list[Tensor]:
    check_no_module(function, "parameters", tensors)
    if not isinstance(tensors, Iterable):
        raise DTypeError(f"{function}: tensors are needed, got a {type(tensors).__name__}")
    found = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    for x in found:
        if not isinstance(x, Tensor):
            raise DTypeError(f"{function}: tensors are needed, got a {type(x).__name__}")
    return found


def not_negative(function: str, name: str, value: Any) -> float:
    number = as_number(function, name, value)
    if not number >= 0:
        raise ArgumentError(f"{function}: {name}={value} must not be negative")
    return number


def total_norm(function: str, tensors: list[Tensor], norm_type: float, check: bool) -> Tensor:
    power = as_number(function, "norm_type", norm_type)
    if not power > 0:
        raise ArgumentError(f"{function}: norm_type={norm_type} must be above 0")
    device = tensors[0].device if tensors else None
    given = [widened(x).to(device) for x in tensors if x.size]
    total = norm(given, power) if given else zeros((), device=device)
    if check and not math.isfinite(total.item()):
        raise GradientError(
            f"{function}: the norm of all gradients is {total.item()}; with "
            "error_if_nonfinite=False they are scaled all the same"
        )
    return total


def scale(function: str, params: list[Tensor], max_norm: float, total: Tensor) -> None:
    """Multiply gradients by what takes their norm to `max_norm`, if it is larger. Nobody waits for
    a norm that is on another device."""
    factor = minimum(not_negative(function, "max_norm", max_norm) / (total + 1e-6), 1.0)
    if is_at_hand(factor) and factor.item() == 1:
        return
    factors: dict[tuple, Tensor] = {}
    for p in params:
        g = p.grad
        if g is not None:
            kind = g.raw.dtype, g.device
            if kind not in factors:
                factors[kind] = astype(factor.to(g.device), g.dtype)
            p.grad = g * factors[kind]
