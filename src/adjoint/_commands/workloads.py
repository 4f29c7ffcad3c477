"""What `adjoint bench` measures: written once, since PyTorch has the same names."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Step = Callable[[], Any]  # what it returns is read, so that nothing stays uncomputed


class Workload(NamedTuple):
    """A step of a library, made on a device; `unit` and `amount` say what it does per step, if
    that is a rate that people compare, `ops` how many equal parts it has."""

    name: str
    what: str
    make: Callable[[Any, str], Step]
    ops: int = 1
    unit: str = ""
    amount: float = 0.0


class Data:
    """Tensors of a library with the same random values each time."""

    def __init__(self, library: Any, device: str) -> None:
        self.library, self.device = library, device
        self.rng = np.random.default_rng(0)

    def normal(self, *shape: int, requires_grad: bool = False) -> Any:
        array = self.rng.standard_normal(shape, np.float32)
        x = self.library.tensor(array, device=self.device)
        return x.requires_grad_(requires_grad)

    def classes(self, count: int, n: int) -> Any:
        integers = "int64" if self.device == "cpu" else "int32"  # GPUs have no int64
        array = self.rng.integers(0, n, count).astype(integers)
        return self.library.tensor(array, device=self.device)


def gradient(loss: Step, x: Any) -> Step:
    def step() -> Any:
        x.grad = None
        loss().backward()
        return x.grad

    return step


def small_op(library: Any, device: str) -> Step:
    x = Data(library, device).normal(64, requires_grad=True)

    def loss() -> Any:
        y = x
        for _ in range(SMALL_OPS // 2):
            y = library.tanh(y * 1.001)
        return y.sum()

    return gradient(loss, x)


def elementwise(library: Any, device: str) -> Step:
    x = Data(library, device).normal(4_000_000, requires_grad=True)
    return gradient(lambda: (x * library.sigmoid(x) + library.tanh(x)).sum(), x)


def matmul(library: Any, device: str) -> Step:
    data = Data(library, device)
    x, y = data.normal(SIZE, SIZE), data.normal(SIZE, SIZE)
    return lambda: x @ y


def softmax(library: Any, device: str) -> Step:
    x = Data(library, device).normal(2048, 1024, requires_grad=True)
    return gradient(lambda: (library.softmax(x, -1) * x).sum(), x)


def convolution(library: Any, device: str) -> Step:
    data = Data(library, device)
    x, weight = data.normal(16, 32, 32, 32), data.normal(64, 32, 3, 3, requires_grad=True)
    conv2d = library.nn.functional.conv2d
    return gradient(lambda: conv2d(x, weight, padding=1).sum(), weight)


def mlp(library: Any, device: str) -> Step:
    nn, data = library.nn, Data(library, device)
    model = nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    )
    return training(library, model.to(device), data.normal(128, 784), data.classes(128, 10))


def cnn(library: Any, device: str) -> Step:
    nn, data = library.nn, Data(library, device)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 10),
    )
    return training(library, model.to(device), data.normal(64, 1, 8, 8), data.classes(64, 10))


def training(library: Any, model: Any, x: Any, labels: Any) -> Step:
    optimizer = library.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)

    def step() -> Any:
        loss = library.nn.functional.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


SMALL_OPS = 500
SIZE = 1024
WORKLOADS = (
    Workload("small op", "an op on 64 numbers, with its gradient", small_op, ops=SMALL_OPS),
    Workload("elementwise", "x sigmoid(x) + tanh(x), 4M numbers, with gradient", elementwise),
    Workload("matmul", "1024 x 1024", matmul, unit="GFLOP/s", amount=2e-9 * SIZE**3),
    Workload("softmax", "2048 rows of 1024, with gradient", softmax),
    Workload("convolution", "3 x 3, 32 to 64 channels, with gradient", convolution),
    Workload("MLP step", "784-256-256-10, batch of 128, SGD", mlp),
    Workload("CNN step", "two convolutions on 8 x 8, batch of 64, SGD", cnn),
)
