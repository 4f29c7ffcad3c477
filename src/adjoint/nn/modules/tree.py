"""What a module is made of: attributes that are parameters, buffers and other modules.

There is no register of parameters and submodules: they are the attributes of these types, in the
order in which they were set. Only the names of buffers, which are plain tensors, are kept apart.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..._core.tensor import Tensor, describe
from ..._foundation.changes import Watched, note_change
from ..._foundation.errors import ArgumentError, DTypeError
from .._parameter import Parameter


class Tree(Watched):
    """Attributes that are parameters, buffers and other trees, and stay so; all tensors by path.

    Only modules are trees. What names them in its signature is a method of `Module` itself.
    """

    _buffers: dict[str, bool] = {}  # noqa: RUF012  names, and whether state_dict has them
    _reserved: frozenset[str] = frozenset()  # names that are None, but keep their place

    def __setattr__(self, name: str, value: Any) -> None:
        own = vars(self).get(name)
        if own is value and value is not None:
            return  # as train() does in each epoch
        note_change()
        is_part = isinstance(own, Parameter | Tree)
        if isinstance(value, Parameter) or (isinstance(value, Tree) and not is_part):
            if name in self._buffers:
                self._forget_buffer(name)
            if not is_part and name in vars(self) and name not in self._reserved:
                object.__delattr__(self, name)  # parts are in the order in which they came
        elif is_part or name in self._buffers:
            self._check_replacement(name, own, value)
            if is_part and value is None:
                self._reserve(name)
        elif callable(value) and isinstance(getattr(value, "_function", None), Tree):
            raise DTypeError(
                f"{type(self).__name__}.{name} is a compiled {type(value._function).__name__}, "
                "whose parameters wouldn't be found: set the module itself, and compile the whole, "
                "ad.compile(model), or the training step"
            )
        object.__setattr__(self, name, value)

    def _check_replacement(self, name: str, own: Any, value: Any) -> None:
        """A parameter, module or buffer stays one, or becomes None."""
        if isinstance(own, Tree):
            fits, what, advice = Tree, "module", "assign a module or None"
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

    def __delattr__(self, name: str) -> None:
        note_change()
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

    def _check_name(self, function: str, name: str, alike: Mapping[str, Any]) -> None:
        """`alike`: the attributes that may be replaced."""
        if not isinstance(name, str) or not name or "." in name:
            raise ArgumentError(f"{function}: a name without dots is needed, got {name!r}")
        if hasattr(self, name) and name not in alike and name not in self._reserved:
            raise ArgumentError(
                f"{function}: {type(self).__name__} has an attribute {name!r} already, which is "
                f"{shown(getattr(self, name))}; choose another name"
            )

    def _attributes(self) -> Iterator[tuple[str, Any]]:
        """The attributes that are modules."""
        return (item for item in list(vars(self).items()) if isinstance(item[1], Tree))

    def _own_parameters(self) -> dict[str, Parameter]:
        return {name: p for name, p in vars(self).items() if isinstance(p, Parameter)}

    def _own_buffers(self) -> dict[str, Tensor]:
        values = vars(self)
        return {name: values[name] for name in self._buffers if values[name] is not None}

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their paths; one that is used in several places once, unless
        duplicates are asked for."""
        return self._named(prefix, recurse, remove_duplicate, Tree._own_parameters)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters of this module and all below it, for an optimizer."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their paths."""
        return self._named(prefix, recurse, remove_duplicate, Tree._own_buffers)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers of this module and all below it."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def _named(
        self, prefix: str, recurse: bool, once: bool, tensors: Callable[["Tree"], dict]
    ) -> Iterator[tuple[str, Any]]:
        seen = set()
        for path, module in places(self, prefix) if recurse else [(prefix, self)]:
            for name, tensor in tensors(module).items():
                if not once or id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield joined(path, name), tensor


def places(tree: Tree, prefix: str = "", once: bool = False) -> Iterator[tuple[str, Any]]:
    """A module and all below it with their paths; one that is in several places, in each, or only
    in the first of them if `once`."""
    waiting: list[tuple[str, Any, tuple[int, ...]]] = [(prefix, tree, ())]
    seen: set[int] = set()
    while waiting:
        path, module, above = waiting.pop()
        if once and id(module) in seen:
            continue
        if id(module) in above:
            raise ArgumentError(f"the module at {path!r} contains itself")
        yield path, module
        seen.add(id(module))
        above = (*above, id(module))
        children = module.named_children() if once else module._attributes()
        below = [(joined(path, name), child, above) for name, child in children]
        waiting.extend(reversed(below))


def joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def shown(value: Any) -> str:
    """A value in a message: a tensor by dtype and shape."""
    return describe(value) if isinstance(value, Tensor) else f"a {type(value).__name__}"
