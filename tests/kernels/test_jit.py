"""Compiling kernels, keeping them on disk, and running them on threads."""

import ctypes
import dataclasses
import itertools
import math
import os
import re
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import adjoint as ad
from adjoint._foundation.thread_limits import MOST
from adjoint.backends.cpu.jit import availability, cache, compiler, threads, trust

if not availability.available():
    pytest.skip("there are no kernels here", allow_module_level=True)

posix = pytest.mark.skipif(os.name != "posix", reason="the pool is made of POSIX threads")

# Adds 1 to the chunk's element, and 1, atomically, to the element before the first.
COUNT = """
define void @count(ptr noalias %args, i64 %chunk) {
  %all = atomicrmw add ptr %args, i64 1 seq_cst
  %place = add i64 %chunk, 1
  %at = getelementptr i64, ptr %args, i64 %place
  %old = load i64, ptr %at
  %new = add i64 %old, 1
  store i64 %new, ptr %at
  ret void
}
"""

# f(x) = x + value, for different kernels that have the same name.
ADD = """
define double @add(double %x) {{
  %y = fadd double %x, {value:.1f}
  ret double %y
}}
"""

REAL = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)


def forget() -> None:
    """What has been compiled has to come from the disk, or be compiled again."""
    compiler.libraries.clear()
    compiler.addresses.clear()


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ADJOINT_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setattr(compiler, "libraries", {})
    monkeypatch.setattr(compiler, "addresses", {})
    return tmp_path / "kernels"


@pytest.fixture(autouse=True)
def same_threads() -> Iterator[None]:
    before = threads.get_num_threads()
    yield
    if threads.get_num_threads() != before:
        threads.set_num_threads(before)


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that LLVM has translated."""
    texts: list[str] = []
    translate = compiler.translate

    def noted(llvm: compiler.LLVM, text: str) -> bytes:
        texts.append(text)
        return translate(llvm, text)

    monkeypatch.setattr(compiler, "translate", noted)
    return texts


def started(script: str, *arguments: str, **environment: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(process: subprocess.Popen) -> str:
    """What a process printed; it must end by itself, without an error or a word of complaint."""
    try:
        printed, complaints = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode == 0, complaints
    assert complaints == ""
    return printed


def counted(chunks: int, times: int = 1) -> np.ndarray:
    counts = np.zeros(1 + chunks, np.int64)
    address = compiler.compiled(COUNT, "count")
    for _ in range(times):
        threads.run(address, counts.ctypes.data, chunks)
    return counts


# Compiling


@pytest.fixture(params=["JITLink", "RuntimeDyld"])
def linker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile with either linker, where there are both."""
    has_jit_link = request.param == "JITLink"
    if has_jit_link and not compiler.HAS_JIT_LINK:
        pytest.skip("there is no JITLink here")
    monkeypatch.setattr(compiler, "HAS_JIT_LINK", has_jit_link)
    monkeypatch.setattr(compiler, "llvm", None)


def test_the_address_is_that_of_the_function() -> None:
    assert REAL(compiler.compiled(ADD.format(value=2), "add"))(3.0) == 5.0


def test_same_names_in_different_texts_dont_clash(compilations: list[str]) -> None:
    functions = [REAL(compiler.compiled(ADD.format(value=k), "add")) for k in range(100)]
    assert [function(0.5) for function in functions] == [k + 0.5 for k in range(100)]
    assert len(compilations) == 100


def test_all_functions_of_a_text_come_from_one_compilation(compilations: list[str]) -> None:
    text = ADD.format(value=1) + ADD.format(value=2).replace("@add", "@more")
    assert [REAL(compiler.compiled(text, name))(0.0) for name in ("add", "more")] == [1, 2]
    assert len(compilations) == 1


def test_a_text_is_compiled_once_whoever_asks(compilations: list[str]) -> None:
    found = []
    texts = [ADD.format(value=k) for k in range(5)]

    def ask() -> None:
        found.append([compiler.compiled(text, "add") for text in texts])

    asking = [threading.Thread(target=ask) for _ in range(8)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert sorted(compilations) == sorted(texts)
    assert len({tuple(addresses) for addresses in found}) == 1


@pytest.mark.usefixtures("linker")
@pytest.mark.parametrize(("name", "argument"), [("sin", 1.0), ("exp", 2.0), ("log1p", 0.5)])
def test_functions_of_the_c_library_are_found(name: str, argument: float) -> None:
    text = f"""
    declare double @{name}(double)
    define double @call(double %x) {{
      %y = call double @{name}(double %x)
      ret double %y
    }}
    """
    result = REAL(compiler.compiled(text, "call"))(argument)
    assert math.isclose(result, getattr(math, name)(argument), rel_tol=1e-15)


@pytest.mark.usefixtures("linker")
def test_constants_and_memory_copies_are_linked() -> None:
    text = """
    @table = private constant [300 x i64] zeroinitializer
    define void @clear(ptr %to) {
      call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr @table, i64 2400, i1 false)
      ret void
    }
    declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
    """
    values = np.arange(300)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(compiler.compiled(text, "clear"))(values.ctypes.data)
    assert not values.any()


# All halves, and floats of every size beside the halves and between two of them.
CONVERT = """
import platform
import llvmlite.binding as binding
import numpy as np

if platform.machine().lower() in ("x86_64", "amd64"):
    binding.get_host_cpu_name = lambda: "x86-64"
    binding.get_host_cpu_features = binding.FeatureMap

import adjoint as ad

halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
wide = halves.astype(np.float32)
np.seterr(all="ignore")  # of NaNs and of the largest
between = (wide + np.nextafter(halves, np.float16(np.inf)).astype(np.float32)) / 2
beside = [np.nextafter(between, np.float32(end)) for end in (-np.inf, np.inf)]
floats = np.concatenate([wide, between, *beside, np.float32([65519, 65520, 1e10, 1e-10, 1e-45])])
np.testing.assert_array_equal(ad.astype(ad.tensor(halves), ad.float32).numpy(), wide)
expected = floats.astype(np.float16)
np.testing.assert_array_equal(ad.astype(ad.tensor(floats), ad.float16).numpy(), expected)
zeros = ad.astype(ad.tensor(np.float32([-0.0]).repeat(20_000)), ad.float16).numpy()
print(bool(np.signbit(zeros).all()), ad.tanh(ad.tensor(halves)).dtype)
"""


def test_processors_without_instructions_for_float16_have_kernels() -> None:
    assert output(started(CONVERT)) == "True adjoint.float16\n"


REFUSED = {
    "no LLVM IR": ("define void @f( {", "refuses"),
    "wrong types": ("define i32 @f() { ret double 1.0 }", "refuses"),
    "names that don't exist": ("define i32 @f() { ret i32 %x }", "refuses"),
    "an invalid call": (
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n"
        "define void @f(ptr %p, i1 %v) {\n"
        "  call void @llvm.memcpy.p0.p0.i64(ptr %p, ptr %p, i64 1, i1 %v)\n  ret void\n}",
        "refuses",
    ),
    "another function": ("define void @g() { ret void }", "can't find 'f'"),
    "a symbol that isn't there": (
        "declare void @adjoint_has_no_such_function()\n"
        "define void @f() {\n  call void @adjoint_has_no_such_function()\n  ret void\n}",
        "can't find 'f'",
    ),
}


@pytest.mark.parametrize(("text", "complaint"), REFUSED.values(), ids=REFUSED)
def test_a_text_that_is_wrong_is_shown_in_the_error(text: str, complaint: str) -> None:
    for _ in range(2):
        with pytest.raises(compiler.KernelError) as caught:
            compiler.compiled(text, "f")
        assert complaint in str(caught.value)
        assert text in str(caught.value)
    assert REAL(compiler.compiled(ADD.format(value=1), "add"))(1.0) == 2.0


# The cache on disk

COMPILE_MANY = """
import ctypes, sys
from adjoint.backends.cpu.jit import compiler

text, count = sys.argv[1], int(sys.argv[2])
translate = compiler.translate
compiled = []
compiler.translate = lambda *args: compiled.append(1) or translate(*args)
function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
for k in range(count):
    assert function(compiler.compiled(text.format(value=k), "add"))(0.5) == k + 0.5
print(len(compiled))
"""


def test_another_process_compiles_nothing_again(place: Path) -> None:
    assert output(started(COMPILE_MANY, ADD, "3")) == "3\n"
    assert len(list(place.iterdir())) == 3
    assert output(started(COMPILE_MANY, ADD, "4")) == "1\n"


def test_processes_fill_an_empty_cache_at_once(place: Path) -> None:
    processes = [started(COMPILE_MANY, ADD, "20") for _ in range(2)]
    assert all(int(output(process)) <= 20 for process in processes)
    assert sorted(file.suffix for file in place.iterdir()) == [".kernel"] * 20
    assert output(started(COMPILE_MANY, ADD, "20")) == "0\n"


def changed_byte(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "only a beginning": lambda content: content[: len(cache.MAGIC)],
    "cut off": lambda content: content[:-1],
    "half": lambda content: content[: len(content) // 2],
    "too long": lambda content: content + b"\0",
    "a changed byte": changed_byte,
    "another magic": lambda content: b"X" + content[1:],
    "something else": lambda content: b"not a kernel at all, " * 100,
    "an object file without our head": lambda content: content[cache.HEAD :],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_ignored_and_replaced(
    place: Path, compilations: list[str], damage: Callable[[bytes], bytes]
) -> None:
    text = ADD.format(value=7)
    compiler.compiled(text, "add")
    (file,) = place.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    forget()
    assert REAL(compiler.compiled(text, "add"))(1.0) == 8.0
    assert len(compilations) == 2
    assert file.read_bytes()[: len(cache.MAGIC)] == cache.MAGIC
    forget()
    assert REAL(compiler.compiled(text, "add"))(1.0) == 8.0
    assert len(compilations) == 2


def test_a_kernel_of_another_processor_isnt_taken(
    place: Path, compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = ADD.format(value=1)
    compiler.compiled(text, "add")
    here = compiler.started()
    other = dataclasses.replace(here, identity=here.identity + "+feature")
    monkeypatch.setattr(compiler, "llvm", other)
    forget()
    compiler.compiled(text, "add")
    assert len(compilations) == 2
    assert len(list(place.iterdir())) == 2


def no_directory(tmp_path: Path) -> str:
    (tmp_path / "file").write_text("")
    return str(tmp_path / "file" / "kernels")


def not_writable(tmp_path: Path) -> str:
    (tmp_path / "closed").mkdir(mode=0o500)
    return str(tmp_path / "closed")


NO_CACHES: dict[str, Callable[[Path], str]] = {
    "empty": lambda tmp_path: "",
    "off": lambda tmp_path: "off",
    "no directory": no_directory,
    "not writable": not_writable,
}


@pytest.mark.parametrize("name", NO_CACHES.values(), ids=NO_CACHES)
def test_kernels_need_no_cache(
    name: Callable[[Path], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    compilations: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ADJOINT_CACHE_DIR", name(tmp_path))
    if name is not_writable and os.access(tmp_path / "closed", os.W_OK):
        pytest.skip("this user may write everywhere")
    for _ in range(2):
        forget()
        assert REAL(compiler.compiled(ADD.format(value=1), "add"))(1.0) == 2.0
    assert len(compilations) == 2
    assert list(tmp_path.rglob("*.kernel*")) == []


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="they have places of their own")
@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"ADJOINT_CACHE_DIR": "/here", "XDG_CACHE_HOME": "/there"}, "/here"),
        ({"XDG_CACHE_HOME": "/there"}, "/there/adjoint"),
        ({"XDG_CACHE_HOME": "not/absolute", "HOME": "/home/me"}, "/home/me/.cache/adjoint"),
        ({"HOME": "/home/me"}, "/home/me/.cache/adjoint"),
        ({"ADJOINT_CACHE_DIR": "off", "HOME": "/home/me"}, None),
    ],
)
def test_the_directory(
    environment: dict[str, str], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ADJOINT_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cache.directory() == (None if expected is None else Path(expected))


def test_the_oldest_files_make_room(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [f"{k:02d}" for k in range(1, 10)]
    for age, key in enumerate(reversed(keys)):
        cache.store(key, b"x" * 1000)
        os.utime(place / f"{key}.kernel", (0, 1e9 - age))
    (place / "notes.txt").write_text("x" * 5000)
    (place / "left.kernel.part").write_text("x")
    os.utime(place / "left.kernel.part", (0, 0))
    monkeypatch.setattr(cache, "LIMIT", 9000)
    cache.store("0011", b"x" * 1000)  # keys that begin so have a look at the size
    left = {file.name for file in place.iterdir()}
    assert left == {"notes.txt", "0011.kernel", "09.kernel", "08.kernel", "07.kernel"}


# Whose kernels are run

TEXT = ADD.format(value=1)
PLANTED = ADD.format(value=1000)
ANOTHER_USER = 12345

root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away"
)
owners = pytest.mark.skipif(os.name != "posix", reason="files have no owners here")


def plant(place: Path) -> Path:
    """A file with another kernel's code, such as only a trusted directory can have."""
    llvm = compiler.started()
    key = cache.digest(llvm.identity, TEXT)
    cache.store(key, compiler.translate(llvm, PLANTED))
    return place / (key + cache.SUFFIX)


def is_planted_code_run() -> bool:
    forget()
    return REAL(compiler.compiled(TEXT, "add"))(0.0) == 1000.0


def linked(file: Path) -> None:
    file.rename(file.with_suffix(".moved"))
    file.symlink_to(file.with_suffix(".moved").name)


def linked_directory(place: Path, owner: int = -1) -> None:
    place.rename(place.with_name("moved"))
    place.symlink_to("moved")
    os.chown(place, owner, -1, follow_symlinks=False)


def link_to_open_directory(place: Path, file: Path) -> None:
    linked_directory(place)
    place.chmod(0o777)


def above_open_to_group(place: Path, file: Path) -> None:
    os.chown(place.parent, -1, ANOTHER_USER)
    place.parent.chmod(0o770)


def readable(place: Path, file: Path) -> None:
    place.chmod(0o755)
    file.chmod(0o644)


def pipe(place: Path, file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


# What others could have done: to a file, to its directory, to the one above.
UNTRUSTED: dict[str, Callable[[Path, Path], None]] = {
    "a directory that all may write to": lambda place, file: place.chmod(0o777),
    "a directory like /tmp": lambda place, file: place.chmod(0o1777),
    "a directory that a group may write to": lambda place, file: place.chmod(0o770),
    "one above that all may write to": lambda place, file: place.parent.chmod(0o777),
    "a link to one that all may write to": link_to_open_directory,
    "a file that all may write to": lambda place, file: file.chmod(0o606),
    "a file that a group may write to": lambda place, file: file.chmod(0o660),
    "a link": lambda place, file: linked(file),
    "a pipe": pipe,
}
GIVEN_AWAY: dict[str, Callable[[Path, Path], None]] = {
    "a directory of another user": lambda place, file: os.chown(place, ANOTHER_USER, -1),
    "one above of another user": lambda place, file: os.chown(place.parent, ANOTHER_USER, -1),
    "one above that a group may write to": above_open_to_group,
    "another user's link": lambda place, file: linked_directory(place, ANOTHER_USER),
    "a file of another user": lambda place, file: os.chown(file, ANOTHER_USER, -1),
}
CASES = [
    *(pytest.param(change, id=name) for name, change in UNTRUSTED.items()),
    *(pytest.param(change, id=name, marks=root) for name, change in GIVEN_AWAY.items()),
]


@owners
@pytest.mark.parametrize("change", CASES)
def test_code_that_others_could_have_written_isnt_run(
    change: Callable[[Path, Path], None], place: Path, compilations: list[str]
) -> None:
    file = plant(place)
    change(place, file)
    before = sorted(place.resolve().iterdir())
    with pytest.warns(RuntimeWarning, match="kernel cache isn't to be trusted: ") as caught:
        assert not is_planted_code_run()
        assert not is_planted_code_run()
    assert len(caught) == 1 and str(place.parent) in str(caught[0].message)
    assert "ADJOINT_CACHE_DIR" in str(caught[0].message)
    # A file is replaced by one of ours; into a directory of others nothing is written.
    times = 1 if cache.is_trusted(place) else 2
    assert compilations == [PLANTED, *[TEXT] * times]
    assert sorted(place.resolve().iterdir()) == before


TRUSTED: dict[str, Callable[[Path, Path], None]] = {
    "as it was made": lambda place, file: None,
    "that others may read": readable,
    "a link of ours": lambda place, file: linked_directory(place),
    "one above like /tmp": lambda place, file: place.parent.chmod(0o1777),
}


@owners
@pytest.mark.parametrize("change", TRUSTED.values(), ids=TRUSTED)
def test_code_that_nobody_else_could_have_written_is_run(
    change: Callable[[Path, Path], None], place: Path
) -> None:
    change(place, plant(place))
    assert is_planted_code_run()


@owners
@pytest.mark.parametrize(
    ("user", "owner", "trusted"),
    [(501, 501, True), (501, 0, True), (501, 502, False), (0, 0, True), (0, 501, False)],
)
def test_files_are_of_this_user_or_of_root(
    user: int, owner: int, trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    state = os.stat_result((0o100600, 0, 0, 1, owner, 0, 0, 0, 0, 0))
    why_not = None if trusted else f"x belongs to another user (number {owner})"
    assert trust.objection_to_file(Path("x"), state) == why_not


@owners
@pytest.mark.parametrize(
    ("name", "members", "expected"),
    [("me", [], True), ("me", ["me"], True), ("me", ["me", "you"], False), ("all", [], False)],
)
def test_directories_above_may_be_open_to_a_group_of_ones_own(
    name: str, members: list[str], expected: bool, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As umask 002 makes them, where each user has a group."""
    monkeypatch.setattr("pwd.getpwuid", lambda user: SimpleNamespace(pw_name="me"))
    groups = SimpleNamespace(gr_name=name, gr_mem=members)
    monkeypatch.setattr("grp.getgrgid", lambda group: groups)
    monkeypatch.setattr(trust, "is_own_group", trust.is_own_group.__wrapped__)
    plant(place)
    place.parent.chmod(0o770)
    why_not = None if expected else f"others may write to {place.parent}"
    assert trust.objection(place) == why_not


@owners
def test_nothing_is_made_where_others_may_write(place: Path, compilations: list[str]) -> None:
    place.parent.chmod(0o777)
    with pytest.warns(RuntimeWarning, match=re.escape(f"write to {place.parent}.")):
        compiler.compiled(TEXT, "add")
    assert not place.exists()


@owners
def test_directories_are_made_for_this_user_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADJOINT_CACHE_DIR", str(tmp_path / "some" / "where" / "kernels"))
    before = os.umask(0)
    try:
        compiler.compiled(TEXT, "add")
    finally:
        os.umask(before)
    made = [*tmp_path.rglob("*")]
    assert {path.name: stat.S_IMODE(path.stat().st_mode) & 0o77 for path in made} == {
        path.name: 0 for path in made
    }
    assert len(made) == 4


@owners
@pytest.mark.parametrize("target", [".", "..", "/", "//", "./x/../.", "loop"])
def test_links_are_followed_to_their_end(target: str, tmp_path: Path) -> None:
    """What they lead to is a directory of ours, where it may be one above, but not the cache."""
    above = tmp_path / "above"
    (above / "x").mkdir(parents=True)
    above.chmod(0o1777)
    link = above / "loop"
    link.symlink_to(target)
    if target == "loop":
        with pytest.raises(OSError, match="symbolic links"):
            trust.objection(link)
    elif target in (".", "./x/../."):
        assert trust.objection(link) == f"others may write to {above}"
    else:
        assert trust.objection(link) is None


# Without a compiler

# Large ops of every kind, with gradients and steps of optimizers; prints a digest of the results.
# The first one's first large array is that of its gradient.
LARGE_OPS = """
import hashlib, warnings
import numpy as np
import adjoint as ad
from adjoint import nn, optim
from adjoint.backends.cpu.jit.availability import available

F = nn.functional
digest = hashlib.sha256()

def note(*tensors):
    for x in tensors:
        digest.update(np.ascontiguousarray(x.detach().numpy()).tobytes())

def leaf(*shape):
    values = np.random.default_rng(0).uniform(-1, 1, shape)
    return ad.tensor(values, dtype=ad.float32, requires_grad=True)

def run(function, *inputs, workers=1):
    out = function(*inputs)
    ad.sum(out * out).backward(workers=workers)
    note(out, *(x.grad for x in inputs))

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    ad.random.seed(0)
    run(lambda x: x[:3], leaf(200, 200))
    run(lambda x: ad.tanh(ad.exp(x) * x) + x, leaf(200, 200))
    run(lambda x, y: ad.where(x > y, x / (y * y + 1), ad.sin(x)), leaf(200, 200), leaf(200))
    run(lambda x: ad.exp(x) * ad.tanh(x), leaf(600, 600), workers=2)
    run(lambda x: ad.softmax(x, axis=1) + ad.logsumexp(x, axis=0) + ad.max(x), leaf(200, 200))
    run(lambda x: F.cross_entropy(x, np.arange(200)), leaf(200, 200))
    run(lambda x, w: F.layer_norm(x, (200,), w), leaf(200, 200), leaf(200))
    run(ad.matmul, leaf(200, 100), leaf(100, 200))
    run(F.linear, leaf(200, 100), leaf(100, 100), leaf(100))
    run(lambda x, w: F.conv2d(x, w, padding=1), leaf(4, 8, 20, 20), leaf(8, 8, 3, 3))
    run(lambda x: F.max_pool2d(x, 3) + F.avg_pool2d(x, 3), leaf(4, 8, 20, 20))
    run(lambda x: ad.cumulative_sum(x, axis=1) + ad.cumulative_prod(x, axis=0), leaf(200, 200))
    run(lambda x: x[np.arange(150) % 7], leaf(200, 200))
    run(lambda a, b: ad.linalg.solve(a + 9 * ad.eye(100), b), leaf(100, 100), leaf(100, 100))
    run(lambda x: ad.concat([x, x]).reshape((-1,)), leaf(200, 200))
    run(lambda x: F.dropout(x, 0.5) + ad.random.normal((200, 200)), leaf(200, 200))
    lstm = nn.LSTM(64, 64)
    run(lambda x: lstm(x)[0], leaf(8, 32, 64))
    for kind in (optim.SGD, optim.Adam):
        kind(lstm.parameters(), lr=0.1).step()
        note(*lstm.parameters())
    ad.set_num_threads(3)
    ad.set_cache_limit(1 << 20)
    about = (available(), ad.get_num_threads(), ad.memory_stats()["in_use"] > 0)
    ad.devices()
print(digest.hexdigest())
print(*about)
print(len(caught), *[f"{w.category.__name__}: {w.message}" for w in caught])
"""

# How the compiler fails: what raises, and what it raises.
FAILURES = {
    "it can't be loaded": ("import", 'OSError("no libllvmlite.so")'),
    "it isn't installed": ("import", "ModuleNotFoundError(\"No module named 'llvmlite'\")"),
    "no executable memory": ("check_jit_execution", 'OSError(13, "Permission denied")'),
    "no such processor": ("Target.from_triple", 'RuntimeError("no targets")'),
    "no linker": ("create_lljit_compiler", 'RuntimeError("JITLink is not available")'),
    "nothing can be compiled": ("create_pass_builder", "AttributeError()"),
    "nothing can be linked": ("JITLibraryBuilder.link", 'RuntimeError("out of range")'),
}

FAIL = """
import sys

what, error = sys.argv[1], eval(sys.argv[2])

def fail(*args, **kwargs):
    raise error

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "llvmlite":
            fail()

if what == "import":
    sys.meta_path.insert(0, Finder())
else:
    import llvmlite.binding as binding
    *owner, name = what.split(".")
    setattr(getattr(binding, owner[0]) if owner else binding, name, fail)
"""


@pytest.fixture(scope="module")
def by_numpy() -> str:
    """The digest of all results without kernels."""
    digest, about, caught = output(started(LARGE_OPS, ADJOINT_JIT="0")).splitlines()
    assert (about, caught) == ("False 1 False", "0")
    return digest


@pytest.mark.parametrize("failure", FAILURES)
def test_numpy_does_everything_where_the_compiler_fails(failure: str, by_numpy: str) -> None:
    what, error = FAILURES[failure]
    digest, about, caught = output(started(FAIL + LARGE_OPS, what, error)).splitlines()
    assert digest == by_numpy
    assert about == "False 1 False"
    reason = str(eval(error)) or type(eval(error)).__name__
    assert caught.startswith("1 RuntimeWarning: llvmlite can't be used (") and reason in caught
    assert "NumPy computes everything" in caught and "pip install" in caught


def test_kernels_are_the_same_for_both_linkers() -> None:
    """That of Windows, where there is no other, can be had everywhere."""
    script = "from adjoint.backends.cpu.jit import compiler\ncompiler.HAS_JIT_LINK = False\n"
    processes = [started(start + LARGE_OPS) for start in ("", script)]
    digests = [output(process).splitlines()[0] for process in processes]
    assert digests[0] == digests[1]


def test_kernels_are_switched_off_without_a_notice() -> None:
    script = """
    import sys
    import adjoint as ad
    from adjoint.backends.cpu.jit.availability import available

    assert float(ad.sum(ad.exp(ad.zeros((1000, 1000))))) == 1e6
    print(available(), "llvmlite" in sys.modules)
    """
    assert output(started(script, ADJOINT_JIT="0")) == "False False\n"


TROUBLES = {
    "too old": ("llvmlite.binding.llvm_version_info", (14, 0, 0)),
    "a kernel gives 0.5": (
        "adjoint.backends.cpu.jit.compiler.TRIAL",
        "define double @trial(i64 %place) {\n  ret double 0.5\n}",
    ),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_compiler_that_cant_be_used_is_told_of_once(
    trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*TROUBLES[trouble])
    monkeypatch.setattr(availability, "complaints", itertools.count())
    monkeypatch.setattr(availability, "obstacle", availability.obstacle.__wrapped__)
    with pytest.warns(RuntimeWarning, match=trouble):
        assert not availability.available()
    assert not availability.available()


# Threads


@pytest.mark.parametrize("n", [1, 2, 3, 8])
@pytest.mark.parametrize("chunks", [0, 1, 2, 3, 7, 100])
def test_every_chunk_is_done_exactly_once(n: int, chunks: int) -> None:
    threads.set_num_threads(n)
    assert threads.get_num_threads() == (n if threads.POSIX else 1)
    assert counted(chunks, times=200).tolist() == [200 * chunks] + [200] * chunks


def test_workers_that_sleep_wake_up() -> None:
    threads.set_num_threads(3)
    for k in range(100):
        time.sleep(1e-5 * (k % 20))
        assert counted(5).tolist() == [5, 1, 1, 1, 1, 1]


def test_all_threads_take_part() -> None:
    """Each chunk waits for the others: it takes as many threads as there are chunks."""
    threads.set_num_threads(3)
    if threads.POSIX:
        together = threading.Barrier(3)
        names = set()

        @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
        def chunk(arguments: int, number: int) -> None:
            names.add(threading.current_thread().name)
            together.wait(timeout=60)

        threads.run(ctypes.cast(chunk, ctypes.c_void_p).value or 0, 0, 3)
        assert names == {threading.current_thread().name, "kernels-1", "kernels-2"}


def test_many_python_threads_run_kernels_at_once() -> None:
    threads.set_num_threads(3)
    results = []

    def work() -> None:
        results.append(counted(20, times=300).tolist())

    working = [threading.Thread(target=work) for _ in range(6)]
    for thread in working:
        thread.start()
    for thread in working:
        thread.join()
    assert results == [[6000] + [300] * 20] * 6


def test_a_kernel_may_run_kernels() -> None:
    threads.set_num_threads(3)
    counts = np.zeros((10, 1 + 5), np.int64)
    address = compiler.compiled(COUNT, "count")

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    def outer(arguments: int, chunk: int) -> None:
        threads.run(address, counts[chunk].ctypes.data, 5)

    threads.run(ctypes.cast(outer, ctypes.c_void_p).value or 0, 0, 10)
    assert counts.tolist() == [[5, 1, 1, 1, 1, 1]] * 10


def kernel_threads() -> list[str]:
    return sorted(t.name for t in threading.enumerate() if t.name.startswith("kernels-"))


@posix
def test_there_are_as_many_workers_as_were_asked_for() -> None:
    for n in (3, 1, 4, 2, 2):
        threads.set_num_threads(n)
        counted(2)
        assert kernel_threads() == [f"kernels-{k}" for k in range(1, n)]


@posix
def test_threads_may_change_while_kernels_run() -> None:
    results = []

    def work() -> None:
        results.append(counted(50, times=500).tolist())

    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive():
        for n in (1, 3, 2, 5):
            threads.set_num_threads(n)
    assert results == [[25000] + [500] * 50]


@posix
def test_fewer_threads_do_where_no_more_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    threads.set_num_threads(2)
    counted(2)
    start = threading.Thread.start

    def limited(thread: threading.Thread) -> None:
        if thread.name == "kernels-3":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    threads.set_num_threads(8)
    assert kernel_threads() == ["kernels-1", "kernels-2"]
    assert counted(20).tolist() == [20] + [1] * 20


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="Linux only")
def test_the_caller_keeps_its_processors() -> None:
    before = os.sched_getaffinity(0)
    threads.set_num_threads(2)
    counted(10, times=100)
    time.sleep(0.01)
    assert os.sched_getaffinity(0) == before


def test_without_posix_threads_the_caller_does_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "POSIX", False)
    for name, value in {"pool": None, "entry": threads.start_and_run, "workers": []}.items():
        monkeypatch.setattr(threads, name, value)
    threads.set_num_threads(4)
    assert threads.get_num_threads() == 1
    assert counted(20).tolist() == [20] + [1] * 20
    threads.set_num_threads(2)
    assert threads.workers == [] and threads.get_num_threads() == 1
    assert counted(3).tolist() == [3, 1, 1, 1]


TOO_MANY = [MOST + 1, 10**6, 10**20, pytest.param(10**5000, id="thousands of digits")]


@pytest.mark.parametrize("n", [0, -1, 2.0, "2", None, True, *TOO_MANY])
def test_a_number_of_threads_that_makes_no_sense(n: object) -> None:
    before = threads.get_num_threads()
    message = f"set_num_threads: n is a positive integer of at most {MOST} .* core.* got "
    with pytest.raises(ad.ArgumentError, match=message):
        threads.set_num_threads(n)  # type: ignore[arg-type]
    assert threads.get_num_threads() == before


NAMED = ["0", "-2", "two", "1.5", "257257", "9" * 20, "9" * 5000]


@pytest.mark.parametrize("named", NAMED, ids=lambda named: f"{named:.7}")
def test_an_environment_that_makes_no_sense(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "chosen", None)
    monkeypatch.setenv("ADJOINT_NUM_THREADS", named)
    with pytest.raises(ad.ArgumentError, match="ADJOINT_NUM_THREADS is a positive integer of at"):
        threads.get_num_threads()
    monkeypatch.setenv("ADJOINT_NUM_THREADS", "1")


def test_an_environment_that_makes_no_sense_harms_nothing() -> None:
    script = """
    import adjoint as ad

    x = ad.zeros((300, 300), requires_grad=True)
    for _ in range(2):
        try:
            ad.exp(x)
        except ad.ArgumentError as error:
            print(error)
    ad.set_num_threads(2)
    ad.sum(ad.exp(x)).backward()
    print(float(ad.sum(x.grad)))
    """
    lines = output(started(script, ADJOINT_NUM_THREADS="9" * 20)).splitlines()
    assert len(lines) == 3 and lines[0] == lines[1] and lines[2] == "90000.0"
    assert lines[0].startswith("ADJOINT_NUM_THREADS is a positive integer")


def test_the_default_is_what_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ADJOINT_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3, 5}, raising=False)
    assert threads.default() == 3
    monkeypatch.setenv("ADJOINT_NUM_THREADS", "5")
    assert threads.default() == 5


PREPARE = (
    f"COUNT = '''{COUNT}'''"
    + """
import os, sys, threading, time
import numpy as np
from adjoint.backends.cpu.jit import compiler, threads

threads.set_num_threads(3)

def counts(times):
    counts = np.zeros(11, np.int64)
    for _ in range(times):
        threads.run(compiler.compiled(COUNT, "count"), counts.ctypes.data, 10)
    return counts.tolist() == [10 * times] + [times] * 10

"""
)

FORKED = (
    PREPARE
    + """
import warnings

warnings.simplefilter("ignore", DeprecationWarning)  # Python's word on forks beside threads
assert counts(3)
busy = threading.Thread(target=counts, args=(100_000,), daemon=True)
if sys.argv[1] == "busy":
    busy.start()

def forked():
    child = os.fork()
    if child == 0:
        right = counts(3) and len(threads.workers) == 2 and threads.get_num_threads() == 3
        text = COUNT.replace("@count", f"@count{os.getpid()}")
        compiler.compiled(text, f"count{os.getpid()}")
        os._exit(0 if right else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

codes = [forked() for _ in range(10)]
assert counts(3)
print(codes == [0] * 10)
"""
)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.parametrize("state", ["idle", "busy"])
def test_a_forked_child_has_threads_of_its_own(state: str) -> None:
    assert output(started(FORKED, state)) == "True\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_fork_waits_for_the_end_of_a_compilation() -> None:
    script = f"ADD = '''{ADD}'''" + textwrap.dedent("""
    import os, threading, warnings
    from adjoint.backends.cpu.jit import compiler

    warnings.simplefilter("ignore", DeprecationWarning)

    def compile_many():
        for k in range(100):
            compiler.compiled(ADD.format(value=k), "add")

    thread = threading.Thread(target=compile_many)
    thread.start()
    codes = []
    while thread.is_alive():
        child = os.fork()
        if child == 0:
            compiler.compiled(ADD.format(value=1000 + len(codes)), "add")
            os._exit(0)
        codes.append(os.waitpid(child, 0)[1])
    print(set(codes))
    """)
    assert output(started(script)) == "{0}\n"


@pytest.mark.parametrize(
    "end",
    [
        "",
        "time.sleep(0.05)",  # workers are asleep
        "sys.exit()",
        "import atexit; atexit.register(lambda: print('right' if counts(2) else 'wrong'))",
        "threading.Thread(target=counts, args=(10**9,), daemon=True).start(); time.sleep(0.02)",
    ],
)
def test_the_interpreter_ends_while_workers_live(end: str) -> None:
    printed = output(started(PREPARE + "assert counts(5)\nprint('right')\n" + end))
    assert set(printed.split()) == {"right"}


def test_a_first_run_at_exit_works() -> None:
    script = PREPARE + "import atexit; atexit.register(lambda: print(counts(2)))"
    assert output(started(script)) == "True\n"


def test_importing_adjoint_starts_no_compiler() -> None:
    script = "import sys, adjoint; print('llvmlite' in sys.modules)"
    assert output(started(script)) == "False\n"
