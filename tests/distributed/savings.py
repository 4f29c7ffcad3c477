"""ShardedOptimizer, whose state is divided among ranks, and the same optimizer in one process; and
programs that are saved, and go on in others."""

import functools
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.distributed import ShardedOptimizer
from tests.distributed.checks import outcomes, raises

KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "AdamW": (ad.optim.AdamW, {"lr": 0.01}),
    "Adam with amsgrad": (ad.optim.Adam, {"lr": 0.01, "amsgrad": True, "weight_decay": 0.1}),
    "SGD": (ad.optim.SGD, {"lr": 0.1}),
    "SGD with momentum": (ad.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "Adagrad": (ad.optim.Adagrad, {"lr": 0.1, "initial_accumulator_value": 0.5}),
    "RMSprop": (ad.optim.RMSprop, {"lr": 0.01, "momentum": 0.5, "centered": True}),
}
# Of no gradient in the first two steps, of one that is frozen, of another dtype; some with fewer
# elements than there are ranks.
SHAPES = ((5, 7), (), (3,), (11,), (2, 2), (1,))
LATE, FROZEN, DOUBLE = 2, 3, 4
WIDE = ((33, 20), (17,), (40, 8))


def params(shapes: Any = SHAPES) -> list[Any]:
    rng = np.random.default_rng(0)
    dtypes = [ad.float64 if k == DOUBLE else ad.float32 for k in range(len(shapes))]
    drawn = [rng.standard_normal(shape) for shape in shapes]
    made = [ad.asarray(x, dtype=dtype) for x, dtype in zip(drawn, dtypes, strict=True)]
    return [p.requires_grad_() for p in made]


def gradient(p: Any, place: int, step: int, rank: int) -> np.ndarray:
    rng = np.random.default_rng([place, step, rank])
    return np.asarray(rng.standard_normal(p.shape), p.dtype.dtype)


def averaged(p: Any, place: int, step: int, size: int) -> np.ndarray:
    """As one process has it that adds up the gradients of all parts."""
    each = [gradient(p, place, step, rank) for rank in range(size)]
    return functools.reduce(np.add, each) * p.dtype.dtype.type(1 / size)


def give_gradients(own: list[Any], step: int, size: int, rank: int | None = None) -> None:
    """The average of all ranks, or that of one."""
    for place, p in enumerate(own):
        if (place, step) in ((LATE, 0), (LATE, 1)) or not p.requires_grad:
            p.grad = None
        elif rank is None:
            p.grad = ad.asarray(averaged(p, place, step, size))
        else:
            p.grad = ad.asarray(gradient(p, place, step, rank))


def same_values(found: list[Any], expected: list[Any], what: str) -> None:
    for place, (p, q) in enumerate(zip(found, expected, strict=True)):
        values = p.detach().numpy(), q.detach().numpy()
        np.testing.assert_array_equal(*values, err_msg=f"{what}, parameter {place}")


def same(found: Any, expected: Any, what: str) -> None:
    """Two states are one, to the last bit."""
    if isinstance(expected, dict):
        assert list(found) == list(expected), what
        for key in expected:
            same(found[key], expected[key], f"{what}[{key!r}]")
    elif isinstance(expected, list | tuple):
        assert (type(found), len(found)) == (type(expected), len(expected)), what
        for k, (x, y) in enumerate(zip(found, expected, strict=True)):
            same(x, y, f"{what}[{k}]")
    elif isinstance(expected, ad.Tensor):
        assert (found.dtype, found.shape, found.device) == (
            expected.dtype, expected.shape, expected.device,
        ), what  # fmt: skip
        np.testing.assert_array_equal(found.numpy(), expected.numpy(), err_msg=what)
    else:
        assert (type(found), found) == (type(expected), expected), what


class Both:
    """An optimizer of ranks and one of a single process, with the same parameters."""

    def __init__(
        self,
        world: Any,
        name: str,
        shapes: Any = SHAPES,
        reduces: bool = False,
        grouped: Callable[[list[Any]], Any] = list,
    ) -> None:
        kind, settings = KINDS[name]
        self.world, self.reduces, self.name = world, reduces, name
        self.own, self.others = params(shapes), params(shapes)
        self.sharded = ShardedOptimizer(
            kind, grouped(self.own), world=world, reduces_gradients=reduces, **settings
        )
        self.plain = kind(grouped(self.others), **settings)

    def step(self, *numbers: int) -> None:
        for number in numbers:
            rank = self.world.rank if self.reduces else None
            give_gradients(self.own, number, self.world.size, rank)
            give_gradients(self.others, number, self.world.size)
            self.sharded.step()
            self.plain.step()
            same_values(self.own, self.others, f"{self.name}, step {number}")

    def compare(self) -> None:
        same(self.sharded.state_dict(), self.plain.state_dict(), self.name)


def all_kinds(world: Any) -> None:
    """Parameters and states have the bits of one process."""
    for name in KINDS:
        for reduces in (False, True):
            both = Both(world, name, reduces=reduces)
            both.own[FROZEN].requires_grad_(False)
            both.others[FROZEN].requires_grad_(False)
            both.compare()
            both.step(0, 1)
            both.compare()
            both.step(2, 3)
            both.compare()


def frozen_and_thawed(world: Any) -> None:
    both = Both(world, "AdamW", SHAPES[:2])
    for number, requires in enumerate((True, False, False, True)):
        for p in (both.own[0], both.others[0]):
            p.requires_grad_(requires)
        both.step(number)
    both.compare()


def changed_by_hand(world: Any) -> None:
    """Values and settings may be changed between steps."""
    both = Both(world, "AdamW")
    both.step(0)
    for own, optimizer in ((both.own, both.sharded), (both.others, both.plain)):
        optimizer.param_groups[0]["lr"] = 0.5
        with ad.no_grad():
            own[0][...] = own[0] * 2
            own[2][...] = 1.0
    both.step(1, 2)
    both.compare()


def groups_and_schedulers(world: Any) -> None:
    def grouped(own: list[Any]) -> list[dict[str, Any]]:
        named = [(f"p{k}", p) for k, p in enumerate(own)]
        return [{"params": named[:2], "lr": 0.3}, {"params": named[2:], "weight_decay": 0.2}]

    for name in ("AdamW", "SGD with momentum"):
        both = Both(world, name, grouped=grouped)
        optimizers = both.sharded, both.plain
        schedulers = [ad.optim.lr_scheduler.StepLR(one, 2, 0.5) for one in optimizers]
        for number in range(5):
            both.step(number)
            for scheduler in schedulers:
                scheduler.step()
        both.compare()
        assert [x["lr"] for x in both.sharded.param_groups] == [0.3 / 4, KINDS[name][1]["lr"] / 4]
        same(schedulers[0].state_dict(), schedulers[1].state_dict(), name)


def loading(world: Any) -> None:
    """A state goes on in either kind of optimizer."""
    for name, (kind, settings) in KINDS.items():
        both = Both(world, name)
        both.step(0, 1, 2)
        later = Both(world, name)
        for own in (later.own, later.others):
            for p, value in zip(own, both.others, strict=True):
                p.data[...] = value.data
        later.sharded.load_state_dict(both.plain.state_dict())
        later.plain.load_state_dict(both.sharded.state_dict())
        later.compare()
        same(later.plain.state_dict(), both.plain.state_dict(), name)
        both.step(3, 4)
        later.step(3, 4)
        same_values(later.own, both.others, name)
        later.compare()
        same(later.plain.state_dict(), both.plain.state_dict(), name)
        again = ShardedOptimizer(kind, later.own, world=world, **settings)
        again.load_state_dict(later.sharded.state_dict())
        same(again.state_dict(), both.plain.state_dict(), name)


def a_state_that_does_not_fit(world: Any) -> None:
    """The error is that of one process, and nothing has changed."""
    both = Both(world, "AdamW")
    both.step(0)
    state = both.plain.state_dict()
    wrong = state | {"state": state["state"] | {0: state["state"][0] | {"exp_avg": ad.ones(3)}}}
    for bad in (wrong, state | {"param_groups": []}, {"state": {}}):
        said = ""
        try:
            both.plain.load_state_dict(bad)
        except ad.AdjointError as error:
            said = str(error).replace("AdamW", "ShardedOptimizer")
        assert said
        with raises(ad.AdjointError, re.escape(said)):
            both.sharded.load_state_dict(bad)
    both.compare()
    both.step(1)


def many_steps(world: Any) -> None:
    """Counts are exact."""
    both = Both(world, "AdamW")
    both.step(0)
    state = both.plain.state_dict()
    for entry in state["state"].values():
        entry["step"] = ad.full((), 2.0**24 + 1, dtype=ad.float64)
    both.sharded.load_state_dict(state)
    both.plain.load_state_dict(state)
    both.compare()
    both.step(1)
    both.compare()


def few_elements(world: Any) -> None:
    """Ranks may have nothing to do."""
    for shapes in (((),), ((3,),), ((1,), (), (1, 1)), ((0, 2), (2,))):
        for name, reduces in (("AdamW", True), ("SGD with momentum", False)):
            both = Both(world, name, shapes, reduces)
            both.step(0, 1, 2)
            both.compare()
            both.sharded.load_state_dict(both.plain.state_dict())
            both.step(3)
            both.compare()


def no_gradients(world: Any) -> None:
    """A step without any changes nothing; with closures they come in the step."""
    both = Both(world, "AdamW")
    both.sharded.step()
    both.compare()
    both.step(0, 1, 2)
    both.sharded.zero_grad()
    assert all(p.grad is None for p in both.own)
    both.sharded.step()
    both.compare()

    def closure() -> float:
        give_gradients(both.own, 3, world.size)
        return 2.5

    assert both.sharded.step(closure) == 2.5
    give_gradients(both.others, 3, world.size)
    both.plain.step()
    same_values(both.own, both.others, "closure")


def nbytes(state: Any) -> int:
    return sum(x.numpy().nbytes for entry in state.values() for x in entry.values())


def memory(world: Any) -> None:
    """Each rank remembers its part."""
    for name in ("AdamW", "SGD with momentum", "RMSprop"):
        both = Both(world, name, WIDE)
        both.step(2, 3)
        share = nbytes(both.sharded.state) / nbytes(both.plain.state)
        assert share <= 1 / world.size + 0.02, (name, share)


def errors(world: Any) -> None:
    both = Both(world, "AdamW")
    with raises(ad.ArgumentError, "groups are given when it is made"):
        both.sharded.add_param_group({"params": [ad.ones(2).requires_grad_()]})
    with raises(ad.DTypeError, r"updates each element by itself, .* got LBFGS"):
        ShardedOptimizer(ad.optim.LBFGS, both.own, world=world)
    with raises(ad.ArgumentError, "lr"):
        ShardedOptimizer(ad.optim.AdamW, both.own, world=world, lr=-1.0)
    with raises(ad.KeywordError, "momentun"):
        ShardedOptimizer(ad.optim.SGD, both.own, world=world, lr=0.1, momentun=1.0)
    give_gradients(both.own, 0, world.size)
    with raises(ad.TraceError, r"ShardedOptimizer\.step: it can't be recorded"):
        ad.trace(both.sharded.step)
    both.step(1)
    both.compare()


def saves_at_once(world: Any) -> None:
    """All ranks save to one path: the file is whole, and that of one of them."""
    folder = Path(world.broadcast(tempfile.mkdtemp() if world.is_first else None))
    for name in ("all.safetensors", "all.npz"):
        value = {"w": ad.full((50_000,), float(world.rank)), "rank": world.rank, "b": ad.ones(3)}
        world.barrier()
        for _ in range(5):
            ad.save(value, folder / name)
            found = ad.load(folder / name)
            assert (found["w"].numpy() == found["rank"]).all()
            assert (found["b"].numpy() == 1).all()
    world.barrier()
    assert sorted(path.name for path in folder.iterdir()) == ["all.npz", "all.safetensors"]
    world.barrier()
    if world.is_first:
        shutil.rmtree(folder)


CHECKS = (
    all_kinds, frozen_and_thawed, changed_by_hand, groups_and_schedulers, loading,
    a_state_that_does_not_fit, many_steps, few_elements, no_gradients, memory, errors,
    saves_at_once,
)  # fmt: skip


# Programs that are saved after three steps, and go on in others.

SAMPLES = 36  # three batches of all ranks


class Training:
    """A model, an optimizer and a loader, which can be saved together."""

    def __init__(self, world: Any, dropout: float, seed: int) -> None:
        self.world = world
        world.seed(seed)
        layers = [ad.nn.Linear(6, 16), ad.nn.Dropout(dropout), ad.nn.Tanh(), ad.nn.Linear(16, 2)]
        self.model = ad.distributed.DataParallel(ad.nn.Sequential(*layers), bucket_bytes=256)
        self.optimizer = ShardedOptimizer(ad.optim.AdamW, self.model.parameters(), lr=0.01)
        rng = np.random.default_rng(0)
        x, y = (rng.standard_normal((SAMPLES, n)).astype(np.float32) for n in (6, 2))
        self.loader = ad.data.DataLoader(
            ad.data.TensorDataset(x, y), 12 // world.size, shuffle=True, seed=seed, shard=world
        )

    def epoch(self) -> list[float]:
        losses = []
        for x, y in self.loader:
            self.optimizer.zero_grad()
            loss = ad.mean((self.model(x) - y) ** 2)
            loss.backward()
            self.optimizer.step()
            losses.append(self.world.all_reduce(loss.item(), "mean"))
        return losses

    def save(self, path: Path) -> None:
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "loader": self.loader.state_dict(),
            "random": self.world.all_gather(ad.random.get_state()),
        }
        if self.world.is_first:
            ad.save(state, path)

    def load(self, path: Path) -> None:
        state = ad.load(path)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.loader.load_state_dict(state["loader"])
        if len(state["random"]) == self.world.size:
            ad.random.set_state(state["random"][self.world.rank])

    def found(self, losses: list[float], prefix: str) -> dict[str, np.ndarray]:
        values = {f"{prefix}/{k}": x.numpy() for k, x in self.model.state_dict().items()}
        draws = {f"{prefix}/draws": ad.random.uniform(4).numpy()}
        return {f"{prefix}/losses": np.array(losses), **values, **draws}


def whole(world: Any, dropout: float) -> dict[str, np.ndarray]:
    one = Training(world, dropout, seed=1)
    return one.found(one.epoch() + one.epoch(), "run")


def interrupted(world: Any, folder: Path, dropout: float) -> None:
    one = Training(world, dropout, seed=1)
    one.epoch()
    one.save(folder / f"{world.size}.safetensors")


def resumed(world: Any, folder: Path, ranks: int, dropout: float) -> dict[str, np.ndarray]:
    one = Training(world, dropout, seed=2)
    one.load(folder / f"{ranks}.safetensors")
    return one.found(one.epoch(), "run")


def run_four(world: Any, folder: Path) -> dict[str, np.ndarray]:
    interrupted(world, folder, dropout=0.0)
    return outcomes(world, CHECKS) | whole(world, dropout=0.0)


def run_three(world: Any, folder: Path) -> dict[str, np.ndarray]:
    out = outcomes(world, CHECKS) | resumed(world, folder, ranks=4, dropout=0.0)
    interrupted(world, folder, dropout=0.5)
    return out | {f"whole {k}": x for k, x in whole(world, dropout=0.5).items()}


def run_again(world: Any, folder: Path) -> dict[str, np.ndarray]:
    return resumed(world, folder, ranks=3, dropout=0.5)
