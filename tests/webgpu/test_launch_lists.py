"""Whole networks as hand-written lists of launches: nothing happens on the host between them."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from adjoint.backends.launches import Launch, Layout, contiguous
from adjoint.backends.webgpu.lowering import layout_of, lower
from tests.support.arrays import normal

pytestmark = pytest.mark.webgpu

FLOAT = np.dtype("f4")
GEOMETRY = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
POOLING = {
    "kernel": (2, 2),
    "stride": (2, 2),
    "padding": ((0, 0), (0, 0)),
    "dilation": (1, 1),
}


class Step(NamedTuple):
    """Launches on values by name; results get names, and may be seen in another shape."""

    launches: tuple[Launch, ...]
    operands: tuple[str, ...]
    result: str
    shape: tuple[int, ...]


class Program:
    """A list of launches, made of layouts alone."""

    def __init__(self, target: Any, **layouts: Layout) -> None:
        self.target, self.layouts, self.steps = target, layouts, list[Step]()

    def add(self, result: str, op: str, *operands: str, shape: Any = None, **attrs: Any) -> None:
        launches = lower(op, [self.layouts[name] for name in operands], attrs, self.target)
        assert launches is not None
        shape = shape or launches[0].results[0].shape
        self.layouts[result] = Layout(shape, contiguous(shape, 1), FLOAT)
        self.steps.append(Step(launches, operands, result, shape))

    def run(self, gpu: Any, **values: Any) -> Any:
        for launches, operands, result, shape in self.steps:
            out = gpu.run(launches, [values[name] for name in operands])[0]
            values[result] = out.view(shape, contiguous(shape, 1))
        return values["out"]


def check_program(webgpu: Any, program: Program, arrays: dict[str, np.ndarray], wanted: Any):
    gpu = webgpu.gpu
    reads = gpu.counts["reads"]
    out = program.run(gpu, **{name: webgpu.from_numpy(x) for name, x in arrays.items()})
    assert gpu.counts["reads"] == reads
    assert webgpu.to_numpy(out).tobytes() == wanted.numpy().tobytes()


def layouts_of(webgpu: Any, arrays: dict[str, np.ndarray]) -> dict[str, Layout]:
    return {name: layout_of(webgpu.from_numpy(x)) for name, x in arrays.items()}


def test_a_network_of_two_layers(webgpu: Any) -> None:
    shapes = {"x": (9, 20), "w": (33, 20), "b": (33,), "v": (7, 33), "c": (7,)}
    arrays = {name: normal(*shape, seed=k) for k, (name, shape) in enumerate(shapes.items())}
    program = Program(webgpu.gpu.target, **layouts_of(webgpu, arrays))
    program.add("hidden", "linear", "x", "w", "b")
    program.add("active", "relu", "hidden")
    program.add("logits", "linear", "active", "v", "c")
    program.add("out", "log_softmax", "logits", axis=1)
    x, w, b, v, c = (ad.asarray(a, device="webgpu") for a in arrays.values())
    functional = ad.nn.functional
    hidden = ad.relu(functional.linear(x, w, b))
    wanted = functional.log_softmax(functional.linear(hidden, v, c), axis=1)
    check_program(webgpu, program, arrays, wanted)


def test_a_small_convolutional_network(webgpu: Any) -> None:
    shapes = {"x": (3, 2, 12, 12), "w": (4, 2, 3, 3), "b": (4,), "v": (5, 4, 3, 3), "c": (5,)}
    shapes |= {"u": (6, 45), "d": (6,)}
    arrays = {name: normal(*shape, seed=k) for k, (name, shape) in enumerate(shapes.items())}
    program = Program(webgpu.gpu.target, **layouts_of(webgpu, arrays))
    program.add("first", "conv", "x", "w", "b", **GEOMETRY)
    program.add("active", "relu", "first")
    program.add("pooled", "max_pool", "active", **POOLING)
    program.add("second", "conv", "pooled", "v", "c", **GEOMETRY)
    program.add("again", "relu", "second")
    program.add("flat", "max_pool", "again", shape=(3, 45), **POOLING)
    program.add("out", "linear", "flat", "u", "d")
    x, w, b, v, c, u, d = (ad.asarray(a, device="webgpu") for a in arrays.values())
    functional = ad.nn.functional
    hidden = functional.max_pool2d(ad.relu(functional.conv2d(x, w, b, padding=1)), 2)
    hidden = functional.max_pool2d(ad.relu(functional.conv2d(hidden, v, c, padding=1)), 2)
    wanted = functional.linear(hidden.reshape(3, 45), u, d)
    check_program(webgpu, program, arrays, wanted)
