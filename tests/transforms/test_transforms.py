"""Functional transforms: each alone, every pair, and what they promise."""

import functools
import gc
import warnings
import weakref
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint._core.node import Node
from adjoint._transforms import scopes
from tests.support.helpers import close, counting, leaf, values
from tests.support.transform_cases import (
    ADJOINT,
    CASES,
    SCALES,
    TRANSFORMS,
    Layer,
    differences,
    direction,
    pytorch,
    transformed,
    weights,
)

OUTER = [name for name in TRANSFORMS if name != "itself"]
PAIRS = [
    (case, inner, outer)
    for case in CASES
    for inner in TRANSFORMS
    for outer in OUTER
    if not (CASES[case].branches and "vmap" in (inner, outer))
]


@functools.cache
def result(case: str, inner: str, outer: str) -> np.ndarray:
    return transformed(ADJOINT, CASES[case], inner, outer)(CASES[case].x)


@functools.cache
def inner_jacobian(case: str, inner: str) -> tuple[np.ndarray, np.ndarray]:
    """What a transformed function gives, and its derivatives by differences."""
    f = transformed(ADJOINT, CASES[case], inner)
    return f(CASES[case].x), differences(f, CASES[case].x)


@functools.cache
def inner_hessian(case: str, inner: str) -> np.ndarray:
    """Differences of a gradient, which is itself compared with differences."""
    return differences(transformed(ADJOINT, CASES[case], inner, "grad"), CASES[case].x)


def expected(case: str, inner: str, outer: str) -> np.ndarray:
    x = CASES[case].x
    if outer == "vmap":
        f = transformed(ADJOINT, CASES[case], inner)
        return np.concatenate([f(x * scale) for scale in SCALES])
    if outer in ("hessian", "hvp"):
        second = inner_hessian(case, inner)
        return (second if outer == "hessian" else second @ direction(x.shape).reshape(-1)).ravel()
    out, first = inner_jacobian(case, inner)
    g = weights(out.size) @ first
    return {
        "grad": g,
        "value_and_grad": np.append(weights(out.size) @ out, g),
        "vjp": np.append(g, out),
        "jvp": np.append(out, first @ direction(x.shape).reshape(-1)),
        "jacobian": first.ravel(),
        "jacobian_forward": first.ravel(),
    }[outer]


@pytest.mark.parametrize(("case", "inner", "outer"), PAIRS)
def test_transforms_agree_with_finite_differences(case: str, inner: str, outer: str) -> None:
    out = result(case, inner, outer)
    np.testing.assert_allclose(out, expected(case, inner, outer), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("case", CASES)
def test_transforms_agree_with_pytorch(case: str) -> None:
    torch_lib, x = pytorch(), CASES[case].x
    pairs = [(inner, outer) for name, inner, outer in PAIRS if name == case]
    assert len(pairs) >= len(OUTER) * 8
    for inner, outer in pairs:
        with warnings.catch_warnings():  # PyTorch warns of itself: torch.jit is deprecated
            warnings.simplefilter("ignore", DeprecationWarning)
            theirs = transformed(torch_lib, CASES[case], inner, outer)(x)
        ours, message = result(case, inner, outer), f"{outer} of {inner}"
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9, err_msg=message)


# Variables of their own.


def d(f):
    """The derivative by grad."""
    return ad.grad(f)


def forward(f):
    """The derivative by jvp."""
    return lambda x: ad.jvp(f, (x,), (1.0,))[1]


@pytest.mark.parametrize("inner", [d, forward])
@pytest.mark.parametrize("outer", [d, forward])
@pytest.mark.parametrize(
    ("f", "at_three"),
    [
        (lambda x, inner: x * inner(lambda y: x + y)(1.0), 1.0),
        (lambda x, inner: x * inner(lambda y: x * y)(2.0), 6.0),
        (lambda x, inner: x * inner(lambda y: x * y)(x), 6.0),
        (lambda x, inner: inner(lambda y: x * y * y)(x), 12.0),
        (lambda x, inner: x * inner(lambda y: inner(lambda z: x * y * z)(y))(x), 6.0),
        (lambda x, inner: inner(lambda y: x)(x), 0.0),
        (lambda x, inner: inner(lambda y: y)(x), 0.0),
    ],
)
def test_perturbations_are_not_confused(f, at_three, outer, inner) -> None:
    assert outer(lambda x: f(x, inner))(3.0).item() == at_three


@pytest.mark.parametrize("order", range(1, 7))
@pytest.mark.parametrize("kind", [d, forward])
def test_every_order_of_a_power(order: int, kind) -> None:
    f, factor = (lambda x: x**5), 1.0
    for k in range(order):
        f, factor = kind(f), factor * (5 - k)
    assert f(2.0).item() == factor * 2.0 ** max(5 - order, 0)


def test_modes_mix_at_depth_four() -> None:
    f = d(forward(d(forward(lambda x: ad.sin(x) * x))))
    x = 0.7
    close(f(np.float64(x)), x * np.sin(x) - 4 * np.cos(x), 1e-12)


def test_hessian_of_a_function_that_calls_grad() -> None:
    def f(x):
        return (x * ad.grad(lambda y: (y**3 * x).sum())(x)).sum()  # 3 x^4

    close(ad.hessian(f)(np.array([1.0, 2.0])), np.diag([36.0, 144.0]))


def test_a_function_may_assign_into_its_arguments() -> None:
    def f(x):
        x[0] = x[1] * 2
        x += 1
        return (x * x).sum()

    x = ad.asarray([1.0, 3.0])
    for given in (x, leaf([1.0, 3.0], np.float32)):
        assert values(ad.grad(f)(given)).tolist() == [0.0, 36.0]
        assert values(given).tolist() == [1.0, 3.0]


def test_assigning_to_what_vjp_returned_leaves_the_pullback_alone() -> None:
    w = leaf(2.0)
    out, pullback = ad.vjp(lambda x: x * x * w, np.array([1.0, 2.0]))
    out[0] = 100.0
    close(pullback(np.ones(2))[0], [4.0, 8.0])


def test_assigning_to_what_the_function_kept_leaves_the_pullback_alone() -> None:
    kept: list = []

    def f(x):
        kept.append(x * x)
        return kept[0]

    _, pullback = ad.vjp(f, np.array([1.0, 2.0]))
    kept[0][0] = 100.0
    close(pullback(np.ones(2))[0], [2.0, 4.0])


def test_results_are_tensors_of_their_own() -> None:
    w = leaf([2.0, 3.0])
    first, second = ad.grad(lambda x, y: ((x + y) * w).sum(), argnums=(0, 1))(w, w)
    first += 1
    close(second, [2.0, 3.0])
    given = w * 1
    (same,) = ad.vjp(lambda x: x, np.ones(2))[1](given)
    same[0] = 100.0
    close(given, [2.0, 3.0])


def test_a_tensor_given_twice_is_two_variables() -> None:
    x = ad.asarray(3.0)
    assert ad.grad(lambda x, y: x * y * y, argnums=(0, 1))(x, x) == (9.0, 18.0)


# What is left alone.


def seen_hooks(seen: list) -> tuple[ad.Tensor, ad.Tensor]:
    """A leaf and a result, both with hooks."""
    x = leaf([1.0, 2.0])
    y = x * 3
    y.retain_grad()
    for tensor in (x, y):
        tensor.register_hook(lambda g: seen.append(g))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t))
    return x, y


def some_transforms(f, x):
    """The results of each transform of a function of one tensor that returns one number."""
    ones = ad.ones_like(x)
    return {
        "grad": lambda: ad.grad(f)(x),
        "value_and_grad": lambda: ad.value_and_grad(f)(x)[1],
        "vjp": lambda: ad.vjp(f, x)[1](ad.asarray(1.0, dtype=x.dtype))[0],
        "jvp": lambda: ad.jvp(f, (x,), (ones,))[1],
        "jacobian": lambda: ad.jacobian(f)(x),
        "forward": lambda: ad.jacobian(f, mode="forward")(x),
        "hessian": lambda: ad.hessian(f)(x),
        "hvp": lambda: ad.hvp(f, (x,), (ones,))[0],
    }


NAMES = sorted(some_transforms(None, ad.ones(2)))


@pytest.mark.parametrize("name", NAMES)
def test_hooks_do_not_run_and_no_grad_is_touched(name: str) -> None:
    seen: list = []
    x, y = seen_hooks(seen)

    def f(z):
        inside = z * y
        inside.retain_grad()
        inside.register_hook(lambda g: seen.append(g))
        return (inside * inside * x).sum()

    some_transforms(f, x)[name]()
    some_transforms(f, ad.asarray(values(x)))[name]()
    assert not seen and x.grad is None and y.grad is None


@pytest.mark.parametrize("name", NAMES)
def test_no_grad_gives_results_without_a_graph(name: str) -> None:
    w, x = leaf([2.0, 3.0]), leaf([1.0, 2.0])

    def f(z):
        assert ad.is_grad_enabled()
        return (z**3 * w * x).sum()

    with_graph = some_transforms(f, x)[name]()
    with ad.no_grad():
        out = some_transforms(f, x)[name]()
        assert not ad.is_grad_enabled()
    assert with_graph.requires_grad and not out.requires_grad
    close(out, values(with_graph))


@pytest.mark.parametrize("of", ["argument", "closed over"])
@pytest.mark.parametrize("name", NAMES)
def test_tensors_that_require_grad_keep_the_graph(name: str, of: str) -> None:
    w, x = leaf([2.0, 3.0]), leaf([1.0, 2.0])

    def f(z):
        return (ad.sin(z) * z * z * w).sum()

    def total(w_values, x_values):
        nonlocal w
        w = ad.asarray(w_values)
        return values(some_transforms(f, ad.asarray(x_values))[name]().sum())[None]

    some_transforms(f, x)[name]().sum().backward()
    first, second = w, x
    if of == "argument":
        close(second.grad, differences(lambda v: total(values(first), v), values(second))[0], 1e-6)
    else:
        close(first.grad, differences(lambda v: total(v, values(second)), values(first))[0], 1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_without_anything_outside_there_is_no_graph(name: str) -> None:
    x, w = ad.asarray([1.0, 2.0]), leaf([5.0, 6.0], np.float32)
    assert not some_transforms(lambda z: (z**3).sum(), x)[name]().requires_grad
    # The result depends on w, its derivatives don't.
    assert not some_transforms(lambda z: (z**3 + w).sum(), x)[name]().requires_grad


def test_variables_of_transforms_that_are_over_are_nothing_outside() -> None:
    inner = ad.grad(lambda x: ad.grad(lambda y: y**3 * x)(2.0) * x)
    assert inner(3.0) == 72.0 and not inner(3.0).requires_grad
    _, pullback = ad.vjp(lambda x: ad.grad(lambda y: y**3 * x)(2.0) * x, 3.0)
    assert not pullback(1.0)[0].requires_grad


def test_a_pullback_serves_transforms_that_began_after_it() -> None:
    _, pullback = ad.vjp(lambda x: x**3, 2.0)
    assert ad.grad(lambda z: pullback(z * z)[0])(3.0) == 72.0
    assert ad.grad(lambda z: ad.checkpoint(lambda z: pullback(z * z)[0], z))(3.0) == 72.0
    assert ad.jvp(lambda z: pullback(z * z)[0], (3.0,), (1.0,))[1] == 72.0


def test_a_pullback_in_a_loop_does_the_same_work_each_time(monkeypatch) -> None:
    looks = 0
    inputs: Any = Node.inputs

    def counted(node):
        nonlocal looks
        looks += 1
        return inputs.fget(node)

    def work(turns: int) -> int:
        nonlocal looks
        w = leaf([1.0, 1.0])
        _, pullback = ad.vjp(lambda x: ad.sin(x) * w, np.ones(2))
        looks, s = 0, w * 1
        for _ in range(turns):
            s = s + 0.01 * pullback(s)[0]
        assert s.requires_grad
        return looks

    monkeypatch.setattr(Node, "inputs", property(counted))
    assert work(30) - work(20) == work(20) - work(10) > 0


def test_a_pullback_in_a_loop_keeps_what_leads_outside_only() -> None:
    w = leaf([2.0, 3.0])
    _, pullback = ad.vjp(lambda x: (x * w, x * x), np.array([1.0, 2.0]))
    once, twice = pullback((np.ones(2), np.ones(2))), pullback((w, w * w))
    (once[0] + twice[0]).sum().backward()
    close(once[0], [4.0, 7.0])
    close(twice[0], [2 * 2.0 + 2 * 4.0, 3 * 3.0 + 4 * 9.0])
    close(w.grad, [1 + 4.0 + 8.0, 1 + 6.0 + 24.0])  # of w + 2x + w^2 + 2x w^2
    _, pullback = ad.vjp(lambda x: (x * x, w), np.array([1.0, 2.0]))
    assert not pullback((np.ones(2), np.ones(2)))[0].requires_grad


def test_leaves_that_the_function_made_for_itself_are_nothing_outside() -> None:
    kept: list = []

    def f(y):
        z = y.detach().requires_grad_()
        kept[1:] = [z] * len(kept)
        (g,) = ad.autograd.grad((z**3).sum(), z, create_graph=True)
        return (g * y).sum()

    x = np.array([1.0, 2.0])
    g, total = ad.grad(f)(x), ad.value_and_grad(f)(x)[0]
    close(g, 3 * x * x)
    assert not g.requires_grad and not total.requires_grad
    assert not ad.vjp(f, x)[1](1.0)[0].requires_grad
    kept.append(None)  # now somebody has the leaf, and may want its gradient
    g = ad.grad(f)(x)
    close(ad.autograd.grad(g.sum(), kept[1])[0], 6 * x)


def test_values_keep_the_graph_that_leads_outside() -> None:
    w = leaf([5.0, 6.0])
    x = ad.asarray([1.0, 2.0], dtype=ad.float64)
    value, g = ad.value_and_grad(lambda z: (z * z + w).sum())(x)
    assert value.requires_grad and not g.requires_grad
    value.backward()
    close(w.grad, [1.0, 1.0])
    assert not ad.vjp(lambda z: z * z, x)[0].requires_grad
    assert ad.vjp(lambda z: w, x)[0].requires_grad


def test_a_pullback_is_differentiable_in_its_gradient() -> None:
    _, pullback = ad.vjp(lambda x: x**3, np.array([1.0, 2.0]))
    g = leaf([1.0, 1.0])
    (pullback(g)[0] * ad.asarray([1.0, 10.0], dtype=ad.float64)).sum().backward()
    close(g.grad, [3.0, 120.0])
    with ad.no_grad():
        assert not pullback(g)[0].requires_grad


def test_a_pushforward_is_differentiable_in_its_tangent() -> None:
    t = leaf([1.0, 1.0])
    ad.jvp(lambda x: x**3, (np.array([1.0, 2.0]),), (t,))[1].sum().backward()
    close(t.grad, [3.0, 12.0])


def test_what_a_pullback_was_made_from_under_no_grad_stays_constant() -> None:
    x, g = leaf([1.0, 2.0]), leaf([1.0, 1.0])
    with ad.no_grad():
        out, pullback = ad.vjp(lambda x: x**3, x)
    pullback(g)[0].sum().backward()
    close(g.grad, [3.0, 12.0])
    assert x.grad is None and not out.requires_grad


def test_a_jvp_asks_for_no_second_derivatives() -> None:
    def refused(g):
        raise AssertionError("the derivative of a derivative was computed")

    slope = ad.op.other("slope", x=lambda g: refused(g), kernels={"cpu": np.cos})
    sine = ad.op.other("sine", x=lambda g, x: g * slope(x), kernels={"cpu": np.sin})
    close(ad.jvp(sine, (np.array([0.5]),), (np.array([2.0]),))[1], [2 * np.cos(0.5)])
    with pytest.raises(AssertionError, match="derivative of a derivative"):
        ad.hvp(lambda x: sine(x).sum(), (np.array([0.5]),), (np.array([2.0]),))


def test_the_pullback_can_be_called_many_times() -> None:
    _, pullback = ad.vjp(lambda x: ad.exp(x) * x, np.array([1.0, 2.0]))
    first, second = pullback(np.array([1.0, 0.0]))[0], pullback(np.array([0.0, 1.0]))[0]
    both = pullback(np.array([1.0, 1.0]))[0]
    close(first + second, values(both))
    close(both, values(pullback(np.array([1.0, 1.0]))[0]))


def test_a_numpy_array_that_changes_later_changes_nothing() -> None:
    x = np.array([1.0, 2.0])
    _, pullback = ad.vjp(lambda x: x * x, x)
    x[:] = 100.0
    close(pullback(np.ones(2))[0], [2.0, 4.0])


def test_graphs_are_freed_without_the_garbage_collector() -> None:
    seen: list = []

    def f(x):
        y = ad.sin(x) * x
        seen.append(weakref.ref(y))
        return (y * y).sum()

    gc.collect()
    gc.disable()
    try:
        for run in some_transforms(f, ad.asarray([1.0, 2.0])).values():
            run()
        with_leaf = [run() for run in some_transforms(f, leaf([1.0, 2.0])).values()]
        assert len(with_leaf) == len(NAMES)
        del with_leaf
        assert [ref() for ref in seen] == [None] * len(seen)
    finally:
        gc.enable()


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "hvp"])
def test_what_was_saved_is_released_as_gradients_pass(name: str) -> None:
    saved: list = []
    alive: list = []

    def look(g):
        alive.append(sum(ref() is not None for ref in saved))
        return g.copy()

    looking = ad.op.other("looking", x=lambda g: g, kernels={"cpu": look})
    first = ad.op.other("first", x=lambda g: looking(g), kernels={"cpu": np.copy})

    def f(x):
        y = first(x)
        for _ in range(5):
            y = ad.exp(0.1 * y)
            saved.append(weakref.ref(y.raw))
        return y.sum()

    some_transforms(f, ad.asarray([1.0, 2.0]))[name]()
    assert alive == ([5, 0] if name == "hvp" else [0])  # an hvp's first gradient is recorded


def test_a_gradient_stops_at_its_variables() -> None:
    counted, runs = counting()
    before = ad.op.other("before", x=lambda g: counted(g), kernels={"cpu": np.copy})
    y = before(leaf([1.0, 2.0]))
    for f in (lambda z: (z**3).sum(), lambda z: (z**3 * y).sum()):
        for run in some_transforms(f, y).values():
            assert run().requires_grad
    assert runs == []


def test_what_a_checkpoint_computes_again_is_dropped_after_each_pullback() -> None:
    seen: list = []
    w = leaf([1.0, 2.0])

    def f(x):
        y = ad.exp(x * w)
        seen.append(weakref.ref(y.raw))
        return ad.sin(y)

    _, pullback = ad.vjp(lambda x: ad.checkpoint(f, x), np.ones(2))
    with ad.no_grad():
        close(pullback(np.ones(2))[0], values(pullback(np.ones(2))[0]))
    assert [ref() for ref in seen] == [None] * 3


def test_a_gradient_by_all_that_there_is_needs_no_look_ahead(monkeypatch) -> None:
    def refused(*args):
        raise AssertionError("looked ahead")

    monkeypatch.setattr(scopes, "leading_to", refused)
    x, w = np.array([1.0, 2.0]), leaf([1.0, 1.0])
    close(ad.grad(lambda x, y: (x * y).sum(), argnums=(0, 1))(x, x)[1], x)
    close(ad.hvp(lambda x: (x**3).sum(), (x,), (x,))[0], 6 * x * x)
    with pytest.raises(AssertionError, match="looked ahead"):
        ad.grad(lambda x: (x * w).sum())(x)


@pytest.mark.parametrize("name", NAMES)
def test_the_function_runs_once(name: str) -> None:
    counted, runs = counting()
    some_transforms(lambda x: (counted(x) ** 3).sum(), ad.asarray([1.0, 2.0, 3.0]))[name]()
    assert runs == [(3,)]


# Zeros.


def test_an_unused_argument_has_zeros_of_its_shape_and_dtype() -> None:
    x, y = ad.ones((2, 3), dtype=ad.float16), ad.ones(2, dtype=ad.float64)
    gx, gy = ad.grad(lambda x, y: (y * y).sum(), argnums=(0, 1))(x, y)
    assert gx.shape == (2, 3) and gx.dtype is ad.float16 and not values(gx).any()
    close(gy, [2.0, 2.0])


@pytest.mark.parametrize("name", NAMES)
def test_a_result_that_depends_on_nothing_has_zeros(name: str) -> None:
    x, w = ad.ones((2, 3)), leaf(1.0, np.float32)
    shapes = {"jvp": (), "hessian": (2, 3, 2, 3)}
    for f in (lambda z: ad.asarray(1.0), lambda z: w):
        out = some_transforms(f, x)[name]()
        assert out.shape == shapes.get(name, (2, 3))
        assert not values(out).any() and not out.requires_grad and out.dtype is ad.float32


@pytest.mark.parametrize("mode", ["reverse", "forward"])
@pytest.mark.parametrize(
    ("f", "shape", "expected"),
    [
        (lambda x: x * 2, (), ()),
        (lambda x: x * 2, (1,), (1, 1)),
        (lambda x: x[:0], (3,), (0, 3)),
        (lambda x: ad.ones(2) * x.sum(), (0,), (2, 0)),
        (lambda x: x.reshape(3, 2), (2, 3), (3, 2, 2, 3)),
        (lambda x: x.sum(axis=0, keepdims=True), (2, 3), (1, 3, 2, 3)),
    ],
)
def test_a_block_has_the_shapes_of_result_and_argument(mode, f, shape, expected) -> None:
    assert ad.jacobian(f, mode=mode)(ad.ones(shape)).shape == expected


def test_second_derivatives_of_many_results() -> None:
    x = np.array([0.5, 1.5])
    out = ad.hessian(lambda x: ad.sin(x * x[0]))(x)
    assert out.shape == (2, 2, 2)
    first = differences(lambda x: values(ad.jacobian(lambda x: ad.sin(x * x[0]))(x)).ravel(), x)
    close(out, first.reshape(2, 2, 2), 1e-6)
    assert ad.hessian(lambda x: x.sum(axis=0, keepdims=True))(x).shape == (1, 2, 2)
    assert ad.hessian(lambda x: x.sum())(ad.ones(0)).shape == (0, 0)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_one_number_may_have_axes(shape: tuple) -> None:
    close(ad.grad(lambda x: (x * x).sum().reshape(shape))(np.ones(2)), [2.0, 2.0])


# Structure.

Pair = namedtuple("Pair", "left right")


def tree() -> Any:
    return {"w": [np.ones(2), None], "p": Pair(2.0, (np.ones((1, 2)),)), "e": []}


def loss(t, scale=1.0):
    return ((t["w"][0] * t["p"].left * t["p"].right[0]) * scale).sum()


def test_containers_come_back_as_they_were() -> None:
    g = ad.grad(loss)(tree())
    assert type(g["p"]) is Pair and type(g["w"]) is list and list(g) == ["w", "p", "e"]
    assert g["w"][1] is None and g["e"] == []
    close(g["w"][0], [2.0, 2.0])
    assert g["p"].left == 2.0 and g["p"].right[0].shape == (1, 2)


def test_each_transform_takes_containers() -> None:
    primals, ones = (tree(),), (tree(),)
    out, pullback = ad.vjp(loss, *primals)
    assert out == 4.0 and pullback(1.0)[0]["p"].left == 2.0
    assert ad.jvp(loss, primals, ones)[1] == 4.0 + 4.0 + 4.0
    (product,) = ad.hvp(loss, primals, ones)
    close(product["w"][0], [2.0 + 2.0, 2.0 + 2.0])
    second = ad.hessian(loss)(*primals)
    assert second["w"][1] is None and second["p"].left["w"][1] is None
    close(second["w"][0]["p"].left, [1.0, 1.0])
    assert second["p"].right[0]["w"][0].shape == (1, 2, 2)


def test_results_may_be_nested() -> None:
    def f(x, y):
        return {"a": (x * y, None), "b": [x.sum()]}

    out, pullback = ad.vjp(f, np.ones(2), np.ones(2))
    assert out["a"][1] is None
    gx, gy = pullback({"b": [1.0], "a": (np.array([1.0, 2.0]), None)})
    close(gx, [2.0, 3.0])
    close(gy, [1.0, 2.0])
    _, tangent = ad.jvp(f, (np.ones(2), np.ones(2)), (np.ones(2), np.zeros(2)))
    assert tangent["b"][0] == 2.0 and tangent["a"][1] is None


@pytest.mark.parametrize("name", ["jacobian", "forward", "hessian"])
@pytest.mark.parametrize("argnums", [0, (1, 0), -1])
def test_blocks_nest_as_in_jax(name: str, argnums) -> None:
    jax = pytest.importorskip("jax")

    def f(x, t):
        return {"s": (x @ t["m"] @ x).sum() * t["l"][0], "v": [x * x, t["m"][0] * x[0]]}

    x, t = np.array([0.5, -1.0], "f4"), {"m": np.eye(2, dtype="f4"), "l": (np.float32(2.0),)}
    ours, theirs = {
        "jacobian": (ad.jacobian, jax.jacrev),
        "forward": (functools.partial(ad.jacobian, mode="forward"), jax.jacfwd),
        "hessian": (ad.hessian, jax.hessian),
    }[name]
    expected, tree = jax.tree_util.tree_flatten(theirs(f, argnums=argnums)(x, t))
    t["m"] = ad.asarray(t["m"])
    out, our_tree = jax.tree_util.tree_flatten(ours(f, argnums=argnums)(ad.asarray(x), t))
    assert our_tree == tree
    for mine, other in zip(out, expected, strict=True):
        close(mine, np.asarray(other), 1e-6)


@pytest.mark.parametrize(
    ("argnums", "structure"),
    [(0, 2.0), ((0,), (2.0,)), ([1], (3.0,)), (-1, 3.0), ((-1, 0), (3.0, 2.0))],
)
def test_argnums_say_what_is_differentiated(argnums, structure) -> None:
    g = ad.grad(lambda x, y: 2 * x + 3 * y, argnums=argnums)(1.0, 1.0)
    assert type(g) is type(structure) or isinstance(g, ad.Tensor)
    assert g == structure


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_nothing_has_no_derivatives(mode: str) -> None:
    assert ad.grad(lambda t: ad.asarray(1.0))([None, {}]) == [None, {}]
    assert ad.jacobian(lambda x: {}, mode=mode)(1.0) == {}
    assert ad.jacobian(lambda t: [ad.ones(2)], mode=mode)(()) == [()]
    assert ad.hessian(lambda x: ())(1.0) == () and ad.hessian(lambda t: ad.ones(2))([]) == []
    assert ad.vjp(lambda: ad.ones(2))[1](ad.ones(2)) == ()


def test_other_arguments_are_passed_on_untouched() -> None:
    given: list = []

    def f(x, *args, **kwargs):
        given.extend([*args, kwargs["option"]])
        return x * 2

    others = [ad.asarray([1, 2]), "text", object(), {"a": 3}]
    ad.grad(f)(1.0, *others[:3], option=others[3])
    assert all(a is b for a, b in zip(given, others, strict=True))


def test_python_floats_and_arrays_become_tensors() -> None:
    assert ad.grad(lambda x: x * x)(3.0).dtype is ad.float32
    assert ad.grad(lambda x: x * x)(np.float64(3.0)).dtype is ad.float64
    assert ad.grad(lambda x: (x * x).sum())(np.ones(2, ">f4")).dtype is ad.float32
    assert ad.grad(lambda x: (x * x).sum())(ad.ones(2, dtype=ad.float16)).dtype is ad.float16


def test_the_transformed_function_has_the_name() -> None:
    def area(r):
        """pi r^2"""
        return ad.pi * r * r

    for transform in (ad.grad, ad.value_and_grad, ad.jacobian, ad.hessian):
        assert transform(area).__name__ == "area" and transform(area).__doc__ == "pi r^2"


# Aux values.


def test_aux_comes_back_beside_the_result() -> None:
    def f(x):
        return (x * x).sum(), {"x": x, "n": 3, "none": None}

    x = np.array([1.0, 2.0])
    g, aux = ad.grad(f, has_aux=True)(x)
    close(g, [2.0, 4.0])
    close(aux["x"], x)
    assert aux["n"] == 3 and aux["none"] is None and not aux["x"].requires_grad
    (value, aux), g = ad.value_and_grad(f, has_aux=True)(x)
    assert value == 5.0 and aux["n"] == 3
    out, pullback, aux = ad.vjp(f, x, has_aux=True)
    assert out == 5.0 and aux["n"] == 3 and values(pullback(1.0)[0]).tolist() == [2.0, 4.0]
    out, tangent, aux = ad.jvp(f, (x,), (x,), has_aux=True)
    assert out == 5.0 and tangent == 10.0 and not aux["x"].requires_grad
    for mode in ("reverse", "forward"):
        first, aux = ad.jacobian(f, mode=mode, has_aux=True)(x)
        close(first, [2.0, 4.0])
    second, aux = ad.hessian(f, has_aux=True)(x)
    close(second, np.diag([2.0, 2.0]))
    assert aux["n"] == 3


def test_aux_is_differentiable_by_the_outer_transform() -> None:
    def outer(x):
        _, aux = ad.grad(lambda y: (y * y, y**3 * x), has_aux=True)(x)
        return aux

    assert ad.grad(outer)(2.0) == 32.0


@pytest.mark.parametrize("transform", [ad.grad, ad.value_and_grad])
def test_aux_that_leads_outside_shares_the_graph_of_the_result(transform) -> None:
    w = leaf([2.0, 3.0])

    def f(x):
        y = x * x
        return y.sum(), y * w

    out = transform(f, has_aux=True)(np.array([1.0, 2.0]))
    aux = out[1] if transform is ad.grad else out[0][1]
    aux.sum().backward()
    close(w.grad, [1.0, 4.0])


def test_aux_under_no_grad_has_no_graph_but_outside_tensors_stay() -> None:
    w = leaf(2.0)
    with ad.no_grad():
        _, (y, same) = ad.grad(lambda x: (x * w, (x * w, w)), has_aux=True)(leaf(1.0))
    assert not y.requires_grad and same is w


# Composition with the rest.


@pytest.mark.parametrize("name", NAMES)
def test_traced_transforms_replay_on_other_values(name: str) -> None:
    w = leaf([2.0, 3.0])

    def f(z):
        return (ad.sin(z) * z * z * w).sum()

    graph = ad.trace(lambda x: some_transforms(f, x)[name](), leaf([1.0, 2.0]))
    x = leaf([0.3, -0.7])
    close(graph(x), values(some_transforms(f, x)[name]()), 1e-12)


def test_a_traced_gradient_reads_tensors_from_outside_anew() -> None:
    w = ad.asarray([1.0, 2.0])
    graph = ad.trace(lambda scale: ad.grad(lambda v: (v * v).sum() * scale)(w), ad.asarray(1.0))
    w[:] = 10.0
    assert graph(ad.asarray(2.0)).tolist() == [40.0, 40.0]


def test_per_example_gradients() -> None:
    w, xs = ad.asarray([1.0, 2.0]), ad.asarray([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    each = ad.vmap(ad.grad(lambda w, x: (w @ x) ** 2), in_axes=(None, 0))(w, xs)
    assert each.tolist() == [[2.0, 0.0], [0.0, 4.0], [6.0, 6.0]]


def test_autograd_functions_work_inside_and_outside() -> None:
    x = leaf(2.0)

    def inner(y):
        return ad.autograd.grad(y**3 * x, y, create_graph=True)[0]

    g = ad.grad(inner)(x)  # 6 x y
    close(g, 24.0)
    close(ad.autograd.grad(g, x)[0], 12.0 + 12.0)


def test_backward_inside_leaves_the_variables_alone() -> None:
    w = leaf(3.0)

    def f(x):
        (x * w).backward()
        return x * x * w.grad

    close(ad.grad(f)(np.float64(2.0)), 2 * 2.0 * 2.0)
    close(w.grad, 2.0)


@pytest.mark.parametrize("ask", [ad.Tensor.backward, ad.gradients])
@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_nothing_but_arguments_are_not_lost(name: str, ask) -> None:
    kept: list = []

    def f(x, inside: bool = False):
        kept.append((x * x).sum())
        if inside:
            ask(kept.pop())
        return (x**3).sum()

    x = np.array([1.0, 2.0])
    message = f"function under ad.{'jacobian' if name == 'forward' else name}, .* has_aux=True"
    with pytest.raises(ad.GradientError, match=message):
        some_transforms(functools.partial(f, inside=True), ad.asarray(x))[name]()
    some_transforms(f, ad.asarray(x))[name]()
    with pytest.raises(ad.GradientError, match=message):
        ask(kept[0])
    w = leaf([1.0, 1.0])
    grads = ad.gradients((ad.grad(lambda x: (w * x**3).sum())(x)).sum())
    close(grads[w], [3.0, 12.0])  # the variable x was reached too


def test_gradients_inside_by_what_the_function_computed() -> None:
    def f(x):
        y = x * x
        by_y, by_x = ad.autograd.grad((y * y).sum(), [y, x], create_graph=True)
        close(by_y, 2 * values(y))
        grads = ad.gradients((y * y).sum(), of=[y, x], retain_graph=True)
        close(grads[x], values(by_x))
        close(grads[y], values(by_y))
        return (by_x * x).sum()

    close(ad.grad(f)(np.array([1.0, 2.0])), [16.0, 128.0])


def test_a_checkpoint_can_call_transforms_and_be_transformed() -> None:
    def f(x):
        return ad.checkpoint(lambda y: ad.grad(lambda z: (z**3 * x).sum())(y), x).sum()  # 3 x^3

    x = leaf([1.0, 2.0])
    close(ad.grad(f)(x), [9.0, 36.0])
    close(ad.hessian(f)(x), np.diag([18.0, 36.0]))
    f(x).backward()
    close(x.grad, [9.0, 36.0])


def test_functions_may_branch_on_values() -> None:
    def f(x):
        return (x * x).sum() if x.sum() > 0 else (x**3).sum()

    for sign, second in ((1.0, 2.0), (-1.0, -6.0)):
        close(ad.hessian(f)(np.array([sign, sign])), np.diag([second, second]))
        close(ad.hvp(f, (np.array([sign]),), (np.ones(1),))[0], [second])


def test_anomalies_are_found() -> None:
    with ad.detect_anomaly():
        close(ad.jvp(ad.sin, (np.float64(0.5),), (1.0,))[1], np.cos(0.5))
        with pytest.raises(ad.AnomalyError, match="sqrt"):
            ad.grad(lambda x: ad.sqrt(x) * 0)(0.0)


# Errors.


def call(name: str, f, *args):
    """A transform of f, run."""
    if name in ("jvp", "hvp"):
        return getattr(ad, name)(f, args, args)
    return ad.vjp(f, *args) if name == "vjp" else getattr(ad, name)(f)(*args)


PUBLIC = ["grad", "value_and_grad", "vjp", "jvp", "jacobian", "hessian", "hvp"]


@pytest.mark.parametrize("name", PUBLIC)
@pytest.mark.parametrize(
    ("arg", "message"),
    [
        (ad.asarray([1, 2]), r"argument 0 is int64\[2\] | ad\.astype"),
        (ad.asarray([True]), r"argument 0 is bool\[1\] | ad\.astype"),
        (ad.asarray(1j), r"argument 0 is complex64\[\] | carry no gradients yet"),
        ({"w": [1.0, ad.asarray(1)]}, r"argument 0\['w'\]\[1\] is int64\[\] | ad\.astype"),
        (Layer(1.0, (2,)), r"argument 0\.b\[0\] is 2, of type int | write 2\.0"),
        ([1.0, True], r"argument 0\[1\] is True, of type bool | close over it"),
        (np.arange(3), r"argument 0 is a NumPy array of dtype int64 | ad\.astype"),
        ("text", r"argument 0 is 'text', of type str | close over it"),
        (object(), r"argument 0 is of type object | in tuples, lists and dicts"),
    ],
)
def test_only_floats_can_be_differentiated(name: str, arg: Any, message: str) -> None:
    what, advice = message.split(" | ")
    text = rf"{name}: {what}, and only floats can be differentiated; .*{advice}"
    with pytest.raises(ad.DTypeError, match=text):
        call(name, lambda x: 1.0, arg)


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "hvp"])
@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (lambda x: x, ad.ShapeError, r"has shape \(2,\); .*ad\.jacobian or ad\.vjp"),
        (lambda x: (x.sum(), 3.0), ad.DTypeError, r"returned 3\.0, of type float \(\[1\]\)"),
        (lambda x: (x.sum(), x.sum()), ad.DTypeError, "one number, as a tensor; it returned tuple"),
        (lambda x: None, ad.DTypeError, "it returned NoneType"),
        (lambda x: 1.0, ad.DTypeError, r"returned 1\.0, of type float"),
        (lambda x: ad.argmax(x), ad.DTypeError, r"returned int64\[\], .* has_aux=True"),
    ],
)
def test_the_function_must_return_one_number(name: str, f, error, message: str) -> None:
    with pytest.raises(error, match=f"{name}: .*{message}"):
        call(name, f, ad.ones(2))


@pytest.mark.parametrize("name", ["vjp", "jvp", "jacobian", "hessian"])
def test_results_must_be_floats(name: str) -> None:
    with pytest.raises(
        ad.DTypeError, match=rf"{name}: the function returned int64\[\] \(\['n'\]\)"
    ):
        call(name, lambda x: {"x": x, "n": ad.argmax(x)}, ad.ones(2))


@pytest.mark.parametrize(
    ("g", "error", "message"),
    [
        (ad.ones(3), ad.ArgumentError, r"g is float32\[3\], and must be like {'a': float32\[2\]"),
        ({"a": ad.ones(2)}, ad.ArgumentError, r"g is {'a': float32\[2\]}, and must be like"),
        (
            {"a": ad.ones(2), "b": ad.ones(())},
            ad.ArgumentError,
            r"differ at g\['b'\]",
        ),
        ({"a": ad.ones(2), "b": [1.0]}, ad.ArgumentError, r"differ at g\['b'\]"),
        ({"a": ad.ones(2), "b": {0: 1.0}}, ad.ArgumentError, r"differ at g\['b'\]"),
        ({"a": None, "b": (1.0,)}, ad.ArgumentError, r"differ at g\['a'\]"),
        (
            {"a": ad.ones(3), "b": (1.0,)},
            ad.ShapeError,
            r"g\['a'\] is float32\[3\], .* float32\[2\]",
        ),
        ({"a": 1.0, "b": (1.0,)}, ad.ShapeError, r"g\['a'\] is float32\[\], .* float32\[2\]"),
        (
            {"a": np.ones(2), "b": (1.0,)},
            ad.DTypeError,
            r"g\['a'\] is float64\[2\], .* dtypes must",
        ),
        ({"a": ad.ones(2), "b": ("x",)}, ad.DTypeError, r"g\['b'\]\[0\] must be a tensor like"),
    ],
)
def test_a_gradient_must_be_like_the_result(g, error, message: str) -> None:
    _, pullback = ad.vjp(lambda x: {"a": x, "b": (x.sum(),)}, ad.ones(2))
    with pytest.raises(error, match=f"vjp: .*{message}"):
        pullback(g)


def test_a_named_tuple_is_not_any_tuple() -> None:
    _, pullback = ad.vjp(lambda x: [Pair(x, x)], ad.ones(2))
    with pytest.raises(ad.ArgumentError, match=r"they differ at g\[0\]$"):
        pullback([(ad.ones(2), ad.ones(2))])
    with pytest.raises(ad.ShapeError, match=r"g\[0\]\.right is float32\[3\]"):
        pullback([Pair(ad.ones(2), ad.ones(3))])


@pytest.mark.parametrize("name", ["jvp", "hvp"])
@pytest.mark.parametrize(
    ("primals", "tangents", "error", "message"),
    [
        (ad.ones(2), (ad.ones(2),), ad.DTypeError, r"primals is a tuple .* got float32\[2\]"),
        ((ad.ones(2),), ad.ones(2), ad.DTypeError, r"tangents is a tuple .* got float32\[2\]"),
        ((ad.ones(2),), (), ad.ArgumentError, r"tangents is \(\), and must be like \(float32"),
        ((ad.ones(2),), (ad.ones(3),), ad.ShapeError, r"tangents\[0\] is float32\[3\], .*\[2\]"),
        ((ad.ones(2),), (np.ones(2),), ad.DTypeError, r"tangents\[0\] is float64\[2\]"),
    ],
)
def test_tangents_must_be_like_the_primals(name, primals, tangents, error, message) -> None:
    with pytest.raises(error, match=f"{name}: {message}"):
        getattr(ad, name)(lambda x: x.sum(), primals, tangents)


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "jacobian", "hessian"])
@pytest.mark.parametrize(
    ("argnums", "error", "message"),
    [
        (2, ad.ArgumentError, "argnums=2, but the function was given 2 positional arguments"),
        (-3, ad.ArgumentError, "argnums=-3, but"),
        ((0, 2), ad.ArgumentError, r"argnums=\(0, 2\), but"),
        ((0, -2), ad.ArgumentError, r"argnums=\(0, -2\) has the same argument twice"),
        ("x", ad.DTypeError, "argnums is an integer or a tuple of integers, got 'x'"),
        (1.0, ad.DTypeError, "got 1.0"),
        ((0, None), ad.DTypeError, "got"),
    ],
)
def test_argnums_are_checked(name: str, argnums, error, message: str) -> None:
    with pytest.raises(error, match=f"{name}: .*{message}"):
        getattr(ad, name)(lambda x, y: x * y, argnums=argnums)(1.0, 2.0)


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_transformed_must_be_a_function(name: str) -> None:
    with pytest.raises(ad.DTypeError, match=f"{name}: a function is needed, got 3"):
        call(name, 3, 1.0)


@pytest.mark.parametrize("out", [ad.asarray(1.0), (1, 2, 3), [1, 2]])
def test_has_aux_needs_a_pair(out) -> None:
    with pytest.raises(ad.ArgumentError, match=r"must return a tuple \(result, aux\), it returned"):
        ad.grad(lambda x: out, has_aux=True)(1.0)


def test_jacobian_knows_two_modes() -> None:
    with pytest.raises(ad.ArgumentError, match='mode is "reverse" or "forward", got \'fwd\''):
        ad.jacobian(ad.sin, mode="fwd")


def test_an_error_in_the_function_passes_through_and_restores_the_mode() -> None:
    def f(x):
        raise ZeroDivisionError("mine")

    with ad.no_grad():
        with pytest.raises(ZeroDivisionError, match="mine"):
            ad.hessian(f)(1.0)
        assert not ad.is_grad_enabled()
