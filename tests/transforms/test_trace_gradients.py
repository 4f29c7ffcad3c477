"""A traced function is differentiated as the function is: nothing that it depends on is lost."""

import numpy as np
import pytest

import adjoint as ad
from adjoint._engine.graph_walks import reachable
from adjoint._foundation.modes import mode
from tests.support.helpers import as_tuple, floats
from tests.support.samples import OPS, TABLE, Sample, random_like, tensors

F = ad.nn.functional
w = ad.tensor([0.5, -1.0, 2.0], requires_grad=True)


def values(n: int = 3) -> ad.Tensor:
    return ad.asarray(np.linspace(0.3, 1.7, n, dtype="f"))


def cubic(x):
    return (x * x * x + ad.sin(x) * 2.0).sum()


def vector(x):
    return ad.tanh(x * x) + x.sum()


TRANSFORMS = {
    "grad": lambda f: ad.grad(lambda x: f(x).sum())(values()),
    "grad of the graph": lambda f: ad.grad(f)(values()) if f(values()).ndim == 0 else ad.zeros(1),
    "value_and_grad": lambda f: ad.value_and_grad(lambda x: f(x).sum())(values()),
    "jacobian": lambda f: ad.jacobian(f)(values()),
    "jacobian forward": lambda f: ad.jacobian(f, mode="forward")(values()),
    "jvp": lambda f: ad.jvp(f, (values(),), (ad.asarray([1.0, 2.0, 3.0]),)),
    "vjp": lambda f: ad.vjp(f, values())[1](ad.ones(f(values()).shape)),
    "hessian": lambda f: ad.hessian(f)(values()),
    "hvp": lambda f: ad.hvp(lambda x: f(x).sum(), (values(),), (ad.ones(3),)),
    "vmap of grad": lambda f: ad.vmap(ad.grad(lambda x: f(x).sum()))(values(6).reshape((2, 3))),
    "grad of vmap": lambda f: ad.grad(lambda xs: ad.vmap(f)(xs).sum())(values(6).reshape((2, 3))),
    "vmap": lambda f: ad.vmap(f)(values(6).reshape((2, 3))),
    "checkpoint": lambda f: ad.grad(lambda x: ad.checkpoint(f, x).sum())(values()),
    "grad of grad": lambda f: ad.grad(lambda x: ad.grad(lambda x: f(x).sum())(x).sum())(values()),
    "trace": lambda f: ad.grad(lambda x: ad.trace(lambda x: f(x * 2.0), x)(x).sum())(values()),
}


def same(one, other) -> None:
    for a, b in zip(ad_leaves(one), ad_leaves(other), strict=True):
        assert a.requires_grad == b.requires_grad
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy(), strict=True)


def ad_leaves(x):
    return [y for part in x for y in ad_leaves(part)] if isinstance(x, tuple) else [x]


@pytest.mark.parametrize("function", [cubic, vector])
@pytest.mark.parametrize("requires_grad", [False, True], ids=["plain", "requiring"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_graph_is_transformed_as_its_function(name, requires_grad, function) -> None:
    graph = ad.trace(function, values().requires_grad_(requires_grad))
    expected = TRANSFORMS[name](function)
    same(TRANSFORMS[name](graph), expected)
    assert any(ad.any(x.detach() != 0) for x in ad_leaves(expected)) or expected.shape == (1,)


DIFFERENTIABLE = [s for s in TABLE if OPS[s.op].differentiable and not OPS[s.op].dynamic_shape]


@pytest.mark.parametrize("sample", DIFFERENTIABLE, ids=lambda s: s.id)
def test_gradients_of_a_graph_are_those_of_the_op(sample: Sample) -> None:
    args = tensors(sample)
    leaves = [x for x in args if x.requires_grad]
    outs = floats(as_tuple(sample.call(*args)))
    seeds = random_like(outs, 0)
    graph = ad.trace(sample.call, *[x.detach() for x in args])
    again = floats(as_tuple(graph(*args)))
    assert [x.requires_grad for x in again] == [x.requires_grad for x in outs]
    expected = ad.autograd.grad(outs, leaves, seeds, allow_unused=True)
    for one, other in zip(
        ad.autograd.grad(again, leaves, seeds, allow_unused=True), expected, strict=True
    ):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_array_equal(one.numpy(), other.numpy(), strict=True)


@pytest.mark.parametrize("requires_grad", [False, True], ids=["plain", "requiring"])
def test_backward_goes_through_a_graph(requires_grad) -> None:
    graph = ad.trace(vector, values().requires_grad_(requires_grad))
    grads = []
    for f in (vector, graph):
        x = values().requires_grad_()
        (f(x) * x).sum().backward()
        grads.append(x.grad)
    same(*grads)


def test_captured_parameters_get_their_gradients_where_inputs_need_none() -> None:
    w.grad = None
    graph = ad.trace(lambda x: (w * w * x).sum(), values())
    out = graph(values())
    assert out.requires_grad
    out.backward()
    np.testing.assert_allclose(w.grad.numpy(), (2 * w.detach() * values()).numpy())
    w.grad = None


def test_a_capture_that_requires_grad_later_gets_its_gradient() -> None:
    weight = ad.asarray([1.0, 2.0])
    graph = ad.trace(lambda x: (weight * x).sum(), ad.ones(2))
    assert not graph(ad.ones(2)).requires_grad
    weight.requires_grad_()
    graph(ad.asarray([3.0, 4.0])).backward()
    assert weight.grad.tolist() == [3.0, 4.0]


def test_arguments_are_added_one_after_the_other() -> None:
    graph = ad.trace(lambda x, y, z: (x * y * z).sum(), ad.ones(2), ad.ones(2), ad.ones(2))
    for chosen in ((0,), (1,), (0, 2), (1, 2), (0, 1, 2)):
        args = [ad.asarray([2.0, 3.0]) for _ in range(3)]
        for k in chosen:
            args[k].requires_grad_()
        graph(*args).backward()
        assert [None if x.grad is None else x.grad.tolist() for x in args] == [
            [4.0, 9.0] if k in chosen else None for k in range(3)
        ]


def test_what_the_function_detaches_stays_detached() -> None:
    def f(x):
        with ad.no_grad():
            scale = x * 2.0
        y = x * x.detach() * scale
        return y, y.detach(), scale, x

    for example in (values(), values().requires_grad_()):
        graph = ad.trace(f, example)
        x = values().requires_grad_()
        assert [y.requires_grad for y in graph(x)] == [True, False, False, True]
        for k in (0, 3):
            both = [ad.grad(lambda x, f=f, k=k: f(x)[k].sum())(values()) for f in (f, graph)]
            same(*both)


def test_nothing_is_recorded_under_no_grad_or_where_nothing_requires_it() -> None:
    graph = ad.trace(cubic, values().requires_grad_())
    assert not graph(values()).requires_grad
    with ad.no_grad():
        assert not graph(values().requires_grad_()).requires_grad
    assert graph(values().requires_grad_()).requires_grad


def test_a_graph_that_was_traced_under_no_grad_is_differentiated() -> None:
    with ad.no_grad():
        graph = ad.trace(lambda x: (w * x).sum(), values())
    same(ad.grad(graph)(values()), ad.grad(lambda x: (w * x).sum())(values()))


def test_second_order_gradients_with_create_graph() -> None:
    graph = ad.trace(cubic, values())
    seconds = []
    for f in (cubic, graph):
        x = values().requires_grad_()
        (g,) = ad.autograd.grad(f(x), x, create_graph=True)
        seconds.append(ad.autograd.grad(g.sum(), x)[0])
    same(*seconds)


def test_gradients_inside_a_traced_function_are_differentiated() -> None:
    gradient = ad.grad(cubic)
    graph = ad.trace(gradient, values())
    same(ad.jacobian(graph)(values()), ad.hessian(cubic)(values()))
    mapped = ad.vmap(ad.grad(cubic))
    rows = values(6).reshape((2, 3))
    graph = ad.trace(mapped, rows)
    f, g = (ad.grad(lambda x, f=f: (f(x) * x).sum()) for f in (mapped, graph))
    same(f(rows), g(rows))


def test_nested_results_and_arguments() -> None:
    def f(batch):
        return {"a": (batch["x"] * 2.0, 3), "b": [batch["y"][0] * batch["x"]]}

    batch = {"x": values(), "y": [values() + 1.0]}
    graph = ad.trace(f, batch)

    def loss(f, batch):
        out = f(batch)
        return (out["a"][0] * out["b"][0]).sum() * out["a"][1]

    one, other = (ad.grad(lambda b, f=f: loss(f, b))(batch) for f in (f, graph))
    same((one["x"], one["y"][0]), (other["x"], other["y"][0]))


def test_ops_of_users_use_their_own_rules() -> None:
    tripled = ad.op.other("tripled", x=lambda g: 3.0 * g, forward=lambda x: x * 1.0)
    assert ad.grad(ad.trace(lambda x: tripled(x).sum(), values()))(values()).tolist() == [3.0] * 3
    noisy = ad.op.other("noisier", x=lambda g: g, forward=lambda x: x + ad.random.normal(x.shape))
    graph = ad.trace(lambda x: noisy(x).sum(), values())
    assert graph(values()).shape == ()
    with pytest.raises(ad.TraceError, match=r"noisier, whose gradient .* draws random numbers"):
        ad.grad(graph)(values())


def test_recurrent_layers_are_differentiated() -> None:
    lstm = ad.nn.LSTM(3, 4)
    x = ad.random.normal((5, 2, 3))
    graph = ad.trace(lambda x: lstm(x)[0].sum(), x)
    grads = []
    for f in (lambda x: lstm(x)[0].sum(), graph):
        lstm.zero_grad()
        f(x).backward()
        grads.append(tuple(p.grad for p in lstm.parameters()))
    same(*grads)


def test_dropout_is_differentiated_with_the_mask_that_it_drew() -> None:
    graph = ad.trace(lambda x: F.dropout(x * w, 0.5).sum(), values())
    for _ in range(3):
        state = ad.random.get_state()
        expected = ad.grad(lambda x: F.dropout(x * w, 0.5).sum())(values())
        ad.random.set_state(state)
        same(ad.grad(graph)(values()), expected)


def test_random_numbers_of_a_graph_in_a_checkpoint_and_in_vmap_are_as_its_functions() -> None:
    def noise(x):
        return (ad.random.normal(x.shape) * x * x).sum()

    graph = ad.trace(noise, values())
    found = []
    for f in (noise, graph):
        ad.random.seed(3)
        x = values().requires_grad_()
        (ad.checkpoint(f, x) * ad.checkpoint(f, x)).backward()
        found.append((x.grad, ad.random.normal((2,)), ad.vmap(f)(ad.ones((4, 3)))))
    same(*found)
    assert len(set(found[1][2].tolist())) == 4


class Training:
    def __init__(self) -> None:
        self.w = ad.tensor(np.linspace(-1, 1, 12, dtype="f").reshape(3, 4), requires_grad=True)

    def step(self, x, retain_graph=False):
        loss = ad.tanh(x @ self.w).sum()
        loss.backward(retain_graph=retain_graph)
        with ad.no_grad():
            self.w -= 0.1 * self.w.grad
        self.w.grad = None
        return loss


def test_a_training_step_keeps_no_graph_and_says_so_when_it_is_differentiated() -> None:
    training, x = Training(), ad.ones((2, 3))
    graph = ad.trace(training.step, x)
    assert not any(graph.flows)
    eager, loss = Training().step(x), graph(x)
    assert loss.item() == eager.item()
    for out in (eager, loss):
        assert out.requires_grad
        with pytest.raises(ad.GradientError, match="backward through sum for a second time"):
            (out * 2.0).backward()
    with pytest.raises(ad.GradientError, match="backward through sum for a second time"):
        ad.autograd.grad(loss * 3.0, training.w)
    assert {node.name for node in reachable([loss.node])} == {"sum", "leaf"}


def test_a_training_step_that_retains_its_graph_is_differentiable() -> None:
    training, x = Training(), ad.ones((2, 3))
    graph = ad.trace(lambda x: training.step(x, True), x)
    before = training.w.detach().numpy().copy()
    graph(x).backward()
    expected = ad.grad(lambda w: ad.tanh(x @ w).sum())(ad.asarray(before))
    np.testing.assert_array_equal(training.w.grad.numpy(), expected.numpy())


def test_differentiating_a_step_that_calls_backward_raises() -> None:
    training, x = Training(), ad.ones((2, 3))
    graph = ad.trace(training.step, x)
    before = training.w.detach().numpy().copy()
    with pytest.raises(ad.GradientError, match=r"calls backward\(\), .* argument 0 .*variable"):
        ad.grad(graph)(x)
    np.testing.assert_array_equal(training.w.detach().numpy(), before)
    graph = ad.trace(training.step, ad.ones((2, 3), requires_grad=True))
    with pytest.raises(ad.GradientError, match=r"calls backward\(\), .* argument 0"):
        graph(ad.ones((2, 3), requires_grad=True) * 2.0)


def test_backward_inside_reaches_an_argument_that_requires_grad_now() -> None:
    found = []
    for make in (lambda step: step, lambda step: ad.trace(step, ad.ones((2, 3)))):
        training, x = Training(), ad.ones((2, 3), requires_grad=True)
        make(training.step)(x)
        found.append((x.grad, training.w))
    same(*found)


def test_assignments_to_arguments_are_differentiated() -> None:
    def change(x, y):
        y *= x
        y[0] = 3.0
        return y * 2.0

    graph = ad.trace(change, values(), values())
    found = []
    for f in (change, graph):
        x = values().requires_grad_()
        y = x * 5.0
        out = f(x, y)
        (out.sum() + (y * y).sum()).backward()
        found.append((x.grad, y, out))
    same(*found)
    plain = ad.ones(3)
    graph(values().requires_grad_(), plain)
    assert plain.requires_grad


def test_a_graph_does_not_change_a_computed_tensor_without_its_graph() -> None:
    def change(x):
        x *= 2.0

    graph = ad.trace(change, values())
    y = values().requires_grad_() * 1.0
    before = y.tolist()
    for f in (change, graph):
        with pytest.raises(ad.GradientError), ad.no_grad():
            f(y)
    assert y.tolist() == before
    with pytest.raises(ad.GradientError, match="a leaf that requires grad"):
        graph(values().requires_grad_())


def test_a_grad_with_a_graph_is_read_with_it() -> None:
    x = values().requires_grad_()
    (x * x * x).sum().backward(create_graph=True)
    graph = ad.trace(lambda: (x.grad * x.grad).sum())
    (one,) = ad.autograd.grad(graph(), x, retain_graph=True)
    (other,) = ad.autograd.grad((x.grad * x.grad).sum(), x, retain_graph=True)
    same(one, other)


def test_gradients_that_are_kept_with_their_graph_have_it_in_a_replay() -> None:
    x = values().requires_grad_()
    graph = ad.trace(lambda: (x * x * x).sum().backward(create_graph=True))
    graph()
    (second,) = ad.autograd.grad(x.grad.sum(), x)
    np.testing.assert_allclose(second.numpy(), 6 * values().numpy(), rtol=1e-6)


def test_a_function_that_does_something_else_when_traced_again_is_an_error() -> None:
    factor = 2.0
    graph = ad.trace(lambda x: (x * factor).sum(), values())
    factor = 3.0
    assert graph(ad.ones(3)).item() == 6.0
    with pytest.raises(ad.TraceError, match="traced again, and did something else"):
        ad.grad(graph)(values())


def test_constants_made_inside_may_be_made_again() -> None:
    graph = ad.trace(lambda x: (x * ad.asarray(np.arange(3.0, dtype="f"))).sum(), values())
    assert ad.grad(graph)(values()).tolist() == [0.0, 1.0, 2.0]


def test_hooks_inside_are_not_forgotten_silently() -> None:
    def hooked(x):
        y = x * 2.0
        y.register_hook(lambda g: g * 10.0)
        return y.sum()

    graph = ad.trace(hooked, values().requires_grad_())
    assert graph(values()).requires_grad is False
    with pytest.raises(ad.TraceError, match="registers a hook"):
        graph(values().requires_grad_())


def test_a_result_keeps_its_gradient_if_the_function_asked_for_it() -> None:
    def f(x):
        y = x * 2.0
        y.retain_grad()
        return y

    x = values().requires_grad_()
    y = ad.trace(f, x)(x)
    (y * y).sum().backward()
    assert y.grad is not None


def test_the_function_runs_once_more_and_not_for_every_gradient() -> None:
    runs = []
    graph = ad.trace(lambda x: runs.append(mode.word) or cubic(x), values())
    for _ in range(3):
        graph(values())
        ad.grad(graph)(values())
    assert len(runs) == 2


def test_a_graph_of_a_graph_is_differentiated() -> None:
    inner = ad.trace(lambda x: x * x * w, values())
    outer = ad.trace(lambda x: (inner(x) + inner(x * 2.0)).sum(), values())
    same(ad.grad(outer)(values()), ad.grad(lambda x: (x * x * w * 5.0).sum())(values()))


def test_values_that_no_gradient_needs_are_freed_while_others_are_recorded() -> None:
    def f(x):
        with ad.no_grad():
            for _ in range(10):
                y = x * 3.0
        return x * y

    graph = ad.trace(f, values().requires_grad_())
    assert graph.flows == [False] * 10 + [True]
    assert sum(map(len, graph.last_uses)) >= 10
