"""x[i] = v where nobody holds x: what is written is lost, and a warning says so."""

import operator
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.functions import _lost

TELLS = pytest.mark.skipif(not _lost.UNHELD, reason="this Python's reference counts can't tell")
held = ad.zeros((2, 2))


def zeros(**options: Any) -> ad.Tensor:
    return ad.zeros((2, 2), **options)


# Statements that lose what they write.

LOST = [
    "x[0][1] = 5",
    "x[0][1] += 1",
    "x[0][0:1] = 5",
    "x[0][0:1] *= 2",
    "x[0][...] = 5",
    "x[0][0], x[1][1] = 1, 2",
    "x.T[0] = 1",
    "x.mT[0] = 1",
    "w.detach()[0] = 1",
    "w.data.T[0] = 1",
    "(w * 2)[0] = 1",
    "x.reshape(-1)[0] = 1",
    "x[x > -1][0] = 1",
    "ad.zeros(3)[0] = 1",
    "ad.asarray(np.zeros(3))[0] = 1",
    "[x[0] for _ in range(2)][0][1] = 5",
    "(lambda: x[0])()[1] = 5",
    "for x[0][1] in range(2): pass",
    "{'x': x[0]}.pop('x')[1] = 5",
    "model.state_dict()['weight'][0] = 5",
]


def run(statement: str) -> None:
    x, w, model = zeros(), zeros(requires_grad=True), ad.nn.Linear(2, 2)
    exec(statement, {"x": x, "w": w, "model": model, "ad": ad, "np": np})
    assert x.tolist() == [[0, 0], [0, 0]]


@TELLS
@pytest.mark.parametrize("statement", LOST)
def test_an_assignment_to_what_nobody_holds_warns(statement: str) -> None:
    with pytest.warns(ad.LostAssignmentWarning, match="assignment is lost.* write x.0, 1. = 5"):
        run(statement)


@TELLS
def test_it_warns_under_no_grad_and_while_traced() -> None:
    def f(x: ad.Tensor) -> ad.Tensor:
        x[0][1] = 5
        return x * 2

    w = zeros(requires_grad=True)
    with ad.no_grad(), pytest.warns(ad.LostAssignmentWarning):
        w[0][1] = 5
    for transform in (lambda: ad.trace(f, zeros()), lambda: ad.vmap(f)(ad.zeros((3, 2, 2)))):
        with pytest.warns(ad.LostAssignmentWarning):
            transform()


@TELLS
@pytest.mark.webgpu
def test_it_warns_on_a_gpu() -> None:
    x = zeros(device="webgpu")
    x[0] = 1
    with pytest.warns(ad.LostAssignmentWarning):
        x[0][1] = 5


@TELLS
def test_each_place_is_shown_once() -> None:
    code = "for _ in range(3):\n    x[0][1] = 5\n    x.T[0] = 1\nx[0][1] = 5\nx[0, 1] = 5\n"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        exec(compile(code, "places.py", "exec"), {"x": zeros()})
    assert [(w.filename, w.lineno) for w in caught] == [("places.py", n) for n in (2, 3, 4)]
    assert issubclass(ad.LostAssignmentWarning, UserWarning)


# Assignments that aren't lost. Warnings are errors in tests.


class Owner:
    shared = ad.zeros((2, 2))

    def __init__(self, x: ad.Tensor) -> None:
        self.x = x

    @property
    def same(self) -> ad.Tensor:
        return self.x


class Slotted:
    __slots__ = ("x",)


class Loud(ad.Tensor):
    """A tensor whose assignments go through a method of its own."""

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(index, value)


def to_locals(x: ad.Tensor) -> None:
    y = x
    del x
    y[0, 1] = 5
    y[0, 0:1] += 0
    y[0] += 0
    y[:1] *= 1


def to_arguments(x: ad.Tensor, *more: Any, **named: Any) -> None:
    def assigns(y: ad.Tensor, *others: ad.Tensor, **options: ad.Tensor) -> None:
        y[0, 1] = 5
        others[0][0] += 0
        options["z"][0] += 0

    assigns(x, x * 2, z=x * 2)


def to_globals(x: ad.Tensor) -> None:
    held[0] = 1
    global made
    made = x
    made[0, 1] = 5


def to_attributes(x: ad.Tensor) -> None:
    owner, slotted, namespace = Owner(x), Slotted(), types.SimpleNamespace(x=x * 2)
    slotted.x = x * 2
    owner.x[0, 1] = 5
    owner.same[0] += 0
    slotted.x[0] = 1
    namespace.x[0] = 1
    Owner.shared[0] = 1
    Owner(x * 2).__dict__["x"] = x * 2


def to_elements(x: ad.Tensor) -> None:
    items, names, nested = [x], {"x": x * 2}, ([x * 2],)
    del x
    items[0][0, 1] = 5
    items[-1][0] += 0
    names["x"][0] = 1
    nested[0][0][0] = 1
    objects = np.empty(1, object)
    objects[0] = nested[0].pop()
    objects[0][0] = 1
    next(iter(names.values()))[0] = 1


def to_cells(x: ad.Tensor) -> None:
    def inner() -> None:
        x[0, 1] = 5

    inner()


def to_gradients(x: ad.Tensor) -> None:
    w = ad.zeros((2,), requires_grad=True)
    (w * 2).sum().backward()
    assert w.grad is not None
    w.grad[0] = 1
    w.grad[0] += 1
    x[0, 1] = 5


def to_parameters(x: ad.Tensor) -> None:
    model = ad.nn.Linear(2, 2)
    with ad.no_grad():
        model.weight[0] = 1
        next(model.parameters())[0] = 1
        list(model.parameters())[-1][0] = 1
        dict(model.named_parameters())["bias"][0] += 1
    model.weight.data[0] = 1
    model.weight.data[0][1] = 5
    model.weight.data[0] += 1
    model.weight.data[0].fill_(2)
    for initial in (ad.nn.init.zeros_, ad.nn.init.eye_, ad.nn.init.orthogonal_):
        initial(model.weight)
    ad.nn.init.trunc_normal_(model.weight)
    x[0, 1] = 5


def to_results(x: ad.Tensor) -> None:
    def same() -> ad.Tensor:
        return x

    same()[0, 1] = 5
    (lambda: x)()[0] += 0
    ad.asarray(x)[0] += 0
    x.to(ad.float32)[0] += 0
    (_ := x * 2)[0] = 1


def to_loop_variables(x: ad.Tensor) -> None:
    for row in x:
        row[0] = 7
    x[0, 1] = 5


def by_calls(x: ad.Tensor) -> None:
    x.__setitem__((0, 1), 5)
    ad.Tensor.__setitem__(x, (0, 1), 5)  # type: ignore[call-arg]
    setter = x.__setitem__
    setter((0, 1), 5)
    operator.setitem(x, (0, 1), 5)  # type: ignore[arg-type]
    list(map(operator.setitem, [x], [(0, 1)], [5]))  # type: ignore[arg-type]
    x[0].__setitem__(1, 7)  # a call isn't an assignment: whoever makes it knows its object


def by_comprehensions(x: ad.Tensor) -> None:
    [y.__setitem__((0, 1), 5) for y in [x]]
    [0 for x[0, 1] in [5]]
    (lambda y: y.__setitem__((0, 1), 5))(x)


def by_generators(x: ad.Tensor) -> None:
    def writes(y: ad.Tensor) -> Generator[None, ad.Tensor, None]:
        y[0, 1] = 5
        yield
        y[0] += 0
        (yield)[0] += 0
        yield

    generator = writes(x)
    next(generator)
    next(generator)
    generator.send(x)


def by_threads(x: ad.Tensor) -> None:
    failures: list[BaseException] = []

    def writes() -> None:
        try:
            for _ in range(100):
                x[0, 1] = 5
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=writes) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def by_weak_references(x: ad.Tensor) -> None:
    weakref.ref(x)()[0, 1] = 5  # type: ignore[index]
    weakref.proxy(x)[0] += 0
    weakref.WeakValueDictionary({"x": x})["x"][0] += 0


def by_derived_classes(x: ad.Tensor) -> None:
    loud: Any = Loud.__new__(Loud)
    loud.raw, loud.node, loud._grad = x.raw, None, None
    loud[0] = 1
    x[0, 1] = 5


def by_methods(x: ad.Tensor) -> None:
    """z = x[0].add_(1) is right: the method returns what it changed."""
    z = x[0].add_(x[1] + 1).clamp_(0)
    x[0].add_(x[1])
    x[0, 1] = 5 * z[1] / z[1]


def by_loops(x: ad.Tensor) -> None:
    items = [x]
    for _ in range(200):  # the interpreter rewrites what runs often
        x[0, 1] = 5
        items[0][0] += 0


def by_text(x: ad.Tensor) -> None:
    exec("x[0, 1] = 5", {"x": x})
    exec("x[0] += 0", {}, {"x": x})


KEPT = [value for name, value in globals().items() if name.startswith(("to_", "by_"))]
TRACED = [assigns for assigns in KEPT if assigns is not by_threads]


@pytest.mark.parametrize("assigns", KEPT, ids=lambda f: f.__name__)
def test_an_assignment_to_what_is_held_is_silent(assigns: Callable[[ad.Tensor], None]) -> None:
    x = zeros()
    assigns(x)
    assert x.tolist() == [[0, 5], [0, 0]]
    w = zeros(requires_grad=True)
    y = w * 2
    assigns(y)
    y.sum().backward()
    assert w.grad is not None and w.grad.tolist() == [[2, 0], [2, 2]]


@pytest.mark.parametrize("assigns", KEPT, ids=lambda f: f.__name__)
def test_it_is_silent_under_no_grad(assigns: Callable[[ad.Tensor], None]) -> None:
    with ad.no_grad():
        to_locals(zeros(requires_grad=True))
        if assigns is not to_gradients:
            assigns(zeros())


@pytest.mark.parametrize("assigns", TRACED, ids=lambda f: f.__name__)
def test_it_is_silent_while_traced(assigns: Callable[[ad.Tensor], None]) -> None:
    def f(x: ad.Tensor) -> ad.Tensor:
        y = x * 1
        assigns(y)
        return y

    assert ad.trace(f, zeros())(zeros()).tolist() == [[0, 5], [0, 0]]


@pytest.mark.parametrize("assigns", KEPT, ids=lambda f: f.__name__)
def test_it_is_silent_under_settrace(assigns: Callable[[ad.Tensor], None]) -> None:
    """As under debuggers and coverage, which look at frames."""

    def tracer(frame: types.FrameType, event: str, arg: Any) -> Any:
        _ = frame.f_locals
        return tracer

    x, before = zeros(), sys.gettrace()
    sys.settrace(tracer)
    try:
        assigns(x)
    finally:
        sys.settrace(before)
    assert x.tolist() == [[0, 5], [0, 0]]


def test_nothing_is_said_where_counts_cannot_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Python 3.14, whose stack borrows references from variables."""
    monkeypatch.setattr(_lost, "getrefcount", lambda x: 3)
    monkeypatch.setattr(_lost, "UNHELD", _lost.measure_unheld())
    assert _lost.UNHELD == 0
    run("x[0][1] = 5")


def test_counts_tell_in_the_pythons_that_count_what_is_on_the_stack() -> None:
    is_counted = sys.implementation.name == "cpython" and sys.version_info < (3, 14)
    assert bool(_lost.UNHELD) or not is_counted
