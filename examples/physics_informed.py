"""Solves Burgers' equation with a network that is trained on the equation alone.

u_t + u u_x = nu u_xx says how a wave steepens and wears off. The network is a function u(x, t); its
derivatives, the second one too, come from `autograd.grad` with create_graph=True, so that the loss,
how badly the equation is violated, can be differentiated again. Adam finds the valley, L-BFGS its
bottom. There is an exact solution to compare with.
"""

import argparse
import math
import time

import adjoint as ad
from adjoint import nn

NU = 0.1  # viscosity
STEEPNESS = 1.2  # of the exact solution: the closer to 1, the steeper the wave


def main() -> None:
    options = parse_arguments()
    ad.set_default_device(options.device)
    # GPUs have no float64.
    ad.set_default_dtype(ad.float64 if options.device == "cpu" else ad.float32)
    ad.random.seed(options.seed)
    model = Wave(width=16 if options.quick else 24)
    points = Points(300 if options.quick else 1000)
    print(f"{'untrained:':14} {describe(model, points)}")
    for name, train, steps in [
        ("Adam", train_by_adam, options.steps or (300 if options.quick else 1000)),
        ("L-BFGS", train_by_lbfgs, options.steps or (100 if options.quick else 400)),
    ]:
        start = time.perf_counter()
        train(model, points, steps)
        seconds = time.perf_counter() - start
        print(f"{'after ' + name + ':':14} {describe(model, points)} ({seconds:.1f} s)")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, help="of Adam, and of L-BFGS, in place of the default")
    parser.add_argument("--quick", action="store_true", help="a short run, of a few seconds")
    parser.add_argument("--seed", type=int, default=0, help="of points and weights (default: 0)")
    parser.add_argument("--device", default="cpu", help="where to compute (default: cpu)")
    return parser.parse_args()


def exact(x: ad.Tensor, t: ad.Tensor) -> ad.Tensor:
    """The solution that is 0 at x = 0 and x = 1, by Cole and Hopf's substitution."""
    decay = ad.exp(-(math.pi**2) * NU * t)
    return (
        2 * NU * math.pi * decay * ad.sin(math.pi * x) / (STEEPNESS + decay * ad.cos(math.pi * x))
    )


class Wave(nn.Module):
    """u(x, t); the factor x (1 - x) makes it 0 at both ends."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2, width),
            nn.Tanh(),
            nn.Linear(width, width),
            nn.Tanh(),
            nn.Linear(width, width),
            nn.Tanh(),
            nn.Linear(width, 1),
        )

    def forward(self, x: ad.Tensor, t: ad.Tensor) -> ad.Tensor:
        inputs = ad.stack([2 * x - 1, 2 * t - 1], axis=1)
        return x * (1 - x) * self.layers(inputs)[:, 0]


class Points:
    """Where the equation is to hold, and where the wave starts."""

    def __init__(self, count: int) -> None:
        def random() -> ad.Tensor:
            return ad.random.uniform((count,), requires_grad=True)

        self.x, self.t = random(), random()
        self.start = ad.linspace(0, 1, 100)


def loss_of(model: nn.Module, points: Points) -> ad.Tensor:
    """The mean square of what should be 0: in the equation, and at the start."""
    x, t = points.x, points.t
    u = model(x, t)
    u_x, u_t = derivatives(u, x, t)
    (u_xx,) = derivatives(u_x, x)
    residual = u_t + u * u_x - NU * u_xx
    zero = ad.zeros_like(points.start)
    start = model(points.start, zero) - exact(points.start, zero)
    return ad.mean(residual**2) + 100 * ad.mean(start**2)


def derivatives(u: ad.Tensor, *by: ad.Tensor) -> tuple[ad.Tensor, ...]:
    """Of each value by its own point: the values at other points don't depend on it."""
    return ad.autograd.grad(u.sum(), by, create_graph=True)  # type: ignore[return-value]


def train_by_adam(model: nn.Module, points: Points, steps: int) -> None:
    optimizer = ad.optim.Adam(model.parameters(), lr=1e-2)
    schedule = ad.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(model, points).backward()
        optimizer.step()
        schedule.step()


def train_by_lbfgs(model: nn.Module, points: Points, steps: int) -> None:
    optimizer = ad.optim.LBFGS(
        model.parameters(), max_iter=steps, history_size=50, line_search_fn="strong_wolfe"
    )

    def closure() -> ad.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, points)
        loss.backward()
        return loss

    optimizer.step(closure)


def describe(model: nn.Module, points: Points) -> str:
    """The loss, and the distance from the exact solution relative to its size, on a grid."""
    line = ad.linspace(0, 1, 101)
    x, t = (grid.reshape(-1) for grid in ad.meshgrid(line, line))
    with ad.no_grad():
        expected = exact(x, t)
        norm = ad.linalg.vector_norm
        error = norm(model(x, t) - expected) / norm(expected)
    return f"loss {loss_of(model, points).item():.1e}, relative error {error.item():.2e}"


if __name__ == "__main__":
    main()
