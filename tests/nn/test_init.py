"""Values to start from: PyTorch's bounds and deviations, in place, from a generator if given."""

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.nn import init
from tests.support.helpers import close, values

MANY = (200, 100, 3)  # 300 inputs, 600 outputs
RELU = math.sqrt(2)

# A function, its options, and the bound of a uniform distribution.
UNIFORM: list[tuple[str, dict[str, Any], float]] = [
    ("xavier_uniform_", {}, math.sqrt(6 / 900)),
    ("xavier_uniform_", {"gain": 2.0}, 2 * math.sqrt(6 / 900)),
    ("kaiming_uniform_", {}, RELU * math.sqrt(3 / 300)),
    ("kaiming_uniform_", {"mode": "fan_out"}, RELU * math.sqrt(3 / 600)),
    ("kaiming_uniform_", {"a": math.sqrt(5)}, math.sqrt(1 / 300)),
    ("kaiming_uniform_", {"nonlinearity": "tanh"}, 5 / 3 * math.sqrt(3 / 300)),
    ("uniform_", {"a": -0.5, "b": 0.5}, 0.5),
]
# A function, its options, and the standard deviation of a normal distribution.
NORMAL: list[tuple[str, dict[str, Any], float]] = [
    ("normal_", {}, 1),
    ("normal_", {"std": 0.02}, 0.02),
    ("xavier_normal_", {"gain": 3.0}, 3 * math.sqrt(2 / 900)),
    ("kaiming_normal_", {"nonlinearity": "relu"}, RELU / math.sqrt(300)),
    ("kaiming_normal_", {"mode": "fan_out", "a": 0.5}, math.sqrt(2 / 1.25 / 600)),
]
DRAWING = [
    *((name, options) for name, options, _ in UNIFORM + NORMAL),
    ("trunc_normal_", {}),
    ("orthogonal_", {}),
]
each_drawing = pytest.mark.parametrize("name, options", DRAWING)


@pytest.mark.parametrize("name, options, bound", UNIFORM)
def test_uniform_numbers_reach_their_bound(name: str, options: dict, bound: float) -> None:
    x = values(getattr(init, name)(ad.zeros(MANY), **options))
    assert 0.999 * bound < np.abs(x).max() <= bound * (1 + 1e-6)
    np.testing.assert_allclose(x.std(), bound / math.sqrt(3), rtol=0.02)
    assert abs(x.mean()) < 0.02 * bound


@pytest.mark.parametrize("name, options, std", NORMAL)
def test_normal_numbers_have_their_deviation(name: str, options: dict, std: float) -> None:
    x = values(getattr(init, name)(ad.zeros(MANY), **options))
    np.testing.assert_allclose(x.std(), std, rtol=0.02)
    assert 3.5 * std < np.abs(x).max() and abs(x.mean()) < 0.02 * std


def test_truncated_numbers_stay_between_bounds_that_aren_t_scaled() -> None:
    x = values(init.trunc_normal_(ad.zeros(50_000), mean=1.0, std=2.0, a=-0.5, b=3.0))
    assert -0.5 <= x.min() < -0.49 and 2.99 < x.max() <= 3.0
    normal = NormalDist()
    low, high = -0.75, 1.0  # the bounds, in deviations from the mean
    part = normal.cdf(high) - normal.cdf(low)
    mean = 1 + 2 * (normal.pdf(low) - normal.pdf(high)) / part
    assert abs(x.mean() - mean) < 4 * x.std() / math.sqrt(x.size)


@each_drawing
def test_the_tensor_itself_is_filled_and_returned(name: str, options: dict) -> None:
    weight = ad.nn.Parameter(ad.zeros((4, 3, 2), dtype=ad.float64))
    before = weight.detach()
    assert getattr(init, name)(weight, **options) is weight
    assert weight.is_leaf and weight.requires_grad and weight.dtype == ad.float64
    assert values(weight).all() and not values(before).any()


@each_drawing
def test_a_generator_is_used_and_the_global_one_left_alone(name: str, options: dict) -> None:
    before = values(ad.random.get_state()).copy()
    one, same = (
        values(getattr(init, name)(ad.zeros((4, 3)), **options, generator=ad.random.Generator(7)))
        for _ in range(2)
    )
    np.testing.assert_array_equal(one, same)
    np.testing.assert_array_equal(values(ad.random.get_state()), before)


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (3, 2, 2), (6, 1, 2)])
def test_orthogonal_rows_or_columns(shape: tuple[int, ...]) -> None:
    x = values(init.orthogonal_(ad.zeros(shape, dtype=ad.float64), gain=2.0))
    rows = x.reshape(shape[0], -1)
    product = rows @ rows.T if rows.shape[0] <= rows.shape[1] else rows.T @ rows
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-12)


def test_orthogonal_matrices_have_no_preferred_signs() -> None:
    corners = [values(init.orthogonal_(ad.zeros((2, 2))))[0, 0] for _ in range(200)]
    assert 60 < sum(corner > 0 for corner in corners) < 140


def test_sparse_columns_have_their_zeros_at_random_places() -> None:
    x = values(init.sparse_(ad.ones((50, 40)), sparsity=0.31, std=0.5))
    np.testing.assert_array_equal((x == 0).sum(axis=0), np.full(40, 16))
    assert len({tuple(column) for column in (x == 0).T}) == 40
    np.testing.assert_allclose(x[x != 0].std(), 0.5, rtol=0.1)


@pytest.mark.parametrize("shape, groups", [((4, 2, 3), 2), ((5, 3, 3, 2), 1), ((2, 4, 1, 2, 3), 1)])
def test_dirac_passes_channels_on(shape: tuple[int, ...], groups: int) -> None:
    torch = pytest.importorskip("torch")
    expected = torch.nn.init.dirac_(torch.zeros(shape), groups).numpy()
    close(init.dirac_(ad.ones(shape), groups), expected, 0)


@pytest.mark.parametrize("name", [*init.GAINS, "leaky_relu"])
def test_gains_are_pytorch_s(name: str) -> None:
    torch = pytest.importorskip("torch")
    assert init.calculate_gain(name) == pytest.approx(torch.nn.init.calculate_gain(name), rel=1e-15)
    slope = torch.nn.init.calculate_gain("leaky_relu", 0.3)
    assert init.calculate_gain("leaky_relu", 0.3) == pytest.approx(slope, rel=1e-15)


def test_constants() -> None:
    close(init.constant_(ad.zeros((2, 2)), 0.25), np.full((2, 2), 0.25))
    close(init.ones_(ad.zeros(3)), np.ones(3))
    close(init.zeros_(ad.ones(3)), np.zeros(3))
    close(init.eye_(ad.ones((3, 2))), np.eye(3, 2))


@pytest.mark.parametrize("name", ["xavier_normal_", "kaiming_uniform_", "orthogonal_", "normal_"])
def test_tensors_without_elements_stay_as_they_are(name: str) -> None:
    assert getattr(init, name)(ad.zeros((0, 3))).shape == (0, 3)


@pytest.mark.webgpu
@each_drawing
def test_on_the_gpu(name: str, options: dict) -> None:
    x = getattr(init, name)(ad.zeros((4, 3), device="webgpu"), **options)
    assert x.device == "webgpu" and values(x.to("cpu")).all()


WRONG = [
    (lambda: init.xavier_uniform_(ad.zeros(3)), r"xavier_uniform_: a weight .* got shape \(3,\)"),
    (lambda: init.kaiming_normal_(ad.zeros(3)), r"kaiming_normal_: a weight .* got shape \(3,\)"),
    (lambda: init.kaiming_normal_(ad.zeros((2, 2)), mode="fan"), "mode is 'fan_in' or 'fan_out'"),
    (lambda: init.calculate_gain("swish"), "nonlinearity='swish' is none of linear, "),
    (lambda: init.eye_(ad.zeros((2, 2, 2))), r"eye_: a matrix is needed, got shape \(2, 2, 2\)"),
    (lambda: init.dirac_(ad.zeros((2, 2))), "dirac_: a weight .* is needed"),
    (lambda: init.dirac_(ad.zeros((3, 2, 2)), 2), "3 outputs can't be in groups=2 of equal size"),
    (lambda: init.orthogonal_(ad.zeros(3)), "orthogonal_: a weight of two axes or more"),
    (lambda: init.sparse_(ad.zeros((2, 2)), 1.5), "sparsity=1.5 is a part, from 0 to 1"),
    (lambda: init.trunc_normal_(ad.zeros(2), a=1.0, b=1.0), "a=1.0 below b=1.0"),
    (lambda: init.trunc_normal_(ad.zeros(2), std=0.0), "std=0.0 is above 0"),
    (lambda: init.zeros_(np.ones(2)), "zeros_: a tensor is needed, got a ndarray"),  # type: ignore[arg-type]
    (lambda: init.normal_(ad.asarray([1, 2])), "normal_: a tensor of floats is needed, got int64"),
]


@pytest.mark.parametrize("call, message", WRONG, ids=[message for _, message in WRONG])
def test_what_is_wrong_is_said(call: Any, message: str) -> None:
    with pytest.raises(ad.AdjointError, match=message):
        call()
