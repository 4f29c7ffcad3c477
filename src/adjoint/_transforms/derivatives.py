"""Transforms: functions that turn a function into its derivatives, as JAX has them.

A transform runs the function once, eagerly, on variables of its own (see `scopes`), and then
asks the engine. Forward mode is reverse mode twice: the pullback is linear in the gradients that it
is given, so its own pullback carries tangents forward. Jacobians and Hessians come from one batched
run of such a linear function; the function itself isn't batched, so it may branch on values.
"""

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any

from .._core.node import Node
from .._core.tensor import Tensor, describe
from .._foundation.errors import ArgumentError, DTypeError, ShapeError
from .._foundation.modes import enable_grad, is_grad_enabled
from .._foundation.trees import map_tree, with_paths
from ..primitives.creation import eye
from ..primitives.shapes import permute_dims, reshape, slice_
from .arguments import as_differentiable, as_output, like, matched, present
from .scopes import Pullback, Scope, filled, twin
from .vmap import vmap

__all__ = ["grad", "hessian", "hvp", "jacobian", "jvp", "value_and_grad", "vjp"]

Argnums = int | Sequence[int]
Linear = Callable[[Sequence[Tensor]], list[Tensor]]


class Run:
    """A function that was run on variables, and what is needed to differentiate it.

    `inputs`, `out`: the variables and the results, nested as they were. `variables`, `outputs`: the
    tensors in them. `aux`: what the function returned besides. `kept`: whether the results of the
    transform carry a graph, if directions carry none.
    """

    def __init__(
        self, name: str, f: Callable, argnums: Argnums, args: tuple, kwargs: dict, has_aux: bool
    ) -> None:
        self.name = name
        self.scope = Scope(name)
        chosen = positions(name, argnums, len(args))
        given = list(args)
        for k in chosen:
            given[k] = self.as_variables(f"argument {k}", args[k])
        self.inputs = tuple(given[k] for k in chosen)
        if not isinstance(argnums, Sequence):
            self.inputs = self.inputs[0]
        self.variables: list[Tensor] = present(self.inputs)
        for k in chosen:  # containers and tensors of its own, which the function may assign to
            given[k] = like(given[k], map(twin, present(given[k])))
        with enable_grad():
            out = f(*given, **kwargs)
        out, self.aux = with_aux(name, out) if has_aux else (out, None)
        named = [(path, x) for path, x in with_paths(out) if x is not None]
        self.outputs = [as_output(name, path, x) for path, x in named]
        self.out = like(out, self.outputs)
        self.pullback = Pullback(self.scope, self.outputs, self.variables)
        self.kept = self.scope.keeps and self.pullback.is_open

    def as_variables(self, path: str, tree: Any) -> Any:
        named = [(path, x) for path, x in with_paths(tree, path) if x is not None]
        tensors = [as_differentiable(self.name, path, x) for path, x in named]
        return like(tree, map(self.scope.variable, tensors))

    def keeps(self, directions: Iterable[Tensor]) -> bool:
        """Whether results that depend on these tensors too carry a graph."""
        return self.kept or (self.scope.keeps and any(x.requires_grad for x in directions))

    def value(self) -> Any:
        """What the function returned, as a result of the transform."""
        return like(self.out, self.scope.returned(self.outputs, self.kept))

    def besides(self) -> Any:
        """The aux value, as a result of the transform."""
        tensors = [x for x in present(self.aux) if isinstance(x, Tensor)]
        following = iter(self.scope.returned(tensors, self.scope.keeps))
        return map_tree(lambda x: next(following) if isinstance(x, Tensor) else x, self.aux)

    @functools.cached_property
    def closed(self) -> set[Node]:
        """The nodes that outputs depend on and that depend on nothing outside."""
        return self.scope.depending_on_nothing(x for x in self.pullback.roots if x is not None)

    def gradients(self, create_graph: bool) -> list[Tensor]:
        """The gradients of the one number that the function returned."""
        out = self.out
        if not isinstance(out, Tensor):
            raise DTypeError(
                f"{self.name}: the function must return one number, as a tensor; it returned "
                f"{type(out).__name__}; use jacobian or vjp for more, has_aux=True for the rest"
            )
        if out.size != 1:
            raise ShapeError(
                f"{self.name}: the function must return one number, its result has shape "
                f"{out.shape}; reduce it with .sum() or .mean(), or use ad.jacobian or ad.vjp"
            )
        # Second derivatives need the graph, and the aux value may have a part of it.
        retain_graph = create_graph or self.aux is not None
        return self.pullback([filled(out, 1)], create_graph=create_graph, retain_graph=retain_graph)

    def pushforward(self) -> Pullback:
        """The linear function from tangents of the variables to those of the outputs."""
        zeros = [self.scope.variable(filled(x, 0)) for x in self.outputs]
        return Pullback(self.scope, self.pullback(zeros, create_graph=True), zeros)


def with_aux(name: str, out: Any) -> tuple[Any, Any]:
    if not isinstance(out, tuple) or len(out) != 2:
        raise ArgumentError(
            f"{name}: with has_aux=True the function must return a tuple (result, aux), it "
            f"returned {describe(out) if isinstance(out, Tensor) else repr(out)}"
        )
    return out


def positions(name: str, argnums: Argnums, count: int) -> tuple[int, ...]:
    """The positions of the arguments that are differentiated, counted from the front."""
    numbers = argnums if isinstance(argnums, Sequence) else (argnums,)
    for k in numbers:
        if not -count <= k < count:
            raise ArgumentError(
                f"{name}: argnums={argnums}, but the function was given {count} positional "
                "arguments; keyword arguments can't be differentiated"
            )
    chosen = tuple(k % count for k in numbers)
    if len(set(chosen)) < len(chosen):
        raise ArgumentError(f"{name}: argnums={argnums} has the same argument twice")
    return chosen


def checked(name: str, f: Any, argnums: Any = 0) -> Argnums:
    """`argnums` in its normal form, for a function that can be called."""
    if isinstance(f, Tensor):
        raise DTypeError(
            f"{name}: a function is needed, got {describe(f)}; for the gradient of a tensor there "
            "are ad.autograd.grad(y, x) and y.backward()"
        )
    if not callable(f):
        raise DTypeError(f"{name}: a function is needed, got {f!r}")
    if isinstance(argnums, Tensor):
        raise DTypeError(
            f"{name}: argnums is an integer or a tuple of integers, got {describe(argnums)}; "
            f"ad.{name}(f) gives a function: call it as ad.{name}(f)(x)"
        )
    try:
        if isinstance(argnums, (tuple, list)):
            return tuple(map(operator.index, argnums))
        return operator.index(argnums)
    except TypeError:
        raise DTypeError(
            f"{name}: argnums is an integer or a tuple of integers, got {argnums!r}"
        ) from None


def grad(f: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """A function that gives the gradient of f, which returns one number.

    `argnums`: which positional arguments to differentiate, all of them if nested; for a tuple the
    result is a tuple. `has_aux`: f returns (number, aux), and the result is (gradient, aux). The
    result carries a graph if it depends on a tensor from outside that requires grad, an argument or
    one that f closes over: under `ad.no_grad()` it is plain numbers. Users' hooks don't run.

    >>> ad.grad(lambda x, y: (x * x * y).sum())(ad.tensor([1.0, 2.0]), 3.0)
    tensor([ 6., 12.])
    >>> ad.grad(ad.grad(lambda x: x**4))(2.0)
    tensor(48.)
    """
    argnums = checked("grad", f, argnums)

    @functools.wraps(f, updated=())
    def gradient(*args: Any, **kwargs: Any) -> Any:
        run = Run("grad", f, argnums, args, kwargs, has_aux)
        grads = first_order(run)
        return (grads, run.besides()) if has_aux else grads

    return gradient


def value_and_grad(f: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """A function that gives the result of f, one number, and its gradient.

    With `has_aux`, f returns (number, aux), and the result is ((number, aux), gradient).

    >>> ad.value_and_grad(lambda w: (w["a"] * w["b"]).sum())({"a": 2.0, "b": 3.0})
    (tensor(6.), {'a': tensor(3.), 'b': tensor(2.)})
    """
    argnums = checked("value_and_grad", f, argnums)

    @functools.wraps(f, updated=())
    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        run = Run("value_and_grad", f, argnums, args, kwargs, has_aux)
        grads = first_order(run)
        return ((run.value(), run.besides()) if has_aux else run.value()), grads

    return value_and_gradient


def first_order(run: Run) -> Any:
    grads = run.gradients(create_graph=run.kept)
    return like(run.inputs, run.scope.returned(grads, run.kept))


def vjp(f: Callable, *primals: Any, has_aux: bool = False) -> tuple:
    """The result of f and its pullback: from a gradient of the result to those of the primals.

    `pullback(g)` is a tuple with one entry per primal, and can be called many times. With
    `has_aux`, f returns (out, aux), and the result is (out, pullback, aux).

    >>> out, pullback = ad.vjp(lambda x, y: x * y, ad.tensor([1.0, 2.0]), ad.tensor([3.0, 4.0]))
    >>> pullback(ad.tensor([1.0, 10.0]))
    (tensor([ 3., 40.]), tensor([ 1., 20.]))
    """
    checked("vjp", f)
    run = Run("vjp", f, range(len(primals)), primals, {}, has_aux)

    def pullback(g: Any) -> tuple:
        gs = matched("vjp", "g", run.out, g)
        keep = is_grad_enabled() and (run.kept or any(x.requires_grad for x in gs))
        scope = Scope("vjp", run.closed if keep else ())
        grads = run.pullback(gs, create_graph=keep)
        return like(run.inputs, scope.returned(grads, keep))

    return (run.value(), pullback, run.besides()) if has_aux else (run.value(), pullback)


def jvp(f: Callable, primals: Sequence, tangents: Sequence, has_aux: bool = False) -> tuple:
    """The result of f and its derivative in the direction of the tangents.

    With `has_aux`, f returns (out, aux), and the result is (out, tangent, aux).

    >>> ad.jvp(lambda x: x * x, (ad.tensor([1.0, 2.0]),), (ad.tensor([1.0, 10.0]),))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    run, directions = directed("jvp", f, primals, tangents, has_aux)
    keep = run.keeps(directions)
    tangent = run.pushforward()(directions, create_graph=keep)
    out = run.value(), like(run.out, run.scope.returned(tangent, keep))
    return (*out, run.besides()) if has_aux else out


def hvp(f: Callable, primals: Sequence, tangents: Sequence) -> tuple:
    """The Hessian of f, which returns one number, times the tangents: one entry per primal.

    >>> ad.hvp(lambda x: (x**3).sum(), (ad.tensor([1.0, 2.0]),), (ad.tensor([1.0, 10.0]),))
    (tensor([  6., 120.]),)
    """
    run, directions = directed("hvp", f, primals, tangents, False)
    keep = run.keeps(directions)
    second = Pullback(run.scope, run.gradients(create_graph=True), run.variables)
    out = second(directions, create_graph=keep, retain_graph=False)
    return like(run.inputs, run.scope.returned(out, keep))


def directed(
    name: str, f: Callable, primals: Any, tangents: Any, has_aux: bool
) -> tuple[Run, list[Tensor]]:
    """The run of a function, and the directions in which it is differentiated."""
    checked(name, f)
    for what, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, (tuple, list)):
            raise DTypeError(
                f"{name}: {what} is a tuple with one entry per argument of the function, got "
                f"{describe(given) if isinstance(given, Tensor) else repr(given)}"
            )
    run = Run(name, f, range(len(primals)), tuple(primals), {}, has_aux)
    return run, matched(name, "tangents", run.inputs, tuple(tangents))


def jacobian(
    f: Callable, argnums: Argnums = 0, mode: str = "reverse", has_aux: bool = False
) -> Callable:
    """A function that gives all derivatives of f: blocks of the shape of a result and an argument.

    Where f returns or takes several tensors, the result is nested: as what f returns outside, as
    the arguments inside. `mode`: "reverse", for more arguments than results, or "forward".
    `has_aux`: f returns (out, aux), and the result is (jacobian, aux).

    >>> ad.jacobian(lambda x: x * x)(ad.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    argnums = checked("jacobian", f, argnums)
    if mode not in ("reverse", "forward"):
        raise ArgumentError(f'jacobian: mode is "reverse" or "forward", got {mode!r}')
    blocks_of = by_results if mode == "reverse" else by_arguments

    @functools.wraps(f, updated=())
    def derivatives(*args: Any, **kwargs: Any) -> Any:
        run = Run("jacobian", f, argnums, args, kwargs, has_aux)
        blocks = blocks_of(run, run.kept)
        out = like(run.out, (like(run.inputs, row) for row in returned(run, blocks)))
        return (out, run.besides()) if has_aux else out

    return derivatives


def hessian(f: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """A function that gives all second derivatives of f.

    Each block has the shape of a result and of two arguments. Several tensors give a nested result:
    as what f returns outside, then twice as the arguments. `has_aux`: f returns (out, aux), and the
    result is (hessian, aux).

    >>> ad.hessian(lambda x: (x**3).sum())(ad.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    argnums = checked("hessian", f, argnums)

    @functools.wraps(f, updated=())
    def second_derivatives(*args: Any, **kwargs: Any) -> Any:
        run = Run("hessian", f, argnums, args, kwargs, has_aux)
        first = [block for row in by_results(run, True) for block in row]
        second = Pullback(run.scope, first, run.variables)
        blocks = matrix(functools.partial(second, create_graph=run.kept), first)
        rows = iter([like(run.inputs, row) for row in returned(run, blocks)])
        inner = (like(run.inputs, [next(rows) for _ in run.variables]) for _ in run.outputs)
        out = like(run.out, inner)
        return (out, run.besides()) if has_aux else out

    return second_derivatives


def returned(run: Run, blocks: list[list[Tensor]]) -> list[list[Tensor]]:
    """The blocks as results of the transform."""
    following = iter(run.scope.returned([x for row in blocks for x in row], run.kept))
    return [[next(following) for _ in row] for row in blocks]


def by_results(run: Run, create_graph: bool) -> list[list[Tensor]]:
    """The blocks of the Jacobian, by the pullback."""
    return matrix(functools.partial(run.pullback, create_graph=create_graph), run.outputs)


def by_arguments(run: Run, create_graph: bool) -> list[list[Tensor]]:
    """The blocks of the Jacobian, by the pushforward."""
    linear = functools.partial(run.pushforward(), create_graph=create_graph)
    columns = matrix(linear, run.variables)
    return [
        [exchanged(column[k], x.ndim) for x, column in zip(run.variables, columns, strict=True)]
        for k in range(len(run.outputs))
    ]


def exchanged(x: Tensor, first: int) -> Tensor:
    """The first axes of x put behind the others."""
    return permute_dims(x, axes=(*range(first, x.ndim), *range(first)))


def matrix(linear: Linear, arguments: list[Tensor]) -> list[list[Tensor]]:
    """A linear function's values on all unit vectors: one block per argument and result.

    A block has the shape of its argument followed by that of the result.
    """
    ends = list(accumulate(x.size for x in arguments))
    with enable_grad():
        if len(arguments) == 1 and ends == [1]:
            rows = linear([filled(x, 1) for x in arguments])
            return [[reshape(y, shape=(*x.shape, *y.shape)) for y in rows] for x in arguments]
        if not arguments:
            return []
        parts = [(x, slice(end - x.size, end)) for x, end in zip(arguments, ends, strict=True)]
        units = [unit_vectors(x, part.start, ends[-1]) for x, part in parts]
        rows = vmap(lambda *vectors: linear(vectors))(*units)
        return [[block(y, part, x.shape) for y in rows] for x, part in parts]


def unit_vectors(x: Tensor, start: int, total: int) -> Tensor:
    """Zeros like x, `total` times, with each element of x being 1 in its turn from `start` on."""
    rows = eye(rows=total, columns=x.size, k=-start, dtype=x.raw.dtype, device=x.device)
    return reshape(rows, shape=(total, *x.shape))


def block(rows: Tensor, part: slice, shape: tuple[int, ...]) -> Tensor:
    """Some of the rows, in the shape of what they are the derivatives of."""
    if part != slice(0, len(rows)):
        rows = slice_(rows, index=(part,))
    return reshape(rows, shape=(*shape, *rows.shape[1:]))
