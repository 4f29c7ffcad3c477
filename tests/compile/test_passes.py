"""The passes of compile by themselves, on small graphs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint._compile.draft import Draft
from adjoint._compile.groups import group, grouped, parts
from adjoint._compile.layouts import Buffer, Place, moved, up_to
from adjoint._compile.lowering import HostStep
from adjoint._compile.memory import ORDERS, place_in_order, place_scratch
from adjoint._compile.schedule import Lives, scheduled
from adjoint._compile.simplify import simplify
from adjoint._compile.units import Unit
from adjoint._trace.recording import Traced
from adjoint.backends.cpu.jit.lists import Listing
from tests.support.helpers import needs_kernels

pytestmark = needs_kernels
F = ad.nn.functional
X, Y = ad.ones((2, 3)), ad.ones((2, 3))


def draft_of(function: Callable, *args: ad.Tensor) -> Draft:
    graph = ad.trace(function, *args)
    captured = [(x, slot.owner) for x, slot in graph.captures]
    constants = {x: owner.raw for x, owner in captured if isinstance(owner, ad.Tensor)}
    return Draft(graph.steps, constants, [result.value for result in graph.results])


def simplified(function: Callable, *args: ad.Tensor) -> str:
    return repr(simplify(draft_of(function, *args)))


def ops(function: Callable, *args: ad.Tensor) -> list[str]:
    """What is left to do."""
    return [step.op.name for step in simplify(draft_of(function, *args)).steps]


# Simplify.

NOTHING_LEFT: dict[str, Callable] = {
    "x * 1": lambda x: x * 1,
    "1 * x": lambda x: 1.0 * x,
    "x / 1": lambda x: x / 1,
    "x - 0": lambda x: x - 0,
    "x + -0.0": lambda x: x + -0.0,
    "x * ones": lambda x: x * ad.ones((2, 3)),
    "--x": lambda x: ad.negative(-x),
    "x.mT.mT": lambda x: x.mT.mT,
    "axes there and back": lambda x: ad.permute_dims(ad.permute_dims(x, (1, 0)), (1, 0)),
    "shapes there and back": lambda x: x.reshape((3, 2)).reshape((6,)).reshape((2, 3)),
    "dtypes there and back": lambda x: ad.astype(ad.astype(x, ad.float64), ad.float32),
    "the choice is known": lambda x: ad.where(ad.full((2, 3), True), x, 7),
}


@pytest.mark.parametrize("name", NOTHING_LEFT)
def test_what_changes_nothing_is_left_out(name: str) -> None:
    assert ops(NOTHING_LEFT[name], X) == []


STAYS: dict[str, Callable] = {
    "x + 0 makes 0 of -0": lambda x: x + 0,
    "x * 0 keeps NaN": lambda x: x * 0,
    "0 - x": lambda x: 0 - x,
    "x - -0.0 makes 0 of -0": lambda x: x - -0.0,
    "x * -1": lambda x: x * -1,
    "1 / x": lambda x: 1 / x,
    "digits are lost": lambda x: ad.astype(ad.astype(x, ad.float16), ad.float32),
    "x / x": lambda x: x / x,
    "x - x": lambda x: x - x,
}


@pytest.mark.parametrize("name", STAYS)
def test_what_changes_some_number_stays(name: str) -> None:
    assert ops(STAYS[name], X) != []
    special = ad.asarray(np.array([[-0.0, 0.0, np.nan], [np.inf, -np.inf, 1 / 3]], "f4"))
    function = ad.compile(STAYS[name])
    with np.errstate(all="ignore"):
        found, expected = function(special).numpy(), STAYS[name](special).numpy()
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers])


def test_integers_have_one_zero() -> None:
    assert ops(lambda n: n + 0, ad.ones((2,), dtype=ad.int64)) == []


def test_equal_steps_are_one() -> None:
    assert ops(lambda x, y: (x * y + x * y, x * y), X, Y) == ["multiply", "add"]


def test_zeros_of_both_signs_are_not_equal() -> None:
    assert ops(lambda x: (x + 0.0, ad.maximum(x, 0.0), ad.maximum(x, -0.0)), X) == [
        "add",
        "maximum",
        "maximum",
    ]


def test_steps_that_nobody_needs_are_left_out() -> None:
    assert ops(lambda x, y: (ad.exp(x), x * y)[1], X, Y) == ["multiply"]


def test_what_depends_on_nothing_is_computed_once() -> None:
    function = lambda x: x * (ad.arange(3) * 2.0 + 1) + ad.exp(ad.full((2, 3), 0.0))  # noqa: E731
    assert ops(function, X) == ["multiply", "add"]
    assert "add(%" in simplified(function, X) and ", 1.0)" in simplified(function, X)


def test_random_numbers_are_neither_equal_nor_constant() -> None:
    found = ops(lambda: (ad.random.uniform((3,)), ad.random.uniform((3,))))
    assert found.count("random_bits") == 2


def test_sums_of_equal_numbers_are_known() -> None:
    assert ops(lambda x: x * ad.sum(ad.full((4, 5), 0.5)), X) == ["multiply"]
    assert "10.0" in simplified(lambda x: x * ad.sum(ad.full((4, 5), 0.5)), X)


@pytest.mark.filterwarnings("error")
def test_sums_of_nothing_are_zero_and_large_ones_infinite() -> None:
    x = ad.ones((2,), dtype=ad.float64)
    for value, count in ((np.inf, 0), (np.nan, 0), (1e308, 10)):
        function = lambda x, v=value, n=count: x + ad.sum(ad.full((n,), v, dtype=ad.float64))  # noqa: E731
        assert ad.compile(function)(x).tolist() == [np.inf if count else 1.0] * 2


def test_integers_that_a_float_cannot_hold_are_rounded_on_the_way() -> None:
    for dtype in ("int64", "uint64"):
        x = ad.asarray(np.array([2**53 + 1, 3], dtype))
        for wide in (ad.float64, ad.complex128):
            function = lambda x, w=wide: ad.astype(ad.real(ad.astype(x, w)), x.dtype)  # noqa: E731
            np.testing.assert_array_equal(ad.compile(function)(x).numpy(), function(x).numpy())


@pytest.mark.parametrize("call", [lambda z: z + 0, lambda z: z * 1, lambda z: z / 1])
def test_complex_numbers_are_not_left_as_they_are(call: Callable) -> None:
    z = ad.asarray(np.array([complex(-0.0, -0.0), complex(np.inf, 0), 1 + 2j], "c8"))
    found, expected = (x.numpy().view("f4") for x in (ad.compile(call)(z), call(z)))
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers])


@pytest.mark.parametrize("shape", [(3, 3), (3, 3, 3), (1, 1), (4, 1)])
def test_what_is_reduced_along_an_axis_is_spread_along_the_right_one(shape: tuple) -> None:
    x = ad.asarray(np.random.default_rng(0).standard_normal(shape))
    for axis in range(len(shape)):
        kept = shape[:axis] + shape[axis + 1 :]
        if np.broadcast_shapes(kept, shape) != shape:
            continue
        calls = [
            lambda x, k=axis: ad.broadcast_to(ad.sum(x, axis=k), x.shape),
            lambda x, k=axis: ad.tanh(x) * ad.max(x, axis=k) - ad.sum(x * x, axis=k, keepdims=True),
            ad.grad(lambda x, k=axis: ad.sum(ad.square(x - ad.mean(x, axis=k)))),
            ad.grad(lambda x, k=axis: ad.sum(ad.sum(x, axis=0) * ad.sum(x * 2.0, axis=k))),
        ]
        for call in calls:
            np.testing.assert_allclose(ad.compile(call)(x).numpy(), call(x).numpy(), 1e-12)


def test_triangles_are_choices_by_one_mask() -> None:
    function = lambda x, y: (ad.tril(x), ad.tril(y), ad.triu(x))  # noqa: E731
    draft = simplify(draft_of(function, X, Y))
    assert [step.op.name for step in draft.steps] == ["where"] * 3
    assert sorted(a.astype(int).tolist() for a in draft.constants.values()) == [
        [[1, 0, 0], [1, 1, 0]],
        [[1, 1, 1], [0, 1, 1]],
    ]


def test_a_draft_can_be_read() -> None:
    text = simplified(lambda x: ad.tanh(x) * 2.0, X)
    first, second, last = text.splitlines()
    assert "tanh(" in first and "float32[2, 3]" in first
    assert "multiply(" in second and last.startswith("keep %")


# Views.

SOURCE = np.arange(24.0).reshape(2, 3, 4)
MOVEMENTS: list[Callable] = [
    lambda x: ad.permute_dims(x, (2, 0, 1)),
    lambda x: x.mT,
    lambda x: x.reshape((6, 4)),
    lambda x: x.reshape((2, 1, 12)),
    lambda x: ad.broadcast_to(x, (5, 2, 3, 4)),
    lambda x: x[:, None],
    lambda x: x[1, ::-1, 1:3],
    lambda x: x[..., -1],
    lambda x: x[:, 3:1],
    lambda x: x[:0],
]


@pytest.mark.parametrize("call", MOVEMENTS)
@pytest.mark.parametrize("axes", [(0, 1, 2), (0, 2, 1), (2, 1, 0)])
def test_a_view_lies_where_numpy_s_does(call: Callable, axes: tuple[int, ...]) -> None:
    """Also of memory in another order, unless that needs a copy."""
    array = np.ascontiguousarray(SOURCE.transpose(axes)).transpose(np.argsort(axes))
    graph = ad.trace(call, ad.asarray(SOURCE))
    memory = np.frombuffer(np.ascontiguousarray(SOURCE.transpose(axes)).tobytes(), np.uint8)
    place: Place | None = Place(Buffer("object", 192), array.shape, array.strides, array.dtype)
    for step in graph.steps:
        assert place is not None
        place = moved(step, place)
    if place is None:
        assert axes != (0, 1, 2)
        return
    expected = call(ad.asarray(SOURCE)).numpy()
    found = (
        np.ndarray(place.shape, place.dtype, memory.data, place.offset, place.strides)
        if expected.size
        else np.empty(place.shape)
    )
    np.testing.assert_array_equal(found, expected, strict=True)


# Groups.


def grouped_of(draft: Draft) -> list[Unit]:
    """Groups that need no more memory than single steps."""
    lives = Lives(draft)
    return next(group(draft, lives, single_peak(draft, lives)))


def single_peak(draft: Draft, lives: Lives) -> int:
    return lives.peak([[step] for step in draft.steps])


def units(function: Callable, *args: ad.Tensor) -> list[list[str]]:
    found = grouped_of(simplify(draft_of(function, *args)))
    return [[step.op.name for step in unit.steps] for unit in found]


def test_elementwise_steps_of_one_shape_are_one_group() -> None:
    assert units(lambda x, y: ad.tanh(x * y) + ad.exp(x), X, Y) == [
        ["multiply", "tanh", "exp", "add"]
    ]


def test_rows_are_reduced_in_the_group_that_makes_and_reads_them() -> None:
    function = lambda x: (e := ad.exp(x)) / ad.sum(e, axis=1, keepdims=True)  # noqa: E731
    assert units(function, X) == [["exp", "sum", "divide"]]


def test_sums_along_other_axes_are_other_groups() -> None:
    found = units(lambda x: (ad.sum(x * 2, axis=0), ad.sum(x * 2, axis=1)), X)
    assert sorted(len(unit) for unit in found) == [1, 2]


def test_products_stand_alone() -> None:
    found = units(lambda x, y: ad.tanh(ad.tanh(x) @ y.mT), X, Y)
    assert ["matmul"] in found and sum(len(unit) for unit in found) == 4


def test_another_shape_is_another_group() -> None:
    found = units(lambda x: (ad.exp(x), ad.exp(x[0])), X)
    assert [unit for unit in found if "exp" in unit] == [["exp"], ["exp"]]


def test_a_group_can_be_read() -> None:
    (unit,) = grouped_of(simplify(draft_of(lambda x: ad.tanh(x) * 2.0, X)))
    assert repr(unit).splitlines()[0] == "group over (2, 3):"
    assert len(repr(unit).splitlines()) == 3


CHOICES = ["tanh", "add", "multiply", "row", "column", "total", "matmul", "transpose", "spread"]


@st.composite
def programs(draw: st.DrawFn) -> list[tuple[str, int, int]]:
    """Ops, and the values that they take, counted from the last one."""
    step = st.tuples(st.sampled_from(CHOICES), st.integers(0, 9), st.integers(0, 9))
    return draw(st.lists(step, min_size=1, max_size=25))


def run(program: list[tuple[str, int, int]], x: ad.Tensor, y: ad.Tensor) -> tuple:
    """Any two values fit: all are made square, (4, 4)."""
    values = [x, y]
    for name, k, j in program:
        a, b = values[-1 - k % len(values)], values[-1 - j % len(values)]
        values.append(
            {
                "tanh": lambda a, b: ad.tanh(a),
                "add": lambda a, b: a + b,
                "multiply": lambda a, b: a * b * 0.5,
                "row": lambda a, b: a - ad.mean(b, axis=1, keepdims=True),
                "column": lambda a, b: a * ad.max(b, axis=0),
                "total": lambda a, b: a + ad.sum(b) * 0.1,
                "matmul": lambda a, b: ad.tanh(a @ b),
                "transpose": lambda a, b: a.mT + 1,
                "spread": lambda a, b: ad.broadcast_to(ad.sum(a * b, axis=0), (4, 4)) * 0.1,
            }[name](a, b)
        )
    return tuple(values[-3:])


A, B = (ad.asarray(np.random.default_rng(k).uniform(-1, 1, (4, 4)).astype("f4")) for k in (0, 1))


@settings(max_examples=150, deadline=None)
@given(programs())
def test_no_unit_comes_before_what_it_needs(program: list[tuple[str, int, int]]) -> None:
    """And each step is in one unit, after those whose results it takes."""
    draft = simplify(draft_of(lambda x, y: run(program, x, y), A, B))
    found = grouped_of(draft)
    steps = [step for unit in found for step in unit.steps]
    assert sorted(map(id, steps)) == sorted(map(id, draft.steps))
    made = {x for step in draft.steps for x in step.results}
    done: set[Any] = set()
    for unit in found:
        own = set(unit.values)
        assert {x for x in unit.inputs if x in made and x not in own} <= done
        for step in unit.steps:
            inputs = {x for x in step.inputs if type(x) is Traced and x in made}
            assert inputs <= done
            done.update(step.results)


@settings(max_examples=25, deadline=None)
@given(programs())
def test_random_programs_give_what_eager_gives(program: list[tuple[str, int, int]]) -> None:
    """Sums in float32 may be associated otherwise, and tanh of few numbers is NumPy's."""
    found = ad.compile(lambda x, y: run(program, x, y))(A, B)
    with np.errstate(all="ignore"):
        expected = run(program, A, B)
    for x, y in zip(found, expected, strict=True):
        a, b = x.numpy(), y.numpy()
        scale = np.abs(b[np.isfinite(b)]).max(initial=1)
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3 * scale)


# Sums of products.


def test_products_are_added_where_the_first_one_lies() -> None:
    x = ad.asarray(np.random.default_rng(0).standard_normal((5, 5)))
    function = lambda x: ((x @ x) + (x.mT @ x)) + x @ x.mT  # noqa: E731
    assert sorted(map(sorted, units(function, x))) == [
        ["add", "matmul"],
        ["add", "matmul"],
        ["matmul"],
        ["matrix_transpose"],
    ]
    found = built(function, x)
    assert [len(item.own) for item in found.items] == [1, 1, 1]
    assert len({item.own[0] for item in found.items}) == 1 and not found.code.arena


KEPT_APART: dict[str, Callable] = {
    "a product that is read twice": lambda x: ((p := x @ x) + x.mT @ x, p * 2),
    "a product that is a result": lambda x: ((p := x @ x) + x.mT @ x, p),
    "the same product": lambda x: (p := x @ x) + p,
    "another shape": lambda x: x @ x + x @ x[0],
}


@pytest.mark.parametrize("name", KEPT_APART)
def test_products_that_others_need_stay_as_they_are(name: str) -> None:
    x = ad.asarray(np.random.default_rng(0).standard_normal((5, 5)))
    assert ["add", "matmul"] not in map(sorted, units(KEPT_APART[name], x))


# The order of units, and who computes what.


def factor(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
    """h waits for a product anyway; 1 - h * h needn't wait beside it."""
    h = ad.tanh(x)
    slope = 1 - h * h
    return ((y @ h) @ h.mT) @ y * slope


def test_what_a_later_group_alone_needs_is_computed_there() -> None:
    assert units(factor, B, A)[-1] == ["multiply", "subtract", "multiply"]
    slope = lambda x, y: (h := ad.tanh(x), 1 - h * h, (y @ h) @ y)  # noqa: E731
    assert ["tanh", "multiply", "subtract"] in units(slope, B, A)  # it is a result itself


def test_values_are_computed_early_where_more_would_wait_for_them() -> None:
    """Two arrays would wait in the place of their sum."""
    function = lambda x, y: ((s := x @ y + ad.tanh(x)), (y @ s) @ y * (x @ x + ad.exp(y)))  # noqa: E731
    draft = simplify(draft_of(function, A, B))
    lives = Lives(draft)
    assert lives.peak(parts(grouped_of(draft))) <= single_peak(draft, lives)


def test_units_come_late_where_nobody_needs_them_before() -> None:
    """A sum that is recorded first, and needed last, isn't done first."""
    function = lambda x, y: (r := ad.sum(x @ y), ad.tanh((y @ x) @ y) * r)[1]  # noqa: E731
    draft = simplify(draft_of(function, A, B))
    lives = Lives(draft)
    found = scheduled(list(reversed(grouped_of(draft))), lives)
    assert lives.peak(parts(found)) <= single_peak(draft, lives)


def test_the_peak_of_memory() -> None:
    draft = draft_of(lambda x: (ad.tanh(x.T) * 2).sum(), ad.ones((4, 8)))
    assert [step.op.name for step in draft.steps][:2] == ["permute_dims", "tanh"]
    lives = Lives(draft)
    assert single_peak(draft, lives) == 2 * 4 * 8 * 4  # views have no memory
    assert lives.peak([draft.steps]) == 0


def test_what_a_reshape_copies_counts_in_the_peak_of_memory() -> None:
    draft = draft_of(lambda x: x.T.reshape((4, 8)) * 2, ad.ones((4, 8)))
    assert single_peak(draft, Lives(draft)) == 4 * 8 * 4
    draft = draft_of(lambda x: x.reshape((8, 4)) * 2, ad.ones((4, 8)))
    assert single_peak(draft, Lives(draft)) == 0


def deep(segments: int) -> Callable:
    weights = [ad.random.normal((32, 32)) * 0.1 for _ in range(9)]
    layers = [lambda x, w=w: ad.tanh(x @ w) for w in weights]
    return lambda x: (
        ad.checkpoint_sequential(layers, segments, x).sum()
        if segments
        else ([x := layer(x) for layer in layers][-1].sum())
    )


def test_checkpoints_compute_again() -> None:
    x = ad.random.normal((64, 32))
    arenas = [built(ad.grad(deep(segments)), x).code.arena for segments in (0, 3)]
    assert arenas[1] < 0.7 * arenas[0]
    function = ad.grad(deep(3))
    close(ad.compile(function)(x), function(x))


def summed(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
    """Groups of as many products as fit would wait for them."""
    total = x * 0.5
    for _ in range(20):
        x = ad.tanh(x @ y)
        total = total + (x @ y.mT) * 0.25
    return total


def test_groups_dont_wait_for_more_than_single_steps_have() -> None:
    x, y = ad.random.normal((16, 16)), ad.random.normal((16, 16)) * 0.2
    draft = simplify(draft_of(summed, x, y))
    lives = Lives(draft)
    single = single_peak(draft, lives)
    most, least = (lives.peak(parts(grouped(draft, lives, k))) for k in (False, True))
    assert most > single >= least
    assert built(summed, x, y).code.arena <= single
    close(ad.compile(summed)(x, y), summed(x, y))


def close(one: ad.Tensor, other: ad.Tensor) -> None:
    expected = other.numpy()
    np.testing.assert_allclose(one.numpy(), expected, rtol=1e-4, atol=1e-5 * abs(expected).max())


# Memory.

LIVES = st.lists(
    st.tuples(st.integers(0, 2000), st.integers(0, 12), st.integers(0, 6)), min_size=1, max_size=30
)


@given(LIVES)
def test_no_two_buffers_that_live_at_once_overlap(lives: list[tuple[int, int, int]]) -> None:
    buffers = [Buffer("scratch", size, k) for k, (size, _, _) in enumerate(lives)]
    for buffer, (_, first, length) in zip(buffers, lives, strict=True):
        buffer.first, buffer.last = first, first + length
    arena = place_scratch(buffers)
    for one in buffers:
        assert not one.offset % one.alignment and one.offset + one.nbytes <= arena
        for other in buffers:
            apart = one.last < other.first or other.last < one.first
            below = one.offset + one.nbytes <= other.offset
            above = other.offset + other.nbytes <= one.offset
            assert one is other or apart or below or above
    total = max(sum(b.nbytes for b in buffers if b.first <= k <= b.last) for k in range(20))
    assert total <= arena <= sum(up_to(64, b.nbytes) for b in buffers)


def test_buffers_that_end_too_high_look_for_a_place_first() -> None:
    buffers = [Buffer("scratch", size, k) for k, size in enumerate((320, 384, 320, 192))]
    for buffer, (first, last) in zip(buffers, ((0, 4), (6, 10), (3, 6), (2, 4)), strict=True):
        buffer.first, buffer.last = first, last
    assert min(place_in_order(sorted(buffers, key=key)) for key in ORDERS) == 896
    assert place_scratch(buffers) == 320 + 320 + 192


def test_equal_steps_stay_apart_where_their_result_would_wait_too_long() -> None:
    def function(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
        first, between = ad.sum((x + 1.0) @ y), ad.sum((y @ y) @ x)
        return first * between + ad.sum((x + 1.0) @ x)

    x, y = ad.random.normal((16, 16)), ad.random.normal((16, 16))
    found = built(function, x, y)
    assert [step.op.name for step in found.draft.steps].count("add") == 3
    assert found.code.arena <= found.eager_peak
    close(ad.compile(function)(x, y), function(x, y))


def noting(name: str, calls: list[str]) -> Callable:
    """An op with a kernel of its own, which does more than give a result."""

    def kernel(x: np.ndarray) -> np.ndarray:
        calls.append(name)
        return x + 1

    shape = lambda x_shape: x_shape  # noqa: E731
    return ad.op.other(name, x=lambda g: g, shape=shape, kernels={"cpu": kernel})


def test_ops_with_kernels_of_ones_own_keep_their_order_and_run_though_nobody_needs_them() -> None:
    calls: list[str] = []
    first, second, third = (noting(name, calls) for name in ("first", "second", "third"))

    def function(x: ad.Tensor, wide: ad.Tensor) -> ad.Tensor:
        late = first(ad.exp(wide).sum(axis=0, keepdims=True))
        second(x)
        return third(ad.tanh(x)) * 2 + late.sum()

    x = ad.random.normal((3,))
    for size in (2, 5000):
        wide = ad.random.normal((size,))
        call = ad.compile(function)
        call(x, wide)
        calls.clear()
        out = call(x, wide)
        assert calls == ["first", "second", "third"]
        close(out, function(x, wide))


def test_a_result_takes_over_an_operand_that_nobody_needs_any_more() -> None:
    """Also of one that has done so itself: a chain has the memory of one array."""
    x = ad.ones((16, 16))
    found = built(lambda x, y: ((((x @ y) * 2) @ y) + 1) @ y, x, x)
    assert found.code.arena <= 3 * x.nbytes


# Listing.


def built(function: Callable, *args: ad.Tensor) -> Any:
    own = ad.compile(function)
    own(*args)
    ((_, program),) = own._programs
    return program.built


def can_fail(listing: Listing) -> bool:
    return any(listed.launch.status is not None for listed in listing.listed)


def test_a_listing_has_a_line_for_each_launch_and_an_address_for_each_array() -> None:
    found = built(lambda x, y: ad.tanh(x * y), X, Y)
    (item,), (listing,) = found.items, found.code.segments
    assert len(listing) == len(item.launches) == 1
    assert len(listing.launches) == 4 and not can_fail(listing)
    assert sum(np.diff(listing.starts)) == 3


def test_launches_that_can_fail_are_known() -> None:
    found = built(lambda x, i: x[i] * 2, X, ad.asarray([0, 1]))
    assert [can_fail(part) for part in found.code.segments] == [True]


def test_host_steps_cut_a_list() -> None:
    found = built(lambda x: ad.tanh(ad.linalg.cholesky(ad.tanh(x)) * 2), ad.eye(3))
    kinds = [type(part) for part in found.code.segments]
    assert kinds == [Listing, HostStep, Listing]


def test_no_more_operands_are_copied_than_a_kernel_cannot_read() -> None:
    x, y, z = (np.random.default_rng(k).standard_normal((12, 12)) for k in range(3))
    x, y, z = ad.asarray(x[:6, :6]), ad.asarray(y[:6, :6]), ad.asarray(z[::2, ::2])
    function = lambda x, y, z: x @ y + x.T @ z  # noqa: E731
    compiled = ad.compile(function)
    np.testing.assert_allclose(compiled(x, y, z).numpy(), function(x, y, z).numpy(), 1e-12)
    ((_, program),) = compiled._programs
    names = [launch.name for item in program.built.items for launch in item.launches]
    assert names == ["matmul", "elements", "matmul"]  # one copy; the sum is where the first lies


def test_results_that_are_copied_do_not_wait_for_the_end() -> None:
    def function(x: Any) -> Any:
        wide = ad.broadcast_to(x * 2.0, (3, 8, 8))
        y = x
        for _ in range(3):
            y = ad.tanh(y @ y)
        return wide, y

    x = ad.ones((8, 8))
    compiled = ad.compile(function)
    for one, other in zip(compiled(x), function(x), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), 1e-6)
    ((_, program),) = compiled._programs
    names = [launch.name for item in program.built.items for launch in item.launches]
    assert names[:2] == ["elements", "elements"]
    assert program.built.code.arena == 2 * x.size * 4
