"""Launches are values: made from layouts alone, they serve any memory, and any thread."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from adjoint.backends.launches import Launch
from adjoint.backends.webgpu.lowering import LOWERINGS, Programs, layout_of, lower
from adjoint.backends.webgpu.programs import Program, wgsl
from tests.support.arrays import normal
from tests.support.helpers import as_tuple
from tests.webgpu.calls import laid_out

pytestmark = pytest.mark.webgpu

CLASSES = np.arange(6, dtype=np.int32)[:, None] % 5
STATE = np.arange(4, dtype=np.uint32)
POSITIVE = np.eye(70, dtype=np.float32) + 0.01

# Inputs and attributes. Numbers of elementwise ops are given to the run.
CALLS: dict[str, tuple[str, Sequence[np.ndarray | None], dict[str, Any]]] = {
    "elementwise": ("add", [normal(6, 5), normal(5)], {}),
    "numbers": ("add_scaled", [normal(6, 5), normal(6, 5)], {"alpha": 0.5}),
    "reduction": ("sum", [normal(6, 5)], {"axis": 0, "keepdims": False}),
    "rows": ("softmax", [normal(6, 5)], {"axis": -1}),
    "long rows": ("softmax", [normal(2, 20_000)], {"axis": 1}),
    "places in long rows": ("argmax", [normal(2, 20_000)], {"axis": 1, "keepdims": True}),
    "several results": ("standardize", [normal(6, 5)], {"axis": (1,), "eps": 0.1, "center": True}),
    "status": ("cross_entropy", [normal(6, 5), CLASSES], {"axis": 1}),
    "product": ("matmul", [normal(12, 8), normal(8, 16)], {}),
    "split product": ("matmul", [normal(3, 9000), normal(9000, 5)], {}),
    "product and sum": ("linear", [normal(12, 8), normal(16, 8), normal(16)], {}),
    "product alone": ("linear", [normal(12, 8), normal(16, 8), None], {}),
    "scan": ("cumulative_sum", [normal(6, 5)], {"axis": 0, "reverse": True}),
    "long scan": ("cumulative_prod", [normal(1 << 17)], {"axis": 0, "reverse": False}),
    "random bits": ("random_bits", [STATE], {"shape": (3, 5)}),
    "triangle": ("triangle", [normal(3, 5, 5)], {"k": 1, "upper": False}),
    "factors": ("cholesky", [POSITIVE], {}),
    "factors and solutions": ("inv", [POSITIVE], {}),
    "order": ("topk", [normal(6, 5)], {"k": 3, "axis": 0, "largest": True}),
    "no elements": ("cumulative_sum", [normal(0, 3)], {"axis": 0, "reverse": False}),
}


@pytest.fixture(params=CALLS)
def call(request, webgpu) -> Any:
    """An op, its arrays on the device, its attributes, and what it gives eagerly."""
    name, inputs, attrs = CALLS[request.param]
    arrays = [None if x is None else webgpu.from_numpy(x) for x in inputs]
    return name, arrays, attrs, eager(webgpu, name, arrays, attrs)


def eager(webgpu, name: str, arrays: list[Any], attrs: dict[str, Any]) -> list[np.ndarray]:
    if name == "random_bits":
        results = webgpu.FUNCTIONS[name](webgpu.gpu, *arrays, **attrs)
    elif name in webgpu.FUNCTIONS:
        results = webgpu.FUNCTIONS[name](*arrays, **attrs)
    else:
        from adjoint.backends.webgpu.elementwise import function

        results = function(name, 0)(*arrays, **attrs)
    return [webgpu.to_numpy(x) for x in as_tuple(results)]


def launches_of(webgpu, name: str, arrays: list[Any], attrs: dict[str, Any]) -> tuple[Launch, ...]:
    layouts = [None if x is None else layout_of(x) for x in arrays]
    launches = lower(name, layouts, attrs, webgpu.gpu.target)
    assert launches is not None
    return launches


def run(webgpu, launches: tuple[Launch, ...], arrays: list[Any], attrs: dict) -> list[np.ndarray]:
    results = webgpu.gpu.run(launches, [x for x in arrays if x is not None], attrs)
    return [webgpu.to_numpy(x) for x in results]


def assert_same(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for x, y in zip(found, wanted, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        assert x.tobytes() == y.tobytes()


def moved(webgpu, x: Any, offset: int) -> Any:
    """The same array at an offset inside of a larger buffer."""
    whole = np.full(x.size + offset + 7, 77, x.dtype)
    whole[offset : offset + x.size] = webgpu.to_numpy(x).ravel()
    return webgpu.from_numpy(whole).view(x.shape, x.strides, offset)


def test_launches_from_layouts_give_the_same_bits_in_any_memory(webgpu, call) -> None:
    name, arrays, attrs, wanted = call
    launches = launches_of(webgpu, name, arrays, attrs)
    assert_same(run(webgpu, launches, arrays, attrs), wanted)
    for offset in (4, 256):
        others = [None if x is None else moved(webgpu, x, offset) for x in arrays]
        assert_same(run(webgpu, launches, others, attrs), wanted)


def test_arrays_that_begin_anywhere_give_the_same_bits(webgpu, call) -> None:
    name, arrays, attrs, wanted = call
    others = [None if x is None else moved(webgpu, x, 3) for x in arrays]
    assert_same(eager(webgpu, name, others, attrs), wanted)


def test_threads_share_launches(webgpu, call) -> None:
    name, arrays, attrs, wanted = call
    launches = launches_of(webgpu, name, arrays, attrs)
    found: list[list[np.ndarray]] = []

    def work() -> None:
        found.extend(run(webgpu, launches, arrays, attrs) for _ in range(3))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    for results in found:
        assert_same(results, wanted)


def test_lowering_makes_no_buffer_and_runs_nothing(webgpu, call) -> None:
    name, arrays, attrs, _ = call
    gpu = webgpu.gpu
    before = gpu.pool.takes, gpu.counts["launches"] + gpu.launches
    launches_of(webgpu, name, arrays, attrs)
    assert (gpu.pool.takes, gpu.counts["launches"] + gpu.launches) == before


def test_scratch_memory_serves_again(webgpu) -> None:
    x = webgpu.from_numpy(np.eye(512, dtype=np.float32))
    launches = launches_of(webgpu, "cholesky", [x], {})
    first = 2  # after x and the result
    assert len(launches[0].scratch) < 16 < len(launches)
    assert {slot for one in launches for slot in one.bound if slot >= first} == {
        first + k for k in range(len(launches[0].scratch))
    }
    assert sum(scratch.bytes for scratch in launches[0].scratch) < x.nbytes


def test_words_are_found_by_name(webgpu) -> None:
    x = webgpu.from_numpy(normal(6, 5))
    (launch,) = launches_of(webgpu, "cumulative_sum", [x], {"axis": 0, "reverse": True})
    assert [launch.word(name) for name in ("rows", "length", "inner", "reverse")] == [5, 6, 5, True]


def test_words_that_a_program_has_not_are_refused(gpu_program, webgpu) -> None:
    to = Programs([], webgpu.gpu.target)
    with pytest.raises(TypeError, match="numbered: count, length"):
        to.launch(gpu_program, 1, to.result((1,), np.dtype("u4")), length=1)


@pytest.fixture
def gpu_program() -> Program:
    return wgsl("numbered", "-> out", "count")("out[0] = p.count;")


def test_no_program_computes_what_has_no_dtype_for_it(webgpu) -> None:
    x = webgpu.from_numpy(np.ones(3, bool))
    assert lower("sin", [layout_of(x)], {}, webgpu.gpu.target) is None
    assert lower("svd", [layout_of(x)], {}, webgpu.gpu.target) is None


def test_complaints_of_runs_are_raised_when_data_is_read(webgpu) -> None:
    from adjoint import IndexingError

    x, target = webgpu.from_numpy(normal(2, 3)), webgpu.from_numpy(np.array([[0], [7]], np.int32))
    launches = launches_of(webgpu, "cross_entropy", [x, target], {"axis": 1})
    with pytest.raises(IndexingError, match="class indices from 0 to 2"):
        run(webgpu, launches, [x, target], {})
    run(webgpu, launches, [x, webgpu.from_numpy(np.array([[0], [2]], np.int32))], {})


@pytest.mark.parametrize("layout", ["transposed", "backwards", "strided", "sliced"])
def test_layouts_of_one_shape_have_launches_of_their_own(webgpu, layout: str) -> None:
    attrs = {"axis": 1, "reverse": False}
    plain, other = (laid_out(webgpu, normal(6, 5), how) for how in ("plain", layout))
    wanted = eager(webgpu, "cumulative_sum", [plain], attrs)
    assert_same(eager(webgpu, "cumulative_sum", [other], attrs), wanted)
    assert_same(eager(webgpu, "cumulative_sum", [plain], attrs), wanted)


def test_a_zero_and_a_negative_zero_arent_the_same_attribute(webgpu) -> None:
    x = webgpu.from_numpy(np.zeros((1, 1), np.float32))
    signs = [
        np.signbit(webgpu.to_numpy(webgpu.FUNCTIONS["pad"](x, pad_width=((0, 1), (0, 0)), value=v)))
        for v in (0.0, -0.0)
    ]
    assert [sign[1, 0] for sign in signs] == [False, True]


def test_every_op_that_is_lowered_has_a_function_on_arrays(webgpu) -> None:
    from adjoint.backends.webgpu.elementwise import MORE
    from adjoint.kernels.ops import OPS

    assert {*LOWERINGS} - {*OPS, *MORE} <= {*webgpu.FUNCTIONS}
