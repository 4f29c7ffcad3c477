"""Leaves, results, hooks and gradients: what tensors are is part of what a program is for."""

import os
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from tests.support.helpers import needs_kernels
from tests.support.processes import printed

pytestmark = needs_kernels
nn = ad.nn


def leaf(*values: float) -> ad.Tensor:
    return ad.tensor(values, requires_grad=True)


def grads(*tensors: ad.Tensor) -> list[Any]:
    return [None if x._grad is None else x._grad.tolist() for x in tensors]


def both(function: Callable[[Callable], Any]) -> None:
    """Check that a scenario ends alike with a compiled and a plain function."""
    assert function(ad.compile) == function(lambda f: f)


@pytest.mark.filterwarnings("ignore:compile:RuntimeWarning")
def test_a_result_in_the_place_of_a_leaf_passes_gradients_on() -> None:
    def run(wrap: Callable) -> Any:
        f = wrap(lambda x: (x * x).sum().backward())
        x, w = leaf(1.0, 2.0), leaf(1.0, 2.0)
        f(x)
        h = w * 3.0
        f(h)
        f(x)
        return grads(x, w, h)

    both(run)


@pytest.mark.filterwarnings("ignore:compile:RuntimeWarning")
def test_gradients_go_through_the_graph_that_a_captured_result_has_now() -> None:
    def run(wrap: Callable) -> Any:
        w, v = leaf(1.0, 2.0), leaf(3.0, 4.0)
        h = w * 3.0
        f = wrap(lambda x: (h * x).sum().backward(retain_graph=True))
        f(ad.ones(2))
        h *= v
        f(ad.ones(2))
        return grads(w, v, h)

    both(run)


@pytest.mark.filterwarnings("ignore:compile:RuntimeWarning")
def test_a_captured_graph_can_be_used_up_once() -> None:
    w = leaf(1.0, 2.0)
    h = w * w
    f = ad.compile(lambda x: (h * x).sum().backward())
    f(ad.ones(2))
    with pytest.raises(ad.GradientError):
        f(ad.ones(2))
    assert grads(w) == [[2.0, 4.0]]


def test_functions_that_go_on_into_graphs_from_outside_run_eagerly_and_say_so() -> None:
    f = ad.compile(lambda x: (x * x).sum().backward())
    with pytest.warns(RuntimeWarning, match="runs backward through what was computed before"):
        f(leaf(1.0) * 2.0)
    assert f.explain().startswith("<lambda>: 0 programs") and "computed before" in f.explain()


def test_a_captured_leaf_that_becomes_a_result_is_seen() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    f = ad.compile(lambda y: y * (1.0 if x.is_leaf else 2.0) + x)
    with ad.no_grad():
        one = f(ad.zeros(2) + 1.0)
        x.requires_grad_(False)
    x *= w
    with ad.no_grad():
        two = f(ad.zeros(2) + 1.0)
    assert one.tolist() == [2.0, 3.0] and two.tolist() == [5.0, 10.0]


def test_an_update_of_a_leaf_that_the_function_may_not_change_is_its_error() -> None:
    def f(x: ad.Tensor) -> ad.Tensor:
        x *= 2.0
        return (x * x).sum().detach()

    compiled, x = ad.compile(f), leaf(1.0)
    compiled(leaf(1.0) * 1.0)
    with pytest.raises(ad.GradientError):
        compiled(x)
    assert x.is_leaf and x.tolist() == [1.0]


def test_hooks_of_arguments_run() -> None:
    def run(wrap: Callable) -> Any:
        f, seen = wrap(lambda x: (x * x).sum().backward()), []
        x, y, z = leaf(1.0), leaf(2.0), leaf(3.0)
        f(x)
        handle = x.register_hook(lambda g: g * 10)
        for one in (x, y, x):
            f(one)
        handle.remove()
        f(x)
        z.register_post_accumulate_grad_hook(lambda t: seen.append(1))
        f(z)
        return grads(x, y, z), seen

    both(run)


def parameters() -> list[Any]:
    return [nn.Parameter(ad.ones(2)) for _ in range(2)]


def test_gradients_of_unused_parameters_are_cleared() -> None:
    def run(wrap: Callable) -> Any:
        w, u = parameters()
        optimizer = ad.optim.SGD([w, u], lr=0.1)

        @wrap
        def step(x: ad.Tensor) -> None:
            optimizer.zero_grad()
            (w * x).sum().backward()
            optimizer.step()

        step(ad.ones(2))
        u.grad = ad.tensor([5.0, 5.0])
        step(ad.ones(2))
        return w.tolist(), u.tolist(), grads(w, u)

    both(run)


def test_a_gradient_that_is_set_to_what_it_is_stays_set() -> None:
    def run(wrap: Callable) -> Any:
        w, s = leaf(1.0), ad.tensor([2.0])

        def f() -> None:
            w.grad = s

        w.grad, f = s, wrap(f)
        f()
        w.grad = ad.tensor([7.0])
        f()
        x = leaf(1.0)
        clear = wrap(lambda t: setattr(t, "grad", None))
        clear(x)
        x.grad = ad.ones(1)
        clear(x)
        return grads(w, x)

    both(run)


def test_whether_there_is_a_gradient_is_watched_where_its_values_are_not_used() -> None:
    def run(wrap: Callable) -> Any:
        w, u = parameters()
        optimizer = ad.optim.SGD([w, u], lr=0.1, weight_decay=0.5)

        @wrap
        def step(x: ad.Tensor) -> None:
            optimizer.zero_grad(set_to_none=False)
            (w * x).sum().backward()
            optimizer.step()

        w.grad = u.grad = ad.zeros(2)
        step(ad.ones(2))
        w.grad = u.grad = None
        step(ad.ones(2))
        factor = wrap(lambda x: x * (2.0 if w.grad is None else 3.0))
        found = [factor(ad.ones(1)).tolist()]
        for grad in (None, ad.zeros(2), None):
            w.grad = grad
            found.append(factor(ad.ones(1)).tolist())
        return w.tolist(), u.tolist(), grads(w, u), found

    both(run)


def test_gradients_that_arguments_come_to_have_are_seen() -> None:
    def run(wrap: Callable) -> Any:
        f = wrap(lambda x: (x * 0.0 if x.grad is None else x.grad * 2.0).detach())
        x, found = leaf(1.0), []
        for grad in (None, ad.ones(1), None, ad.ones(1) * 3.0):
            x.grad = grad
            found.append(f(x).tolist())
        return found

    both(run)


FORK = """
import os, threading, warnings
import adjoint as ad
warnings.simplefilter("ignore", DeprecationWarning)  # Python's word on forks beside threads
generator = ad.random.Generator(0)
f = ad.compile(lambda x: x + generator.normal((3,)))
f(ad.ones(3))
held, done = threading.Event(), threading.Event()
def hold():
    with generator._turn:
        held.set()
        done.wait(60)
thread = threading.Thread(target=hold)
thread.start()
held.wait(60)
child = os.fork()
if not child:
    os._exit(f(ad.ones(3)).shape != (3,))
done.set()
thread.join()
threading.Timer(60, os.kill, (child, 9)).start()
status = os.waitpid(child, 0)[1]
print(status, flush=True)
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_programs_take_turns_with_the_generator_of_the_child() -> None:
    assert printed("-c", FORK).strip() == "0"
