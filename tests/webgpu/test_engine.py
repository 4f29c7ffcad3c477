"""The engine on a GPU as on the CPU: gradients, hooks, updates; tensors as values; moving; random
numbers. A training step reads nothing back."""

import copy
import functools
import itertools
import pickle
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import backends
from adjoint._foundation.dtypes import as_numpy
from tests.support.changes import ALIASES, CHANGES
from tests.support.helpers import default_device, in_threads, values
from tests.support.processes import python
from tests.webgpu import tensors
from tests.webgpu.tensors import leaf, numbers, on

pytestmark = pytest.mark.webgpu

# Of the largest magnitude in the result. Both devices round every op, in another order where they
# add: a few units in the last place of float32 (6e-8) for each op in a chain of up to about ten.
TOLERANCE = 2e-6
close = functools.partial(tensors.close, tolerance=TOLERANCE)

Arrays = dict[str, np.ndarray]
Tensors = dict[str, ad.Tensor]


def alike(program: Callable[[str], Any], tolerance: float = TOLERANCE) -> None:
    """A program gives the same on both devices: tensors in tuples, lists and dicts, and more."""
    found, expected = program("webgpu"), program("cpu")
    compare(found, expected, tolerance)


def compare(found: Any, expected: Any, tolerance: float) -> None:
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            compare(one, other, tolerance)
    elif isinstance(expected, ad.Tensor):
        assert found.device == "webgpu"
        assert found.dtype.kind == expected.dtype.kind
        assert found.requires_grad == expected.requires_grad
        tensors.close(values(found), values(expected), tolerance)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=tolerance)
    else:
        assert found == expected


@pytest.fixture
def webgpu_by_default() -> Iterator[None]:
    with default_device("webgpu"):
        yield


# Gradients

# Functions of x (2, 3), y (3,) and w (3, 3), all positive; of them every kind of op.
FUNCTIONS: dict[str, Callable[..., ad.Tensor]] = {
    "elementwise": lambda x, y, w: ad.exp(-x * y) * ad.tanh(x) + ad.sqrt(x) / y,
    "matmul": lambda x, y, w: ad.sin(x @ w) @ y,
    "reductions": lambda x, y, w: ad.mean(x * x, axis=0) * ad.max(w, axis=1) + ad.var(w) * y,
    "softmax": lambda x, y, w: ad.softmax(x @ w, axis=-1) * ad.logsumexp(w * y, axis=0),
    "views": lambda x, y, w: (x.T[::-1] @ x) * w[1:, ::-2].T.reshape(4)[:3] ** 2,
    "indexing": lambda x, y, w: w[[0, 2, 2]] ** 2 @ x[:, [1, 0, 1]].T + ad.concat([y, y])[::3] ** 3,
    "where": lambda x, y, w: ad.where(x > 0.8, x**3, y * x) * ad.maximum(x, y),
    "updates": lambda x, y, w: updated(x * 1, y, w),
}


def updated(h: ad.Tensor, y: ad.Tensor, w: ad.Tensor) -> ad.Tensor:
    before = h * h
    h[0] = y * y
    h += w[:2] * h
    h *= 2.0
    return before * h


def leaves(device: str) -> list[ad.Tensor]:
    shapes = ((2, 3), (3,), (3, 3))
    return [leaf(device, numbers(*shape, seed=k)) for k, shape in enumerate(shapes)]


def weighted(x: ad.Tensor) -> ad.Tensor:
    """A number in which each element has a share of its own."""
    return (x * on(x.device, np.cos(np.arange(x.size)).reshape(x.shape))).sum()


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_gradients_of_the_first_three_orders(function: Callable) -> None:
    def program(device: str) -> list:
        tensors, orders = leaves(device), []
        out = weighted(function(*tensors))
        for _ in range(3):
            grads = ad.autograd.grad(out, tensors, create_graph=True, allow_unused=True)
            found = [g for g in grads if g is not None]
            orders += [out, *found]
            out = ad.zeros((), device=device)
            for g in found:
                out = out + weighted(g) if g.requires_grad else out
        return orders

    alike(program, 2e-5)  # sums of large terms of both signs, at order three


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_every_way_to_ask_for_gradients_gives_the_same(function: Callable) -> None:
    tensors = leaves("webgpu")
    out = weighted(function(*tensors))
    mapped = ad.gradients(out, retain_graph=True)
    asked = ad.autograd.grad(out, tensors, retain_graph=True, allow_unused=True)
    pulled = ad.grad(lambda *xs: weighted(function(*xs)), argnums=(0, 1, 2))(*tensors)
    out.backward()
    assert any(x.grad is not None for x in tensors)
    for x, g, h in zip(tensors, asked, pulled, strict=True):
        assert (h.device, h.shape, h.dtype) == ("webgpu", x.shape, ad.float32)
        if x.grad is None:
            assert g is None and mapped.get(x) is None and not values(h).any()
        else:
            for found in (g, h, mapped[x]):
                np.testing.assert_array_equal(values(found), values(x.grad))


def test_gradients_accumulate_over_backwards_and_in_grad_of_intermediates() -> None:
    def program(device: str) -> list:
        x = leaf(device, [1.0, 2.0])
        h = ad.exp(x)
        h.retain_grad()
        loss = (h * h).sum()
        loss.backward(retain_graph=True)
        once = [x.grad, h.grad]
        loss.backward(retain_graph=True)
        loss.backward(gradient=ad.full((), 3.0, device=device))
        return [*once, x.grad, h.grad]

    alike(program)


def test_a_gradient_that_was_kept_does_not_change_when_the_next_is_added() -> None:
    x = leaf("webgpu", np.ones(5000))
    (x * x).sum().backward()
    kept = x.grad.detach()
    (x * x).sum().backward()
    np.testing.assert_array_equal(values(kept), np.full(5000, 2.0))
    np.testing.assert_array_equal(values(x.grad), np.full(5000, 4.0))


def test_hooks_see_the_total_once_in_order_and_may_replace_it() -> None:
    def program(device: str) -> list:
        x, seen = leaf(device, [1.0, -2.0]), []
        x.register_hook(lambda g: seen.append(("first", g)))
        x.register_hook(lambda g: ad.clip(g, -1.0, 1.0))
        x.register_hook(lambda g: seen.append(("clipped", g)))
        x.register_post_accumulate_grad_hook(lambda x: seen.append(("after", x.grad)))
        h = x * 0.8
        h.register_hook(lambda g: g * 10)
        out = (h + 0.8 * x).sum()
        out.register_hook(lambda g: seen.append(("root", g)))
        out.backward(on_leaf_grad=lambda t, g: seen.append(("leaf", g, t is x)))
        return [*seen, x.grad]

    alike(program)


def test_a_hook_may_take_itself_away() -> None:
    x = leaf("webgpu", 1.0)
    handle = x.register_hook(lambda g: handle.remove() or g * 5)
    for expected in (10.0, 12.0):
        (x * 2).backward()
        assert x.grad.item() == expected


def test_nothing_is_recorded_without_gradients() -> None:
    x = leaf("webgpu", [1.0, 2.0])
    with ad.no_grad():
        y = ad.exp(x) * 2
        with ad.enable_grad():
            assert (x * 2).requires_grad
    assert not y.requires_grad
    assert not (x.detach() * 2).requires_grad
    assert (y * x).requires_grad


def test_a_released_graph_says_so() -> None:
    x = leaf("webgpu", [1.0, 2.0])
    loss = ad.exp(x).sum()
    loss.backward()
    with pytest.raises(ad.GradientError, match="retain_graph"):
        loss.backward()


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        (lambda x: (x * 2).backward(), r"\(2,\)"),
        (lambda x: x.detach().sum().backward(), "require"),
        (lambda x: (x * 2).backward(gradient=on("cpu", [1.0, 1.0])), "cpu.*webgpu"),
        (lambda x: ad.autograd.grad((x * 2).sum(), on("webgpu", [1.0])), "require"),
        (lambda x: setattr(x, "grad", on("cpu", [1.0, 1.0])), "cpu.*webgpu"),
    ],
    ids=["not one element", "no graph", "gradient elsewhere", "not a leaf", "grad elsewhere"],
)
def test_misuse_of_backward_is_explained_as_on_the_cpu(bad: Callable, complaint: str) -> None:
    with pytest.raises(ad.AdjointError, match=complaint):
        bad(leaf("webgpu", [1.0, 2.0]))


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda x: ad.log(x - 1).sum(), "log.*infinity"),
        (lambda x: ad.sqrt(x - 2).sum(), "sqrt.*NaN"),
        (lambda x: ad.sqrt(x - 1).sum().backward(), "sqrt"),
    ],
    ids=["infinity", "nan", "in a gradient"],
)
def test_an_anomaly_is_found_and_names_its_op_and_line(function: Callable, what: str) -> None:
    x = leaf("webgpu", [1.0, 3.0])
    function(x)  # nothing is looked for by default
    with ad.detect_anomaly(), pytest.raises(ad.AnomalyError, match=what) as error:
        function(x)
    assert "lambda x: ad." in str(error.value)


WRONG: dict[str, Callable[[ad.Tensor, ad.Tensor], ad.Tensor]] = {
    "index": lambda x, i: x[i],
    "take": lambda x, i: ad.take(x, i, axis=0),
    "embedding": lambda x, i: F.embedding(i, x),
    "at": lambda x, i: x.at[i].add(1.0),
    "nll_loss": lambda x, i: F.nll_loss(x, i),
    "cross_entropy": lambda x, i: F.cross_entropy(x, i),
}


@pytest.mark.parametrize("wrong", [7, -7])
@pytest.mark.parametrize("function", WRONG.values(), ids=WRONG)
def test_an_index_on_the_device_that_is_out_of_range_is_found_at_the_next_read(
    function: Callable, wrong: int
) -> None:
    x = leaf("webgpu", numbers(2, 3))
    index = ad.tensor([0, wrong], device="webgpu")
    with pytest.raises(ad.AdjointError, match=f"{wrong}|class indices from 0 to 2"):
        function(x, index).sum().item()
    assert function(x, ad.tensor([0, 1], device="webgpu")).sum().item() != 0  # all is well again


def test_workers_do_not_change_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adjoint._engine.parallel.SMALL", 0)

    def grads(workers: int) -> list[np.ndarray]:
        tensors = leaves("webgpu")
        x, y, w = tensors
        branches = [ad.tanh(x @ w * k) * y for k in range(1, 9)]
        sum(branch.sum() for branch in branches).backward(workers=workers)
        return [values(x.grad) for x in tensors]

    for one, other in zip(grads(1), grads(4), strict=True):
        np.testing.assert_array_equal(one, other)


def test_backward_in_several_threads_loses_nothing() -> None:
    x = leaf("webgpu", np.ones(3))

    def run(number: int) -> None:
        for _ in range(10):
            (x * (number + 1)).sum().backward()

    in_threads(4, run)
    np.testing.assert_array_equal(values(x.grad), np.full(3, 10 * (1 + 2 + 3 + 4)))


def test_a_long_chain_is_built_run_and_released(no_garbage: None) -> None:
    x = leaf("webgpu", [0.5, 1.0])
    in_use = []
    for length in (10, 5000):
        h = x
        for _ in range(length):
            h = h * 0.999
        h.sum().backward()
        np.testing.assert_allclose(values(x.grad), np.full(2, 0.999**length), rtol=length * 6e-8)
        del h
        x.grad = None
        in_use.append(ad.memory_stats("webgpu")["in_use"])
    assert in_use[0] == in_use[1]


# Training


class Training(NamedTuple):
    """A network's parameters by name, its loss as a function of tensors and of a batch's number,
    and what makes an optimizer."""

    arrays: Arrays
    loss: Callable[[Tensors, Tensors, int], ad.Tensor]
    optimizer: Callable[[list[ad.Tensor]], Any]
    data: Arrays


def digits_loss(p: Tensors, data: Tensors, step: int) -> ad.Tensor:
    """As in the demo: a batch is taken out of all images by its numbers."""
    chosen = np.random.default_rng(step).permutation(20)[:6]
    x, labels = data["images"][chosen], data["labels"][chosen]
    x = F.max_pool2d(F.relu(F.conv2d(x, p["filters1"], p["bias1"], padding=1)), 2)
    x = F.max_pool2d(F.relu(F.conv2d(x, p["filters2"], p["bias2"], padding=1)), 2)
    return F.cross_entropy(x.reshape(len(x), -1) @ p["weight"] + p["bias"], labels)


def mlp_loss(p: Tensors, data: Tensors, step: int) -> ad.Tensor:
    h = ad.tanh(F.linear(data["x"], p["w1"], p["b1"]))
    h = F.gelu(F.linear(h, p["w2"], p["b2"]))
    return F.mse_loss(F.linear(h, p["w3"], p["b3"]), data["y"])


def block_loss(p: Tensors, data: Tensors, step: int) -> ad.Tensor:
    """A block of a transformer that predicts the next word: 2 heads of 4, on 5 words of 7."""
    x = F.embedding(data["words"], p["words"]) + p["places"]
    h = F.layer_norm(x, (8,), p["gain1"], p["shift1"])
    q, k, v = (
        ad.swapaxes(part.reshape(2, 5, 2, 4), 1, 2) for part in ad.split(h @ p["qkv"], 3, axis=-1)
    )
    h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + ad.swapaxes(h, 1, 2).reshape(2, 5, 8) @ p["out"]
    h = F.layer_norm(x, (8,), p["gain2"], p["shift2"])
    x = x + F.gelu(h @ p["up"]) @ p["down"]
    return F.cross_entropy((x @ p["words"].T).reshape(10, 7), data["next"].reshape(10))


def parameters(seed: int, **shapes: tuple[int, ...]) -> Arrays:
    return {
        name: numbers(*shape, seed=seed + k, low=-0.5, high=0.5)
        for k, (name, shape) in enumerate(shapes.items())
    }


WORDS = np.random.default_rng(1).integers(0, 7, (2, 6)).astype(np.int32)
NETWORKS = {
    "digits": Training(
        parameters(
            10,
            filters1=(4, 1, 3, 3),
            bias1=(4,),
            filters2=(8, 4, 3, 3),
            bias2=(8,),
            weight=(32, 10),
            bias=(10,),
        ),
        digits_loss,
        lambda params: ad.optim.SGD(params, lr=0.05, momentum=0.9),
        {
            "images": numbers(20, 1, 8, 8),
            "labels": np.random.default_rng(0).integers(0, 10, 20).astype(np.int32),
        },
    ),
    "mlp": Training(
        parameters(20, w1=(16, 5), b1=(16,), w2=(16, 16), b2=(16,), w3=(3, 16), b3=(3,)),
        mlp_loss,
        lambda params: ad.optim.Adam(params, lr=0.01),
        {"x": numbers(9, 5), "y": numbers(9, 3, seed=1)},
    ),
    "transformer block": Training(
        parameters(
            40,
            words=(7, 8),
            places=(5, 8),
            gain1=(8,),
            shift1=(8,),
            qkv=(8, 24),
            out=(8, 8),
            gain2=(8,),
            shift2=(8,),
            up=(8, 32),
            down=(32, 8),
        ),
        block_loss,
        lambda params: ad.optim.AdamW(params, lr=0.01),
        {"words": WORDS[:, :-1], "next": WORDS[:, 1:]},
    ),
}
each_network = pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)


def steps(network: Training, device: str) -> Iterator[ad.Tensor]:
    """The loss after each step, without end."""
    params = {name: leaf(device, array) for name, array in network.arrays.items()}
    data = {name: ad.tensor(array, device=device) for name, array in network.data.items()}
    optimizer = network.optimizer(list(params.values()))
    for step in itertools.count():
        loss = [network.loss(params, data, step)]
        optimizer.zero_grad()
        loss[0].backward()
        optimizer.step()
        yield loss.pop()


def counts() -> dict[str, int]:
    gpu: Any = backends.backend("webgpu")
    gpu.gpu.submit()
    return dict(gpu.gpu.counts)


@each_network
def test_losses_of_a_training_are_the_cpus(network: Training) -> None:
    def program(device: str) -> list[float]:
        training = steps(network, device)
        return [next(training).item() for _ in range(10)]

    losses = program("webgpu")
    expected = program("cpu")
    assert expected[-1] < expected[0]
    np.testing.assert_allclose(losses, expected, rtol=2e-5)  # rounding, through ten updates


@each_network
def test_a_training_step_reads_nothing_back(network: Training) -> None:
    training = steps(network, "webgpu")
    before = counts()["reads"]
    losses = [next(training) for _ in range(5)]
    assert counts()["reads"] == before
    losses[-1].item()
    assert counts()["reads"] == before + 1


@each_network
@pytest.mark.parametrize("keep", [False, True], ids=["loss dropped", "loss kept"])
def test_training_steps_prepare_nothing_after_the_first_ones(
    network: Training, keep: bool, no_garbage: None
) -> None:
    """Which buffers a step gets depends on what is free: gradients of the step before, and its
    loss, aren't. So it takes a few steps until they come round."""
    training, seen, in_use, loss = steps(network, "webgpu"), [], [], None
    for _ in range(9):
        before, loss = loss if keep else None, None
        loss = next(training)
        loss.item()
        del before
        seen.append(counts())
        in_use.append(ad.memory_stats("webgpu")["in_use"])
    pipelines, groups, launches = (
        [count[what] for count in seen] for what in ("pipelines", "bind_groups", "launches")
    )
    assert len(set(pipelines[1:])) == 1
    assert len(set(groups[4:])) == 1
    assert len(set(in_use[1:])) == 1
    assert np.diff(launches).min() > 10  # steps were taken


def test_threads_that_train_at_once_get_the_numbers_of_one() -> None:
    def losses() -> list[float]:
        training = steps(NETWORKS["mlp"], "webgpu")
        return [next(training).item() for _ in range(10)]

    expected, found = losses(), {}
    ad.empty_cache("webgpu")  # so that new buffers are made, also at once
    in_threads(4, lambda number: found.update({number: losses()}))
    assert found == dict.fromkeys(range(4), expected)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"lr": 0.1}),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True}),
        ("Adam", {"lr": 0.01}),
        ("Adam", {"lr": 0.01, "weight_decay": 0.1, "amsgrad": True}),
        ("AdamW", {"lr": 0.01, "weight_decay": 0.3}),
    ],
    ids=str,
)
def test_optimizers_take_the_cpus_steps(name: str, options: dict) -> None:
    shapes = ((), (7,), (3, 11), (0,), (133, 31))

    def program(device: str) -> list:
        params = [leaf(device, numbers(*shape, seed=k)) for k, shape in enumerate(shapes)]
        params.append(ad.zeros((4, 3), device=device, requires_grad=True))
        frozen = leaf(device, [1.0])
        optimizer = getattr(ad.optim, name)([*params, frozen], **options)
        for step in range(20):
            for k, p in enumerate(params):
                g = numbers(*p.shape, seed=100 * step + k, low=-1, high=1)
                p.grad = on(device, g)
            optimizer.step()
        entries = [entry.items() for entry in optimizer.state.values()]
        state = [x for entry in entries for name, x in entry if name != "step"]
        return [*params, *state, frozen]

    found, expected = program("webgpu"), program("cpu")
    for one, other in zip(found, expected, strict=True):
        assert one.device == "webgpu"
        # Where steps cancel a value that was about 1, it is as exact as that was.
        np.testing.assert_allclose(values(one), values(other), rtol=1e-5, atol=1e-6)


def test_what_was_taken_from_a_parameter_stays_as_it_was_in_an_update() -> None:
    w = leaf("webgpu", [2.0, 3.0])
    optimizer = ad.optim.SGD([w], lr=0.5, momentum=0.5)
    taken, first, second = [w.detach(), w[::-1].detach()], (w * w).sum(), (w * w * w).sum()
    state = optimizer.state_dict()
    first.backward()
    optimizer.step()
    np.testing.assert_array_equal(values(w), [0.0, 0.0])
    optimizer.zero_grad()
    second.backward()
    np.testing.assert_array_equal(values(w.grad), [12.0, 27.0])
    np.testing.assert_array_equal(values(taken[0]), [2.0, 3.0])
    np.testing.assert_array_equal(values(taken[1]), [3.0, 2.0])
    optimizer.load_state_dict(state)
    w.grad = on("webgpu", [1.0, 1.0])
    optimizer.step()
    np.testing.assert_array_equal(values(w), [-0.5, -0.5])  # no momentum is left


# SPEC B: what the reference systems got wrong. The numbers are those that test_references.py has.


def test_b1_the_gradient_of_a_sum_of_exponentials_reaches_x_and_callbacks_fire_on_x_only() -> None:
    x, fired = leaf("webgpu", [0.0, 1.0]), []
    ad.sum(ad.exp(2 * x)).backward(on_leaf_grad=lambda tensor, g: fired.append(tensor))
    close(values(x.grad), np.array([2.0, 14.7781121978613], "f"))
    assert len(fired) == 1
    assert fired[0] is x


@pytest.mark.parametrize(
    ("f", "hessian"),
    [
        (lambda x: ad.exp(x).sum(), np.diag(np.exp([1.0, 2.0]))),
        (lambda x: (1 / x).sum(), np.diag([2.0, 0.25])),
        (lambda x: x.sum() ** 2, np.full((2, 2), 2.0)),
        (lambda x: ad.square(x.sum()), np.full((2, 2), 2.0)),
    ],
    ids=["sum of exp", "sum of reciprocals", "squared sum", "square of a sum"],
)
def test_b2_hessians_are_right_and_not_zero(f: Callable, hessian: np.ndarray) -> None:
    x = leaf("webgpu", [1.0, 2.0])
    g = ad.gradients(f(x), create_graph=True)[x]
    for row, unit in zip(hessian, np.eye(2), strict=True):
        (found,) = ad.autograd.grad(g, x, on("webgpu", unit), retain_graph=True)
        close(values(found), row.astype("f"))
    close(values(ad.hessian(f)(x.detach())), hessian.astype("f"))


@pytest.mark.parametrize(
    ("x_shape", "y_shape"),
    [
        ((4, 2, 3), (3, 5)),
        ((2, 3), (4, 3, 5)),
        ((6, 1, 2, 3), (4, 3, 5)),
        ((3,), (3,)),
        ((3,), (4, 3, 5)),
        ((4, 2, 3), (3,)),
        ((2, 1), (1, 5)),
    ],
)
def test_b6_matmul_gradients_have_the_shapes_of_the_operands(x_shape: Any, y_shape: Any) -> None:
    def program(device: str) -> list:
        x, y = leaf(device, numbers(*x_shape)), leaf(device, numbers(*y_shape, seed=1))
        out = x @ y
        weighted(out).backward()
        assert (x.grad.shape, y.grad.shape) == (x_shape, y_shape)
        return [out, x.grad, y.grad]

    alike(program)


def test_b6_reshape_after_transpose_works() -> None:
    a, weights = np.arange(6.0).reshape(2, 3), np.arange(6.0)
    x = leaf("webgpu", a)
    y = x.T.reshape(6)
    np.testing.assert_array_equal(values(y), a.T.reshape(6))
    (y * on("webgpu", weights)).sum().backward()
    np.testing.assert_array_equal(values(x.grad), weights.reshape(3, 2).T)


# At zero: a function, where it is taken, its value, and its gradient.
AT_ZERO: dict[str, tuple] = {
    "abs": (ad.abs, [0.0, -0.0, -2.0, 3.0], [0, 0, 2, 3], [0, 0, -1, 1]),
    "pow 1": (lambda x: x**1, [0.0, 2.0], [0, 2], [1, 1]),
    "pow 1.5": (lambda x: x**1.5, [0.0, 4.0], [0, 8], [0, 3]),
    "pow 2": (lambda x: x**2, [0.0, -3.0], [0, 9], [0, -6]),
    "pow 0": (lambda x: x**0, [0.0, 2.0, -3.0], [1, 1, 1], [0, 0, 0]),
    "pow 0.0": (lambda x: x**0.0, [0.0, 2.0, -3.0], [1, 1, 1], [0, 0, 0]),
    "negative pow 3": (lambda x: x**3, [-2.0, -1.0], [-8, -1], [12, 3]),
    "prod": (ad.prod, [-2.0, 3.0], -6, [3, -2]),
    "prod with a zero": (ad.prod, [2.0, 0.0, 3.0], 0, [0, 6, 0]),
    "prod with two zeros": (ad.prod, [2.0, 0.0, 0.0], 0, [0, 0, 0]),
    "cumulative_prod": (ad.cumulative_prod, [2.0, 0.0, 3.0], [2, 0, 0], [1, 8, 0]),
    "relu": (ad.relu, [0.0, -1.0, 2.0], [0, 0, 2], [0, 0, 1]),
    "sqrt of a norm": (ad.linalg.vector_norm, [0.0, 0.0], 0, [0, 0]),
}


@pytest.mark.parametrize(("f", "at", "value", "slope"), AT_ZERO.values(), ids=AT_ZERO)
def test_b7_gradients_at_zero_are_finite_and_right(
    f: Callable, at: list, value: Any, slope: list
) -> None:
    x = leaf("webgpu", at)
    out = f(x)
    close(values(out), np.asarray(value, np.float32))
    out.sum().backward()
    close(values(x.grad), np.asarray(slope, np.float32))


@pytest.mark.parametrize(("exponent", "second"), [(0, 0.0), (1, 0.0), (2, 2.0), (3, 0.0)])
def test_b7_pow_at_zero_has_the_right_second_derivative(exponent: int, second: float) -> None:
    found = ad.grad(ad.grad(lambda x: x**exponent))(on("webgpu", 0.0))
    assert found.item() == second


def with_weights(f: Callable) -> Callable[[str], list]:
    """The value of f at x (2, 3) and the gradient by x of its elements' weighted sum."""

    def program(device: str) -> list:
        x = leaf(device, [[3.0, 1.0, 2.0], [4.0, 6.0, 5.0]])
        out = f(x)
        weighted(out).backward()
        return [out, x.grad]

    return program


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.permute(1, 0),
        lambda x: ad.permute_dims(x.reshape(1, 2, 3), (2, 0, 1)),
        lambda x: ad.broadcast_to(x, (4, 2, 3)),
        lambda x: ad.cumulative_sum(x, axis=1),
        lambda x: ad.sort(x, axis=1, descending=True),
        lambda x: ad.topk(x, 2).values,
        lambda x: ad.astype(x, ad.float32, copy=True),
    ],
    ids=["permute", "permute three", "broadcast_to", "cumulative_sum", "sort", "topk", "cast"],
)
def test_b8_movements_carry_gradients(f: Callable) -> None:
    alike(with_weights(f))


def test_b8_permute_carries_its_gradient_back() -> None:
    x = leaf("webgpu", np.zeros((2, 3)))
    weights = on("webgpu", [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    (x.permute(1, 0) * weights).sum().backward()
    np.testing.assert_array_equal(values(x.grad), [[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]])


def test_b8_casts_to_integers_cut_the_graph() -> None:
    found = ad.astype(leaf("webgpu", [1.5, -1.5]), ad.int32)
    assert not found.requires_grad
    assert found.tolist() == [1, -1]


def test_b11_ten_times_mse_has_ten_times_the_gradient_and_the_target_gets_one_too() -> None:
    grads = []
    for factor in (1, 10):
        p, t = leaf("webgpu", [1.0, 2.0]), leaf("webgpu", [0.0, 4.0])
        (factor * ad.mean((p - t) ** 2)).backward()
        grads.append((values(p.grad), values(t.grad)))
    np.testing.assert_array_equal(grads[0], [[1.0, -2.0], [-1.0, 2.0]])
    np.testing.assert_array_equal(grads[1], 10 * np.array(grads[0]))


def test_b11_two_losses_on_one_graph_and_repeated_backwards_give_exact_sums() -> None:
    x = leaf("webgpu", [1.0, 2.0])
    h = x * x
    first, second = h.sum(), (h * h).sum()
    first.backward(retain_graph=True)
    second.backward(retain_graph=True)
    np.testing.assert_array_equal(values(x.grad), [2 + 4, 4 + 32])
    second.backward()
    np.testing.assert_array_equal(values(x.grad), [2 + 8, 4 + 64])


def test_b12_conv2d_with_stride_two_gives_the_whole_image_a_gradient() -> None:
    x, w = leaf("webgpu", np.ones((1, 1, 4, 4))), leaf("webgpu", np.full((1, 1, 1, 1), 3.0))
    F.conv2d(x, w, stride=2).sum().backward()
    expected = np.zeros((1, 1, 4, 4))
    expected[:, :, ::2, ::2] = 3
    np.testing.assert_array_equal(values(x.grad), expected)
    np.testing.assert_array_equal(values(w.grad), np.full((1, 1, 1, 1), 4.0))


def test_b12_conv2d_of_a_single_pixel_with_padding_works() -> None:
    w = np.arange(9.0).reshape(1, 1, 3, 3)
    x, weight, bias = (leaf("webgpu", a) for a in (np.full((1, 1, 1, 1), 2.0), w, [0.5]))
    out = F.conv2d(x, weight, bias, padding=1)
    np.testing.assert_array_equal(values(out), np.full((1, 1, 1, 1), 8.5))
    out.sum().backward()
    np.testing.assert_array_equal(values(x.grad), np.full((1, 1, 1, 1), 4.0))
    centre = np.zeros((1, 1, 3, 3))
    centre[0, 0, 1, 1] = 2
    np.testing.assert_array_equal(values(weight.grad), centre)
    np.testing.assert_array_equal(values(bias.grad), [1.0])


@pytest.mark.parametrize("offset", [1e4, -1e4])
def test_b12_group_norm_and_variance_of_numbers_with_a_large_mean_are_accurate(
    offset: float,
) -> None:
    noise = np.random.default_rng(0).normal(size=(2, 4, 250))
    x = (noise + offset).astype(np.float32)
    exact = x.astype(np.float64)
    np.testing.assert_allclose(ad.var(on("webgpu", x), axis=2).numpy(), exact.var(2), rtol=1e-4)
    rows = exact.reshape(2, 2, 500)
    expected = (rows - rows.mean(2, keepdims=True)) / np.sqrt(rows.var(2, keepdims=True) + 1e-5)
    found = F.group_norm(on("webgpu", x), 2).numpy()
    # A mean of 1e4 has a last digit of 1e-3, which is the error of what is divided by 1.
    np.testing.assert_allclose(found, expected.reshape(2, 4, 250), atol=2e-3)


# Tensors are values

# Of what other files say of the CPU, all that doesn't need float64.
SHARED = {name: alias for name, alias in ALIASES.items() if name not in ("astype", "np.asarray")}
START = [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("alias", SHARED)
def test_changing_a_tensor_leaves_everything_made_from_it_alone(alias: str, change: str) -> None:
    x = on("webgpu", START)
    y = SHARED[alias](x)
    before = np.array(y)
    CHANGES[change](x)
    np.testing.assert_array_equal(np.asarray(y), before)
    expected = ad.tensor(START)
    CHANGES[change](expected)
    np.testing.assert_array_equal(x.numpy(), expected.numpy())


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("alias", [name for name in SHARED if "numpy" not in name])
def test_changing_what_was_made_from_a_tensor_leaves_it_alone(alias: str, change: str) -> None:
    x = on("webgpu", START)
    y = SHARED[alias](x)
    CHANGES[change](y)
    np.testing.assert_array_equal(x.numpy(), START)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("whole", [True, False], ids=["one number", "array"])
def test_saved_values_do_not_change_with_the_tensors_they_came_from(
    change: str, whole: bool
) -> None:
    """Also those that are one number everywhere, which have no memory of their own."""
    at = np.full((2, 2), 1.5) if whole else np.array(START)
    x = ad.full((2, 2), 1.5, device="webgpu") if whole else on("webgpu", at)
    w = ad.full((2, 2), 2.0, device="webgpu") if whole else on("webgpu", 2 * at)
    expected = values(w).copy()
    x.requires_grad_()
    y = (x * w).sum()
    out = ad.exp(x.T)
    total = out.sum()
    with ad.no_grad():
        CHANGES[change](w)
        CHANGES[change](x)
    exported = out.detach()
    CHANGES[change](exported)
    y.backward()
    np.testing.assert_array_equal(values(x.grad), expected)
    x.grad = None
    total.backward()
    close(values(x.grad), np.exp(at).astype("f"))


@pytest.mark.parametrize("change", CHANGES)
def test_changing_leaves_and_computed_tensors_is_refused_as_on_the_cpu(change: str) -> None:
    x = leaf("webgpu", START)
    with pytest.raises(ad.GradientError, match="leaf"):
        CHANGES[change](x)
    y = x * 1
    with ad.no_grad(), pytest.raises(ad.GradientError, match="no_grad"):
        CHANGES[change](y)
    np.testing.assert_array_equal(values(x), START)
    np.testing.assert_array_equal(values(y), START)


def test_a_large_tensor_is_updated_in_its_own_memory_only_while_nobody_else_has_it() -> None:
    x = on("webgpu", np.zeros(5000))
    memory = x.raw.memory
    del memory
    buffer = x.raw.memory.buffer
    x += ad.ones((5000,), device="webgpu")
    x[0] = 3.0
    assert x.raw.memory.buffer is buffer
    other = x.detach()
    x += ad.ones((5000,), device="webgpu")
    assert x.raw.memory.buffer is not buffer
    assert (other[0].item(), x[0].item(), x[1].item()) == (3.0, 4.0, 2.0)


ASSIGNMENTS: dict[str, Callable[[ad.Tensor, ad.Tensor], Any]] = {
    "row": lambda y, v: y.__setitem__(1, v[0]),
    "steps": lambda y, v: y.__setitem__((slice(None), slice(None, None, 2)), v[:, :2]),
    "negative steps": lambda y, v: y.__setitem__((slice(None), slice(None, None, -1)), v),
    "broadcast": lambda y, v: y.__setitem__(slice(0, 2), v[0]),
    "number": lambda y, v: y.__setitem__((0, 1), 7.0),
    "mask": lambda y, v: y.__setitem__(y.detach() > 0.8, 7.0),
    "array": lambda y, v: y.__setitem__([1, 0], v),
    "duplicates": lambda y, v: y.__setitem__([1, 1], v),
    "two arrays": lambda y, v: y.__setitem__(([0, 1, 0], [2, 0, 2]), v[0]),
    "itself": lambda y, v: y.__setitem__((slice(None), slice(1, None)), y[:, :-1]),
    "everything": lambda y, v: y.__setitem__(..., v),
}
AT: dict[str, Callable[[ad.Tensor, ad.Tensor], ad.Tensor]] = {
    "set": lambda y, v: y.at[:, ::2].set(v[:, :2]),
    "set duplicates": lambda y, v: y.at[[0, 1, 0]].set(ad.concat([v, v[:1] * 2])),
    "add": lambda y, v: y.at[[0, 1, 0]].add(ad.concat([v, v[:1] * 2])),
    "add to steps": lambda y, v: y.at[:, ::-2].add(v[:, 1:]),
    "multiply": lambda y, v: y.at[1].multiply(v[0]),
    "max": lambda y, v: y.at[[1, 1]].max(v),
}


@pytest.mark.parametrize("assign", ASSIGNMENTS.values(), ids=ASSIGNMENTS)
def test_assignments_and_their_gradients_are_the_cpus(assign: Callable) -> None:
    def program(device: str) -> list:
        x, v = leaf(device, numbers(2, 3)), leaf(device, numbers(2, 3, seed=1))
        y = x * x
        before = y * 3
        assign(y, v)
        total = weighted(y) + weighted(before)
        return [y, before, *ad.autograd.grad(total, [x, v], allow_unused=True)]

    alike(program)


@pytest.mark.parametrize("update", AT.values(), ids=AT)
def test_functional_updates_and_their_gradients_are_the_cpus(update: Callable) -> None:
    def program(device: str) -> list:
        x, v = leaf(device, numbers(2, 3)), leaf(device, numbers(2, 3, seed=1))
        y = update(x, v)
        return [y, x, *ad.autograd.grad(weighted(y), [x, v])]

    alike(program)


def test_operators_in_place_are_differentiable_in_both_and_keep_the_object() -> None:
    def program(device: str) -> list:
        x, v = leaf(device, [1.0, 2.0]), leaf(device, [3.0, 4.0])
        y = same = x * 1
        before = y * 10
        y *= v
        y += x
        y -= 1.0
        y /= 2.0
        y.add_(v, alpha=0.5)
        assert y is same
        (y + before).sum().backward()
        return [y, x.grad, v.grad]

    alike(program)


@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize(
    "values_of", [[[1.5, 2.0]], [[1, 2], [3, 4]], [True, False], 2.5, np.zeros((0, 3), np.float32)]
)
def test_copies_come_back_on_their_device(values_of: Any, requires_grad: bool) -> None:
    x = ad.tensor(values_of, device="webgpu")
    x.requires_grad_(requires_grad and x.dtype is ad.float32)
    for duplicate in (copy.deepcopy, copy.copy, lambda x: pickle.loads(pickle.dumps(x))):
        y = duplicate(x)
        assert y is not x
        assert (y.device, y.dtype, y.requires_grad) == ("webgpu", x.dtype, x.requires_grad)
        np.testing.assert_array_equal(values(y), values(x), strict=True)


def test_a_pickled_view_has_its_own_elements_only() -> None:
    x = on("webgpu", np.arange(12.0).reshape(3, 4))
    y = pickle.loads(pickle.dumps(x.T[1::2, ::-1]))
    np.testing.assert_array_equal(y.numpy(), np.arange(12.0).reshape(3, 4).T[1::2, ::-1])
    with pytest.raises(ad.GradientError, match="detach"):
        pickle.dumps(leaf("webgpu", [1.0]) * 2)


def test_a_tensor_shows_its_device() -> None:
    assert repr(on("webgpu", [1.0, 2.0])) == "tensor([1., 2.], device='webgpu')"
    found = repr(ad.tensor([1, 2], device="webgpu"))
    assert found == "tensor([1, 2], dtype=adjoint.int32, device='webgpu')"
    x = leaf("webgpu", 2.0)
    assert repr(x) == "tensor(2., device='webgpu', requires_grad=True)"
    assert repr(x * 2) == "tensor(4., device='webgpu', grad_fn=<multiply>)"
    assert f"{x:.3f}" == "2.000"


def test_values_come_back_as_python_numbers_and_arrays() -> None:
    x = on("webgpu", [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert x[1, 2].item() == 6.0 and type(x[1, 2].item()) is float
    assert x.T.tolist() == [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]
    assert [row.tolist() for row in x[:, ::2]] == [[1.0, 3.0], [4.0, 6.0]]
    assert len(x) == 2
    assert bool(x[0, 0] > 0) and not x[0, 0] > 5
    assert (float(x[0, 1]), int(x[0, 1])) == (2.0, 2)
    assert [10, 20, 30][ad.tensor(1, device="webgpu")] == 20
    assert ad.tensor([True, False], device="webgpu").tolist() == [True, False]
    with pytest.raises(ad.ShapeError, match="ambiguous"):
        bool(x)
    with pytest.raises(TypeError):
        len(x[0, 0])
    with pytest.raises(TypeError):
        iter(x[0, 0])


def test_numpy_gives_a_copy_that_cannot_be_written() -> None:
    x = on("webgpu", START)
    array = x.numpy()
    assert array.dtype == np.float32 and not array.flags.writeable
    x[...] = 0.0
    np.testing.assert_array_equal(array, START)
    np.testing.assert_array_equal(np.asarray(x.T[::-1]), np.zeros((2, 2)))
    with pytest.raises(ad.GradientError, match="detach"):
        leaf("webgpu", 1.0).numpy()


def test_other_libraries_get_a_copy_in_host_memory() -> None:
    x = on("webgpu", START)
    assert x.__dlpack_device__() == (1, 0)
    array = np.from_dlpack(x)
    x += 1.0
    np.testing.assert_array_equal(array, START)
    assert ad.from_dlpack(np.array([1.0, 2.0], np.float32), device="webgpu").device == "webgpu"
    assert ad.from_dlpack(x).device == "webgpu"


# Moving


def test_gradients_go_back_through_a_move() -> None:
    x = leaf("cpu", numbers(2, 3))
    w = leaf("webgpu", numbers(3, 3, seed=1))
    there = x.to("webgpu")
    assert (there.device, there.requires_grad) == ("webgpu", True)
    back = ad.tanh(there @ w).to("cpu") * x
    assert back.device == "cpu"
    weighted(back).backward()
    assert (x.grad.device, w.grad.device) == ("cpu", "webgpu")
    a, b = leaf("cpu", values(x)), leaf("cpu", values(w))
    weighted(ad.tanh(a @ b) * a).backward()
    close(values(x.grad), values(a.grad))
    close(values(w.grad), values(b.grad))


def test_second_order_goes_through_a_move() -> None:
    x = leaf("cpu", 0.5)
    g = ad.gradients(ad.exp(x.to("webgpu") * 2).to("cpu"), create_graph=True)[x]
    h = ad.gradients(g)[x]
    assert (g.device, h.device) == ("cpu", "cpu")
    close(values(h), np.float32(4 * np.exp(1.0)))


def test_moving_to_where_it_is_moves_nothing() -> None:
    x = on("webgpu", [1.0])
    assert x.to("webgpu") is x
    assert x.to("webgpu:0").device == "webgpu"
    assert ad.asarray(x, device="webgpu").raw is x.raw
    with pytest.raises(ad.AdjointError, match=r"webgpu.*cpu"):
        ad.asarray(x, device="cpu", copy=False)
    with pytest.raises(ad.DeviceError, match="devices are cpu, webgpu"):
        x.to("cuda")


@pytest.mark.parametrize("dtype", [ad.float32, ad.int32, ad.uint32, ad.bool], ids=str)
def test_every_dtype_of_the_device_moves_there_and_back(dtype: Any) -> None:
    array = np.array([[0, 1, 2], [3, 2**31 - 1, 5]]).astype(as_numpy(dtype))
    x = ad.asarray(array, device="webgpu")
    assert x.dtype is dtype
    np.testing.assert_array_equal(x.numpy(), array, strict=True)
    np.testing.assert_array_equal(x.T[::-1].to("cpu").numpy(), array.T[::-1], strict=True)
    assert ad.asarray(array.T[::-1], device="webgpu").tolist() == array.T[::-1].tolist()


MIXED: dict[str, Callable[[ad.Tensor, ad.Tensor], Any]] = {
    "elementwise": lambda x, y: x + y,
    "comparison": lambda x, y: x < y,
    "where": lambda x, y: ad.where(x > 0, x, y),
    "clip": lambda x, y: ad.clip(x, y, None),
    "matmul": lambda x, y: x @ y,
    "einsum": lambda x, y: ad.einsum("ij,jk->ik", x, y),
    "tensordot": lambda x, y: ad.tensordot(x, y, axes=1),
    "concat": lambda x, y: ad.concat([x, y]),
    "stack": lambda x, y: ad.stack([x, y]),
    "index": lambda x, y: x[ad.astype(y, ad.int32)],
    "mask": lambda x, y: x[y > 0],
    "take": lambda x, y: ad.take(x, ad.astype(y[0], ad.int32), axis=0),
    "assignment": lambda x, y: x.__setitem__(0, y[0]),
    "at": lambda x, y: x.at[0].add(y[0]),
    "in place": lambda x, y: x.__iadd__(y),
    "add_": lambda x, y: x.add_(y, alpha=2.0),
    "solve": lambda x, y: ad.linalg.solve(x, y),
    "convolution": lambda x, y: F.conv1d(x[None], y[None]),
    "linear": lambda x, y: F.linear(x, y),
    "loss": lambda x, y: F.mse_loss(x, y),
    "cross_entropy": lambda x, y: F.cross_entropy(x, ad.astype(y[0], ad.int32)),
    "norm": lambda x, y: F.layer_norm(x, (2,), y[0]),
    "embedding": lambda x, y: F.embedding(ad.astype(x, ad.int32), y),
    "scatter_add": lambda x, y: ad.scatter_add(x, ad.zeros((2, 2), dtype=ad.int32), y),
    "searchsorted": lambda x, y: ad.searchsorted(x[0], y[0]),
    "full": lambda x, y: x * ad.full((2, 2), y[0, 0]),
}


@pytest.mark.parametrize("mix", MIXED.values(), ids=MIXED)
def test_mixing_devices_names_both(mix: Callable) -> None:
    here, there = on("cpu", [[1.0, 0.0], [0.0, 1.0]]), on("webgpu", [[1.0, 0.0], [0.0, 1.0]])
    for x, y in ((here, there), (there, here)):
        with pytest.raises(ad.DeviceError) as error:
            mix(x, y)
        assert "cpu" in str(error.value) and "webgpu" in str(error.value)


def test_numpy_arrays_are_on_the_default_device_and_numbers_everywhere() -> None:
    x = on("webgpu", [1.0, 2.0])
    for mix in (lambda: x * np.array([1, 2], np.float32), lambda: np.array([1, 2], np.float32) + x):
        with pytest.raises(ad.DeviceError, match=r"(?s)cpu.*webgpu|webgpu.*cpu"):
            mix()
    assert (2 * x + 1 - x / 2).tolist() == [2.5, 4.0]
    assert x[np.array([1, 0])].tolist() == [2.0, 1.0]  # an index has no device of its own
    assert x[np.array([False, True])].tolist() == [2.0]


@pytest.mark.parametrize(
    ("dtype", "advice"),
    [
        (np.int64, "dtype=ad.int32"),
        (np.int16, "dtype=ad.int32"),
        (np.int8, "dtype=ad.int32"),
        (np.uint64, "dtype=ad.uint32"),
        (np.uint8, "dtype=ad.uint32"),
        (np.float64, "dtype=ad.float32"),
        (np.complex64, "CPU"),
        (np.complex128, "CPU"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_data_of_a_dtype_that_the_device_lacks_is_refused_with_advice(
    dtype: Any, advice: str
) -> None:
    array = np.ones(3, dtype)
    name = np.dtype(dtype).name
    ways: list[Callable[[], Any]] = [
        lambda: ad.asarray(array, device="webgpu"),
        lambda: ad.tensor(array, device="webgpu"),
        lambda: ad.asarray(array).to("webgpu"),
        lambda: ad.asarray(ad.asarray(array), device="webgpu"),
        lambda: ad.zeros((2,), dtype=getattr(ad, name), device="webgpu"),
        lambda: ad.asarray([1, 2], dtype=getattr(ad, name), device="webgpu"),
        lambda: on("webgpu", [1.0]).to(getattr(ad, name)),
        lambda: ad.from_dlpack(array, device="webgpu"),
    ]
    for way in ways:
        with pytest.raises((ad.DTypeError, ad.DeviceError)) as error:
            way()
        assert f"webgpu has no {name}" in str(error.value)
        assert advice in str(error.value)
    if np.dtype(dtype).kind != "c":
        wanted = getattr(ad, advice.partition("ad.")[2])
        assert ad.asarray(array, dtype=wanted, device="webgpu").tolist() == [1, 1, 1]


def test_python_integers_are_int32_there_and_too_large_ones_refused() -> None:
    for x in (
        ad.tensor([1, 2], device="webgpu"),
        ad.asarray(range(3), device="webgpu"),
        ad.full((2,), 7, device="webgpu"),
        ad.arange(5, device="webgpu"),
        ad.ones((2,), dtype=ad.int32, device="webgpu") + 1,
        ad.tensor([True], device="webgpu") + 1,
    ):
        assert (x.dtype, x.device) == (ad.int32, "webgpu")
    assert ad.tensor([2**31 - 1, -(2**31)], device="webgpu").tolist() == [2**31 - 1, -(2**31)]
    for number in (2**31, -(2**31) - 1, 2**63):
        with pytest.raises(ad.RangeError, match="range"):
            ad.tensor([number], device="webgpu")
    with pytest.raises(ad.RangeError, match="out of bounds for int32"):
        _ = ad.tensor([1], device="webgpu") + 2**31


# Functions whose results are indices or counts, of x = [[3, 1, 2], [1, 3, 3]].
INDICES: dict[str, Callable[[ad.Tensor], Any]] = {
    "argmax": lambda x: ad.argmax(x, axis=1),
    "argmin of all": lambda x: ad.argmin(x),
    "argsort": lambda x: ad.argsort(x, axis=1),
    "argsort descending": lambda x: ad.argsort(x, axis=1, descending=True),
    "nonzero": lambda x: ad.nonzero(x > 1),
    "topk": lambda x: ad.topk(x, 2).indices,
    "searchsorted": lambda x: ad.searchsorted(ad.sort(x[0]), x[1]),
    "count_nonzero": lambda x: ad.count_nonzero(x > 1, axis=0),
    "unique counts": lambda x: ad.unique_counts(x).counts,
    "unique inverse": lambda x: ad.unique_inverse(x).inverse_indices,
    "unique all": lambda x: tuple(ad.unique_all(x))[1:],
    "one_hot": lambda x: F.one_hot(ad.astype(x, ad.int32)),
    "sum of truth values": lambda x: ad.sum(x > 1, axis=0),
    "sum of int32": lambda x: ad.sum(ad.astype(x, ad.int32), axis=1),
    "prod of int32": lambda x: ad.prod(ad.astype(x, ad.int32), axis=1),
    "cumulative_sum of int32": lambda x: ad.cumulative_sum(ad.astype(x, ad.int32), axis=1),
}


@pytest.mark.parametrize("function", INDICES.values(), ids=INDICES)
def test_indices_counts_and_sums_are_int32(function: Callable) -> None:
    def outputs(device: str) -> list[ad.Tensor]:
        out = function(on(device, [[3.0, 1.0, 2.0], [1.0, 3.0, 3.0]]))
        return list(out) if isinstance(out, tuple) else [out]

    for found, expected in zip(outputs("webgpu"), outputs("cpu"), strict=True):
        assert (found.dtype, found.device) == (ad.int32, "webgpu")
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_sums_of_int32_and_uint32_keep_their_dtype_and_wrap() -> None:
    x = ad.tensor([2**31 - 1, 1], device="webgpu")
    assert (ad.sum(x).dtype, ad.sum(x).item()) == (ad.int32, -(2**31))
    y = ad.tensor([2**32 - 1, 2], dtype=ad.uint32, device="webgpu")
    assert (ad.sum(y).dtype, ad.sum(y).item()) == (ad.uint32, 1)


def test_the_namespace_tells_of_the_device() -> None:
    info = ad.__array_namespace_info__()
    assert {"cpu", "webgpu"} <= set(info.devices())
    there = info.default_dtypes(device="webgpu")
    assert (there["integral"], there["indexing"]) == (ad.int32, ad.int32)
    assert there["real floating"] is ad.float32
    assert set(info.dtypes(device="webgpu")) == {"bool", "int32", "uint32", "float32"}
    assert info.dtypes(device="webgpu", kind="signed integer") == {"int32": ad.int32}
    assert "webgpu" in {device.name for device in ad.devices() if device.usable}


def test_the_default_device_is_where_tensors_are_made(webgpu_by_default: None) -> None:
    assert ad.get_default_device() == "webgpu"
    assert ad.__array_namespace_info__().default_device() == "webgpu"
    made = [
        ad.tensor([1.0]),
        ad.asarray(np.array([1.0], np.float32)),
        ad.zeros(2),
        ad.ones(2),
        ad.full((2,), 1.5),
        ad.empty(2),
        ad.eye(2),
        ad.arange(3),
        ad.linspace(0.0, 1.0, 3),
        ad.random.normal((2,)),
        ad.random.integers(5, shape=(2,)),
        ad.random.permutation(3),
        ad.exp(1.0),
        ad.add(1.0, 2.0),
        ad.zeros_like(ad.ones(2)),
        *ad.meshgrid(ad.arange(2), ad.arange(3)),
    ]
    assert [x.device for x in made] == ["webgpu"] * len(made)
    assert ad.zeros(2, device="cpu").device == "cpu"
    assert ad.from_dlpack(np.array([1.0], np.float32)).device == "cpu"  # stays where it is
    assert ad.zeros_like(ad.zeros(2, device="cpu")).device == "cpu"
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    (x * np.array([3.0, 4.0], np.float32)).sum().backward()
    assert x.grad.device == "webgpu"
    assert x.grad.tolist() == [3.0, 4.0]
    assert ad.grad(lambda x: x**3)(2.0).item() == 12.0


def test_a_default_device_that_is_not_there_is_refused_and_changes_nothing() -> None:
    before = ad.get_default_device()
    for wrong in ("cuda", "webgpu:99", "webgpu:x"):
        with pytest.raises(ad.DeviceError, match=wrong):
            ad.set_default_device(wrong)
    assert ad.get_default_device() == before


def test_the_environment_says_what_the_default_device_is() -> None:
    code = """
import adjoint as ad
x = ad.tensor([1.0, 2.0], requires_grad=True)
(x * x).sum().backward()
print(ad.get_default_device(), x.device, x.grad.device, x.grad.tolist())
"""
    done = python("-c", code, ADJOINT_DEVICE="webgpu")
    assert (done.stdout, done.stderr) == ("webgpu webgpu webgpu [2.0, 4.0]\n", "")
    done = python("-c", code, ADJOINT_DEVICE="cuda")
    assert done.returncode and "there is no device 'cuda'" in done.stderr


# Random numbers

SEEDED: dict[str, Callable[[str], Any]] = {
    "bits": lambda device: ad.random.bits((7, 5), device=device),
    "no bits": lambda device: ad.random.bits((0, 5), device=device),
    "one": lambda device: ad.random.bits((), device=device),
    "integers": lambda device: ad.random.integers(-3, 10, (51,), device=device),
    "integers of int32": lambda device: ad.random.integers(
        -(2**31), 2**31, (51,), dtype=ad.int32, device=device
    ),
    "integers below a tensor": lambda device: ad.random.integers(
        on(device, [5, 1000, 2**30], np.int32), shape=(20, 3), device=device
    ),
    "permutation": lambda device: ad.random.permutation(100, device=device),
    "permutation of a tensor": lambda device: ad.random.permutation(on(device, numbers(9, 2))),
    "choice": lambda device: ad.random.choice(5, (40,), device=device),
    "choice of distinct": lambda device: ad.random.choice(60, (40,), False, device=device),
    "bernoulli": lambda device: ad.random.bernoulli(0.3, (101,), device=device),
    "bernoulli of a tensor": lambda device: ad.random.bernoulli(on(device, numbers(50, high=0.9))),
    "dropout": lambda device: F.dropout(on(device, numbers(37)), 0.4) != 0,
    "dropout of channels": lambda device: F.dropout2d(ad.ones((4, 5, 2, 2), device=device)) != 0,
    "uniform": lambda device: ad.random.uniform((101,), device=device),
}
# Functions of random bits: each has its own error on each device.
ROUNDED: dict[str, Callable[[str], Any]] = {
    "uniform between": lambda device: ad.random.uniform((101,), -2.0, 3.5, device=device),
    "normal": lambda device: ad.random.normal((101,), device=device),
    "normal of tensors": lambda device: ad.random.normal(
        mean=on(device, numbers(50)), std=on(device, numbers(50, seed=1))
    ),
    "exponential": lambda device: ad.random.exponential((101,), device=device),
    "laplace": lambda device: ad.random.laplace((101,), device=device),
    "gumbel": lambda device: ad.random.gumbel((101,), device=device),
    "truncated_normal": lambda device: ad.random.truncated_normal((101,), device=device),
    "dropout": lambda device: F.dropout(on(device, numbers(37)), 0.4),
}


def drawn_twice(draw: Callable[[str], ad.Tensor], device: str) -> list[ad.Tensor]:
    """From one seed: where the stream is after a draw counts too."""
    ad.random.seed(5)
    out = [draw(device), draw(device), ad.random.bits((4,), device=device)]
    assert [x.device for x in out] == [device] * 3
    return out


@pytest.mark.parametrize("draw", SEEDED.values(), ids=SEEDED)
def test_random_numbers_are_the_cpus_bit_for_bit(draw: Callable) -> None:
    found, expected = drawn_twice(draw, "webgpu"), drawn_twice(draw, "cpu")
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_array_equal(one.numpy(), other.numpy())
        assert one.size < 2 or len(set(one.numpy().ravel().tolist())) > 1


@pytest.mark.parametrize("draw", ROUNDED.values(), ids=ROUNDED)
def test_random_numbers_are_the_cpus_but_for_rounding(draw: Callable) -> None:
    found, expected = drawn_twice(draw, "webgpu"), drawn_twice(draw, "cpu")
    for one, other in zip(found, expected, strict=True):
        close(one.numpy(), other.numpy(), tolerance=1e-6)


def test_devices_take_turns_in_one_stream() -> None:
    ad.random.seed(3)
    expected = [ad.random.bits((3,)).tolist() for _ in range(4)]
    ad.random.seed(3)
    found = [ad.random.bits((3,), device=d).tolist() for d in ("cpu", "webgpu", "webgpu", "cpu")]
    assert found == expected


def test_a_state_on_any_device_can_be_saved_and_set() -> None:
    generator = ad.random.Generator(7)
    generator.normal((5,), device="webgpu")
    state = generator.state
    first = generator.uniform((4,), device="webgpu").tolist()
    assert first != generator.uniform((4,), device="webgpu").tolist()
    for saved in (state, state.to("cpu"), state.numpy().tobytes(), state.to("webgpu")):
        generator.state = saved
        assert generator.uniform((4,)).tolist() == first
    copied = pickle.loads(pickle.dumps(generator))
    assert copied.bits((2,), device="webgpu").tolist() == generator.bits((2,)).tolist()


def test_random_draws_read_nothing_back() -> None:
    ad.random.seed(0)
    ad.random.normal((5,), device="webgpu")  # the state goes there once
    before = counts()["reads"]
    x = ad.random.normal((5,), device="webgpu")
    F.dropout(x, 0.5)
    ad.random.permutation(10, device="webgpu")
    assert counts()["reads"] == before
