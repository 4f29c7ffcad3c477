"""What devices there are, said by `devices()` and on the command line; what `config` lets one
choose; and that nothing breaks where there is no GPU, or no wgpu."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import adjoint as ad
from adjoint import backends
from adjoint.__main__ import main
from adjoint._foundation import dtypes
from adjoint._foundation.config import Config
from adjoint.backends.devices import DeviceInfo, devices
from adjoint.backends.webgpu import adapters
from tests.support import swiftshader as driver
from tests.support.processes import python

# Processes of their own, with another environment or other modules.

NO_DRIVER = {
    "VK_DRIVER_FILES": "/nonexistent",
    "VK_ICD_FILENAMES": "/nonexistent",
    "ADJOINT_ADAPTER": "",
}
NO_OPENGL = {"LIBGL_DRIVERS_PATH": "/nonexistent", "__EGL_VENDOR_LIBRARY_FILENAMES": "/nonexistent"}
on_linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only on Linux can drivers be hidden"
)
USE = """
import numpy as np
from adjoint import backends
from adjoint.backends.webgpu.lowering import on_arrays
from adjoint.backends.webgpu.programs import wgsl
webgpu = backends.backend("webgpu")
body = "let i = group * 64u + lane; if (i < p.count) { out[i] = 2.0 * x[i]; }"
program = wgsl("double", "x:f32 -> out:f32", "count at_x")(body)

@on_arrays
def double(to, x):
    to.launch(program, 1, x, to.result(x.shape, x.dtype), count=x.size)

x = webgpu.from_numpy(np.arange(5, dtype=np.float32))
out = double(x)
"""


def run(*arguments: str, **environment: Any) -> subprocess.CompletedProcess:
    """Python with what is set here in the environment, and no word about where displays are."""
    others = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
    return python(*arguments, inherited=others, **environment)


def printed(*arguments: str, **environment: str) -> str:
    """What it prints, if it succeeds and says nothing on standard error."""
    done = run(*arguments, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# Adapters that aren't there.


def adapter(
    device: str,
    kind: str = "DiscreteGPU",
    backend: str = "Vulkan",
    features: tuple[str, ...] = (),
    **limits: int,
) -> Any:
    """What wgpu tells of an adapter. It can't be opened."""
    known = {
        "max-buffer-size": 1 << 31,
        "max-storage-buffer-binding-size": 1 << 27,
        "max-storage-buffers-per-shader-stage": 8,
        "max-compute-workgroup-storage-size": 16384,
        "max-compute-invocations-per-workgroup": 256,
    }
    info = {"vendor": "maker", "device": device, "description": "1.2"}
    return SimpleNamespace(
        info=info | {"adapter_type": kind, "backend_type": backend},
        features=set(features),
        limits=known | {name.replace("_", "-"): n for name, n in limits.items()},
    )


@pytest.fixture
def have(monkeypatch: pytest.MonkeyPatch):
    """A function that lets wgpu find these adapters, or raise this error."""

    def pretend(*found: Any, error: Exception | None = None) -> None:
        def enumerate_adapters_sync() -> list[Any]:
            if error is not None:
                raise error
            return [*found]

        gpu = SimpleNamespace(enumerate_adapters_sync=enumerate_adapters_sync)
        monkeypatch.setattr(adapters, "wgpu", lambda: SimpleNamespace(gpu=gpu))
        monkeypatch.setattr(adapters, "found", adapters.found.__wrapped__)
        monkeypatch.delenv("ADJOINT_ADAPTER", raising=False)

    return pretend


def names() -> dict[str, str]:
    return {device.adapter: device.name for device in devices()[1:]}


# What devices() tells


def test_the_cpu_comes_first_and_can_everything() -> None:
    cpu = devices()[0]
    assert (cpu.name, cpu.kind, cpu.usable, cpu.why_not) == ("cpu", "CPU", True, None)
    assert cpu.dtypes == tuple(dtype.name for dtype in dtypes.ALL)
    assert cpu.limits == {"cores": os.cpu_count(), "threads": ad.get_num_threads()}
    assert cpu.adapter and "NumPy" in cpu.driver


@pytest.mark.parametrize(
    ("before", "jit", "driver"),
    [
        ("", "0", ", no kernels, as ADJOINT_JIT says"),
        ("import sys; sys.modules['llvmlite'] = None; ", "1", ", llvmlite can't be used"),
    ],
    ids=["switched off", "not installed"],
)
def test_the_cpu_tells_why_there_are_no_kernels(before: str, jit: str, driver: str) -> None:
    code = before + "from adjoint.backends.devices import cpu; print(cpu().backend, cpu().driver)"
    out = printed("-c", code, ADJOINT_JIT=jit)
    assert out.startswith("NumPy NumPy ") and driver in out


def test_gpus_are_sorted_and_numbered(have) -> None:
    have(
        adapter("software", "CPU"),
        adapter("small", "IntegratedGPU"),
        adapter("large", backend="D3D12"),
        adapter("large", backend="OpenGL"),
    )
    found = devices()[1:]
    assert [(d.name, d.adapter, d.backend, d.kind) for d in found] == [
        ("webgpu", "large", "D3D12", "discrete GPU"),
        ("webgpu:1", "small", "Vulkan", "integrated GPU"),
        ("webgpu:2", "software", "Vulkan", "CPU"),
        ("", "large", "OpenGL", "discrete GPU"),
    ]
    assert [d.usable for d in found] == [True, True, True, False]


def test_a_gpu_tells_its_limits_dtypes_and_features(have) -> None:
    have(adapter("fine", features=("shader-f16", "timestamp-query", "subgroup")))
    gpu = devices()[1]
    assert gpu.driver == "maker 1.2"
    assert gpu.dtypes == ("bool", "int32", "uint32", "float16", "float32")
    assert gpu.features == ("float16", "timestamps")
    assert gpu.limits == {
        "buffer_bytes": 1 << 31,
        "binding_bytes": 1 << 27,
        "storage_buffers": 8,
        "workgroup_bytes": 16384,
        "workgroup_invocations": 256,
    }


def test_float16_is_no_dtype_of_an_adapter_without_it(have) -> None:
    have(adapter("plain"))
    assert devices()[1].dtypes == ("bool", "int32", "uint32", "float32")
    assert devices()[1].features == ()


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (adapter("old", backend="OpenGL"), "OpenGL isn't supported, only Metal, Vulkan, D3D12"),
        (
            adapter("tiny", max_storage_buffers_per_shader_stage=4),
            "max-storage-buffers-per-shader-stage is 4, 8 is needed",
        ),
        (
            adapter("tiny", max_compute_invocations_per_workgroup=128),
            "max-compute-invocations-per-workgroup is 128, 256 is needed",
        ),
    ],
)
def test_what_cannot_be_used_says_why(have, refused: Any, why: str) -> None:
    have(refused)
    webgpu, other = devices()[1:]
    assert (other.name, other.usable, other.why_not) == ("", False, why)
    assert (webgpu.name, webgpu.adapter, webgpu.usable) == ("webgpu", "", False)
    assert why in webgpu.why_not and "apt install mesa-vulkan-drivers" in webgpu.why_not


def test_no_adapter_at_all_is_an_entry_that_says_what_to_install(have) -> None:
    have()
    (webgpu,) = devices()[1:]
    assert (webgpu.name, webgpu.usable) == ("webgpu", False)
    assert webgpu.why_not.startswith("this machine has no adapter; install a driver: on Debian")


def test_an_error_of_the_library_is_a_reason_too(have) -> None:
    have(error=RuntimeError("it broke"))
    (webgpu,) = devices()[1:]
    assert "no adapter could be looked for (it broke); install a driver" in webgpu.why_not


def test_the_environment_chooses_which_adapter_webgpu_is(have, monkeypatch) -> None:
    have(adapter("large"), adapter("small", "IntegratedGPU"))
    assert names() == {"large": "webgpu", "small": "webgpu:1"}
    monkeypatch.setenv("ADJOINT_ADAPTER", "SMALL")
    assert names() == {"large": "webgpu:0", "small": "webgpu"}


def test_an_adapter_that_is_wanted_but_not_there_is_a_reason(have, monkeypatch) -> None:
    have(adapter("large"))
    monkeypatch.setenv("ADJOINT_ADAPTER", "other")
    webgpu, large = devices()[1:]
    assert webgpu.name == "webgpu" and not webgpu.usable and not large.usable
    assert webgpu.why_not == (
        "ADJOINT_ADAPTER is 'other', which is in no adapter's name: large, Vulkan"
    )


def test_it_reads_well(have) -> None:
    have(adapter("large"), adapter("large", backend="OpenGL"))
    assert [repr(device) for device in devices()[1:]] == [
        "<webgpu: large, discrete GPU, Vulkan>",
        "<no device: large, discrete GPU, OpenGL can't be used: OpenGL isn't supported, only "
        "Metal, Vulkan, D3D12>",
    ]
    assert str(DeviceInfo("webgpu", why_not="of this")) == "<webgpu can't be used: of this>"


def test_it_cannot_be_changed_and_can_be_a_key() -> None:
    cpu = devices()[0]
    with pytest.raises(AttributeError):
        cpu.name = "other"  # type: ignore[reportAttributeAccessIssue]
    assert cpu == devices()[0] and len({cpu, devices()[0]}) == 1


@pytest.mark.webgpu
def test_webgpu_is_the_device_that_is_opened() -> None:
    listed = next(device for device in devices() if device.name == "webgpu")
    gpu: Any = backends.backend("webgpu")
    assert listed.usable and gpu.DEVICE == "webgpu"
    assert listed.adapter == gpu.gpu.adapter.info["device"]
    assert {dtypes.BY_NAME[name].dtype for name in listed.dtypes} == set(gpu.gpu.dtypes)


@pytest.mark.webgpu
def test_looking_opens_nothing_and_leaves_the_environment_alone() -> None:
    code = (
        "import os; before = dict(os.environ); "
        "from adjoint.backends.devices import devices; devices(); "
        "from adjoint.backends.webgpu import OPEN; print(OPEN, dict(os.environ) == before)"
    )
    assert printed("-c", code) == "{} True\n"


# The command line


def test_devices_are_a_table_with_notes(have, capsys) -> None:
    have(adapter("large"), adapter("large", backend="OpenGL"))
    assert main(["devices"]) == 0
    lines = capsys.readouterr().out.splitlines()
    end = lines.index("")
    assert lines[0].split() == ["device", "adapter", "kind", "backend", "dtypes"]
    assert [line.split()[0] for line in lines[1:end]] == ["cpu", "webgpu", "-"]
    assert lines[2].endswith("bool int32 uint32 float32")
    assert lines[3].endswith("can't be used")
    notes = " ".join(line.strip() for line in lines[end:])
    assert "webgpu: maker 1.2; buffer 2 GiB, binding 128 MiB, storage buffers 8," in notes
    assert "workgroup 16 KiB, workgroup invocations 256" in notes
    assert "large, OpenGL: OpenGL isn't supported, only Metal, Vulkan, D3D12" in notes
    assert max(map(len, lines[end:])) <= 100


def test_devices_as_json_have_all_that_is_known(have, capsys) -> None:
    have(adapter("large"), adapter("large", backend="OpenGL"))
    assert main(["devices", "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert [record["usable"] for record in records] == [True, True, False]
    for record, device in zip(records, devices(), strict=True):
        assert {k: v for k, v in record.items() if isinstance(v, str)} == {
            k: v for k, v in vars(device).items() if isinstance(v, str)
        }
        assert record["limits"] == device.limits and tuple(record["dtypes"]) == device.dtypes


@pytest.mark.parametrize("arguments", [[], ["--help"]], ids=["nothing", "help"])
def test_usage_has_examples(arguments: list[str]) -> None:
    out = printed("-m", "adjoint", *arguments)
    assert out.startswith("usage: python -m adjoint") and "python -m adjoint devices" in out


@pytest.mark.parametrize("arguments", [["nonsense"], ["devices", "--nonsense"]])
def test_a_wrong_command_is_told_and_fails(arguments: list[str], capsys) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    shown = capsys.readouterr()
    assert "nonsense" in shown.err and shown.out == ""


# Without a GPU


@on_linux
@pytest.mark.parametrize("more", [{}, NO_OPENGL], ids=["perhaps OpenGL", "nothing"])
def test_without_a_driver_the_cpu_works_and_webgpu_says_what_to_install(more: dict) -> None:
    code = """
import sys
import adjoint as ad
from adjoint import backends
from adjoint.__main__ import main
x = ad.tensor([1.0, 2.0], requires_grad=True)
(x * x).sum().backward()
print(x.grad, "wgpu" in sys.modules)
try:
    backends.backend("webgpu")
except ad.DeviceError as error:
    print(error)
sys.exit(main(["devices"]))
"""
    first, error, *rest = printed("-c", code, **NO_DRIVER, **more).splitlines()
    assert first == "tensor([2., 4.]) False"
    assert error.startswith("webgpu: ") and "apt install mesa-vulkan-drivers" in error
    assert any(line.split() == ["webgpu", "can't", "be", "used"] for line in rest)


@on_linux
def test_devices_without_a_driver_is_no_failure() -> None:
    records = json.loads(printed("-m", "adjoint", "devices", "--json", **NO_DRIVER))
    assert [r["name"] for r in records if r["usable"]] == ["cpu"]


def test_without_wgpu_the_cpu_works_and_webgpu_says_what_to_install() -> None:
    code = """
import sys
sys.modules["wgpu"] = None
import adjoint as ad
from adjoint import backends
from adjoint.backends.devices import devices
print((ad.ones(3) + 1).sum())
for device in "webgpu", "webgpu:1":
    try:
        backends.backend(device)
    except ad.DeviceError as error:
        print(error)
print([(device.name, device.why_not) for device in devices()])
"""
    total, *errors, listed = printed("-c", code).splitlines()
    assert total == "tensor(6.)"
    assert len(errors) == 2
    for error in errors:
        assert (
            error.startswith("webgpu: the package wgpu is needed") and "pip install wgpu" in error
        )
    assert "('cpu', None)" in listed and "pip install wgpu" in listed


# With one


@pytest.mark.webgpu
@pytest.mark.parametrize("last", ["print(webgpu.to_numpy(out))", "print('left')"])
def test_a_process_that_used_a_gpu_ends_in_silence(last: str) -> None:
    expected = "left\n" if "left" in last else "[0. 2. 4. 6. 8.]\n"
    assert printed("-c", USE + last) == expected


def test_swiftshader_computes(swiftshader: dict[str, str]) -> None:
    code = USE + "print(webgpu.gpu.adapter.info['device'], webgpu.to_numpy(out))"
    out = printed("-c", code, **swiftshader)
    assert out.startswith("SwiftShader") and out.endswith("[0. 2. 4. 6. 8.]\n")


def test_swiftshader_is_found_where_the_environment_says(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(driver, "FOLDERS", (str(tmp_path / "none"),))
    monkeypatch.delenv("ADJOINT_SWIFTSHADER", raising=False)
    assert driver.environment() is None
    file = tmp_path / "driver.json"
    file.write_text("{}")
    monkeypatch.setenv("ADJOINT_SWIFTSHADER", str(file))
    monkeypatch.setenv("ADJOINT_ADAPTER", "llvmpipe")
    environment = driver.environment()
    assert environment["VK_DRIVER_FILES"] == environment["VK_ICD_FILENAMES"] == str(file)
    assert "ADJOINT_ADAPTER" not in environment


@on_linux
@pytest.mark.parametrize(("ci", "code", "outcome"), [("", 0, "1 skipped"), ("1", 1, "1 error")])
def test_gpu_tests_are_skipped_without_a_gpu_but_in_ci_they_fail(
    ci: str, code: int, outcome: str
) -> None:
    test = f"{__file__}::test_webgpu_is_the_device_that_is_opened"
    plain = ("-p", "no:cacheprovider", "-rsE")
    done = run("-m", "pytest", test, *plain, **NO_DRIVER, CI=ci)
    assert done.returncode == code, done.stdout
    assert outcome in done.stdout and "apt install mesa-vulkan-drivers" in done.stdout


# config


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Config:
    """One to which nothing has happened yet."""
    monkeypatch.delenv("ADJOINT_HOST_OPS", raising=False)
    return Config()


def test_options_start_with_their_defaults(fresh: Config) -> None:
    assert fresh.host_ops == "allow"
    assert repr(fresh) == "config(host_ops='allow')"
    assert dir(fresh) == ["host_ops"]


def test_options_are_set_and_checked(fresh: Config) -> None:
    fresh.host_ops = "warn"
    assert fresh.host_ops == "warn"
    for value in ("never", None, ["warn"]):
        with pytest.raises(ad.ArgumentError, match="host_ops is 'allow' or 'warn' or 'error', got"):
            fresh.host_ops = value
    assert repr(fresh) == "config(host_ops='warn')"


def test_a_context_puts_options_back(fresh: Config) -> None:
    with fresh(host_ops="error") as inside:
        assert inside is fresh and fresh.host_ops == "error"
        with fresh(host_ops="warn"):
            assert fresh.host_ops == "warn"
        assert fresh.host_ops == "error"
    assert fresh.host_ops == "allow"
    with pytest.raises(KeyError), fresh(host_ops="error"):
        raise KeyError
    assert fresh.host_ops == "allow"


def test_unknown_options_are_refused_with_those_there_are(fresh: Config) -> None:
    known = "no option 'host_op'; options are host_ops"
    with pytest.raises(AttributeError, match=known):
        _ = fresh.host_op
    with pytest.raises(AttributeError, match=known):
        fresh.host_op = "warn"
    with pytest.raises(ad.KeywordError, match=known):
        fresh(host_op="warn")
    with pytest.raises(ad.ArgumentError, match="got 'never'"):
        fresh(host_ops="never")


def test_the_environment_says_how_options_start(fresh: Config, monkeypatch) -> None:
    monkeypatch.setenv("ADJOINT_HOST_OPS", "error")
    assert fresh.host_ops == "error"
    monkeypatch.setenv("ADJOINT_HOST_OPS", "warn")  # read once
    assert fresh.host_ops == "error"


def test_a_wrong_word_in_the_environment_is_told_at_first_use() -> None:
    code = (
        "import adjoint as ad; from adjoint._foundation.config import config; ad.ones(2)\n"
        "try: config.host_ops\n"
        "except ad.ArgumentError as error: print(error)\n"
        "config.host_ops = 'allow'; print(config)"
    )
    assert printed("-c", code, ADJOINT_HOST_OPS="sometimes").splitlines() == [
        "ADJOINT_HOST_OPS in the environment is 'allow' or 'warn' or 'error', got 'sometimes'",
        "config(host_ops='allow')",
    ]
