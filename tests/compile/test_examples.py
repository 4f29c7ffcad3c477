"""The examples and the tutorial's models train to the same loss when their step is compiled."""

import importlib.util
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.support.helpers import needs_kernels
from tests.support.paths import ROOT

pytestmark = needs_kernels
nn, F = ad.nn, ad.nn.functional


@pytest.fixture(autouse=True)
def _defaults() -> Iterator[None]:
    dtype = ad.get_default_dtype()
    yield
    ad.set_default_dtype(dtype)


def example(name: str) -> Any:
    """An example as a module."""
    found = sys.modules.get(f"examples.{name}")
    if found is None:
        path = ROOT / "examples" / f"{name}.py"
        spec: Any = importlib.util.spec_from_file_location(f"examples.{name}", path)
        found = importlib.util.module_from_spec(spec)
        sys.modules[f"examples.{name}"] = found
        spec.loader.exec_module(found)
    return found


Step = Callable[[], Any]


def stepping(
    params: Any, loss_of: Callable[[], Any], make: Any, scheduler: Any = None, clip: float = 0
) -> Step:
    """The usual step, everything in it, of a loss."""
    params = list(params)
    optimizer = make(params)
    schedule = scheduler and scheduler(optimizer)

    def step() -> Any:
        loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(params, clip)
        optimizer.step()
        if schedule:
            schedule.step()
        return loss

    return step


def adam(lr: float = 0.01) -> Callable:
    return lambda params: ad.optim.Adam(params, lr=lr)


S = ad.optim.lr_scheduler


def char_transformer() -> Step:
    module = example("char_transformer")
    text = module.Text(ROOT / "examples" / "text.txt")
    model = module.Transformer(len(text.symbols), 12, 16, 2, 2)
    starts = ad.random.integers(0, 1000, (4,)).numpy()
    windows = text.windows(text.training, starts, 13)
    return stepping(
        model.parameters(),
        lambda: module.surprise(model, windows),
        lambda params: ad.optim.AdamW(params, lr=1e-3),
        lambda o: S.OneCycleLR(o, max_lr=2e-3, total_steps=20, pct_start=0.1),
        1.0,
    )


def checkpoint_deep() -> Step:
    module = example("checkpoint_deep")
    model, x = nn.Sequential(*[module.Block(8) for _ in range(4)]), ad.random.normal((6, 8))
    return stepping(
        model.parameters(),
        lambda: ad.mean(ad.checkpoint_sequential(list(model), 2, x) ** 2),
        adam(1e-3),
    )


def cnn_digits() -> Step:
    module = example("cnn_digits")
    model = module.network()
    images, labels = ad.data.digits(train=True)[:8]
    average, criterion = ad.optim.EMA(model, decay=0.98), nn.CrossEntropyLoss(label_smoothing=0.05)
    usual = stepping(
        model.parameters(),
        lambda: criterion(model(module.moved(images)), labels),
        lambda params: ad.optim.AdamW(params, lr=1e-3, weight_decay=0.01),
        lambda o: S.OneCycleLR(o, max_lr=1e-2, total_steps=20),
    )

    def step() -> Any:
        loss = usual()
        average.update()
        return loss

    return step


def gaussian_process() -> Step:
    module = example("gaussian_process")
    known, _ = module.load_series(1992, 60)
    logs = ad.log(ad.asarray(list(module.GUESS.values()), dtype=ad.float64)).requires_grad_()
    return stepping([logs], lambda: -module.log_likelihood(logs, known), adam(0.1))


def lstm_sequence() -> Step:
    module = example("lstm_sequence")
    model = module.Adder(8)

    def loss() -> Any:
        x, sums = module.sequences(6, 8)
        return F.mse_loss(model(x), sums)

    return stepping(
        model.parameters(), loss, adam(), lambda o: S.CosineAnnealingLR(o, 20), clip=1.0
    )


def neural_ode() -> Step:
    module = example("neural_ode")
    ad.set_default_dtype(ad.float64)
    counts = module.count_animals(4, 8)[0]
    rate = module.Rate(width=8)
    solve = module.adjoint_solver(rate)
    window = counts[: module.WINDOW]
    return stepping(
        rate.parameters(),
        lambda: ad.mean((solve(window[0], module.WINDOW) - window) ** 2),
        adam(),
        lambda o: S.CosineAnnealingLR(o, 20),
    )


def physics_informed() -> Step:
    module = example("physics_informed")
    ad.set_default_dtype(ad.float64)
    model, points = module.Wave(width=6), module.Points(20)
    return stepping(
        model.parameters(),
        lambda: module.loss_of(model, points),
        adam(),
        lambda o: S.CosineAnnealingLR(o, 20),
    )


def torch_weights() -> Step:
    model = example("torch_weights").network(nn)
    x, y = ad.random.normal((8, 8)), ad.random.normal((8, 4))
    return stepping(model.parameters(), lambda: F.mse_loss(model(x), y), adam())


def tutorial_line() -> Step:
    x = ad.linspace(-1.0, 1.0, 100)
    y = 3.0 * x - 1.0 + ad.random.normal((100,), std=0.1)
    w, b = (ad.tensor(0.0, requires_grad=True) for _ in range(2))

    def step() -> Any:
        w.grad = b.grad = None
        loss = ad.square(w * x + b - y).mean()
        loss.backward()
        with ad.no_grad():
            w.__isub__(0.2 * w.grad)
            b.__isub__(0.2 * b.grad)
        return loss

    return step


def tutorial_network() -> Step:
    model = nn.Sequential(
        nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 2)
    )
    points, labels = ad.random.normal((50, 2)), ad.random.integers(0, 2, (50,))
    return stepping(model.parameters(), lambda: F.cross_entropy(model(points), labels), adam())


def tutorial_images() -> Step:
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(32, 10),
    )
    images, labels = ad.data.digits()[:8]
    return stepping(model.parameters(), lambda: F.cross_entropy(model(images), labels), adam())


def tutorial_text() -> Step:
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True, norm_first=True)
    embedding, encoder, scores = (
        nn.Embedding(9, 8),
        nn.TransformerEncoder(layer, 1),
        nn.Linear(8, 9),
    )
    model = nn.ModuleList([embedding, encoder, scores])
    tokens = ad.random.integers(0, 9, (3, 6))

    def loss() -> Any:
        out = scores(encoder(embedding(tokens[:, :-1]), is_causal=True))
        return F.cross_entropy(out.reshape(-1, 9), tokens[:, 1:].reshape(-1))

    return stepping(model.parameters(), loss, lambda params: ad.optim.AdamW(params, lr=1e-2))


def data_parallel() -> Step:
    module = example("data_parallel")
    x, y = (part[:24] for part in ad.data.digits().tensors)
    model = ad.distributed.DataParallel(module.network())
    loss_of = lambda: F.cross_entropy(model(x), y)  # noqa: E731
    return stepping(model.parameters(), loss_of, lambda params: ad.optim.AdamW(params, lr=2e-3))


TRAININGS = [
    char_transformer,
    checkpoint_deep,
    cnn_digits,
    data_parallel,
    gaussian_process,
    lstm_sequence,
    neural_ode,
    physics_informed,
    torch_weights,
    tutorial_line,
    tutorial_network,
    tutorial_images,
    tutorial_text,
]


def losses(make: Callable[[], Step], is_compiled: bool, count: int = 4) -> list[float]:
    ad.random.seed(0)
    step = make()
    call = ad.compile(step) if is_compiled else step
    found = [call().item() for _ in range(count)]
    if isinstance(call, ad.CompiledFunction):
        assert 1 <= len(call._programs) <= 2 and "run eagerly" not in call.explain()
    return found


@pytest.mark.parametrize("make", TRAININGS, ids=lambda make: make.__name__)
def test_compiled_trainings_have_the_losses_of_eager_ones(make: Callable[[], Step]) -> None:
    expected = losses(make, False)
    assert all(map(math.isfinite, expected)) and len({*expected}) == len(expected)
    np.testing.assert_allclose(losses(make, True), expected, rtol=1e-5)


def test_all_examples_are_here() -> None:
    names = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert names <= {make.__name__ for make in TRAININGS}
