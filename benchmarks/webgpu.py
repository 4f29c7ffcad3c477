"""What a GPU's runtime costs, and a training step against tinygrad's on the same driver.

The driver is SwiftShader where it is installed, in processes of their own. tinygrad takes part if
it is installed (with the package dawn-python, which has its WebGPU library).
"""

import importlib.util
import os
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from ._common import Report, output

OPS = 1000
MOST_PER_OP = 60e-6  # seconds of the main thread
OF_TINYGRAD = 1.5  # times as fast, at least
STEPS = 20
BATCH = 64
SWIFTSHADER = "/usr/lib/chromium/vk_swiftshader_icd.json"


def run(rounds: int) -> Report:
    figures: dict[str, Any] = {}
    problems = []
    per_op = min(float(output("-m", "benchmarks.webgpu", "chain")) for _ in range(rounds))
    figures["seconds_per_op"] = per_op
    print(f"second pass of {OPS} small ops: {per_op * 1e6:.1f} µs of the main thread per op")
    if per_op > MOST_PER_OP:
        problems.append(f"webgpu: {per_op * 1e6:.0f} µs per op, at most {MOST_PER_OP * 1e6:.0f}")
    env = driver_environment()
    libraries = ["adjoint"]
    if importlib.util.find_spec("tinygrad") and importlib.util.find_spec("pydawn"):
        libraries.append("tinygrad")
    times: dict[str, list[float]] = {library: [] for library in libraries}
    for _ in range(rounds):
        for library in libraries:
            times[library].append(float(output("-m", "benchmarks.webgpu", library, env=env)))
    for library, found in times.items():
        figures[f"{library}_step"] = min(found)
        spread = f"{min(found) * 1e3:.1f} to {max(found) * 1e3:.1f} ms"
        print(f"training step of a convolutional network, {library}: {spread}")
    if "tinygrad" in times:
        faster = figures["faster_than_tinygrad"] = min(times["tinygrad"]) / min(times["adjoint"])
        print(f"times as fast as tinygrad: {faster:.1f} (at least {OF_TINYGRAD})")
        if faster < OF_TINYGRAD:
            problems.append(f"webgpu: {faster:.2f} times as fast as tinygrad")
    return Report(figures, problems)


def driver_environment() -> dict[str, str]:
    """That of a process which sees SwiftShader alone, if it is there."""
    env = dict(os.environ)
    if Path(SWIFTSHADER).is_file():
        env |= {"VK_DRIVER_FILES": SWIFTSHADER, "VK_ICD_FILENAMES": SWIFTSHADER}
    library = Path(sysconfig.get_paths()["purelib"], "pydawn/lib/libwebgpu_dawn_x86_64.so")
    env.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
    return env | {"DEV": "WEBGPU", "WEBGPU": "1", "WEBGPU_PATH": str(library)}


def chain() -> float:
    """Seconds of the main thread per op, when a chain is computed again and all of it is kept."""
    import adjoint as ad

    x = ad.asarray(np.linspace(-1, 1, 64, dtype=np.float32), device="webgpu")
    functions = (ad.tanh, lambda x: x * 1.01, lambda x: x + x, ad.sin)

    def once() -> float:
        kept = [x]
        start = time.thread_time()
        for k in range(OPS):
            kept.append(functions[k % 4](kept[-1]))
        return (time.thread_time() - start) / OPS

    once()
    return once()


def adjoint_step() -> float:
    """Seconds of the fastest of some training steps of a small convolutional network."""
    import adjoint as ad
    from adjoint._commands.workloads import cnn

    ad.random.seed(0)
    step = cnn(ad, "webgpu")
    return fastest(lambda: step().item())


def tinygrad_step() -> float:
    """The same by tinygrad, whose step is compiled as a whole."""
    from tinygrad import Tensor, TinyJit  # type: ignore[import-not-found]
    from tinygrad.helpers import Context  # type: ignore[import-not-found]
    from tinygrad.nn.optim import SGD  # type: ignore[import-not-found]

    rng = np.random.default_rng(0)
    images = Tensor(rng.random((BATCH, 1, 8, 8), np.float32))
    labels = Tensor(rng.integers(0, 10, BATCH).astype(np.int32))
    shapes = ((16, 1, 3, 3), (16,), (32, 16, 3, 3), (32,), (128, 10), (10,))
    params = [Tensor(0.1 * rng.standard_normal(s).astype(np.float32)).realize() for s in shapes]
    filters1, bias1, filters2, bias2, weight, bias = params
    optimizer = SGD(params, lr=0.001, momentum=0.9)

    @TinyJit
    def step(images: Any, labels: Any) -> Any:
        x = images.conv2d(filters1, bias1, padding=1).relu().max_pool2d(2)
        x = x.conv2d(filters2, bias2, padding=1).relu().max_pool2d(2)
        loss = (x.reshape(BATCH, -1) @ weight + bias).sparse_categorical_crossentropy(labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.realize()

    with Context(TRAINING=1):
        return fastest(lambda: step(images, labels).item())


def fastest(step: Any) -> float:
    times = []
    for _ in range(STEPS):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return min(times[3:])  # after what is done for the first time


if __name__ == "__main__":
    print({"chain": chain, "adjoint": adjoint_step, "tinygrad": tinygrad_step}[sys.argv[1]]())
