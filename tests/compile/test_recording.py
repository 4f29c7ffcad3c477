"""What is recorded of a function: its tensors, constants and arguments; what must not happen."""

import gc
import threading
import weakref

import numpy as np
import pytest

import adjoint as ad
from adjoint._compile import watching
from adjoint._compile.recording import record
from adjoint._core.tensor import Tensor
from adjoint._foundation.blocks import ends
from adjoint._foundation.errors import ArgumentError, ShapeError, TraceError
from adjoint._foundation.modes import mode
from adjoint.nn.modules.tree import Tree
from tests.core.interrupts import interrupted
from tests.support.helpers import needs_kernels

F = ad.nn.functional
X = ad.asarray([[0.5, -1.0], [2.0, 0.25]])


def leaf(*values):
    return ad.tensor(values, requires_grad=True)


def with_scheduler():
    model, optimizer, step = training(ad.optim.Adam)
    scheduler = ad.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    def whole(model, x):
        loss = step(x)
        scheduler.step()
        return loss

    whole.scheduler = scheduler
    return model, optimizer, whole


def owners(recorded):
    return [slot.owner for _, slot in recorded.graph.captures]


def training(optimizer=ad.optim.SGD):
    model = ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.BatchNorm1d(3), ad.nn.Dropout(0.5))
    optimizer = optimizer(model.parameters(), lr=0.1)

    def step(x):
        loss = (model(x) ** 2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


# Tensors from outside.


def test_nothing_keeps_a_model_alive():
    model, optimizer, whole = with_scheduler()
    scheduler = whole.scheduler
    gc.disable()
    try:
        recorded = record(whole, (model, X), {})
        recorded.graph(model, X)
        recorded.settings.read()
        assert recorded.watched.changed() is None
        known = [weakref.ref(x) for x in (model, model[0].weight, optimizer, scheduler)]
        del whole, model, optimizer, scheduler
        assert [ref() for ref in known] == [None] * 4
    finally:
        gc.enable()
    assert recorded.settings.read() is None and recorded.watched.changed() is not None
    with pytest.raises(ArgumentError, match="the same"):
        recorded.graph(ad.nn.ReLU(), X)


def test_a_capture_that_is_gone_is_an_error():
    held = [ad.tensor([1.0, 2.0])]
    recorded = record(lambda x: x * held[0], (X,), {})
    (owner,) = owners(recorded)
    assert isinstance(owner, weakref.ref) and owner() is held[0]
    held.clear()
    with pytest.raises(TraceError, match="isn't there any more"):
        recorded.graph(X)


def test_the_functions_own_tensors_are_constants():
    table = np.arange(2.0)

    def function(x):
        return x * ad.asarray([1.0, 2.0]) + ad.asarray(table) + ad.tensor(3.0)

    recorded = record(function, (X,), {})
    gc.collect()
    assert all(type(owner) is Tensor for owner in owners(recorded))
    np.testing.assert_array_equal(recorded.graph(X).numpy(), function(X).numpy())


def test_equal_numbers_are_one_constant():
    def function(x):
        for _ in range(100):
            x = x * 1.001 + ad.tensor(0.5)
        return ad.grad(lambda x: (x * x * 3.0).sum())(x)

    recorded = record(lambda x: ad.grad(lambda x: function(x).sum())(x), (X,), {})
    assert len(recorded.graph.captures) < 8
    np.testing.assert_allclose(
        recorded.graph(X).numpy(), ad.grad(lambda x: function(x).sum())(X).numpy(), rtol=1e-6
    )


# Arguments.


def test_an_argument_that_is_also_captured_is_a_capture():
    weight, calls = leaf(1.0, 2.0), []

    def function(pair):
        calls.append(1)
        x, y = pair
        return (x * y * weight).sum()

    recorded = record(function, ((X, weight),), {})
    assert len(calls) == 2
    assert {k: ref() for k, ref in recorded.captured_arguments.items()} == {1: weight}
    with ad.no_grad():
        weight[...] = 5.0
    assert recorded.graph((X, weight)).item() == function((X, weight)).item()
    with pytest.raises(ArgumentError, match="argument 1"):
        recorded.graph((X, leaf(1.0, 2.0)))


def test_a_model_may_be_an_argument_beside_its_parameter():
    model, _, _ = training()
    recorded = record(lambda model, w: model(X).sum() + w.sum(), (model, model[0].weight), {})
    assert list(recorded.captured_arguments) == [0]
    recorded.graph(model, model[0].weight)


def test_the_same_tensor_may_be_given_twice():
    recorded = record(lambda x, y: x * y, (X, X), {})
    np.testing.assert_array_equal(recorded.graph(X, X).numpy(), (X * X).numpy())
    with pytest.raises(TraceError, match="one tensor"):
        recorded.graph(X, X.copy())


def test_a_tensor_and_its_data_may_be_given_both():
    w = leaf(1.0, 2.0)
    recorded = record(lambda x, y: x * y, (w, w.data), {})
    assert set(recorded.captured_arguments) == {0, 1}


# Hooks.


def test_hooks_that_call_ops_are_recorded():
    weight = leaf(1.0, 2.0)
    weight.register_hook(lambda g: g * 10)
    weight.register_post_accumulate_grad_hook(lambda w: w.grad.mul_(2))

    def step(x):
        (x * weight).sum().backward()
        grad, weight.grad = weight.grad, None
        return grad

    recorded = record(step, (X,), {})
    np.testing.assert_array_equal(recorded.graph(X).numpy(), [50.0, -15.0])


def test_a_hook_that_reads_a_value_is_an_error_with_its_line():
    weight = leaf(1.0, 2.0)
    weight.register_hook(lambda g: g if float(g.sum()) > 0 else None)
    with pytest.raises(TraceError, match=r"test_recording.py:\d+: `weight.register_hook"):
        record(lambda x: (x * weight).sum().backward(), (X,), {})


def test_a_hook_that_is_registered_inside_doesnt_stay():
    weight = leaf(1.0, 2.0)

    def stays(x):
        weight.register_hook(lambda g: g * 2)
        (x * weight).sum().backward()

    def goes(x):
        with weight.register_hook(lambda g: g * 2):
            (x * weight).sum().backward()
        return weight.grad

    with pytest.raises(TraceError, match=r"gets a hook .* `weight.register_hook"):
        record(stays, (X,), {})
    assert not weight.node.extra.hooks
    np.testing.assert_array_equal(record(goes, (X,), {}).graph(X).numpy(), [5.0, -1.5])
    with pytest.raises(TraceError, match="gets a hook"):
        record(lambda x: module.register_forward_hook(lambda *_: None), (X,), {})


module = ad.nn.ReLU()


# Errors.


def branches(x):
    if x.sum() > 3:
        return x
    return -x


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (branches, r"`if x.sum\(\) > 3:`"),
        (lambda x: x.sum().item(), r"`\(lambda x: x.sum\(\).item\(\)"),
        (lambda x: x[x > 0], r"`\(lambda x: x\[x > 0\]"),
        (lambda x: ad.nn.Sequential(ad.nn.ReLU())(x).numpy(), r"`\(lambda x: ad.nn"),
    ],
)
def test_what_needs_a_value_is_an_error_with_the_users_line(function, line):
    with pytest.raises(TraceError, match=rf"compile: .*at test_recording.py:\d+: {line}.*uncomp"):
        record(function, (X,), {})


def state():
    whole = (mode.word, mode.trace, mode.draws, list(ends.stack), len(watching.under_way))
    hooked = "__getattribute__" in vars(Tree)
    return whole, hooked


def contents(model, optimizer):
    tensors = [*model.parameters(), *model.buffers()]
    values = [(x.raw, x.node, x._grad) for x in tensors]
    attributes = [dict(vars(m)) for m in model.modules()]
    return values, attributes, [dict(g) for g in optimizer.param_groups], optimizer.state_dict()


def test_an_exception_leaves_everything_as_it_was():
    model, optimizer, step = training(ad.optim.Adam)
    step(X)

    def wrong(x):
        model.eval()
        step(x)
        return x @ ad.ones((3, 3))

    before = contents(model, optimizer)
    with pytest.raises(ShapeError) as caught:
        record(wrong, (X,), {})
    assert "compile" not in str(caught.value)
    after = contents(model, optimizer)
    assert after[:3] == before[:3] and str(after[3]) == str(before[3])
    assert state() == ((mode.word, None, None, [], 0), False)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_leaves_everything_as_it_was():
    layer = ad.nn.Dropout(0.5)
    optimizer = ad.optim.SGD([leaf(1.0, 2.0)], lr=0.1, momentum=0.9)
    (weight,) = optimizer.param_groups[0]["params"]
    optimizer._prepare_group(0, optimizer.param_groups[0])

    def step(x):
        optimizer.zero_grad()
        (layer(x) * weight).sum().backward()
        optimizer.step()

    def known():
        assert layer.training and layer._hooks is None  # whoever comes first tidies up
        groups = [dict(g) for g in optimizer.param_groups]
        return state(), weight.raw, weight.node, weight.grad, groups, dict(vars(layer))

    record(step, (X,), {})
    before = known()

    def check():
        assert known() == before

    files = ("_compile/recording.py", "_compile/watching.py", "_compile/journal.py")
    files += ("_compile/views.py", "_compile/settings.py", "_foundation/blocks.py")
    assert interrupted(lambda: record(step, (X,), {}), check, files, 3) > 3


def test_other_threads_notice_nothing():
    layer, done, met = ad.nn.Dropout(0.5), threading.Event(), []
    optimizer = ad.optim.SGD([leaf(1.0)], lr=0.1)

    def other():
        layer.p = 0.25
        optimizer.param_groups[0]["lr"] = 0.5
        met.extend([layer.p, optimizer.param_groups[0]["lr"]])
        record(lambda x: layer(x), (X,), {})
        done.set()

    def function(x):
        threading.Thread(target=other).start()
        assert done.wait(60)
        return layer(x)

    recorded = record(function, (X,), {})
    assert met == [0.25, 0.5] and [type(x) for x in met] == [float, float]
    assert recorded.settings.read() == (2**30, 1 / 0.75)
    assert state()[1] is False


@needs_kernels
def test_other_threads_draw_while_a_function_is_recorded():
    generator, drawn = ad.random.Generator(5), []

    def function():
        first = generator.bits((3,))
        thread = threading.Thread(target=lambda: drawn.append(generator.bits((3,))))
        thread.start()
        thread.join(60)
        return first

    own = ad.compile(function)
    own()
    fresh = ad.random.Generator(5)
    expected = [fresh.bits((3,)) for _ in range(2)]
    np.testing.assert_array_equal(drawn[0].numpy(), expected[0].numpy())
    np.testing.assert_array_equal(own().numpy(), fresh.bits((3,)).numpy())
