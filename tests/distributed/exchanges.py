"""What each kind of exchange gives, on any number of ranks: one that knows the arrays of all ranks
computes it by NumPy, or by ops, in one process."""

import functools
import itertools
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import adjoint as ad
from adjoint.distributed._link import SMALL
from tests.distributed.checks import outcomes, raises

REALS = "float16", "float32", "float64"
COMPLEX = ("complex64",)
WHOLE = "int32", "int64", "uint8", "uint64"
DTYPES = (*REALS, *COMPLEX, *WHOLE, "bool")
# No number of ranks divides the large one, of which each rank adds up a part.
SHAPES = {"0-d": (), "empty": (0, 3), "one": (1,), "odd": (7, 3), "large": (SMALL + 5,)}
UFUNCS = {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}


def arrays(size: int, dtype: str, shape: tuple[int, ...]) -> list[np.ndarray]:
    """Those of all ranks: numbers of very different sizes."""
    rng = np.random.default_rng([size, len(shape), DTYPES.index(dtype)])
    return [drawn(rng, np.dtype(dtype), shape) for _ in range(size)]


def drawn(rng: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    if dtype.kind in "biu":
        least, most = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        whole = np.uint8 if dtype.kind == "b" else dtype
        return rng.integers(least, most, shape, whole, endpoint=True).astype(dtype)
    most = {"float16": 2, "float32": 9, "complex64": 9}.get(dtype.name, 30)
    parts = rng.standard_normal((2, *shape)) * 10.0 ** rng.uniform(-most, most, (2, *shape))
    return np.asarray(parts[0] + 1j * parts[1] if dtype.kind == "c" else parts[0]).astype(dtype)


def reduced(parts: list[np.ndarray], how: str) -> np.ndarray:
    """One after the other, in the order of the ranks."""
    with np.errstate(all="ignore"):
        if how == "mean":
            return reduced(parts, "sum") * parts[0].dtype.type(1 / len(parts))
        return np.asarray(functools.reduce(UFUNCS[how], parts))


def allowed(dtype: str, how: str) -> bool:
    if dtype == "bool":
        return how in ("max", "min")
    return how != "mean" or dtype in (*REALS, *COMPLEX)


def every() -> Iterator[tuple[str, str]]:
    """Of dtypes and shapes; large ones of some dtypes."""
    for dtype, shape in itertools.product(DTYPES, SHAPES):
        if shape != "large" or dtype in ("float16", "float32", "complex64", "int64", "bool"):
            yield dtype, shape


def same(found: Any, expected: np.ndarray, what: str) -> None:
    """The same bits, in a tensor of this dtype and shape."""
    assert isinstance(found, ad.Tensor), what
    array = found.numpy()
    assert (array.dtype, array.shape) == (expected.dtype, expected.shape), what
    np.testing.assert_array_equal(array, expected, err_msg=what)


# Values


def all_reduce(world: Any) -> None:
    for (dtype, shape), how in itertools.product(every(), ("sum", "mean", "max", "min", "prod")):
        if allowed(dtype, how):
            parts = arrays(world.size, dtype, SHAPES[shape])
            with np.errstate(all="ignore"):
                found = world.all_reduce(ad.asarray(parts[world.rank]), how)
            expected, what = reduced(parts, how), f"{how} of {dtype}, {shape}"
            if how == "prod" and dtype in COMPLEX:  # NumPy's bits depend on the place in an array
                np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, err_msg=what)
            else:
                same(found, expected, what)


def all_gather(world: Any) -> None:
    for dtype, shape in every():
        parts = arrays(world.size, dtype, SHAPES[shape])
        found = world.all_gather(ad.asarray(parts[world.rank]))
        same(found, np.stack(parts), f"{dtype}, {shape}")


def reduce_scatter(world: Any) -> None:
    for dtype, shape in every():
        if dtype == "bool":
            continue
        parts = arrays(world.size, dtype, (world.size, *SHAPES[shape]))
        with np.errstate(all="ignore"):
            found = world.reduce_scatter(ad.asarray(parts[world.rank]))
        same(found, np.asarray(reduced(parts, "sum")[world.rank]), f"{dtype}, {shape}")


def broadcast(world: Any) -> None:
    for k, (dtype, shape) in enumerate(every()):
        parts, root = arrays(world.size, dtype, SHAPES[shape]), k % world.size
        own = ad.asarray(parts[root]) if world.rank == root else "what it has doesn't matter"
        same(world.broadcast(own, root=root), parts[root], f"{dtype}, {shape}")


def layouts(world: Any) -> None:
    """Arrays whose elements aren't one after the other, of tensors and of NumPy."""
    views: dict[str, Callable[[Any], Any]] = {
        "transposed": lambda x: x.T,
        "strided": lambda x: x[::2, 1::3],
        "reversed": lambda x: x[::-1],
        "expanded": lambda x: x[:, None, :1],
    }
    parts = arrays(world.size, "float32", (2 * world.size, 6))
    for (name, view), as_input in itertools.product(views.items(), (np.array, ad.asarray)):
        own, each = view(as_input(parts[world.rank])), [view(x) for x in parts]
        what = f"{name} {as_input.__name__}"
        same(world.all_reduce(own), reduced(each, "sum"), what)
        same(world.all_gather(own), np.stack(each), what)
        same(world.broadcast(own, root=world.size - 1), each[-1], what)
        rows = view(as_input(np.resize(parts[world.rank], (2 * world.size, world.size * 6)).T))
        if rows.shape[0] == world.size:
            rest = [view(np.resize(x, (2 * world.size, world.size * 6)).T) for x in parts]
            same(world.reduce_scatter(rows), reduced(rest, "sum")[world.rank], what)
    whole = [np.asfortranarray(x) for x in arrays(world.size, "float64", (world.size, 5))]
    same(world.reduce_scatter(whole[world.rank]), reduced(whole, "sum")[world.rank], "Fortran's")
    wide = parts[world.rank].astype(">f4")
    same(world.all_reduce(wide), reduced(parts, "sum"), "of another byte order")


def numbers(world: Any) -> None:
    """Python's numbers give Python's, with all digits."""
    size, rank = world.size, world.rank
    big = 2**53 + 1
    for how, call in {"sum": sum, "max": max, "min": min, "prod": np.prod}.items():
        for own in (lambda k: big + 2 * k, lambda k: -big - 2 * k) if how != "prod" else ():
            found = world.all_reduce(own(rank), how)
            assert (type(found), found) == (int, call([own(k) for k in range(size)])), how
        factors = [0.1 + k for k in range(size)]
        found = world.all_reduce(factors[rank], how)
        expected = float(reduced([np.array(x) for x in factors], how))
        assert (type(found), found) == (float, expected), how
    assert world.all_reduce(3**9, "prod") == 3 ** (9 * size)
    mean = world.all_reduce(rank, "mean")
    assert (type(mean), mean) == (float, sum(range(size)) * (1 / size))
    count = world.all_reduce(rank == 0)
    assert (type(count), count) == (int, 1)
    nan = world.all_reduce(float("nan") if rank == size - 1 else 1.0, "max")
    assert nan != nan
    same(world.all_gather(big + rank), np.array([big + k for k in range(size)]), "all_gather")


def complex_numbers(world: Any) -> None:
    found = world.all_reduce(0.1 + 0.7j)
    assert type(found) is complex
    assert found == complex(reduced([np.array(0.1 + 0.7j)] * world.size, "sum"))


Pair = namedtuple("Pair", ["first", "second"])


def trees(world: Any) -> None:
    size, rank = world.size, world.rank
    first = [ad.full((2,), float(rank)), (rank, {"b": 0.5})]
    tree = {"a": first, 3: Pair(np.ones(1), ()), "none": {}}
    found = world.all_reduce(tree)
    assert list(found) == ["a", 3, "none"]
    same(found["a"][0], np.full(2, float(sum(range(size))), np.float32), "a tensor")
    assert found["a"][1] == (sum(range(size)), {"b": 0.5 * size})
    assert type(found[3]) is Pair
    same(found[3].first, np.full(1, float(size)), "an array")
    assert (found[3].second, found["none"]) == ((), {})
    assert world.all_reduce([]) == []
    gathered = world.all_gather((rank, [ad.asarray([rank])]))
    same(gathered[0], np.arange(size), "a number")
    same(gathered[1][0], np.arange(size)[:, None], "a tensor")
    rows = {"x": ad.ones((size, 2)), "y": np.arange(size)}
    scattered = world.reduce_scatter(rows)
    same(scattered["x"], np.full(2, float(size), np.float32), "x")
    same(scattered["y"], np.asarray(rank * size), "y")


def broadcast_trees(world: Any) -> None:
    """Text, None and integers of any size, from each rank."""
    tree = {
        "name": "größte",
        "none": None,
        "numbers": [2**64 - 1, -(2**70), 0.1, True, 1 - 2j],
        "pair": Pair(np.float32(0.1), "b"),
        7: {"w": ad.asarray([[1.5, 2.5]]).T, "i": np.arange(3, dtype=np.uint16)},
        "empty": ((), [], {}, ad.zeros((0, 2))),
    }
    for root in range(world.size):
        own = tree if world.rank == root else {"name": [ad.ones(2)]}
        found = world.broadcast(own, root)
        assert list(found) == list(tree)
        for key in ("name", "none", "numbers", "pair"):
            assert (found[key], type(found[key])) == (tree[key], type(tree[key])), key
        assert [type(x) for x in found["numbers"]] == [int, int, float, bool, complex]
        assert type(found["pair"].first) is np.float32
        same(found[7]["w"], np.array([[1.5], [2.5]], np.float32), "w")
        same(found[7]["i"], np.arange(3, dtype=np.uint16), "i")
        assert found["empty"][:3] == ((), [], {})
        same(found["empty"][3], np.zeros((0, 2), np.float32), "empty")


def results_are_new(world: Any) -> None:
    """What is done to a result isn't done to what was passed, nor the other way around."""
    calls: dict[str, tuple[Callable, tuple[int, ...]]] = {
        "all_reduce": (world.all_reduce, (2,)),
        "all_gather": (world.all_gather, (2,)),
        "reduce_scatter": (world.reduce_scatter, (world.size, 2)),
        "broadcast": (world.broadcast, (2,)),
    }
    for name, (call, shape) in calls.items():
        for x in (ad.ones(shape), np.ones(shape, np.float32)):
            out = call(x)
            before = out.numpy().copy()
            x[...] = 5.0
            same(out, before, name)
            out[...] = 7.0
            assert (np.asarray(x) == 5.0).all(), name


def barrier(world: Any) -> None:
    """No rank goes on before the last one is there."""
    if world.rank == world.size - 1:
        time.sleep(0.2)
    came = time.monotonic()  # of one machine
    world.barrier()
    went = time.monotonic()
    assert went >= world.all_reduce(came, "max")


def seeds(world: Any) -> None:
    """Each rank draws other numbers, the first those of one process."""
    world.seed(4)
    drawn = world.all_gather(ad.random.uniform(3)).numpy()
    assert len(np.unique(drawn)) == drawn.size
    ad.random.seed(4)
    np.testing.assert_array_equal(drawn[0], ad.random.uniform(3).numpy())
    world.seed(4)
    np.testing.assert_array_equal(drawn[world.rank], ad.random.uniform(3).numpy())


# Gradients


class Exchanged(NamedTuple):
    """An exchange, and what it gives on each rank where all arrays are known."""

    shape: Callable[[int], tuple[int, ...]]
    call: Callable[[Any, Any], Any]
    known: Callable[[list[Any]], list[Any]]


def total(xs: list[Any]) -> Any:
    return functools.reduce(lambda x, y: x + y, xs)


EXCHANGES = {
    "sum": Exchanged(
        lambda size: (2, 3), lambda world, x: world.all_reduce(x), lambda xs: [total(xs)] * len(xs)
    ),
    "mean": Exchanged(
        lambda size: (3,),
        lambda world, x: world.all_reduce(x, "mean"),
        lambda xs: [total(xs) / len(xs)] * len(xs),
    ),
    "0-d": Exchanged(
        lambda size: (), lambda world, x: world.all_reduce(x), lambda xs: [total(xs)] * len(xs)
    ),
    "gather": Exchanged(
        lambda size: (2, 3),
        lambda world, x: world.all_gather(x),
        lambda xs: [ad.stack(xs)] * len(xs),
    ),
    "gather of 0-d": Exchanged(
        lambda size: (), lambda world, x: world.all_gather(x), lambda xs: [ad.stack(xs)] * len(xs)
    ),
    "scatter": Exchanged(
        lambda size: (size, 3),
        lambda world, x: world.reduce_scatter(x),
        lambda xs: [total(xs)[k] for k in range(len(xs))],
    ),
    "scatter to 0-d": Exchanged(
        lambda size: (size,),
        lambda world, x: world.reduce_scatter(x),
        lambda xs: [total(xs)[k] for k in range(len(xs))],
    ),
    "tree": Exchanged(
        lambda size: (2,),
        lambda world, x: world.all_reduce({"a": x, "b": [x * x]})["b"][0],
        lambda xs: [total([x * x for x in xs])] * len(xs),
    ),
}  # fmt: skip


def loss_of(y: Any, rank: int) -> Any:
    """Another one on each rank."""
    return ((rank + 1.0) * ad.sin(y * (0.3 + rank)) * y).sum()


class Cases(NamedTuple):
    """Of an exchange, in one process: the ranks' xs, directions, and derivatives of first and
    second order of the sum of all losses."""

    xs: list[Any]
    directions: list[Any]
    first: tuple[Any, ...]
    second: tuple[Any, ...]


def cases_of(exchange: Exchanged, size: int) -> Cases:
    rng = np.random.default_rng(size)
    shape = exchange.shape(size)
    xs, directions = ([ad.asarray(rng.standard_normal(shape)) for _ in range(size)] for _ in "xd")
    each = tuple(range(size))

    def loss(*xs: Any) -> Any:
        return total([loss_of(y, k) for k, y in enumerate(exchange.known(list(xs)))])

    def slope(*xs: Any) -> Any:
        grads = ad.grad(loss, each)(*xs)
        return total([(g * v).sum() for g, v in zip(grads, directions, strict=True)])

    return Cases(xs, directions, ad.grad(loss, each)(*xs), ad.grad(slope, each)(*xs))


def near(found: Any, expected: Any, what: str) -> None:
    assert found.shape == expected.shape, what
    found, expected = found.detach().numpy(), expected.detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12, err_msg=what)


def gradients(world: Any) -> None:
    """Of a rank's x: those of the sum of all ranks' losses."""
    for name, exchange in EXCHANGES.items():
        cases = cases_of(exchange, world.size)
        own, direction = cases.xs[world.rank], cases.directions[world.rank]

        def loss(x: Any, exchange: Exchanged = exchange) -> Any:
            return loss_of(exchange.call(world, x), world.rank)

        near(ad.grad(loss)(own), cases.first[world.rank], f"{name}, grad")
        second = ad.grad(lambda x, loss=loss, v=direction: (ad.grad(loss)(x) * v).sum())(own)
        near(second, cases.second[world.rank], f"{name}, grad of grad")

        x = ad.asarray(own.numpy(), copy=True).requires_grad_()
        loss(x).backward()
        near(x.grad, cases.first[world.rank], f"{name}, backward")
        x.grad = None
        (g,) = ad.autograd.grad(loss(x), x, create_graph=True)
        (g * direction).sum().backward()
        near(x.grad, cases.second[world.rank], f"{name}, backward of grad")
        out, tangent = ad.jvp(loss, (own,), (direction,))
        slopes = [(g * v).sum() for g, v in zip(cases.first, cases.directions, strict=True)]
        near(ad.asarray(world.all_reduce(tangent)), total(slopes), f"{name}, jvp")
        near(out, loss(own), f"{name}, the value of jvp")


def no_gradients(world: Any) -> None:
    x = ad.ones(world.size).requires_grad_()
    for call in (world.all_reduce, world.all_gather, world.reduce_scatter):
        assert call(x).requires_grad
        with ad.no_grad():
            assert not call(x).requires_grad
        assert not call(x.detach()).requires_grad
    with ad.no_grad():
        assert not world.all_reduce(x, "max").requires_grad
        assert not world.broadcast(x).requires_grad


# Transforms


def mixed(world: Any, x: Any) -> Any:
    """One number, in which all differentiable exchanges are."""
    y = ad.sin(world.all_reduce(x * (world.rank + 1.0), "mean")) + x
    rows = world.all_gather(ad.tanh(y))
    return (world.reduce_scatter(rows * rows) * y).sum()


def own_x(world: Any, k: int) -> Any:
    return ad.asarray(np.random.default_rng([k, world.rank]).standard_normal(3))


def recorded(world: Any) -> None:
    """A function is recorded once, and exchanges new values each time."""
    value_and_grad = ad.value_and_grad(functools.partial(mixed, world))
    graph = ad.trace(value_and_grad, own_x(world, 0))
    compiled = ad.compile(value_and_grad)
    for k in range(4):
        expected = value_and_grad(own_x(world, k))
        for kind, call in {"trace": graph, "compile": compiled}.items():
            for part, y in zip(call(own_x(world, k)), expected, strict=True):
                near(part, y, f"{kind}, {k}")


def recorded_alike(world: Any) -> None:
    """Ranks make the same exchanges where what a compiler knows differs: what is the same twice on
    one rank, is constant or 0 there, or isn't used."""

    def f(x: Any) -> Any:
        rank = float(world.rank)
        one, other = world.all_reduce(x * rank), world.all_reduce(x * (2 * rank))
        zero = world.all_reduce(x * 0.0 if world.is_first else x)
        constant = world.all_reduce(ad.ones(3, dtype=ad.float64) if world.is_first else x)
        for_the_first = world.all_gather(x)[-1]
        out = one + other + zero + constant
        return out + for_the_first if world.is_first else out

    compiled, graph = ad.compile(f), ad.trace(f, own_x(world, 0))
    for k in range(3):
        x = own_x(world, k)
        near(graph(x), f(x), f"trace {k}")
        near(compiled(x), f(x), f"compile {k}")


def recorded_constants(world: Any) -> None:
    """What is constant on each rank may be another constant on another one the next time."""

    def f(x: Any) -> Any:
        return x.sum() / world.all_reduce(ad.asarray([float(x.shape[0])]))

    compiled = ad.compile(f)
    for k in (3, 2, 2, 3, 2):
        x = own_x(world, k)[: k if world.rank == 1 else 3]
        near(compiled(x), f(x), str(k))


def recorded_in_one_order(world: Any) -> None:
    """Exchanges come in one order on all ranks, though parts of different sizes are between."""

    def f(x: Any, wide: Any) -> Any:
        one = world.all_reduce(ad.exp(wide).sum(axis=0, keepdims=True) * x)
        other = world.all_reduce(ad.sin(x) * (wide * wide).sum())
        rows = world.all_gather(ad.cos(wide[:1]))
        return (one * other).sum() + (rows * wide.sum()).sum()

    call = ad.value_and_grad(f, (0, 1))
    compiled = ad.compile(call)
    for k in range(3):
        wide = own_x(world, k)[0] * ad.ones((1000 if world.rank else 3,), dtype=ad.float64)
        (value, grads), (y, expected) = compiled(own_x(world, k), wide), call(own_x(world, k), wide)
        near(value, y, "value")
        for g, h in zip(grads, expected, strict=True):
            near(g / (1 + abs(h).max()), h / (1 + abs(h).max()), "gradient")


def checkpoints(world: Any) -> None:
    def f(x: Any) -> Any:
        return ad.checkpoint(functools.partial(mixed, world), ad.sin(x)) * 2.0

    plain: Callable = lambda x: mixed(world, ad.sin(x)) * 2.0  # noqa: E731
    for k in range(2):
        near(ad.grad(f)(own_x(world, k)), ad.grad(plain)(own_x(world, k)), "grad")
        x = own_x(world, k).requires_grad_()
        f(x).backward()
        near(x.grad, ad.grad(plain)(own_x(world, k)), "backward")


def many_at_once(world: Any) -> None:
    """Under vmap each example is exchanged, as if one came after the other."""
    xs = ad.stack([own_x(world, k) for k in range(4)])
    f = functools.partial(mixed, world)
    near(ad.vmap(f)(xs), ad.stack([f(x) for x in xs]), "values")
    near(ad.vmap(ad.grad(f))(xs), ad.stack([ad.grad(f)(x) for x in xs]), "gradients")


# Errors: all ranks have them before anything is exchanged, and can go on.


def errors(world: Any) -> None:
    size = world.size
    x = ad.ones(2).requires_grad_()
    flags = ad.zeros((size, 2), dtype=ad.bool)
    cases: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (
            lambda: world.all_reduce(1.0, "avg"), ad.ArgumentError,
            r"all_reduce: how='avg' is none of sum, mean, max, min, prod",
        ),
        (lambda: world.all_reduce(1.0, ["sum"]), ad.ArgumentError, r"all_reduce: how=\['sum'\] is"),
        (
            lambda: world.all_reduce(np.ones(2, np.int32), "mean"), ad.DTypeError,
            r"all_reduce: a mean of int32; use astype\(x, ad\.float32\)",
        ),
        (lambda: world.all_reduce(flags), ad.DTypeError, r"all_reduce: a sum of booleans; use"),
        (lambda: world.all_reduce(flags, "prod"), ad.DTypeError, "all_reduce: a prod of booleans"),
        (lambda: world.all_reduce(flags, "mean"), ad.DTypeError, "all_reduce: a mean of bool"),
        *[
            (
                lambda how=how: world.all_reduce({"x": x}, how), ad.GradientError,
                rf"all_reduce: how='{how}' has no gradient; use x\.detach\(\) or ad\.no_grad\(\)",
            )
            for how in ("max", "min", "prod")
        ],
        (lambda: world.all_reduce("a"), ad.DTypeError, "all_reduce: a tensor is needed, got str"),
        (
            lambda: world.all_reduce({"a": [None]}), ad.DTypeError,
            "all_reduce: a tensor is needed, got NoneType",
        ),
        (lambda: world.all_reduce(2**63), ad.AdjointError, r"all_reduce: .*9223372036854775808"),
        (lambda: world.all_gather(-(2**64)), ad.AdjointError, "all_gather: .*-184467440737095516"),
        (lambda: world.all_gather("a"), ad.DTypeError, "all_gather: a tensor is needed, got str"),
        (
            lambda: world.reduce_scatter(ad.ones((size + 1, 2))), ad.ArgumentError,
            rf"reduce_scatter: the first axis .* {size} ranks, got shape \({size + 1}, 2\)",
        ),
        (lambda: world.reduce_scatter(1.0), ad.ArgumentError, r"reduce_scatter: .* got shape \(\)"),
        (
            lambda: world.reduce_scatter(flags), ad.DTypeError,
            r"reduce_scatter: a sum of booleans; use astype\(x, ad\.int64\)$",
        ),
        (
            lambda: world.broadcast(1, root=size), ad.ArgumentError,
            rf"broadcast: root={size} is none of the {size} ranks",
        ),
        (lambda: world.broadcast(1, root=-1), ad.ArgumentError, "broadcast: root=-1 is none of"),
        (lambda: world.broadcast(1, root=0.5), ad.DTypeError, "broadcast: root must be an integer"),
    ]  # fmt: skip
    for call, kind, text in cases:
        with raises(kind, text):
            call()
    if world.is_first:
        with raises(ad.GradientError, r"broadcast: its results have no gradient; use"):
            world.broadcast({"x": x})
    assert world.all_reduce(1) == size


# What goes in, and the type, dtype and shape that come out.


def types(world: Any) -> None:
    f4, i8 = (np.ones((world.size, 2), dtype) for dtype in ("float32", "int64"))
    p = ad.nn.Parameter(ad.ones((world.size, 2)))
    n, rows = world.size, (world.size, 2)
    reduced: list[tuple[Any, str, Any]] = [
        (ad.asarray(f4), "sum", ("float32", rows)),
        (p, "sum", ("float32", rows)),
        (p, "mean", ("float32", rows)),
        (f4, "mean", ("float32", rows)),
        (i8, "prod", ("int64", rows)),
        (i8 == 1, "max", ("bool", rows)),
        (np.float32(1), "sum", ("float32", ())),
        (np.int16(1), "max", ("int16", ())),
        (1, "sum", int),
        (1, "mean", float),
        (1, "max", int),
        (True, "sum", int),
        (1.5, "sum", float),
        (1.5, "min", float),
    ]
    for x, how, expected in reduced:
        assert kind_of(world.all_reduce(x, how)) == expected, (x, how)
    gathered: list[tuple[Any, Any]] = [
        (p, ("float32", (n, *rows))),
        (i8, ("int64", (n, *rows))),
        (1, ("int64", (n,))),
        (1.5, ("float64", (n,))),
        (True, ("int64", (n,))),
        (np.float32(1), ("float32", (n,))),
    ]
    for x, expected in gathered:
        assert kind_of(world.all_gather(x)) == expected, x
    for x, expected in [(p, ("float32", (2,))), (i8, ("int64", (2,))), (i8[:, 0], ("int64", ()))]:
        assert kind_of(world.reduce_scatter(x)) == expected, x
    sent: list[tuple[Any, Any]] = [
        (p.detach(), ("float32", rows)),
        (i8, ("int64", rows)),
        (np.float32(1), np.float32),
        (True, bool),
        (None, type(None)),
        ("text", str),
    ]
    for x, expected in sent:
        assert kind_of(world.broadcast(x)) == expected, x


def kind_of(x: Any) -> Any:
    return (x.dtype.name, x.shape) if type(x) is ad.Tensor else type(x)


CHECKS = (
    all_reduce, all_gather, reduce_scatter, broadcast, layouts, numbers, complex_numbers, trees,
    broadcast_trees, results_are_new, barrier, seeds, gradients, no_gradients, recorded,
    recorded_constants, checkpoints, many_at_once, errors, types,
)  # fmt: skip
ORDERS = recorded_alike, recorded_in_one_order


def run_all(world: Any, folder: Path) -> dict[str, np.ndarray]:
    return outcomes(world, CHECKS)


def run_orders(world: Any, folder: Path) -> dict[str, np.ndarray]:
    return outcomes(world, ORDERS)
