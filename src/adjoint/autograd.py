"""Ask the engine for gradients: `backward`, `gradients`, `autograd.grad`.

All three take `workers=n`: up to n threads run independent parts of the graph at once. The result
is that of one, bit for bit. Small graphs, recorded gradients (`create_graph`), traces and devices
with a single queue are run by one thread all the same. Hooks may run in any of the threads.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ._core.node import Argument, Exchanging, Extra, Node, call_hook, registered
from ._core.tensor import Tensor, check_callable, check_like, describe, share, wrap
from ._engine.graph_walks import leading_to, reachable
from ._foundation.errors import ArgumentError, DTypeError, GradientError, ShapeError
from ._foundation.thread_limits import DefaultWorkers, checked_threads
from .primitives.creation import full
from .primitives.elementwise import add

__all__ = ["Gradients", "backward", "get_default_workers", "grad", "gradients"]
__all__ += ["set_default_workers"]

LeafCallback = Callable[[Tensor, Tensor], Any]

# Several threads may run backward at once on graphs that share leaves.
accumulation = threading.Lock()


def unlock() -> None:
    """A forked child has no thread that could release the lock, if it was taken."""
    global accumulation
    accumulation = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=unlock)


def propagate(*args: Any, **kwargs: Any) -> None:
    """Send gradients from seeds towards leaves, by the engine, which the first pass loads."""
    from ._engine import propagation

    globals()["propagate"] = propagation.propagate
    propagation.propagate(*args, **kwargs)


def set_default_workers(n: int) -> None:
    """Let backward passes use up to n threads, unless they say otherwise by `workers=`.

    >>> ad.set_default_workers(2)
    >>> ad.get_default_workers()
    2
    >>> ad.set_default_workers(1)
    """
    DefaultWorkers.count = checked_workers("set_default_workers", 0 if n is None else n) or 1


def get_default_workers() -> int:
    """How many threads a backward pass may use, unless it says otherwise by `workers=`.

    >>> ad.get_default_workers()
    1
    """
    return DefaultWorkers.count


def checked_workers(function: str, workers: int | None) -> int | None:
    return None if workers is None else checked_threads(workers, f"{function}: workers")


def backward(
    tensor: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    *,
    on_leaf_grad: LeafCallback | None = None,
    workers: int | None = None,
) -> None:
    """Add the gradient of `tensor` to the `.grad` of every leaf that it depends on.

    `gradient`: the gradient with respect to `tensor` itself; needed unless that is a single number.
    `retain_graph`: keep the graph for another backward. `create_graph`: make the gradients
    differentiable. `on_leaf_grad(leaf, grad)` is called as soon as a leaf's gradient is complete.
    `workers`: how many threads may run independent parts at once.

    >>> x = ad.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """
    root = seed("backward", tensor, gradient, create_graph)
    check_callback("backward", on_leaf_grad)
    reached: list[Node] = []
    exchanged: list[tuple[Tensor, Extra]] = []

    def leaf(node: Node, g: Any) -> None:
        reached.append(node)
        g = own(g)
        owner = node.tensor()  # type: ignore[attr-defined]
        if owner is None:
            return
        accumulate(owner, g)
        extra = node.extra
        if extra is not None:
            if extra.exchange is not None and extra.exchange.is_on:
                extra.exchange.add(owner)
                exchanged.append((owner, extra))
            else:
                call_post_hooks(owner, extra)
        if on_leaf_grad is not None:
            call_hook(on_leaf_grad, owner, g)

    try:
        propagate(
            [root],
            leaf,
            create_graph=create_graph,
            retain_graph=create_graph if retain_graph is None else retain_graph,
            retain=accumulate,
            early=on_leaf_grad is not None or Exchanging.has_begun,
            workers=checked_workers("backward", workers),
        )
    except BaseException:
        for _, extra in exchanged:
            extra.exchange.cancel()
        raise
    if exchanged:
        finish_exchanges(exchanged)
    check_reached("backward", reached)


def call_post_hooks(owner: Tensor, extra: Extra) -> None:
    for hook in registered(extra.post_hooks):
        call_hook(hook, owner)


def finish_exchanges(exchanged: list[tuple[Tensor, Extra]]) -> None:
    """Let gradients be the averages that exchanges make, and call hooks with these."""
    for exchange in dict.fromkeys(extra.exchange for _, extra in exchanged):
        exchange.finish()
    for owner, extra in exchanged:
        call_post_hooks(owner, extra)


def check_reached(function: str, leaves: list[Node]) -> None:
    """Gradients of nothing but a transform's arguments would be lost without a word."""
    transforms = [x.transform for x in leaves if isinstance(x, Argument)]
    if transforms and len(transforms) == len(leaves):
        name = transforms[0]
        raise GradientError(
            f"{function}: this tensor was computed in a function under ad.{name}, and of what it "
            f"depends on only the function's arguments require grad; they have no .grad, since "
            f"ad.{name} returns their gradients; for others use ad.grad or ad.autograd.grad in the "
            "function, and has_aux=True to return more"
        )


def accumulate(tensor: Tensor, g: Tensor) -> None:
    """Add a gradient to a tensor's `.grad`."""
    with accumulation:
        former = tensor.grad
        tensor.grad = g if former is None else add(former, g)


class Gradients(Mapping[Tensor, Tensor]):
    """Gradients by tensor: `grads[x]`; a tensor that nothing depends on has no entry."""

    def __init__(self, tensors: list[Tensor], grads: dict[Node, Tensor]) -> None:
        self._tensors = [x for x in tensors if x.node in grads]
        self._grads = grads

    def __getitem__(self, tensor: Tensor) -> Tensor:
        if not isinstance(tensor, Tensor) or tensor.node not in self._grads:
            raise KeyError("no gradient for this tensor: the root doesn't depend on it")
        return self._grads[tensor.node]

    def __contains__(self, tensor: object) -> bool:
        return isinstance(tensor, Tensor) and tensor.node in self._grads

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        return f"Gradients({', '.join(describe(x) for x in self)})"


def gradients(
    loss: Tensor,
    gradient: Tensor | None = None,
    *,
    of: Tensor | Sequence[Tensor] = (),
    retain_graph: bool | None = None,
    create_graph: bool = False,
    on_leaf_grad: LeafCallback | None = None,
    workers: int | None = None,
) -> Gradients:
    """The gradients of `loss` by tensor, for all leaves, `loss` itself and those named in `of`.

    No `.grad` is touched. A tensor that `loss` doesn't depend on has no entry.

    >>> x = ad.tensor(3.0, requires_grad=True)
    >>> y = x * x
    >>> grads = ad.gradients(y * 2, of=[y])
    >>> grads[x], grads[y]
    (tensor(12.), tensor(2.))
    """
    root = seed("gradients", loss, gradient, create_graph)
    named = list(dict.fromkeys([loss, *as_tensors("gradients", "of", of)]))
    check_callback("gradients", on_leaf_grad)
    grads: dict[Node, Tensor] = {}
    found: list[tuple[int, Tensor]] = []

    def keep(node: Node, g: Any) -> None:
        grads[node] = own(g)

    def leaf(node: Node, g: Any) -> None:
        keep(node, g)
        owner = node.tensor()  # type: ignore[attr-defined]
        if owner is not None:
            found.append((node.order, owner))
            if on_leaf_grad is not None:
                call_hook(on_leaf_grad, owner, grads[node])

    propagate(
        [root],
        leaf,
        create_graph=create_graph,
        retain_graph=create_graph if retain_graph is None else retain_graph,
        watch=frozenset(x.node for x in named if x.node is not None),
        watched=keep,
        early=on_leaf_grad is not None,
        workers=checked_workers("gradients", workers),
    )
    if named == [loss]:
        check_reached("gradients", [node for node in grads if node.plan is None])
    found.sort(key=lambda pair: pair[0])  # threads may have come in another order
    return Gradients([*(x for _, x in found), *(x for x in named if not x.is_leaf)], grads)


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    create_graph: bool = False,
    retain_graph: bool | None = None,
    allow_unused: bool = False,
    *,
    workers: int | None = None,
) -> tuple[Tensor | None, ...]:
    """The gradients of the sum of `outputs` with respect to `inputs`; only what leads there is run.

    >>> x = ad.tensor(2.0, requires_grad=True)
    >>> ad.autograd.grad(x**3, x)
    (tensor(12.),)
    """
    roots = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    wanted = as_tensors("autograd.grad", "inputs", inputs)
    if grad_outputs is None or isinstance(grad_outputs, Tensor):
        given: list[Tensor | None] = [grad_outputs]
        given *= len(roots) if grad_outputs is None else 1
    else:
        given = list(grad_outputs)
    if len(given) != len(roots):
        raise ArgumentError(f"autograd.grad: {len(roots)} outputs, but {len(given)} grad_outputs")
    for position, x in enumerate(wanted):
        if x.node is None:
            raise GradientError(
                f"autograd.grad: inputs[{position}] ({describe(x)}) doesn't require grad, so it "
                "has no gradient; call x.requires_grad_() before it is used"
            )
    seeds = [
        seed("autograd.grad", root, g, create_graph) for root, g in zip(roots, given, strict=True)
    ]
    grads: dict[Node, Any] = {}
    nodes = reachable([node for node, _ in seeds])
    targets = frozenset(x.node for x in wanted if x.node is not None)
    propagate(
        seeds,
        lambda node, g: None,
        create_graph=create_graph,
        retain_graph=create_graph if retain_graph is None else retain_graph,
        watch=targets,
        watched=grads.__setitem__,
        only=leading_to(nodes, targets),
        workers=checked_workers("autograd.grad", workers),
    )
    return tuple(
        found_or_none(x, position, grads, allow_unused) for position, x in enumerate(wanted)
    )


def as_tensors(function: str, argument: str, given: Any) -> list[Tensor]:
    """One tensor, or several, as a list."""
    if isinstance(given, Tensor):
        return [given]
    for position, x in enumerate(given := list(given)):
        if not isinstance(x, Tensor):
            kind = type(x).__name__
            raise DTypeError(f"{function}: {argument}[{position}] is a {kind}, not a tensor")
    return given


def check_callback(function: str, on_leaf_grad: Any) -> None:
    if on_leaf_grad is not None:
        check_callable(f"{function}, on_leaf_grad", on_leaf_grad)


def found_or_none(
    x: Tensor, position: int, grads: dict[Node, Any], allow_unused: bool
) -> Tensor | None:
    g = grads.get(x.node)  # type: ignore[arg-type]
    if g is None and not allow_unused:
        raise GradientError(
            f"autograd.grad: the outputs don't depend on inputs[{position}] ({describe(x)}); pass "
            "allow_unused=True to get None for it"
        )
    return None if g is None else own(g)


def own(g: Any) -> Tensor:
    """A gradient as a tensor of its own: the engine hands one on to several nodes."""
    return wrap(g.raw, g.node) if isinstance(g, Tensor) else wrap(g)


def seed(
    function: str, root: Tensor, gradient: Tensor | None, create_graph: bool
) -> tuple[Node, Any]:
    """The root's node and the gradient to start with, checked."""
    argument = "grad_outputs" if function == "autograd.grad" else "gradient"
    if not isinstance(root, Tensor):
        raise DTypeError(f"{function}: a tensor is needed, got {type(root).__name__}")
    if root.node is None:
        raise GradientError(
            f"{function}: the tensor {describe(root)} doesn't require grad: it wasn't computed, "
            "outside no_grad, from one that does; see requires_grad_()"
        )
    if gradient is None:
        if root.size != 1:
            raise ShapeError(
                f"{function}: the tensor has shape {root.shape}, and only a single number has a "
                f"gradient of 1; reduce it with .sum() or .mean(), or pass {argument}="
            )
        one = full(shape=root.shape, value=1, dtype=root.raw.dtype, device=root.device)
        return root.node, one if create_graph else one.raw
    if not isinstance(gradient, Tensor):
        raise DTypeError(f"{function}: {argument} must be a tensor, got {type(gradient).__name__}")
    check_like(function, root, gradient)
    return root.node, gradient if create_graph else share(gradient).raw
