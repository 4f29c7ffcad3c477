"""Whether this process is one of several that were started together, and their MPI."""

import faulthandler
import importlib
import os
from typing import Any

from .._foundation.errors import MissingPackageError, RankError

# What launchers tell each process: how many there are.
SIZES = (
    "PMI_SIZE",  # MPICH, Intel MPI, and Slurm for them
    "OMPI_COMM_WORLD_SIZE",  # Open MPI
    "SLURM_STEP_NUM_TASKS",  # srun; a batch script by itself has none
)


def mpi() -> Any:
    """The module of mpi4py, whose import joins the processes."""
    return importlib.import_module("mpi4py.MPI")


def launched() -> int:
    """How many processes the launcher says that it started; 1 without one."""
    for name in SIZES:
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return 1


def communicator(timeout: float) -> Any:
    """The communicator of all processes, or None if this is the only one. If some of them never
    come to it, MPI waits without end, and so this process ends after `timeout` seconds."""
    count = launched()
    if count == 1:
        return None
    try:
        faulthandler.dump_traceback_later(timeout, exit=True, file=2)
        MPI = mpi()
    except ImportError as error:
        raise MissingPackageError(
            f"distributed.init: {count} processes were started, and they talk through mpi4py, "
            f"which can't be loaded ({error}): pip install mpi4py mpich"
        ) from error
    finally:
        faulthandler.cancel_dump_traceback_later()
    comm = MPI.COMM_WORLD
    if comm.size != count:
        library = MPI.Get_library_version().split("\n")[0].strip("\0 ")
        raise RankError(
            f"distributed.init: the launcher started {count} processes, but mpi4py's MPI "
            f"({library}) sees {comm.size}: use the mpiexec of that MPI, or build mpi4py with the "
            "launcher's"
        )
    if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
        raise RankError(
            "distributed.init: MPI was started without threads; leave mpi4py.rc.thread_level as it "
            "is, 'multiple'"
        )
    return comm if count > 1 else None
