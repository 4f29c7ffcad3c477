"""Derivative rules as one kernel, against the same rules op by op."""

import itertools
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint._engine import chains, lazy_gradients
from adjoint._engine.lazy_gradients import from_rule, from_sum
from tests.kernels.cases import LARGE, check_same
from tests.support.arrays import normal
from tests.support.helpers import as_tuple, leaf, needs_kernels, unbroadcast, values
from tests.support.samples import OPS, TABLE, Sample

pytestmark = needs_kernels

# Ops whose rules are expressions without being one kernel, and why.
WITHOUT_FUSED_RULES = {
    "cast": "to a dtype that only the call knows",
    "cholesky": "linear algebra",
    "cofactors": "linear algebra",
    "conv": "a contraction",
    "conv_input": "a contraction",
    "conv_weight": "a contraction",
    "inv": "a contraction",
    "linear": "a contraction",
    "matmul": "a contraction",
    "matrix_transpose": "moves elements",
    "mirrored": "moves elements",
    "place": "moves elements",
    "reshape": "moves elements",
    "slice": "moves elements",
    "scatter_along_axis": "moves elements",
    "take_along_axis": "moves elements",
    "topk": "moves elements",
    "triangle": "moves elements",
    "window_spread": "moves elements",
    "window_sum": "moves elements",
    "spread": "a sum alone",
    "sum": "moves elements",
    "symmetrized": "is its own rule",
}


class Step:
    """An op that was run on a sample's inputs, some of which need a gradient."""

    def __init__(self, sample: Sample, needs: tuple[bool, ...], dtype: str) -> None:
        arrays = [np.asarray(a) for a in sample.inputs()]
        arrays = [a.astype(dtype) if a.dtype.kind == "f" else a for a in arrays]
        self.inputs = [
            ad.tensor(a, requires_grad=need) for a, need in zip(arrays, needs, strict=True)
        ]
        self.out = as_tuple(sample.call(*self.inputs))[0]
        self.node = self.out.node
        self.plan = self.node.plan
        self.saved = self.plan.unpacked(self.node.saved)
        self.g = normal(*self.out.shape, dtype=dtype)

    @property
    def compiled(self) -> Any:
        return self.plan.compiled[np.ndarray][self.g.dtype]

    def fused(self) -> Any:
        out = self.compiled.fused(self.g, *self.saved)
        return out if out is NotImplemented else as_tuple(out)

    def line_by_line(self) -> tuple:
        with np.errstate(all="ignore"):
            return as_tuple(self.compiled(self.g, self.node.saved))

    def declared(self) -> list[np.ndarray]:
        """By the rules as they are written, on tensors, as for gradients of gradients."""
        wanted = [x for x in self.inputs if x.requires_grad]
        grads = ad.autograd.grad(self.out, wanted, ad.asarray(self.g), create_graph=True)
        return [g.detach().numpy() for g in grads if g is not None]


def needs_of(sample: Sample) -> list[tuple[bool, ...]]:
    """Which inputs may need a gradient: all combinations."""
    able = [
        np.asarray(a).dtype.kind == "f" and OPS[sample.op].has_rule(k)
        for k, a in enumerate(sample.inputs())
    ]
    return [
        c
        for c in itertools.product((True, False), repeat=len(able))
        if any(c) and all(can or not need for need, can in zip(c, able, strict=True))
    ]


def steps(name: str) -> Iterator[Step]:
    """Every combination on one sample, and all together on the others; float32 once."""
    samples = [s for s in TABLE if s.op == name and min(np.size(a) for a in s.inputs()) > 0]
    samples = sorted(samples, key=lambda s: -max(np.size(a) for a in s.inputs()))
    for k, sample in enumerate(samples[:3]):
        for needs in needs_of(sample)[: None if k == 0 else 1]:
            yield Step(sample, needs, "f8")
    if samples:
        yield Step(samples[0], needs_of(samples[0])[0], "f4")


def compiled_rules() -> list[str]:
    """Ops whose rules are expressions, as far as the samples' calls make them so."""
    out = []
    for name, op in OPS.items():
        sample = next((s for s in TABLE if s.op == name), None)
        if (
            op.differentiable
            and op.vjp is None
            and len(op.outputs) == 1
            and sample
            and not op.variadic
        ):
            combinations = needs_of(sample)
            if combinations and op.plan(combinations[0]).compiled[np.ndarray] is not None:
                out.append(name)
    return out


COMPILED = compiled_rules()


def check_close(found: Sequence, expected: Sequence, ulp: float) -> None:
    for out, right in zip(found, expected, strict=True):
        unit = np.finfo(out.dtype).eps * max(1, float(np.max(np.abs(right))))
        np.testing.assert_allclose(out, np.broadcast_to(right, out.shape), rtol=0, atol=ulp * unit)


@pytest.mark.parametrize("name", COMPILED)
def test_rules_as_one_kernel(name: str) -> None:
    for step in steps(name):
        if step.compiled.fused is None:  # the device has a function of its own for the whole rule
            check_close(step.line_by_line(), step.declared(), 8)
            continue
        fused = step.fused()
        if fused is NotImplemented:
            passed_on = all(expression.op is None for expression in step.plan.expressions())
            exact = name == "remainder" and step.plan.needs[1]  # has no kernel itself
            assert name in WITHOUT_FUSED_RULES or passed_on or exact
            continue
        assert name not in WITHOUT_FUSED_RULES
        check_close(fused, step.line_by_line(), 4)
        wanted = [x for x in step.inputs if x.requires_grad]
        parts = [unbroadcast(g, x.shape) for g, x in zip(fused, wanted, strict=True)]
        check_close(parts, step.declared(), 8)


@pytest.mark.parametrize("name", [n for n in COMPILED if OPS[n].kind == "elementwise"])
def test_gradients_that_wait_and_are_added_up(name: str) -> None:
    """The same bits as of the rule and an addition, one after the other."""
    samples = [s for s in TABLE if s.op == name and len({np.shape(a) for a in s.inputs()}) == 1]
    if not samples:
        assert name == "clip"
        return
    sample = max(samples, key=lambda s: np.size(s.inputs()[0]))
    step = Step(sample, needs_of(sample)[0], "f8")
    fused, given = step.compiled.fused, (step.g, *step.saved)
    former = normal(*step.g.shape, dtype="f8", seed=1)
    parts = step.fused()
    for k in fused.computed:
        waiting = [from_rule(fused, k, given) for _ in range(2)]
        if waiting[0] is None or waiting[1] is None:
            assert name in ("cast", "remainder")
            continue
        total = from_sum(waiting[1], former)
        assert total is not None
        check_same([waiting[0].materialize(), total.materialize()], [parts[k], parts[k] + former])


def together(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
    a = x * y
    return a * ad.exp(a) + a / (2 + ad.cos(a)) + x * a


def longer_than_a_kernel(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
    out = x
    for _ in range(20):
        out = ad.sin(out * y) + x
    return out


def branching(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
    out = x
    for _ in range(5):
        out = out * x + out * y
    return out


def with_attributes(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
    f = ad.nn.functional
    out = f.leaky_relu(x * y, negative_slope=0.3) * f.leaky_relu(x, negative_slope=0.7)
    return f.elu(out, alpha=1.7)


GRAPHS: dict[str, Callable[[ad.Tensor, ad.Tensor], ad.Tensor]] = {
    "chain": lambda x, y: ad.tanh(ad.exp(ad.sin(x) * 0.5) * y),
    "one tensor twice": lambda x, y: ad.hypot(x, x) * x + y,
    "residual": lambda x, y: x + ad.tanh(x * y) + x * x,
    "broadcasting": lambda x, y: ad.exp(x * y[:1]) + x * ad.sum(y, axis=0) - x[:, :1] * y,
    "choices": lambda x, y: ad.maximum(x * y, ad.where(x > 0, y, x * x)) * ad.clip(x, -1.0, y),
    "through a matrix": lambda x, y: ad.sigmoid(ad.tanh(x @ y.mT) @ x) * x,
    "through a row": lambda x, y: ad.softmax(x * y, axis=1) * ad.exp(x) / ad.sum(y * y),
    "turned": lambda x, y: ad.exp(x.mT * y.mT) + ad.sin(x).mT,
    "without a slope": lambda x, y: ad.floor(3 * x) * y + ad.sign(x * y),
    "together": together,
    "longer than a kernel": longer_than_a_kernel,
    "branching": branching,
    "with attributes": with_attributes,
}


def gradients_of(name: str, dtype: str) -> list[np.ndarray]:
    x, y = (leaf(normal(260, 270, dtype=dtype, seed=k), dtype) for k in range(2))
    GRAPHS[name](x, y).sum().backward()
    return [values(x.grad), values(y.grad)]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", GRAPHS)
def test_rules_together_give_what_they_give_one_by_one(
    name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, together = (gradients_of(name, dtype) for _ in range(2))
    monkeypatch.setattr(chains, "try_postpone", lambda *_: False)
    separate = gradients_of(name, dtype)
    check_same(first, separate)  # of steps that are met for the first time
    check_same(together, separate)


def test_gradients_that_are_complete_when_a_rule_fails_are_arrays() -> None:
    x, w = leaf(normal(LARGE)), leaf(normal(LARGE))
    early = ad.exp(x)

    def fail(g: ad.Tensor) -> None:
        raise RuntimeError("a hook fails")

    early.register_hook(fail)
    with pytest.raises(RuntimeError, match="a hook fails"):
        (ad.sin(w * 3) * early).sum().backward()
    expected = 3 * np.cos(3 * values(w)) * np.exp(values(x))
    np.testing.assert_allclose(values(w.grad), expected, rtol=1e-13, atol=1e-13)


def test_gradients_of_a_repeated_row_are_added_up() -> None:
    x, y = leaf(normal(1, LARGE)), leaf(normal(3, LARGE))
    row = x * 1.5
    ((row * y).sum() + (row * row).sum()).backward()
    expected = 1.5 * values(y).sum(0) + 2 * 1.5 * 1.5 * values(x)[0]
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy()[0], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_rules_with_a_sum_are_one_kernel_of_rows(name: str) -> None:
    step = next(steps(name))
    step.fused()
    kernels = [launcher.kernel for launcher in step.compiled.fused.launchers.values()]
    assert kernels and all(kernel.reduces and len(kernel.outputs) == 1 for kernel in kernels)


@pytest.mark.parametrize(("name", "needs"), [("add", (True, True)), ("subtract", (True, False))])
def test_a_gradient_that_is_passed_on_isnt_copied(name: str, needs: tuple[bool, ...]) -> None:
    g = np.ones(LARGE)
    assert as_tuple(OPS[name].plan(needs).compiled[np.ndarray][g.dtype](g, None))[0] is g


@pytest.mark.parametrize("name", ["sign", "floor", "ceil", "trunc", "round"])
def test_gradients_that_are_zero(name: str) -> None:
    x = leaf(normal(LARGE))
    getattr(ad, name)(x).sum().backward()
    assert x.grad is not None and not x.grad.numpy().any()


def test_a_backward_pass_of_elementwise_rules_is_one_launch(chunks: list[int]) -> None:
    x = ad.tensor(np.linspace(-3, 3, 40000, dtype="f"), requires_grad=True)
    for _ in range(3):  # steps that are met for the first time are run one by one
        x.grad, loss = None, (x * ad.sigmoid(x) + ad.tanh(x)).sum()
        chunks.clear()
        loss.backward()
    assert len(chunks) == 1


def test_chains_that_are_met_once_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy_gradients, "launchers", {})
    functions = (ad.sin, ad.cos, ad.tanh, ad.exp)
    x = ad.tensor(np.linspace(-1, 1, 20000, dtype="f"), requires_grad=True)
    for chain in itertools.permutations(functions):
        y = x
        for function in chain:
            y = function(y)
        y.sum().backward()
    made = [launcher for launcher in lazy_gradients.launchers.values() if launcher is not None]
    assert len(made) <= len(functions) + 1  # one for each rule, and a sum


def test_waiting_gradients_keep_little_in_memory() -> None:
    def peak(count: int) -> int:
        h = ad.tensor(np.ones(1 << 16, "f"))
        leaves = [ad.tensor(np.ones(1 << 16, "f"), requires_grad=True) for _ in range(count)]
        for w in leaves:
            h = ad.tanh(h * w)
        loss = h.sum()
        del h
        tracemalloc.start()
        loss.backward()
        bytes_at_most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return bytes_at_most // (4 << 16)

    assert peak(40) - peak(20) <= 25  # a gradient for each leaf; arrays that were saved go
