"""The runtime of a GPU: what is recorded, reused and freed, and what happens when it fails."""

import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import adjoint as ad
from adjoint import backends
from tests.support import swiftshader
from tests.support.processes import python

pytestmark = pytest.mark.webgpu

F32 = np.dtype("f4")
STEPS = 1000 if swiftshader.is_chosen() else 10_000


@pytest.fixture
def gpu():
    device = backends.backend("webgpu").gpu  # type: ignore[attr-defined]
    device.submit()
    return device


def on_gpu(values) -> ad.Tensor:
    return ad.asarray(np.asarray(values, np.float32), device="webgpu")


def changes(gpu, function: Callable[[], object]) -> dict[str, int]:
    """What a function adds to the counts of a device, and to its buffers."""
    gpu.submit()
    before = {**gpu.counts, "buffers": gpu.pool.made}
    function()
    gpu.submit()
    after = {**gpu.counts, "buffers": gpu.pool.made}
    return {name: after[name] - before[name] for name in after}


def chain(x: ad.Tensor, length: int = 300) -> list[ad.Tensor]:
    kept = [x]
    for k in range(length):
        kept.append(ad.tanh(kept[-1]) if k % 2 else kept[-1] * 1.01)
    return kept


# Reuse.


def test_a_second_pass_makes_nothing_new(gpu) -> None:
    x = on_gpu([0.1, 0.2])
    chain(x)
    found = changes(gpu, lambda: chain(x))
    assert found["launches"] == 300
    made = {
        name: found[name] for name in ("pipelines", "bind_groups", "buffers", "reads", "writes")
    }
    assert made == dict.fromkeys(made, 0)


def test_launches_are_submitted_together(gpu) -> None:
    x = on_gpu([0.1, 0.2])
    assert changes(gpu, lambda: chain(x, 100))["submissions"] == 1
    assert changes(gpu, lambda: chain(x, 1000))["submissions"] <= 5


def test_numbers_are_words_and_make_no_pipeline(gpu) -> None:
    x = on_gpu([1.0, 2.0])
    (x * 0.5).numpy()
    found = changes(gpu, lambda: [x * (0.1 * k) for k in range(1, 50)])
    assert (found["pipelines"], found["writes"]) == (0, 0)


def test_shapes_are_words_too(gpu) -> None:
    ad.tanh(on_gpu(np.ones((3, 4)))).sum(axis=1).numpy()
    found = changes(gpu, lambda: [ad.tanh(on_gpu(np.ones((k, 7)))).sum(axis=1) for k in (3, 9, 20)])
    assert found["pipelines"] == 0


VIEWS: dict[str, Callable[[ad.Tensor], ad.Tensor]] = {
    "transpose": lambda x: x.T,
    "slice": lambda x: x[1:, ::2],
    "backwards": lambda x: ad.flip(x),
    "element": lambda x: x[2, 3],
    "reshape": lambda x: ad.reshape(x, (2, 2, 3, 2)),
    "reshape of a slice": lambda x: ad.reshape(x[:, :4], (4, 2, 2)),
    "broadcast": lambda x: ad.broadcast_to(x, (5, 4, 6)),
    "new axis": lambda x: ad.expand_dims(x, 1),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_launch_nothing_and_are_right(gpu, name: str) -> None:
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    x, view = on_gpu(values), VIEWS[name]
    found = changes(gpu, lambda: view(x))
    assert (found["launches"], found["buffers"], found["writes"]) == (0, 0, 0)
    np.testing.assert_array_equal(view(x).numpy(), view(ad.asarray(values)).numpy())


def test_an_array_of_one_number_has_no_memory(gpu) -> None:
    found = changes(gpu, lambda: ad.zeros((1 << 28,), device="webgpu"))
    assert (found["buffers"], found["writes"]) == (0, 0)


def test_memory_that_is_used_again_keeps_what_was_recorded_before_apart() -> None:
    """An upload happens at once, what was recorded later: they must not meet in one buffer."""
    results = []
    for k in range(20):
        x = on_gpu(np.full(1000, k))
        results.append(x + 1)
        del x
    for k, result in enumerate(results):
        np.testing.assert_array_equal(result.numpy(), np.full(1000, k + 1))


def test_statistics_of_memory(gpu, no_garbage: None) -> None:
    ad.empty_cache("webgpu")
    before = ad.memory_stats("webgpu")
    x = on_gpu(np.ones(1000))
    during = ad.memory_stats("webgpu")
    assert during["in_use"] == before["in_use"] + 4096
    del x
    after = ad.memory_stats("webgpu")
    assert (after["in_use"], after["idle"]) == (before["in_use"], before["idle"] + 4096)
    assert ad.empty_cache("webgpu") >= 4096
    assert ad.memory_stats("webgpu")["idle"] == 0


def test_nothing_grows_over_thousands_of_steps(gpu) -> None:
    w = ad.tensor(np.ones((4, 4), np.float32), device="webgpu", requires_grad=True)
    x = on_gpu(np.ones((2, 4)))

    def step() -> None:
        nonlocal w
        loss = ad.tanh(x @ w).sum()
        loss.backward()
        with ad.no_grad():
            w = (w - 1e-4 * w.grad).requires_grad_()

    for _ in range(20):
        step()
    objects = library_objects()
    found = changes(gpu, lambda: [step() for _ in range(STEPS)])
    assert (found["pipelines"], found["buffers"]) == (0, 0)
    assert found["bind_groups"] <= 20
    grown = {k: n - objects[k] for k, n in library_objects().items() if n > objects[k] + 25}
    assert grown == {}


def library_objects() -> dict[str, int]:
    """How many objects of each kind wgpu knows."""
    import wgpu

    return {
        name: entry["count"] for name, entry in wgpu.diagnostics.object_counts.get_dict().items()
    }


# Limits.


def test_more_workgroups_than_one_dimension_has(gpu) -> None:
    from adjoint.backends.webgpu.lowering import Programs
    from adjoint.backends.webgpu.programs import wgsl

    groups = 70_001
    program = wgsl("numbered", "-> out", "count")(
        "if (group < p.count && lane == 0u) { out[group] = group + 1u; }"
    )
    to = Programs([], gpu.target)
    to.launch(program, groups, to.result((groups,), np.dtype("u4")), count=groups)
    (out,) = gpu.run(to.finished(), [])
    np.testing.assert_array_equal(gpu.read(out), np.arange(1, groups + 1))


def test_an_array_beyond_the_limit_is_refused_by_name_of_the_limit(gpu) -> None:
    x = ad.zeros((gpu.pool.largest // 4 + 1,), device="webgpu")
    with pytest.raises(ad.DeviceError, match=f"{gpu.pool.largest} bytes"):
        _ = x + x
    np.testing.assert_array_equal((on_gpu([1.0]) + 1).numpy(), [2.0])


def test_the_largest_array_is_possible_where_its_power_of_two_isnt(gpu, monkeypatch) -> None:
    monkeypatch.setattr(gpu.pool, "largest", 3000)
    x = on_gpu(np.arange(700))  # 2800 bytes; 4096 would be too many
    np.testing.assert_array_equal((x + 1).numpy(), np.arange(1, 701))


# What goes wrong.


@pytest.fixture
def no_memory(gpu, monkeypatch) -> Iterator[None]:
    import wgpu

    def refuse(*args, **options):
        raise wgpu.GPUOutOfMemoryError("Not enough memory left.")

    with monkeypatch.context() as patch:
        patch.setattr(gpu.handle, "create_buffer", refuse)
        yield


def test_out_of_memory_is_an_error_that_tells_what_is_in_use(gpu, no_memory) -> None:
    ad.empty_cache("webgpu")
    with pytest.raises(ad.DeviceError, match=r"out of memory while allocating \d+ bytes"):
        on_gpu(np.ones(5000))


def test_idle_memory_is_given_up_before_an_error(gpu, monkeypatch) -> None:
    import wgpu

    on_gpu(np.ones(5000)).sum().item()
    assert gpu.pool.idle
    create, refused = gpu.handle.create_buffer, []

    def refuse_once(**options):
        if not refused:
            refused.append(options)
            raise wgpu.GPUOutOfMemoryError("Not enough memory left.")
        return create(**options)

    monkeypatch.setattr(gpu.handle, "create_buffer", refuse_once)
    x = on_gpu(np.full(300_000, 2.0))
    assert refused and not gpu.pool.idle
    assert x.sum().item() == 600_000


LOST = """
import numpy as np, adjoint as ad
from adjoint import backends
x = ad.ones(4, device="webgpu") + 0
gpu = backends.backend("webgpu").gpu
(x * 2).numpy()
gpu.handle.destroy()
for attempt in (lambda: x.numpy(), lambda: x + 1, lambda: (x * 2).numpy(),
                lambda: ad.asarray([1.0], device="webgpu"), lambda: ad.tanh(x)):
    try:
        attempt()
    except ad.DeviceError as error:
        print("lost" in str(error))
    else:
        print("recorded")  # what is only recorded needn't know yet
assert (ad.ones(2) + 1).sum().item() == 4.0
"""


def test_a_lost_device_is_an_error_and_nothing_hangs() -> None:
    process = python("-c", LOST, timeout=120)
    assert process.returncode == 0, process.stderr
    answers = process.stdout.split()
    assert [answers[k] for k in (0, 2, 3)] == ["True"] * 3
    assert set(answers) <= {"True", "recorded"}


FORKED = """
import os, adjoint as ad
x = ad.ones(4, device="webgpu") + 1
if os.fork() == 0:
    try:
        x.numpy()
    except ad.DeviceError as error:
        print("spawn" in str(error), flush=True)
    assert (ad.ones(2) + 1).sum().item() == 4.0
    os._exit(0)
os.wait()
print(x.sum().item())
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="this system can't fork")
def test_a_forked_child_is_refused_and_its_parent_goes_on() -> None:
    process = python("-c", FORKED, timeout=120)
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.split() == ["True", "8.0"]


EXIT = """
import numpy as np, adjoint as ad
x = ad.asarray(np.ones(1_000_000, np.float32), device="webgpu", requires_grad=True)
for _ in range(20):
    y = ad.tanh(x * 2).sum()
y.backward()  # and nobody waits for it
"""


AT_EXIT = """
import atexit, adjoint as ad

def late():
    try:
        x.item()
    except ad.DeviceError:
        print("refused")

atexit.register(late)  # before a device is opened, so it is run after the device has ended
x = ad.ones((), device="webgpu") + 1
"""


def test_what_is_asked_for_when_the_process_ends_is_refused_and_nothing_hangs() -> None:
    process = python("-c", AT_EXIT, timeout=120)
    assert (process.returncode, process.stdout.strip()) == (0, "refused")


def test_a_process_ends_silently_while_the_gpu_still_works() -> None:
    process = python("-c", EXIT, timeout=120)
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")


def test_threads_may_share_a_device() -> None:
    values = np.linspace(-1, 1, 1000, dtype=np.float32)
    found: dict[int, np.ndarray] = {}

    def work(number: int) -> None:
        x = on_gpu(values)
        for _ in range(50):
            x = ad.tanh(x) + number
        found[number] = x.numpy()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        expected = ad.asarray(values)
        for _ in range(50):
            expected = ad.tanh(expected) + number
        np.testing.assert_allclose(found[number], expected.numpy(), 1e-5)


def test_times_of_launches(gpu) -> None:
    if "timestamp-query" not in gpu.features:
        with pytest.raises(ad.DeviceError, match="timestamp-query"):
            ad.launch_times("webgpu")
        return
    with ad.launch_times("webgpu") as times:
        y = ad.tanh(on_gpu(np.ones(1000))).sum()
    assert times.launches == {"elements": 1, "rows": 1}
    assert all(seconds > 0 for seconds in times.seconds.values())
    assert "elements" in str(times)
    assert y.item() == pytest.approx(1000 * np.tanh(1), rel=1e-6)


INTERRUPTED = """
import itertools, os, signal, threading
import numpy as np, adjoint as ad

def chain(x):
    for _ in range(300):
        x = ad.tanh(x) * 0.5 + 0.25
    return x

begun, enough = threading.Event(), threading.Event()

def interrupt():
    begun.wait()
    for k in itertools.count():
        if enough.wait(0.003 + 0.0011 * (k % 25)):
            return
        os.kill(os.getpid(), signal.SIGINT)

x = ad.asarray(np.ones(1000, np.float32), device="webgpu")
chain(x).sum().item()
thread = threading.Thread(target=interrupt)
interrupted = 0
thread.start()
while interrupted < 10:  # on a busy machine several signals are one interruption
    try:
        while True:
            begun.set()
            chain(x).sum().item()
    except KeyboardInterrupt:
        interrupted += 1
signal.signal(signal.SIGINT, signal.SIG_IGN)
enough.set()
thread.join()
print(interrupted > 5, np.allclose(chain(x).numpy(), chain(ad.ones(1000)).numpy(), 1e-6))
"""


@pytest.mark.usefixtures("ctrl_c")
def test_a_device_can_be_used_after_interruptions() -> None:
    process = python("-c", INTERRUPTED, timeout=120)
    assert process.stdout.split() == ["True", "True"], process.stderr


@pytest.mark.usefixtures("ctrl_c")
def test_an_interruption_waits_until_what_is_recorded_is_submitted(gpu) -> None:
    import signal

    from adjoint.backends.webgpu.device import undisturbed

    done = []
    with pytest.raises(KeyboardInterrupt), undisturbed():
        signal.raise_signal(signal.SIGINT)
        done.append(True)
    assert done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_more_timed_launches_than_one_submission_has(gpu) -> None:
    if "timestamp-query" not in gpu.features:
        pytest.skip("this adapter has no timestamps")
    with ad.launch_times("webgpu") as times:
        chain(on_gpu([0.5]), 600)
    assert times.launches == {"elements": 600}


OPENED_BY_THREADS = """
import threading, adjoint as ad
from adjoint import backends
found = []
def work():
    found.append(ad.ones(2, device="webgpu") + 1)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len({type(x.raw) for x in found}), sum(found[1:], found[0]).sum().item())
"""


def test_threads_that_open_a_device_at_once_get_one() -> None:
    process = python("-c", OPENED_BY_THREADS, timeout=120)
    assert process.stdout.split() == ["1", "16.0"], process.stderr


# What takes more rounds of loops than some drivers do.


def test_reductions_of_no_rows_or_long_rows_of_none() -> None:
    assert ad.sum(ad.zeros((0, 20_000), device="webgpu"), axis=1).shape == (0,)
    assert ad.sum(ad.zeros((20_000, 0), device="webgpu") + 1, axis=0).shape == (0,)


def test_convolutions_of_very_many_channels() -> None:
    x, w = ad.ones((1, 61_000, 1), device="webgpu") + 0, ad.ones((2, 61_000, 1), device="webgpu")
    x.requires_grad_()
    out = ad.nn.functional.conv1d(x, w * 1)
    assert out.tolist() == [[[61_000.0], [61_000.0]]]
    out.sum().backward()
    assert (x.grad == 2).all()


def test_cofactors_of_a_matrix_of_hundreds_of_rows() -> None:
    q = np.linalg.qr(np.random.default_rng(0).standard_normal((300, 300)))[0].astype(np.float32)
    x = ad.asarray(q, device="webgpu", requires_grad=True)
    ad.linalg.det(x).backward()  # an orthogonal matrix is its own matrix of cofactors, up to det
    sign = np.sign(np.linalg.det(q.astype(np.float64)))
    np.testing.assert_allclose(x.grad.numpy(), sign * q, atol=2e-5)


def test_indices_that_int32_cant_hold_are_out_of_range() -> None:
    x = on_gpu([1.0, 2.0])
    with pytest.raises(IndexError, match="out of range"):
        x[np.array([2**32])].numpy()


REFUSED: dict[str, Callable[[ad.Tensor], ad.Tensor]] = {
    "convolution": lambda x: ad.nn.functional.conv1d(x, x),
    "pooling": lambda x: ad.nn.functional.max_pool1d(x, x.shape[2]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_windows_that_cant_be_parted_are_refused(name: str) -> None:
    with pytest.raises(ad.DeviceError, match="steps for each element"):
        REFUSED[name](ad.ones((1, 1, 60_000), device="webgpu") + 0)


@pytest.mark.parametrize("name", REFUSED)
def test_long_windows_are_right(name: str) -> None:
    x = np.linspace(0, 1, 12_000, dtype=np.float32).reshape(1, 1, -1)
    found = REFUSED[name](ad.asarray(x, device="webgpu"))
    np.testing.assert_allclose(found.numpy(), REFUSED[name](ad.asarray(x)).numpy(), 1e-4)


TWO = """
import numpy as np, adjoint as ad
names = [device.name for device in ad.devices() if device.usable]
assert names == ["cpu", "webgpu", "webgpu:1"], names
x, y = (ad.asarray(np.eye(2, dtype=np.float32) * 3, device=name) for name in names[1:])
for mix in (lambda: x @ y, lambda: x + y, lambda: ad.concat([x, y])):
    try:
        mix()
    except ad.DeviceError as error:
        print("webgpu and" in str(error) and "webgpu:1" in str(error))
print((x.to("webgpu:1") @ y).sum().item(), x.to("webgpu:1").device)
"""


def test_two_gpus_in_one_process_are_told_apart(swiftshader: dict[str, str]) -> None:
    driver = swiftshader["VK_DRIVER_FILES"]
    hidden = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")
    both = {k: v for k, v in swiftshader.items() if k not in hidden}
    process = python("-c", TWO, inherited=both, VK_ADD_DRIVER_FILES=driver)
    assert process.stdout.split() == ["True", "True", "True", "18.0", "webgpu:1"], process.stderr
