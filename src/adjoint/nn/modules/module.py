"""Module: attributes that are parameters, buffers and other modules, and a function of them."""

import textwrap
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

from ..._core.tensor import Tensor
from ..._foundation.dtypes import DType, float16, float32, float64
from ..._foundation.errors import ArgumentError, DTypeError, KeywordError
from ...functions.creation import zeros_like
from ...functions.hints import missing
from .._hints import MODULES
from .._parameter import Parameter, moved, put
from .calls import Called
from .calls import Hooks as Hooks  # where pickles of 0.1 look for it
from .paths import explained, finite
from .states import Stateful
from .summaries import summarize
from .tree import joined, places, shown

__all__ = ["Module"]


class Module(Stateful, Called):
    """A layer, or a network of layers: subclass it, set parameters and layers as attributes, and
    write `forward`.

    >>> nn = ad.nn
    >>> class Network(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.hidden = nn.Linear(4, 8)
    ...         self.out = nn.Linear(8, 1)
    ...     def forward(self, x):
    ...         return self.out(ad.tanh(self.hidden(x)))
    >>> model = Network()
    >>> model
    Network(
      (hidden): Linear(in_features=4, out_features=8, bias=True)
      (out): Linear(in_features=8, out_features=1, bias=True)
    )
    >>> model(ad.ones((3, 4))).shape
    (3, 1)
    >>> [name for name, _ in model.named_parameters()]
    ['hidden.weight', 'hidden.bias', 'out.weight', 'out.bias']
    """

    on_host: tuple[str, ...] = ()  # buffers that stay in host memory: counters
    call_super_init = False  # whether __init__ calls that of the class after Module in the MRO

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """There is nothing to set up. The chain of `super().__init__()` ends here, so that classes
        which come after Module are initialised by name, with arguments of their own.

        >>> class Scaled:
        ...     def __init__(self, factor):
        ...         self.factor = factor
        >>> class ScaledLinear(ad.nn.Linear, Scaled):
        ...     def __init__(self, width, factor):
        ...         ad.nn.Linear.__init__(self, width, width)
        ...         Scaled.__init__(self, factor)
        >>> ScaledLinear(2, factor=3).factor
        3
        """
        if self.call_super_init:
            super().__init__(*args, **kwargs)
        elif args or kwargs:
            names = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
            raise KeywordError(
                f"{type(self).__name__}: nn.Module's __init__ takes no arguments, got "
                f"{', '.join(names)}; call_super_init = True in the class hands them on"
            )

    if not TYPE_CHECKING:  # else every name would be right

        def __getattr__(self, name: str) -> Any:
            if name in MODULES:
                raise missing(type(self).__name__, name, MODULES)
            return object.__getattribute__(self, name)  # raises what it raised before

    # What it is made of

    def register_module(self, name: str, module: "Module | None") -> None:
        """Set an attribute that is a module, also one whose name isn't an identifier."""
        self._check_name("register_module", name, dict(self._attributes()))
        if not isinstance(module, Module | None):
            raise DTypeError(f"register_module: {name} must be a Module, got {shown(module)}")
        self._reserve(name)
        setattr(self, name, module)

    add_module = register_module

    def named_children(self) -> Iterator[tuple[str, "Module"]]:
        """The modules among the attributes, each once, with their names."""
        seen = set()
        for name, module in self._attributes():
            if id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def children(self) -> Iterator["Module"]:
        """The modules among the attributes."""
        return (module for _, module in self.named_children())

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, "Module"]]:
        """This module, under the name "", and all below it, each once, with their paths.

        >>> model = ad.nn.Sequential(ad.nn.Linear(2, 2), ad.nn.Sequential(ad.nn.ReLU()))
        >>> [name for name, _ in model.named_modules()]
        ['', '0', '1', '1.0']
        """
        return places(self, prefix, once=True)

    def modules(self) -> Iterator["Module"]:
        """This module and all below it."""
        return (module for _, module in self.named_modules())

    def get_submodule(self, target: str) -> "Module":
        """The module at a path, such as "encoder.layers.0"."""
        module = self
        for name in filter(None, target.split(".")):
            child = vars(module).get(name)
            if not isinstance(child, Module):
                names = ", ".join(name for name, _ in module.named_children()) or "none"
                raise ArgumentError(
                    f"get_submodule: there is no {target!r}: {type(module).__name__} has no module "
                    f"{name!r}, its modules are: {names}"
                )
            module = child
        return module

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path, such as "encoder.weight"."""
        return self._found("get_parameter", "parameters", target, Module._own_parameters)

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a path, such as "norm.running_mean"."""
        return self._found("get_buffer", "buffers", target, Module._own_buffers)

    def _found(
        self, function: str, what: str, target: str, tensors: Callable[["Module"], dict]
    ) -> Any:
        path, _, name = target.rpartition(".")
        found = tensors(self.get_submodule(path))
        if name not in found:
            raise ArgumentError(
                f"{function}: there is no {target!r}; the {what} there are: "
                f"{', '.join(found) or 'none'}"
            )
        return found[name]

    # What is done to all of it

    def to(self, device: str | DType | None = None, dtype: DType | None = None) -> Self:
        """Move all parameters and buffers to a device, the floats among them to a dtype; they stay
        the same objects, and this returns the module.

        >>> ad.nn.Linear(2, 1).to(ad.float64).weight.dtype
        adjoint.float64
        """
        if isinstance(device, DType):
            device, dtype = None, device
        if dtype is not None and getattr(dtype, "kind", "") != "float":
            raise DTypeError(f"Module.to: parameters are floats, got dtype {dtype}")
        arrays: list[tuple[Tensor, Any]] = []
        for path, module in self.named_modules():
            for name, tensor in (module._own_parameters() | module._own_buffers()).items():
                where = None if name in module.on_host else device
                with explained(joined(path, name)):
                    arrays += moved(tensor, where, dtype)
        for tensor, array in arrays:  # all of them, or none
            put(tensor, array)
        return self

    def cpu(self) -> Self:
        """Move all parameters and buffers to host memory."""
        return self.to("cpu")

    def float(self) -> Self:
        """Make all floats float32."""
        return self.to(float32)

    def double(self) -> Self:
        """Make all floats float64."""
        return self.to(float64)

    def half(self) -> Self:
        """Make all floats float16."""
        return self.to(float16)

    def train(self, mode: bool = True) -> Self:
        """Switch to training, or away from it: dropout and batch norms act differently.

        Each module calls `train` of those below it, which may be a method of their own.
        """
        if not isinstance(mode, bool):
            raise DTypeError(f"train: mode must be True or False, got {mode!r}")
        self.training = mode
        with finite(self):
            for child in self.children():
                child.train(mode)
        return self

    def eval(self) -> Self:
        """Switch to evaluation: no dropout, running statistics in batch norms.

        >>> ad.nn.Dropout().eval()(ad.ones(2))
        tensor([1., 1.])
        """
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Freeze all parameters with False, or train them again."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or let them be zeros."""
        for parameter in self.parameters():
            keeps = parameter.grad is not None and not set_to_none
            parameter.grad = zeros_like(parameter.grad) if keeps else None

    def apply(self, fn: Callable[["Module"], Any]) -> Self:
        """Call a function with each module, those below first; for initialisation."""
        with finite(self):
            for child in self.children():
                child.apply(fn)
        fn(self)
        return self

    # What people see

    def extra_repr(self) -> str:
        """The settings that repr shows; subclasses define it."""
        return ""

    def __repr__(self) -> str:
        children = [f"({name}): {child!r}" for name, child in self._attributes()]
        name, settings = type(self).__name__, self.extra_repr()
        if not children:
            return f"{name}({settings})"
        inside = "\n".join([settings, *children] if settings else children)
        return f"{name}(\n{textwrap.indent(inside, '  ')}\n)"

    def summary(self, *inputs: Any) -> Any:
        """A table of all layers with their parameters and memory; given inputs, or their shapes,
        also what each layer gives.

        >>> ad.nn.Sequential(ad.nn.Linear(4, 8), ad.nn.Linear(8, 1)).summary((2, 4))
        layer         output         parameters  memory
        Sequential    float32[2, 1]           0     0 B
          0 (Linear)  float32[2, 8]          40   160 B
          1 (Linear)  float32[2, 1]           9    36 B
        49 parameters
        parameters 196 B, buffers 0 B, outputs 72 B
        """
        return summarize(self, inputs)
