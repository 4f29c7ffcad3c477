"""What the workloads start from: NumPy arrays, the same for every library."""

from dataclasses import dataclass

import numpy as np

LEARNING_RATE = 1e-3
TINY_STEPS = 500  # of two ops each
HEADS, HEAD_SIZE = 8, 32
RECURRENT_STEPS, RECURRENT_STATE = 100, (16, 64)
NOISE = 1e-2  # on the diagonal of the Gaussian process


class Draws:
    """Random arrays, the same ones whenever they are drawn in the same order."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def normal(self, *shape: int, scale: float = 1.0) -> np.ndarray:
        return self.rng.standard_normal(shape).astype("f4") * np.float32(scale)

    def doubles(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape)

    def integers(self, below: int, *shape: int) -> np.ndarray:
        return self.rng.integers(0, below, shape)


@dataclass
class Classifier:
    """A network's input, labels and parameters."""

    x: np.ndarray
    labels: np.ndarray
    weights: list[np.ndarray]
    biases: list[np.ndarray]


def vector(size: int) -> np.ndarray:
    return Draws().normal(size)


def mlp() -> Classifier:
    draws = Draws()
    return Classifier(
        x=draws.normal(128, 784),
        labels=draws.integers(10, 128),
        weights=[
            draws.normal(784, 512, scale=0.03),
            draws.normal(512, 512, scale=0.03),
            draws.normal(512, 10, scale=0.03),
        ],
        biases=[np.zeros(size, "f4") for size in (512, 512, 10)],
    )


def cnn() -> Classifier:
    draws = Draws()
    return Classifier(
        x=draws.normal(32, 3, 32, 32),
        labels=draws.integers(10, 32),
        weights=[
            draws.normal(32, 3, 3, 3, scale=0.1),
            draws.normal(64, 32, 3, 3, scale=0.05),
            draws.normal(64 * 8 * 8, 10, scale=0.02),
        ],
        biases=[np.zeros(size, "f4") for size in (32, 64, 10)],
    )


def transformer() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """x of (batch, position, channel), and the weights of a block."""
    draws = Draws()
    width = HEADS * HEAD_SIZE
    return draws.normal(8, 128, width), {
        "qkv": draws.normal(width, 3 * width, scale=0.05),
        "out": draws.normal(width, width, scale=0.05),
        "up": draws.normal(width, 4 * width, scale=0.05),
        "down": draws.normal(4 * width, width, scale=0.05),
    }


def equations() -> list[np.ndarray]:
    """A thousand matrices far from singular, and a right side for each."""
    draws = Draws()
    return [
        draws.normal(1000, 8, 8) + 8 * np.eye(8, dtype=np.float32),
        draws.normal(1000, 8, 1),
    ]


def gaussian_process() -> tuple[np.ndarray, np.ndarray, float]:
    """Points, values there, and the logarithm of the length scale; in float64."""
    draws = Draws()
    return draws.doubles(500, 8), draws.doubles(500), 0.3


def rnn() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x by step, the weights of the state, the weights of x."""
    draws = Draws()
    batch, width = RECURRENT_STATE
    return (
        draws.normal(RECURRENT_STEPS, batch, 32),
        draws.normal(width, width, scale=0.1),
        draws.normal(32, width, scale=0.1),
    )


def embedding() -> tuple[np.ndarray, np.ndarray]:
    """The table, and which of its rows are taken."""
    draws = Draws()
    return draws.normal(10000, 128), draws.integers(10000, 64, 128)


def conv2d() -> tuple[np.ndarray, np.ndarray]:
    draws = Draws()
    return draws.normal(32, 32, 32, 32), draws.normal(64, 32, 3, 3, scale=0.05)


def rows() -> tuple[np.ndarray, np.ndarray]:
    """x, and the gradient of what is made of it."""
    draws = Draws()
    return draws.normal(8192, 1024), draws.normal(8192, 1024)


def adam() -> tuple[list[np.ndarray], list[np.ndarray]]:
    """100 parameters, and their gradients."""
    draws = Draws()
    return tuple([draws.normal(50_000) for _ in range(100)] for _ in range(2))  # type: ignore[return-value]
