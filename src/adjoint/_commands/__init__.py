"""The commands of `adjoint`, one file each: how it is called, and what it does.

Each has NAME, SUMMARY and EXAMPLES, `add_arguments` for its parser, and `run`, which returns the
exit code. Results go to standard output, messages to standard error.
"""

from types import ModuleType

from . import bench, demo, devices, graph, info

COMMANDS: tuple[ModuleType, ...] = (demo, graph, bench, devices, info)
