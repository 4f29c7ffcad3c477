"""Optimizers: as PyTorch's, in one launch or by ops with the same bits, and tensors stay values."""

import copy
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers import close, leaf, values

import adjoint as ad
from adjoint import optim
from adjoint.backends.cpu import jit

needs_kernels = pytest.mark.skipif(not jit.available(), reason="kernels can't be compiled here")

# More parameters than are left to ops, more elements than one chunk has, no whole vectors.
SHAPES = ((), (1,), (7,), (3, 11), (0,), (16,), (4096,), (133, 131), (50_001,))
DTYPES = (np.float32, np.float64)


class Case(NamedTuple):
    """An optimizer and its options, which PyTorch has too."""

    name: str
    options: dict[str, Any]

    def __repr__(self) -> str:
        return " ".join([self.name, *(f"{key}={value}" for key, value in self.options.items())])

    def make(self, params: Any) -> Any:
        return getattr(ad.optim, self.name)(params, **self.options)


CASES = [
    Case(name, options)
    for name, every in {
        "SGD": [
            {"lr": 0.1},
            {"lr": 0.1, "weight_decay": 0.01},
            {"lr": 0.1, "momentum": 0.9},
            {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01},
            {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True},
        ],
        "Adam": [
            {},
            {"lr": 0.01, "weight_decay": 0.1},
            {"lr": 0.01, "amsgrad": True},
            {"lr": 0.01, "betas": (0.5, 0.9), "eps": 1e-3},
            {"lr": 0.01, "betas": (0.0, 0.9), "weight_decay": 0.1, "amsgrad": True},
        ],
        "AdamW": [
            {},
            {"lr": 0.01, "weight_decay": 0.0},
            {"lr": 0.01, "weight_decay": 0.3, "amsgrad": True},
        ],
    }.items()
    for options in every
]
each_case = pytest.mark.parametrize("case", CASES, ids=repr)
each_dtype = pytest.mark.parametrize("dtype", DTYPES)


def arrays(dtype: Any = np.float32, seed: int = 0, shapes: Any = SHAPES) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def leaves(dtype: Any = np.float32, seed: int = 0) -> list[ad.Tensor]:
    return [leaf(x, dtype) for x in arrays(dtype, seed)]


def give_gradients(params: list[ad.Tensor], seed: int) -> None:
    for p in params:
        g = np.random.default_rng((seed, p.size)).standard_normal(p.shape)
        p.grad = ad.tensor(g.astype(values(p).dtype))


def trained(case: Case, params: list[ad.Tensor], steps: int = 4) -> list[np.ndarray]:
    """The parameters, and all that the optimizer remembers, after some steps."""
    optimizer = case.make(params)
    for seed in range(steps):
        give_gradients(params, seed)
        optimizer.step()
    return everything(optimizer)


def everything(optimizer: Any) -> list[np.ndarray]:
    state = [x for tensors in optimizer.state.values() for x in tensors]
    return [values(x).copy() for x in (*optimizer.params, *state, optimizer.steps)]


def same(one: list[np.ndarray], other: list[np.ndarray]) -> None:
    """Equal to the last bit."""
    for x, y in zip(one, other, strict=True):
        np.testing.assert_array_equal(x, y, strict=True)


# Results.


@each_dtype
@each_case
def test_like_pytorch(case: Case, dtype: Any) -> None:
    torch = pytest.importorskip("torch")
    theirs = [torch.tensor(x, requires_grad=True) for x in arrays(dtype)]
    optimizer = getattr(torch.optim, case.name)(theirs, **{"lr": 1e-3} | case.options)
    for seed in range(4):
        for p in theirs:
            g = np.random.default_rng((seed, p.numel())).standard_normal(tuple(p.shape))
            p.grad = torch.tensor(g.astype(dtype))
        optimizer.step()
    ours = trained(case, leaves(dtype))[: len(theirs)]
    few_ulp = 4 * np.finfo(dtype).eps
    for x, p in zip(ours, theirs, strict=True):
        expected = p.detach().numpy()
        assert x.shape == expected.shape and x.dtype == expected.dtype
        # Where steps cancel a value that was about 1, it is as exact as that was.
        np.testing.assert_allclose(x, expected, rtol=few_ulp, atol=few_ulp)


@each_dtype
@each_case
def test_kernels_and_ops_have_the_same_bits(case: Case, dtype: Any) -> None:
    with ad.detect_anomaly():  # looks at every op's result, so there is no kernel
        by_ops = trained(case, leaves(dtype))
    same(trained(case, leaves(dtype)), by_ops)


@needs_kernels
@each_case
def test_bits_do_not_depend_on_threads(case: Case) -> None:
    former = ad.get_num_threads()
    results = []
    try:
        for n in (1, 2, 3):
            ad.set_num_threads(n)
            results.append(trained(case, leaves()))
    finally:
        ad.set_num_threads(former)
    same(results[0], results[1])
    same(results[0], results[2])


@each_case
def test_a_traced_step_replays(case: Case) -> None:
    """Also the number of steps goes on."""

    def make() -> tuple[Any, Callable[[], None]]:
        params = leaves()
        optimizer = case.make(params)

        def step() -> None:
            optimizer.zero_grad()
            ad.stack([ad.sin(p * 3.0).sum() for p in params]).sum().backward()
            optimizer.step()

        return optimizer, step

    one, step = make()
    other, traced = make()
    step()
    traced()
    graph = ad.trace(traced)
    for _ in range(3):
        step()
        graph()
        same(everything(one), everything(other))


def test_without_kernels_the_bits_are_the_same(tmp_path: Path) -> None:
    script = """
import sys
import numpy as np
from test_optim import CASES, jit, leaves, trained
assert not jit.available()
np.savez(sys.argv[1], *[x for case in CASES for x in trained(case, leaves())])
"""
    file = tmp_path / "results.npz"
    environment = os.environ | {"ADJOINT_JIT": "0"}
    here = Path(__file__).parent
    subprocess.run([sys.executable, "-c", script, file], env=environment, cwd=here, check=True)
    with np.load(file) as found:
        same([x for case in CASES for x in trained(case, leaves())], list(found.values()))


# Which parameters.


@needs_kernels
def test_a_step_is_one_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    from adjoint.backends.cpu.fast import updates

    chunks: list[int] = []

    def run(address: int, arguments: int, count: int) -> None:
        chunks.append(count)
        original(address, arguments, count)

    original = updates.run
    monkeypatch.setattr(updates, "run", run)
    trained(Case("Adam", {}), leaves(), steps=3)
    assert len(chunks) == 3 and chunks[0] > len(SHAPES)


def test_parameters_without_gradient_are_left_out() -> None:
    """Each has its own number of steps."""
    case = Case("Adam", {"lr": 0.1, "weight_decay": 0.1})
    params, alone = leaves(), leaves()[1:]
    optimizer, other = case.make(params), case.make(alone)
    for seed in range(3):
        give_gradients(params, seed)
        give_gradients(alone, seed)
        params[0].grad = None
        params[1].requires_grad_(seed == 1)
        alone[0].requires_grad_(seed == 1)
        optimizer.step()
        other.step()
    assert optimizer.steps.tolist() == [0, 1] + [3] * (len(params) - 2)
    same([values(p) for p in params], [arrays()[0], *map(values, alone)])
    assert values(alone[0]) != arrays()[1]


def test_nothing_happens_without_gradients() -> None:
    for case in CASES:
        assert not any(trained(case, leaves(), steps=0)[-1])
        params = leaves()
        case.make(params).step()
        same([values(p) for p in params], arrays())


def test_duplicates_count_once() -> None:
    x = leaf([1.0])
    optimizer = ad.optim.SGD([x, x], lr=0.5)
    x.grad = ad.asarray([1.0], dtype=ad.float64)
    optimizer.step()
    assert x.tolist() == [0.5]


@each_case
def test_any_layout_and_dtype(case: Case) -> None:
    """Parameters and gradients with gaps, turned or repeated, and several dtypes at once."""

    def make(plain: bool) -> list[ad.Tensor]:
        rng = np.random.default_rng(1)
        params = []
        for dtype in (np.float16, np.float32, np.float64):
            base, g = (ad.tensor(rng.standard_normal((70, 130)).astype(dtype)) for _ in range(2))
            layouts = {
                "turned": (base.T, g.T),
                "gaps": (base[::2, 1::3], g[::2, 1::3]),
                "gradient turned": (base[:70, :70] * 1.0, g[:70, :70].T),
                "gradient repeated": (base * 1.0, ad.broadcast_to(g[0], (70, 130))),
            }
            for p, g in layouts.values():
                if plain:
                    p, g = (ad.asarray(np.ascontiguousarray(x.numpy())) for x in (p, g))
                p = p.detach().requires_grad_()
                p.grad = g
                params.append(p)
        return params

    results = []
    for plain in (False, True):
        params = make(plain)
        optimizer = case.make(params)
        for _ in range(3):
            optimizer.step()
        results.append(everything(optimizer))
    same(*results)


# Tensors are values.

HOLDERS: dict[str, Callable[[ad.Tensor], Any]] = {
    "detach": lambda p: p.detach(),
    "numpy": lambda p: p.detach().numpy(),
    "a part": lambda p: p.detach()[1:],
    "another shape": lambda p: p.detach().reshape((-1, 1)),
    "another leaf": lambda p: p.detach().requires_grad_(),
    "copy": copy.copy,
    "reshape with gradient": lambda p: p.reshape((-1,)),
    "assigned": lambda p: assigned_to(ad.zeros(p.shape, dtype=p.dtype), p),
}


def assigned_to(x: ad.Tensor, p: ad.Tensor) -> ad.Tensor:
    x[...] = p.detach()
    return x


def as_array(held: Any) -> np.ndarray:
    return np.array(held if isinstance(held, np.ndarray) else values(held))


@each_case
@pytest.mark.parametrize("name", HOLDERS)
def test_what_was_taken_from_a_parameter_stays(name: str, case: Case) -> None:
    params = [leaf(np.linspace(-1, 1, 20_000), np.float32)]
    optimizer = case.make(params)
    for seed in range(2):
        held = HOLDERS[name](params[0])
        before, value = as_array(held), values(params[0]).copy()
        give_gradients(params, seed)
        optimizer.step()
        assert (values(params[0]) != value).mean() > 0.99
        np.testing.assert_array_equal(as_array(held), before)
    assert params[0].is_leaf and params[0].requires_grad


@each_case
def test_a_step_between_forward_and_backward(case: Case) -> None:
    x = np.linspace(-1, 1, 20_000)
    p = leaf(x)
    loss = (p * p * p).sum()
    give_gradients([p], 0)
    case.make([p]).step()
    p.grad = None
    loss.backward()
    close(p.grad, 3 * x * x)


def test_gradients_and_what_they_share_memory_with_stay() -> None:
    p, q = (leaf(np.linspace(-1, k, 20_000)) for k in (1, 2))
    p.grad, q.grad = q.detach(), q.detach()[::-1]
    before = values(p.grad).copy()
    ad.optim.SGD([p, q], lr=0.5, momentum=0.5).step()
    same([values(p.grad), values(q.grad)], [before, before[::-1]])
    close(p, np.linspace(-1, 1, 20_000) - 0.5 * before)
    close(q, before - 0.5 * before[::-1])


def test_parameters_that_share_memory_are_independent() -> None:
    p = leaf(np.linspace(-1, 1, 20_000))
    q = p.detach().requires_grad_()
    p.grad, q.grad = ad.ones_like(p.detach()), 2 * ad.ones_like(p.detach())
    ad.optim.SGD([p, q], lr=1.0).step()
    close(p, np.linspace(-1, 1, 20_000) - 1)
    close(q, np.linspace(-1, 1, 20_000) - 2)


@needs_kernels
@each_case
def test_memory_that_nobody_else_sees_is_used_again(case: Case) -> None:
    params = leaves()
    optimizer = case.make(params)
    tensors = [tensor for slot in optimizer.slots for tensor in slot.tensors]
    give_gradients(params, 0)
    optimizer.step()
    before = [id(tensor.data) for tensor in tensors]
    give_gradients(params, 1)
    optimizer.step()
    assert [id(tensor.data) for tensor in tensors] == before


def test_an_anomaly_in_a_step_is_found() -> None:
    p = leaf([1.0, 2.0])
    p.grad = ad.asarray([1.0, np.nan], dtype=ad.float64)
    with ad.detect_anomaly(), pytest.raises(ad.AnomalyError):
        ad.optim.Adam([p]).step()
    close(p, [1.0, 2.0])


# What is remembered.


@each_case
def test_another_optimizer_goes_on_from_a_state(case: Case) -> None:
    params = leaves()
    optimizer = case.make(params)
    for seed in range(2):
        give_gradients(params, seed)
        optimizer.step()
    saved = optimizer.state_dict()
    copies = [p.detach().requires_grad_() for p in params]
    resumed = getattr(ad.optim, case.name)(copies, **case.options | {"lr": 7.0})
    resumed.load_state_dict(saved)
    for seed in range(2, 4):
        give_gradients(params, seed)
        give_gradients(copies, seed)
        optimizer.step()
        resumed.step()
    same(everything(optimizer), everything(resumed))
    again = getattr(ad.optim, case.name)(leaves(), **case.options)
    again.load_state_dict(saved)  # the steps since haven't changed it
    assert set(again.steps.tolist()) <= {0.0, 2.0}


def test_a_copied_optimizer_goes_its_own_way() -> None:
    optimizer = ad.optim.Adam(leaves())
    give_gradients(optimizer.params, 0)
    other = copy.deepcopy(optimizer)
    optimizer.step()
    same([values(p) for p in other.params], arrays())
    other.step()
    same(everything(optimizer), everything(other))


def test_settings_can_change_between_steps() -> None:
    p = leaf([1.0])
    optimizer = ad.optim.SGD([p], lr=0.5)
    p.grad = ad.asarray([1.0], dtype=ad.float64)
    optimizer.step()
    optimizer.lr, optimizer.weight_decay = 0.25, 1.0
    optimizer.step()
    close(p, [0.5 - 0.25 * 1.5])


# Errors.


class Misuse(NamedTuple):
    """A wrong call, its error, and what the message mentions, parted by |."""

    error: type[Exception]
    call: Callable[[], Any]
    mentions: str


def one() -> list[ad.Tensor]:
    return [leaf([1.0, 2.0])]


def loaded(other: Any, **entries: Any) -> None:
    ad.optim.Adam(one()).load_state_dict(other.state_dict() | entries)


MISUSES = [
    Misuse(ad.ArgumentError, lambda: optim.SGD(one()[0]), "SGD | a list | one tensor"),
    Misuse(ad.ArgumentError, lambda: optim.Adam([]), "Adam | empty"),
    Misuse(ad.DTypeError, lambda: optim.AdamW([3.0]), "AdamW | tensors | float"),  # type: ignore[list-item]
    Misuse(ad.DTypeError, lambda: optim.Adam([ad.asarray([1])]), "floats | int64[1]"),
    Misuse(ad.ArgumentError, lambda: optim.Adam([one()[0] * 2]), "leaves | float64[2] | multiply"),
    Misuse(ad.ArgumentError, lambda: optim.SGD(one(), lr=-1.0), "lr | negative | -1.0"),
    Misuse(ad.ArgumentError, lambda: optim.SGD(one(), lr=float("nan")), "lr | nan"),
    Misuse(ad.DTypeError, lambda: optim.SGD(one(), lr=ad.asarray(1.0)), "lr | number | tensor"),  # type: ignore[arg-type]
    Misuse(ad.ArgumentError, lambda: optim.SGD(one(), momentum=-0.5), "momentum | -0.5"),
    Misuse(ad.ArgumentError, lambda: optim.SGD(one(), weight_decay=-0.5), "weight_decay | -0.5"),
    Misuse(ad.ArgumentError, lambda: optim.SGD(one(), nesterov=True), "nesterov | momentum"),
    Misuse(ad.DTypeError, lambda: optim.SGD(one(), momentum=0.9, nesterov=1), "nesterov | 1"),  # type: ignore[arg-type]
    Misuse(ad.ArgumentError, lambda: optim.Adam(one(), betas=(0.9, 1.0)), "betas | below 1 | 1.0"),
    Misuse(ad.ArgumentError, lambda: optim.Adam(one(), betas=0.9), "betas | two | 0.9"),  # type: ignore[arg-type]
    Misuse(ad.ArgumentError, lambda: optim.Adam(one(), eps=-1e-8), "eps | -1e-08"),
    Misuse(ad.DTypeError, lambda: optim.Adam(one(), amsgrad=None), "amsgrad | None"),  # type: ignore[arg-type]
    Misuse(ad.ArgumentError, lambda: loaded(optim.SGD(one())), "settings | amsgrad | momentum"),
    Misuse(
        ad.ArgumentError, lambda: loaded(optim.Adam(one(), amsgrad=True)), "state | max_exp_avg_sq"
    ),
    Misuse(ad.ArgumentError, lambda: loaded(optim.Adam(one() + one())), "for 2 parameters | has 1"),
    Misuse(ad.ShapeError, lambda: loaded(optim.Adam([leaf([1.0])])), "float64[2] | float64[1]"),
    Misuse(
        ad.DTypeError, lambda: loaded(optim.Adam([leaf([1, 2], "f")])), "float64[2] | float32[2]"
    ),
    Misuse(ad.DTypeError, lambda: loaded(optim.Adam(one()), steps=3), "tensors | int"),
    Misuse(ad.ArgumentError, lambda: loaded(optim.Adam(one()), more=3), "entries | more"),
    Misuse(ad.ArgumentError, lambda: optim.Adam(one()).load_state_dict([]), "entries | list"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("misuse", MISUSES, ids=lambda misuse: misuse.mentions)
def test_misuse_is_explained(misuse: Misuse) -> None:
    with pytest.raises(misuse.error) as caught:
        misuse.call()
    for word in misuse.mentions.split(" | "):
        assert word in str(caught.value)
