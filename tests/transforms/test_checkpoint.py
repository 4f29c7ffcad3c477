"""Checkpointing: the same gradients from less memory, whatever the function does."""

import math
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint._foundation.modes import mode
from adjoint.testing import check_grads
from tests.support.checkpoint_programs import PROGRAMS, gradients_of, plain

RNG = np.random.default_rng(0)


def leaf(*shape: int, dtype: str = "f8") -> ad.Tensor:
    return ad.tensor(RNG.uniform(0.2, 1.5, shape).astype(dtype), requires_grad=True)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("workers", [1, 3])
def test_gradients_are_those_without_checkpoints(
    program: Callable, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adjoint._engine.parallel.SMALL", 0)
    monkeypatch.setattr("adjoint.autograd.DefaultWorkers.count", workers)
    tensors = [leaf(3, 3) for _ in range(3)]
    expected = gradients_of(plain, program, tensors)
    found = gradients_of(ad.checkpoint, program, tensors)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


# Finite differences see through what is detached; a trace has no values to branch on.
SMOOTH = [name for name in PROGRAMS if name not in ("detaches inside", "no_grad inside")]
TRACEABLE = [name for name in PROGRAMS if name != "branches"]


@pytest.mark.parametrize("name", SMOOTH)
def test_second_order(name: str) -> None:
    program = PROGRAMS[name]
    check_grads(lambda *xs: program(ad.checkpoint, *xs), [leaf(3, 3) for _ in range(3)])


@pytest.mark.parametrize("name", TRACEABLE)
def test_under_trace(name: str) -> None:
    program = PROGRAMS[name]
    tensors = [leaf(3, 3) for _ in range(3)]

    def step(*xs: ad.Tensor) -> tuple:
        return ad.autograd.grad(program(ad.checkpoint, *xs), xs, allow_unused=True)

    expected = step(*tensors)
    found = ad.trace(step, *tensors)(*tensors)
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_x_passed_twice_has_gradient_2x() -> None:
    x = ad.tensor([3.0, -1.0], requires_grad=True)
    ad.checkpoint(lambda a, b: a * b, x, x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [6.0, -2.0]


def test_only_inputs_are_kept() -> None:
    x = leaf(1000)

    def run() -> ad.Tensor:
        return ad.checkpoint(lambda x: ad.exp(ad.sin(ad.exp(ad.sin(x)))), x)

    run()  # loads what is loaded once
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    out = run()
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert out.raw.nbytes <= kept < 2 * out.raw.nbytes


@pytest.mark.parametrize("checkpointed", [True, False])
def test_peak_memory_of_a_chain_grows_as_the_root_of_its_length(checkpointed: bool) -> None:
    lengths = [16, 64, 256]
    peak_bytes(lengths[0], checkpointed)  # loads what is loaded once
    peaks = [math.log(peak_bytes(n, checkpointed)) for n in lengths]
    growth = np.polyfit(np.log(lengths), peaks, 1)[0]
    assert abs(growth - (0.5 if checkpointed else 1)) <= 0.1


def peak_bytes(n: int, checkpointed: bool) -> int:
    """The most memory in use while a chain of n layers is computed and run backward."""
    weights = [ad.tensor(np.full((8, 8), 0.1), requires_grad=True) for _ in range(n)]
    layers = [lambda x, w=w: ad.relu(x @ w) for w in weights]
    x = ad.tensor(np.ones((8 * 60, 8)))
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    segments = math.isqrt(n) if checkpointed else 0
    out = ad.checkpoint_sequential(layers, segments, x) if segments else through(layers, x)
    out.sum().backward()
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return peak


def through(layers: list, x: ad.Tensor) -> ad.Tensor:
    for layer in layers:
        x = layer(x)
    return x


# Recomputation


def test_the_function_runs_again_once_per_backward() -> None:
    calls: list[bool] = []
    x = leaf(2)

    def function(x: ad.Tensor) -> ad.Tensor:
        calls.append(ad.is_recomputing())
        return x * x

    loss = ad.checkpoint(function, x).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    assert calls == [False, True, True] and not ad.is_recomputing()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), 4 * x.detach().numpy())


def test_a_second_backward_raises_after_release() -> None:
    loss = ad.checkpoint(ad.exp, leaf(2)).sum()
    loss.backward()
    with pytest.raises(ad.GradientError, match="for a second time"):
        loss.backward()


def test_is_recomputing_is_true_in_nested_functions_and_false_in_hooks() -> None:
    seen: dict[str, list[bool]] = {"outer": [], "inner": [], "hook": []}

    def inner(x: ad.Tensor) -> ad.Tensor:
        seen["inner"].append(ad.is_recomputing())
        out = x * 2
        out.register_hook(lambda g: seen["hook"].append(ad.is_recomputing()))
        return out

    def outer(x: ad.Tensor) -> ad.Tensor:
        seen["outer"].append(ad.is_recomputing())
        out = ad.checkpoint(inner, x)
        seen["outer"].append(ad.is_recomputing())
        return out

    ad.checkpoint(outer, leaf(2)).sum().backward()
    assert seen == {
        "outer": [False, False, True, True],
        "inner": [False, True, True],
        "hook": [False],
    }


def test_without_recording_it_is_a_plain_call() -> None:
    calls = []
    with ad.no_grad():
        out = ad.checkpoint(lambda x: calls.append(1) or x * 2, leaf(2))
    assert not out.requires_grad and calls == [1]
    constant = ad.checkpoint(lambda x: x * 2, ad.ones(2))
    assert not constant.requires_grad


def test_autograd_grad_touches_no_grad_and_runs_only_what_leads_to_its_inputs() -> None:
    x, w, other = leaf(2), leaf(2), leaf(2)
    w.register_hook(lambda g: pytest.fail("w isn't asked for"))
    calls = []
    out = ad.checkpoint(lambda x: x * w, x) + ad.checkpoint(lambda: calls.append(1) or other * w)
    (g,) = ad.autograd.grad(out.sum(), x)
    np.testing.assert_array_equal(g.numpy(), w.detach().numpy())
    assert x.grad is None and w.grad is None and other.grad is None
    assert calls == [1], "a checkpoint that doesn't lead to x isn't recomputed"


@pytest.mark.parametrize("workers", [1, 4])
def test_outputs_that_don_t_lead_to_what_is_asked_for_get_nothing(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adjoint._engine.parallel.SMALL", 0)
    x, w = leaf(2), leaf(2)
    w.register_hook(lambda g: pytest.fail("w isn't asked for"))
    one, other = ad.checkpoint(lambda x: (x * 2, ad.sin(ad.exp(w))), x)
    (g,) = ad.autograd.grad((one + other).sum(), x, workers=workers)
    assert g is not None and g.tolist() == [2.0, 2.0]


def test_an_intermediate_in_front_of_a_checkpoint_has_its_gradient() -> None:
    x = leaf(3)
    h = x * 2
    out = ad.checkpoint(lambda h: h * h, h).sum()
    assert ad.gradients(out, of=[h], retain_graph=True)[h].numpy() == pytest.approx(
        2 * h.detach().numpy()
    )
    np.testing.assert_allclose(ad.autograd.grad(out, h)[0].numpy(), 2 * h.detach().numpy())


@pytest.mark.parametrize("workers", [1, 4])
def test_an_output_on_which_another_depends_has_its_whole_gradient(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adjoint._engine.parallel.SMALL", 0)
    monkeypatch.setattr("adjoint._engine.propagation.DefaultWorkers.count", workers)

    def function(x: ad.Tensor) -> tuple:
        one = x * 1
        h = one * 3
        return h, h * h * one / x.detach()

    x = ad.tensor(2.0, requires_grad=True)
    h, y = ad.checkpoint(function, x)
    assert ad.gradients(h + y, of=[h], retain_graph=True)[h].item() == 13
    assert ad.autograd.grad(y, h, retain_graph=True)[0].item() == 12
    (g,) = ad.autograd.grad(y, h, create_graph=True)
    assert g is not None
    assert ad.autograd.grad(g, x, retain_graph=True)[0].item() == 12  # type: ignore[union-attr]
    h.register_hook(lambda g: g * 0)
    assert ad.gradients(h + y, retain_graph=True)[x].item() == 18, "what doesn't go through h"


# Hooks


def test_hooks_and_callbacks_see_totals_once() -> None:
    x, w = leaf(2), leaf(2)
    totals: dict[str, list] = {"x": [], "w": [], "h": [], "out": [], "leaf": [], "post": []}
    x.register_hook(lambda g: totals["x"].append(g.numpy()))
    w.register_hook(lambda g: totals["w"].append(g.numpy()))
    w.register_post_accumulate_grad_hook(lambda t: totals["post"].append(t.grad.numpy()))
    h = x * 3
    h.register_hook(lambda g: totals["h"].append(g.numpy()))
    out = ad.checkpoint(lambda h: h * w + h * w, h)
    out.register_hook(lambda g: totals["out"].append(g.numpy()))
    loss = (out + out).sum() + (h * w).sum()
    loss.backward(on_leaf_grad=lambda t, g: totals["leaf"].append(t))
    values = {k: v[0] for k, v in totals.items() if k != "leaf"}
    assert all(len(v) == 1 for k, v in totals.items() if k != "leaf")
    assert len(totals["leaf"]) == 2
    np.testing.assert_allclose(values["out"], 2.0)
    np.testing.assert_allclose(values["h"], 5 * w.detach().numpy())
    np.testing.assert_allclose(values["x"], 15 * w.detach().numpy())
    np.testing.assert_allclose(values["w"], 5 * h.detach().numpy())
    np.testing.assert_allclose(values["post"], values["w"])


def test_a_hook_that_clips_sees_the_total() -> None:
    x = ad.tensor(1.0, requires_grad=True)
    x.register_hook(lambda g: ad.clip(g, -1, 1))
    (ad.checkpoint(lambda x: x * 0.8, x) + ad.checkpoint(lambda x: x * 0.8, x)).backward()
    assert x.grad is not None and x.grad.item() == 1


def test_hooks_that_the_function_registers_run_once() -> None:
    x, w = leaf(2), leaf(2)
    seen: list[str] = []

    def function(x: ad.Tensor) -> ad.Tensor:
        x.register_hook(lambda g: seen.append("x"))
        w.register_hook(lambda g: seen.append("w"))
        h = x * w
        h.register_hook(lambda g: seen.append("h"))
        return h * 2

    ad.checkpoint(function, x).sum().backward()
    assert sorted(seen) == ["h", "w", "x"]


def test_hooks_work_in_gradients_that_the_function_takes() -> None:
    w, x = (ad.tensor(value, requires_grad=True) for value in (2.0, 3.0))

    def function(x: ad.Tensor) -> ad.Tensor:
        with w.register_hook(lambda g: g * 10):
            (g,) = ad.autograd.grad(w * w, w, create_graph=True)
        return x * g

    ad.checkpoint(function, x).backward()
    assert x.grad is not None and x.grad.item() == 40
    assert w.node is not None and not w.node.extra.hooks  # type: ignore[union-attr]


def test_leaf_callbacks_come_while_the_pass_goes_on() -> None:
    events: list[str] = []
    w1, w2 = leaf(2), leaf(2)
    x = leaf(2)
    h = ad.checkpoint(lambda x: x * w1, x)
    h.register_hook(lambda g: events.append("h"))
    loss = ad.checkpoint(lambda h: h * w2, h).sum()
    loss.backward(on_leaf_grad=lambda t, g: events.append("w2" if t is w2 else "later"))
    assert events[:2] == ["w2", "h"]


def test_retain_grad_on_outputs() -> None:
    x = leaf(2)
    out = ad.checkpoint(lambda x: x * 2, x)
    out.retain_grad()
    (out * 3).sum().backward()
    assert out.grad is not None and out.grad.tolist() == [3.0, 3.0]


def test_retain_grad_inside_the_function() -> None:
    x = ad.tensor(2.0, requires_grad=True)
    h = x * 3

    def function(h: ad.Tensor) -> ad.Tensor:
        h.retain_grad()
        out = h * h
        out.retain_grad()
        return out

    out = ad.checkpoint(function, h)
    (out * 5).backward()
    assert h.grad is not None and h.grad.item() == 60
    assert out.grad is not None and out.grad.item() == 5


# Random numbers


@pytest.mark.parametrize(
    "draw",
    [
        lambda x, generator: F.dropout(x, 0.5),
        lambda x, generator: x * generator.normal(x.shape),
        lambda x, generator: x * ad.random.uniform(x.shape) * generator.uniform(x.shape),
        lambda x, generator: x * ad.random.gamma(2.0, shape=x.shape),
        lambda x, generator: ad.checkpoint(lambda x: F.dropout(x, 0.3), F.dropout(x, 0.3)),
        lambda x, generator: x * (ad.random.seed(5) or ad.random.uniform(x.shape)),
        lambda x, generator: x * generator.spawn(1)[0].uniform(x.shape),
    ],
    ids=["dropout", "generator", "both", "gamma", "nested", "seeds", "spawns"],
)
def test_random_numbers_are_replayed_and_the_streams_left_alone(draw: Callable) -> None:
    x = ad.tensor(np.ones(100), requires_grad=True)
    generator = ad.random.Generator(3)
    ad.random.seed(1)
    out = ad.checkpoint(draw, x, generator)
    ad.random.uniform((7,))
    before = ad.random.get_state().tolist(), generator.state.tolist()
    out.sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), out.detach().numpy())
    assert (ad.random.get_state().tolist(), generator.state.tolist()) == before
    ad.random.seed(1)
    generator.seed(3)
    draw(x, generator)
    ad.random.uniform((7,))
    assert (ad.random.get_state().tolist(), generator.state.tolist()) == before


def test_other_threads_draw_undisturbed_numbers_during_recomputation() -> None:
    x = leaf(2)
    drawn: list[np.ndarray] = []

    def elsewhere() -> None:
        drawn.append(ad.random.uniform((2,)).numpy())

    def function(x: ad.Tensor) -> ad.Tensor:
        out = x * ad.random.uniform((2,))
        if ad.is_recomputing():
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
        return out

    ad.random.seed(0)
    loss = ad.checkpoint(function, x).sum()
    loss.backward()
    ad.random.seed(0)
    ad.random.uniform((2,))
    np.testing.assert_array_equal(drawn[0], ad.random.uniform((2,)).numpy())


def test_draws_of_other_threads_in_between_don_t_matter() -> None:
    x = ad.tensor(np.ones(50), requires_grad=True)

    def function(x: ad.Tensor) -> ad.Tensor:
        h = F.dropout(x, 0.5)
        if not ad.is_recomputing():
            thread = threading.Thread(target=ad.random.uniform, args=((5,),))
            thread.start()
            thread.join()
        return F.dropout(h, 0.5)

    out = ad.checkpoint(function, x)
    out.sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), out.detach().numpy())


def test_running_statistics_move_once() -> None:
    x = leaf(8, 3, dtype="f4")
    mean, var = ad.zeros(3), ad.ones(3)
    F.batch_norm(x, mean, var, training=True)
    expected = mean.numpy()
    mean, var = ad.zeros(3), ad.ones(3)
    ad.checkpoint(lambda x: F.batch_norm(x, mean, var, training=True), x).sum().backward()
    np.testing.assert_array_equal(mean.numpy(), expected)


# What differs


def differing(first: Callable, again: Callable) -> Callable:
    return lambda *xs: (again if ad.is_recomputing() else first)(*xs)


@pytest.mark.parametrize(
    ("first", "again", "message"),
    [
        (lambda x, y: x * y, lambda x, y: x + y, "op 0 was multiply .* now it is add"),
        (
            lambda x, y: ad.exp(x).sum(),
            lambda x, y: ad.exp(x[:1]).sum(),
            r"op 0 was exp of shape \(2,\).* now it is slice of shape \(1,\)",
        ),
        (
            lambda x, y: ad.exp(x * 1),
            lambda x, y: ad.exp(ad.astype(x, ad.float32)),
            "multiply of shape .* and dtype float64, now it is cast of shape .* and dtype float32",
        ),
        (lambda x, y: x * y, lambda x, y: x * x, "the inputs of op 0, multiply .* are others now"),
        (lambda x, y: ad.sin(x), lambda x, y: ad.cos(ad.sin(x)), "1 ops .* the first more .* cos"),
        (lambda x, y: ad.cos(ad.sin(x)), lambda x, y: ad.sin(x), "2 ops .* now 1 "),
        (lambda x, y: ad.sin(x), lambda x, y: x.detach(), "1 ops .* now 0 "),
        (
            lambda x, y: (ad.sin(x), ad.cos(x)),
            lambda x, y: (ad.sin(x), ad.cos(x))[::-1],
            r"results of ops \[0, 1\], now 2 and \[1, 0\]",
        ),
    ],
)
def test_a_different_recomputation_is_an_error(
    first: Callable, again: Callable, message: str
) -> None:
    x, y = leaf(2), leaf(2)
    out = ad.checkpoint(differing(first, again), x, y)
    out = out[0] if isinstance(out, tuple) else out
    with pytest.raises(ad.GradientError, match=message):
        out.sum().backward()
    assert x.grad is None and y.grad is None and not ad.is_recomputing()


def test_a_closed_over_parameter_that_changed_is_an_error() -> None:
    x, w = leaf(2), leaf(2)
    loss = ad.checkpoint(lambda x: x * w, x).sum()
    with ad.no_grad():
        w.add_(x, alpha=-0.1)
    with pytest.raises(ad.GradientError, match=r"of shape \(2,\) .* closes over was changed"):
        loss.backward()


@pytest.mark.parametrize(("dtype", "by"), [("f2", 1.1), ("f4", 1.01), ("f8", 1 + 1e-9)])
def test_other_values_from_the_same_ops_are_an_error(dtype: str, by: float) -> None:
    x, constant = leaf(50, dtype=dtype), ad.tensor(np.linspace(1, 2, 50).astype(dtype))
    array, factor = np.linspace(1, 2, 50).astype(dtype), [1.0]

    def change() -> None:
        constant.__imul__(by)
        np.multiply(array, by, out=array)
        factor[0] *= by

    for function in (lambda x: x * constant, lambda x: x * array, lambda x: x * factor[0]):
        ad.checkpoint(function, x).sum().backward()
        loss = ad.checkpoint(function, x).sum()
        change()
        with pytest.raises(ad.GradientError, match="same ops gave other values in result 0"):
            loss.backward()


def test_the_same_values_in_other_places_are_an_error() -> None:
    x = leaf(40)
    orders = iter([np.arange(40), np.arange(40)[::-1].copy()])
    loss = ad.checkpoint(lambda x: x[next(orders)], x).sum()
    with pytest.raises(ad.GradientError, match="same ops gave other values"):
        loss.backward()


def test_results_that_are_nan_or_infinite_are_the_same_again() -> None:
    x = ad.tensor([0.0, -1.0, 1.0], requires_grad=True)
    ad.checkpoint(lambda x: ad.log(x), x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [math.inf, -1.0, 1.0]


def test_an_argument_that_changed_is_kept_as_it_was() -> None:
    x, w = leaf(2), leaf(2)
    then = w.detach().numpy().copy()
    loss = ad.checkpoint(lambda x, w: x * w, x, w).sum()
    with ad.no_grad():
        w.add_(x, alpha=-0.1)
    loss.backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), then)


def test_an_exception_in_the_function_restores_everything() -> None:
    x = leaf(2)

    def raises(x: ad.Tensor) -> ad.Tensor:
        ad.random.uniform((2,))
        if ad.is_recomputing() or x.size == 1:
            raise KeyError("mine")
        return x * 2

    state = mode.word, mode.draws, mode.recomputing
    with pytest.raises(KeyError, match="mine"):
        ad.checkpoint(raises, x[:1])
    assert (mode.word, mode.draws, mode.recomputing) == state
    loss = ad.checkpoint(lambda x: ad.checkpoint(raises, x), x).sum()
    with pytest.raises(KeyError, match="mine"):
        loss.backward()
    assert (mode.word, mode.draws, mode.recomputing) == state
    ad.checkpoint(lambda x: x * 2, x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("workers", [1, 4])
def test_leaves_that_were_complete_keep_their_gradient(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adjoint._engine.parallel.SMALL", 0)
    early, late = leaf(2), leaf(2)

    def raises(x: ad.Tensor) -> ad.Tensor:
        if ad.is_recomputing():
            raise KeyError("mine")
        return x * 2

    loss = (ad.checkpoint(raises, late) * early).sum()
    with pytest.raises(KeyError, match="mine"):
        loss.backward(workers=workers)
    assert late.grad is None
    assert early.grad is not None
    np.testing.assert_array_equal(early.grad.numpy(), 2 * late.detach().numpy())


def test_an_anomaly_names_the_line_in_the_function() -> None:
    x = ad.tensor([0.0, 1.0], requires_grad=True)
    with ad.detect_anomaly():
        loss = ad.checkpoint(lambda x: ad.sqrt(x), x).sum()
        with pytest.raises(ad.AnomalyError, match=r"sqrt[\s\S]*test_checkpoint.py"):
            loss.backward()


# checkpoint_sequential


@pytest.mark.parametrize(
    ("n", "segments", "lengths"),
    [(4, 2, [2, 2]), (5, 2, [3, 2]), (7, 3, [3, 3, 1]), (3, 1, [3]), (3, 5, [1, 1, 1])],
)
def test_sequences_are_split_into_parts_of_equal_length(
    n: int, segments: int, lengths: list[int]
) -> None:
    x = leaf(2)
    runs: list[list[int]] = []

    def layer(k: int) -> Callable:
        def run(x: ad.Tensor) -> ad.Tensor:
            if ad.is_recomputing():
                runs[-1].append(k)
            return ad.sin(x)

        return run

    h = x
    for _ in range(n):
        h = ad.sin(h)
    (expected,) = ad.autograd.grad(h.sum(), x)
    out = ad.checkpoint_sequential([layer(k) for k in range(n)], segments, x)
    node, parts = out.node, []
    while node is not None and node.plan is not None:
        parts.append(node)
        node = node.inputs[0]
    assert len(parts) == 2 * len(lengths), "a checkpoint and its output for each part"
    runs.append([])
    (g,) = ad.autograd.grad(out.sum(), x)
    np.testing.assert_array_equal(g.numpy(), expected.numpy())
    starts = [sum(lengths[:k]) for k in range(len(lengths))]
    in_order = [list(range(s, s + m)) for s, m in zip(starts, lengths, strict=True)]
    assert runs[0] == [k for part in reversed(in_order) for k in part]


def test_an_empty_sequence_returns_its_input() -> None:
    x = leaf(2)
    assert ad.checkpoint_sequential([], 3, x) is x


@pytest.mark.parametrize("segments", [0, -1, 1.5, True])
def test_segments_is_a_positive_integer(segments: Any) -> None:
    with pytest.raises(ad.ArgumentError, match="segments is a positive integer"):
        ad.checkpoint_sequential([ad.sin], segments, leaf(2))


def test_results_that_can_t_be_found_are_an_error() -> None:
    class Result:
        def __init__(self, x: ad.Tensor) -> None:
            self.x = x * 2

    with pytest.raises(ad.DTypeError, match="a Result, which isn't looked into"):
        ad.checkpoint(Result, leaf(2))


def test_keywords_are_the_function_s() -> None:
    x = leaf(2)
    out = ad.checkpoint(lambda x, function: function(x), x, function=ad.sin)
    np.testing.assert_array_equal(out.detach().numpy(), np.sin(x.detach().numpy()))


@pytest.mark.parametrize("layers", [ad.sin, [ad.sin, 3]])
def test_layers_is_a_sequence_of_functions(layers: Any) -> None:
    with pytest.raises(ad.DTypeError, match="layers is a sequence of functions"):
        ad.checkpoint_sequential(layers, 1, leaf(2))


def test_a_function_is_needed() -> None:
    with pytest.raises(ad.DTypeError, match="a function is needed, got Tensor"):
        ad.checkpoint(leaf(2))  # type: ignore[arg-type]
