"""Tracing: what is recorded, replayed, must be what eager execution does, bit for bit."""

import numpy as np
import pytest

import adjoint as ad
from adjoint._core.tensor import wrap
from adjoint._foundation.modes import mode
from tests.support.helpers import as_tuple, floats
from tests.support.samples import OPS, TABLE, Sample, random_like, tensors

F = ad.nn.functional
STATIC = [s for s in TABLE if not OPS[s.op].dynamic_shape]
static = pytest.mark.parametrize("sample", STATIC, ids=lambda s: s.id)
differentiable = pytest.mark.parametrize(
    "sample", [s for s in STATIC if OPS[s.op].differentiable], ids=lambda s: s.id
)


def same(one, other) -> None:
    """Equal to the last bit, in shape and dtype too."""
    for a, b in zip(as_tuple(one), as_tuple(other), strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy(), strict=True)


@static
def test_forward_replays(sample: Sample) -> None:
    args = tensors(sample)
    graph = ad.trace(sample.call, *args)
    same(graph(*args), sample.call(*args))


@differentiable
def test_gradient_replays(sample: Sample) -> None:
    args = tensors(sample)
    seeds = random_like(floats(as_tuple(sample.call(*args))), 0)

    def gradient(*args):
        leaves = [x for x in args if x.requires_grad]
        outs = floats(as_tuple(sample.call(*args)))
        return ad.autograd.grad(outs, leaves, seeds, allow_unused=True)

    same(ad.trace(gradient, *args)(*args), gradient(*args))


@differentiable
def test_second_order_gradient_replays(sample: Sample) -> None:
    args = tensors(sample)
    seeds = random_like(floats(as_tuple(sample.call(*args))), 0)
    count = sum(x.requires_grad for x in args)
    more = random_like([x for x in args if x.requires_grad], 1)

    def second(*args):
        leaves = [x for x in args if x.requires_grad]
        outs = floats(as_tuple(sample.call(*args)))
        grads = ad.autograd.grad(outs, leaves, seeds, create_graph=True, allow_unused=True)
        pairs = [(g, s) for g, s in zip(grads, more, strict=True) if g.requires_grad]
        if not pairs:
            return (None,) * count
        chosen, weights = zip(*pairs, strict=True)
        return ad.autograd.grad(chosen, leaves, weights, allow_unused=True)

    same(ad.trace(second, *args)(*args), second(*args))


class Model:
    """A small network with everything a training step has: gradients, momentum, dropout."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.w = ad.tensor(rng.standard_normal((2, 1, 3, 3)).astype("f"), requires_grad=True)
        self.b = ad.tensor(np.zeros(2, "f"), requires_grad=True)
        self.v = ad.tensor(rng.standard_normal((8, 3)).astype("f"), requires_grad=True)
        self.velocity = ad.zeros((8, 3))

    def step(self, images: ad.Tensor, labels: ad.Tensor) -> ad.Tensor:
        h = F.relu(F.conv2d(images, self.w, self.b, padding=1))
        h = F.max_pool2d(h, 2).reshape((-1, 8))
        h = h * (ad.random.uniform(h.shape) < 0.8)
        loss = F.cross_entropy(h @ self.v, labels)
        loss.backward()
        with ad.no_grad():
            for p in (self.w, self.b):
                p -= 0.1 * p.grad
            self.velocity[...] = 0.9 * self.velocity + self.v.grad
            self.v[...] = self.v - 0.1 * self.velocity
            self.v[0] = 0.0
        for p in (self.w, self.b, self.v):
            p.grad = None
        return loss

    def state(self) -> tuple:
        return self.w, self.b, self.v, self.velocity, ad.random.default._state


def test_a_training_step_replays_with_its_updates() -> None:
    rng = np.random.default_rng(1)
    images = ad.tensor(rng.standard_normal((5, 1, 4, 4)).astype("f"))
    labels = ad.tensor(rng.integers(0, 3, 5))
    eager, traced = Model(), Model()
    graph = ad.trace(traced.step, images, labels)

    ad.random.seed(7)
    expected = [eager.step(images, labels).item() for _ in range(3)]
    after = [x.detach().numpy().copy() for x in eager.state()]
    ad.random.seed(7)
    assert [graph(images, labels).item() for _ in range(3)] == expected
    for x, reference in zip(traced.state(), after, strict=True):
        np.testing.assert_array_equal(x.detach().numpy(), reference)
    assert expected[0] != expected[2]


def test_gradients_that_accumulate_replay() -> None:
    w = ad.tensor([1.0, 2.0], requires_grad=True)
    x = ad.tensor([3.0, 4.0])
    (w * x).sum().backward()
    graph = ad.trace(lambda x: (w * w * x).sum().backward(), x)
    np.testing.assert_array_equal(w.grad.numpy(), [3, 4])
    graph(x)
    np.testing.assert_array_equal(w.grad.numpy(), [9, 20])
    graph(x)
    np.testing.assert_array_equal(w.grad.numpy(), [15, 36])


def test_a_graph_says_when_the_grad_it_adds_to_is_gone() -> None:
    w = ad.tensor([1.0], requires_grad=True)
    w.grad = ad.tensor([1.0])
    graph = ad.trace(lambda: (w * w).sum().backward())
    w.grad = None
    with pytest.raises(ad.TraceError, match=r"had a \.grad when the function was traced"):
        graph()


def test_arguments_that_are_changed_are_changed_by_the_replay() -> None:
    def double_and_differentiate(x, y):
        x *= 2.0
        (y * y).sum().backward()

    y = ad.tensor([3.0], requires_grad=True)
    graph = ad.trace(double_and_differentiate, ad.tensor([1.0]), y)
    x = ad.tensor([5.0])
    graph(x, y)
    assert (x.item(), y.grad.item()) == (10.0, 6.0)


def test_captures_are_read_anew_at_every_replay() -> None:
    scale = ad.tensor(2.0)
    graph = ad.trace(lambda x: x * scale, ad.tensor(1.0))
    scale[...] = 5.0
    assert graph(ad.tensor(3.0)).item() == 15.0


def test_ops_on_tensors_from_outside_are_recorded_too() -> None:
    w = ad.tensor([1.0, 2.0])
    graph = ad.trace(lambda: (w * 2.0, ad.zeros(2) + 1.0))
    assert [step.op.name for step in graph.steps] == ["multiply", "full", "add"]
    w[0] = 10.0
    np.testing.assert_array_equal(graph()[0].numpy(), [20, 4])


def test_data_made_inside_is_constant_also_when_changed() -> None:
    def count():
        numbers = ad.asarray(np.zeros(2, "f"))
        numbers[0] += 1.0
        return numbers

    graph = ad.trace(count)
    for _ in range(2):
        np.testing.assert_array_equal(graph().numpy(), [1, 0])


def test_random_numbers_move_on_from_replay_to_replay() -> None:
    graph = ad.trace(lambda: ad.random.normal((3,)))
    ad.random.seed(3)
    one, other = graph().numpy(), graph().numpy()
    ad.random.seed(3)
    np.testing.assert_array_equal(one, ad.random.normal((3,)).numpy())
    np.testing.assert_array_equal(other, ad.random.normal((3,)).numpy())
    assert (one != other).any()


def test_tracing_changes_nothing() -> None:
    w = ad.tensor([1.0, 2.0], requires_grad=True)
    data, node, before = w.raw, w.node, ad.random.default._state.numpy().copy()

    def work():
        (w * ad.random.uniform((2,))).sum().backward()
        with ad.no_grad():
            w.add_(w.grad, alpha=-1.0)

    ad.trace(work)
    assert w.raw is data and w.node is node and w.grad is None
    np.testing.assert_array_equal(ad.random.default._state.numpy(), before)
    assert mode.trace is None and mode.word == 1


def test_an_error_inside_a_trace_restores_everything() -> None:
    w = ad.tensor([1.0, 2.0], requires_grad=True)
    outside = (w * w).sum()
    data, node, before = w.raw, w.node, ad.random.default._state.numpy().copy()

    def broken():
        with ad.no_grad():
            w[0] = 5.0
        outside.backward()
        ad.random.uniform((2,))
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        ad.trace(broken)
    assert w.raw is data and w.node is node and w.grad is None
    np.testing.assert_array_equal(ad.random.default._state.numpy(), before)
    assert mode.trace is None and mode.word == 1
    outside.backward()
    np.testing.assert_array_equal(w.grad.numpy(), [2, 4])


def test_user_defined_ops_replay() -> None:
    cube = ad.op.elementwise("cube", x=lambda g, x: 3 * g * x * x, forward=lambda x: x * x * x)
    swap = ad.op.other(
        "swap",
        inputs="a b",
        outputs="c d",
        vjp=lambda needs, g_c, g_d: (g_d, g_c),
        forward=lambda a, b: (b * 1.0, a * 1.0),
    )

    def work(x, y):
        c, d = swap(cube(x), y)
        return ad.autograd.grad((c * 2.0 + d * 3.0).sum(), [x, y])

    args = [ad.tensor([1.0, 2.0], requires_grad=True), ad.tensor([3.0, 4.0], requires_grad=True)]
    same(ad.trace(work, *args)(*args), work(*args))


def test_scalars_keep_their_digits_in_recorded_rules() -> None:
    x = ad.tensor(2.0, dtype=ad.float64, requires_grad=True)

    def gradient(x):
        return ad.autograd.grad(x**0.3, x)

    same(ad.trace(gradient, x)(x), gradient(x))


def test_a_scalar_that_is_out_of_range_is_refused_as_outside() -> None:
    x = ad.ones(3, dtype=ad.int8)
    with pytest.raises(ad.RangeError) as outside:
        ad.add(x, 300)
    with pytest.raises(ad.RangeError) as inside:
        ad.trace(lambda x: x + 300, x)
    assert str(inside.value) == str(outside.value)


def test_a_traced_value_says_that_its_trace_has_ended() -> None:
    kept: list[ad.Tensor] = []
    ad.trace(kept.append, ad.ones(2))
    for use in (
        lambda x: ad.sin(x),
        lambda x: ad.ones(2) * x,
        lambda x: np.add(np.ones(2), x.raw),
    ):
        with pytest.raises(ad.TraceError, match="after its trace ended, or in another thread"):
            use(kept[0])


def test_nested_containers_go_in_and_out() -> None:
    def work(batch, scale):
        return {"sum": batch["a"] + batch["b"][0], "scale": scale}

    batch = {"a": ad.tensor([1.0]), "b": [ad.tensor([2.0])]}
    out = ad.trace(work, batch, 3)(batch, 3)
    assert out["sum"].item() == 3.0 and out["scale"] == 3


def test_a_graph_can_be_traced_into_another() -> None:
    scale = ad.tensor(3.0)
    inner = ad.trace(lambda x: x * scale, ad.tensor(1.0))
    outer = ad.trace(lambda x: inner(x) + inner(x * 2.0), ad.tensor(1.0))
    assert outer(ad.tensor(2.0)).item() == 18.0


def test_tracing_inside_a_trace() -> None:
    def work(x):
        y = x * 2.0
        graph = ad.trace(lambda z: z * y, x)
        return graph(x)

    assert ad.trace(work, ad.tensor(3.0))(ad.tensor(5.0)).item() == 50.0


def test_replay_frees_values_after_their_last_use() -> None:
    def chain(x):
        for _ in range(50):
            x = x + 1.0
        return x

    graph = ad.trace(chain, ad.zeros(1000))
    assert all(len(dead) == 1 for dead in graph.last_uses)


def test_a_graph_prints_readably() -> None:
    w = ad.tensor([1.0, 2.0], requires_grad=True)

    def step(x):
        with ad.no_grad():
            w.add_(x, alpha=-0.5)
        return ad.clip(w.detach(), 0, 1)

    assert repr(ad.trace(step, ad.zeros(2))).splitlines() == [
        "graph(%0 : float32[2])",
        "  %1 : float32[2] = a tensor",
        "  %2 : float32[2] = add_scaled(%1, %0, alpha=-0.5)",
        "  %3 : float32[2] = clip(%2, 0, 1)",
        "  a tensor := %2",
        "  return %3",
    ]


def test_shapes_of_samples_are_inferred_without_values() -> None:
    for sample in STATIC:
        args = tensors(sample)
        outs = as_tuple(sample.call(*args))
        traced: list = []
        ad.trace(lambda *a, s=sample, t=traced: t.extend(as_tuple(s.call(*a))), *args)
        for out, other in zip(outs, traced, strict=True):
            assert (out.shape, out.dtype) == (other.shape, other.dtype), sample.id


def test_wrapped_raw_arrays_are_captured_as_constants() -> None:
    held = wrap(np.array([1.0, 2.0]))
    assert ad.trace(lambda: held * 2.0)().tolist() == [2.0, 4.0]


def test_one_tensor_given_twice_stays_one() -> None:
    x = ad.ones(2, requires_grad=True)
    graph = ad.trace(lambda a, b: (a * b).sum().backward(), x, x)
    graph(x, x)
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(ad.TraceError, match="one tensor now but weren't"):
        graph(ad.ones(2, requires_grad=True), ad.ones(2, requires_grad=True))


def test_an_argument_that_is_also_used_from_outside_is_refused() -> None:
    w = ad.ones(2, requires_grad=True)
    with pytest.raises(ad.TraceError, match="also used from outside"):
        ad.trace(lambda a: (a * w).sum().backward(), w)
    other = ad.ones(2, requires_grad=True)
    graph = ad.trace(lambda a: (a * w).sum().backward(), other)
    with pytest.raises(ad.TraceError, match="from outside, are one tensor now"):
        graph(w)


def test_a_capture_may_be_an_argument_where_nothing_is_written() -> None:
    w = ad.tensor([3.0])
    assert ad.trace(lambda x: x * w, ad.tensor([1.0]))(w).item() == 9.0


def test_a_grad_is_read_from_its_tensor_at_replay() -> None:
    p = ad.tensor([1.0, 2.0], requires_grad=True)
    (p * 3.0).sum().backward()
    held = p.grad
    graph = ad.trace(lambda: (held.sum(), p.grad.sum()))
    p.grad = ad.tensor([100.0, 100.0])
    assert [x.item() for x in graph()] == [6.0, 200.0]


def test_a_grad_that_is_changed_in_place_is_put_back() -> None:
    p = ad.tensor([1.0, 2.0], requires_grad=True)
    p.grad = ad.tensor([4.0, 4.0])

    def halve() -> None:
        with ad.no_grad():
            p.grad[...] = p.grad * 0.5

    graph = ad.trace(halve)
    assert p.grad.tolist() == [4.0, 4.0]
    graph()
    assert p.grad.tolist() == [2.0, 2.0]

    def halve_argument(q: ad.Tensor) -> None:
        with ad.no_grad():
            q.grad[...] = q.grad * 0.5

    ad.trace(halve_argument, p)(p)
    assert p.grad.tolist() == [1.0, 1.0]


def test_a_step_that_clears_gradients_first_replays_again_and_again() -> None:
    def make():
        p = ad.tensor([1.0, 2.0], requires_grad=True)

        def step() -> None:
            p.grad = None
            (p * p).sum().backward()
            with ad.no_grad():
                p.add_(p.grad, alpha=-0.1)

        return p, step

    p, step = make()
    q, traced = make()
    graph = ad.trace(traced)
    for _ in range(3):
        step()
        graph()
        same((p, p.grad), (q, q.grad))


def test_momentum_replays() -> None:
    def make():
        p = ad.tensor(np.linspace(-1, 1, 6000, dtype="f"), requires_grad=True)
        optimizer = ad.optim.SGD([p], lr=0.1, momentum=0.9, weight_decay=0.01)

        def step() -> None:
            optimizer.zero_grad()
            ad.tanh(p * 3.0).sum().backward()
            optimizer.step()

        return p, step

    p, step = make()
    q, traced = make()
    graph = ad.trace(traced)
    for _ in range(5):
        step()
        graph()
        same(p, q)


def test_memory_layouts_are_the_same_in_a_replay() -> None:
    rng = np.random.default_rng(0)
    w, b, m = (ad.tensor(rng.standard_normal(s).astype("f")) for s in ((80, 80), 80, (80, 80)))
    w.requires_grad_()
    b.requires_grad_()

    def gradients():
        a = w + b
        return ad.autograd.grad(ad.tanh(a).sum() + ad.tanh(a.T @ m).sum(), [w, b])

    def written():
        x = ad.tanh(m.T)
        x[0] = 1.0
        x += m
        x.add_(m.T, alpha=0.1234567)
        return x.sum(axis=0)

    same(ad.trace(gradients)(), gradients())
    same(ad.trace(written)(), written())


def test_one_value_can_be_assigned_by_a_mask_in_a_trace() -> None:
    def clear(x: ad.Tensor) -> ad.Tensor:
        y = x * 1.0
        y[y < 0] = 0.25
        return y

    x = ad.tensor([-1.0, 2.0])
    assert ad.trace(clear, x)(x).tolist() == clear(x).tolist() == [0.25, 2.0]
