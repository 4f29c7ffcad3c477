"""Modules as functions of their parameters."""

from typing import Any

from ..._core.tensor import Tensor
from ..._foundation.blocks import undoing
from ..._foundation.errors import ArgumentError, DTypeError
from .module import Module
from .tree import joined, places, shown

__all__ = ["functional_call"]

Place = tuple[Module, str]  # where a tensor is: an attribute of a module


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = (),
    kwargs: dict[str, Any] | None = None,
    strict: bool = False,
) -> Any:
    """What a module gives with other tensors in place of its parameters and buffers.

    So `ad.grad`, `ad.vmap`, `ad.jvp` and others work over modules. The tensors are named by their
    paths; the others stay as they are, unless `strict` asks for all of them. One that the module
    has under several names is replaced under all of them. What the module assigns to, such as
    running statistics, is the tensor that it was given; inside `ad.vmap` that is one of its own, so
    outside nothing changes. A module with `ad.checkpoint` in it can't be called so: it would run
    again with its own parameters. `args` is a tuple of arguments, or the only one.

    >>> model, x = ad.nn.Linear(2, 1), ad.asarray([[1.0, 2.0]])
    >>> def loss(parameters):
    ...     return ad.nn.functional_call(model, parameters, (x,)).sum()
    >>> ad.grad(loss)(dict(model.named_parameters()))
    {'weight': tensor([[1., 2.]]), 'bias': tensor([1.])}
    """
    given = args if isinstance(args, tuple) else (args,)
    replaced = by_place(module, parameters_and_buffers, strict)
    former = [(vars(part).__setitem__, name, vars(part)[name]) for (part, name), _ in replaced]
    with undoing(*former):
        for (part, name), tensor in replaced:
            vars(part)[name] = tensor
        return module(*given, **kwargs or {})


def by_place(module: Module, tensors: Any, strict: bool) -> list[tuple[Place, Tensor]]:
    """Where each tensor belongs: also to all places of the one that it replaces."""
    found = places_of(module)
    check(module, found, tensors, strict)
    same: dict[int, list[Place]] = {}
    for part, name in found.values():
        same.setdefault(id(vars(part)[name]), []).append((part, name))
    chosen: dict[int, tuple[str, Tensor]] = {}
    for path, tensor in tensors.items():
        part, name = found[path]
        own = id(vars(part)[name])
        if own in chosen and chosen[own][1] is not tensor:
            raise ArgumentError(
                f"functional_call: {chosen[own][0]} and {path} are one tensor in "
                f"{type(module).__name__}, and can't become two: give one of them"
            )
        chosen[own] = path, tensor
    return [(place, tensor) for own, (_, tensor) in chosen.items() for place in same[own]]


def places_of(module: Module) -> dict[str, Place]:
    """All parameters and buffers by their paths."""
    return {
        joined(path, name): (part, name)
        for path, part in places(module)
        for name in (*part._own_parameters(), *part._own_buffers())
    }


def check(module: Module, found: dict[str, Place], tensors: Any, strict: bool) -> None:
    name = type(module).__name__
    if not isinstance(tensors, dict):
        raise DTypeError(
            "functional_call: a dict of tensors by name is needed, such as "
            f"dict(model.named_parameters()), got {shown(tensors)}"
        )
    unknown = [path for path in tensors if path not in found]
    if unknown:
        raise ArgumentError(
            f"functional_call: {name} has no {', '.join(map(str, unknown))}; it has "
            f"{', '.join(found) or 'no tensors'}"
        )
    for path, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise DTypeError(f"functional_call: {path} must be a tensor, got {shown(tensor)}")
    known = {id(vars(part)[name]) for part, name in map(found.__getitem__, tensors)}
    missing = [path for path, (part, name) in found.items() if id(vars(part)[name]) not in known]
    if strict and missing:
        raise ArgumentError(
            f"functional_call: strict=True needs all tensors of {name}, {', '.join(missing)} "
            "aren't there"
        )
