"""Tensor: a raw array, the node that made it, and its gradient. Flat: no tensor in a tensor.

A tensor is a value. Assigning into one never changes another, although raw arrays are shared
freely: a write copies first unless nobody else can reach the memory.
"""

import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import backends
from .._foundation.changes import note_change
from .._foundation.dtypes import FROM_NUMPY, DType, canonical, show
from .._foundation.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    GradientError,
    ShapeError,
    TraceError,
)
from .._foundation.modes import TRACE, mode
from .node import HookHandle, Leaf, Node, extra

__all__ = ["Tensor"]

# What copies a tensor that was computed.
COPIES = "x.copy(), or x.detach() to leave its graph behind"


class Tensor:
    """An n-dimensional array that can be differentiated. Make one with `ad.tensor`."""

    __slots__ = ("__weakref__", "_grad", "node", "raw")

    raw: Any  # the array, of a backend
    node: Node | None
    _grad: "Tensor | None"

    if TYPE_CHECKING:  # operators and methods are bound where the functions are: functions/methods

        def _with(self, other: Any, /) -> "Tensor": ...
        def _alone(self) -> "Tensor": ...

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _with
        __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _with
        __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _with
        __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _with
        __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _with
        __lt__ = __le__ = __gt__ = __ge__ = _with
        __iadd__ = __isub__ = __imul__ = __itruediv__ = _with
        __pos__ = __neg__ = __abs__ = __invert__ = _alone
        __array_ufunc__: Callable[..., Any]
        __array_function__: Callable[..., Any]
        __dlpack__: Callable[..., Any]
        __dlpack_device__: Callable[[], tuple[int, int]]
        __array_namespace__: Callable[..., Any]
        data: "Tensor"
        __getitem__: Callable[[Any], "Tensor"]
        __setitem__: Callable[[Any, Any], None]

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise DTypeError("ad.Tensor isn't called: make a tensor with ad.tensor or ad.asarray")

    __hash__ = object.__hash__

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self.raw.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.raw.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.raw.size

    @property
    def nbytes(self) -> int:
        """The bytes that the elements take."""
        return self.raw.size * self.raw.dtype.itemsize

    @property
    def dtype(self) -> DType:
        """The data type of the elements."""
        return FROM_NUMPY[self.raw.dtype]

    @property
    def device(self) -> str:
        """Where the elements are, such as "cpu"."""
        return self.raw.device

    # Gradients

    @property
    def requires_grad(self) -> bool:
        """Whether ops on this tensor are recorded for gradients."""
        return self.node is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor was not computed from one that requires grad."""
        return self.node is None or self.node.plan is None

    def requires_grad_(self, requires_grad: bool = True) -> "Tensor":
        """Ask for gradients with respect to this tensor, or stop asking; returns the tensor."""
        if not self.is_leaf:
            raise GradientError(
                "requires_grad can only be changed on leaves; this tensor was computed by "
                f"{self.node.name}: use x.detach().requires_grad_()"  # type: ignore[union-attr]
            )
        if requires_grad and self.raw.dtype.kind != "f":
            raise DTypeError(
                f"only float tensors can require grad, this one is {show(self.raw.dtype)}; "
                "cast it first: ad.astype(x, ad.float32)"
            )
        if requires_grad != self.requires_grad:
            journal(self)
            note_change()
            self.node = Leaf(self) if requires_grad else None
        return self

    @property
    def grad(self) -> "Tensor | None":
        """The gradient that `backward` has accumulated here, or None."""
        if mode.word & TRACE:
            mode.trace.read_grad(self)
        return self._grad

    @grad.setter
    def grad(self, value: "Tensor | None") -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise DTypeError(f"grad: a tensor or None is needed, got {type(value).__name__}")
            check_like("grad", self, value)
        if mode.word & TRACE:
            mode.trace.journal_grad(self)
        self._grad = value

    def detach(self) -> "Tensor":
        """The same values, without a graph."""
        return share(self)

    def _owner(self) -> "Tensor":
        """The tensor whose values these are: itself, unless this is what `.data` gave."""
        return self

    def _value(self) -> "Tensor":
        """A tensor that isn't a name of another one: itself, unless this is what `.data` gave."""
        return self

    def retain_grad(self) -> None:
        """Have `backward` keep this tensor's gradient in `.grad` although it isn't a leaf."""
        node = self._recorded("retain_grad")
        if node.plan is not None and not is_from_before(node):
            extra(node).retains = weakref.ref(self)

    def register_hook(self, hook: Callable[["Tensor"], "Tensor | None"]) -> HookHandle:
        """Call `hook` with the total gradient of this tensor, in every backward through it.

        What it returns, unless None, replaces the gradient. Transforms such as `ad.grad` don't call
        hooks.

        >>> x = ad.tensor(3.0, requires_grad=True)
        >>> handle = x.register_hook(lambda g: g * 10)
        >>> (x * x).backward()
        >>> x.grad
        tensor(60.)
        """
        check_callable("register_hook", hook)
        node = self._recorded("register_hook")
        return register(extra(node).hooks, node, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[["Tensor"], None]) -> HookHandle:
        """Call `hook` with this leaf once per backward, after its `.grad` has been set."""
        check_callable("register_post_accumulate_grad_hook", hook)
        node = self._recorded("register_post_accumulate_grad_hook")
        if node.plan is not None:
            raise GradientError(
                f"register_post_accumulate_grad_hook: only for leaves, this tensor is computed by "
                f"{node.name}; use register_hook"
            )
        return register(extra(node).post_hooks, node, hook)

    def _recorded(self, function: str) -> Node:
        if self.node is None:
            raise GradientError(
                f"{function}: this tensor doesn't require grad, so it never gets a gradient; "
                "call x.requires_grad_() first"
            )
        return self.node

    # Values

    def numpy(self) -> np.ndarray:
        """The values as a read-only NumPy array, without a copy.

        >>> ad.asarray([1, 2]).numpy()
        array([1, 2])
        """
        if self.node is not None:
            raise GradientError(
                "numpy: this tensor requires grad, and NumPy would lose its graph; "
                "use x.detach().numpy()"
            )
        return self._host("numpy")

    def _host(self, function: str) -> np.ndarray:
        """A read-only view of the values in host memory."""
        module = backends.LOADED.get(type(self.raw))
        if module is None:
            raise TraceError(
                f"{function}: the values of a traced tensor aren't known while ad.trace, ad.vmap "
                f"or ad.compile runs its function, only shape {self.shape} and dtype {self.dtype}; "
                "use ad.where instead of `if`, and return what you want to look at"
            )
        if mode.trace is not None:
            mode.trace.note_value(self, function)
        view = module.to_numpy(self.raw).view()
        view.flags.writeable = False
        return view

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        view = self.numpy()
        if copy is False and dtype is not None and np.dtype(dtype) != view.dtype:
            raise ArgumentError(f"__array__: {self.dtype} to {dtype} needs a copy")
        return view if dtype is None and not copy else np.array(view, dtype)

    def item(self) -> Any:
        """The only element, as a Python number."""
        if self.size != 1:
            raise ShapeError(
                f"item: one element is needed, shape is {self.shape}; use x.tolist() for many"
            )
        return self._host("item").item()

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and self.size == 1 else format(str(self), spec)

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers."""
        return self._host("tolist").tolist()

    def __bool__(self) -> bool:
        return bool(self._single("bool"))

    def __float__(self) -> float:
        return float(self._single("float"))

    def __int__(self) -> int:
        return int(self._single("int"))

    def __complex__(self) -> complex:
        return complex(self._single("complex"))

    def __index__(self) -> int:
        value = self._single("index")
        if type(value) is not int:
            raise DTypeError(f"an index must be an integer, this tensor is {self.dtype}")
        return value

    def _single(self, function: str) -> Any:
        if self.size != 1:
            raise ShapeError(
                f"{function}() of a tensor of shape {self.shape} is ambiguous: it needs exactly "
                "one element; use ad.any(x), ad.all(x), or x.item() on an element"
            )
        return self._host(function).item()

    def __len__(self) -> int:
        if not self.shape:
            raise DTypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self) -> "Iterator[Tensor]":
        if not self.shape:
            raise DTypeError("a 0-d tensor can't be iterated over")
        return (self[k] for k in range(self.shape[0]))

    def __repr__(self) -> str:
        module = backends.LOADED.get(type(self.raw))
        if module is None:
            return f"tensor(traced, {describe(self)})"
        if mode.trace is not None:
            mode.trace.note_value(self, "repr")
        values = np.array2string(
            module.to_numpy(self.raw), precision=4, separator=", ", prefix="tensor("
        )
        notes = [values]
        if not self.size and self.ndim != 1:
            notes.append(f"shape={self.shape}")
        if self.dtype.name not in ("float32", "int64", "bool"):
            notes.append(f"dtype={self.dtype!r}")
        if self.device != "cpu":
            notes.append(f"device={self.device!r}")
        if self.node is not None:
            notes.append("requires_grad=True" if self.is_leaf else f"grad_fn=<{self.node.name}>")
        return f"tensor({', '.join(notes)})"

    # Copies

    def __reduce__(self) -> tuple:
        self._only_leaves("pickle", "x.detach()")
        saved = self._host("pickle").copy(), self.requires_grad, self.device
        return restore, saved

    def __copy__(self) -> "Tensor":
        self._only_leaves(
            "copy", COPIES
        )  # tensors are values: a copy shares nothing that can change
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: dict) -> "Tensor":
        self._only_leaves("deepcopy", COPIES)
        copy = share(self).requires_grad_(self.requires_grad)
        copy._grad = None if self._grad is None else share(self._grad)
        memo[id(self)] = copy
        return copy

    def _only_leaves(self, function: str, instead: str) -> None:
        if not self.is_leaf:
            raise GradientError(
                f"{function}: only leaves can be copied with their gradient settings; this tensor "
                f"was computed by {self.node.name}: "  # type: ignore[union-attr]
                f"use {instead}"
            )


new_tensor = Tensor.__new__


def wrap(data: Any, node: Node | None = None) -> Tensor:
    """A tensor around a raw array."""
    tensor = new_tensor(Tensor)
    tensor.raw = data
    tensor.node = node
    tensor._grad = None
    return tensor


def share(tensor: Tensor) -> Tensor:
    """Another tensor with the same values: tensors are values, so the memory can be the same."""
    return mode.trace.share(tensor) if mode.word & TRACE else wrap(tensor.raw)


def check_like(function: str, tensor: Tensor, value: Tensor, what: str = "gradient") -> None:
    """A gradient, or what else goes with a tensor, has its shape, dtype and device."""
    given, own = value.raw, tensor.raw
    if given.shape != own.shape or given.dtype != own.dtype:
        error, kind = (ShapeError, "shape") if given.shape != own.shape else (DTypeError, "dtype")
        raise error(
            f"{function}: the {what} is {describe(value)}, the tensor {describe(tensor)}; "
            f"their {kind}s must be equal"
        )
    if given.device != own.device:
        raise DeviceError(
            f"{function}: the {what} is on {value.device}, the tensor on {tensor.device}"
        )


def restore(array: np.ndarray, requires_grad: bool, device: str) -> Tensor:
    """The tensor of a pickle, which knows this function as adjoint._restore."""
    data = backends.backend(device).from_numpy(canonical(array))
    return wrap(data).requires_grad_(requires_grad)


restore.__module__, restore.__qualname__ = "adjoint", "_restore"


def check_callable(function: str, hook: Any) -> None:
    if not callable(hook):
        raise DTypeError(f"{function}: a function is needed, got {type(hook).__name__}")


def is_from_before(node: Node) -> bool:
    """Whether a checkpoint's function runs again, and had this node already at its first run."""
    return mode.recomputing is not None and node.order > mode.recomputing.start


def register(hooks: dict[int, Callable], node: Node, hook: Callable) -> HookHandle:
    """Register a hook. What a checkpoint's function registers again for a tensor from outside stays
    only while it runs: it is there since the first run."""
    handle = HookHandle(hooks, hook)
    if mode.word & TRACE:
        mode.trace.note_hook(handle, node)
    if is_from_before(node):
        mode.recomputing.calls_at_end.append((hooks.pop, handle._key, None))
    return handle


def journal(tensor: Tensor) -> None:
    """Tell the trace under way, if any, that `tensor` is about to change."""
    if mode.word & TRACE:
        mode.trace.journal(tensor)


def describe(tensor: Tensor) -> str:
    """dtype and shape, as in float32[2, 3]."""
    return f"{tensor.dtype.name}{list(tensor.shape)}"
