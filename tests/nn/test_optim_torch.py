"""Optimizers take PyTorch's steps: 50 on a shared problem, with options, groups and weight decay.

Where PyTorch isn't installed the stored values stand in for it, which it has made: they are written
anew by `python -m tests.nn.test_optim_torch`.
"""

import json
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from tests.support.helpers import values
from tests.support.paths import DATA

STORED = DATA / "optimizers.json"
STEPS = 50
SHAPES = ((4, 3), (3,), (2, 2, 2), (), (5,), (6,))  # so many that a kernel updates them


class Case(NamedTuple):
    """An optimizer with its options; those of the second half of the parameters, if they are in a
    group of their own; and how near the two libraries are after all steps."""

    name: str
    options: dict[str, Any]
    others: dict[str, Any] | None = None
    tolerance: float = 1e-12

    def __repr__(self) -> str:
        given = self.options | ({} if self.others is None else {"then": self.others})
        return " ".join([self.name, *(f"{key}={value}" for key, value in given.items())])

    def make(self, optim: Any, params: list) -> Any:
        half = len(params) // 2
        groups = [{"params": params[:half]}, {"params": params[half:]} | (self.others or {})]
        given: Any = params if self.others is None else groups
        return getattr(optim, self.name)(given, **self.options)


CASES = [
    Case("SGD", {"lr": 0.05}),
    Case("SGD", {"lr": 0.05, "weight_decay": 0.1}),
    Case("SGD", {"lr": 0.02, "momentum": 0.9}),
    Case("SGD", {"lr": 0.02, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.01}),
    Case("SGD", {"lr": 0.02, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    Case("SGD", {"lr": 0.001, "momentum": 0.5, "maximize": True}),
    Case("SGD", {"lr": 0.05}, {"lr": 0.01, "weight_decay": 0.1}),
    Case("SGD", {"lr": 0.02, "momentum": 0.9}, {"momentum": 0.0, "lr": 0.03}),
    Case("SGD", {"lr": 0.02, "momentum": 0.9}, {"momentum": 0.7, "dampening": 0.2}),
    Case("SGD", {"lr": 0.02, "momentum": 0.9, "dampening": 0.1}, {"dampening": 0.2}),
    Case("Adam", {}),
    Case("Adam", {"lr": 0.05, "weight_decay": 0.1}),
    Case("Adam", {"lr": 0.05, "amsgrad": True, "eps": 1e-3}),
    Case("Adam", {"lr": 0.05, "betas": (0.3, 0.9)}),
    Case("Adam", {"lr": 0.01, "maximize": True}),
    Case("Adam", {"lr": 0.05}, {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-6}),
    Case("Adam", {"lr": 0.05}, {"betas": (0.2, 0.95), "amsgrad": True}),
    Case("AdamW", {"lr": 0.05}),
    Case("AdamW", {"lr": 0.05, "weight_decay": 0.3, "amsgrad": True}),
    Case("AdamW", {"lr": 0.05, "weight_decay": 0.3}, {"weight_decay": 0.0}),
    Case("RMSprop", {}),
    Case("RMSprop", {"lr": 0.02, "alpha": 0.9, "eps": 1e-4, "weight_decay": 0.1}),
    Case("RMSprop", {"lr": 0.02, "momentum": 0.5}),
    Case("RMSprop", {"lr": 0.02, "centered": True, "alpha": 0.4}),
    Case("RMSprop", {"lr": 0.01, "centered": True, "momentum": 0.8, "maximize": True}),
    Case("RMSprop", {"lr": 0.02}, {"alpha": 0.8, "momentum": 0.3}),
    Case("RMSprop", {"lr": 0.02}, {"alpha": 0.8, "weight_decay": 0.0, "lr": 0.01}),
    Case("Adagrad", {}),
    Case("Adagrad", {"lr": 0.3, "lr_decay": 0.1, "weight_decay": 0.1}),
    Case("Adagrad", {"lr": 0.3, "initial_accumulator_value": 0.5, "eps": 1e-3}),
    Case("Adagrad", {"lr": 0.02, "maximize": True}),
    Case("Adagrad", {"lr": 0.3}, {"lr_decay": 0.5, "lr": 0.1}),
]
MINIMIZERS = [
    Case("LBFGS", {"lr": 0.1, "max_iter": 1}, tolerance=1e-6),
    Case("LBFGS", {"lr": 0.5, "max_iter": 2, "history_size": 3}, tolerance=1e-6),
    Case("LBFGS", {"max_iter": 4, "line_search_fn": "strong_wolfe"}, tolerance=1e-6),
    Case("LBFGS", {"lr": 30.0, "max_iter": 3, "line_search_fn": "strong_wolfe"}, tolerance=1e-6),
    Case("LBFGS", {"lr": 1e-3, "max_iter": 3, "line_search_fn": "strong_wolfe"}, tolerance=1e-6),
    Case("LBFGS", {"max_eval": 3, "line_search_fn": "strong_wolfe"}, tolerance=1e-6),
]


def arrays() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape) for shape in SHAPES]


def waves(params: list, step: int, library: Any) -> Any:
    """Bent in every direction, and moving from step to step."""
    total = 0.0
    for k, p in enumerate(params):
        away = p - 0.3 * k - 0.1 * np.sin(step).item()
        total = total + (away * away).sum() + library.sin(2.0 * p).sum()
    return total


def bowl(params: list, step: int, library: Any) -> Any:
    """Narrow, with one lowest point."""
    total = 0.0
    for k, p in enumerate(params):
        away = p - 0.2 * k
        total = total + (1 + 3 * k) * (away * away).sum() + 0.5 * (away**4).sum()
    return total


def trained(case: Case, params: list, library: Any) -> np.ndarray:
    """Take all steps with either library; the losses before each of them."""
    optimizer, losses = case.make(library.optim, params), []
    problem = bowl if case.name == "LBFGS" else waves
    for step in range(STEPS):

        def closure(step: int = step) -> Any:
            optimizer.zero_grad()
            loss = problem(params, step, library)
            loss.backward()
            return loss

        losses.append(optimizer.step(closure).item())
    return np.array(losses)


def ours(case: Case) -> list[np.ndarray]:
    params = [ad.tensor(x, requires_grad=True) for x in arrays()]
    losses = trained(case, params, ad)
    return [losses, *map(values, params)]


def theirs(case: Case) -> list[np.ndarray]:
    import torch  # type: ignore[reportMissingImports]

    params = [torch.tensor(x, requires_grad=True) for x in arrays()]
    losses = trained(case, params, torch)
    return [losses, *(p.detach().numpy() for p in params)]


def some(results: list[np.ndarray]) -> list[float]:
    """The last number of each array."""
    return [x.ravel()[-1].item() for x in results]


each_case = pytest.mark.parametrize("case", CASES + MINIMIZERS, ids=repr)


@each_case
def test_steps_are_pytorchs(case: Case) -> None:
    pytest.importorskip("torch")
    for x, expected in zip(ours(case), theirs(case), strict=True):
        np.testing.assert_allclose(x, expected, rtol=case.tolerance, atol=case.tolerance)


@each_case
def test_steps_are_those_that_were_stored(case: Case) -> None:
    expected = json.loads(STORED.read_text())[repr(case)]
    found = some(ours(case))
    np.testing.assert_allclose(found, expected, rtol=case.tolerance, atol=case.tolerance)


if __name__ == "__main__":
    results = {repr(case): some(theirs(case)) for case in CASES + MINIMIZERS}
    STORED.write_text(json.dumps(results, indent=1) + "\n")
