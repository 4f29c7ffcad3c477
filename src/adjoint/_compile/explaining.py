"""What `explain()` says of programs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from .._foundation.formatting import show_bytes
from .draft import nbytes
from .executable import Program
from .lowering import HostStep, Launched
from .memory import eager_peak


def explained(name: str, programs: Sequence[Program], eager: Mapping[Any, str]) -> str:
    lines = [f"{name}: {len(programs)} programs" if len(programs) != 1 else f"{name}: 1 program"]
    for number, program in enumerate(programs, 1):
        lines += [f"program {number}, for {arguments(program)}", *map(indented, body(program))]
    lines += [f"run eagerly: {reason}" for reason in dict.fromkeys(eager.values())]
    return "\n".join(lines)


def indented(line: str) -> str:
    return f"  {line}"


def arguments(program: Program) -> str:
    return ", ".join(value.typed() for value in program.graph.inputs) or "no tensors"


def body(program: Program) -> list[str]:
    if program.eager:
        return [
            "its results can be differentiated from outside: the recorded ops are run one by one; "
            "call it under ad.no_grad(), or compile the whole step with its backward pass"
        ]
    built = program.built
    launched = [item for item in built.items if isinstance(item, Launched)]
    kernels = Counter(launch.kernel.name for item in launched for launch in item.launches)
    count = len({launch.kernel.address for item in launched for launch in item.launches})
    peak = eager_peak(program.graph.steps, program.wanted, built.items)
    lines = [
        f"{len(program.graph.steps)} recorded ops, {len(built.draft.steps)} after simplifying, "
        f"{sum(kernels.values())} launches of {count} kernels",
        "  " + ", ".join(f"{name} {times}" for name, times in kernels.most_common()),
        f"arena {show_bytes(built.code.arena)} (eager: {show_bytes(peak)} at its peak), results "
        f"{show_bytes(sum(nbytes(place) for place in built.code.results))} at each call",
    ]
    if built.updated:
        lines.append(f"{len(built.updated)} tensors are changed in place")
    host = Counter(item.step.op.name for item in built.items if isinstance(item, HostStep))
    if host:
        names = ", ".join(f"{name} {times}" for name, times in host.most_common())
        lines.append(f"in Python, as there is no kernel: {names}")
    return lines
