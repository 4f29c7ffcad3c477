"""vmap: what it computes for all examples at once is what a loop over them computes."""

import functools
import math
from collections.abc import Callable
from itertools import product
from threading import Thread
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from adjoint._foundation.modes import mode
from tests.support.helpers import as_tuple, close, counting, derivative, floats, values
from tests.support.samples import OPS, TABLE, Sample

F = ad.nn.functional
SIZE = 3
STATIC = [s for s in TABLE if not OPS[s.op].dynamic_shape and OPS[s.op].inputs]


def which(sample: Sample) -> list[tuple[bool, ...]]:
    """Which inputs differ from example to example: all of them, or one."""
    count = len(sample.inputs())
    singles = [tuple(k == j for j in range(count)) for k in range(count)]
    chosen = dict.fromkeys([(True,) * count, *singles])
    # From a state that they share, examples draw different numbers, unlike single calls.
    return [batched for batched in chosen if batched[0] or not OPS[sample.op].random]


CASES = [(s, batched) for s in STATIC for batched in which(s)]


def table(cases: list[tuple[Sample, tuple[bool, ...]]]) -> Any:
    names = [f"{s.id}-{''.join('-x'[b] for b in batched)}" for s, batched in cases]
    return pytest.mark.parametrize("sample, batched", cases, ids=names)


every = table(CASES)
differentiable = table([(s, batched) for s, batched in CASES if OPS[s.op].differentiable])


def examples(array: np.ndarray, number: int) -> np.ndarray:
    """An array for each example, all different, and within the domain."""
    if array.dtype.kind in "fc":
        return np.stack([array * (1 + 0.011 * (k + number)) for k in range(SIZE)])
    return np.stack([np.roll(array, k) for k in range(SIZE)])


def arguments(sample: Sample, batched: tuple[bool, ...]) -> list[ad.Tensor]:
    arrays = enumerate(zip(sample.inputs(), batched, strict=True))
    given = [examples(array, k) if b else array for k, (array, b) in arrays]
    grad = OPS[sample.op].differentiable
    return [ad.tensor(a, requires_grad=grad and a.dtype.kind == "f") for a in given]


def looped(function: Callable, *args: Any, in_axes: Any = 0) -> list[ad.Tensor]:
    """The results of single calls, stacked."""
    axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
    pairs = list(zip(args, axes, strict=True))
    size = next(x.shape[axis] for x, axis in pairs if axis is not None)
    runs = [
        as_tuple(function(*(x if axis is None else ad.take(x, k, axis=axis) for x, axis in pairs)))
        for k in ad.arange(size)
    ]
    return [ad.stack(parts) for parts in zip(*runs, strict=True)]


def as_axes(batched: tuple[bool, ...]) -> tuple[int | None, ...]:
    return tuple(0 if b else None for b in batched)


def same(outs: Any, expected: Any, tolerance: float = 1e-12) -> None:
    for out, reference in zip(as_tuple(outs), as_tuple(expected), strict=True):
        assert (out.shape, out.dtype) == (reference.shape, reference.dtype)
        assert out.requires_grad == reference.requires_grad
        np.testing.assert_allclose(values(out), values(reference), tolerance, tolerance)


def gradients(outs: Any, leaves: list[ad.Tensor], seed: int = 0) -> list[np.ndarray | None]:
    """The gradients of the leaves, for random gradients of the float results."""
    rng = np.random.default_rng(seed)
    outs = [out for out in floats(as_tuple(outs)) if out.requires_grad]
    seeds = [ad.tensor(rng.standard_normal(out.shape), dtype=out.dtype) for out in outs]
    grads = ad.autograd.grad(outs, leaves, seeds, retain_graph=True, allow_unused=True)
    return [None if g is None else values(g) for g in grads]


def same_gradients(outs: Any, expected: Any, leaves: list[ad.Tensor]) -> None:
    for g, reference in zip(gradients(outs, leaves), gradients(expected, leaves), strict=True):
        assert (g is None) == (reference is None)
        if g is not None and reference is not None:
            np.testing.assert_allclose(g, reference, 1e-11, 1e-11)


def random(*shape: int, grad: bool = False, seed: int = 0) -> ad.Tensor:
    rng = np.random.default_rng((seed, *shape))
    return ad.tensor(rng.standard_normal(shape), requires_grad=grad)


# Every op


@every
def test_op(sample: Sample, batched: tuple[bool, ...]) -> None:
    args, axes = arguments(sample, batched), as_axes(batched)
    expected = tuple(looped(sample.call, *args, in_axes=axes))
    exact = OPS[sample.op].kind == "elementwise"
    same(ad.vmap(sample.call, axes)(*args), expected, 0 if exact else 1e-12)


@differentiable
def test_gradient_through_vmap(sample: Sample, batched: tuple[bool, ...]) -> None:
    args, axes = arguments(sample, batched), as_axes(batched)
    leaves = [x for x in args if x.requires_grad]
    outs, expected = ad.vmap(sample.call, axes)(*args), looped(sample.call, *args, in_axes=axes)
    same_gradients(outs, tuple(expected), leaves)


@differentiable
def test_gradient_inside_vmap(sample: Sample, batched: tuple[bool, ...]) -> None:
    args, axes = arguments(sample, batched), as_axes(batched)

    def gradient(*args: ad.Tensor) -> tuple:
        leaves = [x for x in args if x.requires_grad]
        outs = [out for out in floats(as_tuple(sample.call(*args))) if out.requires_grad]
        seeds = [ad.reshape(ad.arange(out.size) + 1.5, out.shape) for out in outs]
        seeds = [ad.astype(g, out.dtype) for g, out in zip(seeds, outs, strict=True)]
        return ad.autograd.grad(outs, leaves, seeds, allow_unused=True)

    same(ad.vmap(gradient, axes)(*args), tuple(looped(gradient, *args, in_axes=axes)), 1e-11)


def test_every_op_says_how_it_is_batched() -> None:
    static = {name for name, op in OPS.items() if op.inputs and not op.dynamic_shape}
    assert {sample.op for sample, _ in CASES} == static
    assert [name for name in sorted(static) if OPS[name].batch == "each"] == []


def steps_of(function: Callable, *args: ad.Tensor) -> list[str]:
    """What is run, as op(shapes of its tensors)."""
    steps = ad.trace(function, *args).steps
    shapes = [[list(x.shape) for x in step.inputs if hasattr(x, "shape")] for step in steps]
    return [f"{s.op.name}{shown}" for s, shown in zip(steps, shapes, strict=True)]


X, A = random(5, 3), random(4, 3)


@pytest.mark.parametrize(
    "function, args, expected",
    [
        (ad.vmap(lambda x: x + X), [random(2, 5, 3)], ["add[[2, 5, 3], [5, 3]]"]),
        (ad.vmap(lambda x: x * x[0]), [X], [
            "slice[[5, 3]]", "reshape[[5]]", "multiply[[5, 3], [5, 1]]",
        ]),
        (ad.vmap(lambda x: A @ x), [X], [
            "reshape[[5, 3]]", "matrix_transpose[[5, 3, 1]]", "matrix_transpose[[4, 3]]",
            "reshape[[5, 1, 3]]", "matmul[[5, 3], [3, 4]]", "reshape[[5, 4]]",
            "matrix_transpose[[5, 1, 4]]", "reshape[[5, 4, 1]]",
        ]),
        (ad.vmap(lambda x: x @ A.T), [random(2, 5, 3)], [
            "permute_dims[[4, 3]]", "reshape[[2, 5, 3]]", "matmul[[10, 3], [3, 4]]",
            "reshape[[10, 4]]",
        ]),
        (ad.vmap(lambda x: ad.sin(A) * ad.ones((), dtype=ad.float64)), [X], [
            "sin[[4, 3]]", "full[]", "multiply[[4, 3], []]", "broadcast_to[[4, 3]]",
        ]),
        (ad.vmap(lambda x: (ad.exp(x), x * 2.0)[1]), [X], ["multiply[[5, 3]]"]),
    ],
    ids=["shared operands aren't expanded", "lower ranks get ones", "a matrix times vectors",
         "rows times a matrix", "what no example changes is run once", "what nobody needs is left"],
)  # fmt: skip
def test_work_is_not_done_twice(function: Callable, args: list, expected: list[str]) -> None:
    assert steps_of(function, *args) == expected


# Arguments and results


class Pair(NamedTuple):
    first: Any
    second: Any


@pytest.mark.parametrize(
    "x_axis, y_axis, out_axis", list(product((0, 1, 2, -1, -3), (0, 1, None), (0, -1)))
)
def test_axes(x_axis: int, y_axis: int | None, out_axis: int) -> None:
    x, y = random(4, 4, 4), random(4, 4, seed=1)
    axes = (x_axis, y_axis)
    out = ad.vmap(lambda x, y: x @ y[:, None] if y.ndim == 1 else x @ y, axes, out_axis)(x, y)
    (expected,) = looped(lambda x, y: x @ y[:, None] if y.ndim == 1 else x @ y, x, y, in_axes=axes)
    same(out, ad.moveaxis(expected, 0, out_axis))


def test_axes_may_be_integers_of_numpy() -> None:
    x = random(2, 3)
    same(ad.vmap(lambda a: a, (np.int64(1),), np.int32(-1))(x), x)


def test_containers_go_in_and_out() -> None:
    a, b, c = random(3, 2), random(2, 3), random(2)

    def work(d: dict, pair: Pair, scale: float, *, k: list) -> Any:
        return Pair({"sum": d["a"] + d["b"][0] + k[0]}, [pair.second * scale, scale, None])

    in_axes = ({"a": 0, "b": (1,)}, Pair(None, 0), None)
    out_axes = Pair({"sum": 1}, [0, None, 0])
    mapped = ad.vmap(work, in_axes, out_axes)
    out = mapped({"a": a, "b": (b,)}, Pair("unused", a), 2.0, k=[a, None])
    assert type(out) is Pair
    same(out.first["sum"], (a + b.T + a).T)
    same(out.second[0], a * 2.0)
    assert out.second[1:] == [2.0, None]
    same(ad.vmap(lambda d: d["a"] * c, in_axes=({"a": 1},))({"a": b}), b.T * c)


def test_numpy_arrays_are_mapped_like_tensors() -> None:
    x = np.arange(6.0).reshape(3, 2)
    same(ad.vmap(lambda a: (a * 2.0, x))(x)[0], ad.asarray(x * 2.0))
    assert ad.vmap(lambda a: (a * 2.0, x))(x)[1].shape == (3, 3, 2)


def test_what_all_examples_share_is_repeated_or_returned_once() -> None:
    w = random(2, grad=True)
    out = ad.vmap(lambda x: w * 2.0)(random(3, 4))
    same(out, ad.broadcast_to(w * 2.0, (3, 2)))
    same(derivative(out.sum(), w), ad.asarray(np.full(2, 6.0)))
    same(ad.vmap(lambda x: w * 2.0, out_axes=None)(random(3, 4)), w * 2.0)


def test_a_tensor_may_be_mapped_and_closed_over() -> None:
    x = random(3, 2, grad=True)

    def distances(a: ad.Tensor) -> ad.Tensor:
        return ad.square(a - x).sum()

    expected = ad.stack([distances(x[k]) for k in range(3)])
    same(ad.vmap(distances)(x), expected)
    same_gradients(ad.vmap(distances)(x), expected, [x])


def test_one_tensor_may_be_mapped_twice() -> None:
    x = random(3, 3, grad=True)
    same(ad.vmap(ad.multiply, (0, 1))(x, x), x * x.T)
    same_gradients(ad.vmap(ad.multiply, (0, 1))(x, x), x * x.T, [x])


def test_results_are_tensors_of_their_own() -> None:
    for x in (random(3, 2), random(3, 2, grad=True)):
        before = values(x).copy()
        one, other = ad.vmap(lambda a: (a, a))(x)
        assert one is not x and one is not other
        one[0] = 0.0
        np.testing.assert_array_equal(values(x), before)
        np.testing.assert_array_equal(values(other), before)


def test_the_function_keeps_its_name() -> None:
    def loss(x: ad.Tensor) -> ad.Tensor:
        """Its words."""
        return x

    assert (ad.vmap(loss).__name__, ad.vmap(loss).__doc__) == ("loss", "Its words.")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ad.sin(x).sum(),
        lambda x: x @ x,
        lambda x: ad.softmax(x @ random(4, 3), axis=0),
        lambda x: x[ad.asarray([0, 0, 2])],
        lambda x: x.at[1].set(5.0),
        lambda x: F.conv1d(x.reshape(1, 1, 4), x[:3].reshape(1, 1, 3)),
        lambda x: ad.linalg.solve(ad.eye(4, dtype=ad.float64), x.detach()),
        lambda x: ad.sort(x),
        lambda x: ad.searchsorted(x, x),
        lambda x: ad.random.normal((2,)) * x[0],
        lambda x: ad.autograd.grad((x * x).sum(), x)[0],
    ],
)
def test_no_examples(function: Callable) -> None:
    one = function(random(1, 4, grad=True)[0])
    out = ad.vmap(function)(random(0, 4, grad=True))
    assert (out.shape, out.dtype) == ((0, *one.shape), one.dtype)


# Gradients


W = random(3, grad=True)
square = ad.op.other(  # its rule isn't its forward's
    "tripled_square", x=lambda g, x: 3.0 * g * x, forward=lambda x: (x * x).sum() + 0.0 * x
)


def without_recording(x: ad.Tensor) -> ad.Tensor:
    with ad.no_grad():
        y = x * x
    return (y * x * W).sum()


def recorded_after_all(x: ad.Tensor) -> ad.Tensor:
    with ad.no_grad(), ad.enable_grad():
        return (x * x).sum()


def own_leaf(x: ad.Tensor) -> ad.Tensor:
    y = x.detach().requires_grad_()
    return (y * y * W).sum()


def own_gradient(x: ad.Tensor) -> ad.Tensor:
    y = x.detach().requires_grad_()
    g = derivative((y * y * y * W).sum(), y, create_graph=True)
    return (g * x).sum()


def straight_through(x: ad.Tensor) -> ad.Tensor:
    return ((x + (ad.sign(x) - x).detach()) * x * W).sum()


def written(x: ad.Tensor) -> ad.Tensor:
    x[0] = x[1] * x[2]
    x *= W
    return x.sum()


GRADIENTS: dict[str, Callable] = {
    "detach": lambda x: (x.detach() * x * W).sum(),
    "all detached": lambda x: (x.detach() * W.detach()).sum() + 0 * x.sum(),
    "the result detached": lambda x: ((x * W).sum(), (x * W).detach()),
    "the argument returned": lambda x: (x, x.detach(), x * 2.0),
    "no_grad": without_recording,
    "enable_grad in no_grad": recorded_after_all,
    "a leaf of its own": own_leaf,
    "a gradient by a leaf of its own": own_gradient,
    "straight through": straight_through,
    "an argument written to": written,
    "grad of a transform": lambda x: ad.grad(lambda y: (y * y * y * W).sum())(x),
    "grad of a transform, detached": lambda x: ad.grad(lambda y: (y * y * y * W).sum())(x.detach()),
    "checkpoint": lambda x: ad.checkpoint(lambda y: ad.tanh(y * W).sum(), x),
    "an op with its own rule": lambda x: square(x * W) * x,
    "create_graph": lambda x: derivative((x * x * x * W).sum(), x, create_graph=True),
    "create_graph of what is shared": lambda x: derivative(
        (x * x * W * W).sum(), W, create_graph=True
    ),
    "no graph": lambda x: derivative((x * x * x * W).sum(), x) * x,
}  # fmt: skip


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_flow_as_in_a_loop(name: str) -> None:
    x = random(4, 3, grad=True)
    many, one_by_one = ad.vmap(GRADIENTS[name])(x), tuple(looped(GRADIENTS[name], x))
    same(many, one_by_one)
    same_gradients(many, one_by_one, [x, W])


@pytest.mark.parametrize(
    "name", ["detach", "straight through", "checkpoint", "an op with its own rule", "no_grad"]
)
def test_nothing_is_recorded_under_no_grad(name: str) -> None:
    x = random(4, 3, grad=True)
    with ad.no_grad():
        same(ad.vmap(GRADIENTS[name])(x), looped(GRADIENTS[name], x)[0].detach())


def test_enable_grad_inside_no_grad_is_recorded() -> None:
    def recorded(x: ad.Tensor) -> ad.Tensor:
        with ad.enable_grad():
            return (x * W).sum()

    x = random(4, 3, grad=True)
    with ad.no_grad():
        out, expected = ad.vmap(recorded)(x), looped(recorded, x)[0]
    same_gradients(out, x.detach() @ W, [x, W])
    assert out.requires_grad and not expected.requires_grad  # stacked under no_grad


def test_gradients_of_each_example() -> None:
    w, xs = random(3, grad=True), random(5, 3)

    def loss(x: ad.Tensor) -> ad.Tensor:
        return ad.tanh(w @ x) ** 2

    out = ad.vmap(lambda x: derivative(loss(x), w))(xs)
    same(out, ad.stack([derivative(loss(x), w) for x in xs]))


def test_backward_inside_is_for_leaves_of_the_function() -> None:
    def gradient(x: ad.Tensor) -> ad.Tensor | None:
        y = x.detach().requires_grad_()
        (y * y * y).sum().backward()
        return y.grad

    x = random(4, 3, grad=True)
    close(ad.vmap(gradient)(x), 3 * values(x) ** 2)
    assert x.grad is None


def test_an_argument_can_be_made_a_leaf() -> None:
    x = random(4, 3)
    out = ad.vmap(lambda a: derivative((a.requires_grad_() ** 3).sum(), a))(x)
    close(out, 3 * values(x) ** 2)
    assert not x.requires_grad


def test_pullback_of_a_graph_from_outside() -> None:
    x = random(4, grad=True)
    y = ad.cumulative_prod(x) * x.sum()
    out = ad.vmap(lambda g: derivative(y, x, g, retain_graph=True))(ad.eye(4, dtype=ad.float64))
    rows = [derivative(y, x, g, retain_graph=True) for g in ad.eye(4, dtype=ad.float64)]
    same(out, ad.stack(rows))


def test_a_hessian() -> None:
    x = random(5, grad=True)
    y = (ad.exp(x) * x[::-1]).prod() + (x**3).sum()
    g = derivative(y, x, create_graph=True)
    rows = ad.vmap(lambda v: derivative(g, x, v, create_graph=True))(ad.eye(5, dtype=ad.float64))
    same(rows, ad.stack([derivative(g[k], x, create_graph=True) for k in range(5)]), 1e-10)
    same_gradients(rows, ad.stack([derivative(g[k], x, create_graph=True) for k in range(5)]), [x])


def test_second_order_through_vmap() -> None:
    ad.testing.check_grads(
        ad.vmap(lambda x, w: ad.tanh(x @ w).prod() + ad.linalg.vector_norm(x), (0, None)),
        [values(random(3, 4)), values(random(4, 2))],
        order=2,
    )


# Nesting


def test_vmap_of_vmap() -> None:
    x, y = random(3, 4, grad=True), random(5, 4, grad=True)
    pairwise = ad.vmap(ad.vmap(lambda a, b: ad.exp(a - b).sum(), (None, 0)), (0, None))
    expected = ad.exp(x[:, None] - y).sum(axis=-1)
    same(pairwise(x, y), expected)
    same_gradients(pairwise(x, y), expected, [x, y])


def test_three_levels_with_axes() -> None:
    x = random(2, 3, 4, 5)
    out = ad.vmap(ad.vmap(ad.vmap(ad.sum, 1), 0, 1), 2, -1)(x)
    same(out, ad.permute_dims(x.sum(axis=1), (2, 0, 1)))


def test_gradients_between_levels() -> None:
    x = random(3, 2, grad=True)

    def jacobian_trace(a: ad.Tensor) -> ad.Tensor:
        y = ad.tanh(a * a.sum())
        rows = ad.vmap(lambda v: derivative(y, a, v, create_graph=True))(
            ad.eye(2, dtype=ad.float64)
        )
        return ad.linalg.trace(rows)

    def by_rows(a: ad.Tensor) -> ad.Tensor:
        y = ad.tanh(a * a.sum())
        one, other = (derivative(y[k], a, create_graph=True)[k] for k in range(2))
        return one + other

    expected = looped(by_rows, x)[0]
    same(ad.vmap(jacobian_trace)(x), expected)
    same_gradients(ad.vmap(jacobian_trace)(x), expected, [x])


def test_what_an_outer_function_detaches_stays_detached_inside() -> None:
    x = random(3, 2, grad=True)

    def outer(a: ad.Tensor) -> ad.Tensor:
        b = a.detach()
        return ad.vmap(lambda k: (k * b * a).sum())(a)

    same_gradients(ad.vmap(outer)(x), looped(outer, x)[0], [x])


def test_a_trace_of_vmap_reads_its_captures_anew() -> None:
    w, x = random(3, grad=True), random(4, 3)
    graph = ad.trace(ad.vmap(lambda a: (w * w.detach() * a).sum()), x)
    same(graph(x).detach(), x @ w.detach() ** 2)
    with ad.no_grad():
        w[0] = 5.0
    same(graph(x), x @ (w * w.detach()))


# Indexing: NumPy's rule where index arrays stand, in all combinations of what has a batch


PLACES: dict[str, Callable] = {
    "one array": lambda i, j: (i,),
    "an array after a slice": lambda i, j: (slice(None), i),
    "arrays side by side": lambda i, j: (i, j),
    "arrays after a slice": lambda i, j: (slice(0, 3, 2), i, j),
    "a slice between": lambda i, j: (i, slice(None), j),
    "an int beside an array": lambda i, j: (1, i),
    "an int apart from an array": lambda i, j: (-1, slice(1, None), i),
    "an int after a slice and an array": lambda i, j: (slice(None), j, 0),
    "new axes": lambda i, j: (None, slice(None), i, None),
    "new axes between": lambda i, j: (i, None, j),
    "an ellipsis between": lambda i, j: (i, ..., j, slice(None)),
    "an array at the end": lambda i, j: (..., i),
}
WHICH = [batched for batched in product((True, False), repeat=3) if any(batched)]


def indexing_case(name: str, batched: tuple[bool, ...]) -> tuple[list[ad.Tensor], tuple]:
    rng = np.random.default_rng(0)
    shapes = ((3, 4, 5), (2, 3), (3,))
    full = [(SIZE, *shape) if b else shape for shape, b in zip(shapes, batched, strict=True)]
    x = ad.tensor(rng.standard_normal(full[0]), requires_grad=True)
    return [x, *(ad.asarray(rng.integers(-3, 3, shape)) for shape in full[1:])], as_axes(batched)


@pytest.mark.parametrize("batched", WHICH, ids=lambda b: "".join("-x"[k] for k in b))
@pytest.mark.parametrize("name", PLACES)
def test_reading_by_index(name: str, batched: tuple[bool, ...]) -> None:
    args, axes = indexing_case(name, batched)

    def read(x: ad.Tensor, i: ad.Tensor, j: ad.Tensor) -> ad.Tensor:
        return x[PLACES[name](i, j)] * (i.sum() + j.sum() + 10)

    many, expected = ad.vmap(read, axes)(*args), looped(read, *args, in_axes=axes)[0]
    same(many, expected)
    same_gradients(many, expected, args[:1])


@pytest.mark.parametrize("batched", WHICH, ids=lambda b: "".join("-x"[k] for k in b))
@pytest.mark.parametrize("name", PLACES)
def test_writing_by_index(name: str, batched: tuple[bool, ...]) -> None:
    args, axes = indexing_case(name, batched)
    v = random(SIZE, 5, grad=True)

    def write(x: ad.Tensor, i: ad.Tensor, j: ad.Tensor, v: ad.Tensor) -> ad.Tensor:
        place = PLACES[name](i, j)
        shape = x[place].shape
        numbers = ad.reshape(ad.arange(math.prod(shape)), shape) * v.sum()
        return x.at[place].set(numbers) + x.at[place].add(numbers * 2.0)

    for v_axis, value in ((0, v), (None, v[0])):
        both = ((*axes, v_axis), (*args, value))
        many, expected = ad.vmap(write, both[0])(*both[1]), looped(write, *both[1], in_axes=both[0])
        same(many, expected[0])
        same_gradients(many, expected[0], [args[0], v])


@pytest.mark.parametrize("axis, shape", [(0, (3, 2, 4)), (1, (3, 6, 5))])
def test_one_table_for_all_examples_has_one_gradient(axis: int, shape: tuple[int, ...]) -> None:
    table = random(6, 4, grad=True)
    places = ad.asarray(np.random.default_rng(0).integers(-4, 4, shape))

    def read(i: ad.Tensor) -> ad.Tensor:
        return ad.take_along_axis(table, i, axis=axis) ** 2

    many, expected = ad.vmap(read)(places), looped(read, places)[0]
    same(many, expected)
    same_gradients(many, expected, [table])
    steps = steps_of(lambda i: derivative(ad.vmap(read)(i).sum(), table), places)
    tables = [step for step in steps if "[6, 4]" in step]
    assert [step.split("[")[0] for step in tables] == ["index"]  # its gradient adds up in one


ROWS = {
    "floats": [[1.0, 2.0, 2.0, 7.0, 9.0], [-3.0, 2.0, 2.0, 2.0, 8.0], [0.0, 1.0, 2.0, 3.0, 4.0]],
    "nans": [[1.0, 2.0, np.nan], [np.nan] * 3, [-np.inf, 2.0, np.inf]],
    "integers": [[1, 2, 2, 2, 7, 7, 9, 12], [2] * 8, list(range(8))],
    "one": [[2.0], [3.0], [1.0]],
    "none": [[], [], []],
}


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ROWS)
def test_searching_sorted_rows(name: str, side: str) -> None:
    rows = ad.asarray(np.array(ROWS[name], np.int64 if name == "integers" else np.float64))
    wanted = [[-9, 2, 7], [3, 2, 100], [0, 1, 9]]
    v = ad.asarray(np.array(wanted, rows.numpy().dtype))
    if name == "nans":
        v = ad.concat([v, ad.asarray([[np.nan, np.inf, -np.inf]] * 3)], axis=1)
    search = functools.partial(ad.searchsorted, side=side)
    for axes, values_ in (((0, 0), v), ((0, None), v), ((0, None), v[0, 1])):
        same(ad.vmap(search, axes)(rows, values_), looped(search, rows, values_, in_axes=axes)[0])
    names = {name.split("[")[0] for name in steps_of(ad.vmap(search), rows, v)}
    assert "searchsorted" not in names


def test_assigning_by_a_slice() -> None:
    def write(x: ad.Tensor, v: ad.Tensor) -> ad.Tensor:
        y = x * 1.0
        y[0, ::2] = v
        y[..., None, 1] = v.sum()
        return y

    x, v = random(3, 2, 4, grad=True), random(3, 2, grad=True)
    for axes in ((0, 0), (0, None), (None, 0)):
        given = [z if axis == 0 else z[0] for z, axis in zip((x, v), axes, strict=True)]
        many, expected = ad.vmap(write, axes)(*given), looped(write, *given, in_axes=axes)[0]
        same(many, expected)
        same_gradients(many, expected, [x, v])


# Random numbers


def test_every_example_draws_its_own_numbers() -> None:
    ad.random.seed(3)
    out = ad.vmap(lambda x: ad.random.uniform((4,)) + 0 * x)(ad.zeros(5))
    state = values(ad.random.default.state)
    assert len(np.unique(values(out))) == 20
    ad.random.seed(3)
    np.testing.assert_array_equal(values(ad.random.uniform((5, 4))), values(out))
    np.testing.assert_array_equal(values(ad.random.default.state), state)


def test_a_generator_made_inside_starts_anew_for_every_example() -> None:
    def draw(x: ad.Tensor) -> ad.Tensor:
        return ad.random.Generator(5).normal((3,)) + 0 * x

    same(ad.vmap(draw)(ad.zeros(4)), looped(draw, ad.zeros(4))[0], 0)


def test_other_threads_draw_other_numbers() -> None:
    """Neither while the function is traced nor while its steps run."""
    seen: list[np.ndarray] = []

    def draw_elsewhere() -> None:
        thread = Thread(target=lambda: seen.append(values(ad.random.uniform((4,)))))
        thread.start()
        thread.join()

    def kernel(x: np.ndarray) -> np.ndarray:
        draw_elsewhere()
        return x.copy()

    probe = ad.op.other(
        "probe", inputs="x", differentiable=False, kernels={"cpu": kernel}, batch="leading",
        shape=lambda x_shape: x_shape,
    )  # fmt: skip

    def noisy(x: ad.Tensor) -> ad.Tensor:
        first = ad.random.uniform((2,))
        draw_elsewhere()
        return probe(x + first) + ad.random.uniform((2,)) * 1000.0

    ad.random.seed(6)
    out = values(ad.vmap(noisy)(ad.zeros((3, 2))))
    ours = [out % 1.0, out // 1000.0]
    assert len(seen) == 2 and all(part.shape == (3, 2) for part in ours)
    ad.random.seed(6)
    expected = values(ad.random.uniform((4,)))  # drawn while it was traced: at once
    np.testing.assert_array_equal(seen[0], expected)
    one, two = values(ad.random.uniform((3, 2))), values(ad.random.uniform((3, 2)))
    np.testing.assert_allclose(out, one + two * 1000.0, 1e-6)
    np.testing.assert_array_equal(seen[1], values(ad.random.uniform((4,))))


def test_threads_can_draw_while_vmap_runs() -> None:
    failed: list[Exception] = []

    def often(work: Callable) -> None:
        try:
            for _ in range(60):
                work()
        except Exception as error:
            failed.append(error)

    x = ad.ones((3, 4))
    works = [lambda: ad.vmap(F.dropout)(x), lambda: ad.random.normal((3,))]
    threads = [Thread(target=often, args=(work,)) for work in works * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


@pytest.mark.parametrize("inside", [True, False], ids=["in a checkpoint", "of a checkpoint"])
def test_a_checkpoint_draws_the_same_numbers_again(inside: bool) -> None:
    def noisy(x: ad.Tensor) -> ad.Tensor:
        return (F.dropout(x, 0.5) * x * ad.random.normal(x.shape)).sum()

    def gradient(function: Callable) -> ad.Tensor:
        ad.random.seed(2)
        x = ad.ones((3, 8), requires_grad=True)
        function(x).sum().backward()
        assert x.grad is not None
        return x.grad

    def kept(x: ad.Tensor) -> ad.Tensor:
        return ad.checkpoint(noisy, x)

    mapped = ad.vmap(noisy)
    again = (lambda x: ad.checkpoint(mapped, x)) if inside else ad.vmap(kept)
    same(gradient(again), gradient(mapped))
    one, other = (ad.vmap(lambda a, f=f: ad.grad(f)(a) * a) for f in (noisy, kept))
    same(gradient(one), gradient(other))


def test_a_generator_can_t_be_in_a_state_for_each_example() -> None:
    generator = ad.random.Generator(1)
    before = values(generator.state).copy()

    def move(state: ad.Tensor) -> None:
        generator.state = state

    with pytest.raises(ad.TraceError, match="moves a random generator from outside to a state"):
        ad.vmap(move)(ad.stack([ad.random.Generator(k).state for k in range(3)]))
    np.testing.assert_array_equal(values(generator.state), before)


def test_numbers_drawn_outside_are_shared() -> None:
    noise = ad.random.normal((4,))
    out = ad.vmap(lambda x: noise + 0 * x)(ad.zeros(5))
    assert len(np.unique(values(out), axis=0)) == 1


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: ad.random.gamma(2.0, shape=(3,)) + 0 * x,
        lambda x: ad.random.gamma(x, shape=(3,)),
        lambda x: ad.random.permutation(1000)[:3] + 0 * x,
        lambda x: F.dropout(ad.random.normal((3,)) * x, 0.1) + ad.random.normal((3,)),
        lambda x: ad.vmap(lambda y: ad.random.normal(()) + y * x)(ad.zeros(3)),
        lambda x: ad.random.default.spawn(1)[0].normal((3,)) + 0 * x,
    ],
    ids=["gamma", "gamma of a batch", "permutation", "dropout", "nested", "spawned"],
)
def test_numbers_differ_and_repeat_with_the_seed(draw: Callable) -> None:
    def run() -> tuple[np.ndarray, np.ndarray]:
        ad.random.seed(1)
        return values(ad.vmap(draw)(ad.ones(6))), values(ad.random.default.state)

    (out, state), (again, same_state) = run(), run()
    assert out.shape == (6, 3) and len(np.unique(out, axis=0)) == 6
    np.testing.assert_array_equal(out, again)
    np.testing.assert_array_equal(state, same_state)
    assert state.shape == (4,) and state[2] > 0


def test_a_state_for_each_example() -> None:
    states = ad.stack([ad.random.Generator(k).state for k in (3, 4, 3)])

    def draw(state: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
        generator = ad.random.Generator(0)
        generator.state = state
        return generator.normal((2,)), generator.state

    same(ad.vmap(draw)(states), tuple(looped(draw, states)), 0)


# Tensors from outside


def test_a_tensor_from_outside_changes_to_what_is_the_same_for_all() -> None:
    steps, w, scale = ad.tensor(0), random(2, grad=True), ad.tensor(1.0, dtype=ad.float64)

    def work(x: ad.Tensor) -> ad.Tensor:
        nonlocal scale
        steps.add_(1)
        scale *= (w * w).sum()
        (w * w).sum().backward()
        return x * scale

    out = ad.vmap(work)(random(3, 2))
    assert steps.item() == 1
    close(w.grad, 2 * values(w))
    close(derivative(scale, w), 2 * values(w))
    assert out.requires_grad


def test_what_is_written_under_no_grad_stays_a_leaf() -> None:
    w = random(2, grad=True)
    node = w.node

    def step(x: ad.Tensor) -> ad.Tensor:
        with ad.no_grad():
            w[0] = 7.0
        return x * w

    ad.vmap(step)(random(3, 2))
    assert w.node is node and values(w)[0] == 7.0


def change(x: ad.Tensor, kept: ad.Tensor) -> None:
    kept[0] = x[0]


def norm(x: ad.Tensor, kept: ad.Tensor) -> ad.Tensor:
    two = ad.stack([x, x * 2.0])
    return F.batch_norm(two, kept, ad.ones(2, dtype=ad.float64), training=True)


@pytest.mark.parametrize(
    "function, message",
    [
        (change, r"changes a tensor from outside \(float64\[2\]\) .* isn't the same for all"),
        (norm, "return the new value instead"),
        (lambda x, kept: (x * W[:2]).sum().backward(), r"the \.grad of a tensor from outside"),
    ],
    ids=["assignment", "running statistics", "backward"],
)
def test_a_tensor_from_outside_can_t_differ_from_example_to_example(
    function: Callable, message: str
) -> None:
    kept = random(2)
    before = values(kept).copy()
    with pytest.raises(ad.TraceError, match=message):
        ad.vmap(lambda x: function(x, kept))(random(3, 2))
    np.testing.assert_array_equal(values(kept), before)
    assert W.grad is None


def test_changes_of_a_mapped_argument_stay_inside() -> None:
    def work(x: ad.Tensor) -> ad.Tensor:
        x += 1.0
        x[0] = 5.0
        return x * 2.0

    x = random(3, 2)
    before = values(x).copy()
    out = values(ad.vmap(work)(x))
    np.testing.assert_array_equal(values(x), before)
    np.testing.assert_array_equal(out[:, 0], 10.0)
    np.testing.assert_array_equal(out[:, 1], (before[:, 1] + 1.0) * 2.0)


def test_an_error_inside_restores_everything() -> None:
    kept, before = random(2), values(ad.random.default.state).copy()

    def broken(x: ad.Tensor) -> None:
        kept[0] = x[0]
        kept.grad = x
        ad.random.normal(())
        raise KeyError("mine")

    data = kept.raw
    with pytest.raises(KeyError, match="mine"):
        ad.vmap(broken)(random(3, 2))
    assert kept.raw is data and kept.grad is None
    assert mode.trace is None and mode.word == 1 and mode.draws is None
    np.testing.assert_array_equal(values(ad.random.default.state), before)
    with pytest.raises(ad.IndexingError, match="out of bounds"):
        ad.vmap(lambda x: x[ad.asarray([7])] * W[:2])(random(3, 2))
    assert mode.trace is None and mode.word == 1


def test_what_is_known_is_written_at_once() -> None:
    """As in code that isn't mapped: also if an error comes later, or an unknown value."""
    kept = ad.zeros(2, dtype=ad.float64)

    def broken(x: ad.Tensor) -> None:
        kept[0] = 5.0
        assert kept.tolist() == [5.0, 0.0]
        kept[1] = x[1]
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        ad.vmap(broken)(random(3, 2))
    assert kept.tolist() == [5.0, 0.0]

    def once_more(x: ad.Tensor) -> None:
        kept[0] = x[0]
        kept[...] = 7.0

    ad.vmap(once_more)(random(3, 2))
    assert kept.tolist() == [7.0, 7.0]


def test_a_tensor_is_used_as_it_is_at_that_time() -> None:
    scale = ad.ones((), dtype=ad.float64)

    def work(x: ad.Tensor) -> tuple[ad.Tensor, ...]:
        one = x * scale
        scale.add_(1.0)
        two = x * scale
        scale.__imul__(2.0)
        return one, two, scale, x * scale

    x = random(3, 2)
    one, two, known, four = ad.vmap(work)(x)
    for out, factor in ((one, 1), (two, 2), (four, 4)):
        np.testing.assert_array_equal(values(out), values(x) * factor)
    assert scale.item() == 4.0 and known.tolist() == [4.0] * 3


MADE: dict[str, Callable[[], ad.Tensor]] = {
    "zeros": lambda: ad.zeros(2, dtype=ad.float64),
    "an array": lambda: ad.asarray(np.ones(2)),
    "a detached tensor": lambda: P.detach(),
    "a result": lambda: P * 2.0,
    "a view": lambda: ad.reshape(P.detach(), (2,)),
    "a gradient": lambda: derivative((P * P).sum(), P),
    "a transform": lambda: ad.grad(lambda y: (y * y).sum())(P.detach()),
    "a checkpoint": lambda: ad.checkpoint(lambda y: y * 2.0, P),
    "random numbers": lambda: ad.astype(ad.random.bits((2,)) * 0, ad.float64),
}
P = random(2, grad=True)


@pytest.mark.parametrize("name", MADE)
def test_what_the_function_made_can_be_written_to(name: str) -> None:
    def write(x: ad.Tensor) -> ad.Tensor:
        out = MADE[name]()
        out[0] = x[0]
        inner = ad.vmap(lambda y: (lambda z: (z.__setitem__(1, y), z)[1])(out * 1.0))(x)
        return out + inner.sum(axis=0)

    x, before = random(3, 2, grad=True), values(P).copy()
    many, expected = ad.vmap(write)(x), looped(write, x)[0]
    same(many, expected)
    np.testing.assert_array_equal(values(P), before)


# What no stand-in has a part in is known


def in_a_checkpoint(y: ad.Tensor) -> ad.Tensor:
    return y * 2.0 if y.sum() > 0 else y * y


POSITIVE, MASK, COUNTS = ad.tensor(2.0), ad.asarray([True, False, True]), ad.asarray([1, 2, 0])
KNOWN: dict[str, Callable] = {
    "a branch": lambda x: x if POSITIVE > 0 else -x,
    "a branch on a result": lambda x: x * 2.0 if (W * W).sum() > 0 else -x,
    "a mask": lambda x: x[MASK],
    "a mask made inside": lambda x: x[W.detach() > 0],
    "repeat": lambda x: ad.repeat(x, ad.asarray([1, 2, 0])),
    "a number": lambda x: x * int(COUNTS[1]),
    "unique": lambda x: x.sum() * ad.unique_values(COUNTS),
    "a loop": lambda x: sum((x * k for k in COUNTS.tolist()), x),
    "a branch in a checkpoint": lambda x: ad.checkpoint(in_a_checkpoint, W * 1.0) * x,
    "a gradient": lambda x: x * (2.0 if derivative((W * W).sum(), W)[0] > 0 else 3.0),
    "inside another vmap": lambda x: ad.vmap(lambda y: y if POSITIVE > 0 else x)(x),
    "a mask in another vmap": lambda x: ad.vmap(lambda y: (x * y)[MASK])(x),
}


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_not_mapped_is_known(name: str) -> None:
    x = random(4, 3, grad=True)
    many, one_by_one = ad.vmap(KNOWN[name])(x), looped(KNOWN[name], x)[0]
    same(many, one_by_one)
    same_gradients(many, one_by_one, [x, W])


def test_a_checkpoint_runs_again_with_values_in_a_jacobian() -> None:
    x = random(3)
    branching = ad.jacobian(lambda x: ad.checkpoint(in_a_checkpoint, x))(x)
    same(branching, ad.jacobian(in_a_checkpoint)(x))
    ad.random.seed(4)
    again = ad.jacobian(lambda x: ad.checkpoint(lambda y: F.dropout(y, 0.5) * y, x))(ad.ones(20))
    ad.random.seed(4)
    same(again, ad.jacobian(lambda x: F.dropout(x, 0.5) * x)(ad.ones(20)))


def test_in_a_trace_what_is_not_mapped_is_recorded_outside() -> None:
    w, x, steps = random(3), random(4, 3), ad.tensor(0)

    def work(a: ad.Tensor) -> ad.Tensor:
        steps.add_(1)
        return a * (w * 2.0)

    graph = ad.trace(ad.vmap(work), x)
    assert steps.item() == 0
    w[0] = 9.0
    same(graph(x), x * (w * 2.0))
    assert steps.item() == 1
    with pytest.raises(ad.TraceError, match="bool: the values of a traced tensor"):
        ad.trace(ad.vmap(KNOWN["a branch"]), x)


def test_shapes_of_what_is_known_are_checked() -> None:
    with pytest.raises(ad.ShapeError, match=r"add: shapes \(3,\) and \(2,\) don't broadcast"):
        ad.vmap(lambda x: x * (W.detach() + P.detach()))(random(4, 3))


# Ops of users


def test_an_op_that_says_nothing_runs_on_one_example_after_the_other() -> None:
    identity, runs = counting()
    x = random(3, 2, grad=True)
    out = ad.vmap(lambda a: identity(a) * 2.0)(x)
    assert runs == [(2,)] * 3
    same(out, x * 2.0)
    same_gradients(out, x * 2.0, [x])


def test_an_op_that_nobody_needs_isn_t_run() -> None:
    identity, runs = counting("unneeded")
    ad.vmap(lambda a: (identity(a), a)[1])(random(3, 2))
    assert runs == []


def scaled_last_axis(x: np.ndarray, *, axis: int) -> np.ndarray:
    return x / x.sum(axis, keepdims=True)


def by_size(size: int, batched: tuple[bool, ...], x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
    return x * (y if batched[1] else ad.broadcast_to(y, (size, *y.shape)))


@pytest.mark.parametrize(
    "options, call",
    [
        (
            {"attrs": "axis", "batch": "leading", "kernels": {"cpu": scaled_last_axis}},
            lambda op, x: op(x, axis=0) + op(x, axis=-1),
        ),
        (
            {
                "inputs": "x y",
                "batch": "broadcast",
                "kernels": {"cpu": lambda x, y: np.einsum("...i,...i->...i", x, y)},
            },
            lambda op, x: op(x[0], x) + op(x, W[:2]) + op(W[:2], x),
        ),
        (
            {"inputs": "x y", "batch": by_size, "kernels": {"cpu": np.multiply}},
            lambda op, x: op(x, x) + op(x, random(2, 2)),
        ),
    ],
    ids=["leading", "broadcast", "function"],
)
def test_an_op_says_how_it_is_batched(options: dict, call: Callable) -> None:
    op = ad.op.other(
        "mine", differentiable=False, **{"inputs": "x", "shape": same_shape, **options}
    )
    x = random(3, 2, 2)
    same(ad.vmap(lambda a: call(op, a))(x), looped(lambda a: call(op, a), x)[0].detach())


def same_shape(x_shape: tuple) -> tuple:
    return x_shape if len(x_shape) > 1 else (2, 2)


def test_reductions_and_elementwise_ops_of_users_need_no_more() -> None:
    total = ad.op.reduction(
        "total",
        attrs="axis keepdims",
        x=lambda g, x_shape, axis: ad.broadcast_to(ad.expand_dims(g, axis=axis), x_shape),
        forward=lambda x, axis, keepdims: ad.sum(x, axis=axis, keepdims=keepdims),
    )
    cube = ad.op.elementwise("cubed", x=lambda g, x: 3 * g * x * x, forward=lambda x: x * x * x)
    x = random(3, 2, 4, grad=True)
    out = ad.vmap(lambda a: total(cube(a), axis=(1,), keepdims=False))(x)
    same(out, (x * x * x).sum(axis=2))
    same_gradients(out, (x * x * x).sum(axis=2), [x])


def test_an_op_with_a_rule_of_its_own_can_t_draw_numbers_inside() -> None:
    noisy = ad.op.other("noisy", x=lambda g: g, forward=lambda x: x + ad.random.normal(x.shape))
    out = ad.vmap(noisy)(random(3, 2))
    assert len(np.unique(values(out) - values(random(3, 2)))) == 6
    out = ad.vmap(lambda x: ad.no_grad(noisy)(x))(ad.zeros((3, 2), requires_grad=True))
    assert len(np.unique(values(out))) == 6
    state = values(ad.random.default.state).copy()
    with pytest.raises(ad.TraceError, match="noisy: its forward changes tensors from outside, or"):
        ad.vmap(noisy)(random(3, 2, grad=True))
    np.testing.assert_array_equal(values(ad.random.default.state), state)


def test_a_batch_function_that_returns_something_else_is_an_error() -> None:
    wrong = ad.op.other(
        "wrong",
        inputs="x",
        shape=lambda x_shape: x_shape,
        kernels={"cpu": np.copy},
        batch=lambda size, batched, x: x.T,
        differentiable=False,
    )
    with pytest.raises(ad.ShapeError, match=r"wrong: its batch= .* shapes \[\(2, 3\)\] for 3 exam"):
        ad.vmap(wrong)(random(3, 2))


@pytest.mark.parametrize(
    "batch, how",
    [
        *product(["leading", "broadcast", "each"], ["kernels"]),
        *product(["leading", "broadcast"], ["forward"]),
    ],
)
def test_a_result_that_doesn_t_fit_its_declared_shape_is_an_error(batch: str, how: str) -> None:
    mean: Any = {"kernels": {"cpu": np.mean}} if how == "kernels" else {"forward": ad.mean}
    wrong = ad.op.other("flat", inputs="x", x=lambda g: g, shape=lambda x_shape: x_shape,
                        batch=batch, **mean)  # fmt: skip
    with pytest.raises(ad.ShapeError, match=rf"flat: declared with batch='{batch}', it returned"):
        ad.vmap(wrong)(random(3, 2, grad=True))


def test_an_op_on_no_examples_keeps_the_graph() -> None:
    product = ad.op.other(
        "product", inputs="x y n", x=lambda g, y: g * y, y=lambda g, x: g * x,
        kernels={"cpu": lambda x, y, n: x * y * n}, shape=lambda x_shape: x_shape, promotes="x y",
    )  # fmt: skip
    x, w = random(0, 2, grad=True), random(2, grad=True)
    out = ad.vmap(lambda x: product(x, w, ad.asarray(2)))(x)
    assert out.shape == (0, 2)
    by_x, by_w = ad.autograd.grad(out.sum(), [x, w])
    assert by_x.shape == (0, 2) and by_w.tolist() == [0.0, 0.0]


def test_a_wrong_way_to_batch_is_refused() -> None:
    with pytest.raises(ad.ArgumentError, match="batch is a function, 'broadcast', 'leading' or"):
        ad.op.other("mine", inputs="x", differentiable=False, batch="first")


# Errors


def pullback_of(x: ad.Tensor) -> Callable:
    kept: list[Callable] = []
    ad.vmap(lambda a: (kept.append(ad.vjp(lambda b: ad.sin(b) * b, a)[1]), a)[1])(x)
    return kept[0]


def in_a_thread(x: ad.Tensor) -> None:
    raised: list[Exception] = []

    def work() -> None:
        try:
            ad.sin(x)
        except Exception as error:
            raised.append(error)

    thread = Thread(target=work)
    thread.start()
    thread.join()
    raise raised[0]


X32 = ad.ones((3, 2))
NOT_CALLABLE: Any = 3


def branch(x: ad.Tensor) -> ad.Tensor:
    return x if x.sum() > 0 else -x


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: ad.vmap(NOT_CALLABLE), ad.DTypeError, "vmap: a function is needed, got 3"),
        (lambda: ad.vmap(ad.sin, "x"), ad.DTypeError, "an axis is an int or None, got 'x'"),
        (lambda: ad.vmap(ad.sin, 1.0), ad.DTypeError, "an axis is an int or None, got 1.0"),
        (lambda: ad.vmap(ad.sin, True), ad.DTypeError, "an axis is an int or None, got True"),
        (lambda: ad.vmap(ad.sin, {"x": 0})(X32), ad.ArgumentError, "an int, None or a tuple"),
        (
            lambda: ad.vmap(ad.sin, (0, 0))(X32),
            ad.ArgumentError,
            r"in_axes=\(0, 0\) is for 2 positional arguments, the function was called with 1",
        ),
        (
            lambda: ad.vmap(lambda x, y: x, (0, 1))(X32, y=X32),
            ad.ArgumentError,
            "is for 2 positional arguments, the function was called with 1",
        ),
        (
            lambda: ad.vmap(ad.add, (0, 1))(X32, X32),
            ad.ShapeError,
            r"argument 0 \(float32\[3, 2\]\) has 3 along axis 0, argument 1 .* has 2 along axis 1",
        ),
        (
            lambda: ad.vmap(lambda d, k: d, 0)({"a": [X32]}, k=X32[:2]),
            ad.ShapeError,
            r"argument 0\['a'\]\[0\] .* has 3 .*, keyword argument 'k' .* has 2 along axis 0",
        ),
        (lambda: ad.vmap(ad.sin, None)(X32), ad.ArgumentError, "no argument is mapped"),
        (lambda: ad.vmap(lambda: 1)(), ad.ArgumentError, "no argument is mapped"),
        (
            lambda: ad.vmap(ad.sin, -3)(X32),
            ad.AxisError,
            r"argument 0 \(float32\[3, 2\]\) has 2 axes, so none of them is axis -3",
        ),
        (lambda: ad.vmap(ad.sin)(ad.ones(())), ad.AxisError, "has 0 axes"),
        (
            lambda: ad.vmap(ad.add)(X32, 2.0),
            ad.DTypeError,
            "argument 1 is 2.0, not a tensor, so it has no axis 0; .* None in in_axes",
        ),
        (
            lambda: ad.vmap(lambda d: d["a"], ({"b": 0},))({"a": X32}),
            ad.ArgumentError,
            r"in_axes: \{'b': 0\} doesn't have the structure .*: a dict with the keys \['a'\]",
        ),
        (
            lambda: ad.vmap(lambda d: d[0], ((0, 0),))([X32]),
            ad.ArgumentError,
            r"in_axes: \(0, 0\) doesn't have the structure .*: a list of 1",
        ),
        (
            lambda: ad.vmap(lambda x: x, out_axes=(0, 0))(X32),
            ad.ArgumentError,
            r"out_axes: \(0, 0\) doesn't have the structure .*: a Tensor",
        ),
        (
            lambda: ad.vmap(lambda x: {"y": [x]}, out_axes=None)(X32),
            ad.ArgumentError,
            r"None for the result\['y'\]\[0\], float32\[3, 2\] with the axis of the examples",
        ),
        (
            lambda: ad.vmap(lambda x: x, out_axes=2)(X32),
            ad.AxisError,
            "the result has 2 axes with that of the examples, so none of them is axis 2",
        ),
        (
            lambda: ad.vmap(lambda x: (x, 3.0))(X32),
            ad.DTypeError,
            r"the result\[1\] is 3.0, not a tensor, so it can't have axis 0",
        ),
        (lambda: ad.vmap(branch)(X32), ad.TraceError, "aren't known while ad.trace, ad.vmap"),
        (
            lambda: pullback_of(X32[0])(ad.ones(())),
            ad.TraceError,
            "used after its trace ended, or in another thread",
        ),
        (lambda: ad.vmap(in_a_thread)(X32), ad.TraceError, "sin: .* or in another thread"),
        (
            lambda: ad.vmap(lambda x: x + 300)(ad.ones(3, dtype=ad.int8)),
            ad.RangeError,
            r"add\(int8\[3\], 300\): .*300 out of bounds",
        ),
        (lambda: ad.vmap(lambda x: x[0].item())(X32), ad.TraceError, "item: the values of a tr"),
        (lambda: ad.vmap(lambda x: x[x > 0])(X32), ad.TraceError, "depends on values"),
        (
            lambda: ad.vmap(lambda x: x.sum().backward())(ad.ones((3, 2), requires_grad=True)),
            ad.GradientError,
            r"backward\(\), which would add to the .grad of argument 0 \(float32\[3, 2\]\)",
        ),
    ],
)  # fmt: skip
def test_errors_say_what_is_wrong(call: Callable, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        call()


# Other libraries: functions of what they call by the same names, on arrays of float64


class Oracle(NamedTuple):
    """A function of a namespace with adjoint's, PyTorch's or JAX's functions, and what to map."""

    function: Callable
    shapes: tuple[tuple[int, ...], ...]
    in_axes: tuple[int | None, ...]
    out_axes: int = 0


ORACLES: dict[str, Oracle] = {
    "batched filters": Oracle(
        lambda lib, x, w: lib.conv(x, w), ((4, 2, 3, 5, 5), (4, 6, 3, 2, 2)), (0, 0)
    ),
    "filters for one image": Oracle(
        lambda lib, x, w: lib.conv(x, w), ((2, 3, 5, 5), (4, 6, 3, 2, 2)), (None, 0)
    ),
    "images for one set of filters": Oracle(
        lambda lib, x, w: lib.conv(x, w), ((2, 3, 4, 5, 5), (6, 3, 2, 2)), (2, None), 1
    ),
    "einsum": Oracle(
        lambda lib, x, y: lib.einsum("ij,kjl->lik", x, y), ((4, 2, 3), (5, 3, 4, 2)), (0, 2)
    ),
    "batched indices": Oracle(
        lambda lib, x, y: x[lib.indices(y, 5)] * y, ((5, 3), (4, 3)), (None, 0)
    ),
    "batched tables and indices": Oracle(
        lambda lib, x, y: x[:, lib.indices(y, 5)].sum(), ((4, 2, 5), (4, 3)), (0, 0)
    ),
    "cholesky": Oracle(lambda lib, x: lib.linalg.cholesky(x @ x.mT + 3.0), ((4, 3, 3),), (0,)),
    "solve": Oracle(lambda lib, x, y: lib.linalg.solve(x, y), ((3, 3), (4, 3, 2)), (None, 0)),
    "norm of a product": Oracle(
        lambda lib, x, y: lib.sqrt(((x @ y) ** 2).sum()), ((4, 3), (3, 2, 4)), (0, 2)
    ),
    "softmax and logsumexp": Oracle(
        lambda lib, x, y: lib.softmax(x, 0) * lib.logsumexp(y, 0), ((3, 4), (4, 3)), (1, 0), 1
    ),
    "where": Oracle(
        lambda lib, x, y: lib.where(x > y, lib.exp(x), y * 2.0), ((4, 3), (3,)), (0, None)
    ),
    "order": Oracle(lambda lib, x: lib.sorted(x) + lib.cumsum(x, 0), ((3, 4, 2),), (1,), 2),
    "flipped and joined": Oracle(
        lambda lib, x, y: lib.flip(lib.joined([x, y]), (0,)), ((4, 3), (2,)), (0, None)
    ),
}


class Namespace:
    """What is called differently from library to library."""

    def __init__(self, main: Any, **others: Any) -> None:
        self.main, self.others = main, others

    def __getattr__(self, name: str) -> Any:
        return self.others[name] if name in self.others else getattr(self.main, name)


OURS = Namespace(
    ad,
    conv=lambda x, w: F.conv2d(x, w, padding=1),
    indices=lambda y, n: ad.astype(ad.abs(y) * 7.0, ad.int64) % n,
    softmax=lambda x, axis: ad.softmax(x, axis=axis),
    logsumexp=lambda x, axis: ad.logsumexp(x, axis=axis),
    sorted=lambda x: ad.sort(x, axis=0),
    cumsum=lambda x, axis: ad.cumulative_sum(x, axis=axis),
    flip=lambda x, axes: ad.flip(x, axis=axes),
    joined=lambda xs: ad.concat(xs, axis=0),
)


def torch_answer(oracle: Oracle, arrays: list[np.ndarray]) -> np.ndarray:
    torch = pytest.importorskip("torch")
    lib = Namespace(
        torch,
        conv=lambda x, w: torch.nn.functional.conv2d(x, w, padding=1),
        indices=lambda y, n: (y.abs() * 7.0).long() % n,
        sorted=lambda x: torch.sort(x, 0).values,
        joined=torch.cat,
    )
    mapped = torch.func.vmap(lambda *xs: oracle.function(lib, *xs), oracle.in_axes, oracle.out_axes)
    return mapped(*map(torch.tensor, arrays)).numpy()


def jax_answer(oracle: Oracle, arrays: list[np.ndarray]) -> np.ndarray:
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    lib = Namespace(
        jnp,
        conv=lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), [(1, 1), (1, 1)]),
        indices=lambda y, n: (abs(y) * 7.0).astype(int) % n,
        softmax=lambda x, axis: jax.nn.softmax(x, axis),
        logsumexp=lambda x, axis: jax.nn.logsumexp(x, axis),
        sorted=lambda x: jnp.sort(x, 0),
        joined=jnp.concatenate,
    )
    with jax.enable_x64(True):
        mapped = jax.vmap(lambda *xs: oracle.function(lib, *xs), oracle.in_axes, oracle.out_axes)
        return np.asarray(mapped(*map(jnp.asarray, arrays)))


@pytest.mark.parametrize("answer", [torch_answer, jax_answer], ids=["torch", "jax"])
@pytest.mark.parametrize("name", ORACLES)
def test_agrees_with(answer: Callable, name: str) -> None:
    oracle = ORACLES[name]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) for shape in oracle.shapes]
    expected = answer(oracle, arrays)
    mapped = ad.vmap(lambda *xs: oracle.function(OURS, *xs), oracle.in_axes, oracle.out_axes)
    close(mapped(*map(ad.asarray, arrays)), expected, 1e-10)
