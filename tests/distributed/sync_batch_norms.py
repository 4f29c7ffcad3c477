"""SyncBatchNorm on ranks whose batches have different sizes, and BatchNorm in one process on all
samples."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.distributed import SyncBatchNorm
from tests.distributed.checks import outcomes, raises

CHANNELS = 3
COUNTS = (4, 1, 3)  # samples of each rank
PLAIN = {1: ad.nn.BatchNorm1d, 2: ad.nn.BatchNorm2d, 3: ad.nn.BatchNorm3d}
SHAPES = {"NC": (), "NCL": (4,), "NCHW": (2, 3), "NCDHW": (2, 1, 2)}
F8 = ad.float64


def parts(world: Any, k: int, shape: tuple[int, ...], counts: Any = COUNTS) -> list[np.ndarray]:
    """The samples of each rank: those of channels have other means and deviations."""
    rng = np.random.default_rng([k, len(shape)])
    scale = np.array([1.0, 10.0, 0.1]).reshape(CHANNELS, *[1] * len(shape))
    sizes = [(counts[rank], CHANNELS, *shape) for rank in range(world.size)]
    return [scale * (rng.standard_normal(size) + rng.uniform(-5, 5)) for size in sizes]


def pair(shape: tuple[int, ...], **settings: Any) -> tuple[Any, Any]:
    """A layer of each kind, with the same parameters."""
    own: dict[str, Any] = {"dtype": F8} | settings
    plain, layer = PLAIN[max(len(shape), 1)](CHANNELS, **own), SyncBatchNorm(CHANNELS, **own)
    rng = np.random.default_rng(1)
    for name, p in plain.named_parameters():
        p.data[...] = ad.asarray(rng.standard_normal(CHANNELS), dtype=p.dtype)
        layer.get_parameter(name).data[...] = p.data
    return layer, plain


def slices(world: Any, counts: Any = COUNTS) -> slice:
    start = sum(counts[: world.rank])
    return slice(start, start + counts[world.rank])


def near(found: Any, expected: Any, what: str, tolerance: float = 1e-12) -> None:
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), what
    found, expected = found.detach().numpy(), expected.detach().numpy()
    atol = tolerance * max(1, np.abs(expected).max(initial=0))
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=atol, err_msg=what)


def near_statistics(layer: Any, plain: Any, what: str, tolerance: float = 1e-12) -> None:
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        found, expected = getattr(layer, name), getattr(plain, name)
        if expected is None:
            assert found is None, what
        else:
            near(found, expected, f"{what}, {name}", tolerance)


def loss_of(out: Any, start: int) -> Any:
    """A sum over samples, each of which counts in another way."""
    numbers = ad.arange(start, start + out.shape[0], dtype=out.dtype)
    own = ad.reshape(ad.cos(numbers * 1.7), (-1, *[1] * (out.ndim - 1)))
    return (ad.sin(out) * own + out**2 * own).sum()


def steps(
    world: Any, shape: tuple[int, ...], counts: Any = COUNTS, call: Any = None, **settings: Any
) -> None:
    """Three steps of both: values, gradients and statistics."""
    layer, plain = pair(shape, **settings)
    where, dtype = slices(world, counts), settings.get("dtype", F8)
    limit = {"float64": 1e-12, "float32": 2e-5, "float16": 1e-2}[dtype.name]
    call = call or (lambda layer, x: layer(x))
    for k in range(3):
        samples = [ad.asarray(x, dtype=dtype) for x in parts(world, k, shape, counts)]
        whole, own = ad.concat(samples).requires_grad_(), samples[world.rank].requires_grad_()
        expected, found = plain(whole), call(layer, own)
        what = f"{shape}, {settings}, step {k}"
        near(found, expected[where], f"{what}, values", limit)
        near_statistics(layer, plain, what, limit)
        loss_of(expected, 0).backward()
        loss_of(found, where.start).backward()
        near(own.grad, whole.grad[where], f"{what}, gradient of x", limit)
        for name, p in plain.named_parameters():
            total = world.all_reduce(layer.get_parameter(name).grad)
            near(total, p.grad, f"{what}, gradient of {name}", limit)
        plain.zero_grad()
        layer.zero_grad()


def all_shapes(world: Any) -> None:
    for shape in SHAPES.values():
        steps(world, shape)


def all_settings(world: Any) -> None:
    several: list[dict[str, Any]] = [
        {"momentum": None},
        {"momentum": 0.7, "eps": 0.1},
        {"affine": False},
        {"bias": False},
        {"track_running_stats": False},
        {"dtype": ad.float32},
        {"dtype": ad.float16},
    ]
    for settings in several:
        steps(world, (2, 3), **settings)


def no_samples_on_a_rank(world: Any) -> None:
    steps(world, (2,), counts=(5, 0, 2))
    steps(world, (), counts=(0, 3, 1) if world.size > 1 else (3,))


def nothing_to_learn_from(world: Any) -> None:
    """Without any sample nothing changes; one value for each channel is an error, as ever."""
    layer, plain = pair(())
    assert layer(ad.ones((0, CHANNELS), dtype=F8)).shape == (0, CHANNELS)
    plain(ad.ones((0, CHANNELS), dtype=F8))
    near_statistics(layer, plain, "no samples")
    with raises(ad.ShapeError, "more than one value per channel is needed"):
        layer(ad.ones((int(world.is_first), CHANNELS), dtype=F8))


def large_means(world: Any) -> None:
    """The variance keeps its digits where the mean is much larger."""
    layer, _ = pair((), eps=0.0, affine=False)
    samples = [x + 1e7 for x in parts(world, 0, ())]
    found = layer(ad.asarray(samples[world.rank])).numpy()
    whole = np.concatenate(samples)
    expected = (whole - whole.mean(0)) / whole.std(0)
    np.testing.assert_allclose(found, expected[slices(world)], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(
        layer.running_var.numpy(), 0.9 + 0.1 * whole.var(0, ddof=1), rtol=1e-7
    )


def evaluation(world: Any) -> None:
    """The running statistics are used; a rank can do it alone."""
    layer, plain = pair((2,))
    samples = [ad.asarray(x) for x in parts(world, 0, (2,))]
    layer(samples[world.rank])
    plain(ad.concat(samples))
    layer.eval()
    plain.eval()
    if world.is_first:
        x = ad.asarray(parts(world, 1, (2,))[0])
        near(layer(x), plain(x), "values")
    near_statistics(layer, plain, "statistics")


def second_order(world: Any) -> None:
    """Of the sum of all ranks' losses."""
    where, v = slices(world), ad.asarray([0.5, -1.5, 2.0], dtype=F8)
    for shape in ((), (2, 3)):
        layer, plain = pair(shape, affine=False)
        samples, directions = (
            [ad.asarray(part) for part in parts(world, k, shape)] for k in range(2)
        )

        def slope(layer: Any, direction: Any, start: int) -> Callable:
            def loss(x: Any, w: Any) -> Any:
                out = layer(x)
                return loss_of(out * ad.reshape(w, (-1, *[1] * (out.ndim - 2))), start)

            return lambda x, w: (ad.grad(loss)(x, w) * direction).sum()

        both = (0, 1)
        expected = ad.grad(slope(plain, ad.concat(directions), 0), both)(ad.concat(samples), v)
        own = slope(layer, directions[world.rank], where.start)
        found = ad.grad(own, both)(samples[world.rank], v)
        near(found[0], expected[0][where], f"x {shape}", 1e-10)
        near(world.all_reduce(found[1]), expected[1], f"weight {shape}", 1e-10)


def checkpoints(world: Any) -> None:
    """What runs again moves no statistics."""
    steps(world, (2, 3), call=ad.checkpoint)
    steps(world, (), call=lambda layer, x: ad.checkpoint(lambda x: layer(x), x), momentum=None)


def compiled(world: Any) -> None:
    layer, plain = pair(())
    where = slices(world)

    def step(layer: Any, x: Any, start: int) -> Any:
        out = layer(x)
        loss_of(out, start).backward()
        grads = [layer.weight.grad, layer.bias.grad]
        layer.zero_grad()
        return out, grads

    call = ad.compile(step)
    for k in range(3):
        samples = [ad.asarray(x) for x in parts(world, k, ())]
        out, grads = call(layer, samples[world.rank], where.start)
        expected, gradients = step(plain, ad.concat(samples), 0)
        near(out, expected[where], f"values {k}")
        for g, expected in zip(grads, gradients, strict=True):
            near(world.all_reduce(g), expected, f"gradients {k}")
        near_statistics(layer, plain, str(k))


class Network(ad.nn.Module):
    """Batch norms of several kinds, in lists and dicts, one of which is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = ad.nn.Sequential(ad.nn.Linear(4, 3), ad.nn.BatchNorm1d(3), ad.nn.Tanh())
        self.lists = ad.nn.ModuleList([ad.nn.BatchNorm2d(2, momentum=None, affine=False)])
        self.dicts = ad.nn.ModuleDict({"a": ad.nn.BatchNorm3d(2, eps=0.5)})
        self.once = self.again = ad.nn.BatchNorm1d(3)
        self.others = ad.nn.ModuleList([ad.nn.LayerNorm(3), ad.nn.InstanceNorm1d(3)])

    def forward(self, x: Any) -> Any:
        return self.again(self.once(self.first(x)))


def conversion(world: Any) -> None:
    model = Network()
    model.lists.eval()
    params, state = dict(model.named_parameters()), model.state_dict()
    names = [name for name, _ in model.named_modules()]
    norms = {k: m for k, m in model.named_modules() if type(m).__name__.startswith("BatchNorm")}
    converted = SyncBatchNorm.convert(model)
    assert converted is model
    assert {k: id(p) for k, p in model.named_parameters()} == {k: id(p) for k, p in params.items()}
    assert [name for name, _ in model.named_modules()] == names
    assert list(model.state_dict()) == list(state)
    for name, former in norms.items():
        layer = model.get_submodule(name)
        assert type(layer) is SyncBatchNorm, name
        for setting in ("num_features", "eps", "momentum", "affine", "training"):
            assert getattr(layer, setting) == getattr(former, setting), (name, setting)
        assert layer.running_mean is former.running_mean, name
    assert model.once is model.again
    assert [type(m).__name__ for m in model.others] == ["LayerNorm", "InstanceNorm1d"]
    assert SyncBatchNorm.convert(model.once) is model.once
    alone = ad.nn.BatchNorm2d(2)
    assert type(SyncBatchNorm.convert(alone)) is SyncBatchNorm
    assert SyncBatchNorm.convert(alone).weight is alone.weight
    plain = Network()
    plain.load_state_dict(model.state_dict())
    model.load_state_dict(plain.state_dict())


def training(world: Any) -> None:
    """With DataParallel a network is trained as in one process with the whole batch."""
    rng = np.random.default_rng(0)
    data, targets = rng.standard_normal((3, world.size * 4, 4)), rng.standard_normal((12, 3))
    ad.random.seed(0)
    plain = Network().to(F8)
    model = ad.distributed.DataParallel(SyncBatchNorm.convert(Network().to(F8)))
    model.load_state_dict(plain.state_dict())
    own = slice(4 * world.rank, 4 * world.rank + 4)
    for network, where in ((plain, slice(None)), (model, own)):
        optimizer = ad.optim.SGD(network.parameters(), lr=0.1)
        for x in data:
            optimizer.zero_grad()
            y = ad.asarray(targets[: world.size * 4][where])
            ad.mean((network(ad.asarray(x[where])) - y) ** 2).backward()
            optimizer.step()
    expected = plain.state_dict()
    for name, value in model.state_dict().items():
        near(value, expected[name], name, 1e-10)


def errors(world: Any) -> None:
    """As of BatchNorm, before anything is exchanged."""
    layer, _ = pair(())
    for shape, text in [
        ((2, 4), r"x of shape \(2, 4\) has 4 channels, the layer was made for 3"),
        ((3,), r"is needed, got shape \(3,\)"),
    ]:
        with raises(ad.ShapeError, text):
            layer(ad.ones(shape, dtype=F8))


CHECKS = (
    all_shapes, all_settings, no_samples_on_a_rank, nothing_to_learn_from, large_means, evaluation,
    second_order, checkpoints, compiled, conversion, training, errors,
)  # fmt: skip


def run_all(world: Any, folder: Path) -> dict[str, np.ndarray]:
    return outcomes(world, CHECKS)
