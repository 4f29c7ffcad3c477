"""Gradients and values of many parameters, and modules as functions of them."""

import builtins
import math
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional_call, utils
from tests.nn.layer_cases import reals
from tests.support.helpers import close, leaf, values

SHAPES = ((2, 3), (4,), (), (0,), (3, 1, 2))


def with_gradients(dtype: Any = np.float64, device: str = "cpu") -> list[ad.Tensor]:
    """Parameters with gradients, and one without."""
    params = [ad.zeros(s, dtype=dtype, device=device) for s in (*SHAPES, (2,))]
    for k, p in enumerate(params):
        p.requires_grad_()
        if k < len(SHAPES):
            g = reals(*SHAPES[k], seed=k).astype(values(p.to("cpu")).dtype)
            p.grad = ad.asarray(g).to(device)
    return params


def gradients(params: list[ad.Tensor]) -> list[np.ndarray]:
    return [values(p.grad.to("cpu")).copy() for p in params if p.grad is not None]


# Norms.


@pytest.mark.parametrize("norm_type", [2.0, 1.0, 3.5, math.inf])
@pytest.mark.parametrize("max_norm", [0.0, 0.5, 1000.0])
def test_norms_are_clipped_as_pytorch_does(norm_type: float, max_norm: float) -> None:
    torch = pytest.importorskip("torch")
    ours = with_gradients()
    theirs = [torch.zeros(p.shape, dtype=torch.float64, requires_grad=True) for p in ours]
    for p, q in zip(ours, theirs, strict=True):
        q.grad = None if p.grad is None else torch.tensor(values(p.grad))
    if norm_type == math.inf:
        theirs = [q for q in theirs if q.numel()]  # it has no largest of nothing
    expected = torch.nn.utils.clip_grad_norm_(theirs, max_norm, norm_type)
    close(utils.clip_grad_norm_(ours, max_norm, norm_type), expected.numpy())
    kept = [p.grad for p in ours if p.grad is not None and (norm_type < math.inf or p.size)]
    for g, q in zip(kept, [q for q in theirs if q.grad is not None], strict=True):
        close(g, q.grad.numpy())


def test_small_norms_leave_gradients_as_they_are() -> None:
    params = with_gradients()
    before = gradients(params)
    utils.clip_grad_norm_(params, 1000.0)
    for g, former in zip(gradients(params), before, strict=True):
        np.testing.assert_array_equal(g, former)


def test_gradients_held_elsewhere_keep_their_values() -> None:
    params = with_gradients()
    held, before = params[0].grad, gradients(params)[0]
    utils.clip_grad_norm_(params, 0.1)
    close(held, before, 0)
    assert not np.allclose(values(params[0].grad), before)


def test_the_norm_of_half_precision_doesn_t_overflow() -> None:
    x = ad.tensor(np.zeros(2, np.float16), requires_grad=True)
    x.grad = ad.asarray(np.array([300, 400], np.float16))
    assert utils.clip_grad_norm_(x, 1.0).item() == 500
    close(x.grad, [0.6, 0.8], 1e-3)
    assert x.grad is not None and x.grad.dtype == ad.float16


def test_dtypes_may_be_mixed() -> None:
    one, other = leaf([0.0], np.float32), leaf([0.0], np.float64)
    one.grad, other.grad = ad.ones(1) * 3, ad.ones(1, dtype=ad.float64) * 4
    total = utils.clip_grad_norm_([one, other], 1.0)
    close(total, 5)
    assert total.dtype == other.grad.dtype == ad.float64 and one.grad.dtype == ad.float32


def test_parameters_may_come_from_a_generator_or_alone() -> None:
    model = nn.Linear(2, 1)
    model(ad.ones((1, 2))).sum().backward()
    close(utils.clip_grad_norm_(model.parameters(), 1.0), math.sqrt(3), 1e-6)
    close(utils.get_total_norm(ad.asarray([3.0, 4.0])), 5)


def test_without_gradients_the_norm_is_zero() -> None:
    close(utils.clip_grad_norm_([leaf([1.0])], 1.0), 0)
    close(utils.clip_grad_norm_([], 1.0), 0)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_norm_that_isn_t_finite_raises_if_asked_and_changes_nothing(bad: float) -> None:
    x = leaf([1.0, 2.0])
    x.grad = ad.asarray(np.array([bad, 1.0]))
    with pytest.raises(ad.GradientError, match=f"the norm of all gradients is {bad}"):
        utils.clip_grad_norm_([x], 1.0, error_if_nonfinite=True)
    close(x.grad, [bad, 1.0])
    assert not math.isfinite(utils.clip_grad_norm_([x], 1.0).item())


def test_clipping_can_be_traced() -> None:
    x = leaf([0.0, 0.0])

    def step(g: ad.Tensor) -> ad.Tensor:
        x.grad = g
        return utils.clip_grad_norm_([x], 1.0)

    graph = ad.trace(step, ad.asarray(np.array([1.0, 1.0])))
    for g, expected in (([30.0, 40.0], [0.6, 0.8]), ([0.3, 0.4], [0.3, 0.4])):
        close(graph(ad.asarray(np.array(g))), math.hypot(*g))
        close(x.grad, expected, 1e-6)


@pytest.mark.webgpu
@pytest.mark.parametrize("max_norm", [0.5, 1000.0])
def test_clipping_on_the_gpu(max_norm: float) -> None:
    here, there = with_gradients(np.float32), with_gradients(np.float32, "webgpu")
    expected = utils.clip_grad_norm_(here, max_norm)
    total = utils.clip_grad_norm_(there, max_norm)
    assert total.device == "webgpu"
    close(total.to("cpu"), values(expected), 1e-5)
    for g, other in zip(gradients(there), gradients(here), strict=True):
        np.testing.assert_allclose(g, other, rtol=1e-5, atol=1e-7)


def test_values_are_clipped() -> None:
    params = with_gradients()
    before = gradients(params)
    utils.clip_grad_value_(params, 0.3)
    for g, former in zip(gradients(params), before, strict=True):
        np.testing.assert_array_equal(g, np.clip(former, -0.3, 0.3))


# Vectors.


def test_a_vector_and_back() -> None:
    model, other = nn.Linear(3, 2), nn.Linear(3, 2)
    vector = utils.parameters_to_vector(model.parameters())
    assert vector.shape == (8,)
    utils.vector_to_parameters(vector, other.parameters())
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(values(p), values(q))
        assert q.is_leaf and q.requires_grad


def test_a_vector_carries_gradients() -> None:
    model = nn.Linear(3, 2)
    vector = utils.parameters_to_vector(model.parameters())
    (vector * ad.arange(8)).sum().backward()
    close(model.bias.grad, [6, 7])


WRONG = [
    (lambda: utils.clip_grad_norm_([leaf([1.0])], -1.0), "max_norm=-1.0 must not be negative"),
    (lambda: utils.clip_grad_norm_([leaf([1.0])], 1.0, 0.0), "norm_type=0.0 must be above 0"),
    (lambda: utils.clip_grad_norm_([1.0], 1.0), "clip_grad_norm_: tensors are needed, got a float"),  # type: ignore[list-item]
    (
        lambda: utils.clip_grad_norm_(nn.Linear(1, 1), 1.0),
        "got a Linear; pass model.parameters",
    ),  # type: ignore[arg-type]
    (lambda: utils.clip_grad_value_(3, 1.0), "clip_grad_value_: tensors are needed, got a int"),  # type: ignore[arg-type]
    (lambda: utils.clip_grad_value_([leaf([1.0])], -1.0), "clip_value=-1.0 must not be negative"),
    (
        lambda: utils.vector_to_parameters(ad.ones(7), nn.Linear(3, 2).parameters()),
        r"the parameters have 8 elements, vec has shape \(7,\)",
    ),
]


@pytest.mark.parametrize("call, message", WRONG, ids=[message for _, message in WRONG])
def test_what_is_wrong_is_said(call: Any, message: str) -> None:
    with pytest.raises(ad.AdjointError, match=message):
        call()


@pytest.mark.parametrize(
    "module", [ad.autograd, ad.op, ad.testing, nn, nn.functional, nn.init, utils]
)
def test_a_star_brings_public_names_only(module: ModuleType) -> None:
    names: dict[str, Any] = {}
    exec(f"from {module.__name__} import *", names)
    found = names.keys() - {"__builtins__"}
    assert found == set(module.__all__) and not found & set(dir(builtins))
    assert not found & {"Any", "Tensor", "math", "modules", "np", "op", "uniform_within"}


# Modules as functions of their parameters.


def network() -> tuple[nn.Module, dict[str, ad.Tensor], ad.Tensor]:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    return model, dict(model.named_parameters()), ad.asarray(reals(5, 3))


def test_gradients_of_a_call_are_those_of_backward() -> None:
    model, params, x = network()
    found = ad.grad(lambda p: (functional_call(model, p, (x,)) ** 2).sum())(params)
    (model(x) ** 2).sum().backward()
    for name, p in model.named_parameters():
        close(found[name], values(p.grad))


def test_a_call_leaves_the_module_as_it_was() -> None:
    model, params, x = network()
    before = values(model(x))
    zeros = {name: ad.zeros_like(p) for name, p in params.items()}
    close(functional_call(model, zeros, x), np.zeros((5, 2)))
    close(model(x), before, 0)
    with pytest.raises(ad.ShapeError, match="in layer 0"):
        functional_call(model, zeros, ad.ones((5, 2)))
    assert all(p is model.get_parameter(name) for name, p in params.items())


def test_models_side_by_side_are_those_one_by_one() -> None:
    model, params, x = network()
    many = {name: ad.stack([p.detach(), 2 * p.detach()]) for name, p in params.items()}
    found = ad.vmap(lambda p: functional_call(model, p, (x,)))(many)
    close(found[0], values(model(x)))
    close(found[1], values(functional_call(model, {k: p[1] for k, p in many.items()}, (x,))))


def test_gradients_of_each_example() -> None:
    model, params, x = network()

    def loss(p: dict[str, ad.Tensor], one: ad.Tensor) -> ad.Tensor:
        return (functional_call(model, p, (one,)) ** 2).sum()

    each = ad.vmap(ad.grad(loss), (None, 0))(params, x)
    whole = ad.grad(loss)(params, x)
    for name, g in each.items():
        assert g.shape == (5, *params[name].shape)
        close(g.sum(axis=0), values(whole[name]))


def test_curvature_and_directions() -> None:
    model, params, x = network()
    weight = params["2.weight"].detach()

    def loss(w: ad.Tensor) -> ad.Tensor:
        return (functional_call(model, {"2.weight": w}, (x,)) ** 2).sum()

    along = ad.ones_like(weight)
    curvature = ad.tensordot(ad.hessian(loss)(weight), along, axes=2)
    close(ad.hvp(loss, (weight,), (along,))[0], values(curvature), 1e-10)
    slope = ad.jvp(loss, (weight,), (along,))[1]
    close(slope, values((ad.grad(loss)(weight) * along).sum()), 1e-10)


def test_tied_parameters_are_replaced_everywhere() -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    double = 2 * ad.eye(2)
    for name in ("0.weight", "1.weight"):
        close(functional_call(model, {name: double}, ad.ones((1, 2))), [[4, 4]])
    with pytest.raises(ad.ArgumentError, match=r"0.weight and 1.weight are one tensor"):
        functional_call(model, {"0.weight": double, "1.weight": ad.eye(2)}, ad.ones((1, 2)))


def test_given_statistics_are_those_that_change() -> None:
    model = nn.BatchNorm1d(2)
    given = {"running_mean": ad.zeros(2), "running_var": ad.ones(2)}
    functional_call(model, given, ad.asarray(reals(4, 2).astype(np.float32)))
    assert values(given["running_mean"]).any()
    close(model.running_mean, [0, 0])


def test_keywords_are_passed_on() -> None:
    model = nn.GRU(2, 3)
    x, h = ad.ones((4, 1, 2)), ad.ones((1, 1, 3))
    out, _ = functional_call(model, {}, (x,), {"hx": h})
    close(out, values(model(x, h)[0]), 0)


WRONG_NAMES = [
    ({"weigth": ad.ones((1, 2))}, {}, "Linear has no weigth; it has weight, bias"),
    ({"weight": ad.ones((1, 2))}, {"strict": True}, "needs all tensors of Linear, bias aren't"),
    ({"weight": 1.0}, {}, "weight must be a tensor, got a float"),
    ([ad.ones((1, 2))], {}, "a dict of tensors by name is needed"),
]


@pytest.mark.parametrize("tensors, options, message", WRONG_NAMES)
def test_names_are_checked(tensors: Any, options: dict, message: str) -> None:
    with pytest.raises(ad.AdjointError, match=message):
        functional_call(nn.Linear(2, 1), tensors, ad.ones((1, 2)), **options)
