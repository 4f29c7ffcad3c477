"""Direct convolution kernels against the functions on windows and BLAS."""

import ctypes
import math
import mmap
import os
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adjoint.backends.cpu import windows, worth
from adjoint.backends.cpu.jit import threads
from adjoint.backends.cpu.lowering import convolution, direct_convolution
from adjoint.backends.cpu.lowering.ops import lower
from adjoint.backends.cpu.lowering.targets import current_target
from adjoint.backends.launches import Cache, Layout, contiguous
from adjoint.kernels.convolution import tilings
from adjoint.kernels.convolution.tilings import Machine, Shape
from tests.kernels import rounding
from tests.support.convolutions import Case, case
from tests.support.fast_forms import FAST
from tests.support.helpers import needs_kernels

pytestmark = needs_kernels

FUNCTIONS = ("conv", "conv_input", "conv_weight")
MACHINES = {"avx512": Machine(64, 32), "avx2": Machine(32, 16), "neon": Machine(16, 32)}


CASES = {
    "rows of whole vectors": case((2, 4, 5, 32), (8, 4, 3, 3), padding=1),
    "one vector a row": case((5, 4, 16, 16), (8, 4, 3, 3), padding=1),
    "rows that end inside a vector": case((2, 3, 4, 41), (5, 3, 3, 3), padding=1),
    "rows shorter than a vector": case((3, 5, 7, 7), (7, 5, 3, 3), padding=1),
    "planes shorter than a vector": case((3, 2, 3, 2), (4, 2, 2, 2), padding=1),
    "one output": case((2, 3, 5, 5), (4, 3, 5, 5)),
    "nothing to pack": case((2, 3, 6, 20), (4, 3, 3, 3)),
    "nothing to pack, short rows": case((4, 3, 6, 5), (4, 3, 3, 3)),
    "one place": case((2, 9, 6, 18), (5, 9, 1, 1)),
    "one place, strided": case((2, 9, 7, 18), (5, 9, 1, 1), stride=2),
    "one place, padded": case((2, 3, 5, 5), (4, 3, 1, 1), padding=2),
    "large filter": case((2, 3, 9, 23), (3, 3, 5, 5), padding=2),
    "stride": case((2, 3, 9, 37), (6, 3, 3, 3), stride=2, padding=1),
    "stride larger than the filter": case((2, 3, 17, 19), (6, 3, 2, 2), stride=(5, 3)),
    "patches": case((2, 3, 16, 32), (9, 3, 4, 4), stride=4),
    "dilation": case((2, 3, 12, 21), (6, 3, 3, 3), padding=2, dilation=2),
    "stride and dilation": case((2, 3, 17, 23), (6, 3, 3, 3), (4, 2), (1, 3), (2, 3)),
    "no common divisor": case((2, 3, 20, 33), (4, 3, 3, 2), (3, 2), 1, (2, 3)),
    "groups": case((2, 6, 8, 17), (9, 2, 3, 3), padding=1, groups=3),
    "a channel each": case((2, 7, 9, 18), (7, 1, 3, 3), padding=1, groups=7),
    "two of each channel": case((2, 5, 9, 11), (10, 1, 3, 3), 2, 1, groups=5),
    "more padding before": case((2, 3, 8, 19), (4, 3, 3, 3), padding=((2, 0), (3, 1))),
    "less than nothing after": case((2, 3, 9, 24), (4, 3, 2, 3), (2, 1), ((1, -2), (0, -3))),
    "padding beyond the filter": case((2, 2, 4, 5), (3, 2, 2, 2), (3, 3), ((4, 1), (0, 5))),
    "many channels": case((3, 40, 6, 6), (33, 40, 3, 3), padding=1),
    "one channel": case((6, 1, 12, 28), (6, 1, 5, 5), padding=2),
    "one dimension": case((3, 4, 50), (6, 4, 3), padding=1),
    "one dimension, strided": case((3, 4, 17), (6, 2, 4), 3, ((2, 1),), 2, 2),
    "three dimensions": case((2, 3, 4, 5, 18), (4, 3, 3, 2, 3), padding=1),
    "three dimensions, strided": case(
        (2, 4, 7, 6, 9), (4, 2, 3, 2, 3), (2, 1, 2), ((1, 1), (0, 0), (1, 1)), (1, 2, 1), 2
    ),
}


DIRECT = SimpleNamespace(**{name: FAST[name] for name in ("conv", "conv_input", "conv_weight")})


@pytest.fixture(autouse=True)
def _always_direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worth, "is_worth_convolving", lambda least, shape, images: True)


@pytest.fixture
def _three_threads() -> Iterator[None]:
    before = threads.get_num_threads()
    threads.set_num_threads(3)
    yield
    threads.set_num_threads(before)


def on_machine(monkeypatch: pytest.MonkeyPatch, machine: Machine | None) -> None:
    monkeypatch.setattr(convolution, "machine", lambda target: machine)


def drawn(case: Case, dtype, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {"x": case.x, "w": case.w, "g": case.out, "bias": case.w[:1]}
    return {name: rng.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}


def call(module, name: str, case: Case, arrays: dict[str, np.ndarray], with_bias: bool = True):
    x, w, g, bias = (arrays[k] for k in ("x", "w", "g", "bias"))
    if name == "conv":
        return module.conv(x, w, bias if with_bias else None, **case.geometry)
    if name == "conv_input":
        return module.conv_input(g, w, x_shape=case.x, **case.geometry)
    return module.conv_weight(x, g, w_shape=case.w, **case.geometry)


def assert_right(name: str, case: Case, arrays: dict[str, np.ndarray], with_bias: bool = True):
    """No further from the reference than rounding each product and each sum explains."""
    out = call(DIRECT, name, case, arrays, with_bias)
    wide = {k: v.astype(np.float64) for k, v in arrays.items()}
    expected = call(windows, name, case, wide, with_bias)
    sizes = call(windows, name, case, {k: abs(v) for k, v in wide.items()}, with_bias)
    ones = {k: np.ones_like(v) for k, v in wide.items()}
    terms = call(windows, name, case, ones, with_bias) + 2
    assert out.shape == expected.shape
    assert out.dtype == arrays["x"].dtype
    assert (abs(out - expected) <= terms * np.finfo(out.dtype).eps * sizes).all()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_agrees_with_windows(case: Case, dtype, name: str) -> None:
    assert_right(name, case, drawn(case, dtype))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("kind", ["rows that end inside a vector", "stride and dilation", "groups"])
def test_any_vectors_and_registers(kind: str, machine: Machine, name: str, monkeypatch) -> None:
    on_machine(monkeypatch, machine)
    assert_right(name, CASES[kind], drawn(CASES[kind], np.float32))


@pytest.mark.parametrize("kind", ["rows of whole vectors", "rows shorter than a vector", "groups"])
def test_without_bias(kind: str) -> None:
    assert_right("conv", CASES[kind], drawn(CASES[kind], np.float32), with_bias=False)


def errors(name: str, case: Case) -> float:
    """The root mean square of those in float32."""
    arrays = drawn(case, np.float32)
    exact = call(windows, name, case, {k: v.astype("f8") for k, v in arrays.items()})
    return math.sqrt(np.mean((call(DIRECT, name, case, arrays) - exact) ** 2))


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_weight_gradient_of_many_places_is_added_up_in_parts(machine: Machine, monkeypatch) -> None:
    on_machine(monkeypatch, machine)
    places = 24 * 40 * 40
    found = errors("conv_weight", case((24, 3, 40, 40), (8, 3, 3, 3), padding=1))
    assert found <= rounding.of_dot(places, np.float32, parts=math.isqrt(places))


@pytest.mark.parametrize("name", ["conv", "conv_input"])
def test_errors_of_many_channels_are_those_of_sums_one_by_one(name: str) -> None:
    found = errors(name, case((4, 64, 12, 12), (64, 64, 3, 3), padding=1))
    assert found <= rounding.of_dot(64 * 3 * 3, np.float32)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    "kind", ["one vector a row", "stride and dilation", "groups", "one channel"]
)
def test_threads_change_no_bit(kind: str, name: str, monkeypatch, _three_threads) -> None:
    monkeypatch.setattr(direct_convolution, "LEAST", 50)  # so that small work has many chunks
    arrays = drawn(CASES[kind], np.float32)
    results = []
    for count in (1, 2, 3):
        threads.set_num_threads(count)
        results.append(call(DIRECT, name, CASES[kind], arrays).tobytes())
    assert len(set(results)) == 1


LAYOUTS = {
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "every second": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "backwards": lambda a: np.ascontiguousarray(a[..., ::-1])[..., ::-1],
    "unaligned": lambda a: (
        np.concatenate([[0], a.reshape(-1)]).astype(a.dtype)[1:].reshape(a.shape)
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", ["rows of whole vectors", "nothing to pack", "stride"])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_any_layout(layout, kind: str, name: str) -> None:
    arrays = drawn(CASES[kind], np.float32)
    expected = call(DIRECT, name, CASES[kind], arrays)
    arranged = {k: layout(v) for k, v in arrays.items()}
    assert call(DIRECT, name, CASES[kind], arranged).tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("same", [(0, 1, 2, 3), (0,), (1,), (3,)])
@pytest.mark.parametrize(
    "kind", ["rows of whole vectors", "nothing to pack", "rows shorter than a vector"]
)
def test_broadcast_arrays(kind: str, same: tuple[int, ...], name: str) -> None:
    arrays = drawn(CASES[kind], np.float32)
    for key in ("x", "g"):
        one = arrays[key][tuple(slice(1) if k in same else slice(None) for k in range(4))]
        arrays[key] = np.broadcast_to(one, arrays[key].shape)
    copies = {k: np.array(v) for k, v in arrays.items()}
    expected = call(DIRECT, name, CASES[kind], copies)
    assert call(DIRECT, name, CASES[kind], arrays).tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "kind", ["rows that end inside a vector", "rows shorter than a vector", "stride"]
)
def test_infinity_stays_with_the_taps_that_meet_it(kind: str, ieee: None) -> None:
    case_ = CASES[kind]
    arrays = drawn(case_, np.float32)
    arrays["x"][0, 0, 0, 0] = arrays["x"][-1, -1, -1, -1] = np.inf
    expected = call(windows, "conv_weight", case_, arrays)
    out = call(DIRECT, "conv_weight", case_, arrays)
    np.testing.assert_array_equal(np.isfinite(out), np.isfinite(expected))
    np.testing.assert_array_equal(np.isnan(out), np.isnan(expected))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_images_in_parts(name: str, monkeypatch) -> None:
    monkeypatch.setattr(direct_convolution, "SCRATCH", 40_000)
    assert_right(name, CASES["one vector a row"], drawn(CASES["one vector a row"], np.float32))


@pytest.mark.parametrize("name", ["conv", "conv_input"])
@pytest.mark.parametrize("kind", ["one vector a row", "groups", "rows that end inside a vector"])
def test_image_by_image(kind: str, name: str, monkeypatch, _three_threads) -> None:
    arrays = drawn(CASES[kind], np.float32)
    monkeypatch.setattr(direct_convolution, "FUSED_IMAGES", 1000)
    expected = call(DIRECT, name, CASES[kind], arrays)
    monkeypatch.setattr(direct_convolution, "FUSED_IMAGES", 1)
    Cache.forget_all()
    assert call(DIRECT, name, CASES[kind], arrays).tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", ["many channels", "one channel", "three dimensions"])
def test_parts_that_fit_a_small_cache(kind: str, name: str, monkeypatch) -> None:
    monkeypatch.setattr(tilings, "NEAR", 2000)
    monkeypatch.setattr(tilings, "FAR", 4000)
    for cached in (tilings.forward, tilings.backward, tilings.weights):
        monkeypatch.setattr(tilings, cached.__name__, cached.__wrapped__)
    assert_right(name, CASES[kind], drawn(CASES[kind], np.float32))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float16_is_computed_in_float32(name: str) -> None:
    case_ = CASES["rows of whole vectors"]
    arrays = drawn(case_, np.float16)
    out = call(DIRECT, name, case_, arrays)
    wide = call(DIRECT, name, case_, {k: v.astype("f4") for k, v in arrays.items()})
    assert out.dtype == np.float16
    assert out.tobytes() == wide.astype(np.float16).tobytes()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    "case_",
    [
        case((0, 3, 8, 8), (4, 3, 3, 3)),
        case((2, 0, 8, 8), (4, 0, 3, 3)),
        case((2, 3, 2, 8), (4, 3, 3, 3)),
    ],
    ids=["no images", "no channels", "no places"],
)
def test_nothing_to_do(case_: Case, name: str) -> None:
    arrays = drawn(case_, np.float32)
    expected = call(windows, name, case_, arrays)
    np.testing.assert_array_equal(call(DIRECT, name, case_, arrays), expected)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_without_a_compiler_windows_do_it(name: str, monkeypatch) -> None:
    on_machine(monkeypatch, None)
    arrays = drawn(CASES["stride"], np.float32)
    expected = call(windows, name, CASES["stride"], arrays)
    assert call(DIRECT, name, CASES["stride"], arrays).tobytes() == expected.tobytes()


def shape_of(case: Case) -> Shape:
    return Shape(case.x[1:], case.w, case.out[2:], **case.geometry, size=4)


@pytest.mark.parametrize(
    ("case_", "direct"),
    [
        (case((32, 32, 32, 32), (64, 32, 3, 3), padding=1), True),
        (case((1, 2, 6, 6), (4, 2, 3, 3)), False),
        (case((1, 512, 7, 7), (512, 512, 3, 3), padding=1), False),
        (case((8, 512, 7, 7), (512, 512, 3, 3), padding=1), True),
        (case((8, 64, 56, 56), (64, 64, 1, 1)), True),
        (case((8, 64, 56, 56), (64, 64, 1, 1), stride=2), False),
        (case((8, 256, 14, 14), (256, 256, 1, 1)), False),
        (case((8, 256, 14, 14), (256, 8, 1, 1), groups=32), True),
    ],
    ids=[
        "large",
        "small",
        "large filters for few places",
        "large filters for many places",
        "one place, long planes",
        "one place, strided",
        "one place, short planes",
        "one place, groups",
    ],
)
def test_rule(case_: Case, direct: bool, monkeypatch) -> None:
    monkeypatch.undo()
    on_machine(monkeypatch, MACHINES["avx512"])
    x, w = (Layout(shape, contiguous(shape, 4), np.dtype("f4")) for shape in (case_.x, case_.w))
    assert worth.conv(x, w, **case_.geometry) == direct
    assert lower("conv", [x, w], case_.geometry, current_target()) is not None


def test_what_tables_cannot_hold_goes_to_windows(monkeypatch) -> None:
    on_machine(monkeypatch, MACHINES["avx512"])
    case_ = case((1, 64, 4096, 4096), (8, 64, 3, 3), padding=1)
    x, w = (Layout(shape, contiguous(shape, 4), np.dtype("f4")) for shape in (case_.x, case_.w))
    assert lower("conv", [x, w], case_.geometry, current_target()) is None


@st.composite
def random_cases(draw) -> Case:
    axes = draw(st.integers(1, 3))
    size = st.integers(1, 40 if axes == 1 else 20 if axes == 2 else 7)
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    inputs, outputs = draw(st.integers(1, 4)), draw(st.integers(1, 10))
    rows = []
    for _ in range(axes):
        kernel, dilation = draw(st.integers(1, 4)), draw(st.integers(1, 3))
        stride, before, after = (draw(st.integers(*r)) for r in ((1, 4), (0, 4), (-2, 4)))
        least = max(1, dilation * (kernel - 1) + 1 - before - after)
        rows.append((max(draw(size), least, 1 - after), kernel, stride, (before, after), dilation))
    spatial, kernel, stride, padding, dilation = (
        tuple(column) for column in zip(*rows, strict=True)
    )
    x = (draw(st.integers(1, 3)), groups * inputs, *spatial)
    return case(x, (groups * outputs, inputs, *kernel), stride, padding, dilation, groups)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(random_cases(), st.sampled_from(FUNCTIONS), st.sampled_from([np.float32, np.float64]))
def test_random_geometry(case_: Case, name: str, dtype) -> None:
    assert_right(name, case_, drawn(case_, dtype))


@pytest.mark.skipif(os.name != "posix", reason="protects pages of memory")
def test_a_padded_row_of_repeated_elements_reads_nothing_outside_of_the_array() -> None:
    """The last axis has stride 0, and the array ends where no memory follows."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 3 * page)
    middle = np.frombuffer(memory, np.float32, page // 4, page)
    start = middle.__array_interface__["data"][0]
    protect = ctypes.CDLL(None).mprotect
    for place in (start - page, start + page):
        assert protect(ctypes.c_void_p(place), page, 0) == 0
    middle[...] = np.random.default_rng(0).standard_normal(middle.size)
    x = np.broadcast_to(middle.reshape(1, 4, -1, 1), (1, 4, middle.size // 4, 2))
    w = np.random.default_rng(1).standard_normal((16, 4, 3, 1)).astype("f4")
    geometry = {"stride": (1, 1), "padding": ((1, 1), (0, 0)), "dilation": (1, 1), "groups": 1}
    found, expected = DIRECT.conv(x, w, **geometry), windows.conv(x.copy(), w, **geometry)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_strided_rows_are_moved_even_if_nothing_else_is() -> None:
    x = np.random.default_rng(0).standard_normal((16, 16, 2, 64)).astype("f4")
    w = np.random.default_rng(1).standard_normal((32, 16, 2, 1)).astype("f4")
    geometry = {"stride": (2, 1), "padding": ((0, 2), (0, 0)), "dilation": (2, 1), "groups": 1}
    found, expected = DIRECT.conv(x, w, **geometry), windows.conv(x, w, **geometry)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
