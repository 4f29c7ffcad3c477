"""Matrix products on WebGPU: python -m benchmarks.webgpu_matmul [ROUNDS].

The tiling that adjoint takes is compared with the best that a search finds on this adapter, and
with the simplest program, in which each invocation computes one element.
"""

import itertools
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from adjoint import backends
from adjoint.backends.launches import View
from adjoint.backends.webgpu.adapters import label
from adjoint.backends.webgpu.lowering import Programs, on_arrays
from adjoint.backends.webgpu.programs import Program, wgsl

from ._common import Report, duration, markdown_table

SIZE = 1024
OF_BEST = 1.5  # times the time of the best tiling, at most
OF_SIMPLEST = 3.0  # times as fast as the simplest program, at least
LEAST_TIME = 0.1  # seconds, that products are repeated for
ROUNDS = 5  # of the best, in each that is asked for
MEMORY = 16384  # bytes, of a workgroup

LANES = ((1, 8), (8, 8), (16, 16))
BLOCKS = ((4, 4), (8, 8), (16, 8), (16, 16))
DEPTHS = (0, 8, 16, 32)

# Rows, inner length and columns; T: the operand is transposed.
NEURAL = {
    "layer, forward": ("64x784", "784x128"),
    "layer, gradient of weights": ("784x64 T", "64x128"),
    "layer, gradient of inputs": ("64x128", "128x784 T"),
    "classes, forward": ("32x128", "128x10"),
    "classes, gradient of weights": ("128x32 T", "32x10"),
    "classes, gradient of inputs": ("32x10", "10x128 T"),
    "attention, scores": ("8x64x64", "8x64x64 T"),
    "attention, values": ("8x64x64", "8x64x64"),
    "gradient over many examples": ("128x8192 T", "8192x64"),
    "matrix times vector": ("1024x1024", "1024x1"),
    "vector times matrix": ("1x1024", "1024x1024"),
}

SIMPLEST = wgsl(
    "simplest matmul",
    "x:f32 y:f32 -> out:f32",
    "at_x at_y rows columns inner count x_batch x_row x_column y_batch y_row y_column",
)("""
    let unit = group * 64u + lane;
    if (unit >= p.count) { return; }
    let j = unit % p.columns;
    let i = unit / p.columns % p.rows;
    let batch = unit / p.columns / p.rows;
    let x_start = p.at_x + batch * p.x_batch + i * p.x_row;
    let y_start = p.at_y + batch * p.y_batch + j * p.y_column;
    var sum = 0.0;
    for (var k = 0u; k < p.inner; k++) {
        sum += x[x_start + k * p.x_column] * y[y_start + k * p.y_row];
    }
    out[unit] = sum;
""")


@on_arrays
def simplest(to: Programs, x: View, y: View) -> None:
    (*batch, rows, inner), columns = x.shape, y.shape[-1]
    out = to.result((*batch, rows, columns), x.dtype)
    names = "x_batch x_row x_column y_batch y_row y_column".split()
    steps = dict(zip(names, (*(0, *x.strides)[-3:], *(0, *y.strides)[-3:]), strict=True))
    sizes = dict(rows=rows, columns=columns, inner=inner, count=out.size)
    to.launch(SIMPLEST, -(-out.size // 64), x, y, out, **sizes, **steps)


class Tiling(NamedTuple):
    """How one workgroup computes a tile. With depth 0 nothing goes through workgroup memory."""

    lanes: tuple[int, int]
    block: tuple[int, int]  # elements that each lane computes
    wide: bool  # reads vectors of 4
    depth: int

    @property
    def tile(self) -> tuple[int, int]:
        return self.lanes[0] * self.block[0], self.lanes[1] * self.block[1]

    @property
    def fits(self) -> bool:
        if self.depth and min(self.lanes) == 1:  # what is read is used by one row of lanes only
            return False
        return sum(self.tile) * self.depth * 4 <= MEMORY

    @property
    def groups(self) -> int:
        return SIZE // self.tile[0] * (SIZE // self.tile[1])

    def __str__(self) -> str:
        (down, across), (rows, columns) = self.lanes, self.block
        memory = f"through memory by {self.depth}" if self.depth else "direct"
        return f"{down}x{across} of {rows}x{columns}, {'vec4' if self.wide else 'f32'}, {memory}"


TILINGS = [
    tiling
    for options in itertools.product(LANES, BLOCKS, (False, True), DEPTHS)
    if (tiling := Tiling(*options)).fits
]


def program_of(tiling: Tiling) -> Program:
    """The product of two square matrices whose size is a multiple of all that matters."""
    (_, lanes), (rows, columns), width = tiling.lanes, tiling.block, 4 if tiling.wide else 1
    (height, length), depth = tiling.tile, tiling.depth
    type = "vec4<f32>" if tiling.wide else "f32"
    places = [(i, j) for i in range(rows) for j in range(columns // width)]
    if depth:
        x_line = f"x_tile[(down + {{i}}u) * {depth // width}u + k / {width}u]"
        y_line = f"y_tile[(k + {{k}}u) * {length // width}u + across + {{j}}u]"
    else:
        x_line = f"x[((i + down + {{i}}u) * {SIZE}u + k) / {width}u]"
        y_line = f"y[((k + {{k}}u) * {SIZE}u + j) / {width}u + across + {{j}}u]"
    reads = [f"let x{i} = {x_line.format(i=i)};" for i in range(rows)]
    steps = []
    for k in range(width):
        lines = [f"let y{j} = {y_line.format(k=k, j=j * lanes)};" for j in range(columns // width)]
        lines += [
            f"sum{i}_{j} = fma({type}(x{i}{f'[{k}]' if tiling.wide else ''}), y{j}, sum{i}_{j});"
            for i, j in places
        ]
        steps.append("{ " + " ".join(lines) + " }")
    loop = f"""for (var k = 0u; k < {depth or SIZE}u; k += {width}u) {{
        {" ".join(reads + steps)}
    }}"""
    if depth:
        loop = f"""for (var low = 0u; low < {SIZE}u; low += {depth}u) {{
        for (var at = lane; at < {height * depth // width}u; at += {tiling.lanes[0] * lanes}u) {{
            let row = at / {depth // width}u;
            x_tile[at] = x[((i + row) * {SIZE}u + low) / {width}u + at % {depth // width}u];
        }}
        for (var at = lane; at < {length * depth // width}u; at += {tiling.lanes[0] * lanes}u) {{
            let row = at / {length // width}u;
            y_tile[at] = y[((low + row) * {SIZE}u + j) / {width}u + at % {length // width}u];
        }}
        workgroupBarrier();
        {loop}
        workgroupBarrier();
    }}"""
    stores = [
        f"out[((i + down + {i}u) * {SIZE}u + j) / {width}u + across + {j * lanes}u] = sum{i}_{j};"
        for i, j in places
    ]
    body = f"""
    let i = group / {SIZE // length}u * {height}u;
    let j = group % {SIZE // length}u * {length}u;
    let down = lane / {lanes}u * {rows}u;
    let across = lane % {lanes}u;
    {" ".join(f"var sum{i}_{j} = {type}();" for i, j in places)}
    {loop}
    {" ".join(stores)}
"""
    tiles = {"x_tile": height * depth // width, "y_tile": length * depth // width}
    memory = [f"var<workgroup> {tile}: array<{type}, {n}>;" for tile, n in tiles.items() if depth]
    arrays, threads = f"x:{type} y:{type} -> out:{type}", tiling.lanes[0] * lanes
    return wgsl(str(tiling), arrays, "at_x at_y", " ".join(memory), threads)(body)


class Runner:
    """Products of two arrays on one device, and their times."""

    def __init__(self, backend: Any) -> None:
        self.backend, self.gpu = backend, backend.gpu
        self.random = np.random.default_rng(0)

    def matrix(self, shape: str) -> Any:
        """An array: "2x3", or "2x3 T" for one that is stored as 3x2."""
        lengths, _, transposed = shape.partition(" ")
        lengths = tuple(int(n) for n in lengths.split("x"))
        stored = (*lengths[:-2], *lengths[:-3:-1]) if transposed else lengths
        x = self.backend.from_numpy(self.random.standard_normal(stored, np.float32))
        strides = (*x.strides[:-2], *x.strides[:-3:-1]) if transposed else x.strides
        return x.view(lengths, strides)

    def chosen(self, x: Any, y: Any) -> Any:
        return self.backend.FUNCTIONS["matmul"](x, y)

    def tiled(self, tiling: Tiling) -> Callable[[Any, Any], Any]:
        program = program_of(tiling)

        @on_arrays
        def product(to: Programs, x: View, y: View) -> None:
            to.launch(program, tiling.groups, x, y, to.result((SIZE, SIZE), x.dtype))

        return product

    def seconds(self, product: Callable[[Any, Any], Any], x: Any, y: Any, times: int) -> float:
        """For one of several products in a row."""
        start = time.perf_counter()
        for _ in range(times):
            out = product(x, y)
        self.gpu.read(out.view((1,), (1,)))
        return (time.perf_counter() - start) / times

    def best(self, products: dict[str, Callable], x: Any, y: Any, rounds: int) -> dict[str, float]:
        """The least time of each, taken in turn: first all, then fewer and fewer of the best."""
        expected = self.gpu.read(self.chosen(x, y))
        times: dict[str, float] = {}
        for name, product in products.items():
            out = self.gpu.read(product(x, y))  # compiles it
            if not np.allclose(out, expected, rtol=1e-3, atol=1e-3):
                raise SystemExit(f"{name}: a wrong result")
            times[name] = self.seconds(product, x, y, 1)
        for k in range(ROUNDS * rounds):
            limit = (1 + 2 / (k + 1)) * min(times.values())
            for name, product in products.items():
                if times[name] < limit or name == "chosen":
                    count = min(100, max(1, round(LEAST_TIME / times[name])))
                    times[name] = min(times[name], self.seconds(product, x, y, count))
        return times


def run(rounds: int) -> Report:
    runner = Runner(backends.backend("webgpu"))
    print(label(runner.gpu.adapter))
    search, problems = searched(runner, rounds)
    print()
    return Report({"search": search, "neural": neural(runner, rounds)}, problems)


def searched(runner: Runner, rounds: int) -> tuple[dict[str, float], list[str]]:
    """Times of all tilings of a large product, and what is wrong with the one that is chosen."""
    products = {"chosen": runner.chosen, "simplest": simplest}
    products |= {str(tiling): runner.tiled(tiling) for tiling in TILINGS}
    x, y = runner.matrix(f"{SIZE}x{SIZE}"), runner.matrix(f"{SIZE}x{SIZE}")
    times = runner.best(products, x, y, rounds)
    rows = [[name, *speeds(t, SIZE**3)] for name, t in sorted(times.items(), key=lambda kv: kv[1])]
    print(markdown_table([f"{SIZE}x{SIZE}x{SIZE}", "ms", "GFLOP/s"], rows))
    best = min(t for name, t in times.items() if name != "chosen")
    of_best, of_simplest = times["chosen"] / best, times["simplest"] / times["chosen"]
    print(f"chosen: {of_best:.2f} times the time of the best (at most {OF_BEST}), ", end="")
    print(f"{of_simplest:.1f} times as fast as the simplest (at least {OF_SIMPLEST})")
    problems = []
    if of_best > OF_BEST:
        problems.append(f"webgpu_matmul: {of_best:.2f} times the time of the best tiling")
    if of_simplest < OF_SIMPLEST:
        problems.append(f"webgpu_matmul: only {of_simplest:.2f} times as fast as the simplest")
    return times, problems


def neural(runner: Runner, rounds: int) -> dict[str, dict[str, float]]:
    """Times of products as networks have them."""
    figures, rows = {}, []
    for name, (x_shape, y_shape) in NEURAL.items():
        x, y = runner.matrix(x_shape), runner.matrix(y_shape)
        products = {"chosen": runner.chosen, "simplest": simplest}
        times = figures[name] = runner.best(products, x, y, rounds)
        gain = times["simplest"] / times["chosen"]
        cells = [duration(times["chosen"]), speeds(times["chosen"], x.size * y.shape[-1])[1]]
        rows.append([name, f"{x_shape} @ {y_shape}", *cells, f"{gain:.1f}"])
    print(markdown_table(["", "", "time", "GFLOP/s", "times the simplest"], rows))
    return figures


def speeds(seconds: float, products: int) -> list[str]:
    return [f"{seconds * 1e3:.2f}", f"{2 * products / seconds / 1e9:.2f}"]


if __name__ == "__main__":
    report = run(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
    for problem in report.problems:
        print(f"PROBLEM {problem}", file=sys.stderr)
    sys.exit(1 if report.problems else 0)
