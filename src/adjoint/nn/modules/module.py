"""Module: attributes that are parameters, buffers and other modules, and a function of them.

There is no register of parameters and submodules: they are the attributes of these types, in the
order in which they were set. Only the names of buffers, which are plain tensors, are kept apart.
"""

import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ..._core.node import HookHandle, registered
from ..._core.tensor import Tensor, share
from ..._foundation.dtypes import DType, float16, float32, float64
from ..._foundation.errors import ArgumentError, DTypeError, KeywordError
from ..._foundation.modes import PROFILE, mode
from ...functions import hints
from ...functions.creation import zeros_like
from .._parameter import Parameter, moved, put
from . import paths, states
from .paths import joined, shown

__all__ = ["Module"]


class Hooks(NamedTuple):
    """Functions called before and after `forward`, by the keys of their handles."""

    before: dict[int, Callable]
    after: dict[int, Callable]


class Module:
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

    training = True
    on_host: tuple[str, ...] = ()  # buffers that stay in host memory: counters
    _buffers: dict[str, bool] = {}  # noqa: RUF012  names, and whether state_dict has them
    _reserved: frozenset[str] = frozenset()  # names that are None, but keep their place
    _hooks: Hooks | None = None
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

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; subclasses define it, and calling the module calls it."""
        raise NotImplementedError(f"{type(self).__name__} has no method forward: write one")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if mode.word & PROFILE:
                with paths.timed(self):
                    return self._called(args, kwargs)
            if self._hooks is None:
                return self.forward(*args, **kwargs)
            return self._called(args, kwargs)
        except Exception as error:
            paths.locate(error, self)
            raise

    def _called(self, args: Any, kwargs: dict) -> Any:
        hooks = self._hooks or Hooks({}, {})
        for hook in registered(hooks.before):
            given = hook(self, args)
            if given is not None:
                args = given if isinstance(given, tuple) else (given,)
        out = self.forward(*args, **kwargs)
        for hook in registered(hooks.after):
            other = hook(self, args, out)
            out = out if other is None else other
        return out

    # Attributes

    def __setattr__(self, name: str, value: Any) -> None:
        own = vars(self).get(name)
        is_part = isinstance(own, Parameter | Module)
        if isinstance(value, Parameter) or (isinstance(value, Module) and not is_part):
            if name in self._buffers:
                self._forget_buffer(name)
            if not is_part and name in vars(self) and name not in self._reserved:
                object.__delattr__(self, name)  # parts are in the order in which they came
        elif is_part or name in self._buffers:
            self._check_replacement(name, own, value)
            if is_part and value is None:
                self._reserve(name)
        object.__setattr__(self, name, value)

    def _check_replacement(self, name: str, own: Any, value: Any) -> None:
        """A parameter, module or buffer stays one, or becomes None."""
        if isinstance(own, Module):
            fits, what, advice = Module, "module", "assign a module or None"
        elif isinstance(own, Parameter):
            fits, what = Parameter, "parameter"
            advice = (
                "assign nn.Parameter(value), or change its values under ad.no_grad() with "
                f"{name}[...] = value"
            )
        else:
            fits, what, advice = Tensor, "buffer", "assign a tensor or None"
        if not isinstance(value, fits | None):
            raise DTypeError(
                f"{type(self).__name__}.{name} is a {what}, and can't become {shown(value)}: "
                f"{advice}"
            )

    if not TYPE_CHECKING:  # else every name would be right

        def __getattr__(self, name: str) -> Any:
            if name in hints.MODULES:
                raise hints.missing(type(self).__name__, name, hints.MODULES)
            return object.__getattribute__(self, name)  # raises what it raised before

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        if name in self._buffers:
            self._forget_buffer(name)

    def _forget_buffer(self, name: str) -> None:
        rest = {other: kept for other, kept in self._buffers.items() if other != name}
        object.__setattr__(self, "_buffers", rest)

    def _reserve(self, name: str) -> None:
        object.__setattr__(self, "_reserved", self._reserved | {name})

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Set an attribute that is a parameter, or None: there could be one, but there isn't."""
        self._check_name("register_parameter", name, self._own_parameters())
        if not isinstance(param, Parameter | None):
            raise DTypeError(f"register_parameter: {name} must be a Parameter, got {shown(param)}")
        self._reserve(name)
        setattr(self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Set an attribute that belongs to the state, but isn't trained; unless it is persistent,
        `state_dict` leaves it out.

        >>> layer = ad.nn.Module()
        >>> layer.register_buffer("mean", ad.zeros(2))
        >>> layer.state_dict()
        {'mean': tensor([0., 0.])}
        """
        self._check_name("register_buffer", name, self._buffers)
        if not isinstance(tensor, Tensor | None):
            raise DTypeError(f"register_buffer: {name} must be a tensor, got {shown(tensor)}")
        if isinstance(tensor, Parameter):
            raise DTypeError(f"register_buffer: {name} is a parameter: set it as an attribute")
        object.__setattr__(self, "_buffers", {**self._buffers, name: persistent})
        setattr(self, name, tensor)

    def register_module(self, name: str, module: "Module | None") -> None:
        """Set an attribute that is a module, also one whose name isn't an identifier."""
        self._check_name("register_module", name, dict(self._attributes()))
        if not isinstance(module, Module | None):
            raise DTypeError(f"register_module: {name} must be a Module, got {shown(module)}")
        self._reserve(name)
        setattr(self, name, module)

    add_module = register_module

    def _check_name(self, function: str, name: str, alike: Mapping[str, Any]) -> None:
        """`alike`: the attributes that may be replaced."""
        if not isinstance(name, str) or not name or "." in name:
            raise ArgumentError(f"{function}: a name without dots is needed, got {name!r}")
        if hasattr(self, name) and name not in alike and name not in self._reserved:
            raise ArgumentError(
                f"{function}: {type(self).__name__} has an attribute {name!r} already, which is "
                f"{shown(getattr(self, name))}; choose another name"
            )

    # What it is made of

    def _attributes(self) -> Iterator[tuple[str, "Module"]]:
        """The attributes that are modules."""
        return (item for item in list(vars(self).items()) if isinstance(item[1], Module))

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
        seen = set()
        waiting: list[tuple[str, Module]] = [(prefix, self)]
        while waiting:
            path, module = waiting.pop()
            if id(module) not in seen:
                seen.add(id(module))
                yield path, module
                below = [(joined(path, name), child) for name, child in module.named_children()]
                waiting.extend(reversed(below))

    def modules(self) -> Iterator["Module"]:
        """This module and all below it."""
        return (module for _, module in self.named_modules())

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their paths; one that is used in several places once, unless
        duplicates are asked for."""
        return self._named(prefix, recurse, remove_duplicate, Module._own_parameters)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters of this module and all below it, for an optimizer."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their paths."""
        return self._named(prefix, recurse, remove_duplicate, Module._own_buffers)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers of this module and all below it."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def _named(
        self, prefix: str, recurse: bool, once: bool, own: Callable[["Module"], dict]
    ) -> Iterator[tuple[str, Any]]:
        seen = set()
        places = paths.places(self, prefix) if recurse else [(prefix, self)]
        for path, module in places:
            for name, tensor in own(module).items():
                if not once or id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield joined(path, name), tensor

    def _own_parameters(self) -> dict[str, Parameter]:
        return {name: p for name, p in vars(self).items() if isinstance(p, Parameter)}

    def _own_buffers(self) -> dict[str, Tensor]:
        values = vars(self)
        return {name: values[name] for name in self._buffers if values[name] is not None}

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

    def _found(self, function: str, what: str, target: str, own: Callable[["Module"], dict]) -> Any:
        path, _, name = target.rpartition(".")
        found = own(self.get_submodule(path))
        if name not in found:
            raise ArgumentError(
                f"{function}: there is no {target!r}; the {what} there are: "
                f"{', '.join(found) or 'none'}"
            )
        return found[name]

    # State

    def state_dict(self, prefix: str = "") -> dict[str, Tensor]:
        """The values of all parameters and persistent buffers by path: later training doesn't
        change them.

        >>> ad.nn.Linear(2, 1, bias=False).state_dict()
        {'weight': tensor([[..., ...]])}
        """
        state: dict[str, Tensor] = {}
        self._save_to_state_dict(state, prefix, False)
        with paths.finite(self):
            for name, child in self._attributes():
                state |= child.state_dict(prefix=f"{prefix}{name}.")
        return state

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        """Put the module's own values into a state; as in PyTorch, subclasses may change it."""
        for name, tensor in states.named(self).items():
            destination[prefix + name] = tensor if keep_vars else share(tensor)

    def load_state_dict(
        self, state_dict: dict[str, Any], strict: bool = True
    ) -> states.IncompatibleKeys:
        """Take the values of a `state_dict`, or of a file: `model.load_state_dict(ad.load(path))`.

        Unless `strict`, names that only one side has are left alone, and returned. Nothing changes
        if there is an error.

        >>> model, other = ad.nn.Linear(2, 1), ad.nn.Linear(2, 1)
        >>> model.load_state_dict(other.state_dict())
        <All keys matched successfully>
        """
        return states.load(self, state_dict, strict)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Find the module's own values in a state; as in PyTorch, subclasses may rename or change
        them first. They are written when all modules have found theirs."""
        found = missing_keys, unexpected_keys, error_msgs, local_metadata["pairs"]
        states.match_own(self, state_dict, prefix, states.Matches(*found))

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
                with paths.explained(joined(path, name)):
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
        with paths.finite(self):
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
        with paths.finite(self):
            for child in self.children():
                child.apply(fn)
        fn(self)
        return self

    # Hooks

    def register_forward_pre_hook(self, hook: Callable) -> HookHandle:
        """Call `hook(module, args)` before `forward`; what it returns, unless None, replaces the
        arguments."""
        return HookHandle(self._own_hooks().before, hook)

    def register_forward_hook(self, hook: Callable) -> HookHandle:
        """Call `hook(module, args, output)` after `forward`; what it returns, unless None, replaces
        the output.

        >>> layer = ad.nn.ReLU()
        >>> handle = layer.register_forward_hook(lambda module, args, out: out * 10)
        >>> layer(ad.asarray([-1.0, 2.0]))
        tensor([ 0., 20.])
        >>> handle.remove()
        """
        return HookHandle(self._own_hooks().after, hook)

    def _own_hooks(self) -> Hooks:
        if self._hooks is None:
            object.__setattr__(self, "_hooks", Hooks({}, {}))
        return self._hooks  # type: ignore[return-value]

    def _drop_empty_hooks(self) -> None:
        """Let calls be as fast as those of a module that never had hooks."""
        if self._hooks is not None and not any(self._hooks):
            object.__setattr__(self, "_hooks", None)

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
        from .summaries import summarized

        return summarized(self, inputs)
