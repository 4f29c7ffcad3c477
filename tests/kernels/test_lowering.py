"""Launches are made of layouts alone, and run on any memory: by a runner of the tests, which knows
addresses and nothing else, they give the bits that eager calls give."""

import ctypes
import gc
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint.backends import cpu
from adjoint.backends.cpu import thresholds
from adjoint.backends.cpu.lowering.elementwise import launcher_of
from adjoint.backends.cpu.lowering.ops import NativeOp
from adjoint.backends.cpu.lowering.targets import current_target
from adjoint.backends.cpu.table import LOWERED
from adjoint.backends.launches import MOST_LAUNCHES, Cache, Launch, Layout, contiguous
from adjoint.kernels.ops import OPS as DESCRIBED
from tests.kernels import rounding
from tests.kernels.cases import check_same, kernel_free
from tests.kernels.lowering_cases import (
    CALLS,
    ELEMENTWISE,
    FLOATS,
    HALVING,
    LARGE,
    RECORDS,
    SAME,
    SIZES,
    Call,
    call_of,
    dtypes_of,
    sizes_of,
)
from tests.support import launches as runner
from tests.support.arrays import normal
from tests.support.helpers import as_tuple, in_threads, needs_kernels
from tests.support.launches import Arena, FencedBefore, FencedBehind, Piece, Separate, lowered
from tests.support.samples import OPS, TABLE, geometry

pytestmark = needs_kernels


@pytest.fixture(autouse=True)
def _no_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eager calls run launches for arrays of every size."""
    for name, value in vars(thresholds).items():
        if isinstance(value, int):
            monkeypatch.setattr(thresholds, name, 0)
    Cache.forget_all()


def eager(op: str, call: Call) -> list[np.ndarray]:
    return [
        np.asarray(out) for out in as_tuple(cpu.function_of(OPS[op])(*call.inputs, **call.attrs))
    ]


def present(call: Call) -> list[np.ndarray]:
    return [np.asarray(x) for x in call.inputs if x is not None]


def bits(results: list[np.ndarray]) -> list[tuple]:
    return [(out.shape, out.dtype, out.tobytes()) for out in results]


def run_in(memory: Any, launches: tuple[Launch, ...], call: Call) -> list[np.ndarray]:
    """Run launches with operands, results and scratch memory in some memory."""
    results = runner.placed(memory, launches, present(call))
    assert runner.run(runner.bound(launches, memory.addresses, call.attrs))
    memory.check_guards()
    return results


def memories(launches: tuple[Launch, ...], call: Call) -> Iterator[Any]:
    """Memory of its own for each array, there also at an odd place; and one block for all."""
    even, odd = (runner.pieces_for(launches, present(call), odd) for odd in (False, True))
    yield Separate(even)
    yield Separate(odd)
    yield Arena(odd)


def check(op: str, call: Call) -> None:
    """Run launches in all kinds of memory, and from two threads at once."""
    launches = lowered(op, call.inputs, call.attrs)
    assert launches is not None
    said = runner.frozen(launches)
    expected = bits(eager(op, call))
    for memory in memories(launches, call):
        assert bits(run_in(memory, launches, call)) == expected
    arenas = [Arena(runner.pieces_for(launches, present(call), True)) for _ in range(2)]
    found: dict[int, list[np.ndarray]] = {}

    def run(number: int) -> None:
        found[number] = run_in(arenas[number], launches, call)

    in_threads(2, run)
    assert bits(found[0]) == bits(found[1]) == expected
    assert runner.frozen(launches) == said


CASES = [(op, dtype) for op in CALLS for dtype in dtypes_of(op)]


@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_launches_on_any_memory_give_eager_bits(op: str, dtype: str) -> None:
    for n in sizes_of(op, dtype):
        for call in CALLS[op](n, dtype):
            check(op, call)


@pytest.mark.parametrize("op", CALLS)
def test_eager_calls_of_all_sizes_run_kernels_without_thresholds(
    op: str, chunks: list[int]
) -> None:
    """So it is their bits that launches are compared with."""
    for n in SIZES:
        for call in CALLS[op](n, dtypes_of(op)[0]):
            chunks.clear()
            eager(op, call)
            is_whole_image = op == "max_pool" and call.attrs["kernel"] == call.inputs[0].shape[2:]
            assert chunks or is_whole_image  # of which NumPy's function is worth more


def test_every_op_with_kernels_has_cases() -> None:
    recorded = {sample.op for sample in TABLE}
    assert {*LOWERED} | {*DESCRIBED} & recorded == {*CALLS}
    assert all(dtypes_of(op) for op in CALLS)


@pytest.mark.skipif(os.name != "posix", reason="protects pages of memory")
@pytest.mark.parametrize("op", CALLS)
def test_launches_read_and_write_nothing_around_their_memory(op: str) -> None:
    """Pages that can't be read lie before, or behind, all operands, results and scratch memory."""
    for n, dtype in itertools.product((1, 7), dtypes_of(op)):
        for call in CALLS[op](n, dtype):
            launches = lowered(op, call.inputs, call.attrs)
            assert launches is not None
            pieces = runner.pieces_for(launches, present(call), False)
            behind, before = (
                run_in(fenced(pieces), launches, call) for fenced in (FencedBehind, FencedBefore)
            )
            assert bits(behind) == bits(before)


# Right results, of sizes that eager calls leave to NumPy.

SUMS_OF_PRODUCTS = {"matmul", "linear", "conv", "conv_input", "conv_weight"}
ROUNDED = {"norm", "deviation", "cross_entropy", "masked_softmax", "scaled_standardize"}


def result(op: str, call: Call) -> list[np.ndarray]:
    launches = lowered(op, call.inputs, call.attrs)
    assert launches is not None
    return run_in(Arena(runner.pieces_for(launches, present(call), True)), launches, call)


def by_numpy(op: str, call: Call) -> list[np.ndarray]:
    return [*map(np.asarray, as_tuple(kernel_free(op, *call.inputs, **call.attrs)))]


def whole(call: Call) -> Call:
    """Whole numbers: however products of them are summed, nothing is rounded."""
    return call._replace(inputs=tuple(x if x is None else np.rint(2 * x) for x in call.inputs))


@pytest.mark.parametrize("op", sorted({*CALLS} - {*ELEMENTWISE} - ROUNDED - {*rounding.RIGHT}))
def test_launches_that_round_like_numpy_equal_it(op: str) -> None:
    """Matrix products also with single rows and columns."""
    for dtype in dtypes_of(op):
        for n in sizes_of(op, dtype):
            for call in CALLS[op](n, dtype):
                call = whole(call) if op in SUMS_OF_PRODUCTS else call
                check_same(result(op, call), by_numpy(op, call))


@pytest.mark.parametrize("op", sorted(rounding.RIGHT))
def test_launches_of_few_elements_round_no_more_than_their_formula(op: str) -> None:
    for n, dtype in itertools.product((1, 7), FLOATS):
        for inputs, attrs in CALLS[op](n, dtype):
            if "keepdims" in attrs:
                axis = attrs["axis"] or tuple(range(inputs[0].ndim))
                attrs = {"axis": axis, "keepdims": False}
            found = result(op, Call(inputs, attrs))
            assert rounding.worst(op, tuple(found), *inputs, **attrs) <= 1


@pytest.mark.parametrize("op", [*sorted(ROUNDED), *ELEMENTWISE])
def test_launches_of_few_elements_are_near_numpy(op: str) -> None:
    for n, dtype in itertools.product((1, 7), dtypes_of(op)):
        for call in CALLS[op](n, dtype):
            for out, expected in zip(result(op, call), by_numpy(op, call), strict=True):
                assert (out.shape, out.dtype) == (expected.shape, expected.dtype)
                digit = np.finfo(out.dtype).eps if out.dtype.kind == "f" else 0
                np.testing.assert_allclose(out, expected, rtol=4 * digit, atol=4 * digit)


# Other layouts.


def turned(x: np.ndarray) -> np.ndarray:
    """The same numbers, with axes in memory in the other order."""
    return np.ascontiguousarray(x.T).T


def spaced(x: np.ndarray) -> np.ndarray:
    return np.repeat(x, 2, axis=-1)[..., ::2] if x.ndim else x


def reversed_(x: np.ndarray) -> np.ndarray:
    """The same numbers, the last ones first in memory."""
    steps = (slice(None, None, -1),) * x.ndim
    return x[steps].copy()[steps]


def unaligned(x: np.ndarray) -> np.ndarray:
    """At an address that is no multiple of the size of an element."""
    out = np.empty(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    out[...] = x
    return out


LAYOUTS = {"turned": turned, "spaced": spaced, "reversed": reversed_, "unaligned": unaligned}
IN_PLACE = {"matmul", "linear", "index", "take_along_axis"}  # no kernel for some of the layouts


@pytest.mark.parametrize("op", CALLS)
@pytest.mark.parametrize("kind", LAYOUTS)
def test_launches_for_other_layouts_give_eager_bits(kind: str, op: str) -> None:
    for dtype in dtypes_of(op)[:2]:
        for inputs, attrs in CALLS[op](7, dtype):
            call = Call(tuple(x if x is None else LAYOUTS[kind](x) for x in inputs), attrs)
            launches = lowered(op, call.inputs, attrs)
            if launches is None:
                assert op in IN_PLACE
                continue
            for launch in launches:
                assert all(out < len(launch.results) for out, _ in launch.overwrites)
            expected = bits(eager(op, call))
            for memory in memories(launches, call):
                assert bits(run_in(memory, launches, call)) == expected


def repeated(x: np.ndarray) -> np.ndarray:
    """The same row, without memory of its own for each."""
    return np.broadcast_to(x[:1], x.shape) if x.ndim else x


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_launches_for_operands_of_different_layouts_give_eager_bits(data: st.DataObject) -> None:
    op = data.draw(st.sampled_from(sorted(CALLS)))
    dtype = data.draw(st.sampled_from(dtypes_of(op)))
    inputs, attrs = data.draw(st.sampled_from([*CALLS[op](7, dtype)]))
    kinds = [np.array, *LAYOUTS.values()]
    if op != "deviation":  # float64 has no kernel for those of equal numbers, which are 0
        kinds.append(repeated)
    call = Call(
        tuple(x if x is None else data.draw(st.sampled_from(kinds))(x) for x in inputs), attrs
    )
    if lowered(op, call.inputs, attrs) is None:
        assert op in IN_PLACE
        return
    found = result(op, call)
    assert bits(found) == bits(eager(op, call))
    for out, expected in zip(found, by_numpy(op, call), strict=True):
        digit = np.finfo(out.dtype).eps if out.dtype.kind == "f" else 0
        np.testing.assert_allclose(out, expected, rtol=30 * digit, atol=30 * digit)


@pytest.mark.parametrize("op", CALLS)
def test_no_elements_are_refused_or_give_numpy_result(op: str) -> None:
    dtype = dtypes_of(op)[0]
    for call in CALLS[op](0, dtype):
        if lowered(op, call.inputs, call.attrs) is not None:
            check_same(result(op, call), by_numpy(op, call))


WINDOW = {"kernel": (3, 3), "stride": (1, 1), "padding": ((0, 0), (0, 0))}
ONE_BIAS = (np.ones((1, 1, 4, 4)), np.ones((4, 1, 3, 3)), np.ones(1))
REFUSED: dict[str, tuple[str, Call]] = {
    "a bias that NumPy would repeat": ("conv", Call(ONE_BIAS, geometry())),
    "oblong matrices": ("mirrored", Call((np.ones((3, 4)),), {})),
    "no axes": ("cumulative_sum", Call((np.ones(()),), {"axis": 0, "reverse": False})),
    "windows larger than the image": (
        "max_pool",
        Call((np.ones((1, 1, 2, 2)),), {**WINDOW, "dilation": (1, 1)}),
    ),
    "another byte order": ("window_sum", Call((np.ones((1, 1, 9, 9), ">f4"),), WINDOW)),
    "complex numbers": ("exp", Call((np.ones(3, "c8"),), {})),
    "no such op": ("none", Call((np.ones(3),), {})),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_kernels_do_not_do_has_no_launches(why: str) -> None:
    op, call = REFUSED[why]
    assert lowered(op, call.inputs, call.attrs) is None


# Records of all ops.

SPACED = "index arrays apart from each other"
FEW = "NumPy adds fewer windows than they have elements in another order"
NO_KERNEL = {
    **dict.fromkeys(("floor_divide", "remainder"), "of floats"),
    **dict.fromkeys(("index", "scatter"), SPACED),
    **dict.fromkeys(("window_sum", "window_spread"), FEW),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", CALLS)
def test_records_are_lowered_from_layouts(op: str, dtype: str, chunks: list[int]) -> None:
    for sample in RECORDS[op]:
        call = call_of(sample, dtype)
        launches = lowered(op, call.inputs, call.attrs)
        if launches is None:
            assert op in NO_KERNEL or not all(x.size for x in present(call))
            continue
        chunks.clear()
        expected = eager(op, call)
        if not chunks and op in SUMS_OF_PRODUCTS:  # NumPy's BLAS adds in another order
            call = whole(call)
            expected = by_numpy(op, call)
        for memory in memories(launches, call):
            assert bits(run_in(memory, launches, call)) == bits(expected)


# Memory that is shared, and data that kernels don't do.


@pytest.mark.parametrize("op", ELEMENTWISE)
def test_results_may_overwrite_operands_where_launches_say_so(op: str) -> None:
    for n, dtype in itertools.product((7, LARGE), dtypes_of(op)):
        (call,) = CALLS[op](n, dtype)
        launches = lowered(op, call.inputs, call.attrs)
        assert launches is not None
        expected, operands = bits(eager(op, call)), present(call)
        same = [k for k, x in enumerate(operands) if x.nbytes == launches[0].results[0].bytes]
        assert [*launches[0].overwrites] == [(0, k) for k in same]
        check_in_place(launches, call, expected)


def check_in_place(launches: tuple[Launch, ...], call: Call, expected: list) -> None:
    operands = present(call)
    for out, operand in launches[0].overwrites:
        memory = Arena(runner.pieces_for(launches, operands, True))
        runner.placed(memory, launches, operands)
        addresses = memory.addresses
        addresses[len(operands) + out] = addresses[operand]
        assert runner.run(runner.bound(launches, addresses, call.attrs))
        found = [memory.array(len(operands) + k, x) for k, x in enumerate(launches[0].results)]
        found[out] = memory.array(operand, launches[0].results[out])
        assert bits(found) == expected


ROWS_IN_PLACE = ("scaled_standardize", "standardize", "standardize_gradient")


@pytest.mark.parametrize("op", ROWS_IN_PLACE)
def test_results_of_rows_may_overwrite_operands_where_launches_say_so(op: str) -> None:
    """Also of those whose elements are no whole number of vectors."""
    for n, dtype in itertools.product((7, 100), dtypes_of(op)):
        for call in CALLS[op](n, dtype):
            launches = lowered(op, call.inputs, call.attrs)
            assert launches is not None and launches[0].overwrites
            check_in_place(launches, call, bits(eager(op, call)))


ROW = np.arange(1.0, 4.0)
WITHOUT_RESULT: dict[str, Call] = {
    "index": Call((ROW, np.array([0, 3])), {"spec": ("array",)}),
    "scatter": Call((ROW, np.array([0, -4, 1])), {"spec": ("array",), "shape": (3,)}),
    "take_along_axis": Call((ROW, np.array([3])), {"axis": 0}),
    "scatter_along_axis": Call((ROW, np.array([0, 1, 9])), {"axis": 0, "shape": (3,)}),
    "cross_entropy": Call((ROW, np.array([-4])), {"axis": 0}),
    "norm": Call((ROW * 1e-200,), {"axis": (0,), "keepdims": False}),
    "deviation": Call((ROW * 1e200,), {"axis": (0,)}),
}


@pytest.mark.parametrize("op", WITHOUT_RESULT)
def test_a_status_says_that_data_is_such_that_there_is_no_result(op: str) -> None:
    call = WITHOUT_RESULT[op]
    launches = lowered(op, call.inputs, call.attrs)
    assert launches is not None
    memory = Arena(runner.pieces_for(launches, present(call), True))
    runner.placed(memory, launches, present(call))
    assert not runner.run(runner.bound(launches, memory.addresses, call.attrs))
    memory.check_guards()


# Whole models: memory is planned, and only then there is any.


class Planned(NamedTuple):
    """An array at an offset of an arena that isn't there yet."""

    layout: Layout
    offset: int

    def reshape(self, *shape: int) -> "Planned":
        dtype = self.layout.dtype
        return Planned(Layout(shape, contiguous(shape, dtype.itemsize), dtype), self.offset)


class Plan:
    """A list of launches in one arena, of which each has offsets for its slots."""

    def __init__(self) -> None:
        self.size = 0
        self.held: list[tuple[Planned, np.ndarray]] = []
        self.launches: list[tuple[tuple[Launch, ...], list[int]]] = []
        self.zeroed: list[tuple[int, int]] = []

    def room(self, size: int) -> int:
        start = self.size
        self.size += -(-size // 64) * 64
        return start

    def hold(self, x: np.ndarray) -> Planned:
        """An array that is in the arena from the beginning."""
        planned = Planned(Layout(x.shape, x.strides, x.dtype), self.room(x.nbytes))
        self.held.append((planned, x))
        return planned

    def add(self, op: str, *operands: Planned | None, **attrs: Any) -> Planned:
        """Lower an op; returns its first result."""
        layouts = [None if x is None else x.layout for x in operands]
        launches = cpu.lower(op, layouts, attrs, current_target())
        assert launches is not None and not any(one.numbers for one in launches)
        results = [self.room(one.bytes) for one in launches[0].results]
        scratch = [self.room(one.bytes) for one in launches[0].scratch]
        for offset, one in zip(scratch, launches[0].scratch, strict=True):
            if one.zeroed:
                self.zeroed.append((offset, one.bytes))
        slots = [x.offset for x in operands if x is not None]
        self.launches.append((launches, [*slots, *results, *scratch]))
        out = launches[0].results[0]
        return Planned(Layout(out.shape, out.strides, out.dtype), results[0])

    def run(self, out: Planned) -> np.ndarray:
        """Make the arena, bind all launches, and then run them one after the other."""
        arena = Arena([Piece(self.size)])
        (start,) = arena.addresses
        for x, values in self.held:
            arena.array(0, x.layout, x.offset)[...] = values
        for offset, size in self.zeroed:
            ctypes.memset(start + offset, 0, size)
        steps = [
            step
            for launches, offsets in self.launches
            for step in runner.bound(launches, [start + offset for offset in offsets])
        ]
        assert runner.run(steps)
        arena.check_guards()
        return arena.array(0, out.layout, out.offset)


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_perceptron_runs_as_a_list_of_launches(dtype: str) -> None:
    sizes = ((20, 30), (50, 30), (50,), (10, 50), (10,))
    arrays = [normal(*shape, dtype=dtype, seed=k) for k, shape in enumerate(sizes)]
    plan = Plan()
    x, w1, b1, w2, b2 = (plan.hold(a) for a in arrays)
    hidden = plan.add("relu", plan.add("linear", x, w1, b1))
    found = plan.run(plan.add("log_softmax", plan.add("linear", hidden, w2, b2), axis=-1))

    x, w1, b1, w2, b2 = (ad.tensor(a) for a in arrays)
    hidden = ad.relu(ad.nn.functional.linear(x, w1, b1))
    expected = ad.log_softmax(ad.nn.functional.linear(hidden, w2, b2), axis=-1)
    assert bits([found]) == bits([expected.numpy()])


@pytest.mark.parametrize("images", [2, 20])
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_convolutional_network_runs_as_a_list_of_launches(dtype: str, images: int) -> None:
    sizes = ((images, 3, 12, 12), (8, 3, 3, 3), (8,), (6, 8, 3, 3), (6,), (10, 96), (10,))
    arrays = [normal(*shape, dtype=dtype, seed=k) for k, shape in enumerate(sizes)]
    plan = Plan()
    x, w1, b1, w2, b2, w3, b3 = (plan.hold(a) for a in arrays)
    hidden = plan.add("relu", plan.add("conv", x, w1, b1, **SAME))
    hidden = plan.add("max_pool", hidden, **HALVING, dilation=(1, 1))
    hidden = plan.add("relu", plan.add("conv", hidden, w2, b2, **geometry()))
    found = plan.run(plan.add("linear", hidden.reshape(images, 96), w3, b3))

    x, w1, b1, w2, b2, w3, b3 = (ad.tensor(a) for a in arrays)
    hidden = ad.relu(ad.nn.functional.conv2d(x, w1, b1, padding=1))
    hidden = ad.nn.functional.max_pool2d(hidden, 2)
    hidden = ad.relu(ad.nn.functional.conv2d(hidden, w2, b2))
    expected = ad.nn.functional.linear(hidden.reshape(images, 96), w3, b3)
    assert bits([found]) == bits([expected.numpy()])


# Threads.


@pytest.mark.parametrize("op", CALLS)
def test_launches_for_one_number_of_threads_run_on_another(op: str, threads: Callable) -> None:
    dtype = dtypes_of(op)[0]
    for call in CALLS[op](LARGE, dtype):
        threads(1)
        expected = bits(eager(op, call))
        for lowered_for, run_on in ((1, 2), (2, 1), (5, 2)):
            target = current_target()._replace(threads=lowered_for)
            launches = lowered(op, call.inputs, call.attrs, target)
            assert launches is not None
            threads(run_on)
            memory = Arena(runner.pieces_for(launches, present(call), False))
            assert bits(run_in(memory, launches, call)) == expected


# Caches.


@pytest.mark.parametrize("kind", ["elements", "rows"])
def test_a_hundred_thousand_shapes_leave_no_more_memory_than_a_few(kind: str) -> None:
    one = np.ones(1)
    rows = NativeOp("sum", None)
    elements = launcher_of("exp", (one.dtype,), (), None)
    assert elements is not None
    cache = rows.launches if kind == "rows" else elements.launches

    def lower(n: int) -> None:
        x = np.broadcast_to(one, (n,))
        if kind == "rows":
            rows.lower(x.shape, [x], {"axis": (0,), "keepdims": False})
        else:
            elements.lower(x.shape, [x], None, None)

    blocks = []
    for n in range(1, 100_001):
        lower(n)
        if n % 10_000 == 0:
            assert len(cache) + len(cache.older) <= 2 * MOST_LAUNCHES
        if n in (48 * MOST_LAUNCHES, 96 * MOST_LAUNCHES):
            gc.collect()  # of other tests, which may be due at any time
            blocks.append(sys.getallocatedblocks())
    assert blocks[1] - blocks[0] < 1000
