"""Random programs: views, writes, changes of captured tensors, random numbers, sums, products."""

from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import strategies as st

import adjoint as ad

# Of all values between steps; others are within one. Of a square one axes may be confused.
SHAPES = (3, 4), (4, 4)
Shape = tuple[int, int]


class State:
    """Tensors from outside, which a program reads and changes; `dtype` of all floats."""

    def __init__(self, dtype: Any, shape: Shape) -> None:
        values = ad.random.Generator(0).normal((3, *shape), dtype=ad.float64)
        self.tensors = [ad.astype(values[k], dtype, copy=True) * 0.5 for k in range(2)]
        self.weight = ad.astype(values[2], dtype, copy=True).requires_grad_()
        self.views = [self.tensors[0][1:], self.tensors[1].T]
        self.count = ad.zeros((), dtype=ad.int64)
        self.generator = ad.random.Generator(5)

    def arrays(self) -> list[Any]:
        grad = self.weight.grad
        own = [*self.tensors, *self.views, self.weight, self.count, self.generator.state]
        own += [] if grad is None else [grad]
        return [x.detach().numpy().copy() for x in own]


class Step(NamedTuple):
    """What is done to some of the values so far; `number` is any choice that it needs."""

    name: str
    x: int
    y: int
    number: int


def write(state: State, x: Any, y: Any, n: int) -> Any:
    z = x * 1
    z[n % 3] = y[0]
    z[:, n % 4] += y[:, 1]
    return z


def write_view(state: State, x: Any, y: Any, n: int) -> Any:
    z = x + 0.25
    part = z[::2, 1:3] if n % 2 else z.T[1:]
    part *= 0.5
    return z


def update(state: State, x: Any, y: Any, n: int) -> Any:
    target = state.tensors[n % 2]
    target += ad.tanh(x) * 0.125
    return target + 0


def update_view(state: State, x: Any, y: Any, n: int) -> Any:
    with ad.no_grad():
        state.views[0][n % 2] = ad.tanh(x[0])
        state.views[1] *= 0.75
    return state.tensors[n % 2] - y


def count(state: State, x: Any, y: Any, n: int) -> Any:
    state.count += n
    return x + ad.astype(state.count % 3, x.dtype)


def draw(state: State, x: Any, y: Any, n: int) -> Any:
    uniform = state.generator.uniform(x.shape, dtype=x.dtype)
    return ad.where(uniform < 0.3, 0.0, x) + ad.random.uniform((4,), dtype=x.dtype)


def scatter(state: State, x: Any, y: Any, n: int) -> Any:
    z = ad.zeros_like(x) + y
    z[ad.asarray([n % 3, 1])] = x[:2]
    return z


EXACT: dict[str, Callable] = {
    "add": lambda s, x, y, n: x + y,
    "multiply": lambda s, x, y, n: x * y,
    "subtract": lambda s, x, y, n: 1 - x * (n - 1.5),
    "tanh": lambda s, x, y, n: ad.tanh(x),
    "exp": lambda s, x, y, n: ad.exp(ad.minimum(x, 1.0)),
    "sigmoid": lambda s, x, y, n: ad.sigmoid(x),
    "divide": lambda s, x, y, n: x / (2 + ad.abs(y)),
    "where": lambda s, x, y, n: ad.where(x > y, x, -y),
    "maximum": lambda s, x, y, n: ad.maximum(x, y[n % 3]),
    "relu": lambda s, x, y, n: ad.relu(x) - x,
    "turned": lambda s, x, y, n: x.T.reshape(x.shape) + y[::-1],
    "rolled": lambda s, x, y, n: ad.concat([x[n % 3 :], y[: n % 3]]),
    "taken": lambda s, x, y, n: x[ad.asarray([2, n % 3, 1, 0][: len(x)])] - y[:, ::-1],
    "spread": lambda s, x, y, n: x[:, n % 4 : n % 4 + 1] + y[n % 3],
    "largest": lambda s, x, y, n: x - ad.max(y, axis=n % 2, keepdims=True),
    "write": write,
    "write view": write_view,
    "update": update,
    "update view": update_view,
    "count": count,
    "draw": draw,
    "weight": lambda s, x, y, n: x * s.weight,
    "detach": lambda s, x, y, n: x.detach() + y,
    "scatter": scatter,
}
SUMS: dict[str, Callable] = {
    "sum": lambda s, x, y, n: x + ad.sum(y, axis=n % 2, keepdims=True) * 0.25,
    "crossed": lambda s, x, y, n: x + ad.sum(y, axis=n % 2 if len(y) == 4 else 0) * 0.25,
    "mean": lambda s, x, y, n: x - ad.mean(y),
    "product": lambda s, x, y, n: x @ (y.T @ y) * 0.125,
    "softmax": lambda s, x, y, n: ad.softmax(x, axis=n % 2) + y,
    "norm": lambda s, x, y, n: ad.nn.functional.layer_norm(x, 4) * y,
    "logsumexp": lambda s, x, y, n: x - ad.logsumexp(y, axis=n % 2, keepdims=True),
    "running": lambda s, x, y, n: ad.cumulative_sum(x, axis=n % 2) * 0.5,
    "powers": lambda s, x, y, n: ad.einsum("ij,kj->ik", x, y) @ x * 0.125,
}


class Program(NamedTuple):
    steps: list[Step]
    backward: bool  # whether it differentiates, and updates the weight
    dtype: str
    shape: Shape

    @property
    def is_exact(self) -> bool:
        """Whether nothing is added up in an order that may be another one."""
        return not self.backward and all(step.name in EXACT for step in self.steps)

    def run(self, state: State, x: Any) -> Any:
        values = [x, state.tensors[0] + 0, x * state.tensors[1]]
        for step in self.steps:
            do = EXACT.get(step.name) or SUMS[step.name]
            a, b = values[step.x % len(values)], values[step.y % len(values)]
            values.append(do(state, a, b, step.number))
        if self.backward:
            loss = (ad.tanh(values[-1]) * state.weight).sum()
            loss.backward()
            with ad.no_grad():
                state.weight -= 0.125 * state.weight.grad
            if self.steps[0].number % 2:
                state.weight.grad = None
        values = [value.detach() for value in values]
        turned = [value.T for value in values]  # before themselves: they may have one memory
        return {
            "turned": turned,
            "last": values[-1],
            "nested": (values, [values[3][0], self.dtype]),
        }


NUMBERS = st.integers(0, 7)


def programs() -> st.SearchStrategy[Program]:
    def of(names: list[str], backward: st.SearchStrategy[bool]) -> st.SearchStrategy[Program]:
        steps = st.builds(Step, st.sampled_from(names), NUMBERS, NUMBERS, NUMBERS)
        dtypes = st.sampled_from(["float32", "float64"])
        lists, shapes = st.lists(steps, min_size=1, max_size=8), st.sampled_from(SHAPES)
        return st.builds(Program, lists, backward, dtypes, shapes)

    return st.one_of(of([*EXACT], st.just(False)), of([*EXACT, *SUMS], st.booleans()))
