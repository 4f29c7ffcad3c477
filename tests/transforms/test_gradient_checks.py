"""check_grads: which dtypes f may use on the way, and that wrong rules are found in all of them, of
every order and argument, in every element."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.testing import check_grads

X = np.array([0.5, -1.3, 2.0])
DTYPES = [ad.float64, ad.float32, ad.float16]
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)

FUNCTIONS: dict[str, Callable[[ad.Tensor, Any], Any]] = {
    "cast": lambda x, dtype: x.astype(dtype),
    "cast first": lambda x, dtype: ad.tanh(x.astype(dtype)),
    "cast last": lambda x, dtype: ad.softmax(2 * x).astype(dtype),
    "there and back": lambda x, dtype: ad.exp(x.astype(dtype)).astype(ad.float64),
    "products": lambda x, dtype: ad.outer(x, x).astype(dtype) @ x.astype(dtype),
    "several outputs": lambda x, dtype: (ad.sin(x), x.astype(dtype) ** 2, x.astype(ad.float32)),
    "outputs that aren't floats": lambda x, dtype: (x > 0, x.astype(dtype), ad.argmax(x), x * x),
    "a joint op": lambda x, dtype: ad.topk(x.astype(dtype), 2),
}


@each_dtype
@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_function_may_change_the_dtype(f: Callable, dtype: Any) -> None:
    check_grads(lambda x: f(x, dtype), [X], order=2)


def square(rule: Callable) -> Any:
    return ad.op.elementwise("square_by_hand", forward=lambda x: x * x, x=rule)


# By how much a rule must be wrong to be found.
FOUND = {ad.float64: 1.0001, ad.float32: 1.005, ad.float16: 1.3}


@each_dtype
@pytest.mark.parametrize("back", [False, True], ids=["", "and back"])
def test_a_wrong_rule_is_found_in_every_dtype(dtype: Any, back: bool) -> None:
    def through(op: Callable) -> Callable:
        return lambda x: op(x.astype(dtype)).astype(ad.float64 if back else dtype)

    check_grads(through(square(lambda g, x: 2 * g * x)), [X])
    wrong = square(lambda g, x: FOUND[dtype] * 2 * g * x)
    with pytest.raises(ad.CheckError, match="order 1 with respect to argument 0"):
        check_grads(through(wrong), [X])
    constant = square(lambda g, x: 2 * g * x.detach())
    with pytest.raises(ad.CheckError, match="order 2 with respect to argument 0"):
        check_grads(through(constant), [X])


def test_a_narrow_output_doesn_t_hide_what_is_wrong_with_a_wide_one() -> None:
    wrong = square(lambda g, x: 1.0001 * 2 * g * x)
    with pytest.raises(ad.CheckError, match="order 1"):
        check_grads(lambda x: (x.astype(ad.float16), wrong(x)), [X])


def test_steps_and_tolerances_that_are_given_are_used() -> None:
    with pytest.raises(ad.CheckError):
        check_grads(lambda x: ad.exp(x.astype(ad.float32)), [X], order=1, rtol=1e-9, atol=1e-9)
    with pytest.raises(ad.CheckError):
        check_grads(lambda x: ad.exp(x), [X], order=1, eps=0.3)
    check_grads(lambda x: ad.exp(x), [X], order=1, eps=0.3, rtol=0.1)


# Of every order and argument.

XS, YS = np.array([[0.5, -1.5], [2.0, 0.7]]), np.array([1.2, -0.4])


def product(slope_of_x: Any = 1, slope_of_y: Any = 1):
    """x * y, with wrong rules where slopes aren't 1."""
    return ad.op.elementwise(
        "product",
        forward=lambda x, y: x * y,
        x=lambda g, y: g * y * slope_of_x,
        y=lambda g, x: g * x * slope_of_y,
    )


def squared(times):
    """x * x with a rule that is right, but for those of the product in it."""
    return ad.op.elementwise("squared", forward=lambda x: x * x, x=lambda g, x: times(2 * g, x))


def cubed(square):
    """x * x * x, the same: a square is in its rule."""
    return ad.op.elementwise("cubed", forward=lambda x: x * x * x, x=lambda g, x: 3 * g * square(x))


def wrong(order: int, argument: int):
    return pytest.raises(ad.CheckError, match=f"order {order} with respect to argument {argument} ")


@pytest.mark.parametrize("slope", [0, 0.999, 1.0001, -1])
def test_a_wrong_slope_is_found_at_its_order_and_argument(slope: float) -> None:
    with wrong(1, 0):
        check_grads(product(slope_of_x=slope), [XS, YS])
    with wrong(1, 1):
        check_grads(product(slope_of_y=slope), [XS, YS])
    with wrong(2, 0):
        check_grads(squared(product(slope_of_y=slope)), [XS])
    with wrong(2, 1):  # by the gradient that comes in
        check_grads(squared(product(slope_of_x=slope)), [XS])
    with wrong(3, 0):
        check_grads(cubed(squared(product(slope_of_y=slope))), [XS], order=3)


def test_what_is_right_to_an_order_passes_up_to_it() -> None:
    check_grads(product(), [XS, YS], order=3)
    check_grads(cubed(squared(product())), [XS], order=4)
    check_grads(squared(product(slope_of_y=0)), [XS], order=1)
    check_grads(cubed(squared(product(slope_of_y=0))), [XS], order=2)


def test_a_second_derivative_that_is_wrong_in_one_element_is_found() -> None:
    slopes = np.ones(200)
    slopes[177] += 1e-4

    def square(x):
        return squared(product(slope_of_y=ad.asarray(slopes)))(x)

    x = np.linspace(1, 2, 200)
    check_grads(square, [x], order=1)
    with wrong(2, 0):
        check_grads(square, [x])


def test_labels_that_are_compared_are_not_moved_with_the_rest() -> None:
    def loss(x, label):
        return ad.where(label == 1, x**3, ad.exp(x)) * ad.where(label == -1, x, 1)

    check_grads(loss, [np.array([0.5, 1.5, 2.5]), np.array([1.0, -1.0, 1.0])], order=2)
