"""LLVM IR text in, address of machine code out, tuned to the processor that it runs on.

Text is compiled to an object file, and object files are linked into one engine that lives as long
as the process. So a kernel that was just compiled and one that comes from the disk take the same
way. Each object file is a library of its own: the same names in different texts don't clash.

Kernels come as explicit vector code, so two passes do what LLVM's pipelines do for them: variables
go from memory to registers (a third of a reduction's time), and instructions are simplified. The
pipelines would take as much time again as generating the code does, and more.
"""

import ctypes
import dataclasses
import itertools
import os
import sys
import threading
from typing import Any

from ...._foundation.errors import KernelError
from ...._foundation.spans import observed
from . import cache, halves

PASSES = ("sroa", "instruction_combine")
OPTIMISATION = 2  # of code generation: 1 and 3 make code of the same speed, 0 of a fifth

# JITLink puts all of a library into one block of memory, so that relative addresses reach. On
# Windows LLVM has only its predecessor, which may put sections anywhere, so that all addresses are
# absolute there, of 64 bits; and which relocates ELF files (that is what "-elf" asks for).
HAS_JIT_LINK = sys.platform != "win32"

# The cosine of a table's entry: data and code are linked, and the C library is found.
TRIAL = """
@table = private constant [2 x double] [double 1.0, double 0.0]
declare double @cos(double)

define double @trial(i64 %place) {
  %at = getelementptr double, ptr @table, i64 %place
  %x = load double, ptr %at
  %y = call double @cos(double %x)
  ret double %y
}
"""


@dataclasses.dataclass(frozen=True)
class LLVM:
    """The compiler, started."""

    binding: Any  # llvmlite's module
    machine: Any
    engine: Any
    halves: str  # text that comes with kernels on float16
    identity: str  # compilers of the same identity make the same code of the same text


lock = threading.RLock()  # LLVM has one caller at a time
llvm: LLVM | None = None
libraries: dict[str, str] = {}  # digest of a text: the library that was linked from it
addresses: dict[tuple[str, str], int] = {}  # digest of a text, name of a function
numbers = itertools.count()

if hasattr(os, "register_at_fork"):
    # A child forked in the middle of a compilation would find LLVM's own locks taken for ever.
    os.register_at_fork(
        before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
    )


def compiled(text: str, name: str) -> int:
    """The address of the function `name` in the LLVM IR module `text`, which stays valid.

    The text says neither triple nor data layout. Asked again, it costs a digest of the text.
    """
    key = cache.digest(text)
    address = addresses.get((key, name))
    if address is None:
        with lock:
            make = observed("kernel", "compile", load)
            address = addresses.get((key, name)) or make(key, text, name)
            addresses[key, name] = address
    return address


def load(key: str, text: str, name: str) -> int:
    llvm = started()
    library = libraries.get(key)
    if library is None:
        library = libraries[key] = link(llvm, object_code(llvm, text), text)
    return lookup(llvm, library, name, text)


def started() -> LLVM:
    global llvm
    if llvm is None:
        llvm = start()
    return llvm


def start() -> LLVM:
    import llvmlite
    import llvmlite.binding as binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    suffix = "" if HAS_JIT_LINK else "-elf"
    target = binding.Target.from_triple(binding.get_process_triple() + suffix)
    features = binding.get_host_cpu_features()
    tuning = {
        "cpu": binding.get_host_cpu_name(),
        "features": features.flatten(),
        "opt": OPTIMISATION,
        "reloc": "pic" if HAS_JIT_LINK else "static",
        "codemodel": "default" if HAS_JIT_LINK else "large",
    }
    machine = target.create_target_machine(**tuning)
    engine = binding.create_lljit_compiler(
        target.create_target_machine(**tuning), use_jit_link=HAS_JIT_LINK, suppress_errors=True
    )
    converts = features.get("f16c") or not machine.triple.startswith("x86_64")
    added = "" if converts else halves.TEXT
    versions = (llvmlite.__version__, binding.llvm_version_info)
    identity = repr((versions, machine.triple, tuning, PASSES, added))
    return LLVM(binding, machine, engine, added, identity)


def try_out() -> None:
    """Raise an error if the compiler can't be started, or makes no kernels that run."""
    with lock:
        address = load(cache.digest(TRIAL), TRIAL, "trial")
    found = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(address)(1)
    if found != 1.0:
        raise RuntimeError(f"a kernel gives {found}, not 1.0")


def object_code(llvm: LLVM, text: str) -> bytes:
    key = cache.digest(llvm.identity, text)
    code = cache.load(key)
    if code is None:
        code = translate(llvm, text)
        cache.store(key, code)
    return code


def translate(llvm: LLVM, text: str) -> bytes:
    if "half" in text:
        text += llvm.halves
    try:
        # A context of its own: in the common one types and constants would pile up for ever.
        with llvm.binding.parse_assembly(text, llvm.binding.create_context()) as module:
            module.triple = llvm.machine.triple
            module.data_layout = str(llvm.machine.target_data)
            module.verify()
            improve(llvm, module)
            return llvm.machine.emit_object(module)
    except RuntimeError as error:
        raise KernelError.refused("LLVM refuses a kernel", error, text) from None


def improve(llvm: LLVM, module: Any) -> None:
    # Not kept for the next module: what a builder found out it remembers by address.
    builder = llvm.binding.create_pass_builder(
        llvm.machine, llvm.binding.create_pipeline_tuning_options()
    )
    passes = llvm.binding.create_new_module_pass_manager()
    for name in PASSES:
        getattr(passes, f"add_{name}_pass")()
    passes.run(module, builder)


def link(llvm: LLVM, code: bytes, text: str) -> str:
    library = f"library {next(numbers)}"
    builder = llvm.binding.JITLibraryBuilder().add_object_img(code).add_current_process()
    try:
        tracker = builder.link(llvm.engine, library)
    except RuntimeError as error:
        raise KernelError.refused("LLVM can't link a kernel", error, text) from None
    tracker.detach()  # machine code is never freed: threads of ours are still in it at exit
    return library


def lookup(llvm: LLVM, library: str, name: str, text: str) -> int:
    try:
        tracker = llvm.engine.lookup(library, name)
    except RuntimeError as error:
        what = f"LLVM can't find {name!r}, or something that it calls, in a kernel"
        raise KernelError.refused(what, error, text) from None
    tracker.detach()
    return tracker[name]
