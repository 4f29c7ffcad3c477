"""Settings of optimizers and layers are numbers that a recording reads anew at each run."""

import copy
import math
import operator

import numpy as np
import pytest

import adjoint as ad
from adjoint._compile.recording import record
from adjoint._foundation.errors import TraceError
from adjoint._foundation.numbers import Ledger, Number, is_exactly

F = ad.nn.functional
X, Y = ad.asarray([[0.5, -1.0], [2.0, 0.25], [-0.75, 1.5]]), ad.asarray([[1.0], [0.0], [-1.0]])


def training(make, model=None):
    """A model, its optimizer, and a step of training."""
    ad.random.seed(0)
    model = model or ad.nn.Sequential(ad.nn.Linear(2, 4), ad.nn.Tanh(), ad.nn.Linear(4, 1))
    optimizer = make(list(model.parameters()))

    def step(x, y):
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


class Twins:
    """Two equal trainings: one is recorded and runs its graph, the other runs its function."""

    def __init__(self, make, model=None):
        self.sides = [training(make, copy.deepcopy(model)) for _ in range(2)]
        self.recorded = record(self.sides[0][2], (X, Y), {})
        self.optimizers = [side[1] for side in self.sides]

    def set(self, name, value, group=0):
        for optimizer in self.optimizers:
            optimizer.param_groups[group][name] = value

    def step(self):
        ad.random.seed(1)
        losses = [self.recorded.graph(X, Y)]
        ad.random.seed(1)
        losses.append(self.sides[1][2](X, Y))
        np.testing.assert_allclose(*(x.item() for x in losses), rtol=1e-6)
        for one, other in zip(*(side[0].parameters() for side in self.sides), strict=True):
            np.testing.assert_allclose(
                one.detach().numpy(), other.detach().numpy(), rtol=2e-6, atol=1e-7
            )


OPTIMIZERS = {
    "sgd": lambda p: ad.optim.SGD(p, lr=0.1, weight_decay=0.1),
    "momentum": lambda p: ad.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5),
    "nesterov": lambda p: ad.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: ad.optim.Adam(p, lr=0.1, weight_decay=0.1),
    "amsgrad": lambda p: ad.optim.Adam(p, lr=0.1, amsgrad=True, betas=(0.9, 0.999)),
    "adamw": lambda p: ad.optim.AdamW(p, lr=0.1),
    "rmsprop": lambda p: ad.optim.RMSprop(p, lr=0.1, momentum=0.5, centered=True),
    "adagrad": lambda p: ad.optim.Adagrad(p, lr=0.1, lr_decay=0.1, weight_decay=0.1),
}
NEW = {"lr": 0.03, "betas": (0.8, 0.99), "eps": 1e-3, "momentum": 0.5, "weight_decay": 0.25}
NEW |= {"alpha": 0.8, "dampening": 0.25, "lr_decay": 0.5}


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_every_setting_may_change_between_runs(make):
    twins = Twins(make)
    twins.step()
    group = twins.optimizers[0].param_groups[0]
    for name, value in NEW.items():
        if name in group and np.all(group[name]):
            twins.set(name, value)
            twins.step()


def test_settings_that_didnt_change_give_the_same_tuple():
    twins = Twins(OPTIMIZERS["adam"])
    first = twins.recorded.settings.read()
    assert twins.recorded.settings.read() is first
    twins.set("lr", 0.5)
    second = twins.recorded.settings.read()
    assert second != first and twins.recorded.settings.read() is second
    twins.set("lr", 0.1)
    assert twins.recorded.settings.read() == first


@pytest.mark.parametrize(
    ("make", "name", "value"),
    [
        ("momentum", "weight_decay", 0.1),
        ("momentum", "momentum", 0.0),
        ("momentum", "dampening", 0.0),
        ("momentum", "nesterov", True),
        ("adam", "betas", (0.5, 0.99)),
        ("adam", "maximize", True),
        ("adam", "lr", -1.0),
        ("adam", "lr", "0.1"),
        ("adam", "betas", (0.9, 0.99, 0.5)),
    ],
)
def test_a_setting_that_makes_a_step_something_else_ends_the_recording(make, name, value):
    twins = Twins(OPTIMIZERS[make])
    former = twins.optimizers[0].param_groups[0][name]
    twins.set(name, value)
    assert twins.recorded.settings.read() is None
    with pytest.raises(TraceError, match="setting"):
        twins.recorded.graph(X, Y)
    twins.set(name, former)
    assert twins.recorded.settings.read() is not None


def test_betas_in_a_list_may_change_in_place():
    twins = Twins(lambda p: ad.optim.Adam(p, lr=0.1, betas=[0.9, 0.99]))
    twins.step()
    for optimizer in twins.optimizers:
        optimizer.param_groups[0]["betas"][1] = 0.9
    twins.step()


@pytest.mark.parametrize("make", [ad.optim.SGD, ad.optim.Adam, ad.optim.Adagrad])
def test_groups_have_settings_of_their_own(make):
    twins = Twins(lambda p: make([{"params": p[:2]}, {"params": p[2:], "lr": 0.5}], lr=0.1))
    twins.step()
    twins.set("lr", 0.2)
    twins.step()
    twins.set("lr", 0.3, group=1)
    twins.step()


def test_a_parameter_without_gradient_isnt_counted_in_its_group():
    model = ad.nn.Sequential(ad.nn.Linear(2, 2), ad.nn.Linear(2, 1))
    model[1].weight.requires_grad_(False)
    twins = Twins(
        lambda p: ad.optim.Adam([{"params": p[:1], "lr": 0.5}, {"params": p[1:]}], lr=0.1), model
    )
    for _ in range(3):
        twins.step()


class Momentum(ad.optim.Optimizer):
    """As a user writes it, with a float of its own and PyTorch's in-place methods."""

    def __init__(self, params, lr=0.1, decay=0.9):
        super().__init__(params, {"lr": lr, "decay": decay})
        for p in self._all_params:
            self.state[p]["velocity"] = ad.zeros_like(p.detach())
            self.state[p]["scale"] = 1.0

    @ad.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                velocity = self.state[p]["velocity"]
                velocity.mul_(group["decay"]).add_(p.grad)
                p.add_(velocity, alpha=-group["lr"] * self.state[p]["scale"])


def test_a_users_optimizer_reads_its_settings_anew():
    twins = Twins(Momentum)
    twins.step()
    twins.set("lr", 0.5)
    twins.step()
    twins.set("decay", 0.5)
    twins.step()
    for optimizer in twins.optimizers:
        for state in optimizer.state.values():
            state["scale"] = 0.25
    twins.step()


def test_dropout_reads_its_probability_anew():
    twins = Twins(ad.optim.SGD, ad.nn.Sequential(ad.nn.Linear(2, 1), ad.nn.Dropout(0.25)))
    twins.step()
    for model, *_ in twins.sides:
        model[1].p = 0.75
    twins.step()
    twins.sides[0][0][1].p = 0.0
    assert twins.recorded.settings.read() is None


def test_batch_norm_and_averages_read_their_momentum_anew():
    norms = [ad.nn.BatchNorm1d(2) for _ in range(2)]
    averages = [ad.optim.EMA(norm, decay=0.5) for norm in norms]

    def run(k, x):
        out = norms[k](x)
        averages[k].update()
        return out

    recorded = record(lambda x: run(0, x), (X,), {})
    for momentum in (0.1, 0.9, 0.5):
        for norm, average in zip(norms, averages, strict=True):
            norm.momentum, average.decay = momentum, momentum / 2
        recorded.graph(X)
        run(1, X)
        for name, one in averages[0]._averages.items():
            other = averages[1]._averages[name]
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6)


def test_a_value_that_is_needed_holds_for_itself_alone():
    optimizer = ad.optim.SGD([ad.tensor([1.0], requires_grad=True)], lr=0.1)

    def scaled(x):
        lr = optimizer.param_groups[0]["lr"]
        return x * math.exp(lr), f"{lr:.1f}", lr

    recorded = record(scaled, (X,), {})
    assert recorded.graph(X)[1:] == ("0.1", 0.1) and recorded.numbers == []
    optimizer.param_groups[0]["lr"] = 0.2
    assert recorded.settings.read() is None


def test_a_branch_on_a_setting_is_a_guard():
    optimizer = ad.optim.SGD([ad.tensor([1.0], requires_grad=True)], lr=0.1)
    recorded = record(
        lambda x: x * 2 if optimizer.param_groups[0]["lr"] * 10 > 0.5 else x, (X,), {}
    )
    optimizer.param_groups[0]["lr"] = 0.3
    assert recorded.settings.read() == ()
    optimizer.param_groups[0]["lr"] = 0.01
    assert recorded.settings.read() is None


def test_a_number_is_weak_and_has_the_dtype_of_what_it_meets():
    layer = ad.nn.Dropout(0.1)

    def mixed(x, y, n):
        p = layer.p
        return x * p, y - p, n * p, p**x, ad.where(x > 0, p, 1.0), ad.maximum(x, p), 1 / x / p

    given = [X, ad.astype(X, ad.float64), ad.asarray([1, 2])]
    recorded = record(mixed, (*given,), {})
    for p in (0.1, 0.7):
        layer.p = p
        for one, other in zip(recorded.graph(*given), mixed(*given), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_numbers_are_mapped_and_differentiated():
    layer = ad.nn.Dropout(0.1)

    def function(x):
        return ad.grad(lambda x: (ad.vmap(lambda row: (row * layer.p).sum() ** 2)(x)).sum())(x)

    recorded = record(function, (X,), {})
    layer.p = 0.5
    if recorded.settings.read() is not None:
        np.testing.assert_allclose(recorded.graph(X).numpy(), function(X).numpy(), rtol=1e-6)


def test_expressions_are_evaluated_as_python_does():
    ledger = Ledger()
    numbers = [ledger.given(x)[1] for x in (0.3, -1.5)]
    functions = [
        lambda x, y: (1 - x) * y + 2 / x - (x // 0.2) % 1.1,
        lambda x, y: -x + abs(y) ** x + (+x) * 2**y,
        lambda x, y: round(x * 2**32) - round(y),
    ]
    found = [function(*numbers) for function in functions]
    assert all(isinstance(x, Number) for x in found)
    for given in ([0.3, -1.5], [0.7, 2.5], [1e-5, 9.0]):
        values = ledger.evaluate(given)
        for x, function in zip(found, functions, strict=True):
            assert is_exactly(values[x.place], function(*given))


@pytest.mark.parametrize(
    "read", [float, int, hash, repr, "{:.2f}".format, math.floor, np.asarray, copy.copy, bool]
)
def test_reading_a_number_is_a_guard(read):
    ledger = Ledger()
    _, number = ledger.given(0.25)
    assert read(number) == read(0.25)
    assert ledger.evaluate([0.25]) and not ledger.evaluate([0.0])


def test_numbers_that_cant_be_computed_end_the_recording():
    ledger = Ledger()
    _, number = ledger.given(0.5)
    assert operator.truediv(1, 1 - number).value == 2
    assert ledger.evaluate([1.0]) is None
