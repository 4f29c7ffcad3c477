"""Parameters: the tensors that a module trains."""

from typing import Any

from .._core.tensor import Tensor, journal, new_tensor, restore, share
from .._foundation.changes import note_change
from .._foundation.modes import no_grad
from ..functions.creation import asarray
from ..functions.elementwise import astype


class Parameter(Tensor):
    """A tensor that a module trains: assigned to a module's attribute, it is one of its parameters.

    >>> nn = ad.nn
    >>> class Scale(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = nn.Parameter(ad.ones(2))
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> list(Scale().parameters())
    [Parameter(tensor([1., 1.], requires_grad=True))]
    """

    __slots__ = ()

    def __new__(cls, data: Any, requires_grad: bool = True) -> "Parameter":
        parameter = new_tensor(cls)
        parameter.raw = (share(data) if isinstance(data, Tensor) else asarray(data, copy=True)).raw
        parameter.node = parameter._grad = None
        return parameter.requires_grad_(requires_grad)  # type: ignore[return-value]

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        """All is done by __new__; a tensor isn't made by calling its class otherwise."""

    def __repr__(self) -> str:
        return f"Parameter({super().__repr__()})"

    def __reduce__(self) -> tuple:
        return restored, super().__reduce__()[1]

    def __deepcopy__(self, memo: dict) -> "Parameter":
        copy = Parameter(self, self.requires_grad)  # gradients stay behind, as in PyTorch
        memo[id(self)] = copy
        return copy


def restored(*saved: Any) -> Parameter:
    """The parameter of a pickle, which knows this function as adjoint.nn._restored."""
    plain = restore(*saved)
    return Parameter(plain.detach(), plain.requires_grad)


restored.__module__, restored.__qualname__ = "adjoint.nn", "_restored"


@no_grad()
def moved(own: Tensor, device: str | None, dtype: Any) -> list[tuple[Tensor, Any]]:
    """A tensor and its gradient, each with its array on a device and in a dtype. Integers keep
    theirs."""
    pairs = []
    for held in (own, own._grad):
        if held is not None:
            value = held.detach() if device is None else held.detach().to(device)
            if dtype is not None and value.dtype.kind == "float":
                value = astype(value, dtype, copy=False)
            pairs.append((held, value.raw))
    return pairs


def put(tensor: Tensor, array: Any) -> None:
    """Let a leaf have another array: the object stays, and so do those who hold it, such as
    optimizers."""
    journal(tensor)
    tensor.raw = array
    note_change()
    if tensor.node is not None:
        tensor.node.dtype = array.dtype
