"""Transforms, traces, checkpoints and ops of one's own on a GPU, and random programs: all as on the
CPU in float32."""

import functools
import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.testing import check_grads
from tests.support import swiftshader
from tests.support.changes import Pool, value_programs
from tests.support.checkpoint_programs import PROGRAMS, gradients_of, plain
from tests.support.helpers import as_tuple
from tests.support.transform_cases import ADJOINT, CASES, TRANSFORMS, Case, transformed
from tests.webgpu import tensors
from tests.webgpu.tensors import leaf, numbers, on

pytestmark = pytest.mark.webgpu

# Of the largest magnitude in the result. Both devices round every op, which are a few dozen here,
# with terms of both signs in their sums.
TOLERANCE = 1e-5
close = functools.partial(tensors.close, tolerance=TOLERANCE)


# Transforms


def library(device: str) -> SimpleNamespace:
    """What cases are written in, for one device."""
    made = {"const": lambda values: on(device, values)}
    made["integers"] = lambda values: ad.asarray(values, device=device)
    return SimpleNamespace(**vars(ADJOINT) | made)


LIBRARIES = {device: library(device) for device in ("cpu", "webgpu")}
# One in another, innermost first.
NESTED = [
    ("grad", "grad"),
    ("grad", "vmap"),
    ("vmap", "grad"),
    ("jvp", "grad"),
    ("grad", "jvp"),
    ("jacobian", "vmap"),
    ("vjp", "vjp"),
    ("hvp", "vmap"),
    ("vmap", "vmap"),
]


def same_on_both(case: Case, *names: str) -> None:
    found, expected = (transformed(LIBRARIES[d], case, *names)(case.x) for d in ("webgpu", "cpu"))
    assert np.abs(expected).max() > 0
    close(found, expected)


@pytest.mark.parametrize(
    ("case", "name"),
    [
        pytest.param(case, name, id=f"{name} of {case.name}")
        for case in CASES.values()
        for name in TRANSFORMS
        if not (case.branches and name == "vmap")  # each example has its own branch
    ],
)
def test_transforms(case: Case, name: str) -> None:
    same_on_both(case, name)


@pytest.mark.parametrize("names", NESTED, ids=lambda names: " of ".join(reversed(names)))
@pytest.mark.parametrize("name", ["softmax", "assignment", "matmul_chain", "where_and_clip"])
def test_transforms_of_transforms(name: str, names: tuple[str, ...]) -> None:
    same_on_both(CASES[name], *names)


# Traces


def network(x: ad.Tensor, w: ad.Tensor, b: ad.Tensor) -> ad.Tensor:
    h = ad.where(x @ w > 0.9, ad.tanh(x @ w + b), x**3 * 0.5)
    return (F.layer_norm(h, (3,)) * ad.softmax(h, axis=0)).sum()


def operands(device: str) -> list[ad.Tensor]:
    return [leaf(device, numbers(*s, seed=k)) for k, s in enumerate(((2, 3), (3, 3), (3,)))]


def total(grads: Any) -> Any:
    """The sum of squares of all gradients that there are."""
    return sum((g * g).sum() for g in grads if g is not None)


def second_order(*args: ad.Tensor) -> tuple:
    grads = ad.autograd.grad(network(*args), args, create_graph=True)
    return ad.autograd.grad(total(grads), args)


TRACED: dict[str, Callable[..., Any]] = {
    "forward": network,
    "gradient": lambda *args: ad.autograd.grad(network(*args), args),
    "second order": second_order,
    "grad": lambda *args: ad.grad(network, argnums=(0, 1, 2))(*args),
    "vmap": lambda x, w, b: ad.vmap(lambda x: ad.tanh(x @ w) * b)(x),
    "vmap of grad": lambda x, w, b: ad.vmap(ad.grad(lambda x: ad.sin(x @ w) @ b))(x),
}


@pytest.mark.parametrize("function", TRACED.values(), ids=TRACED)
def test_a_trace_replays_with_the_same_bits_and_on_other_values(function: Callable) -> None:
    args = operands("webgpu")
    graph = ad.trace(function, *args)
    again = [leaf("webgpu", x.detach().numpy() * 0.75) for x in args]
    for given_ in (args, again):
        found, expected = graph(*given_), function(*given_)
        for one, other in zip(as_tuple(found), as_tuple(expected), strict=True):
            assert one.device == "webgpu"
            np.testing.assert_array_equal(one.detach().numpy(), other.detach().numpy())


def test_a_traced_training_step_with_dropout_and_momentum_replays_its_updates() -> None:
    def losses(device: str, traced: bool) -> list[float]:
        ad.random.seed(7)
        x, w, b = operands(device)
        x = x.detach()
        optimizer = ad.optim.SGD([w, b], lr=0.1, momentum=0.9)

        def step(x: ad.Tensor) -> ad.Tensor:
            optimizer.zero_grad()
            loss = network(F.dropout(x, 0.4), w, b)
            loss.backward()
            optimizer.step()
            return loss

        run = ad.trace(step, x) if traced else step
        out = [run(x).item() for _ in range(4)]
        assert len(set(out)) == 4
        return out

    assert losses("webgpu", True) == losses("webgpu", False)
    close(np.array(losses("webgpu", True), "f"), np.array(losses("cpu", True), "f"))


def test_a_trace_is_for_the_device_it_was_made_on() -> None:
    here, there = operands("cpu"), operands("webgpu")
    graph = ad.trace(network, *there)
    with pytest.raises(ad.AdjointError, match="webgpu"):
        graph(*here)


# Checkpoints


def squares(device: str) -> list[ad.Tensor]:
    return [leaf(device, numbers(3, 3, seed=k)) for k in range(3)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_with_checkpoints_are_those_without(name: str) -> None:
    tensors = squares("webgpu")
    found = gradients_of(ad.checkpoint, PROGRAMS[name], tensors)
    without = gradients_of(plain, PROGRAMS[name], tensors)
    on_cpu = gradients_of(ad.checkpoint, PROGRAMS[name], squares("cpu"))
    for one, other, expected in zip(found, without, on_cpu, strict=True):
        np.testing.assert_array_equal(one, other)
        if expected.dtype == np.float32:
            close(one, expected)


@pytest.mark.parametrize("name", ["closed over", "nested checkpoints", "several outputs"])
def test_checkpoints_have_second_order_and_replay_in_traces(name: str) -> None:
    def second(run: Callable, *tensors: ad.Tensor) -> tuple:
        out = PROGRAMS[name](run, *tensors)
        grads = ad.autograd.grad(out, tensors, create_graph=True, allow_unused=True)
        return ad.autograd.grad(total(grads), tensors, allow_unused=True)

    tensors = squares("webgpu")
    expected = second(plain, *tensors)
    traced = ad.trace(lambda *xs: second(ad.checkpoint, *xs), *tensors)
    for found in (second(ad.checkpoint, *tensors), traced(*tensors)):
        for one, other in zip(found, expected, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                close(one.detach().numpy(), other.detach().numpy())


def test_dropout_in_a_checkpoint_replays_and_leaves_the_stream_alone() -> None:
    def run(device: str, call: Callable) -> list:
        ad.random.seed(3)
        x, w, _ = squares(device)
        masks = []

        def layer(x: ad.Tensor) -> ad.Tensor:
            out = F.dropout(ad.tanh(x @ w), 0.5)
            masks.append((out != 0).numpy())
            return out

        call(layer, call(layer, x)).sum().backward()
        return [masks, x.grad.numpy(), w.grad.numpy(), ad.random.bits((2,)).tolist()]

    masks, *found = run("webgpu", ad.checkpoint)
    plainly, *without = run("webgpu", plain)
    np.testing.assert_array_equal(masks[:2], plainly)
    np.testing.assert_array_equal(masks[2:], plainly[::-1])  # backward begins at the end
    for one, other in zip(found, without, strict=True):
        np.testing.assert_array_equal(one, other)
    *grads, words = run("cpu", ad.checkpoint)[1:]
    close(found[0], grads[0])
    close(found[1], grads[1])
    assert found[2] == words


def test_a_sequence_of_checkpoints_keeps_less_memory_on_the_device(no_garbage: None) -> None:
    pool = ad.backends.backend("webgpu").gpu.pool  # type: ignore[attr-defined]
    weights = [leaf("webgpu", 0.1 * numbers(64, 64, seed=k)) for k in range(16)]
    layers = [lambda h, w=w: ad.tanh(h @ w) for w in weights]

    def kept(segments: int | None) -> int:
        x = leaf("webgpu", numbers(256, 64))
        before = pool.in_use
        h = x
        if segments is None:
            for layer in layers:
                h = layer(h)
        else:
            h = ad.checkpoint_sequential(layers, segments, x)
        held = pool.in_use - before
        h.sum().backward()
        return held

    activation = 256 * 64 * 4
    assert kept(None) >= 16 * activation
    assert kept(4) <= 5 * activation


def test_a_checkpoint_that_does_something_else_is_found() -> None:
    x, calls = leaf("webgpu", [1.0, 2.0]), []

    def unsteady(x: ad.Tensor) -> ad.Tensor:
        calls.append(ad.is_recomputing())
        return x * x if len(calls) == 1 else x + x

    with pytest.raises(ad.GradientError, match="did something else"):
        ad.checkpoint(unsteady, x).sum().backward()
    assert calls == [False, True]
    assert not ad.is_recomputing()


def test_a_parameter_that_changed_before_its_checkpoint_runs_again_is_found() -> None:
    x, w = leaf("webgpu", np.ones(5000)), leaf("webgpu", np.ones(5000))
    out = ad.checkpoint(lambda x: x * w, x).sum()
    with ad.no_grad():
        w += 1.0
    with pytest.raises(ad.GradientError, match="changed between"):
        out.backward()


# Ops of one's own

cube = ad.op.elementwise("cube", x=lambda g, x: 3 * g * x * x, forward=lambda x: x * x * x)
swish = ad.op.elementwise(
    "swish_by",
    inputs="x beta",
    x=lambda g, x, beta: g * (ad.sigmoid(beta * x) * (1 + beta * x * (1 - ad.sigmoid(beta * x)))),
    beta=lambda g, x, beta: g * x * x * ad.sigmoid(beta * x) * (1 - ad.sigmoid(beta * x)),
    forward=lambda x, beta: x * ad.sigmoid(beta * x),
)
moments = ad.op.other(
    "mean_and_square",
    inputs="x",
    outputs="mean square",
    vjp=lambda g_mean, g_square, x: ((g_mean + 2 * g_square * x) / x.size + 0 * x,),
    forward=lambda x: (ad.mean(x), ad.mean(x * x)),
    shape=lambda x_shape: ((), ()),
)
OWN: dict[str, Callable[..., ad.Tensor]] = {
    "elementwise": lambda x, y: cube(x) * y,
    "broadcast": lambda x, y: swish(x, y[0]),
    "several outputs": lambda x, y: (lambda mean, square: mean * square * y)(*moments(x)),
}


@pytest.mark.parametrize("function", OWN.values(), ids=OWN)
def test_ops_declared_by_a_forward_in_ops_work_with_their_gradients(function: Callable) -> None:
    def results(device: str) -> list[np.ndarray]:
        args = [leaf(device, numbers(2, 3, seed=k)) for k in range(2)]
        out = function(*args)
        grads = ad.autograd.grad((out * out).sum(), args, create_graph=True)
        second = ad.autograd.grad(total(grads), args)
        return [x.detach().numpy() for x in (out, *grads, *second)]

    for found, expected in zip(results("webgpu"), results("cpu"), strict=True):
        close(found, expected)


def test_ops_of_ones_own_work_in_transforms_and_traces() -> None:
    x = on("webgpu", numbers(2, 3))
    expected = 3 * numbers(2, 3) ** 2
    close(ad.vmap(ad.grad(lambda x: cube(x).sum()))(x).numpy(), expected)
    close(ad.trace(ad.grad(lambda x: cube(x).sum()), x)(x).numpy(), expected)
    close(ad.jvp(cube, (x,), (ad.ones((2, 3), device="webgpu"),))[1].numpy(), expected)


def declared(kind: Callable, name: str, kernel: Callable) -> Callable[[ad.Tensor], ad.Tensor]:
    shape = {} if kind is ad.op.elementwise else {"shape": lambda x_shape: x_shape}
    return kind(name, x=lambda g: g, kernels={"cpu": kernel}, **shape)


@pytest.mark.parametrize("kind", [ad.op.elementwise, ad.op.other], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", ["only_here", "exp", "sort", "svd", "matrix_transpose"])
def test_an_op_with_a_kernel_for_the_cpu_only_says_so(kind: Callable, name: str) -> None:
    """Also one that is called as one of adjoint's own, which does something else."""
    op = declared(kind, name, lambda x: x + 1)
    assert op(on("cpu", [1.0])).tolist() == [2.0]
    with pytest.raises(ad.ArgumentError, match=f"op {name} has no implementation on webgpu"):
        op(on("webgpu", [1.0]))


def test_an_op_may_bring_a_kernel_for_the_device() -> None:
    kernels = {"cpu": np.negative, "webgpu": ad.negative.op.functions[type(on("webgpu", 1.0).raw)]}
    opposite = ad.op.elementwise("opposite", x=lambda g: -g, kernels=kernels)
    for device in ("cpu", "webgpu"):
        x = leaf(device, [1.0, -2.0])
        opposite(x).sum().backward()
        assert opposite(x).tolist() == [-1.0, 2.0]
        assert x.grad.tolist() == [-1.0, -1.0]


def test_checking_gradients_says_that_differences_need_the_cpu() -> None:
    x = on("webgpu", numbers(2, 3))
    with pytest.raises(ad.DeviceError, match=r"float64, which webgpu hasn't.*x\.to\('cpu'\)"):
        check_grads(ad.tanh, [x])
    check_grads(ad.tanh, [x.to("cpu")])


# Random programs

UNARY: dict[str, Callable[[ad.Tensor], ad.Tensor]] = {
    "tanh": ad.tanh,
    "sigmoid": ad.sigmoid,
    "square": lambda x: ad.square(ad.tanh(x)),
    "exp": lambda x: ad.exp(-ad.abs(x)),
    "sqrt": lambda x: ad.sqrt(1 + x * x),
    "negative": lambda x: -x,
}
BINARY: dict[str, Callable[[ad.Tensor, ad.Tensor], ad.Tensor]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - 2 * y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / (2 + ad.tanh(y)),
    "where": lambda x, y: ad.where(x > y, x, y * 0.5),
    "maximum": ad.maximum,
    "matmul": lambda x, y: x @ y,
    "concat": lambda x, y: ad.concat([x, y, x], axis=-1),
}
VIEWS: dict[str, Callable[[ad.Tensor], ad.Tensor]] = {
    "transposed": ad.transpose,
    "last two": lambda x: x.mT,
    "tail": lambda x: x[1:],
    "steps": lambda x: x[..., ::2],
    "reversed": lambda x: x[::-1],
    "negative steps": lambda x: x[..., ::-2],
    "flat": lambda x: x.reshape(-1),
    "folded": lambda x: x.reshape(2, -1),
    "new axis": lambda x: x[:, None],
    "broadcast": lambda x: ad.broadcast_to(x, (2, *x.shape)),
    "element": lambda x: x[0],
    "rows": lambda x: x[[1, 0, 1]],
    "columns": lambda x: x[..., [0, -1]],
}
REDUCTIONS: dict[str, Callable[..., ad.Tensor]] = {
    "sum": ad.sum,
    "mean": ad.mean,
    "max": ad.max,
    "logsumexp": ad.logsumexp,
}


def put(x: ad.Tensor, index: Any, value: Any) -> ad.Tensor:
    out = x * 1
    out[index] = value
    return out


def added(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
    out = x * 1
    out += y
    return out


UPDATES: dict[str, Callable[[ad.Tensor, ad.Tensor], ad.Tensor]] = {
    "in place": added,
    "row": lambda x, y: put(x, 0, y),
    "steps": lambda x, y: put(x, (..., slice(None, None, 2)), y),
    "negative steps": lambda x, y: put(x, slice(None, None, -1), y),
    "rows": lambda x, y: put(x, [1, 1, 0], y),
    "mask": lambda x, y: put(x, x.detach() > 0.3, 0.25),
    "at.add": lambda x, y: x.at[[0, 1, 0]].add(y),
}
TABLES = {
    "unary": UNARY,
    "binary": BINARY,
    "view": VIEWS,
    "reduction": REDUCTIONS,
    "update": UPDATES,
}
ALL = [(kind, name) for kind, table in TABLES.items() for name in table]
LARGEST, MOST = 30.0, 300  # magnitudes, and elements: what has more is passed over
lengths = st.sampled_from([1, 2, 3])


class Step(NamedTuple):
    """An op, where its operands stand among all values so far, and a set of axes in bits."""

    kind: str
    name: str
    x: int
    y: int
    axes: int

    def __call__(self, values: list[ad.Tensor]) -> ad.Tensor:
        x, y = values[self.x], values[self.y]
        function: Any = TABLES[self.kind][self.name]
        if self.kind in ("binary", "update"):
            return function(x, y)
        if self.kind != "reduction":
            return function(x)
        chosen = tuple(k for k in range(x.ndim) if self.axes >> k & 1)
        return function(x, axis=chosen or None, keepdims=self.y % 2 == 0)


@st.composite
def sequences(draw: Callable) -> tuple[list[np.ndarray], list[Step]]:
    """Leaves, and steps that fit them."""
    shapes = draw(st.lists(st.lists(lengths, min_size=1, max_size=4), min_size=2, max_size=4))
    leaves = [
        np.random.default_rng(k).uniform(-1.5, 1.5, shape).astype(np.float32)
        for k, shape in enumerate(shapes)
    ]
    values, steps = [on("cpu", leaf) for leaf in leaves], []
    wanted = st.tuples(st.sampled_from(ALL), *[st.integers(0, 15)] * 3)
    for (kind, name), first, second, axes in draw(st.lists(wanted, min_size=6, max_size=12)):
        step = fitting(values, kind, name, first, second, axes)
        if step is not None:
            values.append(step(values))
            steps.append(step)
    return leaves, steps


def fitting(
    values: list[ad.Tensor], kind: str, name: str, first: int, second: int, axes: int
) -> Step | None:
    """The first operands, from some on, that an op can be applied to."""
    count = len(values)
    for x, y in itertools.product(range(count), range(count)):
        # One of the newest two, first of all, so that results are used.
        step = Step(kind, name, count - 1 - (first % 2 + x) % count, (second + y) % count, axes)
        try:
            out = step(values)
        except ad.AdjointError:
            continue
        if 0 < out.size <= MOST and out.ndim <= 4 and np.abs(out.numpy()).max() <= LARGEST:
            return step
    return None


def outcome(arrays: list[np.ndarray], steps: list[Step], device: str) -> list[np.ndarray]:
    """All values, and the gradients by the leaves of a number that all values have a share in."""
    leaves = [leaf(device, array) for array in arrays]
    values = list(leaves)
    for step in steps:
        values.append(step(values))
    number = ad.zeros((), device=device)
    for k, x in enumerate(values):
        number = number + (x * on(device, np.cos(np.arange(x.size) + k).reshape(x.shape))).sum()
    grads = ad.autograd.grad(number, leaves)
    return [x.detach().numpy() for x in (*values, *grads) if x is not None]


quick = settings(
    max_examples=50 if swiftshader.is_chosen() else 200,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@quick
@given(sequences())
def test_random_sequences_of_ops_have_the_cpus_values_and_gradients(case: tuple) -> None:
    arrays, steps = case
    found, expected = (outcome(arrays, steps, device) for device in ("webgpu", "cpu"))
    # Relative to the largest value, or gradient: up to twelve ops after each other may make errors
    # larger where they make values smaller.
    for group in (slice(0, -len(arrays)), slice(-len(arrays), None)):
        scale = max(1.0, *(np.abs(x).max() for x in expected[group]))
        for one, other in zip(found[group], expected[group], strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * scale)


class There(Pool):
    """Tensors on the device, whose numbers stay whole and so small that float32 has them all."""

    def __init__(self, recorded: bool) -> None:
        super().__init__()
        self.x = on("webgpu", self.models[0], requires_grad=recorded)
        self.tensors[0] = self.x * 1.0

    def in_place(self, k: int, x: Any, model: np.ndarray, which: int, other: int) -> None:
        largest = max(np.abs(array).max(initial=0) for array in self.models)
        if largest < 1000:
            super().in_place(k, x, model, which, other)

    def in_place_scalar(self, k: int, x: Any, model: np.ndarray, which: int) -> None:
        if np.abs(model).max(initial=0) < 1000:
            super().in_place_scalar(k, x, model, which)


@pytest.mark.parametrize("recorded", [False, True], ids=["plain", "recorded"])
@quick
@given(value_programs())
def test_tensors_are_values_under_any_sequence_of_views_and_changes(
    recorded: bool, program: list
) -> None:
    pool = There(recorded)
    saved = (pool.tensors[0] * pool.tensors[0]).sum()
    for step in program:
        if step[0] != "numpy" or not recorded:
            pool.step(*step)
            pool.check()
    if recorded:
        np.testing.assert_array_equal(
            ad.gradients(saved)[pool.x].numpy(), 2 * np.arange(6.0).reshape(2, 3)
        )
