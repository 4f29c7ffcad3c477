"""NumPy's settings and functions stay the user's: np.seterr is for the user's own code."""

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint._foundation.silence import compute, is_computing
from tests.support.processes import python

LARGE = 1 << 15  # elements that kernels are used for


def numbers(*values: float, size: int = 0, dtype: str = "float32") -> np.ndarray:
    return np.resize(np.array(values, dtype), size or len(values))


def of_ops(*, size: int = 0, dtype: str = "float32") -> list[ad.Tensor]:
    """Divisions by 0, overflows, underflows and NaNs, and what gradients make of them."""
    most = float(np.finfo(dtype).max)
    x = ad.tensor(numbers(0.0, -1.0, most, -most, 1 / most, size=size, dtype=dtype))
    x.requires_grad_()
    outputs = [x / 0.0, 1 / x, x * x, x - x * x, ad.log(x), ad.exp(x), ad.sqrt(x), x**3, x % 0.0]
    outputs += [x // 0.0, ad.exp(-x), ad.softmax(x / 0.0, axis=0), ad.sigmoid(x), x * 1e300]
    outputs += [ad.std(x), ad.mean(x * x), ad.prod(x), ad.cumulative_sum(x)]
    for out in outputs:
        out.sum().backward()  # accumulates
    (g,) = ad.autograd.grad(ad.log(x).sum(), [x], create_graph=True)
    return [*outputs, x.grad, *ad.autograd.grad(g.sum(), [x])]  # type: ignore[list-item]


def of_integers() -> list[ad.Tensor]:
    x = ad.asarray([1, -5, 0, np.iinfo(np.int64).min])
    return [x // 0, x % 0, x / 0, x // -1, ad.astype(ad.asarray([np.inf, np.nan]), ad.int32)]


def of_complex_numbers() -> list[ad.Tensor]:
    x = ad.asarray(np.array([0, 1e38 + 1e38j, complex(np.inf, np.nan)], np.complex64))
    return [x / 0, x * x, ad.exp(x), ad.log(x), ad.abs(x), x / x, ad.sqrt(x), ad.tan(x)]


def of_conversions() -> list[ad.Tensor]:
    wide = np.array([1e300, -1e300, np.nan, 1e-300])
    return [
        ad.tensor(1e300),
        ad.tensor([1e300, np.inf]),
        ad.asarray(wide, dtype=ad.float32),
        ad.asarray(wide.tolist(), dtype=ad.float16),
        ad.astype(ad.asarray(wide), ad.float32),
        ad.full((2,), 1e300),
        ad.asarray([1.0]) * 1e301,
        ad.asarray([1.0]) + ad.asarray([1e300], dtype=ad.float64),
        ad.clip(ad.asarray([1.0]), -1e301, 1e301),
        ad.where(ad.asarray([True]), ad.asarray([1.0]), 1e302),
        ad.asarray([1.0]).at[0].set(1e303),
        ad.linspace(0, 1e300, 3),
        ad.arange(0.0, 1e39, 5e38),
    ]


def of_changes() -> list[ad.Tensor]:
    x, y = ad.asarray([1e30, 0.0]), ad.asarray([1e30, 0.0])
    x *= y
    y /= y
    x.add_(y, alpha=1e300)
    x[0] = 1e300
    return [x, y]


def of_optimizers() -> list[ad.Tensor]:
    out = []
    for make in (ad.optim.SGD, ad.optim.Adam, ad.optim.RMSprop, ad.optim.Adagrad):
        for count in (1, 6):  # by ops, and by a kernel
            params = [ad.tensor([1e30, 0.0], requires_grad=True) for _ in range(count)]
            optimizer = make(params, lr=1e30)
            for p in params:
                p.grad = ad.asarray([1e38, np.nan])
            ad.nn.utils.clip_grad_norm_(params, 1.0)
            optimizer.step()
            out += params
    return out


def of_linear_algebra() -> list[ad.Tensor]:
    x = ad.tensor([[1e30, 1.0], [1.0, 3e-30]], requires_grad=True)
    out = [x @ x, ad.linalg.det(x), ad.linalg.inv(x), ad.linalg.vector_norm(x), x.mT @ x]
    out += [ad.linalg.slogdet(ad.zeros((2, 2)))[1], ad.linalg.cond(x.detach())]
    out += [ad.linalg.matrix_power(x, 8), ad.linalg.eigh(x)[0], ad.linalg.svd(x)[1]]
    sum(part.sum() for part in out).backward()  # type: ignore[union-attr]
    return [*out, x.grad]  # type: ignore[list-item]


def of_networks() -> list[ad.Tensor]:
    x = ad.full((3, 2, 4), 1e30, requires_grad=True)
    ad.random.seed(0)
    outputs = [ad.nn.LSTM(4, 5)(x)[0], ad.nn.GRU(4, 5)(x)[0], ad.nn.LayerNorm(4)(x)]
    outputs += [ad.nn.functional.cross_entropy(x[0], ad.asarray([1, 0])), ad.nn.Linear(4, 3)(x)]
    outputs += [ad.nn.functional.scaled_dot_product_attention(x, x, x)]
    for out in outputs:
        out.sum().backward()
    return [*outputs, x.grad]  # type: ignore[list-item]


def of_random_numbers() -> list[ad.Tensor]:
    generator = ad.random.Generator(0)
    options: Any = {"generator": generator}
    return [
        ad.random.normal((1000,), 1e38, 1e38, **options),
        ad.random.uniform((8,), 0.0, 1e-45, **options),
        ad.random.uniform((8,), -1e-45, 1e-45, dtype=ad.float16, **options),
        ad.random.gamma(1e-30, (100,), **options),
        ad.random.exponential((1000,), 1e-38, **options),
        ad.random.truncated_normal((100,), **options),
        *(ad.random.Generator(seed).bits((9,)) for seed in range(20)),  # counters wrap around
    ]


def of_transforms() -> list[ad.Tensor]:
    def f(x: ad.Tensor) -> ad.Tensor:
        return (ad.log(x) / (x - x) + ad.exp(x * 1e30)).sum()

    x = ad.asarray([0.0, -1.0, 1e30])
    y = ad.tensor(x.numpy(), requires_grad=True)
    ad.checkpoint(f, y).backward()
    out = [ad.grad(f)(x), ad.hessian(f)(x), ad.vmap(lambda v: v / 0.0 - v)(x), ad.trace(f, x)(x)]
    return [*out, ad.jvp(f, (x,), (x,))[1], y.grad]  # type: ignore[list-item]


def of_threads() -> list[ad.Tensor]:
    """Enough arithmetic for several threads to share."""
    x = ad.tensor(numbers(0.0, 1e30, -1.0, size=1 << 18), requires_grad=True)
    y = ad.tensor(numbers(0.0, 1e30, -1.0, size=1 << 18), requires_grad=True)
    total = ad.log(x) * y + x / y + x * y
    total.sum().backward(workers=2)
    return [x.grad, y.grad]  # type: ignore[list-item]


PROGRAMS: dict[str, Callable[[], list[ad.Tensor]]] = {
    "small": of_ops,
    "float64": lambda: of_ops(dtype="float64"),
    "float16": lambda: of_ops(dtype="float16"),
    "single": lambda: of_ops(size=1),
    "large": lambda: of_ops(size=LARGE),
    "large float16": lambda: of_ops(size=LARGE, dtype="float16"),
    "integers": of_integers,
    "complex": of_complex_numbers,
    "conversions": of_conversions,
    "changes": of_changes,
    "optimizers": of_optimizers,
    "linalg": of_linear_algebra,
    "networks": of_networks,
    "random": of_random_numbers,
    "transforms": of_transforms,
    "threads": of_threads,
}


class Log:
    """What np.seterrcall takes for "call" and for "log"."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, *error: Any) -> None:
        self.lines.append(str(error))

    write = __call__


@contextmanager
def told(setting: str) -> Iterator[Log]:
    """NumPy's setting, and a list of what it reports; a thread has the same by default."""
    log, (errors, _, action) = Log(), setting.partition(" ")
    with np.errstate(all=errors, call=log), warnings.catch_warnings(record=True) as caught:  # type: ignore[call-overload]
        warnings.simplefilter(action or "error")  # type: ignore[arg-type]
        yield log
    log.lines += [str(warning.message) for warning in caught]


SETTINGS = ["raise", "print", "call", "log", "warn always", "warn error"]
expected: dict[str, list[np.ndarray]] = {}


def values(program: Callable[[], list[ad.Tensor]]) -> list[np.ndarray]:
    return [out.detach().numpy() for out in program()]


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_ieee_results_are_results_whatever_numpy_is_told(name, setting, capfd):
    if name not in expected:
        with np.errstate(all="ignore"):
            expected[name] = values(PROGRAMS[name])
    with told(setting) as log:
        found = values(PROGRAMS[name])
    assert not log.lines and capfd.readouterr() == ("", "")
    for x, y in zip(found, expected[name], strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.webgpu
def test_ieee_results_are_results_on_gpus(capfd):
    with told("raise"), ad.config(host_ops="allow"):
        x = ad.tensor([0.0, 1e30], device="webgpu", requires_grad=True)
        out = ad.log(x) * 1e300 / x + ad.full((2,), 1e300, device="webgpu") + ad.pad(x, 1)[1:3]
        out.sum().backward()
        ad.linalg.svd(ad.zeros((2, 2), device="webgpu") / 1e-45)
        ad.linspace(0, 1e300, 3, device="webgpu")
    assert np.isnan(out.detach().to("cpu").numpy()[0]) and capfd.readouterr() == ("", "")


def test_using_adjoint_leaves_numpys_settings_alone():
    """Threads begin with NumPy's defaults, and have them still after any use of adjoint."""
    found = []

    def use() -> None:
        before = np.geterr()
        of_ops()
        found.append((before, np.geterr()))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert found == [
        ({"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"},) * 2
    ]


def test_the_users_own_division_warns_after_ops():
    assert (ad.asarray([1.0]) / 0.0).item() == np.inf
    with np.errstate(all="warn"), pytest.warns(RuntimeWarning, match="divide by zero"):
        np.divide(1.0, 0.0)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        np.divide(ad.asarray([1.0]).numpy(), 0.0)


LOG = ad.op.elementwise(
    "own_log",
    x=lambda g, x: OWN_DIVIDE(g, x),
    kernels={"cpu": np.log},
)
OWN_DIVIDE = ad.op.elementwise(
    "own_divide",
    x=lambda g, y: g / y,
    y=lambda g, x, y: -g * x / (y * y),
    kernels={"cpu": np.divide},
)
TOTAL = ad.op.reduction(
    "own_total",
    x=lambda g, x_shape: ad.broadcast_to(g, x_shape),
    attrs="axis keepdims",
    kernels={"cpu": lambda x, axis, keepdims: np.sum(1 / x, axis=axis, keepdims=keepdims)},
)
USERS: dict[str, Callable[[ad.Tensor], Any]] = {
    "a kernel": LOG,
    "a kernel of two inputs": lambda x: OWN_DIVIDE(x, x),
    "a kernel with attributes": lambda x: TOTAL(x, axis=(0,), keepdims=False),
    "a kernel while gradients are checked": ad.detect_anomaly()(lambda x: LOG(x + 0)),
    "a function that is run again": lambda x: ad.checkpoint(lambda x: x * np.log(0.0), x),
    "a function that is traced": lambda x: ad.trace(lambda y: y * np.log(0.0), x),
    "a function that is differentiated": ad.grad(lambda x: (x * np.log(0.0)).sum()),
}


@pytest.mark.parametrize("name", USERS)
def test_functions_of_the_user_run_as_the_user_set_numpy(name):
    x = ad.tensor([0.0, 1.0], requires_grad=True)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        USERS[name](x)


def test_a_users_kernel_in_a_rule_runs_as_the_user_set_numpy():
    """Beside a kernel of ours in the same rule, which is silent all the same."""
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    rule = ad.op.elementwise(
        "half_own", x=lambda g, x: ad.log(x - x) + OWN_DIVIDE(g, x - x), forward=lambda x: x * 1
    )
    out = rule(x)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="in divide"):
        out.sum().backward(retain_graph=True)
    with np.errstate(all="ignore"):
        out.sum().backward()


def test_hooks_run_as_the_user_set_numpy():
    seen = []
    x = ad.tensor([0.0, 1.0], requires_grad=True)
    y = ad.log(x)
    y.register_hook(lambda g: seen.append(np.geterr()))
    x.register_hook(lambda g: seen.append(np.geterr()))
    x.register_post_accumulate_grad_hook(lambda x: seen.append(np.geterr()))
    with np.errstate(all="raise"):
        y.sum().backward()
        assert seen == [np.geterr()] * 3
    np.testing.assert_array_equal(x.grad, [np.inf, 1])  # type: ignore[arg-type]


def test_ops_in_the_midst_of_an_op_are_computed_too():
    """A signal's handler or a finalizer may call anything at any moment."""

    def between() -> list[ad.Tensor]:
        assert is_computing.get()
        return of_ops()

    with np.errstate(all="raise"):
        for x, y in zip(compute(between), of_ops(), strict=True):
            np.testing.assert_array_equal(x.detach(), y.detach())


def main() -> None:
    """All programs without compiled kernels, where NumPy raises whatever it can."""
    warnings.simplefilter("error")
    np.seterr(all="raise")
    for name, program in PROGRAMS.items():
        assert values(program), name
    assert np.geterr()["divide"] == "raise"


def test_ieee_results_are_results_without_kernels_too():
    done = python("-m", __name__, ADJOINT_JIT="0", timeout=120)
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    main()
