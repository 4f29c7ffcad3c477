"""The workloads in adjoint, compiled."""

import adjoint as ad

from . import adjoint_side
from .measuring import Look, Step, Workload


def compiled(workload: Workload) -> Workload:
    def prepare(look: Look) -> Step:
        look.wrap = ad.compile
        return workload(look)

    return prepare


WORKLOADS = [(name, compiled(workload)) for name, workload in adjoint_side.WORKLOADS]
