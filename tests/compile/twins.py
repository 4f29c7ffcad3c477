"""Two equal trainings, one compiled and one eager, that must stay equal."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.backends.cpu import thresholds
from adjoint.backends.launches import Cache

TOLERANCE = 2e-5  # what a few steps make of sums that are associated otherwise


class Training:
    """A model and all that a step of its training changes; `step` is to be set."""

    step: Any

    def __init__(
        self, model: Any, make_optimizer: Callable | None = None, make_scheduler: Any = None
    ) -> None:
        self.model = model
        self.optimizer = make_optimizer(list(model.parameters())) if make_optimizer else None
        self.scheduler = make_scheduler(self.optimizer) if make_scheduler else None
        self.more: dict[str, Any] = {}  # tensors and generators

    def state(self) -> dict[str, Any]:
        """All that a step may change, as arrays and numbers by name."""
        out: dict[str, Any] = {"random": ad.random.get_state()}
        for name, x in [*self.model.named_parameters(), *self.model.named_buffers()]:
            out[f"model.{name}"] = x
            out[f"grad.{name}"] = x.grad
        for name, part in self.more.items():
            out[f"more.{name}"] = part.state if isinstance(part, ad.random.Generator) else part
        if self.optimizer is not None:
            out["optimizer"] = self.optimizer.state_dict()
        if self.scheduler is not None:
            out["scheduler"] = self.scheduler.state_dict()
        return copied(out)


def copied(x: Any) -> Any:
    """Values that nobody changes any more."""
    if isinstance(x, ad.Tensor):
        return x.detach().numpy().copy()
    if isinstance(x, dict):
        return {key: copied(value) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return [copied(value) for value in x]
    return x


def check_alike(found: Any, expected: Any, tolerance: float = TOLERANCE, where: str = "") -> None:
    """Integers (counters, random states) and what isn't a number must be equal, floats nearly."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for key, value in expected.items():
            check_alike(found[key], value, tolerance, f"{where}[{key!r}]")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for k, value in enumerate(expected):
            check_alike(found[k], value, tolerance, f"{where}[{k}]")
    elif isinstance(expected, np.ndarray):
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype), where
        if expected.dtype.kind == "f" and tolerance:
            scale = np.max(np.abs(expected), initial=1e-2)
            np.testing.assert_allclose(
                found, expected, tolerance, tolerance * float(scale), err_msg=where
            )
        else:
            np.testing.assert_array_equal(found, expected, err_msg=where)
    elif isinstance(expected, float):
        assert found == expected or (found != found and expected != expected), where
    else:
        assert found == expected, where


class Twins:
    """`make` gives a Training, and is called twice; a call of twins steps both."""

    def __init__(self, make: Callable[[], Training], tolerance: float = TOLERANCE) -> None:
        self.tolerance = tolerance
        sides = []
        for _ in range(2):
            ad.random.seed(0)
            sides.append(make())
        self.eager, self.compiled = sides
        self.compiled.step = ad.compile(self.compiled.step)

    def each(self, change: Callable[[Training], Any]) -> None:
        self.both(change)

    def both(self, run: Callable[[Training], Any]) -> list[Any]:
        """What both give; each starts with the random numbers that the other one started with."""
        start = ad.random.get_state()
        expected = outcome(run, self.eager)
        after = ad.random.get_state()
        ad.random.set_state(start)
        found = outcome(run, self.compiled)
        np.testing.assert_array_equal(ad.random.get_state().numpy(), after.numpy())
        return [found, expected]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found, expected = self.both(lambda side: side.step(*args, **kwargs))
        if isinstance(expected, Exception):
            assert type(found) is type(expected) and str(found) == str(expected)
        else:
            check_alike(copied(found), copied(expected), self.tolerance, "result")
        self.check()
        return found

    def check(self) -> None:
        check_alike(self.compiled.state(), self.eager.state(), self.tolerance)

    @property
    def programs(self) -> int:
        return len(self.compiled.step._programs)


def outcome(run: Callable[[Training], Any], side: Training) -> Any:
    try:
        return run(side)
    except ad.AdjointError as error:
        return error


def without_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let eager calls run kernels for arrays of every size."""
    for name, value in vars(thresholds).items():
        if isinstance(value, int):
            monkeypatch.setattr(thresholds, name, 0)
    Cache.forget_all()


def replay(training: Training, steps: int, *args: Any) -> list[dict[str, Any]]:
    """The states of a training before each of so many steps, and after the last one."""
    states = [training.state()]
    for _ in range(steps):
        training.step(*args)
        states.append(training.state())
    return states
