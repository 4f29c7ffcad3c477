"""SPEC A, Backward: what the reverse pass promises."""

import heapq
import inspect
import itertools
import os
import subprocess
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.support.helpers import close, counting, derivative, leaf, values

# 1. Roots and seeds


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_backward_of_one_element_needs_no_gradient(shape):
    x = leaf(np.full(shape, 3.0))
    (x * x).backward()
    close(x.grad, np.full(shape, 6.0))


@pytest.mark.parametrize("shape", [(2,), (1, 2), (0,), (3, 0)])
def test_backward_of_another_number_of_elements_shows_the_shape_and_advises(shape):
    x = leaf(np.ones(shape))
    with pytest.raises(ad.ShapeError) as error:
        (x * 2).backward()
    for text in ("backward", str(shape), ".sum()", ".mean()", "gradient="):
        assert text in str(error.value)
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (0,), (2, 0)])
def test_backward_takes_a_gradient_of_any_shape(shape):
    g = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    x = leaf(np.ones(shape))
    (x * 2).backward(gradient=ad.asarray(g))
    close(x.grad, 2 * g)


@pytest.mark.parametrize(
    ("root", "gradient"), [((), (1,)), ((1,), ()), ((2, 3), (3,)), ((2, 3), (1, 3)), ((3,), (3, 1))]
)
def test_a_given_gradient_must_have_exactly_the_roots_shape(root, gradient):
    x = leaf(np.ones(root))
    with pytest.raises(ad.ShapeError, match="backward"):
        (x * 2).backward(gradient=ad.asarray(np.ones(gradient)))
    assert x.grad is None


def test_a_given_gradient_must_have_the_roots_dtype():
    with pytest.raises(ad.AdjointError, match=r"float32.*float64"):
        leaf([1.0, 2.0]).backward(gradient=ad.ones((2,), dtype=ad.float32))


ASKERS = {
    "backward": lambda y, x: y.backward(),
    "gradients": lambda y, x: ad.gradients(y),
    "autograd.grad": lambda y, x: ad.autograd.grad(y, x),
}


@pytest.mark.parametrize("name", ASKERS)
def test_a_root_that_does_not_require_grad_is_an_error_that_says_so(name):
    with pytest.raises(ad.GradientError, match=rf"{name}.*doesn't require grad"):
        ASKERS[name](ad.tensor(1.0), leaf(1.0))


@pytest.mark.parametrize("name", ASKERS)
def test_errors_name_the_function_that_the_user_called(name):
    x = leaf([1.0, 2.0])
    with pytest.raises(ad.ShapeError, match=f"^{name}: "):
        ASKERS[name](x * 2, x)


# 2. The seed


@pytest.mark.parametrize("dtype", [ad.float16, ad.float32, ad.float64])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_the_seed_has_the_roots_shape_and_dtype_and_device(shape, dtype):
    seen = []
    y = ad.ones(shape, dtype=dtype, requires_grad=True) * 2
    y.register_hook(seen.append)
    y.backward()
    assert [(g.shape, g.dtype, g.device) for g in seen] == [(shape, dtype, "cpu")]
    assert values(seen[0]) == 1


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_backward_on_a_leaf_gives_it_gradient_one_every_time(shape):
    x = leaf(np.full(shape, 7.0))
    x.backward()
    close(x.grad, np.ones(shape))
    x.backward()
    close(x.grad, np.full(shape, 2.0))


# 3. Sums, and no work for what needs none


@pytest.mark.parametrize(
    ("function", "derivative"),
    [
        (lambda x: x + x, lambda x: np.full_like(x, 2)),
        (lambda x: x * x, lambda x: 2 * x),
        (lambda x: x * x * x, lambda x: 3 * x**2),
        (lambda x: x / x, np.zeros_like),
        (lambda x: ad.exp(x) * ad.exp(x) + x, lambda x: 2 * np.exp(2 * x) + 1),
        (lambda x: ad.concat([x, x, x * x]), lambda x: 2 + 2 * x),
        (lambda x: x[0] * x[1] + x[1], lambda x: np.array([x[1], x[0] + 1])),
        (lambda x: ad.maximum(x, x), np.ones_like),
    ],
)
def test_repeated_uses_of_a_tensor_sum(function, derivative):
    x = leaf([0.5, -1.5])
    function(x).sum().backward()
    close(x.grad, derivative(np.array([0.5, -1.5])))


def test_repeated_uses_of_large_tensors_sum_without_touching_shared_gradients():
    """Large gradients are added in place: where somebody else has them, they must not be."""
    data = np.linspace(0.5, 1.5, 5000)
    x, y, seed = leaf(data), leaf(data), ad.asarray(np.linspace(1, 2, 5000))
    before = values(seed).copy()
    total = (x + y) + (x + y) + x + y * y
    total.retain_grad()
    total.backward(gradient=seed)
    close(x.grad, 3 * before)
    close(y.grad, (2 + 2 * data) * before)
    close(total.grad, before)
    close(seed, before)


def test_the_gradients_of_a_sum_are_values_of_their_own():
    x, y = leaf(np.ones(3)), leaf(np.ones(3))
    (x + y).sum().backward()
    assert x.grad is not None
    x.grad += 1
    x.grad[0] = 5
    close(y.grad, np.ones(3))


def test_no_rule_runs_for_an_input_that_does_not_require_grad():
    counted, runs = counting()
    product = ad.op.other(
        "product",
        x=lambda g, y: g * y,
        y=lambda g, x: counted(g) * x,
        kernels={"cpu": np.multiply},
        shape=lambda x_shape: x_shape,
    )
    x = leaf([2.0])
    product(x, ad.asarray(np.array([3.0]))).backward()
    close(x.grad, [3.0])
    assert runs == []
    product(x, leaf([3.0])).backward()
    assert runs == [(1,)]


def test_constants_and_untouched_tensors_get_no_gradient_and_no_hook_call():
    x, unused, calls = leaf(2.0), leaf(1.0), []
    constant = ad.asarray(3.0, dtype=ad.float64)
    side = unused * 2
    for tensor in (unused, side):
        tensor.register_hook(calls.append)
    (x * constant + 1).backward()
    assert constant.grad is None
    assert unused.grad is None
    assert side.grad is None
    assert calls == []


def test_a_tensor_that_never_gets_a_gradient_refuses_hooks():
    with pytest.raises(ad.GradientError, match=r"register_hook.*requires_grad_\(\)"):
        ad.tensor(1.0).register_hook(print)


def test_a_joint_rule_that_gives_none_sends_nothing():
    calls = []
    first = ad.op.other(
        "first",
        inputs="x y",
        vjp=lambda g: (g, None),
        kernels={"cpu": lambda x, y: x.copy()},
        shape=lambda x_shape: x_shape,
    )
    x, y = leaf(1.0), leaf(1.0)
    y.register_hook(calls.append)
    first(x, y * 2).backward()
    close(x.grad, 1.0)
    assert y.grad is None
    assert calls == []


# 4. Accumulation


def test_gradients_accumulate_across_calls_until_they_are_cleared():
    x = leaf([1.0, 2.0])
    for _ in range(3):
        (x * x).sum().backward()
    close(x.grad, [6.0, 12.0])
    x.grad = None
    (x * x).sum().backward()
    close(x.grad, [2.0, 4.0])


def test_accumulation_does_not_change_a_gradient_that_was_read_before():
    x = leaf([1.0, 2.0])
    (x * x).sum().backward()
    before = x.grad
    (x * x).sum().backward()
    close(before, [2.0, 4.0])


def test_intermediates_keep_no_gradient_unless_asked():
    x = leaf(2.0)
    y = x * 3
    (y * y).backward()
    assert y.grad is None


def test_retain_grad_keeps_an_intermediates_gradient():
    x = leaf(2.0)
    y = x * 3
    y.retain_grad()
    (y * y).backward()
    close(y.grad, 12.0)


def test_retain_grad_accumulates_across_calls():
    x = leaf(2.0)
    y = x * 3
    y.retain_grad()
    z = y * y
    z.backward(retain_graph=True)
    z.backward()
    close(x.grad, 72.0)
    close(y.grad, 24.0)


def test_retain_grad_works_on_the_root_and_is_harmless_on_a_leaf():
    x = leaf(2.0)
    x.retain_grad()
    y = x * x
    y.retain_grad()
    y.backward()
    close(y.grad, 1.0)
    close(x.grad, 4.0)


@pytest.mark.parametrize("dtype", [ad.float16, ad.float32, ad.float64])
def test_gradients_have_the_shape_and_dtype_of_their_tensor(dtype):
    x = ad.ones((3, 1), dtype=dtype, requires_grad=True)
    y = ad.ones((4,), dtype=ad.float64, requires_grad=True)
    z = ad.ones((), dtype=ad.float32, requires_grad=True)
    ad.exp(x * y + z).sum().backward()
    for tensor in (x, y, z):
        assert tensor.grad is not None
        assert (tensor.grad.shape, tensor.grad.dtype) == (tensor.shape, tensor.dtype)


@pytest.mark.parametrize("wrong", [np.ones(3), np.ones(2, np.float32)])
def test_grad_can_only_be_set_to_a_gradient_that_fits(wrong):
    x = leaf([1.0, 2.0])
    with pytest.raises(ad.AdjointError):
        x.grad = ad.asarray(wrong)
    assert x.grad is None


# 5. gradients()


def test_gradients_maps_leaves_and_the_root_and_leaves_grad_alone():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    loss = (x * y).sum()
    grads = ad.gradients(loss)
    close(grads[x], [3.0, 4.0])
    close(grads[y], [1.0, 2.0])
    close(grads[loss], 1.0)
    assert x.grad is None
    assert y.grad is None
    assert loss.grad is None
    assert {id(tensor) for tensor in grads} == {id(x), id(y), id(loss)}
    assert len(grads) == 3


def test_gradients_leaves_the_grad_of_retaining_intermediates_alone():
    x = leaf(2.0)
    y = x * 3
    y.retain_grad()
    z = y * y
    ad.gradients(z, retain_graph=True)
    ad.autograd.grad(z, x)
    assert y.grad is None


def test_gradients_runs_no_post_accumulate_hook():
    x, calls = leaf(2.0), []
    x.register_post_accumulate_grad_hook(calls.append)
    ad.gradients(x * x)
    assert calls == []


def test_gradients_gives_named_intermediates_their_total_gradient():
    x = leaf(3.0)
    y = x * x
    z = y * 2
    grads = ad.gradients(z * y + y, of=[y, z])
    close(grads[z], 9.0)
    close(grads[y], 37.0)
    close(grads[x], 37.0 * 6)
    unnamed = x * 2
    assert unnamed not in ad.gradients(unnamed * 3)


def test_a_tensor_that_the_root_does_not_depend_on_has_no_entry():
    x, unused, constant = leaf(3.0), leaf(1.0), ad.asarray(1.0)
    other = unused * 2
    grads = ad.gradients(x * x, of=[unused, other, constant])
    for tensor in (unused, other, constant):
        assert tensor not in grads
        assert grads.get(tensor) is None
        with pytest.raises(KeyError):
            grads[tensor]
    assert x in grads


def test_gradients_of_a_leaf_is_one():
    x = leaf(3.0)
    close(ad.gradients(x)[x], 1.0)


def test_gradients_takes_a_gradient():
    x = leaf([1.0, 2.0])
    close(ad.gradients(x * x, ad.asarray(np.array([1.0, 10.0])))[x], [2.0, 40.0])


def test_gradients_with_create_graph_are_differentiable_again():
    x = leaf([1.0, 2.0])
    y = x * x
    first = ad.gradients((y * x).sum(), of=[y], create_graph=True)
    close(first[x], [3.0, 12.0])
    close(first[y], [1.0, 2.0])
    close(ad.gradients(first[x].sum(), retain_graph=True)[x], [6.0, 12.0])
    close(ad.gradients(first[y].sum())[x], [1.0, 1.0])


def test_gradients_without_create_graph_are_constants():
    x = leaf(2.0)
    assert not ad.gradients(x * x)[x].requires_grad


# 6. autograd.grad


def test_grad_returns_a_tuple_and_touches_no_grad():
    x, y = leaf(2.0), leaf(3.0)
    out = ad.autograd.grad(x * y * y, [x, y])
    assert isinstance(out, tuple)
    close(out[0], 9.0)
    close(out[1], 12.0)
    assert isinstance(ad.autograd.grad(x * y, x), tuple)
    assert x.grad is None
    assert y.grad is None


def test_grad_sums_over_outputs_weighted_by_grad_outputs():
    x = leaf([1.0, 2.0])
    outputs = [x * x, (x * 3).sum(), x * x]
    weights = [ad.asarray(np.array([1.0, 10.0])), None, ad.asarray(np.array([0.0, 1.0]))]
    close(ad.autograd.grad(outputs, x, weights)[0], [2 + 3, 40 + 3 + 4])


def test_grad_of_the_same_output_twice_counts_it_twice():
    x = leaf(2.0)
    y = x * x
    close(ad.autograd.grad([y, y], [x, x])[0], 8.0)


def test_grad_with_respect_to_intermediates_and_the_root_itself():
    x = leaf(2.0)
    y = x * x
    z = y * y
    out = ad.autograd.grad(z, [z, y, x])
    for g, expected in zip(out, (1.0, 8.0, 32.0), strict=True):
        close(g, expected)


def test_grad_needs_grad_outputs_for_outputs_with_several_elements():
    x = leaf([1.0, 2.0])
    with pytest.raises(ad.ShapeError, match=r"autograd\.grad"):
        ad.autograd.grad(x * x, x)


def test_grad_wants_one_weight_for_each_output():
    x = leaf(1.0)
    with pytest.raises(ad.ArgumentError, match="2 outputs, but 1 grad_outputs"):
        ad.autograd.grad([x * 2, x * 3], x, [ad.asarray(1.0)])


def test_grad_of_an_unused_input_raises_unless_allowed():
    x, unused = leaf(2.0), leaf([1.0])
    y = x * x
    with pytest.raises(ad.GradientError, match=r"inputs\[1\].*allow_unused=True"):
        ad.autograd.grad(y, [x, unused], retain_graph=True)
    g, nothing = ad.autograd.grad(y, [x, unused], allow_unused=True)
    close(g, 4.0)
    assert nothing is None


def test_grad_of_an_input_that_does_not_require_grad_raises():
    with pytest.raises(ad.GradientError, match="doesn't require grad"):
        ad.autograd.grad(leaf(1.0) * 2, ad.asarray(1.0))


def test_grad_with_create_graph_goes_to_any_order():
    x = leaf(2.0)
    g = x**5
    for expected in (80.0, 160.0, 240.0, 240.0, 120.0):
        g = derivative(g, x, create_graph=True)
        close(g, expected)


def test_grad_outputs_are_differentiated_with_create_graph():
    x, weight = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    g = derivative(x * x, x, weight, create_graph=True)
    close(ad.autograd.grad(g.sum(), weight)[0], [2.0, 4.0])


def test_grad_runs_only_what_leads_to_its_inputs():
    """Weight gradients aren't computed for a gradient with respect to the data."""
    counted, runs = counting()
    layer = ad.op.other(
        "layer",
        x=lambda g, w: g * w,
        w=lambda g, x: counted(g) * x,
        kernels={"cpu": np.multiply},
        shape=lambda x_shape: x_shape,
    )
    x, v, w = leaf([2.0]), leaf([3.0]), leaf([5.0])
    y = layer(layer(x, v), w)
    close(ad.autograd.grad(y, x, retain_graph=True)[0], [15.0])
    assert runs == []
    close(ad.autograd.grad(y, v, retain_graph=True)[0], [10.0])
    assert len(runs) == 1
    y.backward()
    assert len(runs) == 3
    close(w.grad, [6.0])


def test_grad_runs_nothing_below_its_inputs():
    counted, runs = counting()
    below = ad.op.other(
        "below",
        x=lambda g: counted(g),
        kernels={"cpu": np.copy},
        shape=lambda x_shape: x_shape,
    )
    h = below(leaf(2.0))
    close(ad.autograd.grad(h * h, h)[0], 4.0)
    assert runs == []


def test_grad_does_not_need_what_lies_below_its_inputs():
    """Released values that no rule will read are no reason to fail."""
    h = ad.exp(leaf(2.0))
    first, second = h * 2, h * 3
    first.backward()
    close(ad.autograd.grad(second, h)[0], 3.0)


def test_grad_runs_hooks_and_returns_what_they_made_of_the_gradient():
    x = leaf(2.0)
    y = x * 3
    y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 1)
    gx, gy = ad.autograd.grad(y * y, [x, y])
    close(gy, 120.0)
    close(gx, 361.0)


def test_grad_keeps_the_graph_if_asked():
    x = leaf(2.0)
    y = ad.exp(x * x)
    first = ad.autograd.grad(y, x, retain_graph=True)[0]
    second = ad.autograd.grad(y, x)[0]
    np.testing.assert_array_equal(values(first), values(second))
    with pytest.raises(ad.GradientError):
        ad.autograd.grad(y, x)


# 7. Release

ONE_OP = {
    "multiply": lambda x: x * x,
    "exp": ad.exp,
    "add": lambda x: x + x,
    "negative": lambda x: -x,
    "sum": lambda x: ad.sum(x),
    "matrix_transpose": lambda x: x.mT,
    "slice": lambda x: x[0],
    "concat": lambda x: ad.concat([x, x]),
    "moments": lambda x: ad.var(x, keepdims=True),
    "matmul": lambda x: x @ x,
    "index": lambda x: x[[0]],
}


@pytest.mark.parametrize("again", [True, False], ids=["same root", "another root"])
@pytest.mark.parametrize("name", ONE_OP)
def test_a_second_backward_through_a_released_graph_names_the_op_and_advises(name, again):
    x = leaf([[2.0]])
    y = ONE_OP[name](x)
    root = other = y.sum()
    if not again:
        other = (y * 3).sum()
    root.backward()
    with pytest.raises(ad.GradientError, match="retain_graph=True") as error:
        other.backward()
    assert again or f"through {name} " in str(error.value)
    assert isinstance(error.value, RuntimeError)


@pytest.mark.parametrize("options", [{"retain_graph": True}, {"create_graph": True}])
def test_a_retained_graph_can_be_run_again(options):
    x = leaf([1.0, 2.0])
    y = (ad.exp(x) * x).sum()
    y.backward(**options)
    once = values(x.grad)
    x.grad = None
    y.backward()
    np.testing.assert_array_equal(values(x.grad), once)
    with pytest.raises(ad.GradientError):
        y.backward()


@pytest.mark.parametrize("name", ASKERS)
def test_every_entry_point_releases_the_graph(name):
    x = leaf(2.0)
    y = ad.exp(x)
    ASKERS[name](y, x)
    with pytest.raises(ad.GradientError, match="exp"):
        y.backward()


def test_a_shared_part_of_a_released_graph_raises_for_the_other_root():
    x = leaf(2.0)
    shared = ad.exp(x)
    first, second = shared * 2, shared * 3
    first.backward()
    with pytest.raises(ad.GradientError, match="exp"):
        second.backward()


def test_saved_values_are_freed_by_backward_while_the_root_lives():
    x = leaf(np.ones(4))
    square = x * 2
    saved = weakref.ref(square.raw)
    y = (square * square).sum()
    del square
    assert saved() is not None
    y.backward()
    assert saved() is None
    assert y.requires_grad


# 8. Wrong rules


def bad_op(**options: Any) -> Any:
    return ad.op.other(
        "bad",
        inputs="x y",
        kernels={"cpu": lambda x, y: x + y},
        shape=lambda x_shape: x_shape,
        **options,
    )


@pytest.mark.parametrize(
    ("vjp", "count"),
    [(lambda g: (g,), 1), (lambda g: g, 1), (lambda g: (g, g, g), 3), (lambda g: (), 0)],
)
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_rule_that_returns_the_wrong_number_of_gradients_raises(vjp, count, create_graph):
    x, y = leaf([1.0]), leaf([1.0])
    with pytest.raises(ad.GradientError, match=rf"`bad` returned {count} gradients, expected 2"):
        bad_op(vjp=vjp)(x, y).backward(create_graph=create_graph)
    assert x.grad is None


@pytest.mark.parametrize(
    "wrong",
    [
        lambda g: ad.concat([g, g]),
        lambda g: ad.sum(g),
        lambda g: ad.expand_dims(g, 0),
        lambda g: ad.broadcast_to(g, (4, 1)),
    ],
)
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_rule_that_returns_a_gradient_of_the_wrong_shape_raises(wrong, joint, create_graph):
    rules = {"vjp": lambda g: (g, wrong(g))} if joint else {"x": lambda g: g, "y": wrong}
    y = bad_op(**rules)(leaf([1.0]), leaf([1.0]))
    with pytest.raises(ad.GradientError, match=r"`bad` returned a gradient of shape .*\(1,\)"):
        y.backward(create_graph=create_graph)


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_rule_that_returns_a_gradient_of_the_wrong_dtype_raises(create_graph):
    y = bad_op(x=lambda g: ad.astype(g, ad.float32), y=lambda g: g)(leaf([1.0]), leaf([1.0]))
    with pytest.raises(
        ad.GradientError, match=r"`bad` returned a gradient of dtype .*float32.*float64"
    ):
        y.backward(create_graph=create_graph)


@pytest.mark.parametrize("wrong", [lambda g: None, lambda g: (g, g), lambda g: 1.0])
def test_a_rule_that_returns_something_else_than_a_tensor_raises(wrong):
    y = bad_op(x=lambda g: g, y=wrong)(leaf([1.0]), leaf([1.0]))
    with pytest.raises(ad.GradientError, match=r"`bad` returned .* gradient of `y`"):
        y.backward()


@pytest.mark.parametrize("joint", [False, True])
def test_an_error_in_a_rule_surfaces_in_backward_as_it_is(joint):
    def fail(g):
        raise ZeroDivisionError("in the rule")

    rules = {"vjp": fail} if joint else {"x": fail, "y": lambda g: g}
    y = bad_op(**rules)(leaf([1.0]), leaf([1.0]))
    with pytest.raises(ZeroDivisionError, match="in the rule"):
        y.backward()


# 9. Deep graphs


def test_a_million_ops_build_run_backward_and_are_released():
    x = leaf(1.0)
    y = x
    for _ in range(1_000_000):
        y = -y
    y.backward()
    close(x.grad, 1.0)
    end = weakref.ref(y)
    del y
    assert end() is None


ADVANCE = {
    "one parent": lambda y, x: y * 1.0,
    "two parents": lambda y, x: y + x,
    "same parent twice": lambda y, x: ad.maximum(y, y),
    "several outputs": lambda y, x: ad.var(ad.concat([y, -y]), keepdims=True) * 0 + y,
}


@pytest.mark.parametrize("name", ADVANCE)
@pytest.mark.parametrize("way", ["grad", "gradients", "callback", "create_graph", "never"])
def test_deep_graphs_need_no_recursion_in_any_entry_point(way, name):
    x = leaf([1.0])
    y = x
    for _ in range(20_000 if name != "several outputs" else 5_000):
        y = ADVANCE[name](y, x)
    if way == "grad":
        assert np.isfinite(values(ad.autograd.grad(y, x)[0])).all()
    elif way == "gradients":
        assert x in ad.gradients(y)
    elif way == "callback":
        y.backward(on_leaf_grad=lambda tensor, g: None)
    elif way == "create_graph":
        g = derivative(y, x, create_graph=True)
        assert g.shape == x.shape
        del g
    del y


def test_a_doubling_graph_is_run_once_per_node_and_not_once_per_path():
    x = leaf(1.0)
    y = x
    for _ in range(60):
        y = y + y
    y.backward()
    close(x.grad, 2.0**60)


# 10. Hooks


def test_a_hook_sees_the_total_gradient_once():
    x, seen = leaf(2.0), []
    y = x * 3
    y.register_hook(lambda g: seen.append(g.item()))
    (y * y + y * 5 + y).backward()
    assert seen == [18.0]


def test_a_hook_on_a_leaf_sees_the_total_of_this_pass_only():
    x, seen = leaf(2.0), []
    x.register_hook(lambda g: seen.append(g.item()))
    for _ in range(2):
        (x * x + x).backward()
    assert seen == [5.0, 5.0]
    close(x.grad, 10.0)


def test_hooks_run_in_order_and_each_sees_the_formers_replacement():
    x, seen = leaf(1.0), []
    for number in (1, 2, 3):

        def hook(g, number=number):
            seen.append((number, g.item()))
            return None if number == 2 else g * 10

        x.register_hook(hook)
    (x * 7).backward()
    assert seen == [(1, 7.0), (2, 70.0), (3, 70.0)]
    close(x.grad, 700.0)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize(
    ("where", "expected"), [("root", 120.0), ("between", 120.0), ("leaf", 120.0)]
)
def test_a_replacement_counts_at_the_root_in_between_and_at_a_leaf(where, expected, create_graph):
    x = leaf(2.0)
    y = x * 3
    z = y * 2
    {"root": z, "between": y, "leaf": x}[where].register_hook(lambda g: g * 20)
    z.backward(create_graph=create_graph)
    close(x.grad, expected)


def test_a_hook_at_a_leaf_that_is_the_root_runs():
    x = leaf(2.0)
    x.register_hook(lambda g: g * 5)
    x.backward()
    close(x.grad, 5.0)


def test_hooks_run_for_leaves_before_grad_is_set_and_for_gradients_too():
    x = leaf(2.0)
    x.register_hook(lambda g: g * 5)
    close(ad.gradients(x * 1)[x], 5.0)


def test_a_handle_removes_its_hook_only():
    x = leaf(1.0)
    first = x.register_hook(lambda g: g + 1)
    x.register_hook(lambda g: g * 10)
    first.remove()
    first.remove()
    (x * 1).backward()
    close(x.grad, 10.0)


def test_a_handle_removes_its_hook_at_the_end_of_a_with_block():
    x = leaf(1.0)
    with x.register_hook(lambda g: g * 10):
        (x * 1).backward()
    (x * 1).backward()
    close(x.grad, 11.0)


def test_the_same_function_registered_twice_runs_twice_and_is_removed_once():
    def double(g):
        return g * 2

    x = leaf(1.0)
    x.register_hook(double)
    x.register_hook(double).remove()
    (x * 1).backward()
    close(x.grad, 2.0)
    x.register_hook(double)
    (x * 1).backward()
    close(x.grad, 6.0)


def test_a_hook_may_remove_itself_while_running_and_the_others_still_run():
    x, seen = leaf(1.0), []

    def once(g):
        handle.remove()
        seen.append("once")

    handle = x.register_hook(once)
    x.register_hook(lambda g: seen.append("always"))
    for _ in range(2):
        (x * 1).backward()
    assert seen == ["once", "always", "always"]


def test_a_hook_may_register_another_one_for_the_next_pass():
    x, seen = leaf(1.0), []
    x.register_hook(lambda g: x.register_hook(lambda g: seen.append("new")) and None)
    (x * 1).backward()
    assert seen == []
    (x * 1).backward()
    assert seen == ["new"]


@pytest.mark.parametrize(
    "wrong", [lambda g: 1.0, lambda g: ad.concat([g, g]), lambda g: ad.astype(g, ad.float32)]
)
def test_a_hook_that_returns_something_that_does_not_fit_raises(wrong):
    x = leaf([1.0])
    x.register_hook(wrong)
    with pytest.raises(ad.GradientError, match="hook"):
        (x * 1).backward()
    assert x.grad is None


def test_an_error_in_a_hook_surfaces_as_it_is():
    x = leaf(1.0)

    def fail(g):
        raise ZeroDivisionError("in the hook")

    x.register_hook(fail)
    with pytest.raises(ZeroDivisionError, match="in the hook"):
        (x * 1).backward()
    assert ad.is_grad_enabled()


def test_hooks_are_differentiated_with_create_graph():
    x = leaf(2.0)
    y = x * x
    y.register_hook(lambda g: g * g)
    g = derivative(y * x, x, create_graph=True)
    close(g, 2 * 2 * 4 + 4)  # x^2 from the hook, times 2x, plus y
    close(ad.autograd.grad(g, x)[0], 6 * 4 + 2 * 2)


def exponential_and_double() -> Any:
    """An op with two outputs whose rule reads one of them."""
    return ad.op.other(
        "exponential_and_double",
        outputs="e double",
        x=lambda g_e, g_double, e: g_e * e + 2 * g_double,
        kernels={"cpu": lambda x: (np.exp(x), 2 * x)},
        shape=lambda x_shape: (x_shape, x_shape),
    )


def test_a_hook_on_one_of_several_outputs_sees_the_total_at_second_order():
    """The rule reads that output too, so a gradient reaches it on a second way."""
    x, seen = leaf(0.0), []
    e, _ = exponential_and_double()(x)
    g = derivative(e, x, create_graph=True)
    e.register_hook(lambda g: seen.append(g.item()))
    (3 * g + 4 * e).backward()
    close(x.grad, 7.0)
    assert seen == [7.0]


def test_the_gradient_with_respect_to_one_of_several_outputs_is_total_at_second_order():
    x = leaf(0.0)
    e, _ = exponential_and_double()(x)
    y = 3 * derivative(e, x, create_graph=True) + 4 * e
    close(ad.gradients(y, of=[e], retain_graph=True)[e], 7.0)
    close(derivative(y, e), 7.0)


def test_large_gradients_of_an_op_with_several_outputs_are_right_at_second_order():
    """e = exp(x) - x - 1, with derivative e + x: one array is the gradient of this e and this x."""
    pair = ad.op.other(
        "pair",
        outputs="e same",
        x=lambda g_e, g_same, e, x: g_e * (e + x) + g_same,
        kernels={"cpu": lambda x: (np.exp(x) - x - 1, x.copy())},
        shape=lambda x_shape: (x_shape, x_shape),
    )
    data, weight = np.linspace(0, 1, 5000), np.linspace(1, 2, 5000)
    x, w = leaf(data), leaf(weight)
    e, _ = pair(x)
    product = e * w
    g = derivative(e.sum(), x, create_graph=True)
    out = ad.autograd.grad((g * weight + product).sum(), [x, w])
    close(out[0], weight * np.exp(data) + weight * (np.exp(data) - 1))
    close(out[1], np.exp(data) - data - 1)


def test_a_post_accumulate_hook_runs_once_per_backward_after_grad_is_set():
    x, seen = leaf(2.0), []
    x.register_post_accumulate_grad_hook(lambda tensor: seen.append((tensor is x, x.grad.item())))  # type: ignore[union-attr]
    for _ in range(2):
        (x * x + x * 3).backward()
    assert seen == [(True, 7.0), (True, 14.0)]


def test_a_post_accumulate_hook_may_use_the_gradient_up():
    x = leaf(2.0)

    def step(p):
        with ad.no_grad():
            p -= 0.5 * p.grad
        p.grad = None

    handle = x.register_post_accumulate_grad_hook(step)
    (x * x).backward()
    close(x, 0.0)
    assert x.grad is None
    handle.remove()
    (x * 1).backward()
    close(x.grad, 1.0)


def test_a_post_accumulate_hook_is_for_leaves():
    with pytest.raises(ad.GradientError, match="leaves"):
        (leaf(1.0) * 2).register_post_accumulate_grad_hook(print)


@pytest.mark.parametrize("ask", [ad.Tensor.backward, ad.gradients])
def test_on_leaf_grad_runs_once_per_leaf_with_the_total_gradient(ask):
    x, w, frozen = leaf(2.0), leaf(3.0), ad.asarray(1.0, dtype=ad.float64)
    seen = []
    loss = x * w + x * x * frozen + x
    ask(loss, on_leaf_grad=lambda tensor, g: seen.append((tensor, g.item())))
    assert len(seen) == 2
    assert {id(tensor): g for tensor, g in seen} == {id(x): 8.0, id(w): 2.0}


def test_on_leaf_grad_gets_what_this_pass_adds_after_grad_is_set():
    x, seen = leaf(2.0), []
    for _ in range(2):
        (x * x).backward(on_leaf_grad=lambda tensor, g: seen.append((g.item(), tensor.grad.item())))
    assert seen == [(4.0, 4.0), (4.0, 8.0)]


def test_on_leaf_grad_runs_for_a_leaf_that_is_the_root():
    x, seen = leaf(2.0), []
    x.backward(on_leaf_grad=lambda tensor, g: seen.append((tensor is x, g.item())))
    assert seen == [(True, 1.0)]


@pytest.mark.parametrize("name", ["backward", "gradients"])
def test_on_leaf_grad_reports_a_late_used_leaf_before_early_nodes_run(name):
    """Layers 0, 1, 2: the gradient of weight 2 can be sent while layer 0 is still to be run."""
    log: list[str] = []
    weights = [leaf([[2.0]]) for _ in range(3)]
    x = leaf([[1.0]])
    names = {id(w): f"weight {k}" for k, w in enumerate(weights)} | {id(x): "x"}
    h = x
    for k, w in enumerate(weights):
        h = h @ w
        h.register_hook(lambda g, k=k: log.append(f"layer {k}"))
    ask = ad.gradients if name == "gradients" else ad.Tensor.backward
    ask(h, on_leaf_grad=lambda tensor, g: log.append(names[id(tensor)]))
    assert log[:5] == ["layer 2", "weight 2", "layer 1", "weight 1", "layer 0"]
    assert sorted(log[5:]) == ["weight 0", "x"]


def test_on_leaf_grad_waits_for_the_last_contribution():
    log: list[str] = []
    w, x = leaf(2.0), leaf(3.0)
    first = x * w
    first.register_hook(lambda g: log.append("first"))
    second = first * w
    second.register_hook(lambda g: log.append("second"))
    second.backward(on_leaf_grad=lambda tensor, g: log.append(f"leaf {g.item()}"))
    assert log[:2] == ["second", "first"]
    assert sorted(log[2:]) == ["leaf 12.0", "leaf 4.0"]


def test_an_error_in_on_leaf_grad_surfaces_as_it_is():
    def fail(tensor, g):
        raise ZeroDivisionError("in the callback")

    x = leaf(1.0)
    with pytest.raises(ZeroDivisionError, match="in the callback"):
        (x * 2).backward(on_leaf_grad=fail)


# 12. Non-contiguous

STRIDED = {
    "transposed": lambda a: a.T,
    "reversed": lambda a: a[::-1, ::-1],
    "every second": lambda a: np.repeat(np.repeat(a, 2, 0), 2, 1)[::2, ::2],
    "broadcast": lambda a: np.broadcast_to(a[:1], (4, 4)),
    "fortran": np.asfortranarray,
}

FUNCTIONS = {
    "exp": ad.exp,
    "multiply": lambda x: x * x,
    "sum": lambda x: ad.sum(x, axis=0),
    "max": lambda x: ad.max(x, axis=1),
    "var": lambda x: ad.var(x, axis=0),
    "matmul": lambda x: x @ x,
    "reshape": lambda x: ad.reshape(x, (2, 8)),
    "permute": lambda x: ad.permute_dims(x, (1, 0)),
    "slice": lambda x: x[::-2, 1:],
    "index": lambda x: x[[0, 0, 2], [1, 1, 3]],
    "softmax": lambda x: ad.softmax(x, axis=0),
    "cumulative_sum": lambda x: ad.cumulative_sum(x, axis=1),
    "concat": lambda x: ad.concat([x, x.T], axis=1),
    "topk": lambda x: ad.topk(x, 2, axis=0).values,
    "where": lambda x: ad.where(x > 0.5, x, -x),
    "set": lambda x: x.at[::2].set(x[::2].T.T * 3),
    "conv2d": lambda x: ad.nn.functional.conv2d(
        ad.reshape(x, (1, 1, 4, 4)), ad.reshape(x[:2, :2], (1, 1, 2, 2))
    ),
}


@pytest.mark.parametrize("layout", STRIDED)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_inputs_and_gradients_in_any_layout_give_what_contiguous_ones_give(name, layout):
    view = STRIDED[layout](np.random.default_rng(0).random((4, 4)))
    shape = FUNCTIONS[name](ad.asarray(view)).shape
    seed = np.random.default_rng(1).random(shape[::-1]).T

    def run(data, seed):
        x = ad.asarray(data, requires_grad=True)
        y = FUNCTIONS[name](x)
        y.backward(gradient=ad.asarray(seed))
        return values(y), values(x.grad)

    plain = run(np.ascontiguousarray(view), np.ascontiguousarray(seed))
    for strided, contiguous in zip(run(view, seed), plain, strict=True):
        np.testing.assert_allclose(strided, contiguous, rtol=1e-13)


# 13. Modes


def test_no_grad_and_enable_grad_are_context_managers_that_nest_and_restore():
    x = leaf(1.0)
    with ad.no_grad():
        assert not (x * 2).requires_grad
        with ad.enable_grad():
            assert (x * 2).requires_grad
        assert not ad.is_grad_enabled()
        with ad.no_grad():
            pass
        assert not ad.is_grad_enabled()
    assert (x * 2).requires_grad


@pytest.mark.parametrize("way", ["called", "bare"])
def test_no_grad_and_enable_grad_are_decorators(way):
    silent = ad.no_grad() if way == "called" else ad.no_grad
    loud = ad.enable_grad() if way == "called" else ad.enable_grad

    @silent
    def quiet(x, *, factor):
        """Documented."""
        return x * factor, recorded(x)

    @loud
    def recorded(x):
        return x * 2

    first, second = quiet(leaf(1.0), factor=3)
    assert (first.requires_grad, second.requires_grad) == (False, True)
    assert (quiet.__name__, quiet.__doc__) == ("quiet", "Documented.")
    assert ad.is_grad_enabled()


def test_a_decorated_function_may_call_itself():
    @ad.no_grad()
    def count(x, n):
        return x if n == 0 else count(x * 2, n - 1)

    assert not count(leaf(1.0), 5).requires_grad
    assert ad.is_grad_enabled()


@pytest.mark.parametrize("mode", [ad.no_grad, ad.enable_grad, ad.detect_anomaly])
def test_modes_are_restored_after_an_error(mode):
    with pytest.raises(ZeroDivisionError), mode():
        raise ZeroDivisionError
    assert ad.is_grad_enabled()
    assert ad.log(ad.tensor(0.0)).item() == -np.inf


def test_grad_mode_is_thread_local():
    seen = {}
    inside, checked = threading.Event(), threading.Event()

    def other():
        seen["at start"] = ad.is_grad_enabled()
        with ad.no_grad():
            inside.set()
            checked.wait(5)

    with ad.no_grad():
        thread = threading.Thread(target=other)
        thread.start()
        assert inside.wait(5)
    seen["here"] = ad.is_grad_enabled()
    checked.set()
    thread.join()
    assert seen == {"at start": True, "here": True}


def test_a_leaf_may_be_made_under_no_grad():
    with ad.no_grad():
        x = leaf(2.0)
        assert x.requires_grad
    (x * x).backward()
    close(x.grad, 4.0)


@pytest.mark.parametrize("name", ASKERS)
def test_backward_under_no_grad_works_on_a_graph_that_was_recorded(name):
    x = leaf(2.0)
    y = x * x
    with ad.no_grad():
        ASKERS[name](y, x)
        assert not ad.is_grad_enabled()


def test_create_graph_under_no_grad_still_records():
    x = leaf(2.0)
    y = x**3
    with ad.no_grad():
        g = derivative(y, x, create_graph=True)
    close(ad.autograd.grad(g, x)[0], 12.0)


def test_hooks_do_not_record_unless_a_graph_is_created():
    x, seen = leaf(2.0), []
    x.register_hook(lambda g: seen.append((g * x).requires_grad))
    (x * x).backward()
    (x * x).backward(create_graph=True)
    assert seen == [False, True]


def test_detach_has_the_values_and_no_graph():
    x = leaf([1.0, 2.0])
    y = (x * 2).detach()
    assert not y.requires_grad
    assert y.is_leaf
    close(y, [2.0, 4.0])
    (x.detach() * x).sum().backward()
    close(x.grad, [1.0, 2.0])


def test_requires_grad_makes_and_unmakes_leaves():
    x = ad.asarray(np.array([1.0, 2.0]))
    assert x.requires_grad_() is x
    (x * x).sum().backward()
    close(x.grad, [2.0, 4.0])
    x.requires_grad_(False)
    assert not (x * 2).requires_grad
    x.requires_grad = True
    assert (x * 2).requires_grad


def test_requires_grad_is_for_leaves_and_floats():
    with pytest.raises(ad.GradientError, match=r"multiply.*detach\(\)"):
        (leaf(1.0) * 2).requires_grad_(False)
    with pytest.raises(ad.DTypeError, match="int64"):
        ad.asarray([1, 2]).requires_grad_()


# 14. detect_anomaly


def this_line(offset: int = 0) -> str:
    """Where the caller is."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return f'{__file__}", line {frame.f_back.f_lineno + offset}'


@pytest.mark.parametrize(
    ("name", "function", "shapes"),
    [
        ("log", lambda x: ad.log(x), ["[2, 1]"]),
        ("divide", lambda x: x / ad.zeros((3,), dtype=ad.float64), ["[2, 1]", "[3]", "[2, 3]"]),
        ("sqrt", lambda x: ad.sqrt(x - 1), ["[2, 1]"]),
        ("matmul", lambda x: x @ ad.asarray(np.full((1, 3), 1e308)) @ ad.ones((3, 2)), ["[2, 3]"]),
    ],
)
def test_the_first_bad_forward_value_raises_with_op_and_shapes(name, function, shapes):
    x = leaf(np.full((2, 1), 0.0 if name != "matmul" else 1.0))
    with ad.detect_anomaly(), pytest.raises(ad.AnomalyError, match=rf"^{name}\(") as error:
        function(x)
    for shape in shapes:
        assert shape in str(error.value)


@pytest.mark.parametrize(("value", "word"), [(0.0, "infinity"), (-1.0, "NaN")])
def test_an_anomaly_in_forward_shows_the_line_that_made_it(value, word):
    x = ad.asarray([value])
    with ad.detect_anomaly(), pytest.raises(ad.AnomalyError) as error:
        ad.log(x)  # the culprit
    assert this_line(-1) in str(error.value)
    assert "ad.log(x)  # the culprit" in str(error.value)
    assert word in str(error.value)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("sqrt", lambda x: ad.sqrt(x)),
        ("pow", lambda x: x**0.5),
        (
            "hypot",
            lambda x: ad.op.elementwise("hypot", x=lambda g, x: g / x, forward=lambda x: ad.abs(x))(
                x
            ),
        ),
    ],
)
def test_the_first_bad_gradient_raises_with_the_forward_op_and_shapes(name, function):
    x = leaf([0.0, 1.0])
    with ad.detect_anomaly():
        y = function(x).sum()
        with pytest.raises(ad.AnomalyError, match=rf"\b{name}\b") as error:
            y.backward()
    assert "(2,)" in str(error.value) or "[2]" in str(error.value)
    assert x.grad is None


def test_an_anomaly_in_a_gradient_shows_the_line_of_the_forward_call():
    x = leaf([0.0, 1.0])
    with ad.detect_anomaly():
        y = ad.sqrt(x)  # the culprit
        line = this_line(-1)
        total = (y * 2).sum()
        with pytest.raises(ad.AnomalyError) as error:
            total.backward()
    assert line in str(error.value)
    assert "ad.sqrt(x)  # the culprit" in str(error.value)


def test_an_anomaly_in_a_gradient_of_a_forward_without_detection_says_how_to_see_its_line():
    y = ad.sqrt(leaf(0.0))
    with ad.detect_anomaly(), pytest.raises(ad.AnomalyError, match=r"sqrt(.|\n)*detect_anomaly"):
        y.backward()


def test_infinities_inside_a_rule_that_do_not_reach_its_result_are_no_anomaly():
    safe = ad.op.elementwise(
        "safe",
        x=lambda g, x: ad.where(x > 0, g / ad.abs(x), 0),
        forward=lambda x: ad.where(x > 0, x, 0),
    )
    x = leaf([0.0, 2.0])
    with ad.detect_anomaly():
        safe(x).sum().backward()
    close(x.grad, [0.0, 0.5])


def test_detect_anomaly_changes_no_result():
    def run():
        x = leaf(np.linspace(0.1, 1, 6).reshape(2, 3))
        y = ad.softmax(ad.tanh(x) @ x.T).sum(axis=0)
        (y * y).mean().backward()
        return values(x.grad)

    plain = run()
    with ad.detect_anomaly():
        np.testing.assert_allclose(run(), plain, rtol=1e-13)


def test_without_detect_anomaly_infinities_pass():
    x = leaf(0.0)
    ad.sqrt(x).backward()
    assert values(x.grad) == np.inf


def test_an_input_without_a_rule_gets_no_gradient():
    scaled = ad.op.elementwise(
        "scaled", inputs="x y", x=lambda g, y: g * y, forward=lambda x, y: x * y
    )
    x, y = leaf([2.0]), leaf([3.0])
    grads = ad.gradients(scaled(x, y).sum())
    assert grads[x].tolist() == [3.0] and y not in grads
    assert not scaled(x.detach(), y).requires_grad


def both_ways(y, x) -> tuple:
    """The gradient by compiled rules, and by rules on tensors."""
    compiled = ad.autograd.grad(y, x, retain_graph=True)[0]
    return compiled.tolist(), ad.autograd.grad(y, x, create_graph=True)[0].tolist()


def test_a_compiled_rule_keeps_the_digits_of_inputs_of_another_dtype():
    pick = ad.op.elementwise(
        "pick",
        inputs="x n",
        promotes="x",
        dtype="x",
        forward=lambda x, n: x * 1.0,
        x=lambda g, n: ad.where(n == 16777217, g * n, 0.0),
    )
    x = ad.tensor([1.0, 1.0], requires_grad=True)
    y = pick(x, ad.tensor([16777216, 16777217])).sum()
    assert both_ways(y, x) == ([0.0, 16777216.0], [0.0, 16777216.0])


def test_a_forward_of_ops_promotes_like_the_ops():
    half = ad.op.elementwise("half", forward=lambda x: x * 0.5, x=lambda g: g * 0.5)
    out = half(ad.tensor([3, 5]))
    assert out.tolist() == [1.5, 2.5] and out.dtype == ad.float32
    select = ad.op.elementwise(
        "select",
        inputs="c x",
        promotes="x",
        dtype="x",
        forward=lambda c, x: ad.where(c, x * 0.5, x),
        x=lambda g, c: ad.where(c, g * 0.5, g),
    )
    assert select(ad.tensor([True, False]), ad.tensor([5.0, 5.0])).tolist() == [2.5, 5.0]


@pytest.mark.parametrize("kind", ["elementwise", "other"])
def test_an_optional_input_may_be_left_out(kind):
    shifted = getattr(ad.op, kind)(
        "shifted",
        inputs="x b?",
        forward=lambda x, b=None: x * 2.0 if b is None else x * 2.0 + b,
        x=lambda g, b: g * 2.0 if b is None else g * 2.0 + 0 * b,
        b=lambda g: g,
    )
    x, b = leaf([1.0]), leaf([3.0])
    assert shifted(x).tolist() == shifted(x, None).tolist() == [2.0]
    assert ad.gradients(shifted(x))[x].tolist() == [2.0]
    grads = ad.gradients(shifted(x, b))
    assert (grads[x].tolist(), grads[b].tolist()) == ([2.0], [1.0])


def test_an_elementwise_op_may_take_any_number_of_inputs():
    total = ad.op.elementwise(
        "total", inputs="*xs", forward=lambda *xs: sum(xs[1:], xs[0]), xs=lambda g: g
    )
    xs = [leaf([1.0]), leaf([2.0]), leaf([3.0])]
    out = total(*xs)
    assert out.tolist() == [6.0] and all(g.item() == 1.0 for g in ad.gradients(out).values())


def test_partial_gradients_are_never_kept_when_a_callback_raises():
    last, early = leaf(1.0), leaf(1.0)
    a, b, c = early * 3, last * 5, early * 7

    def callback(tensor, g):
        if tensor is last:
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        (a + b + c).backward(on_leaf_grad=callback)
    assert early.grad is None


@pytest.mark.parametrize(
    "work",
    [
        lambda: ad.tensor([1.0, 2.0]).__itruediv__(ad.tensor([0.0, 1.0])),
        lambda: ad.tensor([1.0, 2.0]).add_(ad.tensor([float("inf"), 1.0])),
        lambda: ad.tensor([1.0, 2.0]).__setitem__(0, float("nan")),
        lambda: ad.tensor([1.0, 2.0]).__setitem__(..., float("nan")),
    ],
)
def test_anomalies_are_found_in_writes_too(work):
    with ad.detect_anomaly(), pytest.raises(ad.AnomalyError):
        work()


def test_anomalies_are_found_in_sums_of_gradients():
    x = ad.tensor([1e-3], requires_grad=True)
    with ad.detect_anomaly(), pytest.raises(ad.AnomalyError, match="total gradient"):
        (x * 3e38 + x * 3e38).sum().backward()


def test_retain_grad_follows_a_tensor_through_its_changes():
    x = leaf([2.0])
    y = x * 1.0
    y.retain_grad()
    y *= 5.0
    y.sum().backward()
    assert y.grad.tolist() == [1.0]


def test_a_long_rule_with_shared_parts_compiles_in_no_time():
    """As a tree it has 2**200 nodes, and it is deeper than Python's stack."""

    def rule(g, x):
        shared = x
        for _ in range(200):
            shared = (shared + shared) * 0.5
        for _ in range(1500):
            shared = shared + 0.0
        return g * shared

    op = ad.op.elementwise("long", x=rule, forward=lambda x: x * x * 0.5)
    x = ad.tensor([3.0], requires_grad=True)
    assert both_ways(op(x).sum(), x) == ([3.0], [3.0])


# Misuse that was silent


def test_gradients_takes_one_tensor_for_of_and_says_what_isn_t_one() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    h = x * 3
    assert ad.gradients((h * h).sum(), of=h)[h].tolist() == [6.0, 12.0]
    with pytest.raises(ad.DTypeError, match=r"gradients: of\[1\] is a NoneType, not a tensor"):
        ad.gradients(h.sum(), of=[h, None])  # type: ignore[list-item]


def test_gradients_that_are_equal_are_tensors_of_their_own() -> None:
    w = ad.tensor([1.0, 2.0], requires_grad=True)
    x, y = (ad.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    loss = ((x + y) * w).sum()
    a, b = ad.autograd.grad(loss, [x, y], create_graph=True)
    grads = ad.gradients(loss, create_graph=True)
    loss.backward(create_graph=True)
    assert a is not b and grads[x] is not grads[y] and x.grad is not y.grad


def test_hooks_and_callbacks_are_functions() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    for call in (
        lambda: x.register_hook(3),  # type: ignore[arg-type]
        lambda: x.register_post_accumulate_grad_hook(3),  # type: ignore[arg-type]
        lambda: x.sum().backward(on_leaf_grad=3),
        lambda: ad.gradients(x.sum(), on_leaf_grad=3),  # type: ignore[arg-type]
    ):
        with pytest.raises(ad.DTypeError, match="a function is needed, got int"):
            call()


def test_a_leaf_may_stop_to_require_grad_in_its_callback() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    grads = ad.gradients((x * x).sum(), on_leaf_grad=lambda t, g: t.requires_grad_(False))
    assert x not in grads and not x.requires_grad


def test_one_no_grad_object_in_two_threads() -> None:
    switch = ad.no_grad()
    inside, leave = threading.Event(), threading.Event()
    after: list[bool] = []

    def other() -> None:
        with switch:
            inside.set()
            leave.wait()
        after.append(ad.is_grad_enabled())

    thread = threading.Thread(target=other)
    with ad.no_grad(), switch:
        thread.start()
        inside.wait()
    assert ad.is_grad_enabled()
    leave.set()
    thread.join()
    assert after == [True]


def test_the_gradient_of_many_concatenated_tensors_takes_one_pass_over_them() -> None:
    xs = [ad.tensor([float(k)], requires_grad=True) for k in range(3000)]
    out = ad.concat([*xs[:2], ad.ones(3), *xs[2:]])
    (out * ad.arange(3003.0)).sum().backward()
    assert [x.grad.item() for x in xs[:4]] == [0, 1, 5, 6]  # type: ignore[union-attr]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_doesn_t_wait_for_locks_of_its_parent_s_threads() -> None:
    script = """
import os, sys, warnings
warnings.simplefilter("ignore")
import adjoint as ad
from adjoint import autograd
from adjoint.random import _generator
autograd.accumulation.acquire()
_generator.default._turn.acquire()
pid = os.fork()
if not pid:
    x = ad.tensor(2.0, requires_grad=True)
    (x * x).backward()
    ad.random.uniform((2,))
    os._exit(0 if x.grad.item() == 4 else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", script], timeout=60, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("create_graph", [False, True])
def test_an_interrupt_between_two_nodes_keeps_gradients_that_are_complete(
    monkeypatch: pytest.MonkeyPatch, create_graph: bool
) -> None:
    leaves = [ad.tensor(1.0 + k, requires_grad=True) for k in range(7)]
    y = ad.tensor(0.5)
    for x in leaves:
        y = ad.sin(y) * x
    pops = itertools.count(1)

    def pop(heap):
        if next(pops) == 7:
            raise KeyboardInterrupt
        return heapq.heappop(heap)

    for module in ("serial", "totals"):
        monkeypatch.setattr(f"adjoint._engine.{module}.heappop", pop)
    with pytest.raises(KeyboardInterrupt):
        y.backward(create_graph=create_graph)
    assert [x.grad is not None for x in leaves].count(True) >= 2
