"""SPEC B: what the reference systems got wrong, each as a test."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.testing import check_grads
from tests.support.helpers import close, derivative, leaf, values


def second_derivative(f, at: float) -> ad.Tensor:
    x = leaf(at)
    return derivative(derivative(f(x), x, create_graph=True), x)


def hessian_times(f, at, vector) -> ad.Tensor:
    x = leaf(at)
    g = derivative(f(x), x, create_graph=True)
    return derivative(g, x, ad.asarray(np.asarray(vector, np.float64)))


# 1


def test_the_gradient_of_a_sum_of_exponentials_reaches_x_and_callbacks_fire_on_x_only():
    x, fired = leaf([0.0, 1.0]), []
    ad.sum(ad.exp(2 * x)).backward(on_leaf_grad=lambda tensor, g: fired.append(tensor))
    close(x.grad, [2.0, 14.7781121978613])
    assert len(fired) == 1
    assert fired[0] is x


# 2


def test_the_hessian_of_a_squared_sum_has_its_off_diagonal():
    for square in (lambda s: s * s, lambda s: s**2, lambda s: ad.pow(s, 2.0), ad.square):
        close(hessian_times(lambda x, f=square: f(x.sum()), [1.0, 2.0], [1.0, 0.0]), [2.0, 2.0])


@pytest.mark.parametrize(
    ("f", "hessian"),
    [
        (lambda x: ad.exp(x).sum(), np.diag(np.exp([1.0, 2.0]))),
        (lambda x: (1 / x).sum(), np.diag([2.0, 0.25])),
        (lambda x: x.sum() ** 2, np.full((2, 2), 2.0)),
    ],
    ids=["sum of exp", "sum of reciprocals", "squared sum"],
)
def test_hessians_are_right_and_not_zero(f, hessian):
    for row, unit in zip(hessian, np.eye(2), strict=True):
        close(hessian_times(f, [1.0, 2.0], unit), row)


# 3


@pytest.mark.parametrize(
    ("f", "at", "expected"),
    [
        (ad.exp, 0.5, 1.6487212707001282),
        (ad.sigmoid, 1.0, -0.0908577476729484),
        (ad.tanh, 0.5, -2 * np.tanh(0.5) / np.cosh(0.5) ** 2),
        (ad.sqrt, 4.0, -0.03125),
        (lambda x: x**3, 2.0, 12.0),
        (lambda x: x**-1, 2.0, 0.25),
        (lambda x: ad.pow(2.0, x), 1.0, 2 * np.log(2) ** 2),
        (ad.log, 2.0, -0.25),
        (lambda x: 1 / x, 2.0, 0.25),
    ],
)
def test_second_derivatives_have_the_known_numbers(f, at, expected):
    close(second_derivative(f, at), expected)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: ad.softmax(x, axis=1),
        lambda x: ad.softmax(x, axis=0),
        lambda x: ad.log_softmax(x, axis=1),
        lambda x: ad.var(x),
        lambda x: ad.var(x, axis=0, correction=1),
        lambda x: ad.var(x, axis=1, keepdims=True),
        lambda x: ad.exp(x[:, 1:]),
        lambda x: x[::-1] * x[:, ::2].sum(),
        lambda x: ad.concat([x * x, ad.exp(x)], axis=1),
        lambda x: x**3 * ad.tanh(x),
        lambda x: ad.sqrt(x * x + 1),
        lambda x: ad.mean(x, axis=0) ** 2,
        lambda x: ad.max(x, axis=1) ** 2,
        lambda x: x @ x.T,
    ],
)
def test_softmax_var_slices_concat_and_others_keep_second_order(f):
    check_grads(f, [ad.asarray(np.random.default_rng(0).normal(size=(2, 3)))], order=2)


def test_pow_keeps_second_order_in_base_and_exponent():
    check_grads(ad.pow, [ad.asarray([1.5, 0.5]), ad.asarray([2.0, -1.0])], order=2)


# 6


@pytest.mark.parametrize(
    ("x_shape", "y_shape", "out_shape"),
    [
        ((4, 2, 3), (3, 5), (4, 2, 5)),
        ((2, 3), (4, 3, 5), (4, 2, 5)),
        ((1, 2, 3), (4, 3, 5), (4, 2, 5)),
        ((6, 1, 2, 3), (4, 3, 5), (6, 4, 2, 5)),
        ((3,), (3,), ()),
        ((3,), (4, 3, 5), (4, 5)),
        ((4, 2, 3), (3,), (4, 2)),
        ((2, 1), (1, 5), (2, 5)),
        ((1, 3), (3, 1), (1, 1)),
    ],
)
def test_matmul_gradients_have_the_shapes_of_the_operands(x_shape, y_shape, out_shape):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=x_shape), rng.normal(size=y_shape)
    x, y = leaf(a), leaf(b)
    out = x @ y
    assert out.shape == out_shape
    close(out, a @ b)
    out.sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    assert (x.grad.shape, y.grad.shape) == (x_shape, y_shape)
    check_grads(ad.matmul, [a, b], order=2)


def test_reshape_after_transpose_works():
    a = np.arange(6.0).reshape(2, 3)
    weights = np.arange(6.0)
    x = leaf(a)
    y = x.T.reshape(6)
    close(y, a.T.reshape(6))
    (y * weights).sum().backward()
    close(x.grad, weights.reshape(3, 2).T)


# 7


def test_the_derivative_of_abs_at_zero_is_zero():
    x = leaf([0.0, -0.0, -2.0, 3.0])
    ad.abs(x).sum().backward()
    close(x.grad, [0.0, 0.0, -1.0, 1.0])


@pytest.mark.parametrize(
    ("exponent", "first"), [(1, 1.0), (1.0, 1.0), (1.5, 0.0), (2, 0.0), (3, 0.0), (7.5, 0.0)]
)
def test_pow_at_zero_has_a_finite_gradient_for_exponents_from_one(exponent, first):
    x = leaf([0.0, 0.0])
    (x**exponent).sum().backward()
    close(x.grad, [first, first])
    x, y = leaf(0.0), leaf(float(exponent))
    (x**y).backward()
    close(x.grad, first)
    close(y.grad, 0.0)


@pytest.mark.parametrize("exponent", [0, 0.0])
def test_x_to_the_zero_is_one_with_gradient_zero_also_at_zero(exponent):
    x = leaf([0.0, 2.0, -3.0])
    y = x**exponent
    close(y, [1.0, 1.0, 1.0])
    y.sum().backward()
    close(x.grad, [0.0, 0.0, 0.0])


@pytest.mark.parametrize(("exponent", "second"), [(0, 0.0), (1, 0.0), (2, 2.0), (3, 0.0)])
def test_pow_at_zero_has_the_right_second_derivative(exponent, second):
    close(second_derivative(lambda x: x**exponent, 0.0), second)
    close(second_derivative(lambda x: ad.pow(x, exponent), 0.0), second)


def test_pow_of_negative_numbers_has_a_gradient():
    x = leaf([-2.0, -1.0])
    (x**3).sum().backward()
    close(x.grad, [12.0, 3.0])


# 8


def test_permute_carries_its_gradient_back():
    x = leaf(np.zeros((2, 3)))
    (x.permute(1, 0) * np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])).sum().backward()
    close(x.grad, [[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]])


def test_permute_of_three_axes_uses_the_inverse_order():
    weights = np.arange(24.0).reshape(4, 2, 3)
    x = leaf(np.zeros((2, 3, 4)))
    (ad.permute_dims(x, (2, 0, 1)) * weights).sum().backward()
    close(x.grad, weights.transpose(1, 2, 0))


def test_broadcast_to_carries_gradients():
    x = leaf([[1.0], [2.0]])
    (ad.broadcast_to(x, (3, 2, 2)) * np.arange(12.0).reshape(3, 2, 2)).sum().backward()
    close(x.grad, [[0 + 1 + 4 + 5 + 8 + 9], [2 + 3 + 6 + 7 + 10 + 11]])


def test_cumulative_sum_carries_gradients():
    x = leaf([1.0, 2.0, 3.0])
    (ad.cumulative_sum(x) * np.array([1.0, 10.0, 100.0])).sum().backward()
    close(x.grad, [111.0, 110.0, 100.0])


def test_topk_carries_gradients_to_the_values_taken():
    x = leaf([1.0, 5.0, 3.0, 5.0])
    top = ad.topk(x, 3)
    assert top.indices.tolist() == [1, 3, 2]
    (top.values * np.array([1.0, 10.0, 100.0])).sum().backward()
    close(x.grad, [0.0, 1.0, 100.0, 10.0])


def test_casts_carry_gradients_in_the_dtype_before():
    x = leaf([1.0, 2.0], np.float32)
    y = ad.astype(x, ad.float64)
    (y * np.array([3.0, 4.0])).sum().backward()
    close(x.grad, [3.0, 4.0])
    assert x.grad is not None
    assert x.grad.dtype is ad.float32


def test_casts_to_integers_cut_the_graph():
    assert not ad.astype(leaf([1.5]), ad.int32).requires_grad


# 9


def test_a_clipping_hook_sees_the_sum_of_contributions():
    x = leaf(1.0)
    x.register_hook(lambda g: ad.clip(g, max=1.0))
    (0.8 * x + 0.8 * x).backward()
    close(x.grad, 1.0)


def test_hooks_on_the_root_run():
    x, seen = leaf(1.0), []
    y = x * 2
    y.register_hook(lambda g: seen.append(g.item()))
    y.backward()
    assert seen == [1.0]


def test_a_hook_that_removes_itself_does_not_deadlock():
    x = leaf(1.0)
    handle = x.register_hook(lambda g: handle.remove())
    for _ in range(2):
        (x * 2).backward()
    close(x.grad, 4.0)


# 11


def mse(p, t):
    return ad.mean((p - t) ** 2)


def test_ten_times_mse_has_ten_times_the_gradient_and_the_target_gets_one_too():
    grads = []
    for factor in (1, 10):
        p, t = leaf([1.0, 2.0]), leaf([0.0, 4.0])
        (factor * mse(p, t)).backward()
        grads.append((values(p.grad), values(t.grad)))
    np.testing.assert_allclose(grads[0], [[1.0, -2.0], [-1.0, 2.0]])
    np.testing.assert_allclose(grads[1], 10 * np.array(grads[0]))


def test_two_losses_on_one_graph_give_exact_sums():
    x = leaf([1.0, 2.0])
    h = ad.exp(x)
    first, second = h.sum(), (h * h).sum()
    first.backward(retain_graph=True)
    second.backward()
    e = np.exp([1.0, 2.0])
    close(x.grad, e + 2 * e * e)


def test_a_second_backward_gives_exactly_twice_the_gradient_and_no_stale_intermediates():
    x = leaf([1.0, 2.0])
    loss = mse(ad.tanh(x) * x, x)
    loss.backward(retain_graph=True)
    once = values(x.grad).copy()
    for times in (2, 3):
        loss.backward(retain_graph=True)
        np.testing.assert_array_equal(values(x.grad), sum([once] * times))


# 12


def test_conv2d_with_stride_two_gives_the_whole_image_a_gradient():
    x, w = leaf(np.ones((1, 1, 4, 4))), leaf(np.full((1, 1, 1, 1), 3.0))
    ad.nn.functional.conv2d(x, w, stride=2).sum().backward()
    expected = np.zeros((1, 1, 4, 4))
    expected[:, :, ::2, ::2] = 3
    close(x.grad, expected)
    close(w.grad, np.full((1, 1, 1, 1), 4.0))


def test_conv2d_of_a_single_pixel_with_padding_works():
    w = np.arange(9.0).reshape(1, 1, 3, 3)
    x, weight, bias = leaf(np.full((1, 1, 1, 1), 2.0)), leaf(w), leaf([0.5])
    out = ad.nn.functional.conv2d(x, weight, bias, padding=1)
    close(out, np.full((1, 1, 1, 1), 8.5))
    out.sum().backward()
    close(x.grad, np.full((1, 1, 1, 1), 4.0))
    only_centre = np.zeros((1, 1, 3, 3))
    only_centre[0, 0, 1, 1] = 2
    close(weight.grad, only_centre)
    close(bias.grad, [1.0])


def test_conv2d_keeps_second_order():
    rng = np.random.default_rng(0)
    args = [rng.normal(size=s) for s in ((2, 2, 4, 4), (4, 1, 2, 2), (4,))]
    check_grads(
        lambda x, w, b: ad.nn.functional.conv2d(x, w, b, stride=2, padding=1, groups=2), args
    )


@pytest.mark.parametrize("offset", [1e4, -1e4])
def test_the_variance_of_numbers_with_a_large_mean_is_accurate(offset):
    noise = np.random.default_rng(0).normal(size=(4, 1000))
    x = (noise + offset).astype(np.float32)
    exact = x.astype(np.float64).var(axis=1)
    np.testing.assert_allclose(ad.var(ad.asarray(x), axis=1).numpy(), exact, rtol=1e-4)


# 13


UPDATES = {
    "+=": lambda w: w.__iadd__(ad.asarray(np.array([100.0, 100.0]))),
    "*=": lambda w: w.__imul__(3.0),
    "item": lambda w: w.__setitem__(0, 100.0),
    "all": lambda w: w.__setitem__(Ellipsis, ad.zeros((2,))),
    "add_": lambda w: w.add_(ad.asarray(np.array([1.0, 1.0])), alpha=-5.0),
}


@pytest.mark.parametrize("name", UPDATES)
def test_an_update_between_forward_and_backward_does_not_corrupt_the_gradient(name):
    w = leaf([2.0, 3.0])
    loss = (w * w * w).sum()
    with ad.no_grad():
        UPDATES[name](w)
    loss.backward()
    close(w.grad, [12.0, 27.0])


def test_an_optimizer_step_between_forward_and_backward_does_not_corrupt_the_gradient():
    w = leaf([2.0, 3.0])
    optimizer = ad.optim.SGD([w], lr=0.5)
    first, second = (w * w).sum(), (w * w * w).sum()
    first.backward()
    optimizer.step()
    close(w, [0.0, 0.0])
    optimizer.zero_grad()
    second.backward()
    close(w.grad, [12.0, 27.0])


def test_frozen_parameters_are_not_updated():
    w, frozen = leaf([2.0]), leaf([3.0])
    optimizer = ad.optim.SGD([w, frozen], lr=0.1, momentum=0.9, weight_decay=0.1)
    (w * frozen).sum().backward()
    frozen.requires_grad_(False)
    optimizer.step()
    close(frozen, [3.0])
    assert w.item() != 2.0
    (w * frozen).sum().backward()
    close(frozen.grad, [2.0])
