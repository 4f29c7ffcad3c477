"""What several test files use."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.backends.cpu.jit.availability import obstacle

needs_kernels = pytest.mark.skipif(obstacle() is not None, reason="kernels can't be compiled here")
DEVICES = ["cpu", pytest.param("webgpu", marks=pytest.mark.webgpu)]


def leaf(values: Any, dtype: Any = np.float64) -> ad.Tensor:
    """A tensor that requires grad, in float64 unless told otherwise."""
    return ad.tensor(np.asarray(values, dtype), requires_grad=True)


def values(x: ad.Tensor | None) -> np.ndarray:
    """What is in a tensor that must not be None."""
    assert x is not None
    return x.detach().numpy()


def as_tuple(x: Any) -> tuple:
    """The results of a function that gives one, or several."""
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def floats(outs: Iterable[ad.Tensor]) -> list[ad.Tensor]:
    return [out for out in outs if out.dtype.kind == "float"]


def derivative(
    y: ad.Tensor, x: ad.Tensor, weight: ad.Tensor | None = None, **options: Any
) -> ad.Tensor:
    """autograd.grad with respect to one tensor, that y depends on."""
    (g,) = ad.autograd.grad(y, x, weight, **options)
    assert g is not None
    return g


def close(x: ad.Tensor | None, expected: Any, tolerance: float = 1e-12) -> None:
    """Equal shapes, nearly equal values."""
    assert values(x).shape == np.shape(expected)
    np.testing.assert_allclose(values(x), expected, rtol=tolerance, atol=tolerance)


@contextmanager
def default_device(device: str) -> Iterator[None]:
    """Within it tensors are made on another device."""
    before = ad.get_default_device()
    ad.set_default_device(device)
    try:
        yield
    finally:
        ad.set_default_device(before)


def counting(name: str = "counted") -> tuple[Any, list[tuple[int, ...]]]:
    """An identity op, and the list of the shapes that its kernel was run on."""
    runs: list[tuple[int, ...]] = []

    def kernel(x: np.ndarray) -> np.ndarray:
        runs.append(x.shape)
        return x.copy()

    def same_shape(x_shape: tuple) -> tuple:
        return x_shape

    return ad.op.other(name, x=lambda g: g, kernels={"cpu": kernel}, shape=same_shape), runs


def in_threads(count: int, run: Callable[[int], Any]) -> None:
    """Run a function of a number in threads that start together; raise what they raise."""
    start, errors = threading.Barrier(count), []

    def work(number: int) -> None:
        try:
            start.wait(10)
            run(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    if errors:
        raise errors[0]


def unbroadcast(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The gradient of what was broadcast from a shape."""
    g = g.sum(tuple(range(g.ndim - len(shape))))
    return g.sum(tuple(k for k, n in enumerate(shape) if n == 1 != g.shape[k]), keepdims=True)
