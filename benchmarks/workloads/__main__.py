"""Times the workloads of one library, in this process.

Prints two lines of JSON: {workload: {library: seconds}} and {workload: {library: checksum}}, and
a line that starts with FAILED on the error stream for each workload that raised an error.
"""

import importlib
import json
import sys

from .measuring import measure

LIBRARIES = ("adjoint", "compiled", "torch", "jax")


def main(library: str) -> None:
    side = importlib.import_module(f"benchmarks.workloads.{library}_side")
    times, checksums = measure(side.WORKLOADS, library)
    for figures in (times, checksums):
        print(json.dumps({workload: {library: figure} for workload, figure in figures.items()}))


if __name__ == "__main__":
    if sys.argv[1:2] not in [[library] for library in LIBRARIES]:
        sys.exit(f"usage: python -m benchmarks.workloads {{{','.join(LIBRARIES)}}}")
    main(sys.argv[1])
