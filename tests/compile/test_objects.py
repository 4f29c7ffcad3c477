"""What a program reads fits when it is entered, is nobody's to overwrite until it is left, and is
given back as it was. Natively and in Python alike."""

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint._core import holding, native_objects
from adjoint._core.holding import Expected, Objects
from adjoint._core.tensor import Tensor, wrap
from adjoint.backends.cpu import exclusive
from adjoint.backends.cpu.jit.availability import obstacle
from adjoint.backends.cpu.lowering.targets import layout_of
from adjoint.backends.launches import Layout

F4, F8 = np.dtype("f4"), np.dtype("f8")


@pytest.fixture(params=["native", "python"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "python":
        monkeypatch.setattr(holding, "native", lambda *_: (None, None))
    elif obstacle() is not None:
        pytest.skip("nothing can be compiled here")
    return request.param


def expected(x: Tensor) -> Expected:
    return Expected(layout_of(x.raw), x.requires_grad)


def capturing(*tensors: Tensor) -> Objects:
    """Objects of captured tensors as they are now."""
    return Objects([*map(expected, tensors)], tensors, np.zeros(len(tensors), np.int64))


def taking(*tensors: Tensor) -> Objects:
    """Objects of arguments like these."""
    addresses = np.zeros(len(tensors), np.int64)
    return Objects([*map(expected, tensors)], [None] * len(tensors), addresses)


def entered(held: Objects, *arguments: Tensor) -> int:
    """What entering says; nothing stays held."""
    place = held.enter(arguments)
    if place < 0:
        held.leave()
    return place


def start(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def is_lone(x: Tensor) -> bool:
    """Whether a tensor's array may be overwritten; an assertion would hold it while it is asked."""
    return exclusive(x.raw, 1)


def references(x: Tensor) -> int:
    return sys.getrefcount(x.raw)


def held_still(arrays: Sequence[weakref.ref]) -> int:
    return sum(array() is not None for array in arrays)


def alive(held: Objects) -> bool:
    """Whether all captured tensors live."""
    return all(x is None or x() is not None for x in held._references)


def refuse(*args: Any) -> int:
    raise AssertionError("Python was asked")


# This interpreter is one that native code reads


@pytest.mark.parametrize("way", ["native"], indirect=True)
def test_objects_of_this_interpreter_are_read_natively(way: str) -> None:
    if sys.implementation.name == "cpython" and sys.version_info < (3, 14):
        assert native_objects.are_possible()


@pytest.mark.parametrize("way", ["native"], indirect=True)
def test_usual_arrays_are_not_looked_at_by_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Objects, "_enter_in_python", refuse)
    x, w, y = (
        ad.zeros((2, 3), requires_grad=True),
        nn.Parameter(ad.zeros((4, 1, 5))),
        ad.zeros((3, 4)).T,
    )
    y.raw = np.zeros((3, 4), F4).T
    x.raw.resize((3, 2), refcheck=False)
    scalar, empty = ad.tensor(1.0), ad.zeros((0, 3))
    assert entered(capturing(x, w, y, scalar, empty)) == -1
    assert entered(taking(x, w, y, scalar, empty), x, w, y, scalar, empty) == -1
    x._grad = w.detach()
    read = [Expected(layout_of(x._grad.raw), of_grad=True), Expected(None, of_grad=True)]
    assert entered(Objects(read, [x, w], np.zeros(2, np.int64))) == -1
    for layout, array in (FITS[name] for name in FITS.keys() - {"an equal dtype"}):
        assert (
            entered(Objects([Expected(layout)], [None], np.zeros(1, np.int64)), wrap(array)) == -1
        )


# What fits

LAYOUT = Layout((2, 3), (12, 4), F4)
BYTES = np.zeros(25, "u1")
MISFITS = {
    "length": np.zeros((3, 3), F4),
    "number of axes": np.zeros((2, 3, 1), F4),
    "no axes": np.zeros((), F4),
    "strides": np.zeros((3, 2), F4).T,
    "steps": np.zeros((2, 6), F4)[:, ::2],
    "dtype": np.zeros((2, 3), "i4"),
    "byte order": np.zeros((2, 3), F4.newbyteorder()),
    "alignment": BYTES[1:].view(F4).reshape(2, 3),
    "subclass": np.zeros((2, 3), F4).view(np.recarray),
    "another device": type("Array", (), {"shape": (2, 3), "strides": (12, 4), "dtype": F4})(),
    "no array": None,
}


@pytest.mark.parametrize("array", MISFITS.values(), ids=MISFITS)
def test_another_array_does_not_fit(array: Any) -> None:
    fitting, x = wrap(np.zeros((2, 3), F4)), wrap(array)
    of_grad = wrap(np.zeros(1))
    of_grad._grad = x
    read = [Expected(LAYOUT), Expected(LAYOUT)]
    for captured, arguments in (
        ([fitting, x], []),
        ([fitting, None], [x]),
        ([None] * 2, [fitting, x]),
    ):
        assert entered(Objects(read, captured, np.zeros(2, np.int64)), *arguments) == 1
    read = [Expected(LAYOUT), Expected(LAYOUT, of_grad=True)]
    assert entered(Objects(read, [fitting, of_grad], np.zeros(2, np.int64))) == 1


FITS = {
    "same": (LAYOUT, np.zeros((2, 3), F4)),
    "aligned by chance": (Layout((2, 3), (12, 4), F4, False), np.zeros((2, 3), F4)),
    "unaligned": (Layout((2, 3), (12, 4), F4, False), MISFITS["alignment"]),
    "a step of no effect": (Layout((1, 3), (99, 4), F4), np.zeros((1, 3), F4)),
    "no elements": (Layout((0, 3), (5, 7), F4), np.zeros((0, 3), F4)),
    "an equal dtype": (LAYOUT, np.zeros((2, 3), np.dtype("f4", metadata={"other": "object"}))),
    "backwards": (Layout((3,), (-4,), F4), np.zeros(3, F4)[::-1]),
    "many axes": (layout_of(np.zeros((2,) * 7)), np.zeros((2,) * 7)),
}


@pytest.mark.parametrize(("layout", "array"), FITS.values(), ids=FITS)
def test_an_equal_layout_fits(layout: Layout, array: np.ndarray) -> None:
    x, addresses = wrap(array), np.zeros(3, np.int64)
    held = Objects([Expected(layout)] * 2, [x, None], addresses)
    assert held.enter([x]) == -1
    held.leave()
    assert addresses.tolist() == [start(array)] * 2 + [0]


@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_tensor_with_another_need_of_gradients_does_not_fit(requires_grad: bool) -> None:
    x = ad.zeros(3).requires_grad_(requires_grad)
    captured, given = capturing(x), taking(x)
    assert entered(captured) == entered(given, x) == -1
    x.requires_grad_(not requires_grad)
    assert entered(captured) == entered(given, x) == 0


def test_gradients_are_there_or_not_as_expected() -> None:
    x = ad.zeros(3, requires_grad=True)
    none = Objects([Expected(None, of_grad=True)], [x], np.ones(1, np.int64))
    addresses = np.zeros(1, np.int64)
    some = Objects([Expected(Layout((3,), (4,), F4), of_grad=True)], [x], addresses)
    assert (entered(none), entered(some)) == (-1, 0)
    assert (none._addresses.tolist(), none.shared.tolist()) == ([0], [1])
    x.sum().backward()
    assert (entered(none), entered(some)) == (0, -1)
    assert addresses.tolist() == [start(x.grad.raw)] and some.shared.tolist() == [0]
    x.grad = None
    assert (entered(none), entered(some)) == (-1, 0)


def test_data_fits_as_an_argument() -> None:
    x = ad.zeros(3, requires_grad=True)
    addresses = np.zeros(1, np.int64)
    held = Objects([Expected(layout_of(x.raw))], [None], addresses)
    assert entered(held, x.data) == -1 and addresses.tolist() == [start(x.raw)]
    assert entered(taking(x), x.data) == 0


def test_a_program_may_read_nothing() -> None:
    held = capturing()
    assert entered(held) == -1 and alive(held)


def test_another_array_of_the_same_layout_is_read_next() -> None:
    x, addresses = ad.zeros(3), np.zeros(1, np.int64)
    held = Objects([expected(x)], [x], addresses)
    for _ in range(3):
        x.raw = np.ones(3, F4)
        assert entered(held) == -1 and addresses.tolist() == [start(x.raw)]


# Captured tensors may die


def test_a_tensor_that_died_never_fits_again() -> None:
    tensors = [ad.zeros(3) for _ in range(100)]
    held = capturing(*tensors)
    assert alive(held) and entered(held) == -1
    del tensors[40]
    assert not alive(held)
    others = []  # some of them lie where it lay
    for _ in range(1000):
        others.append(ad.zeros(3))
        assert entered(held) == 40


def test_a_tensor_that_was_garbage_does_not_fit() -> None:
    class Named(Tensor):
        itself: Any

    x = Tensor.__new__(Named)
    x.raw, x.node, x._grad, x.itself = np.zeros(3, F4), None, None, x
    held = capturing(x)
    assert entered(held) == -1
    del x
    gc.collect()
    assert entered(held) == 0 and not alive(held)


def test_captured_tensors_may_outlive_what_holds_them() -> None:
    x = ad.zeros(3)
    del [capturing(x)][0]
    del x  # nobody is called who is gone


# Who may overwrite what


def lent() -> tuple[Tensor, Any]:
    array = np.zeros(3, F4)
    return ad.asarray(array), array


def detached() -> tuple[Tensor, Any]:
    x = ad.zeros(3)
    return x, x.detach()


def viewed() -> tuple[Tensor, Any]:
    x = ad.zeros(3)
    return x, x.numpy()


def read_only() -> tuple[Tensor, Any]:
    x = ad.zeros(3)
    x.raw.flags.writeable = False
    return x, None


SHARED = {
    "detached": detached,
    "viewed": viewed,
    "lent": lent,
    "read-only": read_only,
    "the array": lambda: (x := ad.zeros(3), x.raw),
    "borrowed": lambda: (wrap(np.frombuffer(bytearray(12), F4)), None),
    "transposed": lambda: (wrap(np.zeros((3, 2), F4, order="F")), None),
    "a view": lambda: (wrap(np.zeros(4, F4)[1:]), None),
}


@pytest.mark.parametrize("make", SHARED.values(), ids=SHARED)
def test_what_others_reach_is_shared(make: Callable[[], tuple[Tensor, Any]]) -> None:
    x, _other = make()
    captured, given = capturing(x), taking(x)
    assert entered(captured) == entered(given, x) == -1
    assert captured.shared.tolist() == given.shared.tolist() == [1]


def test_what_only_its_tensor_has_is_not_shared() -> None:
    x, y, z = (ad.zeros(n) for n in (3, 4, 5))
    held = Objects([expected(x), expected(y), expected(z)], [x, None, z], np.zeros(3, np.int64))
    for _ in range(3):
        assert entered(held, y) == -1 and held.shared.tolist() == [0, 0, 0]
    other = y.detach()
    assert entered(held, y) == -1 and held.shared.tolist() == [0, 1, 0]
    del other
    assert entered(held, y) == -1 and held.shared.tolist() == [0, 0, 0]


def test_what_two_entries_reach_is_shared() -> None:
    x, y = ad.zeros(3), ad.zeros(3)
    twice = taking(x, y, x)
    assert entered(twice, x, y, x) == -1 and twice.shared.tolist() == [1, 0, 1]
    assert entered(twice, x, y, y) == -1 and twice.shared.tolist() == [0, 1, 1]
    both = Objects([expected(x)] * 3, [x, None, y], np.zeros(3, np.int64))
    assert entered(both, x) == -1 and both.shared.tolist() == [1, 1, 0]
    x._grad = x.detach()
    gradient = Objects([expected(x), expected(x)._replace(of_grad=True)], [x, x], np.zeros(2, int))
    assert entered(gradient) == -1 and gradient.shared.tolist() == [1, 1]


def test_while_held_nobody_overwrites() -> None:
    x, y = ad.zeros(3), ad.zeros(4)
    held = Objects([expected(x), expected(y)], [x, None], np.zeros(2, np.int64))
    places = start(x.raw), start(y.raw)
    assert is_lone(x) and is_lone(y)
    assert held.enter([y]) == -1
    assert not is_lone(x) and not is_lone(y)
    x += 1
    y[0] = 2
    assert start(x.raw) != places[0] and start(y.raw) != places[1]
    held.leave()
    assert is_lone(x) and is_lone(y)
    assert x.tolist() == [1, 1, 1] and y.tolist() == [2, 0, 0, 0]


# References


def test_what_was_held_is_given_back() -> None:
    x, y, z = ad.zeros(3), ad.zeros(3), ad.zeros(3)
    x._grad = y.detach()
    read = [expected(x), Expected(layout_of(y.raw), of_grad=True), expected(z), expected(z)]
    held = Objects(read, [x, x, None, None], np.zeros(4, np.int64))
    things = [x, y, z, x.raw, y.raw, z.raw]
    others = [None, np.ndarray, F4]  # which more hold than this test
    before = [*map(sys.getrefcount, things)], [*map(sys.getrefcount, others)]
    for _ in range(10_000):
        assert held.enter([z, z]) == -1
        held.leave()
    assert [*map(sys.getrefcount, things)] == before[0]
    counts = zip(map(sys.getrefcount, others), before[1], strict=True)
    assert max(abs(n - m) for n, m in counts) < 100


def test_without_a_fit_nothing_is_held() -> None:
    x, y = ad.zeros(3), ad.zeros(3)
    held = capturing(x, x, y)
    y.raw = np.zeros(4, F4)
    before = references(x), references(y)
    for _ in range(100):
        assert held.enter([]) == 2
    assert (references(x), references(y)) == before
    assert is_lone(x)
    held.leave()  # as a `finally` does
    assert (references(x), references(y)) == before


def test_leaving_twice_gives_nothing_back_twice() -> None:
    x = ad.zeros(3)
    held = capturing(x)
    held.leave()
    before = references(x)
    assert held.enter([]) == -1
    held.leave()
    held.leave()
    assert references(x) == before


def test_an_array_that_its_tensor_let_go_dies_at_the_end() -> None:
    x, y = ad.zeros(3), ad.zeros(3)
    held = Objects([expected(x), expected(y)], [x, None], np.zeros(2, np.int64))
    assert held.enter([y]) == -1
    former = weakref.ref(x.raw), weakref.ref(y.raw)
    x.raw, y.raw = np.ones(3, F4), np.ones(3, F4)
    before = references(x), references(y)
    assert held_still(former) == 2
    held.leave()
    assert held_still(former) == 0
    assert (references(x), references(y)) == before


def test_an_array_that_dies_may_run_python() -> None:
    """Even to leave again: what is being given back is not given back twice."""
    x, y = ad.zeros(3), ad.zeros(3)
    held = capturing(x, y)
    assert held.enter([]) == -1
    before, deaths = references(y), []
    weakref.finalize(x.raw, lambda: (held.leave(), deaths.append(references(y))))
    x.raw = np.ones(3, F4)
    held.leave()
    assert len(deaths) == 1 and references(y) == before - 1
    assert entered(held) == -1


def test_arguments_are_not_kept_alive() -> None:
    x = ad.zeros(3)
    held, died = taking(x), weakref.ref(x)
    assert held.enter([x]) == -1
    array = weakref.ref(x.raw)
    del x
    assert died() is None and array() is not None
    held.leave()
    assert array() is None


# Many


def test_four_hundred_tensors_are_entered_at_once() -> None:
    tensors = [ad.zeros((k % 7 + 1, k % 5 + 2)[: k % 3]) for k in range(400)]
    addresses = np.zeros(400, np.int64)
    held = Objects([*map(expected, tensors)], tensors, addresses)
    assert entered(held) == -1 and not held.shared.any()
    assert addresses.tolist() == [start(x.raw) for x in tensors]
    tensors[399].raw = np.zeros(9, F8)
    assert entered(held) == 399


def test_threads_enter_the_same_tensors_at_once() -> None:
    tensors = [ad.zeros((k % 7 + 1, 4)) for k in range(50)]
    before = [*map(references, tensors)]
    failures = []

    def run() -> None:
        held = capturing(*tensors)
        for _ in range(300):
            if held.enter([]) != -1 or any(map(is_lone, tensors)):
                failures.append(1)
            held.leave()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert [*map(references, tensors)] == before
