"""Whether kernels can be compiled and run here, and why not."""

import functools
import itertools

from ...._foundation.caller_warnings import warn
from ...._foundation.config import is_switched_off

OLDEST = 20  # the first major version of LLVM that knows all that kernels are written with

complaints = itertools.count()


def available() -> bool:
    """Whether kernels can be compiled and run here. If they can't, the first call says why.

    `ADJOINT_JIT=0` in the environment switches them off, without a word.
    """
    why_not = obstacle()
    if why_not and next(complaints) == 0:
        warn(
            f"{why_not}: NumPy computes everything on the CPU, which is right but slower. Run "
            "`pip install --upgrade llvmlite` to have fast kernels, or set ADJOINT_JIT=0 in the "
            "environment to go without.",
            RuntimeWarning,
        )
    return why_not is None


@functools.cache
def obstacle() -> str | None:
    """Why there are no kernels here, or None if there are; "" if they are switched off.

    Whatever keeps the compiler from starting, or a kernel from running, is found here, before the
    first op relies on them. That takes 3 ms more than loading llvmlite, which ops need anyway.
    """
    if is_switched_off("ADJOINT_JIT"):
        return ""
    try:
        import llvmlite.binding as binding

        binding.check_jit_execution()
        if binding.llvm_version_info[0] < OLDEST:
            return f"the installed llvmlite is too old (its LLVM is older than {OLDEST})"
        from .addresses import are_where_expected
        from .compiler import try_out

        if not are_where_expected():
            return "this interpreter's arrays aren't as kernels read them"
        try_out()
    except Warning:  # where warnings are errors they aren't ours to handle
        raise
    except Exception as error:  # llvmlite's, the loader's, the system's: any of them will do
        reason = str(error).splitlines() or [type(error).__name__]
        return f"llvmlite can't be used ({reason[0]})"
    return None
