"""The buffer pool: memory is used again, never too early, and never is too much of it idle."""

import copy
import ctypes
import io
import os
import pickle
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy._core.multiarray import get_handler_name

import adjoint as ad
from adjoint.backends import cpu
from adjoint.backends.cpu.jit import allocator, compiler, handler, memory
from adjoint.backends.cpu.jit.availability import obstacle
from tests.support.processes import printed

if obstacle() is not None or not handler.supported():
    pytest.skip("there is no pool here", allow_module_level=True)

F4 = np.dtype("f4")
KIB, MIB = 1 << 10, 1 << 20
LIMIT = 16 * MIB


@pytest.fixture
def pool() -> Iterator[memory.Pool]:
    pool = memory.Pool(LIMIT)
    yield pool
    pool.set_limit(0)


def empty(pool: memory.Pool, nbytes: int) -> np.ndarray:
    return pool.call(np.empty, (nbytes,), np.dtype("u1"))


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


# Arrays from the pool are arrays


def test_arrays_own_their_memory(pool: memory.Pool) -> None:
    x = empty(pool, MIB)
    assert x.flags.owndata and x.base is None and x.flags.writeable
    assert get_handler_name(x) == "adjoint"
    assert get_handler_name(np.empty(MIB)) == "default_allocator"


@pytest.mark.parametrize("nbytes", [0, 1, 4096, 100 * KIB, MIB, 2 * MIB, 5 * MIB, 33 * MIB])
def test_data_is_aligned_and_all_of_it_can_be_written(pool: memory.Pool, nbytes: int) -> None:
    x = empty(pool, nbytes)
    assert address(x) % 64 == 0
    x[...] = 7
    assert x.sum(dtype=np.int64) == 7 * nbytes


def test_only_whoever_holds_it_alone_may_overwrite_it(pool: memory.Pool) -> None:
    x = empty(pool, MIB)
    assert cpu.exclusive(x, 1)
    view = x[1:]
    assert not cpu.exclusive(x, 1) and not cpu.exclusive(view, 1)


class Marked(np.ndarray):
    """A subclass."""


def saved_and_loaded(x: np.ndarray) -> np.ndarray:
    file = io.BytesIO()
    np.save(file, x)
    file.seek(0)
    return np.load(file)


@pytest.mark.parametrize(
    "round_trip",
    [
        lambda x: pickle.loads(pickle.dumps(x)),
        lambda x: pickle.loads(pickle.dumps(x, protocol=5)),
        copy.deepcopy,
        saved_and_loaded,
        lambda x: x.view(Marked),
        lambda x: np.frombuffer(memoryview(x), F4),
        np.from_dlpack,
    ],
)
def test_values_survive(pool: memory.Pool, round_trip: Callable) -> None:
    x = pool.call(np.empty, (50_000,), F4)
    x[:] = np.arange(50_000)
    kept = round_trip(x)
    del x
    other = pool.call(np.empty, (50_000,), F4)
    other[:] = -1
    np.testing.assert_array_equal(kept, np.arange(50_000, dtype=F4))


def test_tracemalloc_sees_the_bytes(pool: memory.Pool) -> None:
    for _ in range(2):  # new memory, then idle memory
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        x = empty(pool, MIB)
        during = tracemalloc.get_traced_memory()[0] - before
        del x
        after = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        assert MIB <= during < MIB + 10_000 and after < 10_000


def test_objects_in_a_pooled_array_are_let_go(pool: memory.Pool) -> None:
    thing = object()
    count = sys.getrefcount(thing)
    for _ in range(2):
        x = pool.call(np.empty, (10_000,), np.dtype(object))
        assert x[9_999] is None
        x[:] = thing
        assert sys.getrefcount(thing) == count + 10_000
        del x
        assert sys.getrefcount(thing) == count


# Reuse


@pytest.mark.parametrize(("first", "then"), [(MIB, MIB), (MIB, MIB - 5000), (40_000, 40_900)])
def test_freed_memory_is_taken_again(pool: memory.Pool, first: int, then: int) -> None:
    x = empty(pool, first)
    before = address(x)
    del x
    y = empty(pool, then)
    assert address(y) == before
    assert pool.stats()["reuses"] == 1 and pool.stats()["idle"] == 0


def test_the_newest_is_taken_first(pool: memory.Pool) -> None:
    x, y = empty(pool, MIB), empty(pool, MIB)
    newest = address(x)
    del y
    del x
    assert address(empty(pool, MIB)) == newest


@pytest.mark.parametrize(
    "hold",
    [
        lambda x: x[10:20],
        lambda x: x.reshape(4, -1).T,
        lambda x: x.view(Marked)[1:],
        memoryview,
        lambda x: np.asarray(memoryview(x)),
        lambda x: x.__dlpack__(),
        np.from_dlpack,
        lambda x: ctypes.c_char.from_buffer(x),
        ad.from_dlpack,
    ],
)
def test_nothing_is_taken_while_something_reaches_it(pool: memory.Pool, hold: Callable) -> None:
    x = pool.call(np.zeros, (MIB,), np.dtype("u1"))
    before = address(x)
    held = hold(x)
    del x
    assert pool.stats()["in_use"] == MIB
    y = empty(pool, MIB)
    assert address(y) != before
    del held
    assert pool.stats()["in_use"] == MIB and pool.stats()["idle"] == MIB
    assert address(empty(pool, MIB)) == before


@pytest.mark.parametrize("nbytes", [40_000, MIB, 5 * MIB])
def test_zeros_are_zero_in_used_memory(pool: memory.Pool, nbytes: int) -> None:
    dirty = empty(pool, nbytes)
    before = address(dirty)
    dirty[:] = 255
    del dirty
    clean = pool.call(np.zeros, (nbytes - 7,), np.dtype("u1"))
    assert address(clean) == before and not clean.any()


@pytest.mark.parametrize("size", [1, 4096, 4097, 65536, 65537, 3 * MIB + 1, 8 * MIB, 8 * MIB + 1])
def test_capacities_waste_at_most_an_eighth(pool: memory.Pool, size: int) -> None:
    x = empty(pool, size)
    capacity = pool.stats()["in_use"]
    assert x.nbytes <= capacity <= max(size * 9 // 8, size + 4095)
    if size & (size - 1) == 0 and size >= 4096:
        assert capacity == size
    del x
    assert empty(pool, capacity).nbytes == capacity
    assert pool.stats()["idle"] == capacity and pool.stats()["reuses"] == 1


@pytest.mark.parametrize("start", [40_000, MIB, 3 * MIB])
@pytest.mark.parametrize("end", [0, 1, 39_000, 40_000, 40_001, 2 * MIB, 9 * MIB])
def test_resize(pool: memory.Pool, start: int, end: int) -> None:
    x = empty(pool, start)
    x[:] = np.arange(start) % 251
    x.resize(end, refcheck=False)
    same = min(start, end)
    np.testing.assert_array_equal(x[:same], np.arange(same) % 251)
    assert not x[same:].any() and x.flags.owndata
    del x
    assert pool.stats()["in_use"] == 0


# Bounds


def test_idle_memory_is_bounded(pool: memory.Pool) -> None:
    pool.set_limit(4 * MIB)
    arrays = [empty(pool, MIB) for _ in range(10)]
    while arrays:
        arrays.pop()
        assert pool.stats()["idle"] == min(4, 10 - len(arrays)) * MIB
    stats = pool.stats()
    assert stats == {
        "in_use": 0,
        "idle": 4 * MIB,
        "limit": 4 * MIB,
        "peak": 10 * MIB,
        "allocations": 10,
        "reuses": 0,
        "releases": 6,
    }


def test_the_least_recently_used_goes_first(pool: memory.Pool) -> None:
    pool.set_limit(3 * MIB)
    sizes = (MIB, MIB - 200 * KIB, 2 * MIB)
    one, two, three = (empty(pool, size) for size in sizes)
    del one
    del two
    one = empty(pool, MIB)  # used again, so it is the newer of the two
    del one
    del three  # together too much: the second goes
    assert pool.stats()["releases"] == 1 and pool.stats()["idle"] == 3 * MIB
    again = [empty(pool, sizes[0]), empty(pool, sizes[2])]
    assert pool.stats()["idle"] == 0 and pool.stats()["reuses"] == 3
    del again


def test_what_is_larger_than_the_limit_is_not_kept_and_drives_nothing_out(
    pool: memory.Pool,
) -> None:
    x = empty(pool, MIB)
    del x
    x = empty(pool, LIMIT + 1)
    del x
    assert pool.stats()["idle"] == MIB and pool.stats()["releases"] == 1


def test_trim_gives_back_and_says_how_much(pool: memory.Pool) -> None:
    one, two, kept = (empty(pool, size) for size in (MIB, 2 * MIB, 3 * MIB))
    del one
    del two
    assert pool.trim(2 * MIB) == MIB
    assert pool.trim(0) == 2 * MIB and pool.trim(0) == 0
    assert pool.stats()["idle"] == 0 and pool.stats()["in_use"] == kept.nbytes


def test_a_lower_limit_holds_at_once(pool: memory.Pool) -> None:
    arrays = [empty(pool, MIB) for _ in range(5)]
    arrays.clear()
    pool.set_limit(2 * MIB)
    assert pool.stats()["idle"] == 2 * MIB
    pool.set_limit(0)
    x = empty(pool, MIB)
    del x
    assert pool.stats()["idle"] == 0


def resident() -> int:
    """Bytes of this process that are in memory, where the system tells; else 0."""
    file = Path("/proc/self/statm")
    return int(file.read_text().split()[1]) * 4096 if file.exists() else 0


@pytest.mark.skipif(not resident(), reason="the system doesn't tell")
@pytest.mark.parametrize("nbytes", [100 * KIB, 2 * MIB, 15 * MIB])
def test_what_is_given_back_is_gone(pool: memory.Pool, nbytes: int) -> None:
    pool.set_limit(1 << 40)
    arrays = [empty(pool, nbytes) for _ in range(30 * MIB // nbytes)]
    for x in arrays:
        x[:] = 1
    held = resident()
    del x
    arrays.clear()
    assert resident() > held - MIB
    pool.trim(0)
    assert resident() < held - 27 * MIB


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = ad.get_num_threads()
    ad.set_num_threads(1)
    yield
    ad.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_memory_does_not_grow_over_ten_thousand_training_steps(no_garbage: None) -> None:
    rng = np.random.default_rng(0)
    x, y = (ad.tensor(rng.standard_normal((16, 1024), F4)) for _ in range(2))
    w = ad.tensor(rng.standard_normal((16, 16), F4), requires_grad=True)

    def step() -> None:
        loss = ((ad.tanh(w @ x) - y) ** 2).mean()
        loss.backward()
        with ad.no_grad():
            w[...] = w - 0.1 * w.grad
        w.grad = None

    for _ in range(10):
        step()
    before, size = ad.memory_stats(), resident()
    for _ in range(10_000):
        step()
    after = ad.memory_stats()
    assert after["allocations"] >= before["allocations"] + 20_000
    assert after["allocations"] - after["reuses"] == before["allocations"] - before["reuses"]
    for name in ("in_use", "idle", "peak", "releases"):
        assert after[name] == before[name]
    assert resident() - size < 8 * MIB  # less than a kilobyte a step


# The handler


def failing() -> None:
    raise KeyError("on purpose")


@pytest.mark.parametrize(
    ("function", "args", "error"),
    [
        (np.empty, (1 << 46, np.dtype("f8")), MemoryError),
        (np.empty, (-1,), ValueError),
        (np.empty, ("nonsense",), TypeError),
        (failing, (), KeyError),
    ],
)
def test_errors_come_through_and_the_handler_is_put_back(
    pool: memory.Pool, function: Callable, args: tuple, error: type[Exception]
) -> None:
    with pytest.raises(error):
        pool.call(function, *args)
    assert get_handler_name() == "default_allocator"
    assert pool.stats()["in_use"] == 0


def test_keywords_come_through(pool: memory.Pool) -> None:
    x = pool.call(np.full, shape=(3, 4), fill_value=2.0, dtype=F4, order="F")
    assert x.shape == (3, 4) and x.dtype == F4 and x.flags.f_contiguous and (x == 2).all()
    assert get_handler_name(x) == "adjoint"


def references(pool: memory.Pool) -> int:
    """How many there are to the pool's handler."""
    _, capsule = pool.call.__self__
    return sys.getrefcount(ctypes.cast(int(capsule), ctypes.py_object).value)


def test_calls_leave_no_references(pool: memory.Pool) -> None:
    def inner() -> None:
        with pytest.raises(ValueError, match="negative"):
            pool.call(np.empty, -1)
        empty(pool, MIB)

    outer = memory.Pool(LIMIT)
    before = references(outer), references(pool)
    for _ in range(10):
        outer.call(inner)
    assert (references(outer), references(pool)) == before


def test_calls_inside_calls(pool: memory.Pool) -> None:
    def inner() -> list:
        return [empty(pool, MIB), get_handler_name(), np.empty(MIB)]

    x, name, y = pool.call(inner)
    assert name == get_handler_name(x) == get_handler_name(y) == "adjoint"
    assert get_handler_name() == "default_allocator"


def native(name: str, result: Any, *arguments: Any) -> Callable:
    """A function of the handler, called without the interpreter's lock."""
    kind = ctypes.CFUNCTYPE(result, ctypes.c_void_p, *arguments)
    return kind(compiler.compiled(allocator.text(), f"pool_{name}"))


MALLOC = native("malloc", ctypes.c_void_p, ctypes.c_size_t)
CALLOC = native("calloc", ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
REALLOC = native("realloc", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
FREE = native("free", None, ctypes.c_void_p, ctypes.c_size_t)


def test_the_handler_at_its_limits(pool: memory.Pool) -> None:
    context = pool.address
    assert CALLOC(context, 1 << 62, 8) is None
    assert MALLOC(context, 1 << 63) is None
    FREE(context, None, 0)
    block = REALLOC(context, None, 100)
    assert REALLOC(context, block, 4096) == block
    assert REALLOC(context, block, 1 << 60) is None
    FREE(context, block, 4096)
    nothing = MALLOC(context, 0)
    assert nothing == block
    FREE(context, nothing, 0)
    assert pool.stats()["in_use"] == 0


def test_many_threads_at_once_without_the_interpreters_lock(pool: memory.Pool) -> None:
    pool.set_limit(20 * 4096)
    wrong: list[int] = []

    def work(mark: int) -> None:
        for turn in range(2000):
            nbytes = 4096 * (1 + (mark + turn) % 5)
            block = MALLOC(pool.address, nbytes)
            ctypes.memset(block, mark, nbytes)
            if ctypes.string_at(block, nbytes) != bytes([mark]) * nbytes:
                wrong.append(turn)
            FREE(pool.address, block, nbytes)

    run_in_threads(work, 4)
    stats = pool.stats()
    assert not wrong and stats["in_use"] == 0 and stats["allocations"] == 8000
    assert stats["idle"] <= stats["limit"] and pool.trim(0) == stats["idle"]


def run_in_threads(work: Callable[[int], None], count: int) -> None:
    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(1, count + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_arrays_of_many_threads(pool: memory.Pool) -> None:
    wrong: list[int] = []
    passed: list[np.ndarray] = []

    def work(mark: int) -> None:
        for turn in range(300):
            arrays = [empty(pool, 40_000 + 3000 * k) for k in range(4)]
            for x in arrays:
                x[:] = mark
            wrong.extend(turn for x in arrays if not (x == mark).all())
            passed.append(arrays[turn % 4])  # freed by whichever thread comes next
            del arrays, x
            if len(passed) > 3:
                passed.pop(0)

    run_in_threads(work, 4)
    passed.clear()
    assert not wrong and pool.stats()["in_use"] == 0
    assert get_handler_name() == "default_allocator"


# Processes


def run(script: str, **environment: str) -> str:
    return printed("-c", PREAMBLE + script, timeout=60, **environment).strip()


PREAMBLE = """
import builtins, os, threading, time
from pathlib import Path
import numpy as np
import adjoint as ad
from adjoint.backends.cpu.jit import memory
MIB = 1 << 20
def make(n=MIB):
    x = memory.empty((n,), np.dtype("u1"))
    x[:] = 5
    return x
"""

FORK = """
x, y = make(), make()
del y
pid = os.fork()
if pid == 0:
    right = memory.stats()["idle"] == 0 and memory.stats()["in_use"] == MIB
    z = make()
    z[:] = 9
    right = right and (x == 5).all() and memory.stats()["in_use"] == 2 * MIB
    del x, z
    right = right and memory.stats()["idle"] == 2 * MIB and memory.release() == 2 * MIB
    os._exit(0 if right else 3)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(status, memory.stats()["idle"] == MIB, (x == 5).all())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_a_pool_of_its_own() -> None:
    assert run(FORK) == "0 True True"


def test_a_child_forked_while_another_thread_was_at_the_rings(pool: memory.Pool) -> None:
    idle, used = empty(pool, MIB), empty(pool, MIB)
    del idle
    pool.words[allocator.PLACE["lock"]] = 1
    pool.leave_to_parent()
    assert pool.stats()["idle"] == 0 and pool.stats()["in_use"] == MIB
    del used
    assert pool.stats()["idle"] == MIB and empty(pool, MIB).nbytes == MIB


EXITS = {
    "in the main module": "x = make()",
    "in a cycle": "x = [make()]; x.append(x)",
    "in builtins": "builtins.kept = make(); builtins.view = builtins.kept[3:]",
    "in numpy": "np.kept = make()",
    "in the pool's own module": "memory.kept = make()",
    "in a tensor with its graph": """
w = ad.ones((MIB,), requires_grad=True)
y = w * ad.from_dlpack(memory.zeros((MIB,), np.dtype("f4")))
""",
    "with its thread still running": """
x = make()
def forever():
    kept = make()
    while True: time.sleep(1)
threading.Thread(target=forever, daemon=True).start()
time.sleep(0.01)
""",
    "freed by a finaliser at the end": """
import weakref
class Owner: pass
owner = Owner(); owner.array = make(); builtins.owner = owner
weakref.finalize(owner, make)
""",
}


@pytest.mark.parametrize("where", EXITS)
def test_the_interpreter_ends_well_with_live_arrays(where: str) -> None:
    assert run(EXITS[where] + "\nprint('end')") == "end"


SHORT_OF_MEMORY = """
import resource
memory.set_limit(1 << 40)
arrays = [make(8 * MIB) for _ in range(8)]
arrays.clear()
now = int(Path("/proc/self/statm").read_text().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (now + 16 * MIB, now + 16 * MIB))
x = make(50 * MIB)
print(memory.stats()["idle"], memory.stats()["in_use"] >= 50 * MIB)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_idle_memory_goes_back_when_the_system_has_no_more() -> None:
    assert run(SHORT_OF_MEMORY) == "0 True"


ALL_ZERO = """
x = make()
from numpy._core.multiarray import get_handler_name
print(get_handler_name(x), set(ad.memory_stats().values()), ad.empty_cache())
ad.set_cache_limit(5)
twos = memory.call_with_pool(np.full, 3, fill_value=2)
print(twos.sum(), memory.zeros((MIB,), np.dtype("u1")).any())
"""


def test_without_a_compiler_arrays_are_numpys() -> None:
    out = run(ALL_ZERO, ADJOINT_JIT="0")
    assert out.splitlines() == ["default_allocator {0} 0", "6 False"]


# The public functions


@pytest.mark.parametrize("function", [memory.empty, memory.zeros])
def test_large_arrays_are_pooled_and_small_ones_are_not(function: Callable) -> None:
    size = memory.POOLED_FROM // 4
    large, small = function((2, size // 2), F4), function((size - 1,), F4)
    assert large.shape == (2, size // 2) and small.shape == (size - 1,)
    assert large.dtype == small.dtype == F4
    assert get_handler_name(large) == "adjoint"
    assert get_handler_name(small) == "default_allocator"


def test_statistics_and_the_cache_are_in_the_users_hands(no_garbage: None) -> None:
    limit = ad.memory_stats()["limit"]
    assert limit > 0
    ad.empty_cache()
    before = ad.memory_stats()
    x = memory.call_with_pool(np.zeros, 3 * MIB, np.uint8)
    assert ad.memory_stats()["in_use"] == before["in_use"] + 3 * MIB
    assert ad.memory_stats()["allocations"] == before["allocations"] + 1
    del x
    assert ad.memory_stats()["idle"] == 3 * MIB
    assert ad.empty_cache() == 3 * MIB
    x = memory.call_with_pool(np.zeros, 3 * MIB, np.uint8)
    ad.set_cache_limit(2 * MIB)
    del x
    assert ad.memory_stats()["idle"] == 0 and ad.memory_stats()["limit"] == 2 * MIB
    ad.set_cache_limit(limit)


@pytest.mark.parametrize("limit", [-1, 1.5, None, True])
def test_a_limit_is_a_number_of_bytes(limit: Any) -> None:
    with pytest.raises(ad.ArgumentError, match="set_cache_limit: the limit is a number of"):
        ad.set_cache_limit(limit)


@pytest.mark.parametrize(
    ("text", "expected"), [("max", 0), (str(4 << 30), 4 << 30), (str(1 << 62), 0)]
)
def test_a_container_has_less_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: int
) -> None:
    monkeypatch.setattr(memory, "CONTAINER_LIMITS", ())
    machine = memory.system_memory()
    file = tmp_path / "memory.max"
    file.write_text(text + "\n")
    monkeypatch.setattr(memory, "CONTAINER_LIMITS", (str(file), str(tmp_path / "missing")))
    assert memory.system_memory() == min(expected or machine, machine)
    assert memory.default_limit() <= memory.system_memory() // 4
