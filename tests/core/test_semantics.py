"""SPEC D: the decisions about dtypes, values, threads, copies and memory."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import adjoint as ad
from tests.support.changes import ALIASES, CHANGES
from tests.support.helpers import close, in_threads, leaf
from tests.support.processes import printed

# Promotion

INTEGERS = [ad.int8, ad.int16, ad.int32, ad.int64, ad.uint8, ad.uint16, ad.uint32, ad.uint64]
FLOATS = [ad.float16, ad.float32, ad.float64]


@pytest.mark.parametrize("integer", [ad.bool, *INTEGERS])
@pytest.mark.parametrize("floating", FLOATS)
def test_an_integer_array_takes_the_float_arrays_dtype(integer, floating):
    x, y = ad.ones((2,), dtype=integer), ad.ones((2,), dtype=floating)
    for out in (x * y, y * x, x + y, x - y, y / x, ad.maximum(x, y), ad.concat([x, y])):
        assert out.dtype is floating


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("operation", ["2 * x", "x + 2", "2 - x", "x ** 2", "ad.maximum(x, 2)"])
def test_a_python_int_takes_the_arrays_dtype(operation, dtype):
    x = ad.ones((2,), dtype=dtype)
    assert eval(operation, {"ad": ad, "x": x}).dtype is dtype


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("operation", ["2.5 * x", "x + 2.5", "2.5 / x", "x ** 2.5", "x > 2.5"])
def test_a_python_float_takes_the_float_arrays_dtype(operation, dtype):
    x = ad.ones((2,), dtype=dtype)
    expected = ad.bool if ">" in operation else dtype
    assert eval(operation, {"x": x}).dtype is expected


@pytest.mark.parametrize("dtype", [ad.bool, *INTEGERS])
def test_a_python_float_with_an_integer_array_gives_the_default_float(dtype):
    x = ad.ones((2,), dtype=dtype)
    assert (x * 2.5).dtype is ad.float32
    assert (2.5 + x).dtype is ad.float32


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_true_division_gives_the_default_float(dtype):
    x = ad.full((2,), 3, dtype=dtype)
    for out in (x / x, x / 2, 2 / x):
        assert out.dtype is ad.float32
    close(x / 2, [1.5, 1.5])


def test_the_default_float_can_be_set():
    ad.set_default_dtype(ad.float64)
    try:
        assert ad.asarray([1.0]).dtype is ad.float64
        assert (ad.asarray([1, 2]) / 2).dtype is ad.float64
        assert (ad.asarray([1, 2]) * 0.5).dtype is ad.float64
        assert ad.exp(ad.asarray([1])).dtype is ad.float64
    finally:
        ad.set_default_dtype(ad.float32)
    assert ad.asarray([1.0]).dtype is ad.float32


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (ad.float32, ad.float64, ad.float64),
        (ad.float16, ad.float32, ad.float32),
        (ad.int8, ad.int64, ad.int64),
        (ad.uint8, ad.int8, ad.int16),
        (ad.bool, ad.int32, ad.int32),
    ],
)
def test_arrays_of_one_kind_promote_to_the_wider_dtype(x, y, expected):
    for first, second in ((x, y), (y, x)):
        out = ad.ones((2,), dtype=first) + ad.ones((2,), dtype=second)
        assert out.dtype is expected


def test_no_integer_dtype_holds_both_uint64_and_int64():
    with pytest.raises(ad.DTypeError, match="cast"):
        ad.add(ad.ones((2,), dtype=ad.uint64), ad.ones((2,), dtype=ad.int64))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "name", ["exp", "tanh", "sigmoid", "relu", "sqrt", "sum", "mean", "var", "max", "softmax"]
)
def test_no_function_changes_the_precision(name, dtype):
    x = ad.asarray(np.array([0.5, 1.0], dtype.name), requires_grad=True)
    out = getattr(ad, name)(x)
    assert out.dtype is dtype
    out.sum().backward()
    assert x.grad is not None
    assert x.grad.dtype is dtype


PUT = {
    "assignment": lambda x: x.__setitem__(0, 0.1),
    "slice": lambda x: x.__setitem__(slice(None), 0.1),
    "all": lambda x: x.__setitem__(Ellipsis, 0.1),
    "+=": lambda x: x.__iadd__(0.1),
    "at.set": lambda x: x.at[0].set(0.1),
    "at.add": lambda x: x.at[0].add(0.1),
    "recorded": lambda x: (x * leaf(0.0)).at[0].set(0.1),
    "where": lambda x: ad.where(ad.asarray([True, False]), 0.1, x),
    "clip": lambda x: ad.clip(x, 0.1, 1.0),
    "pad": lambda x: ad.pad(x, (1, 0), constant_values=0.1),
    "full_like": lambda x: ad.full_like(x, 0.1),
    "copy_": lambda x: x.copy_(0.1),
    "stack": lambda x: ad.stack([0.1, x[0]]),
    "concat": lambda x: ad.concat([0.1, x], axis=None),
    "clip of a number": lambda x: ad.clip(0.1, x, 1.0),
}


@pytest.mark.parametrize("name", PUT)
def test_a_python_float_put_into_a_float64_tensor_keeps_all_its_digits(name):
    x = ad.zeros((2,), dtype=ad.float64)
    out = PUT[name](x)
    assert (x if out is None else out)[0].item() == 0.1


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (ad.bool, ad.int64),
        (ad.int8, ad.int64),
        (ad.int32, ad.int64),
        (ad.uint8, ad.uint64),
        (ad.uint32, ad.uint64),
        (ad.float16, ad.float16),
    ],
)
def test_sums_of_small_integers_do_not_wrap(dtype, expected):
    x = ad.ones((300,), dtype=dtype)
    assert (ad.sum(x).dtype, ad.sum(x).item()) == (expected, 300)
    running = ad.cumulative_sum(x)
    assert (running.dtype, running[-1].item()) == (expected, 300)


# 0-d and nothing

SCALARS = {
    "arithmetic": lambda x: x[0] + x[1] * 2 - 1,
    "python scalar left": lambda x: 2 / x[0],
    "function": lambda x: ad.exp(x[0]),
    "sigmoid": lambda x: ad.sigmoid(x[0]),
    "sum": lambda x: ad.sum(x),
    "mean": lambda x: x.mean(),
    "var": lambda x: ad.var(x),
    "max": lambda x: ad.max(x),
    "argmax": lambda x: ad.argmax(x),
    "any": lambda x: ad.any(x > 0),
    "comparison": lambda x: x[0] > x[1],
    "where": lambda x: ad.where(x[0] > 0, x[0], x[1]),
    "clip": lambda x: ad.clip(x[0], 0, 1),
    "dot": lambda x: x @ x,
    "reshape": lambda x: ad.reshape(x[:1], ()),
    "index by a tensor": lambda x: x[ad.asarray(1)],
    "astype": lambda x: ad.astype(x[0], ad.int32),
    "assigned": lambda x: x[0].at[()].set(3.0),
    "random": lambda x: ad.random.uniform(),
    "asarray": lambda x: ad.asarray(np.float64(1.0)),
    "from numpy on the left": lambda x: np.float64(2) * x[0],
    "detach": lambda x: x[0].detach(),
}


@pytest.mark.parametrize("name", SCALARS)
def test_zero_dimensional_results_are_tensors_around_arrays(name):
    out = SCALARS[name](leaf([1.0, 2.0]))
    assert type(out) is ad.Tensor
    assert out.shape == ()
    assert type(out.raw) is np.ndarray
    assert type(out.detach().numpy()) is np.ndarray


def test_zero_dimensional_gradients_are_tensors_around_arrays():
    x, y, seen = leaf(2.0), leaf([1.0, 2.0]), []
    z = ad.exp(x) * y.sum()
    z.register_hook(seen.append)
    x.register_hook(seen.append)
    z.backward()
    z = x * x
    for g in (*seen, x.grad, ad.gradients(z, retain_graph=True)[x], *ad.autograd.grad(z, x)):
        assert type(g) is ad.Tensor
        assert type(g.raw) is np.ndarray
        assert g.shape == ()


NOTHING = {
    "add": ((0, 3), lambda x: x + x),
    "broadcast": ((0, 1), lambda x: x * ad.ones((3,), dtype=ad.float64)),
    "exp": ((2, 0), ad.exp),
    "sum": ((0, 3), lambda x: ad.sum(x, axis=0)),
    "sum of all": ((0, 3), ad.sum),
    "mean over others": ((0, 3), lambda x: ad.mean(x, axis=1)),
    "var over others": ((0, 3), lambda x: ad.var(x, axis=1)),
    "max over others": ((0, 3), lambda x: ad.max(x, axis=1)),
    "softmax over others": ((0, 3), lambda x: ad.softmax(x, axis=1)),
    "softmax": ((2, 0), lambda x: ad.softmax(x, axis=1)),
    "log_softmax": ((2, 0), lambda x: ad.log_softmax(x, axis=1)),
    "cumulative_sum": ((2, 0), lambda x: ad.cumulative_sum(x, axis=1)),
    "topk": ((2, 0), lambda x: ad.topk(x, 0, axis=1).values),
    "matmul inner": ((2, 0), lambda x: x @ x.T),
    "matmul outer": ((0, 2), lambda x: x @ ad.ones((2, 3), dtype=ad.float64)),
    "reshape": ((0, 3), lambda x: ad.reshape(x, (3, 0))),
    "permute": ((0, 3), lambda x: x.T),
    "broadcast_to": ((0, 1), lambda x: ad.broadcast_to(x, (4, 0, 2))),
    "concat": ((0, 3), lambda x: ad.concat([x, ad.ones((2, 3), dtype=ad.float64), x])),
    "stack": ((0, 3), lambda x: ad.stack([x, x])),
    "flip": ((0, 3), ad.flip),
    "pad": ((0, 3), lambda x: ad.pad(x, 1)),
    "slice": ((4, 3), lambda x: x[2:2]),
    "index": ((4, 3), lambda x: x[[]]),
    "mask": ((4, 3), lambda x: x[x > 5]),
    "empty mask": ((0, 3), lambda x: x[x > 5]),
    "take": ((4, 3), lambda x: ad.take(x, ad.zeros((0,), dtype=ad.int64), axis=0)),
    "at.set": ((4, 3), lambda x: x.at[2:2].set(1.0)),
    "at.add": ((4, 3), lambda x: x.at[[]].add(1.0)),
    "where": ((0, 3), lambda x: ad.where(x > 0, x, -x)),
    "conv2d": (
        (0, 2, 4, 4),
        lambda x: ad.nn.functional.conv2d(x, ad.ones((3, 2, 2, 2), dtype=ad.float64)),
    ),
    "max_pool2d": ((0, 2, 4, 4), lambda x: ad.nn.functional.max_pool2d(x, 2)),
}


@pytest.mark.parametrize("name", NOTHING)
def test_zero_size_arrays_work_forward_and_backward(name):
    shape, function = NOTHING[name]
    x = leaf(np.ones(shape))
    out = function(x)
    assert out.dtype is ad.float64
    out.sum().backward()
    assert x.grad is not None
    assert x.grad.shape == shape


@pytest.mark.parametrize("name", ["mean", "var"])
def test_the_mean_and_variance_of_nothing_are_nan(name):
    out = getattr(ad, name)(ad.zeros((0, 2)), axis=0)
    assert np.isnan(out.numpy()).all()
    assert out.shape == (2,)


@pytest.mark.parametrize("function", [ad.max, ad.argmax])
@pytest.mark.parametrize(("shape", "axis"), [((0,), None), ((0,), 0), ((2, 0), 1), ((2, 0), None)])
def test_the_largest_of_nothing_is_an_error(function, shape, axis):
    with pytest.raises(ad.ArgumentError, match=function.__name__):
        function(ad.zeros(shape), axis=axis)


@pytest.mark.parametrize("function", [ad.max, ad.argmax])
def test_the_largest_over_other_axes_of_an_empty_array_is_empty(function):
    assert function(ad.zeros((2, 0, 3)), axis=2).shape == (2, 0)


# Assignment


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("alias", ALIASES)
def test_changing_a_tensor_leaves_everything_made_from_it_alone(alias, change):
    x = ad.asarray(np.array([[1.0, 2.0], [3.0, 4.0]]))
    y = ALIASES[alias](x)
    before = np.array(y)
    CHANGES[change](x)
    np.testing.assert_array_equal(np.asarray(y), before)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    "alias", [name for name in ALIASES if "numpy" not in name and "np" not in name]
)
def test_changing_what_was_made_from_a_tensor_leaves_it_alone(alias, change):
    x = ad.asarray(np.array([[1.0, 2.0], [3.0, 4.0]]))
    y = ALIASES[alias](x)
    CHANGES[change](y)
    np.testing.assert_array_equal(x.numpy(), [[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_changes_the_tensor_and_keeps_the_object(change):
    x = ad.asarray(np.array([[1.0, 2.0], [3.0, 4.0]]))
    same = x
    CHANGES[change](x)
    assert same is x
    assert (x.numpy() != [[1.0, 2.0], [3.0, 4.0]]).any()
    assert (x.shape, x.dtype) == ((2, 2), ad.float64)


@pytest.mark.parametrize("change", CHANGES)
def test_changing_a_tensor_does_not_write_to_the_array_it_was_made_from(change):
    array = np.array([[1.0, 2.0], [3.0, 4.0]])
    for source in (array, array.T, array[:1], array.reshape(4)[::-1][:3]):
        before = source.copy()
        CHANGES[change](ad.asarray(source))
        np.testing.assert_array_equal(source, before)


def test_asarray_shares_memory_and_tensor_copies():
    array = np.array([1.0, 2.0])
    shared, copied = ad.asarray(array), ad.tensor(array)
    array[0] = 7
    close(shared, [7.0, 2.0])
    close(copied, [1.0, 2.0])


LOSES_GRAPH = {
    "a leaf": (
        lambda w: ad.tensor(w),
        "^tensor: .* no gradient flows.* use ad.asarray or ad.stack",
    ),
    "a computed tensor": (lambda w: ad.tensor(w * 2), "use ad.asarray or ad.stack, or .*x.detach"),
    "a list of them": (lambda w: ad.tensor([w[0], 1.0, w[1]]), "ad.stack"),
    "nested lists": (lambda w: ad.tensor([[w[0], 2], [1, 3]]), "ad.stack"),
    "another dtype": (lambda w: ad.tensor(w, dtype=ad.float64), "ad.asarray"),
    "a new leaf": (lambda w: ad.tensor(w, requires_grad=True), "ad.asarray"),
    "asarray": (
        lambda w: ad.asarray(w, requires_grad=True),
        "^asarray: .*leave requires_grad=True",
    ),
    "full": (
        lambda w: ad.full((2,), w[0], requires_grad=True),
        "^full: .*leave requires_grad=True",
    ),
    "arange": (lambda w: ad.arange(w[0], 5, requires_grad=True), "^arange: .*leave requires_grad"),
    "linspace": (lambda w: ad.linspace(0, w[1], 5, requires_grad=True), "^linspace: .*leave requi"),
}


@pytest.mark.parametrize("make, text", LOSES_GRAPH.values(), ids=LOSES_GRAPH)
def test_taking_values_without_their_graph_warns_at_the_line_that_does_it(make, text):
    w = ad.tensor([1.0, 2.0], requires_grad=True)
    with pytest.warns(ad.LostGraphWarning, match=text) as caught:
        out = make(w)
    assert out.is_leaf and [warning.filename for warning in caught] == [__file__]


LOSES_NONE = {
    "detached": lambda w: ad.tensor(w.detach()),
    "detached, in a list": lambda w: ad.tensor([x.detach() for x in w], requires_grad=True),
    "integers, which have no gradients": lambda w: ad.tensor(w, dtype=ad.int64),
    "without tensors": lambda w: ad.tensor([1.0, np.float32(2)], requires_grad=True),
    "tensors without grad": lambda w: ad.tensor([ad.ones(2), ad.ones(2)]),
    "a parameter, which is a leaf": lambda w: ad.nn.Parameter([w[0], w[1]]),
}


@pytest.mark.parametrize("make", LOSES_NONE.values(), ids=LOSES_NONE)
def test_taking_values_where_no_graph_is_lost_is_silent(make):
    assert make(ad.tensor([1.0, 2.0], requires_grad=True)).is_leaf


@pytest.mark.parametrize("make, text", LOSES_GRAPH.values(), ids=LOSES_GRAPH)
def test_taking_values_under_no_grad_is_silent(make, text):
    w = ad.tensor([1.0, 2.0], requires_grad=True)
    with ad.no_grad():
        assert make(w).is_leaf


@pytest.mark.parametrize("make", [ad.asarray, ad.stack])
def test_what_the_warning_names_keeps_the_graph(make):
    w = ad.tensor([1.0, 2.0], requires_grad=True)
    make([w[0] * 3, w[1]]).sum().backward()
    assert w.grad.tolist() == [3, 1]


@pytest.mark.parametrize("change", CHANGES)
def test_saved_values_do_not_change_with_the_tensors_they_came_from(change):
    x, w = leaf([[1.0, 2.0], [3.0, 4.0]]), ad.asarray(np.array([[5.0, 6.0], [7.0, 8.0]]))
    y = (x * w).sum()
    out = ad.exp(x.T)
    total = out.sum()
    with ad.no_grad():
        CHANGES[change](w)
        CHANGES[change](x)
    exported = out.detach()
    CHANGES[change](exported)
    y.backward()
    close(x.grad, [[5.0, 6.0], [7.0, 8.0]])
    x.grad = None
    total.backward()
    close(x.grad, np.exp([[1.0, 2.0], [3.0, 4.0]]))


def test_a_large_tensor_is_updated_in_its_own_memory_only_while_nobody_else_has_it():
    x = ad.zeros((5000,))
    raw = weakref.ref(x.raw)
    x += ad.ones((5000,))
    x[0] = 3.0
    assert x.raw is raw()
    other = x.detach()
    x += ad.ones((5000,))
    assert other[0].item() == 3.0


@pytest.mark.parametrize("change", CHANGES)
def test_changing_a_leaf_that_requires_grad_is_an_error_outside_no_grad(change):
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(ad.GradientError, match="leaf"):
        CHANGES[change](x)
    close(x, [[1.0, 2.0], [3.0, 4.0]])
    with ad.no_grad():
        CHANGES[change](x)
    assert x.is_leaf
    assert x.requires_grad
    (x * 2).sum().backward()
    close(x.grad, np.full((2, 2), 2.0))


@pytest.mark.parametrize("change", CHANGES)
def test_changing_a_computed_tensor_under_no_grad_is_an_error(change):
    x = leaf([[1.0, 2.0], [3.0, 4.0]]) * 1
    with ad.no_grad(), pytest.raises(ad.GradientError, match="no_grad"):
        CHANGES[change](x)
    close(x, [[1.0, 2.0], [3.0, 4.0]])


def test_assignment_is_differentiable_in_both():
    x, v = leaf([1.0, 2.0, 3.0]), leaf([10.0, 20.0])
    y = x * x
    y[1:] = v * v
    close(y, [1.0, 100.0, 400.0])
    (y * np.array([1.0, 2.0, 3.0])).sum().backward()
    close(x.grad, [2.0, 0.0, 0.0])
    close(v.grad, [40.0, 120.0])


def test_assignment_of_a_recorded_value_makes_a_plain_tensor_recorded():
    y, v = ad.zeros((3,), dtype=ad.float64), leaf(2.0)
    y[1] = v * 3
    assert y.requires_grad
    assert not y.is_leaf
    y.sum().backward()
    close(v.grad, 3.0)


@pytest.mark.parametrize("same", [True, False], ids=["leaf", "computed"])
def test_assignment_of_everything_is_differentiable_and_makes_another_tensor(same):
    v = leaf([1.0, 2.0])
    value = v if same else v * 1
    y = ad.zeros((2,), dtype=ad.float64)
    y[...] = value
    y *= 3
    close(value, [1.0, 2.0])
    y.sum().backward()
    close(v.grad, [3.0, 3.0])


def test_in_place_operators_are_differentiable_in_both():
    x, v = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    y = x * 1
    before = y * 10
    y *= v
    y += x
    y -= 1.0
    y /= 2.0
    (y + before).sum().backward()
    close(x.grad, [(3 + 1) / 2 + 10, (4 + 1) / 2 + 10])
    close(v.grad, [0.5, 1.0])


def test_uses_before_and_after_an_assignment_keep_their_own_values():
    x = leaf([1.0, 2.0])
    y = x * 1
    early = ad.exp(y)
    y[0] = 5.0
    (early + ad.exp(y)).sum().backward()
    close(x.grad, np.exp([1.0, 2.0]) * [1, 2])


def test_assignment_of_a_tensor_into_itself():
    x = leaf([1.0, 2.0, 3.0])
    y = x * 1
    y[1:] = y[:-1]
    close(y, [1.0, 1.0, 2.0])
    y.sum().backward()
    close(x.grad, [2.0, 1.0, 0.0])
    plain = ad.asarray(np.arange(4.0))
    plain[1:] = plain[:-1]
    close(plain, [0.0, 0.0, 1.0, 2.0])


@pytest.mark.parametrize("change", [lambda x: x.__setitem__(0, 1.5), lambda x: x.__iadd__(1.5)])
def test_floats_do_not_fit_into_integers(change):
    x = ad.asarray([1, 2])
    with pytest.raises(ad.DTypeError, match="int64"):
        change(x)
    assert x.tolist() == [1, 2]


def test_a_tensor_cannot_grow_in_place():
    x = ad.zeros((2,))
    with pytest.raises(ad.ShapeError, match="grow"):
        x += ad.zeros((3, 2))
    with pytest.raises(ad.ShapeError):
        x[0] = ad.zeros((3,))


@pytest.mark.parametrize("way", ["at.set", "assignment", "along two axes"])
def test_of_duplicate_indices_the_last_wins_and_gets_the_gradient(way):
    x, v = leaf([1.0, 2.0, 3.0]), leaf([10.0, 20.0, 30.0])
    if way == "at.set":
        y = x.at[[0, 2, 0]].set(v)
    elif way == "assignment":
        y = x * 1
        y[[0, 2, 0]] = v
    else:
        y = ad.reshape(x, (3, 1)).at[[0, 2, 0], [0, 0, 0]].set(v).reshape(3)
    close(y, [30.0, 2.0, 20.0])
    (y * np.array([1.0, 2.0, 3.0])).sum().backward()
    close(x.grad, [0.0, 2.0, 0.0])
    close(v.grad, [0.0, 3.0, 1.0])


def test_duplicate_rows_and_broadcast_values_give_the_gradient_to_the_last():
    x, v = leaf(np.zeros((2, 2))), leaf([[1.0], [2.0]])
    y = x.at[[1, 1]].set(v)
    close(y, [[0.0, 0.0], [2.0, 2.0]])
    y.sum().backward()
    close(v.grad, [[0.0], [2.0]])
    close(x.grad, [[1.0, 1.0], [0.0, 0.0]])


def test_at_add_counts_every_duplicate():
    x, v = leaf([1.0, 2.0]), leaf([10.0, 20.0, 30.0])
    y = x.at[[0, 1, 0]].add(v)
    close(y, [41.0, 22.0])
    (y * np.array([1.0, 5.0])).sum().backward()
    close(x.grad, [1.0, 5.0])
    close(v.grad, [1.0, 5.0, 1.0])


# Threads


def test_backward_in_several_threads_loses_no_update_of_shared_leaves():
    x, w = leaf(np.ones(3)), leaf(np.ones((40, 40)))
    rounds, count = 50, 6

    def run(number):
        for _ in range(rounds):
            ((x * (number + 1)).sum() + (w @ w).sum()).backward()

    in_threads(count, run)
    close(x.grad, np.full(3, rounds * sum(range(1, count + 1))))
    close(w.grad, np.full((40, 40), rounds * count * 80.0))


def test_a_callback_in_each_thread_sees_its_own_gradients_only():
    x = leaf(1.0)
    seen: dict[int, list[float]] = {k: [] for k in range(4)}

    def run(number):
        for _ in range(20):
            (x * number).backward(on_leaf_grad=lambda tensor, g: seen[number].append(g.item()))

    in_threads(4, run)
    assert seen == {k: [float(k)] * 20 for k in range(4)}
    close(x.grad, 20.0 * 6)


def test_graphs_that_share_a_retained_part_can_be_run_in_several_threads():
    x = leaf(np.linspace(0, 1, 5))
    shared = ad.exp(x)
    losses = [(shared * k).sum() for k in range(5)]
    in_threads(5, lambda k: losses[k].backward(retain_graph=True))
    close(x.grad, 10 * np.exp(np.linspace(0, 1, 5)))


# Errors in backward


def failing(message="no gradient today"):
    def vjp(g):
        raise ZeroDivisionError(message)

    return ad.op.other(
        "failing",
        inputs="x",
        vjp=vjp,
        kernels={"cpu": lambda x: x.copy()},
        shape=lambda x_shape: x_shape,
    )


def test_a_backward_that_raises_leaves_the_grads_of_incomplete_leaves_untouched():
    x, w = leaf([1.0]), leaf([2.0])
    (x * 5).backward()
    before = x.grad
    with pytest.raises(ZeroDivisionError):
        (failing()(x * w) * x).backward()
    assert x.grad is before
    close(x.grad, [5.0])
    assert w.grad is None


@pytest.mark.parametrize("callback", [None, lambda tensor, g: None])
def test_a_backward_that_raises_lets_complete_leaves_keep_their_grad(callback):
    early = leaf([1.0])
    h = failing()(early)
    late = leaf([3.0])
    (late * 5).backward()
    with pytest.raises(ZeroDivisionError):
        (h * late).backward(on_leaf_grad=callback)
    close(late.grad, [6.0])
    assert early.grad is None


def test_a_leaf_reported_by_on_leaf_grad_keeps_its_grad_if_the_pass_then_raises():
    late, early, seen = leaf([3.0]), leaf([1.0]), []
    y = failing()(early) * late
    with pytest.raises(ZeroDivisionError):
        y.backward(on_leaf_grad=lambda tensor, g: seen.append(tensor))
    assert [tensor is late for tensor in seen] == [True]
    close(late.grad, [1.0])


def test_after_an_error_in_backward_everything_works_again():
    x = leaf([1.0])
    with pytest.raises(ZeroDivisionError):
        failing()(x).backward()
    assert ad.is_grad_enabled()
    (x * 2).backward()
    close(x.grad, [2.0])


# Copies, keys, NumPy


@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("data", [np.float64(2), np.zeros((0, 2)), np.arange(6.0).reshape(2, 3).T])
@pytest.mark.parametrize("way", ["pickle", "deepcopy", "copy"])
def test_leaves_can_be_copied_with_values_and_requires_grad(way, data, requires_grad):
    x = ad.asarray(np.asarray(data), requires_grad=requires_grad)
    ways = {
        "pickle": lambda x: pickle.loads(pickle.dumps(x)),
        "deepcopy": copy.deepcopy,
        "copy": copy.copy,
    }
    y = ways[way](x)
    assert y is not x
    close(y, data)
    assert (y.dtype, y.shape, y.requires_grad, y.is_leaf) == (x.dtype, x.shape, requires_grad, True)
    if requires_grad:
        (y * y).sum().backward()
        close(y.grad, 2 * np.asarray(data))
        assert x.grad is None


@pytest.mark.parametrize("dtype", [ad.bool, ad.int32, ad.float16, ad.float32, ad.float64])
def test_an_unpickled_tensor_is_like_any_other_of_its_dtype(dtype):
    x = pickle.loads(pickle.dumps(ad.ones((2,), dtype=dtype)))
    assert x.dtype is dtype
    assert x.raw.dtype is ad.ones((2,), dtype=dtype).raw.dtype
    assert ad.asarray(x, dtype=dtype, copy=False).dtype is dtype


def test_deepcopy_copies_the_grad_and_shares_nothing():
    x = leaf([1.0, 2.0])
    (x * x).sum().backward()
    y, again = copy.deepcopy([x, x])
    assert y is again
    close(y.grad, [2.0, 4.0])
    assert y.grad is not None
    y.grad += 1.0
    close(x.grad, [2.0, 4.0])


@pytest.mark.parametrize("way", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_computed_tensor_cannot_be_copied_and_the_error_advises(way):
    with pytest.raises(ad.GradientError, match=r"multiply.*detach\(\)") as found:
        way(leaf([1.0]) * 2)
    assert ("x.copy()" in str(found.value)) is (way in (copy.copy, copy.deepcopy))
    way((leaf([1.0]) * 2).detach())


@pytest.mark.parametrize("copied", [ad.copy, ad.Tensor.copy])
def test_a_copy_is_a_tensor_of_its_own_through_which_gradients_flow(copied):
    w = leaf([1.0, 2.0])
    for x in (w, w * 3):
        y = copied(x)
        y[0] = 5.0
        assert x.tolist()[0] != 5.0 and y.tolist()[0] == 5.0 and y.requires_grad
    y.sum().backward()
    close(w.grad, [0.0, 3.0])


def test_a_copy_shares_memory_until_one_of_the_two_is_written_to():
    x = ad.ones(3)
    y = x.copy()
    assert np.shares_memory(x.numpy(), y.numpy())
    x += 1
    assert not np.shares_memory(x.numpy(), y.numpy())
    close(y, [1.0, 1.0, 1.0])


def test_a_copy_of_an_array_has_memory_of_its_own():
    array = np.array([1.0, 2.0])
    y = ad.copy(array)
    array[0] = 7
    close(y, [1.0, 2.0])


def test_a_copy_while_traced_is_another_tensor():
    def f(x):
        y = x.copy()
        y[0] = 5.0
        return x, y

    x = ad.asarray([1.0, 2.0])
    assert [out.tolist() for out in ad.trace(f, x)(x)] == [[1, 2], [5, 2]]


def test_dictionary_keys_go_by_identity():
    x, y = ad.ones((2,)), ad.ones((2,))
    table = {x: "x", y: "y"}
    assert (table[x], table[y], len({x, y, x})) == ("x", "y", 2)
    x += 1.0
    assert table[x] == "x"


def test_equality_is_elementwise_with_numbers_and_false_with_anything_else():
    x = ad.asarray([1.0, 2.0])
    assert (x == ad.asarray([1.0, 3.0])).tolist() == [True, False]
    assert (x != 1).tolist() == [False, True]
    assert (x == np.array([1.0, 0.0])).tolist() == [True, False]
    for other in (None, "text", [1.0, 2.0], object()):
        assert (x == other) is False
        assert (x != other) is True


OPERATORS = {
    "+": (lambda a, b: a + b),
    "-": (lambda a, b: a - b),
    "*": (lambda a, b: a * b),
    "/": (lambda a, b: a / b),
    "**": (lambda a, b: a**b),
    "@": (lambda a, b: a @ b),
    "<": (lambda a, b: a < b),
    "<=": (lambda a, b: a <= b),
    ">": (lambda a, b: a > b),
    ">=": (lambda a, b: a >= b),
    "==": (lambda a, b: a == b),
    "!=": (lambda a, b: a != b),
}


LEFT = [np.array([1.0, 3.0]), np.float64(3), np.array(2.0)]


@pytest.mark.parametrize(
    ("name", "left"),
    [(name, left) for name in OPERATORS for left in LEFT if name != "@" or np.ndim(left)],
)
def test_numpy_on_the_left_gives_a_tensor(name, left):
    right = np.array([2.0, 0.5])
    out = OPERATORS[name](left, ad.asarray(right))
    assert type(out) is ad.Tensor
    np.testing.assert_allclose(out.numpy(), OPERATORS[name](left, right))


def test_numpy_on_the_left_keeps_the_gradient():
    x = leaf([1.0, 2.0])
    (np.array([3.0, 4.0]) * x).sum().backward()
    close(x.grad, [3.0, 4.0])


def test_exported_memory_is_read_only():
    x = ad.asarray(np.array([[1.0, 2.0]]))
    for array in (x.numpy(), np.asarray(x), x.numpy()[:1], x.T.numpy(), x[0].numpy()):
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5
    assert np.shares_memory(x.numpy(), x.raw)
    np.array(x)[0] = 5
    close(x, [[1.0, 2.0]])


def test_a_tensor_that_requires_grad_is_not_exported_silently():
    for export in (lambda x: x.numpy(), np.asarray):
        with pytest.raises(ad.GradientError, match=r"detach\(\)"):
            export(leaf([1.0]))


@pytest.mark.parametrize("order", ["<", ">"])
def test_arrays_of_either_byte_order_can_be_taken(order):
    array = np.array([1.0, 2.0], f"{order}f4")
    assert ad.asarray(array).tolist() == [1.0, 2.0]
    assert (array * ad.asarray([2.0, 2.0])).tolist() == [2.0, 4.0]


# Ties


def test_max_splits_the_gradient_equally_among_ties():
    x = leaf([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    ad.max(x, axis=1).sum().backward()
    close(x.grad, [[0.0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3]])
    x.grad = None
    ad.max(x).backward()
    close(x.grad, [[0.0, 0.5, 0.5], [0.0, 0.0, 0.0]])


@pytest.mark.parametrize("function", [ad.maximum, ad.minimum])
def test_maximum_and_minimum_share_the_gradient_of_equals(function):
    x, y = leaf([1.0, 2.0, 3.0]), leaf([3.0, 2.0, 1.0])
    function(x, y).sum().backward()
    close(x.grad, [0.0, 0.5, 1.0] if function is ad.maximum else [1.0, 0.5, 0.0])
    close(y.grad, [1.0, 0.5, 0.0] if function is ad.maximum else [0.0, 0.5, 1.0])


def test_argmax_and_topk_take_the_first_of_equals():
    x = leaf([1.0, 3.0, 3.0, 3.0])
    assert ad.argmax(x).item() == 1
    top = ad.topk(x, 2)
    assert top.indices.tolist() == [1, 2]
    top.values.sum().backward()
    close(x.grad, [0.0, 1.0, 1.0, 0.0])
    assert ad.topk(ad.asarray([2, 1, 1]), 2, largest=False).indices.tolist() == [1, 2]


def test_max_pooling_takes_the_first_of_equals():
    x = leaf(np.ones((1, 1, 2, 2)))
    ad.nn.functional.max_pool2d(x, 2).sum().backward()
    close(x.grad, [[[[1.0, 0.0], [0.0, 0.0]]]])


def test_kinks_have_the_documented_gradients():
    x = leaf([-1.0, 0.0, 0.5, 1.0, 2.0])
    for function, expected in (
        (ad.relu, [0, 0, 1, 1, 1]),
        (ad.abs, [-1, 0, 1, 1, 1]),
        (ad.sign, [0, 0, 0, 0, 0]),
        (lambda x: ad.clip(x, 0, 1), [0, 0, 1, 0, 0]),
    ):
        x.grad = None
        function(x).sum().backward()
        close(x.grad, np.array(expected, np.float64))


def test_where_lets_no_nan_of_the_untaken_branch_through_its_own_rule():
    x = leaf([0.0, 4.0])
    y = leaf([np.nan, 1.0])
    ad.where(x > 1, x, y).sum().backward()
    close(x.grad, [0.0, 1.0])
    close(y.grad, [1.0, 0.0])


# Memory


def held(*tensors):
    """Weak references to the raw arrays of tensors."""
    return [weakref.ref(x.raw) for x in tensors]


def alive(references):
    return [reference() is not None for reference in references]


@pytest.fixture
def without_gc():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_an_input_that_no_needed_rule_names_is_not_kept(without_gc):
    x = leaf(np.ones(10))
    y = x + 1
    z = y * 2
    w = z - 3
    references = held(y, z)
    del y, z
    assert alive(references) == [False, False]
    assert w.requires_grad


def test_sums_shapes_and_casts_keep_no_array(without_gc):
    x = leaf(np.ones((4, 5)))
    steps = [x * 1.0]
    for step in (
        lambda h: h.T,
        lambda h: ad.reshape(h, (20,)),
        lambda h: h[::2],
        lambda h: ad.concat([h, h]),
        lambda h: ad.astype(h, ad.float32),
        lambda h: ad.cumulative_sum(h),
        lambda h: -h,
        lambda h: ad.sum(h),
    ):
        steps.append(step(steps[-1]))
    references = held(*steps[:-1])
    root = steps[-1]
    del steps, step
    assert alive(references) == [False] * 8
    root.backward()


@pytest.mark.parametrize(
    ("function", "keeps"),
    [
        (ad.exp, "output"),
        (ad.tanh, "output"),
        (ad.relu, "output"),
        (ad.sin, "input"),
        (ad.log, "input"),
    ],
)
def test_an_op_keeps_what_its_rule_names_and_nothing_else(function, keeps, without_gc):
    h = leaf(np.ones(10)) * 1.0
    out = function(h)
    root = ad.sum(out)
    references = held(h, out)
    del h, out
    assert alive(references) == [keeps == "input", keeps == "output"]
    assert root.requires_grad


def test_a_frozen_weight_keeps_no_activation(without_gc):
    x, w = leaf(np.ones((2, 3))), ad.ones((3, 4), dtype=ad.float64)
    h = x * 1.0
    y = h @ w
    references = held(h)
    del h
    assert alive(references) == [False]
    assert y.node is not None
    assert y.node.saved is w.raw


@pytest.mark.parametrize("op", [lambda h, w: h * w, lambda h, w: h @ w])
def test_a_weight_for_data_without_gradient_is_not_kept(op, without_gc):
    h, w = ad.ones((3, 3), dtype=ad.float64), leaf(np.ones((3, 3)))
    scaled = w * 2.0
    y = op(h, scaled)
    references = held(scaled)
    del scaled
    assert alive(references) == [False]
    assert y.node is not None
    assert y.node.saved is h.raw


def test_no_graph_is_kept_without_gradients(without_gc):
    h = ad.ones((3,))
    y = ad.exp(h)
    references = held(h)
    del h
    assert alive(references) == [False]
    assert y.node is None
    x = leaf([1.0])
    with ad.no_grad():
        assert ad.exp(x).node is None


def network(x, weights):
    h = x
    for w in weights:
        h = ad.tanh(h @ w) + h[:, :1]
    return ad.var(h, axis=0).sum() + ad.softmax(h).max()


@pytest.mark.parametrize("way", ["dropped", "backward", "create_graph", "gradients", "hooks"])
def test_a_graph_is_freed_by_reference_counts_alone(way, without_gc):
    weights = [leaf(np.random.default_rng(k).normal(size=(3, 3))) for k in range(3)]
    h = leaf(np.ones((2, 3))) * 1.0
    h.register_hook(lambda g: g * 1.0)
    loss = network(h, weights)
    nodes = [weakref.ref(x) for x in (h, loss)]
    references = held(h, loss)
    if way == "backward":
        loss.backward()
    elif way == "create_graph":
        loss.backward(create_graph=True)
        for w in weights:
            w.grad = None
    elif way == "gradients":
        ad.gradients(loss, of=[h], on_leaf_grad=lambda tensor, g: None)
    elif way == "hooks":
        h.retain_grad()
        weights[0].register_post_accumulate_grad_hook(lambda tensor: None)
        loss.backward(on_leaf_grad=lambda tensor, g: None)
    del h, loss
    assert alive(references) == [False, False]
    assert alive(nodes) == [False, False]


def test_a_leaf_whose_gradient_has_a_graph_is_freed_by_reference_counts_alone(without_gc):
    x = leaf(np.ones(3))
    (x * x * x).sum().backward(create_graph=True)
    assert x.grad is not None
    assert x.grad.requires_grad
    references = [*held(x), weakref.ref(x)]
    del x
    assert alive(references) == [False, False]


def test_an_error_in_backward_leaves_no_graph_behind(without_gc):
    h = leaf([1.0]) * 1.0
    references = held(h)
    y = failing()(ad.sin(h))
    with pytest.raises(ZeroDivisionError):
        y.backward()
    del h, y
    assert alive(references) == [False]


def test_a_training_loop_returns_to_the_same_number_of_objects_after_every_step(without_gc):
    rng = np.random.default_rng(0)
    x, target = ad.asarray(rng.normal(size=(8, 3))), ad.asarray(rng.normal(size=(8, 3)))
    weights = [leaf(rng.normal(size=(3, 3))) for _ in range(3)]
    optimizer = ad.optim.SGD(weights, lr=0.01, momentum=0.9)
    counts = []
    for _ in range(6):
        h = x
        for w in weights:
            h = ad.relu(h @ w)
        optimizer.zero_grad()
        ((h - target) ** 2).mean().backward()
        optimizer.step()
        del h
        counts.append(len(gc.get_objects()))
    assert len(set(counts[2:])) == 1, counts


def test_a_leaf_that_is_complete_when_a_rule_raises_keeps_its_gradient():
    def broken(g):
        raise KeyError("rule")

    bad = ad.op.elementwise("bad", x=broken, forward=lambda x: x * 1)
    done, both, below = (ad.tensor(x, requires_grad=True) for x in (2.0, 3.0, 5.0))
    with pytest.raises(KeyError, match="rule"):
        (bad(below * both) * both * done).backward()
    assert done.grad.item() == 45.0
    assert below.grad is None and both.grad is None


def test_the_first_op_of_a_process_is_in_place_too() -> None:
    code = (
        "import adjoint as ad; x, y = ad.tensor([1.0, 2.0]), ad.tensor([1.0, 2.0]); "
        "before = id(x.raw); x += y; print(id(x.raw) == before)"
    )
    assert printed("-c", code) == "True\n"
