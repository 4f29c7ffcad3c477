"""Optimizers: as PyTorch's, in one launch or by ops with the same bits, and tensors stay values."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from adjoint import optim
from tests.support import processes
from tests.support.helpers import close, leaf, needs_kernels, values
from tests.support.misuse import Misuse

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
            {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "maximize": True},
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
            {"lr": 0.01, "weight_decay": 0.3, "amsgrad": True, "maximize": True},
        ],
        "RMSprop": [
            {},
            {"momentum": 0.9, "weight_decay": 0.1},
            {"centered": True},
            {"alpha": 0.4, "centered": True, "momentum": 0.5, "maximize": True},
        ],
        "Adagrad": [
            {},
            {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1},
            {"initial_accumulator_value": 0.5, "maximize": True},
        ],
    }.items()
    for options in every
]
each_case = pytest.mark.parametrize("case", CASES, ids=repr)
each_kind = pytest.mark.parametrize("case", [CASES[0], CASES[2], *CASES[6::4]], ids=repr)
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
    state = [x for entry in optimizer.state.values() for x in entry.values()]
    return [values(x).copy() for x in (*optimizer._all_params, *state)]


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
    optimizer = getattr(torch.optim, case.name)(theirs, **case.options)
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


def results() -> dict[str, np.ndarray]:
    """What all cases come to, numbered."""
    found = [x for case in CASES for x in trained(case, leaves())]
    return {str(k): x for k, x in enumerate(found)}


def test_without_kernels_the_bits_are_the_same(tmp_path: Path) -> None:
    found = processes.without_kernels(__name__, tmp_path / "results.npz")
    same(list(results().values()), list(found.values()))


# Which parameters.


def count_launches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of chunks of each launch from now on."""
    from adjoint.backends.cpu.jit import threads

    chunks: list[int] = []

    def run(address: int, arguments: int, count: int) -> None:
        chunks.append(count)
        original(address, arguments, count)

    original = threads.run
    monkeypatch.setattr(threads, "run", run)
    return chunks


@needs_kernels
@each_case
def test_a_step_is_one_launch(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = count_launches(monkeypatch)
    trained(case, leaves(), steps=3)
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
    steps = [entry["step"].item() for entry in optimizer.state.values()]
    assert steps == [1] + [3] * (len(params) - 2)
    assert params[0] not in optimizer.state
    same([values(p) for p in params], [arrays()[0], *map(values, alone)])
    assert values(alone[0]) != arrays()[1]


def test_nothing_happens_without_gradients() -> None:
    for case in CASES:
        params = leaves()
        optimizer = case.make(params)
        optimizer.step()
        same([values(p) for p in params], arrays())
        assert not optimizer.state


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


@each_kind
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
    give_gradients(params, 0)
    optimizer.step()
    tensors = [tensor for slot in optimizer._slots.values() for tensor in slot.tensors]
    before = [id(tensor.raw) for tensor in tensors]
    give_gradients(params, 1)
    optimizer.step()
    assert [id(tensor.raw) for tensor in tensors] == before


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
    for entry in again.state.values():
        assert entry.get("step", ad.tensor(2.0)).item() == 2.0


def test_a_copied_optimizer_goes_its_own_way() -> None:
    optimizer = ad.optim.Adam(leaves())
    give_gradients(optimizer._all_params, 0)
    other = copy.deepcopy(optimizer)
    optimizer.step()
    same([values(p) for p in other._all_params], arrays())
    other.step()
    same(everything(optimizer), everything(other))


def test_settings_can_change_between_steps() -> None:
    p = leaf([1.0])
    optimizer = ad.optim.SGD([p], lr=0.5)
    p.grad = ad.asarray([1.0], dtype=ad.float64)
    optimizer.step()
    optimizer.param_groups[0] |= {"lr": 0.25, "weight_decay": 1.0}
    optimizer.step()
    close(p, [0.5 - 0.25 * 1.5])


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("SGD", {"lr": 0.1}, {"momentum": 0.9, "dampening": 0.5}),
        ("SGD", {"lr": 0.1, "momentum": 0.9}, {"momentum": 0.0}),
        ("Adam", {"lr": 0.1}, {"betas": [0.5, 0.9], "maximize": True}),
        ("RMSprop", {"lr": 0.1}, {"weight_decay": 0.1, "alpha": 0.5}),
    ],
    ids=str,
)
def test_settings_of_all_kinds_can_change_as_in_pytorch(name: str, before: Any, after: Any) -> None:
    torch = pytest.importorskip("torch")
    results = []
    for library in (ad, torch):
        p = library.tensor(np.linspace(-1, 1, 7), requires_grad=True)
        optimizer = getattr(library.optim, name)([p], **before)
        for step in range(9):
            optimizer.param_groups[0].update(after if 3 <= step < 6 else before)
            optimizer.zero_grad()
            (p * p * p).sum().backward()
            optimizer.step()
        results.append(p.detach().numpy())
    np.testing.assert_allclose(*results, rtol=1e-12, atol=1e-12)


def test_a_setting_that_is_wrong_is_found_at_the_next_step() -> None:
    (p,) = params = one()
    optimizer = ad.optim.SGD(params, lr=0.5)
    p.grad = p.detach()
    optimizer.param_groups[0]["lr"] = -1.0
    with pytest.raises(ad.ArgumentError, match=r"lr .* -1\.0"):
        optimizer.step()
    close(p, [1.0, 2.0])


def test_a_closure_is_called_with_gradients_and_its_loss_comes_back() -> None:
    (p,) = params = one()
    optimizer = ad.optim.SGD(params, lr=0.25)

    def closure() -> ad.Tensor:
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with ad.no_grad():
        assert optimizer.step(closure).item() == 5.0
    close(p, [0.5, 1.0])


def test_gradients_are_forgotten_or_made_zeros() -> None:
    (p,) = params = one()
    optimizer = ad.optim.SGD(params)
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is None
    p.grad = p.detach()
    optimizer.zero_grad(set_to_none=False)
    close(p.grad, [0.0, 0.0])
    optimizer.zero_grad()
    assert p.grad is None


# Groups.


def test_groups_have_their_settings_or_the_defaults() -> None:
    params = leaves()
    given = [{"params": params[:2], "lr": 0.5, "name": "first"}, {"params": iter(params[2:])}]
    optimizer = ad.optim.SGD(given, lr=0.1)
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.1]
    assert [len(group["params"]) for group in optimizer.param_groups] == [2, len(params) - 2]
    assert optimizer.param_groups[0]["name"] == "first"
    assert optimizer.defaults["lr"] == 0.1
    assert set(given[0]) == {"params", "lr", "name"}  # what was given stays as it was


def test_parameters_may_be_named() -> None:
    x, y = leaves()[:2]
    optimizer = ad.optim.SGD({"x": x, "y": y}.items())
    assert optimizer.param_groups[0]["params"] == [x, y]
    assert optimizer.param_groups[0]["param_names"] == ["x", "y"]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["x", "y"]


def test_a_group_can_come_later() -> None:
    params, together = leaves(), leaves()
    optimizer, other = ad.optim.Adam(params[:3]), ad.optim.Adam(together)
    optimizer.add_param_group({"params": params[3]})
    optimizer.add_param_group({"params": params[4:]})
    for seed in range(3):
        for given in (params, together):
            give_gradients(given, seed)
        optimizer.step()
        other.step()
    same(everything(optimizer), everything(other))


@needs_kernels
@pytest.mark.parametrize(
    ("case", "others", "launches"),
    [
        (Case("SGD", {"lr": 0.1, "momentum": 0.9}), {"lr": 0.2, "momentum": 0.5}, 1),
        (Case("SGD", {"lr": 0.1, "momentum": 0.9}), {"momentum": 0.0}, 2),
        (Case("Adam", {}), {"lr": 0.2, "betas": (0.8, 0.9), "eps": 1e-3}, 1),
        (Case("AdamW", {}), {"weight_decay": 0.0}, 1),
        (Case("Adagrad", {}), {"lr_decay": 0.1}, 1),
    ],
    ids=str,
)
def test_groups_are_updated_in_one_launch(
    case: Case, others: dict, launches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where their numbers are all that differs; and their bits are those that each has alone."""
    chunks = count_launches(monkeypatch)
    params, first, second = leaves(), leaves()[:5], leaves()[5:]
    # More parameters than are left to ops, in each group.
    extra = [leaf(x, np.float32) for x in arrays()]
    groups = [{"params": params[:5]}, {"params": [*params[5:], *extra]} | others]
    optimizer = case.make(groups)
    alone = [case.make(first), case.make([{"params": second} | others])]
    for seed in range(3):
        for given in (params, extra, first, second):
            give_gradients(given, seed)
        chunks.clear()
        optimizer.step()
        assert len(chunks) == launches
        for each in alone:
            each.step()
    same([values(p) for p in params], [values(p) for p in (*first, *second)])


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("SGD", {"dampening": 0.1}, {"dampening": 0.2}),
        ("SGD", {"momentum": 0.9, "dampening": 0.1}, {"momentum": 0.9, "dampening": 0.2}),
        ("SGD", {"weight_decay": 0.1}, {"weight_decay": 0.2}),
        ("Adam", {"betas": (0.9, 0.99)}, {"betas": (0.8, 0.9)}),
        ("RMSprop", {"alpha": 0.9}, {"alpha": 0.8}),
        ("Adagrad", {"lr_decay": 0.1}, {"lr_decay": 0.2}),
    ],
)
def test_groups_with_settings_of_their_own_may_lack_gradients(
    name: str, first: dict, second: dict
) -> None:
    a, b, c, *alone = [leaf([1.0, 2.0]) for _ in range(6)]
    make = getattr(ad.optim, name)
    optimizer = make([{"params": [a]} | first, {"params": [b, c]} | second], lr=0.1)
    others = [make([p], lr=0.1, **own) for p, own in zip(alone, (first, second), strict=False)]
    for _ in range(2):
        (a + 2 * b + alone[0] + 2 * alone[1]).sum().backward()
        for each in (optimizer, *others):
            each.step()
    close(a, values(alone[0]))
    close(b, values(alone[1]))
    close(c, [1.0, 2.0])


def test_a_parameter_of_a_group_that_was_removed_stays() -> None:
    params = leaves()
    optimizer = ad.optim.Adam([{"params": params[:2]}, {"params": params[2:], "lr": 0.1}])
    saved(optimizer)
    before = [values(p).copy() for p in params]
    del optimizer.param_groups[0]
    saved(optimizer)
    same([values(p) for p in params[:2]], before[:2])
    assert optimizer.state[params[2]]["step"].item() == 2.0
    assert (values(params[-1]) != before[-1]).any()


# Saved states.


def test_a_state_has_pytorchs_shape() -> None:
    params = leaves()[:3]
    optimizer = ad.optim.Adam([{"params": params[:1]}, {"params": params[1:], "lr": 0.1}])
    params[0].grad, params[2].grad = params[0].detach(), params[2].detach()
    optimizer.step()
    state = optimizer.state_dict()
    assert list(state) == ["state", "param_groups"]
    assert [group["params"] for group in state["param_groups"]] == [[0], [1, 2]]
    assert state["param_groups"][1]["lr"] == 0.1
    assert list(state["state"]) == [0, 2]  # the other has had no gradient
    assert list(state["state"][2]) == ["step", "exp_avg", "exp_avg_sq"]
    assert state["state"][2]["exp_avg"].shape == params[2].shape


def as_theirs(value: Any, torch: Any) -> Any:
    """A state for PyTorch, from one of ours."""
    if isinstance(value, dict):
        return {key: as_theirs(item, torch) for key, item in value.items()}
    if isinstance(value, list):
        return [as_theirs(item, torch) for item in value]
    return torch.tensor(np.array(values(value))) if isinstance(value, ad.Tensor) else value


def as_ours(value: Any, torch: Any) -> Any:
    if isinstance(value, dict):
        return {key: as_ours(item, torch) for key, item in value.items()}
    if isinstance(value, list):
        return [as_ours(item, torch) for item in value]
    return ad.tensor(value.numpy()) if isinstance(value, torch.Tensor) else value


STATES = [*CASES, Case("LBFGS", {"max_iter": 2, "history_size": 3}), Case("LBFGS", {"max_iter": 4})]


@pytest.mark.parametrize("case", STATES, ids=repr)
def test_states_go_from_and_to_pytorch(case: Case) -> None:
    torch = pytest.importorskip("torch")

    def run(library: Any, optimizer: Any, x: Any, steps: int) -> np.ndarray:
        def closure() -> Any:
            optimizer.zero_grad()
            loss = (x * x * (x * x - 1) + x).sum()
            loss.backward()
            return loss

        for _ in range(steps):
            optimizer.step(closure)
        return np.array(x.detach().numpy())

    def make(library: Any, array: np.ndarray) -> tuple[Any, Any, Any]:
        x = library.tensor(array, requires_grad=True)
        return library, getattr(library.optim, case.name)([x], **case.options), x

    def resumed(one: Any, array: np.ndarray, state: dict) -> np.ndarray:
        library, optimizer, x = make(one, array)
        optimizer.load_state_dict(state)
        return run(library, optimizer, x, 3)

    start = np.linspace(-1, 1, 6)
    own, other = make(ad, start), make(torch, start)
    here, there = run(*own, 3), run(*other, 3)
    states = as_theirs(own[1].state_dict(), torch), as_ours(other[1].state_dict(), torch)
    expected = run(*other, 3)
    np.testing.assert_allclose(resumed(torch, here, states[0]), expected, rtol=1e-9)
    np.testing.assert_allclose(resumed(ad, there, states[1]), expected, rtol=1e-9)


def test_a_state_that_does_not_fit_changes_nothing() -> None:
    params = leaves()
    optimizer = ad.optim.Adam(params, lr=0.5)
    saved(optimizer)
    before = everything(optimizer)
    state = saved(ad.optim.Adam(leaves(), lr=0.1))
    state["state"][len(params) - 1]["exp_avg"] = ad.zeros(3)
    with pytest.raises(ad.ShapeError):
        optimizer.load_state_dict(state)
    same(everything(optimizer), before)
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_entries_of_a_users_own_are_saved_too() -> None:
    optimizer, other = ad.optim.SGD(group(name="head", scale=2.0)), ad.optim.SGD(group())
    other.load_state_dict(optimizer.state_dict())
    assert other.param_groups[0]["name"] == "head"
    assert other.param_groups[0]["scale"] == 2.0


def test_betas_are_a_tuple_again_when_loaded() -> None:
    optimizer, other = ad.optim.Adam(one(), betas=(0.5, 0.6)), ad.optim.Adam(one())
    state = optimizer.state_dict()
    assert state["param_groups"][0]["betas"] == [0.5, 0.6]
    other.load_state_dict(state)
    assert other.param_groups[0]["betas"] == (0.5, 0.6)


def test_an_optimizer_can_be_pickled() -> None:
    optimizer = ad.optim.Adam(leaves())
    saved(optimizer)
    same(everything(pickle.loads(pickle.dumps(optimizer))), everything(optimizer))


def test_a_state_is_to_look_at() -> None:
    optimizer = ad.optim.Adam(one())
    saved(optimizer)
    with pytest.raises(TypeError):
        optimizer.state[optimizer._all_params[0]]["exp_avg"] = ad.zeros(2)  # type: ignore[index]
    with pytest.raises(AttributeError):
        optimizer.state.clear()  # type: ignore[attr-defined]


# An optimizer of one's own, in PyTorch's way.


class Own(ad.optim.Optimizer):
    """Momentum, with settings of all kinds, and a number that is of no parameter."""

    def __init__(self, params: Any, lr: Any = 0.1, kind: str = "x", eps: Any = (1e-3, None)):
        super().__init__(params, {"lr": lr, "kind": kind, "eps": eps})

    @ad.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with ad.enable_grad():
                loss = closure()
        self.state["calls"] = self.state.get("calls", 0) + 1
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    state["m"] = ad.zeros_like(p)
                state["step"] += 1
                state["m"] = 0.9 * state["m"] + p.grad
                p[...] = p - group["lr"] * state["m"]
        return loss


def run_own(optimizer: Any, params: list[ad.Tensor], steps: int) -> None:
    def closure() -> ad.Tensor:
        optimizer.zero_grad()
        loss = (params[0] * params[0]).sum() + (params[1] * params[1]).sum()
        loss.backward()
        return loss

    for _ in range(steps):
        assert optimizer.step(closure).shape == ()


def test_an_optimizer_of_ones_own_goes_on_from_a_state(tmp_path: Path) -> None:
    params = leaves()[2:5]
    optimizer = Own([{"params": params[:1], "kind": "y"}, {"params": params[1:], "lr": 0.2}])
    copies = leaves()[2:5]
    sgd = ad.optim.SGD(copies, lr=0.1, momentum=0.9)
    assert "kind='y'" in repr(optimizer)
    run_own(optimizer, params, 3)
    ad.save({"optimizer": optimizer.state_dict(), "params": params}, tmp_path / "own.npz")
    saved = ad.load(tmp_path / "own.npz")
    again = [leaf(values(x), np.float32) for x in saved["params"]]
    other = Own([{"params": again[:1]}, {"params": again[1:]}])
    other.load_state_dict(saved["optimizer"])
    assert [group["kind"] for group in other.param_groups] == ["y", "x"]
    assert other.param_groups[0]["eps"] == (1e-3, None)
    assert other.state["calls"] == 3 and other.state[again[0]]["step"] == 3
    assert again[2] not in other.state  # it had no gradient
    for each, given in ((optimizer, params), (other, again)):
        run_own(each, given, 3)
    same([values(p) for p in params], [values(p) for p in again])
    run_own(sgd, copies, 6)
    close(params[0], values(copies[0]))


def test_an_optimizer_of_ones_own_is_copied_and_takes_a_scheduler() -> None:
    params = leaves()[2:5]
    optimizer = Own(params)
    run_own(optimizer, params, 2)
    scheduler = ad.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.05
    for other in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        theirs = other.param_groups[0]["params"]
        same(
            [values(other.state[p]["m"]) for p in theirs[:2]],
            [values(optimizer.state[p]["m"]) for p in params[:2]],
        )


@pytest.mark.parametrize("place", ["optim", "optim.lr_scheduler", "data"])
def test_classes_that_pytorch_has_too_have_no_other_members(place: str) -> None:
    torch = pytest.importorskip("torch")
    ours: Any = eval(f"ad.{place}", {"ad": ad})
    theirs: Any = torch.utils.data if place == "data" else eval(f"torch.{place}")
    more = {"DataLoader": {"load_state_dict", "set_epoch", "state_dict"}}
    for name in ours.__all__:
        cls = getattr(ours, name)
        if isinstance(cls, type) and hasattr(theirs, name):
            found = {x for x in dir(cls) if not x.startswith("_")}
            known = set(dir(getattr(theirs, name))) | more.get(name, set()) | {"state"}
            assert found <= known, (name, found - known)


def test_a_graph_goes_on_from_a_loaded_state() -> None:
    def make() -> tuple[list[ad.Tensor], Any, Callable[[], None]]:
        params = leaves()[:3]
        optimizer = ad.optim.Adam(params, lr=0.1)

        def step() -> None:
            optimizer.zero_grad()
            ad.stack([ad.sin(p * 3.0).sum() for p in params]).sum().backward()
            optimizer.step()

        return params, optimizer, step

    params, optimizer, step = make()
    copies, other, traced = make()
    graph = ad.trace(traced)  # before anything is remembered
    for _ in range(3):
        step()
    other.load_state_dict(optimizer.state_dict())
    for p, copied in zip(params, copies, strict=True):
        with ad.no_grad():
            copied[...] = p.detach()
    step()
    graph()
    same(everything(optimizer), everything(other))


# Devices.


@pytest.mark.webgpu
@each_kind
def test_a_gpus_steps_are_the_cpus(case: Case) -> None:
    """Also those of groups, and of a graph."""

    def run(device: str, traced: bool) -> list[np.ndarray]:
        start = arrays(shapes=((), (7,), (3, 11), (0,)))
        params = [ad.tensor(x, device=device, requires_grad=True) for x in start]
        optimizer = case.make([{"params": params[:2]}, {"params": params[2:], "lr": 0.02}])

        def step() -> None:
            optimizer.zero_grad()
            ad.stack([ad.sin(p * 3.0).sum() for p in params]).sum().backward()
            optimizer.step()

        program = ad.trace(step) if traced else step
        for _ in range(4):
            program()
        assert all(p.device == device for p in params)
        return everything(optimizer)

    expected = run("cpu", False)
    for traced in (False, True):
        for x, y in zip(run("webgpu", traced), expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)


@pytest.mark.webgpu
def test_parameters_may_move_before_the_first_step_and_states_move_when_loaded() -> None:
    params = leaves()[:2]
    optimizer = ad.optim.Adam(params)
    for p in params:
        p.raw = p.detach().to("webgpu").raw  # as a module's `to` does it
    saved(optimizer)
    there = ad.optim.Adam(leaves()[:2])
    there.load_state_dict(optimizer.state_dict())
    assert {x.device for entry in there.state.values() for x in entry.values()} == {"cpu"}
    saved(there)
    for p in params:
        p.raw = p.detach().to("cpu").raw
        p.grad = p.detach()
    with pytest.raises(ad.DeviceError, match="cpu"):
        optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.step()


@pytest.mark.webgpu
def test_lbfgs_works_on_a_gpu() -> None:
    x = ad.tensor([3.0, -4.0], device="webgpu", requires_grad=True)
    optimizer = ad.optim.LBFGS([x], line_search_fn="strong_wolfe")

    def closure() -> ad.Tensor:
        optimizer.zero_grad()
        loss = ((x - 1.0) ** 4).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert x.device == "webgpu"
    assert closure().item() < 1e-4


# L-BFGS.


def minimized(f: Callable[[ad.Tensor], ad.Tensor], start: Any, **options: Any) -> ad.Tensor:
    x = leaf(start)
    limits = {"tolerance_grad": 1e-9, "tolerance_change": 1e-18}
    optimizer = ad.optim.LBFGS([x], **limits | options)

    def closure() -> ad.Tensor:
        optimizer.zero_grad()
        loss = f(x)
        loss.backward()
        return loss

    optimizer.step(closure)
    return x


def valley(x: ad.Tensor) -> ad.Tensor:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def test_lbfgs_gets_through_a_bent_valley() -> None:
    x = minimized(valley, [-1.2, 1.0, -0.5, 2.0], max_iter=200, line_search_fn="strong_wolfe")
    close(x, np.ones(4), 1e-6)


@pytest.mark.parametrize("lr", [1e-3, 1.0, 1e3])
def test_a_line_search_does_not_need_a_good_first_step(lr: float) -> None:
    x = minimized(valley, [-1.2, 1.0], lr=lr, max_iter=300, line_search_fn="strong_wolfe")
    close(x, np.ones(2), 1e-6)


def test_a_line_search_comes_back_from_where_a_loss_is_not_a_number() -> None:
    x = minimized(
        lambda x: (x - ad.log(x)).sum(), [0.5, 3.0], lr=20.0, line_search_fn="strong_wolfe"
    )
    close(x, np.ones(2), 1e-4)


def test_a_line_search_that_is_interrupted_leaves_parameters_as_they_were() -> None:
    x, calls = leaf([3.0, -4.0]), []
    optimizer = ad.optim.LBFGS([x], line_search_fn="strong_wolfe")

    def closure() -> ad.Tensor:
        if calls:
            raise KeyboardInterrupt
        calls.append(1)
        loss = (x * x).sum()
        loss.backward()
        return loss

    with pytest.raises(KeyboardInterrupt):
        optimizer.step(closure)
    close(x, [3.0, -4.0])


def test_lbfgs_leaves_frozen_parameters_out() -> None:
    x, frozen, unused = leaf([3.0]), leaf([2.0]), leaf([1.0])
    frozen.grad = frozen.detach()
    frozen.requires_grad_(False)
    optimizer = ad.optim.LBFGS([x, frozen, unused])

    def closure() -> ad.Tensor:
        x.grad = None
        loss = (x * x * frozen).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert abs(x.item()) < 1e-6
    assert (frozen.item(), unused.item()) == (2.0, 1.0)


def test_lbfgs_says_that_it_cannot_be_traced() -> None:
    optimizer = ad.optim.LBFGS(one())
    with pytest.raises(ad.TraceError, match="LBFGS"):
        ad.trace(lambda: optimizer.step(lambda: ad.tensor(0.0)))


# Averages.


class Model:
    """What looks like a module, with a parameter and a buffer."""

    def __init__(self) -> None:
        self.w = leaf([0.0, 1.0])
        self.count = ad.tensor(0)

    def named_parameters(self) -> Any:
        return {"w": self.w}.items()

    def named_buffers(self) -> Any:
        return {"count": self.count}.items()

    def set(self, number: float) -> None:
        with ad.no_grad():
            self.w[...] = number
            self.count[...] = int(number)


def test_averages_forget_by_their_decay() -> None:
    model = Model()
    ema, expected = ad.optim.EMA(model, decay=0.9), np.array([0.0, 1.0])
    for number in (10.0, 20.0, 30.0):
        model.set(number)
        ema.update()
        expected = 0.9 * expected + 0.1 * number
    close(ema.state_dict()["averages"]["w"], expected)
    assert ema.state_dict()["averages"]["count"].item() == 30  # buffers are copied


def test_a_warm_up_forgets_first_values_sooner() -> None:
    p = leaf([0.0])
    ema, expected = ad.optim.EMA([p], decay=0.25, warmup=True), 0.0
    for n in range(4):
        with ad.no_grad():
            p[...] = n + 1.0
        ema.update()
        decay = min(0.25, (1 + n) / (10 + n))
        expected = decay * expected + (1 - decay) * (n + 1)
        close(ema.state_dict()["averages"]["0"], [expected])


def test_averages_are_there_within_apply_only() -> None:
    model = Model()
    ema = ad.optim.EMA(model, decay=0.5)
    model.set(4.0)
    ema.update()
    model.set(8.0)
    with pytest.raises(KeyboardInterrupt), ema.apply():
        close(model.w, [2.0, 2.5])
        assert model.count.item() == 4
        assert model.w.requires_grad and model.w.is_leaf
        raise KeyboardInterrupt
    close(model.w, [8.0, 8.0])
    assert model.count.item() == 8


def test_averages_can_be_copied() -> None:
    model, other = Model(), Model()
    ema = ad.optim.EMA(model, decay=0.5)
    model.set(4.0)
    ema.update()
    model.set(8.0)
    ema.copy_to(other)
    close(other.w, [2.0, 2.5])
    close(model.w, [8.0, 8.0])
    ema.copy_to()
    close(model.w, [2.0, 2.5])


def test_another_ema_goes_on_from_a_state() -> None:
    model = Model()
    ema, other = (ad.optim.EMA(model, 0.5, warmup=True) for _ in range(2))
    model.set(4.0)
    ema.update()
    state = ema.state_dict()
    other.load_state_dict(state)
    model.set(8.0)
    ema.update()
    other.update()
    close(other.state_dict()["averages"]["w"], values(ema.state_dict()["averages"]["w"]))
    again = ad.optim.EMA(model, 0.5)
    again.load_state_dict(state)  # the update since hasn't changed it
    assert again.state_dict()["updates"] == 1.0


@needs_kernels
def test_an_update_of_averages_is_one_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    params = leaves()
    ema = ad.optim.EMA(params, decay=0.75)
    before = [values(x).copy() for x in ema.state_dict()["averages"].values()]
    give_gradients(params, 0)
    ad.optim.SGD(params, lr=1.0).step()
    chunks = count_launches(monkeypatch)
    ema.update()
    assert len(chunks) == 1
    for average, old, p in zip(ema.state_dict()["averages"].values(), before, params, strict=True):
        np.testing.assert_allclose(values(average), 0.75 * old + 0.25 * values(p), atol=1e-6)


def test_a_traced_update_of_averages_replays() -> None:
    p = leaf([0.0])
    ema, other = (ad.optim.EMA([p], decay=0.3, warmup=True) for _ in range(2))
    graph = ad.trace(other.update)
    for n in range(4):
        with ad.no_grad():
            p[...] = n + 1.0
        ema.update()
        graph()
        close(other.state_dict()["averages"]["0"], values(ema.state_dict()["averages"]["0"]))


# Errors.


def one() -> list[ad.Tensor]:
    return [leaf([1.0, 2.0])]


def saved(optimizer: Any, **entries: Any) -> dict[str, Any]:
    """The state of an optimizer after a step, with other entries."""
    for p in optimizer._all_params:
        p.grad = p.detach()
    optimizer.step()
    return optimizer.state_dict() | entries


def load(state: Any) -> None:
    ad.optim.Adam(one()).load_state_dict(state)


def load_entries(**entries: Any) -> None:
    """With other entries for the first parameter."""
    state = saved(optim.Adam(one()))
    load(state | {"state": {0: state["state"][0] | entries}})


def group(**entries: Any) -> list[dict[str, Any]]:
    return [{"params": one()} | entries]


def removed(state: dict[str, Any], key: str) -> dict[str, Any]:
    del state["state"][0][key]
    return state


def saved_group(**entries: Any) -> dict[str, Any]:
    return saved(optim.SGD([("w", one()[0])]))["param_groups"][0] | entries


def appended() -> None:
    optimizer = optim.SGD(one())
    optimizer.param_groups[0]["params"].append(one()[0])
    saved(optimizer)


def in_a_list() -> ad.nn.Module:
    """A model whose layers aren't found."""
    model = ad.nn.Module()
    model.layers = [ad.nn.Linear(2, 2)]  # type: ignore[attr-defined]
    return model


SHARED = one()
TOO_MANY = {"state": {3: {}}}
MISUSES = [
    Misuse(ad.ArgumentError, lambda: optim.SGD(one()[0]), "SGD | a list | one tensor"),
    Misuse(ad.ArgumentError, lambda: optim.Adam([]), "optimizer got an empty parameter list"),
    Misuse(ad.ArgumentError, lambda: optim.SGD(in_a_list().parameters()), "SGD | nn.ModuleList"),
    Misuse(ad.ArgumentError, lambda: optim.EMA(in_a_list()), "EMA | empty | nn.ModuleList"),
    Misuse(ad.DTypeError, lambda: optim.SGD(Model()), "SGD | Model | model.parameters()"),  # type: ignore[arg-type]
    Misuse(ad.DTypeError, lambda: optim.SGD({"w": one()[0]}), "a dict | params.items()"),  # type: ignore[arg-type]
    Misuse(ad.DTypeError, lambda: optim.SGD(set(one())), "order | set"),
    Misuse(ad.DTypeError, lambda: optim.SGD(3), "SGD | a list | int"),  # type: ignore[arg-type]
    Misuse(ad.DTypeError, lambda: optim.AdamW([3.0]), "AdamW | tensors | float"),  # type: ignore[list-item]
    Misuse(ad.DTypeError, lambda: optim.Adam([ad.asarray([1])]), "floats | int64[1]"),
    Misuse(ad.ArgumentError, lambda: optim.Adam([one()[0] * 2]), "leaves | float64[2] | multiply"),
    Misuse(ad.ArgumentError, lambda: optim.SGD([*one(), *group()]), "tensors or groups | both"),  # type: ignore[list-item]
    Misuse(ad.ArgumentError, lambda: optim.SGD([{"lr": 0.1}]), 'a dict with "params" | lr'),
    Misuse(ad.ArgumentError, lambda: optim.SGD([{"params": SHARED}] * 2), "in two groups"),
    Misuse(ad.ArgumentError, lambda: optim.SGD([("w", one()[0]), one()[0]]), "names | both"),  # type: ignore[list-item]
    Misuse(ad.ArgumentError, lambda: optim.SGD([("w", p) for p in one() + one()]), "one name | w"),
    Misuse(
        ad.ArgumentError,
        lambda: optim.SGD([("w", one()[0])]).add_param_group({"params": one()}),
        "names | both",
    ),
    Misuse(ad.DTypeError, lambda: optim.SGD([(3, one()[0])]), "a string | 3"),  # type: ignore[list-item]
    Misuse(ad.ArgumentError, appended, "by hand | add_param_group"),
    Misuse(ad.ArgumentError, lambda: optim.SGD(one(), lr=-1.0), "lr | negative | -1.0"),
    Misuse(ad.ArgumentError, lambda: optim.SGD(group(lr=-1.0)), "lr | negative | -1.0"),
    Misuse(ad.ArgumentError, lambda: optim.SGD(one(), lr=float("nan")), "lr | nan"),
    Misuse(ad.DTypeError, lambda: optim.SGD(one(), lr=ad.asarray(1.0)), "lr | number | tensor"),  # type: ignore[arg-type]
    Misuse(ad.ArgumentError, lambda: optim.SGD(one(), momentum=-0.5), "momentum | -0.5"),
    Misuse(ad.ArgumentError, lambda: optim.SGD(one(), weight_decay=-0.5), "weight_decay | -0.5"),
    Misuse(ad.ArgumentError, lambda: optim.SGD(one(), nesterov=True), "nesterov | momentum"),
    Misuse(
        ad.ArgumentError,
        lambda: optim.SGD(one(), momentum=0.9, dampening=0.1, nesterov=True),
        "nesterov | dampening=0.1",
    ),
    Misuse(ad.DTypeError, lambda: optim.SGD(one(), momentum=0.9, nesterov=1), "nesterov | 1"),  # type: ignore[arg-type]
    Misuse(ad.ArgumentError, lambda: optim.Adam(one(), betas=(0.9, 1.0)), "betas | below 1 | 1.0"),
    Misuse(ad.ArgumentError, lambda: optim.Adam(one(), betas=0.9), "betas | two | 0.9"),  # type: ignore[arg-type]
    Misuse(ad.ArgumentError, lambda: optim.Adam(one(), eps=-1e-8), "eps | -1e-08"),
    Misuse(ad.DTypeError, lambda: optim.Adam(one(), amsgrad=None), "amsgrad | None"),  # type: ignore[arg-type]
    Misuse(
        ad.ArgumentError,
        lambda: optim.AdamW(group(decoupled_weight_decay=False)),
        "AdamW | decoupled | Adam",
    ),
    Misuse(ad.ArgumentError, lambda: optim.LBFGS(group() + group()), "LBFGS | one group"),
    Misuse(ad.ArgumentError, lambda: optim.LBFGS([{"params": []}]), "empty | nn.ModuleList"),
    Misuse(ad.ArgumentError, lambda: optim.LBFGS(one()).step(), "LBFGS | closure"),
    Misuse(ad.ArgumentError, lambda: optim.LBFGS(one(), line_search_fn="armijo"), "strong_wolfe"),
    Misuse(ad.ArgumentError, lambda: optim.LBFGS(one(), max_iter=0), "max_iter | at least 1"),
    Misuse(ad.DTypeError, lambda: optim.LBFGS(one(), history_size=2.5), "history_size | 2.5"),  # type: ignore[arg-type]
    Misuse(
        ad.DTypeError,
        lambda: optim.LBFGS([*one(), leaf([1.0], "f")]),
        "one dtype | float64[2] | float32[1]",
    ),
    Misuse(ad.ArgumentError, lambda: load([]), "state dict | list"),
    Misuse(ad.ArgumentError, lambda: load({"state": {}}), "state dict | lacks | param_groups"),
    Misuse(ad.ArgumentError, lambda: load(saved(optim.Adam(one()), more=3)), "unexpected | more"),
    Misuse(
        ad.ArgumentError, lambda: load(saved(optim.SGD(one()))), "param_groups[0] | lacks | betas"
    ),
    Misuse(ad.ArgumentError, lambda: load(saved(optim.Adam(group() + group()))), "1 | got 2"),
    Misuse(
        ad.ArgumentError, lambda: load(saved(optim.Adam(one() + one()))), "2 parameters | has 1"
    ),
    Misuse(
        ad.ShapeError,
        lambda: load(saved(optim.Adam([leaf([1.0])]))),
        "state[0]['exp_avg'] | float64[2] | float64[1]",
    ),
    Misuse(
        ad.DTypeError,
        lambda: load(saved(optim.Adam([leaf([1, 2], "f")]))),
        "state[0]['exp_avg'] | float64[2] | float32[2]",
    ),
    Misuse(
        ad.ArgumentError,
        lambda: load(removed(saved(optim.Adam(one())), "exp_avg_sq")),
        "state[0] | lacks | exp_avg_sq",
    ),
    Misuse(ad.ArgumentError, lambda: load_entries(sum=3), "state[0] | unexpected | sum"),
    Misuse(ad.DTypeError, lambda: load_entries(exp_avg=None), "state[0]['exp_avg'] | NoneType"),
    Misuse(ad.DTypeError, lambda: load_entries(step="3"), "state[0]['step'] | number | '3'"),
    Misuse(ad.ArgumentError, lambda: load_entries(step=1.5), "state[0]['step'] | whole | 1.5"),
    Misuse(ad.ArgumentError, lambda: load(saved(optim.Adam(one())) | TOO_MANY), "unexpected | 3"),
    Misuse(
        ad.ArgumentError,
        lambda: optim.SGD([("w", one()[0])]).load_state_dict(
            saved(optim.SGD([("bias", one()[0])]))
        ),
        "'bias' | 'w' | param_names",
    ),
    Misuse(
        ad.ArgumentError,
        lambda: optim.SGD([("w", one()[0])]).load_state_dict(
            {"state": {}, "param_groups": [saved_group(param_names=[])]}
        ),
        "param_groups[0]['param_names'] | 1 names | []",
    ),
    Misuse(ad.ArgumentError, lambda: optim.SGD([("w", one()[0], 3)]), "(name, tensor) | of 3"),  # type: ignore[list-item]
    Misuse(ad.ArgumentError, lambda: optim.EMA([("w", one()[0], 3)]), "EMA | (name, tensor) | 3"),
    Misuse(ad.DTypeError, lambda: optim.EMA([(3, one()[0])]), "EMA | a string | 3"),
    Misuse(ad.DTypeError, lambda: optim.LBFGS(one()).step(lambda: None), "return loss | NoneType"),
    Misuse(ad.DTypeError, lambda: optim.LBFGS(one(), max_iter=True), "max_iter | integer | True"),
    Misuse(ad.ArgumentError, lambda: optim.EMA([]), "EMA | empty"),
    Misuse(ad.ArgumentError, lambda: optim.EMA(one(), decay=1.5), "decay | 1.5"),
    Misuse(ad.ArgumentError, lambda: optim.EMA([3.0]), "EMA | tensors | float"),
    Misuse(ad.ShapeError, lambda: optim.EMA(one()).copy_to([leaf([1.0])]), "copy_to | float64[1]"),
    Misuse(
        ad.ArgumentError,
        lambda: optim.EMA(one()).load_state_dict(optim.EMA(one() + one()).state_dict()),
        "averages | unexpected | '1'",
    ),
]


@pytest.mark.parametrize("misuse", MISUSES, ids=lambda misuse: misuse.mentions)
def test_misuse_is_explained(misuse: Misuse) -> None:
    misuse.check()
