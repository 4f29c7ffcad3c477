"""Learns how the numbers of hares and lynxes change, from noisy counts.

Only the rate of change is a network; a Runge-Kutta solver turns it into a prediction. Its gradient
comes from the adjoint method, declared as an op of its own: a second equation, solved backwards in
time. It keeps only the states at the counts, where backpropagation through the solver keeps every
stage of every step.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import adjoint as ad
from adjoint import nn

EVERY = 0.4  # time between counts
SOLVER_STEPS = 2  # between counts
WINDOW = 6  # counts that are predicted from one

State = tuple[ad.Tensor, ...]


class Counts(NamedTuple):
    """Logarithms of numbers of animals, shape (time, run, species), and those without noise."""

    noisy: ad.Tensor
    exact: ad.Tensor


def main() -> None:
    options = parse_arguments()
    ad.set_default_device(options.device)
    # GPUs have no float64.
    ad.set_default_dtype(ad.float64 if options.device == "cpu" else ad.float32)
    ad.random.seed(options.seed)
    training, test = count_animals(32, 30), count_animals(8, 30)
    rate = Rate(width=32)
    solve = adjoint_solver(rate)
    compare_gradients(rate, solve, training.noisy)

    before = prediction_error(rate, solve, test)
    start = time.perf_counter()
    train(rate, solve, training.noisy, options.steps)
    seconds = time.perf_counter() - start
    after = prediction_error(rate, solve, test)
    standing = ad.sqrt(ad.mean((test.exact - test.exact[0]) ** 2)).item()
    print(f"trained {options.steps} steps in {seconds:.1f} s")
    print(
        f"error of predictions of {len(test.exact) - 1} counts from one (RMS of logarithms): "
        f"{after:.3f}; untrained {before:.3f}, no change {standing:.3f}"
    )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, help="of training (default: 1000, quick: 150)")
    parser.add_argument("--quick", action="store_true", help="a short run, of a few seconds")
    parser.add_argument("--seed", type=int, default=0, help="of data and weights (default: 0)")
    parser.add_argument("--device", default="cpu", help="where to compute (default: cpu)")
    options = parser.parse_args()
    options.steps = options.steps or (150 if options.quick else 1000)
    return options


# What is to be learnt: the equations of Lotka and Volterra.


def true_rate(y: ad.Tensor) -> ad.Tensor:
    """How fast the logarithms of the numbers of prey and predators change."""
    prey, predators = ad.exp(y[..., 0]), ad.exp(y[..., 1])
    return ad.stack([1.5 - predators, prey - 1.0], axis=-1)


def count_animals(runs: int, count: int) -> Counts:
    """Counts at equal distances in time, from random starts, each about 5% off."""
    start = ad.random.uniform((runs, 2), -0.5, 0.8)
    exact = solved(true_rate, start, count)
    return Counts(exact + ad.random.normal(exact.shape, std=0.05), exact)


class Rate(nn.Module):
    """The network that is to become `true_rate`."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 2)
        )

    def forward(self, y: ad.Tensor) -> ad.Tensor:
        return self.layers(y)


# The solver.


def step(rates: Callable[..., State], y: State, h: float) -> State:
    """A step of the Runge-Kutta method of order four, for a tuple of quantities."""

    def moved(k: State, by: float) -> State:
        return tuple(a + by * b for a, b in zip(y, k, strict=True))

    k1 = rates(*y)
    k2 = rates(*moved(k1, h / 2))
    k3 = rates(*moved(k2, h / 2))
    k4 = rates(*moved(k3, h))
    mean = tuple((a + 2 * b + 2 * c + d) / 6 for a, b, c, d in zip(k1, k2, k3, k4, strict=True))
    return moved(mean, h)


def advanced(rates: Callable[..., State], y: State, duration: float) -> State:
    """The state some time later, or earlier."""
    for _ in range(SOLVER_STEPS):
        y = step(rates, y, duration / SOLVER_STEPS)
    return y


def solved(rate: Callable[[ad.Tensor], ad.Tensor], start: ad.Tensor, count: int) -> ad.Tensor:
    """The states at the times of counts, the start among them, on a new first axis."""
    states = [start]
    for _ in range(count - 1):
        (y,) = advanced(lambda y: (rate(y),), (states[-1],), EVERY)
        states.append(y)
    return ad.stack(states)


def adjoint_solver(rate: nn.Module) -> Callable[[ad.Tensor, int], ad.Tensor]:
    """`solved` with a network, as an op whose gradient is that of the adjoint method."""
    names = [name for name, _ in rate.named_parameters()]

    def rate_of(y: ad.Tensor, *weights: ad.Tensor) -> ad.Tensor:
        return nn.functional_call(rate, dict(zip(names, weights, strict=True)), (y,))

    def forward(start: ad.Tensor, *weights: ad.Tensor, count: int) -> ad.Tensor:
        return solved(lambda y: rate_of(y, *weights), start, count)

    def backward(g: ad.Tensor, out: ad.Tensor, weights: State, count: int) -> State:
        """Back from the last count: the state y, and the gradients of it and of the weights."""

        def rates(y: ad.Tensor, g_y: ad.Tensor, *g_weights: ad.Tensor) -> State:
            velocity, pullback = ad.vjp(rate_of, y, *weights)
            return velocity, *(-x for x in pullback(g_y))

        g_y, g_weights = g[count - 1], [ad.zeros_like(w) for w in weights]
        for k in range(count - 1, 0, -1):
            _, g_y, *g_weights = advanced(rates, (out[k], g_y, *g_weights), -EVERY)
            g_y = g_y + g[k - 1]
        return g_y, *g_weights

    op: Any = ad.op.other(
        "solve", inputs="start *weights", attrs="count", forward=forward, vjp=backward
    )
    return lambda start, count: op(start, *rate.parameters(), count=count)


# Training and results.


def train(rate: nn.Module, solve: Callable, counts: ad.Tensor, steps: int) -> None:
    """Fit predictions of a few counts, from random ones."""
    optimizer = ad.optim.Adam(rate.parameters(), lr=1e-2)
    schedule = ad.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    last = len(counts) - WINDOW
    for _ in range(steps):
        first = ad.random.integers(0, last, ()).item()
        window = counts[first : first + WINDOW]
        loss = ad.mean((solve(window[0], WINDOW) - window) ** 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()


def compare_gradients(rate: nn.Module, solve: Callable, counts: ad.Tensor) -> None:
    """Gradients by the adjoint method and by backpropagation, and the memory that both keep."""
    window = counts[:WINDOW]
    weights = list(rate.parameters())
    found = []
    for name, states in {
        "backpropagation": solved(rate, window[0], WINDOW),
        "adjoint method": solve(window[0], WINDOW),
    }.items():
        loss = ad.mean((states - window) ** 2)
        print(f"{name + ' keeps':21} {ad.memory(loss).total / 1000:8.1f} kB")
        grads = ad.autograd.grad(loss, weights)
        found.append(ad.concat([g.reshape(-1) for g in grads if g is not None]))
    through, adjoint = found
    difference = ad.linalg.vector_norm(adjoint - through) / ad.linalg.vector_norm(through)
    print(f"their gradients differ by {difference.item():.1e} of their length")


@ad.no_grad()
def prediction_error(rate: nn.Module, solve: Callable, counts: Counts) -> float:
    """How far predictions from the first state are from the exact states, on average."""
    predicted = solve(counts.exact[0], len(counts.exact))
    return ad.sqrt(ad.mean((predicted - counts.exact) ** 2)).item()


if __name__ == "__main__":
    main()
