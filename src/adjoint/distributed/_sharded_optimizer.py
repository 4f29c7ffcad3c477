"""An optimizer whose state is divided among the ranks."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._core.tensor import Tensor, describe, wrap
from .._foundation.dtypes import float64, show
from .._foundation.errors import ArgumentError, DTypeError, TraceError
from .._foundation.modes import is_tracing, no_grad
from ..functions.creation import asarray, full, zeros
from ..functions.elementwise import to_device
from ..functions.shapes import concat, reshape
from ..optim._elementwise import Elementwise
from ..optim._groups import Params, as_groups, as_params
from ..optim._optimizer import Optimizer, run_closure
from ._world import World, init


class Piece(NamedTuple):
    """Elements of a parameter, from `start` to `stop` of it as a row, that this rank updates."""

    p: Tensor
    start: int
    stop: int
    own: Tensor  # what the rank's optimizer takes for a parameter


class ShardedOptimizer(Optimizer):
    """An optimizer of a kind, such as `ad.optim.AdamW`, of whose state each rank has its part.

    A step updates that part of the parameters on each rank, and then all get the whole. Gradients
    are to be alike on all ranks, as `DataParallel` makes them; with `reduces_gradients` they are
    those of the rank alone, as within `no_sync()`, and each rank gets the average of its part only.
    Settings, groups and schedulers are as usual. `state_dict` is that of an ordinary optimizer,
    gathered from all ranks, which all have to call; it can be loaded on any number of ranks.

    >>> model = ad.distributed.DataParallel(ad.nn.Linear(3, 1))
    >>> kind, params = ad.optim.AdamW, model.parameters()
    >>> optimizer = ad.distributed.ShardedOptimizer(kind, params, lr=0.01)
    >>> ad.mean(model(ad.ones((8, 3))) ** 2).backward()
    >>> optimizer.step()
    """

    def __init__(
        self,
        kind: type[Optimizer],
        params: Params,
        *,
        world: World | None = None,
        reduces_gradients: bool = False,
        **settings: Any,
    ) -> None:
        if not (isinstance(kind, type) and issubclass(kind, Elementwise)):
            got = getattr(kind, "__name__", repr(kind))
            raise DTypeError(
                "ShardedOptimizer: it needs a kind of optimizer that updates each element by "
                f"itself, such as ad.optim.AdamW, got {got}"
            )
        self._world = world or init()
        self._reduces = reduces_gradients
        groups = []
        for group in as_groups("ShardedOptimizer", params):
            tensors, names = as_params("ShardedOptimizer", group)
            groups.append(group | {"params": tensors} | ({"param_names": names} if names else {}))
        every = [p for group in groups for p in group["params"]]
        check_alike(self._world, every)
        self._rows: dict[np.dtype, list[Tensor]] = {}  # parameters that are one after the other
        for p in every:
            self._rows.setdefault(p.raw.dtype, []).append(p)
        pieces = [pieces_of(row, self._world) for row in self._rows.values()]
        self._pieces = {piece.p: piece for found in pieces for piece in found}
        self._own = kind([self._own_group(group) for group in groups], **settings)
        super().__init__([named(group) for group in groups], self._own.defaults)
        self._is_ready = True

    _is_ready = False

    def _own_group(self, group: dict[str, Any]) -> dict[str, Any]:
        """A group with this rank's pieces in the place of parameters."""
        own = [self._pieces[p].own for p in group["params"] if p in self._pieces]
        rest = {key: x for key, x in group.items() if key != "param_names"}
        return rest | {"params": own or [zeros((0,), requires_grad=True)]}

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refused: the parts of the ranks are made once."""
        if self._is_ready:
            raise ArgumentError(
                "ShardedOptimizer: groups are given when it is made; make a new one, and load the "
                "state of this one into it"
            )
        super().add_param_group(param_group)

    def _check_settings(self, settings: dict[str, Any]) -> None:
        self._own._check_settings(settings)

    @no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; all ranks make the step together."""
        loss = run_closure(closure)
        if is_tracing():
            raise TraceError(
                "ShardedOptimizer.step: it can't be recorded; compile what computes the gradients, "
                "and make the step after it"
            )
        self._check_dtypes()
        for group, own in zip(self.param_groups, self._own.param_groups, strict=True):
            own.update(self._settings_of(group))
        averaged = {p: p.grad for p in self._all_params if p.grad is not None}
        if self._reduces and self._world.size > 1:
            averaged = self._reduced(averaged)
        for piece in self._pieces.values():
            g = averaged.get(piece.p)
            piece.own.grad = None
            if g is not None and piece.p.requires_grad:
                part = g if g.shape == piece.own.shape else row_of(g)[piece.start : piece.stop]
                piece.own.grad = part.detach()
                piece.own[...] = row_of(piece.p)[piece.start : piece.stop]
        self._own.step()
        for row in self._rows.values():
            changed = {p for p in row if p in averaged and p.requires_grad}
            if changed:
                own = [(self._pieces[p].own, p) for p in row if p in self._pieces]
                parts = {p: x.detach() for x, p in own if p in changed}
                for p, value in self._gathered(row, parts).items():
                    if p in changed:
                        p[...] = value
        return loss

    def _check_dtypes(self) -> None:
        """Raise, on all ranks, if a parameter has become one of another dtype."""
        for dtype, row in self._rows.items():
            for p in row:
                if p.raw.dtype != dtype:
                    raise DTypeError(
                        f"ShardedOptimizer.step: a parameter is {describe(p)}, and was "
                        f"{show(dtype)} when the optimizer was made: make a new one, or cast the "
                        "model before"
                    )

    def _reduced(self, grads: dict[Tensor, Tensor]) -> dict[Tensor, Tensor]:
        """For the parameters that have a gradient on some rank: the average of this rank's piece,
        or what stands for one where it has none."""
        world, found = self._world, {}
        for row in self._rows.values():
            has = world.all_reduce(asarray([float(p in grads) for p in row], device="cpu")).tolist()
            parts = [row_of(grads[p].detach() if p in grads else zeros_of(p)) for p in row]
            mine = world.reduce_scatter(reshape(padded(parts, world.size), (world.size, -1)))
            mine = mine * (1 / world.size)
            start = 0
            for p, count in zip(row, has, strict=True):
                piece = self._pieces.get(p)
                size = piece.stop - piece.start if piece else 0
                if count:
                    found[p] = mine[start : start + size]
                start += size
        return found

    def _gathered(self, row: list[Tensor], parts: dict[Tensor, Tensor]) -> dict[Tensor, Tensor]:
        """Whole arrays for parameters that are one after the other, from all ranks' pieces."""
        world = self._world
        pieces = [self._pieces[p] for p in row if p in self._pieces]
        own = [parts.get(x.p, zeros_of(x.own)) for x in pieces]
        total = sum(p.size for p in row)
        each = -(-total // world.size)
        flat = concat([to_device(x, "cpu") for x in own]) if own else zeros_like_row(row)
        found = reshape(world.all_gather(padded([flat], 1, each)), (-1,))
        out, start = {}, 0
        for p in row:
            value = reshape(found[start : start + p.size], p.shape)
            out[p] = to_device(value, p.device)
            start += p.size
        return out

    # What is remembered.

    @property
    def state(self) -> Any:
        """This rank's memory of its pieces of parameters, to look at."""
        return self._own.state

    def _remembered(self) -> dict[Tensor, dict[str, Any]]:
        own: Any = self._own
        entries = own._remembered()
        mine = {p: entries.get(piece.own, {}) for p, piece in self._pieces.items()}
        counts = [own._counts[own._slots[x.own].place].item() for x in self._pieces.values()]
        steps = dict(zip(self._pieces, counts, strict=True))
        every = self._all_params
        world = self._world
        counted = [steps.get(p, 0.0) for p in every]
        known = world.all_reduce(asarray(counted, dtype=float64, device="cpu"), "max")
        updated = {p: n for p, n in zip(every, known.tolist(), strict=True) if n}
        out: dict[Tensor, dict[str, Any]] = {
            p: {"step": full((), n, dtype=float64, device="cpu")} if own._shows_steps else {}
            for p, n in updated.items()
        }
        for name in own._memory:
            for row in self._rows.values():
                parts = {p: mine[p][name] for p in row if name in mine.get(p, {})}
                has = asarray([float(p in parts) for p in row], device="cpu")
                has = world.all_reduce(has, "max").tolist()
                found = self._gathered(row, parts) if any(has) else {}
                for p, is_there in zip(row, has, strict=True):
                    if is_there and p in out:
                        out[p][name] = found[p]
        return out

    def _check_state(
        self, function: str, params: dict[int, Tensor], settings: dict[int, dict], state: Any
    ) -> None:
        self._own._check_state(function, params, settings, state)

    def _recall(self, settings: list[dict[str, Any]], entries: dict[Any, Any]) -> None:
        by_param = dict(zip(self._all_params, settings, strict=True))
        owners = {piece.own: piece for piece in self._pieces.values()}
        own_settings, own_entries = [], {}
        for group, outer in zip(self._own.param_groups, self.param_groups, strict=True):
            group.update(self._settings_of(outer))
            for x in group["params"]:
                piece = owners.get(x)
                own_settings.append(by_param[piece.p] if piece else self._settings_of(outer))
                if piece and piece.p in entries:
                    own_entries[x] = {
                        name: cut(value, piece) for name, value in entries[piece.p].items()
                    }
        self._own._recall(own_settings, own_entries)


def named(group: dict[str, Any]) -> dict[str, Any]:
    """A group as an optimizer takes it: parameters with their names, if they have some."""
    names = group.get("param_names")
    rest = {key: x for key, x in group.items() if key != "param_names"}
    params = group["params"]
    return rest | {"params": params if names is None else list(zip(names, params, strict=True))}


def check_alike(world: World, params: list[Tensor]) -> None:
    """Raise on all ranks unless they have the same parameters."""
    if world.size > 1:
        kinds = [f"parameter {k}: {show(p.raw.dtype)}{list(p.shape)}" for k, p in enumerate(params)]
        world._link.run(("ShardedOptimizer", *kinds), lambda: None)


def pieces_of(row: list[Tensor], world: World) -> list[Piece]:
    """This rank's pieces of parameters that are one after the other."""
    each = -(-sum(p.size for p in row) // world.size)
    first, last = world.rank * each, (world.rank + 1) * each
    found, begin = [], 0
    for p in row:
        start, stop = max(first - begin, 0), min(last - begin, p.size)
        if not p.size:  # its steps are counted all the same
            start, stop = 0, 0 if world.is_first else -1
        if start < stop or start == stop == p.size:
            own = asarray(row_of(p.detach())[start:stop].numpy(), device=p.device, copy=True)
            found.append(Piece(p, start, stop, own.requires_grad_()))
        begin += p.size
    return found


def row_of(x: Tensor) -> Tensor:
    return reshape(x.detach(), (-1,))


def zeros_of(p: Tensor) -> Tensor:
    return zeros(p.shape, dtype=p.dtype, device=p.device)


def zeros_like_row(row: list[Tensor]) -> Tensor:
    return zeros((0,), dtype=row[0].dtype, device="cpu")


def padded(parts: list[Tensor], count: int, length: int = 0) -> Tensor:
    """Arrays one after the other on the CPU, and zeros up to a length, or a multiple of count."""
    flat = concat([to_device(x, "cpu") for x in parts])
    length = length or -(-flat.size // count) * count
    return concat([flat, zeros((length - flat.size,), dtype=flat.dtype, device="cpu")])


def cut(value: Any, piece: Piece) -> Any:
    """The part of a remembered array that is about a piece; numbers stay."""
    if isinstance(value, Tensor) and value.shape == piece.p.shape and value.ndim:
        return wrap(row_of(value).raw[piece.start : piece.stop])
    return value
