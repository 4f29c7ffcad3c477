"""check_grads: which dtypes f may use on the way, and that wrong rules are found in all of them."""

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
