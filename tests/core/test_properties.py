"""Properties on random programs: the engine and the value semantics against naive models."""

from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import adjoint as ad
from tests.support.changes import Pool, value_programs
from tests.support.helpers import leaf, unbroadcast, values

quick = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
sizes = st.integers(0, 3)
shapes = st.lists(sizes, max_size=3).map(tuple)


def array_of(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Different numbers between -1 and 1."""
    return np.random.default_rng(seed).uniform(-1, 1, shape)


# The engine against a recursive evaluator

# Each op on matrices: its value, and the gradient that each input gets.
MODEL: dict[str, tuple[Any, Any]] = {
    "add": (lambda x, y: x + y, lambda g, out, x, y: (g, g)),
    "multiply": (lambda x, y: x * y, lambda g, out, x, y: (g * y, g * x)),
    "matmul": (lambda x, y: x @ y, lambda g, out, x, y: (g @ y.T, x.T @ g)),
    "tanh": (np.tanh, lambda g, out, x: (g * (1 - out * out),)),
    "exp": (lambda x: np.exp(np.tanh(x)), lambda g, out, x: (g * out * (1 - np.tanh(x) ** 2),)),
    "sum": (lambda x: x.sum(axis=0, keepdims=True), lambda g, out, x: (np.repeat(g, len(x), 0),)),
}
ADJOINT: dict[str, Any] = {
    "add": ad.add,
    "multiply": ad.multiply,
    "matmul": ad.matmul,
    "tanh": ad.tanh,
    "exp": lambda x: ad.exp(ad.tanh(x)),
    "sum": lambda x: ad.sum(x, axis=0, keepdims=True),
}


class Program:
    """A list of steps (op, positions of the arguments), after `leaves` input matrices."""

    def __init__(self, leaves: list[np.ndarray], steps: list[tuple[str, tuple[int, ...]]]) -> None:
        self.leaves = leaves
        self.steps = steps

    def run(self, inputs: list[Any], table: dict[str, Any]) -> list[Any]:
        results = list(inputs)
        for name, args in self.steps:
            results.append(table[name](*(results[k] for k in args)))
        return results

    def gradient(self, results: list[np.ndarray], root: int, wanted: int) -> np.ndarray | None:
        """d sum(results[root]) / d results[wanted], by summing over all paths, recursively."""
        if root == wanted:
            return np.ones_like(results[root])
        total = None
        for user, (name, args) in enumerate(self.steps, len(self.leaves)):
            if user > root or wanted not in args:
                continue
            g = self.gradient(results, root, user)
            if g is None:
                continue
            inputs = [results[k] for k in args]
            parts = MODEL[name][1](g, results[user], *inputs)
            for k, part in zip(args, parts, strict=True):
                if k == wanted:
                    part = unbroadcast(part, results[k].shape)
                    total = part if total is None else total + part
        return total


@st.composite
def programs(draw) -> Program:
    sides = st.sampled_from([1, 2])
    leaves = [array_of((draw(sides), draw(sides)), seed) for seed in range(draw(st.integers(1, 3)))]
    steps: list[tuple[str, tuple[int, ...]]] = []
    results = list(leaves)
    for _ in range(draw(st.integers(1, 8))):
        name = draw(st.sampled_from(sorted(MODEL)))
        count = 2 if name in ("add", "multiply", "matmul") else 1
        args = tuple(draw(st.integers(0, len(results) - 1)) for _ in range(count))
        try:
            out = MODEL[name][0](*(results[k] for k in args))
        except ValueError:
            continue
        if np.abs(out).max() < 1e3:
            steps.append((name, args))
            results.append(out)
    return Program(leaves, steps)


@quick
@given(programs(), st.data())
def test_every_entry_point_agrees_with_a_recursive_evaluator(program, data):
    expected = program.run(program.leaves, {name: f for name, (f, _) in MODEL.items()})
    root = data.draw(st.integers(0, len(expected) - 1), "root")
    frozen = data.draw(st.sampled_from([None, *range(len(program.leaves))]), "frozen")
    inputs = [
        ad.tensor(x, requires_grad=k != frozen or k == root) for k, x in enumerate(program.leaves)
    ]
    results = program.run(inputs, ADJOINT)
    np.testing.assert_allclose(values(results[root]), expected[root], rtol=1e-12)
    assume(results[root].requires_grad)

    gradients = [program.gradient(expected, root, k) for k in range(len(expected))]
    recorded = [k for k, x in enumerate(results) if x.requires_grad]
    out = results[root].sum()
    grads = ad.gradients(out, of=[results[k] for k in recorded], retain_graph=True)
    asked = ad.autograd.grad(
        out, [results[k] for k in recorded], retain_graph=True, allow_unused=True
    )
    again = ad.autograd.grad(
        out, [results[k] for k in recorded], create_graph=True, allow_unused=True
    )
    out.backward()
    for k, *found in zip(recorded, asked, again, strict=True):
        found.append(grads.get(results[k]))
        if k < len(inputs):
            found.append(inputs[k].grad)
        for g in found:
            if gradients[k] is None:
                assert g is None
            else:
                np.testing.assert_allclose(values(g), gradients[k], rtol=1e-9, atol=1e-9)
    if frozen is not None and frozen != root:
        assert inputs[frozen].grad is None


@settings(quick, max_examples=200)
@given(programs())
def test_second_derivatives_agree_with_differences_of_the_recursive_evaluator(program):
    numpy_table = {name: f for name, (f, _) in MODEL.items()}

    def slope(first: np.ndarray) -> np.ndarray | None:
        results = program.run([first, *program.leaves[1:]], numpy_table)
        return program.gradient(results, len(results) - 1, 0)

    start = program.leaves[0]
    if slope(start) is None:
        return
    x = leaf(start)
    out = program.run([x, *map(ad.asarray, program.leaves[1:])], ADJOINT)[-1]
    (g,) = ad.autograd.grad(out.sum(), x, create_graph=True)
    assert g is not None
    h, direction = 1e-5, array_of(start.shape, 9)
    second = None
    if g.requires_grad:
        second = ad.autograd.grad(g, x, ad.asarray(direction), allow_unused=True)[0]
    up, down = slope(start + h * direction), slope(start - h * direction)
    assert up is not None
    assert down is not None
    numeric = (up - down) / (2 * h)  # the Hessian is symmetric: H v for v^T H
    exact = np.zeros_like(start) if second is None else values(second)
    scale = 1 + np.abs(numeric).max()
    np.testing.assert_allclose(exact / scale, numeric / scale, atol=1e-4)


# Value semantics


@settings(quick, max_examples=400)
@given(value_programs())
def test_tensors_are_values_under_any_sequence_of_views_and_changes(program):
    pool = Pool()
    for step in program:
        pool.step(*step)
        pool.check()


@settings(quick, max_examples=200)
@given(value_programs())
def test_recorded_changes_give_the_same_values_and_spare_saved_ones(program):
    """The same programs on computed tensors; what was saved before them must not change."""
    pool = Pool()
    x = leaf(pool.models[0])
    pool.tensors[0] = x * 1.0
    loss = (pool.tensors[0] * pool.tensors[0]).sum()
    for step in program:
        if step[0] != "numpy":
            pool.step(*step)
            pool.check()
    loss.backward()
    np.testing.assert_array_equal(values(x.grad), 2 * np.arange(6.0).reshape(2, 3))


@settings(quick, max_examples=200)
@given(value_programs())
def test_recorded_changes_have_the_gradients_of_a_linear_map(program):
    """Without products of tensors a program is linear in its start: its slope is a difference."""
    linear = [
        s for s in program if s[0] not in ("numpy", "detach") and s[:1] + s[2:3] != ("in place", 2)
    ]

    def run(start: Any) -> Any:
        pool = Pool()
        pool.tensors[0], pool.models[0] = start, values(start).copy()
        for step in linear:
            pool.step(*step)
        return ad.sum(pool.tensors[-1] * ad.asarray(array_of(pool.tensors[-1].shape)))

    start, direction = np.arange(6.0).reshape(2, 3), array_of((2, 3), 5)
    x = leaf(start)
    out = run(x * 1.0)
    assume(out.requires_grad)
    (g,) = ad.autograd.grad(out, x, allow_unused=True)
    slope = 0.0 if g is None else float((values(g) * direction).sum())
    # A step of 1/16 flips no mask and loses few digits.
    ahead, behind = (run(ad.asarray(start + s * direction)).item() for s in (1 / 16, -1 / 16))
    assert slope == pytest.approx((ahead - behind) * 8, rel=1e-6, abs=1e-6)


# Indexing


@st.composite
def indexed(draw) -> tuple[tuple[int, ...], Any]:
    """A shape and an index for it, as NumPy takes it: basic, arrays, masks, and mixtures."""
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4))
    if draw(st.booleans()):
        return shape, draw(hnp.basic_indices(shape, allow_newaxis=True))
    entries: list[Any] = []
    axis, block = 0, draw(st.sampled_from([(), (2,), (3,), (2, 1), (2, 3), (0,)]))
    while axis < len(shape):
        n = shape[axis]
        kind = draw(st.sampled_from(["array", "slice", "int", "mask", "none", "stop", "list"]))
        if kind == "stop":
            break
        if kind == "none":
            entries.append(None)
            continue
        if kind == "slice":
            entries.append(draw(st.slices(n)))
        elif kind == "mask":
            entries.append(np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), bool))
        elif n == 0 and 0 not in block:
            entries.append(slice(None))
        elif kind == "int" and n:
            entries.append(draw(st.integers(-n, n - 1)))
        else:
            numbers = draw(hnp.arrays(np.int64, block, elements=st.integers(-n, max(n - 1, 0))))
            entries.append(numbers.tolist() if kind == "list" and block else numbers)
        axis += 1
    return shape, tuple(entries)


def as_index(index: Any) -> Any:
    """The same index with tensors for its arrays."""
    entries = index if isinstance(index, tuple) else (index,)
    return tuple(ad.asarray(e) if isinstance(e, np.ndarray) else e for e in entries)


def select(array: np.ndarray, index: Any) -> np.ndarray:
    try:
        return np.asarray(array[index])
    except IndexError:  # such as masks whose counts don't broadcast
        assume(False)
        raise


@settings(quick, max_examples=400)
@given(indexed(), st.booleans())
def test_reading_an_index_agrees_with_numpy_and_has_its_adjoint_as_gradient(case, tensors):
    shape, index = case
    array = array_of(shape)
    expected = select(array, index)
    x = leaf(array)
    out = x[as_index(index) if tensors else index]
    assert type(out.raw) is np.ndarray
    np.testing.assert_array_equal(values(out), expected)
    g = array_of(expected.shape, 1)
    out.backward(gradient=ad.asarray(g))
    back = np.zeros(shape)
    np.add.at(back, index, g)
    np.testing.assert_allclose(values(x.grad), back, atol=1e-12)


@settings(quick, max_examples=400)
@given(indexed(), st.sampled_from(["whole", "scalar", "broadcast"]), st.booleans())
def test_writing_an_index_agrees_with_numpy_in_every_way(case, kind, tensors):
    shape, index = case
    array = array_of(shape)
    place = select(array, index).shape
    value_shape = {"whole": place, "scalar": (), "broadcast": place[1:]}[kind]
    v = array_of(value_shape, 1)
    expected, added = array.copy(), array.copy()
    expected[index] = v
    np.add.at(added, index, np.broadcast_to(v, place))  # NumPy 2.4 misreads narrower values
    given_index = as_index(index) if tensors else index

    plain = ad.asarray(array)
    plain[given_index] = ad.asarray(v)
    np.testing.assert_array_equal(plain.numpy(), expected)
    x, value = leaf(array), leaf(v)
    recorded = x * 1.0
    recorded[given_index] = value
    np.testing.assert_array_equal(values(recorded), expected)
    np.testing.assert_allclose(values(x.at[given_index].add(v)), added, atol=1e-12)

    g = array_of(shape, 2)
    recorded.backward(gradient=ad.asarray(g))
    # Which element of the value stands at each place: number them, and write the numbers.
    owner = np.full(shape, -1)
    owner[index] = np.broadcast_to(np.arange(v.size).reshape(value_shape), place)
    if given_index is Ellipsis:
        assert x.grad is None  # nothing of x is left
    else:
        np.testing.assert_array_equal(values(x.grad), np.where(owner < 0, g, 0))
    expected_g = np.bincount(owner[owner >= 0], g[owner >= 0], minlength=v.size)[: v.size]
    np.testing.assert_allclose(values(value.grad), expected_g.reshape(value_shape), atol=1e-12)


@quick
@given(
    hnp.array_shapes(max_dims=3, max_side=3), st.integers(0, 2), st.integers(3, 9), st.booleans()
)
def test_an_index_out_of_range_is_an_indexing_error_with_the_shape(shape, axis, wrong, as_array):
    axis %= len(shape)
    entry: Any = [wrong] if as_array else wrong
    index = (*(slice(None) for _ in range(axis)), entry)
    x = ad.zeros(shape)
    for use in (lambda: x[index], lambda: x.__setitem__(index, 1.0), lambda: x.at[index].set(1.0)):
        with pytest.raises(ad.IndexingError) as error:
            use()
        assert str(shape) in str(error.value)
    np.testing.assert_array_equal(x.numpy(), np.zeros(shape))


# Broadcasting

BINARY: dict[str, Any] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "less": np.less,
    "equal": np.equal,
    "where": lambda x, y: np.where(x > 0, x, y),
}


def function_named(name: str) -> Any:
    return (lambda x, y: ad.where(x > 0, x, y)) if name == "where" else getattr(ad, name)


@settings(quick, max_examples=300)
@given(st.sampled_from(sorted(BINARY)), shapes, shapes)
def test_broadcasting_of_values_and_gradients_agrees_with_numpy(name, x_shape, y_shape):
    a, b = array_of(x_shape, 1) + 2, array_of(y_shape, 2) + 2
    x, y = leaf(a), leaf(b)
    try:
        expected = np.asarray(BINARY[name](a, b))
    except ValueError:
        with pytest.raises(ad.ShapeError) as error:
            function_named(name)(x, y)
        assert str(x_shape) in str(error.value)
        assert str(y_shape) in str(error.value)
        return
    out = function_named(name)(x, y)
    assert type(out.raw) is np.ndarray
    np.testing.assert_array_equal(values(out), expected)
    if name in ("less", "equal"):
        assert not out.requires_grad
        return
    g = array_of(expected.shape, 3)
    out.backward(gradient=ad.asarray(g))
    # The same with operands that are broadcast beforehand, and the gradients summed by hand.
    full_x, full_y = (leaf(np.broadcast_to(v, expected.shape)) for v in (a, b))
    function_named(name)(full_x, full_y).backward(gradient=ad.asarray(g))
    for small, full in ((x, full_x), (y, full_y)):
        g_full = values(full.grad)
        g_full = g_full.sum(axis=tuple(range(g_full.ndim - small.ndim)))
        summed = unbroadcast(g_full, small.shape)
        np.testing.assert_allclose(values(small.grad), summed, atol=1e-12)


@settings(quick, max_examples=150)
@given(shapes, shapes, st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_matmul_broadcasts_its_batch_like_numpy(x_batch, y_batch, n, k, m):
    a, b = array_of((*x_batch, n, k), 1), array_of((*y_batch, k, m), 2)
    x, y = leaf(a), leaf(b)
    try:
        expected = a @ b
    except ValueError:
        with pytest.raises(ad.ShapeError):
            ad.matmul(x, y)
        return
    out = x @ y
    np.testing.assert_allclose(values(out), expected, atol=1e-12)
    g = array_of(expected.shape, 3)
    out.backward(gradient=ad.asarray(g))
    for tensor, full in ((x, g @ b.swapaxes(-1, -2)), (y, a.swapaxes(-1, -2) @ g)):
        full = full.sum(axis=tuple(range(full.ndim - tensor.ndim)))
        batch = tuple(
            axis
            for axis, size in enumerate(tensor.shape[:-2])
            if size == 1 and full.shape[axis] != 1
        )
        summed = full.sum(axis=batch, keepdims=True)
        np.testing.assert_allclose(values(tensor.grad), summed, atol=1e-12)
