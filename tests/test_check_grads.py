"""check_grads finds wrong rules: of every order, of every argument, in every element."""

from typing import Any

import numpy as np
import pytest

import adjoint as ad

X, Y = np.array([[0.5, -1.5], [2.0, 0.7]]), np.array([1.2, -0.4])


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
        ad.testing.check_grads(product(slope_of_x=slope), [X, Y])
    with wrong(1, 1):
        ad.testing.check_grads(product(slope_of_y=slope), [X, Y])
    with wrong(2, 0):
        ad.testing.check_grads(squared(product(slope_of_y=slope)), [X])
    with wrong(2, 1):  # by the gradient that comes in
        ad.testing.check_grads(squared(product(slope_of_x=slope)), [X])
    with wrong(3, 0):
        ad.testing.check_grads(cubed(squared(product(slope_of_y=slope))), [X], order=3)


def test_what_is_right_to_an_order_passes_up_to_it() -> None:
    ad.testing.check_grads(product(), [X, Y], order=3)
    ad.testing.check_grads(cubed(squared(product())), [X], order=4)
    ad.testing.check_grads(squared(product(slope_of_y=0)), [X], order=1)
    ad.testing.check_grads(cubed(squared(product(slope_of_y=0))), [X], order=2)


def test_a_second_derivative_that_is_wrong_in_one_element_is_found() -> None:
    slopes = np.ones(200)
    slopes[177] += 1e-4

    def square(x):
        return squared(product(slope_of_y=ad.asarray(slopes)))(x)

    x = np.linspace(1, 2, 200)
    ad.testing.check_grads(square, [x], order=1)
    with wrong(2, 0):
        ad.testing.check_grads(square, [x])


def test_labels_that_are_compared_are_not_moved_with_the_rest() -> None:
    def loss(x, label):
        return ad.where(label == 1, x**3, ad.exp(x)) * ad.where(label == -1, x, 1)

    ad.testing.check_grads(loss, [np.array([0.5, 1.5, 2.5]), np.array([1.0, -1.0, 1.0])], order=2)
