"""Every op of the CPU's table of calls, lowered for a GPU from layouts alone, at every size: the
same bits as eager's on fresh memory, and with all operands in one buffer."""

from itertools import islice
from typing import Any

import numpy as np
import pytest

from adjoint.backends.launches import Layout, contiguous
from adjoint.backends.webgpu.elementwise import function
from adjoint.backends.webgpu.lowering import layout_of, lower
from tests.kernels.lowering_cases import CALLS, ELEMENTWISE, SIZES, Call, elementwise
from tests.support.helpers import as_tuple

pytestmark = pytest.mark.webgpu

NARROW = {"i8": "i4", "u8": "u4", "f8": "f4"}  # what a GPU has in the place of 64 bits
MOST = 4  # calls of each op and size


def narrowed(x: Any) -> Any:
    return None if x is None else np.ascontiguousarray(x, NARROW.get(x.dtype.str[1:], x.dtype))


def calls_of(op: str, size: int) -> list[Call]:
    dtype = "i4" if op.startswith("bitwise") else "f4"
    calls = CALLS[op](size, dtype) if op in CALLS else elementwise(op, size, dtype)
    return [
        Call(tuple(map(narrowed, inputs)), attrs | to_integers(attrs))
        for inputs, attrs in islice(calls, MOST)
    ]


def to_integers(attrs: dict[str, Any]) -> dict[str, Any]:
    """The dtype of a cast that a GPU has."""
    return {"dtype": np.dtype("i4")} if "dtype" in attrs else {}


def eager(webgpu: Any, op: str, arrays: list[Any], attrs: dict[str, Any]) -> list[np.ndarray]:
    if op == "random_bits":
        arrays = [webgpu.gpu, *arrays]
    call = webgpu.FUNCTIONS[op] if op in webgpu.FUNCTIONS else function(op, 0)
    return [webgpu.to_numpy(x) for x in as_tuple(call(*arrays, **attrs))]


def in_one_buffer(webgpu: Any, arrays: list[Any]) -> list[Any]:
    """The arrays one behind the other in memory of one dtype, each at an odd place; others as they
    are, since an array is a view of memory of its own dtype."""
    dtype = next(x.dtype for x in arrays if x is not None)
    alike = [x for x in arrays if x is not None and x.dtype == dtype]
    parts, starts, place = [], [], 0
    for x in alike:
        gap = 4 - place % 4 + 4  # the launches are those of arrays at multiples of 4
        parts += [np.full(gap, 77, dtype), webgpu.to_numpy(x).ravel()]
        starts.append(place + gap)
        place += gap + x.size
    whole = webgpu.from_numpy(np.concatenate(parts))
    places = iter(starts)
    return [
        x
        if x is None or x.dtype != dtype
        else whole.view(x.shape, contiguous(x.shape, 1), next(places))
        for x in arrays
    ]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("op", sorted({*CALLS, *ELEMENTWISE}))
def test_launches_from_layouts_give_eagers_bits(webgpu: Any, op: str, size: int) -> None:
    for inputs, attrs in calls_of(op, size):
        layouts = [
            None if x is None else Layout(x.shape, contiguous(x.shape, 1), x.dtype) for x in inputs
        ]
        launches = lower(op, layouts, attrs, webgpu.gpu.target)
        assert launches is not None
        arrays = [None if x is None else webgpu.from_numpy(x) for x in inputs]
        assert [None if x is None else layout_of(x) for x in arrays] == layouts
        wanted = eager(webgpu, op, arrays, attrs)
        for given in (arrays, in_one_buffer(webgpu, arrays)):
            found = webgpu.gpu.run(launches, [x for x in given if x is not None], attrs)
            for out, expected in zip(map(webgpu.to_numpy, found), wanted, strict=True):
                assert (out.shape, out.dtype) == (expected.shape, expected.dtype)
                assert out.tobytes() == expected.tobytes()
