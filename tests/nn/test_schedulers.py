"""Schedulers of learning rates: PyTorch's values, also after a resume, and errors that help."""

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from adjoint.optim import lr_scheduler
from tests.support.misuse import Misuse

STEPS = 100


def optimizer_of(library: Any = ad, name: str = "SGD", groups: int = 2) -> Any:
    options: dict[str, Any] = {"momentum": 0.9} if name == "SGD" else {}
    tensors = [library.tensor([1.0], requires_grad=True) for _ in range(groups)]
    given = [{"params": [p], "lr": 0.4 / (k + 1)} for k, p in enumerate(tensors)]
    return getattr(library.optim, name)(given, **options)


class Case(NamedTuple):
    """A scheduler and its options, which PyTorch has too."""

    name: str
    options: dict[str, Any]
    optimizer: str = "SGD"

    def __repr__(self) -> str:
        given = " ".join(f"{key}={value}" for key, value in self.options.items())
        return f"{self.name} {re.sub('<.*>', '...', given)} {self.optimizer}"

    def make(self, library: Any) -> tuple[Any, Any]:
        optimizer = optimizer_of(library, self.optimizer)
        schedulers = library.optim.lr_scheduler
        options = dict(self.options)
        if self.name == "SequentialLR":
            options["schedulers"] = [
                getattr(schedulers, name)(optimizer, **given)
                for name, given in options["schedulers"]
            ]
        return optimizer, getattr(schedulers, self.name)(optimizer, **options)


def third(epoch: int) -> float:
    return 1 / (1 + epoch / 3)


def wave(epoch: int) -> float:
    return 1 + math.cos(epoch)


CASES = [
    Case("StepLR", {"step_size": 7}),
    Case("StepLR", {"step_size": 1, "gamma": 0.97}),
    Case("MultiStepLR", {"milestones": [3, 10, 10, 60], "gamma": 0.5}),
    Case("MultiStepLR", {"milestones": [0, 2]}),
    Case("ExponentialLR", {"gamma": 0.95}),
    Case("ConstantLR", {}),
    Case("ConstantLR", {"factor": 0.25, "total_iters": 20}),
    Case("LinearLR", {}),
    Case("LinearLR", {"start_factor": 0.1, "end_factor": 0.5, "total_iters": 30}),
    Case("LinearLR", {"start_factor": 1.0, "end_factor": 0.0, "total_iters": 10}),
    Case("LambdaLR", {"lr_lambda": third}),
    Case("LambdaLR", {"lr_lambda": [third, wave]}),
    Case("CosineAnnealingLR", {"T_max": 100}),
    Case("CosineAnnealingLR", {"T_max": 13, "eta_min": 0.01}),
    Case("CosineAnnealingLR", {"T_max": 1}),
    Case("CosineAnnealingWarmRestarts", {"T_0": 9}),
    Case("CosineAnnealingWarmRestarts", {"T_0": 5, "T_mult": 2, "eta_min": 0.05}),
    Case("OneCycleLR", {"max_lr": 0.7, "total_steps": 100}),
    Case("OneCycleLR", {"max_lr": [0.7, 0.3], "epochs": 20, "steps_per_epoch": 6}),
    Case(
        "OneCycleLR",
        {
            "max_lr": 0.7,
            "total_steps": 120,
            "three_phase": True,
            "anneal_strategy": "linear",
            "div_factor": 10.0,
            "final_div_factor": 100.0,
            "pct_start": 0.2,
            "base_momentum": [0.5, 0.6],
            "max_momentum": 0.8,
        },
    ),
    Case("OneCycleLR", {"max_lr": 0.1, "total_steps": 100}, "Adam"),
    Case("OneCycleLR", {"max_lr": 0.1, "total_steps": 100, "cycle_momentum": False}, "Adagrad"),
    Case(
        "SequentialLR",
        {
            "schedulers": [
                ("LinearLR", {"start_factor": 0.1, "total_iters": 10}),
                ("OneCycleLR", {"max_lr": 0.1, "total_steps": 100}),
            ],
            "milestones": [10],
        },
    ),
    Case(
        "SequentialLR",
        {
            "schedulers": [
                ("LinearLR", {"start_factor": 0.1, "total_iters": 10}),
                ("CosineAnnealingLR", {"T_max": 30}),
                ("StepLR", {"step_size": 4, "gamma": 0.9}),
            ],
            "milestones": [10, 40],
        },
    ),
    Case(
        "SequentialLR",
        {
            "schedulers": [
                ("ConstantLR", {"factor": 0.1, "total_iters": 20}),
                ("ExponentialLR", {"gamma": 0.9}),
                ("CosineAnnealingWarmRestarts", {"T_0": 7}),
            ],
            "milestones": [20, 50],
        },
    ),
]
each_case = pytest.mark.parametrize("case", CASES, ids=repr)


def settings(optimizer: Any) -> list[float]:
    """What schedulers change."""
    out = []
    for group in optimizer.param_groups:
        momentum = group["betas"][0] if "betas" in group else group.get("momentum", 0.0)
        out += [group["lr"], momentum]
    return out


def course(optimizer: Any, scheduler: Any, steps: int = STEPS) -> np.ndarray:
    """The settings after each step, and before the first one."""
    rows = [settings(optimizer)]
    for _ in range(steps):
        optimizer.step()
        scheduler.step()
        rows.append(settings(optimizer))
        assert scheduler.get_last_lr() == rows[-1][::2]
    return np.array(rows)


@each_case
def test_values_are_pytorchs(case: Case) -> None:
    torch = pytest.importorskip("torch")
    found, expected = course(*case.make(ad)), course(*case.make(torch))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


CLOSED: dict[str, tuple[Case, Callable[[int], float]]] = {
    "step": (Case("StepLR", {"step_size": 7}), lambda n: 0.1 ** (n // 7)),
    "exponential": (Case("ExponentialLR", {"gamma": 0.95}), lambda n: 0.95**n),
    "constant": (
        Case("ConstantLR", {"factor": 0.5, "total_iters": 9}),
        lambda n: (0.5, 1)[n > 8],
    ),
    "linear": (
        Case("LinearLR", {"start_factor": 0.2, "end_factor": 0.7, "total_iters": 40}),
        lambda n: 0.2 + 0.5 * min(n, 40) / 40,
    ),
    "cosine": (
        Case("CosineAnnealingLR", {"T_max": 13}),
        lambda n: (1 + math.cos(math.pi * n / 13)) / 2,
    ),
    "restarts": (
        Case("CosineAnnealingWarmRestarts", {"T_0": 9}),
        lambda n: (1 + math.cos(math.pi * (n % 9) / 9)) / 2,
    ),
    "one cycle": (
        Case("OneCycleLR", {"max_lr": 0.4, "total_steps": 101, "anneal_strategy": "linear"}),
        lambda n: np.interp(n, [0, 29.3, 100], [1 / 25, 1.0, 1e-4 / 25]).item(),
    ),
}


@pytest.mark.parametrize(("case", "factor"), CLOSED.values(), ids=CLOSED)
def test_values_are_those_of_a_formula(case: Case, factor: Callable[[int], float]) -> None:
    found = course(*case.make(ad))[:, 0]
    np.testing.assert_allclose(found, [0.4 * factor(n) for n in range(STEPS + 1)], atol=1e-12)


@each_case
def test_a_saved_state_goes_on(case: Case) -> None:
    optimizer, scheduler = case.make(ad)
    whole = course(optimizer, scheduler)
    optimizer, scheduler = case.make(ad)
    course(optimizer, scheduler, 30)
    saved = optimizer.state_dict(), scheduler.state_dict()
    course(optimizer, scheduler, 30)
    other, resumed = case.make(ad)
    other.load_state_dict(saved[0])
    resumed.load_state_dict(saved[1])
    np.testing.assert_array_equal(course(other, resumed, STEPS - 30), whole[30:])


@pytest.mark.parametrize("case", [c for c in CASES if c.name != "SequentialLR"], ids=repr)
def test_an_epoch_can_be_given_instead_of_a_state(case: Case) -> None:
    optimizer, scheduler = case.make(ad)
    whole = course(optimizer, scheduler)
    optimizer, scheduler = case.make(ad)
    course(optimizer, scheduler, 30)
    other = optimizer_of(ad, case.optimizer)
    other.load_state_dict(optimizer.state_dict())
    resumed = getattr(lr_scheduler, case.name)(other, **case.options, last_epoch=29)
    np.testing.assert_allclose(course(other, resumed, STEPS - 30), whole[30:], rtol=1e-12)


def test_a_state_that_does_not_fit_changes_nothing() -> None:
    scheduler, other = sequence(2), sequence(2)
    for _ in range(3):
        other.step()
    before, state = scheduler.state_dict(), other.state_dict()
    for wrong in ({"last_epoch": "x"}, {"gamma": None}, {"base_lrs": [1.0]}):
        parts = [state["_schedulers"][0], state["_schedulers"][1] | wrong]
        with pytest.raises(ad.AdjointError):
            scheduler.load_state_dict(state | {"_schedulers": parts})
    for wrong in ({"last_epoch": "x"}, {"_schedulers": []}, {"_schedulers": 3}):
        with pytest.raises(ad.AdjointError):
            scheduler.load_state_dict(state | wrong)
    assert scheduler.state_dict() == before
    scheduler.load_state_dict(state)
    assert scheduler.state_dict() == state


def test_settings_are_attributes_with_pytorchs_names() -> None:
    scheduler = made("ConstantLR", factor=0.25, total_iters=3)
    assert (scheduler.factor, scheduler.total_iters) == (0.25, 3)
    assert scheduler.state_dict()["factor"] == 0.25
    assert made("LinearLR", start_factor=0.25).start_factor == 0.25


def test_states_are_plain_values() -> None:
    def is_plain(value: Any) -> bool:
        if isinstance(value, dict):
            return all(isinstance(key, str) and is_plain(x) for key, x in value.items())
        if isinstance(value, list):
            return all(is_plain(x) for x in value)
        return isinstance(value, int | float | str | None)

    for case in CASES:
        assert is_plain(case.make(ad)[1].state_dict()), case


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (Case("StepLR", {"step_size": 2, "gamma": 0.5}), [8.0, 4.0, 4.0, 2.0]),
        (Case("CosineAnnealingLR", {"T_max": 2}), [4.0, 0.0, 0.2, 0.4]),
        (Case("ExponentialLR", {"gamma": 0.5}), [4.0, 2.0, 1.0, 0.5]),
        (Case("LinearLR", {"start_factor": 0.25, "total_iters": 3}), [16.0, 24.0, 32.0, 32.0]),
    ],
    ids=str,
)
def test_a_change_by_hand_stays(case: Case, expected: list[float]) -> None:
    """Learning rates are multiplied from what they are."""
    optimizer, scheduler = case.make(ad)
    optimizer.param_groups[0]["lr"] = 8.0
    found = []
    for _ in range(4):
        scheduler.step()
        found.append(optimizer.param_groups[0]["lr"])
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize(
    ("case", "text"),
    [
        (
            Case("StepLR", {"step_size": 7}),
            "StepLR(step_size=7, gamma=0.1, last_epoch=1, last_lr=[0.4, 0.2])",
        ),
        (
            Case("ExponentialLR", {"gamma": 0.95}),
            "ExponentialLR(gamma=0.95, last_epoch=1, last_lr=[0.38, 0.19])",
        ),
        (Case("LambdaLR", {"lr_lambda": third}), "LambdaLR(last_epoch=1, last_lr=[0.3, 0.15])"),
        (
            Case("SequentialLR", {"schedulers": [("ConstantLR", {})] * 2, "milestones": [9]}),
            "SequentialLR(milestones=[9], last_epoch=1, last_lr=[0.1333, 0.06667])",
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_schedulers_are_shown_by_settings_and_learning_rates(case: Case, text: str) -> None:
    optimizer, scheduler = case.make(ad)
    course(optimizer, scheduler, 1)
    assert repr(scheduler) == text


def test_two_schedulers_multiply() -> None:
    torch = pytest.importorskip("torch")
    results = []
    for library in (ad, torch):
        optimizer, schedulers = optimizer_of(library), library.optim.lr_scheduler
        both = [
            schedulers.LinearLR(optimizer, start_factor=0.1, total_iters=10),
            schedulers.ExponentialLR(optimizer, gamma=0.9),
        ]
        rows = []
        for _ in range(30):
            optimizer.step()
            for scheduler in both:
                scheduler.step()
            rows.append(settings(optimizer))
        results.append(rows)
    np.testing.assert_allclose(*results, rtol=1e-12)


def test_an_optimizer_takes_the_steps_of_its_scheduler() -> None:
    p = ad.tensor([0.0], requires_grad=True)
    optimizer = ad.optim.SGD([p], lr=1.0)
    scheduler = lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    p.grad = ad.tensor([1.0])
    for _ in range(3):
        optimizer.step()
        scheduler.step()
    assert p.tolist() == [-1.75]


PLATEAUS: list[dict[str, Any]] = [
    {"patience": 3},
    {"patience": 0, "factor": 0.9, "cooldown": 2},
    {"patience": 2, "mode": "max", "threshold": 0.05},
    {"patience": 2, "threshold": 0.1, "threshold_mode": "abs"},
    {"patience": 1, "mode": "max", "threshold": 0.1, "threshold_mode": "abs", "min_lr": 0.01},
    {"patience": 1, "min_lr": [0.05, 0.02], "eps": 0.01},
]


@pytest.mark.parametrize("options", PLATEAUS, ids=str)
def test_plateaus_are_pytorchs(options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    losses = np.random.default_rng(0).standard_normal(STEPS) * 0.3 + np.exp(-np.arange(STEPS) / 9)
    losses[40] = math.nan
    results = []
    for library in (ad, torch):
        optimizer = optimizer_of(library)
        scheduler = library.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        rows = []
        for loss in losses:
            scheduler.step(library.tensor(loss))
            rows.append(scheduler.get_last_lr())
        results.append(rows)
    assert results[0][0] != results[0][-1]
    np.testing.assert_allclose(*results, rtol=1e-12)


def test_a_plateaus_state_goes_on() -> None:
    one, other = (lr_scheduler.ReduceLROnPlateau(optimizer_of(), patience=2) for _ in range(2))
    for _ in range(3):
        one.step(1.0)
    other.load_state_dict(one.state_dict())
    other.step(1.0)
    np.testing.assert_allclose(other.get_last_lr(), [0.04, 0.02])


def test_restarts_take_fractions_of_epochs() -> None:
    torch = pytest.importorskip("torch")
    results = []
    for library in (ad, torch):
        schedulers = library.optim.lr_scheduler
        scheduler = schedulers.CosineAnnealingWarmRestarts(optimizer_of(library), 3, T_mult=2)
        rows = []
        for n in range(60):
            scheduler.step(n / 4)
            rows.append(scheduler.get_last_lr())
        results.append(rows)
    np.testing.assert_allclose(*results, rtol=1e-12)


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("steps", [1, 2, 10])
def test_one_cycle_ends_above_0(steps: int, strategy: str) -> None:
    """Also where a phase has no steps, and after the last step, which nobody uses."""
    optimizer = optimizer_of()
    scheduler = lr_scheduler.OneCycleLR(
        optimizer, 0.7, steps, pct_start=0.1, anneal_strategy=strategy
    )
    found = course(optimizer, scheduler, steps)[:, 0]
    assert (found > 0).all() and found[steps - 1] < 1e-5


@pytest.mark.parametrize("start", np.linspace(0.05, 1, 30))
def test_rounding_brings_no_learning_rate_below_0(start: float) -> None:
    for length in (3, 7, 10):
        optimizer = optimizer_of()
        scheduler = lr_scheduler.LinearLR(optimizer, start.item(), 0.0, length)
        assert (course(optimizer, scheduler, length + 1)[:, 0] >= 0).all()


def test_sequences_nest() -> None:
    optimizer = optimizer_of()
    parts = [lr_scheduler.ExponentialLR(optimizer, gamma) for gamma in (0.5, 0.1, 0.2)]
    inner = lr_scheduler.SequentialLR(optimizer, parts[1:], [2])
    scheduler = lr_scheduler.SequentialLR(optimizer, [parts[0], inner], [2])
    np.testing.assert_allclose(
        course(optimizer, scheduler, 5)[:, 0] / 0.4, [1.0, 0.5, 1.0, 0.1, 1.0, 0.2]
    )


# Errors.


def made(name: str, *args: Any, **options: Any) -> Any:
    return getattr(lr_scheduler, name)(optimizer_of(), *args, **options)


def sequence(*milestones: Any) -> Any:
    optimizer = optimizer_of()
    parts = [lr_scheduler.ExponentialLR(optimizer, 0.5) for _ in range(2)]
    return lr_scheduler.SequentialLR(optimizer, parts, milestones)


def mixed(other: Any) -> Any:
    return lr_scheduler.SequentialLR(optimizer_of(), [other], [])


def overrun() -> None:
    scheduler = made("OneCycleLR", 0.1, total_steps=2)
    for _ in range(3):
        scheduler.step()


def extended() -> None:
    scheduler = made("CosineAnnealingLR", 5)
    scheduler.optimizer.add_param_group({"params": [ad.tensor(1.0)]})
    made("LambdaLR", third).load_state_dict(scheduler.state_dict())


def grown() -> None:
    scheduler = made("LambdaLR", third)
    scheduler.optimizer.add_param_group({"params": [ad.tensor(1.0)]})
    scheduler.step()


def load(name: str, *args: Any, **entries: Any) -> None:
    scheduler = made(name, *args)
    scheduler.load_state_dict(scheduler.state_dict() | entries)


MISUSES = [
    Misuse(ad.ArgumentError, lambda: load("StepLR", 1, last_epoch="x"), "last_epoch | 0 | 'x'"),
    Misuse(ad.DTypeError, lambda: load("StepLR", 1, last_epoch=1.5), "last_epoch | integer | 1.5"),
    Misuse(ad.ArgumentError, lambda: load("StepLR", 1, gamma=None), "gamma | 0.1 | None"),
    Misuse(ad.ArgumentError, lambda: load("StepLR", 1, gamma=True), "gamma | 0.1 | True"),
    Misuse(ad.ArgumentError, lambda: load("StepLR", 1, base_lrs=[1, "x"]), "base_lrs | 0.2 | 'x'"),
    Misuse(ad.ArgumentError, lambda: load("ReduceLROnPlateau", mode=3), "mode | 'min' | 3"),
    Misuse(ad.DTypeError, lambda: made("ReduceLROnPlateau").step(None), "a number | NoneType"),
    Misuse(ad.DTypeError, lambda: lr_scheduler.StepLR(3, 1), "StepLR | optimizer | int"),  # type: ignore[arg-type]
    Misuse(ad.ArgumentError, lambda: made("StepLR", 0), "StepLR | step_size | at least 1"),
    Misuse(ad.DTypeError, lambda: made("StepLR", 1.5), "step_size | integer | 1.5"),
    Misuse(ad.DTypeError, lambda: made("ExponentialLR", "fast"), "gamma | number | fast"),
    Misuse(ad.ArgumentError, lambda: made("StepLR", 1, last_epoch=3), "initial_lr | load"),
    Misuse(ad.DTypeError, lambda: made("MultiStepLR", [1.5]), "milestone | 1.5"),
    Misuse(ad.ArgumentError, lambda: made("ConstantLR", 0.0), "factor | above 0"),
    Misuse(ad.ArgumentError, lambda: made("ConstantLR", total_iters=0), "total_iters | 1"),
    Misuse(ad.ArgumentError, lambda: made("LinearLR", 1.5), "start_factor | at most 1 | 1.5"),
    Misuse(ad.ArgumentError, lambda: made("LinearLR", end_factor=-1), "end_factor | -1"),
    Misuse(ad.ArgumentError, lambda: made("LambdaLR", [third]), "1 values | 2 groups"),
    Misuse(ad.DTypeError, lambda: made("LambdaLR", 0.5), "lr_lambda | functions | 0.5"),
    Misuse(ad.ArgumentError, lambda: made("CosineAnnealingLR", 0), "T_max | at least 1"),
    Misuse(ad.ArgumentError, lambda: made("CosineAnnealingWarmRestarts", 5, 0), "T_mult | 1"),
    Misuse(ad.ArgumentError, lambda: made("CosineAnnealingWarmRestarts", 5).step(-1), "epoch | -1"),
    Misuse(ad.ArgumentError, lambda: made("OneCycleLR", 0.1), "total_steps | steps_per_epoch"),
    Misuse(ad.ArgumentError, lambda: made("OneCycleLR", 0.1, 0), "total_steps | at least 1"),
    Misuse(ad.ArgumentError, lambda: made("OneCycleLR", [0.1], 9), "max_lr | 1 values | 2 groups"),
    Misuse(ad.ArgumentError, lambda: made("OneCycleLR", 0.1, 9, pct_start=2), "pct_start | 2"),
    Misuse(ad.ArgumentError, lambda: made("OneCycleLR", 0.1, 9, div_factor=0), "div_factor | 0"),
    Misuse(
        ad.ArgumentError,
        lambda: made("OneCycleLR", 0.1, 9, anneal_strategy="sine"),
        "'cos' or 'linear' | sine",
    ),
    Misuse(
        ad.ArgumentError,
        lambda: lr_scheduler.OneCycleLR(optimizer_of(name="Adagrad"), 0.1, 9),
        "Adagrad | cycle_momentum=False",
    ),
    Misuse(ad.ArgumentError, overrun, "step 3 | total_steps=2"),
    Misuse(ad.ArgumentError, lambda: made("ReduceLROnPlateau", "low"), "mode | 'min' | 'low'"),
    Misuse(
        ad.ArgumentError,
        lambda: made("ReduceLROnPlateau", threshold_mode="part"),
        "threshold_mode | 'rel' | 'part'",
    ),
    Misuse(ad.ArgumentError, lambda: made("ReduceLROnPlateau", factor=1.0), "factor | below 1"),
    Misuse(ad.ArgumentError, lambda: sequence(), "2 schedulers | 0 milestones"),
    Misuse(ad.ArgumentError, lambda: sequence(0), "above 0 | [0]"),
    Misuse(ad.ArgumentError, lambda: mixed(made("StepLR", 1)), "schedulers[0] | another optimizer"),
    Misuse(ad.DTypeError, lambda: mixed(made("ReduceLROnPlateau")), "[0] | ReduceLROnPlateau"),
    Misuse(
        ad.ArgumentError,
        lambda: made("StepLR", 1).load_state_dict(made("ExponentialLR", 1).state_dict()),
        "StepLR.load_state_dict | lacks | step_size",
    ),
    Misuse(ad.ArgumentError, extended, "LambdaLR.load_state_dict | unexpected | T_max"),
    Misuse(ad.ArgumentError, grown, "3 groups | made for 2 | add_param_group"),
    Misuse(
        ad.ArgumentError,
        lambda: lr_scheduler.StepLR(optimizer_of(groups=1), 1).load_state_dict(
            made("StepLR", 1).state_dict()
        ),
        "base_lrs | [0.4] | [0.4, 0.2]",
    ),
]


@pytest.mark.parametrize("misuse", MISUSES, ids=lambda misuse: misuse.mentions)
def test_misuse_is_explained(misuse: Misuse) -> None:
    misuse.check()
