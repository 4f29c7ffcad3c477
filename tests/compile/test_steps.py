"""Whole steps of training, compiled, do what eager ones do, whatever happens between them."""

import gc
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.compile.twins import Training, Twins, check_alike, copied, without_thresholds
from tests.support.helpers import needs_kernels

pytestmark = needs_kernels
nn, F = ad.nn, ad.nn.functional
rng = np.random.default_rng(0)
X = ad.asarray(rng.normal(size=(6, 3)).astype(np.float32))
Y = ad.asarray(rng.normal(size=(6, 2)).astype(np.float32))
LABELS = ad.asarray(rng.integers(0, 2, 6))


def mlp(*between: Any) -> Any:
    return nn.Sequential(nn.Linear(3, 5), *(between or (nn.Tanh(),)), nn.Linear(5, 2))


def sgd(p: Any) -> Any:
    return ad.optim.SGD(p, lr=0.1)


def momentum(p: Any) -> Any:
    return ad.optim.SGD(p, lr=0.1, momentum=0.9)


def adam(p: Any) -> Any:
    return ad.optim.Adam(p, lr=0.01)


def training(
    model: Callable = mlp, optimizer: Callable = adam, scheduler: Any = None, inside: bool = False
) -> Callable[[], Training]:
    """A maker of trainings with the usual step."""

    def make() -> Training:
        side = Training(model(), optimizer, scheduler)

        def step(x: Any, y: Any) -> Any:
            loss = F.mse_loss(side.model(x), y)
            side.optimizer.zero_grad()
            loss.backward()
            side.optimizer.step()
            if inside:
                side.scheduler.step()
            return loss

        side.step = step
        return side

    return make


# What changes between calls.


OPTIMIZERS = {
    "sgd": sgd,
    "weight decay": lambda p: ad.optim.SGD(p, lr=0.1, weight_decay=0.1),
    "momentum": lambda p: ad.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5),
    "nesterov": lambda p: ad.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "maximize": lambda p: ad.optim.SGD(p, lr=0.01, maximize=True),
    "adam": lambda p: ad.optim.Adam(p, lr=0.01, weight_decay=0.1, betas=(0.8, 0.99)),
    "amsgrad": lambda p: ad.optim.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: ad.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    "rmsprop": lambda p: ad.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "rmsprop alone": lambda p: ad.optim.RMSprop(p, lr=0.01),
    "adagrad": lambda p: ad.optim.Adagrad(p, lr=0.1, lr_decay=0.1, weight_decay=0.1),
    "two groups": lambda p: ad.optim.AdamW(
        [{"params": p[:2], "lr": 0.05}, {"params": p[2:], "weight_decay": 0.2}], lr=0.01
    ),
    "two groups, momentum": lambda p: ad.optim.SGD(
        [{"params": p[:1]}, {"params": p[1:], "lr": 0.2, "weight_decay": 0.1}], 0.1, momentum=0.5
    ),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_every_optimizer_trains_as_eager(optimizer: Callable) -> None:
    twins = Twins(training(optimizer=optimizer))
    for _ in range(4):
        twins(X, Y)
    assert twins.programs == 1


def test_a_learning_rate_that_changes_between_calls() -> None:
    twins = Twins(training())
    for lr in (0.1, 0.01, 0.5):
        twins.each(lambda side, lr=lr: side.optimizer.param_groups[0].update(lr=lr))
        twins(X, Y)
        twins(X, Y)
    assert twins.programs == 1


S = ad.optim.lr_scheduler
SCHEDULERS = {
    "StepLR": lambda o: S.StepLR(o, 2),
    "MultiStepLR": lambda o: S.MultiStepLR(o, [1, 3]),
    "ExponentialLR": lambda o: S.ExponentialLR(o, 0.5),
    "ConstantLR": lambda o: S.ConstantLR(o, 0.5, 2),
    "LinearLR": lambda o: S.LinearLR(o, 0.25, total_iters=3),
    "LambdaLR": lambda o: S.LambdaLR(o, lambda k: 1 / (1 + k)),
    "CosineAnnealingLR": lambda o: S.CosineAnnealingLR(o, 4),
    "CosineAnnealingWarmRestarts": lambda o: S.CosineAnnealingWarmRestarts(o, 2),
    "OneCycleLR": lambda o: S.OneCycleLR(o, 0.1, total_steps=9),
    "SequentialLR": lambda o: S.SequentialLR(
        o, [S.ConstantLR(o, 0.1, 2), S.ExponentialLR(o, 0.9)], [2]
    ),
}


@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside"])
@pytest.mark.parametrize("scheduler", SCHEDULERS.values(), ids=SCHEDULERS)
def test_every_scheduler_inside_and_outside(scheduler: Callable, inside: bool) -> None:
    twins = Twins(training(optimizer=momentum, scheduler=scheduler, inside=inside))
    for _ in range(5):
        twins(X, Y)
        if not inside:
            twins.each(lambda side: side.scheduler.step())
            twins.check()
    # OneCycleLR moves momentum too: it is 0 at no time.
    assert twins.programs == 1


def test_a_scheduler_of_a_metric_works_outside() -> None:
    twins = Twins(training(scheduler=lambda o: S.ReduceLROnPlateau(o, patience=0)))
    for metric in (1.0, 2.0, 3.0, 0.5):
        twins(X, Y)
        twins.each(lambda side, metric=metric: side.scheduler.step(metric))
    assert twins.programs == 1


def test_lbfgs_is_refused_with_words() -> None:
    model = mlp()
    optimizer = ad.optim.LBFGS(model.parameters())

    def closure() -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(model(X), Y)
        loss.backward()
        return loss

    with pytest.raises(ad.TraceError, match=r"^compile: .*LBFGS") as error:
        ad.compile(lambda: optimizer.step(closure))()
    assert "test_steps.py" in str(error.value)
    before = copied(model.state_dict())
    assert optimizer.step(closure) is not None
    assert not np.array_equal(model[0].weight.detach().numpy(), before["0.weight"])


def test_a_layer_that_is_replaced() -> None:
    twins = Twins(training(optimizer=lambda p: sgd(p)))
    twins(X, Y)

    def replace(side: Training) -> None:
        side.model[1] = nn.ReLU()

    twins.each(replace)
    twins(X, Y)
    twins(X, Y)
    twins.each(lambda side: setattr(side.model[0], "bias", None))
    twins(X, Y)


def test_a_parameter_that_is_replaced() -> None:
    twins = Twins(training())
    twins(X, Y)

    def replace(side: Training) -> None:
        side.model[0].weight = nn.Parameter(ad.ones((5, 3)))

    twins.each(replace)
    twins(X, Y)
    twins.each(lambda side: side.optimizer.add_param_group({"params": [side.model[0].weight]}))
    twins(X, Y)
    twins(X, Y)


def test_parameters_that_are_loaded() -> None:
    twins = Twins(training())
    saved = copied(twins.eager.model.state_dict())
    start = copied(twins.eager.optimizer.state_dict())
    twins(X, Y)
    for _ in range(2):
        twins.each(lambda side: side.model.load_state_dict(saved))
        twins(X, Y)
    del start
    other = twins.eager.optimizer.state_dict()
    twins(X, Y)
    twins.each(lambda side: side.optimizer.load_state_dict(other))
    twins(X, Y)
    assert twins.programs == 1


def test_eval_and_train() -> None:
    twins = Twins(training(lambda: mlp(nn.Dropout(0.5), nn.BatchNorm1d(5))))
    for mode in (True, False, True, False):
        twins.each(lambda side, mode=mode: side.model.train(mode))
        twins(X, Y)
        twins(X, Y)
    assert twins.programs <= 4


def test_a_layer_that_is_frozen_and_thawed() -> None:
    twins = Twins(training(optimizer=momentum))
    for needed in (True, False, True):
        twins.each(lambda side, needed=needed: side.model[0].requires_grad_(needed))
        twins(X, Y)
        twins(X, Y)


def accumulating() -> Training:
    side = Training(mlp(), momentum)

    def step(x: Any, y: Any) -> Any:
        loss = F.mse_loss(side.model(x), y)
        loss.backward()
        return loss

    side.step = step
    return side


def test_gradients_that_accumulate_over_calls() -> None:
    twins = Twins(accumulating)
    for _ in range(2):
        for k in range(3):
            twins(X + k, Y)
        twins.each(lambda side: side.optimizer.step())
        twins.each(lambda side: side.optimizer.zero_grad())
        twins.check()
    assert twins.programs == 2  # with gradients, and without
    twins.each(lambda side: side.optimizer.zero_grad(set_to_none=False))
    twins(X, Y)
    twins.each(lambda side: setattr(side.model[0].bias, "grad", None))
    twins(X, Y)


def test_gradients_that_are_kept_outside_stay_as_they_were() -> None:
    twins = Twins(accumulating)
    twins(X, Y)
    held = [side.model[0].weight.grad for side in (twins.eager, twins.compiled)]
    before = copied(held)
    twins(X, Y)
    check_alike(copied(held), before, 0)


def test_accumulation_and_clipping_inside() -> None:
    def make() -> Training:
        side = Training(mlp(), adam)

        def step(x: Any, y: Any) -> Any:
            side.optimizer.zero_grad()
            losses = []
            for k in range(3):
                loss = F.mse_loss(side.model(x[2 * k : 2 * k + 2]), y[2 * k : 2 * k + 2]) / 3
                loss.backward()
                losses.append(loss)
            norm = nn.utils.clip_grad_norm_(side.model.parameters(), 0.01)
            nn.utils.clip_grad_value_(side.model.parameters(), 0.004)
            side.optimizer.step()
            return losses, norm

        side.step = step
        return side

    twins = Twins(make)
    for _ in range(3):
        twins(X, Y)
    assert twins.programs == 1


def test_averages_of_parameters_inside() -> None:
    def make() -> Training:
        side = training()()
        average = ad.optim.EMA(side.model, decay=0.9)
        side.more = dict(average._averages)
        usual = side.step

        def step(x: Any, y: Any) -> Any:
            loss = usual(x, y)
            average.update()
            return loss

        side.step = step
        return side

    twins = Twins(make)
    for _ in range(3):
        twins(X, Y)


# Arguments


def test_an_argument_that_is_captured_too() -> None:
    def make() -> Training:
        side = training()()
        side.more["x"] = ad.tensor(X.numpy().copy())

        def step(x: Any) -> Any:
            side.more["x"] += 1
            return (side.model(x) * side.model(side.more["x"])).sum().detach()

        side.step = step
        return side

    twins = Twins(make)
    for given in ("x", None, "x", "x", None):
        found, expected = twins.both(
            lambda side, given=given: side.step(side.more[given] if given else X)
        )
        check_alike(copied(found), copied(expected))
        twins.check()


def test_a_parameter_that_is_an_argument() -> None:
    twins = Twins(training())
    model, optimizer = twins.compiled.model, twins.compiled.optimizer
    step = ad.compile(lambda w: (w * model[0].weight).sum())
    with ad.no_grad():
        for w in (model[0].weight, ad.ones((5, 3)), model[0].weight):
            expected = (w * model[0].weight).sum()
            np.testing.assert_allclose(step(w).numpy(), expected.numpy(), rtol=1e-5)
    del optimizer


def test_the_same_tensor_twice() -> None:
    @ad.compile
    def added(x: Any, y: Any) -> Any:
        x += 1
        y *= 2
        return x + y

    for same in (False, True, False, True):
        x = ad.tensor([1.0, 2.0])
        y = x if same else ad.tensor([1.0, 2.0])
        a = ad.tensor([1.0, 2.0])
        b = a if same else ad.tensor([1.0, 2.0])
        expected = added._function(a, b)
        np.testing.assert_array_equal(added(x, y).numpy(), expected.numpy())
        np.testing.assert_array_equal(x.numpy(), a.numpy())
        np.testing.assert_array_equal(y.numpy(), b.numpy())


def test_containers_keywords_and_python_values() -> None:
    calls = 0

    @ad.compile
    def f(batch: dict, scale: Any = 1, *, how: str = "sum", mask: Any = None) -> dict:
        nonlocal calls
        calls += 1
        x, (y, z) = batch["x"], batch["rest"]
        out = x * scale + y - z
        if mask is not None:
            out = ad.where(mask, out, 0.0)
        return {"how": how, "out": out.sum() if how == "sum" else out.mean(), "none": None}

    def batch(k: int) -> dict:
        return {"x": X + k, "rest": (X, [X * 2][0])}

    for k in range(2):
        for options in (
            {},
            {"scale": 2},
            {"scale": 2.0},
            {"how": "mean"},
            {"mask": X > 0},
            {"scale": True},
        ):
            expected = f._function(batch(k), **options)
            calls -= 1
            found = f(batch(k), **options)
            assert found["how"] == expected["how"] and found["none"] is None
            np.testing.assert_allclose(found["out"].numpy(), expected["out"].numpy(), rtol=1e-5)
    assert calls == 6
    assert f(batch(0), -0.0)["out"].item() == f(batch(0), 0.0)["out"].item()
    with pytest.raises(TypeError):
        f(batch(0), wrong=1)


def test_values_in_arguments_are_compared_and_objects_are_themselves() -> None:
    class Scale:
        pass

    calls = 0

    @ad.compile
    def f(x: Any, what: Any) -> Any:
        nonlocal calls
        calls += 1
        if isinstance(what, slice | range):
            return x[what] if isinstance(what, slice) else x * sum(what)
        if isinstance(what, np.generic):
            return x * what
        return x * (len(what) if isinstance(what, set | frozenset) else 7)

    one = {1, 2}
    scale = Scale()
    for given, expected in [
        (slice(0, 1), [1]),
        (slice(0, 2), [1, 2]),
        (range(4), [6, 12]),
        (np.float32(2), [2, 4]),
        (one, [2, 4]),
        (frozenset({3}), [1, 2]),
        (scale, [7, 14]),
    ]:
        calls = 0
        for _ in range(2):
            assert f(ad.tensor([1.0, 2.0]), given).tolist() == expected
        if isinstance(given, slice):
            assert f(ad.tensor([1.0, 2.0]), slice(given.start, given.stop)).tolist() == expected
        assert calls == 1
    one.add(3)
    assert f(ad.tensor([1.0, 2.0]), one).tolist() == [3, 6]
    gone = weakref.ref(scale)
    del scale, given
    gc.collect()
    assert gone() is None


def test_numpy_arrays_are_read_at_each_call() -> None:
    f = ad.compile(lambda x, y=None: x * 2 if y is None else x * y)
    for k in range(3):
        x = np.full(3, k, np.float32)
        np.testing.assert_array_equal(f(x).numpy(), x * 2)
        np.testing.assert_array_equal(f(X[0], y=x).numpy(), X[0].numpy() * x)
    x[:] = 7
    np.testing.assert_array_equal(f(x).numpy(), [14, 14, 14])


def test_an_array_of_numpy_that_a_result_might_share_memory_with() -> None:
    f = ad.compile(lambda x: (x, x[1:], x[::-1]))
    x = np.arange(4, dtype=np.float32)
    first = f(x)
    x[:] = -1
    assert [out.tolist() for out in first] == [
        out.tolist() for out in f._function(ad.asarray(np.arange(4, dtype=np.float32)))
    ]


def test_nine_batch_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a warning once, and no kernel is compiled after two sizes."""
    from adjoint.backends.cpu.jit import compiler

    twins = Twins(training())
    twins(X[:2], Y[:2])
    twins(X[:3], Y[:3])
    translated: list[str] = []
    translate = compiler.translate

    def noting(llvm: Any, text: str, *rest: Any) -> Any:
        translated.append(text)
        return translate(llvm, text, *rest)

    monkeypatch.setattr(compiler, "translate", noting)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(4, 15):
            x = ad.asarray(rng.normal(size=(n, 3)).astype(np.float32))
            twins(x, ad.ones((n, 2)))
            assert twins.programs <= 8
    said = [str(w.message) for w in caught]
    assert len(said) == 1 and "the shape of a tensor is (10, 3), was (9, 3)" in said[0]
    assert [text for text in translated if "@matmul" not in text] == []  # tiles go by rows
    twins(X[:2], Y[:2])


CHANGING = {
    "argument 1 is 8, was 7": lambda f, x, k: f(x, k),
    "argument 'k' is 8.0, was 7.0": lambda f, x, k: f(x, k=float(k)),
    "argument 0 is 8, was 7": lambda f, x, k: f(x, [k, x]),
    "the structure of the arguments is another": lambda f, x, k: f(x, *[x] * k),
}


@pytest.mark.parametrize("message", CHANGING)
def test_the_warning_says_what_changes(message: str) -> None:
    f = ad.compile(lambda x, *rest, **more: x * 2)
    for k in range(8):
        CHANGING[message](f, X, k)
    with pytest.warns(RuntimeWarning) as said:
        CHANGING[message](f, X, 8)
    assert f"now as {message}. At most 8" in str(said[0].message)


def test_another_layout_of_an_argument() -> None:
    f = ad.compile(lambda x, w: ad.tanh(x @ w).sum(axis=0))
    x, w = rng.normal(size=(4, 3)), rng.normal(size=(3, 5))
    layouts = [x, np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2], x[::-1][::-1]]
    for layout in layouts * 2:
        for weight in (w, w.T.copy().T):
            found = f(ad.asarray(layout), ad.asarray(weight)).numpy()
            np.testing.assert_allclose(found, np.tanh(x @ w).sum(0), rtol=1e-12)


def test_modes_and_defaults_are_part_of_a_signature() -> None:
    f = ad.compile(lambda x: x * ad.ones(2))
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    assert f(x).requires_grad
    with ad.no_grad():
        assert not f(x).requires_grad
    assert f(x).requires_grad and not f(x.detach()).requires_grad
    ad.set_default_dtype(ad.float64)
    try:
        assert f(x.detach()).dtype == ad.float64
    finally:
        ad.set_default_dtype(ad.float32)
    assert f(x.detach()).dtype == ad.float32


# Random numbers


def test_dropout_and_draws_are_those_of_eager() -> None:
    def make() -> Training:
        side = training(lambda: mlp(nn.Dropout(0.3), nn.Tanh(), nn.Dropout(0.6)))()
        generator = side.more["own"] = ad.random.Generator(7)
        usual = side.step

        def step(x: Any, y: Any) -> Any:
            noise = generator.normal((6, 3)) + ad.random.uniform((6, 3))
            return usual(x + noise, y), noise, generator.integers(0, 9, (2,))

        side.step = step
        return side

    twins = Twins(make)
    for k in range(5):
        twins(X, Y)
        twins.each(lambda side: side.more["own"].uniform((3,)))
        if k == 2:
            ad.random.seed(5)
        found, expected = twins.both(lambda _: ad.random.normal((2,)))
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
    assert twins.programs == 1


def test_draws_are_equal_bit_for_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    without_thresholds(monkeypatch)

    @ad.compile
    def draws() -> Any:
        return (
            ad.random.uniform((5,)),
            ad.random.normal((3,)),
            ad.random.integers(0, 100, (4,)),
            ad.random.permutation(6),
            ad.random.bernoulli(0.3, (4,)),
            ad.random.gamma(2.0, (2,)),
        )

    for _ in range(3):
        start = ad.random.get_state()
        found = draws()
        after = ad.random.get_state().numpy()
        ad.random.set_state(start)
        for one, other in zip(found, draws._function(), strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())
        np.testing.assert_array_equal(ad.random.get_state().numpy(), after)


# Models


class Tied(nn.Module):
    """Weights shared by two layers, nested modules, and a buffer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.ModuleList([nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.ReLU())])
        self.inner[1][0].weight = self.inner[0].weight
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("calls", ad.zeros(()))
        self.last = nn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        self.calls += 1
        for layer in self.inner:
            x = layer(x)
        return self.last(self.norm(x))


def test_shared_weights_nested_modules_and_buffers() -> None:
    twins = Twins(training(Tied, momentum))
    for _ in range(4):
        twins(X, Y)
    assert twins.compiled.model.calls.item() == 4
    assert twins.compiled.model.norm.num_batches_tracked.item() == 4
    twins.each(lambda side: side.model.norm.reset_running_stats())
    twins(X, Y)
    assert twins.programs == 1


def as_array(x: Any) -> np.ndarray:
    return x.copy() if isinstance(x, np.ndarray) else copied(x)


def test_detached_and_lent_parameters_keep_their_values() -> None:
    twins = Twins(training(optimizer=momentum))
    for _ in range(3):
        held = [
            (p.detach(), p.detach().numpy(), p[...].detach(), p.T)
            for side in (twins.eager, twins.compiled)
            for p in (side.model[0].weight, side.model[2].weight)
        ]
        before = [[as_array(y) for y in xs] for xs in held]
        twins(X, Y)
        check_alike([[as_array(y) for y in xs] for xs in held], before, 0)
    twins(X, Y)


def test_captured_views_and_values_that_share_memory() -> None:
    base = [ad.zeros((4, 3)) for _ in range(2)]
    views = [x[1:3] for x in base]
    transposed = [x.T for x in base]

    def function(k: int) -> Callable:
        def step(x: Any) -> Any:
            before = base[k] * 1
            base[k][0] = x
            views[k] += x
            transposed[k][:, 1] *= 2
            return before, base[k] + 0, views[k].sum(), transposed[k] @ base[k]

        return step

    compiled = ad.compile(function(0))
    for n in range(4):
        x = ad.asarray([1.0, 2.0, 3.0 + n])
        check_alike(copied(compiled(x)), copied(function(1)(x)), 1e-6)
        for held in (base, views, transposed):
            np.testing.assert_array_equal(held[0].numpy(), held[1].numpy())


def test_results_stay_as_they_were() -> None:
    twins = Twins(training())
    model = twins.compiled.model
    step = ad.compile(lambda: (model[0].weight.detach(), model[0].weight.detach().T * 1))
    held = []
    for _ in range(3):
        held.append((step(), copied(model[0].weight)))
        twins(X, Y)
    for (one, other), values in held:
        np.testing.assert_array_equal(one.numpy(), values)
        np.testing.assert_array_equal(other.numpy(), values.T)


def test_compiled_methods_are_of_their_instances() -> None:
    class Trainer:
        def __init__(self, scale: float) -> None:
            self.weight = ad.tensor([scale], requires_grad=True)

        @ad.compile
        def step(self, x: Any) -> Any:
            loss = (self.weight * x).sum()
            loss.backward()
            with ad.no_grad():
                self.weight -= self.weight.grad
            self.weight.grad = None
            return loss.detach()

    one, two = Trainer(1.0), Trainer(10.0)
    assert one.step(X[0, :1]) != two.step(X[0, :1])
    for _ in range(2):
        one.step(X[0, :1])
    np.testing.assert_allclose(one.weight.item(), 1 - 3 * X[0, 0].item(), rtol=1e-5)
    assert isinstance(Trainer.step, ad.CompiledFunction) and "program" in one.step.explain()
    gone = weakref.ref(two), weakref.ref(two.weight)
    del two
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


def test_a_compiled_module() -> None:
    module = mlp(nn.BatchNorm1d(5))
    compiled = ad.compile(module)
    assert [*compiled.parameters()] == [*module.parameters()]
    assert compiled.state_dict().keys() == module.state_dict().keys()
    assert compiled.training and "Sequential" in repr(compiled)
    optimizer = ad.optim.SGD(compiled.parameters(), lr=0.1)
    other = mlp(nn.BatchNorm1d(5))
    other.load_state_dict(module.state_dict())
    second = ad.optim.SGD(other.parameters(), lr=0.1)
    for _ in range(3):
        for call, own in ((compiled, optimizer), (other, second)):
            own.zero_grad()
            F.mse_loss(call(X), Y).backward()
            own.step()
        check_alike(copied(compiled.state_dict()), copied(other.state_dict()))
    compiled.eval()
    other.eval()
    with ad.no_grad():
        for _ in range(2):
            np.testing.assert_allclose(compiled(X).numpy(), other(X).numpy(), rtol=1e-5)


def test_models_are_freed_although_the_compiled_function_lives() -> None:
    class Holder:
        model: Any
        optimizer: Any

    holder = Holder()

    @ad.compile
    def step(x: Any, y: Any) -> Any:
        loss = F.mse_loss(holder.model(x), y)
        holder.optimizer.zero_grad()
        loss.backward()
        holder.optimizer.step()
        return loss.detach()

    gone = []
    for _ in range(3):
        holder.model = mlp()
        holder.optimizer = adam(holder.model.parameters())
        first, second = step(X, Y), step(X, Y)
        assert first > second
        gone += [weakref.ref(holder.model), weakref.ref(holder.model[0].weight)]
        gone += [weakref.ref(holder.optimizer)]
    holder.model = holder.optimizer = None
    gc.collect()
    assert [ref() for ref in gone] == [None] * 9


# Gradients from outside, and transforms


def results(f: Callable, x: Any, w: Any) -> list[Any]:
    """Values, gradients and gradients of gradients."""
    out = f(x, w)
    first: Any = ad.autograd.grad((out["a"] ** 2).sum() + out["b"], [x, w], create_graph=True)
    second = ad.autograd.grad((first[0] ** 2).sum() + (first[1] ** 2).sum(), [x, w])
    return copied([out["a"], out["b"], first, second])


def test_results_are_differentiable_from_outside_to_every_order() -> None:
    def f(x: Any, w: Any) -> dict:
        h = ad.tanh(x @ w)
        return {"a": h * ad.exp(x[:, :1]), "b": ad.logsumexp(h), "c": h.detach()}

    compiled = ad.compile(f)
    for _ in range(2):
        x, w = (ad.tensor(rng.normal(size=s), requires_grad=True) for s in ((4, 3), (3, 2)))
        check_alike(results(compiled, x, w), results(f, x, w), 1e-12)
        assert not compiled(x, w)["c"].requires_grad
    np.testing.assert_allclose(
        compiled(x.detach(), w.detach())["b"].item(), f(x, w)["b"].item(), rtol=1e-12
    )


def test_a_result_whose_graph_was_used_says_so() -> None:
    twins = Twins(training())
    for _ in range(2):
        loss = twins(X, Y)
        assert loss.requires_grad
        with pytest.raises(ad.GradientError, match="retain_graph"):
            loss.backward()


def test_inference_compiled_under_no_grad() -> None:
    model = mlp(nn.BatchNorm1d(5)).eval()
    f = ad.compile(ad.no_grad()(lambda x: ad.softmax(model(x), axis=1)))
    for n in (6, 6, 3):
        found = f(X[:n])
        assert not found.requires_grad
        np.testing.assert_allclose(found.numpy(), f._function(X[:n]).numpy(), rtol=1e-5)
    assert "launches" in f.explain()


def square(x: Any) -> Any:
    return (ad.sin(x) * x).sum()


TRANSFORMED = {
    "grad of compiled": lambda f: ad.grad(ad.compile(f)),
    "compiled grad": lambda f: ad.compile(ad.grad(f)),
    "grad of grad of compiled": lambda f: ad.grad(lambda x: ad.grad(ad.compile(f))(x).sum()),
    "compiled grad of grad": lambda f: ad.compile(ad.grad(lambda x: ad.grad(f)(x).sum())),
    "vmap of compiled": lambda f: ad.vmap(ad.compile(f)),
    "compiled vmap": lambda f: ad.compile(ad.vmap(f)),
    "vmap of compiled grad": lambda f: ad.vmap(ad.compile(ad.grad(f))),
    "compiled vmap of grad": lambda f: ad.compile(ad.vmap(ad.grad(f))),
    "compiled jacobian": lambda f: ad.compile(ad.jacobian(ad.grad(f))),
    "compiled hvp": lambda f: ad.compile(lambda x: ad.hvp(f, (x,), (x,))),
    "compiled jvp": lambda f: ad.compile(lambda x: ad.jvp(f, (x,), (x,))),
    "checkpoint inside": lambda f: ad.compile(ad.grad(lambda x: ad.checkpoint(f, x))),
    "checkpoint of compiled": lambda f: ad.grad(lambda x: ad.checkpoint(ad.compile(f), x)),
    "compile inside compile": lambda f: ad.compile(lambda x: ad.compile(ad.grad(f))(x) * 2),
    "trace of compiled": lambda f: lambda x: ad.trace(ad.compile(f), x)(x),
}


@pytest.mark.parametrize("transformed", TRANSFORMED.values(), ids=TRANSFORMED)
def test_transforms_compose(transformed: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    f = transformed(square)
    inputs = [ad.asarray(rng.normal(size=(3, 4))) for _ in range(2)]
    found = [copied(f(x)) for x in inputs for _ in range(2)]
    monkeypatch.setattr(ad, "compile", lambda function: function)
    check_alike(found, [copied(transformed(square)(x)) for x in inputs for _ in range(2)], 1e-12)


def test_a_recomputed_part_of_a_step_draws_the_same_numbers() -> None:
    def make() -> Training:
        side = Training(mlp(nn.Dropout(0.5)), adam)

        def step(x: Any, y: Any) -> Any:
            loss = F.mse_loss(ad.checkpoint(side.model, x), y)
            side.optimizer.zero_grad()
            loss.backward()
            side.optimizer.step()
            return loss

        side.step = step
        return side

    twins = Twins(make)
    for _ in range(3):
        twins(X, Y)


def test_statistics_of_all_batches() -> None:
    """Without momentum they depend on a count, which is another one at each run."""
    batches = [ad.random.normal((8, 3)) for _ in range(4)]
    eager, traced, compiled = (ad.nn.BatchNorm1d(3, momentum=None) for _ in range(3))
    own, graph = ad.compile(compiled), ad.trace(traced, batches[0])
    for x in batches:
        expected = eager(x).detach().numpy()
        np.testing.assert_array_equal(graph(x).detach().numpy(), expected)
        np.testing.assert_allclose(own(x).detach().numpy(), expected, rtol=1e-5, atol=1e-6)
        for other in (traced, compiled):
            found = dict(other.named_buffers())
            for name, buffer in eager.named_buffers():
                np.testing.assert_allclose(found[name].numpy(), buffer.numpy(), rtol=1e-6)
    assert len(own._programs) == 1
