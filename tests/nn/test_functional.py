"""ad.nn.functional: against PyTorch where it is installed, against finite differences always."""

import doctest
import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import ArgumentError, AxisError, DTypeError, IndexingError, KeywordError, ShapeError
from tests.support.helpers import close, derivative, leaf, values
from tests.support.misuse import explained, ints, ones
from tests.support.neural_cases import CASES, Case, positives, reals

F = ad.nn.functional


def checked_by(what: str) -> Any:
    chosen = [c for c in CASES if c.only in ("", what)]
    return pytest.mark.parametrize("case", chosen, ids=lambda c: c.id)


def two_orders(grad: Callable, outputs: Any, leaves: list, seed: Any, weights: list) -> list:
    """The gradients of the leaves, and the gradients of a weighted sum of these."""
    first = grad(outputs, leaves, seed, retain_graph=True, allow_unused=True)
    try:
        again = grad(outputs, leaves, seed, create_graph=True, allow_unused=True)
        pairs = [(g, w) for g, w in zip(again, weights, strict=True) if g is not None]
        total = sum((g * w).sum() for g, w in pairs)
        if not total.requires_grad:
            return [*first, *(None for _ in leaves)]
        return [*first, *grad(total, leaves, allow_unused=True)]
    except RuntimeError as error:
        if "not implemented" not in str(error):
            raise
        return list(first)  # PyTorch has no second order here


def as_array(x: Any) -> np.ndarray:
    """A tensor of either library; None is zero."""
    if x is None:
        return np.zeros(())
    return values(x) if isinstance(x, ad.Tensor) else x.detach().numpy(force=True)


@checked_by("torch")
@pytest.mark.filterwarnings("ignore:Using padding='same' with even", "ignore:reduction. 'mean' div")
def test_values_and_two_orders_of_gradients_are_pytorch_s(case: Case) -> None:
    torch = pytest.importorskip("torch")
    theirs = [
        torch.tensor(a, requires_grad=v) for a, v in zip(case.given, case.variable, strict=True)
    ]
    options = {k: v for k, v in case.options.items() if k != "axis"} | case.torch_options
    function = getattr(torch.nn.functional, case.function, None) or getattr(torch, case.function)
    expected = case.call(function, options, theirs)
    ours = [ad.tensor(a, requires_grad=v) for a, v in zip(case.given, case.variable, strict=True)]
    out = case.call(getattr(F, case.function), case.options, ours)
    close(out, expected.detach().numpy(), 1e-9)

    seed = reals(*out.shape, seed=5)
    leaves = [x for x in ours if x.requires_grad]
    weights = [reals(*x.shape, seed=6) for x in leaves]
    found = two_orders(
        ad.autograd.grad, out, leaves, ad.asarray(seed), [ad.asarray(w) for w in weights]
    )
    reference = two_orders(
        torch.autograd.grad,
        expected,
        [x for x in theirs if x.requires_grad],
        torch.tensor(seed),
        [torch.tensor(w) for w in weights],
    )
    for one, other in zip(map(as_array, found), map(as_array, reference), strict=False):
        atol = 1e-11 * max(1, np.abs(other).max(initial=0))
        np.testing.assert_allclose(*np.broadcast_arrays(one, other), rtol=1e-9, atol=atol)


@checked_by("differences")
def test_gradients_of_two_orders_agree_with_finite_differences(case: Case) -> None:
    def function(*variables: ad.Tensor) -> ad.Tensor:
        rest = iter(variables)
        places = zip(case.given, case.variable, strict=True)
        given = [next(rest) if variable else ad.asarray(a) for a, variable in places]
        return case.call(getattr(F, case.function), case.options, given)

    pairs = zip(case.given, case.variable, strict=True)
    ad.testing.check_grads(function, [a for a, variable in pairs if variable], order=2)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_a_trace_replays_the_function_and_its_gradient(case: Case) -> None:
    def function(*given: ad.Tensor) -> tuple[ad.Tensor, ...]:
        variables = [x for x, variable in zip(given, case.variable, strict=True) if variable]
        leaves = [x.detach().requires_grad_() for x in variables]
        rest = iter(leaves)
        pairs = zip(given, case.variable, strict=True)
        inputs = [next(rest) if variable else x for x, variable in pairs]
        out = case.call(getattr(F, case.function), case.options, inputs)
        grads = ad.autograd.grad(out.sum(), leaves, allow_unused=True)
        return (out.detach(), *(g for g in grads if g is not None))

    given = [ad.asarray(a) for a in case.given]
    replayed = ad.trace(function, *given)(*given)
    for one, other in zip(replayed, function(*given), strict=True):
        close(one, values(other), 1e-13)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear", "bilinear", "bicubic"])
@pytest.mark.parametrize("align", [None, True])
def test_a_factor_that_keeps_the_size_does_what_pytorch_does(mode: str, align: Any) -> None:
    torch = pytest.importorskip("torch")
    x = reals(1, 2, 3, 3) if mode.startswith("bi") else reals(1, 2, 3)
    options = {"scale_factor": 1.3, "mode": mode}
    if align and not mode.startswith("nearest"):
        options["align_corners"] = align
    expected = torch.nn.functional.interpolate(torch.tensor(x), **options)
    close(F.interpolate(ad.asarray(x), **options), expected.numpy(), 1e-13)


# Pooling.


def test_max_pooling_gives_the_indices_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    for count, size in ((1, (7,)), (2, (5, 6)), (3, (4, 5, 3))):
        x = reals(2, 2, *size)
        options = {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}
        ours = getattr(F, f"max_pool{count}d")(ad.asarray(x), **options, return_indices=True)
        theirs = getattr(torch.nn.functional, f"max_pool{count}d")(
            torch.tensor(x), **options, return_indices=True
        )
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(values(one), other.numpy())
        adaptive = f"adaptive_max_pool{count}d"
        ours = getattr(F, adaptive)(ad.asarray(x), 3, return_indices=True)
        theirs = getattr(torch.nn.functional, adaptive)(torch.tensor(x), 3, return_indices=True)
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(values(one), other.numpy())


def test_the_first_of_equals_gets_the_gradient() -> None:
    x = leaf([[[5.0, 5.0, 1.0, 2.0, 2.0, 2.0]]])
    F.max_pool1d(x, 3).sum().backward()
    close(x.grad, [[[1.0, 0, 0, 1, 0, 0]]])


def test_the_first_of_equals_in_uneven_windows_gets_the_gradient() -> None:
    x = leaf([[[5.0, 5.0, 5.0]]])
    F.adaptive_max_pool1d(x, 2).sum().backward()
    close(x.grad, [[[1.0, 1.0, 0.0]]])


@pytest.mark.parametrize("padding", [0, 1])
def test_max_pooling_propagates_nan(padding: int) -> None:
    x = leaf([[[1.0, math.nan, 2.0, 3.0, 5.0, 4.0]]])
    out = F.max_pool1d(x, 2, padding=padding)
    expected = {0: [math.nan, 3, 5], 1: [1, math.nan, 5, 4]}[padding]
    np.testing.assert_array_equal(values(out), [[expected]])
    out.sum().backward()
    where_from = {0: [0.0, 1, 0, 1, 1, 0], 1: [1.0, 1, 0, 0, 1, 1]}[padding]
    close(x.grad, [[where_from]])


def test_max_pooling_of_minus_infinity_finds_the_image_and_not_the_padding() -> None:
    x = leaf(np.full((1, 1, 2, 2), -math.inf))
    values_, indices = F.max_pool2d(x, 2, padding=1, return_indices=True)
    assert values(indices).tolist() == [[[[0, 1], [2, 3]]]]
    values_.sum().backward()
    close(x.grad, np.ones((1, 1, 2, 2)))


def test_average_pooling_keeps_infinities_in_their_windows() -> None:
    x = ad.asarray([[[math.inf, 1.0, 2.0, 3.0, 5.0]]])
    np.testing.assert_allclose(values(F.avg_pool1d(x, 2)), [[[math.inf, 2.5]]])
    np.testing.assert_allclose(values(F.adaptive_avg_pool1d(x, 2)), [[[math.inf, 10 / 3]]])


AVERAGES = {
    "avg_pool2d": lambda x: F.avg_pool2d(x, 10),
    "of uneven counts": lambda x: F.avg_pool2d(x, 10, padding=1, count_include_pad=False),
    "even": lambda x: F.adaptive_avg_pool2d(x, 1),
    "uneven": lambda x: F.adaptive_avg_pool2d(x, 3),
    "area": lambda x: F.interpolate(x, 1, mode="area"),
}


@pytest.mark.parametrize("name", AVERAGES)
def test_averages_of_half_precision_are_finite_where_sums_aren_t(name: str) -> None:
    x = ad.full((1, 1, 100, 100), 1000.0, dtype=ad.float16, requires_grad=True)
    out = AVERAGES[name](x)
    assert out.dtype == ad.float16
    np.testing.assert_array_equal(values(out), 1000)
    assert derivative(out.sum(), x).dtype == ad.float16


# Normalisation.


OFFSETS = {
    "layer_norm": lambda x: F.layer_norm(x, (512,)),
    "group_norm": lambda x: F.group_norm(x, 2),
    "instance_norm": F.instance_norm,
    "batch_norm": lambda x: F.batch_norm(x, training=True),
}


@pytest.mark.parametrize("name", OFFSETS)
def test_norms_of_large_offsets_are_accurate(name: str) -> None:
    """Values near 1e4 that spread by 1e-2: float32 has a thousandth for their last digit."""
    rng = np.random.default_rng(0)
    x = (1e4 + 1e-2 * rng.standard_normal((4, 6, 512))).astype(np.float32)
    expected = values(OFFSETS[name](ad.asarray(x.astype(np.float64))))
    np.testing.assert_allclose(values(OFFSETS[name](ad.asarray(x))), expected, atol=2e-5)


def test_batch_variance_of_large_offsets_is_accurate() -> None:
    """BLAS adds squares up in its own order: as many roundings as there are, and five more."""
    rng = np.random.default_rng(0)
    x = (1e4 + 1e-2 * rng.standard_normal((512, 3))).astype(np.float32)
    mean, var = ad.zeros(3), ad.zeros(3)
    F.batch_norm(ad.asarray(x), mean, var, training=True, momentum=1.0)
    np.testing.assert_allclose(values(mean), x.mean(0, dtype=np.float64), rtol=1e-7)
    roundings = (len(x) + 5) * 2.0**-24
    np.testing.assert_allclose(values(var), x.astype(np.float64).var(0, ddof=1), rtol=roundings)


def test_the_variance_of_millions_of_numbers_is_accurate() -> None:
    x = np.random.default_rng(0).standard_normal((1 << 22, 1), np.float32)
    mean, var = ad.zeros(1), ad.zeros(1)
    F.batch_norm(ad.asarray(x), mean, var, training=True, momentum=1.0)
    np.testing.assert_allclose(values(var), x.var(0, dtype=np.float64), rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_half_precision_is_standardised_in_float32(scale: float) -> None:
    """The squares of 1e4 are no float16 numbers any more."""
    x = (np.linspace(-1, 2, 64) * scale).astype(np.float16)
    tensor = ad.tensor(x, requires_grad=True)
    out = F.layer_norm(tensor, (64,))
    assert out.dtype == ad.float16
    wide = ad.tensor(x.astype(np.float64), requires_grad=True)
    expected = F.layer_norm(wide, (64,))
    np.testing.assert_allclose(values(out), values(expected), atol=2e-3)
    weight = np.linspace(1, -1, 64) ** 3
    out.backward(ad.asarray(weight.astype(np.float16)))
    expected.backward(ad.asarray(weight))
    np.testing.assert_allclose(values(tensor.grad), values(wide.grad), rtol=5e-3, atol=1e-3 / scale)


def test_layer_norm_keeps_its_output_and_one_number_per_row() -> None:
    x = leaf(reals(8, 16))
    out = F.layer_norm(x, 16)
    arrays = [a for a in out.node.parents.saved if isinstance(a, np.ndarray)]
    assert sorted(a.size for a in arrays) == [8, 128]
    assert any(a is out.raw for a in arrays)


@pytest.mark.parametrize("function", ["batch_norm", "instance_norm"])
def test_running_statistics_of_half_precision_change(function: str) -> None:
    mean, var = ad.zeros(3, dtype=ad.float16), ad.ones(3, dtype=ad.float16)
    mode = {"training": True} if function == "batch_norm" else {"use_input_stats": True}
    x = ad.full((4, 3, 5), 1000.0, dtype=ad.float16)
    assert getattr(F, function)(x, mean, var, **mode).dtype == ad.float16
    np.testing.assert_allclose(values(mean), 100, rtol=1e-3)
    np.testing.assert_allclose(values(var), 0.9, rtol=1e-3)


@pytest.mark.parametrize("function", ["batch_norm", "instance_norm"])
def test_running_statistics_move_as_in_pytorch(function: str) -> None:
    torch = pytest.importorskip("torch")
    x, mean, var = reals(4, 3, 5), reals(3, seed=1), positives(3, seed=2)
    ours, theirs = [[f(mean), f(var)] for f in (ad.tensor, torch.tensor)]
    mode = {"training": True} if function == "batch_norm" else {"use_input_stats": True}
    for step in range(3):
        getattr(F, function)(ad.asarray(x * step + 1), *ours, momentum=0.3, **mode)
        getattr(torch.nn.functional, function)(
            torch.tensor(x * step + 1), *theirs, momentum=0.3, **mode
        )
    for one, other in zip(ours, theirs, strict=True):
        close(one, other.numpy(), 1e-12)
        assert not one.requires_grad


def test_running_statistics_change_in_training_only_and_have_no_graph() -> None:
    x, mean, var = leaf(reals(4, 3)), ad.zeros(3, dtype=ad.float64), ad.ones(3, dtype=ad.float64)
    F.batch_norm(x, mean, var)
    close(mean, np.zeros(3))
    F.batch_norm(x, mean, var, training=True)
    assert mean.is_leaf and not mean.requires_grad
    close(mean, 0.1 * values(x).mean(0))
    close(var, 0.9 + 0.1 * values(x).var(0, ddof=1))


def test_a_traced_batch_norm_moves_the_statistics_at_every_replay() -> None:
    mean, var, x = ad.zeros(2), ad.ones(2), ad.tensor([[1.0, 2.0], [3.0, 6.0]])
    graph = ad.trace(lambda x: F.batch_norm(x, mean, var, training=True), x)
    close(mean, [0.0, 0.0])
    graph(x)
    graph(x)
    np.testing.assert_allclose(values(mean), [0.38, 0.76], rtol=1e-6)


# Extremes.

EXTREMES = {
    name: getattr(F, name)
    for name in (
        "relu6 leaky_relu elu selu celu gelu silu mish softplus softsign hardtanh hardsigmoid "
        "hardswish logsigmoid tanh sigmoid softmax log_softmax softmin glu"
    ).split()
} | {
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "normalize": lambda x: F.normalize(x, axis=0),
    "normalize_p3": lambda x: F.normalize(x, 3.0, axis=0),
    "cross_entropy": lambda x: F.cross_entropy(x, ad.asarray(3)),
    "smoothed": lambda x: F.cross_entropy(x, ad.asarray(3), label_smoothing=0.1),
    "with_logits": lambda x: F.binary_cross_entropy_with_logits(x, ad.ones_like(x) * 0.5),
    "huber_loss": lambda x: F.huber_loss(x, ad.zeros_like(x)),
    "smooth_l1_loss": lambda x: F.smooth_l1_loss(x, ad.zeros_like(x)),
    "layer_norm": lambda x: F.layer_norm(x, x.shape),
    "constant_rms_norm": lambda x: F.rms_norm(x * 0, x.shape),
    "constant_layer_norm": lambda x: F.layer_norm(x * 0 + 1e4, x.shape),
    "bce_at_0_and_1": lambda x: F.binary_cross_entropy(F.sigmoid(x), ad.ones_like(x) * 0.5),
    "kl_div_of_0": lambda x: F.kl_div(F.log_softmax(x), F.softmax(x)),
    "pairwise_distance_0": lambda x: F.pairwise_distance(x, x, eps=0.0),
}


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", EXTREMES)
def test_large_and_zero_inputs_have_finite_gradients_of_two_orders(name: str, dtype: str) -> None:
    x = leaf([-1e4, -100.0, -30.0, 0.0, 30.0, 1e4], dtype)
    out = EXTREMES[name](x)
    g = derivative(out.sum(), x, create_graph=True)
    for found in (out, g, derivative((g * g).sum() + (x * 0).sum(), x)):
        assert np.isfinite(values(found)).all()


@pytest.mark.parametrize("mask", ["bool", "float"])
def test_queries_that_may_attend_to_nothing_have_zeros_and_finite_gradients(mask: str) -> None:
    allowed = np.array([[True, False], [False, False]])
    given = allowed if mask == "bool" else np.where(allowed, 0.0, -math.inf)
    q, k, v = (leaf(reals(2, 2, seed=n)) for n in range(3))
    out = F.scaled_dot_product_attention(q, k, v, ad.asarray(given))
    close(out, [values(v)[0], [0.0, 0.0]])
    first = ad.autograd.grad(out.sum(), [q, k, v], create_graph=True)
    squares = ad.stack([(g * g).sum() for g in first if g is not None]).sum()
    second = ad.autograd.grad(squares, [q, k, v], allow_unused=True)
    assert all(np.isfinite(values(g)).all() for g in (*first, *second) if g is not None)
    graph = ad.trace(F.scaled_dot_product_attention, q, k, v, ad.asarray(given))
    close(graph(q, k, v, ad.asarray(given)), values(out))


FORBIDDEN = {
    "float16": ([[200.0]], [[-100.0], [200.0]], "f2"),
    "infinite": ([[1.0]], [[1.0], [math.inf]], "f4"),
    "large": ([[1e19]], [[1.0], [3e19]], "f4"),
}


@pytest.mark.parametrize("mask", ["bool", "float"])
@pytest.mark.parametrize("name", FORBIDDEN)
def test_a_forbidden_key_has_no_weight_whatever_its_score(name: str, mask: str) -> None:
    query, key, dtype = FORBIDDEN[name]
    q, k, v = (ad.asarray(np.array(a, dtype)) for a in (query, key, [[1.0], [2.0]]))
    given = [[True, False]] if mask == "bool" else [[0.0, -math.inf]]
    out = F.scaled_dot_product_attention(q, k, v, ad.asarray(given))
    assert values(out).tolist() == [[1.0]]


ORDINARY = {
    "causal": lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True),
    "bool mask": lambda q: F.scaled_dot_product_attention(q, q, q, ad.eye(3, dtype=ad.bool)),
    "float mask": lambda q: F.scaled_dot_product_attention(
        q, q, q, ad.asarray(np.where(np.eye(3), 0, -math.inf))
    ),
    "bce of 0 and 1": lambda q: F.binary_cross_entropy(q.detach() * 0 + (q > 0), F.sigmoid(q)),
    "kl_div from 0": lambda q: F.kl_div(q, F.relu(q)),
    "max_pool": lambda q: F.max_pool1d(q, 2, padding=1),
    "normalize 0": lambda q: F.normalize(q * 0),
    "softplus": lambda q: F.softplus(q * 1e4),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_use_isn_t_an_anomaly(name: str) -> None:
    q = leaf(reals(2, 3, 3))
    with ad.detect_anomaly():
        ORDINARY[name](q).sum().backward()


# Classes.


def test_a_traced_cross_entropy_ignores_what_it_is_given_later() -> None:
    x, labels = ad.asarray(reals(3, 4)), ad.asarray([0, 1, 2])
    graph = ad.trace(F.cross_entropy, x, labels)
    for target in ([3, 2, 1], [-100, 2, 1]):
        target = ad.asarray(target)
        close(graph(x, target), values(F.cross_entropy(x, target)))


def test_unsigned_labels_can_t_be_ignored_by_a_negative_index() -> None:
    x, labels = ad.asarray(reals(3, 4)), ad.asarray([0, 1, 2], dtype=ad.uint8)
    expected = F.cross_entropy(x, ad.astype(labels, ad.int64))
    close(F.cross_entropy(x, labels), values(expected))
    close(ad.trace(F.cross_entropy, x, labels)(x, labels), values(expected))


def test_the_mean_over_nothing_is_nan() -> None:
    assert math.isnan(F.cross_entropy(ad.ones((2, 3)), ad.asarray([-100, -100])).item())


def test_cross_entropy_takes_no_op_for_what_isn_t_asked_for() -> None:
    x, target = ad.asarray(reals(3, 4)), ad.asarray([0, 1, 2])
    x.requires_grad_()
    node, names = F.cross_entropy(x, target).node, []
    while node.plan is not None:
        names.append(node.name)
        node = node.inputs[0]
    assert names == ["divide", "sum", "cross_entropy"]


WEIGHTED = {
    "an ignored target": lambda x: F.cross_entropy(x, labels_of(x, ignored=1)),
    "weights": lambda x: F.cross_entropy(x, labels_of(x), ad.ones(2, dtype=x.dtype)),
    "weights of logs": lambda x: F.nll_loss(
        F.log_softmax(x), labels_of(x, ignored=1), ad.ones(2, dtype=x.dtype)
    ),
    "batchmean": lambda x: F.kl_div(
        ad.reshape(x, (2, -1)) - 0.5, ad.reshape(x, (2, -1)) + 1, reduction="batchmean"
    ),
}


def labels_of(x: ad.Tensor, ignored: int = 0) -> ad.Tensor:
    return ad.asarray(np.where(np.arange(x.shape[0]) < ignored, -100, 0))


@pytest.mark.parametrize("name", WEIGHTED)
def test_weighted_means_of_half_precision_are_taken_in_float32(name: str) -> None:
    x = ad.zeros((70000, 2), dtype=ad.float16)
    out = WEIGHTED[name](x)
    assert out.dtype == ad.float16
    np.testing.assert_allclose(values(out), {"batchmean": 35000}.get(name, math.log(2)), rtol=1e-3)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_one_hot_of_small_integers_has_any_number_of_classes(dtype: str) -> None:
    out = F.one_hot(ad.asarray(np.array([3], dtype)), 300)
    assert out.shape == (1, 300)
    assert values(out).argmax() == 3


@pytest.mark.parametrize(
    ("index", "classes", "expected"),
    [([0, 2], -1, [[1, 0, 0], [0, 0, 1]]), ([[1]], 2, [[[0, 1]]]), (1, 3, [0, 1, 0])],
)
def test_one_hot(index: Any, classes: int, expected: Any) -> None:
    out = F.one_hot(ad.asarray(index), classes)
    assert out.dtype == ad.int64
    assert values(out).tolist() == expected


# Dropout.


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_drops_its_part_and_its_gradient_is_its_mask(p: float) -> None:
    x = leaf(np.ones(20000))
    out = F.dropout(x, p)
    kept = values(out) != 0
    assert abs(kept.mean() - (1 - p)) < 0.015
    np.testing.assert_allclose(values(out)[kept], 1 / (1 - p))
    out.sum().backward()
    close(x.grad, values(out))


@pytest.mark.parametrize("name", ["dropout", "dropout1d", "alpha_dropout"])
def test_dropout_at_its_ends(name: str) -> None:
    function, x = getattr(F, name), ad.asarray(reals(2, 3, 4))
    close(function(x, 0.0, training=True), values(x))
    close(function(x, 1.0, training=True), np.zeros((2, 3, 4)))
    close(function(x, 0.5, training=False), values(x))


def test_channel_dropout_drops_whole_channels() -> None:
    for count in (1, 2, 3):
        out = values(getattr(F, f"dropout{count}d")(ad.ones((8, 16, *(3,) * count))))
        flat = out.reshape(8 * 16, -1)
        assert (flat == flat[:, :1]).all()
        assert set(np.unique(flat)) == {0.0, 2.0}


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    out = values(F.alpha_dropout(ad.random.normal((100000,)), 0.3, training=True))
    assert abs(out.mean()) < 0.02
    assert abs(out.var() - 1) < 0.03


def test_attention_drops_weights_and_not_values() -> None:
    ones = ad.ones((4, 50, 8))
    out = F.scaled_dot_product_attention(ones, ones, ones, dropout_p=0.5)
    assert 0 < values(out).std() < 0.5
    assert abs(values(out).mean() - 1) < 0.1


# Empty batches.

EMPTY = {
    "conv1d": lambda x: F.conv1d(x, ad.ones((2, 3, 2))),
    "conv_transpose1d": lambda x: F.conv_transpose1d(x, ad.ones((3, 2, 2))),
    "max_pool1d": lambda x: F.max_pool1d(x, 2),
    "avg_pool1d": lambda x: F.avg_pool1d(x, 2),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x, 3),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x, 3),
    "layer_norm": lambda x: F.layer_norm(x, 4),
    "group_norm": lambda x: F.group_norm(x, 3),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "interpolate": lambda x: F.interpolate(x, 6, mode="linear"),
    "area": lambda x: F.interpolate(x, 2, mode="area"),
}


@pytest.mark.parametrize("name", EMPTY)
def test_batches_of_nothing_work(name: str) -> None:
    x = ad.zeros((0, 3, 4), requires_grad=True)
    out = EMPTY[name](x)
    assert out.shape[0] == 0
    out.sum().backward()
    assert x.grad.shape == (0, 3, 4)


@pytest.mark.parametrize("name", ["conv2d", "conv_transpose2d"])
@pytest.mark.parametrize(("inputs", "outputs"), [(0, 3), (3, 0), (0, 0)])
def test_images_and_filters_without_channels_work(name: str, inputs: int, outputs: int) -> None:
    shape = (outputs, inputs) if name == "conv2d" else (inputs, outputs)
    x, w = (ad.ones(s, requires_grad=True) for s in ((2, inputs, 4, 4), (*shape, 3, 3)))
    out = getattr(F, name)(x, w, ad.ones(outputs), padding=1)
    assert out.shape == (2, outputs, 4, 4)
    assert (values(out) == 1).all()
    for leaf_, g in zip((x, w), ad.autograd.grad(out.sum(), [x, w]), strict=True):
        assert g.shape == leaf_.shape
        assert not values(g).any()


# Dtypes.

HERE = ("adjoint.nn", "adjoint.nn._pooling", "adjoint.nn._convolution")
OURS = [c for c in CASES if getattr(F, c.function).__module__.startswith(HERE)]
ONCE = list({c.function: c for c in reversed(OURS)}.values())
COMPLEX = {"linear", "embedding", "pad", "pixel_shuffle", "pixel_unshuffle"}


def in_dtype(case: Case, dtype: Any, factor: float = 1) -> list[ad.Tensor]:
    """A case's tensors, the floats in a dtype."""
    return [
        ad.asarray((a * factor).astype(dtype) if a.dtype.kind == "f" else a) for a in case.given
    ]


def in_half_and_single(case: Case, factor: float) -> list[np.ndarray]:
    """The results of float16 numbers, and of the same numbers in float32."""
    half = in_dtype(case, "f2", factor)
    single = [ad.astype(x, ad.float32) if x.dtype == ad.float16 else x for x in half]
    function = getattr(F, case.function)
    with np.errstate(over="ignore"):
        return [values(case.call(function, case.options, given)) for given in (half, single)]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_float16_results_are_those_of_float32_rounded(case: Case) -> None:
    half, single = in_half_and_single(case, 1)
    assert half.dtype == np.float16
    np.testing.assert_array_max_ulp(half, single.astype(np.float16), 2)


UNBOUNDED = [c for c in CASES if c.function != "binary_cross_entropy"]


@pytest.mark.parametrize("case", UNBOUNDED, ids=lambda c: c.id)
def test_float16_doesn_t_overflow_where_the_result_fits(case: Case) -> None:
    half, single = in_half_and_single(case, 100)
    fits = np.abs(single) < 65000
    np.testing.assert_array_max_ulp(half[fits], single[fits].astype(np.float16), 2)


@pytest.mark.parametrize(
    "case", [c for c in ONCE if c.function not in COMPLEX], ids=lambda c: c.function
)
def test_complex_numbers_are_refused(case: Case) -> None:
    with pytest.raises(DTypeError, match=f"^{case.function}: .*complex128"):
        case.call(getattr(F, case.function), case.options, in_dtype(case, "c16"))


@pytest.mark.parametrize("case", ONCE, ids=lambda c: c.function)
def test_what_isn_t_a_tensor_is_refused_by_the_function_called(case: Case) -> None:
    for wrong in range(len(case.arrays)):
        given: list[Any] = in_dtype(case, "f8")
        given[wrong] = "text"
        with pytest.raises(DTypeError, match=f"^{case.function}: .*str"):
            case.call(getattr(F, case.function), case.options, given)


LOSS = (ad.asarray([[0.25, 0.5]]), ad.asarray([[0.5, 0.25]]))
IMAGE = (ad.reshape(ad.arange(8.0), (2, 2, 2)),)
HYPERPARAMETERS: list[tuple[str, tuple, dict[str, float]]] = [
    ("hardtanh", LOSS[:1], {"min_val": -0.5, "max_val": 0.3}),
    ("leaky_relu", LOSS[:1], {"negative_slope": 0.1}),
    ("elu", LOSS[:1], {"alpha": 0.1}),
    ("celu", LOSS[:1], {"alpha": 0.1}),
    ("softplus", LOSS[:1], {"beta": 2.5, "threshold": 0.7}),
    ("threshold", LOSS[:1], {"threshold": 0.3, "value": 0.1}),
    ("normalize", LOSS[:1], {"p": 2.5, "eps": 0.9}),
    ("cosine_similarity", LOSS, {"eps": 0.9}),
    ("pairwise_distance", LOSS, {"p": 2.5, "eps": 0.1}),
    ("huber_loss", LOSS, {"delta": 0.1}),
    ("smooth_l1_loss", LOSS, {"beta": 0.1}),
    ("poisson_nll_loss", LOSS, {"eps": 0.1}),
    ("gaussian_nll_loss", (*LOSS, LOSS[0]), {"eps": 0.3}),
    ("hinge_embedding_loss", LOSS, {"margin": 0.1}),
    ("margin_ranking_loss", (*LOSS, LOSS[0]), {"margin": 0.1}),
    ("cosine_embedding_loss", (*LOSS, ad.asarray([-1])), {"margin": 0.1}),
    ("triplet_margin_loss", (*LOSS, LOSS[0]), {"margin": 0.1, "p": 2.5, "eps": 0.1}),
    ("cross_entropy", (LOSS[0], ad.asarray([1])), {"label_smoothing": 0.1}),
    ("dropout", LOSS[:1], {"p": 0.3}),
    ("dropout1d", LOSS[:1], {"p": 0.3}),
    ("dropout2d", IMAGE, {"p": 0.3}),
    ("dropout3d", (ad.ones((2, 2, 2, 2)),), {"p": 0.3}),
    ("alpha_dropout", LOSS[:1], {"p": 0.3, "training": True}),
    ("layer_norm", (*IMAGE, 2), {"eps": 0.1}),
    ("rms_norm", (*IMAGE, 2), {"eps": 0.1}),
    ("group_norm", (*IMAGE, 2), {"eps": 0.1}),
    ("batch_norm", (*IMAGE, None, None, None, None, True), {"eps": 0.1, "momentum": 0.1}),
    ("batch_norm", (*IMAGE, ad.zeros(2), ad.ones(2)), {"eps": 0.1}),
    ("instance_norm", IMAGE, {"eps": 0.1, "momentum": 0.1}),
    ("pad", (*LOSS[:1], (1, 1)), {"value": 0.1}),
    ("interpolate", IMAGE, {"scale_factor": 1.7}),
    ("scaled_dot_product_attention", (*LOSS, LOSS[0]), {"scale": 0.3, "dropout_p": 0.1}),
]
EACH = [
    pytest.param(partial(getattr(F, name), *args, **options), options, key, id=f"{name}-{key}")
    for name, args, options in HYPERPARAMETERS
    for key in options
    if key != "training"
]


@pytest.mark.parametrize(("function", "options", "key"), EACH)
def test_numpy_numbers_are_the_same_hyperparameters(
    function: partial, options: dict, key: str
) -> None:
    results = []
    for number in (float, np.float64, np.float32):
        ad.random.seed(0)
        results.append(function(**{key: number(options[key])}))
    assert {x.dtype for x in results} == {ad.float32}
    np.testing.assert_array_equal(values(results[1]), values(results[0]))
    np.testing.assert_allclose(values(results[2]), values(results[0]), rtol=1e-5)


@pytest.mark.parametrize("wrong", ["0.1", ad.asarray(0.1)], ids=["text", "tensor"])
@pytest.mark.parametrize(("function", "options", "key"), EACH)
def test_hyperparameters_are_numbers(
    function: partial, options: dict, key: str, wrong: Any
) -> None:
    name = function.func.__name__
    with pytest.raises(DTypeError, match=f"^{name}: {key} must be a Python number"):
        function(**{key: wrong})


@pytest.mark.parametrize("name", ["threshold", "hardtanh", "pad"])
def test_integers_stay_integers(name: str) -> None:
    x = ad.asarray([[-5, 0, 5]])
    args = {"threshold": (1, -7), "hardtanh": (-1, 1), "pad": ((1, 1), "constant", 7)}[name]
    assert getattr(F, name)(x, *args).dtype == ad.int64


WEAK = {
    "prelu": lambda x, a: F.prelu(-x, a),
    "bce": lambda x, a: F.binary_cross_entropy(x, x, a),
    "with_logits": lambda x, a: F.binary_cross_entropy_with_logits(x, x, a),
    "pos_weight": lambda x, a: F.binary_cross_entropy_with_logits(x, x, pos_weight=a),
    "var": lambda x, a: F.gaussian_nll_loss(x, -x, a),
    "attn_mask": lambda x, a: F.scaled_dot_product_attention(x, x, x, a),
    "linear": lambda x, a: F.linear(x, x, a),
    "target": lambda x, a: F.margin_ranking_loss(x, x, a, 0.3),
}


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("name", WEAK)
def test_python_scalars_have_the_tensor_s_dtype(name: str, dtype: str) -> None:
    x = ad.asarray(np.array([[0.25, 0.75]], dtype))
    found, expected = (WEAK[name](x, a) for a in (0.1, ad.asarray(np.array(0.1, dtype))))
    assert found.dtype == expected.dtype == x.dtype
    np.testing.assert_array_max_ulp(values(found), values(expected), 1)


IDENTITIES = {
    "dropout": lambda x: F.dropout(x, training=False),
    "dropout of nothing": lambda x: F.dropout(x, 0.0),
    "dropout1d": lambda x: F.dropout1d(x, training=False),
    "dropout2d": lambda x: F.dropout2d(x, training=False),
    "dropout2d of nothing": lambda x: F.dropout2d(x, 0.0),
    "dropout3d": lambda x: F.dropout3d(x[None], training=False)[0],
    "alpha_dropout": F.alpha_dropout,
    "alpha_dropout of nothing": lambda x: F.alpha_dropout(x, 0.0, True),
    "constant": lambda x: F.pad(x, (0, 0)),
    "no widths": lambda x: F.pad(x, (), "reflect"),
    "reflect": lambda x: F.pad(x, (0, 0), "reflect"),
    "replicate": lambda x: F.pad(x, (0, 0), "replicate"),
    "circular": lambda x: F.pad(x, (0, 0), "circular"),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 1),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 1),
    "max_pool1d": lambda x: F.max_pool1d(x, 1),
    "avg_pool1d": lambda x: F.avg_pool1d(x, 1),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x, None),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x, None),
    "area": lambda x: F.interpolate(x, 4, mode="area"),
    "clip": F.clip,
    "hardtanh": lambda x: F.hardtanh(x, -9, 9),
    "einsum": lambda x: F.einsum("ijk->ijk", x),
} | {
    f"{mode} {key}": lambda x, mode=mode, given={key: value}: F.interpolate(x, mode=mode, **given)
    for mode in ("nearest", "linear")
    for key, value in (("size", 4), ("scale_factor", 1))
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_a_result_that_equals_the_argument_is_another_tensor(name: str) -> None:
    x = ad.asarray(reals(3, 2, 4))
    before = values(x).copy()
    y = IDENTITIES[name](x)
    assert y is not x
    np.testing.assert_array_equal(values(y), before)
    y += 1
    np.testing.assert_array_equal(values(x), before)


# Misuse: what was asked, what was wrong, what to do.


MISUSE: list[tuple[type[Exception], Callable[[], Any], str]] = [
    (ShapeError, lambda: F.conv1d(ones(4), ones(1, 1, 2)), "conv1d | (N, C, L) or (C, L) | (4,)"),
    (
        ShapeError,
        lambda: F.conv3d(ones(1, 1, 2, 2, 2), ones(1, 1, 2)),
        "conv3d | filters | d, h, w",
    ),
    (
        ArgumentError,
        lambda: F.conv1d(ones(1, 1, 3), ones(1, 1, 2), padding="some"),
        "'some'|'same'",
    ),
    (
        ArgumentError,
        lambda: F.conv1d(ones(1, 1, 3), ones(1, 1, 2), stride=2, padding="same"),
        "conv1d | 'same' | stride 1 | (2,)",
    ),
    (ArgumentError, lambda: F.conv3d(ones(1, 1, 3, 3, 3), ones(1, 1, 2, 2, 2), stride=(1, 2)), "3"),
    (
        DTypeError,
        lambda: F.conv1d(ones(1, 1, 3), ones(1, 1, 2), groups=1.5),
        "conv1d | groups | 1.5",
    ),
    (DTypeError, lambda: F.conv1d(ones(1, 1, 3, dtype=bool), ones(1, 1, 2, dtype=bool)), "bool"),
    (ShapeError, lambda: F.conv_transpose1d(ones(1, 2, 3), ones(3, 1, 2)), "2 channels | for 3"),
    (
        ArgumentError,
        lambda: F.conv_transpose1d(ones(1, 2, 3), ones(2, 1, 2), output_padding=1),
        "conv_transpose1d | output_padding (1,) | stride (1,)",
    ),
    (
        ArgumentError,
        lambda: F.conv_transpose1d(ones(1, 2, 3), ones(2, 1, 2), groups=3),
        "conv_transpose1d | groups=3 | 2",
    ),
    (
        ShapeError,
        lambda: F.conv_transpose1d(ones(1, 2, 3), ones(2, 1, 2), ones(2)),
        "conv_transpose1d | bias | (2,) | (1,)",
    ),
    (
        ShapeError,
        lambda: F.conv_transpose1d(ones(1, 1, 1), ones(1, 1, 2), padding=1),
        "conv_transpose1d | padding (1,) | (0,)",
    ),
    (
        ArgumentError,
        lambda: F.max_pool1d(ones(1, 1, 1), 2, dilation=2, padding=1),
        "max_pool1d | only padding | dilation (2,)",
    ),
    (ArgumentError, lambda: F.avg_pool1d(ones(1, 1, 4), 2, padding=2), "avg_pool1d | half"),
    (ArgumentError, lambda: F.avg_pool2d(ones(1, 1, 4, 4), 2, divisor_override=0), "not be 0"),
    (ArgumentError, lambda: F.avg_pool1d(ones(1, 1, 4), 0), "kernel_size | at least 1"),
    (
        ArgumentError,
        lambda: F.adaptive_avg_pool2d(ones(1, 1, 4, 4), (1, 2, 3)),
        "output_size | pair",
    ),
    (ShapeError, lambda: F.adaptive_max_pool1d(ones(1, 1, 0), 2), "no elements | (1, 1, 0)"),
    (ShapeError, lambda: F.layer_norm(ones(2, 3), (2,)), "layer_norm | (2,) | (2, 3)"),
    (ShapeError, lambda: F.layer_norm(ones(2, 3), 3, weight=ones(2)), "weight | (2,) | (3,)"),
    (ShapeError, lambda: F.rms_norm(ones(2, 3), ()), "rms_norm | ()"),
    (ArgumentError, lambda: F.group_norm(ones(2, 3), 2), "group_norm | num_groups=2 | 3 channels"),
    (ShapeError, lambda: F.batch_norm(ones(3), training=True), "batch_norm | (N, C, ...) | (3,)"),
    (ShapeError, lambda: F.batch_norm(ones(1, 3), training=True), "batch_norm | more than one"),
    (ArgumentError, lambda: F.batch_norm(ones(2, 3)), "batch_norm | running_mean"),
    (ShapeError, lambda: F.batch_norm(ones(2, 3), ones(2), ones(2)), "running_mean | (2,) | (3,)"),
    (ShapeError, lambda: F.instance_norm(ones(2, 3, 1)), "instance_norm | more than one"),
    (KeywordError, lambda: F.normalize(ones(2, 3), dim=1), "normalize | dim= | axis="),
    (KeywordError, lambda: F.glu(ones(2, 4), dim=1), "glu | dim= | axis="),
    (ShapeError, lambda: F.glu(ones(2, 3)), "glu | (2, 3) | halved"),
    (ShapeError, lambda: F.prelu(ones(2, 3), ones(2)), "prelu | 3 | (2,)"),
    (ArgumentError, lambda: F.gelu(ones(2), approximate="erf"), "gelu | 'erf' | 'tanh'"),
    (ShapeError, lambda: F.mse_loss(ones(2, 1), ones(2)), "mse_loss | (2, 1) | (2,)"),
    (
        ArgumentError,
        lambda: F.l1_loss(ones(2), ones(2), reduction="avg"),
        "l1_loss | 'avg' | 'mean'",
    ),
    (ArgumentError, lambda: F.huber_loss(ones(2), ones(2), delta=0.0), "huber_loss | delta=0.0"),
    (
        ArgumentError,
        lambda: F.smooth_l1_loss(ones(2), ones(2), beta=-1),
        "smooth_l1_loss | beta=-1",
    ),
    (ArgumentError, lambda: F.binary_cross_entropy(ones(2) * 2, ones(2)), "0 and 1 | with_logits"),
    (ShapeError, lambda: F.binary_cross_entropy(ones(2), ones(2), ones(3)), "weight | (3,) | (2,)"),
    (ArgumentError, lambda: F.kl_div(ones(2), ones(2), reduction="all"), "kl_div | 'batchmean'"),
    (ArgumentError, lambda: F.gaussian_nll_loss(ones(2), ones(2), -ones(2)), "var | negative"),
    (ShapeError, lambda: F.gaussian_nll_loss(ones(2), ones(2), ones(3)), "var | (3,) | (2,)"),
    (ShapeError, lambda: F.cosine_embedding_loss(ones(2, 3), ones(2, 3), ones(3)), "(2,) | (3,)"),
    (IndexingError, lambda: F.cross_entropy(ones(2, 3), ints(0, 7)), "cross_entropy | 0 to 2 | 7"),
    (
        ArgumentError,
        lambda: F.cross_entropy(ones(2, 3), ints(0, -7)),
        "cross_entropy | 0 to 2 | -7",
    ),
    (ArgumentError, lambda: F.nll_loss(ones(2, 3), ints(0, -1), ignore_index=0), "nll_loss | -1"),
    (ShapeError, lambda: F.cross_entropy(ones(2, 3), ints(0, 1), ones(2)), "weight | (2,) | (3,)"),
    (
        ArgumentError,
        lambda: F.cross_entropy(ones(2, 3), ints(0, 1), label_smoothing=1.5),
        "cross_entropy | label_smoothing 1.5",
    ),
    (DTypeError, lambda: F.nll_loss(ones(2, 3), ones(2, 3)), "nll_loss | integer | float32"),
    (ShapeError, lambda: F.linear(ones(2, 3), ones(4, 2)), "linear: | (2, 3) | (4, 2)"),
    (ShapeError, lambda: F.linear(ones(2, 3), ones(4, 3), ones(3)), "linear: | bias | (3,)"),
    (IndexingError, lambda: F.embedding(ints(7), ones(3, 2)), "embedding: | 7"),
    (IndexingError, lambda: F.embedding(ones(1), ones(3, 2)), "embedding: | float32"),
    (ShapeError, lambda: F.embedding(ints(0), ones()), "embedding: | 0-d"),
    (DTypeError, lambda: F.relu6(ones(2, dtype=bool)), "relu6: | bool"),
    (DTypeError, lambda: F.hardtanh(ones(2, dtype=bool)), "hardtanh: | bool"),
    (AxisError, lambda: F.softmin(ones(2), 3), "softmin: | axis 3"),
    (AxisError, lambda: F.pairwise_distance(1.0, 2.0), "pairwise_distance: | 0 axes"),
    (
        ShapeError,
        lambda: F.margin_ranking_loss(ones(2), ones(3), ones(2)),
        "margin_ranking_loss: | (2,) | (3,)",
    ),
    (
        ShapeError,
        lambda: F.cosine_embedding_loss(ones(2, 3), ones(2, 4), ones(2)),
        "cosine_embedding_loss: | (2, 3) | (2, 4)",
    ),
    (
        ShapeError,
        lambda: F.triplet_margin_loss(ones(2, 3), ones(2, 4), ones(2, 3)),
        "triplet_margin_loss: | (2, 3) | (2, 4)",
    ),
    (
        ArgumentError,
        lambda: F.scaled_dot_product_attention(ones(2, 3), ones(2, 3), ones(2, 3), dropout_p=2),
        "scaled_dot_product_attention: dropout_p=2",
    ),
    (
        ArgumentError,
        lambda: F.embedding(ints(0), ones(3, 2), 3),
        "embedding | padding_idx 3 | (3, 2)",
    ),
    (ArgumentError, lambda: F.one_hot(ints(0, 3), 2), "one_hot | 0 to 1 | 3"),
    (ArgumentError, lambda: F.one_hot(ints()), "one_hot | num_classes"),
    (ArgumentError, lambda: F.dropout(ones(2), 1.5), "dropout | p=1.5"),
    (ShapeError, lambda: F.dropout2d(ones(2)), "dropout2d | (2,)"),
    (ArgumentError, lambda: F.pad(ones(2, 3), (1, 2, 3)), "pad | pairs | (1, 2, 3)"),
    (ArgumentError, lambda: F.pad(ones(2, 3), (1, 1), mode="edge"), "pad | 'edge' | replicate"),
    (
        ArgumentError,
        lambda: F.pad(ones(2, 3), (1, 1), "reflect", 2.0),
        "pad | value=2.0 | 'reflect'",
    ),
    (ShapeError, lambda: F.pad(ones(2, 3), (3, 0), "reflect"), "pad | 'reflect' | (2, 3)"),
    (ShapeError, lambda: F.pad(ones(2, 3), (-2, -2)), "pad | (2, 3) | takes"),
    (ArgumentError, lambda: F.interpolate(ones(1, 1, 4)), "interpolate | size or scale_factor"),
    (
        ArgumentError,
        lambda: F.interpolate(ones(1, 1, 4), 2, mode="bilinear"),
        "1 spatial | 'linear'",
    ),
    (ArgumentError, lambda: F.interpolate(ones(1, 1, 4), 2, align_corners=True), "'nearest'"),
    (ArgumentError, lambda: F.interpolate(ones(1, 1, 4), scale_factor=-1), "scale_factor | -1"),
    (ShapeError, lambda: F.interpolate(ones(1, 1, 4), scale_factor=0.1), "interpolate | nothing"),
    (ShapeError, lambda: F.interpolate(ones(1, 4), 2), "interpolate | (1, 4)"),
    (ShapeError, lambda: F.unfold(ones(1, 1, 2, 2), 3), "unfold | (3, 3) | larger"),
    (ShapeError, lambda: F.fold(ones(1, 4, 3), 3, 2), "fold | (N, C * 4, 4) | (1, 4, 3)"),
    (ShapeError, lambda: F.pixel_shuffle(ones(3, 2, 2), 2), "pixel_shuffle | 3 channels | 2 * 2"),
    (ShapeError, lambda: F.pixel_unshuffle(ones(3, 3, 2), 2), "pixel_unshuffle | (3, 3, 2) | 2"),
    (
        ShapeError,
        lambda: F.scaled_dot_product_attention(ones(2, 3), ones(2, 4), ones(2, 3)),
        "scaled_dot_product_attention | (2, 3) | (2, 4)",
    ),
    (
        ArgumentError,
        lambda: F.scaled_dot_product_attention(
            ones(2, 3), ones(2, 3), ones(2, 3), ones(2, 2), is_causal=True
        ),
        "attn_mask | is_causal | not both",
    ),
    (
        DTypeError,
        lambda: F.scaled_dot_product_attention(ones(2, 3), ones(2, 3), ones(2, 3), ints(0, 1)),
        "attn_mask | int64",
    ),
    (
        ShapeError,
        lambda: F.scaled_dot_product_attention(
            ones(3, 2, 3), ones(2, 2, 3), ones(2, 2, 3), enable_gqa=True
        ),
        "enable_gqa | multiple | (3, 2, 3) | (2, 2, 3)",
    ),
]


@pytest.mark.parametrize(
    ("error", "call", "words"), MISUSE, ids=lambda v: v if isinstance(v, str) else ""
)
def test_misuse_is_explained(error: type[Exception], call: Callable, words: str) -> None:
    explained(error, call, *map(str.strip, words.split("|")))


@pytest.mark.parametrize("name", [n for n, f in vars(F).items() if callable(f)])
def test_examples_run(name: str) -> None:
    """Also those of functions that are wrapped, which doctest takes for another module's."""
    function = inspect.unwrap(getattr(F, name))
    (test,) = doctest.DocTestFinder(recurse=False).find(function, name, globs={"ad": ad})
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0


def test_names_that_both_namespaces_offer_are_the_same() -> None:
    names = "sigmoid relu softmax log_softmax logsumexp erf einsum topk where clip tanh silu gelu"
    for name in names.split():
        assert getattr(F, name) is getattr(ad, name), name


ELSEWHERE = {
    *"clip einsum erf logsumexp topk where".split(),  # functions of `ad`: tests/support/records.py
    *"alpha_dropout dropout dropout1d dropout2d dropout3d".split(),  # random: by their own tests
    "one_hot",  # integers in, integers out
}


def test_every_function_has_a_case() -> None:
    public = {n for n, f in vars(F).items() if callable(f) and not n.startswith("_")}
    assert public - {case.function for case in CASES} == ELSEWHERE
