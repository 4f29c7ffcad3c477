"""Taking from places, putting at places and joining, on a GPU: the same as NumPy's functions do.

Floats that are added are small whole numbers where the order isn't what is tested: their sums are
exact, so results are equal bit for bit.
"""

import math

import numpy as np
import pytest

from adjoint.backends.cpu import NUMPY
from tests.webgpu.calls import laid_out, same

pytestmark = pytest.mark.webgpu

LAYOUTS = (
    "plain",
    "transposed",
    pytest.param("sliced at both ends", id="sliced"),
    "backwards",
)
ALL = slice(None)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture(autouse=True)
def in_range(webgpu):
    """Nothing is left for the next test to be blamed for."""
    yield
    check(webgpu)


def check(webgpu) -> None:
    """Look at what programs have found wrong, if they may have found anything."""
    if webgpu.gpu.status.is_due:
        webgpu.gpu.read(webgpu.gpu.status.array)


def whole(rng, shape, dtype="f4") -> np.ndarray:
    """Small whole numbers."""
    if np.dtype(dtype).kind == "b":
        return rng.random(shape) < 0.4
    return rng.integers(0 if np.dtype(dtype).kind == "u" else -9, 10, shape).astype(dtype)


def places(rng, length: int, shape) -> np.ndarray:
    return rng.integers(-length, length, shape).astype("i4")


# shape of the tensor, spec, shapes of the index arrays and the lengths of their axes
INDICES = [
    ((5, 7), ("array",), [((3, 4), 5)]),
    ((5, 7), (ALL, "array"), [((11,), 7)]),
    ((5, 7), ("array",), [((), 5)]),
    ((5, 7, 6), ("array", "array"), [((4, 1), 5), ((3,), 7)]),
    ((5, 7, 6), ("array", slice(1, None, 2), "array"), [((3, 4), 5), ((4,), 6)]),
    ((5, 7, 6), (slice(None, None, -1), "array", 2), [((9,), 7)]),
    ((5, 7, 6), (-2, slice(5, 1, -2), "array"), [((9,), 6)]),
    ((5, 7, 6), (None, "array", None), [((2, 3), 5)]),
    ((5, 7, 6), ("array", ..., "array", ALL), [((3,), 5), ((3,), 7)]),
    ((300, 3), ("array",), [((1000,), 300)]),
    ((2, 1300), (1, "array"), [((3, 700), 1300)]),
    ((3, 4, 5, 2), ("array",) * 4, [((6,), 3), ((2, 6), 4), ((1, 1), 5), ((6,), 2)]),
    ((2, 3, 2, 3, 2, 3, 2, 3, 2), (0, ALL, "array", slice(0, 2), 1), [((5,), 2)]),
    ((4, 3), ("array",), [((0,), 4)]),
    ((4, 0), ("array",), [((3,), 4)]),
    ((4, 3), ("array", slice(3, None)), [((5,), 4)]),
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("shape", "spec", "arrays"), INDICES)
def test_index(webgpu, rng, shape, spec, arrays, layout) -> None:
    indices = [places(rng, length, own) for own, length in arrays]
    same(webgpu, "index", whole(rng, shape), *indices, spec=spec, layout=layout)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("shape", "spec", "arrays"), INDICES)
def test_scatter(webgpu, rng, shape, spec, arrays, layout) -> None:
    indices = [places(rng, length, own) for own, length in arrays]
    x = whole(rng, NUMPY["index"](np.zeros(shape), *indices, spec=spec).shape)
    same(webgpu, "scatter", x, *indices, spec=spec, shape=shape, layout=layout)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("shape", "spec", "arrays"), INDICES)
def test_assign(webgpu, rng, shape, spec, arrays, layout) -> None:
    """Of duplicates the last stays."""
    indices = [places(rng, length, own) for own, length in arrays]
    x = whole(rng, shape)
    v = whole(rng, NUMPY["index"](x, *indices, spec=spec).shape)
    same(webgpu, "assign", x, v, *indices, spec=spec, layout=layout)


def test_the_last_of_many_that_are_written_at_once_stays(webgpu, rng) -> None:
    """Drivers in software write one after the other anyway: this is for a real GPU."""
    v = np.arange(300_000, dtype="i4")
    for _ in range(3):
        same(webgpu, "assign", np.zeros(3, "i4"), v, places(rng, 3, v.size), spec=("array",))


@pytest.mark.parametrize("dtype", ["f4", "i4", "u4", "?", "f2"])
def test_every_dtype_can_be_indexed(webgpu, rng, dtype) -> None:
    if np.dtype(dtype) not in webgpu.gpu.dtypes:
        pytest.skip(f"the adapter has no {dtype}")
    x, v = whole(rng, (9, 5), dtype), whole(rng, (70, 5), dtype)
    at, along = places(rng, 9, 70), places(rng, 9, (70, 5))
    same(webgpu, "index", x, at, spec=("array",))
    same(webgpu, "assign", x, v, at, spec=("array",))
    same(webgpu, "scatter", v, at, spec=("array",), shape=(9, 5))
    same(webgpu, "take_along_axis", x, along, axis=0)
    same(webgpu, "scatter_along_axis", v, along, axis=0, shape=(9, 5))
    same(webgpu, "scatter_along_axis", v[:20], along[:20], axis=0, shape=(9, 5))
    same(webgpu, "nonzero", x)
    same(webgpu, "concat", x, v, axis=0)
    same(webgpu, "pad", x, pad_width=((1, 0), (2, 3)), value=3)
    same(webgpu, "place", x, index=(slice(None, None, -2),), shape=(17, 5))


def test_bits_are_kept(webgpu) -> None:
    """NaNs with a payload, -0 and denormal numbers are moved as they are."""
    x = np.array([0x7FC12345, 0x80000000, 0x00000001, 0xFF800000], "u4").view("f4")
    at = webgpu.from_numpy(np.array([3, 2, 1, 0], "i4"))
    kernels, given = webgpu.FUNCTIONS, webgpu.from_numpy(x)
    for found in (
        kernels["index"](given, at, spec=("array",)),
        kernels["take_along_axis"](given, at, axis=0),
        kernels["assign"](given, kernels["index"](given, at, spec=("array",)), spec=(ALL,)),
    ):
        assert webgpu.to_numpy(found).view("u4").tolist() == x.view("u4")[::-1].tolist()
    padded = kernels["pad"](given, pad_width=((1, 0),), value=math.nan)
    assert webgpu.to_numpy(padded).view("u4")[1:].tolist() == x.view("u4").tolist()


def test_arrays_of_one_number(webgpu, rng) -> None:
    """They have no memory until a program needs it."""

    def number(shape, dtype, value):
        return webgpu.Array(shape, np.dtype(dtype), None, number=value)

    at = places(rng, 4, (6,))
    kernels, given = webgpu.FUNCTIONS, laid_out(webgpu, at)
    threes = np.full((6, 2), 3, "f4")
    for found, wanted in (
        (kernels["index"](number((4, 2), "f4", 3.0), given, spec=("array",)), threes),
        (
            kernels["index"](laid_out(webgpu, threes), number((5,), "i4", -1), spec=("array",)),
            threes[:5],
        ),
        (
            kernels["scatter"](number((6, 2), "f4", 3.0), given, spec=("array",), shape=(4, 2)),
            NUMPY["scatter"](threes, at, spec=("array",), shape=(4, 2)),
        ),
        (
            kernels["assign"](
                number((4, 2), "f4", 1.0), number((6, 2), "f4", 3.0), given, spec=("array",)
            ),
            NUMPY["assign"](np.ones((4, 2), "f4"), threes, at, spec=("array",)),
        ),
        (
            kernels["concat"](number((1, 2), "f4", 3.0), laid_out(webgpu, threes[1:]), axis=0),
            threes,
        ),
        (kernels["pad"](number((4, 2), "f4", 3.0), pad_width=((2, 0), (0, 0)), value=3), threes),
        (
            kernels["place"](number((2,), "f4", 3.0), index=(1,), shape=(3, 2)),
            np.array([[0, 0], [3, 3], [0, 0]], "f4"),
        ),
        (kernels["nonzero"](number((2, 2), "?", True)), np.array([[0, 0, 1, 1], [0, 1, 0, 1]])),
    ):
        np.testing.assert_array_equal(webgpu.to_numpy(found), wanted)


def test_unsigned_indices(webgpu, rng) -> None:
    x, at = whole(rng, (9, 5)), rng.integers(0, 9, 7).astype("u4")
    same(webgpu, "index", x, at, spec=("array",))
    same(webgpu, "scatter", whole(rng, (7, 5)), at, spec=("array",), shape=(9, 5))


ALONG = [((5, 7), 3, 1), ((5, 7), 100, 1), ((5, 7), 100, 0), ((3, 40, 5), 1500, 1), ((6,), 90, 0)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("shape", "count", "axis"), [*ALONG, ((5, 0), 0, 1), ((0, 3), 4, 1)])
def test_along_an_axis(webgpu, rng, shape, count, axis, layout) -> None:
    """With few indices along the axis, and with many, which takes another way."""
    own = (*shape[:axis], count, *shape[axis + 1 :])
    at = places(rng, shape[axis], own)
    same(webgpu, "take_along_axis", whole(rng, shape), at, axis=axis, layout=layout)
    same(webgpu, "scatter_along_axis", whole(rng, own), at, axis=axis, shape=shape, layout=layout)


@pytest.mark.parametrize("count", [3, 80])
def test_an_index_that_is_shorter_in_other_axes(webgpu, rng, count) -> None:
    at = places(rng, 7, (2, count))
    same(webgpu, "take_along_axis", whole(rng, (5, 7)), at, axis=1)
    same(webgpu, "scatter_along_axis", whole(rng, (2, count)), at, axis=1, shape=(5, 7))


@pytest.mark.parametrize(("count", "bins", "inner"), [(31, 3, 5), (5000, 1, 1), (5000, 7, 3)])
def test_sums_are_right_and_always_the_same(webgpu, rng, count, bins, inner) -> None:
    """All terms are positive: an error of a few roundings, as chunks of 32 are added."""
    x = rng.random((count, inner)).astype("f4")
    at = rng.integers(0, bins, count).astype("i4")
    given = laid_out(webgpu, x), laid_out(webgpu, at)
    wanted = NUMPY["scatter"](x.astype("f8"), at, spec=("array",), shape=(bins, inner))
    attrs = {"spec": ("array",), "shape": (bins, inner)}
    found = [webgpu.to_numpy(webgpu.FUNCTIONS["scatter"](*given, **attrs)) for _ in range(2)]
    np.testing.assert_allclose(found[0], wanted, rtol=1e-6)
    assert found[0].tobytes() == found[1].tobytes()


def test_terms_are_added_in_the_order_of_their_positions(webgpu, rng) -> None:
    """Few of them make one chunk, whose sum is the one that is made one after the other."""
    x = (rng.standard_normal(32) * 10.0 ** rng.integers(-4, 8, 32)).astype("f4")
    at = rng.integers(0, 3, 32).astype("i4")
    same(webgpu, "scatter", x, at, spec=("array",), shape=(3,))
    same(webgpu, "scatter_along_axis", x, at, axis=0, shape=(3,))


def test_the_gradient_of_an_embedding(webgpu, rng) -> None:
    at = (rng.zipf(1.3, (4, 300)) % 700).astype("i4")
    same(webgpu, "scatter", whole(rng, (4, 300, 33)), at, spec=("array",), shape=(700, 33))


# What goes on after an index that is out of range, and says so when data is read

OUT_OF_RANGE = {
    "index": lambda k, ones, at: k["index"](ones(90), at, spec=("array",)),
    "index by two": lambda k, ones, at: k["index"](ones(90, 90), at, at, spec=("array", "array")),
    "take_along_axis": lambda k, ones, at: k["take_along_axis"](ones(90), at, axis=0),
    "scatter": lambda k, ones, at: k["scatter"](ones(at.size), at, spec=("array",), shape=(90,)),
    "assign": lambda k, ones, at: k["assign"](ones(90), ones(at.size), at, spec=("array",)),
    "scatter_along_axis": lambda k, ones, at: k["scatter_along_axis"](
        ones(at.size), at, axis=0, shape=(90,)
    ),
}


@pytest.mark.parametrize(("dtype", "bad"), [("i4", 90), ("i4", -91), ("u4", 2**32 - 1)])
@pytest.mark.parametrize("call", OUT_OF_RANGE)
@pytest.mark.parametrize("count", [9, 90])
def test_an_index_out_of_range_raises_when_data_is_read(webgpu, call, dtype, bad, count) -> None:
    at = np.arange(count).astype(dtype)
    at[count // 2] = bad
    out = OUT_OF_RANGE[call](
        webgpu.FUNCTIONS,
        lambda *shape: webgpu.from_numpy(np.ones(shape, "f4")),
        webgpu.from_numpy(at),
    )
    with pytest.raises(IndexError, match=f"out of range: {bad} for an axis of length 90"):
        webgpu.to_numpy(out)
        check(webgpu)
    webgpu.to_numpy(out)  # it has been said
    check(webgpu)


def test_the_status_is_read_only_after_a_program_that_may_have_set_it(webgpu, rng) -> None:
    x = laid_out(webgpu, whole(rng, (5,)))
    reads = webgpu.gpu.counts["reads"]
    check(webgpu)
    assert webgpu.gpu.counts["reads"] == reads
    webgpu.FUNCTIONS["index"](x, laid_out(webgpu, places(rng, 5, 3)), spec=("array",))
    check(webgpu)
    check(webgpu)
    assert webgpu.gpu.counts["reads"] == reads + 1


def test_what_is_known_to_be_out_of_range_raises_at_once(webgpu) -> None:
    empty, at = laid_out(webgpu, np.zeros((0, 3), "f4")), laid_out(webgpu, np.zeros(2, "i4"))
    with pytest.raises(IndexError, match="axis 0 with size 0"):
        webgpu.FUNCTIONS["index"](empty, at, spec=("array",))
    with pytest.raises(IndexError, match="index 3 is out of bounds for axis 1 with size 3"):
        webgpu.FUNCTIONS["index"](laid_out(webgpu, np.zeros((2, 3), "f4")), at, spec=("array", 3))
    with pytest.raises(IndexError, match="axis 0 with size 0"):
        webgpu.FUNCTIONS["take_along_axis"](laid_out(webgpu, np.zeros(0, "f4")), at, axis=0)


# What isn't zero, and joining


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(7,), (5, 7, 3), (40, 60), (1, 1), (0,), (3, 0), (2,) * 9])
def test_nonzero(webgpu, rng, shape, layout) -> None:
    same(webgpu, "nonzero", whole(rng, shape, "?"), layout=layout)


@pytest.mark.parametrize("value", [0, 1])
def test_nonzero_of_all_or_nothing(webgpu, value) -> None:
    same(webgpu, "nonzero", np.full((30, 11), value, "?"))


def test_nonzero_of_special_floats(webgpu) -> None:
    same(webgpu, "nonzero", np.array([0.0, -0.0, math.nan, math.inf, 1e-45, -1e-40], "f4"))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("shapes", "axis"),
    [
        ([(3, 4), (3, 2), (3, 0), (3, 5)], 1),
        ([(3, 4), (1, 4)], 0),
        ([(5, 3, 4)], 1),
        ([(2, 3, 5), (2, 1, 5), (2, 9, 5)], 1),
        ([(0, 3), (0, 3)], 1),
        ([(700,), (1,), (900,)], 0),
        ([(1, 2, 1, 3, 2, 2, 1, 3), (1, 2, 1, 3, 5, 2, 1, 3)], 4),
    ],
)
def test_concat(webgpu, rng, shapes, axis, layout) -> None:
    same(webgpu, "concat", *(whole(rng, shape) for shape in shapes), axis=axis, layout=layout)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("shape", "pad_width"),
    [
        ((3, 4), ((1, 2), (0, 3))),
        ((3, 4), ((0, 0), (0, 0))),
        ((7,), ((300, 5),)),
        ((2, 3, 4), ((0, 0), (1, 1), (0, 0))),
        ((2, 3, 4, 5), ((0, 0), (0, 0), (1, 2), (3, 0))),
        ((0, 3), ((2, 1), (0, 1))),
        ((), ()),
        ((2,) * 9, ((0, 1),) * 9),
    ],
)
def test_pad(webgpu, rng, shape, pad_width, layout) -> None:
    same(webgpu, "pad", whole(rng, shape), pad_width=pad_width, value=-2.5, layout=layout)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("shape", "index"),
    [
        ((5, 7), (slice(1, 4),)),
        ((5, 7), (ALL, slice(6, None, -3))),
        ((5, 7), (-2, slice(1, None, 2))),
        ((5, 7), (None, 3)),
        ((5, 7, 6), (ALL, 2, None, slice(5, 1, -1))),
        ((5, 7), (slice(3, 3),)),
        ((5, 7), ()),
        ((5, 0), (slice(1, 3),)),
        ((3,) * 9, (slice(None, None, 2),) * 9),
        ((400, 3), (slice(7, 390, 5), 1)),
    ],
)
def test_place(webgpu, rng, shape, index, layout) -> None:
    x = whole(rng, np.zeros(shape)[index].shape)
    same(webgpu, "place", x, index=index, shape=shape, layout=layout)


def test_without_index_arrays(webgpu, rng) -> None:
    """Basic indices alone: a view, its adjoint, and an assignment that broadcasts."""
    x, spec = whole(rng, (5, 7, 3)), (slice(None, None, -2), 3)
    same(webgpu, "index", x, spec=spec)
    same(webgpu, "scatter", whole(rng, (3, 3)), spec=spec, shape=(5, 7, 3))
    same(webgpu, "assign", x, whole(rng, (3, 1)), spec=spec)
    same(webgpu, "assign", x, whole(rng, (1,)), places(rng, 5, 4), spec=("array",))
