"""Modes: whatever is decorated or interrupted, they hold where they should, and nowhere else."""

import asyncio
import contextlib
import gc
import inspect

import numpy as np
import pytest

import adjoint as ad
from adjoint._foundation.blocks import ends
from adjoint._foundation.modes import ANOMALY, GRAD, mode
from tests.core.interrupts import interrupted

SWITCHES = [ad.no_grad, ad.enable_grad, ad.detect_anomaly]
switches = pytest.mark.parametrize("switch", SWITCHES)
HELD = {ad.no_grad: 0, ad.enable_grad: GRAD, ad.detect_anomaly: GRAD | ANOMALY}


def outside(switch):
    """A mode that the switch changes."""
    return ad.no_grad() if switch is ad.enable_grad else ad.enable_grad()


# Decorated generators and coroutines


@switches
@pytest.mark.parametrize("called", [True, False], ids=["@switch()", "@switch"])
def test_a_generators_body_is_in_the_mode_and_its_caller_is_not(switch, called):
    @(switch() if called else switch)
    def numbers(n):
        """Documented."""
        for k in range(n):
            yield k, mode.word

    with outside(switch):
        before = mode.word
        assert before != HELD[switch]
        for k, (number, word) in enumerate(numbers(3)):
            assert (number, word) == (k, HELD[switch])
            assert mode.word == before
    assert inspect.isgeneratorfunction(numbers)
    assert (numbers.__name__, numbers.__doc__) == ("numbers", "Documented.")


def test_a_decorated_generator_is_sent_values_thrown_errors_closed_and_returns():
    seen = []

    @ad.no_grad()
    def talk():
        seen.append(mode.word)
        try:
            while True:
                try:
                    got = yield len(seen)
                    seen.append((got, mode.word))
                    if got == "end":
                        return "returned"
                except KeyError:
                    seen.append(("caught", mode.word))
        finally:
            seen.append(("closed", mode.word))

    def delegate():
        return (yield from talk())

    for make in (talk, delegate):
        seen.clear()
        one = make()
        assert [next(one), one.send("a"), one.throw(KeyError("b"))] == [1, 2, 3]
        assert mode.word == GRAD
        with pytest.raises(StopIteration) as end:
            one.send("end")
        assert end.value.value == "returned"
        assert seen == [0, ("a", 0), ("caught", 0), ("end", 0), ("closed", 0)]
        two = make()
        next(two)
        seen.clear()
        two.close()
        assert seen == [("closed", 0)]
        three = make()
        next(three)
        with pytest.raises(ZeroDivisionError):
            three.throw(ZeroDivisionError)
        assert mode.word == GRAD


def test_a_decorated_generator_records_nothing():
    @ad.no_grad()
    def doubled(xs):
        for x in xs:
            yield x * 2

    x = ad.tensor(1.0, requires_grad=True)
    results = []
    for y in doubled([x, x]):
        results += [y.requires_grad, (x * 3).requires_grad]
    assert results == [False, True, False, True]


def test_a_mode_that_a_generators_caller_changes_stays_changed():
    @ad.enable_grad()
    def body():
        while True:
            yield mode.word

    words = body()
    assert (next(words), mode.word) == (GRAD, GRAD)
    with ad.no_grad():
        assert (next(words), mode.word) == (GRAD, 0)
    assert (next(words), mode.word) == (GRAD, GRAD)


@switches
def test_a_coroutines_body_is_in_the_mode_and_other_tasks_are_not(switch):
    seen = []

    @switch()
    async def work(n):
        for _ in range(n):
            seen.append(mode.word)
            await asyncio.sleep(0)
        return n

    async def other(n):
        for _ in range(n):
            seen.append(mode.word)
            await asyncio.sleep(0)

    async def both():
        return (await asyncio.gather(work(3), other(3)))[0]

    with outside(switch):
        before = mode.word
        assert asyncio.run(both()) == 3
        assert mode.word == before
    assert seen == [HELD[switch], before] * 3
    assert inspect.iscoroutinefunction(work)


def test_errors_and_cancellations_go_through_a_decorated_coroutine():
    seen = []

    @ad.no_grad()
    async def wait(error):
        try:
            if error is not None:
                raise error
            await asyncio.sleep(60)
        except BaseException as e:
            seen.append((type(e), mode.word))
            raise
        finally:
            await asyncio.sleep(0)
            seen.append(mode.word)

    async def cancelled():
        task = asyncio.create_task(wait(None))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(KeyError):
        asyncio.run(wait(KeyError("mine")))
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert seen == [(KeyError, 0), 0, (asyncio.CancelledError, 0), 0]
    assert mode.word == GRAD


@switches
def test_an_async_generators_body_is_in_the_mode_and_its_caller_is_not(switch):
    seen = []

    @switch()
    async def numbers():
        try:
            for k in range(3):
                await asyncio.sleep(0)
                seen.append((k, mode.word))
                try:
                    got = yield k
                    seen.append((got, mode.word))
                except KeyError:
                    yield "caught"
        finally:
            await asyncio.sleep(0)
            seen.append(mode.word)

    async def use():
        before = mode.word
        words = [mode.word async for _ in numbers()]
        talk = numbers()
        assert await anext(talk) == 0
        assert await talk.asend("a") == 1
        assert await talk.athrow(KeyError("b")) == "caught"
        assert mode.word == before
        await talk.aclose()
        words.append(mode.word)
        failing = numbers()
        await anext(failing)
        with pytest.raises(ZeroDivisionError):
            await failing.athrow(ZeroDivisionError("mine"))
        return words

    held = HELD[switch]
    with outside(switch):
        before = mode.word
        assert asyncio.run(use()) == [before] * 4
    whole = [step for k in range(3) for step in ((k, held), (None, held))]
    talked = [(0, held), ("a", held), (1, held), held]
    assert seen == [*whole, held, *talked, (0, held), held]
    assert inspect.isasyncgenfunction(numbers)


def test_a_decorated_async_generator_that_is_dropped_is_closed_in_its_mode_and_once():
    seen, problems = [], []

    @ad.no_grad()
    async def numbers():
        try:
            yield 1
        finally:
            await asyncio.sleep(0)
            seen.append(mode.word)

    async def use():
        asyncio.get_running_loop().set_exception_handler(lambda _, what: problems.append(what))
        global kept
        kept = numbers()
        await anext(kept)

    asyncio.run(use())
    assert (seen, problems) == ([0], [])


def test_methods_and_objects_that_are_called_stay_what_they_are():
    class Model:
        @ad.no_grad()
        def batches(self):
            yield mode.word

        async def __call__(self):
            await asyncio.sleep(0)
            return mode.word

    assert list(Model().batches()) == [0]
    assert asyncio.run(ad.no_grad()(Model())()) == 0


@switches
def test_what_is_not_a_function_is_not_decorated(switch):
    class Model:
        pass

    name = switch.__name__
    for decorate in (switch, switch()):
        with pytest.raises(ad.DTypeError, match=f"{name}: .* Model is a class: decorate its meth"):
            decorate(Model)
        with pytest.raises(ad.DTypeError, match=f"{name}: it decorates functions, got ndarray"):
            decorate(np.ones(2))


# Interrupts

weight = ad.tensor([1.0, 2.0], requires_grad=True)
layer = ad.nn.Linear(2, 1)


def nested_switches():
    with ad.no_grad(), ad.detect_anomaly(), ad.enable_grad():
        pass


@ad.no_grad()
def decorated():
    return 1


def traced_step():
    def step(x):
        weight.grad = x
        with ad.no_grad():
            weight.__isub__(x)
        return ad.random.bits((2,))

    ad.trace(step, ad.ones(2))


def mapped():
    def loss(x):
        layer.weight.grad = None
        return (x * weight).sum() + ad.random.normal(())

    ad.vmap(loss)(ad.ones((2, 2)))


def checkpointed():
    x = ad.ones(2, requires_grad=True)
    ad.autograd.grad(ad.checkpoint(lambda x: (x * weight).sum() + ad.random.normal(()), x), x)


def profiled():
    with ad.profile(quiet=True, gpu_times=False):  # a GPU may be there from other tests
        ad.exp(ad.ones(2))


def differentiated():
    ad.autograd.grad((weight * weight).sum(), weight, create_graph=True)


def called_with_others():
    ad.nn.functional_call(layer, {"weight": ad.zeros((1, 2))}, (ad.ones((1, 2)),))


def configured():
    with ad.config(host_ops="error"):
        pass


# What is run, in how large steps from moment to moment, and the files in which it is interrupted.
INTERRUPTED = {
    nested_switches: (1, ()),
    decorated: (1, ("_foundation/stepwise.py",)),
    traced_step: (7, ("_trace/graph.py",)),
    mapped: (23, ("_transforms/vmap.py", "_trace/partial.py", "random/_generator.py")),
    checkpointed: (5, ("_transforms/checkpoint.py", "_core/random_state.py")),
    profiled: (5, ("_profile/session.py", "_foundation/spans.py")),
    differentiated: (1, ("_engine/visit.py", "_engine/serial.py", "_engine/propagation.py")),
    called_with_others: (1, ("functional_call.py",)),
    configured: (1, ("_foundation/config.py",)),
}


def state():
    tensors = (weight.raw, weight.node, weight._grad, layer.weight, layer.weight._grad)
    whole = (mode.word, mode.trace, mode.draws, mode.recomputing, mode.logs, ad.config.host_ops)
    return [*whole, list(ends.stack), list(gc.callbacks), *map(id, tensors)]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("run", INTERRUPTED, ids=lambda run: run.__name__)
def test_all_is_as_before_after_an_interrupt_at_any_moment(run):
    step, files = INTERRUPTED[run]
    run()
    before = state()

    def check():
        assert state() == before
        assert not ad.random.default._turn.locked()

    files = ("_foundation/modes.py", "_foundation/blocks.py", "contextlib.py", *files)
    assert interrupted(run, check, files, step) > 3


def test_hooks_that_a_second_run_registered_are_gone_after_an_interrupt():
    x = ad.ones(2, requires_grad=True)
    registered = []

    def hooked(x):
        registered.append(weight.register_hook(lambda g: g))
        if ad.is_recomputing():
            raise KeyboardInterrupt
        return (x * weight).sum()

    with pytest.raises(KeyboardInterrupt):
        ad.checkpoint(hooked, x).backward()
    registered[0].remove()
    assert all(handle._key not in handle._hooks for handle in registered)


def test_blocks_may_be_entered_by_hand_by_a_stack_and_again():
    switch = ad.no_grad()
    switch.__enter__()
    with switch, contextlib.ExitStack() as stack:
        stack.enter_context(ad.enable_grad())
        assert ad.is_grad_enabled()
        stack.close()
        assert not ad.is_grad_enabled()
    assert not ad.is_grad_enabled()
    switch.__exit__(None, None, None)
    assert ad.is_grad_enabled()
    with pytest.raises(KeyError), contextlib.ExitStack() as stack:
        stack.enter_context(switch)
        raise KeyError
    assert ad.is_grad_enabled() and not ends.stack


def test_options_are_those_of_a_decorated_generators_body_only():
    @ad.config(host_ops="error")
    def body():
        yield ad.config.host_ops
        yield ad.config.host_ops

    assert [(word, ad.config.host_ops) for word in body()] == [("error", "allow")] * 2
